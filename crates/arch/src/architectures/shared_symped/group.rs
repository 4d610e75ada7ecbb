//! A group of processes that share one table of descriptors and one table of cached files, and
//! their leader.
//!
//! The leader is the worker that the master forked. It clones the processes (`CLONE_FILES` without
//! `CLONE_VM`), passes orders on to them, and starts another where one died, with the waits that
//! the master has for workers. It serves nothing, so that it is there to clean up: the kernel
//! closes no descriptor of a process whose table others use, and nobody lets go of its locks.

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use flyball_site::{Service, SharedTable};
use flyball_sys::clock;
use flyball_sys::descriptors::DescriptorTable;
use flyball_sys::owned;
use flyball_sys::process::{self, Ending, ProcessId};
use flyball_sys::readiness::{self, Interest};
use flyball_sys::shared::SharedCounters;
use flyball_sys::title;
use flyball_sys::wake::Wake;

use crate::chunks::Chunks;
use crate::descriptors::connections_that_fit;
use crate::helpers::Inline;
use crate::kernel::signal::{Signal, Signals};
use crate::links::Upstreams;
use crate::listener::Listener;
use crate::phases::Phases;
use crate::restart::Restart;
use crate::settings::Settings;
use crate::share::{Share, cpu_of_worker};
use crate::worker::{Leaving, Order, Report, Worker};

/// Wait before descriptors are looked for again that a dead process left behind, when somebody was
/// opening others all the time; in milliseconds. Doubled each time, since everybody else who opens
/// or closes is held up meanwhile.
const SWEEP_MS_MIN: u64 = 50;

/// Longest such wait.
const SWEEP_MS_MAX: u64 = 6_400;

/// When a process fails within this time of the group's life, the leader does, so that the master
/// sees it: it may take a new generation back.
const TRIAL_MS: u64 = 3_000;

/// Longest wait, when the server stops, for processes that do not say that they accept no more; in
/// milliseconds.
const LEAVE_MS_MAX: u64 = 1_000;

/// Tokens of what the leader waits for.
const SIGNALS: u64 = 0;
const LEFT: u64 = 1;

/// One process of the group, in its slot.
#[derive(Clone, Copy, Debug)]
struct Process {
    id: Option<ProcessId>,
    restart: Restart,
}

/// What a process tells the leader, in two words of shared memory.
#[derive(Clone, Copy)]
enum Word {
    /// Whether it accepts no more.
    Left,
    /// Connections that it left open.
    Unfinished,
}

