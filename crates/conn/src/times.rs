//! How long requests take. A turn of a thread begins and ends by its clock.
//!
//! A request whose answer leaves in the turn that found its head costs no clock of its own: it is
//! counted, and the end of the turn says how long that took, which is what the client waited at
//! most. One that takes longer reads the clock when its bytes leave.

use flyball_observe::histogram::Timing;

/// The requests of one connection that are under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestTimes {
    /// When the turn began that found the first of them, in nanoseconds.
    seen_ns: u64,
    /// Those of whose answers nothing was sent.
    unsent: u32,
    /// Those whose answers are not sent to the end.
    unfinished: u32,
}

/// What one thread of control times in a turn.
#[derive(Debug)]
pub struct Turn {
    /// When it began, in nanoseconds.
    began_ns: u64,
    /// When the clock was read last.
    now_ns: u64,
    /// Reads the clock of the thread: monotonic nanoseconds.
    clock: fn() -> u64,
    first_bytes: u64,
    requests: u64,
}

impl RequestTimes {
    /// A whole head was found.
    pub fn seen(&mut self, turn: &Turn) {
        if self.unfinished == 0 {
            self.seen_ns = turn.began_ns;
        }
        self.unsent += 1;
        self.unfinished += 1;
    }

    /// Bytes of answers were sent, all that there are if `finished`: what took longer than the turn
    /// is given to `record`.
    pub fn sent(
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
        let took_ns = turn.read_clock().saturating_sub(self.seen_ns);
        for (timing, n) in [(Timing::FirstByte, first), (Timing::Request, done)] {
            if n > 0 {
                record(timing, took_ns, n);
            }
        }
    }
}

impl Turn {
    /// The first begins now.
    pub fn new(clock: fn() -> u64) -> Turn {
        let now_ns = clock();
        Turn { began_ns: now_ns, now_ns, clock, first_bytes: 0, requests: 0 }
    }

    /// The time now.
    pub fn read_clock(&self) -> u64 {
        (self.clock)()
    }

    /// When the clock was read last in this turn, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The clock was read; how long ago it was read before, in nanoseconds.
    #[inline]
    pub fn lap(&mut self, now_ns: u64) -> u64 {
        let before_ns = std::mem::replace(&mut self.now_ns, now_ns);
        self.now_ns.saturating_sub(before_ns)
    }

    /// It begins where the clock was read last.
    pub fn begin(&mut self) {
        self.began_ns = self.now_ns;
    }

    /// The turn is over: what was answered in it is given to `record`. How long it took.
    pub fn end(&mut self, mut record: impl FnMut(Timing, u64, u64)) -> u64 {
        let took_ns = self.now_ns.saturating_sub(self.began_ns);
        let counted =
            [(Timing::FirstByte, &mut self.first_bytes), (Timing::Request, &mut self.requests)];
        for (timing, count) in counted {
            if *count > 0 {
                record(timing, took_ns, std::mem::take(count));
            }
        }
        took_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_answered_in_its_turn_takes_the_turn_and_what_is_not_takes_longer() {
        let (mut turn, mut times) =
            (Turn::new(flyball_sys::clock::monotonic_ns), RequestTimes::default());
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
        turn.lap(turn.read_clock());
        turn.began_ns = turn.now_ns;
        recorded.clear();
        times.sent(true, &mut turn, |timing, ns, n| recorded.push((timing, ns, n)));
        assert!(matches!(recorded[..], [(Timing::Request, ns, 1)] if ns > 500), "{recorded:?}");
        turn.end(|_, _, _| panic!("nothing was answered in this turn"));
    }
}
