//! What a ring's operations carry between a connection and the kernel.

mod sealed;

use std::io;
use std::os::fd::AsFd;

use flyball_conn::{Connection, Needs, SocketNeed};
use flyball_http::CloseReason;
use flyball_http::out::{Front, Memory};
use flyball_observe::counters::Counter;
use flyball_site::{Out, Plan};
use flyball_sys::disk::{Done, Op};

use super::accepts::Accepts;
use super::slot::{Purpose, Receiving, Reference, RoomWait, Slot};
use crate::desk::Desk;
use crate::kernel::net;
use crate::kernel::uring::{
    self, Completion, Features, Lent, Mode, Outgoing, Received, Ring, Socket, Then,
};
use crate::links::Operated;
use crate::pool::BlockingPool;
use crate::settings::CompletionOrder;
use crate::slots::{FIRST_RESERVED, Slots, Token};
use crate::transmit::{Sent, gather_max, goes_by_reference, transmit_reference};
use crate::worker::Worker;

/// Longest output that is sent and closed in one go: no client's progress is seen meanwhile, so
/// that it should fit into any socket's buffer. Where that is full already, see `apart`.
const CLOSING_BYTES_MAX: usize = 16 * 1024;

/// The token of the worker's signals.
pub(crate) const SIGNALS: u64 = FIRST_RESERVED;

/// The token of the threads that do disk work.
pub(crate) const OFFLOADED: u64 = FIRST_RESERVED + 1;

/// The ring, and what its operations use.
pub(crate) struct Operations {
    pub(crate) ring: Ring,
    /// Whether the ring keeps sockets in a table of its own.
    pub(crate) direct: bool,
    /// What performs operations that the ring does not have.
    pub(crate) offload: BlockingPool<Plan>,
    /// The links of its connections, and those at rest.
    pub(super) links: Operated,
    /// Memory segments that one send carries.
    gather_max: usize,
    order: CompletionOrder,
}

impl Operations {
    pub(crate) fn new(worker: &Worker) -> io::Result<Operations> {
        let settings = &worker.settings;
        let mut ring = worker.rings.make(settings.ring.entries, Mode::Deferred)?;
        let mut wanted = settings.ring.features;
        // Only a descriptor of the process's own tells the client's address.
        wanted.direct &= !settings.needs_addresses();
        let sockets_max = u32::try_from(worker.connections_max).unwrap_or(u32::MAX);
        let direct = ring.enable(wanted, settings.ring.buffers, sockets_max).direct;
        ring.register_chunks(settings.ring.registered, settings.piece_bytes);
        worker.rings.seal()?;
        let gather_max = gather_max(settings);
        let offload = BlockingPool::beside_ring(worker.index, |n| format!("offload-{n}"))?;
        let order = settings.habits().completion_order;
        Ok(Operations { ring, direct, offload, links: Operated::default(), gather_max, order })
    }

    /// Has the ring tell of the worker's signals, or of plans that threads are done with.
    ///
    /// # Errors
    /// As [`Ring::watch`].
    pub(crate) fn watch(&mut self, token: u64, worker: &Worker) -> io::Result<()> {
        match token {
            OFFLOADED => self.ring.watch(self.offload.completions(), token),
            _ => self.ring.watch(worker.signals.as_fd(), token),
        }
    }

    /// A connection that was accepted; none if its client has reset it since. Rules go by the
    /// client's address, which cannot be asked for any more.
    pub(crate) fn slot(
        &mut self,
        accept: u64,
        socket: Socket,
        worker: &Worker,
        desk: &mut Desk,
    ) -> Option<Slot> {
        let Ok(address) = self.ring.peer_address(&socket) else {
            desk.tally.add(Counter::AcceptFailures, 1);
            self.ring.close(socket);
            return None;
        };
        desk.tally.add(Counter::Accepted, 1);
        let listener = &worker.listeners[Accepts::listener_of(accept)];
        let connection = Connection::new(listener.peer(address, socket.plain()), desk);
        Some(Slot::new(socket, connection))
    }

