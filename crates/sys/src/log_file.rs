//! A file that lines are appended to: opened without waiting, looked at, and put aside.

use std::fs::{File, TryLockError};
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags, openat, renameat, statat};

use crate::place::Place;
use crate::refused::is_refused;

/// Where a log goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AccessLog {
    /// Nowhere.
    #[default]
    Off,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// Appended to this file.
    File(PathBuf),
}

impl AccessLog {
    /// The file, if it is one that has a name.
    pub fn path(&self) -> Option<&Path> {
        match self {
            AccessLog::File(path) => Some(path),
            AccessLog::Stdout | AccessLog::Stderr | AccessLog::Off => None,
        }
    }
}

/// A file, pipe or device that is open for appending.
#[derive(Debug)]
pub struct LogFile(File);

/// What is known about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogState {
    /// Whether it is a regular file, which can be put aside.
    pub is_regular: bool,
    /// Its length in bytes.
    pub len: u64,
    /// When it was made, in milliseconds since 1970, if the file system knows.
    pub born_ms: Option<u64>,
}

impl LogFile {
    /// Opens a file for appending, and makes it if need be. Waits for nobody: writing to a pipe or
    /// a terminal that is full gives `WouldBlock`. A link is not followed: a user who may write to
    /// the directory could have the server append to any file (CVE-2016-1247). Its directories are
    /// those of its [`Place`].
    ///
    /// # Errors
    /// When it is a link, or one of its directories is a link of another user, or can be neither
    /// opened nor made; [`has_no_reader`] tells of a named pipe without a reader. A named pipe of a
    /// user other than the superuser and this one is refused: by not reading they could hold all
    /// logs up.
    pub fn open(path: &Path) -> io::Result<LogFile> {
        let flags = OFlags::WRONLY
            | OFlags::APPEND
            | OFlags::CREATE
            | OFlags::CLOEXEC
            | OFlags::NOCTTY
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK;
        let place = Place::of(path)?;
        match openat(place.directory(), place.name(), flags, Mode::from_raw_mode(0o666)) {
            Err(rustix::io::Errno::LOOP) => {
                Err(io::Error::other("it is a symbolic link, which no log follows"))
            }
            opened => {
                let file = File::from(opened?);
                let about = file.metadata()?;
                let is_known = [0, rustix::process::geteuid().as_raw()].contains(&about.uid());
                if about.file_type().is_fifo() && !is_known {
                    let why = format!("it is a named pipe of user {}", about.uid());
                    return Err(io::Error::other(why));
                }
                Ok(LogFile(file))
            }
        }
    }

    /// A descriptor that is open already. Writing to it blocks if it does.
    pub fn of(file: File) -> LogFile {
        LogFile(file)
    }

    /// Appends bytes, as many as there is room for.
    ///
    /// # Errors
    /// `WouldBlock`; `StorageFull`, `BrokenPipe` and the like.
    pub fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0).write(bytes)
    }

    /// Takes so many bytes off the end of a regular file, which were appended here last.
    ///
    /// # Errors
    /// When another process has appended more since, or it may not be cut.
    pub fn cut(&self, bytes: u64) -> io::Result<()> {
        let (end, len) = ((&self.0).stream_position()?, self.0.metadata()?.len());
        let left = end.checked_sub(bytes).filter(|_| end == len);
        self.0.set_len(left.ok_or(io::ErrorKind::InvalidInput)?)
    }

    /// Puts it aside, which is at this path: `log` becomes `log.1`, that becomes `log.2`, and so
    /// on; the one that was `log.{keep}` is gone. Whether that is done, or another process has done
    /// it; with `yields` not while another does. Blocks on the disk.
    ///
    /// All who may read the file can hold its lock (flock(2)): who has yielded for long goes on
    /// without it, and still does nothing where another has put the file aside.
    ///
    /// # Errors
    /// When its path cannot be looked at, or the first of these not be renamed; then nothing is
    /// lost.
    pub fn put_aside(&self, path: &Path, keep: usize, yields: bool) -> io::Result<bool> {
        // Where the file system has no locks, no process waits for one.
        let is_locked = matches!(self.0.try_lock(), Err(TryLockError::WouldBlock));
        if is_locked && yields {
            return Ok(false);
        }
        let done = match self.is_at(path) {
            Ok(true) => rename(path, keep),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        let _ = self.0.unlock();
        done.map(|()| true)
    }

    /// Looks at it.
    ///
    /// # Errors
    /// When the file system fails.
    pub fn state(&self) -> io::Result<LogState> {
        let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let found = match rustix::fs::statx(&self.0, c"", AtFlags::EMPTY_PATH, mask) {
            Err(error) if is_refused(error) => {
                let stat = rustix::fs::fstat(&self.0)?;
                let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
                return Ok(LogState { is_regular, len: stat.st_size as u64, born_ms: None });
            }
            looked => looked?,
        };
        let is_regular =
            FileType::from_raw_mode(u32::from(found.stx_mode)) == FileType::RegularFile;
        let knows = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
        let born_ms = knows.then(|| {
            let born = found.stx_btime;
            born.tv_sec.max(0) as u64 * 1000 + u64::from(born.tv_nsec) / 1_000_000
        });
        Ok(LogState { is_regular, len: found.stx_size, born_ms })
    }

    /// Whether this path still names it. Blocks on the disk.
    ///
    /// # Errors
    /// When the path cannot be looked at. One that is not there names nothing.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
        let own = rustix::fs::fstat(&self.0)?;
        let look =
            |place: Place| Ok(statat(place.directory(), place.name(), AtFlags::SYMLINK_NOFOLLOW)?);
        match Place::of(path).and_then(look) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            there => there.map(|there| (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino)),
        }
    }

    /// Whether any path names it.
    pub fn has_name(&self) -> bool {
        rustix::fs::fstat(&self.0).is_ok_and(|own| own.st_nlink > 0)
    }
}

