//! What all user-level threads of a kernel thread have in common, and the one that runs owns.

use std::io;
use std::os::fd::BorrowedFd;

use flyball_conn::{Connection, Peer};
use flyball_http::CloseReason;
use flyball_observe::counters::Counter;
use flyball_site::Plan;
use flyball_sys::clock;
use flyball_sys::owned::Owned;
use flyball_sys::readiness::{Interest, Readiness};

use crate::accept::{self, AcceptPolicy, Ended};
use crate::desk::Desk;
use crate::event_sources::{self, unwatch_listeners};
use crate::helpers;
use crate::kernel::net;
use crate::limits::ACCEPT_PAUSE_MS;
use crate::links::Links;
use crate::phases::DiskWork;
use crate::slots::{Slots, Token};
use crate::transmit::take_leave;
use crate::worker::{Order, Worker};

/// Plans that helpers perform for threads.
pub(super) struct Errands {
    pub(super) helpers: Box<dyn DiskWork>,
    /// The thread that waits for each plan.
    waiting: Slots<Token>,
}

impl Errands {
    /// Hands a plan to the helpers for a thread. The plan itself when it is done at once, or else
    /// what it will be known by.
    pub(super) fn send(&mut self, thread: Token, plan: Box<Plan>) -> Result<Box<Plan>, Token> {
        let errand = self.waiting.insert(thread);
        match self.helpers.submit(errand, plan) {
            Some(done) => {
                self.waiting.remove(errand);
                Ok(done)
            }
            None => Err(errand),
        }
    }

    /// Its thread does not wait for this one any more.
    pub(super) fn forget(&mut self, errand: Token) {
        self.waiting.remove(errand);
    }
}

/// How new connections are taken in.
pub(super) struct Accepting {
    policy: AcceptPolicy,
    connections_max: usize,
    /// Listening sockets that were reported ready and not yet given to an acceptor.
    pub(super) ready: Vec<usize>,
    /// How the last accept phase ended.
    pub(super) ended: Ended,
    /// Whether the listening sockets are in the event mechanism.
    watches: bool,
    /// Accepting is paused until then, or until a connection closes.
    paused_until_ms: Option<u64>,
    /// When it is looked next whether connections can make room for those that wait, while no
    /// thread accepts.
    look_for_room_ms: Option<u64>,
    /// It was said that accepting is paused.
    warned: bool,
}

impl Accepting {
    fn new(policy: AcceptPolicy, connections_max: usize) -> Accepting {
        Accepting {
            policy,
            connections_max,
            ready: Vec::new(),
            ended: Ended::Drained,
            watches: false,
            paused_until_ms: None,
            look_for_room_ms: None,
            warned: false,
        }
    }
}

/// What all user-level threads have in common.
pub(crate) struct Commons {
    pub(crate) desk: Desk,
    pub(crate) worker: Worker,
    /// The order that the worker had, if it had one.
    pub(crate) order: Option<Order>,
    pub(super) mechanism: Box<dyn Readiness>,
    pub(super) errands: Errands,
    /// The links of its threads.
    pub(super) links: Links,
    /// Connections that shall have a thread of their own.
    pub(super) newborn: Vec<(Owned, Peer)>,
    /// Accepted connections that are not closed.
    open: usize,
    pub(super) accepting: Accepting,
}

