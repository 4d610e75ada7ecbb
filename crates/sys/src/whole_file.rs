//! Files that are replaced as a whole: whatever happens, there is the old one or the new one.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Of a directory that is made for one.
const DIRECTORY_MODE: u32 = 0o755;

/// Puts a file there, with these rights and no others, and what is missing of the directories above
/// it. Returns when the disk has it.
///
/// # Errors
/// When the disk fails or is full: then the old one is there as it was.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    make_directory(directory)?;
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    let written = write(&beside, bytes, mode).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written?;
    File::open(directory)?.sync_all()
}

/// Makes a directory for such files, and what is missing of those above it.
///
/// # Errors
/// When one cannot be made, or something else is there.
pub fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(mode).open(path)?;
    // Whatever the mask of this process is.
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_rights_that_were_asked_for_and_nothing_lies_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/file.pem");
        for (text, mode) in [("first", 0o600), ("second", 0o644)] {
            replace(&path, text.as_bytes(), mode).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
        }
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        fs::remove_file(&path).unwrap();
        fs::create_dir_all(path.join("in")).unwrap();
        assert!(replace(&path, b"x", 0o600).is_err());
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
