//! How a connection ends in order. The kernel resets a closed connection when more comes for it,
//! and what its socket holds of answers is lost with it. So a connection whose socket may hold some
//! is shut down and lingers. Closed at once is one whose client has it all, or has said that it
//! sends no more (`Connection: close`, RFC 9112, section 9.6).

use super::Conn;
use crate::Now;
use crate::error::CloseReason;
use crate::h1::progress::Progress;
use crate::h1::state::{Event, State};

/// What leaves the socket of a new connection before its client has acknowledged anything, in
/// bytes: ten segments (RFC 6928).
pub(super) const FIRST_FLIGHT_BYTES: u64 = 14_600;

/// Time between two looks at a socket that shall be empty before it is closed, at least.
const LOOK_MS_MIN: u64 = 5;

/// The same, at most.
const LOOK_MS_MAX: u64 = 200;

/// How the connection ends, as far as that is known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ending {
    /// Why it ends, once that is certain.
    pub(super) reason: Option<CloseReason>,
    /// The next answer is the last.
    pub(super) draining: bool,
    /// Why waiting for a request ends it, if it does.
    pub(super) idle_end: Option<CloseReason>,
    /// The write side is shut down.
    pub(super) shut: bool,
    /// Another needs its place, and what its socket holds is not known.
    pub(super) makes_room: bool,
}

impl Conn {
    /// The server is draining: close when idle, after the next answer otherwise. An idle connection
    /// expires at once, unless its first request is under way with a handshake.
    pub fn drain(&mut self) {
        self.ending.draining = true;
        if !self.is_greeting() {
            self.ending.idle_end = Some(CloseReason::Draining);
        }
    }

    /// Another needs what it holds: an idle connection expires at once. Whether that is news to it.
    pub fn end_if_idle(&mut self) -> bool {
        let is_news = self.ending.idle_end.is_none();
        self.ending.idle_end.get_or_insert(CloseReason::IdleTimeout);
        is_news
    }

    /// Others take over from this process: close after the next answer. An idle connection may
    /// have a request on its way, so that it is kept until that is answered or its time is over.
    pub fn retire(&mut self) {
        self.ending.draining = true;
    }

    /// Whether it matters to [`Conn::expired`] how much the socket still holds.
    pub fn is_judged_by_socket(&self) -> bool {
        let waits = self.state == State::Idle && self.output.has_begun();
        waits || self.output.pending || self.ending.makes_room || self.state == State::Breaking
    }

    /// The time between two requests is over. It begins when the client has its answer: one that
    /// still takes it from the socket is judged as one to which output is sent.
    pub(super) fn idle_is_over(&mut self, in_socket: u64, now: &Now) {
        if let Some(reason) = self.ending.idle_end {
            return self.idle_is_ended(reason, in_socket, now);
        }
        match (in_socket > 0 && self.output.has_begun(), self.output.is_taken_late) {
            (true, false) => {
                self.output.is_taken_late = true;
                self.output.taking.begin(&self.limits, Some(in_socket), now);
            }
            (true, true) => {
                if !self.output.taking.judge(&self.limits, in_socket, now) {
                    self.part(CloseReason::SendTimeout, now);
                }
            }
            (false, true) => (self.output.is_taken_late, self.since_ms) = (false, now.ms()),
            (false, false) if self.fresh => self.end_idle(CloseReason::HeadTimeout),
            (false, false) => self.end_idle(CloseReason::IdleTimeout),
        }
    }

    /// Another than its time ends an idle connection. A request that comes before the client has
    /// its last answer is still answered. What fits into a first flight is on its way.
    fn idle_is_ended(&mut self, reason: CloseReason, in_socket: u64, now: &Now) {
        if in_socket == 0 || self.output.handed_over <= FIRST_FLIGHT_BYTES {
            return self.end_idle(reason);
        }
        if !std::mem::replace(&mut self.output.is_taken_late, true) {
            self.begin_looks(now);
        }
        if !self.looks_again(now) {
            self.part(reason, now);
        }
    }

    fn end_idle(&mut self, reason: CloseReason) {
        self.ending.reason = Some(reason);
        self.go(Event::Expire);
    }

    /// The client was heard, or can begin to read what was sent last.
    pub(super) fn goes_on_lingering(&mut self, now: &Now) {
        self.incoming = Progress::start(now, self.limits.linger_ms, None);
    }

    /// When it has lingered long enough, in monotonic milliseconds: a while after the client was
    /// heard last, and some time after it began, however much comes.
    pub(super) fn lingers_until(&self) -> u64 {
        let longest_ms = self.limits.linger_ms_max.max(self.limits.linger_ms);
        self.incoming.window_end().min(self.since_ms + longest_ms)
    }

    /// A reset is due, once the socket holds nothing.
    pub(super) fn wait_for_reset(&mut self, now: &Now) {
        self.begin_looks(now);
    }

    /// The socket still holds so many bytes of a connection that is to be reset.
    pub(super) fn look_before_reset(&mut self, in_socket: u64, now: &Now) {
        if in_socket == 0 || !self.looks_again(now) {
            self.go(Event::Expire);
        }
    }

    /// From now on the socket is looked at until it is empty.
    fn begin_looks(&mut self, now: &Now) {
        self.since_ms = now.ms();
        self.incoming = Progress::start(now, self.limits.linger_ms, None);
    }

    /// Looks again later, each time after twice as long, until the time of lingering is over; false
    /// when it is.
    fn looks_again(&mut self, now: &Now) -> bool {
        let left_ms = self.incoming.window_end().saturating_sub(now.ms());
        let waited_ms = self.limits.linger_ms.saturating_sub(left_ms);
        self.since_ms = now.ms() + left_ms.min(waited_ms.clamp(LOOK_MS_MIN, LOOK_MS_MAX));
        left_ms > 0
    }
}
