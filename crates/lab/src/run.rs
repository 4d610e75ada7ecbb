//! One run: a fresh server under one load, and what both say of it.

mod grounds;
mod look;
mod recovery;
pub(crate) mod stacks;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::contestant::{self, Conditions, OURS};
use crate::definition::{DYNAMIC, Experiment, Machine, Measure, PageCache, Series, Varies};
use crate::generator::{Generator, Load, Report};
use crate::host::{
    Awake, Disturbance, Facts, Group, Halter, Idle, ListenDrops, Network, Occupier, Others, Place,
    Running, SERVER_ADDRESS, SetupError, States, until,
};
pub(crate) use grounds::Grounds;
use grounds::drop_page_cache;
pub use look::Look;

/// Where servers listen in a namespace of their own.
const PORT: u16 = 80;

/// Attempts at a run before it counts as noisy.
pub const ATTEMPTS_MAX: u32 = 3;

/// Time that a server gets until it answers rightly.
const READY_MAX: Duration = Duration::from_secs(15);

/// Seconds from which on a run is long enough to tell whether it was on one level.
const LEVEL_SECONDS_MIN: usize = 10;

/// How often a server that is starting is asked whether it answers.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// Descriptors of a server: the same for all.
const SERVER_DESCRIPTORS: u64 = 65_536;

/// Descriptors of the generator.
pub(crate) const CLIENT_DESCRIPTORS: usize = 200_000;

/// The percentage of a run's time that the machine beneath may take of ours before the run is void,
/// unless a campaign asks for another.
pub const STOLEN_PERCENT_MAX: f64 = 1.0;

/// The share of one processor that other programs may take before the run is void.
const OTHERS_SHARE_MAX: f64 = 0.10;

/// The share of its time for which the generator may be busy, or wait for its CPU.
const CLIENT_BUSY_MAX: f64 = 0.80;

/// Resets that other sockets of the machine may send: more are a load of their own.
const OTHERS_RESETS_MAX: u64 = 16;

/// S4's rule of quality of service: the share of a class's requests that may time out, how far a
/// class may be above the mean of all of them, and the share of all requests.
const CLASS_TIMEOUTS_MAX: f64 = 0.02;
const ABOVE_MEAN_MAX: f64 = 0.05;
const TIMEOUTS_MAX: f64 = 0.10;

/// How long answers are compared with files before a contestant is measured, in seconds.
const GATE_S: f64 = 0.3;

/// The same before each further run of it: it has to be ready, and right for as long as that.
const GATE_AGAIN_S: f64 = 0.1;

/// The share of the time after the warm-up in which stacks are sampled, where they are: perf takes
/// its time to begin.
const SAMPLED_SHARE: f64 = 0.8;

/// What is said of a server that takes no connection.
const NO_PORT: &str = "it takes no connection";

/// Connections of that.
const GATE_CONNECTIONS: f64 = 4.0;

/// What its seed differs by from that of the run: what the run begins with shall not have been
/// asked for before.
const GATE_SEED: u64 = 0x6761_7465;

/// The CPUs of either side.
#[derive(Clone, Debug)]
pub struct Cpus {
    /// Those of servers: one at least.
    pub server: Vec<u32>,
    /// That of the generator.
    pub client: u32,
}

impl Cpus {
    /// Those of servers as `taskset` takes them.
    pub(crate) fn of_server(&self) -> String {
        self.server.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
    }
}

/// What all runs of a campaign have in common.
#[derive(Debug)]
pub struct Site {
    /// Our binary: server and generator.
    pub flyball: PathBuf,
    /// Where sets of files are made.
    pub files_root: PathBuf,
    /// The files that are served.
    pub files: PathBuf,
    /// A directory for configuration and logs.
    pub scratch: PathBuf,
    /// The two hosts; `None` is loopback, for those who are not root.
    pub network: Option<Network>,
    /// Who runs where.
    pub cpus: Cpus,
    /// Series whose answers were compared with files at length.
    pub verified: BTreeSet<String>,
    /// What answers are compared with where no workload says what they must be.
    pub compare_with: Option<PathBuf>,
    /// Our server's configuration file, instead of the files alone.
    pub config: Option<PathBuf>,
    /// The percentage of a run's time beyond which it is void, of what the machine beneath takes.
    pub stolen_percent_max: f64,
    /// Keeps processors from sleeping, where that can be had.
    pub awake: Option<Awake>,
    /// Whether a generator that follows a clock goes before other programs on its CPU.
    pub client_first: bool,
}

