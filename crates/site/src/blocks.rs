//! What a block of memory takes from the allocator.

/// Smallest block of the allocator, and the multiple that small ones come in.
const BLOCK_MIN: usize = 8;
const BLOCK_ALIGN: usize = 16;

/// Between two powers of two there are so many sizes of blocks (jemalloc(3), size classes).
const SIZES_PER_DOUBLING: usize = 4;

/// What a block of this length takes from memory: its size class, as the program's allocator has
/// it.
pub(crate) fn block_bytes(len: usize) -> u64 {
    let bytes = match len {
        0 => 0,
        1..=BLOCK_MIN => BLOCK_MIN,
        _ => {
            let below = len.next_power_of_two() / 2;
            len.next_multiple_of((below / SIZES_PER_DOUBLING).max(BLOCK_ALIGN))
        }
    };
    bytes as u64
}
