//! A loop and its governor: what that is told of each turn, and what holds until the next ends.

use std::sync::Arc;

use flyball_governor::{Age, Bounds, Head, Lever, Loop, Mode, Move, Ns, Orders, Queue, Turn};
use flyball_observe::counters::{Counter, Tally};
use flyball_sys::error_log::Level;
use flyball_sys::owned::Owned;
use flyball_sys::say;

use crate::accept::PhaseBounds;
use crate::desk::Desk;
use crate::kernel::net;
use crate::listener::Listener;
use crate::live::Live;
use crate::settings::AcceptLimit;
use crate::worker::Worker;

/// Nanoseconds of a millisecond.
const MS: Ns = 1_000_000;

/// A loop's governor, with what the loop has told of the turn that it is in.
#[derive(Debug)]
pub(crate) struct Governed {
    governor: Loop,
    bounds: Bounds,
    orders: Orders,
    seen: Turn,
    /// The first connection of this phase was so old that the others are asked for their ages.
    asks_ages: bool,
    /// The length that the accept queues were given; `None` while they have the configured one.
    queue: Option<u32>,
    live: Arc<Live>,
    worker: usize,
}

impl Governed {
    /// That of a worker's loop which begins now; `None` where there shall be none.
    pub(crate) fn of(worker: &Worker, now: Ns) -> Option<Box<Governed>> {
        let settings = &worker.settings;
        let bounds = settings.governor.bounds(settings.backlog, !worker.shares_listeners);
        (bounds.mode != Mode::Off).then(|| {
            Box::new(Governed {
                governor: Loop::from(now),
                bounds,
                orders: Orders::FREE,
                seen: Turn::default(),
                asks_ages: false,
                queue: None,
                live: Arc::clone(worker.shared.live()),
                worker: worker.index,
            })
        })
    }

    /// A connection was accepted; whether it is served.
    fn takes(&mut self, socket: &Owned) -> bool {
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
    fn turned(&mut self, now: Ns, took: Ns, tally: &mut Tally) {
        self.bounds.phases.pulls = self.live.accept_limit() == AcceptLimit::Auto;
        let seen = Turn { now, took, ..std::mem::take(&mut self.seen) };
        let (worker, mode) = (self.worker, self.bounds.mode);
        let mut note = |_: Ns, made: Move| note(worker, mode, made, tally);
        self.orders = *self.governor.turn(&seen, &self.bounds, &mut note);
    }
}

/// How old a connection is, where the kernel tells.
fn age(socket: &Owned) -> Option<Age> {
    let net::Age { queued_ms, silent_ms, half_closed } = net::age(socket)?;
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

/// The listening sockets whose accept queues have a length.
fn queues(worker: &Worker) -> impl Iterator<Item = &Listener> {
    worker.listeners.iter().filter(|listener| !listener.is_unix())
}

/// What a loop tells its governor; nothing where it has none.
impl Desk {
    /// What holds in this turn.
    pub(crate) fn orders(&self) -> &Orders {
        self.governed.as_ref().map_or(&Orders::FREE, |governed| &governed.orders)
    }

    /// By what an accept phase goes that begins then, where so many connections are to be worked on
    /// already.
    pub(crate) fn accept_bounds(&self, began_ns: u64, due: usize) -> PhaseBounds {
        let orders = self.orders();
        let until_ns = orders.accept_for.map(|ns| began_ns.saturating_add(ns));
        PhaseBounds { pulled: orders.accepts(due), until_ns }
    }

    /// A connection was accepted in this turn; false if it is to be closed at once.
    pub(crate) fn takes(&mut self, socket: &Owned) -> bool {
        self.governed.as_mut().is_none_or(|governed| governed.takes(socket))
    }

    /// An accept phase has taken so long.
    pub(crate) fn accept_took(&mut self, took_ns: u64) {
        if let Some(governed) = &mut self.governed {
            governed.seen.accept_took += took_ns;
        }
    }

    /// No connection waits to be accepted any more. If none was accepted in this turn, none has
    /// waited.
    pub(crate) fn queue_is_empty(&mut self) {
        if let Some(governed) = &mut self.governed
            && governed.seen.accepted == 0
        {
            governed.seen.head = Head::Empty;
        }
    }

    /// So many connections were worked on in this turn.
    pub(crate) fn worked_on(&mut self, connections: usize) {
        if let Some(governed) = &mut self.governed {
            let connections = u32::try_from(connections).unwrap_or(u32::MAX);
            governed.seen.worked_on = governed.seen.worked_on.saturating_add(connections);
        }
    }

    /// Before a turn is over: looks at the accept queues, if that was asked for. They are `stuck`
    /// while nothing is accepted from them.
    pub(crate) fn look_at_queue(&mut self, worker: &Worker, stuck: bool) {
        let Some(governed) = self.governed.as_mut().filter(|governed| governed.orders.look) else {
            return;
        };
        let (mut length, mut drops) = (0u32, 0u32);
        for listener in queues(worker) {
            length = length.saturating_add(net::accept_queue(listener).map_or(0, |(n, _)| n));
            drops = drops.wrapping_add(net::listener_drops(listener).unwrap_or(0));
        }
        governed.seen.queue = Some(Queue { length, drops });
        if stuck {
            governed.seen.head = if length > 0 { Head::Stuck } else { Head::Empty };
        }
    }

    /// The turn has taken so long, and is over.
    pub(crate) fn judge(&mut self, took_ns: u64) {
        let now = self.turn_ns();
        let Desk { governed, context, .. } = self;
        if let Some(governed) = governed {
            governed.turned(now, took_ns, &mut context.tally);
        }
    }

    /// After a turn: gives the accept queues the length that they shall have.
    pub(crate) fn bound_queue(&mut self, worker: &Worker) {
        if let Some(governed) = &mut self.governed
            && governed.queue != governed.orders.backlog
            && self.end.is_none()
        {
            governed.queue = governed.orders.backlog;
            set_queue(worker, governed.queue);
        }
    }

    /// Before the worker leaves its listening sockets, which others may read after it: their queues
    /// have the configured length.
    pub(crate) fn leave_queue(&mut self, worker: &Worker) {
        if let Some(governed) = &mut self.governed
            && governed.queue.take().is_some()
        {
            set_queue(worker, None);
        }
    }
}

/// Gives the accept queues of a worker this length, or the configured one.
fn set_queue(worker: &Worker, length: Option<u32>) {
    for listener in queues(worker) {
        // It fails where the socket listens no more, and has no queue.
        let _ = net::set_accept_queue(listener, length.unwrap_or(worker.settings.backlog));
    }
}
