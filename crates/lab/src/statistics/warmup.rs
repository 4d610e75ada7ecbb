//! Where a run's warm-up ends: the cut that leaves the mean of the rest known best (the marginal
//! standard error rule of White 1997), which needs no threshold of ours.

use super::samples::mean;

/// A cut beyond this share of a run means that it never became steady.
const CUT_MAX: f64 = 0.5;

/// How many of the first samples, taken at equal distances, are warm-up; `None` when the run never
/// became steady.
pub fn warm_up_len(samples: &[f64]) -> Option<usize> {
    let most = (samples.len() as f64 * CUT_MAX) as usize;
    let error = |cut: usize| {
        let rest = &samples[cut..];
        let middle = mean(rest);
        rest.iter().map(|sample| (sample - middle).powi(2)).sum::<f64>()
            / (rest.len() as f64).powi(2)
    };
    let best = (0..=most.min(samples.len().checked_sub(1)?))
        .min_by(|a, b| error(*a).total_cmp(&error(*b)))?;
    (best < most || most == 0).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_start_is_cut_off_and_a_steady_run_is_left() {
        let mut samples = vec![10.0, 40.0, 80.0];
        samples.extend([100.0, 101.0, 99.0, 100.0, 102.0, 98.0, 100.0, 100.0, 99.0, 101.0]);
        assert_eq!(warm_up_len(&samples), Some(3));
        assert_eq!(warm_up_len(&samples[3..]), Some(0));
    }

    #[test]
    fn a_run_that_rises_to_its_end_never_became_steady() {
        let samples: Vec<f64> = (0..20).map(f64::from).collect();
        assert_eq!(warm_up_len(&samples), None);
        assert_eq!(warm_up_len(&[]), None);
    }
}
