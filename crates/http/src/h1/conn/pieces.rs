//! A body that is produced while it is sent: its pieces come one at a time.

use super::Conn;
use crate::Now;
use crate::error::CloseReason;
use crate::h1::state::{Event, State};
use crate::h1::stream::Stream;
use crate::out::{Out, Segment};

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

    /// The next piece of the body that is being produced, of any length, and whether it is the
    /// last. A body that turns out shorter or longer than its head promised breaks the connection
    /// off.
    pub fn piece<F>(&mut self, content: Segment<F>, last: bool, out: &mut Out<F>, now: &Now) {
        if !self.awaits_piece() {
            return;
        }
        if !self.stream.push(content, last, out) {
            return self.piece_failed(CloseReason::SourceFailed);
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
    pub fn piece_failed(&mut self, reason: CloseReason) {
        if !self.awaits_piece() {
            return;
        }
        if !self.pending {
            return self.abort(reason);
        }
        self.reason = Some(reason);
        self.stream.failed = true;
        // A client that still sends its body must not lose by a reset what has left.
        self.go(match self.state {
            State::Exchanging => Event::Part,
            _ => Event::AnswerClose,
        });
        self.body_ready = 0;
        self.check_invariants();
    }
}
