//! Answers that other programs give: CGI programs, and servers that speak FastCGI or SCGI.
//!
//! A [`Relay`] is the second end of a slot: what goes to the program and what comes back, with one
//! bounded buffer each way. It never waits. Who drives the connection has the link, to a server or
//! to a program that was started, and moves the bytes that its [`Wire`] wants. docs/dynamic.md
//! tells the whole.

mod answering;
mod asked;
mod body;
mod cgi;
mod coded;
mod content;
mod environment;
mod errors;
mod fastcgi;
mod gates;
mod own_link;
mod records;
mod relay;
mod request;
mod scgi;

pub mod programs;
mod spares;
mod spool;
mod start;
mod upstream;
mod wire;

pub use crate::backend_settings::{BackendLimits, CgiSettings, PoolSettings, ResponderSettings};
pub use crate::reply::{Reply, SentFile, head_len};
pub use cgi::Program;
pub use records::{Ended, Reader as RecordReader};
pub use relay::{Fill, Relay, Went};
pub use spool::Spool;
pub use upstream::{LinkBounds, NoLink, Upstream};
pub use wire::{Target, Wire, Wish};

pub(crate) use answering::Outcome;
pub(crate) use coded::CodedAnswer;
pub(crate) use gates::{Admitted, Gates, Passage};

use bytes::BytesMut;
use flyball_http::Status;

/// Most bytes of a request body that wait for a backend, per connection; the client is not read
/// from while there are more.
pub const BODY_QUEUED_MAX: usize = 64 * 1024;

/// Bytes that are read from a backend at a time.
pub const PIECE_BYTES: usize = 32 * 1024;

/// Why a backend did not answer, or not to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There is no such program.
    Missing,
    /// It is not one that may be run.
    Forbidden,
    /// As many of them run as may, or the server is out of what another needs.
    Busy,
    /// It cannot be started, or nobody listens.
    Down,
    /// It ended, or closed the connection, before it had answered.
    Gone,
    /// What it said is no answer, or longer than it may be.
    Malformed,
    /// It did not say anything for too long, or not all of it in time.
    Late,
    /// It must be told how long the request body is, which nobody knows.
    Unmeasured,
    /// The request body is longer than may be held.
    TooLong,
    /// There is no room for request bodies at the moment.
    SpoolFull,
}

impl Failure {
    /// What the client is told: 502 when the answer is none, 503 when there is nobody to give one,
    /// 504 when none came (RFC 9110, section 15.6).
    pub fn status(self) -> Status {
        match self {
            Failure::Missing => Status::NOT_FOUND,
            Failure::Forbidden => Status::FORBIDDEN,
            Failure::Busy | Failure::Down | Failure::SpoolFull => Status::SERVICE_UNAVAILABLE,
            Failure::Gone | Failure::Malformed => Status::BAD_GATEWAY,
            Failure::Late => Status::GATEWAY_TIMEOUT,
            Failure::Unmeasured => Status::LENGTH_REQUIRED,
            Failure::TooLong => Status::CONTENT_TOO_LARGE,
        }
    }
}

/// How far a link got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Its link must be waited for.
    Wait,
    /// Bytes of the answer came.
    Came,
    /// All of the answer came, but not how its program ended: its link must be waited for.
    Untold,
    /// The answer has ended.
    End,
}

/// How far a request has got on its way to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It waits for another's link to end.
    Queued,
    /// Its link is being made.
    Connecting,
    /// The rest is the program's to do.
    Linked,
}

/// A way to a program, which brings a request body there and an answer in the form of CGI back.
/// Nothing here waits.
pub(crate) trait Link: std::fmt::Debug + Send {
    /// Its end of the link, unless that was given back: who drives the connection moves the bytes.
    fn wire(&self) -> Option<&Wire>;

    /// The same, to be told what was done.
    fn wire_mut(&mut self) -> Option<&mut Wire>;

    /// Bytes of the request body that it takes now.
    fn room(&self) -> usize;

    /// Takes bytes of the request body, at most as many as there is room for.
    fn take(&mut self, bytes: &[u8]);

    /// The request body has ended.
    fn end_body(&mut self);

    /// Bytes of the request, its body included, that the program has not taken yet.
    fn queued(&self) -> usize;

    /// Whether anything was passed on since this was last asked.
    fn push(&mut self) -> bool {
        self.wire_mut().is_some_and(Wire::has_moved)
    }

    /// Appends bytes of the answer.
    ///
    /// # Errors
    /// Why there is no more of it.
    fn pull(&mut self, answer: &mut BytesMut) -> Result<Flow, (Failure, String)>;

    /// The answer has ended, or the rest is not wanted: the program may go on by itself. Whether
    /// its link may be kept, or what was started for the request may.
    fn leave(self: Box<Self>) -> bool;
}
