//! Connections that a ring owns: accepted, received from, sent to and closed by operations.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{CancelBuilder, DestinationSlot, Fd, Fixed};
use io_uring::{IoUring, opcode};

use super::buffers::{Buffers, GROUP, RECEIVE_BYTES};
use super::features::fixed;
use super::outgoing::{Outgoing, View};
use super::{Features, Held, Kind, Ring};
use crate::net::{self, Address};

/// `SOCKET_URING_OP_SIOCOUTQ`: asks what a socket still holds (Linux 6.7).
pub(super) const SIOCOUTQ_COMMAND: u32 = 1;

/// Buffers of one kind kept for reuse; per ring.
const SPARE_MAX: usize = 64;

/// Places in the table of direct sockets beyond the number of sockets.
const SLACK: u32 = 256;

/// SO_LINGER for no time: what is not sent when the socket is closed never is, and the other end
/// learns of it by a reset. The kernel reads it where it lies.
static RESETS: libc::linger = libc::linger { l_onoff: 1, l_linger: 0 };

/// An option that is on, where the kernel reads it.
static ON: libc::c_int = 1;

/// A connected socket that a ring owns. It is closed by [`Ring::close`], or by a send that closes,
/// and not by being dropped.
#[derive(Debug)]
pub struct Socket {
    number: u32,
    direct: bool,
}

impl Socket {
    pub(super) fn new(number: u32, direct: bool) -> Socket {
        Socket { number, direct }
    }

    fn fd(&self) -> Fd {
        Fd(self.number as RawFd)
    }

    /// The descriptor, if it has one that system calls know.
    pub fn plain(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: a plain descriptor is the ring's from when it was accepted until `Ring::close`,
        // which takes the socket, or until a send closed it, which is the last use of the socket.
        (!self.direct).then(|| unsafe { BorrowedFd::borrow_raw(self.number as RawFd) })
    }
}

/// How a send goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It does not.
    Nothing,
    /// More follows at once, so that a short segment waits for it.
    More,
    /// The socket is closed if all was sent: the end of the stream shares the last segment.
    Close,
}

impl Ring {
    /// Lets the ring use what of `wanted` works here, with so many provided buffers and at most so
    /// many direct sockets. To be called once, before anything else is started.
    pub fn enable(&mut self, wanted: Features, buffers: u16, sockets_max: u32) -> Features {
        let mut found = wanted.probed();
        if found.provided {
            self.buffers = Buffers::register(&self.ring, buffers).ok();
        }
        found.provided = self.buffers.is_some();
        found.multishot &= found.provided;
        found.direct &= register_table(&self.ring, sockets_max);
        self.features = found;
        found
    }

    /// Starts accepting connections that the ring owns, once or until it fails.
    pub fn accept_socket(&mut self, listener: &Arc<OwnedFd>, token: u64, multishot: bool) {
        let fd = Fd(listener.as_raw_fd());
        let direct = self.features.direct;
        // A direct descriptor cannot survive exec, and the kernel refuses to be told so.
        let flags = if direct { 0 } else { libc::SOCK_CLOEXEC };
        let entry = if multishot {
            opcode::AcceptMulti::new(fd).flags(flags).allocate_file_index(direct).build()
        } else {
            let none = std::ptr::null_mut();
            let slot = direct.then(DestinationSlot::auto_target);
            opcode::Accept::new(fd, none, none.cast()).flags(flags).file_index(slot).build()
        };
        self.start(entry, token, Held::Connect { _listener: Arc::clone(listener), direct });
    }

    /// The other end's address; unspecified where only a plain descriptor could tell.
    ///
    /// # Errors
    /// As [`net::peer_address`].
    pub fn peer_address(&self, socket: &Socket) -> io::Result<Address> {
        socket.plain().map_or_else(|| Ok(net::no_address()), net::peer_address)
    }

    /// Starts receiving, once or `repeatedly` until an error, into provided buffers. One receive
    /// of a socket may be under way at a time. Without provided buffers, and when the kernel is
    /// told to take `own` memory because they ran out (`ENOBUFS`), it completes once; whether it
    /// goes on is what this gives back.
    pub fn receive(&mut self, socket: &Socket, token: u64, repeatedly: bool, own: bool) -> bool {
        if own || self.buffers.is_none() {
            self.receive_into_own(socket, token);
            return false;
        }
        let repeatedly = repeatedly && self.features.multishot;
        let entry = if repeatedly {
            opcode::RecvMulti::new(socket.fd(), GROUP).build()
        } else {
            let entry = opcode::Recv::new(socket.fd(), std::ptr::null_mut(), 0);
            entry.buf_group(GROUP).build().flags(Flags::BUFFER_SELECT)
        };
        self.start_unheld(entry.flags(fixed(socket.direct)), Kind::Receive, token);
        repeatedly
    }

