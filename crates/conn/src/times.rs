//! How long requests take. A turn of a thread begins and ends by its clock.
//!
//! A request whose answer leaves in the turn that found its head costs no clock of its own: it is
//! counted, and the end of the turn says how long that took, which is what the client waited at
//! most. One that takes longer reads the clock when its bytes leave.

use flyball_observe::histogram::Timing;
use flyball_observe::hosts::NamePlace;

/// Sites of which requests are answered in one turn before those until then are recorded, as having
/// taken what the turn has taken so far.
const SITES_MAX: usize = 8;

/// What has taken so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// From a head to the first bytes of the answer.
    FirstByte,
    /// To the last ones, of an answer that was counted there.
    Request(NamePlace),
}

impl Took {
    /// What it is among all that is timed.
    pub(crate) fn timing(self) -> Timing {
        match self {
            Took::FirstByte => Timing::FirstByte,
            Took::Request(_) => Timing::Request,
        }
    }
}

/// The requests of one connection that are under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestTimes {
    /// When the first of them had come, as far as is known: when the turn began that found it, or
    /// before. In nanoseconds.
    seen_ns: u64,
    /// Those of whose answers nothing was sent.
    unsent: u32,
    /// Those whose answers are not sent to the end.
    unfinished: u32,
    /// Where their answers are counted.
    place: NamePlace,
    /// The newest is not answered.
    awaits: bool,
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
    /// By so much the kernel's times of arrival may be off, in nanoseconds.
    tick_ns: u64,
    first_bytes: u64,
    /// Requests by where their answers are counted; the first so many are in use.
    requests: [(NamePlace, u64); SITES_MAX],
    sites: usize,
}

impl RequestTimes {
    /// A whole head was found, which had come then, in monotonic nanoseconds to a tick of the
    /// kernel; 0 where that is not known.
    pub fn seen(&mut self, came_ns: u64, turn: &Turn) {
        if self.unfinished == 0 {
            // A wait that may be none is not counted.
            let surely_ns = if came_ns > 0 { came_ns + turn.tick_ns } else { u64::MAX };
            self.seen_ns = turn.began_ns.min(surely_ns);
        }
        self.unsent += 1;
        self.unfinished += 1;
        self.awaits = true;
    }

    /// An answer was counted there, of the request that was seen last or of one that was refused
    /// unseen. A client that asks another site ahead of what it has been sent is rare: what waits
    /// of the site before is taken for sent.
    pub fn answered(
        &mut self,
        place: NamePlace,
        turn: &mut Turn,
        mut record: impl FnMut(Took, u64, u64),
    ) {
        if !std::mem::take(&mut self.awaits) {
            return;
        }
        if self.unfinished > 1 && self.place != place {
            let before = u64::from(self.unfinished - 1);
            self.unfinished = 1;
            match self.seen_ns == turn.began_ns {
                true => turn.done(self.place, before, &mut record),
                false => record(Took::Request(self.place), self.since_seen(turn), before),
            }
        }
        self.place = place;
    }

    /// Bytes of answers were sent, all that there are if `finished`: what took longer than the turn
    /// is given to `record`.
    pub fn sent(
        &mut self,
        finished: bool,
        turn: &mut Turn,
        mut record: impl FnMut(Took, u64, u64),
    ) {
        if self.unsent == 0 && !(finished && self.unfinished > 0) {
            return;
        }
        let first = u64::from(std::mem::take(&mut self.unsent));
        let done = if finished { u64::from(std::mem::take(&mut self.unfinished)) } else { 0 };
        if self.seen_ns == turn.began_ns {
            turn.first_bytes += first;
            return turn.done(self.place, done, &mut record);
        }
        let took_ns = self.since_seen(turn);
        for (what, n) in [(Took::FirstByte, first), (Took::Request(self.place), done)] {
            if n > 0 {
                record(what, took_ns, n);
            }
        }
    }

    fn since_seen(&self, turn: &Turn) -> u64 {
        turn.read_clock().saturating_sub(self.seen_ns)
    }
}

