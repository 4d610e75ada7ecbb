//! How a run went, second by second.

use super::histogram::Times;

/// Length of an interval, in nanoseconds.
const INTERVAL_NS: u64 = 1_000_000_000;

/// Most intervals that are kept: a day of them. What comes later counts into the last one.
const INTERVALS_MAX: u64 = 86_400;

/// One second of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Its number, from 0 at the start of the run.
    pub second: u64,
    /// Requests sent in it.
    pub sent: u64,
    /// Replies in it.
    pub replies: u64,
    /// Of these, the good ones within the deadline.
    pub good: u64,
    /// Failures in it.
    pub errors: u64,
    /// The latencies of its replies, and of what was given up in it at the time that it took, in
    /// nanoseconds, with how often each was met.
    pub latencies: Vec<(u64, u64)>,
}

impl Interval {
    /// The distribution of its latencies.
    pub fn times(&self) -> Times {
        Times::from_pairs(&self.latencies)
    }

    fn merge(&mut self, other: &Interval) {
        self.sent += other.sent;
        self.replies += other.replies;
        self.good += other.good;
        self.errors += other.errors;
        self.latencies.extend_from_slice(&other.latencies);
    }
}

/// The intervals of one thread; the present one is not packed yet.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    start_ns: u64,
    closed: Vec<Interval>,
    present: Interval,
    latencies: Times,
}

impl Series {
    pub(crate) fn new(start_ns: u64) -> Series {
        Series {
            start_ns,
            closed: Vec::new(),
            present: Interval::default(),
            latencies: Times::new(),
        }
    }

    /// The interval of `now_ns`, after those before it were packed.
    fn at(&mut self, now_ns: u64) -> &mut Interval {
        let second = now_ns.saturating_sub(self.start_ns) / INTERVAL_NS;
        if second > self.present.second && second < INTERVALS_MAX {
            self.pack();
            self.present.second = second;
        }
        &mut self.present
    }

    fn pack(&mut self) {
        let mut done = std::mem::take(&mut self.present);
        done.latencies = self.latencies.pairs();
        self.latencies.clear();
        self.closed.push(done);
    }

    pub(crate) fn sent(&mut self, now_ns: u64, count: u64) {
        self.at(now_ns).sent += count;
    }

    pub(crate) fn replied(&mut self, now_ns: u64, latency_ns: u64, is_good: bool) {
        let interval = self.at(now_ns);
        interval.replies += 1;
        interval.good += u64::from(is_good);
        self.latencies.record(latency_ns);
    }

    /// A session failed, and these of its requests were given up after so many nanoseconds.
    pub(crate) fn failed(&mut self, now_ns: u64, given_up_ns: impl Iterator<Item = u64>) {
        self.at(now_ns).errors += 1;
        given_up_ns.for_each(|ns| self.latencies.record(ns));
    }

    /// The intervals that are over, from the `from`-th on.
    pub(crate) fn closed(&self, from: usize) -> &[Interval] {
        &self.closed[from.min(self.closed.len())..]
    }

    /// All intervals, the last one included.
    pub(crate) fn finish(mut self) -> Vec<Interval> {
        self.pack();
        self.closed
    }
}

/// The intervals of all threads as those of the run: one for each second that has any.
pub fn merged(all: &[Interval]) -> Vec<Interval> {
    let mut sorted: Vec<&Interval> = all.iter().collect();
    sorted.sort_by_key(|interval| interval.second);
    let mut merged: Vec<Interval> = Vec::new();
    for interval in sorted {
        match merged.last_mut() {
            Some(last) if last.second == interval.second => last.merge(interval),
            _ => merged.push(interval.clone()),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_kept_apart_and_threads_come_together() {
        let (mut one, mut other) = (Series::new(5), Series::new(5));
        one.sent(5, 2);
        one.replied(6, 1000, true);
        one.replied(2_000_000_010, 3000, false);
        other.failed(7, [9000].into_iter());
        other.replied(2_000_000_010, 5000, true);
        assert_eq!(one.closed(0).len(), 1);
        let mut all = one.finish();
        all.extend(other.finish());
        let merged = merged(&all);
        let counts: Vec<_> =
            merged.iter().map(|i| (i.second, i.sent, i.replies, i.good, i.errors)).collect();
        assert_eq!(counts, [(0, 2, 1, 1, 1), (2, 0, 2, 1, 0)]);
        assert!((merged[0].times().max_us() - 9.0).abs() < 0.01, "given up, and not forgotten");
        assert!((merged[1].times().max_us() - 5.0).abs() < 0.01);
        assert_eq!(merged[1].times().count(), 2);
    }
}
