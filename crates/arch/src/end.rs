//! When a process that was told to end has had its time.

use crate::kernel::clock;

/// Most that an end is put off, in milliseconds.
pub const LATE_MS_MAX: u64 = 1_000;

/// When the time is up that a process has to end. Where that is seen late, since the process stood
/// still, it is put off by as much, once and by [`LATE_MS_MAX`] at most: what had come in time may
/// need the disk, a ring or a backend, and so more than the turn that sees it.
#[derive(Clone, Copy, Debug)]
pub struct End {
    at_ms: u64,
    is_seen: bool,
}

impl End {
    /// An end at this time. Nothing is late by now.
    pub fn at(at_ms: u64, now_ms: u64) -> End {
        End { at_ms, is_seen: now_ms >= at_ms }
    }

    /// An end in so many milliseconds.
    pub fn in_ms(ms: u64) -> End {
        let now_ms = clock::monotonic_ms();
        End::at(now_ms.saturating_add(ms), now_ms)
    }

    /// The time, as far as it was put off.
    pub fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// Whether it has come: to be asked again and again, and then at the latest.
    pub fn look(&mut self, now_ms: u64) -> bool {
        if now_ms >= self.at_ms && !std::mem::replace(&mut self.is_seen, true) {
            self.at_ms = now_ms + (now_ms - self.at_ms).min(LATE_MS_MAX);
        }
        now_ms >= self.at_ms
    }

    /// When `after_ms` have passed since it came, or, before it was seen, when it is to be seen.
    pub fn look_ms(&self, after_ms: u64) -> u64 {
        if self.is_seen { self.at_ms.saturating_add(after_ms) } else { self.at_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_is_seen_late_is_put_off_once_by_as_much_and_not_for_long() {
        for (seen_ms, put_off_to_ms) in [(1_000, 1_000), (1_001, 1_002), (1_700, 2_400)] {
            let mut end = End::at(1_000, 0);
            assert!(!end.look(999));
            assert_eq!(end.look(seen_ms), seen_ms == put_off_to_ms, "seen at {seen_ms}");
            assert_eq!(end.at_ms(), put_off_to_ms, "seen at {seen_ms}");
            assert!(!end.look(put_off_to_ms - 1) || seen_ms == put_off_to_ms);
            assert!(end.look(put_off_to_ms + 5_000), "it is put off no more");
            assert_eq!(end.at_ms(), put_off_to_ms);
        }
        let mut end = End::at(1_000, 0);
        assert!(!end.look(60_000));
        assert_eq!(end.at_ms(), 60_000 + LATE_MS_MAX);
    }

    #[test]
    fn an_end_that_has_come_when_it_is_set_is_not_put_off() {
        let mut end = End::at(1_000, 1_500);
        assert!(end.look(1_600));
        assert_eq!(end.at_ms(), 1_000);
    }

    #[test]
    fn what_follows_an_end_follows_it_where_it_was_put_off_to() {
        let mut end = End::at(1_000, 0);
        assert_eq!(end.look_ms(2_000), 1_000, "it is to be seen first");
        end.look(1_500);
        assert_eq!(end.look_ms(2_000), 4_000);
    }
}
