//! What the blocking architectures share: a thread that accepts, serves a connection to its end
//! with calls that block, and accepts again; and how such threads learn that they shall end.
//!
//! Rule 3 of the contract: a thread blocks in the one call that is wanted, and in poll(2) when both
//! reading and writing are. The kernel's socket time-outs, which accepted sockets inherit, are the
//! watchdog: a call that is overdue returns, and its thread looks at the time and at the orders.

mod line;

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use std::time::Duration;

use flyball_conn::{Connection, Peer};
use flyball_http::CloseReason;
use flyball_observe::counters::Counter;
use flyball_sys::owned::{Opening, Owned};
use flyball_sys::readiness::{Event, Interest, Readiness};
use flyball_sys::wake::Wake;

use self::line::Line;
use crate::desk::Desk;
use crate::drive::Turn;
use crate::kernel::{clock, net, readiness};
use crate::limits::{ACCEPT_PAUSE_MS, waiting_sendfile_bytes};
use crate::links::blocking;
use crate::listener::Listener;
use crate::room::Yields;
use crate::transmit::take_leave;
use crate::worker::{BLOCKING_TICK_MS, Order, Worker};

/// Least time between two answers that are cut to make room, in milliseconds: time enough for the
/// client that waited to be accepted.
const CUTS_APART_MS: u64 = 1_000;

/// Threads at each of several sockets: fewer could all be held by connections that are kept, while
/// others wait at another socket for somebody to come.
const THREADS_AT_ONE_MIN: usize = 16;

/// How long the threads of a stopping worker may take in nothing of what is queued, in
/// milliseconds. Those that wait for a client learn within [`BLOCKING_TICK_MS`] that they are to
/// accept.
const QUEUE_MS: u64 = 4 * BLOCKING_TICK_MS;

/// [`Crew::told`] before there is an order, and the orders.
const NONE: u8 = 0;
const RETIRE: u8 = 1;
const STOP: u8 = 2;

/// The threads of one worker, and what they are told.
#[derive(Debug)]
pub(crate) struct Crew<'a> {
    worker: &'a Worker,
    /// The last order; a retirement does not follow a stop.
    told: AtomicU8,
    /// The first, which decides what becomes of the listening sockets.
    told_first: AtomicU8,
    told_ms: AtomicU64,
    /// Connections that were queued when the worker was told to stop and have not been accepted.
    queued: AtomicUsize,
    /// When one was accepted, or the order came, in monotonic milliseconds.
    taken_ms: AtomicU64,
    /// Threads that are in accept, or about to be.
    accepting: AtomicUsize,
    /// Whether a thread that accepts for all others waits for somebody to come.
    is_open: AtomicBool,
    /// Whether the listening sockets have been left.
    left: AtomicBool,
    running: AtomicUsize,
    /// Whether the end of a thread is waited for.
    is_full: AtomicBool,
    unfinished: AtomicUsize,
    /// When an answer was last cut to make room, in monotonic milliseconds.
    cut_ms: AtomicU64,
    /// Something happened that [`Crew::attend`] waits for.
    changed: Wake,
}

