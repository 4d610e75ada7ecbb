//! `flyball tune`: which settings serve a site best on this machine, by measuring them.
//!
//! The method is that of S4, section 5 (hundreds of runs for each server), made affordable: a
//! screen, successive halving and a confirmation instead of all combinations. What wins is written
//! as a configuration with the evidence beside it; often nothing does, which is an answer too.

mod bench;
mod found;
mod outcome;
mod paths;
mod search;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::contestant::{self, Absent, OURS};
use crate::definition::{Axis, DYNAMIC, Experiment, Machine, Varies, Workload};
use crate::generator;
use crate::host::{Network, SCRATCH, SetupError, allowed_cpus, clear_leftovers, is_root, take};
use crate::laboratory::{awake, client_first, cpus};
use crate::outcome::Said;
use crate::run::{Cpus, Site};

pub use crate::space::{ARCHITECTURE, Knob, Point, Space};
pub use bench::Score;
pub use found::{End, Finalist, Found, Trial};
pub use search::{Bench, Limits, Stage, Watch, search};

/// The shortest budget: less would not start a server twice.
pub const BUDGET_MIN: Duration = Duration::from_secs(10);

/// What is tuned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A directory.
    Directory(PathBuf),
    /// The sites of a configuration file.
    Config(PathBuf),
    /// The files of a workload, which are made.
    Workload(String),
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requests {
    /// Every file of the directory, equally often; of a workload as often as it says.
    Files,
    /// What an access log says.
    Log(PathBuf),
    /// The paths of a list.
    List(PathBuf),
}

/// How to tune.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Our binary.
    pub flyball: PathBuf,
    /// Whose settings: ours, or a peer.
    pub contestant: String,
    /// What.
    pub target: Target,
    /// By which requests.
    pub requests: Requests,
    /// Requests on each connection.
    pub per_connection: u32,
    /// What may be set.
    pub space: Space,
    /// Points that are tried in any case.
    pub first: Vec<Point>,
    /// Time for all of it.
    pub budget: Duration,
    /// What decides what chance decides.
    pub seed: u64,
    /// Where the evidence goes.
    pub out: PathBuf,
    /// The 99th percentile of latency beyond which settings are out, in microseconds.
    pub p99_us_max: Option<f64>,
    /// The percentage of a run's time beyond which it is void, of what the machine beneath takes.
    pub stolen_percent_max: f64,
    /// The command line, for the record.
    pub command: String,
}

/// Told as it goes on.
pub trait Notes: Watch {
    /// Something worth knowing.
    fn note(&mut self, what: &str);
}

/// Tunes, and says what came of it. Blocks for the budget; `stop` ends it with the best so far.
///
/// # Errors
/// When nothing can be measured: no file, no right, a server that does not start.
pub fn run(
    asked: &Asked,
    notes: &mut dyn Notes,
    stop: &dyn Fn() -> bool,
) -> Result<Said, SetupError> {
    let begun = Instant::now();
    let wrong = |error: std::io::Error| SetupError(format!("{}: {error}", asked.out.display()));
    outcome::may_write(asked)?;
    let _taken = take(&asked.out)?;
    let scratch = asked.out.join(SCRATCH);
    fs::create_dir_all(&scratch).map_err(wrong)?;
    let scratch = fs::canonicalize(&scratch).map_err(wrong)?;
    let said = tuned(asked, begun, &scratch, notes, stop)?;
    // Configuration and logs of the last server: of use only where it failed.
    let _ = fs::remove_dir_all(&scratch);
    Ok(said)
}

/// The work of [`run`], which began at `begun`, and removes `scratch` afterwards.
fn tuned(
    asked: &Asked,
    begun: Instant,
    scratch: &Path,
    notes: &mut dyn Notes,
    stop: &dyn Fn() -> bool,
) -> Result<Said, SetupError> {
    let mut experiment = experiment(asked, scratch)?;
    takes_part(asked, &experiment)?;
    let mut site = site(asked, &experiment, scratch.to_owned(), notes)?;
    // Whoever gives up large files is found by the classes of sizes (M158).
    match &site.compare_with {
        Some(files) => {
            let files = files.to_string_lossy().into_owned();
            experiment.workload.flags.extend(["--sizes-of".to_owned(), files]);
        }
        None if site.config.is_some() => {
            notes.note("no sizes of files are known: the rule of quality is that of all requests");
        }
        None => {}
    }
    if let Target::Workload(name) = &asked.target {
        notes.note("making the files of the workload");
        let directory = site.files_root.clone();
        let files = (&[][..], directory.as_path());
        // Also where a log says what of them is asked for.
        let workload = Workload { name: name.clone(), ..experiment.workload.clone() };
        match generator::make_files(&asked.flyball, &workload, files, scratch, stop) {
            Err(_) if stop() => return Ok(outcome::nothing()),
            made => made?,
        };
    }
    let mut bench = bench::Server::new(asked, &mut site, experiment, stop);
    notes.note("looking for the peak of the default");
    let peak = match bench.find_peak(begun) {
        Err(_) if stop() => return Ok(outcome::nothing()),
        peak => peak?,
    };
    notes.note(&format!("the default peaks near {peak:.0} connections in a second"));
    let spent = || begun.elapsed();
    let limits = Limits { spent: &spent, budget: asked.budget, seed: asked.seed };
    let found = search(&asked.space, &asked.first, &mut bench, limits, &mut Through(notes), stop);
    let (seconds, arrives, sweeps_to) = bench.load_of_runs();
    drop(bench);
    let reduced = site.network.is_none();
    let facts = site.facts();
    drop(site);
    let took_s = begun.elapsed().as_secs_f64();
    let score = Score { peak, arrives, sweeps_to, seconds, reduced, took_s };
    outcome::written(asked, &found, &score, &facts)
}

