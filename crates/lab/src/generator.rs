//! The load generator as a process: what it is told, and what it reports.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::definition::{Step, Varies, Workload};
use crate::host::{Place, Running, SetupError, until};
use crate::nearest::nearest;

/// Time that a generator gets beyond what it was told, for connections that end late.
const SLACK: Duration = Duration::from_secs(30);

/// Time that making the largest set of files may take.
const FILES_MAX: Duration = Duration::from_secs(3_600);

/// Time that an agent gets until it can be reached, how often it is looked, and what it prints
/// before its address.
const AGENT_READY_MAX: Duration = Duration::from_secs(10);
const AGENT_LOOK_EVERY: Duration = Duration::from_millis(2);
const AGENT_READY: &str = "waits for coordinators at ";

/// Workloads for which files are made, and how the generator calls them.
const FILESETS: &[(&str, &str)] = &[
    ("one-packet", "one-packet"),
    ("single-file", "single-file"),
    ("specweb99", "specweb99"),
    ("specweb99-dynamic", "specweb99"),
    ("specweb96", "specweb96"),
    ("webstone", "webstone"),
    ("s4", "s4"),
    ("trace", "trace"),
    ("trace-truncated", "trace"),
];

/// What is asked of the server in one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// How it arrives.
    pub varies: Varies,
    /// How much: connections, or a rate.
    pub amount: f64,
    /// How that changes, if it does.
    pub steps: Vec<Step>,
    /// How long, in seconds, with the warm-up.
    pub seconds: f64,
    /// How much of that is not counted.
    pub warmup: f64,
    /// What everything random comes from.
    pub seed: u64,
    /// Every body is compared with its file.
    pub verify: bool,
}

/// What the generator reports, as it writes it: figures are read by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Report(pub Value);

impl Report {
    /// A figure at the top level, or within objects: `latency_us.p99`.
    pub fn figure(&self, name: &str) -> Option<f64> {
        name.split('.').try_fold(&self.0, |value, key| value.get(key))?.as_f64()
    }

    /// The share of replies that are no errors of HTTP, of those whose status was counted.
    pub fn served_share(&self) -> f64 {
        let statuses = self.0["status"].as_object().into_iter().flatten();
        let counts =
            statuses.filter_map(|(status, n)| Some((status.parse::<u16>().ok()?, n.as_f64()?)));
        let (mut all, mut served) = (0.0, 0.0);
        for (status, count) in counts {
            all += count;
            served += if status < 400 { count } else { 0.0 };
        }
        if all > 0.0 { served / all } else { 1.0 }
    }

    /// The errors that make a run worthless whatever the server did: bodies that are not the file,
    /// and dynamic replies that break a rule.
    pub fn wrong_bodies(&self) -> u64 {
        let kinds = ["wrong_body", "torn_body", "short_body", "wrong_dynamic"];
        let within = |when: &str| {
            let count = |name| self.0[when][name].as_u64().unwrap_or(0);
            kinds.into_iter().map(count).sum::<u64>()
        };
        within("errors") + within("warmup_errors")
    }

    /// Why the generator itself calls the run void; nothing when it does not.
    pub fn void(&self) -> Vec<String> {
        let texts = |name: &str| -> Vec<String> {
            let list = self.0[name].as_array().into_iter().flatten();
            list.filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        let limits = texts("client_limited_because");
        let mut void = texts("void_because");
        void.retain(|why| !limits.contains(why));
        // What the generator advises are options of its own: they are no words of the lab's.
        void.extend(texts("client_limited_causes"));
        void
    }
}

/// The kind of files of a workload.
///
/// # Errors
/// When there is no such workload.
pub fn fileset(workload: &Workload) -> Result<&'static str, SetupError> {
    let found = FILESETS.iter().find(|(name, _)| *name == workload.name);
    let wrong = || {
        let name = &workload.name;
        let near = nearest(name, FILESETS.iter().map(|(name, _)| *name));
        let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        SetupError(format!("there is no workload {name:?}{near}"))
    };
    found.map(|(_, kind)| *kind).ok_or_else(wrong)
}

