//! A simulated connection: what each end of it has sent, and what the other has not taken yet.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use flyball_sys::net;

use super::client::Client;
use super::responder::Responder;

/// The number of a descriptor that is closed.
const CLOSED: RawFd = -1;

/// What a socket is ready for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    pub(super) read: bool,
    pub(super) write: bool,
    pub(super) hangup: bool,
    /// The client sends no more.
    pub(super) ended: bool,
}

/// A connection. The server's end is a real descriptor, of which the other end tells when the
/// server closes it; its bytes are here.
pub(super) struct Line {
    pub(super) client: Client,
    /// The other end is no client, but a server that answers.
    pub(super) responder: Option<Responder>,
    fd: RawFd,
    far: Option<UnixStream>,
    /// Calls on the server's end wait.
    pub(super) blocks: bool,
    /// Bytes that the server has not received, and how many there may be.
    inbound: VecDeque<u8>,
    pub(super) inbound_max: usize,
    /// Bytes that the client has not taken, and how many there may be.
    outbound: VecDeque<u8>,
    pub(super) outbound_max: usize,
    /// The client sends no more; the connection is broken; the server sends no more.
    pub(super) ended: bool,
    reset: bool,
    shut: bool,
    /// Closing breaks it.
    pub(super) resets: bool,
    was_full: bool,
    /// How often something came that wakes who watches it for edges.
    pub(super) wakes: u64,
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line { client, ended, reset, shut, .. } = self;
        let (inbound, outbound) = (self.inbound.len(), self.outbound.len());
        write!(f, "{client:?}; {inbound} bytes in, {outbound} out; open {}, ", self.is_open())?;
        write!(f, "ended {ended}, shut {shut}, reset {reset}, over {}", client.is_over)
    }
}

impl Line {
    pub(super) fn new(client: Client, inbound_max: usize, outbound_max: usize) -> Line {
        Line {
            client,
            responder: None,
            fd: CLOSED,
            far: None,
            blocks: false,
            inbound: VecDeque::new(),
            inbound_max,
            outbound: VecDeque::new(),
            outbound_max,
            ended: false,
            reset: false,
            shut: false,
            resets: false,
            was_full: false,
            wakes: 0,
        }
    }

    /// The server's end.
    pub(super) fn open(&mut self, blocks: bool) -> io::Result<OwnedFd> {
        let (near, far) = UnixStream::pair()?;
        (self.fd, self.far, self.blocks) = (near.as_raw_fd(), Some(far), blocks);
        Ok(near.into())
    }

    pub(super) fn is_at(&self, fd: RawFd) -> bool {
        self.fd == fd && fd != CLOSED
    }

    /// Whether the server has it, and has not closed it.
    pub(super) fn is_open(&self) -> bool {
        self.fd != CLOSED
    }

    /// Looks whether the server has closed its end.
    pub(super) fn look(&mut self) -> bool {
        let is_closed = |far: &UnixStream| net::wait_closed(far, 0).unwrap_or(true);
        let closes = self.far.as_ref().is_some_and(is_closed);
        if closes {
            self.close();
        }
        closes
    }

    /// The server has closed its end. What it has not received breaks the connection, and what the
    /// client has not taken by then is lost.
    pub(super) fn close(&mut self) {
        (self.fd, self.far, self.shut) = (CLOSED, None, true);
        if self.resets || !self.inbound.is_empty() {
            self.outbound.clear();
            self.reset = true;
        }
    }

    pub(super) fn state(&self) -> State {
        let room = self.outbound_max - self.outbound.len();
        let over = self.reset || self.ended && self.shut;
        State {
            read: !self.inbound.is_empty() || self.ended || over,
            write: room * 3 >= self.outbound_max || over,
            hangup: over,
            ended: self.ended || self.reset,
        }
    }

