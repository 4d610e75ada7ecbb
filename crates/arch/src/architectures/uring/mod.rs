//! `uring`: completions instead of readiness.
//!
//! **Paper**: J. Hu, S. Mungee, D. Schmidt: Techniques for Developing and Measuring
//! High-Performance Web Servers over ATM Networks, INFOCOM 1998 (asynchronous I/O, section 3.1; the
//! Proactor).
//!
//! **Idea**: One thread starts operations on a ring, disk work too, and acts on completions.
//!
//! **Differs from the paper**:
//! * The ring is Linux's io_uring; the paper uses the overlapped I/O of another system.
//! * The kernel takes a buffer for input when bytes come; the paper's operation brings its own.
//! * Accepting, and receiving from a client that is kept, are started once and complete again and
//!   again; the last answer and the closing of its connection are started together.
//! * The default of `accept.limit` is inf: accepts that are submitted again cost more.
//! * A large body in the page cache leaves by sendfile: no ring has it, and copies cost 5 times it.
//! * Listing a directory and waiting for a write have no ring operation: threads do them.
//!
//! **Reads with**: section 3.1, "asynchronous I/O strategy": [`Loop::turn`] and [`Loop::drive`].
//! **Settings**: `uring.entries`, `uring.buffers`, `uring.features`, `uring.registered`,
//! `experiment.completion-order`, `workers`, `pin`, `accept.incoming-cpu`, `accept.by-address`,
//! `accept.limit`, `send.mode`, `send.piece`.
//! **Kernel needs**: io_uring with multishot accept (Linux 5.19); what came later is probed.

mod accepts;
mod links;
mod operations;
mod pieces;
mod slot;

use std::io;

use flyball_conn::Needs;
use flyball_http::CloseReason;
use flyball_observe::counters::Counter;
use flyball_sys::sandbox::Calls;

use self::accepts::Accepts;
use self::operations::{OFFLOADED, Operations, SIGNALS};
use self::slot::Slot;
use crate::architecture::{Architecture, Sockets};
use crate::desk::Desk;
use crate::kernel::uring::{self, Completion, Ring, Socket};
use crate::limits::WAIT_MS_MAX;
use crate::rings;
use crate::settings::Settings;
use crate::slots::{Slots, Token};
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

    fn settings(&self) -> &'static [&'static [&'static str]] {
        &[
            &["uring.entries", "uring.buffers", "uring.features", "uring.registered"],
            &["workers", "pin", "accept.incoming-cpu", "accept.by-address", "accept.limit"],
            &["send.mode", "send.piece", "experiment.completion-order"],
        ]
    }

    fn defaults(&self) -> &'static [(&'static str, &'static str)] {
        &[("accept.limit", "inf")]
    }

    fn needs(&self) -> &'static str {
        "io_uring with multishot accept (Linux 5.19)"
    }

    fn probe(&self) -> Result<(), String> {
        Ring::probe().map_err(|error| format!("io_uring: {error}"))
    }

    fn found(&self) -> Vec<(String, String)> {
        operations::found()
    }

    fn sockets(&self) -> Sockets {
        Sockets::PerWorker
    }

    /// A ring gives up on a non-blocking socket where it would wait on a blocking one.
    fn listener_blocks(&self) -> bool {
        true
    }

    fn calls(&self, _settings: &Settings) -> &'static [Calls] {
        rings::CALLS
    }

    fn warnings(&self, settings: &Settings) -> Vec<String> {
        accepts::taken_otherwise(self.accept_limit(settings)).into_iter().collect()
    }

    fn run(&self, worker: Worker) -> io::Result<Report> {
        let mut proactor = Loop::new(worker)?;
        while !proactor.is_done() {
            proactor.turn()?;
        }
        Ok(proactor.report())
    }
}

struct Loop {
    desk: Desk,
    worker: Worker,
    operations: Operations,
    slots: Slots<Slot>,
    timers: Timers,
    completions: Vec<(u64, Completion)>,
    accepts: Accepts,
    /// Connections that go on in the next turn: this one has answered enough hellos.
    put_off: Vec<Token>,
    /// An order that came in the last turn, and what became of it.
    told: Option<Order>,
    leaving: Option<Order>,
}

impl Loop {
    fn new(worker: Worker) -> io::Result<Loop> {
        let desk = worker.desk();
        let operations = Operations::new(&worker)?;
        let accepts = Accepts::new(&worker, operations.direct);
        let mut proactor = Loop {
            timers: Timers::new(desk.now.ms()),
            operations,
            slots: Slots::default(),
            completions: Vec::new(),
            accepts,
            put_off: Vec::new(),
            told: None,
            leaving: None,
            desk,
            worker,
        };
        let Loop { operations, worker, .. } = &mut proactor;
        [SIGNALS, OFFLOADED].into_iter().try_for_each(|token| operations.watch(token, worker))?;
        proactor.top_up_accepts();
        proactor.worker.enter_loop();
        Ok(proactor)
    }

