//! Intervals by drawing again from what was measured (Efron's percentile bootstrap).

use serde::{Deserialize, Serialize};

use super::samples::{mean, sorted_quantile};
use super::student::{NORMAL_QUANTILE, student_quantile};

/// Samples that are drawn for an interval.
const DRAWS: usize = 4_000;

/// The share of the draws that an interval holds.
const CONFIDENCE: f64 = 0.95;

/// A figure and how far it may be off.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The figure itself.
    pub middle: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// The geometric mean of samples and its interval; the arithmetic one with the extremes where
    /// there is a zero; `None` without samples.
    pub fn of(samples: &[f64], seed: u64) -> Option<Interval> {
        match samples {
            [] => None,
            [one] => Some(Interval { low: *one, middle: *one, high: *one }),
            many if many.iter().all(|sample| *sample > 0.0) => {
                let logs: Vec<f64> = many.iter().map(|sample| sample.ln()).collect();
                Some(paired_ratio(&logs, seed))
            }
            many => {
                let low = many.iter().copied().fold(f64::INFINITY, f64::min);
                let high = many.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                Some(Interval { low, middle: mean(many), high })
            }
        }
    }
}

/// The geometric mean of ratios, given by their logarithms, with its 95 % interval.
///
/// Few samples make the percentile interval too narrow, for two reasons, and it is widened by a
/// factor for each. Their variance is too small, by (n - 1) / n; and it is itself uncertain, for
/// which Student's quantile takes the place of the normal one. Without the second, eight pairs
/// hold the truth nine times in ten.
pub fn paired_ratio(logs: &[f64], seed: u64) -> Interval {
    let mut rng = fastrand::Rng::with_seed(seed);
    let count = logs.len();
    let draw = |_| (0..count).map(|_| logs[rng.usize(..count)]).sum::<f64>() / count as f64;
    let mut means: Vec<f64> = (0..DRAWS).map(draw).collect();
    means.sort_unstable_by(f64::total_cmp);
    let middle = mean(logs);
    let freedom = (count as f64 - 1.0).max(1.0);
    let wider = (count as f64 / freedom).sqrt() * student_quantile(freedom) / NORMAL_QUANTILE;
    let end = |q| (middle + (sorted_quantile(&means, q) - middle) * wider).exp();
    let outside = (1.0 - CONFIDENCE) / 2.0;
    Interval { low: end(outside), middle: middle.exp(), high: end(1.0 - outside) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_holds_the_truth_about_nineteen_times_in_twenty_also_of_few_samples() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut noise = || rng.f64() + rng.f64() + rng.f64() - 1.5;
        for count in [4, 6, 8, 10, 20] {
            let holds = (0..500)
                .filter(|seed| {
                    let logs: Vec<f64> = (0..count).map(|_| 0.1 + 0.1 * noise()).collect();
                    let interval = paired_ratio(&logs, *seed);
                    interval.low <= 0.1_f64.exp() && 0.1_f64.exp() <= interval.high
                })
                .count();
            assert!((463..=487).contains(&holds), "{holds} of 500 with {count}");
        }
    }

    #[test]
    fn an_interval_holds_its_figure_also_of_zeros_and_of_one_run() {
        assert_eq!(Interval::of(&[], 1), None);
        let one = Interval::of(&[3.0], 1).unwrap();
        assert_eq!((one.low, one.high), (3.0, 3.0));
        for samples in [vec![1.0, 2.0, 3.0], vec![0.0, 1.0, 5.0]] {
            let Interval { low, middle, high } = Interval::of(&samples, 1).unwrap();
            assert!(low < middle && middle < high, "{low} {middle} {high}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let logs = [0.1, 0.2, -0.1, 0.05];
        assert_eq!(paired_ratio(&logs, 3), paired_ratio(&logs, 3));
    }
}