    /// The server receives; `None` when nothing is there yet.
    pub(super) fn receive(&mut self, space: &mut [u8]) -> Option<io::Result<usize>> {
        if self.reset {
            return Some(Err(ErrorKind::ConnectionReset.into()));
        }
        let n = self.inbound.len().min(space.len());
        if n == 0 {
            return self.ended.then_some(Ok(0));
        }
        for (place, byte) in space.iter_mut().zip(self.inbound.drain(..n)) {
            *place = byte;
        }
        Some(Ok(n))
    }

    /// The server sends; `None` when there is no room.
    pub(super) fn send(&mut self, slices: &[IoSlice<'_>]) -> Option<io::Result<usize>> {
        if self.reset || self.shut {
            return Some(Err(ErrorKind::BrokenPipe.into()));
        }
        let (mut sent, wanted) = (0, slices.iter().map(|slice| slice.len()).sum());
        for slice in slices {
            let n = slice.len().min(self.room());
            self.outbound.extend(&slice[..n]);
            sent += n;
        }
        self.was_full |= sent < wanted;
        (sent > 0 || wanted == 0).then_some(Ok(sent))
    }

    /// How many bytes the server may send now.
    pub(super) fn room(&self) -> usize {
        self.outbound_max - self.outbound.len()
    }

    /// Nothing fits: who watches for room is told when there is some.
    pub(super) fn set_full(&mut self) {
        self.was_full = true;
    }

    /// How many bytes the client has not taken, and may still take.
    pub(super) fn unacknowledged(&self) -> u64 {
        if self.reset { 0 } else { self.untaken() }
    }

    /// How many bytes the client has not taken.
    pub(super) fn untaken(&self) -> u64 {
        self.outbound.len() as u64
    }

    /// Whether input is there; `None` while that is not known.
    pub(super) fn has_input(&self) -> Option<bool> {
        match self.inbound.is_empty() || self.reset {
            false => Some(true),
            true => (self.ended || self.reset).then_some(false),
        }
    }

    /// The server sends no more.
    pub(super) fn shut(&mut self) {
        self.shut = true;
    }

    /// How many bytes the client may send now.
    pub(super) fn input_room(&self) -> usize {
        self.inbound_max - self.inbound.len()
    }

    /// How many bytes there are for the client to take.
    pub(super) fn waiting(&self) -> usize {
        self.outbound.len()
    }

    /// Whether each end has taken all that the other has sent.
    pub(super) fn is_drained(&self) -> bool {
        self.inbound.is_empty() && self.outbound.is_empty()
    }

    /// Whether the client would read the end of the stream.
    pub(super) fn is_at_end(&self) -> bool {
        self.outbound.is_empty() && (self.shut || self.reset)
    }

    /// The client sends its next `n` bytes.
    pub(super) fn client_sends(&mut self, n: usize) {
        let bytes = self.client.send(n);
        if self.shut && self.fd == CLOSED {
            // Bytes for a socket that is closed break the connection.
            self.reset = true;
            self.outbound.clear();
        } else {
            self.inbound.extend(bytes);
        }
        self.wakes += 1;
    }

    /// The client takes `n` bytes.
    pub(super) fn client_takes(&mut self, n: usize) {
        self.client.take(self.outbound.drain(..n).collect());
        if let Some(responder) = &mut self.responder {
            let said = responder.answer(&self.client.received);
            self.client.script.extend(said);
        }
        if self.was_full && self.state().write {
            self.was_full = false;
            self.wakes += 1;
        }
    }

    /// The client sends no more.
    pub(super) fn client_finishes(&mut self) {
        self.ended = true;
        self.wakes += 1;
    }

    /// The client closes its socket: what it has not read breaks the connection.
    pub(super) fn client_leaves(&mut self) {
        self.reset |= !self.outbound.is_empty();
        self.outbound.clear();
        self.client.is_over = true;
        self.client_finishes();
    }

    /// The client's host breaks the connection.
    pub(super) fn client_breaks(&mut self) {
        self.inbound.clear();
        self.reset = true;
        self.client_leaves();
    }
}
