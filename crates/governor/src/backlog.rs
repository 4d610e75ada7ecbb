//! A queue that is as long as a time.

use crate::Ns;
use crate::bounds::QueueBounds;
use crate::mean::Mean;
use crate::turn::Turn;
use crate::why::{Ms, Why};

/// How much shorter the queue becomes in one window at most. What is wanted may be as much shorter,
/// or as much longer, until it changes at all: counts of a window vary.
const STEP: f64 = 1.25;

const S: Ns = 1_000_000_000;

/// How many times the rate a burst may be that lasts a fifth of a window, so that it is taken in.
const BURST: u64 = 4;

/// The accept queue's length, as time.
///
/// 4,096 connections are a quarter of a second at 16,000 a second, and 20 s at 200 a second: what
/// comes out of the queue then has been given up by its client, and the server does nothing but
/// work that is thrown away (a metastable failure: Bronson et al., HotOS 2021). So its length is
/// what is served in the time that one may wait. Beyond it the kernel drops SYNs, which costs it a
/// microsecond, and the client tries again after a second.
///
/// What comes while a turn lasts waits for its end anyway: the time of the longest one is added, or
/// one request of half a second would cost those their place that come with it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backlog {
    /// As it is; `None` as configured.
    length: Option<u32>,
    /// The work for each connection that is served: what could be, and not what came.
    work: Mean<8>,
    busy: Ns,
    served: u32,
    /// The longest turn since then, and before.
    longest: [Ns; 2],
    longest_since: Ns,
    /// When the last overload was seen.
    overloaded_at: Option<Ns>,
}

impl Backlog {
    /// A turn is over.
    pub(crate) fn turned(&mut self, seen: &Turn) {
        self.served = self.served.saturating_add(seen.accepted.saturating_sub(seen.shed));
        self.busy = self.busy.saturating_add(seen.took);
        self.longest[0] = self.longest[0].max(seen.took);
    }

    /// What the length shall be; `None` as configured.
    pub(crate) fn length(&self) -> Option<u32> {
        self.length
    }

    /// A window is over; the lengths before and since, and why, if it changes.
    pub(crate) fn look(
        &mut self,
        now: Ns,
        overloaded: bool,
        frozen: bool,
        bounds: &QueueBounds,
    ) -> Option<(u32, u32, Why)> {
        if self.served > 0 {
            self.work.add(std::mem::take(&mut self.busy), std::mem::take(&mut self.served));
        }
        if frozen || !bounds.owned {
            return None;
        }
        if overloaded {
            self.overloaded_at = Some(now);
        }
        let before = self.length.unwrap_or(bounds.backlog);
        let at = self.overloaded_at?;
        if now.saturating_sub(at) > bounds.lasts {
            (self.length, self.overloaded_at) = (None, None);
            let why = Why::Calm { for_ms: Ms(now - at) };
            return (before != bounds.backlog).then_some((before, bounds.backlog, why));
        }
        if now.saturating_sub(self.longest_since) > bounds.lasts {
            (self.longest, self.longest_since) = ([0, self.longest[0]], now);
        }
        let time = self.time(bounds);
        let wanted = self.work.in_time(time).unwrap_or(0);
        let length = match self.length {
            // It may have become long while no overload was known.
            None => wanted,
            Some(length) => match f64::from(wanted) / f64::from(length) {
                STEP.. => wanted.min(length.saturating_mul(2)),
                ratio if overloaded && ratio * STEP <= 1.0 => {
                    wanted.max((f64::from(length) / STEP) as u32)
                }
                _ => length,
            },
        };
        let length = length.clamp(bounds.backlog_least.min(bounds.backlog), bounds.backlog);
        self.length = Some(length);
        let why = Why::QueueTime { per_s: self.work.in_time(S).unwrap_or(0), time_ms: Ms(time) };
        (length != before).then_some((before, length, why))
    }

    /// How long one may wait, and no less than a burst needs.
    fn time(&self, bounds: &QueueBounds) -> Ns {
        let [longest, before] = self.longest;
        bounds.time.max(BURST * (bounds.window / 5)).saturating_add(longest.max(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::Bounds;

    const MS: Ns = 1_000_000;

    /// The lengths after windows of 100 ms in each of which so many were served.
    fn lengths(served: &[u32], overloaded: impl Fn(usize) -> bool) -> Vec<Option<u32>> {
        let mut backlog = Backlog::default();
        let bounds = Bounds::default().queue;
        let step = |(n, served): (usize, &u32)| {
            let now = (n as Ns + 1) * 100 * MS;
            for _ in 0..100 {
                backlog.turned(&Turn { took: MS, ..Turn::default() });
            }
            backlog.turned(&Turn { accepted: *served, ..Turn::default() });
            backlog.look(now, overloaded(n), false, &bounds);
            backlog.length()
        };
        served.iter().enumerate().map(step).collect()
    }

    #[test]
    fn it_is_bounded_at_once_grows_by_two_and_shrinks_by_a_fifth() {
        // Turns of 1 ms, so that there are 101 ms to wait.
        assert_eq!(lengths(&[20, 20], |n| n > 0), [None, Some(20)]);
        assert_eq!(lengths(&[20, 400, 400], |_| true), [Some(20), Some(40), Some(80)]);
        assert_eq!(lengths(&[500, 1, 1], |_| true), [Some(505), Some(404), Some(323)]);
        assert_eq!(lengths(&[0, 9_999], |_| true), [Some(16), Some(32)]);
    }

    #[test]
    fn ten_seconds_after_an_overload_it_is_as_configured() {
        let lengths = lengths(&[20; 103], |n| n == 0);
        assert_eq!(lengths[100], Some(20));
        assert_eq!(lengths[101], None);
    }

    #[test]
    fn what_comes_while_a_long_turn_lasts_keeps_its_place() {
        let (mut backlog, bounds) = (Backlog::default(), Bounds::default().queue);
        backlog.turned(&Turn { took: 500 * MS, accepted: 100, ..Turn::default() });
        backlog.look(600 * MS, true, false, &bounds);
        assert_eq!(backlog.length(), Some(120));
    }

    #[test]
    fn who_does_not_own_the_socket_leaves_it_alone() {
        let mut backlog = Backlog::default();
        let bounds = QueueBounds { owned: false, ..Bounds::default().queue };
        assert_eq!(backlog.look(100 * MS, true, false, &bounds), None);
        assert_eq!(backlog.length(), None);
    }
}
