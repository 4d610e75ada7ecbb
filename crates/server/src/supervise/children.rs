//! The children of the master: fork, what a child does first, restart, and reaping.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use flyball_acme::messages::Status;
use flyball_arch::Listener;
use flyball_arch::chunks::Chunks;
use flyball_arch::descriptors::connections_that_fit;
use flyball_arch::end::End;
use flyball_arch::links::Upstreams;
use flyball_arch::registry;
use flyball_arch::restart::{EARLY_ENDS_MAX, Restart};
use flyball_arch::share::cpu_of_worker;
use flyball_arch::shared_state::SharedState;
use flyball_arch::worker::{Leaving, Worker};
use flyball_observe::log::{Appender, LogSender};
use flyball_sys::channel::Channel;
use flyball_sys::error_log::Level;
use flyball_sys::notify::Notifier;
use flyball_sys::process::{self, Ending, Forked, ProcessId};
use flyball_sys::readiness::Interest;
use flyball_sys::signal::Signals;
use flyball_sys::{clock, say, title};

use super::generations::{Generation, TRIAL_MS};
use super::stopping::LOG_MS_MAX;
use super::{COMMANDS, KILL_AFTER_MS, Master, Ways};
use crate::admin::{self, Door};
use crate::agent::Agent;
use crate::listening::listen;
use crate::sandbox::Part;
use crate::server::Setup;
use crate::spawner::Spawner;

/// What a child is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A worker of this generation, with this number in it.
    Worker { generation: u64, index: usize },
    /// Serves `--admin`.
    Admin,
    /// Writes the access log.
    Log,
    /// Starts the programs that answer.
    Spawner,
    /// Gets certificates.
    Agent,
}

/// A child process that shall be running, or is to end.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) role: Role,
    pub(super) process: Option<ProcessId>,
    pub(super) restart: Restart,
    /// The first block that it counts in.
    pub(super) block: usize,
    pub(super) blocks: usize,
    /// At its end when the worker accepts no more.
    pub(super) accepting: Option<OwnedFd>,
    /// Whose lines it writes, if it is a log process. A copy of the master's would keep it waiting.
    pub(super) appender: Option<Weak<Appender>>,
    /// What asks it to start programs, if that is what it does.
    pub(super) spawner: Option<Weak<Spawner>>,
    /// The counters that it counts in, and what its clients use.
    pub(super) shared: Arc<SharedState>,
    /// Retired, to end by then; [`KILL_AFTER_MS`] later it is killed.
    pub(super) end: Option<End>,
}

impl Child {
    pub(super) fn new(role: Role, block: usize, blocks: usize, shared: &Arc<SharedState>) -> Child {
        Child {
            role,
            process: None,
            restart: Restart::new(None),
            block,
            blocks,
            accepting: None,
            appender: None,
            spawner: None,
            shared: Arc::clone(shared),
            end: None,
        }
    }

    pub(super) fn started(&mut self, process: ProcessId) {
        self.process = Some(process);
        self.restart.started(clock::monotonic_ms());
    }

    /// Whether it, or one in whose place it was started, has entered its loop.
    pub(super) fn see_entered(&mut self) -> bool {
        let blocks = self.block..self.block + self.blocks;
        let early_ends = &mut self.restart.early_ends;
        early_ends.has_entered |= self.shared.blocks.has_entered(blocks);
        early_ends.has_entered
    }

    /// The blocks that it counts in.
    fn its_blocks(&self) -> Range<usize> {
        self.block..self.block + self.blocks
    }

    pub(super) fn is_retired(&self) -> bool {
        self.end.is_some()
    }
}

impl Child {
    /// The generation of a worker.
    pub(super) fn generation(&self) -> Option<u64> {
        match self.role {
            Role::Worker { generation, .. } => Some(generation),
            Role::Admin | Role::Log | Role::Spawner | Role::Agent => None,
        }
    }
}

