//! From a connection's output queue to its socket, blocking or not as the socket is.
//!
//! A large body leaves in pieces, and before the last one leaves the file must still hold what its
//! head has promised (`Promise`): a file that only grows does. By copies every byte is read before
//! that look, so that with `send.mode` copy, which promises one version of the file, a client never
//! gets a whole body that is torn. By sendfile the pages are only referenced; a file that is
//! rewritten in place while they wait in the socket changes on the wire, which nothing on this side
//! can see. On a 10 MiB file sendfile costs a fifth of what the copies do, so it is used for files
//! that have long been unchanged. From a mapping (S2, section 5.4) the kernel copies while the call
//! lasts; the tail of the body is read instead, so that all of it has been copied when the file is
//! looked at.

mod secure;

use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use flyball_conn::{Connection, RequestLog, SEEN_HOLDS_MS, SendWindow};
use flyball_http::out::Front;
use flyball_http::{CloseReason, Now};
use flyball_site::{File, Out};
use flyball_sys::mapping::{self, Mapping};
use flyball_sys::residency::{Residency, Resident};

use crate::desk::Desk;
use crate::kernel::{file, net};
use crate::settings::{SendMode, Settings};

/// Memory segments that one gather write carries.
const GATHER_MAX: usize = 64;

/// Memory segments of one answer, of which most gather writes are: to fill more slots takes longer
/// than the rest of what is done to send it.
const GATHER_FEW: usize = 4;

/// The same by these settings.
pub(crate) fn gather_max(settings: &Settings) -> usize {
    if settings.limits.head_style.joins_bodies { GATHER_MAX } else { 1 }
}

/// Bytes that one look for what is in memory covers, before a sendfile.
const LOOK_BYTES_MAX: usize = 1024 * 1024;

/// Bytes at the end of a body that are never sent from a mapping.
const TAIL_BYTES: u64 = 4096;

/// How a transmission ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The queue is empty.
    All,
    /// The socket is full, or a blocking socket's time ran out.
    Full,
    /// A piece of a large body was sent, or of one that is being produced; others may have their
    /// turn before the next.
    Piece,
    /// The next piece is not in memory, and somebody else shall bring it in.
    Absent,
    /// The connection cannot go on.
    Failed(CloseReason),
}

/// Which bytes of a large body may be read.
#[derive(Clone, Copy)]
enum Only {
    /// All: reading may wait on the disk.
    Any,
    /// Those in memory, among them so many at the front that were brought there, and so many that
    /// were seen there; the test tells of the others.
    InMemory { warmed: u64, seen: u64, residency: Residency },
}

impl Only {
    fn in_memory(warmed: u64, window: &SendWindow, desk: &Desk) -> Only {
        let seen = window.seen_bytes(desk.now.ms());
        Only::InMemory { warmed, seen, residency: desk.sender.residency }
    }
}

/// How the next piece of a large body goes.
enum Way<'a> {
    /// At most so many bytes by reference.
    Reference(usize),
    /// At most so many bytes from a mapping.
    Mapped(&'a Mapping, usize),
    /// Read into a buffer.
    Copy,
    /// Not before somebody has brought it in.
    Absent,
}

/// What one call to the socket did.
enum Call {
    /// It took `sent` of `offered` bytes; `large` says that they were a piece of a large body.
    Took { sent: usize, offered: usize, large: bool },
    /// The piece is on the disk.
    Absent,
    /// It failed.
    Error(io::Error),
    /// The file does not hold what its head says any more, or cannot be read.
    Spoilt(CloseReason),
}

