//! Generations of workers: a new one takes the listening sockets over, the one before finishes what
//! it has.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use flyball_arch::clients::client_limits;
use flyball_arch::end::End;
use flyball_arch::settings::Settings;
use flyball_arch::shared_state::SharedState;
use flyball_arch::{Architecture, registry};
use flyball_sys::error_log::Level;
use flyball_sys::process;
use flyball_sys::{clock, say};

use super::Master;
use super::children::{Child, Role, name};
use crate::listening::Listening;
use crate::sandbox::Confinement;
use crate::server::Setup;

/// Generations of workers alive at the same time.
pub(super) const GENERATIONS_MAX: usize = 3;

/// Longest wait for a retiring generation to leave the listening sockets.
pub(super) const LEAVE_MS_MAX: u64 = 5_000;

/// A new generation that fails within this time is taken back, and later too while one of its
/// workers has not entered its loop yet.
pub(super) const TRIAL_MS: u64 = 3_000;

/// Blocks of counters for generations that take so many at most. There is one generation more, for
/// one that is taken back while the others finish, and a log process for each.
pub(super) fn blocks_for(most: usize) -> usize {
    (most + 1) * (GENERATIONS_MAX + 1)
}

/// The workers that accept.
pub(super) struct Generation {
    pub(super) number: u64,
    pub(super) architecture: &'static dyn Architecture,
    pub(super) workers: usize,
    pub(super) started_ms: u64,
    /// Its listening sockets are lent: their owner goes on listening when it stops.
    pub(super) lends_listeners: bool,
    /// All its workers have entered their loops once.
    pub(super) has_entered: bool,
    /// What ran before, for as long as this one is on trial.
    pub(super) previous: Option<Previous>,
}

/// What ran before, to be run again.
pub(super) struct Previous {
    pub(super) setup: Setup,
    /// Settings that were changed in it, and their values.
    pub(super) changed: BTreeMap<String, String>,
}

impl Generation {
    /// When its trial is over, in monotonic milliseconds, if it is on trial and that can be told:
    /// not before its workers have entered their loops.
    pub(super) fn trial_until_ms(&self) -> Option<u64> {
        let is_told = self.previous.is_some() && self.has_entered;
        is_told.then_some(self.started_ms + TRIAL_MS)
    }
}

