//! Supervision, which is no architecture's business: bind, fork, restart, signals, drain, counters.
//!
//! The master makes every listening socket and keeps it, forks the workers and the process that
//! serves `--admin`, and then waits for signals. It stays single-threaded, runs no architecture and
//! parses no byte from the network.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flyball_site::Sites;
use flyball_sys::clock;
use flyball_sys::net::{self, Address, ListenOptions};
use flyball_sys::process::{self, Ending, Forked, ProcessId};
use flyball_sys::readiness::{self, Interest, Readiness};
use flyball_sys::signal::{Signal, Signals};

use crate::admin;
use crate::counters::Blocks;
use crate::log::LogFile;
use crate::registry::{self, Architecture, Sockets};
use crate::settings::{AdminAddress, Settings};
use crate::worker::{BLOCKING_TICK_MS, Worker};

/// Seconds for which the kernel holds back a connection that sends nothing.
const DEFER_ACCEPT_S: u32 = 5;

/// Wait before the first restart of a worker that crashed; doubled with each crash in a row.
const RESTART_MS_MIN: u64 = 50;

/// Longest wait before a restart.
const RESTART_MS_MAX: u64 = 10_000;

/// A worker that lived this long starts with the shortest wait again.
const RESTART_FORGIVEN_MS: u64 = 30_000;

/// Time beyond the drain deadline after which workers are killed.
const KILL_AFTER_MS: u64 = 2_000;

/// Descriptors a worker keeps for things other than connections.
const DESCRIPTORS_RESERVED: usize = 64;

/// One in so many descriptors may hold a file.
const FILES_SHARE: usize = 4;

/// Connections that a worker takes at least, however few descriptors there are.
const CONNECTIONS_MIN: usize = 16;

/// A server that is bound and may be run.
#[derive(Debug)]
pub struct Server {
    architecture: &'static dyn Architecture,
    settings: Arc<Settings>,
    sites: Arc<Sites>,
    /// One list per worker, or one for all.
    listeners: Vec<Vec<Arc<OwnedFd>>>,
    addresses: Vec<Address>,
    admin: Option<Arc<OwnedFd>>,
    log: LogFile,
    workers: usize,
}

impl Server {
    /// Opens the sites and the logs, and binds every address; nothing is served yet.
    ///
    /// # Errors
    /// With a message for whoever started the server: a taken port, a missing root, a missing
    /// right.
    pub fn bind(
        architecture: &'static dyn Architecture,
        mut settings: Settings,
    ) -> Result<Server, String> {
        // Where descriptors are few, connections need them more than files do.
        let files = &mut settings.caches.files_max;
        *files = (*files).min(process::descriptor_limit() / FILES_SHARE);
        architecture
            .probe()
            .map_err(|why| format!("{} cannot run here: {why}", architecture.name()))?;
        let sites = Sites::open(&settings.sites).map_err(|error| error.to_string())?;
        let log =
            LogFile::open(&settings.access_log).map_err(|error| format!("access-log: {error}"))?;
        let workers = architecture.workers(&settings);
        let groups = match architecture.sockets() {
            Sockets::Shared => 1,
            Sockets::PerWorker => workers,
        };
        let mut listeners: Vec<Vec<Arc<OwnedFd>>> = vec![Vec::new(); groups];
        let mut addresses = Vec::new();
        for address in &settings.listen {
            let (bound, sockets) = bind_group(architecture, &settings, *address, groups)?;
            addresses.push(bound);
            for (group, socket) in listeners.iter_mut().zip(sockets) {
                group.push(Arc::new(socket));
            }
        }
        let admin = settings.admin.as_ref().map(bind_admin).transpose()?;
        Ok(Server {
            architecture,
            settings: Arc::new(settings),
            sites: Arc::new(sites),
            listeners,
            addresses,
            admin,
            log,
            workers,
        })
    }

    /// The addresses that are listened on, with the ports that were found.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// How many workers there will be.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Where `/status` and `/metrics` are, when that is a TCP address.
    pub fn admin_address(&self) -> Option<Address> {
        self.admin.as_ref().and_then(|socket| net::local_address(&**socket).ok())
    }