/// Sends what is queued: all that is in memory, or one piece of a large body.
pub fn transmit(socket: impl AsFd, connection: &mut Connection, desk: &mut Desk) -> Sent {
    let socket = socket.as_fd();
    if connection.is_secure() {
        return secure::transmit_sealed(socket, connection, desk);
    }
    loop {
        if desk.settings.send == SendMode::Mapped {
            connection.map_front(|file, offset| desk.sender.map(file, offset));
        }
        connection.sends();
        let Some((out, window)) = connection.front() else { return Sent::All };
        let ends = connection.ends_with_output();
        let only = match desk.sender.resident_only {
            true => Only::in_memory(window.warm_bytes(), window, desk),
            false => Only::Any,
        };
        let call = match out.front() {
            Front::Empty => return Sent::All,
            Front::Memory => {
                let waits = !desk.sender.only_sendfile_waits && !connection.is_relayed();
                send_memory(socket, out, ends, waits, desk)
            }
            Front::File { file, offset, len } => {
                let part = Part { file, offset, len };
                match part.way(window.chunk(), desk, only) {
                    Way::Reference(most) => part.send_file(socket, most, desk),
                    Way::Mapped(mapping, most) => part.send_mapped(socket, mapping, most, desk),
                    Way::Copy => part.send_copy(socket, desk, only, ends),
                    Way::Absent => Call::Absent,
                }
            }
        };
        if let Some(sent) = after(call, socket, connection, desk) {
            return sent;
        }
    }
}

/// Sends the next piece of a large body if it goes by reference or from a mapping and nothing has
/// to be read for that; `None` when it shall be read. The socket must not block.
pub fn transmit_reference(
    socket: BorrowedFd<'_>,
    connection: &mut Connection,
    desk: &mut Desk,
) -> Option<Sent> {
    loop {
        if desk.settings.send == SendMode::Mapped {
            connection.map_front(|file, offset| desk.sender.map(file, offset));
        }
        connection.sends();
        let (out, window) = connection.front()?;
        let Front::File { file, offset, len } = out.front() else { return None };
        let part = Part { file, offset, len };
        let only = Only::in_memory(0, window, desk);
        let call = match part.way(window.chunk(), desk, only) {
            Way::Reference(most) => part.send_file(socket, most, desk),
            Way::Mapped(mapping, most) => part.send_mapped(socket, mapping, most, desk),
            Way::Copy | Way::Absent => return None,
        };
        if let Some(sent) = after(call, socket, connection, desk) {
            return Some(sent);
        }
    }
}

/// Whether the next piece of a large body would go by [`transmit_reference`].
pub fn goes_by_reference(connection: &mut Connection, desk: &mut Desk) -> bool {
    if desk.settings.send == SendMode::Mapped {
        connection.map_front(|file, offset| desk.sender.map(file, offset));
    }
    let Some((out, window)) = connection.front() else { return false };
    let Front::File { file, offset, len } = out.front() else { return false };
    let only = Only::in_memory(0, window, desk);
    let way = Part { file, offset, len }.way(window.chunk(), desk, only);
    matches!(way, Way::Reference(_) | Way::Mapped(..))
}

/// Takes notice of what a call did; `None` when there is more to be sent now.
fn after(
    call: Call,
    socket: BorrowedFd<'_>,
    connection: &mut Connection,
    desk: &mut Desk,
) -> Option<Sent> {
    connection.has_sent();
    match call {
        Call::Took { sent, offered, large } => {
            connection.sent(sent as u64, desk);
            // What was seen of a file in whole is noted with it, and how long ago.
            if large && !is_seen_whole(connection, desk) {
                connection.saw(offered - sent, desk);
            }
            if large && desk.settings.habits().cork && !file_is_next(connection) {
                // It fails only when the connection has gone, which the next call shows.
                let _ = net::set_cork(socket, false);
            }
            if sent < offered {
                return Some(Sent::Full);
            }
            if connection.produces_more() {
                return Some(Sent::Piece);
            }
            let ends = || if connection.out().is_some() { Sent::Piece } else { Sent::All };
            large.then(ends)
        }
        Call::Error(error) => match error.kind() {
            ErrorKind::WouldBlock => Some(Sent::Full),
            ErrorKind::Interrupted => None,
            _ => Some(Sent::Failed(CloseReason::ClientGone)),
        },
        Call::Absent => Some(Sent::Absent),
        Call::Spoilt(reason) => Some(Sent::Failed(reason)),
    }
}

