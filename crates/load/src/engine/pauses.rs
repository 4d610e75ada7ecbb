//! What the clients of a thread wait: between two requests, and in a closed loop before their
//! first.
//!
//! Connections that are kept busy and think would otherwise all ask at once, and again after every
//! think time. So they begin one after the other, at places of one think time that the seed draws:
//! as if they had been at it for long.

use crate::random::{Purpose, Random};
use crate::think::Think;

/// Think times, and connections of a closed loop that are not begun yet.
#[derive(Debug)]
pub(super) struct Pauses {
    think: Think,
    random: Random,
    /// How many connections begin, and how many of them have not.
    all: u32,
    left: u32,
    start_ns: u64,
    /// When the next one begins.
    next_ns: u64,
}

impl Pauses {
    /// Those of a thread whose `connections` begin from `start_ns` on.
    pub(super) fn new(think: Think, connections: u32, start_ns: u64, seed: u64) -> Pauses {
        let random = Random::new(seed, Purpose::Thinking);
        let (all, left) = (connections, connections);
        let mut pauses = Pauses { think, random, all, left, start_ns, next_ns: start_ns };
        pauses.place();
        pauses
    }

    /// What is thought before the next request, in nanoseconds.
    pub(super) fn think_ns(&mut self) -> u64 {
        self.think.draw_ns(&mut self.random)
    }

    /// When the next connection begins; `None` when all have begun.
    pub(super) fn next_ns(&self) -> Option<u64> {
        (self.left > 0).then_some(self.next_ns)
    }

    /// Takes a connection that is to begin by now; whether there is one.
    pub(super) fn begin(&mut self, now_ns: u64) -> bool {
        let begins = self.next_ns().is_some_and(|next_ns| next_ns <= now_ns);
        if begins {
            self.left -= 1;
            self.place();
        }
        begins
    }

    /// No further connection begins.
    pub(super) fn end(&mut self) {
        self.left = 0;
    }

    /// Draws when the next one begins, within its part of a think time.
    fn place(&mut self) {
        let part = self.think.mean().as_nanos() as f64 / f64::from(self.all.max(1));
        let nth = f64::from(self.all - self.left);
        self.next_ns = self.start_ns + (part * (nth + self.random.unit())) as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn connections_that_think_begin_all_over_one_think_time() {
        let think = Think::Always(Duration::from_nanos(1_000));
        let begun = |seed| {
            let mut pauses = Pauses::new(think, 10, 500, seed);
            assert!(!pauses.begin(499), "not before the start");
            let each = std::iter::from_fn(|| {
                let next_ns = pauses.next_ns()?;
                assert!(pauses.begin(next_ns));
                Some(next_ns - 500)
            });
            each.collect::<Vec<u64>>()
        };
        let places = begun(1);
        assert_eq!(places.len(), 10);
        for (nth, place) in (0..).zip(&places) {
            assert!((nth * 100..nth * 100 + 100).contains(place), "{places:?}");
        }
        assert_eq!(places, begun(1), "a seed repeats");
        assert_ne!(places, begun(2));
    }

    #[test]
    fn connections_that_do_not_think_begin_at_once() {
        let mut pauses = Pauses::new(Think::default(), 3, 7, 1);
        assert!((0..3).all(|_| pauses.begin(7)) && !pauses.begin(u64::MAX));
        assert_eq!((pauses.next_ns(), pauses.think_ns()), (None, 0));
    }
}
