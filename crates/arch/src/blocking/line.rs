//! One connection of a thread that blocks: which call it waits in.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use flyball_conn::{Connection, Peer};
use flyball_http::{CloseReason, Remote};
use flyball_site::Plan;
use flyball_sys::owned::Owned;
use flyball_sys::readiness::Interest;

use super::is_timeout;
use crate::awaited::{Awaited, Client};
use crate::desk::Desk;
use crate::drive::{Port, Ready, Turn, drive};
use crate::kernel::net;
use crate::links::{Blocking, Held, Pool, blocking};
use crate::transmit::{Sent, transmit};
use crate::worker::BLOCKING_TICK_MS;

/// A connection and its socket.
pub(super) struct Line<'a> {
    socket: &'a Owned,
    pub(super) connection: Connection,
    ready: Ready,
    /// Its link to a server.
    pub(super) link: Held,
    /// Nothing came for a while: no buffer is held while more is waited for.
    quiet: bool,
    /// Since when its backend is waited for, in monotonic milliseconds.
    asked_ms: Option<u64>,
    /// Its client has sent more than is wanted: its leaving is not seen behind that.
    sends_ahead: bool,
}

/// A thread's way to work on its connection: it sends and does disk work in calls that block, and
/// receives between two turns, when that is all that is wanted.
struct LinePort<'a> {
    socket: &'a Owned,
    ready: &'a mut Ready,
    link: &'a mut Held,
}

impl Port for LinePort<'_> {
    const RECEIVES: bool = false;

    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn ready(&mut self) -> &mut Ready {
        self.ready
    }

    fn link(&mut self) -> (&mut Held, impl Pool) {
        (self.link, Blocking)
    }

    /// Sending may wait for a client that first sends all it has.
    fn may_send(&mut self, reads: bool, _: &Desk) -> bool {
        !reads || self.ready.write
    }

    fn send(&mut self, connection: &mut Connection, desk: &mut Desk) -> Sent {
        self.ready.write = false;
        let sent = transmit(self.socket, connection, desk);
        desk.end_turn();
        sent
    }

    fn perform(
        &mut self,
        mut plan: Box<Plan>,
        _: &mut Connection,
        desk: &mut Desk,
    ) -> Option<Box<Plan>> {
        plan.run();
        desk.tick();
        Some(plan)
    }
}