impl<'a> Crew<'a> {
    /// The threads of this worker, of which there are none yet.
    ///
    /// # Errors
    /// When descriptors are out.
    pub(crate) fn new(worker: &'a Worker) -> io::Result<Crew<'a>> {
        Ok(Crew {
            worker,
            told: AtomicU8::new(NONE),
            told_first: AtomicU8::new(NONE),
            told_ms: AtomicU64::new(0),
            queued: AtomicUsize::new(0),
            taken_ms: AtomicU64::new(0),
            accepting: AtomicUsize::new(0),
            is_open: AtomicBool::new(false),
            left: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            is_full: AtomicBool::new(false),
            unfinished: AtomicUsize::new(0),
            cut_ms: AtomicU64::new(0),
            changed: Wake::new()?,
        })
    }

    /// Connections that were open at the drain deadline.
    pub(crate) fn unfinished(&self) -> usize {
        self.unfinished.load(SeqCst)
    }

    /// Whether fewer threads run than `most`; if not, the end of one is told by
    /// [`Crew::changed`].
    pub(crate) fn has_room(&self, most: usize) -> bool {
        let has_room = || self.running.load(SeqCst) < most;
        if has_room() {
            return true;
        }
        self.is_full.store(true, SeqCst);
        // One may have ended before it could see that it is waited for.
        has_room()
    }

    /// How many threads run.
    pub(crate) fn running(&self) -> usize {
        self.running.load(SeqCst)
    }

    /// Says whether a thread that accepts for all others waits for new connections.
    pub(crate) fn opens(&self, is_open: bool) {
        self.is_open.store(is_open, SeqCst);
    }

    /// Whether somebody waits who is not accepted before a connection ends. Of several sockets,
    /// those who accept may all be at another.
    fn keeps_somebody_waiting(&self) -> bool {
        !self.accepts() && self.worker.waits_for_room() > 0
    }

    /// Whether a thread would accept the next client.
    fn accepts(&self) -> bool {
        self.is_open.load(SeqCst)
            || self.accepting.load(SeqCst) > 0 && self.worker.listeners.len() == 1
    }

    /// Whether a thread may cut its answer to make room. Threads look at the same time, and each
    /// sees the client that waits until another has accepted it: one may at a time.
    fn may_cut(&self, now_ms: u64) -> bool {
        let last_ms = self.cut_ms.load(SeqCst);
        now_ms >= last_ms + CUTS_APART_MS
            && self.cut_ms.compare_exchange(last_ms, now_ms, SeqCst, SeqCst).is_ok()
    }

    /// Readable when something happened that is waited for.
    pub(crate) fn changed(&self) -> &Wake {
        &self.changed
    }

    /// The last order.
    pub(crate) fn told(&self) -> Option<Order> {
        order_of(self.told.load(SeqCst))
    }

    /// Tells the threads, from the one that looks for orders. Those that wait learn of it within
    /// [`BLOCKING_TICK_MS`].
    pub(crate) fn tell(&self, order: Order) {
        let order = if order == Order::Stop { STOP } else { RETIRE };
        if self.told_first.load(SeqCst) == NONE {
            // The time first: it is read with the order. What comes later is not waited for.
            let now_ms = clock::monotonic_ms();
            self.told_ms.store(now_ms, SeqCst);
            self.taken_ms.store(now_ms, SeqCst);
            self.queued.store(self.worker.queued(), SeqCst);
            self.told_first.store(order, SeqCst);
        }
        self.told.fetch_max(order, SeqCst);
    }

    /// Passes on what the master has told the worker, and leaves the listening sockets in time.
    pub(crate) fn take_orders(&self) {
        while let Some(order) = self.worker.order() {
            self.tell(order);
        }
        self.leave_listeners();
    }

    /// Blocks until the worker was told to end and every thread has ended, or all have failed.
    ///
    /// # Errors
    /// When the kernel refuses to wait; the threads are then told to stop.
    pub(crate) fn attend(&self) -> io::Result<()> {
        let attended = self.try_to_attend();
        if attended.is_err() {
            self.tell(Order::Stop);
        }
        attended
    }

    fn try_to_attend(&self) -> io::Result<()> {
        let mut mechanism = readiness::open("poll")?;
        mechanism.add(self.worker.signals.as_fd(), 0, Interest::READ)?;
        mechanism.add(self.changed.as_fd(), 1, Interest::READ)?;
        let mut events = Vec::new();
        loop {
            self.changed.clear();
            self.take_orders();
            if self.running.load(SeqCst) == 0 {
                return Ok(());
            }
            // Whoever accepts tells when that changes, except that the queue may fill up again.
            let leaving = self.told().is_some() && !self.left.load(SeqCst);
            mechanism.wait(&mut events, if leaving { BLOCKING_TICK_MS as i32 } else { -1 })?;
        }
    }

    /// When the open connections have had their time.
    fn drain_until_ms(&self) -> u64 {
        self.told_ms.load(SeqCst) + self.worker.settings.drain_ms
    }

    /// Leaves the listening sockets once that is time. Retiring, once no thread is in accept and
    /// none will be: the sockets themselves are others' now, so that nothing wakes those in accept
    /// but their time-out. Stopping, once what was queued is taken in, or where no thread has been
    /// free for [`QUEUE_MS`]; it wakes all that are in accept.
    pub(crate) fn leave_listeners(&self) {
        let Some(order) = order_of(self.told_first.load(SeqCst)) else { return };
        let is_time = match order {
            Order::Retire => self.accepting.load(SeqCst) == 0,
            Order::Stop => {
                let taken_ms = self.taken_ms.load(SeqCst);
                let waited_ms = clock::monotonic_ms().saturating_sub(taken_ms);
                waited_ms >= QUEUE_MS || self.has_taken_all()
            }
        };
        if is_time && !self.left.swap(true, SeqCst) {
            self.worker.leave_listeners(order);
        }
    }

    /// Whether none is left of what was queued when the worker was told to stop. Other workers may
    /// have taken it.
    fn has_taken_all(&self) -> bool {
        self.queued.load(SeqCst) == 0 || self.worker.queued() == 0
    }

    /// One was accepted; `was_told` says that its thread knew of an order before. Else it may have
    /// left the queue before that was counted.
    fn took_one(&self, was_told: bool) {
        if self.told().is_some() {
            self.taken_ms.store(clock::monotonic_ms(), SeqCst);
        }
        if was_told {
            // Who comes after the order may be accepted in the place of one who came before.
            let _ = self.queued.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        }
    }

    /// Whether a thread may go to accept. If so, it says so by [`Crew::came_back`] afterwards.
    /// After a stop it may, for as long as there is something in the queue that was there before.
    fn may_accept(&self) -> bool {
        self.accepting.fetch_add(1, SeqCst);
        // Read after the line above, as `leave_listeners` reads the two in the other order: either
        // this thread sees the order, or whoever gave it sees this thread.
        let may = match order_of(self.told_first.load(SeqCst)) {
            None => true,
            Some(Order::Retire) => false,
            Some(Order::Stop) => !self.left.load(SeqCst) && !self.has_taken_all(),
        };
        if !may {
            self.came_back();
        }
        may
    }

    fn came_back(&self) {
        self.accepting.fetch_sub(1, SeqCst);
        if self.told().is_some() {
            self.changed.notify();
        }
    }
}

fn order_of(told: u8) -> Option<Order> {
    match told {
        NONE => None,
        RETIRE => Some(Order::Retire),
        _ => Some(Order::Stop),
    }
}

/// One thread that blocks.
pub(crate) struct Thread<'a> {
    crew: &'a Crew<'a>,
    desk: Desk,
    /// When it looks for orders itself, if it has nobody who does.
    look_at_ms: Option<u64>,
    _running: Running<'a>,
}

