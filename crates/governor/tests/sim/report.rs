//! What came of a run.

use flyball_governor::{Lever, Move, Ns};

use crate::clients::S;

#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    /// Requests that began while it was counted, and answers in time, cached and work apart.
    pub(crate) offered: [u64; 2],
    pub(crate) good: [u64; 2],
    /// How long it was counted, in seconds.
    pub(crate) counted_s: f64,
    /// Answers in time in each second since the beginning.
    pub(crate) by_second: Vec<u32>,
    /// Requests that were first sent in each second.
    pub(crate) came: Vec<u32>,
    /// Of those that got an answer in time: from when the connection was established, or the
    /// request sent, in microseconds; and of those that needed no second SYN, from the first one.
    pub(crate) latencies: [Vec<u32>; 2],
    pub(crate) drops: u64,
    pub(crate) refused: u64,
    pub(crate) cut: u64,
    pub(crate) discarded: u64,
    /// Of those, clients that had only closed their half.
    pub(crate) discarded_alive: u64,
    /// Answers for which no client waited.
    pub(crate) wasted: u64,
    /// The most that were due and carried over to another turn.
    pub(crate) carried: usize,
    /// The most turns in a row that accepted none while some waited and a place was free.
    pub(crate) starved: u32,
    pub(crate) moves: Vec<(Ns, Move)>,
    /// Hash of all orders.
    pub(crate) orders: u64,
    pub(crate) used: f64,
}

impl Report {
    pub(crate) fn goodput(&self) -> f64 {
        (self.good[0] + self.good[1]) as f64 / self.counted_s
    }

    pub(crate) fn offered_per_s(&self) -> f64 {
        (self.offered[0] + self.offered[1]) as f64 / self.counted_s
    }

    pub(crate) fn share(&self, kind: usize) -> f64 {
        self.good[kind] as f64 / self.offered[kind].max(1) as f64
    }

    /// The quantile of the latencies of one kind, in milliseconds.
    pub(crate) fn ms(&self, kind: usize, q: f64) -> f64 {
        quantile(self.latencies[kind].clone(), q)
    }

    /// The same of both.
    pub(crate) fn ms_all(&self, q: f64) -> f64 {
        quantile(self.latencies.concat(), q)
    }

    pub(crate) fn levels(&self) -> Vec<Ns> {
        let is_level = |(_, made): &&(Ns, Move)| made.lever == Lever::Level;
        self.moves.iter().filter(is_level).map(|(at, _)| *at).collect()
    }

    /// Seconds from then until 95 of 100 requests that are sent first are answered, within five
    /// seconds and so for the next twenty.
    pub(crate) fn recovered_after(&self, from: usize) -> Option<usize> {
        let came = |at: usize| self.came.get(at).copied().unwrap_or(0);
        let good = |at: usize| self.by_second.get(at).copied().unwrap_or(0);
        let is_well = |at: usize| {
            let sum = |of: &dyn Fn(usize) -> u32| f64::from((at..at + 5).map(of).sum::<u32>());
            sum(&good) >= 0.95 * sum(&came)
        };
        let last = self.came.len().checked_sub(25)?;
        (from..=last).position(|at| (at..at + 20).all(is_well))
    }
}

/// Counts one in the second of that time.
pub(crate) fn count(by_second: &mut Vec<u32>, now: Ns) {
    let second = (now / S) as usize;
    if by_second.len() <= second {
        by_second.resize(second + 1, 0);
    }
    by_second[second] += 1;
}

fn quantile(mut of: Vec<u32>, q: f64) -> f64 {
    if of.is_empty() {
        return 0.0;
    }
    let at = ((of.len() - 1) as f64 * q) as usize;
    let (_, found, _) = of.select_nth_unstable(at);
    f64::from(*found) / 1e3
}
