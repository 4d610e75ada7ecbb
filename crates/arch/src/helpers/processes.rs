//! Helper processes, as in Flash: each brings the names or pages that one operation needs into
//! memory and says so; the loop then repeats the operation, which no longer waits.
//!
//! What was brought in may be pushed out again before the loop comes to it. The loop then asks
//! anew, a few times, and performs the operation at last whatever it costs. Where nothing tells
//! what is in memory (FUSE, network file systems) it repeats the operation once it was brought in.
//!
//! Long work for the processor is nothing that a process could bring in: threads do it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};

use flyball_observe::counters::Tally;
use flyball_site::Plan;
use flyball_sys::channel::Channel;
use flyball_sys::clock;
use flyball_sys::disk::{Done, Nowait, Op, Refusal};
use flyball_sys::process::{self, ProcessId};
use flyball_sys::readiness::{EVENTS_MAX, Epoll, Event, Interest, Readiness};
use flyball_sys::wake::Wake;

use super::life::{COMPLETION_BYTES, request, spawn_on_demand};
use super::threads;
use crate::phases::DiskWork;
use crate::pool::{BlockingPool, Bounds, DEATHS_MAX, Events};
use crate::slots::Token;

/// Most times that one operation is brought in anew because it was pushed out again.
const REPEATS_MAX: u32 = 2;

/// How long no spawner is started after one could not be, and no helper is asked for after one
/// could not be started, in milliseconds.
const PAUSE_MS: u64 = 1_000;

/// What tells of the spawner, of work that was finished without a helper, of work that threads did,
/// and of the first helper.
const SPAWNER: u64 = 0;
const FINISHED: u64 = 1;
const COMPUTED: u64 = 2;
const FIRST_HELPER: u64 = 3;

/// The pool.
pub(super) struct Processes {
    bounds: Bounds,
    nowait: Nowait,
    /// Readable when there is something to hear from anybody.
    ears: Epoll,
    heard: Vec<Event>,
    finished: Wake,
    spawner: Option<Spawner>,
    no_spawner_before_ms: u64,
    no_helper_before_ms: u64,
    helpers: Vec<Helper>,
    next_helper: u64,
    next_number: u64,
    jobs: VecDeque<Job>,
    /// Threads for long work of the processor.
    computing: BlockingPool<Plan>,
    done: VecDeque<(Token, Box<Plan>)>,
    events: Events,
}

struct Spawner {
    channel: Channel,
    process: ProcessId,
    /// Helpers that it was asked for and that have not come.
    coming: usize,
}

struct Helper {
    id: u64,
    channel: Channel,
    /// The number of the request that it has.
    number: u64,
    job: Option<Job>,
    idle_since_ms: u64,
}

struct Job {
    token: Token,
    plan: Box<Plan>,
    /// Whether the next operation was just brought into memory.
    warmed: bool,
    /// Times that it was, and was pushed out again.
    repeats: u32,
    /// Whether nothing tells what is in memory.
    elsewhere: bool,
    /// Helpers that died with it.
    deaths: u32,
}

/// What a job needs before it can go on.
enum Needs {
    /// Nothing: the plan is finished.
    Nothing,
    /// That a helper brings in what its next operation asks for.
    Helper,
    /// That a thread does all that is left of it, which takes long.
    Thread,
}

impl Job {
    /// Performs what need not wait, up to the first operation that must.
    fn go_on(&mut self, nowait: &mut Nowait) -> Needs {
        while let Some(op) = self.plan.next_op() {
            let warmed = std::mem::take(&mut self.warmed);
            if let Some(len) = self.plan.warmed().filter(|_| warmed) {
                self.plan.done(Done::Read(Vec::new(), Ok(len)));
                continue;
            }
            match op {
                // A copy is no matter of the disk, and the bytes are here.
                Op::Keep { .. } => {
                    self.plan.done(op.perform());
                    continue;
                }
                // A directory is not warmed by a look: each of its names is one. The process that
                // has a file open writes to it.
                Op::Compute { .. } | Op::List { .. } | Op::Nameless { .. } | Op::Write { .. } => {
                    self.plan.put_back(op);
                    return Needs::Thread;
                }
                _ => {}
            }
            if !warmed && (self.elsewhere || self.plan.warmed().is_some()) {
                self.plan.put_back(op);
                return Needs::Helper;
            }
            match nowait.perform(op) {
                Ok(done) => self.plan.done(done),
                Err((op, refusal)) => {
                    self.elsewhere |= refusal == Refusal::Elsewhere;
                    let again = refusal == Refusal::Absent && self.repeats < REPEATS_MAX;
                    if !warmed || again {
                        self.repeats += u32::from(warmed);
                        self.plan.put_back(op);
                        return Needs::Helper;
                    }
                    self.plan.done(op.perform());
                }
            }
            self.repeats = 0;
        }
        Needs::Nothing
    }
}

