//! Files that hold secrets: what is in them, and who may read them.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// What was read of a file, and which file that was.
#[derive(Clone)]
pub struct SecretFile {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its rights, as `chmod` takes them.
    pub mode: u32,
    /// Differs after each change of it.
    pub version: Version,
}

/// Which version of which file: device, inode, size, and the time of the last change of the bytes
/// or of the inode, in seconds and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Version([i64; 5]);

impl SecretFile {
    /// Whether users may read or write it who are neither its owner nor of its group.
    pub fn is_open_to_all(&self) -> bool {
        self.mode & 0o006 != 0
    }

    /// Whether the members of its group may read or write it.
    pub fn is_open_to_group(&self) -> bool {
        self.mode & 0o060 != 0
    }
}

impl Version {
    /// That of the file of this name, links followed. May block on the disk.
    ///
    /// # Errors
    /// When there is none.
    pub fn of(path: &Path) -> io::Result<Version> {
        std::fs::metadata(path).map(|metadata| Version::from(&metadata))
    }
}

impl From<&std::fs::Metadata> for Version {
    fn from(metadata: &std::fs::Metadata) -> Version {
        let size = i64::try_from(metadata.size()).unwrap_or(i64::MAX);
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        let (device, inode) = (metadata.dev() as i64, metadata.ino() as i64);
        Version([device, inode, size, changed.0, changed.1])
    }
}

/// Opens a regular file, links followed. May block on the disk, and never waits for a pipe.
///
/// # Errors
/// When it is not there and not to be made, no regular file, or may not be opened so.
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let refused = || io::Error::other("is not a file");
    let without_wait = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match options.custom_flags(without_wait.bits() as i32).open(path) {
        // A socket, or a pipe that is opened for writing and that no one reads; a directory.
        Err(error) if is_of_another_kind(&error) => return Err(refused()),
        file => file?,
    };
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(refused()),
    }
}

fn is_of_another_kind(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::IsADirectory
        || error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error())
}

/// Reads a regular file of at most `bytes_max` bytes, links followed. May block on the disk, and
/// never waits for a pipe.
///
/// # Errors
/// When it is not there, no regular file, not readable, or longer.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<SecretFile> {
    let file = open(path, OpenOptions::new().read(true))?;
    let metadata = file.metadata()?;
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("is longer than {bytes_max} bytes")));
    }
    let (mode, version) = (metadata.mode() & 0o7777, Version::from(&metadata));
    Ok(SecretFile { bytes, mode, version })
}

/// Whether a regular file begins so, links followed. May block on the disk, and waits neither for a
/// pipe nor for what procfs has to tell.
///
/// # Errors
/// When it is not there, no regular file, or not readable.
pub fn begins_with(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let mut first = Vec::new();
    let file = open(path, OpenOptions::new().read(true))?;
    file.take(bytes.len() as u64).read_to_end(&mut first)?;
    Ok(first == bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_read_with_its_rights_and_a_change_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        write(&path, "secret").unwrap();
        for (mode, all, group) in
            [(0o600, false, false), (0o640, false, true), (0o644, true, true), (0o602, true, false)]
        {
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let read = read(&path, 6).unwrap();
            assert_eq!((&read.bytes[..], read.mode), (&b"secret"[..], mode));
            assert_eq!((read.is_open_to_all(), read.is_open_to_group()), (all, group), "{mode:o}");
        }
        let before = Version::of(&path).unwrap();
        assert_eq!(read(&path, 6).unwrap().version, before);
        write(dir.path().join("next"), "other!").unwrap();
        std::fs::rename(dir.path().join("next"), &path).unwrap();
        assert_ne!(Version::of(&path).unwrap(), before);
    }

    #[test]
    fn what_is_no_file_or_too_long_is_refused_and_nothing_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        write(&path, "secret").unwrap();
        assert!(read(&path, 5).is_err() && read(dir.path(), 9).is_err());
        assert!(read(&dir.path().join("none"), 9).is_err());
        let pipe = dir.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let socket = dir.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(begins_with(&path, b"sec").unwrap() && !begins_with(&path, b"secret!").unwrap());
        for path in [&pipe, &socket, dir.path()] {
            assert_eq!(begins_with(path, b"s").unwrap_err().to_string(), "is not a file");
            let why = read(path, 9).map(|_| ()).unwrap_err().to_string();
            assert_eq!(why, "is not a file", "{}", path.display());
            for options in
                [OpenOptions::new().append(true), OpenOptions::new().read(true).write(true)]
            {
                assert_eq!(open(path, options).unwrap_err().to_string(), "is not a file");
            }
        }
    }
}
