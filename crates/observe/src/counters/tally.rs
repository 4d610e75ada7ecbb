//! What one thread of control has counted since it last published.

use flyball_http::{CloseReason, Status};

use super::{ACCEPT_BATCHES, Counter, STATUS_CLASSES, SUMS, reason_at};
use crate::hosts::class;

const WORD_BITS: usize = u64::BITS as usize;

/// Counts that are not published yet, in the order of a block.
///
/// A turn of a loop counts some ten of more than a hundred things: which they were is kept, so that
/// publishing looks at no other.
#[derive(Clone, Debug)]
pub struct Tally {
    pending: [u64; SUMS],
    /// A bit for each place that was added to.
    touched: [u64; SUMS.div_ceil(WORD_BITS)],
}

impl Default for Tally {
    fn default() -> Tally {
        Tally { pending: [0; SUMS], touched: [0; SUMS.div_ceil(WORD_BITS)] }
    }
}

impl Tally {
    /// Counts `n` more.
    #[inline]
    pub fn add(&mut self, counter: Counter, n: u64) {
        self.add_at(counter as usize, n);
    }

    #[inline]
    fn add_at(&mut self, place: usize, n: u64) {
        self.pending[place] += n;
        // Most differences from what was published last are nothing.
        self.touched[place / WORD_BITS] |= u64::from(n > 0) << (place % WORD_BITS);
    }

    /// What was counted since it was published.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.pending[counter as usize]
    }

    /// Counts an accept phase that accepted so many connections (M60).
    pub fn accept_phase(&mut self, accepted: u64) {
        self.accept_batch(accepted);
        self.add(Counter::AcceptPhases, 1);
        self.add(Counter::Accepted, accepted);
    }

    /// Counts that so many connections were accepted one after the other.
    pub fn accept_batch(&mut self, accepted: u64) {
        let bucket = (u64::BITS - accepted.leading_zeros()) as usize;
        self.add(ACCEPT_BATCHES[bucket.min(ACCEPT_BATCHES.len() - 1)].0, 1);
    }

    /// Adds what another has counted.
    pub fn absorb(&mut self, other: &Tally) {
        for (place, n) in other.pending.iter().enumerate().filter(|(_, n)| **n > 0) {
            self.add_at(place, *n);
        }
    }

    /// Counts a request that was answered with this status.
    pub fn answered(&mut self, status: Status) {
        self.add(Counter::Requests, 1);
        self.add(STATUS_CLASSES[class(status)], 1);
    }

    /// Counts a closed connection.
    pub fn closed(&mut self, reason: CloseReason) {
        self.add_at(reason_at(reason), 1);
    }

    /// Empties it: hands over each place that was added to, and how much.
    pub(super) fn take(&mut self, mut publish: impl FnMut(usize, u64)) {
        for (word, touched) in self.touched.iter_mut().enumerate() {
            while *touched != 0 {
                let place = word * WORD_BITS + touched.trailing_zeros() as usize;
                *touched &= *touched - 1;
                publish(place, std::mem::take(&mut self.pending[place]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_counted_is_taken_once() {
        let mut tally = Tally::default();
        let mut wanted = Vec::new();
        for (n, counter) in Counter::ALL.iter().enumerate() {
            tally.add(*counter, n as u64 + 1);
            wanted.push((*counter as usize, n as u64 + 1));
        }
        for reason in CloseReason::ALL {
            tally.closed(*reason);
            wanted.push((reason_at(*reason), 1));
        }
        let mut copy = Tally::default();
        copy.absorb(&tally);
        for mut tally in [tally, copy] {
            let mut taken = Vec::new();
            tally.take(|place, n| taken.push((place, n)));
            assert_eq!(taken, wanted);
            tally.take(|place, n| panic!("{n} at {place} a second time"));
        }
    }
}
