//! Accepting on a ring: which accepts are under way, and when there are none.

use std::io;

use flyball_observe::counters::Counter;

use super::slot::Slot;
use crate::accept;
use crate::desk::Desk;
use crate::kernel::net;
use crate::kernel::uring::Ring;
use crate::limits::ACCEPT_PAUSE_MS;
use crate::room::{self, Yields};
use crate::settings::AcceptLimit;
use crate::slots::{FIRST_RESERVED, Slots, Token};
use crate::worker::Worker;

/// The token of the first listening socket's accepts; each socket has two tokens.
const LISTENERS: u64 = FIRST_RESERVED + 16;

/// Single accepts kept submitted, at most; per listening socket.
const SINGLES_MAX: usize = 64;

/// Least time between two looks at whether somebody waits for room, in milliseconds.
const LOOK_MS: u64 = 50;

/// The accepts of one listening socket.
#[derive(Debug, Default)]
struct Listener {
    /// Accepts that complete once, and whether they were cancelled.
    singles: usize,
    taken_back: bool,
    /// The accept that completes again and again, and whether it was cancelled.
    repeating: bool,
    cancelled: bool,
}

/// The accepts of one worker. At accept-limit inf, the default of rings, one for each listening
/// socket completes again and again; else that many complete once, and each is submitted anew (S0,
/// section 4.3).
#[derive(Debug)]
pub(crate) struct Accepts {
    listeners: Vec<Listener>,
    /// Connections that may come before an accept that repeats is cancelled.
    margin: usize,
    /// Descriptors ran out; then one accept at a time tries whether there are any.
    rests_until_ms: Option<u64>,
    said: bool,
    ended: bool,
    /// When it is looked again whether somebody waits for room.
    look_ms: u64,
}

impl Accepts {
    /// None yet. A ring that keeps sockets in a table of its own drops those for which it has no
    /// room, so that accepting is counted when only so many more may fit.
    pub(crate) fn new(worker: &Worker, direct: bool) -> Accepts {
        let bounded = direct || worker.settings.max_connections.is_some();
        let queue = usize::try_from(worker.settings.backlog).unwrap_or(usize::MAX);
        Accepts {
            listeners: worker.listeners.iter().map(|_| Listener::default()).collect(),
            // Every queue twice: while it is emptied, it fills again.
            margin: if bounded { queue.saturating_mul(2 * worker.listeners.len()) } else { 0 },
            rests_until_ms: None,
            said: false,
            ended: false,
            look_ms: 0,
        }
    }

    /// How many are under way.
    pub(crate) fn under_way(&self) -> usize {
        self.listeners
            .iter()
            .map(|listener| listener.singles + usize::from(listener.repeating))
            .sum()
    }

    /// Whether more of what is queued can be accepted, with so many connections open.
    pub(crate) fn go_on(&self, worker: &Worker, open: usize) -> bool {
        self.rests_until_ms.is_none() && open < worker.connections_max && worker.queued() > 0
    }

    /// Submits what is missing, with so many connections open.
    pub(crate) fn top_up(&mut self, ring: &mut Ring, worker: &Worker, open: usize) {
        if self.ended || self.rests_until_ms.is_some_and(|_| self.under_way() > 0) {
            return;
        }
        let limit = worker.shared.live().accept_limit();
        let most = worker.connections_max;
        let free = most.saturating_sub(open);
        let repeats = limit == AcceptLimit::Infinite
            && (self.margin == 0 || open.saturating_add(self.margin) < most);
        let singles = match limit {
            _ if self.rests_until_ms.is_some() => 1,
            AcceptLimit::Infinite | AcceptLimit::Auto => SINGLES_MAX,
            AcceptLimit::At(limit) => singles(limit),
        };
        // A socket without an accept is not heard: each has its share of the places, or one.
        let share = (free / self.listeners.len().max(1)).clamp(1, singles);
        self.take_back(ring, free, share);
        for at in 0..self.listeners.len() {
            let token = LISTENERS + 2 * at as u64;
            let socket = worker.listeners[at].socket();
            if self.listeners[at].repeating {
                if !repeats && !self.listeners[at].cancelled {
                    self.listeners[at].cancelled = true;
                    ring.cancel(token);
                }
            } else if repeats {
                self.listeners[at].repeating = true;
                ring.accept_socket(socket, token, true);
            } else if free > 0 && !self.listeners[at].taken_back {
                for _ in self.listeners[at].singles..share {
                    self.listeners[at].singles += 1;
                    ring.accept_socket(socket, token + 1, false);
                }
            }
        }
        if open >= most && self.under_way() == 0 {
            self.say_paused(worker, accept::FULL, open);
        }
    }

