//! `tux`: an accept phase, then a work queue that grows while it is drained; no getevents phase.
//!
//! **Paper**: T. Brecht, D. Pariag, L. Gammo: accept()able Strategies for Improving Web Server
//! Performance, USENIX 2004 (TUX, section 4.3).
//!
//! **Idea**: One thread serves two queues, that of new connections and that of requests that can go
//! on. Callbacks of the sockets put requests into the second at any time; it is worked on, the
//! newest first, until it is empty. Nobody is asked for events: the thread sleeps only when both
//! queues are empty.
//!
//! **Differs from the paper**:
//! * It is not in the kernel. Sockets are read and written by system calls, and what TUX parses
//!   where it lies is copied once; the accept queue cannot be peeked at, so that a phase which
//!   empties it ends with a call in vain.
//! * A socket callback is a poll on an io_uring, and its completion is read without a system call.
//!   The poll itself is handed to the kernel, many at a time, by a call that never waits.
//! * The threads for cache misses are those of the ring, and some of ours for what it cannot do.
//! * A piece of a large body leaves once it is in memory: by reference what mincore sees there of a
//!   quiet file, which waits if it is pushed out in between, and by copies the rest.
//! * Clock, deadlines and orders are looked at within [`TURNS_UNATTENDED_MAX`] turns. Nothing else
//!   bounds a work phase: new connections wait while it lasts, as do those already accepted while
//!   a phase without limit accepts, which is what the paper measures.
//!
//! **Reads with**: section 4.3: the accept-phase is [`EventLoop::accept_requests`], the work-phase
//! is [`EventLoop::process_requests`], the callbacks are [`EventLoop::called_back`].
//! **Settings**: `pin`, `accept.limit`, `uring.entries`, `send.mode`, `send.piece`,
//! `experiment.cork`.
//! **Kernel needs**: io_uring with multishot poll and accept (Linux 5.19).

mod requests;

use std::io;

use flyball_observe::counters::{Counter, Tally};
use flyball_site::Service;
use flyball_sys::sandbox::Calls;

use self::requests::{Callbacks, LISTENERS, Requests, SIGNALS};
use crate::accept::{self, AcceptPolicy, Ended};
use crate::architecture::{Architecture, Sockets};
use crate::desk::Desk;
use crate::kernel::clock;
use crate::kernel::uring::{Completion, Ring};
use crate::limits::{ACCEPT_PAUSE_MS, WAIT_MS_MAX};
use crate::rings;
use crate::settings::{AcceptLimit, Settings};
use crate::slots::Token;
use crate::worker::{Order, Report, Worker};

/// The structure of TUX in user space.
#[derive(Debug)]
pub struct Tux;

impl Architecture for Tux {
    fn name(&self) -> &'static str {
        "tux"
    }

    fn about(&self) -> &'static str {
        "an accept phase and a work queue that grows while it is drained"
    }

    fn paper(&self) -> &'static str {
        "Brecht et al., USENIX 2004"
    }

    fn settings(&self) -> &'static [&'static [&'static str]] {
        &[&["pin", "accept.limit", "uring.entries", "send.mode", "send.piece", "experiment.cork"]]
    }

    fn ignores(&self) -> &'static [&'static str] {
        // What is cached stays, locked in memory.
        &["cache.policy", "cache.pin", "cache.keep", "cache.never", "cache.lock"]
    }

    fn needs(&self) -> &'static str {
        "io_uring with multishot poll and accept (Linux 5.19)"
    }

    fn probe(&self) -> Result<(), String> {
        Ring::probe().map_err(|error| format!("io_uring: {error}"))
    }

    fn sockets(&self) -> Sockets {
        Sockets::PerWorker
    }

    fn calls(&self, _settings: &Settings) -> &'static [Calls] {
        rings::CALLS
    }

    fn locks_caches(&self) -> bool {
        true
    }

    /// More than one make it slower, says the paper.
    fn workers(&self, _settings: &Settings) -> usize {
        1
    }

    fn run(&self, worker: Worker) -> io::Result<Report> {
        let mut event_loop = EventLoop::new(worker)?;
        while !event_loop.is_done() {
            event_loop.turn()?;
        }
        Ok(event_loop.report())
    }
}

/// Turns of connections after which the clock, deadlines, orders and counters are looked at,
/// however much work there is.
const TURNS_UNATTENDED_MAX: u64 = 64;

struct EventLoop {
    desk: Desk,
    worker: Worker,
    callbacks: Callbacks,
    requests: Requests,
    accept: AcceptPolicy,
    /// Listening sockets whose accept queue may hold a connection.
    accept_pending: Vec<usize>,
    completions: Vec<(u64, Completion)>,
    signalled: bool,
    /// Accepting is paused until then, or until a connection closes.
    paused_until_ms: Option<u64>,
    warned: bool,
    told_unpinned: bool,
}