/// All that is known of a run, as it is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The series.
    pub series: String,
    /// The value along the axis, as the definition has it.
    pub point: f64,
    /// What that was in this run: a rate, a number of connections, a size.
    pub amount: f64,
    /// Which repetition.
    pub block: usize,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// Why it does not count; nothing when it does.
    pub void: Vec<String>,
    /// Nothing but the server's own unfairness is why: another attempt would come out alike.
    #[serde(default)]
    pub unfair: bool,
    /// The figures, by the measures' names.
    pub figures: BTreeMap<Measure, f64>,
    /// Seconds of CPU time that the server's group used.
    pub server_cpu_s: Option<f64>,
    /// Connections that the kernel dropped.
    pub drops: Option<ListenDrops>,
    /// The share of the time that the machine beneath took.
    pub stolen_share: Option<f64>,
    /// What our server counted about itself during the run, where it counted any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
    /// What the generator reported.
    pub generator: Value,
}

impl Record {
    /// Replies in a second that were due.
    pub fn due_per_s(&self) -> Option<f64> {
        self.generator.get("intended_per_s")?.as_f64().filter(|due| *due > 0.0)
    }

    /// Replies in each whole second of the time after the warm-up; nothing for a run that is too
    /// short to have a level.
    pub(crate) fn replies_by_second(&self) -> Option<Vec<f64>> {
        let seconds = |name: &str| self.generator.get(name)?.as_f64();
        let (from, until) = (seconds("warmup_s")?.ceil(), seconds("duration_s")?.floor());
        let all = self.generator.get("replies_by_second")?.as_array()?;
        let window = all.get(from as usize..(until as usize).min(all.len()))?;
        let long = window.len() >= LEVEL_SECONDS_MIN;
        long.then(|| window.iter().filter_map(Value::as_f64).collect())
    }

    /// The share of what was due that was answered well.
    pub fn served_share(&self) -> f64 {
        let good = self.generator.get("goodput_per_s").and_then(Value::as_f64);
        good.zip(self.due_per_s()).map_or(0.0, |(good, due)| good / due)
    }
}

/// Measures one cell. Blocks; `stop` says that nobody waits any more.
///
/// # Errors
/// When it could not be measured at all: a server that does not start or answers wrongly.
pub fn measure(
    site: &mut Site,
    experiment: &Experiment,
    series: &Series,
    load: &Load,
    stop: &dyn Fn() -> bool,
) -> Result<Record, SetupError> {
    let machine = &experiment.machine;
    if machine.watched {
        return measure_blocked(site, experiment, series, load, stop);
    }
    if !machine.profiled {
        let unwatched = watched(site, experiment, series, load, stop, &mut |_| Ok(()));
        return unwatched.map(|((), record)| record);
    }
    let scratch = site.scratch.clone();
    let mut look = |watched: &Watched<'_>| {
        pause(load.warmup, stop);
        let seconds = (load.seconds - load.warmup) * SAMPLED_SHARE;
        stacks::sample(&watched.processes, seconds, &scratch, stop)
    };
    let ((), mut record) = watched(site, experiment, series, load, stop, &mut look)?;
    record.figures.extend(stacks::shares(&stacks::read(&scratch, stop)?));
    Ok(record)
}

