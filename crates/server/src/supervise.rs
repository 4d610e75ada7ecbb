//! Supervision, which is no architecture's business: fork, restart, signals, drain, counters, and
//! generations of workers.
//!
//! The master keeps the listening sockets, forks the workers and the process that serves `--admin`,
//! and then waits for signals and for commands. It stays single-threaded, runs no architecture and
//! parses no byte from the network. A change of architecture is a new generation of workers: the
//! old one leaves the listening sockets, connections wait in the accept queue for a moment, and
//! the new one takes them while the old one finishes what it has.

mod agent;
mod certificates;
mod change;
mod children;
mod commands;
mod generations;
mod hosts;
mod pid_file;
mod reload;
mod roots;
mod stopping;
mod upgrade;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use children::Child;
use flyball_arch::clients::client_limits;
use flyball_arch::end;
use flyball_arch::shared_state::SharedState;
use flyball_arch::{Architecture, registry};
use flyball_sys::channel::Channel;
use flyball_sys::error_log::{self, Level};
use flyball_sys::notify::Notifier;
use flyball_sys::process::ask_to_reopen;
use flyball_sys::readiness::{self, Interest, Readiness};
use flyball_sys::signal::{Signal, Signals};
use flyball_sys::{clock, say, title};
use generations::{Generation, blocks_for};
use roots::RootWatch;
use upgrade::{READY_AFTER_MS, Upgrade};

use crate::agent::Agent;
use crate::server::{Server, Setup};
use crate::tls::Tls;

/// Time beyond the drain deadline after which workers are killed: as much as they may put it off,
/// and a while.
const KILL_AFTER_MS: u64 = 2_000 + end::LATE_MS_MAX;

/// How often the master looks whether the workers that it has started have entered their loops, or
/// there is room for what it could not hand over, in milliseconds.
const ENTERED_LOOK_MS: u64 = 20;

/// Tokens of what the master waits for.
const SIGNALS: u64 = 0;
const COMMANDS: u64 = 1;
const HANDOVER: u64 = 2;
const AGENT: u64 = 3;

impl Server {
    /// Serves until SIGTERM or SIGINT, then drains. Blocks. False when workers had to be killed;
    /// connections that were open at the drain deadline are told on standard error.
    ///
    /// # Errors
    /// When the first workers cannot be started.
    pub fn run(self) -> io::Result<bool> {
        // Of several servers on a machine it tells which one this is.
        let file = self.file().map(|file| format!(" {}", file.display())).unwrap_or_default();
        title::set(&format!("flyball: master{file}"));
        self.setup.confinement.confine_master()?;
        Master::new(self)?.run()
    }
}

/// The master process.
pub(crate) struct Master {
    server: Server,
    generation: Generation,
    children: Vec<Child>,
    shared: Arc<SharedState>,
    started_ms: u64,
    signals: Signals,
    ways: Ways,
    mechanism: Box<dyn Readiness>,
    /// What has to be done about what happened.
    due: Due,
    /// The service manager.
    notifier: Notifier,
    /// It has said that it serves.
    is_ready: bool,
    /// A new master that shall take this one's place.
    upgrade: Option<Upgrade>,
    /// Settings that were changed since the configuration was loaded, as they were written.
    changed: BTreeMap<String, String>,
    /// What a generation that is beginning takes the place of.
    replaced: Option<Setup>,
    root_watch: RootWatch,
}

/// Ways to children that tell the master something.
#[derive(Default)]
struct Ways {
    /// Where the admin process sends commands.
    commands: Option<Channel>,
    /// What gets certificates, while it runs.
    agent: Option<Agent>,
}

/// What the master has seen and not acted on yet.
#[derive(Debug, Default)]
struct Due {
    /// A worker of a generation on trial failed.
    failed_trial: bool,
    /// Why the server does not start.
    failed_start: Option<String>,
    /// The admin process shows what is no longer so.
    admin_is_stale: bool,
    /// The log process, or the one that starts programs, has not been given all ends of workers
    /// yet.
    is_behind: bool,
    /// It was told to drain.
    ends: bool,
    /// A new master has taken this one's place.
    is_replaced: bool,
}

impl Master {
    /// Maps the counters, for the architecture that needs most of them, and blocks the signals.
    ///
    /// # Errors
    /// When memory or descriptors are out.
    pub(crate) fn new(server: Server) -> io::Result<Master> {
        let blocks_of = |arch: &&dyn Architecture| {
            arch.workers(&server.setup.settings) * arch.threads(&server.setup.settings)
        };
        let most = registry::ALL.iter().map(blocks_of).max().unwrap_or(1);
        error_log::share()?;
        error_log::stamp();
        error_log::set_level(server.setup.settings.log.level);
        let clients = client_limits(&server.setup.settings, None)?;
        let shared = SharedState::new(blocks_for(most))?.with_clients(clients);
        let shared = Arc::new(shared.with_names(&server.setup.settings.sites)?);
        let architecture = server.setup.architecture;
        let limit = architecture.accept_limit(&server.setup.settings);
        shared.live().set_accept_limit(limit);
        shared.blocks.set_sockets(server.listening.all().len());
        let signals = Signals::block()?;
        let mut mechanism = readiness::open("poll")?;
        mechanism.add(signals.as_fd(), SIGNALS, Interest::READ)?;
        let started_ms = clock::monotonic_ms();
        let (number, workers, previous) = (0, 0, None);
        Ok(Master {
            generation: Generation {
                number,
                architecture,
                workers,
                started_ms,
                lends_listeners: false,
                has_entered: false,
                previous,
            },
            children: Vec::new(),
            shared,
            started_ms,
            signals,
            ways: Ways::default(),
            mechanism,
            due: Due::default(),
            notifier: Notifier::of_process(),
            is_ready: false,
            upgrade: None,
            changed: BTreeMap::new(),
            replaced: None,
            root_watch: RootWatch::default(),
            server,
        })
    }