/// What a worker is given that no other has.
struct Own {
    /// Open while it accepts.
    accepting: OwnedFd,
    /// Where it sends lines.
    log: LogSender,
    /// Where it asks for programs, if any are started.
    programs: Option<Channel>,
}

pub(super) fn name(role: Role) -> String {
    match role {
        Role::Worker { index, .. } => format!("worker {index}"),
        Role::Admin => "the admin process".into(),
        Role::Log => "the log process".into(),
        Role::Spawner => "the process that starts programs".into(),
        Role::Agent => "the agent that gets certificates".into(),
    }
}

/// Its title, as [`title::set`] takes it. The agent is another program by then, and has its own.
fn title(role: Role) -> String {
    match role {
        Role::Worker { index, .. } => format!("flyball: worker {index}"),
        Role::Admin => "flyball: admin".into(),
        Role::Log => "flyball: log".into(),
        Role::Spawner => "flyball: spawner".into(),
        Role::Agent => "flyball: acme-agent".into(),
    }
}

/// The code that a child of this role exits with, which says why it failed.
fn exit_code(role: Role, ended: io::Result<()>) -> i32 {
    match ended {
        Ok(()) => 0,
        Err(error) => {
            say!(Level::Error, "{}: {error}", name(role));
            1
        }
    }
}

impl Master {
    /// Forks one child.
    pub(super) fn start(&mut self, at: usize) -> io::Result<()> {
        let role = self.children[at].role;
        match role {
            Role::Log => return self.start_log(at),
            Role::Spawner => return self.start_spawner(at),
            Role::Agent => return self.start_agent(at),
            Role::Worker { .. } | Role::Admin => {}
        }
        let master = process::own_id();
        let (mut own, mut commands, mut statuses) = (None, None, Vec::new());
        match role {
            Role::Worker { index, .. } => {
                // A worker that another process told to stop has closed its queue.
                for listener in self.listeners_of(index) {
                    listen(&listener, &self.server.setup.settings)?;
                }
                own = Some(self.give(at)?);
            }
            Role::Admin => {
                statuses = self.ways.agent.as_ref().map(Agent::statuses).unwrap_or_default();
                let (ours, theirs) = Channel::pair()?;
                if let Some(before) = self.ways.commands.replace(ours) {
                    self.mechanism.forget(before.as_fd());
                }
                // Open until its process is no more: at its end the master kills who is left.
                commands = Some(Arc::new(theirs));
            }
            Role::Log | Role::Spawner | Role::Agent => {}
        }
        let file = self.server.file();
        match process::fork()? {
            Forked::Parent(process) => {
                if let (Role::Admin, Some(ours)) = (role, &self.ways.commands) {
                    self.mechanism.add(ours.as_fd(), COMMANDS, Interest::READ)?;
                }
                self.children[at].started(process);
                say!(Level::Debug, "{} is process {}", name(role), process.number());
                Ok(())
            }
            Forked::Child => {
                let ended = self.begin_child(role, master, &[]).and_then(|()| match role {
                    Role::Admin => {
                        self.run_admin(commands.clone(), (master, file.clone()), &statuses)
                    }
                    Role::Worker { index, .. } => {
                        own.map_or(Ok(()), |own| self.run_worker(at, index, own))
                    }
                    Role::Log | Role::Spawner | Role::Agent => Ok(()),
                });
                process::exit_now(exit_code(role, ended))
            }
        }
    }

    /// Makes what the next worker of this place has for itself.
    fn give(&mut self, at: usize) -> io::Result<Own> {
        let Setup { appender, settings, spawner, .. } = &self.server.setup;
        let send =
            |appender: &Arc<Appender>| appender.sender(&settings.access_logs(), &settings.log);
        let sender = appender.as_ref().map(send);
        let log = sender.transpose()?.unwrap_or_else(LogSender::off);
        let programs = spawner.as_ref().map(|spawner| spawner.admit()).transpose()?;
        let (seen, accepting) = process::lifeline()?;
        let child = &mut self.children[at];
        child.accepting = Some(seen);
        child.shared.blocks.set_entered(child.its_blocks(), false);
        Ok(Own { accepting, log, programs })
    }