/// Whether the generator can ask for all that a workload consists of.
///
/// # Errors
/// What it cannot ask for: nothing else is measured in its place.
pub fn check(workload: &Workload) -> Result<(), SetupError> {
    fileset(workload).map(|_| ())
}

/// Makes the files of a workload, unless they are there already. Blocks for as long as it takes to
/// write them.
///
/// # Errors
/// What the generator says.
pub fn make_files(
    flyball: &Path,
    workload: &Workload,
    (extra, directory): (&[String], &Path),
    scratch: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<(), SetupError> {
    let mut command = Place::default().command(flyball)?;
    command.args(["fileset", fileset(workload)?]).arg(directory);
    for (name, value) in &workload.files {
        command.arg(format!("--{name}")).arg(value.to_string());
    }
    command.args(extra);
    let output = scratch.join("fileset.log");
    let mut running = Running::start(&mut command, &output)?;
    let ended = running.wait(FILES_MAX, stop);
    if ended.is_some_and(|status| status.success()) {
        return Ok(());
    }
    let said = fs::read_to_string(&output).unwrap_or_default();
    Err(SetupError(format!("flyball fileset: {}", said.trim())))
}

/// A generator that runs.
#[derive(Debug)]
pub struct Generator {
    running: Running,
    /// What it coordinates, where each connection is asked for by a process of its own.
    agents: Vec<Running>,
    report: PathBuf,
    errors: PathBuf,
    most: Duration,
}

impl Generator {
    /// Starts it; with `apart` as many processes of it as there are connections.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        flyball: &Path,
        url: &str,
        (workload, files): (&Workload, &Path),
        (load, apart): (&Load, bool),
        place: &Place,
        scratch: &Path,
    ) -> Result<Generator, SetupError> {
        let (agents, addresses) = match apart {
            true => agents(flyball, load.amount.round() as usize, place, scratch)?,
            false => Default::default(),
        };
        let mut command = place.command(flyball)?;
        let report = scratch.join("load.json");
        // What an earlier run left would pass for this one's.
        let _ = fs::remove_file(&report);
        command.args(["load", "--json", "--quiet"]).args(load.arguments());
        command.args(["--timeout", &format!("{}s", workload.timeout_s)]);
        command.args(&workload.flags);
        if load.verify {
            command.arg("--verify");
        }
        if workload.has_files() {
            command.arg("--fileset").arg(files);
        }
        if let Some(work) = workload.work {
            let list = scratch.join("work.list");
            fs::write(&list, work.list())
                .map_err(|error| SetupError(format!("{}: {error}", list.display())))?;
            command.arg("--list").arg(list);
        }
        if apart {
            command.arg("--agents").arg(addresses.join(","));
        }
        command.arg(url);
        let errors = scratch.join("load.log");
        let running = Running::start_apart(&mut command, &report, &errors)?;
        let most = Duration::from_secs_f64(load.seconds + workload.timeout_s) + SLACK;
        Ok(Generator { running, agents, report, errors, most })
    }

    /// Waits for its report. Blocks; `stop` says that nobody waits any more.
    ///
    /// # Errors
    /// What it says when it has none.
    pub fn wait(mut self, stop: &dyn Fn() -> bool) -> Result<Report, SetupError> {
        let ended = self.running.wait(self.most, stop);
        // Each waits for the next coordinator.
        self.agents.clear();
        let said = || fs::read_to_string(&self.errors).unwrap_or_default().trim().to_owned();
        if ended.is_none() && stop() {
            return Err(SetupError("interrupted".into()));
        }
        if ended.is_none() {
            return Err(SetupError(format!("flyball load does not end: {}", said())));
        }
        let text = fs::read_to_string(&self.report).unwrap_or_default();
        if text.is_empty() {
            return Err(SetupError(format!("flyball load: {}", said())));
        }
        let value = serde_json::from_str(&text);
        value.map(Report).map_err(|error| SetupError(format!("flyball load: {error}")))
    }
}

