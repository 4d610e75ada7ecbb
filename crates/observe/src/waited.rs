//! How long a request waited before the server knew of it, which the kernel is asked for only where
//! something is to tell it.

/// As far as that is known: of the first request of a connection, to a tick of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// Milliseconds for which its connection was in the accept queue.
    pub queued_ms: Option<u32>,
    /// Milliseconds from when it had come to when the server found it.
    pub age_ms: Option<u32>,
}