/// A thread that is running, also when it ends by a panic.
struct Running<'a>(&'a Crew<'a>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let was_last = self.0.running.fetch_sub(1, SeqCst) == 1;
        if was_last || self.0.is_full.swap(false, SeqCst) {
            self.0.changed.notify();
        }
    }
}

impl<'a> Thread<'a> {
    /// A thread that is about to start.
    pub(crate) fn new(crew: &'a Crew<'a>, mut desk: Desk) -> Thread<'a> {
        desk.sender.sendfile_bytes_max = waiting_sendfile_bytes(&desk.settings);
        crew.running.fetch_add(1, SeqCst);
        Thread { crew, desk, look_at_ms: None, _running: Running(crew) }
    }

    /// The thread is all there is of its worker: it looks for orders itself.
    pub(crate) fn alone(mut self) -> Thread<'a> {
        self.look_at_ms = Some(0);
        self
    }

    /// Its desk, when it is done.
    pub(crate) fn into_desk(self) -> Desk {
        self.desk
    }

    /// A thread's life: accept, serve to the end, again, until the worker ends. It is number
    /// `number` of `all` that accept from the same sockets.
    ///
    /// # Errors
    /// When the kernel refuses to watch the sockets.
    pub(crate) fn run(mut self, number: usize, all: usize) -> io::Result<()> {
        let mut door = Door::open(&self.crew.worker.listeners, number, all)?;
        if self.look_at_ms.is_some() {
            self.crew.worker.enter_loop();
        }
        while let Some((socket, peer)) = self.next(&mut door) {
            self.serve(&socket, peer);
        }
        self.desk.publish();
        Ok(())
    }

    /// The next connection; `None` when this thread shall accept no more. Blocks.
    fn next(&mut self, door: &mut Door<'_>) -> Option<(Owned, Peer)> {
        loop {
            self.desk.publish_when_due();
            self.order();
            if !self.crew.may_accept() {
                return None;
            }
            let (began_ms, was_told) = (self.desk.now.ms(), self.crew.told().is_some());
            let accepted = self.accept(door);
            if accepted.is_ok() {
                self.crew.took_one(was_told);
            }
            self.crew.came_back();
            self.desk.tick();
            match accepted {
                Ok(connection) => {
                    self.desk.tally.accept_phase(1);
                    return Some(connection);
                }
                Err(error) if net::is_out_of_descriptors(&error) => {
                    self.desk.tally.add(Counter::OutOfDescriptors, 1);
                    std::thread::park_timeout(Duration::from_millis(ACCEPT_PAUSE_MS));
                }
                Err(error) if net::is_not_listening(&error) => {
                    // Another worker was told to stop, or this one.
                    self.look_now();
                    if self.order().is_none() {
                        std::thread::park_timeout(Duration::from_millis(ACCEPT_PAUSE_MS));
                    }
                }
                Err(error) if is_timeout(&error) => {
                    self.desk.rest();
                    // Those to whom the sockets were handed may have made them non-blocking.
                    if self.desk.now.ms() - began_ms < BLOCKING_TICK_MS / 2 {
                        self.look_now();
                        door.wait();
                    }
                }
                Err(_) => self.desk.tally.add(Counter::AcceptFailures, 1),
            }
        }
    }

    /// Accepts a connection, where there is a lock while nobody else does.
    fn accept(&mut self, door: &mut Door<'_>) -> io::Result<(Owned, Peer)> {
        let Some(lock) = self.desk.accept_lock().filter(|_| self.crew.told().is_none()) else {
            return door.accept();
        };
        let _held = lock.hold()?;
        // Many may have waited long, one behind the other.
        self.look_now();
        match self.order() {
            None => door.accept(),
            Some(_) => Err(ErrorKind::WouldBlock.into()),
        }
    }

    /// The last order, by which time a thread that is alone has looked for it.
    fn order(&mut self) -> Option<Order> {
        let now_ms = self.desk.now.ms();
        if let Some(look_at_ms) = self.look_at_ms.filter(|at| now_ms >= *at) {
            self.crew.take_orders();
            self.look_at_ms = Some(look_at_ms.max(now_ms) + BLOCKING_TICK_MS);
        }
        self.crew.told()
    }

    fn look_now(&mut self) {
        self.look_at_ms = self.look_at_ms.map(|_| 0);
    }

    /// Whether this thread only waits for a client while others wait for a thread. Whoever sees
    /// that takes one of those, so that few others see it.
    fn shall_make_room(&self, connection: &Connection) -> bool {
        if self.crew.accepts() {
            return false;
        }
        let now_ms = self.desk.now.ms();
        let Some(yields) = Yields::of(connection, true).filter(|one| one.is_due(now_ms)) else {
            return false;
        };
        self.crew.told().is_none()
            && self.crew.keeps_somebody_waiting()
            && (!yields.cuts_an_answer() || self.crew.may_cut(now_ms))
    }

    /// One connection, to its end or to the drain deadline. Blocks.
    pub(crate) fn serve(&mut self, socket: &Owned, peer: Peer) {
        let mut line = Line::new(socket, peer, &mut self.desk);
        let (mut drained, mut looked, mut makes_room) = (None, false, false);
        let reason = loop {
            let turn = line.turn(&mut self.desk);
            if let Turn::Over(reason) = turn {
                break reason;
            }
            let order = self.order();
            if order != drained {
                drained = order;
                self.desk.ends_at(self.crew.drain_until_ms());
                order.inspect(|order| line.connection.drain(*order));
                continue;
            }
            let now_ms = self.desk.now.ms();
            let is_over = self.desk.is_over_by(now_ms);
            makes_room |= waits_for_client(&turn) && self.shall_make_room(&line.connection);
            // Not where a call has timed out: a client that drips never lets one.
            let is_late = now_ms >= line.connection.deadline();
            let looks = wants_input(&turn) && (is_over || makes_room || is_late);
            if (looks || is_late && waits_for_link(&turn)) && !looked {
                // What has come counts, although it was not read.
                looked = true;
                blocking::told(&mut line.link);
                if wants_input(&turn) {
                    line.receive_now(&mut self.desk);
                }
                continue;
            }
            looked = false;
            if is_over {
                self.crew.unfinished.fetch_add(1, Relaxed);
                line.connection.cut_off();
                break CloseReason::Draining;
            }
            if is_late {
                line.connection.expired(|| net::unacknowledged(socket), &mut self.desk);
                // A turn that sends may take longer than a window of the least rate, so that it is
                // late after each.
                if !makes_room {
                    continue;
                }
            }
            if std::mem::take(&mut makes_room) {
                let yields = Yields::of(&line.connection, true).filter(|one| one.is_due(now_ms));
                let yields = yields.filter(|_| waits_for_client(&turn));
                // Another may have made room meanwhile.
                if yields.is_some() && self.crew.keeps_somebody_waiting() {
                    line.connection.make_room();
                }
                continue;
            }
            match turn {
                Turn::Wait(interest, awaited) => line.wait(interest, awaited, &mut self.desk),
                // However fast the client takes it, the drain deadline must be seen.
                _ => line.look_around(&mut self.desk),
            }
        };
        take_leave(socket, &mut line.connection);
        line.connection.end(&mut self.desk, reason, || net::untaken(socket));
        self.desk.show(None);
    }
}

