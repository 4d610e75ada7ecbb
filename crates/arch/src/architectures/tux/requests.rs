//! What `tux` does for one request between two looks at its queues, and the queue of requests that
//! can go on. TUX calls a piece of such work an atom.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use flyball_conn::{Connection, Needs, Peer};
use flyball_http::CloseReason;
use flyball_site::{Ask, Plan};
use flyball_sys::disk::{Done, Op};
use flyball_sys::owned::Owned;
use flyball_sys::readiness::Interest;

use crate::desk::Desk;
use crate::drive::{Port, Ready, Turn, drive, receive, resume};
use crate::kernel::net;
use crate::kernel::uring::{Completion, Mode, Ring};
use crate::links::{Held, Links, LinksOf, Pool};
use crate::pool::BlockingPool;
use crate::room::{self, Yields};
use crate::slots::{FIRST_RESERVED, Slots, Token};
use crate::timers::Timers;
use crate::transmit::{cut_off, take_leave};
use crate::worker::Worker;

/// Submissions that are handed over together.
const SUBMIT_BATCH: u32 = 16;

/// Marks the callback of a socket that has room again; slots never have so high a number.
const WRITABLE: u64 = 1 << 30;

/// Marks the reading of a piece of a large body.
const PIECE: u64 = 1 << 31;

/// The token of the threads for cache misses, as TUX calls them; no one else may use it.
const CACHE_MISSES: u64 = FIRST_RESERVED + 1;

/// The token of the worker's signals.
pub(super) const SIGNALS: u64 = FIRST_RESERVED;

/// The token of the first listening socket; the others follow.
pub(super) const LISTENERS: u64 = FIRST_RESERVED + 16;

/// What an operation of a connection was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// Telling that there is input, or performing the next step of a plan.
    Plain,
    /// Telling that there is room in the socket.
    Writable,
    /// Bringing a piece of a large body into memory.
    Piece,
}

/// The connection and the purpose that an operation was started for.
fn origin(bits: u64) -> (Token, Purpose) {
    let purpose = match bits & (WRITABLE | PIECE) {
        WRITABLE => Purpose::Writable,
        PIECE => Purpose::Piece,
        _ => Purpose::Plain,
    };
    (Token::from_bits(bits & !(WRITABLE | PIECE)), purpose)
}

/// The requests that can go on, TUX's `work_pending`: the newest is worked on first, and what would
/// never end is put behind all others. Each connection stands in it once, which is its bound.
#[derive(Debug, Default)]
pub(crate) struct WorkPending(VecDeque<Token>);

impl WorkPending {
    /// Adds one that comes next.
    pub(crate) fn push(&mut self, token: Token) {
        self.0.push_front(token);
    }

    /// Adds one that comes after all others.
    fn push_tail(&mut self, token: Token) {
        self.0.push_back(token);
    }

    /// Takes the next.
    pub(crate) fn pop(&mut self) -> Option<Token> {
        self.0.pop_front()
    }

    /// True when nothing can go on.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many can go on.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// A connection in its slot.
#[derive(Debug)]
pub(crate) struct Slot {
    socket: Arc<Owned>,
    pub(crate) connection: Connection,
    ready: Ready,
    /// Its link to a server.
    link: Held,
    /// The callbacks that are linked to the socket.
    linked: Interest,
    /// Its client has closed its side, of which a callback for room tells as well.
    half_closed: bool,
    /// It stands in the work queue.
    queued: bool,
    plan: Option<Box<Plan>>,
    /// An operation of the plan is under way.
    on_disk: bool,
    /// The plan that brings in the next piece of the output; its operation is under way.
    warming: Option<Box<Plan>>,
}

impl Slot {
    fn new(socket: Owned, peer: Peer, desk: &Desk) -> Slot {
        Slot {
            socket: Arc::new(socket),
            connection: Connection::new(peer, desk),
            ready: Ready { read: true, ..Ready::default() },
            link: None,
            linked: Interest::NONE,
            half_closed: false,
            queued: false,
            plan: None,
            on_disk: false,
            warming: None,
        }
    }

