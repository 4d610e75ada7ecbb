//! When sessions arrive, by an absolute clock.
//!
//! A schedule is a [`Profile`] (how the rate changes over time) and [`Gaps`] (how arrivals scatter
//! around it). An arrival is due at a time that nothing of what the server does can move: one that
//! is begun late is counted from when it was due (Schroeder, Wierman, Harchol-Balter: Open Versus
//! Closed, NSDI 2006; httperf's `rate.c`). [`Schedule::Replay`] takes the times from a log.

mod gaps;
mod profile;
mod replay;

use std::sync::Arc;
use std::time::Duration;

pub use gaps::{Gaps, Spread};
pub use profile::{Profile, Shape};
pub use replay::Replay;

use crate::random::{Purpose, Random};

/// Beginnings that are tried to find the busiest time of a schedule.
const SPANS: u32 = 256;

/// When sessions arrive.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// At a rate.
    Rate {
        /// How it changes.
        profile: Profile,
        /// How arrivals scatter.
        spread: Spread,
    },
    /// At recorded times, in nanoseconds from the start, ascending.
    Replay(Arc<[u64]>),
}

/// The arrivals of a run, in order: nanoseconds from its start.
#[derive(Debug)]
pub enum Arrivals {
    /// At a rate.
    Rate {
        /// How it changes.
        profile: Profile,
        /// Distances of arrivals, with mean 1.
        gaps: Gaps,
        /// Arrivals that a run at this rate had before the next one.
        due: f64,
    },
    /// At recorded times.
    Replay(Replay),
}

impl Schedule {
    /// Its arrivals: with the same seed the same.
    pub fn arrivals(&self, seed: u64) -> Arrivals {
        match self {
            Schedule::Rate { profile, spread } => Arrivals::Rate {
                profile: profile.clone(),
                gaps: Gaps::new(*spread, Random::new(seed, Purpose::Arrivals)),
                due: 0.0,
            },
            Schedule::Replay(times) => Arrivals::Replay(Replay::new(Arc::clone(times))),
        }
    }

    /// Arrivals that are expected in the first `time`.
    pub fn expected(&self, time: Duration) -> f64 {
        match self {
            Schedule::Rate { profile, .. } => profile.arrivals_until(time.as_secs_f64()),
            Schedule::Replay(times) => {
                times.partition_point(|&at| u128::from(at) < time.as_nanos()) as f64
            }
        }
    }

    /// The most arrivals that are expected within a `span` of the first `time`.
    pub fn most_within(&self, span: Duration, time: Duration) -> f64 {
        let within = |nth: u32| {
            let from = time * nth / SPANS;
            self.expected(time.min(from + span)) - self.expected(from)
        };
        (0..SPANS).map(within).fold(0.0, f64::max)
    }
}

impl Iterator for Arrivals {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        match self {
            Arrivals::Rate { profile, gaps, due } => {
                let at_s = profile.time_of(*due)?;
                *due += gaps.draw();
                Some((at_s * 1e9) as u64)
            }
            Arrivals::Replay(replay) => replay.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_time_of_a_schedule_is_found() {
        let second = Duration::from_secs(1);
        let spike = schedule("spike:100,1000@5s+1s", Spread::default());
        assert!((spike.most_within(second, 10 * second) - 1000.0).abs() < 20.0);
        assert!((spike.most_within(60 * second, 10 * second) - 1900.0).abs() < 1e-6);
        let times: Vec<u64> = (0..10).chain(5_000_000_000..5_000_000_030).collect();
        assert_eq!(Schedule::Replay(times.into()).most_within(second, 10 * second), 30.0);
    }

    fn schedule(rate: &str, spread: Spread) -> Schedule {
        Schedule::Rate { profile: rate.parse().unwrap(), spread }
    }

    /// Mean and deviation of the distances of the first `n` arrivals, in seconds.
    fn distances(schedule: &Schedule, n: usize) -> (f64, f64) {
        let times: Vec<u64> = schedule.arrivals(42).take(n + 1).collect();
        let distances: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]) as f64 / 1e9).collect();
        let mean = distances.iter().sum::<f64>() / n as f64;
        let squares = distances.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / n as f64;
        (mean, squares.sqrt())
    }

    #[test]
    fn arrivals_scatter_as_asked_around_the_same_rate() {
        let n = 100_000;
        let (mean, deviation) = distances(&schedule("1000", Spread::Deterministic), n);
        assert!((mean - 0.001).abs() < 1e-8 && deviation < 1e-8, "{mean} {deviation}");
        let (mean, deviation) = distances(&schedule("1000", Spread::Poisson), n);
        assert!((mean - 0.001).abs() < 0.00002, "{mean}");
        assert!((deviation / mean - 1.0).abs() < 0.02, "exponential: {deviation}");
        let (mean, deviation) = distances(&schedule("1000", Spread::Uniform), n);
        assert!((mean - 0.001).abs() < 0.00002, "{mean}");
        // A uniform distribution of 0..2 has a deviation of 1/sqrt(3).
        assert!((deviation / mean * 3f64.sqrt() - 1.0).abs() < 0.02, "uniform: {deviation}");
    }

    #[test]
    fn poisson_arrivals_in_a_second_vary_by_the_root_of_their_number() {
        let mut counts = vec![0f64; 2000];
        for at in schedule("100", Spread::Poisson).arrivals(3) {
            let Some(count) = counts.get_mut((at / 1_000_000_000) as usize) else { break };
            *count += 1.0;
        }
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        let variance = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / counts.len() as f64;
        assert!((mean - 100.0).abs() < 1.0, "{mean}");
        assert!((variance / mean - 1.0).abs() < 0.15, "{variance}");
    }

    #[test]
    fn a_seed_repeats_its_arrivals_and_others_do_not() {
        let schedule = schedule("1000", Spread::Poisson);
        let times = |seed| schedule.arrivals(seed).take(100).collect::<Vec<_>>();
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
    }

    #[test]
    fn what_is_expected_is_what_arrives() {
        let time = Duration::from_secs(20);
        for rate in [
            "500",
            "steps:100x5s,900x5s",
            "ramp:0..1000/20s",
            "sine:500~400/4s",
            "spike:100,2000@3s+1s",
        ] {
            let schedule = schedule(rate, Spread::Poisson);
            let arrived = schedule.arrivals(9).take_while(|at| *at < 20_000_000_000).count() as f64;
            let expected = schedule.expected(time);
            assert!((arrived / expected - 1.0).abs() < 0.04, "{rate}: {arrived} of {expected}");
        }
    }
}
