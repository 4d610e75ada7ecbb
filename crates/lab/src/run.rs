//! One run: a fresh server under one load, and what both say of it.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::contestant::{self, Conditions, OURS};
use crate::definition::{Experiment, Machine, Measure, PageCache, Series, Varies};
use crate::generator::{Generator, Load, Report};
use crate::host::{
    Group, GroupLimits, ListenDrops, Network, Place, Running, SERVER_ADDRESS, SetupError, stolen_ns,
};

/// Where servers listen in a namespace of their own.
const PORT: u16 = 80;

/// Time that a server gets until it answers rightly.
const READY_MAX: Duration = Duration::from_secs(15);

/// How often a server that is starting is asked whether it answers.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// Descriptors of a server: the same for all.
const SERVER_DESCRIPTORS: u64 = 65_536;

/// Descriptors of the generator.
const CLIENT_DESCRIPTORS: u64 = 200_000;

/// The share of a run's time that another machine may take of ours before the run is void.
const STOLEN_SHARE_MAX: f64 = 0.01;

/// How long answers are compared with files before a contestant is measured, in seconds.
const GATE_S: f64 = 0.3;

/// Connections of that.
const GATE_CONNECTIONS: f64 = 4.0;

/// The CPUs of either side.
#[derive(Clone, Debug)]
pub struct Cpus {
    /// Those of servers.
    pub server: String,
    /// That of the generator.
    pub client: String,
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
}

/// All that is known of a run, as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// The figures, by the measures' names.
    pub figures: BTreeMap<Measure, f64>,
    /// Seconds of CPU time that the server's group used.
    pub server_cpu_s: Option<f64>,
    /// Connections that the kernel dropped.
    pub drops: Option<ListenDrops>,
    /// The share of the time that the machine beneath took.
    pub stolen_share: Option<f64>,
    /// What the generator reported.
    pub generator: Value,
}

/// Measures one cell. Blocks; `stop` says that nobody waits any more.
///
/// # Errors
/// When it could not be measured at all: a server that does not start or answers wrongly.
pub fn measure(
    site: &Site,
    experiment: &Experiment,
    series: &Series,
    load: &Load,
    stop: &dyn Fn() -> bool,
) -> Result<Record, SetupError> {
    let machine = &experiment.machine;
    let group = group(machine, &site.files)?;
    if machine.page_cache == PageCache::Dropped || machine.memory_mib.is_some() {
        drop_page_cache();
    }
    if machine.page_cache == PageCache::Primed {
        prime(site, &group)?;
    }
    let server = Server::start(site, experiment, series, &group)?;
    server.wait_until_right(site, experiment, load, stop)?;
    let before = server.look(&group);
    let begun = Instant::now();
    let place = site.client();
    let url = server.url();
    let generator = Generator::start(
        &site.flyball,
        &url,
        (&experiment.workload, &site.files),
        load,
        &place,
        &site.scratch,
    )?;
    let report = generator.wait(stop)?;
    let seconds = begun.elapsed().as_secs_f64();
    let after = server.look(&group);
    Ok(record(series, load, &report, (before, after), seconds))
}

/// What the kernel and the server say at one moment.
#[derive(Clone, Debug, Default)]
struct Look {
    cpu_ns: Option<u64>,
    anonymous: Option<u64>,
    drops: Option<ListenDrops>,
    stolen_ns: Option<u64>,
    counters: BTreeMap<String, u64>,
}