    /// The listening sockets of a worker: its own, or those that all share.
    fn listeners_of(&self, worker: usize) -> &[Arc<OwnedFd>] {
        &self.listeners[if self.listeners.len() == 1 { 0 } else { worker }]
    }

    /// What the kernel will do differently than asked, for whoever started the server.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = registry::unused_settings(self.architecture, &self.settings);
        let backlog = self.settings.backlog;
        if let Some(cap) = net::backlog_cap().filter(|cap| *cap < backlog) {
            warnings.push(format!(
                "accept.backlog is {backlog}, but net.core.somaxconn cuts it to {cap}"
            ));
        }
        let room = connections_that_fit(&self.settings);
        if let Some(most) = self.settings.max_connections.filter(|most| *most > room) {
            warnings.push(format!(
                "connections.max is {most}, but the descriptor limit leaves room for {room}"
            ));
        }
        warnings
    }

    /// Serves until SIGTERM or SIGINT, then drains. Blocks. False when workers had to be killed;
    /// connections that were open at the drain deadline are told on standard error.
    ///
    /// # Errors
    /// When the first workers cannot be started.
    pub fn run(self) -> io::Result<bool> {
        let threads = self.architecture.threads(&self.settings);
        let blocks = Arc::new(Blocks::new(self.workers * threads)?);
        let signals = Signals::block()?;
        let mut master = Master {
            children: Vec::new(),
            blocks,
            threads,
            started_ms: clock::monotonic_ms(),
            server: self,
        };
        for index in 0..master.server.workers {
            master.children.push(Child::new(Role::Worker(index)));
        }
        if master.server.admin.is_some() {
            master.children.push(Child::new(Role::Admin));
        }
        for at in 0..master.children.len() {
            master.start(at)?;
        }
        master.supervise(&signals)
    }
}

/// How many connections a worker's descriptors leave room for, beside files and the rest.
fn connections_that_fit(settings: &Settings) -> usize {
    let others = DESCRIPTORS_RESERVED + settings.caches.files_max;
    process::descriptor_limit().saturating_sub(others).max(CONNECTIONS_MIN)
}

/// Binds one address, once per group. The first socket is bound without SO_REUSEPORT, so that a
/// port which somebody else holds is seen; the option is set before it listens, for the others.
fn bind_group(
    architecture: &dyn Architecture,
    settings: &Settings,
    address: Address,
    groups: usize,
) -> Result<(Address, Vec<OwnedFd>), String> {
    let first = bind_first_free(address, settings.port_tries)
        .map_err(|error| format!("cannot listen on {address}: {}", explain(&error)))?;
    let fail = |error: io::Error| format!("cannot listen on {address}: {error}");
    let bound = net::local_address(&first).map_err(fail)?;
    let mut sockets = vec![first];
    if groups > 1 {
        net::share_port(&sockets[0]).map_err(fail)?;
        for _ in 1..groups {
            sockets.push(net::bind(bound, true).map_err(fail)?);
        }
    }
    let options = listen_options(architecture, settings);
    for socket in &sockets {
        if architecture.listener_blocks() {
            net::set_blocking(socket).map_err(fail)?;
        }
        net::listen(socket, settings.backlog, &options).map_err(fail)?;
    }
    Ok((bound, sockets))
}

/// What accepted connections inherit from their listening socket.
fn listen_options(architecture: &dyn Architecture, settings: &Settings) -> ListenOptions {
    let tick = Duration::from_millis(BLOCKING_TICK_MS);
    ListenOptions {
        defer_accept_s: if settings.defer_accept { DEFER_ACCEPT_S } else { 0 },
        congestion: settings.congestion.clone(),
        timeout: architecture.is_blocking().then_some(tick),
    }
}

fn bind_first_free(address: Address, tries: u16) -> io::Result<OwnedFd> {
    let mut attempt = address;
    loop {
        match net::bind(attempt, false) {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse
                    && attempt.port() < u16::MAX
                    && attempt.port() - address.port() < tries =>
            {
                attempt.set_port(attempt.port() + 1);
            }
            bound => return bound,
        }
    }
}

fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "the port is taken by another program".into(),
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".into(),
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need the CAP_NET_BIND_SERVICE capability".into()
        }
        _ => error.to_string(),
    }
}

fn bind_admin(address: &AdminAddress) -> Result<Arc<OwnedFd>, String> {
    let socket = match address {
        AdminAddress::Tcp(address) => net::bind(*address, false).and_then(|socket| {
            net::set_blocking(&socket)?;
            net::listen(&socket, 16, &ListenOptions::default())?;
            Ok(socket)
        }),
        AdminAddress::Unix(path) => net::listen_unix(path),
    };
    socket.map(Arc::new).map_err(|error| format!("admin: {}", explain(&error)))
}

#[derive(Clone, Copy, Debug)]
enum Role {
    Worker(usize),
    Admin,
}

/// A child process that shall be running.
#[derive(Debug)]
struct Child {
    role: Role,
    process: Option<ProcessId>,
    started_ms: u64,
    restart_ms: u64,
    due_ms: Option<u64>,
}

impl Child {
    fn new(role: Role) -> Child {
        Child { role, process: None, started_ms: 0, restart_ms: RESTART_MS_MIN, due_ms: None }
    }
}

/// The master process.
struct Master {
    server: Server,
    children: Vec<Child>,
    blocks: Arc<Blocks>,
    threads: usize,
    started_ms: u64,
}

impl Master {
    /// Waits for signals and for restarts that are due, until the server shall stop.
    fn supervise(mut self, signals: &Signals) -> io::Result<bool> {
        let mut mechanism = readiness::open("poll")?;
        mechanism.add(signals.as_fd(), 0, Interest::READ)?;
        loop {
            self.wait(mechanism.as_mut(), self.next_restart_ms())?;
            while let Some(signal) = signals.next() {
                match signal {
                    Signal::Stop => return self.stop(mechanism.as_mut(), signals),
                    Signal::Child => self.reap(true),
                    Signal::Retire | Signal::Other(_) => {}
                }
            }
            self.restart_due();
        }
    }

    fn wait(&self, mechanism: &mut dyn Readiness, until_ms: Option<u64>) -> io::Result<()> {
        let now_ms = clock::monotonic_ms();
        let timeout = until_ms
            .map_or(-1, |until| i32::try_from(until.saturating_sub(now_ms)).unwrap_or(i32::MAX));
        mechanism.wait(&mut Vec::new(), timeout)
    }

    fn next_restart_ms(&self) -> Option<u64> {
        self.children.iter().filter_map(|child| child.due_ms).min()
    }

    fn restart_due(&mut self) {
        let now_ms = clock::monotonic_ms();
        for at in 0..self.children.len() {
            if self.children[at].due_ms.is_some_and(|due| due <= now_ms)
                && let Err(error) = self.start(at)
            {
                eprintln!("flyball: cannot restart {}: {error}", name(self.children[at].role));
                self.children[at].due_ms = Some(now_ms + RESTART_MS_MAX);
            }
        }
    }

    /// Forks one child.
    fn start(&mut self, at: usize) -> io::Result<()> {
        let role = self.children[at].role;
        let master = process::own_id();
        if let Role::Worker(index) = role {
            // A worker that was told to stop by somebody else has closed its queue.
            let (settings, architecture) = (&self.server.settings, self.server.architecture);
            for listener in self.server.listeners_of(index) {
                let options = listen_options(architecture, settings);
                net::listen(&**listener, settings.backlog, &options)?;
            }
        }
        match process::fork()? {
            Forked::Parent(child) => {
                let child_entry = &mut self.children[at];
                child_entry.process = Some(child);
                child_entry.started_ms = clock::monotonic_ms();
                child_entry.due_ms = None;
                Ok(())
            }
            Forked::Child => {
                let code = match self.run_child(role, master) {
                    Ok(()) => 0,
                    Err(error) => {
                        eprintln!("flyball: {}: {error}", name(role));
                        1
                    }
                };
                process::exit_now(code)
            }
        }
    }

