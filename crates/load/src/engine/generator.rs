//! One thread of the engine: arrivals, events and timers in turn.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use flyball_sys::clock::monotonic_ns;
use flyball_sys::connect::ConnectOptions;
use flyball_sys::process;
use flyball_sys::readiness::{EVENTS_MAX, Epoll, Event};

use super::busy::Busy;
use super::connection::{Connection, Judge, Phase};
use super::kept::Backlog;
use super::pauses::Pauses;
use super::retries::BackOff;
use super::secure::Sealing;
use super::wheel::Wheel;
use super::{Behaviour, CONNECTIONS_MAX, Closing, Mode, Plan};
use crate::observe::{Kind, Live, Published, Series, Tally, Window};
use crate::schedule::{Arrivals, Schedule};
use crate::workload::Workload;

/// Sessions that are begun before events are looked at again.
const STARTS_MAX: usize = 64;

/// Sessions that are begun after each event and each timer: a server that answers hundreds of
/// requests at once, or lets as many time out, does not keep the next ones from beginning. One is
/// enough, since a session has more than one event.
const STARTS_BETWEEN: usize = 1;

/// Bytes received at once.
const INPUT_BYTES: usize = 128 * 1024;

/// Longest wait, so that a stop is seen.
const WAIT_MAX_NS: u64 = 50_000_000;

/// Which thread of how many, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) index: usize,
    pub(super) threads: usize,
    pub(super) start_ns: u64,
    pub(super) window: Window,
}

impl Place {
    /// How many of all connections are this thread's.
    fn share_of(self, connections: u32) -> u32 {
        let (threads, index) = (self.threads as u32, self.index as u32);
        connections / threads + u32::from(index < connections % threads)
    }
}

/// What a thread works with.
pub(super) struct Generator<'a> {
    pub(super) plan: &'a Plan,
    pub(super) behaviour: &'a Behaviour,
    pub(super) workload: Box<dyn Workload>,
    pub(super) judge: Judge<'a>,
    pub(super) options: ConnectOptions,
    pub(super) epoll: Epoll,
    pub(super) wheel: Wheel,
    pub(super) table: Vec<Connection>,
    free: VecDeque<u32>,
    /// Most places of the table.
    places_max: usize,
    pub(super) open: u64,
    pub(super) input: Box<[u8]>,
    pub(super) output: Vec<u8>,
    pub(super) sealing: Sealing,
    pub(super) tally: Tally,
    /// Connections begun by this thread: which source and address the next one takes.
    pub(super) turn: usize,
    pub(super) place: Place,
    arrivals: Option<std::iter::StepBy<std::iter::Skip<Arrivals>>>,
    next_arrival_ns: Option<u64>,
    pub(super) pauses: Pauses,
    /// What clients wait before they try again.
    pub(super) backoff: BackOff,
    /// What waits for a connection that is kept.
    pub(super) backlog: Backlog,
    /// Whether the workload is at its end.
    is_exhausted: bool,
    live: &'a Arc<Live>,
    published: Published,
    stop: &'a AtomicBool,
}