impl Master {
    /// Starts the workers of the server's architecture, on sockets that are prepared for it.
    pub(super) fn begin_generation(&mut self) -> io::Result<()> {
        let (settings, architecture) =
            (&self.server.setup.settings, self.server.setup.architecture);
        let (workers, threads) = (architecture.workers(settings), architecture.threads(settings));
        self.server.setup.sites.lead_to(self.server.listening.tls_ports());
        let number = self.generation.number + 1;
        let started_ms = clock::monotonic_ms();
        // Until this master is ready, the one before may take over again.
        let lends_listeners = self.server.listening.has_lent() || self.server.before.is_some();
        self.generation = Generation {
            number,
            architecture,
            workers,
            started_ms,
            lends_listeners,
            has_entered: false,
            previous: None,
        };
        self.due.failed_trial = false;
        say!(Level::Debug, "generation {number}: {} with {workers} workers", architecture.name());
        let at = registry::ALL.iter().position(|arch| arch.name() == architecture.name());
        self.shared.blocks.set_generation(number, at.unwrap_or(0), workers);
        let first = self.children.len();
        for index in 0..workers {
            let block = self.free_blocks(threads).ok_or(io::ErrorKind::OutOfMemory)?;
            let role = Role::Worker { generation: number, index };
            self.children.push(Child::new(role, block, threads, &self.shared));
        }
        // One that cannot be started now is tried again, unless a command decides otherwise.
        let mut failed = None;
        for at in first..self.children.len() {
            if let Err(error) = self.start(at) {
                self.children[at].restart.failed(clock::monotonic_ms());
                failed = Some(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// The first of `count` blocks in a row that no child counts in.
    pub(super) fn free_blocks(&self, count: usize) -> Option<usize> {
        let ends = self.children.iter().map(|child| child.block + child.blocks);
        let is_free = |first: usize| {
            let overlaps =
                |c: &Child| c.blocks > 0 && first < c.block + c.blocks && c.block < first + count;
            first + count <= self.shared.blocks.len() && !self.children.iter().any(overlaps)
        };
        ends.chain([0]).find(|first| is_free(*first))
    }

    /// Moves the server to another architecture.
    ///
    /// # Errors
    /// Why it stays as it is.
    pub(super) fn switch(&mut self, to: &'static dyn Architecture) -> Result<String, String> {
        let from = self.generation.architecture;
        let name = to.name();
        if from.name() == name {
            return Ok(format!("arch is {name} already"));
        }
        to.probe().map_err(|why| format!("{name} cannot run here: {why}"))?;
        let settings =
            Settings { arch: name.into(), ..Settings::clone(&self.server.setup.settings) };
        // It may need what the one before did without, as rings that can be restricted.
        let confinement = Confinement::new(to, &settings)
            .map_err(|why| format!("arch stays {}: {why}", from.name()))?;
        let settings = Arc::new(settings);
        let next = Setup { architecture: to, settings, confinement, ..self.server.setup.clone() };
        let listening = self.server.listening.clone();
        self.renew(next, listening, GENERATIONS_MAX)
            .map_err(|why| format!("arch stays {}: {why}", from.name()))?;
        let mut said = format!("arch is {name}; it was {}", from.name());
        for warning in registry::unused_settings(to, &self.server.setup.settings) {
            said += &format!("; warning: {warning}");
        }
        Ok(said)
    }

    /// A new generation of workers takes over, by this setup and on these listening sockets, if
    /// fewer than `most` generations are alive; the one before finishes. It takes over again if
    /// the new one cannot begin.
    ///
    /// # Errors
    /// Why all stays as it is.
    pub(super) fn renew(
        &mut self,
        next: Setup,
        listening: Listening,
        most: usize,
    ) -> Result<(), String> {
        self.is_free_to_change()?;
        self.reap(true);
        let alive = self.generations_alive();
        if alive >= most {
            let earlier = alive - 1;
            let drain = self.value_of("drain").unwrap_or_default();
            return Err(format!(
                "{earlier} earlier generations of workers still have connections; try again when \
                 `drain` ({drain}) is over"
            ));
        }
        let architecture = next.architecture;
        let blocks = architecture.workers(&next.settings) * architecture.threads(&next.settings);
        let room = self.shared.blocks.len();
        if blocks_for(blocks) > room {
            return Err(format!(
                "{} would have {blocks} workers or threads, and this server has made room for {}; \
                 restart it",
                architecture.name(),
                room / blocks_for(0) - 1
            ));
        }
        let shared = self.state_for(&next.settings)?;
        listening.leave();
        self.retire();
        let shared_before = std::mem::replace(&mut self.shared, shared);
        self.server.listening = listening;
        self.replaced = Some(self.server.setup.clone());
        self.server.use_setup(next);
        let begun = self.prepare_and_begin();
        let Some(before) = self.replaced.take() else { return begun };
        let Err(why) = begun else {
            let changed = self.changed.clone();
            self.generation.previous = Some(Previous { setup: before, changed });
            return Ok(());
        };
        self.retire();
        self.shared = shared_before;
        let back = self.server.listening.rebound(&before.settings).and_then(|listening| {
            self.server.listening = listening;
            self.server.use_setup(before);
            self.prepare_and_begin()
        });
        let back = back.err().map(|why| format!(", and {why}")).unwrap_or_default();
        Err(format!("{why}{back}"))
    }

    /// The shared state of a generation with these settings: the same, for its sites and with
    /// their limits.
    fn state_for(&self, next: &Settings) -> Result<Arc<SharedState>, String> {
        let clients = client_limits(next, Some(self.shared.clients()));
        let clients = clients.map_err(|error| error.to_string())?;
        Ok(Arc::new(self.shared.beside(Arc::new(clients), &next.sites)))
    }

    pub(super) fn prepare_and_begin(&mut self) -> Result<(), String> {
        let architecture = self.server.setup.architecture;
        self.server.listening.prepare(architecture, &self.server.setup.settings)?;
        self.use_in_place();
        self.change_log().map_err(|error| format!("the log process: {error}"))?;
        self.change_spawner().map_err(|error| format!("programs cannot be started: {error}"))?;
        self.begin_agent();
        let name = architecture.name();
        self.begin_generation().map_err(|error| format!("{name}: {error}"))
    }

    pub(super) fn generations_alive(&self) -> usize {
        let mut numbers: Vec<u64> = self.children.iter().filter_map(Child::generation).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.len()
    }

    /// Tells the workers of this generation to leave the listening sockets, and waits until they
    /// have. One that does not within [`LEAVE_MS_MAX`] is killed: it would take connections with
    /// calls that fit another generation's sockets.
    pub(super) fn retire(&mut self) {
        let now_ms = clock::monotonic_ms();
        let end = End::in_ms(self.server.setup.settings.drain_ms);
        let mut waiting: Vec<&mut Child> = Vec::new();
        for child in &mut self.children {
            if child.generation().is_none() || child.is_retired() {
                continue;
            }
            (child.end, child.restart.due_ms) = (Some(end), None);
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
                say!(Level::Warn, "{} does not leave and is killed", name(child.role));
                process::kill(process);
            }
        }
        self.children.retain(|child| child.process.is_some() || !child.is_retired());
    }

    /// A new generation failed at once: what ran before takes over again.
    pub(super) fn take_back(&mut self) {
        let Some(previous) = self.generation.previous.take() else { return };
        let Previous { setup, changed } = previous;
        let values = self.values();
        let pid_file = self.server.setup.settings.running.pid_file.clone();
        let failed = self.generation.architecture.name();
        let name = setup.architecture.name();
        let listening = self.server.listening.rebound(&setup.settings);
        match listening.and_then(|kept| self.renew(setup, kept, GENERATIONS_MAX + 1)) {
            Ok(()) => say!(Level::Error, "{failed} failed; {name} runs again as before"),
            Err(why) => say!(Level::Error, "{failed} failed; {why}"),
        }
        // The workers do not wait for it: a place may have been taken meanwhile.
        for why in self.put_admin_sockets_back() {
            say!(Level::Error, "{why}; `admin` is not as before");
        }
        self.move_pid_file(pid_file);
        self.changed = changed;
        self.say_what_changed(&values);
        self.root_watch.was_taken_back();
        // It has proved itself before.
        self.generation.previous = None;
        self.due.admin_is_stale = true;
        self.refresh_admin();
    }

    /// What ran before is let go when the trial of this generation is over.
    pub(super) fn end_trial(&mut self) {
        if self.generation.trial_until_ms().is_some_and(|at| at <= clock::monotonic_ms()) {
            self.generation.previous = None;
            self.forget_left();
        }
    }

    /// Closes the sockets of addresses that are left, once no worker holds them.
    pub(super) fn forget_left(&mut self) {
        let is_shared = self.children.iter().any(|child| child.is_retired());
        if !is_shared && self.generation.previous.is_none() {
            self.server.listening.forget_left();
        }
    }
}
