//! `uring`: completions instead of readiness.
//!
//! **Paper**: J. Hu, S. Mungee, D. Schmidt: Techniques for Developing and Measuring
//! High-Performance Web Servers over ATM Networks, INFOCOM 1998 (asynchronous I/O, section 3.1; the
//! Proactor).
//!
//! **Idea**: The server never asks whether it may read: it starts the operation and is told when it
//! is complete. One thread starts operations on a ring and acts on their completions; disk work is
//! an operation like any other.
//!
//! **Differs from the paper**:
//! * The ring is Linux's io_uring; the paper uses the overlapped I/O of another system.
//! * Output is copied into a buffer that the ring owns while it is sent.
//! * Listing a directory, waiting for a write to settle and adding up a checksum have no ring
//!   operation: they are done in place.
//!
//! **Reads with**: section 3.1, "asynchronous I/O strategy": [`Loop::complete`].
//!
//! **Settings**: `uring.entries`, `workers`, `pin`, `accept.limit`, `send.piece`.
//!
//! **Kernel needs**: io_uring with multishot accept (Linux 5.19).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use flyball_http::CloseReason;
use flyball_sys::net;
use flyball_sys::uring::{Completion, Ring};

use crate::counters::Counter;
use crate::desk::Desk;
use crate::exchange::Step;
use crate::operations::{Operations, Purpose, Slot, Starved, take_received};
use crate::registry::{Architecture, Sockets};
use crate::settings::AcceptLimit;
use crate::slots::{FIRST_RESERVED, Slots, Token};
use crate::timers::Timers;
use crate::worker::{Order, Report, Worker};

/// Completion-based.
#[derive(Debug)]
pub struct Uring;

impl Architecture for Uring {
    fn name(&self) -> &'static str {
        "uring"
    }

    fn about(&self) -> &'static str {
        "completions from a ring; the disk is one more operation"
    }

    fn paper(&self) -> &'static str {
        "Hu et al., INFOCOM 1998"
    }

    fn settings(&self) -> &'static [&'static str] {
        &["uring.entries", "workers", "pin", "accept.limit", "send.piece"]
    }

    fn needs(&self) -> &'static str {
        "io_uring with multishot accept (Linux 5.19)"
    }

    fn probe(&self) -> Result<(), String> {
        Ring::probe().map_err(|error| format!("io_uring: {error}"))
    }

    fn sockets(&self) -> Sockets {
        Sockets::PerWorker
    }

    /// A ring gives up on a non-blocking socket where it would wait on a blocking one.
    fn listener_blocks(&self) -> bool {
        true
    }

    fn run(&self, worker: Worker) -> io::Result<Report> {
        let mut proactor = Loop::new(worker)?;
        while !proactor.is_done() {
            proactor.complete()?;
        }
        Ok(proactor.report())
    }
}

/// The token of the worker's signals.
const SIGNALS: u64 = FIRST_RESERVED;

/// The token of the first listening socket; the others follow.
const LISTENERS: u64 = FIRST_RESERVED + 16;

/// Longest wait for completions, in milliseconds.
const WAIT_MS_MAX: u64 = 500;

/// Single accepts kept submitted when the accept-limit is finite, at most.
const ACCEPTS_MAX: u64 = 64;

struct Loop {
    desk: Desk,
    worker: Worker,
    operations: Operations,
    slots: Slots<Slot>,
    timers: Timers,
    completions: Vec<(u64, Completion)>,
    told: Option<Order>,
    draining_until_ms: Option<u64>,
    starved: Starved,
    /// Single accepts that are under way.
    accepting: usize,
}

impl Loop {
    fn new(worker: Worker) -> io::Result<Loop> {
        let desk = worker.desk();
        let mut proactor = Loop {
            timers: Timers::new(desk.now.ms()),
            operations: Operations::new(worker.settings.ring_entries)?,
            slots: Slots::default(),
            completions: Vec::new(),
            told: None,
            draining_until_ms: None,
            starved: Starved::default(),
            accepting: 0,
            desk,
            worker,
        };
        proactor.operations.ring.watch(proactor.worker.signals.as_fd(), SIGNALS)?;
        proactor.submit_accepts()?;
        Ok(proactor)
    }

