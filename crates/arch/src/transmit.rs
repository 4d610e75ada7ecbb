//! From a connection's output queue to its socket, blocking or not as the socket is.
//!
//! A large body leaves in pieces. By copies (the default) every byte is read before it is sent, and
//! before the last piece leaves the file must still be what its head says: a client never gets a
//! whole body that is torn. By sendfile the pages are only referenced; a file that is rewritten
//! while they wait in the socket changes on the wire, which nothing on this side can see.

use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

use flyball_http::CloseReason;
use flyball_http::out::Front;
use flyball_site::{File, Out};
use flyball_sys::{file, net};

use crate::desk::Desk;
use crate::exchange::Exchange;
use crate::settings::SendMode;

/// Memory segments that one gather write carries.
const GATHER_MAX: usize = 64;

/// How a transmission ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The queue is empty.
    All,
    /// The socket is full, or a blocking socket's time ran out.
    Full,
    /// A piece of a large body was sent; others may have their turn before the next.
    Piece,
    /// The next piece is not in memory, and somebody else shall bring it in.
    Absent,
    /// The connection cannot go on.
    Failed(CloseReason),
}

/// What one call to the socket did.
enum Call {
    /// It took `sent` of `offered` bytes; `large` says that they were a piece of a large body.
    Took { sent: usize, offered: usize, large: bool },
    /// The piece is on the disk.
    Absent,
    /// It failed.
    Error(io::Error),
    /// The file is not what its head says any more, or cannot be read.
    Spoilt(CloseReason),
}

/// Sends what is queued: all that is in memory, or one piece of a large body.
pub fn transmit(socket: impl AsFd, exchange: &mut Exchange, desk: &mut Desk) -> Sent {
    let socket = socket.as_fd();
    loop {
        let Some(out) = exchange.out() else { return Sent::All };
        let call = match out.front() {
            Front::Empty => return Sent::All,
            Front::Memory => send_memory(socket, out),
            Front::File { file, offset, len } => {
                let part = Part { file, offset, len };
                match desk.settings.send {
                    SendMode::Copy => {
                        part.send_copy(socket, &mut desk.piece, desk.resident_only)
                    }
                    SendMode::Sendfile => part.send_file(socket, desk.settings.piece_bytes),
                }
            }
        };
        match call {
            Call::Took { sent, offered, large } => {
                exchange.sent(sent as u64, desk);
                if sent < offered {
                    return Sent::Full;
                }
                if large {
                    return if exchange.out().is_some() { Sent::Piece } else { Sent::All };
                }
            }
            Call::Error(error) => match error.kind() {
                ErrorKind::WouldBlock => return Sent::Full,
                ErrorKind::Interrupted => {}
                _ => return Sent::Failed(CloseReason::ClientGone),
            },
            Call::Absent => return Sent::Absent,
            Call::Spoilt(reason) => return Sent::Failed(reason),
        }
    }
}

/// One gather write of everything up to the next large body, which corks it into full segments.
fn send_memory(socket: BorrowedFd<'_>, out: &Out) -> Call {
    let mut slices = [IoSlice::new(&[]); GATHER_MAX];
    let (count, file_follows) = out.gather(&mut slices);
    let slices = &slices[..count];
    let offered = slices.iter().map(|slice| slice.len()).sum();
    match net::send_gather(socket, slices, file_follows) {
        Ok(sent) => Call::Took { sent, offered, large: false },
        Err(error) => Call::Error(error),
    }
}

/// What is left of a large body.
struct Part<'a> {
    file: &'a File,
    offset: u64,
    len: u64,
}

impl Part<'_> {
    /// Reads the next piece, checks the file if it is the last, and sends it.
    fn send_copy(&self, socket: BorrowedFd<'_>, piece: &mut [u8], resident_only: bool) -> Call {
        let most = piece.len().min(usize::try_from(self.len).unwrap_or(usize::MAX));
        let read = match self.read(&mut piece[..most], resident_only) {
            Ok(0) => return Call::Spoilt(CloseReason::FileChanged),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Call::Absent,
            Err(_) => return Call::Spoilt(CloseReason::FileFailed),
        };
        let last = read as u64 == self.len;
        if last && !self.is_unchanged() {
            return Call::Spoilt(CloseReason::FileChanged);
        }
        match net::send(socket, &piece[..read], !last) {
            Ok(sent) => Call::Took { sent, offered: read, large: true },
            Err(error) => Call::Error(error),
        }
    }

    fn read(&self, piece: &mut [u8], resident_only: bool) -> io::Result<usize> {
        let file = &*self.file.file;
        if resident_only {
            match file::read_resident(file, piece, self.offset) {
                // A file system that cannot tell is read as if it were memory, which most are.
                Err(error) if error.kind() == ErrorKind::Unsupported => {}
                read => return read,
            }
        }
        file::read_at(file, piece, self.offset)
    }

    /// Sends the next piece by reference; checks the file before the last.
    fn send_file(&self, socket: BorrowedFd<'_>, piece_bytes: usize) -> Call {
        let most = piece_bytes.min(usize::try_from(self.len).unwrap_or(usize::MAX));
        if most as u64 == self.len && !self.is_unchanged() {
            return Call::Spoilt(CloseReason::FileChanged);
        }
        match file::send_file(socket, &*self.file.file, self.offset, most) {
            Ok(0) => Call::Spoilt(CloseReason::FileChanged),
            Ok(sent) => Call::Took { sent, offered: most, large: true },
            Err(error) => Call::Error(error),
        }
    }

    fn is_unchanged(&self) -> bool {
        file::stamp(&*self.file.file).is_ok_and(|now| self.file.stamp.same_body(&now))
    }
}
