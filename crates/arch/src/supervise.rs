//! Supervision, which is no architecture's business: fork, restart, signals, drain, counters, and
//! generations of workers.
//!
//! The master keeps the listening sockets, forks the workers and the process that serves `--admin`,
//! and then waits for signals and for commands. It stays single-threaded, runs no architecture and
//! parses no byte from the network. A change of architecture is a new generation of workers: the
//! old one leaves the listening sockets, connections wait in the accept queue for a moment, and
//! the new one takes them while the old one finishes what it has.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

use flyball_sys::clock;
use flyball_sys::process::{self, Ending, Forked, ProcessId, ask_to_reopen};
use flyball_sys::readiness::{self, Interest, Readiness};
use flyball_sys::signal::{Signal, Signals};

use crate::admin;
use crate::chunks::Chunks;
use crate::clients::ClientLimits;
use crate::control::{self, Command, Reply};
use crate::counters::Blocks;
use crate::listening::{cpu_of_worker, listen};
use crate::log::LogSender;
use crate::registry::{self, Architecture};
use crate::server::{Server, connections_that_fit};
use crate::settings::AcceptLimit;
use crate::worker::Worker;

/// Wait before the first restart of a worker that crashed; doubled with each crash in a row.
pub(crate) const RESTART_MS_MIN: u64 = 50;

/// Longest wait before a restart.
pub(crate) const RESTART_MS_MAX: u64 = 10_000;

/// A worker that lived this long starts with the shortest wait again.
pub(crate) const RESTART_FORGIVEN_MS: u64 = 30_000;

/// Time beyond the drain deadline after which workers are killed.
const KILL_AFTER_MS: u64 = 2_000;

/// Time that the log process has to write what is left when all others have ended.
const LOG_MS_MAX: u64 = 2_000;

/// Generations of workers alive at the same time.
const GENERATIONS_MAX: usize = 3;

/// Longest wait for a retiring generation to leave the listening sockets.
const LEAVE_MS_MAX: u64 = 5_000;

/// A new generation that fails within this time is taken back.
const TRIAL_MS: u64 = 3_000;

/// Tokens of what the master waits for.
const SIGNALS: u64 = 0;
const COMMANDS: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// A worker of this generation, with this number in it.
    Worker { generation: u64, index: usize },
    /// Serves `--admin`.
    Admin,
    /// Writes the access log.
    Log,
}

/// A child process that shall be running, or is to end.
#[derive(Debug)]
struct Child {
    role: Role,
    process: Option<ProcessId>,
    started_ms: u64,
    restart_ms: u64,
    due_ms: Option<u64>,
    /// The first block that it counts in.
    block: usize,
    blocks: usize,
    /// At its end when the worker accepts no more.
    accepting: Option<OwnedFd>,
    /// Retired, to be killed then.
    kill_at_ms: Option<u64>,
}

impl Child {
    fn new(role: Role, block: usize, blocks: usize) -> Child {
        Child {
            role,
            process: None,
            started_ms: 0,
            restart_ms: RESTART_MS_MIN,
            due_ms: None,
            block,
            blocks,
            accepting: None,
            kill_at_ms: None,
        }
    }

    fn started(&mut self, process: ProcessId) {
        self.process = Some(process);
        self.started_ms = clock::monotonic_ms();
        self.due_ms = None;
    }

    fn is_retired(&self) -> bool {
        self.kill_at_ms.is_some()
    }
}

/// The workers that accept.
struct Generation {
    number: u64,
    architecture: &'static dyn Architecture,
    workers: usize,
    started_ms: u64,
    /// What ran before, for as long as this one is on trial.
    previous: Option<&'static dyn Architecture>,
}

/// The master process.
pub(crate) struct Master {
    server: Server,
    generation: Generation,
    children: Vec<Child>,
    blocks: Arc<Blocks>,
    started_ms: u64,
    signals: Signals,
    /// Where the admin process sends commands.
    commands: Option<OwnedFd>,
    mechanism: Box<dyn Readiness>,
    /// A worker of a generation on trial failed.
    failed_trial: bool,
}

