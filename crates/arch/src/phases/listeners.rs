//! The accept phase, and when the listening sockets are watched.

use std::cell::Cell;

use flyball_http::CloseReason;
use flyball_sys::readiness::Interest;

use super::Phases;
use super::connection::{Slot, open_slot, watch};
use crate::accept::{self, AcceptPolicy, Ended, Room};
use crate::drive::Ready;
use crate::event_sources::{change_listeners, is_exclusive, unwatch_listeners, watch_listeners};
use crate::kernel::readiness;
use crate::limits::ACCEPT_PAUSE_MS;
use crate::room::{self, Yields};
use crate::settings::AcceptLimit;
use crate::worker::Worker;

/// Accepting is paused.
#[derive(Debug)]
pub(super) struct Pause {
    /// It is looked at again then, in monotonic milliseconds, or when a connection closes.
    pub(super) until_ms: u64,
    /// As many connections as allowed were open, so that it is over when enough have closed.
    full: bool,
    /// The listening sockets are still in the event mechanism, watched for nothing.
    kept: bool,
}

/// How new connections are taken in.
pub(super) struct Accepting {
    pub(super) policy: AcceptPolicy,
    /// One connection for one that closes (M51).
    replacement: AcceptPolicy,
    connections_max: usize,
    /// Listening sockets that were reported ready.
    pub(super) ready: Vec<usize>,
    /// The one that was accepted from first, last time.
    first: usize,
    pub(super) paused: Option<Pause>,
    /// It was said that accepting is paused.
    warned: bool,
}

impl Accepting {
    pub(super) fn new(worker: &Worker) -> Accepting {
        Accepting {
            policy: AcceptPolicy::shared(worker.shared.live()),
            replacement: AcceptPolicy::new(AcceptLimit::At(1.0)),
            connections_max: worker.connections_max,
            ready: Vec::new(),
            first: 0,
            paused: None,
            warned: false,
        }
    }
}

/// Each of those that are ready comes first in its turn, after the one that was first before: what
/// a phase accepts from one leaves less room for the next.
fn take_turns(ready: &mut [usize], first: &mut usize) {
    ready.sort_unstable();
    ready.rotate_left(ready.partition_point(|listener| listener <= first));
    *first = ready.first().copied().unwrap_or(*first);
}

/// By which accept-limit a listening socket is accepted from.
#[derive(Clone, Copy)]
enum By {
    /// That of an accept phase.
    Limit,
    /// One connection, for one that closed.
    Replacement,
}

impl Phases {
    /// The accept phase: entered only when a listening socket was reported ready (M3), unless it
    /// shall be entered in every loop (M52).
    pub fn accept(&mut self) {
        let now_ns = self.desk.turn_ns();
        if self.worker.settings.habits().accept_every_loop {
            self.accept_unasked(now_ns);
        } else if self.accepting.ready.is_empty() {
            // What was not reported may still wait where there was no room to report it.
            if self.accepting.paused.is_none() && self.events.len() < readiness::EVENTS_MAX {
                self.desk.queue_is_empty();
            }
        } else {
            self.accept_ready(now_ns);
        }
    }

    /// An accept phase that begins now, although nothing was reported. Returns how long it took, in
    /// nanoseconds.
    pub(super) fn accept_unasked(&mut self, now_ns: u64) -> u64 {
        if self.accepting.paused.is_none() {
            self.accepting.ready.clear();
            self.accepting.ready.extend(0..self.worker.listeners.len());
        }
        self.accept_ready(now_ns)
    }

