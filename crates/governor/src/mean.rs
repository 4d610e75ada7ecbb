//! How long something takes in the mean of late.

use crate::Ns;

/// The ratio of two sums of which the past fades alike: time by number. A sample of many weighs as
/// many, and some `SAMPLES` samples count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mean<const SAMPLES: u32> {
    ns: f64,
    n: f64,
}

impl<const SAMPLES: u32> Mean<SAMPLES> {
    /// What is kept of the past with each sample.
    const KEPT: f64 = 1.0 - 1.0 / SAMPLES as f64;

    /// So many took so long together; none is no sample.
    pub(crate) fn add(&mut self, ns: Ns, n: u32) {
        if n > 0 {
            self.ns = self.ns * Self::KEPT + ns as f64;
            self.n = self.n * Self::KEPT + f64::from(n);
        }
    }

    /// How long one takes, in nanoseconds, at least 1; `None` before the first sample.
    pub(crate) fn ns(&self) -> Option<Ns> {
        (self.n > 0.0).then(|| ((self.ns / self.n) as Ns).max(1))
    }

    /// How many are done in that time; `None` before the first sample.
    pub(crate) fn in_time(&self, time: Ns) -> Option<u32> {
        // Beyond the largest number it is that.
        (self.n > 0.0).then(|| (time as f64 * self.n / self.ns.max(1.0)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_by_number_and_forgets() {
        let mut mean = Mean::<32>::default();
        assert_eq!(mean.ns(), None);
        for _ in 0..400 {
            mean.add(90 * 50, 90);
            mean.add(10 * 950, 10);
        }
        let first = mean.ns().unwrap();
        assert!((130..=150).contains(&first), "{first}");
        mean.add(7_000, 0);
        assert_eq!(mean.ns(), Some(first));
        for _ in 0..400 {
            mean.add(5_000_000, 1);
        }
        assert!((4_900_000..=5_000_000).contains(&mean.ns().unwrap()), "{mean:?}");
    }

    #[test]
    fn no_time_at_all_is_a_nanosecond_and_all_the_time_is_a_number() {
        let mut mean = Mean::<32>::default();
        mean.add(0, u32::MAX);
        assert_eq!(mean.ns(), Some(1));
        for _ in 0..1_000 {
            mean.add(Ns::MAX, 1);
        }
        assert!(mean.ns().is_some_and(|ns| ns > Ns::MAX / 2));
    }
}