fn record(
    series: &Series,
    load: &Load,
    report: &Report,
    (before, after): (Look, Look),
    seconds: f64,
) -> Record {
    let replies = report.figure("replies_total").or(report.figure("replies")).unwrap_or(0.0);
    let cpu_ns = after.cpu_ns.zip(before.cpu_ns).map(|(after, before)| after - before);
    let drops = after.drops.zip(before.drops).map(|(after, before)| after.since(before));
    let cpus = thread::available_parallelism().map_or(1, usize::from) as f64;
    let stolen_share = after
        .stolen_ns
        .zip(before.stolen_ns)
        .map(|(after, before)| after.saturating_sub(before) as f64 / 1e9 / seconds / cpus);
    let mut void = report.void();
    if report.wrong_bodies() > 0 {
        void.push(format!("{} bodies were not the file", report.wrong_bodies()));
    }
    if let Some(share) = stolen_share.filter(|share| *share > STOLEN_SHARE_MAX) {
        void.push(format!("the machine beneath took {:.1} % of the time", share * 100.0));
    }
    let mut figures = BTreeMap::new();
    let mut put = |measure, figure: Option<f64>| {
        if let Some(figure) = figure.filter(|figure| figure.is_finite()) {
            figures.insert(measure, figure);
        }
    };
    put(Measure::GoodputPerS, report.figure("goodput_per_s"));
    put(Measure::RepliesPerS, report.figure("replies_per_s"));
    let window = report.figure("window_s").unwrap_or(load.seconds - load.warmup);
    let bits = report.figure("body_bytes").map(|bytes| bytes * 8.0 / 1e6 / window);
    put(Measure::MbitPerS, bits);
    let sent = replies.max(1.0);
    put(Measure::CpuUsPerReply, cpu_ns.map(|ns| ns as f64 / 1_000.0 / sent * window / seconds));
    put(Measure::DropsPerS, drops.map(|drops| drops.all as f64 / seconds));
    put(Measure::LatencyP50Us, report.figure("latency_us.p50"));
    put(Measure::LatencyP99Us, report.figure("latency_us.p99"));
    put(Measure::MemoryMib, after.anonymous.map(|bytes| bytes as f64 / f64::from(1 << 20)));
    let grown = |name: &str| {
        let count = |look: &Look| look.counters.get(name).copied();
        Some((count(&after)? - count(&before)?) as f64)
    };
    let ratio = |part: &str, whole: Option<f64>| Some(grown(part)? / whole.filter(|n| *n > 0.0)?);
    put(Measure::AcceptsPerPhase, ratio("accepted", grown("accept_phases")));
    put(Measure::WaitsPerReply, ratio("getevents_calls", grown("requests")));
    Record {
        series: series.name.clone(),
        point: 0.0,
        amount: load.amount,
        block: 0,
        attempt: 1,
        void,
        figures,
        server_cpu_s: cpu_ns.map(|ns| ns as f64 / 1e9),
        drops,
        stolen_share,
        generator: report.0.clone(),
    }
}

fn group(machine: &Machine, files: &Path) -> Result<Option<Group>, SetupError> {
    if !crate::host::is_root() {
        return Ok(None);
    }
    let limits = GroupLimits {
        memory: machine.memory_mib.map(|mib| mib << 20),
        disk_per_s: machine.disk_mib_per_s.map(|mib| mib << 20),
    };
    Group::new("server", limits, files).map(Some)
}

/// Takes what is clean out of the page cache. Without the right to, the run says what it found.
fn drop_page_cache() {
    // Pages that are not on the disk yet would stay.
    let _ = Command::new("sync").status();
    let _ = fs::write("/proc/sys/vm/drop_caches", "1");
}

/// Reads all files as the server's group, to which their pages are charged from then on.
fn prime(site: &Site, group: &Option<Group>) -> Result<(), SetupError> {
    let joins = group.as_ref().map(Group::joins).unwrap_or_default();
    let place = Place { joins, cpus: Some(site.cpus.server.clone()), ..Place::default() };
    let mut command = place.command(&crate::host::find("sh")?)?;
    command.args(["-c", "find \"$1\" -type f -exec cat {} + > /dev/null", "sh"]).arg(&site.files);
    let mut running = Running::start(&mut command, &site.scratch.join("prime.log"))?;
    running.wait(Duration::from_secs(600), &|| false);
    Ok(())
}

impl Site {
    fn client(&self) -> Place {
        Place {
            namespace: self.network.as_ref().map(|network| network.client().to_owned()),
            cpus: Some(self.cpus.client.clone()),
            joins: Vec::new(),
            descriptors: Some(CLIENT_DESCRIPTORS),
        }
    }
}

/// A contestant that runs.
struct Server {
    running: Running,
    address: SocketAddr,
    log: PathBuf,
    admin: Option<PathBuf>,
    name: String,
}