    /// Submits what was started, waits for completions, and puts them into the order that was asked
    /// for: those of one kind stay as they came.
    ///
    /// # Errors
    /// As [`Ring::wait`].
    pub(crate) fn wait(&mut self, found: &mut Vec<(u64, Completion)>, ms: u64) -> io::Result<()> {
        match ms {
            0 => self.ring.gather(found)?,
            _ => self.ring.wait(found, ms)?,
        }
        arrange(found, self.order);
        Ok(())
    }

    /// Starts what a connection needs: true when it can go on at once.
    pub(crate) fn start(
        &mut self,
        needs: &mut Needs,
        slot: &mut Slot,
        token: Token,
        desk: &mut Desk,
    ) -> bool {
        self.serve_link(needs, slot, token, desk)
            || needs.read && self.start_receive(slot, token, desk)
            || needs.write && self.start_send(slot, token, desk)
            || slot.connection.hears() && self.start_receive(slot, token, desk)
            || needs.write && self.held_back(slot, token, desk)
            || self.await_link(needs, slot, token, desk)
    }

    /// Input is wanted, now: true when there was some, else it is on its way.
    fn start_receive(&mut self, slot: &mut Slot, token: Token, desk: &mut Desk) -> bool {
        slot.input.wanted = true;
        if slot.take_ahead(desk) {
            return true;
        }
        if slot.input.receiving == Receiving::No {
            // A client that is kept sends again and again; what follows a head that came in
            // parts, or a body, is not taken before it is wanted.
            let waits = slot.output.kept && !slot.input.sends_ahead && slot.connection.is_idle();
            let own = std::mem::take(&mut slot.input.needs_own);
            let repeatedly = self.ring.receive(&slot.socket, token.bits(), waits, own);
            slot.input.receiving = if repeatedly { Receiving::Repeatedly } else { Receiving::Once };
        }
        false
    }

    /// Input came, or its end.
    pub(crate) fn received(
        &mut self,
        slot: &mut Slot,
        token: Token,
        received: io::Result<Received>,
        more: bool,
        desk: &mut Desk,
    ) {
        if !more {
            slot.input.receiving = Receiving::No;
        }
        let end = match received {
            Ok(received) => {
                let bytes = self.ring.bytes(&received);
                let at_end = bytes.is_empty();
                slot.take_in(bytes, desk);
                self.ring.recycle(received);
                at_end.then_some(Ok(()))
            }
            Err(error) if uring::is_out_of_buffers(&error) => {
                (slot.input.needs_own, slot.input.ran_out_ms) = (true, desk.asked_ms());
                None
            }
            Err(error) if uring::is_undone(&error) => None,
            Err(error) => Some(Err(error)),
        };
        if let Some(end) = end {
            if slot.input.wanted && slot.input.ahead.is_none() {
                slot.finish(end, desk);
            } else {
                slot.input.ahead.get_or_insert_default().end = Some(end);
            }
        }
        if slot.input.ahead.is_some() {
            self.stop_receiving(slot, token);
            slot.input.sends_ahead = true;
        }
    }

    fn stop_receiving(&mut self, slot: &mut Slot, token: Token) {
        if slot.input.receiving == Receiving::Repeatedly {
            slot.input.receiving = Receiving::Stopping;
            self.ring.stop_receiving(token.bits());
        }
    }

    /// Output is wanted: true when the connection can go on at once, else it is on its way.
    fn start_send(&mut self, slot: &mut Slot, token: Token, desk: &mut Desk) -> bool {
        if slot.connection.is_secure() {
            return self.start_sealed(slot, token, desk);
        }
        let Some(out) = slot.connection.out() else { return false };
        match out.front() {
            _ if slot.output.waits_for_room => {}
            Front::Empty => {}
            Front::Memory if slot.output.sending => {}
            Front::Memory => self.send_memory(slot, token),
            Front::File { len, .. } => match self.send_reference(slot, token, desk) {
                Some(went_on) => return went_on,
                None => {
                    self.send_piece(slot, len, token);
                    self.read_piece(slot, token, desk);
                }
            },
        }
        false
    }