/// Measures one cell, again while what makes it void says nothing of the server: what such a run
/// says holds for all others. Blocks.
///
/// # Errors
/// As [`measure`].
pub(crate) fn measure_untroubled(
    site: &mut Site,
    experiment: &Experiment,
    series: &Series,
    load: &Load,
    stop: &dyn Fn() -> bool,
) -> Result<Record, SetupError> {
    let mut record = measure(site, experiment, series, load, stop)?;
    for _ in 1..ATTEMPTS_MAX {
        if record.void.is_empty() || record.unfair || stop() {
            break;
        }
        record = measure(site, experiment, series, load, stop)?;
    }
    Ok(record)
}

/// Measures one cell, and how often the server is blocked.
fn measure_blocked(
    site: &mut Site,
    experiment: &Experiment,
    series: &Series,
    load: &Load,
    stop: &dyn Fn() -> bool,
) -> Result<Record, SetupError> {
    let mut look = |watched: &Watched<'_>| {
        pause(load.warmup, stop);
        let states = States::of(&watched.processes);
        Ok(states.blocked_share(load.seconds - load.warmup, stop))
    };
    let (share, mut record) = watched(site, experiment, series, load, stop, &mut look)?;
    record.figures.extend(share.map(|share| (Measure::BlockedPercent, 100.0 * share)));
    Ok(record)
}

/// Waits. Blocks, until nobody waits any more.
pub(crate) fn pause(seconds: f64, stop: &dyn Fn() -> bool) {
    let every = Duration::from_millis(20);
    // Nothing is looked for but the time.
    until(Duration::from_secs_f64(seconds), every, stop, || None::<()>);
}

/// A server that is being loaded, for those who look at it meanwhile.
pub struct Watched<'a> {
    /// Its processes.
    pub processes: Vec<u32>,
    look: &'a dyn Fn() -> Look,
}

impl Watched<'_> {
    /// What the kernel and the server say now. Blocks for an answer of ours.
    pub fn look(&self) -> Look {
        (self.look)()
    }
}

