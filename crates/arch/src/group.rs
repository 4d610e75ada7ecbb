//! A group of processes that share one table of descriptors and one table of cached files, and
//! their leader.
//!
//! The leader is the worker that the master forked. It clones the processes (`CLONE_FILES` without
//! `CLONE_VM`), passes orders on to them, and starts another where one died, with the waits that
//! the master has for workers. It serves nothing, so that it is there to clean up: the kernel
//! closes no descriptor of a process whose table others use, and nobody lets go of its locks.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use flyball_site::{Plan, Service, SharedTable};
use flyball_sys::clock;
use flyball_sys::descriptors::{Descriptor, DescriptorTable, Member};
use flyball_sys::disk::{Done, Op};
use flyball_sys::process::{self, Ending, ProcessId};
use flyball_sys::readiness::{self, Interest};
use flyball_sys::shared::SharedCounters;
use flyball_sys::signal::{Signal, Signals};
use flyball_sys::wake::Wake;

use crate::phases::{DiskWork, Phases};
use crate::server::connections_that_fit;
use crate::settings::Settings;
use crate::slots::Token;
use crate::supervise::{RESTART_FORGIVEN_MS, RESTART_MS_MAX, RESTART_MS_MIN};
use crate::worker::{Order, Report, Worker};

/// Wait before descriptors are looked for again that a dead process left behind, when somebody was
/// opening others all the time; in milliseconds.
const SWEEP_AGAIN_MS: u64 = 50;

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
    started_ms: u64,
    restart_ms: u64,
    due_ms: Option<u64>,
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
pub(crate) type Body = dyn Fn(Phases<Owning>, Seat<'_>) -> io::Result<Report>;

/// The leader and its processes.
pub(crate) struct Group {
    worker: Worker,
    table: Arc<SharedTable>,
    processes: Vec<Process>,
    partitions: usize,
    /// The CPUs that the server may use, of which the leader may be bound to one.
    cpus: Vec<usize>,
    words: SharedCounters,
    /// Readable when a process accepts no more.
    left: Wake,
    order: Option<(Order, u64)>,
    has_left: bool,
    sweep_due_ms: Option<u64>,
}

/// How many processes a group has.
pub(crate) fn processes(settings: &Settings) -> usize {
    settings.workers.unwrap_or_else(process::cpu_allowance)
}

/// Among how many listening sockets for each address they are divided.
pub(crate) fn partitions(settings: &Settings) -> usize {
    settings.groups.unwrap_or_else(process::cpu_allowance).min(processes(settings))
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
        let idle = Process { id: None, started_ms: 0, restart_ms: RESTART_MS_MIN, due_ms: Some(0) };
        Ok(Group {
            table: SharedTable::new(worker.settings.caches.clone(), count)?,
            processes: vec![idle; count],
            partitions: partitions(&worker.settings),
            cpus: process::allowed_cpus_of_parent(),
            words: SharedCounters::new(2 * count)?,
            left: Wake::new()?,
            order: None,
            has_left: false,
            sweep_due_ms: None,
            worker,
        })
    }

    /// Leads until the worker is told to stop and the last process has ended. Blocks.
    ///
    /// # Errors
    /// When the first processes cannot be started.
    pub(crate) fn run(mut self, body: &Body) -> io::Result<Report> {
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
                    Signal::Other(_) => {}
                }
            }
            self.leave_when_all_have();
            self.sweep_when_due();
            if self.order.is_some() && self.processes.iter().all(|process| process.id.is_none()) {
                return Ok(Report { unfinished: self.unfinished() });
            }
            self.restart_due(body);
        }
    }

    fn wait_ms(&self) -> i32 {
        let leave = self.order.filter(|_| !self.has_left).map(|(_, since)| since + LEAVE_MS_MAX);
        let restarts = self.processes.iter().filter_map(|process| process.due_ms);
        let due = restarts.chain(leave).chain(self.sweep_due_ms).min();
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
                process.started_ms = clock::monotonic_ms();
                process.due_ms = None;
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
        let partition = index % self.partitions;
        if self.worker.settings.pin {
            process::pin(self.cpus[partition % self.cpus.len()])?;
        }
        let member = self.table.descriptors().join(index);
        let signals = Signals::block()?;
        member.own(&signals);
        let worker = self.worker_of(index, partition, signals);
        let service = Service::in_table(Arc::clone(&worker.sites), &self.table, &member);
        let process = Phases::with_service(worker, service, Owning(Arc::clone(&member)))?;
        member.end();
        let (left, leader) = (self.word(index, Word::Left), &self.left);
        Ok(body(process, Seat { member, left, leader })?.unfinished)
    }

    fn worker_of(&self, index: usize, partition: usize, signals: Signals) -> Worker {
        let Worker { listeners, settings, sites, blocks, block, log, .. } = &self.worker;
        // As many stand in a row for each address; an earlier generation may have needed more.
        let each = (listeners.len() / settings.listen.len().max(1)).max(1);
        let is_own = |at: usize| at % each % self.partitions == partition;
        let own = listeners.iter().enumerate().filter(|(at, _)| is_own(*at));
        let room = (connections_that_fit(settings) / self.processes.len()).max(1);
        Worker {
            index,
            listeners: own.map(|(_, listener)| Arc::clone(listener)).collect(),
            shares_listeners: self.processes.len() > self.partitions,
            settings: Arc::clone(settings),
            sites: Arc::clone(sites),
            blocks: Arc::clone(blocks),
            block: block + index,
            signals,
            connections_max: settings.max_connections.map_or(room, |most| most.min(room)),
            log: log.clone(),
            in_group: true,
            accepting: Mutex::new(None),
        }
    }

    fn pass_on(&mut self, order: Order) {
        let since_ms = clock::monotonic_ms();
        self.order = Some((order, since_ms));
        for process in &mut self.processes {
            process.due_ms = None;
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
            self.sweep_due_ms = Some(0);
            self.worker.blocks.fold(self.worker.block + index);
            if self.order.is_none() {
                self.plan_restart(index, ending);
            }
        }
    }

    fn plan_restart(&mut self, index: usize, ending: Ending) {
        let now_ms = clock::monotonic_ms();
        let process = &mut self.processes[index];
        if now_ms - process.started_ms >= RESTART_FORGIVEN_MS {
            process.restart_ms = RESTART_MS_MIN;
        }
        let wait_ms = process.restart_ms;
        process.due_ms = Some(now_ms + wait_ms);
        process.restart_ms = (wait_ms * 2).min(RESTART_MS_MAX);
        let how = match ending {
            Ending::Exited(code) => format!("exited with code {code}"),
            Ending::Killed(signal) => format!("was ended by signal {signal}"),
        };
        self.worker.say(&format!("process {index} {how}; it is restarted in {wait_ms} ms"));
    }

    fn restart_due(&mut self, body: &Body) {
        let now_ms = clock::monotonic_ms();
        for index in 0..self.processes.len() {
            if self.processes[index].due_ms.is_some_and(|due| due <= now_ms)
                && let Err(error) = self.start(index, body)
            {
                self.worker.say(&format!("process {index} cannot be restarted: {error}"));
                self.processes[index].due_ms = Some(now_ms + RESTART_MS_MAX);
            }
        }
    }

    /// Closes what a dead process had opened and not yet registered.
    fn sweep_when_due(&mut self) {
        let now_ms = clock::monotonic_ms();
        if self.sweep_due_ms.is_some_and(|due| due <= now_ms) {
            let swept = matches!(self.table.descriptors().sweep(), Ok(Some(_)));
            self.sweep_due_ms = (!swept).then_some(now_ms + SWEEP_AGAIN_MS);
        }
    }
}