/// What each process does: its event loop, to the end.
pub(crate) type Body = dyn Fn(Phases, Seat<'_>) -> io::Result<Report>;

/// The leader and its processes.
pub(crate) struct Group {
    worker: Worker,
    table: Arc<SharedTable>,
    processes: Vec<Process>,
    partitions: usize,
    words: SharedCounters,
    /// Readable when a process accepts no more.
    left: Wake,
    order: Option<(Order, u64)>,
    has_left: bool,
    sweeping: Sweeping,
    started_ms: u64,
    /// A process failed within [`TRIAL_MS`], or too often before it had entered its loop.
    failed: Option<String>,
}

/// When to look for what the dead left behind.
#[derive(Debug)]
struct Sweeping {
    due_ms: Option<u64>,
    again_ms: u64,
}

impl Sweeping {
    const IDLE: Sweeping = Sweeping { due_ms: None, again_ms: SWEEP_MS_MIN };

    /// Somebody died. A wait that is under way goes on.
    fn plan(&mut self) {
        self.due_ms.get_or_insert(0);
    }

    fn is_due(&self, now_ms: u64) -> bool {
        self.due_ms.is_some_and(|due| due <= now_ms)
    }

    /// Somebody was opening or closing all the time.
    fn failed(&mut self, now_ms: u64) {
        self.due_ms = Some(now_ms + self.again_ms);
        self.again_ms = (self.again_ms * 2).min(SWEEP_MS_MAX);
    }
}

/// How many processes a group has.
pub(super) fn processes(settings: &Settings) -> usize {
    settings.workers.unwrap_or_else(|| settings.cpus())
}

/// Among how many listening sockets for each address they are divided.
pub(super) fn partitions(settings: &Settings) -> usize {
    settings.groups.unwrap_or_else(|| settings.cpus()).min(processes(settings))
}

/// Whether a leader can see its descriptors here.
///
/// # Errors
/// Why it cannot.
pub(crate) fn probe() -> Result<(), String> {
    DescriptorTable::probe().map_err(|error| format!("/proc/self/fd cannot be read: {error}"))
}

impl Group {
    /// Maps the tables.
    ///
    /// # Errors
    /// When memory or descriptors are out.
    pub(crate) fn new(worker: Worker) -> io::Result<Group> {
        let count = processes(&worker.settings);
        let idle = Process { id: None, restart: Restart::new(Some(0)) };
        Ok(Group {
            table: SharedTable::new(worker.settings.caches.clone(), count)?,
            processes: vec![idle; count],
            partitions: partitions(&worker.settings),
            words: SharedCounters::new(2 * count)?,
            left: Wake::new()?,
            order: None,
            has_left: false,
            sweeping: Sweeping::IDLE,
            started_ms: clock::monotonic_ms(),
            failed: None,
            worker,
        })
    }

    /// Leads until the worker is told to stop and the last process has ended. Blocks.
    ///
    /// # Errors
    /// When the first processes cannot be started, or one fails at once; those that run are killed
    /// as this process ends.
    pub(crate) fn run(mut self, body: &Body) -> io::Result<Report> {
        title::set("flyball: leader");
        let mut mechanism = readiness::open("poll")?;
        mechanism.add(self.worker.signals.as_fd(), SIGNALS, Interest::READ)?;
        mechanism.add(self.left.as_fd(), LEFT, Interest::READ)?;
        self.table.descriptors().seal()?;
        for index in 0..self.processes.len() {
            self.start(index, body)?;
        }
        loop {
            mechanism.wait(&mut Vec::new(), self.wait_ms())?;
            self.left.clear();
            while let Some(signal) = self.worker.signals.next() {
                match signal {
                    Signal::Stop => self.pass_on(Order::Stop),
                    Signal::Retire => self.pass_on(Order::Retire),
                    Signal::Child => self.reap(),
                    _ => {}
                }
            }
            if let Some(how) = self.failed.take() {
                return Err(io::Error::other(how));
            }
            self.leave_when_all_have();
            self.sweep_when_due();
            if self.order.is_some() && self.processes.iter().all(|process| process.id.is_none()) {
                return Ok(Report { unfinished: self.unfinished() });
            }
            self.restart_due(body);
        }
    }

    /// Where a process counts.
    fn block_of(&self, index: usize) -> Range<usize> {
        let block = self.worker.blocks.start + index;
        block..block + 1
    }

    fn wait_ms(&self) -> i32 {
        let leave = self.order.filter(|_| !self.has_left).map(|(_, since)| since + LEAVE_MS_MAX);
        let restarts = self.processes.iter().filter_map(|process| process.restart.due_ms);
        let due = restarts.chain(leave).chain(self.sweeping.due_ms).min();
        let left = due.map(|due| due.saturating_sub(clock::monotonic_ms()));
        left.map_or(-1, |ms| i32::try_from(ms).unwrap_or(i32::MAX))
    }

    fn word(&self, index: usize, word: Word) -> &AtomicU64 {
        &self.words.all()[2 * index + word as usize]
    }

    fn unfinished(&self) -> usize {
        let words = (0..self.processes.len()).map(|index| self.word(index, Word::Unfinished));
        words.map(|word| word.load(SeqCst) as usize).sum()
    }

    /// Clones one process.
    fn start(&mut self, index: usize, body: &Body) -> io::Result<()> {
        let (leader, descriptors) = (process::own_id(), self.table.descriptors());
        for word in [Word::Left, Word::Unfinished] {
            self.word(index, word).store(0, SeqCst);
        }
        self.worker.shared.blocks.set_entered(self.block_of(index), false);
        descriptors.expect(index);
        let id = process::spawn_sharing_descriptors(&|| {
            let served = process::be_killed_with_parent(leader)
                .and_then(|()| self.serve(index, body))
                .map(|report| self.word(index, Word::Unfinished).store(report as u64, SeqCst));
            match served {
                Ok(()) => 0,
                Err(error) => {
                    self.worker.say(&format!("process {index}: {error}"));
                    1
                }
            }
        });
        match id {
            Ok(id) => {
                descriptors.started(index, id.number());
                let process = &mut self.processes[index];
                process.id = Some(id);
                process.restart.started(clock::monotonic_ms());
                Ok(())
            }
            Err(error) => {
                descriptors.bury(index);
                Err(error)
            }
        }
    }

    /// In the new process: serves until it is told to stop. Whatever it owns is dropped here, and
    /// what it was cloned with is not.
    fn serve(&self, index: usize, body: &Body) -> io::Result<usize> {
        title::set(&format!("flyball: worker {index}"));
        let partition = index % self.partitions;
        if let Some(cpu) = cpu_of_worker(&self.worker.settings, partition) {
            process::pin(cpu)?;
        }
        let member = self.table.descriptors().join(index);
        owned::register_by(&member);
        let worker = self.worker_of(index, partition, Signals::block()?);
        let service = Service::in_table(Arc::clone(&worker.sites), &self.table, &member);
        let process = Phases::with_service(worker, service, Box::new(Inline::start(index)?))?;
        let (left, leader) = (self.word(index, Word::Left), &self.left);
        Ok(body(process, Seat { left, leader })?.unfinished)
    }

    fn worker_of(&self, index: usize, partition: usize, signals: Signals) -> Worker {
        let Worker { listeners, settings, sites, shared, blocks, log, upstreams, renewals, .. } =
            &self.worker;
        // Those of an address stand in a row: an earlier generation may have needed more, and of
        // some there is one alone.
        let addresses = listeners.last().map_or(0, |last| last.address() + 1);
        let own = |(at, listener): (usize, &Listener)| {
            let address = listener.address();
            let first = listeners.partition_point(|other| other.address() < address);
            let sockets = listeners[first..].partition_point(|other| other.address() == address);
            Share::of(address, addresses, partition, self.partitions, settings.by_address)
                .filter(|share| share.reads_of(at - first, sockets))
                .map(|share| listener.clone().shared(share.is_shared(sockets)))
        };
        let room = (connections_that_fit(settings) / self.processes.len()).max(1);
        Worker {
            index,
            listeners: listeners.iter().enumerate().filter_map(own).collect(),
            shares_listeners: self.processes.len() > self.partitions,
            settings: Arc::clone(settings),
            sites: Arc::clone(sites),
            shared: Arc::clone(shared),
            blocks: blocks.start + index..blocks.start + index + 1,
            signals,
            connections_max: settings.max_connections.map_or(room, |most| most.min(room)),
            log: log.of_worker(index),
            chunks: Chunks::of(settings),
            upstreams: Upstreams::of(sites, upstreams.door().cloned()),
            rings: self.worker.rings,
            leaving: Leaving::by_leader(),
            renewals: renewals.clone(),
        }
    }

    fn pass_on(&mut self, order: Order) {
        let since_ms = clock::monotonic_ms();
        self.order = Some((order, since_ms));
        for process in &mut self.processes {
            process.restart.due_ms = None;
            match (process.id, order) {
                (Some(id), Order::Stop) => process::terminate(id),
                (Some(id), Order::Retire) => process::retire(id),
                (None, _) => {}
            }
        }
    }

    /// The listening sockets are left when all processes say that they accept no more. When the
    /// server stops, nobody waits for ever for one that says nothing; and a generation that does
    /// not leave is killed by the master.
    fn leave_when_all_have(&mut self) {
        let Some((order, since_ms)) = self.order.filter(|_| !self.has_left) else { return };
        let has_left = |(index, process): (usize, &Process)| {
            process.id.is_none() || self.word(index, Word::Left).load(SeqCst) != 0
        };
        let all = self.processes.iter().enumerate().all(has_left);
        let is_late = clock::monotonic_ms() >= since_ms + LEAVE_MS_MAX;
        if all || (is_late && order == Order::Stop) {
            self.worker.leave_listeners(order);
            self.has_left = true;
        }
    }

    /// Cleans up after every process that ended, and plans another.
    fn reap(&mut self) {
        while let Some((id, ending)) = process::reap() {
            let Some(index) = self.processes.iter().position(|p| p.id == Some(id)) else {
                continue;
            };
            self.processes[index].id = None;
            self.table.recover(index, id.number());
            self.table.descriptors().bury(index);
            self.sweeping.plan();
            self.worker.shared.fold(self.worker.blocks.start + index, ending.is_abrupt());
            if self.order.is_none() {
                self.plan_restart(index, ending);
            }
        }
    }

    fn plan_restart(&mut self, index: usize, ending: Ending) {
        let now_ms = clock::monotonic_ms();
        let has_entered = self.worker.shared.blocks.has_entered(self.block_of(index));
        let restart = &mut self.processes[index].restart;
        restart.early_ends.has_entered |= has_entered;
        let on_trial = now_ms - self.started_ms < TRIAL_MS && ending.is_failure();
        if on_trial || restart.early_ends.are_too_many(now_ms) {
            self.failed = Some(format!("process {index} {ending}"));
            return;
        }
        let wait_ms = restart.plan(now_ms);
        self.worker.say(&format!("process {index} {ending}; it is restarted in {wait_ms} ms"));
    }

    fn restart_due(&mut self, body: &Body) {
        let now_ms = clock::monotonic_ms();
        for index in 0..self.processes.len() {
            if self.processes[index].restart.due_ms.is_some_and(|due| due <= now_ms)
                && let Err(error) = self.start(index, body)
            {
                self.worker.say(&format!("process {index} cannot be restarted: {error}"));
                self.processes[index].restart.failed(now_ms);
            }
        }
    }

    /// Closes what a dead process had opened and not yet registered.
    fn sweep_when_due(&mut self) {
        let now_ms = clock::monotonic_ms();
        if self.sweeping.is_due(now_ms) {
            match self.table.descriptors().sweep() {
                Ok(Some(_)) => self.sweeping = Sweeping::IDLE,
                Ok(None) | Err(_) => self.sweeping.failed(now_ms),
            }
        }
    }
}

/// A process's place in the group.
pub(crate) struct Seat<'a> {
    left: &'a AtomicU64,
    leader: &'a Wake,
}