    fn top_up_accepts(&mut self) {
        let Loop { accepts, operations, worker, slots, .. } = self;
        accepts.top_up(&mut operations.ring, worker, slots.len());
    }

    /// Submits what was started, waits for completions, and acts on each.
    fn turn(&mut self) -> io::Result<()> {
        let now_ms = self.desk.now.ms();
        let looks_for_room = self.accepts.looks_for_room(&self.worker, self.slots.len(), now_ms);
        let is_ordered = self.told.is_some() || self.leaving.is_some();
        let goes_on = is_ordered || looks_for_room || !self.put_off.is_empty();
        let most_ms = if goes_on { 0 } else { WAIT_MS_MAX };
        let wait_ms = self.timers.wait_ms(now_ms, self.desk.wait_ms(most_ms));
        let mut completions = std::mem::take(&mut self.completions);
        self.operations.wait(&mut completions, wait_ms)?;
        self.desk.woke();
        let work_ns = self.desk.turn_ns();
        let (mut signalled, mut accepted, mut worked) = (false, 0, 0);
        std::mem::take(&mut self.put_off).into_iter().for_each(|token| self.drive(token));
        for (token, completion) in completions.drain(..) {
            match completion {
                Completion::Connected(connected, more) => {
                    accepted += u64::from(connected.is_ok());
                    self.connected(token, connected, more);
                }
                Completion::Readable(more) => {
                    signalled |= token == SIGNALS;
                    self.readable(token, more)?;
                }
                completion => {
                    worked += 1;
                    self.completed(token, completion);
                }
            }
        }
        self.completions = completions;
        self.follow_orders(signalled);
        self.expire();
        if !self.accepts.rests(self.desk.now.ms()) {
            self.top_up_accepts();
        }
        if looks_for_room {
            for token in self.accepts.make_room(&self.worker, &mut self.slots, now_ms) {
                self.time_out(token, now_ms);
            }
        }
        let tally = &mut self.desk.tally;
        if accepted > 0 {
            tally.add(Counter::AcceptPhases, 1);
            tally.accept_batch(accepted);
        }
        tally.add(Counter::WorkPhases, u64::from(worked > 0));
        tally.add(Counter::WorkedOn, worked);
        self.desk.publish();
        if self.desk.states_are_due() {
            self.desk.publish_states(self.slots.values().map(|slot| slot.connection.standing()));
        }
        self.desk.turned();
        self.desk.worked(self.desk.turn_ns() - work_ns, worked > 0);
        Ok(())
    }

    /// A signal came, or a thread is done with disk work.
    fn readable(&mut self, token: u64, more: bool) -> io::Result<()> {
        if token == OFFLOADED {
            self.operations.offload.acknowledge();
            while let Some((token, plan)) = self.operations.offload.collect() {
                let Some(slot) = self.slots.find(token) else { continue };
                (slot.on_disk, slot.plan) = (None, Some(plan));
                self.drive(token);
            }
        }
        if more { Ok(()) } else { self.operations.watch(token, &self.worker) }
    }

    fn connected(&mut self, token: u64, connected: io::Result<Socket>, more: bool) {
        self.accepts.completed(token, more);
        match connected {
            Ok(socket) => {
                self.accepts.resume();
                let slot = self.operations.slot(token, socket, &self.worker, &mut self.desk);
                let token = slot.map(|slot| self.slots.insert(slot));
                token.into_iter().for_each(|token| self.drive(token));
            }
            Err(error) if uring::is_undone(&error) => {}
            Err(error) => {
                let open = self.slots.len();
                self.accepts.failed(&error, &self.worker, open, &mut self.desk);
            }
        }
    }

    /// An operation of a connection is complete.
    fn completed(&mut self, bits: u64, completion: Completion) {
        let completion = match self.operations.link_completed(bits, completion) {
            Ok(turn) => return turn.into_iter().for_each(|token| self.drive(token)),
            Err(completion) => completion,
        };
        let token = Token::from_bits(bits);
        let Some(slot) = self.slots.find(token) else { return };
        let Loop { operations, desk, .. } = self;
        match completion {
            Completion::Received(received, more) => {
                operations.received(slot, token, received, more, desk);
            }
            Completion::Sent(outgoing, sent, closed) => {
                operations.sent(slot, token, outgoing, (sent, closed), desk);
            }
            other => operations.waited(slot, token, other, desk),
        }
        self.drive(token);
    }

