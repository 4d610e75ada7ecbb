//! The answers that a connection has on their way to its client.

use crate::Now;
use crate::h1::progress::Taking;
use crate::limits::Limits;

/// Answers on their way: to the socket, and from it to the client.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Output {
    /// Some of it waits to be written.
    pub(super) pending: bool,
    /// No further request is answered before what is queued is written.
    pub(super) full: bool,
    /// How many answers are queued.
    pub(super) batch: u16,
    sent_before: bool,
    /// Its time between requests is over, and the client is still taking what the socket holds.
    pub(super) is_taken_late: bool,
    /// Bytes that the socket has taken.
    pub(super) handed_over: u64,
    /// How the client takes them.
    pub(super) taking: Taking,
}

impl Output {
    /// Something was queued.
    pub(super) fn begin(&mut self, limits: &Limits, now: &Now) {
        if !self.pending {
            self.pending = true;
            // What a pipelining client has not taken of earlier answers is still in the socket.
            let in_socket = (!self.sent_before).then_some(0);
            self.taking.begin(limits, in_socket, now);
            self.sent_before = true;
        }
    }

    /// Whether anything was ever queued.
    pub(super) fn has_begun(&self) -> bool {
        self.sent_before
    }

    /// The socket took `n` bytes; true when those were the last, so that nothing is pending from
    /// now on.
    pub(super) fn sent(&mut self, n: u64, all: bool) -> bool {
        self.taking.add(n);
        self.handed_over += n;
        if all && self.pending {
            (self.pending, self.full, self.batch) = (false, false, 0);
            return true;
        }
        false
    }
}
