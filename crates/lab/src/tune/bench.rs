//! Points as servers that run, and their score: the replies that came whole and in time under more
//! load than the default can take.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Serialize;
use serde_json::Value;

use super::search::{At, Bench};
use super::{Asked, Target};
use crate::campaign::WARMUP_SHARE;
use crate::contestant::OURS;
use crate::definition::{self, Experiment, Measure, Series, Varies};
use crate::generator::Load;
use crate::host::SetupError;
use crate::knee;
use crate::run::{Record, Site, measure, measure_untroubled};
use crate::space::Point;

/// Times the default's peak at which points are compared.
const OVERLOAD: f64 = 1.3;

/// A sweep: the area under the curve from so many times the peak of the default to so many times
/// that of the best so far (M159), by so many points as far from each other.
const SWEEP: (f64, f64) = (0.5, 2.0);
const SWEEP_POINTS: usize = 4;

/// The share of the default's peak at which latency is bounded, and all of S4's rule of quality
/// kept (M158). Past a peak latency is as long as clients wait, whatever a server does, and of the
/// rule only that no class of files is given up more than others.
const KEPT_UP_SHARE: f64 = 0.6;

/// Runs of it at most, until one counts.
const BELOW_RUNS: usize = 2;

/// The share of the budget that one run is, and its bounds in seconds.
const RUN_SHARE: f64 = 1.0 / 150.0;
const RUN_S: (f64, f64) = (0.5, 5.0);

/// Connections by which the peak is looked for, seconds of that at most, and the share of the
/// budget after which what was found is the peak.
const PEAK_CONNECTIONS: f64 = 64.0;
const PEAK_S_MAX: f64 = 2.0;
const PEAK_SHARE: u32 = 10;

/// Times the length of a run that its clients wait, and the least of it in seconds.
const TIMEOUT_RUNS: f64 = 2.0;
const TIMEOUT_S_MIN: f64 = 1.0;

/// By what points were compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// Connections in a second that the default takes.
    pub peak: f64,
    /// Connections in a second at which points were compared in the end.
    pub arrives: f64,
    /// Connections in a second up to which a sweep goes.
    pub sweeps_to: f64,
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
    /// Connections in a second that the default takes.
    peak: f64,
    /// Connections in a second that overload it, or the best so far.
    arrives: f64,
    /// Replies in a second that these are due.
    most: f64,
    /// Connections in a second that the default keeps up with.
    kept_up: f64,
    /// What the 99th percentile was there, in microseconds, of points by their labels.
    latencies_us: BTreeMap<String, f64>,
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
        Server {
            asked,
            site,
            experiment,
            seconds,
            peak: 0.0,
            arrives: 0.0,
            most: f64::INFINITY,
            kept_up: 0.0,
            latencies_us: BTreeMap::new(),
            stop,
        }
    }

    /// Seconds of a run, and connections in a second that arrive in one, and at most in a sweep.
    pub(super) fn load_of_runs(&self) -> (f64, f64, f64) {
        (self.seconds, self.arrives, SWEEP.1 * self.arrives / OVERLOAD)
    }

    /// What the default takes, in connections per second: when it is kept busy, or, if that is
    /// more, when more arrives openly. Blocks.
    pub(super) fn find_peak(&mut self, begun: Instant) -> Result<f64, SetupError> {
        let default = self.asked.space.default_point();
        let seconds = (2.0 * self.seconds).min(PEAK_S_MAX);
        let load = self.load(Varies::Connections, PEAK_CONNECTIONS, seconds, self.asked.seed);
        let series = self.series(&default);
        let record = measure_untroubled(self.site, &self.experiment, &series, &load, self.stop)?;
        let figure = record.generator.get("connections_per_s").and_then(|value| value.as_f64());
        let good = record.figures.get(&Measure::GoodputPerS).copied().unwrap_or(0.0);
        let busy = figure.filter(|peak| *peak > 0.0 && good > 0.0);
        let busy = busy.ok_or_else(|| nothing_good(&record))?;
        let peak = knee::risen(busy, &mut |nth, rate| {
            if begun.elapsed() > self.asked.budget / PEAK_SHARE {
                return Ok(0.0);
            }
            let seed = self.asked.seed.wrapping_add(nth);
            let load = self.load(Varies::Rate, rate, seconds, seed);
            let record =
                measure_untroubled(self.site, &self.experiment, &series, &load, self.stop)?;
            Ok::<f64, SetupError>(rate * record.served_share())
        })?;
        self.peak = peak;
        (self.arrives, self.kept_up) = (OVERLOAD * peak, KEPT_UP_SHARE * peak);
        if begun.elapsed() > self.asked.budget / 2 {
            let why = "half of the budget is gone before the first comparison; give it more";
            return Err(SetupError(why.into()));
        }
        match self.too_late(&default, self.asked.seed) {
            Ok(Some(why)) => {
                let why = format!("the default has a {why}, at {KEPT_UP_SHARE} of its peak");
                Err(SetupError(format!("{why}: allow for more by --p99-max")))
            }
            // A run that does not count says nothing; those of the search will.
            Ok(None) | Err(_) => Ok(peak),
        }
    }

    /// Connections in a second at which a sweep measures.
    fn sweep(&self) -> Vec<f64> {
        let (low, high) = (SWEEP.0 * self.peak, SWEEP.1 * self.arrives / OVERLOAD);
        let step = (high - low) / (SWEEP_POINTS - 1) as f64;
        (0..SWEEP_POINTS).map(|nth| low + step * nth as f64).collect()
    }

    /// Why a point is out for its latency, where a bound was asked for. Blocks for a run that
    /// counts, once for each point.
    fn too_late(&mut self, point: &Point, seed: u64) -> Result<Option<String>, String> {
        let Some(most_us) = self.asked.p99_us_max else { return Ok(None) };
        let label = self.asked.space.label(point);
        let p99_us = match self.latencies_us.get(&label) {
            Some(p99_us) => *p99_us,
            None => {
                let record = self.below(point, seed)?;
                let p99_us = record.figures.get(&Measure::LatencyP99Us).copied();
                let p99_us = p99_us.ok_or("nothing was answered")?;
                self.latencies_us.insert(label, p99_us);
                p99_us
            }
        };
        let why = || {
            let (p99_ms, most_ms) = (p99_us / 1e3, most_us / 1e3);
            format!("99th percentile of {p99_ms:.1} ms, beyond {most_ms:.1} ms")
        };
        Ok((p99_us > most_us).then(why))
    }

    /// A run of what the default keeps up with, by the whole rule of quality. What makes it void
    /// otherwise says nothing of the point: then there is another.
    fn below(&mut self, point: &Point, seed: u64) -> Result<Record, String> {
        let load = self.load(Varies::Rate, self.kept_up, self.seconds, seed);
        let series = self.series(point);
        let mut why = String::new();
        for _ in 0..BELOW_RUNS {
            self.experiment.workload.quality = true;
            let came = measure(self.site, &self.experiment, &series, &load, self.stop);
            self.experiment.workload.quality = false;
            let record = came.map_err(|error| error.to_string())?;
            if record.void.is_empty() {
                return Ok(record);
            }
            why = record.void.join("; ");
            if record.unfair {
                break;
            }
        }
        Err(why)
    }

    /// A run that counts, or why it does not.
    fn valid(&mut self, series: &Series, load: &Load) -> Result<Record, String> {
        let record = measure(self.site, &self.experiment, series, load, self.stop)
            .map_err(|error| error.to_string())?;
        if record.void.is_empty() { Ok(record) } else { Err(record.void.join("; ")) }
    }

    fn load(&self, varies: Varies, amount: f64, seconds: f64, seed: u64) -> Load {
        let warmup = seconds * WARMUP_SHARE;
        Load { varies, amount, steps: Vec::new(), seconds, warmup, seed, verify: false }
    }

    fn series(&self, point: &Point) -> Series {
        let mut set = self.asked.space.settings(point);
        // Of a configuration, what it says holds.
        let ours = self.asked.contestant == OURS;
        if ours && !matches!(self.asked.target, Target::Config(_)) {
            set.entry("workers".into()).or_insert(definition::Value::Text("auto".into()));
        }
        Series {
            name: self.asked.space.label(point),
            contestant: self.asked.contestant.clone(),
            architecture: None,
            set,
            ..Series::default()
        }
    }
}