/// Measures one cell, and lets someone look at the server while it is loaded. Blocks for as long
/// as either takes.
///
/// # Errors
/// As [`measure`], and those of the one who looks.
pub fn watched<T>(
    site: &mut Site,
    experiment: &Experiment,
    series: &Series,
    load: &Load,
    stop: &dyn Fn() -> bool,
    watch: &mut dyn FnMut(&Watched<'_>) -> Result<T, SetupError>,
) -> Result<(T, Record), SetupError> {
    let machine = &experiment.machine;
    let grounds = Grounds::prepare(site, machine, stop)?;
    let group = grounds.group.as_ref();
    let mut server = Server::start(site, &grounds, experiment, series)?;
    server.wait_until_right(site, experiment, load, stop)?;
    site.verified.insert(series.name.clone());
    // What the answers that were compared have brought is not there either.
    if machine.page_cache == PageCache::Dropped {
        drop_page_cache()?;
    }
    // It starts at full speed.
    let _held = slowed(group, &server.running, &site.cpus, machine)?;
    let others = Others::look();
    let cpus = site.cpus.clone();
    let look = || Look::at(&server, &grounds, &cpus.server);
    let before = look();
    let begun = Instant::now();
    let place = site.client(load);
    let url = server.url();
    let mut workload = experiment.workload.clone();
    workload.flags.extend(series.load.iter().cloned());
    let generator = Generator::start(
        &site.flyball,
        &url,
        (&workload, &site.files),
        (load, series.client_processes),
        &place,
        &site.scratch,
    )?;
    let seen = watch(&Watched {
        processes: group.map(Group::processes).unwrap_or_default(),
        look: &look,
    })?;
    // What clients do that try again when the load is over is no part of it.
    pause((load.seconds - begun.elapsed().as_secs_f64()).max(0.0), stop);
    let loaded = look();
    let report = generator.wait(stop)?;
    let seconds = begun.elapsed().as_secs_f64();
    let after = look();
    let others = Others::look().since(&others);
    let mut record = look::record(series, load, &report, [before, loaded, after], seconds);
    let stolen = record.stolen_share.unwrap_or(0.0) * 100.0;
    if stolen > site.stolen_percent_max {
        record.void.push(format!("{BY_THE_MACHINE} {stolen:.1} % of the time"));
    }
    // What looks into a server takes its time on the generator's CPU, and no speed is claimed then.
    let busy = report.figure("client_busy_share").filter(|_| !machine.profiled).unwrap_or(0.0);
    if busy > CLIENT_BUSY_MAX {
        record.void.push(format!("the generator was busy for {:.0} % of the time", busy * 100.0));
    }
    // On loopback the counters of the machine are those of the server.
    record.void.extend(disturbed(&others, seconds, site.network.is_some()));
    let unfair = unfair(&report, experiment.workload.quality);
    record.unfair = record.void.is_empty() && unfair.is_some();
    record.void.extend(unfair);
    Ok((seen, record))
}

/// Leaves a server its share of a processor from now on, for as long as what it takes is there.
fn slowed(
    group: Option<&Group>,
    server: &Running,
    cpus: &Cpus,
    machine: &Machine,
) -> Result<Option<Box<dyn Any>>, SetupError> {
    if machine.cpu_share >= 1.0 {
        return Ok(None);
    }
    let Some(group) = group else {
        let halter = Halter::start(server.id(), machine.cpu_share)?;
        return Ok(Some(Box::new(halter)));
    };
    match machine.cpu_turn_us {
        Some(_) if cpus.server.contains(&cpus.client) => {
            Err(SetupError("turns of a CPU take another one for the generator".into()))
        }
        Some(us) => {
            let turn = Duration::from_secs_f64(us / 1e6);
            let occupier = Occupier::start(&cpus.of_server(), machine.cpu_share, turn)?;
            Ok(Some(Box::new(occupier)))
        }
        None => group.slow_cpu(machine.cpu_share * f64::from(machine.cpus)).map(|()| None),
    }
}

/// How the causes begin that others bring: programs, servers, and guests of the machine.
const BY_THE_MACHINE: &str = "the machine beneath took";
const BY_PROGRAMS: &str = "other programs took";
const BY_SERVERS: &str = "sockets of other servers dropped";
const BY_SOCKETS: &str = "sockets of other programs sent";

/// Whether a run is void by what others did, who may end at any moment.
pub(crate) fn is_by_others(why: &str) -> bool {
    let of_others = [BY_THE_MACHINE, BY_PROGRAMS, BY_SERVERS, BY_SOCKETS];
    of_others.iter().any(|start| why.starts_with(start))
}

/// Why others make a run void, which took so many seconds.
fn disturbed(others: &Disturbance, seconds: f64, apart: bool) -> Vec<String> {
    let mut void = Vec::new();
    let share = others.cpu_s / seconds.max(f64::MIN_POSITIVE);
    if share > OTHERS_SHARE_MAX {
        let name = |id: u32| {
            let name = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
            format!(", most of it process {id} {}", name.trim())
        };
        let mostly = others.mostly.map(name).unwrap_or_default();
        void.push(format!("{BY_PROGRAMS} {:.0} % of a processor{mostly}", share * 100.0));
    }
    if apart && others.drops > 0 {
        void.push(format!("{BY_SERVERS} {} connections", others.drops));
    }
    if apart && others.resets > OTHERS_RESETS_MAX {
        void.push(format!("{BY_SOCKETS} {} resets", others.resets));
    }
    void
}

/// Why the server was not fair by S4's rule (M158): a class of files that it gives up more than the
/// classes on average makes every run void. Where the experiment asks for the whole rule, so do
/// more time-outs of one class than it allows, and of all requests that were taken: past its peak a
/// server cannot take all, and the paper does not count what it never took.
fn unfair(report: &Report, whole: bool) -> Option<String> {
    let classes = report.0.get("classes").and_then(Value::as_array);
    let shares: Vec<Share<'_>> = classes.into_iter().flatten().filter_map(share_of).collect();
    let mean = shares.iter().map(|one| one.share).sum::<f64>() / shares.len().max(1) as f64;
    let breaks = |one: &&Share<'_>| {
        let above_mean = one.is_above(mean, mean + ABOVE_MEAN_MAX);
        above_mean || (whole && one.is_above(CLASS_TIMEOUTS_MAX, CLASS_TIMEOUTS_MAX))
    };
    let mut because: Vec<String> = Vec::new();
    for Share { class, share, .. } in shares.iter().filter(breaks) {
        let (share, mean) = (share * 100.0, mean * 100.0);
        because.push(format!("{share:.1} % of {class} timed out, {mean:.1} % on average"));
    }
    let errors = |name: &str| report.0["errors"][name].as_f64().unwrap_or(0.0);
    let late = errors("first_byte_timeout") + errors("reply_timeout");
    let share = late / (late + report.figure("replies").unwrap_or(0.0)).max(1.0);
    if whole && share > TIMEOUTS_MAX {
        because.push(format!("{:.1} % of all that were taken timed out", share * 100.0));
    }
    let told = format!("quality of service: {}", because.join("; "));
    (!because.is_empty()).then_some(told)
}