impl AsFd for LogFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Whether something has this name that is no regular file: a device, a terminal or a pipe.
pub fn is_special(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file())
}

/// Whether something has this name that is a symbolic link: [`LogFile::open`] refuses it.
pub fn is_link(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

/// Whether an open failed because nobody reads the named pipe.
pub fn has_no_reader(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENXIO)
}

fn rename(path: &Path, keep: usize) -> io::Result<()> {
    let place = Place::of(path)?;
    let at = place.directory();
    let numbered = |n: usize| place.name_and(&format!(".{n}"));
    for n in (1..keep).rev() {
        match renameat(at, numbered(n), at, numbered(n + 1)) {
            Err(error) if error != rustix::io::Errno::NOENT => return Err(error.into()),
            _ => {}
        }
    }
    Ok(renameat(at, place.name(), at, numbered(1))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apart::apart;
    use std::fs;

    #[test]
    fn a_pipe_of_another_user_is_no_log() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let _reader = fs::File::options().read(true).write(true).open(&path).unwrap();
        assert!(LogFile::open(&path).is_ok());
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        let why = LogFile::open(&path).unwrap_err().to_string();
        assert_eq!(why, "it is a named pipe of user 65534");
    }

    #[test]
    fn lines_are_appended_and_the_file_is_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(&path, "old\n").unwrap();
        let log = LogFile::open(&path).unwrap();
        assert_eq!(log.append(b"new\n").unwrap(), 4);
        assert_eq!(fs::read(&path).unwrap(), b"old\nnew\n");
        let state = log.state().unwrap();
        assert_eq!((state.is_regular, state.len), (true, 8));
        let is_at = |name: &str| log.is_at(&dir.path().join(name));
        assert!(is_at("log").unwrap() && !is_at(".").unwrap_or(false) && !is_at("no").unwrap());
        assert!(!is_at("no/log").unwrap());
        assert!(is_at("log/log").is_err(), "no directory is there");
        let now = crate::clock::unix_ms();
        assert!(state.born_ms.is_none_or(|born| now.abs_diff(born) < 60_000), "{state:?}");
        log.cut(2).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old\nne");
        assert!(log.cut(7).is_err());
        // What another has appended meanwhile stays.
        assert_eq!(log.append(b"torn").unwrap(), 4);
        LogFile::open(&path).unwrap().append(b"whole\n").unwrap();
        assert!(log.cut(4).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old\nnetornwhole\n");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(LogFile::open(&link).unwrap_err().to_string().contains("link"));
        assert!(!log.is_at(&link).unwrap());
    }

    #[test]
    fn a_pipe_without_a_reader_is_told_and_a_full_one_does_not_block() {
        apart(|| {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("fifo");
            rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::from_raw_mode(0o600)).unwrap();
            assert!(has_no_reader(&LogFile::open(&path).unwrap_err()));
            let flags = OFlags::RDONLY | OFlags::NONBLOCK;
            let reader = rustix::fs::open(&path, flags, Mode::empty()).unwrap();
            let log = LogFile::open(&path).unwrap();
            assert!(!log.state().unwrap().is_regular);
            let full = (0..1000).find_map(|_| log.append(&[b'x'; 65_536]).err());
            assert_eq!(full.unwrap().kind(), io::ErrorKind::WouldBlock);
            drop(reader);
            // SIGPIPE is ignored in Rust programs.
            assert_eq!(log.append(b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        });
    }

    #[test]
    fn files_are_put_aside_in_order_and_the_oldest_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        for n in 0..5 {
            fs::write(&path, n.to_string()).unwrap();
            assert!(LogFile::open(&path).unwrap().put_aside(&path, 3, true).unwrap());
        }
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).ok();
        assert_eq!(
            ["log", "log.1", "log.2", "log.3", "log.4"].map(read),
            [None, Some("4".into()), Some("3".into()), Some("2".into()), None]
        );
        let log = LogFile::open(&path).unwrap();
        fs::remove_dir_all(dir.path()).unwrap();
        fs::create_dir(dir.path()).unwrap();
        assert!(log.put_aside(&path, 3, true).unwrap());
        assert!(!path.with_extension("1").exists() && !log.has_name());
    }

    #[test]
    fn of_several_that_append_one_puts_the_file_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let [log, other] = [0, 1].map(|_| LogFile::open(&path).unwrap());
        other.0.lock().unwrap();
        assert!(!log.put_aside(&path, 1, true).unwrap(), "another does");
        other.0.unlock().unwrap();
        other.append(b"first\n").unwrap();
        assert!(log.put_aside(&path, 1, true).unwrap());
        LogFile::open(&path).unwrap().append(b"next\n").unwrap();
        assert!(other.put_aside(&path, 1, true).unwrap());
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!((read("log.1"), read("log")), ("first\n".into(), "next\n".into()));
    }

    #[test]
    fn a_reader_that_locks_the_file_does_not_keep_it_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let [log, other] = [0, 1].map(|_| LogFile::open(&path).unwrap());
        let reader = File::open(&path).unwrap();
        reader.lock().unwrap();
        assert!(!log.put_aside(&path, 2, true).unwrap());
        assert!(path.exists());
        log.append(b"first\n").unwrap();
        assert!(log.put_aside(&path, 2, false).unwrap());
        LogFile::open(&path).unwrap().append(b"next\n").unwrap();
        assert!(other.put_aside(&path, 2, false).unwrap(), "another did");
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).ok();
        assert_eq!(
            ["log", "log.1", "log.2"].map(read),
            [Some("next\n".into()), Some("first\n".into()), None]
        );
    }
}
