//! One connection of an event loop: what it waits for, and what the loop does for it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use flyball_conn::{Connection, Peer};
use flyball_site::Plan;
use flyball_sys::owned::Owned;
use flyball_sys::readiness::{Interest, Readiness};

use super::DiskWork;
use crate::desk::Desk;
use crate::drive::{Port, Ready, Turn, drive, resume};
use crate::event_sources;
use crate::kernel::{clock, net};
use crate::limits::BLOCKING_TICK_MS;
use crate::links::{Held, Links, LinksOf, Pool};
use crate::slots::{Slots, Token};
use crate::timers::Timers;
use crate::transmit::{Sent, transmit};

/// A connection in its slot.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) socket: Owned,
    pub(super) connection: Connection,
    pub(super) watched: Interest,
    pub(super) ready: Ready,
    /// Its link to a server.
    pub(super) link: Held,
    /// When it was last worked on, as a count of turns; only where that orders the work.
    pub(super) worked: u64,
    /// Its turn is due: it stands in the list of this work phase or in that of the next, once.
    pub(super) queued: bool,
}

impl Slot {
    /// Puts it into a list of turns unless its turn is due already: whoever is carried over and
    /// reported ready as well has one turn, like everybody else.
    pub(super) fn enqueue(&mut self, token: Token, list: &mut Vec<Token>) {
        if !std::mem::replace(&mut self.queued, true) {
            list.push(token);
        }
    }
}

pub(super) fn open_slot(
    socket: Owned,
    peer: Peer,
    desk: &mut Desk,
    slots: &mut Slots<Slot>,
    timers: &mut Timers,
) -> Token {
    let connection = Connection::new(peer, desk);
    let deadline = connection.deadline();
    let token = slots.insert(Slot {
        socket,
        connection,
        watched: Interest::NONE,
        ready: Ready::default(),
        link: None,
        worked: 0,
        queued: false,
    });
    timers.set(token.index(), deadline);
    token
}

/// Tells the event mechanism what a connection waits for, if it does not know.
pub(super) fn watch(
    mechanism: &mut dyn Readiness,
    slots: &mut Slots<Slot>,
    token: Token,
    interest: Interest,
) {
    let Some(slot) = slots.find(token) else { return };
    // Work is under way: an event now would be told again and again. It is rare that input comes,
    // so an interest in that is left in place until then; room in the socket does come.
    let is_left = (slot.watched, interest) == (Interest::READ, Interest::NONE);
    if !is_left || slot.ready.read || slot.ready.hangup {
        let fd = slot.socket.as_fd();
        slot.watched = event_sources::watch(mechanism, fd, token, slot.watched, interest);
    }
}

/// How long a call that waits may take before its client counts as slow, in milliseconds.
const SLOW_MS: u64 = BLOCKING_TICK_MS / 2;

/// An event loop's way to work on a connection.
struct LoopPort<'a> {
    socket: &'a Owned,
    ready: &'a mut Ready,
    link: &'a mut Held,
    links: &'a mut Links,
    token: Token,
    disk: &'a mut dyn DiskWork,
}

impl Port for LoopPort<'_> {
    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn ready(&mut self) -> &mut Ready {
        self.ready
    }

    fn link(&mut self) -> (&mut Held, impl Pool) {
        (self.link, LinksOf { links: self.links, connection: self.token })
    }

    fn receive(&mut self, space: &mut [u8], desk: &Desk) -> io::Result<usize> {
        match desk.sender.only_sendfile_waits {
            false => net::recv(self.socket, space),
            true => net::recv_now(self.socket, space),
        }
    }

    fn receives_all(&self, desk: &Desk) -> bool {
        desk.settings.habits().full_read
    }

    /// At once, or when room was reported (M54).
    fn may_send(&mut self, _reads: bool, desk: &Desk) -> bool {
        desk.settings.habits().eager_write || self.ready.write
    }

    fn send(&mut self, connection: &mut Connection, desk: &mut Desk) -> Sent {
        let began_ms = desk.sender.only_sendfile_waits.then(clock::monotonic_ms);
        let sent = transmit(self.socket, connection, desk);
        if began_ms.is_some_and(|began_ms| clock::monotonic_ms() >= began_ms + SLOW_MS) {
            // The loop waits for a slow client once. If this fails, it does so again.
            let _ = net::set_nonblocking(self.socket, true);
        }
        if !desk.settings.habits().eager_write {
            // An edge is told again only after the socket was full.
            let edge = desk.settings.events.is_edge_triggered();
            self.ready.write = edge && sent != Sent::Full;
        }
        sent
    }

    fn perform(&mut self, plan: Box<Plan>, _: &mut Connection, _: &mut Desk) -> Option<Box<Plan>> {
        self.disk.submit(self.token, plan)
    }
}

/// A connection's turn; `done` is work for it that has come back.
pub(super) fn turn(
    slot: &mut Slot,
    links: &mut Links,
    token: Token,
    done: Option<Box<Plan>>,
    desk: &mut Desk,
    disk: &mut dyn DiskWork,
) -> Turn {
    let Slot { socket, connection, ready, link, .. } = slot;
    let mut port = LoopPort { socket, ready, link, links, token, disk };
    match done {
        Some(done) => resume(&mut port, connection, done, desk),
        None => drive(&mut port, connection, desk),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_sys::readiness;
    use std::os::unix::net::UnixStream;

    #[test]
    fn room_in_the_socket_wakes_no_loop_that_waits_for_the_disk() {
        for name in ["select", "poll", "epoll"] {
            let (mut desk, mut slots, mut timers) =
                (Desk::for_tests(), Slots::default(), Timers::new(0));
            let (socket, _client) = UnixStream::pair().unwrap();
            let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 1)).into();
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
