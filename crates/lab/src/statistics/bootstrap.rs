//! Intervals by drawing again from what was measured (Efron's percentile bootstrap).

use serde::{Deserialize, Serialize};

use super::samples::{mean, sorted_quantile};

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

/// The geometric mean of ratios, given by their logarithms, with its 95 % interval.
///
/// Few samples make the percentile interval too narrow; it is widened by the factor that makes the
/// variance of a small sample unbiased.
pub fn paired_ratio(logs: &[f64], seed: u64) -> Interval {
    let mut rng = fastrand::Rng::with_seed(seed);
    let count = logs.len();
    let draw = |_| (0..count).map(|_| logs[rng.usize(..count)]).sum::<f64>() / count as f64;
    let mut means: Vec<f64> = (0..DRAWS).map(draw).collect();
    means.sort_unstable_by(f64::total_cmp);
    let middle = mean(logs);
    let wider = (count as f64 / (count as f64 - 1.0).max(1.0)).sqrt();
    let end = |q| (middle + (sorted_quantile(&means, q) - middle) * wider).exp();
    let outside = (1.0 - CONFIDENCE) / 2.0;
    Interval { low: end(outside), middle: middle.exp(), high: end(1.0 - outside) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_holds_the_truth_about_nineteen_times_in_twenty() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut noise = || rng.f64() + rng.f64() + rng.f64() - 1.5;
        let holds = (0..500)
            .filter(|seed| {
                let logs: Vec<f64> = (0..10).map(|_| 0.1 + 0.1 * noise()).collect();
                let interval = paired_ratio(&logs, *seed);
                interval.low <= 0.1_f64.exp() && 0.1_f64.exp() <= interval.high
            })
            .count();
        assert!((450..=492).contains(&holds), "{holds} of 500");
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let logs = [0.1, 0.2, -0.1, 0.05];
        assert_eq!(paired_ratio(&logs, 3), paired_ratio(&logs, 3));
    }
}
