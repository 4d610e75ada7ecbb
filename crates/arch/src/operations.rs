//! What a ring's operations carry between a connection and the kernel.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use flyball_http::CloseReason;
use flyball_http::out::Front;
use flyball_site::{Out, Plan};
use flyball_sys::disk::{Done, Op};
use flyball_sys::uring::{Mode, Ring};
use flyball_sys::{file, net};

use crate::desk::Desk;
use crate::exchange::Exchange;
use crate::slots::Token;

/// Memory segments that one send carries.
const GATHER_MAX: usize = 64;

/// Buffers of one kind kept for reuse; per worker.
const SPARE_BUFFERS_MAX: usize = 64;

/// How long accepts that found no descriptor rest, in milliseconds, if none is freed before.
const DESCRIPTOR_PAUSE_MS: u64 = 250;

/// Accepts that found no descriptor: they are submitted anew when one may be free.
#[derive(Debug, Default)]
pub(crate) struct Starved {
    tokens: Vec<u64>,
    until_ms: u64,
    known: bool,
}

impl Starved {
    /// Keeps one; true for the first ever that `matters`, which whoever runs the server is told
    /// of.
    pub(crate) fn keep(&mut self, token: u64, now_ms: u64, matters: bool) -> bool {
        self.tokens.push(token);
        self.until_ms = now_ms + DESCRIPTOR_PAUSE_MS;
        matters && !std::mem::replace(&mut self.known, true)
    }

    /// One of them, when a descriptor was freed.
    pub(crate) fn take_one(&mut self) -> Option<u64> {
        self.tokens.pop()
    }

    /// All of them, once they have rested.
    pub(crate) fn take_rested(&mut self, now_ms: u64) -> Vec<u64> {
        if now_ms < self.until_ms { Vec::new() } else { std::mem::take(&mut self.tokens) }
    }
}

/// What a disk operation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The next step of the plan.
    Plan,
    /// The next piece of a large body.
    Piece,
}

/// A connection in its slot: at most one receive, one send and one disk operation are under way.
pub(crate) struct Slot {
    pub(crate) socket: Arc<OwnedFd>,
    pub(crate) exchange: Exchange,
    pub(crate) receiving: bool,
    pub(crate) sending: bool,
    /// The disk operation that is under way; its completion does not say what it was for.
    pub(crate) on_disk: Option<Purpose>,
    pub(crate) plan: Option<Box<Plan>>,
    pub(crate) over: Option<CloseReason>,
}

impl Slot {
    pub(crate) fn new(socket: OwnedFd, desk: &Desk) -> Slot {
        let exchange = Exchange::new(net::peer_address(&socket), desk);
        let (receiving, sending) = (false, false);
        let (on_disk, plan, over) = (None, None, None);
        Slot { socket: Arc::new(socket), exchange, receiving, sending, on_disk, plan, over }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.receiving || self.sending || self.on_disk.is_some()
    }
}

/// The ring, and the buffers that its operations use.
pub(crate) struct Operations {
    pub(crate) ring: Ring,
    pub(crate) inputs: Spare,
    pub(crate) pieces: Spare,
}

impl Operations {
    pub(crate) fn new(entries: u32) -> io::Result<Operations> {
        let (inputs, pieces) = (Spare::default(), Spare::default());
        Ok(Operations { ring: Ring::new(entries, Mode::Deferred)?, inputs, pieces })
    }

    pub(crate) fn start_receive(&mut self, slot: &mut Slot, token: Token, desk: &mut Desk) {
        if slot.receiving {
            return;
        }
        let room = slot.exchange.buffers(desk).input.space().len();
        slot.receiving = true;
        let buffer = self.inputs.take(room);
        self.ring.recv(Arc::clone(&slot.socket), buffer, room, token.bits());
    }

    pub(crate) fn start_send(&mut self, slot: &mut Slot, token: Token, desk: &Desk) {
        if slot.sending {
            return;
        }
        let Some(out) = slot.exchange.out() else { return };
        let piece_bytes = desk.settings.piece_bytes;
        match out.front() {
            Front::Empty => {}
            Front::Memory => {
                let mut buffer = self.pieces.take(piece_bytes);
                let (len, more) = copy_out(out, &mut buffer);
                slot.sending = true;
                self.ring.send(Arc::clone(&slot.socket), buffer, len, more, token.bits());
            }
            // The piece has its turn when the disk operation that is under way is complete.
            Front::File { .. } if slot.on_disk.is_some() => {}
            Front::File { file, offset, len } => {
                let piece = usize::try_from(len).unwrap_or(usize::MAX).min(piece_bytes);
                let file = Arc::clone(&file.file);
                slot.sending = true;
                let buffer = self.pieces.take(piece);
                let op = Op::Read { file, buffer, filled: 0, start: offset };
                self.start_disk(slot, token, op, Purpose::Piece);
            }
        }
    }