/// To be called before the socket of a connection is closed that is not over when the time of
/// `drain` is. Its lines go to the log.
pub fn cut_off(
    socket: impl AsFd,
    connection: &mut Connection,
    (log, now): (&mut RequestLog, &Now),
) {
    connection.cut_off();
    take_leave(&socket, connection);
    connection.cut_lines(log, CloseReason::Draining, || net::untaken(socket), now);
}

/// Where an orderly end would pass for the end of a body that was cut short, which only HTTP/1.0
/// has, closing resets it.
fn reset_if_cut_short(socket: impl AsFd, connection: &Connection) {
    if connection.is_cut_short() {
        // It fails only when the connection has gone.
        let _ = net::reset_on_close(socket);
    }
}

/// To be called before the socket of a connection that is over is closed: as above, and what TLS
/// has to say of the end is said, as far as there is room for it.
pub fn take_leave(socket: impl AsFd, connection: &mut Connection) {
    reset_if_cut_short(&socket, connection);
    let words = connection.last_words();
    if !words.is_empty() {
        // Without room the client learns from the end of the stream.
        let _ = net::send_gather_now(socket, &[IoSlice::new(&words)], false);
    }
}

/// Whether more of a large body follows at once.
fn file_is_next(connection: &Connection) -> bool {
    connection.out().is_some_and(|out| matches!(out.front(), Front::File { .. }))
}

/// Whether all of the large body at the front was seen in memory, not long ago.
fn is_seen_whole(connection: &Connection, desk: &Desk) -> bool {
    connection.out().is_some_and(|out| match out.front() {
        Front::File { file, .. } => file.is_resident(desk.now.ms(), SEEN_HOLDS_MS),
        _ => false,
    })
}