    /// At accept-limit inf one accept completes again and again; else that many are submitted, and
    /// each is submitted anew when it completes.
    fn submit_accepts(&mut self) -> io::Result<()> {
        let count = match self.worker.settings.accept_limit {
            AcceptLimit::Infinite => 1,
            AcceptLimit::At(limit) => (limit.ceil() as u64).clamp(1, ACCEPTS_MAX),
        };
        for at in 0..self.worker.listeners.len() as u64 {
            for _ in 0..count {
                self.submit_accept(LISTENERS + at)?;
            }
        }
        Ok(())
    }

    /// One accept that completes again and again cannot be held to a number of connections.
    fn accepts_by_itself(&self) -> bool {
        let settings = &self.worker.settings;
        settings.accept_limit == AcceptLimit::Infinite && settings.max_connections.is_none()
    }

    fn submit_accept(&mut self, token: u64) -> io::Result<()> {
        if self.draining_until_ms.is_some() {
            return Ok(());
        }
        let multishot = self.accepts_by_itself();
        if !multishot {
            let (open, most) = (self.slots.len(), self.worker.connections_max);
            if open + self.accepting >= most {
                if self.starved.keep(token, self.desk.now.ms(), open >= most) {
                    self.worker.say("accepting is paused: as many connections as allowed are open");
                }
                return Ok(());
            }
            self.accepting += 1;
        }
        let listener = &self.worker.listeners[(token - LISTENERS) as usize];
        self.operations.ring.accept(listener, token, multishot)
    }

    /// Submits what was started, waits for completions, and acts on each.
    fn complete(&mut self) -> io::Result<()> {
        let most_ms = if self.told.is_some() { 0 } else { WAIT_MS_MAX };
        let wait_ms = self.timers.wait_ms(self.desk.now.ms(), most_ms);
        let mut completions = std::mem::take(&mut self.completions);
        self.operations.ring.wait(&mut completions, wait_ms)?;
        self.desk.tally.add(Counter::GetEvents, 1);
        self.desk.tick();
        let mut signalled = false;
        for (token, completion) in completions.drain(..) {
            match completion {
                Completion::Accepted(..) if self.draining_until_ms.is_some() => {}
                Completion::Accepted(accepted, more) => self.accepted(token, accepted, more)?,
                Completion::Readable(more) => {
                    signalled = true;
                    if !more {
                        self.operations.ring.watch(self.worker.signals.as_fd(), SIGNALS)?;
                    }
                }
                completion => self.completed(Token::from_bits(token), completion),
            }
        }
        self.completions = completions;
        if let Some(order) = self.told.take() {
            self.begin_draining(order);
        }
        if signalled {
            self.take_signals();
        }
        self.expire();
        for token in self.starved.take_rested(self.desk.now.ms()) {
            self.submit_accept(token)?;
        }
        self.desk.publish();
        if self.desk.states_are_due() {
            self.desk.publish_states(self.slots.values().map(|slot| slot.exchange.state()));
        }
        Ok(())
    }

    fn accepted(
        &mut self,
        token: u64,
        accepted: io::Result<OwnedFd>,
        more: bool,
    ) -> io::Result<()> {
        if !more && !self.accepts_by_itself() {
            self.accepting -= 1;
        }
        match accepted {
            // An accept that was under way; closed at once, the client can go elsewhere.
            Ok(_) if self.draining_until_ms.is_some() => {}
            Ok(socket) => {
                self.desk.tally.add(Counter::Accepted, 1);
                self.desk.tally.add(Counter::AcceptPhases, 1);
                let token = self.slots.insert(Slot::new(socket, &self.desk));
                self.drive(token);
            }
            Err(error) if net::is_out_of_descriptors(&error) => {
                self.desk.tally.add(Counter::OutOfDescriptors, 1);
                if self.starved.keep(token, self.desk.now.ms(), true) {
                    self.worker.say("accepting is paused: descriptors are out");
                }
                return Ok(());
            }
            Err(error) if net::is_not_listening(&error) => {
                self.starved.keep(token, self.desk.now.ms(), false);
                return Ok(());
            }
            Err(_) => self.desk.tally.add(Counter::AcceptFailures, 1),
        }
        if more { Ok(()) } else { self.submit_accept(token) }
    }