impl Master {
    /// Maps the counters, for the architecture that needs most of them, and blocks the signals.
    ///
    /// # Errors
    /// When memory or descriptors are out.
    pub(crate) fn new(server: Server) -> io::Result<Master> {
        let blocks_of = |arch: &&dyn Architecture| {
            arch.workers(&server.settings) * arch.threads(&server.settings)
        };
        let most = registry::ALL.iter().map(blocks_of).max().unwrap_or(1);
        // One generation more for one that is taken back while the others finish, and the log.
        let clients = ClientLimits::new(&server.settings)?;
        let blocks = Blocks::new(1 + most * (GENERATIONS_MAX + 1))?.with_clients(clients);
        let blocks = Arc::new(blocks);
        blocks.set_accept_limit(server.settings.accept_limit);
        blocks.set_sockets(server.listening.all().len());
        let signals = Signals::block()?;
        let mut mechanism = readiness::open("poll")?;
        mechanism.add(signals.as_fd(), SIGNALS, Interest::READ)?;
        let started_ms = clock::monotonic_ms();
        let architecture = server.architecture;
        let (number, workers, previous) = (0, 0, None);
        Ok(Master {
            generation: Generation { number, architecture, workers, started_ms, previous },
            children: Vec::new(),
            blocks,
            started_ms,
            signals,
            commands: None,
            mechanism,
            failed_trial: false,
            server,
        })
    }

    /// Starts everything, and waits for signals, commands and restarts that are due, until the
    /// server shall stop. Blocks.
    pub(crate) fn run(mut self) -> io::Result<bool> {
        // The first to start and the last to end.
        if self.server.appender.is_some() {
            self.children.push(Child::new(Role::Log, 0, 1));
            self.start(0)?;
        }
        self.begin_generation(self.server.architecture)?;
        if self.server.admin.is_some() {
            self.children.push(Child::new(Role::Admin, 0, 0));
            self.start(self.children.len() - 1)?;
        }
        let mut events = Vec::new();
        loop {
            self.wait(&mut events)?;
            while let Some(signal) = self.signals.next() {
                match signal {
                    Signal::Stop => return self.stop(),
                    Signal::Child => self.reap(true),
                    Signal::Reopen => self.log_process().into_iter().for_each(ask_to_reopen),
                    Signal::Retire | Signal::Other(_) => {}
                }
            }
            if events.iter().any(|event| event.token == COMMANDS) {
                self.obey();
            }
            if std::mem::take(&mut self.failed_trial) {
                self.take_back();
            }
            self.kill_overdue();
            self.restart_due();
        }
    }

