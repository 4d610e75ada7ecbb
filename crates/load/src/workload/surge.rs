//! The off periods of SURGE (Barford and Crovella 1998) around the requests of another workload.
//!
//! A page is a request and the references that are embedded in it: as many as a Pareto distribution
//! says. Between them the browser works (active off, Weibull); between pages a person reads
//! (inactive off, Pareto). Both have tails so heavy that they are cut off at a cap, which the
//! report names with how much is cut off by it.

use std::fmt;
use std::str::FromStr;

use super::{Follow, Step, Workload};
use crate::random::{Purpose, Random};

/// Seconds that any time of it may be: a day.
const SECONDS_MAX: f64 = 86_400.0;

/// The distributions; times are in seconds. S4 does not print its values: the defaults are those of
/// SURGE.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SurgeParameters {
    /// Shortest inactive off period.
    pub inactive_k: f64,
    /// How fast their tail falls.
    pub inactive_alpha: f64,
    /// Longest one.
    pub inactive_cap: f64,
    /// Scale of active off periods.
    pub active_scale: f64,
    /// Their shape.
    pub active_shape: f64,
    /// Longest one.
    pub active_cap: f64,
    /// Fewest embedded references.
    pub embedded_k: f64,
    /// How fast their tail falls.
    pub embedded_alpha: f64,
    /// Most of them.
    pub embedded_cap: f64,
}

impl Default for SurgeParameters {
    fn default() -> SurgeParameters {
        SurgeParameters {
            inactive_k: 1.0,
            inactive_alpha: 1.5,
            inactive_cap: 100.0,
            active_scale: 1.46,
            active_shape: 0.382,
            active_cap: 100.0,
            embedded_k: 1.0,
            embedded_alpha: 2.43,
            embedded_cap: 100.0,
        }
    }
}

impl SurgeParameters {
    fn named(&mut self, name: &str) -> Option<&mut f64> {
        Some(match name {
            "inactive-k" => &mut self.inactive_k,
            "inactive-alpha" => &mut self.inactive_alpha,
            "inactive-cap" => &mut self.inactive_cap,
            "active-scale" => &mut self.active_scale,
            "active-shape" => &mut self.active_shape,
            "active-cap" => &mut self.active_cap,
            "embedded-k" => &mut self.embedded_k,
            "embedded-alpha" => &mut self.embedded_alpha,
            "embedded-cap" => &mut self.embedded_cap,
            _ => return None,
        })
    }

    /// Share of the inactive and of the active off periods that the caps cut off.
    fn cut_off(&self) -> (f64, f64) {
        let inactive = (self.inactive_k / self.inactive_cap).min(1.0).powf(self.inactive_alpha);
        let active = (-(self.active_cap / self.active_scale).powf(self.active_shape)).exp();
        (inactive, active)
    }
}

impl FromStr for SurgeParameters {
    type Err = String;

    /// `name=number,...`; what is not named is as SURGE has it. An empty text is all of it.
    fn from_str(text: &str) -> Result<SurgeParameters, String> {
        let mut parameters = SurgeParameters::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (name, number) = part.split_once('=').unwrap_or((part, ""));
            let value = number.parse().ok();
            let value = value.filter(|value: &f64| *value > 0.0 && *value <= SECONDS_MAX);
            let wrong = || format!("{part:?}: expected a number above 0, such as inactive-cap=100");
            let known = || {
                format!(
                    "{name:?} is none of inactive-k, inactive-alpha, inactive-cap, active-scale, \
                     active-shape, active-cap, embedded-k, embedded-alpha, embedded-cap"
                )
            };
            *parameters.named(name).ok_or_else(known)? = value.ok_or_else(wrong)?;
        }
        Ok(parameters)
    }
}

impl fmt::Display for SurgeParameters {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (inactive, active) = self.cut_off();
        write!(
            out,
            "off periods of SURGE: inactive Pareto k={} s alpha={}, capped at {} s ({:.2} % of \
             them); active Weibull scale={} s shape={}, capped at {} s ({:.2} %); embedded \
             references Pareto k={} alpha={}, at most {}",
            self.inactive_k,
            self.inactive_alpha,
            self.inactive_cap,
            inactive * 100.0,
            self.active_scale,
            self.active_shape,
            self.active_cap,
            active * 100.0,
            self.embedded_k,
            self.embedded_alpha,
            self.embedded_cap
        )
    }
}

/// Another workload, whose requests come as pages with off periods.
pub struct Surge {
    inner: Box<dyn Workload>,
    parameters: SurgeParameters,
    seed: u64,
    random: Random,
}

impl Surge {
    /// The sessions of `inner`, whose pages and pauses are drawn with `seed`.
    pub fn new(inner: Box<dyn Workload>, parameters: SurgeParameters, seed: u64) -> Surge {
        Surge { inner, parameters, seed, random: Random::new(seed, Purpose::OffPeriods) }
    }