/// Gathers into one send, by the kind of call that the desk asks for.
fn gather(
    socket: BorrowedFd<'_>,
    slices: &[IoSlice<'_>],
    more: bool,
    waits: bool,
) -> io::Result<usize> {
    if waits {
        net::send_gather(socket, slices, more)
    } else {
        net::send_gather_now(socket, slices, more)
    }
}

/// One gather write of everything up to the next large body, or the end of the stream, either of
/// which shares the last segment.
fn send_memory(socket: BorrowedFd<'_>, out: &Out, ends: bool, waits: bool, desk: &Desk) -> Call {
    match out.segments() {
        0..=GATHER_FEW => send_slices::<GATHER_FEW>(socket, out, ends, waits, desk),
        _ => send_slices::<GATHER_MAX>(socket, out, ends, waits, desk),
    }
}

/// The same, of at most `MOST` segments.
fn send_slices<const MOST: usize>(
    socket: BorrowedFd<'_>,
    out: &Out,
    ends: bool,
    waits: bool,
    desk: &Desk,
) -> Call {
    let mut slices = [IoSlice::new(&[]); MOST];
    let most = gather_max(&desk.settings).min(MOST);
    let (count, file_follows) = out.gather(&mut slices[..most]);
    let ends = ends && (most > 1 || count == out.segments());
    let slices = &slices[..count];
    let offered = slices.iter().map(|slice| slice.len()).sum();
    let corks = file_follows && desk.settings.habits().cork;
    if corks && let Err(error) = net::set_cork(socket, true) {
        return Call::Error(error);
    }
    let more = file_follows && !corks || ends;
    match gather(socket, slices, more, waits) {
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
    /// How the next piece goes, where `chunk` is what is mapped of it.
    fn way<'a>(&self, chunk: Option<&'a Arc<Mapping>>, desk: &mut Desk, only: Only) -> Way<'a> {
        if desk.settings.send == SendMode::Mapped {
            let body = self.len.saturating_sub(TAIL_BYTES);
            return match chunk.filter(|_| body > 0) {
                Some(chunk) => self.by_mapping(chunk, body, desk, only),
                None => Way::Copy,
            };
        }
        match self.by_reference(desk, only) {
            Some(0) => Way::Absent,
            Some(most) => Way::Reference(most),
            None => Way::Copy,
        }
    }

    /// How much of the next `body` bytes goes from the mapping. Where somebody else brings in what
    /// is not in memory, each piece is looked at before; else it is brought in here.
    fn by_mapping<'a>(&self, mapping: &'a Mapping, body: u64, desk: &Desk, only: Only) -> Way<'a> {
        let rest = mapping.rest_from(self.offset).unwrap_or(0) as u64;
        let most = rest.min(body).min(desk.settings.piece_bytes as u64) as usize;
        let Only::InMemory { warmed, .. } = only else {
            // What cannot be had is found when it is sent.
            let _ = mapping.populate(self.offset, most);
            return Way::Mapped(mapping, most);
        };
        let (file, size) = (&*self.file.file, self.file.stamp.size);
        match mapping.holds(file, size, self.offset, most) {
            Resident::Yes => Way::Mapped(mapping, most),
            // What was just brought in is taken to be there.
            Resident::No | Resident::Unknown => {
                match most.min(usize::try_from(warmed).unwrap_or(usize::MAX)) {
                    0 => Way::Absent,
                    most => Way::Mapped(mapping, most),
                }
            }
        }
    }

    /// Sends from a mapping; more of the body always follows. A short count may mean a full socket
    /// or the end of the file: the next call tells.
    fn send_mapped(
        &self,
        socket: BorrowedFd<'_>,
        mapping: &Mapping,
        most: usize,
        desk: &Desk,
    ) -> Call {
        let waits = !desk.sender.only_sendfile_waits;
        match mapping.send(socket, self.offset, most, true, waits) {
            Ok(sent) => Call::Took { sent, offered: sent, large: true },
            Err(error) if mapping::is_fault(&error) && self.keeps_promise() => {
                Call::Spoilt(CloseReason::FileFailed)
            }
            Err(error) if mapping::is_fault(&error) => Call::Spoilt(CloseReason::FileChanged),
            Err(error) => Call::Error(error),
        }
    }

    /// Reads the next piece, checks the file if it is the last, and sends it.
    fn send_copy(&self, socket: BorrowedFd<'_>, desk: &mut Desk, only: Only, ends: bool) -> Call {
        let waits = !desk.sender.only_sendfile_waits;
        let piece = desk.piece();
        let read = match self.read_piece(piece, only) {
            Ok(read) => read,
            Err(call) => return call,
        };
        let last = read as u64 == self.len;
        match gather(socket, &[IoSlice::new(&piece[..read])], !last || ends, waits) {
            Ok(sent) => Call::Took { sent, offered: read, large: true },
            Err(error) => Call::Error(error),
        }
    }

    /// Reads the next piece, at most as long as the buffer, and checks the file if it is the last.
    fn read_piece(&self, piece: &mut [u8], only: Only) -> Result<usize, Call> {
        let most = piece.len().min(usize::try_from(self.len).unwrap_or(usize::MAX));
        let read = match self.read(&mut piece[..most], only) {
            Ok(0) => return Err(Call::Spoilt(CloseReason::FileChanged)),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(Call::Absent),
            Err(_) => return Err(Call::Spoilt(CloseReason::FileFailed)),
        };
        match read as u64 == self.len && !self.keeps_promise() {
            true => Err(Call::Spoilt(CloseReason::FileChanged)),
            false => Ok(read),
        }
    }

    fn read(&self, piece: &mut [u8], only: Only) -> io::Result<usize> {
        let file = &*self.file.file;
        let Only::InMemory { warmed, residency, .. } = only else {
            return file::read_at(file, piece, self.offset);
        };
        match residency.read(file, piece, self.offset) {
            // The file system cannot tell (FUSE, some that are stacked or remote): what was just
            // brought in is taken to be there, and nothing else.
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                let most = piece.len().min(usize::try_from(warmed).unwrap_or(usize::MAX));
                match most {
                    0 if file::is_memory(file) => file::read_at(file, piece, self.offset),
                    0 => Err(ErrorKind::WouldBlock.into()),
                    most => file::read_at(file, &mut piece[..most], self.offset),
                }
            }
            // It was just brought in: either it is there, or reading tells why it cannot be.
            Err(error) if error.kind() == ErrorKind::WouldBlock && warmed > 0 => {
                let most = piece.len().min(usize::try_from(warmed).unwrap_or(usize::MAX));
                file::read_at(file, &mut piece[..most], self.offset)
            }
            read => read,
        }
    }

    /// How many of the next bytes go by reference, none while they are on the disk; `None` when
    /// they are copied. They go by reference when that was asked for, or when the file has long
    /// been unchanged and nothing has to be read to tell that the piece is in memory.
    fn by_reference(&self, desk: &mut Desk, only: Only) -> Option<usize> {
        let asked = match desk.settings.send {
            SendMode::Copy | SendMode::Mapped => return None,
            SendMode::Sendfile => true,
            SendMode::Auto => false,
        };
        let changed_ms = u64::try_from(self.file.stamp.changed_ns / 1_000_000).unwrap_or(0);
        let quiet_ms = desk.now.unix_ms().saturating_sub(changed_ms);
        if !asked && quiet_ms < desk.settings.quiet_ms {
            return None;
        }
        let most = usize::try_from(self.len).unwrap_or(usize::MAX);
        let most = most.min(desk.sender.sendfile_bytes_max);
        let Only::InMemory { warmed, seen, residency } = only else { return Some(most) };
        if seen > 0 {
            return Some(most.min(usize::try_from(seen).unwrap_or(usize::MAX)));
        }
        let most = most.min(LOOK_BYTES_MAX);
        let now_ms = desk.now.ms();
        if self.file.is_resident(now_ms, SEEN_HOLDS_MS) {
            return Some(most);
        }
        let (file, size) = (&*self.file.file, self.file.stamp.size);
        let found = match asked {
            true => residency.holds(file, self.offset, most, size, desk.piece()),
            false => residency.sees(file, self.offset, most, size),
        };
        match found {
            Resident::Yes => {
                if most as u64 == size {
                    self.file.set_resident(now_ms);
                }
                Some(most)
            }
            Resident::Unknown if !asked => None,
            // What was just brought in is taken to be there.
            Resident::No | Resident::Unknown => {
                Some(most.min(usize::try_from(warmed).unwrap_or(usize::MAX)))
            }
        }
    }

    /// Sends the next piece by reference; checks the file before the last. Less than was asked for
    /// is sent into a socket that is full then, or of a file that became shorter: where an edge is
    /// waited for, which only comes after a full socket, the two have to be told apart.
    fn send_file(&self, socket: BorrowedFd<'_>, most: usize, desk: &Desk) -> Call {
        if most as u64 == self.len && !self.keeps_promise() {
            return Call::Spoilt(CloseReason::FileChanged);
        }
        match file::send_file(socket, &*self.file.file, self.offset, most) {
            Ok(0) => Call::Spoilt(CloseReason::FileChanged),
            Ok(sent)
                if sent < most
                    && desk.settings.events.is_edge_triggered()
                    && !self.keeps_promise() =>
            {
                Call::Spoilt(CloseReason::FileChanged)
            }
            Ok(sent) => Call::Took { sent, offered: most, large: true },
            Err(error) => Call::Error(error),
        }
    }

    fn keeps_promise(&self) -> bool {
        file::stamp(&*self.file.file).is_ok_and(|now| self.file.keeps_promise(&now))
    }
}