impl Server {
    fn start(
        site: &Site,
        experiment: &Experiment,
        series: &Series,
        group: &Option<Group>,
    ) -> Result<Server, SetupError> {
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
        let conditions = Conditions {
            flyball: site.flyball.clone(),
            site: site.files.clone(),
            file: one.then(|| first_file(&site.files)).flatten(),
            scratch: scratch.clone(),
            address,
            backlog: experiment.machine.backlog,
            cpus: experiment.machine.cpus,
        };
        let place = Place {
            namespace: site.network.as_ref().map(|network| network.server().to_owned()),
            cpus: Some(site.cpus.server.clone()),
            joins: group.as_ref().map(Group::joins).unwrap_or_default(),
            descriptors: Some(SERVER_DESCRIPTORS),
        };
        let mut command = contestant::command(series, &conditions, &place)?;
        let log = scratch.join("output.log");
        let running = Running::start(&mut command, &log)?;
        let admin = (series.contestant == OURS).then(|| contestant::admin_socket(&conditions));
        Ok(Server { running, address, log, admin, name: series.name.clone() })
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Waits until it answers, and every answer is the file, byte for byte.
    fn wait_until_right(
        &self,
        site: &Site,
        experiment: &Experiment,
        load: &Load,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), SetupError> {
        let until = Instant::now() + READY_MAX;
        // On loopback a connection can be tried from here.
        while site.network.is_none() && TcpStream::connect(self.address).is_err() {
            self.give_up_at(until)?;
            thread::park_timeout(ASK_EVERY);
        }
        let gate = Load {
            varies: Varies::Connections,
            amount: GATE_CONNECTIONS,
            seconds: GATE_S,
            warmup: 0.0,
            verify: true,
            ..load.clone()
        };
        loop {
            let report = Generator::start(
                &site.flyball,
                &self.url(),
                (&experiment.workload, &site.files),
                &gate,
                &site.client(),
                &site.scratch,
            )?
            .wait(stop);
            match report {
                Ok(report) if report.wrong_bodies() > 0 => {
                    let wrong = report.wrong_bodies();
                    let name = &self.name;
                    return Err(SetupError(format!("{name} answers wrongly: {wrong} bodies")));
                }
                Ok(report) if report.figure("replies").is_some_and(|replies| replies > 0.0) => {
                    return Ok(());
                }
                _ => self.give_up_at(until)?,
            }
            if stop() {
                return Err(SetupError("interrupted".into()));
            }
        }
    }

    fn give_up_at(&self, until: Instant) -> Result<(), SetupError> {
        if Instant::now() < until {
            return Ok(());
        }
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        Err(SetupError(format!("{} does not answer: {}", self.name, said.trim())))
    }

    fn look(&self, group: &Option<Group>) -> Look {
        // The counters of the namespace that the server is in.
        let netstat = fs::read_to_string(format!("/proc/{}/net/netstat", self.running.id()));
        Look {
            cpu_ns: group.as_ref().and_then(Group::cpu_ns),
            anonymous: group.as_ref().and_then(Group::anonymous),
            drops: netstat.ok().and_then(|text| ListenDrops::parse(&text)),
            stolen_ns: stolen_ns(),
            counters: self.admin.as_deref().and_then(counters).unwrap_or_default(),
        }
    }
}

/// What our server counts about itself.
fn counters(admin: &Path) -> Option<BTreeMap<String, u64>> {
    use std::io::{Read, Write};
    let mut socket = std::os::unix::net::UnixStream::connect(admin).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    socket.write_all(b"GET /status HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    socket.read_to_string(&mut text).ok()?;
    let (_, body) = text.split_once("\r\n\r\n")?;
    let status: Value = serde_json::from_str(body).ok()?;
    let counters = status.get("counters")?.as_object()?.iter();
    Some(counters.filter_map(|(name, n)| Some((name.clone(), n.as_u64()?))).collect())
}

/// The first file of a directory of one.
fn first_file(directory: &Path) -> Option<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    files.into_iter().next()
}