    /// Cancels the accepts of sockets that have more than their share, if all together are more
    /// than the places that are free and the sockets, and all when no place is free: what is
    /// accepted all the same is beyond the most by fewer than there are sockets.
    fn take_back(&mut self, ring: &mut Ring, free: usize, share: usize) {
        let all: usize = self.listeners.iter().map(|listener| listener.singles).sum();
        let kept = match free {
            0 => 0,
            _ if all > free.max(self.listeners.len()) => share,
            _ => return,
        };
        for (at, listener) in self.listeners.iter_mut().enumerate() {
            if listener.singles > kept && !listener.taken_back {
                listener.taken_back = true;
                ring.cancel(LISTENERS + 2 * at as u64 + 1);
            }
        }
    }

    /// Whether connections may be about to end because others wait for their places.
    pub(crate) fn looks_for_room(&self, worker: &Worker, open: usize, now_ms: u64) -> bool {
        let is_full = open >= worker.connections_max && self.under_way() == 0;
        !self.ended && (is_full || self.rests_until_ms.is_some()) && now_ms >= self.look_ms
    }

    /// Has connections make room that only hold their places while others wait for one: those whose
    /// time is over, then.
    pub(crate) fn make_room(
        &mut self,
        worker: &Worker,
        slots: &mut Slots<Slot>,
        now_ms: u64,
    ) -> Vec<Token> {
        self.look_ms = now_ms + LOOK_MS;
        let waiting = worker.waits_for_room();
        if waiting == 0 {
            return Vec::new();
        }
        let yields = |slot: &Slot| Yields::of(&slot.connection, slot.is_quiet());
        let open = slots.iter().map(|(token, slot)| (token, yields(slot)));
        let chosen = room::choose(open, waiting, now_ms);
        for token in &chosen {
            if let Some(slot) = slots.find(*token) {
                slot.connection.make_room();
            }
        }
        chosen
    }

    /// The listening socket whose accept has this token.
    pub(crate) fn listener_of(token: u64) -> usize {
        (token.saturating_sub(LISTENERS) / 2) as usize
    }

    /// One completed, and goes on by itself or not.
    pub(crate) fn completed(&mut self, token: u64, more: bool) {
        let Some(listener) = self.listeners.get_mut(Accepts::listener_of(token)) else { return };
        match (more, token.saturating_sub(LISTENERS) % 2) {
            (true, _) => {}
            (false, 0) => (listener.repeating, listener.cancelled) = (false, false),
            (false, _) => {
                listener.singles -= 1;
                listener.taken_back &= listener.singles > 0;
            }
        }
    }

    /// A connection came, or one was closed: there may be descriptors again.
    pub(crate) fn resume(&mut self) {
        self.rests_until_ms = None;
    }

    /// One failed, with so many connections open. If descriptors are out, or the socket does not
    /// listen, none can be accepted for a while.
    pub(crate) fn failed(
        &mut self,
        error: &io::Error,
        worker: &Worker,
        open: usize,
        desk: &mut Desk,
    ) {
        let is_out = net::is_out_of_descriptors(error);
        if is_out {
            desk.tally.add(Counter::OutOfDescriptors, 1);
            self.say_paused(worker, accept::OUT_OF_DESCRIPTORS, open);
        }
        if is_out || net::is_not_listening(error) {
            self.rests_until_ms = Some(desk.now.ms() + ACCEPT_PAUSE_MS);
        } else {
            desk.tally.add(Counter::AcceptFailures, 1);
        }
    }

    /// True while it rests, and its time is not over.
    pub(crate) fn rests(&self, now_ms: u64) -> bool {
        self.rests_until_ms.is_some_and(|until| now_ms < until)
    }

    /// Cancels all: each completes, with a connection or an error.
    pub(crate) fn end(&mut self, ring: &mut Ring) {
        self.ended = true;
        for at in 0..self.listeners.len() as u64 {
            ring.cancel(LISTENERS + 2 * at);
            ring.cancel(LISTENERS + 2 * at + 1);
        }
    }

    /// Says once why accepting is paused, with so many connections open.
    fn say_paused(&mut self, worker: &Worker, why: &str, open: usize) {
        if !std::mem::replace(&mut self.said, true) {
            worker.say(&accept::paused(why, open));
        }
    }
}

/// How many single accepts are under way for each listening socket with this limit.
fn singles(limit: f64) -> usize {
    (limit.ceil() as usize).clamp(1, SINGLES_MAX)
}

/// How the ring takes an accept-limit, if that is not what it says.
pub(super) fn taken_otherwise(limit: AcceptLimit) -> Option<String> {
    let AcceptLimit::At(asked) = limit else { return None };
    let taken = singles(asked);
    (taken as f64 != asked).then(|| {
        format!(
            "accept.limit is {limit}, and uring has {taken} accepts under way for each listening \
             socket"
        )
    })
}
