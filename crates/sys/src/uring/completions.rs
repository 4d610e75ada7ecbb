//! What became of the operations of a ring.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use io_uring::cqueue;

use super::buffers::{Buffers, Place};
use super::{Flight, Held, Lent, Outgoing, Received, Socket, is_out_of_buffers};
use crate::descriptors::Descriptor;
use crate::disk::Done;
use crate::file;
use crate::owned::Owned;
use crate::readiness::{Event, Interest};

/// A completed operation.
#[derive(Debug)]
pub enum Completion {
    /// A connection that the ring owns, and whether the accept goes on by itself.
    Connected(io::Result<Socket>, bool),
    /// What was received, and whether the receive goes on by itself.
    Received(io::Result<Received>, bool),
    /// What was to be sent, how many of its bytes were, and whether that closed the socket.
    Sent(Box<Outgoing>, io::Result<usize>, bool),
    /// How many bytes a socket holds that the peer has not acknowledged.
    Unacknowledged(u64),
    /// A disk operation.
    Disk(Done),
    /// A piece of a file, and how many bytes of it were read.
    Piece(Lent, io::Result<usize>),
    /// A watched descriptor is readable, and whether the watch goes on by itself.
    Readable(bool),
    /// A descriptor of the process's own for a socket that the ring owns.
    Installed(io::Result<Owned>),
    /// Whether there is room in a socket, or it is of no use any more; without room its client has
    /// closed its side. Whether the wait goes on.
    Writable(bool, bool),
    /// The write side is shut down.
    Shut,
    /// What a polled descriptor is ready for; after a hang-up or an error, everything. Whether the
    /// poll goes on.
    Ready(io::Result<Interest>, bool),
    /// What happened to a socket, and whether more is told of it.
    Event(io::Result<Event>, bool),
}

/// The operations that hold no memory: the kind and the token are the whole of what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// What it did is nobody's concern.
    Quiet = 1,
    Receive = 2,
    Unacknowledged = 3,
    Install = 4,
    Room = 5,
    Shut = 6,
}

/// Tokens of these operations are below it; [`Kind`]s are multiples of it.
const KIND: u64 = 1 << 60;

impl Kind {
    pub(super) fn with(self, token: u64) -> u64 {
        debug_assert!(token < KIND);
        (self as u64 * KIND) | token
    }

    pub(super) fn of(user_data: u64) -> Option<Kind> {
        match user_data / KIND {
            1 => Some(Kind::Quiet),
            2 => Some(Kind::Receive),
            3 => Some(Kind::Unacknowledged),
            4 => Some(Kind::Install),
            5 => Some(Kind::Room),
            6 => Some(Kind::Shut),
            _ => None,
        }
    }
}

/// Acts on a completion of what was started with memory.
pub(super) fn complete(
    flights: &mut [Option<Flight>],
    free: &mut Vec<u32>,
    buffers: Option<&mut Buffers>,
    entry: &cqueue::Entry,
    completions: &mut Vec<(u64, Completion)>,
) {
    let index = entry.user_data() as usize;
    let more = cqueue::more(entry.flags());
    let result = result_of(entry);
    let Some(slot) = flights.get_mut(index) else { return };
    if more && let Some(Flight { token, held }) = slot {
        let completion = match held {
            Held::Connect { direct, .. } => Completion::Connected(connect(result, *direct), true),
            Held::Poll { .. } => Completion::Ready(result.map(interest), true),
            Held::Events { .. } => {
                Completion::Event(result.map(|found| event(found, *token)), true)
            }
            _ => Completion::Readable(true),
        };
        completions.push((*token, completion));
        return;
    }
    let Some(Flight { token, held }) = slot.take() else { return };
    free.push(index as u32);
    let completion = match held {
        Held::Connect { direct, .. } => Completion::Connected(connect(result, direct), false),
        Held::Receive { buffer } => {
            let received = result.map(|len| Received { place: Place::Own(buffer), len });
            Completion::Received(received, false)
        }
        Held::Send { outgoing } => {
            debug_assert_eq!(token, outgoing.token);
            let closed = outgoing.closes && result.as_ref().is_ok_and(|n| *n == outgoing.len());
            Completion::Sent(outgoing, result, closed)
        }
        Held::LinkSend { outgoing, .. } => Completion::Sent(outgoing, result, false),
        Held::LinkReceive { buffer: Some(buffer), .. } => {
            let received = result.map(|len| Received { place: Place::Own(buffer), len });
            Completion::Received(received, false)
        }
        Held::LinkReceive { buffer: None, .. } => {
            Completion::Received(provided(buffers, entry), false)
        }
        Held::Open { .. } => Completion::Disk(Done::Opened(own(result).map(Descriptor::from))),
        Held::Stat { statx, .. } => Completion::Disk(Done::Stamped(result.map(|_| {
            // SAFETY: the struct was zeroed, is plain integers, and the kernel filled it in.
            file::stamp_of(unsafe { statx.assume_init_ref() })
        }))),
        Held::Read { buffer, .. } => Completion::Disk(Done::Read(buffer, result)),
        Held::Piece { lent, .. } => Completion::Piece(lent, result),
        Held::Watch => Completion::Readable(false),
        Held::Poll { .. } => Completion::Ready(result.map(interest), false),
        Held::Events { .. } => Completion::Event(result.map(|found| event(found, token)), false),
    };
    completions.push((token, completion));
}