impl Processes {
    /// Forks the spawner.
    pub(super) fn new(bounds: Bounds, nowait: Nowait) -> io::Result<Processes> {
        let mut ears = Epoll::new(false)?;
        let finished = Wake::new()?;
        ears.add(finished.as_fd(), FINISHED, Interest::READ)?;
        let computing = threads(Bounds { reserve: 0, ..bounds })?;
        ears.add(computing.completions(), COMPUTED, Interest::READ)?;
        let mut processes = Processes {
            bounds,
            nowait,
            ears,
            heard: Vec::new(),
            finished,
            spawner: None,
            no_spawner_before_ms: 0,
            no_helper_before_ms: 0,
            helpers: Vec::new(),
            next_helper: FIRST_HELPER,
            next_number: 0,
            jobs: VecDeque::new(),
            computing,
            done: VecDeque::new(),
            events: Events::default(),
        };
        processes.start_spawner()?;
        Ok(processes)
    }

    /// Ends helpers that have been idle for too long, but for those in reserve.
    fn reap_idle(&mut self, now_ms: u64) {
        while self.helpers.len() > self.bounds.reserve {
            let overdue = |helper: &Helper| {
                helper.job.is_none() && now_ms - helper.idle_since_ms >= self.bounds.idle_ms
            };
            let Some(at) = self.helpers.iter().position(overdue) else { return };
            // It sees that its channel is closed.
            self.helpers.swap_remove(at);
            self.events.reaped += 1;
        }
    }

    /// Gives work to free helpers, and asks for more of these.
    fn hand_out(&mut self) {
        while let Some(job) = self.jobs.pop_front() {
            // The one that was busy last: the others have their rest, and end.
            let free = (0..self.helpers.len()).filter(|at| self.helpers[*at].job.is_none());
            match free.max_by_key(|at| self.helpers[*at].idle_since_ms) {
                Some(at) => self.hand_to(at, job),
                None => {
                    self.jobs.push_front(job);
                    if self.ask_for_helpers() {
                        return;
                    }
                    self.do_without_helpers();
                }
            }
        }
    }

    fn hand_to(&mut self, at: usize, mut job: Job) {
        let helper = &mut self.helpers[at];
        let Some(op) = job.plan.next_op() else { return self.finish(job) };
        let Some((record, descriptor)) = request(&op, self.next_number) else {
            job.plan.done(op.perform());
            return self.requeue(job);
        };
        let sent = helper.channel.send(&record, Some(descriptor));
        job.plan.put_back(op);
        helper.job = Some(job);
        helper.number = self.next_number;
        self.next_number += 1;
        self.events.jobs += 1;
        if sent.is_err() {
            let id = helper.id;
            self.bury(id);
        }
    }

    /// Asks for as many helpers as there is work for; false when none is there and none will come.
    fn ask_for_helpers(&mut self) -> bool {
        let now_ms = clock::monotonic_ms();
        if self.spawner.is_none() && now_ms >= self.no_spawner_before_ms {
            let _ = self.start_spawner();
        }
        let Some(spawner) = &mut self.spawner else { return !self.helpers.is_empty() };
        while now_ms >= self.no_helper_before_ms
            && spawner.coming < self.jobs.len()
            && self.helpers.len() + spawner.coming < self.bounds.most
            && spawner.channel.send(b"+", None).is_ok()
        {
            spawner.coming += 1;
        }
        !self.helpers.is_empty() || spawner.coming > 0
    }

    fn do_without_helpers(&mut self) {
        while let Some(mut job) = self.jobs.pop_front() {
            job.plan.run();
            self.finish(job);
        }
    }

    fn finish(&mut self, job: Job) {
        self.done.push_back((job.token, job.plan));
        self.finished.notify();
    }

    fn requeue(&mut self, mut job: Job) {
        match job.go_on(&mut self.nowait) {
            Needs::Nothing => self.finish(job),
            Needs::Helper => self.jobs.push_back(job),
            Needs::Thread => {
                let Job { token, plan, .. } = job;
                if let Some(plan) = self.computing.give(token, plan) {
                    self.done.push_back((token, plan));
                    self.finished.notify();
                }
            }
        }
    }

    fn take_computed(&mut self) {
        self.computing.acknowledge();
        while let Some(done) = self.computing.collect() {
            self.done.push_back(done);
        }
    }

