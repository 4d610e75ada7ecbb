//! The allocator of the program, and one that counts, for tests that hold a budget of allocations.
//!
//! The program's is jemalloc: what caches push out and take in comes in all sizes, and jemalloc
//! uses the same memory again, where glibc's allocator leaves it in pieces. So a limit of the
//! caches is one of the process.

mod kept;

use std::alloc::{GlobalAlloc, Layout};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap};

pub use self::kept::{Allocator, rest};

/// Counts until [`count_into`] is called.
static PRIVATE: AtomicU64 = AtomicU64::new(0);

/// The counter in use. It is never freed: an allocation may happen at any time.
static COUNTER: AtomicPtr<AtomicU64> = AtomicPtr::new((&raw const PRIVATE).cast_mut());

/// Bytes of all blocks of this process, as the allocator rounds them.
static LIVE: AtomicI64 = AtomicI64::new(0);

/// The program's allocator, with every allocation and reallocation counted. To be installed with
/// `#[global_allocator]`.
#[derive(Clone, Copy, Debug)]
pub struct Counting;

fn counter() -> &'static AtomicU64 {
    // SAFETY: the pointer is that of the static above or of a mapping that `count_into` checked and
    // that is never unmapped; both are aligned, initialised, and only ever used as an atomic.
    unsafe { &*COUNTER.load(Ordering::Acquire) }
}

/// Counts a block that came or, with -1, that is about to go.
fn count_block(block: *mut u8, sign: i64) {
    if !block.is_null() {
        // SAFETY: the block came from this allocator and was not given back yet.
        let usable = unsafe { tikv_jemallocator::usable_size(block) };
        LIVE.fetch_add(sign * usable as i64, Ordering::Relaxed);
    }
}

// SAFETY: every call goes unchanged to the program's allocator; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        counter().fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same there.
        let block = unsafe { Allocator.alloc(layout) };
        count_block(block, 1);
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        counter().fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        let block = unsafe { Allocator.alloc_zeroed(layout) };
        count_block(block, 1);
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        counter().fetch_add(1, Ordering::Relaxed);
        count_block(block, -1);
        // SAFETY: as above; `block` came from that allocator, as all blocks do.
        let moved = unsafe { Allocator.realloc(block, layout, size) };
        // A block that could not be moved is still there.
        count_block(if moved.is_null() { block } else { moved }, 1);
        moved
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count_block(block, -1);
        // SAFETY: as above.
        unsafe { Allocator.dealloc(block, layout) }
    }
}

/// Allocations counted so far, where [`Counting`] is installed.
pub fn allocations() -> u64 {
    counter().load(Ordering::Relaxed)
}

/// Bytes of the blocks that this process holds now, where [`Counting`] is installed: as the
/// allocator rounds them.
pub fn live_bytes() -> i64 {
    LIVE.load(Ordering::Relaxed)
}

/// From now on this process, and every child that it forks later, counts into the first eight bytes
/// of `file`, in the machine's byte order: whoever can read the file sees the sum. The count starts
/// at 0. To be called once: the mapping stays until the process ends.
///
/// # Errors
/// When the file cannot be made that long or mapped.
pub fn count_into(file: &File) -> io::Result<()> {
    file.set_len(0)?;
    file.set_len(size_of::<AtomicU64>() as u64)?;
    // SAFETY: a new mapping at an address of the kernel's choice aliases nothing; it is aligned to
    // a page, zeroed, and as long as a counter. Nobody else is asked to write to the file.
    let start = unsafe {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        mmap(std::ptr::null_mut(), size_of::<AtomicU64>(), protection, MapFlags::SHARED, file, 0)?
    };
    COUNTER.store(start.cast(), Ordering::Release);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Forked, exit_now, fork, wait_for};
    use std::hint::black_box;

    fn count_in(path: &std::path::Path) -> u64 {
        u64::from_ne_bytes(std::fs::read(path).unwrap().try_into().unwrap())
    }

    /// Both counters in one test: the counter belongs to the whole process.
    #[test]
    fn each_allocation_is_counted_also_those_of_a_child() {
        let layout = Layout::new::<[u64; 4]>();
        let allocate = || {
            // SAFETY: the layout has a size; the block is grown and freed with its own layout.
            unsafe {
                let block = black_box(Counting.alloc(layout));
                let block = black_box(Counting.realloc(block, layout, 2 * layout.size()));
                let grown = Layout::new::<[u64; 8]>();
                Counting.dealloc(block, grown);
                Counting.dealloc(black_box(Counting.alloc_zeroed(layout)), layout);
            }
        };
        let before = (allocations(), live_bytes());
        allocate();
        assert_eq!((allocations() - before.0, live_bytes()), (3, before.1));
        // SAFETY: the layout has a size; the block is freed with it.
        unsafe {
            let block = black_box(Counting.alloc(layout));
            assert_eq!(live_bytes() - before.1, 32);
            Counting.dealloc(block, layout);
        }

        let file = tempfile::NamedTempFile::new().unwrap();
        count_into(file.as_file()).unwrap();
        assert_eq!(count_in(file.path()), 0);
        allocate();
        match fork().unwrap() {
            Forked::Child => {
                allocate();
                exit_now(0);
            }
            Forked::Parent(child) => assert_eq!(wait_for(child).unwrap(), 0),
        }
        assert_eq!((count_in(file.path()), allocations()), (6, 6));
    }
}
