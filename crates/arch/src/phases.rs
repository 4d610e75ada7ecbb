//! The three phases of an event-driven process (S0, section 4.1): getevents, accept, work.
//!
//! `sped`, `symped`, `n-copy` and `amped` are this loop; what they differ in is how many processes
//! run it, whose listening sockets they read, and who does the work that waits on the disk.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use flyball_http::CloseReason;
use flyball_site::{Plan, Service};
use flyball_sys::readiness::{self, Event, Interest, Readiness};
use flyball_sys::{clock, net};

use crate::accept::{AcceptPolicy, Ended};
use crate::counters::{Counter, Tally};
use crate::desk::Desk;
use crate::exchange::{Exchange, Step};
use crate::settings::Events;
use crate::slots::{FIRST_RESERVED, Slots, Token};
use crate::timers::Timers;
use crate::transmit::{Sent, transmit};
use crate::worker::{Order, Report, Worker};

/// Longest wait for events, in milliseconds: how late counters are published when nothing happens.
const WAIT_MS_MAX: u64 = 500;

/// Reads of one connection in one work phase; then others have their turn.
const READS_PER_TURN: u32 = 4;

/// How long accepting stops after descriptors ran out, in milliseconds, if none is freed before.
const DESCRIPTOR_PAUSE_MS: u64 = 250;

/// The token of the worker's signals.
const SIGNALS: u64 = FIRST_RESERVED;

/// The token of whatever completes disk work.
const COMPLETIONS: u64 = FIRST_RESERVED + 1;

/// The token of the first listening socket; the others follow.
const LISTENERS: u64 = FIRST_RESERVED + 16;

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

    /// Sockets are about to be accepted. Whoever shares its table of descriptors with other
    /// processes says so first, then which they are, and then that it was all.
    fn begin_accepting(&self) {}

    /// This descriptor was opened.
    fn own(&self, _descriptor: BorrowedFd<'_>) {}

    /// All that was accepted is owned.
    fn end_accepting(&self) {}

    /// Closes a connection's socket.
    fn close(&self, socket: OwnedFd) {
        drop(socket);
    }

    /// A plan that finished since; to be called until it gives `None`.
    fn collect(&mut self) -> Option<(Token, Box<Plan>)> {
        None
    }
}

/// Disk work in the event loop itself: every connection of the loop waits for it.
#[derive(Debug)]
pub struct Inline;

impl DiskWork for Inline {
    fn submit(&mut self, _token: Token, mut plan: Box<Plan>) -> Option<Box<Plan>> {
        plan.run();
        Some(plan)
    }
}

/// A connection in its slot.
#[derive(Debug)]
struct Slot {
    socket: OwnedFd,
    exchange: Exchange,
    watched: Interest,
    ready: Interest,
    hangup: bool,
    /// Its turn is due: it stands in the list of this work phase or in that of the next, once.
    queued: bool,
}

impl Slot {
    /// Puts it into a list of turns unless its turn is due already: whoever is carried over and
    /// reported ready as well has one turn, like everybody else.
    fn enqueue(&mut self, token: Token, list: &mut Vec<Token>) {
        if !std::mem::replace(&mut self.queued, true) {
            list.push(token);
        }
    }
}

/// What a connection waits for when its turn ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// These events.
    Wait(Interest),
    /// Its next turn: it could go on.
    Again,
    /// It is over.
    Over(CloseReason),
}

/// One event-driven process or thread.
pub struct Phases<D> {
    desk: Desk,
    worker: Worker,
    mechanism: Box<dyn Readiness>,
    disk: D,
    slots: Slots<Slot>,
    timers: Timers,
    accept: AcceptPolicy,
    connections_max: usize,
    events: Vec<Event>,
    /// Connections to work on in this work phase, and those carried over to the next.
    work: Vec<Token>,
    carried: Vec<Token>,
    /// Listening sockets that were reported ready.
    ready_listeners: Vec<usize>,
    /// Accepting is paused until then, or until a connection closes.
    paused_until_ms: Option<u64>,
    warned: bool,
    draining_until_ms: Option<u64>,
}

