//! A body that is produced while it is sent: its pieces come one at a time.

use super::{Ask, Conn};
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
        self.message.stream.ask();
        self.since_ms = now.ms();
    }

    /// True while a body is being produced: a piece that comes later is ignored.
    pub fn awaits_piece(&self) -> bool {
        matches!(self.state, State::Streaming | State::Exchanging)
    }

    /// True when an orderly end of the connection would pass for the end of a body that is not all
    /// sent: the driver resets it then.
    pub fn is_cut_short(&self) -> bool {
        self.message.stream.open_ended
    }

    /// True once an answer was broken off: its end is told by no words.
    pub fn is_broken_off(&self) -> bool {
        self.message.stream.failed
    }

    /// True when the connection ends in order as soon as the output is sent: the last bytes may
    /// wait for the end and share a segment with it.
    pub fn ends_with_output(&self) -> bool {
        matches!(self.state, State::Closing | State::Parting) && !self.is_broken_off()
    }

    /// The next piece of the body that is being produced, of any length, and whether it is the
    /// last. A body that turns out shorter or longer than its head promised breaks the connection
    /// off.
    pub fn piece<F>(&mut self, content: Segment<F>, last: bool, out: &mut Out<F>, now: &Now) {
        if !self.awaits_piece() {
            return;
        }
        if !self.message.stream.push(content, last, out) {
            return self.piece_failed(CloseReason::SourceFailed, now);
        }
        self.since_ms = now.ms();
        if !out.is_empty() {
            self.begin_output(now);
        }
        if last {
            let Stream { keep, unread, .. } = self.message.stream;
            // Of a body that was taken meanwhile nothing is left.
            let unread = unread && (self.state == State::Exchanging || !self.message.backend);
            // Where others take over, what its head has promised holds: a request may have come
            // behind it, whose answer says that it is the last.
            let ends_idle = self.ending.idle_end.is_some();
            if keep && ends_idle {
                self.ending.reason = self.ending.idle_end;
            }
            self.answer_ended(keep && !ends_idle, unread, out, now);
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
        self.message.ask = Ask::None;
        self.output.pending = false;
        self.end_short(reason, now);
        self.check_invariants();
    }

    fn end_short(&mut self, reason: CloseReason, now: &Now) {
        self.ending.reason = Some(reason);
        self.message.stream.failed = true;
        self.message.body_ready = 0;
        self.go(Event::BreakOff);
        self.settle(now);
    }
}