/// A class of files, and the share of its requests that timed out.
struct Share<'a> {
    class: &'a str,
    requests: f64,
    share: f64,
}

impl Share<'_> {
    /// Whether it is above a limit by more than chance gives, where this share is to be expected: a
    /// short run has few requests for large files.
    fn is_above(&self, expected: f64, limit: f64) -> bool {
        let deviation = (expected * (1.0 - expected) / self.requests).sqrt();
        self.share > limit + 2.0 * deviation
    }
}

fn share_of(class: &Value) -> Option<Share<'_>> {
    let count = |name: &str| class.get(name).and_then(Value::as_f64);
    let (replies, timeouts) = (count("replies")?, count("timeouts")?);
    let requests = replies + timeouts;
    let class = class.get("class")?.as_str()?;
    (requests > 0.0).then_some(Share { class, requests, share: timeouts / requests })
}

impl Site {
    /// What there is to tell of the machine. Blocks.
    pub(crate) fn facts(&self) -> Facts {
        let idle = self.awake.as_ref().map_or(Idle::Sleep, Awake::idle);
        Facts {
            idle_processors: Some(idle.name().to_owned()),
            ..Facts::of(self.network.as_ref().map(Network::server))
        }
    }

    /// Where the generator of this load runs. One that follows a clock goes before other programs.
    fn client(&self, load: &Load) -> Place {
        Place {
            namespace: self.network.as_ref().map(|network| network.client().to_owned()),
            cpus: Some(self.cpus.client.to_string()),
            joins: Vec::new(),
            descriptors: Some(CLIENT_DESCRIPTORS as u64),
            first: self.client_first && load.varies.is_open(),
        }
    }
}

/// How a server that is ready answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    /// As its files say, with which answers are compared.
    Compared,
    /// Well, as its status says; nothing tells what an answer must be.
    Good,
    /// By a refusal, or not at all: it takes connections.
    Refused,
}

impl Answers {
    fn is_right(self, report: &Report) -> bool {
        let figure = match self {
            Answers::Compared => "replies",
            Answers::Good => "good",
            Answers::Refused => "connect_us.count",
        };
        report.figure(figure).is_some_and(|count| count > 0.0)
    }
}

/// A contestant that runs.
struct Server {
    answers: Answers,
    running: Running,
    address: SocketAddr,
    log: PathBuf,
    admin: Option<PathBuf>,
    name: String,
}