    /// Sends a large body by reference, whether or not the connection can go on at once; `None`
    /// when it is copied.
    fn send_reference(&mut self, slot: &mut Slot, token: Token, desk: &mut Desk) -> Option<bool> {
        let copying = slot.output.pieces.as_ref().is_some_and(|pieces| !pieces.is_empty());
        if copying || slot.output.sending || slot.on_disk.is_some() {
            return None;
        }
        let socket = match (&slot.output.reference, slot.socket.plain()) {
            (_, Some(plain)) => plain,
            (Reference::Installed(installed), None) => installed.as_fd(),
            (Reference::Wanted, None) => return Some(false),
            (Reference::Never, None) => return None,
            (Reference::No, None) if !goes_by_reference(&mut slot.connection, desk) => return None,
            (Reference::No, None) => {
                let wanted = self.ring.install(&slot.socket, token.bits());
                slot.output.reference = if wanted { Reference::Wanted } else { Reference::Never };
                return wanted.then_some(false);
            }
        };
        // The ring gives up on non-blocking sockets where it waits on blocking ones.
        if net::set_nonblocking(socket, true).is_err() {
            return None;
        }
        let sent = transmit_reference(socket, &mut slot.connection, desk);
        let blocks = net::set_nonblocking(socket, false);
        match sent {
            Some(Sent::Full) => self.wait_for_room(slot, token),
            Some(Sent::Failed(reason)) => slot.connection.send_failed(reason, desk),
            _ if blocks.is_err() => slot.connection.abort(CloseReason::ClientGone),
            _ => {}
        }
        if slot.connection.out().is_none() {
            slot.output.reference = Reference::No;
        }
        sent.map(|_| !slot.output.waits_for_room)
    }

    /// Sends no more before there is room in the socket.
    fn wait_for_room(&mut self, slot: &mut Slot, token: Token) {
        slot.output.waits_for_room = true;
        if slot.output.room_wait == RoomWait::No {
            self.ring.wait_for_room(&slot.socket, token.bits(), false);
            slot.output.room_wait = RoomWait::Once;
        }
    }

    /// A wait for room tells something. Where there is none, the client has closed its side: it
    /// waits until there is some.
    fn room_told(&mut self, slot: &mut Slot, token: Token, has_room: bool, more: bool) {
        if !more {
            slot.output.room_wait = RoomWait::No;
        }
        slot.output.waits_for_room &= !has_room;
        let waits = slot.output.waits_for_room && slot.ending.over.is_none();
        if waits && slot.output.room_wait == RoomWait::No {
            self.ring.wait_for_room(&slot.socket, token.bits(), true);
            slot.output.room_wait = RoomWait::Repeatedly;
        }
    }

    /// What a body, a backend or the end was waited for is there.
    pub(crate) fn waited(
        &mut self,
        slot: &mut Slot,
        token: Token,
        completion: Completion,
        desk: &mut Desk,
    ) {
        match completion {
            Completion::Disk(done) => self.disk_done(slot, done, desk),
            Completion::Piece(buffer, read) => self.piece_read(slot, token, buffer, read, desk),
            Completion::Installed(Ok(installed)) => {
                slot.output.reference = Reference::Installed(installed);
            }
            Completion::Installed(Err(_)) => slot.output.reference = Reference::Never,
            Completion::Writable(has_room, more) => self.room_told(slot, token, has_room, more),
            Completion::Shut => slot.ending.shutting = false,
            Completion::Unacknowledged(bytes) => {
                slot.ending.asking = false;
                match slot.ending.over {
                    Some(_) => slot.ending.untaken = Some(bytes),
                    None => slot.connection.expired(|| bytes, desk),
                }
            }
            _ => debug_assert!(false, "this was not asked for"),
        }
    }

