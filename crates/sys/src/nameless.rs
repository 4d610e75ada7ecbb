//! Files without a name: they are gone with the last process that has them open.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;

use crate::random;

/// Makes a file without a name in a directory, to be written and read, and tells whether it had a
/// name for a moment: not every file system knows such files. Blocks on the disk.
///
/// # Errors
/// When it cannot be made there.
pub fn make(directory: impl AsFd) -> io::Result<(OwnedFd, bool)> {
    let mode = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    // O_EXCL: no link can be made to it later.
    let nameless = flags | OFlags::TMPFILE | OFlags::EXCL;
    match openat(directory.as_fd(), c".", nameless, mode) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => {}
        opened => return Ok((opened?, false)),
    }
    let mut bytes = [0; 8];
    random::fill(&mut bytes)?;
    let name = format!("flyball-{:016x}", u64::from_ne_bytes(bytes));
    let new = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let file = openat(directory.as_fd(), &name, new, mode)?;
    unlinkat(directory.as_fd(), &name, AtFlags::empty())?;
    Ok((file, true))
}

/// Writes all of these bytes at an offset of a file. May block on the disk.
///
/// # Errors
/// `StorageFull` and the like.
pub fn write_all_at(file: impl AsFd, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(file.as_fd(), bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => (bytes, offset) = (&bytes[n..], offset + n as u64),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn what_is_written_to_a_file_without_a_name_is_read_there_and_nowhere_else() {
        let directory = tempfile::tempdir().unwrap();
        let (file, _) = make(std::fs::File::open(directory.path()).unwrap()).unwrap();
        write_all_at(&file, b"def", 3).unwrap();
        write_all_at(&file, b"abc", 0).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        let mut read = [0; 6];
        std::fs::File::from(file).read_exact_at(&mut read, 0).unwrap();
        assert_eq!(&read, b"abcdef");
    }
}
