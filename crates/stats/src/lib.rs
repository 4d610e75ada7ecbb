//! What can be said of samples, and how sure it is.
//!
//! Two contestants are compared by pairs: a run of each within one block, so that whatever drifts
//! on the machine drifts under both. The ratio's interval comes from the bootstrap, its
//! significance from flipping signs, and where a figure has many points Holm's rule keeps the
//! chance of any false difference at the level that was asked for.

#![forbid(unsafe_code)]

mod bootstrap;
mod change;
mod holm;
mod samples;
mod signs;
mod student;

pub use bootstrap::{Interval, paired_ratio};
pub use change::{Change, change_point};
pub use holm::holm;
pub use samples::{deviation, mean, median, quantile};
pub use signs::sign_flip_p;
pub use student::{noise_floor, student_quantile};

/// A difference is told when its p-value, corrected for the number of comparisons, is at most this.
pub const SIGNIFICANT_P_MAX: f64 = 0.05;

/// Two things are called equal when the whole interval of their ratio is within this of 1, unless
/// something else is said.
pub const EQUIVALENCE_MARGIN: f64 = 0.03;

/// What a comparison of pairs says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The left is larger.
    Greater,
    /// The left is smaller.
    Less,
    /// The ratio is within the margin of 1, and that is certain.
    Equal,
    /// There is no telling: too few runs, or too noisy ones.
    Unclear,
}

/// The left of each pair beside the right of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Left by right: the geometric mean over the pairs, and its 95 % interval.
    pub ratio: Interval,
    /// How likely pairs as different as these are when there is no difference.
    pub p: f64,
    /// How many pairs there were.
    pub pairs: usize,
    /// How far from 1 counts as equal.
    pub margin: f64,
}

impl Comparison {
    /// Compares pairs of positive figures; `None` without two of them. The seed decides what the
    /// bootstrap draws, so that a report can be made again to the last digit.
    pub fn of(pairs: &[(f64, f64)], seed: u64) -> Option<Comparison> {
        let usable = |(left, right): &&(f64, f64)| {
            left.is_finite() && right.is_finite() && *left > 0.0 && *right > 0.0
        };
        let logs: Vec<f64> =
            pairs.iter().filter(usable).map(|(left, right)| (left / right).ln()).collect();
        if logs.len() < 2 {
            return None;
        }
        Some(Comparison {
            ratio: paired_ratio(&logs, seed),
            p: sign_flip_p(&logs, seed),
            pairs: logs.len(),
            margin: EQUIVALENCE_MARGIN,
        })
    }

    /// The same with another margin.
    pub fn within(self, margin: f64) -> Comparison {
        Comparison { margin, ..self }
    }

    /// True when the whole interval is within the margin of 1, whether or not a difference within
    /// it is certain.
    pub fn is_equal(&self) -> bool {
        let Interval { low, high, .. } = self.ratio;
        low >= 1.0 - self.margin && high <= 1.0 + self.margin
    }

    /// True when the whole interval is farther from 1 than the margin, on one side of it.
    pub fn is_beyond_margin(&self) -> bool {
        let Interval { low, high, .. } = self.ratio;
        low > 1.0 + self.margin || high < 1.0 - self.margin
    }

    /// True when the whole interval is above 1, or below it within the margin.
    pub fn is_at_least(&self) -> bool {
        self.ratio.low >= 1.0 - self.margin
    }

    /// What it says at this p-value, which may have been corrected.
    pub fn finding(&self, p: f64) -> Finding {
        let Interval { low, high, .. } = self.ratio;
        if p <= SIGNIFICANT_P_MAX && low > 1.0 {
            Finding::Greater
        } else if p <= SIGNIFICANT_P_MAX && high < 1.0 {
            Finding::Less
        } else if self.is_equal() {
            Finding::Equal
        } else {
            Finding::Unclear
        }
    }
}

/// The fewest pairs by which a difference can be certain when so many claims are judged together:
/// flipping signs gives no p-value below 2 in 2 to the power of the pairs, and Holm's rule divides
/// the level by the claims.
pub fn pairs_needed(claims: usize) -> usize {
    let level = SIGNIFICANT_P_MAX / claims.max(1) as f64;
    (2..).find(|pairs| 2.0 / 2f64.powi(*pairs as i32) <= level).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_claims_need_more_pairs() {
        assert_eq!([1, 2, 4, 6, 7].map(pairs_needed), [6, 7, 8, 8, 9]);
        let alike = [(2.0, 1.0); 6];
        let comparison = Comparison::of(&alike, 1).unwrap();
        assert!(comparison.p <= SIGNIFICANT_P_MAX);
        assert!(Comparison::of(&alike[..5], 1).unwrap().p > SIGNIFICANT_P_MAX);
    }

    /// Pairs of figures around 1,000 whose left is `ratio` times the right, with this much noise.
    fn pairs(ratio: f64, noise: f64, count: usize, seed: u64) -> Vec<(f64, f64)> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut draw = || 1_000.0 * (1.0 + noise * (rng.f64() + rng.f64() + rng.f64() - 1.5));
        (0..count).map(|_| (ratio * draw(), draw())).collect()
    }

    #[test]
    fn a_planted_slowdown_of_five_percent_is_found() {
        let found = (0..40)
            .filter_map(|seed| Comparison::of(&pairs(0.95, 0.03, 10, seed), seed))
            .filter(|comparison| comparison.finding(comparison.p) == Finding::Less)
            .count();
        assert!(found >= 36, "{found} of 40");
    }

    #[test]
    fn two_copies_of_one_thing_rarely_differ() {
        let differ = (0..400)
            .filter_map(|seed| Comparison::of(&pairs(1.0, 0.05, 10, seed), seed))
            .filter(|comparison| {
                matches!(comparison.finding(comparison.p), Finding::Greater | Finding::Less)
            })
            .count();
        assert!(differ <= 28, "{differ} of 400, where 20 are to be expected");
    }

    #[test]
    fn equal_is_only_what_is_certainly_within_the_margin() {
        let quiet = Comparison::of(&pairs(1.0, 0.005, 10, 1), 1).unwrap();
        assert_eq!(quiet.finding(0.5), Finding::Equal);
        let noisy = Comparison::of(&pairs(1.0, 0.3, 10, 1), 1).unwrap();
        assert_eq!(noisy.finding(0.5), Finding::Unclear);
    }

    #[test]
    fn one_pair_or_figures_that_are_not_positive_compare_to_nothing() {
        assert_eq!(Comparison::of(&[(1.0, 2.0)], 1), None);
        assert_eq!(Comparison::of(&[(1.0, 0.0), (f64::NAN, 1.0), (2.0, 1.0)], 1), None);
    }
}
