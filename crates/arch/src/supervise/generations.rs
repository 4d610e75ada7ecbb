//! Generations of workers: a new one takes the listening sockets over, the one before finishes what
//! it has.

use std::io;

use flyball_sys::clock;
use flyball_sys::process;

use super::children::{Child, RESTART_MS_MAX, Role, name};
use super::{KILL_AFTER_MS, Master};
use crate::control::Reply;
use crate::registry::{self, Architecture};

/// Generations of workers alive at the same time.
pub(super) const GENERATIONS_MAX: usize = 3;

/// Longest wait for a retiring generation to leave the listening sockets.
const LEAVE_MS_MAX: u64 = 5_000;

/// A new generation that fails within this time is taken back.
pub(super) const TRIAL_MS: u64 = 3_000;

/// The workers that accept.
pub(super) struct Generation {
    pub(super) number: u64,
    pub(super) architecture: &'static dyn Architecture,
    pub(super) workers: usize,
    pub(super) started_ms: u64,
    /// What ran before, for as long as this one is on trial.
    pub(super) previous: Option<&'static dyn Architecture>,
}

impl Master {
    /// Starts the workers of an architecture on sockets that are prepared for it.
    pub(super) fn begin_generation(
        &mut self,
        architecture: &'static dyn Architecture,
    ) -> io::Result<()> {
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

    /// Moves the server to another architecture: a new generation takes the listening sockets over,
    /// if fewer than `most` generations are alive.
    ///
    /// # Errors
    /// Why it stays as it is.
    pub(super) fn switch(
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
    pub(super) fn take_back(&mut self) {
        let Some(previous) = self.generation.previous.take() else { return };
        let failed = self.generation.architecture.name();
        match self.switch(previous, GENERATIONS_MAX + 1) {
            Ok(_) => eprintln!("flyball: {failed} failed; {} runs again", previous.name()),
            Err(why) => eprintln!("flyball: {failed} failed; {why}"),
        }
        // It has proved itself before.
        self.generation.previous = None;
    }
}