    pub(super) fn send_memory(&mut self, slot: &mut Slot, token: Token) {
        // Closing the direct socket would not end the connection while another descriptor is open.
        if matches!(slot.output.reference, Reference::Installed(_)) {
            slot.output.reference = Reference::No;
        }
        if slot.connection.out().is_none() {
            return;
        }
        let mut outgoing = self.ring.outgoing();
        let complete = match (slot.connection.lend(), slot.connection.out()) {
            (Some((memory, range)), _) => {
                outgoing.own(memory, range);
                true
            }
            (None, out) => out.is_none_or(|out| gather(out, &mut outgoing, self.gather_max)),
        };
        let complete = complete && slot.connection.is_all_sealed();
        let ends = complete && slot.connection.closes() && slot.on_disk.is_none();
        let then = if ends && !slot.ending.apart && outgoing.len() <= CLOSING_BYTES_MAX {
            // An operation that is under way would keep the socket open.
            self.stop_receiving(slot, token);
            match (slot.input.receiving, slot.output.room_wait) {
                (Receiving::Once, _) | (_, RoomWait::Repeatedly) => Then::Nothing,
                _ => Then::Close,
            }
        } else if complete || self.gather_max == 1 {
            Then::Nothing
        } else {
            Then::More
        };
        slot.output.sending = true;
        slot.ending.closing = self.ring.send(&slot.socket, outgoing, token.bits(), then);
    }

    fn send_piece(&mut self, slot: &mut Slot, len: u64, token: Token) {
        let pieces = slot.output.pieces.get_or_insert_default();
        if slot.output.sending {
            return;
        }
        if let Some((buffer, range)) = pieces.send_next() {
            let then = if (range.len() as u64) < len { Then::More } else { Then::Nothing };
            let mut outgoing = self.ring.outgoing();
            outgoing.piece(buffer, range);
            slot.output.sending = true;
            self.ring.send(&slot.socket, outgoing, token.bits(), then);
        }
    }

    /// Reads ahead of what is sent, when the disk is free.
    pub(super) fn read_piece(&mut self, slot: &mut Slot, token: Token, desk: &Desk) {
        let (Some(pieces), Some(body)) = (&slot.output.pieces, slot.connection.body()) else {
            return;
        };
        if slot.on_disk.is_none()
            && slot.output.cut.is_none()
            && let Some(next) = pieces.next_read(&body, desk.settings.piece_bytes)
        {
            slot.on_disk = Some(Purpose::Piece);
            let buffer = self.ring.lend(next.len);
            self.ring.read_piece(&next.file, buffer, next.start, token.bits());
        }
    }

