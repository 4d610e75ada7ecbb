//! A file with the number of a process.

use std::io;
use std::path::{Path, PathBuf};

/// Longest PID file that is looked into, in bytes.
const BYTES_MAX: usize = 32;

/// Writes the number of a process to `path`. Whoever reads meanwhile finds the number that was
/// there before or this one, never half of one.
///
/// # Errors
/// As open(2) and rename(2).
pub fn write(path: &Path, process: i32) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{process}"));
    let new = PathBuf::from(name);
    std::fs::write(&new, format!("{process}\n"))?;
    std::fs::rename(&new, path).inspect_err(|_| {
        let _ = std::fs::remove_file(&new);
    })
}

/// The number that stands in `path`.
pub fn read(path: &Path) -> Option<i32> {
    let text = std::fs::read(path).ok().filter(|text| text.len() <= BYTES_MAX)?;
    std::str::from_utf8(&text).ok()?.trim().parse().ok()
}

/// Removes `path` if it has the number of this process.
pub fn remove(path: &Path, process: i32) {
    if read(path) == Some(process) {
        let _ = std::fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_file_is_removed_by_its_own_process_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pid");
        std::fs::write(&path, "stale, from long ago").unwrap();
        write(&path, 17).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"17\n");
        remove(&path, 18);
        assert_eq!(read(&path), Some(17));
        remove(&path, 17);
        assert_eq!(read(&path), None);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(write(Path::new("/no/such/place"), 17).is_err());
    }
}
