//! How the rate of arrivals changes over time.
//!
//! A profile is pieces of time in which the rate is a straight line or a sine. The n-th arrival is
//! due when the integral of the rate reaches n, so that every profile has exactly as many arrivals
//! as it says, however they scatter.

use std::f64::consts::TAU;
use std::str::FromStr;

use crate::units::{parse_duration, parse_rate};

/// The rate within one piece, in arrivals per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// From the first rate to the second.
    Line(f64, f64),
    /// Around `mean`, by `swing` up and down, once in `period_s`.
    Sine {
        /// The rate in the middle.
        mean: f64,
        /// How far it goes up and down.
        swing: f64,
        /// Seconds from one peak to the next.
        period_s: f64,
    },
}

impl Shape {
    /// Arrivals in the first `t` seconds of a piece of `length` seconds.
    fn arrivals(self, t: f64, length: f64) -> f64 {
        match self {
            Shape::Line(from, to) if length.is_finite() => {
                from * t + (to - from) * t * t / (2.0 * length)
            }
            Shape::Line(from, _) => from * t,
            Shape::Sine { mean, swing, period_s } => {
                let turn = TAU / period_s;
                mean * t + swing / turn * (1.0 - (turn * t).cos())
            }
        }
    }

    fn highest(self) -> f64 {
        match self {
            Shape::Line(from, to) => from.max(to),
            Shape::Sine { mean, swing, .. } => mean + swing,
        }
    }
}

/// How the rate changes; the last piece has no end.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    text: String,
    /// Start of the piece in seconds and in arrivals, its length in seconds, its shape.
    pieces: Vec<Piece>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Piece {
    start_s: f64,
    arrived: f64,
    length_s: f64,
    shape: Shape,
}

/// Steps of the search for the time of an arrival: halves an interval of an hour to below 1 ns.
const SEARCH_STEPS: u32 = 64;

impl Profile {
    /// The same rate all the time, in arrivals per second.
    pub fn constant(per_s: f64) -> Profile {
        Profile::new(&format!("{per_s}"), &[(f64::INFINITY, Shape::Line(per_s, per_s))])
    }

    /// Pieces with their lengths in seconds, one after the other.
    fn new(text: &str, parts: &[(f64, Shape)]) -> Profile {
        let (mut start_s, mut arrived) = (0.0, 0.0);
        let mut pieces = Vec::new();
        for &(length_s, shape) in parts {
            pieces.push(Piece { start_s, arrived, length_s, shape });
            start_s += length_s;
            arrived += shape.arrivals(length_s, length_s);
        }
        Profile { text: text.into(), pieces }
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Arrivals in the first `s` seconds.
    pub fn arrivals_until(&self, s: f64) -> f64 {
        let at = self.pieces.partition_point(|piece| piece.start_s <= s).max(1) - 1;
        let piece = &self.pieces[at];
        piece.arrived + piece.shape.arrivals(s - piece.start_s, piece.length_s)
    }

    /// The highest rate that there ever is.
    pub fn highest_per_s(&self) -> f64 {
        self.pieces.iter().map(|piece| piece.shape.highest()).fold(0.0, f64::max)
    }

    /// Seconds after which the rate goes on as it is, or as a sine.
    pub fn changes_until_s(&self) -> f64 {
        self.pieces.last().map_or(0.0, |last| last.start_s)
    }

    /// Seconds after which `arrivals` have arrived; `None` when that never happens.
    pub fn time_of(&self, arrivals: f64) -> Option<f64> {
        let at = self.pieces.partition_point(|piece| piece.arrived <= arrivals).max(1) - 1;
        let piece = &self.pieces[at];
        let wanted = arrivals - piece.arrived;
        let within = match piece.shape {
            Shape::Line(from, to) if from == to => (from > 0.0).then(|| wanted / from)?,
            shape => {
                let arrived = |t| shape.arrivals(t, piece.length_s);
                search(arrived, wanted, piece.length_s)?
            }
        };
        Some(piece.start_s + within)
    }
}

/// The time at which what has `arrived`, which never falls, reaches `wanted`.
fn search(arrived: impl Fn(f64) -> f64, wanted: f64, length_s: f64) -> Option<f64> {
    let mut high = if length_s.is_finite() { length_s } else { 1.0 };
    while arrived(high) < wanted {
        high *= 2.0;
        if high > 1e9 {
            return None;
        }
    }
    let mut low = 0.0;
    for _ in 0..SEARCH_STEPS {
        let middle = (low + high) / 2.0;
        if arrived(middle) < wanted {
            low = middle
        } else {
            high = middle
        }
        if high - low < 1e-10 {
            break;
        }
    }
    Some(high)
}

impl FromStr for Profile {
    type Err = String;