impl Seat<'_> {
    /// Tells the leader, once, that this process accepts no more.
    pub(crate) fn leave_listeners(&self) {
        if self.left.swap(1, SeqCst) == 0 {
            self.leader.notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::site;

    #[test]
    fn a_queue_is_a_processs_own_where_no_other_reads_its_socket() {
        for (sockets, is_own) in [(1, false), (2, true)] {
            let settings = Settings { workers: Some(2), groups: Some(2), ..Settings::default() };
            let (mut worker, _) = site::worker(settings, 2, None);
            worker.listeners = vec![worker.listeners[0].clone(); sockets];
            let group = Group::new(worker).unwrap();
            for index in 0..2 {
                let worker = group.worker_of(index, index, Signals::block().unwrap());
                assert_eq!(worker.listeners.len(), 1);
                assert_eq!(worker.listeners[0].has_own_queue(), is_own, "{sockets} sockets");
            }
        }
    }

    #[test]
    fn sweeping_backs_off_while_somebody_opens_and_a_death_does_not_hasten_it() {
        let mut sweeping = Sweeping::IDLE;
        assert!(!sweeping.is_due(u64::MAX));
        sweeping.plan();
        assert!(sweeping.is_due(0));
        let mut waits = Vec::new();
        for _ in 0..9 {
            sweeping.failed(1_000);
            sweeping.plan();
            waits.push(sweeping.due_ms.unwrap() - 1_000);
        }
        assert_eq!(waits, [50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 6_400]);
    }

    #[test]
    fn the_numbers_of_processes_and_partitions_are_those_that_the_master_found() {
        let settings = Settings { cpus: Some(700), ..Settings::default() };
        assert_eq!((processes(&settings), partitions(&settings)), (700, 700));
        let settings = Settings { workers: Some(3), ..settings };
        assert_eq!((processes(&settings), partitions(&settings)), (3, 3));
    }
}