impl EventLoop {
    fn new(worker: Worker) -> io::Result<EventLoop> {
        let mut caches = worker.settings.caches.clone();
        caches.pinned = true;
        let mut desk = worker.desk_with(Service::new(worker.sites.clone(), caches), 0);
        desk.sender.resident_only = true;
        let mut event_loop = EventLoop {
            callbacks: Callbacks::new(&worker)?,
            requests: Requests::new(desk.now.ms()),
            accept: AcceptPolicy::shared(worker.shared.live()),
            accept_pending: Vec::new(),
            completions: Vec::new(),
            signalled: false,
            paused_until_ms: None,
            warned: false,
            told_unpinned: false,
            desk,
            worker,
        };
        let EventLoop { callbacks, worker, .. } = &mut event_loop;
        let listeners = (LISTENERS..).take(worker.listeners.len());
        [SIGNALS]
            .into_iter()
            .chain(listeners)
            .try_for_each(|token| callbacks.watch(token, worker))?;
        event_loop.worker.enter_loop();
        Ok(event_loop)
    }

    /// One turn of TUX's `event_loop`.
    fn turn(&mut self) -> io::Result<()> {
        if self.accepts() {
            self.accept_requests();
        }
        if !self.requests.work_pending.is_empty() {
            self.process_requests()?;
        }
        self.attend()?;
        if self.requests.work_pending.is_empty() && !self.accepts() && !self.is_done() {
            self.sleep()?;
        }
        Ok(())
    }

    /// A connection may be in the accept queue, and may be taken.
    fn accepts(&self) -> bool {
        let may = self.paused_until_ms.is_none() && !self.desk.is_draining();
        may && !self.accept_pending.is_empty()
    }

    /// The accept phase: over the listening sockets again and again until one pass adds nothing,
    /// or once when the accept-limit is finite.
    fn accept_requests(&mut self) {
        let start_ns = clock::monotonic_ns();
        let listeners = self.worker.listeners.len();
        let once =
            listeners == 1 || self.worker.shared.live().accept_limit() != AcceptLimit::Infinite;
        loop {
            let mut pending = std::mem::take(&mut self.accept_pending);
            let (mut added, mut stopped) = (0, None);
            pending.retain(|&listener| {
                let (ended, accepted) = self.accept_from(listener);
                added += accepted;
                if matches!(ended, Ended::Full | Ended::OutOfDescriptors | Ended::Closed) {
                    stopped = Some(ended);
                }
                // A callback comes once: what the limit left in the queue is remembered here.
                ended == Ended::Limit
            });
            self.accept_pending = pending;
            if let Some(ended) = stopped {
                self.pause_accepting(ended);
            }
            if once || added == 0 || stopped.is_some() {
                break;
            }
            self.accept_pending.clear();
            self.accept_pending.extend(0..listeners);
        }
        self.desk.accepted(start_ns);
    }

    /// Accepts from one listening socket. Each connection is read and parsed at once, as TUX does.
    fn accept_from(&mut self, listener: usize) -> (Ended, usize) {
        let room = self.worker.connections_max.saturating_sub(self.requests.slots.len());
        let EventLoop { accept, worker, desk, requests, callbacks, .. } = self;
        let (mut tally, mut accepted) = (Tally::default(), 0);
        let ended = accept.phase(&worker.listeners[listener], room, &mut tally, |socket, peer| {
            accepted += 1;
            requests.open((socket, peer), desk, callbacks);
        });
        desk.tally.absorb(&tally);
        (ended, accepted)
    }

    /// The work phase: until the queue is empty, whatever comes into it meanwhile.
    fn process_requests(&mut self) -> io::Result<()> {
        let start_ns = clock::monotonic_ns();
        let mut worked_on = 0;
        loop {
            let Some(token) = self.requests.pop() else {
                // What is linked only now may be ready already.
                self.callbacks.submit()?;
                self.called_back()?;
                if self.requests.work_pending.is_empty() {
                    break;
                }
                continue;
            };
            self.request(token);
            worked_on += 1;
            if worked_on % TURNS_UNATTENDED_MAX == 0 {
                self.attend()?;
                if self.is_done() {
                    break;
                }
            }
            self.callbacks.submit_batch()?;
            self.called_back()?;
        }
        self.desk.tally.add(Counter::WorkPhases, u64::from(worked_on > 0));
        self.desk.tally.add(Counter::WorkedOn, worked_on);
        self.desk.worked(clock::monotonic_ns() - start_ns, worked_on > 0);
        Ok(())
    }

    fn request(&mut self, token: Token) {
        let over = self.requests.go_on(token, &mut self.desk, &mut self.callbacks);
        if over && self.paused_until_ms.is_some() {
            self.resume_accepting();
        }
    }

