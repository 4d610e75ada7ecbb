//! The files of a directory, as paths that can be asked for.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::host::SetupError;

/// Files that are asked for at most, and directories that are looked through.
const FILES_MAX: usize = 50_000;
const DIRECTORIES_MAX: usize = 10_000;

/// Writes the paths of all files of a directory, a line each, as the generator takes them; hidden
/// ones are left out. Blocks.
///
/// # Errors
/// When there is none, or the list cannot be written.
pub(super) fn write_list(directory: &Path, list: &Path) -> Result<(), SetupError> {
    let wrong = |path: &Path, error| SetupError(format!("{}: {error}", path.display()));
    let mut found = Vec::new();
    let mut waiting: Vec<PathBuf> = vec![directory.to_owned()];
    let mut looked = 0;
    while let Some(next) = waiting.pop().filter(|_| looked < DIRECTORIES_MAX) {
        looked += 1;
        for entry in fs::read_dir(&next).map_err(|error| wrong(&next, error))?.flatten() {
            let path = entry.path();
            let hidden = entry.file_name().as_bytes().starts_with(b".");
            // A link may lead anywhere, also in a circle.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !hidden => waiting.push(path),
                Ok(kind) if kind.is_file() && !hidden => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found.truncate(FILES_MAX);
    if found.is_empty() {
        let why = "it has no files to ask for";
        return Err(SetupError(format!("{}: {why}", directory.display())));
    }
    let lines = found.iter().filter_map(|path| path.strip_prefix(directory).ok()).map(encoded);
    let text: String = lines.map(|line| line + "\n").collect();
    fs::write(list, text).map_err(|error| wrong(list, error))
}

/// A path as it stands in a request.
fn encoded(path: &Path) -> String {
    let mut text = "/".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(*byte));
            }
            other => {
                let _ = write!(text, "%{other:02X}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_listed_as_they_are_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let list = tempfile::NamedTempFile::new().unwrap();
        let root = directory.path();
        let none = write_list(root, list.path()).unwrap_err();
        assert!(none.to_string().ends_with("it has no files to ask for"), "{none}");
        fs::create_dir(root.join("sub")).unwrap();
        for name in ["index.html", ".hidden", "sub/a b%.txt"] {
            fs::write(root.join(name), "x").unwrap();
        }
        std::os::unix::fs::symlink(root, root.join("circle")).unwrap();
        write_list(root, list.path()).unwrap();
        let text = fs::read_to_string(list.path()).unwrap();
        assert_eq!(text, "/index.html\n/sub/a%20b%25.txt\n");
    }
}
