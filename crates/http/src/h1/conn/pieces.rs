//! A body that is produced while it is sent: its pieces come one at a time.

use super::{Ask, Conn};
use crate::Now;
use crate::error::CloseReason;
use crate::h1::progress::Progress;
use crate::h1::state::{Event, State};
use crate::h1::stream::Stream;
use crate::out::{Out, Segment};

/// Time between two looks at a socket that shall be empty before it is reset, at least.
const LOOK_MS_MIN: u64 = 5;

/// The same, at most.
const LOOK_MS_MAX: u64 = 200;

impl Conn {
    /// The driver has taken the wish for a piece and will call `piece` later. Until then the client
    /// is not slow when there is nothing to send, and the piece has the time of an answer.
    pub fn piece_asked(&mut self, now: &Now) {
        debug_assert!(self.wants().piece);
        self.stream.ask();
        self.since_ms = now.ms();
    }

    /// True while a body is being produced: a piece that comes later is ignored.
    pub fn awaits_piece(&self) -> bool {
        matches!(self.state, State::Streaming | State::Exchanging)
    }

    /// True when an orderly end of the connection would pass for the end of a body that is not all
    /// sent: the driver resets it then.
    pub fn is_cut_short(&self) -> bool {
        self.stream.open_ended
    }

    /// True when the connection ends in order as soon as the output is sent: the last bytes may
    /// wait for the end and share a segment with it.
    pub fn ends_with_output(&self) -> bool {
        matches!(self.state, State::Closing | State::Parting) && !self.stream.failed
    }

    /// The next piece of the body that is being produced, of any length, and whether it is the
    /// last. A body that turns out shorter or longer than its head promised breaks the connection
    /// off.
    pub fn piece<F>(&mut self, content: Segment<F>, last: bool, out: &mut Out<F>, now: &Now) {
        if !self.awaits_piece() {
            return;
        }
        if !self.stream.push(content, last, out) {
            return self.piece_failed(CloseReason::SourceFailed, now);
        }
        self.since_ms = now.ms();
        if !out.is_empty() {
            self.begin_output(now);
        }
        if last {
            let Stream { keep, unread, .. } = self.stream;
            // Of a body that was taken meanwhile nothing is left.
            let unread = unread && (self.state == State::Exchanging || !self.backend);
            // Where others take over, what its head has promised holds: a request may have come
            // behind it, whose answer says that it is the last.
            if keep && self.close_idle {
                self.reason = Some(CloseReason::Draining);
            }
            self.answer_ended(keep && !self.close_idle, unread, out, now);
            self.settle(now);
        }
        self.check_invariants();
    }

    /// There is no next piece, although the body has not ended: the connection is broken off, which
    /// tells the client so. What is queued leaves first.
    pub fn piece_failed(&mut self, reason: CloseReason, now: &Now) {
        if self.awaits_piece() {
            self.end_short(reason, now);
        }
        self.check_invariants();
    }

    /// The body at the front of the output cannot be sent to its end: nothing more is sent, and the
    /// driver forgets what is queued. What the socket holds, of earlier answers too, reaches the
    /// client.
    pub fn break_off(&mut self, reason: CloseReason, now: &Now) {
        if matches!(self.state, State::Lingering | State::Breaking | State::Closed) {
            return;
        }
        self.ask = Ask::None;
        self.pending = false;
        self.end_short(reason, now);
        self.check_invariants();
    }

    fn end_short(&mut self, reason: CloseReason, now: &Now) {
        self.reason = Some(reason);
        self.stream.failed = true;
        self.body_ready = 0;
        self.go(Event::BreakOff);
        self.settle(now);
    }

    /// A reset is due, once the socket holds nothing.
    pub(super) fn wait_for_reset(&mut self, now: &Now) {
        self.since_ms = now.ms();
        self.incoming = Progress::start(now, self.limits.linger_ms, None);
    }

    /// The socket still holds so many bytes of a connection that is to be reset: looks again later,
    /// each time after twice as long, until the time of lingering is over.
    pub(super) fn look_before_reset(&mut self, in_socket: u64, now: &Now) {
        let left_ms = self.incoming.window_end().saturating_sub(now.ms());
        if in_socket == 0 || left_ms == 0 {
            return self.go(Event::Expire);
        }
        let waited_ms = self.limits.linger_ms.saturating_sub(left_ms);
        self.since_ms = now.ms() + left_ms.min(waited_ms.clamp(LOOK_MS_MIN, LOOK_MS_MAX));
    }
}
