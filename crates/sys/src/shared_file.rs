//! A file that several processes read and write at places of their own.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::SystemTime;

/// A file that is open to be read and written; processes that were forked since share it.
#[derive(Debug)]
pub struct SharedFile(File);

impl SharedFile {
    /// Opens it as it is, or makes an empty one. Blocks on the disk.
    ///
    /// # Errors
    /// When it may not be read and written.
    pub fn open(path: &Path) -> io::Result<SharedFile> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        Ok(SharedFile(options.open(path)?))
    }

    /// Its bytes, and when they were changed last.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn state(&self) -> io::Result<(u64, SystemTime)> {
        let about = self.0.metadata()?;
        Ok((about.len(), about.modified()?))
    }

    /// Cuts it off at so many bytes.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn cut(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    /// Exactly `len` bytes from `offset` on. Blocks on the disk.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.0.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// Writes all of these bytes at `offset`. Blocks on the disk.
    ///
    /// # Errors
    /// When there is no room.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }
}

/// All of a file. Blocks on the disk.
///
/// # Errors
/// When it cannot be read.
pub fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_at_a_place_is_read_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let file = SharedFile::open(&path).unwrap();
        file.write(3, b"abc").unwrap();
        assert_eq!(SharedFile::open(&path).unwrap().read(2, 4).unwrap(), b"\0abc");
        assert!(file.read(4, 3).is_err());
        file.cut(4).unwrap();
        assert_eq!((file.state().unwrap().0, read_whole(&path).unwrap()), (4, b"\0\0\0a".to_vec()));
    }
}
