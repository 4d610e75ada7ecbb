//! When a process that ended is started again. Of those that end before they have entered their
//! loops, a few may have had bad luck, and more will not do better.

/// Wait before the first restart of a worker that crashed; doubled with each crash in a row.
const RESTART_MS_MIN: u64 = 50;

/// Longest wait before a restart.
const RESTART_MS_MAX: u64 = 10_000;

/// A worker that lived this long starts with the shortest wait again.
const RESTART_FORGIVEN_MS: u64 = 30_000;

/// A process that ends so often before it has entered its loop is not started again, while the
/// server starts: the start has failed.
pub const EARLY_ENDS_MAX: usize = 5;

/// Within so long, in milliseconds.
pub(crate) const EARLY_ENDS_MS: u64 = 60_000;

/// When a process that shall be running is started again: later with each end in a row.
#[derive(Clone, Copy, Debug)]
pub struct Restart {
    started_ms: u64,
    wait_ms: u64,
    /// When it is to be started, in monotonic milliseconds; `None` while it runs or shall not.
    pub due_ms: Option<u64>,
    /// Its ends before it could serve.
    pub early_ends: EarlyEnds,
}

impl Restart {
    /// One that waits the shortest time, of a process that is first due then.
    pub fn new(due_ms: Option<u64>) -> Restart {
        Restart { started_ms: 0, wait_ms: RESTART_MS_MIN, due_ms, early_ends: EarlyEnds::default() }
    }

    /// It was started.
    pub fn started(&mut self, now_ms: u64) {
        (self.started_ms, self.due_ms) = (now_ms, None);
    }

    /// It could not be started.
    pub fn failed(&mut self, now_ms: u64) {
        self.due_ms = Some(now_ms + RESTART_MS_MAX);
    }

    /// It ended. Returns how long the next start waits, in milliseconds.
    pub fn plan(&mut self, now_ms: u64) -> u64 {
        if now_ms - self.started_ms >= RESTART_FORGIVEN_MS {
            self.wait_ms = RESTART_MS_MIN;
        }
        let wait_ms = self.wait_ms;
        self.due_ms = Some(now_ms + wait_ms);
        self.wait_ms = (wait_ms * 2).min(RESTART_MS_MAX);
        wait_ms
    }
}

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
