//! Requests that arrive by a clock and share connections which are kept.
//!
//! A request that is due while every connection is busy waits for the first that is free, in the
//! order of the due times, and its latency counts from when it was due: a server that stands still
//! gets no fewer requests for it, and none of the wait is left out (coordinated omission). Who has
//! no connection within the time of a reply is given up.

use std::collections::VecDeque;
use std::time::Duration;

use super::generator::Generator;
use crate::observe::Kind;

/// Most requests of one thread that wait for a connection: 64 MiB of them.
const BACKLOG_MAX: usize = 1 << 22;

/// A request that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// When it was due.
    due_ns: u64,
    /// When the client saw that: what lies between is its own delay.
    seen_ns: u64,
}

/// Requests that wait for a connection, the oldest first.
#[derive(Debug)]
pub(super) struct Backlog {
    waiting: VecDeque<Due>,
    room: usize,
    /// How long each waits, in nanoseconds.
    limit_ns: u64,
    /// The most that have waited at once.
    most: usize,
}

impl Backlog {
    /// An empty one; its requests wait for `limit`.
    pub(super) fn new(limit: Duration) -> Backlog {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Backlog { waiting: VecDeque::new(), room: BACKLOG_MAX, limit_ns, most: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn most(&self) -> u64 {
        self.most as u64
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Lets one wait; false when too many do.
    fn push(&mut self, due: Due) -> bool {
        if self.waiting.len() >= self.room {
            return false;
        }
        self.waiting.push_back(due);
        true
    }

    /// Takes out the oldest, for a connection.
    fn pop(&mut self) -> Option<Due> {
        self.waiting.pop_front()
    }

    /// Takes out the oldest if its time is over.
    fn pop_expired(&mut self, now_ns: u64) -> Option<Due> {
        let limit_ns = self.limit_ns;
        self.waiting.pop_front_if(|due| due.due_ns.saturating_add(limit_ns) <= now_ns)
    }

    /// When the time of the oldest is over.
    fn expires_ns(&self) -> Option<u64> {
        self.waiting.front().map(|due| due.due_ns.saturating_add(self.limit_ns))
    }
}

impl Generator<'_> {
    /// Lets the request that is due wait, if there is one, and gives the oldest that waits to a
    /// connection that is free; whether there was anything to do.
    pub(super) fn begin_kept(&mut self, due_ns: Option<u64>, now_ns: u64) -> bool {
        if let Some(due) = due_ns.map(|due_ns| Due { due_ns, seen_ns: now_ns })
            && !self.backlog.push(due)
        {
            // It would have waited behind all the others.
            self.give_up(due, self.backlog.limit_ns, now_ns);
        }
        if let Some(due) = self.backlog.pop_expired(now_ns) {
            self.give_up(due, now_ns.saturating_sub(due.due_ns), now_ns);
            return true;
        }
        if !self.is_place_free() {
            self.backlog.most = self.backlog.most.max(self.backlog.waiting.len());
            return due_ns.is_some();
        }
        let Some(due) = self.backlog.pop() else { return due_ns.is_some() };
        let Some(slot) = self.free_slot() else { return false };
        if self.next_session(slot, due.due_ns, due.seen_ns) {
            self.proceed(slot, now_ns);
        } else {
            self.exhausted(slot);
        }
        true
    }

    /// When a request that waits is to be looked at; `None` when none waits.
    pub(super) fn backlog_ns(&self) -> Option<u64> {
        let expires_ns = self.backlog.expires_ns()?;
        Some(if self.is_place_free() { 0 } else { expires_ns })
    }

    /// A request has no connection in its time: it takes at least `waited_ns`.
    fn give_up(&mut self, due: Due, waited_ns: u64, now_ns: u64) {
        let counts = self.place.window.holds(due.due_ns);
        self.tally.error(Kind::NoConnection, counts);
        if let Some(series) = &mut self.tally.series {
            series.failed(now_ns, [waited_ns].into_iter());
        }
        if counts {
            self.tally.sessions += 1;
            self.tally.intended += 1;
            self.tally.unanswered += 1;
            self.tally.late_by(due.seen_ns.saturating_sub(due.due_ns));
            self.tally.latency.record(waited_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(due_ns: u64) -> Due {
        Due { due_ns, seen_ns: due_ns }
    }

    #[test]
    fn who_waits_longest_is_next_and_is_given_up_when_its_time_is_over() {
        let mut backlog = Backlog::new(Duration::from_nanos(100));
        assert_eq!((backlog.expires_ns(), backlog.pop()), (None, None));
        assert!([1, 2, 50].into_iter().all(|at| backlog.push(due(at))));
        assert_eq!(backlog.expires_ns(), Some(101));
        assert_eq!(backlog.pop_expired(100), None);
        assert_eq!(backlog.pop_expired(102), Some(due(1)));
        assert_eq!(backlog.pop(), Some(due(2)));
        assert_eq!(backlog.expires_ns(), Some(150));
    }

    #[test]
    fn no_more_wait_than_there_is_room_for() {
        let mut backlog = Backlog { room: 2, ..Backlog::new(Duration::MAX) };
        assert_eq!([1, 2, 3].map(|at| backlog.push(due(at))), [true, true, false]);
        assert_eq!((backlog.pop(), backlog.push(due(4))), (Some(due(1)), true));
        assert_eq!(backlog.expires_ns(), Some(u64::MAX));
        assert_eq!(Backlog::new(Duration::MAX).room, BACKLOG_MAX);
    }
}
