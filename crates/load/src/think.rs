//! How long a client thinks between a reply and its next request.

use std::str::FromStr;
use std::time::Duration;

use crate::random::Random;
use crate::units::parse_duration;

/// How long clients think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Think {
    /// All as long.
    Always(Duration),
    /// As many independent people do: an exponential distribution with this mean.
    Exponential(Duration),
    /// Every time from the one to the other is equally likely.
    Uniform(Duration, Duration),
}

impl Default for Think {
    /// Not at all.
    fn default() -> Think {
        Think::Always(Duration::ZERO)
    }
}

impl Think {
    /// The mean.
    pub fn mean(self) -> Duration {
        match self {
            Think::Always(time) | Think::Exponential(time) => time,
            Think::Uniform(least, most) => least + most.saturating_sub(least) / 2,
        }
    }

    /// The next time, in nanoseconds.
    pub(crate) fn draw_ns(self, random: &mut Random) -> u64 {
        let time = match self {
            Think::Always(time) => time,
            Think::Exponential(mean) => mean.mul_f64(random.exponential()),
            Think::Uniform(least, most) => {
                least + most.saturating_sub(least).mul_f64(random.unit())
            }
        };
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl FromStr for Think {
    type Err = String;

    fn from_str(text: &str) -> Result<Think, String> {
        let think = match text.split_once(':') {
            None => Think::Always(time(text)?),
            Some(("exp", mean)) => Think::Exponential(time(mean)?),
            Some(("uniform", range)) => {
                let (least, most) = range.split_once("..").ok_or(EXPECTED)?;
                let (least, most) = (time(least)?, time(most)?);
                if least > most {
                    return Err(format!("{text}: the first time is the shorter one"));
                }
                Think::Uniform(least, most)
            }
            Some(_) => return Err(EXPECTED.into()),
        };
        Ok(think)
    }
}

/// A time up to [`THINK_MAX`].
fn time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|_| EXPECTED)?;
    if time > THINK_MAX { Err("a think time is at most a day".into()) } else { Ok(time) }
}

/// The longest think time, or the longest mean of them.
const THINK_MAX: Duration = Duration::from_secs(86_400);

const EXPECTED: &str = "expected a time such as 200ms, or exp:200ms or uniform:100ms..300ms";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    #[test]
    fn times_are_as_long_as_was_asked_for() {
        let mut random = Random::new(1, Purpose::Thinking);
        for (text, least_ms, mean_ms, most_ms) in [
            ("200ms", 200.0, 200.0, 200.0),
            ("exp:200ms", 0.0, 200.0, 7_400.0),
            ("uniform:100ms..300ms", 100.0, 200.0, 300.0),
        ] {
            let think: Think = text.parse().unwrap();
            assert_eq!(think.mean(), Duration::from_millis(200));
            let times: Vec<f64> =
                (0..50_000).map(|_| think.draw_ns(&mut random) as f64 / 1e6).collect();
            assert!(times.iter().all(|ms| (least_ms..=most_ms).contains(ms)), "{text}");
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            assert!((mean / mean_ms - 1.0).abs() < 0.02, "{text}: {mean}");
            let short = times.iter().filter(|ms| **ms < 150.0).count() as f64 / 50_000.0;
            let expected = match think {
                Think::Always(_) => 0.0,
                Think::Exponential(_) => 1.0 - (-0.75f64).exp(),
                Think::Uniform(..) => 0.25,
            };
            assert!((short - expected).abs() < 0.01, "{text}: {short}");
        }
    }

    #[test]
    fn what_is_no_think_time_is_refused() {
        for text in ["", "exp", "exp:", "pareto:1s", "uniform:1s", "uniform:2s..1s", "2d", "25h"] {
            assert!(text.parse::<Think>().is_err(), "{text}");
        }
    }
}
