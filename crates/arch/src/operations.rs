//! What a ring's operations carry between a connection and the kernel.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use flyball_http::CloseReason;
use flyball_http::out::Front;
use flyball_site::{Out, Plan};
use flyball_sys::{file, net};

use crate::desk::Desk;
use crate::exchange::Exchange;

/// Memory segments that one send carries.
const GATHER_MAX: usize = 64;

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
    /// Keeps one; true for the first ever, which whoever runs the server is told of.
    pub(crate) fn keep(&mut self, token: u64, now_ms: u64) -> bool {
        self.tokens.push(token);
        self.until_ms = now_ms + DESCRIPTOR_PAUSE_MS;
        !std::mem::replace(&mut self.known, true)
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

/// A connection in its slot: at most one receive, one send and one disk operation are under way.
pub(crate) struct Slot {
    pub(crate) socket: Arc<OwnedFd>,
    pub(crate) exchange: Exchange,
    pub(crate) receiving: bool,
    pub(crate) sending: bool,
    pub(crate) plan: Option<Box<Plan>>,
    pub(crate) over: Option<CloseReason>,
}

impl Slot {
    pub(crate) fn new(socket: OwnedFd, desk: &Desk) -> Slot {
        let exchange = Exchange::new(net::peer_address(&socket), desk);
        let (receiving, sending, plan, over) = (false, false, None, None);
        Slot { socket: Arc::new(socket), exchange, receiving, sending, plan, over }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.receiving || self.sending || self.plan.is_some()
    }
}

/// A buffer of `len` bytes, a used one if there is any.
pub(crate) fn spare_buffer(spare: &mut Vec<Vec<u8>>, len: usize) -> Vec<u8> {
    let mut buffer = spare.pop().unwrap_or_default();
    buffer.resize(len, 0);
    buffer
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
pub(crate) fn copy_out(out: &Out, buffer: &mut [u8]) -> (usize, bool) {
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
pub(crate) fn piece_to_send(
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