    fn port<'a>(
        &'a mut self,
        token: Token,
        (links, callbacks): (&'a mut Links, &'a mut Callbacks),
    ) -> (AtomPort<'a>, &'a mut Connection) {
        let Slot { socket, connection, ready, link, plan, on_disk, warming, .. } = self;
        let links = LinksOf { links, connection: token };
        let held = link;
        let port = AtomPort { socket, ready, held, links, plan, on_disk, warming, callbacks };
        (port, connection)
    }

    /// A callback came, and is not linked any more unless it `stays`. Whether the connection may
    /// go on.
    fn called(&mut self, purpose: Purpose, found: &io::Result<Interest>, stays: bool) -> bool {
        match purpose {
            Purpose::Writable => {
                let has_room = found.as_ref().map_or(true, |found| found.write);
                self.linked.write = stays;
                self.half_closed |= !has_room;
                return has_room || !stays;
            }
            _ => {
                self.linked.read = false;
                self.ready.read = true;
            }
        }
        true
    }

    /// The ring has performed an operation of a plan.
    fn disk_done(&mut self, purpose: Purpose, done: Done, desk: &mut Desk) {
        let piece = purpose == Purpose::Piece;
        let waiting = if piece { &mut self.warming } else { &mut self.plan };
        if let Some(mut plan) = waiting.take() {
            plan.done(done);
            self.stepped(purpose, plan, desk);
        }
    }

    /// An operation of this plan is done.
    fn stepped(&mut self, purpose: Purpose, plan: Box<Plan>, desk: &mut Desk) {
        if purpose == Purpose::Piece {
            self.connection.done(*plan, desk);
        } else {
            (self.plan, self.on_disk) = (Some(plan), false);
        }
    }
}

/// What is started now and completes later: socket callbacks and disk operations.
pub(crate) struct Callbacks {
    pub(crate) ring: Ring,
    /// What performs operations that the ring does not have.
    misses: BlockingPool<Plan>,
    unsubmitted: u32,
}

impl Callbacks {
    pub(crate) fn new(worker: &Worker) -> io::Result<Callbacks> {
        let mut ring = worker.rings.make(worker.settings.ring.entries, Mode::Immediate)?;
        worker.rings.seal()?;
        let misses = BlockingPool::beside_ring(worker.index, |n| format!("cachemiss-{n}"))?;
        ring.watch(misses.completions(), CACHE_MISSES)?;
        Ok(Callbacks { ring, misses, unsubmitted: 0 })
    }

    /// Has the ring call back for the worker's signals, or for a listening socket.
    ///
    /// # Errors
    /// As [`Ring::watch`].
    pub(super) fn watch(&mut self, token: u64, worker: &Worker) -> io::Result<()> {
        let fd = match token {
            SIGNALS => worker.signals.as_fd(),
            token => worker.listeners[(token - LISTENERS) as usize].as_fd(),
        };
        self.ring.watch(fd, token)
    }

    /// Appends what has completed to `completions`, but for what threads have performed, which is
    /// to be collected. Makes no system call unless there is some.
    ///
    /// # Errors
    /// When the ring cannot take a submission.
    pub(crate) fn peek(&mut self, completions: &mut Vec<(u64, Completion)>) -> io::Result<()> {
        self.ring.peek(completions);
        while let Some(at) = completions.iter().position(|(token, _)| *token == CACHE_MISSES) {
            if let (_, Completion::Readable(false)) = completions.remove(at) {
                self.ring.watch(self.misses.completions(), CACHE_MISSES)?;
            }
            self.misses.acknowledge();
        }
        Ok(())
    }

    /// Links the callbacks that a connection waits for, unless they are linked already.
    fn link(&mut self, slot: &mut Slot, token: Token, interest: Interest) {
        // One operation each: their completions tell which of them is linked no more.
        if interest.read && !slot.linked.read {
            slot.linked.read = true;
            self.ring.poll(Arc::clone(&slot.socket), token.bits(), Interest::READ);
            self.unsubmitted += 1;
        }
        if interest.write && !slot.linked.write {
            slot.linked.write = true;
            let (socket, bits) = (Arc::clone(&slot.socket), token.bits() | WRITABLE);
            match slot.half_closed {
                false => self.ring.poll(socket, bits, Interest::WRITE),
                true => self.ring.poll_room(socket, bits),
            }
            self.unsubmitted += 1;
        }
    }