    /// An operation of a connection is complete.
    fn completed(&mut self, token: Token, completion: Completion) {
        let Some(slot) = self.slots.find(token) else { return };
        match completion {
            Completion::Received(buffer, received) => {
                slot.receiving = false;
                take_received(&mut slot.exchange, &buffer, received, &mut self.desk);
                self.operations.inputs.keep(buffer);
            }
            Completion::Sent(buffer, sent) => {
                slot.sending = false;
                self.operations.pieces.keep(buffer);
                match sent {
                    Ok(n) => slot.exchange.sent(n as u64, &mut self.desk),
                    Err(_) => slot.exchange.abort(CloseReason::ClientGone),
                }
            }
            Completion::Disk(done) => self.operations.disk_done(slot, token, done),
            _ => {}
        }
        self.drive(token);
    }

    /// Lets a connection go on, and starts what it needs.
    fn drive(&mut self, token: Token) {
        loop {
            let Some(slot) = self.slots.find(token) else { return };
            if let Some(reason) = slot.over {
                if !slot.is_busy() {
                    self.close(token, reason);
                }
                return;
            }
            // While an operation is under way, the plan waits and the rest goes on.
            if slot.on_disk.is_none()
                && let Some(mut plan) = slot.plan.take()
            {
                match plan.next_op() {
                    Some(op) => {
                        slot.plan = Some(plan);
                        self.operations.start_disk(slot, token, op, Purpose::Plan);
                    }
                    None => slot.plan = slot.exchange.resume(*plan, &mut self.desk),
                }
                continue;
            }
            match slot.exchange.advance(&mut self.desk) {
                Step::Read => self.operations.start_receive(slot, token, &mut self.desk),
                Step::Write => self.operations.start_send(slot, token, &self.desk),
                Step::ReadWrite => {
                    self.operations.start_receive(slot, token, &mut self.desk);
                    self.operations.start_send(slot, token, &self.desk);
                }
                Step::Disk(plan) => {
                    self.desk.tally.add(Counter::DiskWaits, 1);
                    slot.plan = Some(plan);
                    continue;
                }
                Step::Waiting => {}
                Step::Shut => {
                    let _ = net::shutdown_write(&*slot.socket);
                    slot.exchange.shut(&self.desk);
                    continue;
                }
                Step::Close(reason) => {
                    slot.over = Some(reason);
                    if slot.is_busy() {
                        // What is under way ends when the socket is shut down.
                        let _ = net::shutdown_both(&*slot.socket);
                    }
                    continue;
                }
            }
            break;
        }
        if let Some(slot) = self.slots.find(token) {
            // A receive has a buffer of its own: an idle connection holds no other.
            if !slot.sending {
                slot.exchange.rest(&mut self.desk);
            }
            self.timers.set(token.index(), slot.exchange.deadline());
        }
    }

    fn close(&mut self, token: Token, reason: CloseReason) {
        if let Some(slot) = self.slots.remove(token) {
            self.timers.clear(token.index());
            slot.exchange.end(&mut self.desk, reason);
            // One descriptor is free now. When the ring is broken, the next wait on it tells.
            let _ = self.starved.take_one().map(|token| self.submit_accept(token));
        }
    }

    fn expire(&mut self) {
        while let Some(index) = self.timers.pop(self.desk.now.ms()) {
            let Some(token) = self.slots.token_at(index) else { continue };
            if let Some(slot) = self.slots.find(token) {
                let socket = Arc::clone(&slot.socket);
                slot.exchange.expired(|| net::unacknowledged(&*socket), &mut self.desk);
                self.drive(token);
            }
        }
    }

    fn take_signals(&mut self) {
        while let Some(order) = self.worker.order() {
            self.told = Some(order);
        }
    }

    /// Closes every connection as soon as its answer is sent. Begins a turn after the signal: a
    /// request that had arrived by then has been received.
    fn begin_draining(&mut self, order: Order) {
        if self.draining_until_ms.is_none() {
            self.draining_until_ms = Some(self.desk.now.ms() + self.worker.settings.drain_ms);
            self.worker.leave_listeners(order);
        }
        for token in self.slots.tokens() {
            if let Some(slot) = self.slots.find(token) {
                slot.exchange.drain(order, &self.desk);
                self.drive(token);
            }
        }
    }

    fn is_done(&self) -> bool {
        self.draining_until_ms
            .is_some_and(|until| self.slots.is_empty() || self.desk.now.ms() >= until)
    }

    fn report(mut self) -> Report {
        self.desk.publish();
        self.desk.publish_states(std::iter::empty());
        Report { unfinished: self.slots.len() }
    }
}
