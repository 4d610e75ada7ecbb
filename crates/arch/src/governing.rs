//! A loop and its governor: what that is told of each turn, and what holds until the next ends.

use flyball_governor::{Head, Mode, Orders, Queue};
use flyball_sys::owned::Owned;

use crate::accept::PhaseBounds;
use crate::desk::Desk;
use crate::governed::Governed;
use crate::kernel::{clock, net};
use crate::listener::Listener;
use crate::worker::Worker;

/// The listening sockets whose accept queues have a length.
fn queues(worker: &Worker) -> impl Iterator<Item = &Listener> {
    worker.listeners.iter().filter(|listener| !listener.is_unix())
}

/// Those whose queues are the worker's own.
fn own_queues(worker: &Worker) -> impl Iterator<Item = &Listener> {
    let is_own = |listener: &&Listener| !worker.shares_listeners && listener.has_own_queue();
    worker.listeners.iter().filter(is_own)
}

/// What a loop tells its governor; nothing where it has none.
impl Desk {
    /// The loop of a worker begins, and governs itself if it shall.
    pub(crate) fn govern(&mut self, worker: &Worker) {
        let owned = own_queues(worker).next().is_some();
        let (live, of) = (worker.shared.live(), (worker.index, owned));
        self.governed = Governed::of(&worker.settings, live, of, clock::monotonic_ns());
        if worker.settings.governor.mode == Mode::On {
            // One that died before this one may have left them short.
            own_queues(worker).for_each(|listener| set_queue(listener, worker.settings.backlog));
        }
    }

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
        let mut queue = Queue::default();
        for listener in queues(worker) {
            let Ok((waiting, limit)) = net::accept_queue(listener) else { continue };
            queue.length = queue.length.saturating_add(waiting);
            // The kernel lets one more in than its limit.
            queue.is_full |= waiting > limit;
            queue.drops = queue.drops.wrapping_add(net::listener_drops(listener).unwrap_or(0));
        }
        let length = queue.length;
        governed.seen.queue = Some(queue);
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
            let length = governed.queue.unwrap_or(worker.settings.backlog);
            own_queues(worker).for_each(|listener| set_queue(listener, length));
            governed.limit = own_queues(worker).next().and_then(limit_of);
        }
    }

    /// Before the worker leaves its listening sockets, which others may read after it: their queues
    /// have the configured length. One that has another length than it was given here was given it
    /// by the worker that comes after this one.
    pub(crate) fn leave_queue(&mut self, worker: &Worker) {
        if let Some(governed) = &mut self.governed
            && governed.queue.take().is_some()
        {
            let given = |listener: &&Listener| limit_of(listener) == governed.limit;
            let given = own_queues(worker).filter(given);
            given.for_each(|listener| set_queue(listener, worker.settings.backlog));
        }
    }
}

/// Gives the accept queue of a listening socket this length.
fn set_queue(listener: &Listener, length: u32) {
    // It fails where the socket listens no more, and has no queue.
    let _ = net::set_accept_queue(listener, length);
}

/// How long the accept queue of a listening socket may be: the kernel has a bound of its own.
fn limit_of(listener: &Listener) -> Option<u32> {
    net::accept_queue(listener).ok().map(|(_, limit)| limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{GovernorSettings, Settings};
    use crate::simulation::site;
    use flyball_sys::net::ListenOptions;

    /// The configured length of the queue.
    const LENGTH: u32 = 64;

    /// A worker with a listening socket whose queue has this length.
    fn worker(mode: Mode, length: u32) -> Worker {
        let listener = Listener::from(net::bind("127.0.0.1:0".parse().unwrap(), false).unwrap());
        net::listen(&listener, length, &ListenOptions::default()).unwrap();
        let governor = GovernorSettings { mode, ..GovernorSettings::default() };
        let settings = Settings { backlog: LENGTH, governor, ..Settings::default() };
        Worker { listeners: vec![listener], ..site::worker(settings, 1, None).0 }
    }

    /// A loop of it that is governed from now on.
    fn governed(worker: &Worker) -> Desk {
        let mut desk = Desk::for_tests();
        desk.govern(worker);
        desk
    }

    fn bound(desk: &mut Desk, worker: &Worker, length: u32) {
        desk.governed.as_mut().unwrap().orders.backlog = Some(length);
        desk.bound_queue(worker);
        assert_eq!(limit_of(&worker.listeners[0]), Some(length));
    }

    #[test]
    fn a_queue_that_the_dead_left_short_has_the_configured_length_again() {
        for (mode, length) in [(Mode::On, LENGTH), (Mode::Watch, 8), (Mode::Off, 8)] {
            let worker = worker(mode, 8);
            governed(&worker);
            assert_eq!(limit_of(&worker.listeners[0]), Some(length), "{mode:?}");
        }
    }

    #[test]
    fn a_worker_that_leaves_its_queue_gives_it_the_configured_length() {
        let worker = worker(Mode::On, LENGTH);
        let mut desk = governed(&worker);
        bound(&mut desk, &worker, 8);
        desk.leave_queue(&worker);
        assert_eq!(limit_of(&worker.listeners[0]), Some(LENGTH));
    }

    #[test]
    fn what_the_next_worker_gave_a_queue_is_left_to_it() {
        let worker = worker(Mode::On, LENGTH);
        let mut desk = governed(&worker);
        bound(&mut desk, &worker, 8);
        bound(&mut governed(&worker), &worker, 16);
        desk.leave_queue(&worker);
        assert_eq!(limit_of(&worker.listeners[0]), Some(16));
    }
}