    /// Unlinks what is linked to a connection, so that the ring lets go of its socket.
    fn unlink(&mut self, token: Token) {
        self.ring.cancel(token.bits());
        self.ring.cancel(token.bits() | WRITABLE);
        self.unsubmitted += 1;
    }

    /// Starts an operation of a plan. One that the ring does not have takes the plan to a thread;
    /// else it is given back, with whether the operation is under way.
    fn start_disk(&mut self, bits: u64, mut plan: Box<Plan>, op: Op) -> (Option<Box<Plan>>, bool) {
        let Some(op) = self.ring.disk(op, bits) else {
            self.unsubmitted += 1;
            return (Some(plan), true);
        };
        plan.put_back(op);
        let done = self.misses.give(Token::from_bits(bits), plan);
        let under_way = done.is_none();
        (done, under_way)
    }

    /// What an operation was started for, and the plan that threads have performed it for.
    pub(crate) fn collect(&mut self) -> Option<(u64, Box<Plan>)> {
        self.misses.collect().map(|(token, plan)| (token.bits(), plan))
    }

    /// Hands over what was started, if it is enough for a batch. Never waits.
    pub(crate) fn submit_batch(&mut self) -> io::Result<()> {
        if self.unsubmitted < SUBMIT_BATCH { Ok(()) } else { self.submit() }
    }

    /// Hands over what was started. Never waits.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        self.unsubmitted = 0;
        self.ring.submit()
    }
}

/// The connections, their deadlines, and those of them that can go on.
pub(crate) struct Requests {
    pub(crate) slots: Slots<Slot>,
    pub(crate) timers: Timers,
    pub(crate) work_pending: WorkPending,
    /// The links of the connections, and those at rest.
    links: Links,
}

impl Requests {
    pub(crate) fn new(now_ms: u64) -> Requests {
        let (slots, links) = (Slots::default(), Links::default());
        let (timers, work_pending) = (Timers::new(now_ms), WorkPending::default());
        Requests { slots, timers, work_pending, links }
    }

    /// Takes a new connection in: its first atom is done at once.
    pub(crate) fn open(
        &mut self,
        (socket, peer): (Owned, Peer),
        desk: &mut Desk,
        callbacks: &mut Callbacks,
    ) {
        let token = self.slots.insert(Slot::new(socket, peer, desk));
        let Some(slot) = self.slots.find(token) else { return };
        if parse(slot, token, desk, (&mut self.links, callbacks)) {
            slot.queued = true;
            self.work_pending.push(token);
        } else {
            slot.connection.rest(desk);
            callbacks.link(slot, token, Interest::READ);
        }
        self.timers.set(token.index(), slot.connection.deadline());
    }

    /// Puts a connection that can go on into the queue, if it is not there yet.
    pub(crate) fn push(&mut self, token: Token) {
        if let Some(slot) = self.slots.find(token)
            && !std::mem::replace(&mut slot.queued, true)
        {
            self.work_pending.push(token);
        }
    }

    /// Ends connections that only hold their places while others wait for one.
    pub(crate) fn make_room(&mut self, worker: &Worker, now_ms: u64) {
        let waiting = worker.waits_for_room();
        if waiting == 0 {
            return;
        }
        let yields = |slot: &Slot| Yields::of(&slot.connection, true).filter(|_| !slot.queued);
        let open = self.slots.iter().map(|(token, slot)| (token, yields(slot)));
        for token in room::choose(open, waiting, now_ms) {
            if let Some(slot) = self.slots.find(token) {
                slot.connection.make_room();
                self.push(token);
            }
        }
    }

    /// The connection that goes on next.
    pub(crate) fn pop(&mut self) -> Option<Token> {
        let token = self.work_pending.pop()?;
        if let Some(slot) = self.slots.find(token) {
            slot.queued = false;
        }
        Some(token)
    }

    /// No link is kept any more.
    pub(crate) fn close_links(&mut self, callbacks: &mut Callbacks) {
        self.links.close(&mut callbacks.ring);
    }

