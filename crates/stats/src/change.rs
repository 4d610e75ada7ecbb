//! Whether a run was on one level while it was measured, or still filled its caches.

/// Shuffles by which it is told whether a change is one.
const SHUFFLES: u32 = 999;

/// How likely a change as large may be among the shuffled ones: of many runs few are told for
/// nothing.
const CHANGE_P_MAX: f64 = 0.01;

/// The fewest values on either side of a change.
const SIDE_MIN: usize = 2;

/// A change of level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// How many values are before it.
    pub at: usize,
    /// The mean after it by the mean before it; infinite after nothing.
    pub ratio: f64,
}

/// Where the level of a series changes, if it does: where the means on both sides differ most for
/// their lengths, if shuffled values hardly ever differ as much. Values that follow each other more
/// closely than shuffled ones change more often than that. The seed decides the shuffles.
pub fn change_point(series: &[f64], seed: u64) -> Option<Change> {
    let (at, observed) = largest(series)?;
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut shuffled = series.to_vec();
    let as_large = (0..SHUFFLES).filter(|_| {
        rng.shuffle(&mut shuffled);
        largest(&shuffled).is_some_and(|(_, difference)| difference >= observed)
    });
    let p = (as_large.count() as f64 + 1.0) / (f64::from(SHUFFLES) + 1.0);
    let (before, after) = series.split_at(at);
    let ratio = super::mean(after) / super::mean(before);
    (p <= CHANGE_P_MAX && !ratio.is_nan()).then_some(Change { at, ratio })
}

/// The split with the largest difference of means, weighted by the lengths of both sides, and that
/// difference.
fn largest(series: &[f64]) -> Option<(usize, f64)> {
    let (sum, len) = (series.iter().sum::<f64>(), series.len());
    let mut before = series.iter().take(SIDE_MIN - 1).sum::<f64>();
    let splits = (SIDE_MIN..(len + 1).saturating_sub(SIDE_MIN)).map(|at| {
        before += series[at - 1];
        let (left, right) = (at as f64, (len - at) as f64);
        let difference = (before / left - (sum - before) / right).abs();
        (at, difference * (left * right / len as f64).sqrt())
    });
    splits.max_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thirty seconds of this many replies, with a little noise.
    fn level(replies: f64, rng: &mut fastrand::Rng) -> f64 {
        replies * (0.95 + 0.1 * rng.f64())
    }

    #[test]
    fn a_cache_that_still_fills_is_seen_where_it_is_full() {
        let mut rng = fastrand::Rng::with_seed(3);
        let series: Vec<f64> = (0..30)
            .map(|second| level(if second < 8 { 700.0 } else { 1_000.0 }, &mut rng))
            .collect();
        let change = change_point(&series, 1).expect("it changes");
        assert_eq!(change.at, 8);
        assert!((1.35..1.5).contains(&change.ratio), "{change:?}");
    }

    #[test]
    fn noise_is_hardly_ever_a_change() {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut changes = 0;
        for seed in 0..100 {
            let series: Vec<f64> = (0..30).map(|_| level(1_000.0, &mut rng)).collect();
            changes += u32::from(change_point(&series, seed).is_some());
        }
        assert!(changes <= 4, "{changes} of 100");
    }

    #[test]
    fn a_series_that_is_too_short_or_constant_does_not_change() {
        assert_eq!(change_point(&[1.0, 2.0, 3.0], 1), None);
        assert_eq!(change_point(&[7.0; 30], 1), None);
        assert_eq!(change_point(&[0.0; 30], 1), None);
    }
}
