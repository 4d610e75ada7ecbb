//! When a process that ended is started again. Of those that end before they have entered their
//! loops, a few may have had bad luck, and more will not do better.

/// Wait before the first restart of a worker that crashed; doubled with each crash in a row.
pub const RESTART_MS_MIN: u64 = 50;

/// Longest wait before a restart.
pub const RESTART_MS_MAX: u64 = 10_000;

/// A worker that lived this long starts with the shortest wait again.
pub const RESTART_FORGIVEN_MS: u64 = 30_000;

/// A process that ends so often before it has entered its loop is not started again, while the
/// server starts: the start has failed.
pub const EARLY_ENDS_MAX: usize = 5;

/// Within so long, in milliseconds.
pub(crate) const EARLY_ENDS_MS: u64 = 60_000;

/// The ends of one process and of those that were started in its place.
#[derive(Clone, Copy, Debug, Default)]
pub struct EarlyEnds {
    /// One of them has entered its loop: whatever ends them now, they can begin.
    pub has_entered: bool,
    /// When the last of them ended, the oldest first.
    at_ms: [Option<u64>; EARLY_ENDS_MAX],
}

impl EarlyEnds {
    /// It ended; true when that was too often.
    pub fn are_too_many(&mut self, now_ms: u64) -> bool {
        if self.has_entered {
            return false;
        }
        self.at_ms.rotate_left(1);
        self.at_ms[EARLY_ENDS_MAX - 1] = Some(now_ms);
        self.at_ms[0].is_some_and(|first| now_ms - first <= EARLY_ENDS_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_many_within_a_minute_is_too_many() {
        let mut ends = EarlyEnds::default();
        let told: Vec<bool> = (0..5).map(|n| ends.are_too_many(n * 15_000)).collect();
        assert_eq!(told, [false, false, false, false, true]);
        let mut slow = EarlyEnds::default();
        assert!(!(0..50).any(|n| slow.are_too_many(n * 15_001)));
    }

    #[test]
    fn one_that_has_entered_its_loop_is_started_again_however_often_it_ends() {
        let mut ends = EarlyEnds { has_entered: true, ..EarlyEnds::default() };
        assert!(!(0..50).any(|n| ends.are_too_many(n)));
    }
}
