//! How long to wait after failures, and how many transactions may begin at once.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Seconds from a failure to the next try: how often, and how long. As certmagic waits.
const LADDER: [(u32, u64); 9] = [
    (1, MINUTE),
    (2, 2 * MINUTE),
    (1, 5 * MINUTE),
    (3, 10 * MINUTE),
    (4, 20 * MINUTE),
    (6, 30 * MINUTE),
    (3, HOUR),
    (2, 2 * HOUR),
    (2, 3 * HOUR),
];

/// Between tries when all steps of the ladder are behind.
const STEADY: u64 = 6 * HOUR;

/// Since the first failure, after which a try a day is enough.
const LONG: u64 = 30 * DAY;

/// The longest wait that an authority can ask for, in seconds: one that says more is not believed.
const ASKED_MAX: u64 = 7 * DAY;

/// What the agent tells itself about an order that failed: the storage keeps it, so that a server
/// that starts again and again does not try each time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failures {
    /// Failures since the last success.
    pub(crate) count: u32,
    /// When the first of them was, in seconds since 1970.
    first: u64,
    /// When the last one was.
    pub(crate) last: u64,
    /// The authority does not want to be asked before.
    not_before: u64,
    /// The authority looked, and refused: the next try is against staging.
    pub(crate) is_refused: bool,
}

impl Failures {
    /// One more, now. `asked` is for how many seconds the authority wants not to be asked.
    pub(crate) fn add(&mut self, now: u64, is_refused: bool, asked: Option<u64>) {
        if self.count == 0 {
            self.first = now;
        }
        self.count = self.count.saturating_add(1);
        self.last = now;
        self.is_refused = is_refused;
        self.not_before = asked.map_or(0, |seconds| now + seconds.min(ASKED_MAX));
    }

    /// When the next try may begin; 0 when there was no failure.
    pub(crate) fn until(&self, now: u64) -> u64 {
        if self.count == 0 {
            return 0;
        }
        let wait = match self.last.saturating_sub(self.first) > LONG {
            true => DAY,
            false => step(self.count),
        };
        // A clock that was set back must not make it a wait of years.
        let ladder = (self.last + wait).min(now + wait);
        ladder.max(self.not_before.min(now + ASKED_MAX))
    }
}

/// Seconds to wait after so many failures.
fn step(count: u32) -> u64 {
    let mut behind = 0;
    for (times, wait) in LADDER {
        behind += times;
        if count <= behind {
            return wait;
        }
    }
    STEADY
}

/// So many transactions may begin in any [`WINDOW_MS`], by authority.
const TRANSACTIONS_MAX: usize = 10;

/// Of the limiter, in milliseconds.
const WINDOW_MS: u64 = 10_000;

/// Keeps an authority from being asked for many certificates at once.
#[derive(Debug, Default)]
pub(crate) struct Limiter(VecDeque<u64>);

impl Limiter {
    /// How many milliseconds a transaction must wait; 0 counts one that begins now.
    pub(crate) fn wait_ms(&mut self, now_ms: u64) -> u64 {
        while self.0.front().is_some_and(|&began| began + WINDOW_MS <= now_ms) {
            self.0.pop_front();
        }
        match self.0.front() {
            Some(&first) if self.0.len() >= TRANSACTIONS_MAX => first + WINDOW_MS - now_ms,
            _ => {
                self.0.push_back(now_ms);
                0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_without_the_authority_is_a_bounded_number_of_tries() {
        let (mut failures, mut now, mut tries) = (Failures::default(), 1_000, Vec::new());
        while now < 1_000 + DAY {
            failures.add(now, false, None);
            tries.push(failures.until(now) - now);
            now = failures.until(now);
        }
        let minutes: Vec<u64> = tries.iter().map(|wait| wait / MINUTE).collect();
        let expected = [1, 2, 2, 5, 10, 10, 10, 20, 20, 20, 20, 30, 30, 30, 30, 30, 30, 60, 60, 60];
        assert_eq!(minutes[..20], expected);
        assert_eq!(minutes[20..], [120, 120, 180, 180, 360]);
    }

    #[test]
    fn after_thirty_days_it_is_one_try_a_day() {
        let mut failures = Failures::default();
        let mut now = 0;
        while now <= LONG {
            failures.add(now, false, None);
            now = failures.until(now);
        }
        failures.add(now, false, None);
        assert_eq!(failures.until(now) - now, DAY);
    }

    #[test]
    fn an_authority_that_asks_for_more_time_gets_it_within_bounds() {
        let mut failures = Failures::default();
        failures.add(100, true, Some(7_200));
        assert_eq!(failures.until(100), 7_300);
        failures.add(100, true, Some(u64::MAX / 2));
        assert_eq!(failures.until(100), 100 + ASKED_MAX);
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_stop_tries() {
        let mut failures = Failures::default();
        failures.add(4_000_000_000, false, None);
        assert_eq!(failures.until(1_000), 1_000 + MINUTE);
    }

    #[test]
    fn ten_transactions_begin_in_any_ten_seconds() {
        let (mut limiter, mut now, mut began) = (Limiter::default(), 0, Vec::new());
        while began.len() < 35 {
            match limiter.wait_ms(now) {
                0 => began.push(now),
                wait => now += wait,
            }
        }
        for pair in began.windows(TRANSACTIONS_MAX + 1) {
            assert!(pair[TRANSACTIONS_MAX] - pair[0] >= WINDOW_MS, "{pair:?}");
        }
        assert_eq!(began[34], 30_000);
    }
}
