//! A lock that threads and processes take by a file that they have open (M125: the accept lock of
//! old servers). It is here to be measured: a futex costs nothing while nobody waits.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{FlockOperation, MemfdFlags};

use crate::owned::Owned;

/// How it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// fcntl(2), by locks that belong to the open file (F_OFD_SETLKW): those of old would belong to
    /// the process, and threads would not exclude each other.
    Fcntl,
    /// flock(2).
    Flock,
}

/// One who may take the lock.
#[derive(Debug)]
pub struct FileLock {
    file: Owned,
    way: Way,
}

/// The lock, while it is held.
#[derive(Debug)]
pub struct Held<'a>(&'a FileLock);

/// A file to lock, in memory; to be made before the first fork.
///
/// # Errors
/// When descriptors are out.
pub fn file() -> io::Result<OwnedFd> {
    Ok(rustix::fs::memfd_create("lock", MemfdFlags::CLOEXEC)?)
}

impl FileLock {
    /// Opens the file once more, so that this one is told from the others.
    ///
    /// # Errors
    /// When descriptors are out, or there is no /proc.
    pub fn on(file: impl AsFd, way: Way) -> io::Result<FileLock> {
        let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        let file =
            Owned::open(|| File::options().read(true).write(true).open(path).map(OwnedFd::from))?;
        Ok(FileLock { file, way })
    }

    /// Waits until nobody holds the lock, and takes it. Blocks.
    ///
    /// # Errors
    /// When a signal comes, or the kernel has no memory for locks.
    pub fn hold(&self) -> io::Result<Held<'_>> {
        match self.way {
            Way::Fcntl => self.fcntl(libc::F_WRLCK)?,
            Way::Flock => rustix::fs::flock(&self.file, FlockOperation::LockExclusive)?,
        }
        Ok(Held(self))
    }

    fn fcntl(&self, kind: libc::c_int) -> io::Result<()> {
        // The whole file; the process id must be 0 for locks of open files.
        let lock = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: 0,
            l_len: 0,
            l_pid: 0,
        };
        // SAFETY: the call reads the struct, which lives as long as the call.
        let done =
            unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_SETLKW, &raw const lock) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Neither fails for a lock that is held.
        let _ = match self.0.way {
            Way::Fcntl => self.0.fcntl(libc::F_UNLCK),
            Way::Flock => {
                rustix::fs::flock(&self.0.file, FlockOperation::Unlock).map_err(io::Error::from)
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn one_thread_at_a_time_holds_it() {
        for way in [Way::Fcntl, Way::Flock] {
            let (file, inside, seen) = (file().unwrap(), AtomicUsize::new(0), AtomicUsize::new(0));
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    let lock = FileLock::on(&file, way).unwrap();
                    let (inside, seen) = (&inside, &seen);
                    scope.spawn(move || {
                        for _ in 0..500 {
                            let _held = lock.hold().unwrap();
                            assert_eq!(inside.fetch_add(1, SeqCst), 0, "{way:?}");
                            std::thread::yield_now();
                            inside.fetch_sub(1, SeqCst);
                            seen.fetch_add(1, SeqCst);
                        }
                    });
                }
            });
            assert_eq!(seen.load(SeqCst), 2_000);
        }
    }

    #[test]
    fn a_process_that_dies_holds_it_no_more() {
        use crate::process::{Forked, exit_now, fork, wait_for};
        for way in [Way::Fcntl, Way::Flock] {
            let file = file().unwrap();
            match fork().unwrap() {
                Forked::Child => {
                    let lock = FileLock::on(&file, way).unwrap();
                    let held = lock.hold().is_ok();
                    exit_now(i32::from(!held))
                }
                Forked::Parent(child) => {
                    assert_eq!(wait_for(child).unwrap(), 0);
                    assert!(FileLock::on(&file, way).unwrap().hold().is_ok());
                }
            }
        }
    }
}