/// Acts on a completion of what was started without memory.
pub(super) fn complete_unheld(
    kind: Kind,
    buffers: Option<&mut Buffers>,
    entry: &cqueue::Entry,
    completions: &mut Vec<(u64, Completion)>,
) {
    let token = entry.user_data() % KIND;
    let completion = match kind {
        Kind::Quiet => return,
        Kind::Unacknowledged => Completion::Unacknowledged(result_of(entry).unwrap_or(0) as u64),
        Kind::Install => Completion::Installed(own(result_of(entry)).map(Owned::from)),
        Kind::Room => {
            let has_room = result_of(entry).map_or(true, |found| interest(found).write);
            Completion::Writable(has_room, cqueue::more(entry.flags()))
        }
        Kind::Shut => Completion::Shut,
        Kind::Receive => {
            Completion::Received(provided(buffers, entry), cqueue::more(entry.flags()))
        }
    };
    completions.push((token, completion));
}

/// What a receive has put into a buffer that the kernel took for it.
fn provided(buffers: Option<&mut Buffers>, entry: &cqueue::Entry) -> io::Result<Received> {
    match (result_of(entry), cqueue::buffer_select(entry.flags())) {
        (Ok(len), Some(id)) => Ok(Received { place: Place::Provided(id), len }),
        (Ok(len), None) => {
            debug_assert_eq!(len, 0);
            Ok(Received { place: Place::Nowhere, len: 0 })
        }
        (Err(error), taken) => {
            match (taken, buffers) {
                (Some(id), Some(buffers)) => buffers.give(id),
                (None, Some(buffers)) if is_out_of_buffers(&error) => buffers.ran_out(),
                _ => {}
            }
            Err(error)
        }
    }
}

fn result_of(entry: &cqueue::Entry) -> io::Result<usize> {
    match entry.result() {
        error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
        value => Ok(value as usize),
    }
}

fn connect(result: io::Result<usize>, direct: bool) -> io::Result<Socket> {
    result.map(|number| Socket::new(number as u32, direct))
}

fn interest(found: usize) -> Interest {
    let found = found as libc::c_int;
    let over = found & i32::from(libc::POLLHUP | libc::POLLERR) != 0;
    Interest {
        read: over || found & i32::from(libc::POLLIN) != 0,
        write: over || found & i32::from(libc::POLLOUT) != 0,
    }
}

fn event(found: usize, token: u64) -> Event {
    let Interest { read, write } = interest(found);
    let ends = i32::from(libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR);
    let hangup = found as libc::c_int & ends != 0;
    Event { token, read: read || hangup, write, hangup }
}

/// A new descriptor that the kernel gave us in a completion.
fn own(result: io::Result<usize>) -> io::Result<OwnedFd> {
    // SAFETY: accept, openat2 and installing return a new descriptor, which nobody else owns.
    result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
