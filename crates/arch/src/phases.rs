//! The three phases of an event-driven process (S0, section 4.1): getevents, accept, work.
//!
//! `sped`, `symped`, `n-copy`, `shared-symped` and `amped` are this loop; what they differ in is
//! how many processes run it, whose listening sockets they read, what they share, and who does the
//! work that waits on the disk.

mod connection;
mod listeners;
mod order;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use flyball_http::CloseReason;
use flyball_observe::counters::{Counter, Tally};
use flyball_site::{Plan, Service};
use flyball_sys::owned::Owned;
use flyball_sys::readiness::{Event, Interest, Readiness};

use crate::accept::AcceptPolicy;
use crate::desk::Desk;
use crate::drive::Turn;
use crate::event_sources::{self, Source, unwatch_listeners, watch_listeners};
use crate::kernel::{clock, net, readiness};
use crate::limits::{ACCEPT_PAUSE_MS, WAIT_MS_MAX, waiting_sendfile_bytes};
use crate::links::Links;
use crate::settings::AcceptLimit;
use crate::slots::{Slots, Token};
use crate::timers::Timers;
use crate::transmit::{cut_off, take_leave};
use crate::worker::{Order, Report, Worker};

use connection::{Slot, turn, watch};
use listeners::Accepting;
use order::Arranger;

/// The settings that the loop honours, whoever does its disk work and however many there are.
pub const SETTINGS: &[&str] = &[
    "events",
    "accept.limit",
    "governor.mode",
    "governor.target",
    "governor.queue",
    "governor.give-up",
    "turn.accept-time",
    "turn.work-time",
    "accept.eager-read",
    "experiment.accept-extra",
    "experiment.accept-on-close",
    "experiment.accept-every-loop",
    "accept.free-threshold",
    "experiment.modify-listeners",
    "experiment.work-order",
    "experiment.eager-write",
    "experiment.full-read",
    "close.reset",
    "send.mode",
    "send.piece",
    "send.blocking",
    "experiment.cork",
    "experiment.reject-rate",
    "experiment.close-after",
];

/// Who does the work that may wait on the disk.
pub trait DiskWork {
    /// Does it at once and gives the plan back finished, or takes it and gives it back later.
    fn submit(&mut self, token: Token, plan: Box<Plan>) -> Option<Box<Plan>>;

    /// Whether the loop shall send only those pieces of large bodies that are in memory, and
    /// submit the reading of the others.
    fn reads_large_bodies(&self) -> bool {
        false
    }

    /// A descriptor that is readable when finished plans can be collected.
    fn completions(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Makes that descriptor unreadable again, before the finished plans are collected.
    fn acknowledge(&mut self) {}

    /// To be called once per turn of the loop: counts what happened, and ends who is idle.
    fn tend(&mut self, _tally: &mut Tally) {}

    /// A plan that finished since; to be called until it gives `None`.
    fn collect(&mut self) -> Option<(Token, Box<Plan>)> {
        None
    }
}

/// One event-driven process or thread.
pub struct Phases {
    desk: Desk,
    worker: Worker,
    mechanism: Box<dyn Readiness>,
    disk: Box<dyn DiskWork>,
    slots: Slots<Slot>,
    links: Links,
    timers: Timers,
    accepting: Accepting,
    arranger: Arranger,
    events: Vec<Event>,
    /// Connections to work on in this work phase, and those carried over to the next.
    work: Vec<Token>,
    carried: Vec<Token>,
}

impl Phases {
    /// Opens the event mechanism and watches the listening sockets.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn new(worker: Worker, disk: Box<dyn DiskWork>) -> io::Result<Phases> {
        let service = worker.service();
        Phases::with_service(worker, service, disk)
    }

