//! Arrivals at times that were recorded.

use std::sync::Arc;

/// Goes through recorded times once.
#[derive(Debug)]
pub struct Replay {
    times: Arc<[u64]>,
    next: usize,
}

impl Replay {
    /// From the first of `times`, which ascend.
    pub fn new(times: Arc<[u64]>) -> Replay {
        Replay { times, next: 0 }
    }
}

impl Iterator for Replay {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let at = self.times.get(self.next).copied();
        self.next += 1;
        at
    }
}

#[cfg(test)]
mod tests {
    use crate::schedule::Schedule;
    use std::time::Duration;

    #[test]
    fn recorded_times_come_once_and_as_they_were() {
        let schedule = Schedule::Replay([0, 5, 5, 2_000_000_000].into());
        assert_eq!(schedule.arrivals(1).collect::<Vec<_>>(), [0, 5, 5, 2_000_000_000]);
        assert!((schedule.expected(Duration::from_secs(1)) - 3.0).abs() < 1e-9);
    }
}
