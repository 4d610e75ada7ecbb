//! The scheduler: a run queue, and what the threads wait for that are not in it. It waits in the
//! event mechanism when nobody can run, and looks there between two passes over the run queue.

use std::collections::VecDeque;
use std::io;
use std::ops::{Deref, DerefMut};

use flyball_conn::Peer;
use flyball_http::h1::state::State;
use flyball_observe::counters::Counter;
use flyball_observe::standing::Standing;
use flyball_site::Plan;
use flyball_sys::clock;
use flyball_sys::owned::Owned;
use flyball_sys::readiness::{self, Event};
use flyball_sys::user_thread::{Parker, Run, Stacks, UserThread};

use super::commons::Commons;
use super::schedule::{Node, Schedule};
use crate::accept::Ended;
use crate::awaited::Awaited;
use crate::event_sources::Source;
use crate::limits::WAIT_MS_MAX;
use crate::links::Held;
use crate::room::{self, Yields};
use crate::settings::Settings;
use crate::slots::{Slots, Token};
use crate::timers::Timers;
use crate::worker::{Order, Report};

/// Stacks kept for reuse when no thread needs them.
const SPARE_STACKS_MAX: usize = 256;

/// Why a thread parks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Until a connection can be accepted.
    Accept,
    /// Until the socket that it watches is ready.
    Ready,
    /// Until its disk work is done.
    Disk,
    /// Until the others had their turn.
    Turn,
}

/// Why a thread goes on.
#[derive(Debug)]
pub(crate) enum Wake {
    /// It begins, or it is its turn again.
    Turn,
    /// This listening socket has a connection.
    Listener(usize),
    /// Its socket is ready: see [`Here::ready`].
    Ready,
    /// Its disk work is done.
    Done(Box<Plan>),
    /// Its deadline has passed.
    Late,
    /// There is an order: see [`Commons::order`].
    Ordered,
    /// Others wait for its place, and it only holds that.
    MakeRoom,
    /// The worker ends: it must not park again.
    End,
}

/// What the event mechanism reported of a socket since its thread last ran.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reported {
    pub(crate) read: bool,
    pub(crate) hangup: bool,
}

/// What a thread gives the scheduler when it parks.
struct Parked {
    commons: Box<Commons>,
    why: Why,
    until_ms: u64,
    stand: Option<Stand>,
}

/// Where the connection of a thread stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stand {
    pub(crate) standing: Standing,
    /// Whether it could make room for another.
    pub(crate) yields: Option<Yields>,
}

/// What the scheduler gives a thread when it goes on.
struct Woken {
    commons: Box<Commons>,
    me: Token,
    wake: Wake,
    reported: Reported,
}

type Thread = UserThread<Woken, Parked, Box<Commons>>;

/// A thread that does not run now.
struct Record {
    thread: Thread,
    why: Why,
    until_ms: u64,
    reported: Reported,
    /// Where its connection stands, if it serves one.
    stand: Option<Stand>,
    /// Set while it is in the run queue.
    wake: Option<Wake>,
}

/// What a user-level thread has at hand while it runs: the commons, and the way to park.
pub(crate) struct Here<'a> {
    parker: &'a Parker<'a, Woken, Parked>,
    /// Elsewhere only while this thread is parked.
    commons: Option<Box<Commons>>,
    me: Token,
    reported: Reported,
    ends: bool,
}

impl Here<'_> {
    /// Gives everybody else their turn until there is a reason to go on. `until_ms` is when it
    /// shall go on anyway, `stand` where its connection stands.
    pub(crate) fn park(&mut self, why: Why, until_ms: u64, stand: Option<Stand>) -> Wake {
        let commons = self.commons.take().expect("the running thread has the commons");
        debug_assert!(!self.ends, "the worker ends: nothing wakes this thread again");
        let woken = self.parker.park(Parked { commons, why, until_ms, stand });
        self.commons = Some(woken.commons);
        self.reported = woken.reported;
        self.ends = matches!(woken.wake, Wake::End);
        woken.wake
    }

    /// What was reported of the socket while this thread was parked.
    pub(crate) fn reported(&self) -> Reported {
        self.reported
    }

    /// The name of this thread.
    pub(crate) fn me(&self) -> Token {
        self.me
    }

    /// Whether the worker ends, so that this thread must not park again.
    pub(crate) fn ends(&self) -> bool {
        self.ends
    }

    /// A turn of this thread's connection is over: the event mechanism learns what is waited for of
    /// its link, and what became of others.
    pub(crate) fn watch_link(&mut self, link: &mut Held, awaited: Option<&Awaited>) {
        let me = self.me;
        let Commons { links, mechanism, .. } = &mut **self;
        links.end_turn(link, me, awaited, mechanism.as_mut());
    }

    /// The connection of this thread is over, and with it its link.
    pub(crate) fn close_link(&mut self, link: Held) {
        let me = self.me;
        let Commons { links, mechanism, .. } = &mut **self;
        links.abandon(link, me, mechanism.as_mut());
    }

    /// Gives a connection a thread of its own.
    pub(crate) fn spawn(&mut self, connections: &mut Vec<(Owned, Peer)>) {
        self.newborn.append(connections);
    }
}