    fn receive_into_own(&mut self, socket: &Socket, token: u64) {
        let mut buffer = self.own_buffer();
        let len = buffer.len() as u32;
        let entry = opcode::Recv::new(socket.fd(), buffer.as_mut_ptr(), len).build();
        self.start(entry.flags(fixed(socket.direct)), token, Held::Receive { buffer });
    }

    /// Memory that a receive brings along.
    pub(super) fn own_buffer(&mut self) -> Vec<u8> {
        self.spare_buffers.pop().unwrap_or_else(|| vec![0; RECEIVE_BYTES])
    }

    pub(super) fn keep_buffer(&mut self, buffer: Vec<u8>) {
        if self.spare_buffers.len() < SPARE_MAX {
            self.spare_buffers.push(buffer);
        }
    }

    /// Stops a receive that goes on by itself; it completes with `ECANCELED`, after what had come.
    pub fn stop_receiving(&mut self, token: u64) {
        let entry = opcode::AsyncCancel::new(Kind::Receive.with(token)).build();
        self.start_unheld(entry, Kind::Quiet, 0);
    }

    /// Something empty to be filled and sent.
    pub fn outgoing(&mut self) -> Box<Outgoing> {
        self.spare_outgoing.pop().unwrap_or_default()
    }

    /// Takes it back when it was sent.
    pub fn keep_outgoing(&mut self, mut outgoing: Box<Outgoing>) {
        outgoing.clear();
        if self.spare_outgoing.len() < SPARE_MAX {
            self.spare_outgoing.push(outgoing);
        }
    }

    /// Starts sending. One that closes goes on until all is sent, and closes only then; where the
    /// two cannot be submitted together, closing is left to the caller, as the completion says.
    /// Whether it closes is what this gives back: the socket may be closed from then on, and its
    /// number another's, before the completion tells.
    pub fn send(
        &mut self,
        socket: &Socket,
        mut outgoing: Box<Outgoing>,
        token: u64,
        then: Then,
    ) -> bool {
        // A link does not reach beyond what is submitted together.
        let closes = then == Then::Close && self.features.linked && self.make_room(2);
        let mut flags = libc::MSG_NOSIGNAL;
        if then == Then::More || closes {
            flags |= libc::MSG_MORE;
        }
        if closes {
            flags |= libc::MSG_WAITALL;
        }
        (outgoing.token, outgoing.closes) = (token, closes);
        let entry = match outgoing.view() {
            View::One(start, len) => {
                opcode::Send::new(socket.fd(), start, len).flags(flags).build()
            }
            View::Many(message) => {
                opcode::SendMsg::new(socket.fd(), message).flags(flags as u32).build()
            }
        };
        let entry = entry.flags(fixed(socket.direct));
        if closes {
            self.start(entry.flags(Flags::IO_LINK), token, Held::Send { outgoing });
            self.start_unheld(close_entry(socket), Kind::Quiet, 0);
        } else {
            self.start(entry, token, Held::Send { outgoing });
        }
        closes
    }

    /// Shuts down the write side; true when that completes later. The kernel leaves it to a thread
    /// of its own, which looks the socket up only then: closed before, its place in the table may
    /// be that of another connection by now.
    pub fn shut_write(&mut self, socket: &Socket, token: u64) -> bool {
        match socket.plain() {
            Some(plain) => {
                drop(net::shutdown_write(plain));
                false
            }
            None => {
                let entry = opcode::Shutdown::new(Fixed(socket.number), libc::SHUT_WR).build();
                self.start_unheld(entry, Kind::Shut, token);
                true
            }
        }
    }

    /// Acknowledges what was received: [`net::acknowledge`].
    pub fn acknowledge(&mut self, socket: &Socket) {
        match socket.plain() {
            // It fails only when the connection has gone.
            Some(plain) => drop(net::acknowledge(plain)),
            None => self.set_option(socket, (libc::IPPROTO_TCP, libc::TCP_QUICKACK), &ON),
        }
    }

    /// Bounds the bytes that the socket sends in a second: [`net::set_pacing`].
    pub fn set_pacing(&mut self, socket: &Socket, bytes_per_s: u64) {
        if let Some(plain) = socket.plain() {
            // It fails only when the connection has gone.
            return drop(net::set_pacing(plain, bytes_per_s));
        }
        let pace = kept(&mut self.paces, bytes_per_s);
        self.set_option(socket, (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE), pace);
    }

    /// Bounds the bytes that wait in the socket to be sent: [`net::set_unsent`].
    pub fn set_unsent(&mut self, socket: &Socket, bytes: u32) {
        if let Some(plain) = socket.plain() {
            // It fails only when the connection has gone.
            return drop(net::set_unsent(plain, bytes));
        }
        let unsent = kept(&mut self.unsent, i32::try_from(bytes).unwrap_or(i32::MAX));
        self.set_option(socket, (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT), unsent);
    }

