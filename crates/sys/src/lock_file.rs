//! A lock by the name of a file, for processes that have nothing else in common than a directory.
//! One that dies holds it no more (flock(2)).

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::event::{Timespec, poll};

use crate::{clock, secret_file};

/// For its owner alone: who may open it may hold it.
const MODE: u32 = 0o600;

/// How often it is looked whether the lock is free: to wait in flock(2) has no bound.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };

/// The lock, held until this is dropped.
#[derive(Debug)]
pub struct LockFile {
    _file: File,
}

impl LockFile {
    /// Makes the file where it is missing, and takes its lock; `None` when others have held that
    /// for `ms_max` milliseconds. Blocks.
    ///
    /// # Errors
    /// When the file cannot be made or opened, or is no regular file; when its file system has no
    /// locks.
    pub fn hold(path: &Path, ms_max: u64) -> io::Result<Option<LockFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(MODE);
        let file = secret_file::open(path, &mut options)?;
        let until_ms = clock::monotonic_ms() + ms_max;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(LockFile { _file: file })),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if clock::monotonic_ms() >= until_ms => {
                    return Ok(None);
                }
                Err(TryLockError::WouldBlock) => {
                    let _ = poll(&mut [], Some(&LOOK));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    const LONG_MS: u64 = 60_000;

    #[test]
    fn one_at_a_time_holds_it_and_who_waits_gets_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let (inside, seen) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let _held = LockFile::hold(&path, LONG_MS).unwrap().unwrap();
                        assert_eq!(inside.fetch_add(1, SeqCst), 0);
                        std::thread::yield_now();
                        inside.fetch_sub(1, SeqCst);
                        seen.fetch_add(1, SeqCst);
                    }
                });
            }
        });
        assert_eq!(seen.load(SeqCst), 80);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
    }

    #[test]
    fn who_waits_does_so_no_longer_than_it_says() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = LockFile::hold(&path, 0).unwrap().unwrap();
        assert!(LockFile::hold(&path, 0).unwrap().is_none());
        assert!(LockFile::hold(&path, 20).unwrap().is_none());
        drop(held);
        // A child that another test forked has the descriptor too, until it executes its program.
        assert!(LockFile::hold(&path, LONG_MS).unwrap().is_some());
        assert!(LockFile::hold(dir.path(), 0).is_err(), "a directory is no lock");
    }
}
