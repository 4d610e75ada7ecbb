//! What a connection wants, as a set, and the one call that ends each wish:
//!
//! | wish | the call |
//! | --- | --- |
//! | `again` | `Connection::go_on`; where it has just gone on, in another turn |
//! | `over` | `Connection::end` |
//! | `socket` | `Connection::shut`, when the write side of the socket is shut down; |
//! |          | `Connection::acknowledged`; `Connection::paced`; |
//! |          | `Connection::bounded` |
//! | `link` | `Connection::linked` with a link that is opened; `Connection::link_shut`; |
//! |        | `Connection::link_left` |
//! | `asks` | `Connection::take_plan`; what is done comes back by `Connection::done` |
//! | `read` | `Connection::received` or `Connection::eof`, for what the socket holds |
//! | `write` | `Connection::sent`, when all is sent; `Connection::absent` if it is not in memory |
//! | `watch` | `Connection::link_received`, `Connection::link_sent`, `Connection::link_told`, or |
//! |         | `Connection::woke` when its client may be ready |
//!
//! Any of them is also ended by `Connection::abort`.

use flyball_http::CloseReason;
use flyball_site::Ask;
use flyball_sys::readiness::Interest;

/// Plans that one connection can have asked for at a time: for its request, and for the front of
/// its output.
const ASKS_MAX: usize = 2;

/// Everything that a connection wants. Scratch: cleared, and never allocated.
#[derive(Debug, Default)]
pub struct Needs {
    /// It can go on by itself.
    pub again: bool,
    /// The connection is over.
    pub over: Option<CloseReason>,
    /// What is to be done with its socket, beside receiving and sending.
    pub socket: Option<SocketNeed>,
    /// What is to be done with its link.
    pub link: Option<LinkNeed>,
    /// Plans that are to be performed.
    pub asks: Asks,
    /// Input from the client.
    pub read: bool,
    /// Room in the client's socket.
    pub write: bool,
    /// Its link, where that is waited for.
    pub watch: Option<Watch>,
}

/// What asks for plans that are not taken yet.
#[derive(Clone, Copy, Debug)]
pub struct Asks {
    /// Only the first of them count.
    asks: [Ask; ASKS_MAX],
    count: usize,
}

/// What a connection wants to be done with its socket, beside receiving and sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketNeed {
    /// The write side is to be shut down.
    Shut,
    /// What was received is to be acknowledged now: nothing is sent that would carry that, and its
    /// client may hold its next bytes back until then (RFC 896).
    Acknowledge,
    /// So many bytes are to be sent in a second at most, from now on; `u64::MAX` is no limit.
    Pace(u64),
    /// It takes no more bytes while so many wait in it to be sent; 0 is no limit.
    Unsent(u32),
}

/// What a connection wants to be done with its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkNeed {
    /// One is to be opened; where it has one, that is to be closed, and this has its place.
    Open,
    /// Nothing more is sent: the input of the program that it leads to is to end.
    Shut,
    /// It is to be closed, or kept for another request; a program is to end, or goes on by itself.
    Leave {
        /// Whether that may be.
        keeps: bool,
    },
}

/// How its link is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// What it is waited for.
    pub interest: Interest,
    /// Whether input from the client is wanted too. Otherwise only its leaving matters.
    pub reads: bool,
}

impl Needs {
    /// Nothing is wanted.
    pub(crate) fn clear(&mut self) {
        (self.again, self.over, self.socket, self.link) = (false, None, None, None);
        (self.read, self.write, self.watch) = (false, false, None);
        self.asks.count = 0;
    }

    /// Whether input is all that is wanted.
    pub fn reads_only(&self) -> bool {
        let links = self.link.is_some() || self.watch.is_some();
        let waits = links || self.asks.first().is_some() || self.socket.is_some();
        self.read && !self.write && !waits
    }
}

impl Asks {
    pub(crate) fn push(&mut self, ask: Ask) {
        match self.asks.get_mut(self.count) {
            Some(place) => (*place, self.count) = (ask, self.count + 1),
            None => debug_assert!(false, "a connection has asked for too much"),
        }
    }

    /// The first of them.
    pub fn first(&self) -> Option<Ask> {
        self.asks.first().filter(|_| self.count > 0).copied()
    }
}

impl Default for Asks {
    fn default() -> Asks {
        Asks { asks: [Ask::Ahead; ASKS_MAX], count: 0 }
    }
}