    fn wait(&mut self, events: &mut Vec<readiness::Event>) -> io::Result<()> {
        let due = self.children.iter().flat_map(|child| [child.due_ms, child.kill_at_ms]);
        let now_ms = clock::monotonic_ms();
        let timeout = due
            .flatten()
            .min()
            .map_or(-1, |until| i32::try_from(until.saturating_sub(now_ms)).unwrap_or(i32::MAX));
        self.mechanism.wait(events, timeout)
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

    fn kill_overdue(&mut self) {
        let now_ms = clock::monotonic_ms();
        for child in &mut self.children {
            if child.kill_at_ms.is_some_and(|at| at <= now_ms)
                && let Some(process) = child.process
            {
                process::kill(process);
                child.kill_at_ms = Some(now_ms + KILL_AFTER_MS);
            }
        }
    }

    /// Starts the workers of an architecture on sockets that are prepared for it.
    fn begin_generation(&mut self, architecture: &'static dyn Architecture) -> io::Result<()> {
        let settings = &self.server.settings;
        let (workers, threads) = (architecture.workers(settings), architecture.threads(settings));
        let number = self.generation.number + 1;
        self.generation = Generation {
            number,
            architecture,
            workers,
            started_ms: clock::monotonic_ms(),
            previous: (number > 1).then_some(self.generation.architecture),
        };
        self.failed_trial = false;
        let at = registry::ALL.iter().position(|arch| arch.name() == architecture.name());
        self.blocks.set_generation(number, at.unwrap_or(0), workers);
        let first = self.children.len();
        for index in 0..workers {
            let block = self.free_blocks(threads).ok_or(io::ErrorKind::OutOfMemory)?;
            let role = Role::Worker { generation: number, index };
            self.children.push(Child::new(role, block, threads));
        }
        // One that cannot be started now is tried again, unless somebody decides otherwise.
        let mut failed = None;
        for at in first..self.children.len() {
            if let Err(error) = self.start(at) {
                self.children[at].due_ms = Some(clock::monotonic_ms() + RESTART_MS_MAX);
                failed = Some(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// The first of `count` blocks in a row that nobody counts in.
    fn free_blocks(&self, count: usize) -> Option<usize> {
        let ends = self.children.iter().map(|child| child.block + child.blocks);
        let is_free = |first: usize| {
            let overlaps =
                |c: &Child| c.blocks > 0 && first < c.block + c.blocks && c.block < first + count;
            first + count <= self.blocks.len() && !self.children.iter().any(overlaps)
        };
        ends.chain([0]).find(|first| is_free(*first))
    }

    /// Forks one child.
    fn start(&mut self, at: usize) -> io::Result<()> {
        let role = self.children[at].role;
        if role == Role::Log {
            return self.start_log(at);
        }
        let master = process::own_id();
        let (mut lifeline, mut commands) = (None, None);
        match role {
            Role::Worker { index, .. } => {
                // A worker that was told to stop by somebody else has closed its queue.
                for listener in self.listeners_of(index) {
                    listen(&listener, &self.server.settings)?;
                }
                let (accepting, held) = process::lifeline()?;
                self.children[at].accepting = Some(accepting);
                lifeline = Some(held);
            }
            Role::Admin => {
                let (ours, theirs) = flyball_sys::net::message_pair()?;
                if let Some(before) = self.commands.replace(ours) {
                    self.mechanism.forget(before.as_fd());
                }
                commands = Some(theirs);
            }
            Role::Log => {}
        }
        match process::fork()? {
            Forked::Parent(process) => {
                if let (Role::Admin, Some(ours)) = (role, &self.commands) {
                    self.mechanism.add(ours.as_fd(), COMMANDS, Interest::READ)?;
                }
                self.children[at].started(process);
                Ok(())
            }
            Forked::Child => {
                let ended = process::die_with_parent(master).and_then(|()| match role {
                    Role::Admin => self.run_admin(commands, master),
                    Role::Worker { index, .. } => self.run_worker(at, index, lifeline),
                    Role::Log => Ok(()),
                });
                let code = match ended {
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

    /// Forks the log process. It holds no socket, and lives until nobody can send it lines.
    fn start_log(&mut self, at: usize) -> io::Result<()> {
        let Some(appender) = &self.server.appender else { return Ok(()) };
        let process = process::fork_holding(&[appender.descriptor()], || {
            let written = appender.run(&self.blocks, self.children[at].block);
            written.map_or_else(
                |error| {
                    eprintln!("flyball: {}: {error}", name(Role::Log));
                    1
                },
                |()| 0,
            )
        })?;
        self.children[at].started(process);
        Ok(())
    }

    fn log_process(&self) -> Option<ProcessId> {
        self.children.iter().find(|child| child.role == Role::Log)?.process
    }

    fn listeners_of(&self, index: usize) -> Vec<Arc<OwnedFd>> {
        let Generation { architecture, workers, .. } = self.generation;
        self.server.listening.of_worker(architecture, index, workers)
    }

    /// In the child: what only the master needs is closed.
    fn let_go(&mut self) {
        self.commands = None;
        for child in &mut self.children {
            child.accepting = None;
        }
    }

    /// The process keeps the listening sockets, whose queues it shows, and no file of any site.
    fn run_admin(&mut self, commands: Option<OwnedFd>, master: i32) -> io::Result<()> {
        self.let_go();
        self.server.let_files_go()?;
        let Some(socket) = &self.server.admin else { return Ok(()) };
        admin::serve(&admin::Admin {
            socket: Arc::clone(socket),
            blocks: Arc::clone(&self.blocks),
            commands,
            addresses: self.server.addresses(),
            listeners: self.server.listening.all(),
            started_ms: self.started_ms,
            master,
        })
    }

    fn run_worker(
        &mut self,
        child: usize,
        index: usize,
        lifeline: Option<OwnedFd>,
    ) -> io::Result<()> {
        self.let_go();
        (self.server.admin, self.server.appender) = (None, None);
        let Generation { architecture, workers, .. } = self.generation;
        let server = &self.server;
        let settings = Arc::clone(&server.settings);
        if architecture.pins_workers()
            && let Some(cpu) = cpu_of_worker(&settings, index)
        {
            process::pin(cpu)?;
        }
        let room = connections_that_fit(&settings);
        let worker = Worker {
            index,
            listeners: self.listeners_of(index),
            shares_listeners: architecture.sockets_are_shared() && workers > 1,
            sites: Arc::clone(&server.sites),
            blocks: Arc::clone(&self.blocks),
            block: self.children[child].block,
            signals: Signals::block()?,
            connections_max: settings.max_connections.map_or(room, |most| most.min(room)),
            log: server.log.of_worker(index),
            chunks: Chunks::new(settings.chunk_bytes, settings.mapped_bytes_max),
            in_group: false,
            accept_lock: server.accept_lock.clone(),
            accepting: Mutex::new(lifeline),
            settings,
        };
        let report = architecture.run(worker)?;
        if report.unfinished > 0 {
            eprintln!(
                "flyball: worker {index}: {} connections were still open at the drain deadline",
                report.unfinished
            );
        }
        Ok(())
    }

    /// Takes one command from the admin process, which is not trusted, and answers it.
    fn obey(&mut self) {
        let Some(commands) = &self.commands else { return };
        let Some(command) = control::receive(commands) else {
            // The process has gone, or talks nonsense; the next one brings a new pair.
            return self.stop_asking();
        };
        let done = match command {
            Command::Architecture(at) => self.switch(registry::ALL[at], GENERATIONS_MAX),
            Command::AcceptLimit(limit) => Ok(Reply::Done(self.set_accept_limit(limit))),
        };
        let reply = done.unwrap_or_else(Reply::Refused);
        eprintln!("flyball: {}", reply.text());
        let told = self.commands.as_ref().is_some_and(|pair| control::reply(pair, &reply).is_ok());
        if !told {
            // Whoever asks and does not listen has no business here.
            self.stop_asking();
        }
        self.refresh_admin();
    }

    /// The admin process gets no more answers: another takes its place.
    fn stop_asking(&mut self) {
        if let Some(commands) = self.commands.take() {
            self.mechanism.remove(commands.as_fd());
        }
        let admin = self.children.iter().find(|child| child.role == Role::Admin);
        if let Some(process) = admin.and_then(|child| child.process) {
            process::kill(process);
        }
    }

    fn set_accept_limit(&self, limit: AcceptLimit) -> String {
        let before = self.blocks.accept_limit();
        self.blocks.set_accept_limit(limit);
        let architecture = self.generation.architecture;
        let unused = match architecture.settings().contains(&"accept.limit") {
            true => String::new(),
            false => format!("; {} does not use it", architecture.name()),
        };
        format!("accept.limit is {limit}; it was {before}{unused}")
    }

    /// Moves the server to another architecture: a new generation takes the listening sockets over,
    /// if fewer than `most` generations are alive.
    ///
    /// # Errors
    /// Why it stays as it is.
    fn switch(
        &mut self,
        architecture: &'static dyn Architecture,
        most: usize,
    ) -> Result<Reply, String> {
        let (from, to) = (self.generation.architecture, architecture);
        let name = to.name();
        if from.name() == name {
            return Ok(Reply::Done(format!("architecture is {name} already")));
        }
        to.probe().map_err(|why| format!("{name} cannot run here: {why}"))?;
        self.reap(true);
        let alive = self.generations_alive();
        if alive >= most {
            return Err(format!(
                "architecture stays {}: {} earlier generations of workers still have connections",
                from.name(),
                alive - 1
            ));
        }
        self.retire();
        let mut said = format!("architecture is {name}; it was {}", from.name());
        for warning in registry::unused_settings(to, &self.server.settings) {
            said += &format!("; warning: {warning}");
        }
        match self.prepare_and_begin(to) {
            Ok(()) => Ok(Reply::Done(said)),
            Err(why) => {
                self.retire();
                let back = self.prepare_and_begin(from).err();
                // What has just failed is nothing to go back to.
                self.generation.previous = None;
                let back = back.map(|why| format!(", and {why}")).unwrap_or_default();
                Err(format!("architecture stays {}: {why}{back}", from.name()))
            }
        }
    }

    fn prepare_and_begin(&mut self, architecture: &'static dyn Architecture) -> Result<(), String> {
        self.server.listening.prepare(architecture, &self.server.settings)?;
        let name = architecture.name();
        self.begin_generation(architecture).map_err(|error| format!("{name}: {error}"))
    }

    fn generations_alive(&self) -> usize {
        let mut numbers: Vec<u64> = self.children.iter().filter_map(Child::generation).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.len()
    }

    /// Tells the workers of this generation to leave the listening sockets, and waits until they
    /// have. One that does not within [`LEAVE_MS_MAX`] is killed: it would take connections with
    /// calls that fit another generation's sockets.
    fn retire(&mut self) {
        let now_ms = clock::monotonic_ms();
        let kill_at_ms = now_ms + self.server.settings.drain_ms + KILL_AFTER_MS;
        let mut waiting: Vec<&mut Child> = Vec::new();
        for child in &mut self.children {
            if child.generation().is_none() || child.is_retired() {
                continue;
            }
            (child.kill_at_ms, child.due_ms) = (Some(kill_at_ms), None);
            if let Some(process) = child.process {
                process::retire(process);
                waiting.push(child);
            }
        }
        let until_ms = now_ms + LEAVE_MS_MAX;
        for child in waiting {
            let left = child.accepting.take().is_none_or(|accepting| {
                process::wait_for_end(&accepting, until_ms.saturating_sub(clock::monotonic_ms()))
            });
            if let (false, Some(process)) = (left, child.process) {
                eprintln!("flyball: {} does not leave and is killed", name(child.role));
                process::kill(process);
            }
        }
        self.children.retain(|child| child.process.is_some() || !child.is_retired());
    }

    /// A new generation failed at once: what ran before takes over again.
    fn take_back(&mut self) {
        let Some(previous) = self.generation.previous.take() else { return };
        let failed = self.generation.architecture.name();
        match self.switch(previous, GENERATIONS_MAX + 1) {
            Ok(_) => eprintln!("flyball: {failed} failed; {} runs again", previous.name()),
            Err(why) => eprintln!("flyball: {failed} failed; {why}"),
        }
        // It has proved itself before.
        self.generation.previous = None;
    }

    /// The admin process shows the accept queues of the sockets that it was forked with.
    fn refresh_admin(&self) {
        let known = self.server.listening.all().len();
        if self.blocks.set_sockets(known) != known {
            let admin = self.children.iter().find(|child| child.role == Role::Admin);
            if let Some(process) = admin.and_then(|child| child.process) {
                process::terminate(process);
            }
        }
    }

    /// Reaps every child that ended; `restart` plans a new one, later with each crash in a row.
    fn reap(&mut self, restart: bool) {
        while let Some((process, ending)) = process::reap() {
            let Some(at) = self.children.iter().position(|c| c.process == Some(process)) else {
                continue;
            };
            let child = &mut self.children[at];
            child.process = None;
            child.accepting = None;
            for block in child.block..child.block + child.blocks {
                self.blocks.fold(block);
            }
            if child.is_retired() {
                self.children.swap_remove(at);
                continue;
            }
            if restart {
                self.plan_restart(at, ending);
            }
        }
    }

    fn plan_restart(&mut self, at: usize, ending: Ending) {
        let now_ms = clock::monotonic_ms();
        let child = &mut self.children[at];
        if now_ms - child.started_ms >= RESTART_FORGIVEN_MS {
            child.restart_ms = RESTART_MS_MIN;
        }
        let wait_ms = child.restart_ms;
        child.due_ms = Some(now_ms + wait_ms);
        child.restart_ms = (wait_ms * 2).min(RESTART_MS_MAX);
        if child.role == Role::Admin && ending == Ending::Exited(0) {
            return;
        }
        let how = match ending {
            Ending::Exited(code) => format!("exited with code {code}"),
            Ending::Killed(signal) => format!("was ended by signal {signal}"),
        };
        eprintln!("flyball: {} {how}; it is restarted in {wait_ms} ms", name(child.role));
        let on_trial = now_ms - self.generation.started_ms < TRIAL_MS;
        let failed = child.generation().is_some() && ending.is_failure();
        self.failed_trial |= failed && on_trial && self.generation.previous.is_some();
    }

    /// Tells every child to stop, and waits until they have, the drain deadline is over, or the
    /// server is told to stop once more. The log process comes last.
    fn stop(mut self) -> io::Result<bool> {
        self.reap(false);
        let serving = |child: &&Child| child.role != Role::Log;
        for child in self.children.iter().filter(serving).filter_map(|child| child.process) {
            process::terminate(child);
        }
        let until_ms = clock::monotonic_ms() + self.server.settings.drain_ms + KILL_AFTER_MS;
        let mut mechanism = readiness::open("poll")?;
        mechanism.add(self.signals.as_fd(), SIGNALS, Interest::READ)?;
        let ended =
            self.wait_for_children(mechanism.as_mut(), until_ms, |role| role != Role::Log)?;
        for child in self.children.iter().filter(serving).filter_map(|child| child.process) {
            process::kill(child);
        }
        // It ends when nobody can send lines any more and all are written.
        self.server.log = LogSender::off();
        let until_ms = clock::monotonic_ms() + LOG_MS_MAX;
        let written = self.wait_for_children(mechanism.as_mut(), until_ms, |_| true)?;
        if let (false, Some(process)) = (written, self.log_process()) {
            eprintln!("flyball: the access log takes no lines; those that are left are lost");
            process::kill(process);
        }
        Ok(ended)
    }

    /// Waits until no child of these roles is left: true. False when it is later than that, or the
    /// server is told to stop once more.
    fn wait_for_children(
        &mut self,
        mechanism: &mut dyn Readiness,
        until_ms: u64,
        roles: fn(Role) -> bool,
    ) -> io::Result<bool> {
        loop {
            self.reap(false);
            let is_left = |child: &Child| child.process.is_some() && roles(child.role);
            if !self.children.iter().any(is_left) {
                return Ok(true);
            }
            let left_ms = until_ms.saturating_sub(clock::monotonic_ms());
            if left_ms == 0 {
                return Ok(false);
            }
            mechanism.wait(&mut Vec::new(), i32::try_from(left_ms).unwrap_or(i32::MAX))?;
            let mut again = false;
            while let Some(signal) = self.signals.next() {
                again |= signal == Signal::Stop;
            }
            if again {
                return Ok(false);
            }
        }
    }
}

impl Child {
    /// The generation of a worker.
    fn generation(&self) -> Option<u64> {
        match self.role {
            Role::Worker { generation, .. } => Some(generation),
            Role::Admin | Role::Log => None,
        }
    }
}

fn name(role: Role) -> String {
    match role {
        Role::Worker { index, .. } => format!("worker {index}"),
        Role::Admin => "the admin process".into(),
        Role::Log => "the log process".into(),
    }
}