    fn run_child(&mut self, role: Role, master: i32) -> io::Result<()> {
        process::die_with_parent(master)?;
        match role {
            Role::Admin => {
                let Some(socket) = &self.server.admin else { return Ok(()) };
                admin::serve(&admin::Admin {
                    socket: Arc::clone(socket),
                    blocks: Arc::clone(&self.blocks),
                    architecture: self.server.architecture.name(),
                    workers: self.server.workers,
                    addresses: self.server.addresses.clone(),
                    listeners: self.server.listeners.concat(),
                    started_ms: self.started_ms,
                    master,
                })
            }
            Role::Worker(index) => self.run_worker(index),
        }
    }

    fn run_worker(&mut self, index: usize) -> io::Result<()> {
        let server = &self.server;
        let settings = Arc::clone(&server.settings);
        if settings.pin {
            let cpus = process::allowed_cpus();
            process::pin(cpus[index % cpus.len()])?;
        }
        let shared = server.listeners.len() == 1 && server.workers > 1;
        let room = connections_that_fit(&settings);
        let worker = Worker {
            index,
            listeners: server.listeners_of(index).to_vec(),
            shares_listeners: shared,
            sites: Arc::clone(&server.sites),
            blocks: Arc::clone(&self.blocks),
            block: index * self.threads,
            signals: Signals::block()?,
            connections_max: settings.max_connections.map_or(room, |most| most.min(room)),
            log: server.log.clone(),
            accepting: Mutex::new(None),
            settings,
        };
        let report = server.architecture.run(worker)?;
        if report.unfinished > 0 {
            eprintln!(
                "flyball: worker {index}: {} connections were still open at the drain deadline",
                report.unfinished
            );
        }
        Ok(())
    }

    /// Reaps every child that ended; `restart` plans a new one, later with each crash in a row.
    fn reap(&mut self, restart: bool) {
        while let Some((process, ending)) = process::reap() {
            let Some(child) = self.children.iter_mut().find(|c| c.process == Some(process)) else {
                continue;
            };
            child.process = None;
            let now_ms = clock::monotonic_ms();
            if let Role::Worker(index) = child.role {
                for thread in 0..self.threads {
                    self.blocks.fold(index * self.threads + thread);
                }
            }
            if restart {
                if now_ms - child.started_ms >= RESTART_FORGIVEN_MS {
                    child.restart_ms = RESTART_MS_MIN;
                }
                let wait_ms = child.restart_ms;
                child.due_ms = Some(now_ms + wait_ms);
                child.restart_ms = (wait_ms * 2).min(RESTART_MS_MAX);
                let how = match ending {
                    Ending::Exited(code) => format!("exited with code {code}"),
                    Ending::Killed(signal) => format!("was ended by signal {signal}"),
                };
                let name = name(child.role);
                eprintln!("flyball: {name} {how}; it is restarted in {wait_ms} ms");
            }
        }
    }

    /// Tells every child to stop, and waits until they have, the drain deadline is over, or the
    /// server is told to stop once more.
    fn stop(mut self, mechanism: &mut dyn Readiness, signals: &Signals) -> io::Result<bool> {
        self.reap(false);
        for child in self.children.iter().filter_map(|child| child.process) {
            process::terminate(child);
        }
        let until_ms = clock::monotonic_ms() + self.server.settings.drain_ms + KILL_AFTER_MS;
        loop {
            self.reap(false);
            if self.children.iter().all(|child| child.process.is_none()) {
                return Ok(true);
            }
            if clock::monotonic_ms() >= until_ms {
                break;
            }
            self.wait(mechanism, Some(until_ms))?;
            let mut again = false;
            while let Some(signal) = signals.next() {
                again |= signal == Signal::Stop;
            }
            if again {
                break;
            }
        }
        for child in self.children.iter().filter_map(|child| child.process) {
            process::kill(child);
        }
        Ok(false)
    }
}

fn name(role: Role) -> String {
    match role {
        Role::Worker(index) => format!("worker {index}"),
        Role::Admin => "the admin process".into(),
    }
}