    /// Forks the log process. It holds no socket of the server, and lives until no line can come
    /// any more.
    fn start_log(&mut self, at: usize) -> io::Result<()> {
        let appender = self.children[at].appender.as_ref().and_then(Weak::upgrade);
        let Some(appender) = appender else {
            self.children[at].restart.due_ms = None;
            return Ok(());
        };
        let (master, ways) = (process::own_id(), appender.renew()?);
        let kept: Vec<_> = ways.iter().map(Channel::as_fd).collect();
        let process = process::fork_holding(&kept, || {
            let written = self
                .begin_child(Role::Log, master, &appender.paths())
                .and_then(|()| appender.run(&ways, &self.shared.blocks, self.children[at].block));
            exit_code(Role::Log, written)
        })?;
        self.children[at].started(process);
        Ok(())
    }

    /// The log processes: one, and those whose lines come from earlier generations.
    pub(super) fn log_processes(&self) -> impl Iterator<Item = ProcessId> {
        let logs = self.children.iter().filter(|child| child.role == Role::Log);
        logs.filter_map(|child| child.process)
    }

    /// Starts the process that writes the log of this generation, unless it runs; one that writes
    /// the log of others ends when no line can come any more.
    pub(super) fn change_log(&mut self) -> io::Result<()> {
        let wanted = self.server.setup.appender.clone();
        let is_it = |child: &Child| {
            child.appender.as_ref().map(Weak::as_ptr) == wanted.as_ref().map(Arc::as_ptr)
        };
        let (runs, Some(appender)) = (self.keep_only(Role::Log, is_it), &wanted) else {
            return Ok(());
        };
        if runs {
            return Ok(());
        }
        let block = self.free_blocks(1).ok_or(io::ErrorKind::OutOfMemory)?;
        let child = Child::new(Role::Log, block, 1, &self.shared);
        self.children.push(Child { appender: Some(Arc::downgrade(appender)), ..child });
        self.start(self.children.len() - 1)
    }

    /// Starts the process that starts the programs of this generation, unless it runs; that of
    /// earlier ones ends when none of their workers can ask it for anything any more.
    pub(super) fn change_spawner(&mut self) -> io::Result<()> {
        let wanted = self.server.setup.spawner.clone();
        let is_it = |child: &Child| {
            child.spawner.as_ref().map(Weak::as_ptr) == wanted.as_ref().map(Arc::as_ptr)
        };
        let (runs, Some(spawner)) = (self.keep_only(Role::Spawner, is_it), &wanted) else {
            return Ok(());
        };
        if runs {
            self.give_names_back(spawner);
            return Ok(());
        }
        let child = Child::new(Role::Spawner, 0, 0, &self.shared);
        self.children.push(Child { spawner: Some(Arc::downgrade(spawner)), ..child });
        self.start(self.children.len() - 1)
    }

    /// The process of this spawner goes on: the names that a generation which was given up has
    /// taken over are its own again. Until then they lead to the sockets of that generation.
    fn give_names_back(&self, spawner: &Arc<Spawner>) {
        let is_it =
            |child: &&Child| child.spawner.as_ref().map(Weak::as_ptr) == Some(Arc::as_ptr(spawner));
        let process = self.children.iter().find(is_it).and_then(|child| child.process);
        process.into_iter().for_each(process::ask_to_take_names);
    }

    /// Retires the children of a role but for one; whether that one is there.
    fn keep_only(&mut self, role: Role, is_it: impl Fn(&Child) -> bool) -> bool {
        let end = End::in_ms(self.server.setup.settings.drain_ms + LOG_MS_MAX);
        let mut is_there = false;
        for child in self.children.iter_mut().filter(|child| child.role == role) {
            let is_it = is_it(child);
            is_there |= is_it;
            child.end = if is_it { None } else { child.end.or(Some(end)) };
        }
        is_there
    }

