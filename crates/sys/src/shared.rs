//! Counters in memory that survives the process that counts: one mapping, shared across forks.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// An array of 64-bit counters, zero at first, shared with every child forked later.
#[derive(Debug)]
pub struct SharedCounters {
    start: NonNull<AtomicU64>,
    len: usize,
}

// SAFETY: the mapping is only ever seen as atomics, which may be shared between threads.
unsafe impl Send for SharedCounters {}
// SAFETY: as above.
unsafe impl Sync for SharedCounters {}

impl SharedCounters {
    /// Maps `len` counters.
    ///
    /// # Errors
    /// When memory is out.
    pub fn new(len: usize) -> io::Result<SharedCounters> {
        SharedCounters::map(len, MapFlags::SHARED)
    }

    /// The same of which many are never used: the kernel sets no memory aside for those, unless it
    /// does for all that programs ask for (`vm.overcommit_memory` is 2).
    ///
    /// # Errors
    /// As [`SharedCounters::new`].
    pub fn sparse(len: usize) -> io::Result<SharedCounters> {
        SharedCounters::map(len, MapFlags::SHARED | MapFlags::NORESERVE)
    }

    fn map(len: usize, flags: MapFlags) -> io::Result<SharedCounters> {
        let bytes = len.max(1) * size_of::<AtomicU64>();
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags)?
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedCounters { start, len })
    }

    /// The counters.
    pub fn all(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, zeroed (a valid AtomicU64), at least `len` long, and
        // lives as long as `self`; other processes touch it only through atomics as well.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for SharedCounters {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made, and no reference into it outlives `self`.
        let _ =
            unsafe { munmap(self.start.as_ptr().cast(), self.len.max(1) * size_of::<AtomicU64>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Forked, fork, wait_for};
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn no_memory_is_set_aside_for_sparse_ones() {
        let overcommit = std::fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap();
        let all = [(SharedCounters::new(4_096), false), (SharedCounters::sparse(4_096), true)];
        for (counters, is_sparse) in all {
            let counters = counters.unwrap();
            let start = format!("{:x}-", counters.all().as_ptr() as usize);
            let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let mut lines = maps.lines().skip_while(|line| !line.starts_with(&start));
            let flags = lines.find_map(|line| line.strip_prefix("VmFlags:")).unwrap();
            let is_said = flags.split_whitespace().any(|flag| flag == "nr");
            assert_eq!(is_said, is_sparse && overcommit.trim() != "2", "{flags}");
            counters.all()[4_095].store(1, Relaxed);
        }
    }

    #[test]
    fn what_a_child_counted_outlives_it() {
        let counters = SharedCounters::new(4).unwrap();
        match fork().unwrap() {
            Forked::Child => {
                counters.all()[2].fetch_add(7, Relaxed);
                crate::process::exit_now(0);
            }
            Forked::Parent(child) => {
                assert_eq!(wait_for(child).unwrap(), 0);
                assert_eq!(counters.all()[2].load(Relaxed), 7);
            }
        }
    }
}
