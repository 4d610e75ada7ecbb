//! How a cell of a block of counters grows.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many threads of control count in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// One.
    One,
    /// Several at once.
    Several,
}

impl Writers {
    /// Adds to a cell of the block.
    #[inline]
    pub(crate) fn add(self, cell: &AtomicU64, n: u64) {
        match self {
            // The only writer: no read-modify-write is needed.
            Writers::One => cell.store(cell.load(Relaxed).wrapping_add(n), Relaxed),
            Writers::Several => drop(cell.fetch_add(n, Relaxed)),
        }
    }
}
