//! Blocks that are kept for the next allocation of their size: those of a whole record of TLS,
//! which rustls takes and gives back for each record. jemalloc, as it is configured, would return
//! each of them to the kernel at once: a call, and a fault for each of its pages.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use tikv_jemallocator::Jemalloc;

/// The sizes of these blocks in bytes, as jemalloc rounds them: plain text and cipher text of a
/// record.
const SIZES: [usize; 2] = [16 * 1024, 20 * 1024];

/// The size class below them.
const LESS_BYTES: usize = 14 * 1024;

/// Their alignment, which all blocks of jemalloc have.
const ALIGN: usize = 16;

/// Blocks of each size that a process keeps. One is in use for as long as a record is protected:
/// as many as CPUs do that at a time.
const KEPT_MAX: usize = 8;

/// The blocks, or null.
static KEPT: [[AtomicPtr<u8>; KEPT_MAX]; SIZES.len()] =
    [const { [const { AtomicPtr::new(null_mut()) }; KEPT_MAX] }; SIZES.len()];

/// Which of the sizes a block of this layout has.
fn place_of(layout: Layout) -> Option<usize> {
    let is_kept = layout.size() > LESS_BYTES && layout.size() <= SIZES[1];
    (is_kept && layout.align() <= ALIGN).then(|| usize::from(layout.size() > SIZES[0]))
}

/// A block that was kept, or null.
fn take(at: usize) -> *mut u8 {
    let is_there = |place: &&AtomicPtr<u8>| !place.load(Relaxed).is_null();
    let mut taken = KEPT[at].iter().filter(is_there).map(|place| place.swap(null_mut(), AcqRel));
    taken.find(|block| !block.is_null()).unwrap_or(null_mut())
}

/// Keeps a block, unless there are enough.
fn keep(at: usize, block: *mut u8) -> bool {
    let keeps = |place: &AtomicPtr<u8>| {
        place.load(Relaxed).is_null()
            && place.compare_exchange(null_mut(), block, AcqRel, Relaxed).is_ok()
    };
    KEPT[at].iter().any(keeps)
}

/// Gives back what is kept.
pub fn rest() {
    for (at, size) in SIZES.into_iter().enumerate() {
        for _ in 0..KEPT_MAX {
            let block = take(at);
            if !block.is_null()
                && let Ok(layout) = Layout::from_size_align(size, ALIGN)
            {
                // SAFETY: the block came from there with a layout of this size class.
                unsafe { Jemalloc.dealloc(block, layout) }
            }
        }
    }
}

/// jemalloc, with the blocks that are kept before it. To be installed with `#[global_allocator]`.
/// jemalloc is configured by `JEMALLOC_SYS_WITH_MALLOC_CONF` when it is built
/// (`.cargo/config.toml`), and by `_RJEM_MALLOC_CONF` when the program starts.
#[derive(Clone, Copy, Debug)]
pub struct Allocator;

// SAFETY: every call goes to jemalloc, or takes a block of it that nothing else has; one that is
// kept is of the size class that jemalloc rounds all its layouts to, so that it is as long as each
// of them, and given back with any of them.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if let Some(at) = place_of(layout) {
            let block = take(at);
            if !block.is_null() {
                return block;
            }
        }
        // SAFETY: the caller keeps the contract of `alloc`, which is the same there.
        unsafe { Jemalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { Jemalloc.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above; the block is one of jemalloc's, of the size class of the layout.
        unsafe { Jemalloc.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if place_of(layout).is_some_and(|at| keep(at, block)) {
            return;
        }
        // SAFETY: as above.
        unsafe { Jemalloc.dealloc(block, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tikv_jemallocator::usable_size;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 1).unwrap()
    }

    #[test]
    fn blocks_of_each_size_that_is_kept_are_of_one_size_class() {
        for size in [LESS_BYTES, LESS_BYTES + 1, SIZES[0], SIZES[0] + 1, SIZES[1]] {
            // SAFETY: the layout has a size; the block is given back with it.
            let usable = unsafe {
                let block = Jemalloc.alloc(layout(size));
                let usable = usable_size(block);
                Jemalloc.dealloc(block, layout(size));
                usable
            };
            let expected = place_of(layout(size)).map_or(LESS_BYTES, |at| SIZES[at]);
            assert_eq!(usable, expected, "{size} bytes");
        }
    }

    #[test]
    fn a_block_is_kept_for_the_next_of_its_size_until_nothing_is() {
        let (one, longer, other) = (layout(SIZES[0] + 22), layout(SIZES[1]), layout(SIZES[0]));
        // SAFETY: each layout has a size, and each block is given back with one of its size class.
        unsafe {
            let blocks: Vec<*mut u8> = (0..=KEPT_MAX).map(|_| Allocator.alloc(one)).collect();
            blocks.iter().for_each(|block| Allocator.dealloc(*block, one));
            assert_eq!(Allocator.alloc(longer), blocks[0], "the first that is given back is kept");
            assert!(!blocks.contains(&Allocator.alloc(other)), "it is of another size");
            assert!(keep(1, blocks[0]) && !keep(1, null_mut()), "there are enough");
        }
        rest();
        assert!(KEPT.iter().flatten().all(|place| place.load(Relaxed).is_null()));
    }
}
