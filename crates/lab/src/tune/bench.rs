//! Points as servers that run, and their score: the replies that came whole and in time under more
//! load than the default can take.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::search::{Bench, Stage};
use super::space::Point;
use super::{Asked, Target};
use crate::campaign::WARMUP_SHARE;
use crate::contestant::OURS;
use crate::definition::{Experiment, Measure, Series, Value, Varies};
use crate::generator::Load;
use crate::host::SetupError;
use crate::run::{Site, measure};

/// Times the default's peak at which points are compared.
const OVERLOAD: f64 = 1.3;

/// The same in the confirmation, when there is time for it: the area under the curve.
const SWEEP: [f64; 3] = [0.8, OVERLOAD, 2.0];

/// A budget from which on the confirmation has time for all of them.
const SWEEP_FROM: Duration = Duration::from_secs(300);

/// The share of the budget that one run is, and its bounds in seconds.
const RUN_SHARE: f64 = 1.0 / 150.0;
const RUN_S: (f64, f64) = (0.5, 5.0);

/// Connections by which the peak is looked for.
const PEAK_CONNECTIONS: f64 = 64.0;

/// Times the length of a run that its clients wait, and the least of it in seconds.
const TIMEOUT_RUNS: f64 = 2.0;
const TIMEOUT_S_MIN: f64 = 1.0;

/// By what points were compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// Connections in a second that the default takes.
    pub peak: f64,
    /// Seconds of a run.
    pub seconds: f64,
    /// It ran on loopback.
    pub reduced: bool,
    /// Seconds that all of it took.
    pub took_s: f64,
}

/// The bench of real servers.
pub(super) struct Server<'a> {
    asked: &'a Asked,
    site: &'a mut Site,
    experiment: Experiment,
    seconds: f64,
    peak: f64,
    stop: &'a dyn Fn() -> bool,
}

impl<'a> Server<'a> {
    pub(super) fn new(
        asked: &'a Asked,
        site: &'a mut Site,
        mut experiment: Experiment,
        stop: &'a dyn Fn() -> bool,
    ) -> Server<'a> {
        let seconds = (asked.budget.as_secs_f64() * RUN_SHARE).clamp(RUN_S.0, RUN_S.1);
        experiment.workload.timeout_s = (TIMEOUT_RUNS * seconds).max(TIMEOUT_S_MIN);
        Server { asked, site, experiment, seconds, peak: 0.0, stop }
    }

    /// Seconds of a run.
    pub(super) fn seconds(&self) -> f64 {
        self.seconds
    }

    /// What the default takes when it is kept busy, in connections per second. Blocks.
    pub(super) fn find_peak(&mut self, begun: Instant) -> Result<f64, SetupError> {
        let default = self.asked.space.default_point();
        let seconds = (2.0 * self.seconds).min(2.0);
        let load = self.load(Varies::Connections, PEAK_CONNECTIONS, seconds, self.asked.seed);
        let series = self.series(&default);
        let record = measure(self.site, &self.experiment, &series, &load, self.stop)?;
        let figure = record.generator.get("connections_per_s").and_then(|value| value.as_f64());
        let none = || SetupError("the server answered nothing of what was asked for".into());
        self.peak = figure.filter(|peak| *peak > 0.0).ok_or_else(none)?;
        if begun.elapsed() > self.asked.budget / 2 {
            let why = "half of the budget is gone before the first comparison; give it more";
            return Err(SetupError(why.into()));
        }
        Ok(self.peak)
    }

    fn load(&self, varies: Varies, amount: f64, seconds: f64, seed: u64) -> Load {
        let warmup = seconds * WARMUP_SHARE;
        Load { varies, amount, seconds, warmup, seed, verify: false }
    }

    fn series(&self, point: &Point) -> Series {
        let mut set = self.asked.space.settings(point);
        // Of a configuration, what it says holds.
        let ours = self.asked.contestant == OURS;
        if ours && !matches!(self.asked.target, Target::Config(_)) {
            set.entry("workers".into()).or_insert(Value::Text("auto".into()));
        }
        Series {
            name: self.asked.space.label(point),
            contestant: self.asked.contestant.clone(),
            architecture: None,
            set,
            full_only: false,
        }
    }
}

impl Bench for Server<'_> {
    fn run(&mut self, point: &Point, stage: Stage, seed: u64) -> Result<f64, String> {
        let sweeps = stage == Stage::Confirmation && self.asked.budget >= SWEEP_FROM;
        let rates: &[f64] = if sweeps { &SWEEP } else { &[OVERLOAD] };
        let series = self.series(point);
        let mut sum = 0.0;
        for times in rates {
            let load = self.load(Varies::Rate, times * self.peak, self.seconds, seed);
            let record = measure(self.site, &self.experiment, &series, &load, self.stop)
                .map_err(|error| error.to_string())?;
            if !record.void.is_empty() {
                return Err(record.void.join("; "));
            }
            let figure = |measure| record.figures.get(&measure).copied();
            let late = figure(Measure::LatencyP99Us).zip(self.asked.p99_us_max);
            if let Some((p99, most)) = late.filter(|(p99, most)| p99 > most) {
                let (p99, most) = (p99 / 1e3, most / 1e3);
                return Err(format!("99th percentile of {p99:.0} ms, beyond {most:.0} ms"));
            }
            sum += figure(Measure::GoodputPerS).unwrap_or(0.0);
        }
        let score = sum / rates.len() as f64;
        if score > 0.0 { Ok(score) } else { Err("nothing was answered in time".into()) }
    }
}