    /// Starts everything, and waits for signals, commands and restarts that are due, until the
    /// server shall stop. Blocks.
    pub(crate) fn run(mut self) -> io::Result<bool> {
        self.wait_for_turn()?;
        // The first to start and the last to end.
        self.change_log()?;
        self.change_spawner()?;
        self.begin_agent();
        self.begin_generation()?;
        self.renew_admin()?;
        let mut events = Vec::new();
        loop {
            self.wait(&mut events)?;
            while let Some(signal) = self.signals.next() {
                say!(Level::Debug, "signal: {signal:?}");
                match signal {
                    Signal::Stop => return self.stop(),
                    Signal::Child => self.reap(true),
                    Signal::Reopen => self.log_processes().for_each(ask_to_reopen),
                    Signal::Reload if !self.has_file() => return self.stop(),
                    Signal::Reload => self.reload_and_say(),
                    Signal::Upgrade => self.upgrade_and_say(),
                    Signal::Retire | Signal::TakeNames | Signal::Other(_) => {}
                }
            }
            if events.iter().any(|event| event.token == COMMANDS) {
                self.obey();
            }
            if events.iter().any(|event| event.token == AGENT) {
                self.hear_agent();
            }
            if events.iter().any(|event| event.token == HANDOVER) && self.hear_new_master() {
                self.hand_over();
            }
            if self.due.ends || self.due.is_replaced {
                return self.stop();
            }
            if std::mem::take(&mut self.due.failed_trial) {
                self.take_back_from_trial();
            }
            if let Some(why) = self.due.failed_start.take() {
                self.retire();
                return Err(io::Error::other(why));
            }
            self.tend();
        }
    }

    /// What is due by now.
    fn tend(&mut self) {
        self.see_entered();
        if !self.is_ready && self.ready_at_ms().is_some_and(|at| at <= clock::monotonic_ms()) {
            self.say_ready();
        }
        self.end_trial();
        self.end_late_upgrade();
        self.kill_overdue();
        self.restart_due();
        self.look_at_roots();
        self.look_at_certificates();
        self.due.is_behind = self.hand_ends_over();
        self.notifier.alive();
    }

    fn upgrade_and_say(&mut self) {
        if let Err(why) = self.upgrade(None) {
            say!(Level::Error, "no upgrade: {why}");
        }
    }

    /// What ran before takes over again.
    fn take_back_from_trial(&mut self) {
        if self.upgrade.is_some() {
            self.roll_back("what runs now failed meanwhile");
        }
        self.take_back();
    }

    /// Looks whether all workers of this generation have entered their loops.
    fn see_entered(&mut self) {
        if self.generation.has_entered {
            return;
        }
        let generation = Some(self.generation.number);
        let mut workers = self.children.iter_mut().filter(|child| child.generation() == generation);
        self.generation.has_entered = workers.all(Child::see_entered);
    }

    /// Gives the processes that take from workers the ends for which there was no room before;
    /// whether some are left.
    fn hand_ends_over(&self) -> bool {
        let Setup { appender, spawner, .. } = &self.server.setup;
        let lines = appender.as_ref().is_some_and(|appender| appender.hand_over());
        let programs = spawner.as_ref().is_some_and(|spawner| spawner.hand_over());
        lines || programs
    }

    /// When the server serves as far as can be told: at once, but one that takes the place of
    /// another must prove itself for a moment. `None` before its workers have entered their loops.
    fn ready_at_ms(&self) -> Option<u64> {
        let Generation { started_ms, has_entered, .. } = self.generation;
        let after_ms = if self.server.before.is_some() { READY_AFTER_MS } else { 0 };
        has_entered.then_some(started_ms + after_ms)
    }

    /// What the server does, in a few words.
    fn status_line(&self) -> String {
        format!("serving by {}, generation {}", self.what_runs(), self.generation.number)
    }

    /// The architecture, and how many workers there are.
    fn what_runs(&self) -> String {
        let Generation { architecture, workers, .. } = &self.generation;
        let noun = if *workers == 1 { "worker" } else { "workers" };
        format!("{} with {workers} {noun}", architecture.name())
    }

    fn wait(&mut self, events: &mut Vec<readiness::Event>) -> io::Result<()> {
        let kill_ms = |child: &Child| child.end.map(|end| end.look_ms(KILL_AFTER_MS));
        let due = self.children.iter().flat_map(|child| [child.restart.due_ms, kill_ms(child)]);
        let look_ms = clock::monotonic_ms() + ENTERED_LOOK_MS;
        let due = due.chain([
            self.generation.trial_until_ms(),
            self.notifier.due_ms(),
            self.upgrade.as_ref().map(Upgrade::until_ms),
            self.ready_at_ms().filter(|_| !self.is_ready),
            Some(look_ms).filter(|_| !self.generation.has_entered || self.due.is_behind),
            Some(self.root_watch.due_ms()),
            self.server.setup.tls.as_ref().map(Tls::look_ms),
        ]);
        let now_ms = clock::monotonic_ms();
        let timeout = due
            .flatten()
            .min()
            .map_or(-1, |until| i32::try_from(until.saturating_sub(now_ms)).unwrap_or(i32::MAX));
        self.mechanism.wait(events, timeout)
    }
}