    /// The same with other caches than private ones.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn with_service(
        worker: Worker,
        service: Service,
        disk: Box<dyn DiskWork>,
    ) -> io::Result<Phases> {
        let mut desk = worker.desk_with(service, 0);
        desk.sender.resident_only = disk.reads_large_bodies();
        if worker.settings.send_blocking {
            desk.sender.only_sendfile_waits = true;
            desk.sender.sendfile_bytes_max = waiting_sendfile_bytes(&worker.settings);
        }
        let mechanism = event_sources::open(&worker, disk.completions())?;
        desk.govern(&worker);
        let mut phases = Phases {
            timers: Timers::new(desk.now.ms()),
            accepting: Accepting::new(&worker),
            arranger: Arranger::new(worker.settings.habits().work_order),
            mechanism,
            disk,
            slots: Slots::default(),
            links: Links::default(),
            events: Vec::with_capacity(readiness::EVENTS_MAX),
            work: Vec::new(),
            carried: Vec::new(),
            desk,
            worker,
        };
        watch_listeners(phases.mechanism.as_mut(), &phases.worker)?;
        phases.worker.enter_loop();
        Ok(phases)
    }

    /// The getevents phase: waits, and sorts what is ready into listeners and connections.
    ///
    /// # Errors
    /// When the event mechanism fails.
    pub fn getevents(&mut self) -> io::Result<()> {
        let waits = self.carried.is_empty() && self.accepting.ready.is_empty();
        let most_ms = if self.accepting.paused.is_some() { ACCEPT_PAUSE_MS } else { WAIT_MS_MAX };
        let most_ms = self.desk.wait_ms(most_ms);
        let wait_ms = if waits { self.timers.wait_ms(self.desk.now.ms(), most_ms) } else { 0 };
        self.mechanism.wait(&mut self.events, wait_ms as i32)?;
        self.desk.woke();
        std::mem::swap(&mut self.work, &mut self.carried);
        let (mut signalled, mut completed) = (false, false);
        for event in &self.events {
            match Source::of(event) {
                Source::Signals => signalled = true,
                Source::Completions => completed = true,
                Source::Listener(listener) => {
                    // One whose watch was only changed may still be told once.
                    if self.accepting.paused.is_none() && !self.accepting.ready.contains(&listener)
                    {
                        self.accepting.ready.push(listener);
                    }
                }
                Source::Link => {
                    let token = self.links.event(event, self.mechanism.as_mut());
                    if let Some((token, slot)) =
                        token.and_then(|token| Some((token, self.slots.find(token)?)))
                    {
                        slot.enqueue(token, &mut self.work);
                    }
                }
                Source::Connection(token) => {
                    if let Some(slot) = self.slots.find(token) {
                        slot.ready.read |= event.read;
                        slot.ready.write |= event.write;
                        slot.ready.hangup |= event.hangup;
                        slot.enqueue(token, &mut self.work);
                    }
                }
            }
        }
        if signalled {
            self.take_orders();
        }
        if completed {
            self.disk.acknowledge();
            self.collect();
        }
        Ok(())
    }

    /// The work phase: every connection that was reported goes as far as it can without waiting.
    /// Then the turn of the loop is over.
    pub fn work(&mut self) {
        let start_ns = self.desk.turn_ns();
        let mut work = std::mem::take(&mut self.work);
        self.arranger.arrange(&mut work, &mut self.slots);
        if !work.is_empty() {
            self.desk.tally.add(Counter::WorkPhases, 1);
        }
        let (worked_on, accept_ns) = self.work_on(&work, start_ns);
        self.desk.tally.add(Counter::WorkedOn, worked_on as u64);
        self.desk.worked_on(worked_on);
        self.expire();
        // In the next phase those come first who had no turn in this one; and last those that were
        // accepted meanwhile, which bounds this one.
        work.drain(..worked_on);
        self.arranger.leaves(work.len());
        work.append(&mut self.carried);
        work.append(&mut self.work);
        std::mem::swap(&mut self.carried, &mut work);
        self.work = work;
        self.housekeeping();
        self.desk.look_at_queue(&self.worker, self.accepting.paused.is_some());
        self.desk.turned();
        self.desk.bound_queue(&self.worker);
        self.desk.worked((self.desk.turn_ns() - start_ns).saturating_sub(accept_ns), worked_on > 0);
    }

    /// Works on these connections, from then on, until the phase's time is over: on how many, and
    /// how long of it was spent accepting, in nanoseconds.
    fn work_on(&mut self, work: &[Token], start_ns: u64) -> (usize, u64) {
        let orders = self.desk.orders();
        let until_ns = orders.work_for.map(|ns| start_ns.saturating_add(ns));
        let unread = orders.unread() as usize;
        let extra = self.worker.settings.habits().accept_extra;
        let mut accept_ns = 0;
        for (turns, &token) in (1_usize..).zip(work) {
            self.turn(token);
            if (turns as u64).is_multiple_of(extra) {
                accept_ns += self.accept_unasked(clock::monotonic_ns());
            }
            let is_over =
                until_ns.is_some_and(|until| turns % unread == 0 && clock::monotonic_ns() >= until);
            if is_over && turns < work.len() {
                self.desk.tally.add(Counter::WorkTimeOver, 1);
                return (turns, accept_ns);
            }
        }
        (work.len(), accept_ns)
    }

    /// True once the worker was told to stop and every connection is closed, or time is up.
    pub fn is_done(&self) -> bool {
        self.desk.is_draining() && self.slots.is_empty()
            || self.desk.is_over_by(self.desk.asked_ms())
    }

    /// True once the worker was told to stop or to retire: it accepts no more.
    pub fn is_draining(&self) -> bool {
        self.desk.is_draining()
    }

    /// What the worker says when it is done.
    pub fn report(mut self) -> Report {
        for slot in self.slots.values_mut() {
            cut_off(&slot.socket, &mut slot.connection, self.desk.log());
        }
        self.desk.publish();
        self.desk.publish_states(std::iter::empty());
        Report { unfinished: self.slots.len() }
    }

    /// One connection's turn.
    fn turn(&mut self, token: Token) {
        let Some(slot) = self.slots.find(token) else { return };
        slot.queued = false;
        self.arranger.worked_on(slot);
        let turn = turn(slot, &mut self.links, token, None, &mut self.desk, &mut *self.disk);
        self.end_turn(token, turn);
    }

    fn end_turn(&mut self, token: Token, turn: Turn) {
        let Some(slot) = self.slots.find(token) else { return };
        let awaited = if let Turn::Wait(_, awaited) = &turn { awaited.as_ref() } else { None };
        self.links.end_turn(&mut slot.link, token, awaited, self.mechanism.as_mut());
        match turn {
            Turn::Over(reason) => self.close(token, reason),
            Turn::Again | Turn::Elsewhere => slot.enqueue(token, &mut self.carried),
            Turn::Wait(interest, _) => {
                slot.connection.rest(&mut self.desk);
                self.timers.set(token.index(), slot.connection.deadline());
                watch(self.mechanism.as_mut(), &mut self.slots, token, interest);
            }
        }
    }

    fn close(&mut self, token: Token, reason: CloseReason) {
        let Some(mut slot) = self.slots.remove(token) else { return };
        self.timers.clear(token.index());
        if slot.watched != Interest::NONE {
            self.mechanism.forget(slot.socket.as_fd());
        }
        self.links.abandon(slot.link, token, self.mechanism.as_mut());
        take_leave(&slot.socket, &mut slot.connection);
        slot.connection.end(&mut self.desk, reason, || net::untaken(&slot.socket));
        if self.worker.settings.close_reset && ends_unheard(reason, &slot.socket) {
            // It fails only when the connection has gone.
            let _ = net::reset_on_close(&slot.socket);
        }
        drop(slot.socket);
        if self.accepting.paused.is_some() {
            self.resume_when_free();
        }
        if self.worker.settings.habits().accept_on_close {
            self.accept_one();
        }
    }

    /// Gives finished disk work to those who wait for it.
    fn collect(&mut self) {
        while let Some((token, plan)) = self.disk.collect() {
            match self.slots.find(token) {
                Some(slot) => {
                    let Phases { links, desk, disk, .. } = self;
                    let turn = turn(slot, links, token, Some(plan), desk, &mut **disk);
                    self.end_turn(token, turn);
                }
                // Its connection is gone.
                None => self.desk.learn(*plan),
            }
        }
    }

    /// Gives connections whose deadline had passed when events were asked for a turn.
    fn expire(&mut self) {
        while let Some(index) = self.timers.pop(self.desk.asked_ms()) {
            let Some(token) = self.slots.token_at(index) else { continue };
            // One that is carried over has its turn in the next phase.
            if self.slots.find(token).is_some_and(|slot| !slot.queued) {
                self.turn(token);
            }
        }
    }

    fn take_orders(&mut self) {
        while let Some(order) = self.worker.order() {
            self.begin_draining(order);
        }
    }

    /// Stops accepting, and closes every connection as soon as its answer is sent. When the server
    /// stops, what is already queued is taken in first.
    fn begin_draining(&mut self, order: Order) {
        if !self.desk.is_draining() {
            if order == Order::Stop {
                self.accepting.ready = (0..self.worker.listeners.len()).collect();
                self.accepting.policy = AcceptPolicy::new(AcceptLimit::Infinite);
                self.accept_ready(clock::monotonic_ns());
            }
            self.links.close(self.mechanism.as_mut());
            unwatch_listeners(self.mechanism.as_mut(), &self.worker);
            self.desk.leave_queue(&self.worker);
            self.worker.leave_listeners(order);
            self.desk.begin_draining();
        }
        // A request that has arrived is under way, although nobody has read it yet.
        self.arranger.leaves(0);
        for token in std::mem::take(&mut self.work) {
            self.turn(token);
        }
        for token in self.slots.tokens() {
            if let Some(slot) = self.slots.find(token) {
                slot.connection.drain(order);
                slot.enqueue(token, &mut self.work);
            }
        }
    }

    fn housekeeping(&mut self) {
        let now_ms = self.desk.now.ms();
        self.disk.tend(&mut self.desk.tally);
        self.desk.publish();
        self.desk.service.rest();
        if self.desk.states_are_due() {
            self.desk.publish_states(self.slots.values().map(|slot| slot.connection.standing()));
        }
        if self.accepting.paused.as_ref().is_some_and(|pause| now_ms >= pause.until_ms) {
            self.pause_is_over();
        }
    }
}

/// Whether a connection that ends for this reason may be reset (M56): nobody is served by it, and
/// the client has everything that was sent.
fn ends_unheard(reason: CloseReason, socket: &Owned) -> bool {
    use CloseReason as Reason;
    let unheard = matches!(
        reason,
        Reason::IdleTimeout | Reason::HeadTimeout | Reason::Refused | Reason::MadeRoom
    );
    unheard && net::unacknowledged(socket) == 0
}