/// Starts agents, on loopback, and waits until each of them can be reached: where. Blocks.
fn agents(
    flyball: &Path,
    count: usize,
    place: &Place,
    scratch: &Path,
) -> Result<(Vec<Running>, Vec<String>), SetupError> {
    let (mut agents, mut addresses) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for nth in 0..count {
        let mut command = place.command(flyball)?;
        command.args(["load", "--agent", "127.0.0.1:0"]);
        let log = scratch.join(format!("agent-{nth}.log"));
        let mut agent = Running::start(&mut command, &log)?;
        let said = || fs::read_to_string(&log).unwrap_or_default();
        let address = until(AGENT_READY_MAX, AGENT_LOOK_EVERY, &|| false, || {
            let said = said();
            let (address, _) = said.split_once(AGENT_READY)?.1.split_once('\n')?;
            address.parse::<SocketAddr>().ok()
        });
        let Some(address) = address.filter(|_| agent.ended().is_none()) else {
            return Err(SetupError(format!("flyball load --agent: {}", said().trim())));
        };
        agents.push(agent);
        addresses.push(address.to_string());
    }
    Ok((agents, addresses))
}

impl Load {
    fn arguments(&self) -> Vec<String> {
        let flag = match self.varies {
            Varies::Rate => "--rate",
            Varies::Sessions => "--sessions",
            _ => "--connections",
        };
        let amount = match self.varies {
            Varies::Rate | Varies::Sessions if !self.steps.is_empty() => {
                let step = |Step { seconds, times }: &Step| {
                    format!("{:.3}x{:.0}ms", self.amount * times, seconds * 1_000.0)
                };
                format!("steps:{}", self.steps.iter().map(step).collect::<Vec<_>>().join(","))
            }
            Varies::Rate | Varies::Sessions => format!("{:.3}", self.amount),
            _ => format!("{}", self.amount.round()),
        };
        let seconds = |seconds: f64| format!("{:.0}ms", seconds * 1_000.0);
        [flag, &amount, "--duration", &seconds(self.seconds), "--warmup", &seconds(self.warmup)]
            .into_iter()
            .map(str::to_owned)
            .chain(["--seed".into(), self.seed.to_string()])
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_are_read_by_their_names() {
        let report = Report(json!({
            "replies_per_s": 5.5,
            "latency_us": { "p99": 7 },
            "status": { "200": 30, "304": 30, "503": 20 },
            "errors": { "wrong_body": 2, "short_body": 1, "refused": 4 },
            "warmup_errors": { "torn_body": 5, "refused": 6 },
            "void_because": ["lost", "late: use more"],
            "client_limited_because": ["late: use more"],
            "client_limited_causes": ["late"],
        }));
        assert_eq!(report.figure("replies_per_s"), Some(5.5));
        assert_eq!(report.figure("latency_us.p99"), Some(7.0));
        assert_eq!(report.figure("latency_us.p42"), None);
        assert_eq!(report.wrong_bodies(), 8, "those of the warm-up included");
        assert_eq!(report.void(), ["lost", "late"], "without advice of options that it has not");
        assert_eq!((report.served_share(), Report(json!({})).served_share()), (0.75, 1.0));
    }

    #[test]
    fn every_workload_of_the_definitions_has_files() {
        for experiment in crate::catalogue::all().unwrap() {
            if experiment.not_testable.is_none() {
                fileset(&experiment.workload).unwrap();
            }
        }
    }

    #[test]
    fn a_load_is_told_in_the_generators_words() {
        let load = Load {
            varies: Varies::Sessions,
            amount: 12.5,
            steps: Vec::new(),
            seconds: 2.0,
            warmup: 0.5,
            seed: 7,
            verify: false,
        };
        let words = load.arguments().join(" ");
        assert_eq!(words, "--sessions 12.500 --duration 2000ms --warmup 500ms --seed 7");
        let steps = [(0.5, 0.5), (1.0, 3.0), (0.5, 0.5)];
        let steps = steps.map(|(seconds, times)| Step { seconds, times }).into();
        let words = Load { steps, ..load }.arguments().join(" ");
        assert!(words.starts_with("--sessions steps:6.250x500ms,37.500x1000ms,6.250x500ms "));
    }
}
