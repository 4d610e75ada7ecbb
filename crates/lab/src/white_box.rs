//! Servers as white boxes (S3, section 2.4; S4, Tables 2 and 3): what system calls they make and
//! what those cost by S3's seven categories, where processor time goes, what the disk and the page
//! cache do, and what the kernel drops.
//!
//! In runs of their own: what looks at a server slows it down, so no figure of such a run is
//! compared with one of another.

mod locks;
mod page;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::campaign::seen::{Seen, see};
use crate::campaign::{Options, Progress};
use crate::catalogue;
use crate::definition::{Experiment, Measure};
use crate::host::{Facts, SetupError, find, is_root, perf};
use crate::run::{Record, Site, Watched, pause, stacks};

use crate::profile::calls;
pub use crate::profile::{CATEGORIES, Category, Count, Samples, category, title};
pub use locks::{Locks, Waits};

/// Seconds of the look at stacks, which are samples, and of those at system calls and at locks.
const STACKS_S: f64 = 4.0;
const LOOK_S: f64 = 1.5;
const LOOKS_S: f64 = STACKS_S + 2.0 * LOOK_S;

/// Seconds before the first look.
const BEFORE_S: f64 = 0.7;

/// Seconds for which a server is loaded beyond that: perf takes its time to begin.
const BEYOND_S: f64 = 5.0;

/// A series, looked into.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// The series.
    pub series: String,
    /// The value along the axis.
    pub point: f64,
    /// Samples of its stacks.
    pub samples: Samples,
    /// System calls by name.
    pub calls: BTreeMap<String, Count>,
    /// Waits for locks; nothing where the kernel lacks the tracepoints.
    #[serde(default)]
    pub locks: Option<Locks>,
    /// Requests that it answered while its calls were counted: of ours its own count; of a peer,
    /// which does not tell, what the generator saw on average.
    pub requests: f64,
    /// The same while its waits for locks were.
    #[serde(default)]
    pub requests_at_locks: f64,
    /// The run: what the generator, the kernel's counters of drops and our own counters say.
    pub record: Record,
}

impl Opened {
    /// How often a system call was made for each request; all of a category together.
    pub fn per_request(&self, wanted: Category) -> f64 {
        let of = self.calls.iter().filter(|(name, _)| category(name) == wanted);
        of.map(|(_, count)| count.calls).sum::<u64>() as f64 / self.requests.max(1.0)
    }

    /// Microseconds from the entry of its system calls of a category to their return, for each
    /// request: what they waited is among it.
    pub fn took_us(&self, wanted: Category) -> f64 {
        let of = self.calls.iter().filter(|(name, _)| category(name) == wanted);
        of.map(|(_, count)| count.wall_ms).sum::<f64>() * 1e3 / self.requests.max(1.0)
    }

    /// The share of its processor time that the system calls of a category took.
    pub fn share(&self, wanted: Category) -> f64 {
        self.samples.of_category(wanted) as f64 / self.samples.all.max(1) as f64
    }
}

/// An experiment, looked into.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WhiteBoxes {
    /// Its name.
    pub experiment: String,
    /// A series each.
    pub boxes: Vec<Opened>,
    /// Who could not be looked into, and why.
    pub absent: BTreeMap<String, String>,
    /// The machine.
    pub facts: Facts,
    /// The command that makes it again.
    pub command: String,
}

/// Looks into each series of an experiment, where its first claim looks. Returns where the page is.
/// Blocks for some seconds for each.
///
/// # Errors
/// Without root or without perf, and when nothing could be set up.
pub fn run(
    site: &mut Site,
    experiment: &Experiment,
    options: &Options,
    out: &Path,
    progress: &mut dyn Progress,
    stop: &dyn Fn() -> bool,
) -> Result<PathBuf, SetupError> {
    if !is_root() {
        return Err(SetupError("looking into servers takes root".into()));
    }
    find("perf")?;
    let mut boxes = Vec::new();
    let seconds = BEFORE_S + LOOKS_S + BEYOND_S;
    let scratch = site.scratch.clone();
    let mut look = |watched: &Watched<'_>| watch(watched, &scratch, stop);
    let Seen { seen, absent } =
        see(site, experiment, (options, seconds), progress, stop, &mut look)?;
    for (looked, mut record) in seen {
        // As they were while it was looked at: reading what was seen takes time after the load.
        record.figures.extend(looked.machine);
        let replies = record.generator.get("replies_per_s").and_then(serde_json::Value::as_f64);
        let average = replies.unwrap_or(0.0) * LOOK_S;
        boxes.push(Opened {
            series: record.series.clone(),
            point: record.point,
            samples: looked.samples,
            calls: looked.calls,
            locks: looked.locks,
            requests: looked.requests[0].unwrap_or(average),
            requests_at_locks: looked.requests[1].unwrap_or(average),
            record,
        });
    }
    let name = experiment.name.clone();
    let asked = catalogue::asked_for(experiment);
    let command = format!("flyball lab run {asked} --white-box --seed {}", options.seed);
    let facts = site.facts();
    let all = WhiteBoxes { experiment: name, boxes, absent, facts, command };
    page::write(experiment, &all, out)
}