    /// Takes a helper's completion, or its work when it died.
    fn hear(&mut self, id: u64) {
        let mut record = [0; COMPLETION_BYTES];
        loop {
            let Some(helper) = self.helpers.iter_mut().find(|helper| helper.id == id) else {
                return;
            };
            match helper.channel.receive(&mut record) {
                Ok((COMPLETION_BYTES, _)) if u64::from_ne_bytes(record) == helper.number => {
                    let Some(mut job) = helper.job.take() else { continue };
                    helper.idle_since_ms = clock::monotonic_ms();
                    job.warmed = true;
                    self.requeue(job);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                _ => return self.bury(id),
            }
        }
    }

    /// Takes the work of a helper that died: another shall do it.
    fn bury(&mut self, id: u64) {
        let Some(at) = self.helpers.iter().position(|helper| helper.id == id) else { return };
        let helper = self.helpers.swap_remove(at);
        self.events.died += 1;
        self.bounds.say("a helper process died; its work is done again");
        let Some(mut job) = helper.job else { return };
        job.deaths += 1;
        if job.deaths > DEATHS_MAX {
            job.plan.run();
            return self.finish(job);
        }
        self.jobs.push_front(job);
    }

    fn start_spawner(&mut self) -> io::Result<()> {
        let started = Channel::pair().and_then(|(here, there)| {
            here.set_nonblocking()?;
            let process = process::fork_apart(&[there.as_fd()], || spawn_on_demand(&there))?;
            self.ears.add(here.as_fd(), SPAWNER, Interest::READ)?;
            Ok(Spawner { channel: here, process, coming: 0 })
        });
        match started {
            Ok(spawner) => {
                self.spawner = Some(spawner);
                Ok(())
            }
            Err(error) => {
                self.bounds.say(&format!("there can be no helper processes: {error}"));
                self.no_spawner_before_ms = clock::monotonic_ms() + PAUSE_MS;
                Err(error)
            }
        }
    }

    /// Takes a new helper, or notice that there is none, or that the spawner died.
    fn hear_spawner(&mut self) {
        loop {
            let Some(spawner) = &mut self.spawner else { return };
            match spawner.channel.receive(&mut [0]) {
                Ok((1, Some(descriptor))) => {
                    spawner.coming = spawner.coming.saturating_sub(1);
                    self.employ(Channel::from_fd(descriptor));
                }
                // Nothing came from the spawner, or this process had no descriptor left for it.
                Ok((1, None)) => {
                    spawner.coming = spawner.coming.saturating_sub(1);
                    self.refused();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                _ => {
                    self.bounds.say("the process that starts helpers died; another is started");
                    self.events.died += 1;
                    self.end_spawner();
                    let _ = self.start_spawner();
                    return;
                }
            }
        }
    }

    fn employ(&mut self, channel: Channel) {
        let id = self.next_helper;
        self.next_helper += 1;
        let heard = channel
            .set_nonblocking()
            .and_then(|()| self.ears.add(channel.as_fd(), id, Interest::READ));
        if heard.is_err() {
            return self.refused();
        }
        let idle_since_ms = clock::monotonic_ms();
        self.helpers.push(Helper { id, channel, number: 0, job: None, idle_since_ms });
        self.events.started += 1;
    }

    /// A helper could not be started: the next is asked for after a pause. Those that there are do
    /// the work meanwhile; without any the loop does it.
    fn refused(&mut self) {
        let now_ms = clock::monotonic_ms();
        if now_ms >= self.no_helper_before_ms {
            self.bounds.say("a helper process cannot be started");
        }
        self.no_helper_before_ms = now_ms + PAUSE_MS;
    }

    /// Closes the spawner's channel, which ends it, and reaps it.
    fn end_spawner(&mut self) {
        if let Some(Spawner { channel, process, .. }) = self.spawner.take() {
            drop(channel);
            let _ = process::wait_for(process);
        }
    }
}

impl DiskWork for Processes {
    /// Runs a plan as far as it need not wait, and leaves the rest to helpers.
    fn submit(&mut self, token: Token, plan: Box<Plan>) -> Option<Box<Plan>> {
        let (warmed, elsewhere) = (false, false);
        let mut job = Job { token, plan, warmed, repeats: 0, elsewhere, deaths: 0 };
        match job.go_on(&mut self.nowait) {
            Needs::Nothing => return Some(job.plan),
            Needs::Thread => return self.computing.give(token, job.plan),
            Needs::Helper => {}
        }
        self.jobs.push_back(job);
        self.hand_out();
        None
    }

    fn reads_large_bodies(&self) -> bool {
        true
    }

    fn completions(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ears.as_fd())
    }

    /// Hears everybody who has something to say.
    fn acknowledge(&mut self) {
        let mut heard = std::mem::take(&mut self.heard);
        loop {
            // It fails only for want of memory, and is asked again then.
            let _ = self.ears.wait(&mut heard, 0);
            for event in &heard {
                match event.token {
                    SPAWNER => self.hear_spawner(),
                    FINISHED => self.finished.clear(),
                    COMPUTED => self.take_computed(),
                    id => self.hear(id),
                }
            }
            if heard.len() < EVENTS_MAX {
                break;
            }
        }
        self.heard = heard;
        self.hand_out();
    }

    fn collect(&mut self) -> Option<(Token, Box<Plan>)> {
        self.done.pop_front()
    }

    fn tend(&mut self, tally: &mut Tally) {
        self.reap_idle(clock::monotonic_ms());
        std::mem::take(&mut self.events).count(tally);
    }
}

impl Drop for Processes {
    /// Whoever waits for a closed channel ends; a helper that waits for the disk is killed when the
    /// spawner ends.
    fn drop(&mut self) {
        self.helpers.clear();
        self.end_spawner();
    }
}
