//! The accept phase (S0, section 4.1): how many connections are taken in one go, and what happens
//! when there is no room for more.

use std::cell::Cell;
use std::io::ErrorKind;
use std::sync::Arc;

use flyball_conn::Peer;
use flyball_observe::counters::{Counter, Tally};
use flyball_sys::owned::{Opening, Owned};

use crate::kernel::{clock, net};
use crate::listener::Listener;
use crate::live::Live;
use crate::settings::AcceptLimit;

/// The accept-limit, with the credit that a fraction leaves over from phase to phase.
#[derive(Debug)]
pub struct AcceptPolicy {
    limit: Limit,
    credit: f64,
    bounds: PhaseBounds,
}

/// What the governor allows the phase that begins next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PhaseBounds {
    /// How many are accepted where the limit is left to it.
    pub(crate) pulled: u32,
    /// When it ends, in monotonic nanoseconds; `None` for no such bound.
    pub(crate) until_ns: Option<u64>,
}

impl PhaseBounds {
    /// Those of a phase without a governor.
    const FREE: PhaseBounds = PhaseBounds { pulled: u32::MAX, until_ns: None };
}

/// After how many accepted connections the clock is read, where a phase is bounded in time: they
/// take about a tenth of a millisecond.
const CLOCK_EACH: u64 = 16;

/// Where the accept-limit comes from.
#[derive(Debug)]
enum Limit {
    Fixed(AcceptLimit),
    Shared(Arc<Live>),
}

/// How an accept phase ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The queue is empty.
    Drained,
    /// The accept-limit was reached, or the phase's time is over.
    Limit,
    /// The worker has as many connections as it may.
    Full,
    /// Descriptors or memory are out.
    OutOfDescriptors,
    /// The socket does not listen any more.
    Closed,
}

/// Why accepting is paused: the process has no more descriptors.
pub(crate) const OUT_OF_DESCRIPTORS: &str = "descriptors are out";

/// Why accepting is paused: the limit on connections is reached.
pub(crate) const FULL: &str = "as many connections as allowed are open";

/// What is said when accepting pauses, with so many connections open.
pub(crate) fn paused(why: &str, open: usize) -> String {
    format!("accepting is paused: {why} ({open} connections open)")
}

impl Ended {
    /// Why accepting is paused after a phase that ended so, if that is worth a message. A closed
    /// socket is not: another worker closed the queue and is about to end, and the master opens it
    /// again, or ends this worker too.
    pub(crate) fn why_paused(self) -> Option<&'static str> {
        match self {
            Ended::OutOfDescriptors => Some(OUT_OF_DESCRIPTORS),
            Ended::Full => Some(FULL),
            Ended::Drained | Ended::Limit | Ended::Closed => None,
        }
    }
}

impl AcceptPolicy {
    /// A policy with this limit for ever.
    pub fn new(limit: AcceptLimit) -> AcceptPolicy {
        AcceptPolicy::by(Limit::Fixed(limit))
    }

    /// A policy with the limit that holds for the whole server when a phase begins: it can be
    /// changed while the server runs (S0, section 4.3).
    pub(crate) fn shared(live: &Arc<Live>) -> AcceptPolicy {
        AcceptPolicy::by(Limit::Shared(Arc::clone(live)))
    }

    fn by(limit: Limit) -> AcceptPolicy {
        AcceptPolicy { limit, credit: 0.0, bounds: PhaseBounds::FREE }
    }

    /// The next phase keeps to these bounds.
    pub(crate) fn bound(&mut self, bounds: PhaseBounds) {
        self.bounds = bounds;
    }

    /// The same limit, but no less than one connection in each phase, for ever.
    pub fn at_least_one(&self) -> AcceptPolicy {
        AcceptPolicy::new(match self.limit() {
            AcceptLimit::At(limit) => AcceptLimit::At(limit.max(1.0)),
            limit => limit,
        })
    }

    fn limit(&self) -> AcceptLimit {
        match &self.limit {
            Limit::Fixed(limit) => *limit,
            Limit::Shared(live) => live.accept_limit(),
        }
    }

    /// How many may be accepted in the phase that begins now. Below 1 the credit adds up, so that
    /// a limit of 1/4 accepts one connection in every fourth phase (M45).
    fn begin(&mut self) -> u64 {
        match self.limit() {
            AcceptLimit::Infinite => u64::MAX,
            AcceptLimit::Auto => u64::from(self.bounds.pulled),
            AcceptLimit::At(limit) => {
                self.credit = (self.credit + limit).min(limit + 1.0);
                let whole = self.credit.floor();
                self.credit -= whole;
                whole as u64
            }
        }
    }