    /// `1000`, `steps:100x5s,200x5s`, `ramp:100..1000/10s`, `sine:500~400/60s`,
    /// `spike:100,1000@5s+1s`.
    fn from_str(text: &str) -> Result<Profile, String> {
        let (kind, rest) = text.split_once(':').unwrap_or(("", text));
        let parts = match kind {
            "" => {
                let rate = parse_rate(text).map_err(|_| EXPECTED)?;
                vec![(f64::INFINITY, Shape::Line(rate, rate))]
            }
            "steps" => steps(rest)?,
            "ramp" => ramp(rest)?,
            "sine" => sine(rest)?,
            "spike" => spike(rest)?,
            _ => return Err(EXPECTED.into()),
        };
        let profile = Profile::new(text, &parts);
        if profile.highest_per_s() > 0.0 {
            Ok(profile)
        } else {
            Err("a rate of 0 sends nothing".into())
        }
    }
}

const EXPECTED: &str = "expected a rate such as 1000, steps:100x5s,200x5s, ramp:100..1000/10s, \
                        sine:500~400/60s or spike:100,1000@5s+1s";

fn two<'a>(text: &'a str, by: &str) -> Result<(&'a str, &'a str), String> {
    text.split_once(by).ok_or_else(|| EXPECTED.into())
}

fn seconds(text: &str) -> Result<f64, String> {
    let duration = parse_duration(text)?.as_secs_f64();
    if duration > 0.0 { Ok(duration) } else { Err("a time of 0 is too short".into()) }
}

/// Each rate for its time; the last one stays.
fn steps(text: &str) -> Result<Vec<(f64, Shape)>, String> {
    let mut parts = Vec::new();
    for step in text.split(',') {
        let (rate, time) = two(step, "x")?;
        let rate = parse_rate(rate)?;
        parts.push((seconds(time)?, Shape::Line(rate, rate)));
    }
    if let Some(last) = parts.last_mut() {
        last.0 = f64::INFINITY;
    }
    Ok(parts)
}

/// From one rate to the other in a time; the second one stays.
fn ramp(text: &str) -> Result<Vec<(f64, Shape)>, String> {
    let (rates, time) = two(text, "/")?;
    let (from, to) = two(rates, "..")?;
    let (from, to) = (parse_rate(from)?, parse_rate(to)?);
    Ok(vec![(seconds(time)?, Shape::Line(from, to)), (f64::INFINITY, Shape::Line(to, to))])
}

fn sine(text: &str) -> Result<Vec<(f64, Shape)>, String> {
    let (rates, time) = two(text, "/")?;
    let (mean, swing) = two(rates, "~")?;
    let (mean, swing) = (parse_rate(mean)?, parse_rate(swing)?);
    if swing > mean {
        return Err("a sine must not swing below 0: its swing is at most its mean".into());
    }
    Ok(vec![(f64::INFINITY, Shape::Sine { mean, swing, period_s: seconds(time)? })])
}

/// One rate, another for a time, and the first again.
fn spike(text: &str) -> Result<Vec<(f64, Shape)>, String> {
    let (rates, times) = two(text, "@")?;
    let (base, peak) = two(rates, ",")?;
    let (start, length) = two(times, "+")?;
    let (base, peak) = (parse_rate(base)?, parse_rate(peak)?);
    Ok(vec![
        (seconds(start)?, Shape::Line(base, base)),
        (seconds(length)?, Shape::Line(peak, peak)),
        (f64::INFINITY, Shape::Line(base, base)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate_at(profile: &Profile, s: f64) -> f64 {
        (profile.arrivals_until(s + 0.001) - profile.arrivals_until(s)) / 0.001
    }

    #[test]
    fn each_profile_has_its_rates_at_its_times() {
        let cases: [(&str, &[(f64, f64)]); 5] = [
            ("1000", &[(0.0, 1000.0), (99.0, 1000.0)]),
            ("steps:100x5s,300x2s", &[(4.0, 100.0), (6.0, 300.0), (60.0, 300.0)]),
            ("ramp:100..1100/10s", &[(0.0, 100.0), (5.0, 600.0), (20.0, 1100.0)]),
            ("sine:500~400/4s", &[(0.0, 500.0), (1.0, 900.0), (3.0, 100.0), (5.0, 900.0)]),
            ("spike:100,2k@3s+500ms", &[(2.9, 100.0), (3.2, 2000.0), (3.6, 100.0)]),
        ];
        for (text, rates) in cases {
            let profile: Profile = text.parse().unwrap();
            for &(s, rate) in rates {
                let found = rate_at(&profile, s);
                assert!((found - rate).abs() <= rate * 0.01, "{text} at {s}: {found}");
            }
        }
    }

    #[test]
    fn times_are_the_inverse_of_counts() {
        for text in ["250", "steps:10x1s,90x1s", "ramp:0..90/9s", "sine:50~50/1s"] {
            let profile: Profile = text.parse().unwrap();
            for n in 0..200 {
                let at = profile.time_of(f64::from(n)).unwrap();
                let back = profile.arrivals_until(at);
                assert!((back - f64::from(n)).abs() < 1e-4, "{text}: {n} at {at} are {back}");
            }
        }
    }

    #[test]
    fn what_ends_has_no_arrivals_after_its_end() {
        let profile: Profile = "steps:100x1s,0x1s".parse().unwrap();
        assert!(profile.time_of(99.0).is_some());
        assert_eq!(profile.time_of(101.0), None);
    }

    #[test]
    fn what_cannot_be_a_profile_is_refused() {
        for text in [
            "",
            "-5",
            "nan",
            "inf",
            "0",
            "steps:",
            "steps:5",
            "ramp:5/3s",
            "ramp:1..2/0s",
            "sine:5~9/1s",
            "spike:1,2@3s",
            "wave:1",
        ] {
            assert!(text.parse::<Profile>().is_err(), "{text}");
        }
    }
}
