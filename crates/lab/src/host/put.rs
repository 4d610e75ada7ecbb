//! Files that are whole or not there.

use std::fs;
use std::path::Path;

use serde::Serialize;

use super::SetupError;

/// Writes a file, in the place of one that is there. Who reads it, also after an interruption,
/// finds what was there before or all of this.
///
/// # Errors
/// When it cannot be written.
pub fn put(path: &Path, text: &str) -> Result<(), SetupError> {
    let mut half = path.as_os_str().to_owned();
    half.push(".half");
    let written = fs::write(&half, text).and_then(|()| fs::rename(&half, path));
    written.map_err(|error| SetupError(format!("{}: {error}", path.display())))
}

/// Writes a value as JSON, as [`put`] does.
///
/// # Errors
/// As [`put`].
pub fn put_json(path: &Path, value: &impl Serialize) -> Result<(), SetupError> {
    let text = serde_json::to_string_pretty(value);
    let text = text.map_err(|error| SetupError(format!("{}: {error}", path.display())))?;
    put(path, &(text + "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_else_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.json");
        put(&path, "before").unwrap();
        put_json(&path, &[1]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "[\n  1\n]\n");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        let nowhere = directory.path().join("none/a.json");
        assert!(put(&nowhere, "").unwrap_err().0.contains("none/a.json"));
    }
}
