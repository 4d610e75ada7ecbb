//! Switches for measuring what a mechanism of the papers is worth (M117, M118, M123), and what the
//! habits cost that they advise against (M125). A server that is not measured has none of them on.

/// The switches. Those of which a server wants the effect are true by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lab {
    /// Whether a head and a body in memory leave in one write.
    pub gather: bool,
    /// What is locked around accept.
    pub accept_lock: AcceptLock,
    /// Whether all signals are masked while a request is looked up.
    pub signal_mask: bool,
}

/// What is locked around accept, so that one thread or process at a time is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptLock {
    /// Nothing.
    Off,
    /// A file, by fcntl(2).
    Fcntl,
    /// A file, by flock(2).
    Flock,
}

impl Default for Lab {
    fn default() -> Lab {
        Lab { gather: true, accept_lock: AcceptLock::Off, signal_mask: false }
    }
}