impl<'a> Line<'a> {
    /// A connection that was accepted. No call on its socket waits for a slow client for more than
    /// a few ticks: over TCP the time-out of a socket is that of a whole send; over a Unix-domain
    /// socket it begins again with each buffer that the client has taken, so that room is waited
    /// for by poll(2).
    pub(super) fn new(socket: &'a Owned, peer: Peer, desk: &mut Desk) -> Line<'a> {
        desk.sender.only_sendfile_waits = matches!(peer.remote, Remote::Unix);
        let connection = Connection::new(peer, desk);
        let (ready, link) = (Ready::default(), None);
        Line { socket, connection, ready, link, quiet: false, asked_ms: None, sends_ahead: false }
    }

    pub(super) fn turn(&mut self, desk: &mut Desk) -> Turn {
        let Line { socket, connection, ready, link, .. } = self;
        drive(&mut LinePort { socket, ready, link }, connection, desk)
    }

    /// Waits for what is wanted, at most for a tick. Blocks.
    pub(super) fn wait(&mut self, interest: Interest, awaited: Option<Awaited>, desk: &mut Desk) {
        match (interest, awaited) {
            (Interest::READ, None) => self.receive(desk),
            (Interest::NONE, None) => self.await_deadline(desk),
            (Interest::BOTH, None) => self.either(desk),
            (interest, Some(awaited)) if !interest.write => self.await_backend(&awaited, desk),
            // Nothing was sent where input is wanted as well, nor by a call that does not wait.
            (interest, awaited)
                if interest.read
                    || self.connection.is_relayed()
                    || desk.sender.only_sendfile_waits =>
            {
                self.await_room(interest, awaited, desk);
            }
            // The call has waited, and a backend may have said something meanwhile.
            _ => {
                blocking::told(&mut self.link);
                self.look_around(desk);
            }
        }
    }

    /// Blocks in the call while reading is all that is wanted.
    fn receive(&mut self, desk: &mut Desk) {
        self.asked_ms = None;
        desk.publish_when_due();
        desk.show(Some(self.connection.standing()));
        if self.quiet {
            self.connection.rest(desk);
            desk.rest();
            let came = net::wait_readable(self.socket, desk.wait_ms(BLOCKING_TICK_MS));
            desk.tick();
            match came {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => return self.connection.abort(CloseReason::SocketError),
            }
        }
        let received = net::recv(self.socket, self.connection.space(desk));
        desk.begin_turn();
        self.received(received, desk);
    }

    /// Takes what is there.
    pub(super) fn receive_now(&mut self, desk: &mut Desk) {
        let received = net::recv_now(self.socket, self.connection.space(desk));
        desk.begin_turn();
        self.received(received, desk);
    }

    fn received(&mut self, received: io::Result<usize>, desk: &mut Desk) {
        (self.quiet, self.sends_ahead) = (false, false);
        match received {
            Ok(0) => self.connection.eof(desk),
            Ok(n) => self.connection.received(n, desk),
            Err(error) if is_timeout(&error) => self.quiet = true,
            Err(_) => self.connection.client_left(desk),
        }
    }

    /// Reads and writes are both wanted: waits for either.
    fn either(&mut self, desk: &mut Desk) {
        let ready = net::wait_either(self.socket, desk.wait_ms(BLOCKING_TICK_MS));
        desk.tick();
        match ready {
            Ok((false, false)) => {}
            Ok((true, _)) => self.receive_now(desk),
            Ok((false, true)) => self.ready.write = true,
            Err(_) => self.connection.abort(CloseReason::SocketError),
        }
    }

    /// Nothing is to be done before the deadline, unless the connection fails.
    fn await_deadline(&mut self, desk: &mut Desk) {
        self.look_around(desk);
        let left_ms = self.connection.deadline().saturating_sub(desk.now.ms());
        let left_ms = desk.wait_ms(left_ms.min(BLOCKING_TICK_MS));
        let failed = net::wait_for_failure(self.socket, left_ms);
        desk.tick();
        if !matches!(failed, Ok(false)) {
            self.connection.abort(CloseReason::ClientGone);
        }
    }

    /// A backend works: waits for it, for what is wanted of the client, and for its leaving.
    fn await_backend(&mut self, awaited: &Awaited, desk: &mut Desk) {
        self.connection.rest(desk);
        desk.publish_when_due();
        desk.show(Some(self.connection.standing()));
        let asked_ms = *self.asked_ms.get_or_insert(desk.now.ms());
        let is_answer = !awaited.reads && awaited.interest == Interest::READ;
        if let Some(link) = self.link.as_mut().filter(|link| link.blocks && is_answer)
            && desk.now.ms() < asked_ms + BLOCKING_TICK_MS
        {
            // Most answers come soon. Meanwhile nothing is known of the client.
            blocking::receive(link, &mut self.connection);
            return desk.tick();
        }
        let reads = awaited.reads || self.connection.hears();
        let is_ahead = self.sends_ahead && !reads;
        let client = if is_ahead { Interest::NONE } else { Interest::READ };
        let two = [(self.socket.as_fd(), client), (awaited.descriptor.as_fd(), awaited.interest)];
        let ready = net::wait_for_two(two, desk.wait_ms(BLOCKING_TICK_MS));
        desk.tick();
        let Ok([by_client, by_backend]) = ready else {
            return self.connection.abort(CloseReason::SocketError);
        };
        if by_backend {
            blocking::told(&mut self.link);
        }
        match by_client {
            false => {}
            true if reads => self.receive_now(desk),
            // Of one that sends ahead only that both directions have ended is told.
            true if is_ahead => self.connection.client_left(desk),
            true => match Client::look(self.socket) {
                Client::Left => self.connection.client_left(desk),
                Client::Sends => self.sends_ahead = true,
                Client::Waits => {}
            },
        }
    }

    /// There is output, and a backend works or answers: waits for the client and for it.
    fn await_room(&mut self, client: Interest, awaited: Option<Awaited>, desk: &mut Desk) {
        self.look_around(desk);
        let left_ms = desk.wait_ms(BLOCKING_TICK_MS);
        let ready = match &awaited {
            Some(Awaited { descriptor, interest, .. }) => {
                let two = [(self.socket.as_fd(), client), (descriptor.as_fd(), *interest)];
                net::wait_for_two(two, left_ms)
            }
            None => net::wait_writable(self.socket, left_ms).map(|room| [room, false]),
        };
        desk.tick();
        match ready {
            Ok([by_client, by_backend]) => {
                if by_backend {
                    blocking::told(&mut self.link);
                }
                if by_client && client.read {
                    self.ready.write = net::wait_writable(self.socket, 0).unwrap_or(true);
                    self.receive_now(desk);
                }
            }
            Err(_) => self.connection.abort(CloseReason::SocketError),
        }
    }

    pub(super) fn look_around(&mut self, desk: &mut Desk) {
        desk.tick();
        desk.publish_when_due();
        desk.show(Some(self.connection.standing()));
    }
}