    /// Forks the process that starts programs. It holds no socket of the server, and lives until
    /// no worker can ask it for anything any more.
    fn start_spawner(&mut self, at: usize) -> io::Result<()> {
        let spawner = self.children[at].spawner.as_ref().and_then(Weak::upgrade);
        let Some(spawner) = spawner else {
            self.children[at].restart.due_ms = None;
            return Ok(());
        };
        let (master, way) = (process::own_id(), spawner.renew()?);
        let process = process::fork_holding(&[way.as_fd()], || {
            let ran = self.begin_child(Role::Spawner, master, &[]).and_then(|()| spawner.run(&way));
            exit_code(Role::Spawner, ran)
        })?;
        drop(way);
        self.children[at].started(process);
        let ready = spawner.wait_until_ready();
        if ready.is_err() {
            process::kill(process);
        }
        ready
    }

    fn listeners_of(&self, index: usize) -> Vec<Listener> {
        let Generation { architecture, workers, .. } = self.generation;
        let Setup { settings, tls, .. } = &self.server.setup;
        let listening = &self.server.listening;
        let queues = self.shared.queues();
        listening.of_worker(architecture, settings, (index, workers), tls.as_ref(), queues)
    }

    /// Where every child begins, after its fork and before any work of its own: it ends with its
    /// master, and has nothing that its role does not need.
    fn begin_child(&mut self, role: Role, master: i32, logs: &[&Path]) -> io::Result<()> {
        title::set(&title(role));
        let (part, parent) = match role {
            Role::Worker { .. } => (Part::Worker(self.generation.architecture), Some(master)),
            Role::Admin => (Part::Admin, Some(master)),
            // It was forked without descriptors of others, and outlives the master: lines may
            // still be on their way.
            Role::Log => (Part::Log(logs), None),
            // As little of others, and as long: it ends when no worker can ask it for programs.
            Role::Spawner => (Part::Spawner, None),
            Role::Agent => (Part::Agent, Some(master)),
        };
        if let Some(master) = parent {
            process::die_with_parent(master)?;
            self.ways = Ways::default();
            (self.upgrade, self.server.before) = (None, None);
            (self.generation.previous, self.notifier) = (None, Notifier::default());
            // Processes of the generation before end when no worker can reach them any more.
            self.replaced = None;
            self.server.configuration = None;
            self.server.listening.close_left();
            for child in &mut self.children {
                child.accepting = None;
            }
            // None of what others send comes to it.
            if let Some(spawner) = &self.server.setup.spawner {
                spawner.leave();
            }
        }
        match role {
            // It keeps the listening sockets, whose queues it shows, and no file of any site.
            Role::Admin => self.server.let_files_go()?,
            Role::Worker { .. } => {
                self.server.admin.forget();
                self.server.setup.appender = None;
            }
            Role::Log | Role::Spawner | Role::Agent => {}
        }
        let Setup { confinement, settings, sites, .. } = &self.server.setup;
        confinement.confine(part, settings, sites, parent)
    }

    fn run_admin(
        &mut self,
        commands: Option<Arc<Channel>>,
        (master, configuration): (i32, Option<PathBuf>),
        statuses: &[Status],
    ) -> io::Result<()> {
        let certificates = self.server.setup.tls.take().map(|tls| tls.told(statuses));
        let settings = &self.server.setup.settings;
        admin::serve(&admin::Admin {
            doors: self.server.admin.iter().map(|it| Door::new(it, settings)).collect(),
            shared: Arc::clone(&self.shared),
            commands,
            listens: self.server.listens(),
            listeners: self.server.listening.all(),
            started_ms: self.started_ms,
            master,
            configuration,
            certificates: certificates.unwrap_or_default(),
        })
    }