    /// Makes what is under way for this token complete, and leaves the connection as it is.
    pub fn stop(&mut self, token: u64) {
        self.stop_receiving(token);
        self.stop_waiting_for_room(token);
        self.cancel(token);
    }

    /// Makes what is under way on the socket complete at once.
    pub fn interrupt(&mut self, socket: &Socket) {
        match socket.plain() {
            Some(plain) => drop(net::shutdown_both(plain)),
            None => {
                let which = CancelBuilder::fd(Fixed(socket.number)).all();
                self.start_unheld(opcode::AsyncCancel2::new(which).build(), Kind::Quiet, 0);
            }
        }
    }

    /// Asks how many bytes the socket holds that the peer has not acknowledged. `None` when the
    /// answer comes as a completion.
    pub fn unacknowledged(&mut self, socket: &Socket, token: u64) -> Option<u64> {
        if let Some(plain) = socket.plain() {
            return Some(net::unacknowledged(plain));
        }
        let entry = opcode::UringCmd16::new(Fixed(socket.number), SIOCOUTQ_COMMAND).build();
        self.start_unheld(entry, Kind::Unacknowledged, token);
        None
    }

    /// Starts making a descriptor of the process's own for a direct socket; false where the kernel
    /// cannot. The socket stays open until that descriptor is closed too.
    pub fn install(&mut self, socket: &Socket, token: u64) -> bool {
        if !self.features.installs {
            return false;
        }
        let entry = opcode::FixedFdInstall::new(Fixed(socket.number), 0).build();
        self.start_unheld(entry, Kind::Install, token);
        true
    }

    /// Starts waiting for room in the socket: once, or `repeatedly` until it is stopped, where its
    /// client has closed its side; see [`Ring::poll_room`].
    pub fn wait_for_room(&mut self, socket: &Socket, token: u64, repeatedly: bool) {
        let events = libc::POLLOUT as u32;
        let entry = opcode::PollAdd::new(socket.fd(), events).multi(repeatedly).build();
        self.start_unheld(entry.flags(fixed(socket.direct)), Kind::Room, token);
    }

    /// Stops waiting for room: it completes once more.
    pub fn stop_waiting_for_room(&mut self, token: u64) {
        let entry = opcode::AsyncCancel::new(Kind::Room.with(token)).build();
        self.start_unheld(entry, Kind::Quiet, 0);
    }

    /// Lets the closing that follows at once reset the connection.
    pub fn reset_on_close(&mut self, socket: &Socket) {
        match socket.plain() {
            // It fails only when the connection has gone.
            Some(plain) => drop(net::reset_on_close(plain)),
            None => self.set_option(socket, (libc::SOL_SOCKET, libc::SO_LINGER), &RESETS),
        }
    }

    /// Sets an option, of this level and number, of a direct socket. These are only used where the
    /// kernel has this command too (Linux 6.7).
    fn set_option<T>(&mut self, socket: &Socket, option: (i32, i32), value: &'static T) {
        let (level, option) = (option.0 as u32, option.1 as u32);
        let (value, len) = ((&raw const *value).cast(), size_of::<T>() as u32);
        let socket = Fixed(socket.number);
        let entry = opcode::SetSockOpt::new(socket, level, option, value, len).build();
        self.start_unheld(entry.flags(Flags::SKIP_SUCCESS), Kind::Quiet, 0);
    }

    /// Closes the socket, after all that was started on it before.
    pub fn close(&mut self, socket: Socket) {
        self.start_unheld(close_entry(&socket), Kind::Quiet, 0);
    }
}

/// The value where the kernel reads it. There are as many as the configuration names, for as long
/// as the process lives.
fn kept<T: Copy + PartialEq>(values: &mut Vec<&'static T>, value: T) -> &'static T {
    let known = values.iter().find(|known| ***known == value).copied();
    known.unwrap_or_else(|| {
        let new: &'static T = Box::leak(Box::new(value));
        values.push(new);
        new
    })
}

/// True when no provided buffer was left for a receive.
pub fn is_out_of_buffers(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOBUFS)
}

/// True when an operation did nothing because it was cancelled, or was interrupted by a signal or
/// by its cancelling. One that waits in a thread of the kernel's own ends so when the process is
/// stopped. It says nothing of the other end: what is still wanted is started again.
pub fn is_undone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ECANCELED | libc::EINTR))
}

fn close_entry(socket: &Socket) -> Entry {
    let entry = match socket.direct {
        true => opcode::Close::new(Fixed(socket.number)).build(),
        false => opcode::Close::new(socket.fd()).build(),
    };
    entry.flags(Flags::SKIP_SUCCESS)
}

/// Makes room for the sockets, and for some that are closed only with the next submission.
fn register_table(ring: &IoUring, sockets_max: u32) -> bool {
    let register = |count| ring.submitter().register_files_sparse(count).is_ok();
    register(sockets_max.saturating_add(SLACK)) || register(sockets_max)
}