    /// A send is complete.
    pub(crate) fn sent(
        &mut self,
        slot: &mut Slot,
        token: Token,
        mut outgoing: Box<Outgoing>,
        (sent, closed): (io::Result<usize>, bool),
        desk: &mut Desk,
    ) {
        (slot.output.sending, slot.ending.closing) = (false, false);
        slot.output.kept = true;
        slot.ending.closed = closed;
        if let Some((buffer, range)) = outgoing.take_piece()
            && let Some(pieces) = &mut slot.output.pieces
        {
            pieces.sent(buffer, range, *sent.as_ref().unwrap_or(&0), &mut self.ring);
        }
        if let Some(memory) = outgoing.take_owned() {
            slot.connection.give_back(memory);
        }
        self.ring.keep_outgoing(outgoing);
        match sent {
            _ if std::mem::take(&mut slot.ending.says_end) => {}
            Ok(n) => slot.connection.sent(n as u64, desk),
            Err(_) if slot.ending.over.is_some() => {}
            Err(error) if uring::is_undone(&error) => {}
            // The kernel gives up waiting for room where the client has closed its side.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.wait_for_room(slot, token);
            }
            Err(_) => slot.connection.abort(CloseReason::ClientGone),
        }
        if let Some(reason) = slot.output.cut.take() {
            slot.connection.send_failed(reason, desk);
        }
        if !slot.connection.has_output() {
            self.drop_pieces(slot);
        }
    }

    /// The body that is being sent cannot be sent to its end: what the ring is sending leaves
    /// first.
    fn send_failed(&mut self, slot: &mut Slot, reason: CloseReason, desk: &mut Desk) {
        if slot.output.sending {
            slot.output.cut = Some(reason);
            return;
        }
        slot.connection.send_failed(reason, desk);
        self.drop_pieces(slot);
    }

    fn drop_pieces(&mut self, slot: &mut Slot) {
        if let Some(pieces) = slot.output.pieces.take() {
            pieces.give_back(&mut self.ring);
        }
    }

    /// A piece of a large body is read.
    fn piece_read(
        &mut self,
        slot: &mut Slot,
        token: Token,
        buffer: Lent,
        read: io::Result<usize>,
        desk: &mut Desk,
    ) {
        slot.on_disk = None;
        let (Some(pieces), Some(body), None) =
            (&mut slot.output.pieces, slot.connection.body(), slot.ending.over)
        else {
            return self.ring.take_back(buffer);
        };
        match pieces.read(buffer, read, &body, &mut self.ring) {
            Ok(Some(op)) => {
                slot.on_disk = Some(Purpose::Piece);
                if let Some(op) = self.ring.disk(op, token.bits()) {
                    self.disk_done(slot, op.perform(), desk);
                }
            }
            Ok(None) => {}
            Err(reason) => self.send_failed(slot, reason, desk),
        }
    }

    /// Submits an operation of a plan. One that the ring does not have takes the plan to a thread.
    pub(crate) fn start_disk(
        &mut self,
        slot: &mut Slot,
        token: Token,
        mut plan: Box<Plan>,
        op: Op,
    ) {
        let rest = match self.ring.disk(op, token.bits()) {
            None => {
                slot.on_disk = Some(Purpose::Plan);
                Some(plan)
            }
            // Copying what is in memory waits for nothing.
            Some(op @ Op::Keep { .. }) => {
                plan.done(op.perform());
                Some(plan)
            }
            Some(op) => {
                plan.put_back(op);
                let done = self.offload.give(token, plan);
                slot.on_disk = done.is_none().then_some(Purpose::Plan);
                done
            }
        };
        slot.plan = rest;
    }

    /// A step of a plan, or a look at the file of a large body, is done.
    fn disk_done(&mut self, slot: &mut Slot, done: Done, desk: &mut Desk) {
        match slot.on_disk.take() {
            Some(Purpose::Plan) => {
                if let Some(plan) = &mut slot.plan {
                    plan.done(done);
                }
            }
            Some(Purpose::Piece) if slot.ending.over.is_none() => {
                let (Some(pieces), Some(body)) = (&mut slot.output.pieces, slot.connection.body())
                else {
                    return;
                };
                let checked = match done {
                    Done::Stamped(now) => pieces.checked(&now, &body),
                    _ => Err(CloseReason::FileFailed),
                };
                if let Err(reason) = checked {
                    self.send_failed(slot, reason, desk);
                }
            }
            Some(Purpose::Piece) => {}
            None => debug_assert!(false, "this was not asked for"),
        }
    }

    /// How much the socket holds, if that matters; `None` when the answer comes later. A send that
    /// closes the socket is taken back first: where that holds an answer before it, it may wait for
    /// ever. What was not received for want of a buffer, in the turn that asked at `now_ms`, is
    /// looked at in the next.
    pub(crate) fn in_socket(&mut self, slot: &mut Slot, token: Token, now_ms: u64) -> Option<u64> {
        if slot.input.ran_out_ms == now_ms {
            return None;
        }
        if !slot.connection.is_judged_by_socket() {
            return Some(0);
        }
        if slot.ending.closing {
            slot.ending.apart = true;
            self.ring.cancel(token.bits());
        }
        if slot.ending.asking || slot.ending.closed || slot.ending.closing {
            return None;
        }
        let answer = self.ring.unacknowledged(&slot.socket, token.bits());
        slot.ending.asking = answer.is_none();
        answer
    }

    /// Whether nothing is under way for a connection that is over, and it is known how much its
    /// socket holds, if the log waits for that.
    pub(crate) fn is_done(&mut self, slot: &mut Slot, token: Token) -> bool {
        let is_known = slot.ending.untaken.is_some() || slot.ending.closed;
        if slot.is_busy() || is_known || !slot.connection.has_open_lines() {
            return !slot.is_busy();
        }
        slot.ending.untaken = match slot.socket.plain() {
            Some(plain) => Some(net::untaken(plain)),
            None => self.ring.unacknowledged(&slot.socket, token.bits()),
        };
        slot.ending.asking = slot.ending.untaken.is_none();
        !slot.ending.asking
    }

    /// Does what a connection wants of its socket beside receiving and sending.
    pub(crate) fn serve_socket(
        &mut self,
        need: SocketNeed,
        slot: &mut Slot,
        token: Token,
        desk: &Desk,
    ) {
        match need {
            SocketNeed::Shut => {
                slot.ending.shutting = self.ring.shut_write(&slot.socket, token.bits());
                slot.connection.shut(desk);
            }
            SocketNeed::Acknowledge => {
                self.ring.acknowledge(&slot.socket);
                slot.connection.acknowledged();
            }
            SocketNeed::Pace(bytes_per_s) => {
                self.ring.set_pacing(&slot.socket, bytes_per_s);
                slot.connection.paced(bytes_per_s);
            }
            SocketNeed::Unsent(bytes) => {
                self.ring.set_unsent(&slot.socket, bytes);
                slot.connection.bounded(bytes);
            }
        }
    }

    /// What is under way ends soon. A socket that may be closed is not touched: another connection
    /// may have its number.
    fn interrupt(&mut self, slot: &Slot, token: Token) {
        if slot.ending.closing {
            self.ring.cancel(token.bits());
        } else if slot.connection.is_cut_short() {
            // Shutting it down would be the orderly end that it must not have.
            self.ring.stop(token.bits());
        } else if !slot.ending.closed {
            self.ring.interrupt(&slot.socket);
            if slot.output.room_wait == RoomWait::Repeatedly {
                self.ring.stop_waiting_for_room(token.bits());
            }
        }
    }

    /// The process ends: so do the connections that it still has, in the way that tells their
    /// clients whether an answer is whole. How many they are.
    pub(crate) fn leave(&mut self, slots: &mut Slots<Slot>, desk: &mut Desk) -> usize {
        for token in slots.tokens() {
            let Some(slot) = slots.find(token) else { continue };
            slot.connection.cut_off();
            self.say_last_words(slot, token);
            let (log, now) = desk.log();
            let untaken = || slot.socket.plain().map_or(0, net::untaken);
            slot.connection.cut_lines(log, CloseReason::Draining, untaken, now);
            if !slot.ending.closed && slot.connection.is_cut_short() {
                self.ring.reset_on_close(&slot.socket);
            }
        }
        // It fails only when the ring has failed, which was said.
        let _ = self.ring.submit();
        slots.len()
    }

    /// Closes the socket of a connection that is over, and ends it.
    pub(crate) fn close(
        &mut self,
        mut slot: Slot,
        token: Token,
        reason: CloseReason,
        desk: &mut Desk,
    ) {
        self.drop_pieces(&mut slot);
        self.links.abandon(slot.link, token, &mut self.ring);
        if !slot.ending.closed {
            if slot.connection.is_cut_short() {
                self.ring.reset_on_close(&slot.socket);
            }
            self.ring.close(slot.socket);
        }
        let untaken = slot.ending.untaken.unwrap_or(0);
        slot.connection.end(desk, reason, || untaken);
    }
}