    /// An operation of a connection is complete, or something happened to a link: it can go on.
    pub(crate) fn completed(
        &mut self,
        bits: u64,
        completion: Completion,
        desk: &mut Desk,
        callbacks: &mut Callbacks,
    ) {
        if let Completion::Event(found, more) = completion {
            let turn = self.links.completed(bits, &found, more, &mut callbacks.ring);
            return turn.map_or((), |token| self.push(token));
        }
        let (token, purpose) = origin(bits);
        let Some(slot) = self.slots.find(token) else { return };
        let goes_on = match completion {
            Completion::Disk(done) => {
                slot.disk_done(purpose, done, desk);
                true
            }
            Completion::Ready(found, stays) => slot.called(purpose, &found, stays),
            _ => {
                debug_assert!(false, "this was not asked for");
                true
            }
        };
        if goes_on {
            self.push(token);
        }
    }

    /// A thread has performed an operation of a plan: its connection can go on.
    pub(crate) fn stepped(&mut self, bits: u64, plan: Box<Plan>, desk: &mut Desk) {
        let (token, purpose) = origin(bits);
        let Some(slot) = self.slots.find(token) else { return };
        slot.stepped(purpose, plan, desk);
        self.push(token);
    }

    /// Lets a connection go on until it has to wait; true when it is over.
    pub(crate) fn go_on(
        &mut self,
        token: Token,
        desk: &mut Desk,
        callbacks: &mut Callbacks,
    ) -> bool {
        let Some(slot) = self.slots.find(token) else { return false };
        let turn = turn(slot, token, desk, (&mut self.links, callbacks));
        let awaited = if let Turn::Wait(_, awaited) = &turn { awaited.as_ref() } else { None };
        self.links.end_turn(&mut slot.link, token, awaited, &mut callbacks.ring);
        match turn {
            Turn::Over(reason) => {
                self.close(token, reason, desk, callbacks);
                return true;
            }
            // It could go on for ever, as with a large body: others come first.
            Turn::Again | Turn::Elsewhere => {
                if !std::mem::replace(&mut slot.queued, true) {
                    self.work_pending.push_tail(token);
                }
            }
            Turn::Wait(interest, _) => {
                slot.connection.rest(desk);
                self.timers.set(token.index(), slot.connection.deadline());
                callbacks.link(slot, token, interest);
            }
        }
        false
    }

    /// Takes out one connection whose deadline has passed.
    pub(crate) fn expire(&mut self, now_ms: u64) -> Option<Token> {
        loop {
            let index = self.timers.pop(now_ms)?;
            if let Some(token) = self.slots.token_at(index) {
                return Some(token);
            }
        }
    }

    /// The process ends: so do the connections that it still has, in the way that tells their
    /// clients whether an answer is whole.
    pub(crate) fn leave(&mut self, desk: &mut Desk) {
        for slot in self.slots.values_mut() {
            cut_off(&*slot.socket, &mut slot.connection, desk.log());
        }
    }

    fn close(
        &mut self,
        token: Token,
        reason: CloseReason,
        desk: &mut Desk,
        callbacks: &mut Callbacks,
    ) {
        let Some(mut slot) = self.slots.remove(token) else { return };
        self.timers.clear(token.index());
        self.links.abandon(slot.link, token, &mut callbacks.ring);
        take_leave(&*slot.socket, &mut slot.connection);
        if slot.connection.is_cut_short() || slot.half_closed {
            // Shutting it down would be the orderly end that it must not have, or ends no callback
            // that stays.
            callbacks.unlink(token);
        } else if slot.linked != Interest::NONE {
            // The ring holds the socket until its callbacks have come, which they do now.
            let _ = net::shutdown_both(&*slot.socket);
        }
        slot.connection.end(desk, reason, || net::untaken(&*slot.socket));
    }
}

/// The first atom of a new connection: what is there is read and parsed. True when it can go on.
fn parse(
    slot: &mut Slot,
    token: Token,
    desk: &mut Desk,
    uses: (&mut Links, &mut Callbacks),
) -> bool {
    let (mut port, connection) = slot.port(token, uses);
    receive(&mut port, connection, desk);
    let mut needs = Needs::default();
    connection.go_on(&mut needs, desk);
    // It asks for no more than its input.
    !needs.reads_only() || slot.ready.read
}