    /// Accepts from those that are ready. Returns how long it took from now on, in nanoseconds.
    pub(super) fn accept_ready(&mut self, now_ns: u64) -> u64 {
        if self.accepting.ready.is_empty() || self.desk.is_draining() {
            self.accepting.ready.clear();
            return 0;
        }
        let (mut stopped, mut drained) = (None, true);
        let mut ready = std::mem::take(&mut self.accepting.ready);
        take_turns(&mut ready, &mut self.accepting.first);
        ready.retain(|&listener| {
            let bounds = self.desk.accept_bounds(now_ns, self.work.len());
            self.accepting.policy.bound(bounds);
            let ended = self.accept_from(listener, By::Limit);
            drained &= ended == Ended::Drained;
            if matches!(ended, Ended::Full | Ended::OutOfDescriptors | Ended::Closed) {
                stopped = Some(ended);
            }
            // An edge is reported once: what the limit left in the queue is remembered here.
            ended == Ended::Limit && self.mechanism.is_edge_triggered()
        });
        self.accepting.ready = ready;
        if drained {
            self.desk.queue_is_empty();
        }
        match stopped {
            // Nobody waits yet.
            Some(Ended::Full) if self.makes_room() && self.worker.waits_for_room() == 0 => {}
            // There is room now: whoever waits is accepted in the next loop.
            Some(Ended::Full | Ended::OutOfDescriptors) if self.make_room() => {
                self.accepting.ready.clear();
                self.accepting.ready.extend(0..self.worker.listeners.len());
            }
            Some(ended) => {
                // They are reported anew when accepting goes on.
                self.accepting.ready.clear();
                self.pause_accepting(ended);
            }
            None => {}
        }
        self.desk.accepted(now_ns)
    }

    /// Accepts one connection in the place of one that closed (M51).
    pub(super) fn accept_one(&mut self) {
        if self.accepting.paused.is_some() || self.desk.is_draining() {
            return;
        }
        for listener in 0..self.worker.listeners.len() {
            match self.accept_from(listener, By::Replacement) {
                Ended::Drained => {}
                // Another was accepted meanwhile, which the next accept phase will see as well.
                Ended::Limit | Ended::Full => return,
                ended => return self.pause_accepting(ended),
            }
        }
    }

    /// Accepts from one listening socket, as many as the limit allows.
    fn accept_from(&mut self, listener: usize, by: By) -> Ended {
        let room = Cell::new(self.accepting.connections_max.saturating_sub(self.slots.len()));
        let settings = &*self.worker.settings;
        let (eager, nonblocking) = (settings.eager_read, !settings.send_blocking);
        let ready = Ready { read: true, write: settings.habits().eager_write, hangup: false };
        let policy = match by {
            By::Limit => &mut self.accepting.policy,
            By::Replacement => &mut self.accepting.replacement,
        };
        let lock = self.desk.accept_lock();
        let (desk, arranger) = (&mut self.desk, &mut self.arranger);
        let (slots, work) = (&mut self.slots, &mut self.work);
        let (mechanism, timers) = (&mut self.mechanism, &mut self.timers);
        let Some(socket) = self.worker.listeners.get(listener) else { return Ended::Drained };
        let mut tally = std::mem::take(&mut desk.tally);
        let (mut rejected, mut discarded) = (0, 0);
        // Without it nobody is kept out, which is no harm.
        let held = lock.as_ref().and_then(|lock| lock.hold().ok());
        let ended = policy.phase_within(socket, &room, nonblocking, &mut tally, |socket, peer| {
            if !desk.takes(&socket) {
                discarded += 1;
                return room.leave();
            }
            if desk.ends_accepted() {
                rejected += 1;
                return room.leave();
            }
            let token = open_slot(socket, peer, desk, slots, timers);
            let Some(slot) = slots.find(token) else { return };
            arranger.worked_on(slot);
            if eager {
                // Eager read (S0's option): worked on at once, as if reported readable.
                slot.ready = ready;
                slot.enqueue(token, work);
            } else {
                watch(mechanism.as_mut(), slots, token, Interest::READ);
            }
        });
        drop(held);
        self.desk.tally = tally;
        for _ in 0..rejected {
            self.desk.tally.closed(CloseReason::LabStage);
        }
        for _ in 0..discarded {
            self.desk.tally.closed(CloseReason::Discarded);
        }
        ended
    }

    fn makes_room(&self) -> bool {
        self.worker.settings.close_idle_when_full && !self.desk.is_draining()
    }

