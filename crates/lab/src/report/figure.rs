//! A figure as numbers: a line for each series, with an interval at each point.

use std::fmt::Write as _;

use flyball_stats::Interval;
use serde::Serialize;

use crate::campaign::Runs;
use crate::definition::{Experiment, Measure, Varies};
use crate::run::Record;

/// One measure along the axis. In a record it is its name and its lines: the set-up has the rest.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The measure, as in a file's name.
    pub name: String,
    /// The measure with its unit.
    #[serde(skip)]
    pub measure: &'static str,
    /// What is along the axis; `None` where nothing is varied.
    #[serde(skip)]
    pub along: Option<String>,
    /// The lines, or bars.
    pub lines: Vec<Line>,
}

/// One series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its points, from left to right.
    pub spots: Vec<Spot>,
}

/// A point of a line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spot {
    /// Along the axis.
    pub at: f64,
    /// The figure and its 95 % interval; without one for a single run.
    #[serde(flatten)]
    pub value: Interval,
    /// How many runs it is from.
    pub runs: usize,
    /// No run of it was valid: it is drawn, and counts for nothing.
    pub noisy: bool,
}

/// A measure in words, with its unit.
pub fn label(measure: Measure) -> &'static str {
    match measure {
        Measure::GoodputPerS => "good replies per second",
        Measure::RepliesPerS => "replies per second",
        Measure::MbitPerS => "Mbit/s",
        Measure::CpuUsPerReply => "µs of CPU time per reply",
        Measure::DropsPerS => "dropped connections per second",
        Measure::OverflowsPerS => "drops at a full accept queue per second",
        Measure::RequestDropsPerS => "drops at a full queue of half-open connections per second",
        Measure::LatencyP50Us => "median latency, µs",
        Measure::LatencyP99Us => "99th percentile of latency, µs",
        Measure::AdmittedP99Us => "99th percentile of the admitted, µs",
        Measure::AdmittedAtOnceP99Us => "99th percentile of the admitted, no SYN lost, µs",
        Measure::ShedShare => "share of the tries turned away",
        Measure::TimeoutShare => "share of the tries given up",
        Measure::WastedShare => "share of the answers that came in vain",
        Measure::RecoveryS => "seconds until goodput is back",
        Measure::CpuUsPerConnection => "µs of CPU time per connection",
        Measure::AcceptsPerS => "accepted connections per second",
        Measure::OpenConnections => "open connections",
        Measure::ConnectionsPerWorkPhase => "connections per work phase",
        Measure::AcceptsPerPhase => "accepted connections per phase",
        Measure::WaitsPerReply => "waits for events per reply",
        Measure::MemoryMib => "memory, MiB",
        Measure::PageCacheMib => "page cache of the server, MiB",
        Measure::BodyHitPercent => "bodies found in memory, %",
        Measure::IdlePercent => "processor idle, or withheld from the server, %",
        Measure::DiskWaitPercent => "processor waiting for the disk, %",
        Measure::BlockedPercent => "all of the server blocked by the disk, %",
        Measure::SoftirqPercent => "processor in soft interrupts, %",
        Measure::DiskMibPerS => "read from the disk, MiB/s",
        Measure::DiskReadKib => "KiB of a request to the disk",
        Measure::ClientCpuUsPerReply => "µs of the generator's CPU time per reply",
        Measure::SynchronisationPercent => "server's time in calls for synchronisation, %",
        Measure::SignalsPercent => "server's time in calls for signals, %",
        Measure::FilesPercent => "server's time in calls for files, %",
        Measure::TransferPercent => "server's time in calls that read and write, %",
        Measure::ProgramPercent => "server's time in its own code and the C library, %",
    }
}

impl Figure {
    /// The figure of a measure.
    pub fn of(experiment: &Experiment, runs: &Runs, measure: Measure) -> Figure {
        let name = serde_json::to_value(measure).unwrap_or_default();
        let line = |name: &str| Line {
            name: name.to_owned(),
            spots: experiment
                .points(runs.quick)
                .iter()
                .filter_map(|point| spot(runs, name, *point, measure))
                .collect(),
        };
        let lines = experiment.series(runs.quick).map(|series| line(&series.name));
        Figure {
            name: name.as_str().unwrap_or_default().replace('_', "-"),
            measure: label(measure),
            along: along(experiment),
            lines: lines.filter(|line| !line.spots.is_empty()).collect(),
        }
    }

    /// The same as lines of a table.
    pub fn csv(&self) -> String {
        let mut text = "series,point,value,low,high,runs,noisy\n".to_owned();
        for line in &self.lines {
            for Spot { at, value, runs, noisy } in &line.spots {
                let Interval { low, middle, high } = value;
                let name = line.name.replace('"', "\"\"");
                let _ = writeln!(text, "\"{name}\",{at},{middle},{low},{high},{runs},{noisy}");
            }
        }
        text
    }
}

fn along(experiment: &Experiment) -> Option<String> {
    let axis = &experiment.axis;
    let words = match axis.varies {
        Varies::Rate => "connections per second",
        Varies::Sessions => "sessions per second",
        Varies::Connections => "connections",
        Varies::FileSize => "size of the file, bytes",
        Varies::SetSize => "size of the set of files, MiB",
        Varies::DynamicShare => "dynamic requests, per cent",
        Varies::Setting => axis.setting.as_deref().unwrap_or_default(),
        Varies::Nothing => return None,
    };
    let words = format!("{words}, {}", axis.model());
    Some(match &axis.relative_to {
        Some(base) => format!("{words}, 1 is the peak of {base}"),
        None => words,
    })
}

fn spot(runs: &Runs, series: &str, point: f64, measure: Measure) -> Option<Spot> {
    let figure = |record: &Record| {
        let here = record.series == series && record.point == point;
        record.figures.get(&measure).copied().filter(|_| here)
    };
    let valid: Vec<f64> = runs.counting().filter_map(figure).collect();
    let all: Vec<f64> = runs.records.iter().filter_map(figure).collect();
    let noisy = valid.is_empty();
    let samples = if noisy { all } else { valid };
    let value = Interval::of(&samples, runs.seed)?;
    Some(Spot { at: point, value, runs: samples.len(), noisy })
}