    /// Whether the phase has lasted as long as it may.
    fn is_over(&self) -> bool {
        self.bounds.until_ns.is_some_and(|until_ns| clock::monotonic_ns() >= until_ns)
    }

    /// Accepts from a non-blocking socket into `take`, at most as many as the limit and `room`
    /// allow.
    pub fn phase(
        &mut self,
        listener: &Listener,
        room: usize,
        tally: &mut Tally,
        take: impl FnMut(Owned, Peer),
    ) -> Ended {
        self.phase_within(listener, &Cell::new(room), true, tally, take)
    }

    /// The same where places may also be given back, or are taken by several threads: each is
    /// taken from `room` before a connection is accepted. The connections are non-blocking if
    /// `nonblocking` says so.
    pub fn phase_within(
        &mut self,
        listener: &Listener,
        room: &impl Room,
        nonblocking: bool,
        tally: &mut Tally,
        mut take: impl FnMut(Owned, Peer),
    ) -> Ended {
        let allowed = self.begin();
        let (mut accepted, mut has_place) = (0, false);
        let opening = Opening::begin();
        let ended = loop {
            if accepted >= allowed {
                tally.add(Counter::AcceptLimitReached, 1);
                break Ended::Limit;
            }
            if accepted > 0 && accepted % CLOCK_EACH == 0 && self.is_over() {
                tally.add(Counter::AcceptTimeOver, 1);
                break Ended::Limit;
            }
            has_place = has_place || room.enter();
            if !has_place {
                break Ended::Full;
            }
            match listener.accept_within(&opening, nonblocking) {
                Ok((socket, peer)) => {
                    accepted += 1;
                    has_place = false;
                    take(socket, peer);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Ended::Drained,
                Err(error) if net::is_out_of_descriptors(&error) => {
                    tally.add(Counter::OutOfDescriptors, 1);
                    break Ended::OutOfDescriptors;
                }
                Err(error) if net::is_not_listening(&error) => break Ended::Closed,
                // The peer has gone: the next may be there.
                Err(_) => tally.add(Counter::AcceptFailures, 1),
            }
        };
        if has_place {
            room.leave();
        }
        tally.accept_phase(accepted);
        ended
    }
}

/// Room for connections.
pub trait Room {
    /// Takes a place; false when there is none.
    fn enter(&self) -> bool;

    /// Gives a place back.
    fn leave(&self);
}

impl Room for Cell<usize> {
    fn enter(&self) -> bool {
        let left = self.get();
        self.set(left.saturating_sub(1));
        left > 0
    }

