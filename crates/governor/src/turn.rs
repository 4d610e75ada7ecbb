//! What one turn of a loop was like: numbers that the loop has anyway.

use crate::Ns;

/// One turn, or the sum of the few since the last call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Turn {
    /// When it ended.
    pub now: Ns,
    /// How long it took, the wait for events apart.
    pub took: Ns,
    /// How long of that it accepted.
    pub accept_took: Ns,
    /// Connections that it accepted.
    pub accepted: u32,
    /// Connections that it worked on.
    pub worked_on: u32,
    /// Connections that were accepted and not served: discarded or refused.
    pub shed: u32,
    /// The head of the accept queue.
    pub head: Head,
    /// The accept queue, when [`Orders::look`](crate::Orders::look) asked for it.
    pub queue: Option<Queue>,
}

/// What is known of the connection that has waited longest in the accept queue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Head {
    /// Nothing.
    #[default]
    Unseen,
    /// The queue was empty: none was reported, or the first accept found none.
    Empty,
    /// Some wait, and none was accepted for want of a place.
    Stuck,
    /// It was accepted first in this phase, and was so old. The kernel's queue is first in, first
    /// out, so that one look tells the sojourn time of its head.
    Accepted(Age),
}

/// How old a connection is that was just accepted, as `TCP_INFO` tells, in steps of the kernel's
/// tick (mostly 4 ms).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Age {
    /// Since it was established (`tcpi_last_data_sent`): its time in the accept queue.
    pub queued: Ns,
    /// Since the client sent something (`tcpi_last_data_recv`).
    pub silent: Ns,
    /// Whether the client has sent FIN (`tcpi_state` is CLOSE_WAIT).
    pub half_closed: bool,
}

/// The accept queue of the loop's listening sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Connections that wait in it.
    pub length: u32,
    /// Packets that the kernel has dropped at it since the socket was opened; wraps. With deferral
    /// the end of each handshake is one.
    pub drops: u32,
    /// Whether it was as long as it may be: only then are drops lost clients.
    pub is_full: bool,
}
