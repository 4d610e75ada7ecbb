//! Supervision, which is no architecture's business: fork, restart, signals, drain, counters, and
//! generations of workers.
//!
//! The master keeps the listening sockets, forks the workers and the process that serves `--admin`,
//! and then waits for signals and for commands. It stays single-threaded, runs no architecture and
//! parses no byte from the network. A change of architecture is a new generation of workers: the
//! old one leaves the listening sockets, connections wait in the accept queue for a moment, and
//! the new one takes them while the old one finishes what it has.

mod change;
mod children;
mod commands;
mod generations;
mod pid_file;
mod reload;
mod roots;
mod stopping;
mod upgrade;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use flyball_sys::channel::Channel;
use flyball_sys::error_log::{self, Level};
use flyball_sys::notify::Notifier;
use flyball_sys::process::ask_to_reopen;
use flyball_sys::readiness::{self, Interest, Readiness};
use flyball_sys::signal::{Signal, Signals};
use flyball_sys::{clock, say};

use children::Child;
pub(crate) use children::{RESTART_FORGIVEN_MS, RESTART_MS_MAX, RESTART_MS_MIN};
use generations::{GENERATIONS_MAX, Generation};
use roots::RootWatch;
use upgrade::{READY_AFTER_MS, Upgrade};

use crate::clients::ClientLimits;
use crate::counters::Blocks;
use crate::registry::{self, Architecture};
use crate::server::{Server, Setup};

/// Time beyond the drain deadline after which workers are killed.
const KILL_AFTER_MS: u64 = 2_000;

/// Tokens of what the master waits for.
const SIGNALS: u64 = 0;
const COMMANDS: u64 = 1;
const HANDOVER: u64 = 2;

/// The master process.
pub(crate) struct Master {
    server: Server,
    generation: Generation,
    children: Vec<Child>,
    blocks: Arc<Blocks>,
    started_ms: u64,
    signals: Signals,
    /// Where the admin process sends commands.
    commands: Option<Channel>,
    mechanism: Box<dyn Readiness>,
    /// A worker of a generation on trial failed.
    failed_trial: bool,
    /// Blocks that a generation may count in.
    blocks_max: usize,
    /// The admin process shows what is no longer so.
    admin_is_stale: bool,
    /// It was told to drain.
    ends: bool,
    /// Whoever supervises the server.
    notifier: Notifier,
    /// It has said that it serves.
    is_ready: bool,
    /// A new master that shall take this one's place.
    upgrade: Option<Upgrade>,
    /// One has.
    is_replaced: bool,
    /// Settings that were changed since the configuration was loaded, as they were written.
    changed: BTreeMap<String, String>,
    /// What a generation that is beginning takes the place of.
    replaced: Option<Setup>,
    root_watch: RootWatch,
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
        error_log::share()?;
        error_log::set_level(server.settings.log.level);
        // One generation more for one that is taken back while the others finish, and its log.
        let clients = ClientLimits::new(&server.settings)?;
        let blocks = Blocks::new((most + 1) * (GENERATIONS_MAX + 1))?.with_clients(clients);
        let blocks = Arc::new(blocks.with_names(&server.settings.sites)?);
        let architecture = server.architecture;
        blocks.set_accept_limit(registry::accept_limit(architecture, &server.settings));
        blocks.set_sockets(server.listening.all().len());
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
                previous,
            },
            children: Vec::new(),
            blocks,
            started_ms,
            signals,
            commands: None,
            mechanism,
            failed_trial: false,
            blocks_max: most,
            admin_is_stale: false,
            ends: false,
            notifier: Notifier::of_process(),
            is_ready: false,
            upgrade: None,
            is_replaced: false,
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
        self.begin_generation()?;
        self.renew_admin()?;
        if self.server.before.is_none() {
            self.say_ready();
        }
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
                    Signal::Retire | Signal::Other(_) => {}
                }
            }
            if events.iter().any(|event| event.token == COMMANDS) {
                self.obey();
            }
            if events.iter().any(|event| event.token == HANDOVER) && self.hear_new_master() {
                self.hand_over();
            }
            if self.ends || self.is_replaced {
                return self.stop();
            }
            if std::mem::take(&mut self.failed_trial) {
                self.take_back_or_fail()?;
            }
            self.tend();
        }
    }

    /// What is due by now.
    fn tend(&mut self) {
        if !self.is_ready && clock::monotonic_ms() >= self.generation.started_ms + READY_AFTER_MS {
            self.say_ready();
        }
        self.end_trial();
        self.end_late_upgrade();
        self.kill_overdue();
        self.restart_due();
        self.look_at_roots();
        self.notifier.alive();
    }

    fn upgrade_and_say(&mut self) {
        if let Err(why) = self.upgrade(false) {
            say!(Level::Error, "no upgrade: {why}");
        }
    }

    /// What ran before takes over again: in this process, or in that of the master before.
    fn take_back_or_fail(&mut self) -> io::Result<()> {
        if self.is_ready {
            if self.upgrade.is_some() {
                self.roll_back("what runs now failed meanwhile");
            }
            self.take_back();
            return Ok(());
        }
        self.retire();
        Err(io::Error::other("a worker failed at once"))
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
        let due = self.children.iter().flat_map(|child| [child.due_ms, child.kill_at_ms]);
        let ready_ms = self.generation.started_ms + READY_AFTER_MS;
        let due = due.chain([
            self.generation.trial_until_ms(),
            self.notifier.due_ms(),
            self.upgrade.as_ref().map(Upgrade::until_ms),
            Some(ready_ms).filter(|_| !self.is_ready),
            Some(self.root_watch.due_ms()),
        ]);
        let now_ms = clock::monotonic_ms();
        let timeout = due
            .flatten()
            .min()
            .map_or(-1, |until| i32::try_from(until.saturating_sub(now_ms)).unwrap_or(i32::MAX));
        self.mechanism.wait(events, timeout)
    }
}