/// A process's place in the group.
pub(crate) struct Seat<'a> {
    member: Arc<Member>,
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

    /// Ends the process, which closes what it still has.
    pub(crate) fn end(self, process: Phases<Owning>) -> Report {
        drop(self);
        process.report()
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.member.leave();
    }
}

/// Disk work in the event loop itself; whatever is opened or closed is registered in the table of
/// descriptors.
pub(crate) struct Owning(Arc<Member>);

impl Owning {
    fn perform(&self, op: Op) -> Done {
        // The others open nothing.
        if !matches!(op, Op::Open { .. } | Op::List { .. }) {
            return op.perform();
        }
        self.0.begin();
        let done = match op.perform() {
            Done::Opened(Ok(Descriptor::Owned(file))) => Done::Opened(Ok(self.0.keep(file))),
            done => done,
        };
        self.0.end();
        done
    }
}

impl DiskWork for Owning {
    fn submit(&mut self, _token: Token, mut plan: Box<Plan>) -> Option<Box<Plan>> {
        while let Some(op) = plan.next_op() {
            plan.done(self.perform(op));
        }
        Some(plan)
    }

    fn begin_accepting(&self) {
        self.0.begin();
    }

    fn own(&self, descriptor: BorrowedFd<'_>) {
        self.0.own(descriptor);
    }

    fn end_accepting(&self) {
        self.0.end();
    }

    fn close(&self, socket: OwnedFd) {
        self.0.close(socket);
    }
}
