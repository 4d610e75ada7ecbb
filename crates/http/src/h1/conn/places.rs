//! Since when a connection only holds its place: who is closed when others need it goes by that.

use super::Conn;
use crate::h1::state::State;

impl Conn {
    /// Since when it waits for a request of which nothing has come, or for the client to close it
    /// after the last answer, in monotonic milliseconds, if that is what it does.
    pub fn idle_since(&self) -> Option<u64> {
        let waits = self.state == State::Idle && !self.output.pending && !self.output.is_taken_late;
        let lingers = self.state == State::Lingering && self.ending.shut;
        (waits || lingers).then_some(self.since_ms)
    }

    /// Since when it waits for a head, in monotonic milliseconds, if it does and some of that head
    /// has come, or nothing at all since it was accepted: clients send a head in one go.
    pub fn stalled_since(&self) -> Option<u64> {
        let stalls = self.state == State::Head || self.state == State::Idle && self.fresh;
        (stalls && !self.output.pending).then_some(self.since_ms)
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