impl<D: DiskWork> Phases<D> {
    /// Opens the event mechanism and watches the listening sockets.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn new(worker: Worker, disk: D) -> io::Result<Phases<D>> {
        let service = worker.service();
        Phases::with_service(worker, service, disk)
    }

    /// The same with other caches than private ones.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn with_service(worker: Worker, service: Service, disk: D) -> io::Result<Phases<D>> {
        let mut desk = worker.desk_with(service, 0);
        desk.resident_only = disk.reads_large_bodies();
        let name = match worker.settings.events {
            Events::Select => "select",
            Events::Poll => "poll",
            Events::Epoll => "epoll",
            Events::EpollEdge => "epoll-edge",
        };
        let mut mechanism = readiness::open(name)?;
        if let Some(descriptor) = mechanism.descriptor() {
            disk.own(descriptor);
        }
        mechanism.add(worker.signals.as_fd(), SIGNALS, Interest::READ)?;
        if let Some(completions) = disk.completions() {
            mechanism.add(completions, COMPLETIONS, Interest::READ)?;
        }
        let mut phases = Phases {
            timers: Timers::new(desk.now.ms()),
            accept: AcceptPolicy::shared(&worker.blocks),
            connections_max: worker.connections_max,
            mechanism,
            disk,
            slots: Slots::default(),
            events: Vec::with_capacity(readiness::EVENTS_MAX),
            work: Vec::new(),
            carried: Vec::new(),
            ready_listeners: Vec::new(),
            paused_until_ms: None,
            warned: false,
            draining_until_ms: None,
            desk,
            worker,
        };
        phases.watch_listeners()?;
        Ok(phases)
    }

    /// The getevents phase: waits, and sorts what is ready into listeners and connections.
    ///
    /// # Errors
    /// When the event mechanism fails.
    pub fn getevents(&mut self) -> io::Result<()> {
        let waits = self.carried.is_empty() && self.ready_listeners.is_empty();
        let wait_ms = match (waits, self.paused_until_ms) {
            (false, _) => 0,
            (true, paused) => {
                let most = paused.map_or(WAIT_MS_MAX, |_| DESCRIPTOR_PAUSE_MS);
                self.timers.wait_ms(self.desk.now.ms(), most)
            }
        };
        let start_ns = clock::monotonic_ns();
        self.mechanism.wait(&mut self.events, wait_ms as i32)?;
        self.desk.tally.add(Counter::GetEvents, 1);
        self.desk.tally.add(Counter::GetEventsNs, clock::monotonic_ns() - start_ns);
        self.desk.tick();
        std::mem::swap(&mut self.work, &mut self.carried);
        let (mut signalled, mut completed) = (false, false);
        for event in &self.events {
            match event.token {
                SIGNALS => signalled = true,
                COMPLETIONS => completed = true,
                token if token >= LISTENERS => {
                    let listener = (token - LISTENERS) as usize;
                    if !self.ready_listeners.contains(&listener) {
                        self.ready_listeners.push(listener);
                    }
                }
                bits => {
                    let token = Token::from_bits(bits);
                    if let Some(slot) = self.slots.find(token) {
                        slot.ready.read |= event.read;
                        slot.ready.write |= event.write;
                        slot.hangup |= event.hangup;
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

    /// The accept phase: entered only when a listening socket was reported ready (M3).
    pub fn accept(&mut self) {
        if self.ready_listeners.is_empty() || self.draining_until_ms.is_some() {
            self.ready_listeners.clear();
            return;
        }
        let start_ns = clock::monotonic_ns();
        let mut stopped = None;
        let mut ready = std::mem::take(&mut self.ready_listeners);
        ready.retain(|&listener| {
            let ended = self.accept_from(listener);
            if matches!(ended, Ended::Full | Ended::OutOfDescriptors | Ended::Closed) {
                stopped = Some(ended);
            }
            // An edge is reported once: what the limit left in the queue is remembered here.
            ended == Ended::Limit && self.mechanism.is_edge_triggered()
        });
        self.ready_listeners = ready;
        if let Some(ended) = stopped {
            // They are reported anew when accepting goes on.
            self.ready_listeners.clear();
            self.pause_accepting(ended);
        }
        self.desk.tally.add(Counter::AcceptNs, clock::monotonic_ns() - start_ns);
    }

    /// Accepts from one listening socket, as many as the limit allows.
    fn accept_from(&mut self, listener: usize) -> Ended {
        let room = self.connections_max.saturating_sub(self.slots.len());
        let eager = self.worker.settings.eager_read;
        let Phases { accept, worker, desk, slots, work, mechanism, timers, disk, .. } = self;
        let Some(socket) = worker.listeners.get(listener) else { return Ended::Drained };
        let mut tally = std::mem::take(&mut desk.tally);
        disk.begin_accepting();
        let ended = accept.phase(socket, room, &mut tally, |socket, peer| {
            disk.own(socket.as_fd());
            let token = open_slot(socket, peer, desk, slots, timers);
            if eager {
                // Eager read (S0's option): worked on at once, as if reported readable.
                if let Some(slot) = slots.find(token) {
                    slot.ready = Interest::BOTH;
                    slot.enqueue(token, work);
                }
            } else {
                watch(mechanism.as_mut(), slots, token, Interest::READ);
            }
        });
        disk.end_accepting();
        desk.tally = tally;
        ended
    }

    /// The work phase: every connection that was reported goes as far as it can without waiting.
    pub fn work(&mut self) {
        let start_ns = clock::monotonic_ns();
        let work = std::mem::take(&mut self.work);
        if !work.is_empty() {
            self.desk.tally.add(Counter::WorkPhases, 1);
            self.desk.tally.add(Counter::WorkedOn, work.len() as u64);
        }
        for &token in &work {
            self.turn(token);
        }
        self.work = work;
        self.work.clear();
        self.expire();
        self.desk.tally.add(Counter::WorkNs, clock::monotonic_ns() - start_ns);
        self.housekeeping();
    }

    /// True once the worker was told to stop and every connection is closed, or time is up.
    pub fn is_done(&self) -> bool {
        self.draining_until_ms
            .is_some_and(|until| self.slots.is_empty() || self.desk.now.ms() >= until)
    }

    /// True once the worker was told to stop or to retire: it accepts no more.
    pub fn is_draining(&self) -> bool {
        self.draining_until_ms.is_some()
    }

    /// What the worker says when it is done.
    pub fn report(mut self) -> Report {
        self.desk.publish();
        self.desk.publish_states(std::iter::empty());
        Report { unfinished: self.slots.len() }
    }

    /// One connection's turn.
    fn turn(&mut self, token: Token) {
        let Some(slot) = self.slots.find(token) else { return };
        slot.queued = false;
        let turn = drive(slot, token, &mut self.desk, &mut self.disk);
        self.end_turn(token, turn);
    }

    fn end_turn(&mut self, token: Token, turn: Turn) {
        let Some(slot) = self.slots.find(token) else { return };
        match turn {
            Turn::Over(reason) => self.close(token, reason),
            Turn::Again => slot.enqueue(token, &mut self.carried),
            Turn::Wait(interest) => {
                slot.exchange.rest(&mut self.desk);
                self.timers.set(token.index(), slot.exchange.deadline());
                watch(self.mechanism.as_mut(), &mut self.slots, token, interest);
            }
        }
    }

    fn close(&mut self, token: Token, reason: CloseReason) {
        let Some(slot) = self.slots.remove(token) else { return };
        self.timers.clear(token.index());
        if slot.watched != Interest::NONE {
            self.mechanism.forget(slot.socket.as_fd());
        }
        slot.exchange.end(&mut self.desk, reason);
        self.disk.close(slot.socket);
        if self.paused_until_ms.is_some() {
            self.resume_accepting();
        }
    }

    /// Gives finished disk work to those who wait for it.
    fn collect(&mut self) {
        while let Some((token, plan)) = self.disk.collect() {
            match self.slots.find(token) {
                Some(slot) => {
                    let turn = match slot.exchange.resume(*plan, &mut self.desk) {
                        Some(next) => match self.disk.submit(token, next) {
                            // Done at once: as if it had been collected.
                            Some(done) => {
                                finish(slot, *done, token, &mut self.desk, &mut self.disk)
                            }
                            None => Turn::Wait(Interest::NONE),
                        },
                        None => drive(slot, token, &mut self.desk, &mut self.disk),
                    };
                    self.end_turn(token, turn);
                }
                // Nobody waits any more; the caches still learn from it.
                None => {
                    let now = self.desk.now.clone();
                    if plan.request().is_some() {
                        self.desk.service.resume(*plan, &now);
                    }
                }
            }
        }
    }

    /// Tells connections whose deadline has passed.
    fn expire(&mut self) {
        let now_ms = self.desk.now.ms();
        while let Some(index) = self.timers.pop(now_ms) {
            let Some(token) = self.slots.token_at(index) else { continue };
            let Some(slot) = self.slots.find(token) else { continue };
            let socket = &slot.socket;
            slot.exchange.expired(|| net::unacknowledged(socket), &mut self.desk);
            slot.ready.write = true;
            if !slot.queued {
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
        if self.draining_until_ms.is_none() {
            if order == Order::Stop {
                self.ready_listeners = (0..self.worker.listeners.len()).collect();
                self.accept = AcceptPolicy::new(crate::settings::AcceptLimit::Infinite);
                self.accept();
            }
            self.unwatch_listeners();
            self.worker.leave_listeners(order);
            self.draining_until_ms = Some(self.desk.now.ms() + self.worker.settings.drain_ms);
        }
        // A request that has arrived is under way, although nobody has read it yet.
        for token in std::mem::take(&mut self.work) {
            self.turn(token);
        }
        for token in self.slots.tokens() {
            if let Some(slot) = self.slots.find(token) {
                slot.exchange.drain(order, &self.desk);
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
            self.desk.publish_states(self.slots.values().map(|slot| slot.exchange.state()));
        }
        if self.paused_until_ms.is_some_and(|until| now_ms >= until) {
            self.resume_accepting();
        }
    }

    fn watch_listeners(&mut self) -> io::Result<()> {
        for (at, listener) in self.worker.listeners.iter().enumerate() {
            let token = LISTENERS + at as u64;
            if self.worker.shares_listeners && self.worker.settings.exclusive {
                self.mechanism.add_shared(listener.as_fd(), token)?;
            } else {
                self.mechanism.add(listener.as_fd(), token, Interest::READ)?;
            }
        }
        Ok(())
    }

    fn unwatch_listeners(&mut self) {
        for listener in &self.worker.listeners {
            self.mechanism.remove(listener.as_fd());
        }
    }

    /// Leaves new connections in the accept queue until there is room.
    fn pause_accepting(&mut self, ended: Ended) {
        if self.paused_until_ms.is_none() {
            self.unwatch_listeners();
        }
        self.paused_until_ms = Some(self.desk.now.ms() + DESCRIPTOR_PAUSE_MS);
        // Another worker closed the queue and is about to end: the master opens it again, or ends
        // this one too.
        if ended != Ended::Closed && !std::mem::replace(&mut self.warned, true) {
            let why = match ended {
                Ended::OutOfDescriptors => "descriptors are out",
                _ => "as many connections as allowed are open",
            };
            let open = self.slots.len();
            self.worker.say(&format!("accepting is paused: {why} ({open} connections open)"));
        }
    }

    fn resume_accepting(&mut self) {
        self.paused_until_ms = None;
        if self.draining_until_ms.is_none() {
            // Re-adding can fail only for want of memory: the pause then starts over.
            if self.watch_listeners().is_err() {
                self.unwatch_listeners();
                self.paused_until_ms = Some(self.desk.now.ms() + DESCRIPTOR_PAUSE_MS);
            }
        }
    }
}

fn open_slot(
    socket: OwnedFd,
    peer: SocketAddr,
    desk: &mut Desk,
    slots: &mut Slots<Slot>,
    timers: &mut Timers,
) -> Token {
    let exchange = Exchange::new(peer, desk);
    let deadline = exchange.deadline();
    let token = slots.insert(Slot {
        socket,
        exchange,
        watched: Interest::NONE,
        ready: Interest::NONE,
        hangup: false,
        queued: false,
    });
    timers.set(token.index(), deadline);
    token
}

/// Tells the event mechanism what a connection waits for, if it does not know.
fn watch(mechanism: &mut dyn Readiness, slots: &mut Slots<Slot>, token: Token, interest: Interest) {
    let Some(slot) = slots.find(token) else { return };
    if slot.watched == interest {
        return;
    }
    let fd = slot.socket.as_fd();
    let watched = match (slot.watched, interest) {
        (Interest::NONE, _) => mechanism.add(fd, slot_bits(token), interest),
        // Registered once for everything.
        _ if mechanism.is_edge_triggered() => return,
        // Work is under way: an event now would be told again and again. It is rare that input
        // comes, so an interest in that is left in place until then; room in the socket does come.
        (Interest::READ, Interest::NONE) if !slot.ready.read && !slot.hangup => return,
        (_, Interest::NONE) => {
            mechanism.remove(fd);
            Ok(())
        }
        _ => mechanism.change(fd, slot_bits(token), interest),
    };
    match watched {
        Ok(()) => slot.watched = interest,
        // Without events the connection's timer is what ends it.
        Err(_) => slot.watched = Interest::NONE,
    }
}

fn slot_bits(token: Token) -> u64 {
    token.bits()
}

/// Drives a connection until it has to wait. This is the whole of what an event loop does with one.
fn drive<D: DiskWork>(slot: &mut Slot, token: Token, desk: &mut Desk, disk: &mut D) -> Turn {
    let mut reads = 0;
    loop {
        match slot.exchange.advance(desk) {
            Step::Read if !slot.ready.read => return Turn::Wait(Interest::READ),
            Step::Read => {
                reads += 1;
                if reads > READS_PER_TURN {
                    return Turn::Again;
                }
                receive(slot, desk);
            }
            Step::Write => match send(slot, token, desk, disk) {
                Some(turn) => return turn,
                None => continue,
            },
            Step::ReadWrite => {
                if slot.ready.read && reads < READS_PER_TURN {
                    reads += 1;
                    receive(slot, desk);
                } else if slot.ready.read {
                    return Turn::Again;
                }
                match send(slot, token, desk, disk) {
                    Some(Turn::Wait(Interest::WRITE)) if !slot.ready.read => {
                        return Turn::Wait(Interest::BOTH);
                    }
                    Some(Turn::Again) => return Turn::Again,
                    _ => continue,
                }
            }
            Step::Disk(plan) => {
                desk.tally.add(Counter::DiskWaits, 1);
                match disk.submit(token, plan) {
                    Some(done) => {
                        if let Some(turn) = resume(slot, *done, token, desk, disk) {
                            return turn;
                        }
                    }
                    None => return Turn::Wait(Interest::NONE),
                }
            }
            Step::Waiting => return Turn::Wait(Interest::NONE),
            Step::Shut => {
                // It fails only when the peer has gone, which reading will show.
                let _ = net::shutdown_write(&slot.socket);
                slot.ready.read = true;
                slot.exchange.shut(desk);
            }
            Step::Close(reason) => return Turn::Over(reason),
        }
    }
}

/// Goes on after disk work that is done; `Some` when the next work is under way.
fn resume<D: DiskWork>(
    slot: &mut Slot,
    plan: Plan,
    token: Token,
    desk: &mut Desk,
    disk: &mut D,
) -> Option<Turn> {
    let mut done = Box::new(plan);
    while let Some(next) = slot.exchange.resume(*done, desk) {
        done = match disk.submit(token, next) {
            Some(done) => done,
            None => return Some(Turn::Wait(Interest::NONE)),
        };
    }
    None
}

fn finish<D: DiskWork>(
    slot: &mut Slot,
    plan: Plan,
    token: Token,
    desk: &mut Desk,
    disk: &mut D,
) -> Turn {
    match resume(slot, plan, token, desk, disk) {
        Some(turn) => turn,
        None => drive(slot, token, desk, disk),
    }
}

/// Reads once. A read that does not fill the buffer has emptied the socket, so that the next one
/// waits for an event; after a hang-up there is still the end of the stream to be read.
fn receive(slot: &mut Slot, desk: &mut Desk) {
    let space = slot.exchange.buffers(desk).input.space();
    let room = space.len();
    match net::recv(&slot.socket, space) {
        Ok(0) => slot.exchange.eof(desk),
        Ok(n) => {
            slot.ready.read = n == room || slot.hangup;
            slot.exchange.received(n, desk);
        }
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock => slot.ready.read = false,
            io::ErrorKind::Interrupted => {}
            _ => slot.exchange.abort(CloseReason::ClientGone),
        },
    }
}

/// Writes; `None` when the connection goes on at once.
fn send<D: DiskWork>(slot: &mut Slot, token: Token, desk: &mut Desk, disk: &mut D) -> Option<Turn> {
    match transmit(&slot.socket, &mut slot.exchange, desk) {
        Sent::All => None,
        Sent::Full => Some(Turn::Wait(Interest::WRITE)),
        Sent::Piece => Some(Turn::Again),
        Sent::Absent => {
            desk.tally.add(Counter::DiskWaits, 1);
            let done = disk.submit(token, slot.exchange.warm(desk)?);
            match done {
                Some(done) => resume(slot, *done, token, desk, disk),
                None => Some(Turn::Wait(Interest::NONE)),
            }
        }
        Sent::Failed(reason) => {
            slot.exchange.abort(reason);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Blocks;
    use crate::log::{AccessLogWriter, LogFile};
    use crate::settings::{AccessLog, Settings};
    use flyball_site::Sites;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    fn desk() -> Desk {
        let settings = Arc::new(Settings::default());
        let sites = Arc::new(Sites::open(&[]).unwrap());
        let blocks = Arc::new(Blocks::new(1).unwrap());
        let log = AccessLogWriter::new(&LogFile::open(&AccessLog::Off).unwrap());
        let service = Service::new(sites, settings.caches.clone());
        Desk::new(service, &settings, &blocks, 0, log)
    }

    #[test]
    fn room_in_the_socket_wakes_no_loop_that_waits_for_the_disk() {
        for name in ["select", "poll", "epoll"] {
            let (mut desk, mut slots, mut timers) = (desk(), Slots::default(), Timers::new(0));
            let (socket, _client) = UnixStream::pair().unwrap();
            let peer = SocketAddr::from(([127, 0, 0, 1], 1));
            let token = open_slot(socket.into(), peer, &mut desk, &mut slots, &mut timers);
            let mut mechanism = readiness::open(name).unwrap();
            let mut events = Vec::new();
            for interest in [Interest::WRITE, Interest::BOTH] {
                watch(mechanism.as_mut(), &mut slots, token, interest);
                mechanism.wait(&mut events, 0).unwrap();
                assert_eq!(events.len(), 1, "{name}: {interest:?}");
                watch(mechanism.as_mut(), &mut slots, token, Interest::NONE);
                mechanism.wait(&mut events, 0).unwrap();
                assert_eq!(events, [], "{name}: {interest:?}");
            }
        }
    }
}