    /// Operations that the ring knows are submitted; the others are done in place.
    pub(crate) fn start_disk(&mut self, slot: &mut Slot, token: Token, op: Op, purpose: Purpose) {
        slot.on_disk = Some(purpose);
        if let Some(op) = self.ring.disk(op, token.bits()) {
            self.disk_done(slot, token, op.perform());
        }
    }

    /// A step of a plan, or the reading of a piece of a large body, is done.
    pub(crate) fn disk_done(&mut self, slot: &mut Slot, token: Token, done: Done) {
        match (slot.on_disk.take(), done) {
            (Some(Purpose::Plan), done) => {
                if let Some(plan) = &mut slot.plan {
                    plan.done(done);
                }
            }
            (Some(Purpose::Piece), Done::Read(buffer, read)) => {
                match piece_to_send(&slot.exchange, read) {
                    Ok((len, more)) => {
                        let socket = Arc::clone(&slot.socket);
                        self.ring.send(socket, buffer, len, more, token.bits());
                    }
                    Err(reason) => {
                        slot.sending = false;
                        slot.exchange.abort(reason);
                        self.pieces.keep(buffer);
                    }
                }
            }
            (purpose, _) => debug_assert!(false, "nobody asked for this: {purpose:?}"),
        }
    }
}

/// Used buffers of about one size, so that each is allocated and cleared once.
#[derive(Debug, Default)]
pub(crate) struct Spare(Vec<Vec<u8>>);

impl Spare {
    /// A buffer of `len` bytes, a used one if there is any.
    pub(crate) fn take(&mut self, len: usize) -> Vec<u8> {
        let mut buffer = self.0.pop().unwrap_or_default();
        buffer.resize(len, 0);
        buffer
    }

    /// Keeps a buffer for reuse, if there is room.
    pub(crate) fn keep(&mut self, buffer: Vec<u8>) {
        if self.0.len() < SPARE_BUFFERS_MAX {
            self.0.push(buffer);
        }
    }
}

/// Gives received bytes to the machine.
pub(crate) fn take_received(
    exchange: &mut Exchange,
    buffer: &[u8],
    received: io::Result<usize>,
    desk: &mut Desk,
) {
    match received {
        Ok(0) => exchange.eof(desk),
        Ok(n) => {
            let space = exchange.buffers(desk).input.space();
            debug_assert!(n <= space.len());
            space[..n].copy_from_slice(&buffer[..n]);
            exchange.received(n, desk);
        }
        Err(_) => exchange.abort(CloseReason::ClientGone),
    }
}

/// Copies the memory segments at the front into `buffer`; how many bytes, and whether more follows.
fn copy_out(out: &Out, buffer: &mut [u8]) -> (usize, bool) {
    let mut slices = [IoSlice::new(&[]); GATHER_MAX];
    let (count, file_follows) = out.gather(&mut slices);
    let mut len = 0;
    for slice in &slices[..count] {
        let n = slice.len().min(buffer.len() - len);
        buffer[len..len + n].copy_from_slice(&slice[..n]);
        len += n;
        if n < slice.len() {
            return (len, true);
        }
    }
    (len, file_follows)
}

/// A piece of a large body was read: how much of it may be sent, and whether more follows. Before
/// the last piece the file must still be what its head says.
fn piece_to_send(
    exchange: &Exchange,
    read: io::Result<usize>,
) -> Result<(usize, bool), CloseReason> {
    let Some(Front::File { file, len, .. }) = exchange.out().map(|out| out.front()) else {
        return Err(CloseReason::SocketError);
    };
    let read = read.map_err(|_| CloseReason::FileFailed)?;
    let last = read as u64 == len;
    let unchanged = || file::stamp(&*file.file).is_ok_and(|now| file.stamp.same_body(&now));
    if read == 0 || last && !unchanged() {
        return Err(CloseReason::FileChanged);
    }
    Ok((read, !last))
}