impl Deref for Here<'_> {
    type Target = Commons;

    fn deref(&self) -> &Commons {
        self.commons.as_deref().expect("the running thread has the commons")
    }
}

impl DerefMut for Here<'_> {
    fn deref_mut(&mut self) -> &mut Commons {
        self.commons.as_deref_mut().expect("the running thread has the commons")
    }
}

/// The scheduler of one kernel thread.
pub(crate) struct Scheduler {
    threads: Slots<Record>,
    stacks: Stacks,
    queue: VecDeque<Token>,
    schedule: Schedule,
    /// Threads that wait for a connection; the last one parked last, and its stack is warm.
    acceptors: Vec<Token>,
    timers: Timers,
    events: Vec<Event>,
    /// What the thread of a connection does.
    newborn: fn(&mut Here<'_>, Owned, Peer),
}

impl Scheduler {
    /// A scheduler of threads, with the order and the stacks that are set. `newborn` is the life of
    /// a thread that is spawned for a connection.
    pub(crate) fn new(settings: &Settings, newborn: fn(&mut Here<'_>, Owned, Peer)) -> Scheduler {
        Scheduler {
            threads: Slots::default(),
            stacks: Stacks::new(settings.user_threads.stack_bytes, SPARE_STACKS_MAX),
            queue: VecDeque::new(),
            schedule: Schedule::new(settings.user_threads.order),
            acceptors: Vec::new(),
            timers: Timers::new(clock::monotonic_ms()),
            events: Vec::with_capacity(readiness::EVENTS_MAX),
            newborn,
        }
    }

    /// Makes a thread; it begins in the next pass.
    ///
    /// # Errors
    /// When there is no memory for its stack.
    pub(crate) fn spawn(&mut self, life: impl FnOnce(&mut Here<'_>) + 'static) -> io::Result<()> {
        let stack = self.stacks.take()?;
        let thread = UserThread::new(stack, move |parker: &Parker<'_, _, _>, woken: Woken| {
            let Woken { commons, me, wake, reported } = woken;
            let ends = matches!(wake, Wake::End);
            let mut here = Here { parker, commons: Some(commons), me, reported, ends };
            life(&mut here);
            here.commons.take().expect("the running thread has the commons")
        });
        let (why, reported, until_ms) = (Why::Turn, Reported::default(), u64::MAX);
        let record = Record { thread, why, until_ms, reported, stand: None, wake: None };
        let token = self.threads.insert(record);
        self.wake(token, Wake::Turn);
        Ok(())
    }

    /// Runs the threads until the worker is told to stop and every connection is closed, or time
    /// is up; then ends them all.
    ///
    /// # Errors
    /// When the event mechanism fails.
    pub(crate) fn run(mut self, mut commons: Box<Commons>) -> io::Result<Report> {
        while !self.is_done(&commons) {
            let ordered = self.wait(&mut commons)?;
            if ordered {
                commons = self.take_orders(commons);
            }
            commons = self.pass(commons);
            self.housekeeping(&mut commons);
        }
        let unfinished = commons.open();
        commons = self.end(commons);
        commons.desk.publish();
        commons.desk.publish_states(std::iter::empty());
        Ok(Report { unfinished })
    }

    fn is_done(&self, commons: &Commons) -> bool {
        commons.desk.is_draining() && commons.open() == 0
            || commons.desk.is_over_by(commons.desk.asked_ms())
    }

    /// Waits for events while nobody can run, and puts those into the run queue who can go on.
    /// True when there may be an order.
    fn wait(&mut self, commons: &mut Commons) -> io::Result<bool> {
        let accepts = !commons.accepting.ready.is_empty() && !self.acceptors.is_empty();
        let wait_ms = if accepts || !self.queue.is_empty() {
            0
        } else {
            let most = commons.desk.wait_ms(commons.pause_ms().unwrap_or(WAIT_MS_MAX));
            self.timers.wait_ms(commons.desk.now.ms(), most)
        };
        commons.mechanism.wait(&mut self.events, wait_ms as i32)?;
        commons.desk.woke();
        let mut ordered = false;
        let events = std::mem::take(&mut self.events);
        for event in &events {
            match Source::of(event) {
                Source::Signals => ordered = true,
                Source::Completions => {
                    commons.errands.helpers.acknowledge();
                    while let Some((token, plan)) = commons.collect() {
                        self.wake(token, Wake::Done(plan));
                    }
                }
                Source::Listener(listener) => {
                    if !commons.accepting.ready.contains(&listener) {
                        commons.accepting.ready.push(listener);
                    }
                }
                Source::Connection(token) => self.report(token, event),
                Source::Link => {
                    let Commons { links, mechanism, .. } = &mut *commons;
                    if let Some(token) = links.event(event, mechanism.as_mut())
                        && self.threads.find(token).is_some_and(|one| one.why == Why::Ready)
                    {
                        self.wake(token, Wake::Ready);
                    }
                }
            }
        }
        self.events = events;
        self.wake_late(commons.desk.asked_ms());
        self.wake_acceptors(commons);
        Ok(ordered)
    }

    fn report(&mut self, token: Token, event: &Event) {
        let Some(record) = self.threads.find(token) else { return };
        record.reported.read |= event.read;
        record.reported.hangup |= event.hangup;
        if matches!(record.why, Why::Ready | Why::Disk) {
            self.wake(token, Wake::Ready);
        }
    }

    /// Wakes those whose deadline had passed by then.
    fn wake_late(&mut self, now_ms: u64) {
        while let Some(index) = self.timers.pop(now_ms) {
            let Some(token) = self.threads.token_at(index) else { continue };
            let Some(record) = self.threads.find(token) else { continue };
            if record.until_ms <= now_ms {
                self.wake(token, Wake::Late);
            } else {
                self.timers.set(index, record.until_ms);
            }
        }
    }

    /// Wakes one acceptor for each listening socket that is ready: what that one leaves in the
    /// queue is reported again. With nobody to accept, connections wait there.
    fn wake_acceptors(&mut self, commons: &mut Commons) {
        while let Some(listener) = commons.accepting.ready.pop() {
            let Some(acceptor) = self.acceptors.pop() else {
                commons.ignore_listeners();
                commons.want_room();
                return;
            };
            self.wake(acceptor, Wake::Listener(listener));
        }
    }

    /// Puts a thread into the run queue, unless it is there: what comes second changes only
    /// why it goes on, if that must not be lost.
    fn wake(&mut self, token: Token, wake: Wake) {
        let Some(record) = self.threads.find(token) else { return };
        match &record.wake {
            None => {
                record.wake = Some(wake);
                self.queue.push_back(token);
            }
            Some(_) if matches!(wake, Wake::Done(_) | Wake::End) => record.wake = Some(wake),
            Some(_) => {}
        }
    }

    /// Runs everybody who is in the run queue now, and those who are born meanwhile, once.
    fn pass(&mut self, mut commons: Box<Commons>) -> Box<Commons> {
        let mut ready = self.queue.len();
        if ready == 0 {
            return commons;
        }
        let start_ns = clock::monotonic_ns();
        let threads = &mut self.threads;
        self.schedule.arrange(&mut self.queue, commons.places_are_scarce(), |token| {
            threads.find(token).map(|record| Node::of(record.why, record.stand))
        });
        commons.desk.tally.add(Counter::WorkPhases, 1);
        while ready > 0 {
            ready -= 1;
            if let Some(token) = self.queue.pop_front() {
                commons.desk.tally.add(Counter::WorkedOn, 1);
                commons = self.observed(token, commons);
                ready += self.begin_newborn(&mut commons);
            }
        }
        commons.desk.worked(clock::monotonic_ns() - start_ns, true);
        commons
    }

    /// Runs one thread, and learns from what it did where the order wants to know.
    fn observed(&mut self, token: Token, commons: Box<Commons>) -> Box<Commons> {
        if !self.schedule.learns() {
            return self.switch_to(token, commons);
        }
        let node = self.threads.find(token).map(|record| Node::of(record.why, record.stand));
        let (open, start_ns) = (commons.open() as i64, clock::monotonic_ns());
        let commons = self.switch_to(token, commons);
        if let Some(node) = node {
            let ns = clock::monotonic_ns() - start_ns;
            self.schedule.learn(node, commons.open() as i64 - open, ns);
        }
        commons
    }

    /// Runs one thread until it parks or ends.
    fn switch_to(&mut self, me: Token, commons: Box<Commons>) -> Box<Commons> {
        let Some(record) = self.threads.find(me) else { return commons };
        let Some(wake) = record.wake.take() else { return commons };
        let reported = std::mem::take(&mut record.reported);
        match record.thread.resume(Woken { commons, me, wake, reported }) {
            Run::Parked(Parked { mut commons, why, until_ms, stand }) => {
                (record.why, record.until_ms, record.stand) = (why, until_ms, stand);
                match why {
                    Why::Turn => self.wake(me, Wake::Turn),
                    Why::Accept => {
                        self.acceptors.push(me);
                        commons.watch_listeners();
                    }
                    Why::Ready | Why::Disk => self.timers.set(me.index(), until_ms),
                }
                commons
            }
            Run::Ended(commons) => {
                self.timers.clear(me.index());
                let stack = self.threads.remove(me).and_then(|record| record.thread.into_stack());
                if let Some(stack) = stack {
                    self.stacks.give_back(stack);
                }
                commons
            }
        }
    }

    /// Gives new connections a thread each; how many.
    fn begin_newborn(&mut self, commons: &mut Commons) -> usize {
        let mut newborn = std::mem::take(&mut commons.newborn);
        let (count, life) = (newborn.len(), self.newborn);
        for (socket, peer) in newborn.drain(..) {
            // Without a thread the socket is closed with what it would have run.
            if self.spawn(move |here| life(here, socket, peer)).is_err() {
                commons.turned_away();
            }
        }
        commons.newborn = newborn;
        count
    }

    fn take_orders(&mut self, mut commons: Box<Commons>) -> Box<Commons> {
        while let Some(order) = commons.worker.order() {
            // A request that has arrived is under way.
            commons = self.pass(commons);
            if !commons.desk.is_draining() {
                commons = self.begin_draining(order, commons);
            }
            commons.order = Some(order);
            let Commons { links, mechanism, .. } = &mut *commons;
            links.close(mechanism.as_mut());
            for token in self.threads.tokens() {
                let why = self.threads.find(token).map(|record| record.why);
                if matches!(why, Some(Why::Accept | Why::Ready)) {
                    self.wake(token, Wake::Ordered);
                }
            }
            self.acceptors.clear();
        }
        commons
    }

    /// Stops accepting. When the server stops, what is already queued is taken in first.
    fn begin_draining(&mut self, order: Order, mut commons: Box<Commons>) -> Box<Commons> {
        if order == Order::Stop {
            commons.make_last_call();
            for listener in 0..commons.worker.listeners.len() {
                while let Some(acceptor) = self.acceptors.pop() {
                    self.wake(acceptor, Wake::Listener(listener));
                    commons = self.pass(commons);
                    if commons.accepting.ended != Ended::Limit {
                        break;
                    }
                }
            }
        }
        commons.ignore_listeners();
        commons.worker.leave_listeners(order);
        commons.desk.begin_draining();
        commons
    }

    fn housekeeping(&mut self, commons: &mut Commons) {
        commons.errands.helpers.tend(&mut commons.desk.tally);
        commons.desk.publish();
        if commons.desk.states_are_due() {
            let stands = || self.threads.values().filter_map(|record| record.stand);
            let states = || stands().map(|stand| stand.standing);
            // Nothing was read yet of those that wait in a thread's batch.
            let waiting = commons.open().saturating_sub(states().count());
            let waiting = std::iter::repeat_n(Standing::At(State::Idle), waiting);
            commons.desk.publish_states(states().chain(waiting));
        }
        self.make_room(commons);
        commons.end_pause_when_due();
        commons.desk.turned();
    }

    /// Wakes threads whose connections only hold their places while others wait for one.
    fn make_room(&mut self, commons: &mut Commons) {
        let waiting = commons.room_wanted();
        if waiting == 0 {
            return;
        }
        let yields = |record: &Record| match record.why {
            Why::Ready => record.stand?.yields,
            Why::Accept | Why::Disk | Why::Turn => None,
        };
        let open = self.threads.iter().map(|(token, record)| (token, yields(record)));
        for token in room::choose(open, waiting, commons.desk.now.ms()) {
            self.wake(token, Wake::MakeRoom);
        }
    }

    /// Lets every thread end.
    fn end(&mut self, mut commons: Box<Commons>) -> Box<Commons> {
        self.queue.clear();
        for token in self.threads.tokens() {
            if let Some(record) = self.threads.find(token) {
                record.wake = Some(Wake::End);
                commons = self.switch_to(token, commons);
            }
        }
        debug_assert!(self.threads.is_empty(), "no thread parks again");
        commons
    }
}
