//! How likely a difference is by chance: if there is none, each pair could as well have come out
//! the other way round.

/// Up to so many pairs every combination of signs is tried; beyond, so many that chance picks.
const EXACT_PAIRS_MAX: usize = 14;

/// Combinations that are tried beyond that.
const FLIPS: u32 = 20_000;

/// The two-sided p-value of a mean of paired differences that would be 0 without a difference.
pub fn sign_flip_p(differences: &[f64], seed: u64) -> f64 {
    let observed = differences.iter().sum::<f64>().abs();
    // Sums that are equal but for rounding count as extreme as the observed one.
    let extreme = |sum: f64| sum.abs() >= observed * (1.0 - 1e-12);
    let flipped = |signs: u64| -> f64 {
        let sign = |at: usize| if signs >> (at % 64) & 1 == 0 { 1.0 } else { -1.0 };
        differences.iter().enumerate().map(|(at, difference)| sign(at) * difference).sum()
    };
    if differences.len() <= EXACT_PAIRS_MAX {
        let all = 1_u64 << differences.len();
        return (0..all).filter(|signs| extreme(flipped(*signs))).count() as f64 / all as f64;
    }
    let mut rng = fastrand::Rng::with_seed(seed);
    let random = |rng: &mut fastrand::Rng| -> f64 {
        let sign = |rng: &mut fastrand::Rng| if rng.bool() { 1.0 } else { -1.0 };
        differences.iter().map(|difference| sign(rng) * difference).sum()
    };
    let hits = (0..FLIPS).filter(|_| extreme(random(&mut rng))).count();
    (hits as f64 + 1.0) / (f64::from(FLIPS) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_pairs_that_all_agree_have_the_smallest_p_there_is() {
        assert_eq!(sign_flip_p(&[0.1; 10], 1), 2.0 / 1_024.0);
    }

    #[test]
    fn no_difference_has_p_of_one() {
        assert_eq!(sign_flip_p(&[0.0; 6], 1), 1.0);
        assert_eq!(sign_flip_p(&[0.1, -0.1], 1), 1.0);
    }

    #[test]
    fn many_pairs_are_judged_by_chance_and_come_out_alike() {
        let shifted: Vec<f64> = [0.3, 0.1, -0.2, 0.4, 0.2].repeat(4);
        assert!(sign_flip_p(&shifted, 1) < 0.02);
        let balanced: Vec<f64> = [0.3, -0.3, 0.1, -0.1].repeat(5);
        assert!(sign_flip_p(&balanced, 1) > 0.9);
    }
}