    fn leave(&self) {
        self.set(self.get() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_sys::net::ListenOptions;
    use std::net::TcpStream;

    /// A listening socket with so many clients that wait.
    fn awaited_by(clients: usize) -> (Listener, Vec<TcpStream>) {
        let listener = Listener::from(net::bind("127.0.0.1:0".parse().unwrap(), false).unwrap());
        net::listen(&listener, 128, &ListenOptions::default()).unwrap();
        let address = net::local_address(&listener).unwrap();
        let clients = (0..clients).map(|_| TcpStream::connect(address).unwrap()).collect();
        (listener, clients)
    }

    fn accepted(
        limit: AcceptLimit,
        waiting: usize,
        phases: usize,
        room: usize,
    ) -> Vec<(usize, Ended)> {
        let (listener, _clients) = awaited_by(waiting);
        let (mut policy, mut tally) = (AcceptPolicy::new(limit), Tally::default());
        (0..phases)
            .map(|_| {
                let mut taken = 0;
                let ended = policy.phase(&listener, room, &mut tally, |_, _| taken += 1);
                (taken, ended)
            })
            .collect()
    }

    #[test]
    fn a_whole_limit_accepts_that_many_per_phase() {
        let phases = accepted(AcceptLimit::At(3.0), 5, 2, 99);
        assert_eq!(phases, [(3, Ended::Limit), (2, Ended::Drained)]);
    }

    #[test]
    fn a_fraction_accepts_one_in_several_phases() {
        let taken: Vec<_> =
            accepted(AcceptLimit::At(0.25), 3, 8, 99).into_iter().map(|(n, _)| n).collect();
        assert_eq!(taken, [0, 0, 0, 1, 0, 0, 0, 1]);
        let taken: Vec<_> =
            accepted(AcceptLimit::At(1.5), 9, 4, 99).into_iter().map(|(n, _)| n).collect();
        assert_eq!(taken, [1, 2, 1, 2]);
    }

    #[test]
    fn a_phase_whose_time_is_over_leaves_the_others_for_the_next() {
        let (listener, _clients) = awaited_by(40);
        let (mut policy, mut tally) = (AcceptPolicy::new(AcceptLimit::Infinite), Tally::default());
        policy.bound(PhaseBounds { pulled: 1, until_ns: Some(0) });
        let mut phase = || {
            let mut taken = 0;
            let ended = policy.phase(&listener, 99, &mut tally, |_, _| taken += 1);
            (taken, ended)
        };
        let phases = [phase(), phase(), phase()];
        assert_eq!(phases, [(16, Ended::Limit), (16, Ended::Limit), (8, Ended::Drained)]);
    }

    #[test]
    fn a_limit_that_is_left_to_the_governor_is_what_a_turn_can_work_on() {
        let (listener, _clients) = awaited_by(9);
        let (mut policy, mut tally) = (AcceptPolicy::new(AcceptLimit::Auto), Tally::default());
        let mut taken = |pulled| {
            policy.bound(PhaseBounds { pulled, until_ns: None });
            let mut taken = 0;
            policy.phase(&listener, 99, &mut tally, |_, _| taken += 1);
            taken
        };
        assert_eq!([taken(3), taken(0), taken(1), taken(9)], [3, 0, 1, 5]);
    }

    #[test]
    fn a_place_that_is_given_back_is_used_again() {
        let (listener, _clients) = awaited_by(5);
        let (mut policy, mut tally) = (AcceptPolicy::new(AcceptLimit::Infinite), Tally::default());
        let room = Cell::new(2);
        let ended = policy.phase_within(&listener, &room, true, &mut tally, |_, _| room.leave());
        assert_eq!((ended, room.get()), (Ended::Drained, 2));
    }

    #[test]
    fn a_limit_that_changes_holds_from_the_next_phase_on() {
        let (listener, _clients) = awaited_by(12);
        let live = Arc::new(Live::new().unwrap());
        let (mut policy, mut tally) = (AcceptPolicy::shared(&live), Tally::default());
        let mut taken = |limit| {
            live.set_accept_limit(limit);
            let mut taken = 0;
            policy.phase(&listener, 99, &mut tally, |_, _| taken += 1);
            taken
        };
        assert_eq!(taken(AcceptLimit::At(3.0)), 3);
        assert_eq!(taken(AcceptLimit::At(1.0)), 1);
        assert_eq!(taken(AcceptLimit::At(0.5)), 0);
        assert_eq!(taken(AcceptLimit::At(0.5)), 1);
        assert_eq!(taken(AcceptLimit::Infinite), 7);
    }

    #[test]
    fn a_limit_below_one_is_one_for_a_thread_that_waits_for_a_connection() {
        let live = Arc::new(Live::new().unwrap());
        live.set_accept_limit(AcceptLimit::At(0.5));
        let policy = AcceptPolicy::shared(&live);
        assert_eq!(policy.at_least_one().limit(), AcceptLimit::At(1.0));
        live.set_accept_limit(AcceptLimit::Infinite);
        assert_eq!(policy.at_least_one().limit(), AcceptLimit::Infinite);
    }

    #[test]
    fn a_socket_that_stopped_listening_ends_the_phase() {
        let listener = Listener::from(net::bind("127.0.0.1:0".parse().unwrap(), false).unwrap());
        net::listen(&listener, 8, &ListenOptions::default()).unwrap();
        net::stop_listening(&listener);
        let mut policy = AcceptPolicy::new(AcceptLimit::Infinite);
        let ended = policy.phase(&listener, 9, &mut Tally::default(), |_, _| {});
        assert_eq!(ended, Ended::Closed);
    }

    #[test]
    fn a_place_for_which_nobody_came_is_given_back() {
        let (listener, _clients) = awaited_by(2);
        let mut policy = AcceptPolicy::new(AcceptLimit::Infinite);
        let (room, mut tally, mut taken) = (Cell::new(3), Tally::default(), Vec::new());
        let ended = policy.phase_within(&listener, &room, false, &mut tally, |socket, _| {
            taken.push(socket);
        });
        assert_eq!((ended, taken.len(), room.get()), (Ended::Drained, 2, 1));
    }

    #[test]
    fn infinity_drains_the_queue_and_room_bounds_it() {
        assert_eq!(accepted(AcceptLimit::Infinite, 7, 1, 99), [(7, Ended::Drained)]);
        assert_eq!(accepted(AcceptLimit::Infinite, 7, 1, 4), [(4, Ended::Full)]);
    }
}
