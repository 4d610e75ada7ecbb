//! How long things take: log-linear histograms in shared memory.
//!
//! Each thread of control records into cells of its own block of the counters, by a plain load and
//! store: no lock, no allocation and no system call. A bucket is at most a quarter as wide as its
//! lower bound, so that a percentile is known to a quarter.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::writers::Writers;

/// The finest time that is told apart, as a power of two of nanoseconds: 256 ns.
const UNIT_BITS: u32 = 8;

/// Buckets of each power of two, as a power of two: 4.
const STEPS_BITS: u32 = 2;
const STEPS: usize = 1 << STEPS_BITS;

/// Powers of two that are told apart: from 1 µs to 137 s. What takes longer is in the last bucket.
const OCTAVES: usize = 27;

/// Buckets of a histogram, below the first power of two one for each unit.
pub const BUCKETS: usize = STEPS + OCTAVES * STEPS;

/// Cells of a histogram: its buckets, and the sum in nanoseconds.
const CELLS: usize = BUCKETS + 1;

/// Cells of a histogram that tells powers of two apart and nothing finer: its buckets, and the sum
/// in nanoseconds.
pub(crate) const POWERS_CELLS: usize = BUCKETS / STEPS + 1;

/// Cells of all histograms of a block.
pub(crate) const ALL_CELLS: usize = Timing::ALL.len() * CELLS;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Timing {
    /// One turn of an event loop, without its wait for events.
    Loop,
    /// A wait for events.
    GetEvents,
    /// An accept phase.
    Accept,
    /// A work phase in which a connection was worked on.
    Work,
    /// A connection in the Read stage of a pipeline.
    Read,
    /// A connection in the Write stage of a pipeline.
    Write,
    /// Work that may wait, from when it is asked for to when the connection goes on.
    DiskWait,
    /// A handshake, from its first bytes on.
    Handshake,
    /// From the turn that finds a whole head to the first bytes of the answer in the socket.
    FirstByte,
    /// The same to the last bytes.
    Request,
}

impl Timing {
    /// All, in the order of the cells.
    pub const ALL: [Timing; 10] = [
        Timing::Loop,
        Timing::GetEvents,
        Timing::Accept,
        Timing::Work,
        Timing::Read,
        Timing::Write,
        Timing::DiskWait,
        Timing::Handshake,
        Timing::FirstByte,
        Timing::Request,
    ];

    /// Its name in `/status`.
    pub fn label(self) -> &'static str {
        match self {
            Timing::Loop => "loop",
            Timing::GetEvents => "getevents",
            Timing::Accept => "accept",
            Timing::Work => "work",
            Timing::Read => "read-stage",
            Timing::Write => "write-stage",
            Timing::DiskWait => "disk-wait",
            Timing::Handshake => "handshake",
            Timing::FirstByte => "first-byte",
            Timing::Request => "request",
        }
    }

    /// Whether it is a phase or a stage: these are one family of metrics.
    pub fn is_phase(self) -> bool {
        use Timing::{Accept, GetEvents, Read, Work, Write};
        matches!(self, GetEvents | Accept | Work | Read | Write)
    }

    fn cells(self, all: &[AtomicU64]) -> &[AtomicU64] {
        &all[self as usize * CELLS..][..CELLS]
    }
}

/// The bucket of a time in nanoseconds.
fn bucket(ns: u64) -> usize {
    let units = ns >> UNIT_BITS;
    if units < STEPS as u64 {
        return units as usize;
    }
    let octave = (units.ilog2() - STEPS_BITS) as usize;
    let step = (units >> octave) as usize - STEPS;
    (STEPS + octave * STEPS + step).min(BUCKETS - 1)
}

/// The lowest time in a bucket, in nanoseconds; that of the next is its upper bound.
pub fn lower_bound_ns(bucket: usize) -> u64 {
    let units = match bucket.checked_sub(STEPS) {
        None => bucket as u64,
        Some(above) => ((STEPS + above % STEPS) as u64) << (above / STEPS),
    };
    units << UNIT_BITS
}

/// Records the same time `n` times in the cells of a block.
#[inline]
pub(crate) fn record(all: &[AtomicU64], writers: Writers, timing: Timing, ns: u64, n: u64) {
    let cells = timing.cells(all);
    writers.add(&cells[bucket(ns)], n);
    writers.add(&cells[BUCKETS], ns.wrapping_mul(n));
}

/// Records the same time `n` times in the cells of a histogram by powers of two.
#[inline]
pub(crate) fn record_power(cells: &[AtomicU64], writers: Writers, ns: u64, n: u64) {
    writers.add(&cells[bucket(ns) / STEPS], n);
    writers.add(&cells[POWERS_CELLS - 1], ns.wrapping_mul(n));
}

/// What histograms by powers of two come to: a histogram whose counts are all in the last bucket of
/// each power.
#[derive(Clone, Debug)]
pub struct Powers([u64; CELLS]);

impl Powers {
    /// The sum of these, each of [`POWERS_CELLS`].
    pub(crate) fn sum<'a>(all: impl Iterator<Item = &'a [AtomicU64]>) -> Powers {
        let mut sums = [0; CELLS];
        for cells in all {
            for (power, cell) in cells[..POWERS_CELLS - 1].iter().enumerate() {
                sums[power * STEPS + STEPS - 1] += cell.load(Relaxed);
            }
            sums[BUCKETS] = cells[POWERS_CELLS - 1].load(Relaxed).wrapping_add(sums[BUCKETS]);
        }
        Powers(sums)
    }

    /// As the others are read.
    pub fn distribution(&self) -> Distribution<'_> {
        Distribution { cells: &self.0 }
    }
}

