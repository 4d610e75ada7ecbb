//! A turn of a loop: how long it takes, and how its phases share it. The clock is read when the
//! turn begins and when it ends.

use flyball_conn::Context;
use flyball_observe::counters::Counter;
use flyball_observe::histogram::Timing;

use crate::desk::Desk;
use crate::kernel::clock;

impl Desk {
    /// When the clock was read last in this turn, in nanoseconds.
    pub(crate) fn turn_ns(&self) -> u64 {
        self.turn.now_ns()
    }

    /// When the events of this turn were asked for, at the latest, in monotonic milliseconds: what
    /// had come by then has been told, or is told now. A machine may stand still in any wait.
    pub(crate) fn asked_ms(&self) -> u64 {
        self.asked_ms
    }

    /// A turn begins: something came, in a thread that waits by itself.
    pub(crate) fn begin_turn(&mut self) {
        self.asked_ms = self.now.ms();
        self.tick();
        self.turn.lap(clock::monotonic_ns());
        self.turn_begins();
    }

    /// A turn begins: since the last one ended the loop has waited for events.
    pub(crate) fn woke(&mut self) {
        self.asked_ms = self.now.ms();
        self.tick();
        let waited_ns = self.turn.lap(clock::monotonic_ns());
        self.turn_begins();
        self.tally.add(Counter::GetEvents, 1);
        self.tally.add(Counter::GetEventsNs, waited_ns);
        self.time(Timing::GetEvents, waited_ns);
    }

    /// An accept phase that began then is over; how long it took, in nanoseconds.
    pub(crate) fn accepted(&mut self, began_ns: u64) -> u64 {
        self.turn.lap(clock::monotonic_ns());
        let took_ns = self.turn.now_ns().saturating_sub(began_ns);
        self.tally.add(Counter::AcceptNs, took_ns);
        self.time(Timing::Accept, took_ns);
        self.accept_took(took_ns);
        took_ns
    }

    /// A work phase took so long; `any` if a connection was worked on.
    pub(crate) fn worked(&mut self, took_ns: u64, any: bool) {
        self.tally.add(Counter::WorkNs, took_ns);
        if any {
            self.time(Timing::Work, took_ns);
        }
    }

    /// The turn of an event loop is over.
    pub(crate) fn turned(&mut self) {
        let took_ns = self.end_turn();
        self.time(Timing::Loop, took_ns);
        self.judge(took_ns);
    }

    /// The turn is over; how long it took, in nanoseconds.
    pub(crate) fn end_turn(&mut self) -> u64 {
        let Context { turn, account, .. } = &mut **self;
        turn.lap(clock::monotonic_ns());
        turn.end(|what, ns, n| account.took(what, ns, n))
    }
}