/// Whether the contestant can serve what is asked for.
fn takes_part(asked: &Asked, experiment: &Experiment) -> Result<(), SetupError> {
    let one_file = ["one-packet", "single-file"].contains(&experiment.workload.name.as_str());
    contestant::is_there(&asked.contestant, one_file).map_err(|absent| match absent {
        Absent::Missing(missing) => missing.into(),
        Absent::Unable(why) => SetupError(why),
    })?;
    let ours = asked.contestant == OURS;
    match (&asked.target, asked.space.knobs.is_empty()) {
        (_, true) => {
            Err(SetupError(format!("nothing of {} is varied: it has one way", asked.contestant)))
        }
        (Target::Workload(name), _) if name == DYNAMIC => {
            let why = "is made by a module, which `flyball lab` measures: tune by specweb99, or \
                       by a configuration and a log";
            Err(SetupError(format!("{name} {why}")))
        }
        (Target::Config(_), _) if !ours => {
            Err(SetupError(format!("{} does not read our configuration", asked.contestant)))
        }
        _ => Ok(()),
    }
}

/// A watch of someone who is told more.
struct Through<'a>(&'a mut dyn Notes);

impl Watch for Through<'_> {
    fn begins(&mut self, stage: Stage, nth: usize, of: usize, label: &str, left: Duration) {
        self.0.begins(stage, nth, of, label, left);
    }

    fn came(&mut self, score: &Result<f64, String>, by_default: Option<f64>) {
        self.0.came(score, by_default);
    }
}

/// The requests and the machine, in the lab's terms.
fn experiment(asked: &Asked, scratch: &Path) -> Result<Experiment, SetupError> {
    let mut flags: Vec<String> =
        vec!["--requests-per-connection".into(), asked.per_connection.to_string()];
    let mut name = String::new();
    let mut by_file = |flag: &str, path: &Path| {
        let path = fs::canonicalize(path)
            .map_err(|error| SetupError(format!("{}: {error}", path.display())))?;
        flags.extend([flag.to_owned(), path.to_string_lossy().into_owned()]);
        Ok::<(), SetupError>(())
    };
    match (&asked.requests, &asked.target) {
        (Requests::Log(log), _) => by_file("--log", log)?,
        (Requests::List(list), _) => by_file("--list", list)?,
        (Requests::Files, Target::Workload(workload)) => name.clone_from(workload),
        (Requests::Files, Target::Directory(directory)) => {
            let list = scratch.join("paths.txt");
            paths::write_list(directory, &list)?;
            by_file("--list", &list)?;
        }
        (Requests::Files, Target::Config(_)) => {
            let why = "a configuration does not say what is asked for: give --log or --list";
            return Err(SetupError(why.into()));
        }
    }
    if matches!(asked.requests, Requests::Log(_)) {
        // It is made again hundreds of times, and by back ends that are in use.
        flags.push("--safe".into());
    }
    let workload = Workload { name, flags, ..Workload::default() };
    if !workload.name.is_empty() {
        generator::check(&workload)?;
    }
    Ok(Experiment {
        seconds: None,
        file: None,
        name: "tune".into(),
        title: "Settings for a site".into(),
        source: String::new(),
        rows: Vec::new(),
        shows: String::new(),
        deviates: String::new(),
        not_testable: None,
        shares_runs_of: None,
        workload,
        axis: Axis { varies: Varies::Rate, ..Axis::default() },
        machine: machine(),
        series: Vec::new(),
        claims: Vec::new(),
        doubts: Vec::new(),
    })
}

/// All CPUs but the generator's.
fn machine() -> Machine {
    let all = allowed_cpus().len() as u32;
    Machine { cpus: all.saturating_sub(1).max(1), backlog: 4_096, ..Machine::default() }
}

fn site(
    asked: &Asked,
    experiment: &Experiment,
    scratch: PathBuf,
    notes: &mut dyn Notes,
) -> Result<Site, SetupError> {
    let absolute = |path: &Path| {
        fs::canonicalize(path).map_err(|error| SetupError(format!("{}: {error}", path.display())))
    };
    let (files, config) = match &asked.target {
        Target::Directory(directory) => (absolute(directory)?, None),
        Target::Config(config) => (scratch.clone(), Some(absolute(config)?)),
        Target::Workload(name) => (absolute(&asked.out)?.join(name), None),
    };
    if is_root() {
        clear_leftovers()?;
    }
    // What a site's back ends are is known by addresses of this machine, which a namespace lacks.
    let network = match (is_root(), &config) {
        (true, None) => {
            let Cpus { server, client } = cpus(experiment.machine.cpus);
            Some(Network::new(server[0], client, experiment.machine.backlog)?)
        }
        _ => {
            notes.note("on loopback, whose packets are larger than a network's");
            None
        }
    };
    // A workload knows its files. What a log asks for need not be there, and is not compared then;
    // what a configuration answers is its own matter.
    let is_by_path = !experiment.workload.has_files() && config.is_none();
    Ok(Site {
        compare_with: is_by_path.then(|| files.clone()),
        flyball: asked.flyball.clone(),
        files_root: files.clone(),
        files,
        scratch,
        network,
        cpus: cpus(experiment.machine.cpus),
        verified: Default::default(),
        config,
        stolen_percent_max: asked.stolen_percent_max,
        awake: awake(&mut |why| notes.note(why)),
        client_first: client_first(experiment.machine.cpus, &mut |why| notes.note(why)),
    })
}