impl<'a> Generator<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        workload: Box<dyn Workload>,
        place: Place,
        live: &'a Arc<Live>,
        stop: &'a AtomicBool,
    ) -> io::Result<Generator<'a>> {
        let behaviour = &plan.behaviour;
        let options = ConnectOptions {
            source: None,
            receive_buffer: behaviour.receive_buffer,
            // A request is one segment, and Nagle's algorithm holds back only a second one.
            no_delay: behaviour.pipeline > 1 || behaviour.write_rate.is_some(),
            reset_on_close: behaviour.closing == Closing::Reset,
        };
        let its = |schedule: &Schedule| {
            let all = schedule.arrivals(plan.seed);
            Some(all.skip(place.index).step_by(place.threads))
        };
        let (arrivals, connections, places_max) = match &plan.mode {
            Mode::Open(schedule) => (its(schedule), 0, CONNECTIONS_MAX),
            Mode::Closed(connections) => (None, place.share_of(*connections), CONNECTIONS_MAX),
            Mode::Kept(schedule, connections) => {
                (its(schedule), 0, place.share_of(*connections) as usize)
            }
        };
        let seed = plan.seed.wrapping_add(place.index as u64);
        let judge = Judge {
            catalog: &plan.catalog,
            verify: behaviour.verify,
            deadline_ns: plan.deadline.as_nanos() as u64,
            retries: plan.retries.most,
            retries_end_ns: super::retries::end_ns(place.window.to_ns),
        };
        Ok(Generator {
            plan,
            behaviour,
            workload,
            judge,
            options,
            epoll: Epoll::new(false)?,
            wheel: Wheel::new(monotonic_ns()),
            // A table that grows is copied, and for a moment there twice.
            table: Vec::with_capacity(connections as usize),
            free: VecDeque::new(),
            places_max,
            open: 0,
            input: vec![0; INPUT_BYTES].into(),
            output: Vec::new(),
            sealing: Sealing::new(plan.secure.is_some()),
            tally: Tally {
                series: plan.series.then(|| Series::new(place.start_ns)),
                ..Tally::new(place.window, plan.catalog.classes.len())
            },
            turn: place.index,
            place,
            arrivals,
            next_arrival_ns: None,
            pauses: Pauses::new(plan.think, connections, place.start_ns, seed),
            backoff: BackOff::new(plan.retries, seed),
            backlog: Backlog::new(plan.timeouts.reply),
            is_exhausted: false,
            live,
            published: Published::default(),
            stop,
        })
    }

    /// Generates until everything that was begun has ended.
    pub(super) fn run(&mut self) -> io::Result<Tally> {
        process::wake_on_time();
        let mut busy = Busy::begin(self.place.window);
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        let mut due = Vec::new();
        self.next_arrival();
        loop {
            let now_ns = monotonic_ns();
            self.wheel.expire(now_ns, &mut due);
            for slot in due.drain(..) {
                // Those before it in the same millisecond make it late.
                self.timer(slot, monotonic_ns());
                self.begin_due(STARTS_BETWEEN);
            }
            self.begin_due(STARTS_MAX);
            let is_stopped = self.stop.load(Relaxed);
            busy.look(now_ns);
            self.live.publish(&mut self.published, &self.tally, self.open, now_ns);
            if is_stopped || self.is_over(now_ns) {
                break;
            }
            let wait_ns = self.wait_ns(monotonic_ns());
            self.epoll.wait_ns(&mut events, wait_ns)?;
            for event in &events {
                self.ready(*event);
                self.begin_due(STARTS_BETWEEN);
            }
        }
        self.finish(busy);
        Ok(std::mem::take(&mut self.tally))
    }

    /// What is left when the run is broken off counts as neither reply nor failure, and as not
    /// intended.
    fn finish(&mut self, busy: Busy) {
        let now_ns = monotonic_ns();
        if self.stop.load(Relaxed) || self.is_exhausted {
            // It has the length that it had.
            let end_ns = now_ns.max(self.place.start_ns);
            self.tally.window.to_ns = self.tally.window.to_ns.min(end_ns);
        }
        if self.stop.load(Relaxed) {
            let under_way = |connection: &&Connection| {
                connection.counts && !matches!(connection.phase, Phase::Free | Phase::Pausing)
            };
            let left = self.table.iter().filter(under_way).map(Connection::unanswered);
            self.tally.intended -= left.sum::<u64>();
        }
        // Those that are kept and idle.
        (0..self.table.len() as u32).for_each(|slot| self.disconnect(slot));
        self.tally.backlog_max = self.backlog.most();
        let (cpu_ns, share) = busy.end();
        self.tally.cpu_ns = cpu_ns;
        self.tally.busy_max = share;
        self.tally.clients = vec![self.tally.classes.clone()];
        let series = self.tally.series.take();
        self.tally.intervals = series.map(Series::finish).unwrap_or_default();
        self.live.publish(&mut Published::before(&self.published), &self.tally, 0, u64::MAX);
    }

    fn next_arrival(&mut self) {
        let next = self.arrivals.as_mut().and_then(Iterator::next);
        let next_ns = next.map(|at| self.place.start_ns.saturating_add(at));
        self.next_arrival_ns = next_ns.filter(|at| *at < self.place.window.to_ns);
    }

    /// Begins the sessions that are due, so many at most.
    fn begin_due(&mut self, at_most: usize) {
        for _ in 0..at_most {
            if self.stop.load(Relaxed) {
                break;
            }
            let now_ns = monotonic_ns();
            let due_ns = self.next_arrival_ns.filter(|due_ns| *due_ns <= now_ns);
            if due_ns.is_some() {
                self.next_arrival();
            }
            if let Mode::Kept(..) = self.plan.mode {
                if !self.begin_kept(due_ns, now_ns) {
                    break;
                }
            } else if let Some(due_ns) = due_ns {
                self.arrive(due_ns, now_ns);
            } else if self.may_begin(now_ns) && self.pauses.begin(now_ns) {
                self.arrive(now_ns, now_ns);
            } else {
                break;
            }
        }
    }

    /// A session is due: begins it on a connection of its own.
    fn arrive(&mut self, due_ns: u64, now_ns: u64) {
        let Some(slot) = self.free_slot() else {
            let counts = self.tally.window.holds(due_ns);
            self.tally.error(Kind::NoDescriptor, counts);
            return;
        };
        if self.next_session(slot, due_ns, now_ns) {
            self.connect(slot, now_ns);
        } else {
            self.exhausted(slot);
        }
    }

    /// The workload is at its end, and had no session for this place.
    pub(super) fn exhausted(&mut self, slot: u32) {
        self.next_arrival_ns = None;
        self.arrivals = None;
        self.pauses.end();
        self.backlog.clear();
        self.release(slot);
    }

    /// Takes the next session into a place; false when there is none.
    pub(super) fn next_session(&mut self, slot: u32, due_ns: u64, now_ns: u64) -> bool {
        let connection = &mut self.table[slot as usize];
        connection.steps.clear();
        if !self.workload.next_session(&mut connection.steps) {
            self.is_exhausted = true;
            return false;
        }
        connection.begin_session(due_ns, self.tally.window.holds(due_ns));
        if connection.counts {
            self.tally.sessions += 1;
            self.tally.intended += connection.steps.len() as u64;
            self.tally.late_by(now_ns.saturating_sub(due_ns));
        }
        true
    }

    /// A place for a session; of connections that are kept all are opened first, and then the one
    /// that was idle longest is next. Of others the last one is, which the cache still holds.
    pub(super) fn free_slot(&mut self) -> Option<u32> {
        let has_room = self.table.len() < self.places_max;
        let free = match self.plan.mode {
            Mode::Kept(..) if has_room => None,
            Mode::Kept(..) => self.free.pop_front(),
            _ => self.free.pop_back(),
        };
        if free.is_some() || !has_room {
            return free;
        }
        self.table.push(Connection::new());
        Some((self.table.len() - 1) as u32)
    }

    /// Whether a place is free for a session.
    pub(super) fn is_place_free(&self) -> bool {
        !self.free.is_empty() || self.table.len() < self.places_max
    }

    /// A place is free for another session.
    pub(super) fn release(&mut self, slot: u32) {
        self.wheel.unset(slot);
        self.table[slot as usize].phase = Phase::Free;
        self.free.push_back(slot);
    }

    /// Whether further sessions may begin now.
    pub(super) fn may_begin(&self, now_ns: u64) -> bool {
        now_ns < self.place.window.to_ns && !self.stop.load(Relaxed)
    }

    /// Whether nothing is left to begin, and nothing that was begun is under way.
    fn is_over(&self, now_ns: u64) -> bool {
        let all_begun = match self.plan.mode {
            Mode::Open(_) | Mode::Kept(..) => self.next_arrival_ns.is_none(),
            Mode::Closed(_) => self.pauses.next_ns().is_none() || now_ns >= self.place.window.to_ns,
        };
        all_begun && self.backlog.is_empty() && self.free.len() == self.table.len()
    }

    fn wait_ns(&self, now_ns: u64) -> u64 {
        let begins_ns = self.pauses.next_ns();
        let next = [self.next_arrival_ns, self.wheel.next_ns(), begins_ns, self.backlog_ns()];
        let next_ns = next.into_iter().flatten().min().unwrap_or(u64::MAX);
        next_ns.saturating_sub(now_ns).min(WAIT_MAX_NS)
    }
}
