//! A turn of a loop: how long it takes, how its phases share it, and how long the clients wait for
//! answers that leave in it. The clock is read when the turn begins and when it ends.
//!
//! A request whose answer leaves in the turn that found its head costs no clock of its own: it is
//! counted, and the end of the turn says how long that took, which is what the client waited at
//! most. One that takes longer reads the clock when its bytes leave.

use flyball_observe::counters::{Blocks, Counter};
use flyball_observe::histogram::Timing;
use flyball_sys::clock;

use crate::desk::Desk;

/// The requests of one connection that are under way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestTimes {
    /// When the turn began that found the first of them, in nanoseconds.
    seen_ns: u64,
    /// Those of whose answers nothing was sent.
    unsent: u32,
    /// Those whose answers are not sent to the end.
    unfinished: u32,
}

/// What one thread of control times in a turn.
#[derive(Debug)]
pub(crate) struct Turn {
    /// When it began, in nanoseconds.
    began_ns: u64,
    /// When the clock was read last.
    now_ns: u64,
    first_bytes: u64,
    requests: u64,
}

impl RequestTimes {
    /// A whole head was found.
    pub(crate) fn seen(&mut self, turn: &Turn) {
        if self.unfinished == 0 {
            self.seen_ns = turn.began_ns;
        }
        self.unsent += 1;
        self.unfinished += 1;
    }

    /// Bytes of answers were sent, all that there are if `finished`: what took longer than the turn
    /// is given to `record`.
    pub(crate) fn sent(
        &mut self,
        finished: bool,
        turn: &mut Turn,
        mut record: impl FnMut(Timing, u64, u64),
    ) {
        if self.unsent == 0 && !(finished && self.unfinished > 0) {
            return;
        }
        let first = u64::from(std::mem::take(&mut self.unsent));
        let done = if finished { u64::from(std::mem::take(&mut self.unfinished)) } else { 0 };
        if self.seen_ns == turn.began_ns {
            turn.first_bytes += first;
            turn.requests += done;
            return;
        }
        let took_ns = clock::monotonic_ns().saturating_sub(self.seen_ns);
        for (timing, n) in [(Timing::FirstByte, first), (Timing::Request, done)] {
            if n > 0 {
                record(timing, took_ns, n);
            }
        }
    }
}

impl Turn {
    /// The first begins now.
    pub(crate) fn new() -> Turn {
        let now_ns = clock::monotonic_ns();
        Turn { began_ns: now_ns, now_ns, first_bytes: 0, requests: 0 }
    }

    /// Reads the clock; how long ago it was read before, in nanoseconds.
    fn lap(&mut self) -> u64 {
        let before_ns = std::mem::replace(&mut self.now_ns, clock::monotonic_ns());
        self.now_ns.saturating_sub(before_ns)
    }

    /// The turn is over: what was answered in it is given to `record`.
    fn end(&mut self, mut record: impl FnMut(Timing, u64, u64)) {
        let took_ns = self.now_ns.saturating_sub(self.began_ns);
        let counted =
            [(Timing::FirstByte, &mut self.first_bytes), (Timing::Request, &mut self.requests)];
        for (timing, count) in counted {
            if *count > 0 {
                record(timing, took_ns, std::mem::take(count));
            }
        }
    }
}

impl Desk {
    /// When the clock was read last in this turn, in nanoseconds.
    pub(crate) fn turn_ns(&self) -> u64 {
        self.turn.now_ns
    }

    /// A turn begins: something came, in a thread that waits by itself.
    pub(crate) fn begin_turn(&mut self) {
        self.tick();
        self.turn.lap();
        self.turn.began_ns = self.turn.now_ns;
    }

    /// A turn begins: since the last one ended the loop has waited for events.
    pub(crate) fn woke(&mut self) {
        self.tick();
        let waited_ns = self.turn.lap();
        self.turn.began_ns = self.turn.now_ns;
        self.tally.add(Counter::GetEvents, 1);
        self.tally.add(Counter::GetEventsNs, waited_ns);
        self.time(Timing::GetEvents, waited_ns);
    }

    /// An accept phase that began then is over; how long it took, in nanoseconds.
    pub(crate) fn accepted(&mut self, began_ns: u64) -> u64 {
        self.turn.lap();
        let took_ns = self.turn.now_ns.saturating_sub(began_ns);
        self.tally.add(Counter::AcceptNs, took_ns);
        self.time(Timing::Accept, took_ns);
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
    }

    /// The turn is over; how long it took, in nanoseconds.
    pub(crate) fn end_turn(&mut self) -> u64 {
        self.turn.lap();
        let Desk { turn, shared, block, shares_block, .. } = self;
        turn.end(recorder(&shared.blocks, *block, *shares_block));
        turn.now_ns.saturating_sub(turn.began_ns)
    }

    /// Records how long something took, in nanoseconds.
    pub(crate) fn time(&self, timing: Timing, ns: u64) {
        recorder(&self.shared.blocks, self.block, self.shares_block)(timing, ns, 1);
    }

    /// A whole head was found.
    pub(crate) fn request_seen(&self, times: &mut RequestTimes) {
        times.seen(&self.turn);
    }

    /// Bytes of answers were sent; all that there are if `finished`.
    pub(crate) fn answer_sent(&mut self, times: &mut RequestTimes, finished: bool) {
        let Desk { turn, shared, block, shares_block, .. } = self;
        times.sent(finished, turn, recorder(&shared.blocks, *block, *shares_block));
    }
}

/// Records times in a block, which other threads may write too.
fn recorder(blocks: &Blocks, block: usize, shared: bool) -> impl FnMut(Timing, u64, u64) {
    move |timing, ns, n| match shared {
        false => blocks.time(block, timing, ns, n),
        true => blocks.time_among_others(block, timing, ns, n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_answered_in_its_turn_takes_the_turn_and_what_is_not_takes_longer() {
        let (mut turn, mut times) = (Turn::new(), RequestTimes::default());
        (turn.began_ns, turn.now_ns) = (1_000, 1_500);
        times.seen(&turn);
        times.seen(&turn);
        times.sent(true, &mut turn, |_, _, _| panic!("nothing took longer than the turn"));
        times.sent(true, &mut turn, |_, _, _| panic!("nothing is left"));
        times.seen(&turn);
        times.sent(false, &mut turn, |_, _, _| panic!("nothing took longer than the turn"));
        let mut recorded = Vec::new();
        turn.end(|timing, ns, n| recorded.push((timing, ns, n)));
        assert_eq!(recorded, [(Timing::FirstByte, 500, 3), (Timing::Request, 500, 2)]);
        turn.lap();
        turn.began_ns = turn.now_ns;
        recorded.clear();
        times.sent(true, &mut turn, |timing, ns, n| recorded.push((timing, ns, n)));
        assert!(matches!(recorded[..], [(Timing::Request, ns, 1)] if ns > 500), "{recorded:?}");
        turn.end(|_, _, _| panic!("nothing was answered in this turn"));
    }
}