    /// Lets a connection go on, and starts what it needs.
    fn drive(&mut self, token: Token) {
        let Loop { slots, operations, desk, timers, put_off, .. } = self;
        let Some(slot) = slots.find(token) else { return };
        operations.woke(slot, token);
        let mut needs = Needs::default();
        let over = loop {
            if let Some(reason) = slot.ending.over {
                break Some(reason).filter(|_| operations.is_done(slot, token));
            }
            // While an operation is under way, the plan waits and the rest goes on.
            if slot.on_disk.is_none()
                && let Some(mut plan) = slot.plan.take()
            {
                match plan.next_op() {
                    Some(op) => operations.start_disk(slot, token, plan, op),
                    None => slot.done(*plan, desk),
                }
                continue;
            }
            slot.input.wanted = false;
            match slot.connection.goes_on() {
                true => slot.connection.go_on(&mut needs, desk),
                false => slot.connection.needs(&mut needs),
            }
            if let Some(reason) = needs.over {
                operations.serve_link(&needs, slot, token, desk);
                slot.ending.over = Some(reason);
                operations.take_leave(slot, token);
                continue;
            }
            if let Some(need) = needs.socket {
                operations.serve_socket(need, slot, token, desk);
                continue;
            }
            if let Some(ask) = needs.asks.first().filter(|_| slot.may_plan()) {
                desk.tally.add(Counter::DiskWaits, 1);
                slot.plan = slot.connection.take_plan(ask);
                continue;
            }
            if !operations.start(&mut needs, slot, token, desk) {
                break None;
            }
        };
        operations.turned(slot, token);
        match over {
            Some(reason) => self.close(token, reason),
            None => {
                put_off.extend(needs.again.then_some(token));
                slot.connection.rest(desk);
                timers.set(token.index(), slot.connection.deadline());
            }
        }
    }

    fn close(&mut self, token: Token, reason: CloseReason) {
        let Some(slot) = self.slots.remove(token) else { return };
        self.timers.clear(token.index());
        self.operations.close(slot, token, reason, &mut self.desk);
        self.accepts.resume();
    }

    /// Tells connections whose deadline had passed when completions were asked for: what had come
    /// by then was received.
    fn expire(&mut self) {
        let now_ms = self.desk.asked_ms();
        while let Some(index) = self.timers.pop(now_ms) {
            self.slots.token_at(index).into_iter().for_each(|token| self.time_out(token, now_ms));
        }
    }

    fn time_out(&mut self, token: Token, now_ms: u64) {
        // Another may have made way for it. This sets its timer too.
        self.drive(token);
        let Some(slot) = self.slots.find(token) else { return };
        if slot.connection.deadline() <= now_ms
            && let Some(bytes) = self.operations.in_socket(slot, token, now_ms)
        {
            slot.connection.expired(|| bytes, &mut self.desk);
            self.drive(token);
        }
    }

    /// An order is followed a turn after it came, and a stop when nothing is queued any more: a
    /// request that had arrived by then has been received. Connections whose accept was under way
    /// are served, and have a turn for what they have sent.
    fn follow_orders(&mut self, signalled: bool) {
        if self.accepts.under_way() == 0
            && let Some(order) = self.leaving.take()
        {
            self.begin_draining(order);
        }
        let takes_more =
            self.told == Some(Order::Stop) && self.accepts.go_on(&self.worker, self.slots.len());
        if let Some(order) = self.told.take_if(|_| !takes_more) {
            self.leaving = Some(order);
            self.accepts.end(&mut self.operations.ring);
        }
        if signalled {
            while let Some(order) = self.worker.order() {
                self.told = Some(order);
            }
        }
    }

    /// Closes every connection as soon as its answer is sent.
    fn begin_draining(&mut self, order: Order) {
        if !self.desk.is_draining() {
            self.desk.begin_draining();
            self.operations.close_links();
            self.worker.leave_listeners(order);
        }
        for token in self.slots.tokens() {
            if let Some(slot) = self.slots.find(token) {
                slot.connection.drain(order);
                self.drive(token);
            }
        }
    }

    fn is_done(&self) -> bool {
        self.desk.is_draining() && self.slots.is_empty()
            || self.desk.is_over_by(self.desk.asked_ms())
    }

    fn report(mut self) -> Report {
        let unfinished = self.operations.leave(&mut self.slots, &mut self.desk);
        self.desk.publish();
        self.desk.publish_states(std::iter::empty());
        Report { unfinished }
    }
}
