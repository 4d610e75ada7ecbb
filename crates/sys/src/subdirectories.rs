//! What may be a directory in a directory, by the names that are there.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::Path;

/// The names of directories and symbolic links in a directory, each with its inode, in no order.
/// Blocks on the disk.
///
/// # Errors
/// When the directory cannot be read.
pub fn names(directory: &Path) -> io::Result<Vec<(OsString, u64)>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() || kind.is_symlink() {
            names.push((entry.file_name(), entry.ino()));
        }
    }
    Ok(names)
}

/// Which directory it is, and when names in it were changed last, in seconds and nanoseconds of
/// the clock. Blocks on the disk.
///
/// # Errors
/// When it cannot be found.
pub fn stamp(directory: &Path) -> io::Result<(u64, i64, i64)> {
    let about = fs::metadata(directory)?;
    Ok((about.ino(), about.ctime(), about.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_and_links_are_named_and_a_new_one_changes_the_stamp() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("a")).unwrap();
        fs::write(at("file"), "").unwrap();
        std::os::unix::fs::symlink("a", at("link")).unwrap();
        let mut found = names(directory.path()).unwrap();
        found.sort();
        let found: Vec<_> = found.iter().map(|(name, _)| name.to_str().unwrap()).collect();
        assert_eq!(found, ["a", "link"]);
        assert!(names(&at("none")).is_err() && stamp(&at("none")).is_err());
        let before = stamp(directory.path()).unwrap();
        assert_eq!(stamp(directory.path()).unwrap(), before);
    }
}