/// A histogram as it was read.
#[derive(Clone, Copy, Debug)]
pub struct Distribution<'a> {
    cells: &'a [u64],
}

impl<'a> Distribution<'a> {
    /// That of one timing among the sums of all cells.
    pub(crate) fn of(timing: Timing, all: &'a [u64]) -> Distribution<'a> {
        Distribution { cells: &all[timing as usize * CELLS..][..CELLS] }
    }

    /// How many were recorded in each bucket.
    pub fn buckets(&self) -> &'a [u64] {
        &self.cells[..BUCKETS]
    }

    /// How many were recorded.
    pub fn count(&self) -> u64 {
        self.buckets().iter().sum()
    }

    /// How long all took together, in nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        self.cells[BUCKETS]
    }

    /// How many took less than each power of two, and that in nanoseconds, from 1 µs on.
    pub fn below_powers(&self) -> impl Iterator<Item = (u64, u64)> + 'a {
        self.buckets().chunks(STEPS).enumerate().scan(0, |below: &mut u64, (octave, steps)| {
            *below += steps.iter().sum::<u64>();
            Some((lower_bound_ns((octave + 1) * STEPS), *below))
        })
    }

    /// The time that this share of all took at most, in nanoseconds: the upper bound of the bucket
    /// where they end. Zero when nothing was recorded.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        percentile_ns(self.buckets(), percent)
    }
}

/// The upper bound of the bucket where this share of all ends, in nanoseconds; zero of nothing.
pub fn percentile_ns(buckets: &[u64], percent: f64) -> u64 {
    let count: u64 = buckets.iter().sum();
    let wanted = ((count as f64 * percent / 100.0).ceil() as u64).clamp(1, count.max(1));
    let mut seen = 0;
    for (at, in_bucket) in buckets.iter().enumerate() {
        seen += in_bucket;
        if seen >= wanted {
            return lower_bound_ns(at + 1);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(times: &[u64]) -> Vec<u64> {
        let cells: Vec<AtomicU64> = (0..ALL_CELLS).map(|_| AtomicU64::new(0)).collect();
        for ns in times {
            record(&cells, Writers::One, Timing::Request, *ns, 1);
        }
        cells.into_iter().map(AtomicU64::into_inner).collect()
    }

    #[test]
    fn every_time_is_in_the_bucket_whose_bounds_hold_it() {
        for bits in 0..37 {
            for near in [0, 1, 3, 1 << bits >> 1, 1 << bits >> 2] {
                let ns: u64 = (1 << bits) + near;
                let at = bucket(ns);
                assert!(lower_bound_ns(at) <= ns && ns < lower_bound_ns(at + 1), "{ns}: {at}");
            }
        }
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKETS - 1));
        for at in 1..BUCKETS {
            assert!(lower_bound_ns(at - 1) < lower_bound_ns(at), "{at}");
            let wide = lower_bound_ns(at + 1) - lower_bound_ns(at);
            assert!(at < STEPS || wide * 4 <= lower_bound_ns(at), "{at} is {wide} ns wide");
        }
    }

    #[test]
    fn a_percentile_is_known_to_a_quarter() {
        let times: Vec<u64> = (1..=1000).map(|n| n * 10_000).collect();
        let cells = recorded(&times);
        let all = Distribution::of(Timing::Request, &cells);
        assert_eq!((all.count(), all.sum_ns()), (1000, times.iter().sum()));
        for (percent, exact) in [(50.0, 5_000_000), (99.0, 9_900_000), (100.0, 10_000_000)] {
            let found = all.percentile_ns(percent);
            assert!(found >= exact && found <= exact + exact / 4, "{percent}: {found}");
        }
        assert_eq!(Distribution::of(Timing::Loop, &cells).percentile_ns(50.0), 0);
    }

    #[test]
    fn powers_of_two_gather_the_buckets_below_them() {
        let cells = recorded(&[0, 1_023, 1_024, 2_047, 2_048, 1 << 36, u64::MAX / 2]);
        let all = Distribution::of(Timing::Request, &cells);
        let below: Vec<(u64, u64)> = all.below_powers().collect();
        assert_eq!(below[..3], [(1_024, 2), (2_048, 4), (4_096, 5)]);
        assert_eq!(below.last(), Some(&(1 << 37, 7)));
        assert_eq!(below.len(), OCTAVES + 1);
        for (bound, count) in below.windows(2).map(|pair| (pair[0].0 * 2, pair[1].1)) {
            assert!(bound > 0 && count <= all.count());
        }
    }

    #[test]
    fn several_writers_lose_nothing() {
        let cells: Vec<AtomicU64> = (0..ALL_CELLS).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for ns in 0..1_000 {
                        record(&cells, Writers::Several, Timing::Loop, ns, 2);
                    }
                });
            }
        });
        let sums: Vec<u64> = cells.into_iter().map(AtomicU64::into_inner).collect();
        let all = Distribution::of(Timing::Loop, &sums);
        assert_eq!((all.count(), all.sum_ns()), (8_000, 8 * 499_500));
    }
}
