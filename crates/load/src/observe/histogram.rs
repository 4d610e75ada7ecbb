//! Distributions of times: mergeable, and exact to three digits.

use hdrhistogram::Histogram;

/// The longest time that is told apart, in nanoseconds: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Digits to which a recorded time is exact: 0.1 %.
const DIGITS: u8 = 3;

/// A distribution of times in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Times {
        Times::new()
    }
}

impl Times {
    /// An empty one.
    ///
    /// # Panics
    /// Never: the bounds are constants that make a histogram.
    pub fn new() -> Times {
        Times(Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("constant bounds"))
    }

    /// One from what [`Times::pairs`] gave.
    pub fn from_pairs(pairs: &[(u64, u64)]) -> Times {
        let mut times = Times::new();
        for &(ns, count) in pairs {
            times.0.saturating_record_n(ns, count);
        }
        times
    }

    /// The times that were met, to three digits, and how often.
    pub fn pairs(&self) -> Vec<(u64, u64)> {
        let recorded = self.0.iter_recorded();
        recorded.map(|value| (value.value_iterated_to(), value.count_at_value())).collect()
    }

    /// Records a time; one of more than an hour counts as an hour.
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    /// Adds what another one holds.
    pub fn merge(&mut self, other: &Times) {
        // Bounds are the same everywhere; those of a file that was read may be others.
        if self.0.add(&other.0).is_err() {
            for value in other.0.iter_recorded() {
                self.0.saturating_record_n(value.value_iterated_to(), value.count_at_value());
            }
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// How many were recorded.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time, in microseconds, that `percentile` per cent of them did not exceed; 0 of none.
    pub fn percentile_us(&self, percentile: f64) -> f64 {
        if self.0.is_empty() {
            return 0.0;
        }
        self.0.value_at_percentile(percentile).min(self.0.max()) as f64 / 1e3
    }

    /// The longest, in microseconds.
    pub fn max_us(&self) -> f64 {
        self.0.max() as f64 / 1e3
    }

    /// The shortest, in microseconds; 0 of none.
    pub fn min_us(&self) -> f64 {
        if self.0.is_empty() { 0.0 } else { self.0.min() as f64 / 1e3 }
    }

    /// The mean, in microseconds.
    pub fn mean_us(&self) -> f64 {
        self.0.mean() / 1e3
    }

    /// The histogram itself, for files.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_distributions_are_those_of_all_times() {
        let (mut one, mut other) = (Times::new(), Times::new());
        (1..=900).for_each(|n| one.record(n * 1000));
        (901..=1000).for_each(|n| other.record(n * 1000));
        one.merge(&other);
        assert_eq!(one.count(), 1000);
        for (percentile, us) in [(50.0, 500.0), (90.0, 900.0), (99.0, 990.0), (100.0, 1000.0)] {
            let found = one.percentile_us(percentile);
            assert!((found / us - 1.0).abs() < 0.001, "p{percentile}: {found}");
        }
        assert!((one.mean_us() - 500.5).abs() < 0.6);
    }

    #[test]
    fn pairs_are_the_whole_distribution() {
        let mut times = Times::new();
        [5, 1_000_003, 1_000_003, 77_777_777].into_iter().for_each(|ns| times.record(ns));
        let again = Times::from_pairs(&times.pairs());
        assert_eq!(again.count(), 4);
        for percentile in [25.0, 50.0, 75.0, 100.0] {
            let (one, other) = (times.percentile_us(percentile), again.percentile_us(percentile));
            assert!((one / other - 1.0).abs() < 0.001, "{one} {other}");
        }
    }

    #[test]
    fn no_times_are_zero_and_endless_ones_an_hour() {
        let mut times = Times::new();
        assert!(times.percentile_us(99.0) < 1e-9 && times.max_us() < 1e-9);
        times.record(u64::MAX);
        assert!((times.max_us() / 3.6e9 - 1.0).abs() < 0.001);
    }
}