impl Bench for Server<'_> {
    fn run(&mut self, point: &Point, at: At, seed: u64) -> Result<f64, String> {
        let rates = match at {
            At::Sweep => self.sweep(),
            At::Overload => vec![self.arrives],
            At::Below => {
                let record = self.below(point, seed)?;
                return Ok(record.figures.get(&Measure::GoodputPerS).copied().unwrap_or(0.0));
            }
        };
        if let Some(why) = self.too_late(point, seed)? {
            return Err(why);
        }
        let series = self.series(point);
        let mut heights = Vec::with_capacity(rates.len());
        for rate in rates {
            let load = self.load(Varies::Rate, rate, self.seconds, seed);
            let record = self.valid(&series, &load)?;
            heights.push(record.figures.get(&Measure::GoodputPerS).copied().unwrap_or(0.0));
            if at == At::Overload {
                self.most = record.due_per_s().unwrap_or(f64::INFINITY);
            }
        }
        let score = mean_height(&heights);
        if score > 0.0 { Ok(score) } else { Err("nothing was answered in time".into()) }
    }

    fn most(&self) -> f64 {
        self.most
    }

    fn raise(&mut self, beyond: f64) {
        let times = OVERLOAD * beyond / self.most;
        (self.arrives, self.most) = (self.arrives * times, self.most * times);
    }

    fn sweep_cost(&self) -> usize {
        SWEEP_POINTS
    }
}

/// The area under points as far from each other, by its width: by trapezoids, as the ends have half
/// the weight of the others. Of one point its own height.
fn mean_height(heights: &[f64]) -> f64 {
    match heights {
        [] => 0.0,
        [one] => *one,
        many => {
            let trapezoids = many.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0);
            trapezoids.sum::<f64>() / (many.len() - 1) as f64
        }
    }
}

/// What is said of a server by which nothing of what is asked for is answered well.
fn nothing_good(record: &Record) -> SetupError {
    let statuses = record.generator.get("status").and_then(Value::as_object);
    let counts = statuses.into_iter().flatten();
    let counts: Vec<String> = counts.map(|(status, n)| format!("{n} times {status}")).collect();
    let told = if counts.is_empty() { "no reply".to_owned() } else { counts.join(", ") };
    SetupError(format!("the server answered nothing of what was asked for well: {told}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_under_a_curve_was_the_mean_of_its_points() {
        assert_eq!(mean_height(&[7.0]), 7.0);
        // Ends count half: 1.5 and 2.5 and 2.0 of three pieces.
        assert_eq!(mean_height(&[1.0, 2.0, 3.0, 1.0]), 2.0);
        assert_eq!(mean_height(&[]), 0.0);
    }

    #[test]
    fn a_site_that_refuses_all_says_how() {
        let generator = serde_json::json!({ "status": { "404": 7, "405": 1 } });
        let told = nothing_good(&Record { generator, ..Record::default() }).to_string();
        assert!(told.ends_with(": 7 times 404, 1 times 405"), "{told}");
        assert!(nothing_good(&Record::default()).to_string().ends_with(": no reply"));
    }
}
