//! Draws that a seed repeats.

use flyball_http::random::Stream;

/// A stream of draws.
#[derive(Clone, Debug)]
pub(super) struct Random(Stream);

impl Random {
    pub(super) fn of(seed: u64) -> Random {
        Random(Stream::of(seed))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0.number()
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// True once in `n` draws; never where `n` is 0.
    pub(super) fn one_in(&mut self, n: usize) -> bool {
        n > 0 && self.below(n) == 0
    }

    pub(super) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}