impl Commons {
    /// Opens the event mechanism, starts the helpers and watches the listening sockets.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn new(
        worker: Worker,
        accept: AcceptPolicy,
        connections_max: usize,
    ) -> io::Result<Box<Commons>> {
        let helpers = helpers::start(&worker)?;
        let mut desk = worker.desk();
        desk.sender.resident_only = helpers.reads_large_bodies();
        let mechanism = event_sources::open(&worker, helpers.completions())?;
        let mut commons = Box::new(Commons {
            desk,
            worker,
            order: None,
            mechanism,
            errands: Errands { helpers, waiting: Slots::default() },
            links: Links::default(),
            newborn: Vec::new(),
            open: 0,
            accepting: Accepting::new(accept, connections_max),
        });
        commons.add_listeners()?;
        commons.worker.enter_loop();
        Ok(commons)
    }

    /// Accepted connections that are not closed.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// Whether most of the connections that are allowed are open.
    pub(super) fn places_are_scarce(&self) -> bool {
        self.open >= self.accepting.connections_max - self.accepting.connections_max / 4
    }

    /// Takes connections from a listening socket that was reported ready, at most accept-limit of
    /// them and only while it need not wait.
    pub(crate) fn accept(&mut self, listener: usize, take: &mut Vec<(Owned, Peer)>) {
        let start_ns = clock::monotonic_ns();
        let Some(socket) = self.worker.listeners.get(listener) else { return };
        let room = self.accepting.connections_max.saturating_sub(self.open);
        let before = take.len();
        let accepted = |socket, peer| take.push((socket, peer));
        self.accepting.ended =
            self.accepting.policy.phase(socket, room, &mut self.desk.tally, accepted);
        self.open += take.len() - before;
        self.desk.accepted(start_ns);
        match self.accepting.ended {
            Ended::Full | Ended::OutOfDescriptors | Ended::Closed => {
                self.pause_accepting(self.accepting.ended.why_paused());
            }
            // An edge is reported once: what the limit left in the queue is remembered here.
            Ended::Limit if self.mechanism.is_edge_triggered() => {
                self.accepting.ready.push(listener);
            }
            Ended::Limit | Ended::Drained => {}
        }
    }

    /// The connection is over.
    pub(super) fn close(&mut self, mut connection: Connection, socket: Owned, reason: CloseReason) {
        take_leave(&socket, &mut connection);
        connection.end(&mut self.desk, reason, || net::untaken(&socket));
        drop(socket);
        self.open -= 1;
        if self.accepting.paused_until_ms.is_some() {
            self.resume_accepting();
        }
    }

    /// A connection for which there was no thread is closed.
    pub(super) fn turned_away(&mut self) {
        self.open -= 1;
        self.desk.tally.add(Counter::AcceptFailures, 1);
        self.pause_accepting(Some("there is no memory for another stack"));
    }

    /// Makes every accept phase from now on take one connection at least: the fractions of a limit
    /// are for a server that goes on.
    pub(super) fn make_last_call(&mut self) {
        self.accepting.policy = self.accepting.policy.at_least_one();
    }

    /// A plan that the helpers finished, and the thread that waits for it. What nobody waits for
    /// any more still teaches the caches.
    pub(super) fn collect(&mut self) -> Option<(Token, Box<Plan>)> {
        while let Some((errand, plan)) = self.errands.helpers.collect() {
            if let Some(thread) = self.errands.waiting.remove(errand) {
                return Some((thread, plan));
            }
            self.desk.learn(*plan);
        }
        None
    }

    /// Tells the event mechanism what a thread waits for on a socket, if it does not know. `now`
    /// is what it watches for; the new value is given back.
    pub(super) fn watch(
        &mut self,
        socket: BorrowedFd<'_>,
        thread: Token,
        now: Interest,
        wanted: Interest,
    ) -> Interest {
        event_sources::watch(self.mechanism.as_mut(), socket, thread, now, wanted)
    }

    /// The socket is closed right after this call.
    pub(super) fn forget(&mut self, socket: BorrowedFd<'_>) {
        self.mechanism.forget(socket);
    }

    /// Whether accepting may go on.
    pub(super) fn accepts(&self) -> bool {
        self.accepting.paused_until_ms.is_none() && self.order.is_none()
    }

    /// How long the scheduler may wait at most because accepting is paused.
    pub(super) fn pause_ms(&self) -> Option<u64> {
        self.accepting.paused_until_ms.or(self.accepting.look_for_room_ms).map(|_| ACCEPT_PAUSE_MS)
    }

    /// Nobody accepts: it shall be looked whether connections can make room.
    pub(super) fn want_room(&mut self) {
        self.accepting.look_for_room_ms.get_or_insert(0);
    }

    /// How many connections somebody shall make room for now.
    pub(super) fn room_wanted(&mut self) -> usize {
        let now_ms = self.desk.now.ms();
        if self.order.is_some()
            || self.accepting.look_for_room_ms.is_none_or(|look_ms| now_ms < look_ms)
        {
            return 0;
        }
        self.accepting.look_for_room_ms = Some(now_ms + ACCEPT_PAUSE_MS);
        self.worker.waits_for_room()
    }

    /// Goes on accepting when the pause is over.
    pub(super) fn end_pause_when_due(&mut self) {
        if self.accepting.paused_until_ms.is_some_and(|until| self.desk.now.ms() >= until) {
            self.resume_accepting();
        }
    }

    /// Watches the listening sockets again after [`Commons::ignore_listeners`].
    pub(super) fn watch_listeners(&mut self) {
        // It can fail only for want of memory: then there is a pause.
        if !self.accepting.watches && self.accepts() && self.add_listeners().is_err() {
            self.pause_accepting(None);
        }
    }

    /// Leaves new connections in the accept queue. They are reported anew when the sockets are
    /// watched again.
    pub(super) fn ignore_listeners(&mut self) {
        self.accepting.ready.clear();
        if std::mem::replace(&mut self.accepting.watches, false) {
            unwatch_listeners(self.mechanism.as_mut(), &self.worker);
        }
    }

    fn add_listeners(&mut self) -> io::Result<()> {
        self.accepting.watches = true;
        self.accepting.look_for_room_ms = None;
        event_sources::watch_listeners(self.mechanism.as_mut(), &self.worker)
    }

    /// Leaves new connections in the accept queue until there is room; says why once.
    fn pause_accepting(&mut self, why: Option<&str>) {
        self.ignore_listeners();
        self.accepting.paused_until_ms = Some(self.desk.now.ms() + ACCEPT_PAUSE_MS);
        self.want_room();
        if let Some(why) = why
            && !std::mem::replace(&mut self.accepting.warned, true)
        {
            self.worker.say(&accept::paused(why, self.open));
        }
    }

    fn resume_accepting(&mut self) {
        self.accepting.paused_until_ms = None;
        self.watch_listeners();
    }
}