impl Turn {
    /// The first begins now. The kernel's times of arrival are to a tick.
    pub fn new(clock: fn() -> u64, tick_ns: u64) -> Turn {
        let now_ns = clock();
        let requests = [Default::default(); SITES_MAX];
        Turn { began_ns: now_ns, now_ns, clock, tick_ns, first_bytes: 0, requests, sites: 0 }
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

    /// So many requests of a site have ended that were found in this turn.
    fn done(&mut self, place: NamePlace, n: u64, record: &mut impl FnMut(Took, u64, u64)) {
        if n == 0 {
            return;
        }
        if let Some((_, count)) = self.requests[..self.sites].iter_mut().find(|one| one.0 == place)
        {
            *count += n;
            return;
        }
        if self.sites == SITES_MAX {
            self.tell_requests(self.read_clock().saturating_sub(self.began_ns), record);
        }
        self.requests[self.sites] = (place, n);
        self.sites += 1;
    }

    fn tell_requests(&mut self, took_ns: u64, record: &mut impl FnMut(Took, u64, u64)) {
        for (place, count) in &self.requests[..std::mem::take(&mut self.sites)] {
            record(Took::Request(*place), took_ns, *count);
        }
    }

    /// The turn is over: what was answered in it is given to `record`. How long it took.
    pub fn end(&mut self, mut record: impl FnMut(Took, u64, u64)) -> u64 {
        let took_ns = self.now_ns.saturating_sub(self.began_ns);
        if self.first_bytes > 0 {
            record(Took::FirstByte, took_ns, std::mem::take(&mut self.first_bytes));
        }
        self.tell_requests(took_ns, &mut record);
        took_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_http::Status;
    use flyball_observe::hosts::NamedCounts;
    use flyball_observe::writers::Writers;

    /// Where so many sites count.
    fn places(count: usize) -> Vec<NamePlace> {
        let names: Vec<String> = (0..count).map(|site| site.to_string()).collect();
        let counts = NamedCounts::new(&names, 1).unwrap();
        (0..count).map(|site| counts.answered(0, Writers::One, Some(site), Status::OK)).collect()
    }

    /// A turn from 1,000 ns to 1,500, on a clock that says 2,000 whenever it is asked.
    fn turn() -> Turn {
        let mut turn = Turn::new(|| 2_000, 40);
        (turn.began_ns, turn.now_ns) = (1_000, 1_500);
        turn
    }

    /// A request is seen, and answered by this site.
    fn ask(times: &mut RequestTimes, place: NamePlace, turn: &mut Turn) {
        times.seen(0, turn);
        times.answered(place, turn, |_, _, _| panic!("nothing of another site waits"));
    }

    fn ended(turn: &mut Turn) -> Vec<(Took, u64, u64)> {
        let mut told = Vec::new();
        turn.end(|what, ns, n| told.push((what, ns, n)));
        told
    }

    #[test]
    fn what_is_answered_in_its_turn_takes_the_turn_and_what_is_not_takes_longer() {
        let (mut turn, mut times, place) = (turn(), RequestTimes::default(), places(1)[0]);
        ask(&mut times, place, &mut turn);
        ask(&mut times, place, &mut turn);
        times.sent(true, &mut turn, |_, _, _| panic!("nothing took longer than the turn"));
        times.sent(true, &mut turn, |_, _, _| panic!("nothing is left"));
        ask(&mut times, place, &mut turn);
        times.sent(false, &mut turn, |_, _, _| panic!("nothing took longer than the turn"));
        let expected = [(Took::FirstByte, 500, 3), (Took::Request(place), 500, 2)];
        assert_eq!(ended(&mut turn), expected);
        turn.lap(1_600);
        turn.begin();
        let mut recorded = Vec::new();
        times.sent(true, &mut turn, |what, ns, n| recorded.push((what, ns, n)));
        assert_eq!(recorded, [(Took::Request(place), 1_000, 1)]);
        assert_eq!(ended(&mut turn), []);
    }

    #[test]
    fn a_wait_before_the_turn_counts_where_it_surely_was_one() {
        let (mut turn, mut times, place) = (turn(), RequestTimes::default(), places(1)[0]);
        let mut recorded = Vec::new();
        for came_ns in [970, 900] {
            times.seen(came_ns, &turn);
            times.answered(place, &mut turn, |_, _, _| panic!("nothing of another site waits"));
            times.sent(true, &mut turn, |what, ns, n| recorded.push((what, ns, n)));
        }
        // A tick is 40 ns here.
        assert_eq!(recorded, [(Took::FirstByte, 1_060, 1), (Took::Request(place), 1_060, 1)]);
        let in_turn = [(Took::FirstByte, 500, 1), (Took::Request(place), 500, 1)];
        assert_eq!(ended(&mut turn), in_turn);
    }

    #[test]
    fn requests_of_many_sites_in_one_turn_are_all_told_by_their_sites() {
        let (mut turn, places) = (turn(), places(SITES_MAX + 1));
        let mut told = Vec::new();
        for place in places.iter().chain(&places[SITES_MAX..]) {
            let mut times = RequestTimes::default();
            ask(&mut times, *place, &mut turn);
            times.sent(true, &mut turn, |what, ns, n| told.push((what, ns, n)));
        }
        let early = places[..SITES_MAX].iter().map(|place| (Took::Request(*place), 1_000, 1));
        assert_eq!(told, early.collect::<Vec<_>>());
        let rest = [(Took::FirstByte, 500, 10), (Took::Request(places[SITES_MAX]), 500, 2)];
        assert_eq!(ended(&mut turn), rest);
    }

    #[test]
    fn what_one_connection_asks_of_several_sites_is_told_by_each() {
        let (mut turn, mut times, places) = (turn(), RequestTimes::default(), places(2));
        ask(&mut times, places[0], &mut turn);
        ask(&mut times, places[0], &mut turn);
        // One that is refused unseen is not timed, and takes no other's place.
        times.answered(NamePlace::default(), &mut turn, |_, _, _| panic!("it was not seen"));
        ask(&mut times, places[1], &mut turn);
        times.sent(true, &mut turn, |_, _, _| panic!("nothing took longer than the turn"));
        let done = [(Took::Request(places[0]), 500, 2), (Took::Request(places[1]), 500, 1)];
        assert_eq!(ended(&mut turn)[1..], done);
        // The same where the turn is over before they are answered.
        times.seen(0, &turn);
        turn.lap(1_700);
        turn.begin();
        times.answered(places[1], &mut turn, |_, _, _| panic!("nothing waits"));
        times.seen(0, &turn);
        let mut told = Vec::new();
        times.answered(places[0], &mut turn, |what, ns, n| told.push((what, ns, n)));
        times.sent(true, &mut turn, |what, ns, n| told.push((what, ns, n)));
        let done = [(Took::Request(places[1]), 1_000, 1), (Took::FirstByte, 1_000, 2)];
        assert_eq!(told, [&done[..], &[(Took::Request(places[0]), 1_000, 1)]].concat());
    }
}