    fn pareto(&mut self, k: f64, alpha: f64, cap: f64) -> f64 {
        (k * (1.0 - self.random.unit()).powf(-1.0 / alpha)).min(cap)
    }

    fn inactive_s(&mut self) -> f64 {
        let SurgeParameters { inactive_k, inactive_alpha, inactive_cap, .. } = self.parameters;
        self.pareto(inactive_k, inactive_alpha, inactive_cap)
    }

    fn active_s(&mut self) -> f64 {
        let SurgeParameters { active_scale, active_shape, active_cap, .. } = self.parameters;
        (active_scale * self.random.exponential().powf(1.0 / active_shape)).min(active_cap)
    }

    fn embedded(&mut self) -> u32 {
        let SurgeParameters { embedded_k, embedded_alpha, embedded_cap, .. } = self.parameters;
        self.pareto(embedded_k, embedded_alpha, embedded_cap) as u32
    }
}

impl Workload for Surge {
    fn next_session(&mut self, steps: &mut Vec<Step>) -> bool {
        if !self.inner.next_session(steps) {
            return false;
        }
        let mut embedded = self.embedded();
        for step in steps.iter_mut().skip(1) {
            let off_s = if embedded > 0 {
                embedded -= 1;
                self.active_s()
            } else {
                embedded = self.embedded();
                self.inactive_s()
            };
            step.follow = Follow::Think((off_s * 1e9) as u64);
        }
        true
    }

    fn fork(&self, index: usize, threads: usize) -> Box<dyn Workload> {
        let seed = self.seed.wrapping_add(index as u64);
        Box::new(Surge::new(self.inner.fork(index, threads), self.parameters, seed))
    }

    fn requests_per_session(&self) -> f64 {
        self.inner.requests_per_session()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::OneUrl;

    /// The pauses of many sessions of many requests, in seconds.
    fn pauses(parameters: SurgeParameters) -> Vec<f64> {
        let inner = Box::new(OneUrl::new(0, 100_000, false));
        let (mut surge, mut steps) = (Surge::new(inner, parameters, 4), Vec::new());
        assert!(surge.next_session(&mut steps));
        assert_eq!(steps[0].follow, Follow::Pause);
        let pause = |step: &Step| match step.follow {
            Follow::Think(ns) => ns as f64 / 1e9,
            _ => f64::NAN,
        };
        steps[1..].iter().map(pause).collect()
    }

    fn share(pauses: &[f64], holds: impl Fn(f64) -> bool) -> f64 {
        pauses.iter().filter(|pause| holds(**pause)).count() as f64 / pauses.len() as f64
    }

    #[test]
    fn inactive_periods_are_pareto_and_cut_off_at_the_cap() {
        // Without embedded references every pause is between pages.
        let only = "embedded-k=0.001,embedded-cap=0.5,inactive-cap=50";
        let parameters: SurgeParameters = only.parse().unwrap();
        let pauses = pauses(parameters);
        assert!(pauses.iter().all(|pause| (0.999..=50.001).contains(pause)));
        assert!((share(&pauses, |pause| pause > 4.0) - 4f64.powf(-1.5)).abs() < 0.005);
        let (cut, _) = parameters.cut_off();
        assert!((cut - 50f64.powf(-1.5)).abs() < 1e-9);
        assert!((share(&pauses, |pause| pause > 49.999) - cut).abs() < 0.001);
        assert!(parameters.to_string().contains("capped at 50 s (0.28 % of them)"));
    }

    #[test]
    fn active_periods_are_weibull() {
        let pauses = pauses("embedded-k=1000,embedded-cap=80000".parse().unwrap());
        for at in [0.01, 0.5, 1.46, 20.0] {
            let expected = 1.0 - (-(at / 1.46f64).powf(0.382)).exp();
            let found = share(&pauses, |pause| pause <= at);
            assert!((found - expected).abs() < 0.01, "{at}: {found} {expected}");
        }
    }

    #[test]
    fn a_page_has_as_many_references_as_pareto_says() {
        // Active periods are at most a tenth of a second, inactive ones at least a whole one.
        let pauses = pauses("active-cap=0.1".parse().unwrap());
        let pages = share(&pauses, |pause| pause > 0.5);
        // The mean of the whole part of a Pareto variable is the sum of P(X >= n).
        let embedded: f64 = (1..=100).map(|n| f64::from(n).powf(-2.43)).sum();
        assert!((pages - 1.0 / (1.0 + embedded)).abs() < 0.01, "{pages} {embedded}");
    }

    #[test]
    fn wrong_parameters_are_refused() {
        assert_eq!("".parse(), Ok(SurgeParameters::default()));
        for (text, why) in [
            ("cap=1", "\"cap\" is none of inactive-k"),
            ("active-cap=0", "above 0"),
            ("active-cap=x", "above 0"),
            ("inactive-k", "above 0"),
        ] {
            let refused = text.parse::<SurgeParameters>().unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