/// Accepts a connection by a call that waits, if the socket's do.
fn accept_from(listener: &Listener) -> io::Result<(Owned, Peer)> {
    listener.accept_within(&Opening::begin(), false)
}

/// Where a thread accepts.
enum Door<'a> {
    /// At one socket, in accept itself: the kernel wakes one thread for each connection.
    One(&'a Listener),
    /// At all, since there are too few threads to divide among the sockets.
    Any { listeners: &'a [Listener], mechanism: Box<dyn Readiness>, ready: Vec<Event> },
}

impl Door<'_> {
    /// That of thread `number` of `all`.
    fn open(listeners: &[Listener], number: usize, all: usize) -> io::Result<Door<'_>> {
        if listeners.len() == 1 || all >= listeners.len() * THREADS_AT_ONE_MIN {
            return Ok(Door::One(&listeners[number % listeners.len()]));
        }
        let mut mechanism = readiness::open("poll")?;
        for (at, listener) in listeners.iter().enumerate() {
            mechanism.add(listener.as_fd(), at as u64, Interest::READ)?;
        }
        Ok(Door::Any { listeners, mechanism, ready: Vec::new() })
    }

    /// Accepts a connection; waits for it for about [`BLOCKING_TICK_MS`].
    fn accept(&mut self) -> io::Result<(Owned, Peer)> {
        match self {
            Door::One(listener) => accept_from(listener),
            Door::Any { listeners, mechanism, ready } => {
                mechanism.wait(ready, BLOCKING_TICK_MS as i32)?;
                // They are told in the order of their numbers: a random one has its turn.
                let at = clock::monotonic_ms() as usize;
                match ready.len() {
                    0 => Err(ErrorKind::WouldBlock.into()),
                    count => accept_from(&listeners[ready[at % count].token as usize]),
                }
            }
        }
    }

    /// Waits for a connection at a socket whose accept does not wait.
    fn wait(&self) {
        if let Door::One(listener) = self {
            // It fails when memory is out; then this is a short wait.
            let _ = net::wait_readable(listener, BLOCKING_TICK_MS);
        }
    }
}

/// Whether it is the client that is slow, and not what answers it.
fn waits_for_client(turn: &Turn) -> bool {
    match turn {
        Turn::Wait(interest, awaited) => interest.write || interest.read && awaited.is_none(),
        _ => true,
    }
}

/// Whether something may be heard on its link.
fn waits_for_link(turn: &Turn) -> bool {
    matches!(turn, Turn::Wait(_, Some(_)))
}

/// Whether what the client sends would be taken now.
fn wants_input(turn: &Turn) -> bool {
    let Turn::Wait(Interest { read: true, .. }, awaited) = turn else { return false };
    awaited.as_ref().is_none_or(|awaited| awaited.reads)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
