//! Memory that is never swapped out.

use std::io;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mlock, mmap_anonymous, munmap};

/// Bytes in pages of their own that are locked in memory. They count against the limit on locked
/// memory (RLIMIT_MEMLOCK), in whole pages, unless the process has CAP_IPC_LOCK.
#[derive(Debug)]
pub struct Pinned {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: nothing is written after `copy_of` has returned, so that threads only ever read.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// A copy of `bytes`, locked in memory.
    ///
    /// # Errors
    /// `ENOMEM` or `EPERM` when that would be more than the process may lock.
    pub fn copy_of(bytes: &[u8]) -> io::Result<Pinned> {
        let mapped = bytes.len().max(1);
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                mapped,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // From here on it is unmapped when something fails.
        let pinned = Pinned { start, len: bytes.len() };
        // SAFETY: the range is the mapping that was just made.
        unsafe { mlock(pinned.start.as_ptr().cast(), mapped)? };
        // SAFETY: the mapping is writable, at least as long as `bytes`, and nobody else's.
        unsafe { pinned.start.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        Ok(pinned)
    }

    /// Bytes of memory that a copy of `len` bytes takes: whole pages.
    pub fn cost(len: usize) -> usize {
        len.max(1).next_multiple_of(rustix::param::page_size())
    }
}

impl AsRef<[u8]> for Pinned {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the mapping is readable, at least `len` long, filled by `copy_of`, never written
        // again, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `copy_of` made, and no reference into it outlives
        // `self`. Unmapping unlocks.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len.max(1)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Forked, exit_now, fork, wait_for};
    use rustix::process::{Resource, Rlimit, setrlimit};

    fn locked_kib() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmLck:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// In a process of its own: other tests lock memory too, and limits are of a process.
    fn in_a_child(body: impl Fn() -> bool) {
        match fork().unwrap() {
            Forked::Child => exit_now(i32::from(!body())),
            Forked::Parent(child) => assert_eq!(wait_for(child).unwrap(), 0),
        }
    }

    #[test]
    fn a_copy_is_locked_as_long_as_it_lives() {
        in_a_child(|| {
            let before = locked_kib();
            let pinned = Pinned::copy_of(&[b'x'; 5000]).unwrap();
            let empty = Pinned::copy_of(&[]).unwrap();
            let during = locked_kib();
            let same = pinned.as_ref() == [b'x'; 5000] && empty.as_ref().is_empty();
            drop((pinned, empty));
            let cost = Pinned::cost(5000) + Pinned::cost(0);
            same && during == before + cost / 1024 && locked_kib() == before
        });
    }

    #[test]
    fn what_may_not_be_locked_is_refused() {
        in_a_child(|| {
            let none = Rlimit { current: Some(0), maximum: Some(0) };
            setrlimit(Resource::Memlock, none).unwrap();
            // Who has the right to lock without limit is not stopped.
            let refused = Pinned::copy_of(b"x").is_err();
            let capabilities = rustix::thread::capabilities(None).unwrap().effective;
            refused != capabilities.contains(rustix::thread::CapabilitySet::IPC_LOCK)
        });
    }
}