    fn run_worker(&mut self, child: usize, index: usize, own: Own) -> io::Result<()> {
        let Own { accepting, log, programs } = own;
        // Those of other workers it could shut down.
        let listeners = self.listeners_of(index);
        self.server.listening.forget();
        let Generation { architecture, workers, .. } = self.generation;
        let server = &self.server;
        let tls = &server.setup.tls;
        let settings = registry::as_honoured(architecture, &server.setup.settings);
        if architecture.pins_workers()
            && let Some(cpu) = cpu_of_worker(&settings, index)
        {
            process::pin(cpu)?;
        }
        let room = connections_that_fit(&settings);
        let worker = Worker {
            index,
            listeners,
            shares_listeners: architecture.sockets_are_shared() && workers > 1,
            sites: Arc::clone(&server.setup.sites),
            shared: Arc::clone(&self.shared),
            blocks: self.children[child].its_blocks(),
            signals: Signals::block()?,
            connections_max: settings.max_connections.map_or(room, |most| most.min(room)),
            log: log.of_worker(index),
            chunks: Chunks::of(&settings),
            upstreams: Upstreams::of(&server.setup.sites, programs.map(Arc::new)),
            leaving: Leaving::seen_at(accepting, self.generation.lends_listeners),
            renewals: tls.as_ref().map(|tls| tls.renewals(&server.setup.sites)),
            rings: server.setup.confinement.rings(),
            settings,
        };
        let report = architecture.run(worker)?;
        if report.unfinished > 0 {
            say!(
                Level::Warn,
                "worker {index}: {} connections were still open at the drain deadline",
                report.unfinished
            );
        }
        Ok(())
    }

    pub(super) fn restart_due(&mut self) {
        let now_ms = clock::monotonic_ms();
        for at in 0..self.children.len() {
            if self.children[at].restart.due_ms.is_some_and(|due| due <= now_ms)
                && let Err(error) = self.start(at)
            {
                say!(Level::Error, "cannot restart {}: {error}", name(self.children[at].role));
                self.children[at].restart.failed(now_ms);
            }
        }
    }

    pub(super) fn kill_overdue(&mut self) {
        let now_ms = clock::monotonic_ms();
        for child in &mut self.children {
            if let (Some(end), Some(process)) = (&mut child.end, child.process)
                && end.look(now_ms)
                && end.look_ms(KILL_AFTER_MS) <= now_ms
            {
                process::kill(process);
                *end = End::at(now_ms, now_ms);
            }
        }
    }

    /// Reaps every child that ended; `restart` plans a new one, later with each crash in a row.
    pub(super) fn reap(&mut self, restart: bool) {
        while let Some((process, ending)) = process::reap() {
            let Some(at) = self.children.iter().position(|c| c.process == Some(process)) else {
                self.new_master_ended(process, ending);
                continue;
            };
            let child = &mut self.children[at];
            child.process = None;
            child.accepting = None;
            let is_agent = child.role == Role::Agent;
            child.see_entered();
            for block in child.its_blocks() {
                child.shared.fold(block, ending.is_abrupt());
            }
            say!(Level::Debug, "{} has ended: {ending:?}", name(child.role));
            if is_agent {
                self.let_agent_go();
            }
            let child = &mut self.children[at];
            if child.is_retired() {
                self.children.swap_remove(at);
                self.forget_left();
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
        let wait_ms = child.restart.plan(now_ms);
        if child.role == Role::Admin && ending == Ending::Exited(0) {
            return;
        }
        let (name, is_worker) = (name(child.role), child.generation().is_some());
        if is_worker && !self.is_ready && child.restart.early_ends.are_too_many(now_ms) {
            self.due.failed_start.get_or_insert(format!(
                "{name} has ended {EARLY_ENDS_MAX} times before it could serve; the last {ending}"
            ));
            return;
        }
        say!(Level::Error, "{name} {ending}; it is restarted in {wait_ms} ms");
        if !is_worker {
            return;
        }
        let Generation { started_ms, has_entered, previous, .. } = &self.generation;
        let on_trial = previous.is_some() && (now_ms - started_ms < TRIAL_MS || !has_entered);
        self.due.failed_trial |= on_trial && ending.is_failure();
    }
}