    /// Closes connections that only hold their places, until those who wait have room (M56). False
    /// when none was closed.
    fn make_room(&mut self) -> bool {
        let waiting = self.worker.waits_for_room();
        if waiting == 0 || !self.makes_room() {
            return false;
        }
        // What came in this turn is not idle.
        let yields = |slot: &Slot| match slot.queued {
            true => None,
            false => Yields::of(&slot.connection, !slot.ready.read),
        };
        let open = self.slots.iter().map(|(token, slot)| (token, yields(slot)));
        let wanted = waiting.max(self.free_threshold());
        let open_before = self.slots.len();
        for token in room::choose(open, wanted, self.desk.now.ms()) {
            if let Some(slot) = self.slots.find(token) {
                slot.connection.make_room();
                self.turn(token);
            }
        }
        self.slots.len() < open_before
    }

    fn free_threshold(&self) -> usize {
        self.worker.settings.free_threshold.min(self.accepting.connections_max)
    }

    /// Leaves new connections in the accept queue until there is room.
    fn pause_accepting(&mut self, ended: Ended) {
        let until_ms = self.desk.now.ms() + ACCEPT_PAUSE_MS;
        let full = ended == Ended::Full;
        let kept = match &self.accepting.paused {
            Some(pause) => pause.kept,
            // A queue that was closed is told again and again, whatever it is watched for.
            None => {
                let (mechanism, worker) = (self.mechanism.as_mut(), &self.worker);
                let keeps = worker.settings.habits().modify_listeners && !is_exclusive(worker);
                let kept = keeps
                    && ended != Ended::Closed
                    && change_listeners(mechanism, worker, Interest::NONE);
                if !kept {
                    unwatch_listeners(mechanism, worker);
                }
                kept
            }
        };
        self.accepting.paused = Some(Pause { until_ms, full, kept });
        if let Some(why) = ended.why_paused()
            && !std::mem::replace(&mut self.accepting.warned, true)
        {
            self.worker.say(&accept::paused(why, self.slots.len()));
        }
    }

    /// A connection has closed: accepting goes on, when it stopped for want of room only once
    /// there is enough of it (M53).
    pub(super) fn resume_when_free(&mut self) {
        let free = self.accepting.connections_max.saturating_sub(self.slots.len());
        let full = self.accepting.paused.as_ref().is_some_and(|pause| pause.full);
        if !full || free >= self.free_threshold() {
            self.resume_accepting();
        }
    }

    /// The time of the pause is over: others may be idle by now.
    pub(super) fn pause_is_over(&mut self) {
        self.make_room();
        if self.accepting.paused.is_some() {
            self.resume_when_free();
        }
        if let Some(pause) = &mut self.accepting.paused {
            pause.until_ms = self.desk.now.ms() + ACCEPT_PAUSE_MS;
        }
    }

    fn resume_accepting(&mut self) {
        let Some(pause) = self.accepting.paused.take() else { return };
        let (mechanism, worker) = (self.mechanism.as_mut(), &self.worker);
        if self.desk.is_draining()
            || pause.kept && change_listeners(mechanism, worker, Interest::READ)
        {
            return;
        }
        if pause.kept {
            unwatch_listeners(mechanism, worker);
        }
        // Re-adding can fail only for want of memory: the pause then starts over.
        if watch_listeners(mechanism, worker).is_err() {
            unwatch_listeners(mechanism, worker);
            let until_ms = self.desk.now.ms() + ACCEPT_PAUSE_MS;
            self.accepting.paused = Some(Pause { until_ms, full: false, kept: false });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_listener_that_is_ready_comes_first_in_its_turn() {
        let mut first = 0;
        let mut order = |ready: &[usize]| {
            let mut ready = ready.to_vec();
            take_turns(&mut ready, &mut first);
            ready
        };
        assert_eq!(order(&[0, 1]), [1, 0]);
        assert_eq!(order(&[1, 0]), [0, 1]);
        assert_eq!(order(&[2, 0]), [2, 0]);
        assert_eq!(order(&[0, 1, 2]), [0, 1, 2]);
        assert_eq!(order(&[1]), [1]);
        assert_eq!(order(&[1, 2, 0]), [2, 0, 1]);
    }
}
