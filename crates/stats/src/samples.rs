//! Figures of one sample.

/// The arithmetic mean; NaN of nothing.
pub fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

/// The standard deviation of what the samples are of; `None` of fewer than two.
pub fn deviation(samples: &[f64]) -> Option<f64> {
    let middle = mean(samples);
    let squares: f64 = samples.iter().map(|sample| (sample - middle).powi(2)).sum();
    (samples.len() >= 2).then(|| (squares / (samples.len() - 1) as f64).sqrt())
}

/// The median; NaN of nothing.
pub fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

/// The quantile `q` of 0 to 1, between two samples by their distance; NaN of nothing.
pub fn quantile(samples: &[f64], q: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted_quantile(&sorted, q)
}

/// The same of samples that are sorted.
pub(super) fn sorted_quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = q.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    low + (high - low) * at.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_samples_by_their_distance() {
        let samples = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(median(&samples), 2.5);
        assert_eq!((quantile(&samples, 0.0), quantile(&samples, 1.0)), (1.0, 4.0));
        assert_eq!(quantile(&samples, 0.25), 1.75);
        assert!(median(&[]).is_nan());
        assert_eq!(mean(&samples), 2.5);
        assert_eq!(deviation(&[1.0, 3.0]), Some(2f64.sqrt()));
        assert_eq!(deviation(&samples[..1]), None);
    }
}
