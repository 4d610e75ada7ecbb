//! A connection of a ring: what is under way for it, and what came before it was wanted.

use std::io;

use flyball_conn::Connection;
use flyball_http::CloseReason;
use flyball_site::Plan;
use flyball_sys::owned::Owned;
use flyball_sys::readiness::Interest;

use super::pieces::Pieces;
use crate::desk::Desk;
use crate::kernel::uring::Socket;
use crate::links::Held;

/// What a disk operation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The next step of the plan.
    Plan,
    /// The next piece of a large body.
    Piece,
}

/// The receive of a connection that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiving {
    /// None.
    No,
    /// It completes once.
    Once,
    /// It goes on by itself.
    Repeatedly,
    /// It went on by itself, and was cancelled.
    Stopping,
}

/// What came in while nothing was wanted. At most what comes between two turns: the receive that
/// goes on by itself is stopped then, for good.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    pub(super) bytes: Vec<u8>,
    pub(super) at: usize,
    pub(super) end: Option<io::Result<()>>,
}

/// What lets a large body go by reference: the ring has no sendfile, and a direct socket no
/// descriptor.
#[derive(Debug)]
pub(super) enum Reference {
    /// Nothing.
    No,
    /// A descriptor is being made.
    Wanted,
    /// It is there, until the body is sent.
    Installed(Owned),
    /// There is none to be had: bodies are copied.
    Never,
}

/// The wait for room in the socket that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoomWait {
    /// None.
    No,
    /// It completes once.
    Once,
    /// It goes on by itself: the client has closed its side, of which a wait that completes once
    /// tells at once, room or not.
    Repeatedly,
}

/// What comes in.
pub(super) struct Input {
    pub(super) receiving: Receiving,
    /// Whether the machine wants it.
    pub(super) wanted: bool,
    pub(super) ahead: Option<Box<Ahead>>,
    /// Its client sends more than is wanted: one receive at a time holds it back.
    pub(super) sends_ahead: bool,
    /// Provided buffers ran out: the next receive brings its own.
    pub(super) needs_own: bool,
    /// When they did: what had come by then may be unseen in that turn. 0 if not.
    pub(super) ran_out_ms: u64,
}

/// What leaves.
pub(super) struct Output {
    pub(super) sending: bool,
    /// An answer was sent before: the connection is one that is kept.
    pub(super) kept: bool,
    /// Why the body cannot be sent to its end, while a part of it is being sent.
    pub(super) cut: Option<CloseReason>,
    /// Nothing more is sent before there is room in the socket.
    pub(super) waits_for_room: bool,
    pub(super) room_wait: RoomWait,
    pub(super) pieces: Option<Box<Pieces>>,
    pub(super) reference: Reference,
}

/// How far the end of a connection has come.
#[derive(Default)]
pub(super) struct Ending {
    /// It is over, once nothing is under way.
    pub(super) over: Option<CloseReason>,
    /// The socket is asked what it holds: time is up, or the log tells what its client has.
    pub(super) asking: bool,
    /// What the socket held when it was over, once that is known.
    pub(super) untaken: Option<u64>,
    /// The write side is being shut down.
    pub(super) shutting: bool,
    /// A send is under way that closes the socket: it may be closed already.
    pub(super) closing: bool,
    /// The socket was closed with the last send.
    pub(super) closed: bool,
    /// What is being sent are the last words of TLS, and none of its output.
    pub(super) says_end: bool,
    /// What is sent does not close the socket with it any more, so that its time can be judged.
    pub(super) apart: bool,
}

/// A connection in its slot: at most one receive, one send and one disk operation are under way.
pub(crate) struct Slot {
    pub(super) socket: Socket,
    pub(super) connection: Connection,
    pub(super) input: Input,
    pub(super) output: Output,
    pub(super) ending: Ending,
    /// The disk operation that is under way; its completion does not say what it was for.
    pub(super) on_disk: Option<Purpose>,
    pub(super) plan: Option<Box<Plan>>,
    /// Its link to a server, and what that is waited for.
    pub(super) link: Held,
    pub(super) link_wanted: Interest,
}

impl Slot {
    /// A connection that was accepted.
    pub(super) fn new(socket: Socket, connection: Connection) -> Slot {
        Slot {
            socket,
            connection,
            input: Input {
                receiving: Receiving::No,
                wanted: false,
                ahead: None,
                sends_ahead: false,
                needs_own: false,
                ran_out_ms: 0,
            },
            output: Output {
                sending: false,
                kept: false,
                cut: None,
                waits_for_room: false,
                room_wait: RoomWait::No,
                pieces: None,
                reference: Reference::No,
            },
            ending: Ending::default(),
            on_disk: None,
            plan: None,
            link: None,
            link_wanted: Interest::NONE,
        }
    }

    /// Whether nothing has come in that the machine has not seen.
    pub(super) fn is_quiet(&self) -> bool {
        self.input.ahead.is_none() && !self.output.sending && self.on_disk.is_none()
    }

    /// Whether a plan can be performed: one at a time is.
    pub(super) fn may_plan(&self) -> bool {
        self.plan.is_none() && self.on_disk != Some(Purpose::Plan)
    }

    /// A plan is done: the next that follows from it is performed.
    pub(super) fn done(&mut self, plan: Plan, desk: &mut Desk) {
        let ask = plan.asked_by();
        self.connection.done(plan, desk);
        self.plan = self.connection.take_plan(ask);
    }

    pub(super) fn is_busy(&self) -> bool {
        let receiving = self.input.receiving != Receiving::No;
        let referring = self.output.room_wait != RoomWait::No
            || matches!(self.output.reference, Reference::Wanted);
        let ending = self.ending.asking || self.ending.shutting;
        receiving || self.output.sending || referring || ending || self.on_disk.is_some()
    }

    /// Gives received bytes to the machine as far as it wants them, and keeps the others.
    pub(super) fn take_in(&mut self, bytes: &[u8], desk: &mut Desk) {
        let mut taken = 0;
        if self.input.wanted && self.input.ahead.is_none() && !bytes.is_empty() {
            let space = self.connection.space(desk);
            taken = bytes.len().min(space.len());
            space[..taken].copy_from_slice(&bytes[..taken]);
            self.connection.received(taken, desk);
        }
        if taken < bytes.len() {
            self.input.ahead.get_or_insert_default().bytes.extend_from_slice(&bytes[taken..]);
        }
    }

    /// Gives the machine what came in before it was wanted; false when there is none.
    pub(super) fn take_ahead(&mut self, desk: &mut Desk) -> bool {
        let Some(ahead) = &mut self.input.ahead else { return false };
        if ahead.at < ahead.bytes.len() {
            let space = self.connection.space(desk);
            let rest = &ahead.bytes[ahead.at..];
            let n = rest.len().min(space.len());
            debug_assert!(n > 0, "input is wanted, and there is no room for it");
            space[..n].copy_from_slice(&rest[..n]);
            ahead.at += n;
            self.connection.received(n, desk);
            return n > 0;
        }
        let end = ahead.end.take();
        self.input.ahead = None;
        match end {
            Some(end) => {
                self.finish(end, desk);
                true
            }
            None => false,
        }
    }

    pub(super) fn finish(&mut self, end: io::Result<()>, desk: &mut Desk) {
        match end {
            Ok(()) => self.connection.eof(desk),
            Err(_) => self.connection.client_left(desk),
        }
    }
}