/// What a ring has here, and what stands for it where it has not.
pub(crate) fn found() -> Vec<(String, String)> {
    let found = Features::ALL.probed();
    let tell = |name: &str, has: bool, [with, without]: [&str; 2]| {
        (name.to_string(), if has { with } else { without }.to_string())
    };
    let buffers = ["taken by the kernel when bytes come", "one for each connection that waits"];
    let receives = ["started once", "started for each request"];
    let sockets = [
        "direct descriptors, unless clients' addresses are asked for",
        "descriptors of the process",
    ];
    let accepts = "one that goes on by itself, or as many single ones as accept.limit says";
    let work = ["when completions are asked for", "whenever the kernel interrupts"];
    let closes = ["linked to the last send", "after the last send"];
    let pieces = ["into memory registered with the ring", "into memory of the process"];
    let large = ["by sendfile on a descriptor made for them", "copied, from a direct socket"];
    vec![
        ("accepting".to_string(), accepts.to_string()),
        tell("work on completions", uring::defers(), work),
        tell("closing", found.linked, closes),
        tell("receive buffers", found.provided, buffers),
        tell("receives of a kept client", found.multishot, receives),
        tell("sockets", found.direct, sockets),
        tell("large bodies in memory", found.installs, large),
        tell("pieces of large bodies from the disk", found.registered, pieces),
    ]
}