/// A connection goes on: first with its plan, if an operation of that is done.
fn turn(
    slot: &mut Slot,
    token: Token,
    desk: &mut Desk,
    uses: (&mut Links, &mut Callbacks),
) -> Turn {
    let plan = if slot.on_disk { None } else { slot.plan.take() };
    let (mut port, connection) = slot.port(token, uses);
    match plan.and_then(|plan| port.perform(plan, connection, desk)) {
        Some(done) => resume(&mut port, connection, done, desk),
        None => drive(&mut port, connection, desk),
    }
}

/// The way of `tux` to work on a connection.
struct AtomPort<'a> {
    socket: &'a Owned,
    ready: &'a mut Ready,
    held: &'a mut Held,
    links: LinksOf<'a>,
    plan: &'a mut Option<Box<Plan>>,
    on_disk: &'a mut bool,
    warming: &'a mut Option<Box<Plan>>,
    callbacks: &'a mut Callbacks,
}

impl Port for AtomPort<'_> {
    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn ready(&mut self) -> &mut Ready {
        self.ready
    }

    fn link(&mut self) -> (&mut Held, impl Pool) {
        let LinksOf { links, connection } = &mut self.links;
        (self.held, LinksOf { links, connection: *connection })
    }

    /// Starts the next operation of the plan, and those behind it while they are done at once.
    fn perform(
        &mut self,
        mut plan: Box<Plan>,
        _: &mut Connection,
        _: &mut Desk,
    ) -> Option<Box<Plan>> {
        let warms = plan.asked_by() == Ask::Output;
        let bits = self.links.connection.bits() | if warms { PIECE } else { 0 };
        while let Some(op) = plan.next_op() {
            let (rest, under_way) = self.callbacks.start_disk(bits, plan, op);
            if under_way {
                match warms {
                    true => *self.warming = rest,
                    false => (*self.plan, *self.on_disk) = (rest, true),
                }
                return None;
            }
            plan = rest?;
        }
        Some(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(count: u64) -> Vec<Token> {
        (0..count).map(Token::from_bits).collect()
    }

    #[test]
    fn the_newest_is_worked_on_first() {
        let (mut work, tokens) = (WorkPending::default(), tokens(3));
        tokens.iter().for_each(|token| work.push(*token));
        let order: Vec<Token> = std::iter::from_fn(|| work.pop()).collect();
        assert_eq!(order, [tokens[2], tokens[1], tokens[0]]);
        assert!(work.is_empty());
    }

    #[test]
    fn the_queue_may_grow_while_it_is_drained_and_ends_when_nothing_is_left() {
        let (mut work, tokens) = (WorkPending::default(), tokens(6));
        work.push(tokens[0]);
        work.push(tokens[1]);
        let mut order = Vec::new();
        while let Some(token) = work.pop() {
            order.push(token);
            // What becomes ready meanwhile comes before what was there.
            if order.len() <= 2 {
                work.push(tokens[order.len() * 2]);
                work.push(tokens[order.len() * 2 + 1]);
            }
        }
        assert_eq!(order, [1, 3, 5, 4, 2, 0].map(|at| tokens[at]));
    }

    #[test]
    fn a_continuation_comes_after_all_others() {
        let (mut work, tokens) = (WorkPending::default(), tokens(4));
        work.push(tokens[0]);
        work.push_tail(tokens[1]);
        work.push_tail(tokens[2]);
        work.push(tokens[3]);
        let order: Vec<Token> = std::iter::from_fn(|| work.pop()).collect();
        assert_eq!(order, [3, 0, 1, 2].map(|at| tokens[at]));
    }

    #[test]
    fn an_operation_tells_its_connection_and_its_purpose() {
        let token = Token::from_bits(7 << 32 | 3);
        assert_eq!(origin(token.bits()), (token, Purpose::Plain));
        assert_eq!(origin(token.bits() | WRITABLE), (token, Purpose::Writable));
        assert_eq!(origin(token.bits() | PIECE), (token, Purpose::Piece));
    }
}