    /// Puts into the queues what the callbacks tell. No system call unless disk work is done.
    fn called_back(&mut self) -> io::Result<()> {
        let mut completions = std::mem::take(&mut self.completions);
        self.callbacks.peek(&mut completions)?;
        for (token, completion) in completions.drain(..) {
            match completion {
                Completion::Readable(more) => self.called_by_watch(token, more)?,
                completion => {
                    let EventLoop { requests, desk, callbacks, .. } = self;
                    requests.completed(token, completion, desk, callbacks);
                }
            }
        }
        self.completions = completions;
        while let Some((bits, plan)) = self.callbacks.collect() {
            self.requests.stepped(bits, plan, &mut self.desk);
        }
        Ok(())
    }

    fn called_by_watch(&mut self, token: u64, more: bool) -> io::Result<()> {
        match token {
            SIGNALS => self.signalled = true,
            _ if self.desk.is_draining() => return Ok(()),
            token => {
                let listener = (token - LISTENERS) as usize;
                if !self.accept_pending.contains(&listener) {
                    self.accept_pending.push(listener);
                }
            }
        }
        if more { Ok(()) } else { self.callbacks.watch(token, &self.worker) }
    }

    /// What must not wait for the end of the work: the clock, deadlines, orders, counters.
    fn attend(&mut self) -> io::Result<()> {
        self.desk.turned();
        self.desk.begin_turn();
        while let Some(token) = self.requests.expire(self.desk.now.ms()) {
            self.request(token);
        }
        if std::mem::take(&mut self.signalled) {
            while let Some(order) = self.worker.order() {
                self.begin_draining(order);
            }
        }
        if self.paused_until_ms.is_some_and(|until| self.desk.now.ms() >= until) {
            self.resume_accepting();
        }
        self.desk.publish();
        if self.desk.states_are_due() {
            let slots = self.requests.slots.values();
            self.desk.publish_states(slots.map(|slot| slot.connection.standing()));
            self.tell_unpinned();
        }
        self.callbacks.submit()?;
        self.called_back()
    }

    /// Waits for a callback or a deadline: there is nothing else to do.
    fn sleep(&mut self) -> io::Result<()> {
        let most_ms = self.paused_until_ms.map_or(WAIT_MS_MAX, |_| ACCEPT_PAUSE_MS);
        let most_ms = self.desk.wait_ms(most_ms);
        let wait_ms = self.requests.timers.wait_ms(self.desk.now.ms(), most_ms);
        self.callbacks.ring.wait(&mut self.completions, wait_ms)?;
        self.desk.woke();
        self.called_back()
    }

    /// Stops accepting, and closes every connection as soon as its answer is sent. When the server
    /// stops, what is already queued is taken in first.
    fn begin_draining(&mut self, order: Order) {
        if !self.desk.is_draining() {
            let listeners = self.worker.listeners.len();
            if order == Order::Stop {
                self.accept = AcceptPolicy::new(AcceptLimit::Infinite);
                self.accept_pending = (0..listeners).collect();
                self.accept_requests();
            }
            self.accept_pending.clear();
            for at in 0..listeners as u64 {
                self.callbacks.ring.cancel(LISTENERS + at);
            }
            self.requests.close_links(&mut self.callbacks);
            self.worker.leave_listeners(order);
            self.desk.begin_draining();
        }
        // A request that has arrived is under way, although nobody has answered it yet.
        for _ in 0..self.requests.work_pending.len() {
            if let Some(token) = self.requests.pop() {
                self.request(token);
            }
        }
        for token in self.requests.slots.tokens() {
            if let Some(slot) = self.requests.slots.find(token) {
                slot.connection.drain(order);
                self.requests.push(token);
            }
        }
    }

    fn is_done(&self) -> bool {
        self.desk.is_draining() && self.requests.slots.is_empty()
            || self.desk.is_over_by(self.desk.asked_ms())
    }

    /// Leaves new connections in the accept queue until there is room.
    fn pause_accepting(&mut self, ended: Ended) {
        self.paused_until_ms = Some(self.desk.now.ms() + ACCEPT_PAUSE_MS);
        self.requests.make_room(&self.worker, self.desk.now.ms());
        if let Some(why) = ended.why_paused()
            && !std::mem::replace(&mut self.warned, true)
        {
            self.worker.say(&accept::paused(why, self.requests.slots.len()));
        }
    }

    /// No callback tells again of those that came meanwhile.
    fn resume_accepting(&mut self) {
        self.paused_until_ms = None;
        self.accept_pending.clear();
        self.accept_pending.extend(0..self.worker.listeners.len());
    }

    fn tell_unpinned(&mut self) {
        let unpinned = self.desk.service.cache_counts().unpinned;
        if unpinned > 0 && !std::mem::replace(&mut self.told_unpinned, true) {
            self.worker.say("cached bodies may be swapped out: the limit on locked memory is low");
        }
    }

    fn report(mut self) -> Report {
        self.requests.leave(&mut self.desk);
        self.desk.publish();
        self.desk.publish_states(std::iter::empty());
        Report { unfinished: self.requests.slots.len() }
    }
}
