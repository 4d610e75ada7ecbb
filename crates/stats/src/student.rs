//! Student's distribution: what is certain by few samples is less than by many.

/// Where the normal distribution leaves a fortieth above.
pub(super) const NORMAL_QUANTILE: f64 = 1.959_964;

/// The same of Student's with one degree of freedom and with two, where its expansion is off by
/// 11 and 1 %.
const FIRST: [f64; 2] = [12.706, 4.303];

/// The quantile of Student's distribution with so many degrees of freedom that leaves a fortieth
/// above, by its expansion in them (Abramowitz and Stegun 26.7.5): right to three digits.
pub fn student_quantile(freedom: f64) -> f64 {
    for (nth, quantile) in FIRST.into_iter().enumerate() {
        if freedom < nth as f64 + 1.5 {
            return quantile;
        }
    }
    let z = NORMAL_QUANTILE;
    let power = |n| z.powi(n);
    let terms = [
        z,
        (power(3) + z) / 4.0,
        (5.0 * power(5) + 16.0 * power(3) + 3.0 * z) / 96.0,
        (3.0 * power(7) + 19.0 * power(5) + 17.0 * power(3) - 15.0 * z) / 384.0,
        (79.0 * power(9) + 776.0 * power(7) + 1_482.0 * power(5) - 1_920.0 * power(3) - 945.0 * z)
            / 92_160.0,
    ];
    terms.iter().rev().fold(0.0, |sum, term| sum / freedom + term)
}

/// The ratio, above 1, that chance alone reaches once in twenty times between the means of so many
/// pairs, whose logarithms have this standard deviation each, as so many runs have shown it.
pub fn noise_floor(deviation: f64, runs: usize, pairs: usize) -> f64 {
    let of_pair = deviation * 2f64.sqrt();
    let quantile = student_quantile(runs.saturating_sub(1) as f64);
    (quantile * of_pair / (pairs.max(1) as f64).sqrt()).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_what_tables_have() {
        let tables = [(1.0, 12.706), (2.0, 4.303), (3.0, 3.182), (5.0, 2.571), (7.0, 2.365)];
        for (freedom, table) in tables.into_iter().chain([(30.0, 2.042)]) {
            let quantile = student_quantile(freedom);
            assert!((quantile - table).abs() < 0.005, "{quantile} beside {table}");
        }
    }

    #[test]
    fn a_floor_falls_with_more_pairs_and_with_more_runs_that_show_it() {
        assert!((noise_floor(0.01, 6, 8) - (2.571_f64 * 0.01 / 2.0).exp()).abs() < 1e-5);
        assert!(noise_floor(0.01, 6, 2) > noise_floor(0.01, 6, 8));
        assert!(noise_floor(0.01, 2, 8) > noise_floor(0.01, 6, 8));
    }
}
