//! One connection of an event loop: what it waits for, and how far it goes in a turn.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use flyball_http::CloseReason;
use flyball_observe::counters::Counter;
use flyball_site::Plan;
use flyball_sys::net;
use flyball_sys::owned::Owned;
use flyball_sys::readiness::{Interest, Readiness};

use super::DiskWork;
use crate::awaited::{Awaited, BackendWatch, Client};
use crate::desk::Desk;
use crate::exchange::{Beside, Exchange, Step};
use crate::limits::READS_PER_TURN;
use crate::slots::{Slots, Token};
use crate::timers::Timers;
use crate::transmit::{Sent, transmit};

/// A connection in its slot.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) socket: Owned,
    pub(super) exchange: Exchange,
    pub(super) watched: Interest,
    pub(super) ready: Interest,
    pub(super) hangup: bool,
    /// The backend that works for it.
    pub(super) backend: Option<Box<Backend>>,
    /// When it was last worked on, as a count of turns; only where that orders the work.
    pub(super) worked: u64,
    /// Its turn is due: it stands in the list of this work phase or in that of the next, once.
    pub(super) queued: bool,
}

/// The backend of a slot.
#[derive(Debug, Default)]
pub(super) struct Backend {
    /// What is waited for when the turn ends.
    pub(super) wanted: Option<Awaited>,
    /// What the event mechanism knows of it.
    pub(super) watch: BackendWatch,
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

/// What a connection waits for when its turn ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// These events.
    Wait(Interest),
    /// Its next turn: it could go on.
    Again,
    /// It is over.
    Over(CloseReason),
}

pub(super) fn open_slot(
    socket: Owned,
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
        backend: None,
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
pub(super) fn drive<D: DiskWork>(
    slot: &mut Slot,
    token: Token,
    desk: &mut Desk,
    disk: &mut D,
) -> Turn {
    let turn = go_on(slot, token, desk, disk);
    if !matches!(turn, Turn::Wait(interest) if interest.write) {
        return turn;
    }
    match slot.exchange.beside(desk) {
        Beside::Nothing => turn,
        Beside::Await(awaited) => {
            slot.backend.get_or_insert_default().wanted = Some(awaited);
            turn
        }
        Beside::Disk(plan) => match disk.submit(token, plan) {
            Some(done) => resume(slot, *done, token, desk, disk).unwrap_or(Turn::Again),
            None => Turn::Wait(Interest::NONE),
        },
    }
}

fn go_on<D: DiskWork>(slot: &mut Slot, token: Token, desk: &mut Desk, disk: &mut D) -> Turn {
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
            Step::Write if !may_write(slot, desk) => return Turn::Wait(Interest::WRITE),
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
                if !may_write(slot, desk) {
                    match slot.ready.read {
                        true => continue,
                        false => return Turn::Wait(Interest::BOTH),
                    }
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
                        // A body that is produced here may be long: others have their turn.
                        if slot.exchange.is_producing() {
                            return Turn::Again;
                        }
                    }
                    None => return Turn::Wait(Interest::NONE),
                }
            }
            Step::Await(awaited) => match await_backend(slot, awaited, &mut reads, desk) {
                Some(turn) => return turn,
                None => continue,
            },
            Step::Waiting => return Turn::Wait(Interest::NONE),
            Step::Shut => shut(slot, desk),
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

pub(super) fn finish<D: DiskWork>(
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

fn shut(slot: &mut Slot, desk: &Desk) {
    // It fails only when the peer has gone, which reading will show.
    let _ = net::shutdown_write(&slot.socket);
    slot.ready.read = true;
    slot.exchange.shut(desk);
}

/// While a backend works: reads what is wanted of the client, or sees whether it has left; `None`
/// when something came of that.
fn await_backend(
    slot: &mut Slot,
    awaited: Awaited,
    reads: &mut u32,
    desk: &mut Desk,
) -> Option<Turn> {
    let mut interest = Interest::READ;
    if slot.ready.read {
        *reads += 1;
        if *reads > READS_PER_TURN {
            return Some(Turn::Again);
        }
        if awaited.reads {
            receive(slot, desk);
            return None;
        }
        match Client::look(&slot.socket) {
            Client::Waits => slot.ready.read = false,
            Client::Sends => interest = Interest::NONE,
            Client::Left => {
                slot.exchange.client_left(desk);
                return None;
            }
        }
    }
    slot.backend.get_or_insert_default().wanted = Some(awaited);
    Some(Turn::Wait(interest))
}

/// Whether output may be sent: at once, or when room was reported (M54).
fn may_write(slot: &Slot, desk: &Desk) -> bool {
    desk.settings.eager_write || slot.ready.write
}

/// Reads once. A read that does not fill the buffer has emptied the socket, so that the next one
/// waits for an event, unless each read shall go on until one would block (M54); after a hang-up
/// there is still the end of the stream to be read.
fn receive(slot: &mut Slot, desk: &mut Desk) {
    let space = slot.exchange.space(desk);
    let room = space.len();
    let received = match desk.only_sendfile_waits {
        false => net::recv(&slot.socket, space),
        true => net::recv_now(&slot.socket, space),
    };
    match received {
        Ok(0) => slot.exchange.eof(desk),
        Ok(n) => {
            slot.ready.read = n == room || slot.hangup || desk.settings.full_read;
            slot.exchange.received(n, desk);
            if desk.ends_read() {
                slot.exchange.abort(CloseReason::LabStage);
            }
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
    let sent = transmit(&slot.socket, &mut slot.exchange, desk);
    if !desk.settings.eager_write {
        // An edge is told again only after the socket was full.
        let edge = desk.settings.events.is_edge_triggered();
        slot.ready.write = edge && sent != Sent::Full;
    }
    match sent {
        Sent::All => None,
        Sent::Full => Some(Turn::Wait(Interest::WRITE)),
        Sent::Piece if !may_write(slot, desk) => Some(Turn::Wait(Interest::WRITE)),
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
            slot.exchange.send_failed(reason, desk);
            None
        }
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
