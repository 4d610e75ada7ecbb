//! Clients: when they come, how long they wait, what they do then.

use fastrand::Rng;
use flyball_governor::Ns;

pub(crate) const MS: Ns = 1_000_000;
pub(crate) const S: Ns = 1_000_000_000;

/// When a SYN, or the data of a connection that is deferred, is sent again after it was dropped.
const SYN_AGAIN: [Ns; 7] = [S, S, S, S, 2 * S, 4 * S, 8 * S];
const DATA_AGAIN: [Ns; 7] =
    [200 * MS, 400 * MS, 800 * MS, 1_600 * MS, 3_200 * MS, 6_400 * MS, 12_800 * MS];

/// How long after the `tries`th time it is sent again; `None` when it is given up.
pub(crate) fn again_after(deferred: bool, tries: u8) -> Option<Ns> {
    let after = if deferred { &DATA_AGAIN } else { &SYN_AGAIN };
    after.get(usize::from(tries)).copied()
}

/// How many requests come, by what the server can.
#[derive(Clone, Debug)]
pub(crate) enum Load {
    /// So many times what it can.
    Steady(f64),
    /// The first, and from then to then, in seconds, the second.
    Spike(f64, f64, f64, f64),
    /// Around the first by the second, with this period in seconds.
    Sine(f64, f64, f64),
    /// Each for so many seconds, in turn.
    Steps(&'static [f64], f64),
    /// Between the two, each for so long in the mean (a Markov-modulated Poisson process).
    Bursts(f64, f64, f64),
    /// So many clients of which each thinks for so many milliseconds after an answer.
    Closed(u32, f64),
}

impl Load {
    /// The most that it reaches.
    pub(crate) fn most(&self) -> f64 {
        match self {
            Load::Steady(x) => *x,
            Load::Spike(base, most, ..) | Load::Bursts(base, most, _) => base.max(*most),
            Load::Sine(middle, by, _) => middle + by,
            Load::Steps(steps, _) => steps.iter().copied().fold(0.0, f64::max),
            Load::Closed(..) => 0.0,
        }
    }

    /// What it is then.
    pub(crate) fn at(&self, now: Ns, bursting: bool) -> f64 {
        let s = now as f64 / 1e9;
        match self {
            Load::Steady(x) => *x,
            Load::Spike(base, most, from, to) => {
                if (*from..*to).contains(&s) {
                    *most
                } else {
                    *base
                }
            }
            Load::Sine(middle, by, period) => {
                middle + by * (s / period * std::f64::consts::TAU).sin()
            }
            Load::Steps(steps, each) => steps[(s / each) as usize % steps.len()],
            Load::Bursts(low, high, _) => {
                if bursting {
                    *high
                } else {
                    *low
                }
            }
            Load::Closed(..) => 0.0,
        }
    }
}

/// What clients are like.
#[derive(Clone, Debug)]
pub(crate) struct Clients {
    /// How long one waits for an answer before it goes.
    pub(crate) patience: Ns,
    /// How often it tries again then.
    pub(crate) retries: u8,
    /// Whether it waits before, twice as long each time.
    pub(crate) backs_off: bool,
    /// Whether it waits for as long as `Retry-After` says.
    pub(crate) honours: bool,
    /// Requests of a connection in the mean.
    pub(crate) requests: f64,
    /// Time between them in the mean.
    pub(crate) thinks: Ns,
    /// The share that closes its half with the request, and waits.
    pub(crate) half_closers: f64,
    /// Connections a second, by requests, that say nothing and stay.
    pub(crate) silent: f64,
}

impl Default for Clients {
    fn default() -> Clients {
        Clients {
            patience: 2 * S,
            retries: 0,
            backs_off: false,
            honours: true,
            requests: 1.0,
            thinks: 500 * MS,
            half_closers: 0.0,
            silent: 0.0,
        }
    }
}

/// How long work takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spread {
    /// Always the same.
    Fixed,
    /// Exponentially distributed.
    Exponential,
    /// 95 of 100 a twentieth of what the others take.
    Bimodal,
    /// Pareto with exponent 1.5, cut at a hundred means.
    Pareto,
}

impl Spread {
    pub(crate) fn draw(self, mean: Ns, rng: &mut Rng) -> Ns {
        let mean = mean as f64;
        let drawn = match self {
            Spread::Fixed => mean,
            Spread::Exponential => exponential(mean, rng),
            Spread::Bimodal => {
                let small = mean / (0.95 + 0.05 * 20.0);
                if rng.f64() < 0.95 { small } else { 20.0 * small }
            }
            // The mean of those that are not cut is three times the least.
            Spread::Pareto => (mean / 2.8 * (1.0 - rng.f64()).powf(-1.0 / 1.5)).min(100.0 * mean),
        };
        drawn as Ns
    }
}

pub(crate) fn exponential(mean: f64, rng: &mut Rng) -> f64 {
    -(1.0 - rng.f64()).ln() * mean
}