impl Server {
    fn start(
        site: &Site,
        grounds: &Grounds,
        experiment: &Experiment,
        series: &Series,
    ) -> Result<Server, SetupError> {
        let (files, group) = (grounds.files.as_path(), grounds.group.as_ref());
        let scratch = site.scratch.join("server");
        let wrong = |error| SetupError(format!("{}: {error}", scratch.display()));
        // What the server before left; it need not be there.
        let _ = fs::remove_dir_all(&scratch);
        fs::create_dir_all(&scratch).map_err(wrong)?;
        let address = match &site.network {
            Some(_) => SocketAddr::new(IpAddr::V4(SERVER_ADDRESS), PORT),
            None => TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
                .and_then(|listener| listener.local_addr())
                .map_err(|error| SetupError(format!("looking for a free port: {error}")))?,
        };
        if let Some(network) = &site.network {
            network.set_syn_cookies(experiment.machine.syn_cookies)?;
        }
        let one = ["one-packet", "single-file"].contains(&experiment.workload.name.as_str());
        let is_dynamic = experiment.workload.name == DYNAMIC;
        let module = match (is_dynamic, experiment.workload.work) {
            (true, _) => Some(contestant::dynamic(series, files)),
            (_, Some(_)) => Some(contestant::work(series)),
            _ => None,
        };
        let config = match (&site.config, module) {
            (None, Some(module)) if series.contestant == OURS => {
                let machine = &experiment.machine;
                Some(contestant::with_module(&module, files, &scratch, machine)?)
            }
            (config, _) => config.clone(),
        };
        let conditions = Conditions {
            flyball: site.flyball.clone(),
            site: files.to_owned(),
            config,
            file: one.then(|| first_file(files)).flatten(),
            scratch: scratch.clone(),
            address,
            backlog: experiment.machine.backlog,
            cpus: experiment.machine.cpus,
        };
        let place = Place {
            namespace: site.network.as_ref().map(|network| network.server().to_owned()),
            cpus: Some(site.cpus.of_server()),
            joins: group.map(Group::joins).unwrap_or_default(),
            descriptors: Some(SERVER_DESCRIPTORS),
            first: false,
        };
        let mut command = contestant::command(series, &conditions, &place)?;
        let log = scratch.join("output.log");
        let running = Running::start(&mut command, &log)?;
        let admin = (series.contestant == OURS).then(|| contestant::admin_socket(&conditions));
        let answers = match experiment.workload.has_files() {
            _ if series.refuses => Answers::Refused,
            true => Answers::Compared,
            false => Answers::Good,
        };
        Ok(Server { running, address, log, admin, name: series.name.clone(), answers })
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Waits until it answers, and every answer is the file, byte for byte.
    fn wait_until_right(
        &mut self,
        site: &Site,
        experiment: &Experiment,
        load: &Load,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), SetupError> {
        let end = Instant::now() + READY_MAX;
        // On loopback a connection can be tried from here.
        if site.network.is_none() {
            let connected =
                until(READY_MAX, ASK_EVERY, stop, || TcpStream::connect(self.address).ok());
            connected.map_or_else(|| self.give_up_at(Instant::now(), NO_PORT), |_| Ok(()))?;
        }
        let seconds = if site.verified.contains(&self.name) { GATE_AGAIN_S } else { GATE_S };
        let gate = Load {
            varies: Varies::Connections,
            amount: GATE_CONNECTIONS,
            steps: Vec::new(),
            seconds,
            warmup: 0.0,
            verify: self.answers == Answers::Compared,
            seed: load.seed ^ GATE_SEED,
        };
        let mut workload = experiment.workload.clone();
        if let Some(files) = &site.compare_with {
            workload.flags.extend(["--verify-with".into(), files.to_string_lossy().into_owned()]);
        }
        loop {
            let report = Generator::start(
                &site.flyball,
                &self.url(),
                (&workload, &site.files),
                (&gate, false),
                &site.client(&gate),
                &site.scratch,
            )?
            .wait(stop);
            match report {
                Ok(report) if report.wrong_bodies() > 0 => {
                    let wrong = report.wrong_bodies();
                    let name = &self.name;
                    return Err(SetupError(format!("{name} answers wrongly: {wrong} bodies")));
                }
                Ok(report) if self.answers.is_right(&report) => return Ok(()),
                Ok(_) => self.give_up_at(end, "nothing was answered")?,
                // Before it asks for dynamic replies it talks to the server itself.
                Err(why) if experiment.workload.name == DYNAMIC => {
                    self.give_up_at(end, &why.0)?;
                }
                Err(why) => return Err(SetupError(format!("nothing can be asked for: {why}"))),
            }
            if stop() {
                return Err(SetupError("interrupted".into()));
            }
        }
    }

    /// Gives up when a time has come, or the server has ended: says why the last that asked it had
    /// no answer, and what the server said.
    fn give_up_at(&mut self, end: Instant, why: &str) -> Result<(), SetupError> {
        if Instant::now() < end && self.running.ended().is_none() {
            return Ok(());
        }
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        let text = format!("{} does not answer ({why}): {}", self.name, said.trim());
        Err(SetupError(text.trim_end_matches([' ', ':']).to_owned()))
    }
}

/// The first file of a directory of one.
fn first_file(directory: &Path) -> Option<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path()).collect();
    // What the set of files says of itself is hidden.
    let is_hidden = |path: &Path| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
    };
    files.retain(|path| path.is_file() && !is_hidden(path));
    files.sort();
    files.into_iter().next()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_peer_of_one_file_serves_that_and_not_what_the_set_says_of_itself() {
        let directory = tempfile::tempdir().unwrap();
        for name in [".fileset.json", "one_pkt"] {
            fs::write(directory.path().join(name), name).unwrap();
        }
        assert_eq!(first_file(directory.path()), Some(directory.path().join("one_pkt")));
    }

    #[test]
    fn a_run_that_others_had_a_part_in_is_void() {
        let quiet = Disturbance { cpu_s: 0.05, mostly: None, drops: 0, resets: 2 };
        assert_eq!(disturbed(&quiet, 1.0, true), Vec::<String>::new());
        let known = Disturbance { cpu_s: 0.5, mostly: Some(std::process::id()), ..quiet };
        let void = disturbed(&known, 1.0, true).concat();
        assert!(void.contains(&format!("most of it process {} ", std::process::id())), "{void}");
        let busy = Disturbance { cpu_s: 0.5, ..quiet };
        assert_eq!(disturbed(&busy, 1.0, true), ["other programs took 50 % of a processor"]);
        assert_eq!(disturbed(&busy, 10.0, true), Vec::<String>::new());
        let dropped = Disturbance { drops: 3, resets: 40, ..quiet };
        assert_eq!(disturbed(&dropped, 1.0, true).len(), 2);
        assert!(disturbed(&dropped, 1.0, false).is_empty());
    }

    #[test]
    fn a_server_that_is_not_fair_has_no_figure() {
        let report = |small: (u64, u64), large: (u64, u64), connecting: u64| {
            let class = |name: &str, counts: (u64, u64)| -> Value {
                let (replies, timeouts) = counts;
                json!({ "class": name, "replies": replies, "timeouts": timeouts })
            };
            Report(json!({
                "replies": small.0 + large.0,
                "errors": { "connect_timeout": connecting, "reply_timeout": small.1 + large.1 },
                "classes": [class("small", small), class("large", large)],
            }))
        };
        let both = |report: &Report| [unfair(report, false), unfair(report, true)];
        assert_eq!(both(&report((990, 10), (99, 1), 0)), [None, None]);
        // A third is never taken: that is what being past the peak means.
        assert_eq!(both(&report((1_000, 0), (100, 0), 500)), [None, None]);
        // All are given up alike, and more than a server of S4 may.
        let alike = both(&report((800, 200), (80, 20), 0));
        assert!(alike[0].is_none() && alike[1].as_ref().is_some_and(|why| why.contains("of all")));
        // One class is given up.
        let given_up = both(&report((1_000, 0), (800, 200), 0));
        let why = "quality of service: 20.0 % of large timed out, 10.0 % on average";
        assert_eq!(given_up, [Some(why.to_owned()), Some(why.to_owned())]);
        // One of eight may be chance.
        assert_eq!(both(&report((980, 20), (7, 1), 0))[0], None);
        assert_eq!(both(&Report(json!({}))), [None, None]);
    }
}
