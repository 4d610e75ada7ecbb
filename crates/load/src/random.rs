//! Seeded randomness: the same seed makes the same arrivals and the same requests.

/// A generator of pseudo-random numbers (wyrand).
#[derive(Clone, Debug)]
pub struct Random(fastrand::Rng);

impl Random {
    /// The generator of `purpose` in a run with `seed`: arrivals and choices of requests must not
    /// share one, or a change of the one changes the other.
    pub fn new(seed: u64, purpose: Purpose) -> Random {
        // Seeds that differ in one bit make generators that have nothing in common.
        let mixed = fastrand::Rng::with_seed(seed ^ (purpose as u64) << 56).u64(..);
        Random(fastrand::Rng::with_seed(mixed))
    }

    /// Uniform in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        self.0.f64()
    }

    /// Uniform in `0..n`.
    ///
    /// # Panics
    /// When `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        self.0.usize(..n)
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Normally distributed with mean 0 and standard deviation 1 (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let (radius, angle) = (2.0 * self.exponential(), std::f64::consts::TAU * self.unit());
        radius.sqrt() * angle.cos()
    }

    /// Puts `items` into an order of chance.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        self.0.shuffle(items);
    }

    /// Exponentially distributed with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }
}

/// What random numbers are used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// When sessions arrive.
    Arrivals = 1,
    /// What they ask for.
    Requests = 2,
    /// Which requests are conditional.
    Conditions = 3,
    /// Which files a set has.
    Files = 4,
    /// Which of them are popular.
    Popularity = 5,
    /// How long clients pause.
    OffPeriods = 6,
    /// Which users and ads dynamic requests name.
    Dynamic = 7,
    /// How long clients think.
    Thinking = 8,
    /// How long clients wait before they try again.
    BackingOff = 9,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_purposes_differ() {
        let draw = |seed, purpose| Random::new(seed, purpose).unit();
        assert_eq!(draw(7, Purpose::Arrivals).to_bits(), draw(7, Purpose::Arrivals).to_bits());
        assert_ne!(draw(7, Purpose::Arrivals).to_bits(), draw(7, Purpose::Requests).to_bits());
        assert_ne!(draw(7, Purpose::Arrivals).to_bits(), draw(8, Purpose::Arrivals).to_bits());
    }

    #[test]
    fn exponential_numbers_have_mean_and_deviation_one() {
        let mut random = Random::new(1, Purpose::Arrivals);
        let n = 200_000;
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..n {
            let x = random.exponential();
            sum += x;
            squares += x * x;
        }
        let mean = sum / f64::from(n);
        let deviation = (squares / f64::from(n) - mean * mean).sqrt();
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        assert!((deviation - 1.0).abs() < 0.02, "{deviation}");
    }
}