/// What was seen of a server while it was loaded.
struct Looked {
    samples: Samples,
    calls: BTreeMap<String, Count>,
    locks: Option<Locks>,
    /// While calls were counted, and while locks were.
    requests: [Option<f64>; 2],
    /// What processors and disk did while stacks were looked at.
    machine: BTreeMap<Measure, f64>,
}

/// Looks at a server that is being loaded.
fn watch(
    watched: &Watched<'_>,
    scratch: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<Looked, SetupError> {
    let begun = Instant::now();
    pause(BEFORE_S, stop);
    let ids: Vec<String> = watched.processes.iter().map(u32::to_string).collect();
    let (ids, look) = (ids.join(","), format!("{LOOK_S}"));
    let (before_stacks, stacks_begun) = (watched.look(), Instant::now());
    stacks::sample(&watched.processes, STACKS_S, scratch, stop)?;
    let (before_calls, took_s) = (watched.look(), stacks_begun.elapsed().as_secs_f64());
    let summary = scratch.join("perf.trace");
    let trace = ["trace", "-s", "-p", &ids, "-o", &summary.to_string_lossy(), "--", "sleep", &look];
    perf(&trace, LOOK_S, scratch, stop)?;
    let before_locks = watched.look();
    let waits = scratch.join("perf.locks");
    let waits = waits.to_string_lossy();
    let record = ["record", "-q", "-e", locks::EVENTS, "-p", &ids];
    // A kernel without these tracepoints leaves the rest to be seen.
    let sampled = [&record[..], &["-o", &waits, "--", "sleep", &look]].concat();
    let waited = perf(&sampled, LOOK_S, scratch, stop);
    let requests =
        [before_locks.requests_since(&before_calls), watched.look().requests_since(&before_locks)];
    if begun.elapsed().as_secs_f64() > BEFORE_S + LOOKS_S + BEYOND_S {
        let why = "the machine is too busy: the load was over before perf had looked";
        return Err(SetupError(why.into()));
    }
    let script = ["script", "-i", &waits, "-F", "tid,time,event,trace"];
    let waited = waited.and_then(|_| perf(&script, 0.0, scratch, stop));
    let counted = fs::read_to_string(&summary)
        .map_err(|error| SetupError(format!("{}: {error}", summary.display())))?;
    Ok(Looked {
        samples: stacks::read(scratch, stop)?,
        calls: calls::parse(&counted),
        locks: waited.ok().map(|script| locks::parse(&script)),
        requests,
        machine: before_calls.machine_since(&before_stacks, took_s),
    })
}

/// The measures of a run that a table of them shows.
const SHOWN: &[Measure] = &[
    Measure::GoodputPerS,
    Measure::CpuUsPerReply,
    Measure::DropsPerS,
    Measure::AcceptsPerPhase,
    Measure::WaitsPerReply,
    Measure::LatencyP50Us,
    Measure::IdlePercent,
    Measure::DiskWaitPercent,
    Measure::SoftirqPercent,
    Measure::PageCacheMib,
    Measure::DiskMibPerS,
    Measure::DiskReadKib,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_category_is_a_share_of_all_time_and_so_many_calls_for_a_request() {
        let count = |calls| Count { calls, wall_ms: calls as f64 / 5.0, ..Count::default() };
        let one = Opened {
            series: "a".into(),
            point: 1.0,
            samples: Samples {
                all: 100,
                kernel: 50,
                calls: [("sendto".into(), 20), ("writev".into(), 5)].into(),
                ..Samples::default()
            },
            calls: [("sendto".into(), count(30)), ("futex".into(), count(5))].into(),
            locks: None,
            requests: 10.0,
            requests_at_locks: 10.0,
            record: Record::default(),
        };
        assert_eq!((one.share(Category::Writing), one.share(Category::Files)), (0.25, 0.0));
        assert_eq!(one.per_request(Category::Writing), 3.0);
        assert_eq!(one.per_request(Category::Synchronisation), 0.5);
        assert_eq!(one.took_us(Category::Writing), 600.0);
        // What was never called is nothing, and not less than that.
        assert_eq!(format!("{:.1}", one.per_request(Category::Signals)), "0.0");
    }
}
