//! Since when a connection only holds its place: who is closed when others need it goes by that.

use super::Conn;
use super::ends::FIRST_FLIGHT_BYTES;
use crate::Now;
use crate::error::CloseReason;
use crate::h1::state::State;

impl Conn {
    /// Since when it waits for a request of which nothing has come, in monotonic milliseconds, if
    /// that is what it does.
    pub fn idle_since(&self) -> Option<u64> {
        (self.state == State::Idle && !self.output.pending).then_some(self.since_ms)
    }

    /// Since when it waits for the client to close it after the last answer, in monotonic
    /// milliseconds, if it does: what still comes is thrown away.
    pub fn lingers_since(&self) -> Option<u64> {
        (self.state == State::Lingering && self.ending.shut).then_some(self.since_ms)
    }

    /// Since when it waits for a head, in monotonic milliseconds, if it does and some of that head
    /// has come, or nothing at all since it was accepted: clients send a head in one go.
    pub fn stalled_since(&self) -> Option<u64> {
        let stalls = self.state == State::Head || self.state == State::Idle && self.fresh;
        let is_given = !self.output.pending && !self.output.is_taken_late;
        (stalls && is_given).then_some(self.since_ms)
    }

    /// Another needs its place. It is closed, unless its client may still take an answer from the
    /// socket: then it is as if a deadline had passed, and [`Conn::expired`] decides.
    pub fn make_room(&mut self) {
        let waits = matches!(self.state, State::Idle | State::Head);
        match waits && self.output.handed_over > FIRST_FLIGHT_BYTES {
            true => self.ending.makes_room = true,
            false => self.abort(CloseReason::MadeRoom),
        }
    }

    /// Another needs its place, and the socket holds so much: a client that is still taking that
    /// keeps it, for as long as it is as fast as one to which output is sent.
    pub(super) fn make_room_if_taken(&mut self, in_socket: u64, now: &Now) {
        if in_socket == 0 || self.lags_since().is_some() {
            return self.abort(CloseReason::MadeRoom);
        }
        if !std::mem::replace(&mut self.output.is_taken_late, true) {
            self.output.taking.begin(&self.limits, Some(in_socket), now);
        }
        if self.state == State::Idle {
            // It is looked at again when it has been idle for a while from now.
            self.since_ms = now.ms();
        }
    }

    /// Since when its client takes less of an answer than the least rate, in monotonic
    /// milliseconds, if it does.
    pub fn lags_since(&self) -> Option<u64> {
        self.output
            .taking
            .slow_since_ms()
            .filter(|_| self.output.pending || self.output.is_taken_late)
    }
}