/// Puts completions into an order; those of one queue stay as they came.
fn arrange(found: &mut [(u64, Completion)], order: CompletionOrder) {
    if let Some(ranks) = order.ranks() {
        found.sort_by_key(|(token, completion)| ranks[queue_of(*token, completion)]);
    }
}

/// The queue that a completion belongs to: writes, reads, accepts. All that a backend is sent or
/// says is one queue, since what it says to a request comes after that was sent.
fn queue_of(token: u64, completion: &Completion) -> usize {
    match completion {
        _ if Operated::has(token) => 1,
        Completion::Sent(..) | Completion::Writable(..) | Completion::Shut => 0,
        Completion::Connected(..) => 2,
        _ => 1,
    }
}

/// Appends the memory segments at the front; true when nothing follows them.
fn gather(out: &Out, outgoing: &mut Outgoing, most: usize) -> bool {
    let mut count = 0;
    for memory in out.memory().take(most) {
        match memory {
            Memory::Inline(bytes) => outgoing.copy(bytes),
            Memory::Bytes(bytes) => outgoing.share(bytes),
        }
        count += 1;
    }
    count == out.segments()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_are_acted_on_in_the_order_of_their_letters() {
        let arranged = |order| {
            let refused = || io::Error::from(io::ErrorKind::ConnectionAborted);
            let mut found = vec![
                (1, Completion::Readable(true)),
                (2, Completion::Connected(Err(refused()), true)),
                (3, Completion::Sent(Box::default(), Ok(1), false)),
                (4, Completion::Received(Err(refused()), false)),
                (5, Completion::Writable(true, false)),
            ];
            arrange(&mut found, order);
            found.into_iter().map(|(token, _)| token).collect::<Vec<_>>()
        };
        for (order, expected) in [
            (CompletionOrder::Arrival, [1, 2, 3, 4, 5]),
            (CompletionOrder::Wra, [3, 5, 1, 4, 2]),
            (CompletionOrder::War, [3, 5, 2, 1, 4]),
            (CompletionOrder::Rwa, [1, 4, 3, 5, 2]),
            (CompletionOrder::Raw, [1, 4, 2, 3, 5]),
            (CompletionOrder::Awr, [2, 3, 5, 1, 4]),
            (CompletionOrder::Arw, [2, 1, 4, 3, 5]),
        ] {
            assert_eq!(arranged(order), expected, "{order:?}");
        }
    }
}
