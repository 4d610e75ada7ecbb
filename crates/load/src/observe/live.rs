//! What can be seen while a run goes on: counters that every thread publishes some times a second.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use super::series::Interval;
use super::tally::{Tally, Window};

/// Time between two publications of a thread, in nanoseconds.
pub(crate) const PUBLISH_NS: u64 = 100_000_000;

/// Counters of a run, summed over its threads.
#[derive(Debug, Default)]
pub struct Live {
    from_ns: AtomicU64,
    to_ns: AtomicU64,
    sent: AtomicU64,
    replies: AtomicU64,
    errors: AtomicU64,
    bytes_in: AtomicU64,
    open: AtomicU64,
    intervals: Mutex<Vec<Interval>>,
}

/// The counters at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Glance {
    /// What counts of the run.
    pub window: Window,
    /// Requests sent.
    pub sent: u64,
    /// Replies received.
    pub replies: u64,
    /// Failures.
    pub errors: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Connections that are open.
    pub open: u64,
}

/// What a thread has published already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Published {
    at_ns: u64,
    glance: Glance,
    intervals: usize,
}

impl Published {
    /// The same, published long ago, so that the next publication is due.
    pub(crate) fn before(&self) -> Published {
        Published { at_ns: 0, ..*self }
    }
}

impl Live {
    pub(crate) fn begin(&self, window: Window) {
        self.from_ns.store(window.from_ns, Relaxed);
        self.to_ns.store(window.to_ns, Relaxed);
    }

    /// Adds what a thread or another process has counted since it told last.
    pub(crate) fn add(&self, now: Glance, was: Glance) {
        self.sent.fetch_add(now.sent.saturating_sub(was.sent), Relaxed);
        self.replies.fetch_add(now.replies.saturating_sub(was.replies), Relaxed);
        self.errors.fetch_add(now.errors.saturating_sub(was.errors), Relaxed);
        self.bytes_in.fetch_add(now.bytes_in.saturating_sub(was.bytes_in), Relaxed);
        // Wraps around when there are fewer than before, which adding the next ones undoes.
        self.open.fetch_add(now.open.wrapping_sub(was.open), Relaxed);
    }

    /// The counters now.
    pub fn glance(&self) -> Glance {
        let (from_ns, to_ns) = (self.from_ns.load(Relaxed), self.to_ns.load(Relaxed));
        Glance {
            window: Window { from_ns, to_ns },
            sent: self.sent.load(Relaxed),
            replies: self.replies.load(Relaxed),
            errors: self.errors.load(Relaxed),
            bytes_in: self.bytes_in.load(Relaxed),
            open: self.open.load(Relaxed),
        }
    }

    /// Adds what a thread has counted since it published last, if that is long enough ago.
    pub(crate) fn publish(&self, last: &mut Published, tally: &Tally, open: u64, now_ns: u64) {
        if now_ns < last.at_ns + PUBLISH_NS {
            return;
        }
        let glance = Glance {
            window: tally.window,
            sent: tally.sent,
            replies: tally.replies,
            errors: tally.error_count(),
            bytes_in: tally.bytes_in,
            open,
        };
        self.add(glance, last.glance);
        let mut published = last.intervals;
        if let Some(series) = &tally.series {
            let closed = series.closed(published);
            if !closed.is_empty() {
                published += closed.len();
                let mut all = self.intervals.lock().unwrap_or_else(PoisonError::into_inner);
                all.extend_from_slice(closed);
            }
        }
        *last = Published { at_ns: now_ns, glance, intervals: published };
    }

    /// The seconds that are over, of each thread; those that were given once are not given again.
    pub fn take_intervals(&self) -> Vec<Interval> {
        std::mem::take(&mut self.intervals.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
