//! How arrivals scatter around their rate: distances with mean 1.

use std::str::FromStr;

use crate::random::Random;

/// How arrivals scatter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// Evenly, as httperf does by default.
    #[default]
    Deterministic,
    /// As those of many independent people: exponential distances.
    Poisson,
    /// Distances between none and twice the mean, all equally likely.
    Uniform,
}

impl Spread {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Spread::Deterministic => "deterministic",
            Spread::Poisson => "poisson",
            Spread::Uniform => "uniform",
        }
    }
}

impl FromStr for Spread {
    type Err = String;

    fn from_str(text: &str) -> Result<Spread, String> {
        let all = [Spread::Deterministic, Spread::Poisson, Spread::Uniform];
        all.into_iter()
            .find(|spread| spread.name() == text)
            .ok_or_else(|| "expected deterministic, poisson or uniform".into())
    }
}

/// Distances of arrivals.
#[derive(Debug)]
pub struct Gaps {
    spread: Spread,
    random: Random,
}

impl Gaps {
    /// Those of `spread`.
    pub fn new(spread: Spread, random: Random) -> Gaps {
        Gaps { spread, random }
    }

    /// The next one, in mean distances.
    pub fn draw(&mut self) -> f64 {
        match self.spread {
            Spread::Deterministic => 1.0,
            Spread::Poisson => self.random.exponential(),
            Spread::Uniform => 2.0 * self.random.unit(),
        }
    }
}
