//! The governor of a loop, with what the loop has told of the turn that it is in.

use std::sync::Arc;

use flyball_governor::{Age, Bounds, Head, Lever, Loop, Mode, Move, Ns, Orders, Turn};
use flyball_observe::counters::{Counter, Tally};
use flyball_sys::error_log::Level;
use flyball_sys::owned::Owned;
use flyball_sys::say;

use crate::kernel::net;
use crate::live::Live;
use crate::settings::{AcceptLimit, Settings};

/// Nanoseconds of a millisecond.
const MS: Ns = 1_000_000;

/// A loop's governor, with what the loop has told of the turn that it is in.
#[derive(Debug)]
pub(crate) struct Governed {
    governor: Loop,
    bounds: Bounds,
    /// What holds in this turn.
    pub(crate) orders: Orders,
    /// What was seen of it so far.
    pub(crate) seen: Turn,
    /// The first connection of this phase was so old that the others are asked for their ages.
    asks_ages: bool,
    /// The length that the accept queues were given; `None` while they have the configured one.
    pub(crate) queue: Option<u32>,
    /// What the kernel has made of that, if it was asked.
    pub(crate) limit: Option<u32>,
    live: Arc<Live>,
    worker: usize,
}

impl Governed {
    /// That of a loop of this worker which begins now; `None` where there shall be none. Its accept
    /// queues may be its own.
    pub(crate) fn of(
        settings: &Settings,
        live: &Arc<Live>,
        (worker, owned): (usize, bool),
        now: Ns,
    ) -> Option<Box<Governed>> {
        let bounds = settings.governor.bounds(settings.backlog, owned);
        (bounds.mode != Mode::Off).then(|| {
            Box::new(Governed {
                governor: Loop::from(now),
                bounds,
                orders: Orders::FREE,
                seen: Turn::default(),
                asks_ages: false,
                queue: None,
                limit: None,
                live: Arc::clone(live),
                worker,
            })
        })
    }

    /// A connection was accepted; whether it is served.
    pub(crate) fn takes(&mut self, socket: &Owned) -> bool {
        let is_first = self.seen.accepted == 0;
        self.seen.accepted += 1;
        if is_first {
            self.asks_ages = self.orders.sample;
        }
        if !self.asks_ages {
            return true;
        }
        let Some(age) = age(socket) else { return true };
        if is_first {
            self.seen.head = Head::Accepted(age);
            self.asks_ages = self.orders.arrive.asks(age);
        }
        let is_taken = !self.orders.arrive.closes(age);
        self.seen.shed += u32::from(!is_taken);
        is_taken
    }

    /// A turn has taken so long, and is over.
    pub(crate) fn turned(&mut self, now: Ns, took: Ns, tally: &mut Tally) {
        self.bounds.phases.pulls = self.live.accept_limit() == AcceptLimit::Auto;
        let seen = Turn { now, took, ..std::mem::take(&mut self.seen) };
        let (worker, mode) = (self.worker, self.bounds.mode);
        let mut note = |_: Ns, made: Move| note(worker, mode, made, tally);
        self.orders = *self.governor.turn(&seen, &self.bounds, &mut note);
    }
}

/// How old a connection is, where the kernel tells.
fn age(socket: &Owned) -> Option<Age> {
    let net::Age { queued_ms, silent_ms, half_closed, .. } = net::age(socket)?;
    let [queued, silent] = [queued_ms, silent_ms].map(|ms| Ns::from(ms) * MS);
    Some(Age { queued, silent, half_closed })
}

/// A decision was made: it is counted, and told if it is one of those that come at most a few times
/// in a minute.
#[cold]
fn note(worker: usize, mode: Mode, made: Move, tally: &mut Tally) {
    tally.add(Counter::GovernorMoves, 1);
    let begins = made.lever == Lever::Overload && made.to == 1;
    tally.add(Counter::Overloads, u64::from(begins));
    if matches!(made.lever, Lever::Overload | Lever::Level) {
        let level = if begins { Level::Warn } else { Level::Info };
        let watched = if mode == Mode::Watch { " (watched)" } else { "" };
        say!(level, "worker {worker}: governor{watched}: {made}");
    }
}
