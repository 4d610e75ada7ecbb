//! The world that a server runs in: its clock, the connections to it, the work that was asked of
//! its disk, and a seeded schedule of what happens next.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Once};

use flyball_sys::error_log::{Level, set_level};
use flyball_sys::readiness::Interest;
use flyball_sys::signal::Signal;
use rustls::ClientConfig;

use super::client::{Client, Dialogue, Ending};
use super::disk::Disk;
use super::faults::Fault;
use super::line::{Line, State};
use super::random::Random;
use super::responder::Responder;
use super::schedule::Schedule;
use super::secure::{Secure, clients};

/// When time begins, in monotonic milliseconds.
const START_MS: u64 = 1_000_000;

/// How much time a call takes, in nanoseconds.
const CALL_NS: u64 = 1_000;

/// How often in a row a server may sleep until its time is up while no client and no disk can do
/// anything for it.
const SLEEPS_MAX: u32 = 40;

/// One chance in so many is taken to connect, and to go on with a plan of a slow disk.
const CONNECT_ONE_IN: usize = 8;
const SLOW_ONE_IN: usize = 30;

/// One chance in so many is taken to end the server.
const ENDS_ONE_IN: usize = 40;

/// Bytes that a server behind this one says at once, if it may say so many.
const SAID_BYTES: usize = 40;

/// Bytes that a client makes one record of, if it makes several.
const SEALED_BYTES: usize = 300;

/// Steps after which a run makes no progress.
const STEPS_MAX: u64 = 2_000_000;

/// What may happen outside of the server.
#[derive(Clone, Copy, Debug)]
enum Act {
    Connect(usize),
    Send(usize),
    Take(usize),
    /// The client reads the end of the stream, and closes its socket.
    ReadEnd(usize),
    Finish(usize),
    FinishPlan,
}

/// What a server may watch or call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Line(usize),
    Listener,
    Disk,
    Signals,
}

/// The world below one thread.
#[derive(Debug)]
pub(super) struct World {
    pub(super) random: Random,
    pub(super) schedule: Schedule,
    pub(super) fault: Fault,
    /// Each step is told.
    pub(super) is_told: bool,
    /// Every answer must come, whole and as it is.
    is_fair: bool,
    now_ns: u64,
    pub(super) unix_ms: u64,
    pub(super) steps: u64,
    pub(super) lines: Vec<Line>,
    pub(super) disk: Disk,
    listener: RawFd,
    /// Clients that were not accepted yet.
    queue: Vec<usize>,
    /// How many have connected.
    connects: u64,
    /// What their TLS goes by, if they speak that.
    tls: Option<Arc<ClientConfig>>,
    /// Waits that are in vain come back at once: who waits is one of several threads.
    pub(super) is_shared: bool,
    sleeps: u32,
    /// The server has nothing left to do.
    pub(super) has_ended: bool,
    /// Orders that the server has not taken, the descriptor that tells of them, and how many there
    /// were.
    pub(super) orders: VecDeque<Signal>,
    signals: RawFd,
    ordered: u64,
    /// The server is told to stop when every client has left.
    pub(super) stops: bool,
    /// What may happen next; scratch.
    acts: Vec<Act>,
}

std::thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// Puts a world below this thread, for as long as `run` takes; and takes it away again.
pub(super) fn within<R>(world: World, run: impl FnOnce() -> R) -> (R, World) {
    WORLD.with(|place| place.replace(Some(world)));
    let result = run();
    let world = WORLD.with(RefCell::take).expect("it was put there");
    (result, world)
}

/// Does something with the world below this thread, if there is one.
pub(super) fn with<R>(f: impl FnOnce(&mut World) -> R) -> Option<R> {
    WORLD.with(|place| place.borrow_mut().as_mut().map(f))
}

/// Takes away the world of a run that failed.
pub(super) fn take() -> Option<World> {
    WORLD.with(RefCell::take)
}

/// From now on a panic in a world is not told: the run that it ends tells why it did.
pub(super) fn hush() {
    static HUSHED: Once = Once::new();
    HUSHED.call_once(|| {
        // Servers behind links that leave are warned of.
        set_level(Level::Error);
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let is_within =
                WORLD.try_with(|place| place.try_borrow().map_or(true, |at| at.is_some()));
            if !is_within.unwrap_or(false) {
                told(info);
            }
        }));
    });
}

impl World {
    pub(super) fn new(
        mut random: Random,
        schedule: Schedule,
        fault: Fault,
        clients: &[(&Dialogue, usize)],
    ) -> World {
        let line = |(dialogue, expected): &(&Dialogue, usize)| {
            let client = Client::new(dialogue, *expected);
            Line::new(client, schedule.inbound_max, schedule.outbound_max)
        };
        World {
            lines: clients.iter().map(line).collect(),
            disk: Disk::new(random.next()),
            random,
            is_told: false,
            is_fair: schedule.is_fair(),
            schedule,
            fault,
            now_ns: START_MS * 1_000_000,
            unix_ms: super::site::unix_ms(),
            steps: 0,
            listener: -1,
            queue: Vec::new(),
            connects: 0,
            tls: None,
            is_shared: false,
            sleeps: 0,
            has_ended: false,
            orders: VecDeque::new(),
            signals: -1,
            ordered: 0,
            stops: false,
            acts: Vec::new(),
        }
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.now_ns / 1_000_000
    }

    pub(super) fn set_listener(&mut self, listener: &OwnedFd) {
        self.listener = listener.as_raw_fd();
    }

    pub(super) fn set_signals(&mut self, signals: &OwnedFd) {
        self.signals = signals.as_raw_fd();
    }

    /// Whether this is a link of which nothing is wanted.
    pub(super) fn is_at_rest(&self, source: Source) -> bool {
        let Source::Line(at) = source else { return false };
        let line = &self.lines[at];
        let is_quiet = line.is_drained() && line.client.has_sent_all() && !line.ended;
        line.responder.as_ref().is_some_and(|one| is_quiet && one.is_at_rest())
    }

    /// Its clients speak TLS; every other one says that it sends no more before it closes its side.
    pub(super) fn secure(&mut self) {
        self.tls = Some(clients());
    }

    /// At some time the server is told to end, if it is to be.
    fn end_sometimes(&mut self) {
        if self.schedule.ends && self.ordered == 0 && self.random.one_in(ENDS_ONE_IN) {
            let order = self.random.pick(&[Signal::Stop, Signal::Retire]);
            self.order(order);
        }
    }

    fn order(&mut self, signal: Signal) {
        self.orders.push_back(signal);
        self.ordered += 1;
    }

    /// Whether every client has left and every connection is closed.
    pub(super) fn is_over(&mut self) -> bool {
        let is_over =
            |line: &Line| line.responder.is_some() || line.client.is_over && !line.is_open();
        self.look();
        self.queue.is_empty() && self.lines.iter().all(is_over)
    }

    /// What this descriptor is here.
    pub(super) fn source(&self, fd: RawFd) -> Option<Source> {
        match self.lines.iter().position(|line| line.is_at(fd)) {
            Some(at) => Some(Source::Line(at)),
            None if fd == self.listener => Some(Source::Listener),
            None if fd == self.disk.number() => Some(Source::Disk),
            None if fd == self.signals => Some(Source::Signals),
            None => None,
        }
    }

    /// What a source is ready for, and how often it has woken who watches it; `None` once it is
    /// closed.
    pub(super) fn state(&self, source: Source) -> Option<(State, u64)> {
        let readable = |read| State { read, ..State::default() };
        match source {
            Source::Line(at) => {
                let line = self.lines.get(at).filter(|line| line.is_open())?;
                Some((line.state(), line.wakes))
            }
            Source::Listener => Some((readable(!self.queue.is_empty()), self.connects)),
            Source::Disk => Some((readable(self.disk.is_signalled), self.disk.signals)),
            Source::Signals => Some((readable(!self.orders.is_empty()), self.ordered)),
        }
    }

    /// The server makes a call: time passes, and something may happen meanwhile.
    pub(super) fn called(&mut self) {
        self.step();
        self.now_ns += CALL_NS;
        if self.random.one_in(self.schedule.preempts) {
            self.act(false);
        }
    }

    /// Tells what is done, where that was asked for.
    pub(super) fn tell(&self, what: impl FnOnce() -> String) {
        if self.is_told {
            println!(
                "{:>7} {:>9} us: {}",
                self.steps,
                self.now_ns / 1_000 - START_MS * 1_000,
                what()
            );
        }
    }

    fn step(&mut self) {
        self.steps += 1;
        assert!(self.steps < STEPS_MAX, "the server makes no progress");
        if self.steps == self.schedule.calm_after {
            self.schedule.calm();
        }
    }

    /// Lets something happen while the server waits; false when its time is up.
    pub(super) fn pass(&mut self, until_ms: u64) -> bool {
        if self.act(true) {
            return self.now_ms() < until_ms;
        }
        let all_connected = self.lines.iter().all(|line| line.client.is_connected);
        self.sleeps += u32::from(all_connected && !self.disk.is_busy());
        assert!(self.sleeps < SLEEPS_MAX, "the server sleeps for ever: {:#?}", self.lines);
        self.now_ns = self.now_ns.max(until_ms * 1_000_000);
        false
    }

    /// Looks which connections the server has closed.
    pub(super) fn look(&mut self) {
        for at in 0..self.lines.len() {
            if self.lines[at].is_open() && self.lines[at].look() {
                self.tell(|| format!("{at} is closed: {:?}", self.lines[at]));
                let may_close = !self.is_fair || self.ordered > 0 || self.has_ended;
                let is_good = self.is_at_rest(Source::Line(at));
                assert!(may_close || !is_good, "a good link is closed");
            }
        }
    }

    /// Something happens; false when nothing can. A server that is idle does nothing before it.
    pub(super) fn act(&mut self, is_idle: bool) -> bool {
        self.look();
        self.acts.clear();
        for at in 0..self.lines.len() {
            self.list(at);
        }
        let is_held = self.schedule.slow && !self.random.one_in(SLOW_ONE_IN);
        if self.disk.is_busy() && !is_held {
            self.acts.push(Act::FinishPlan);
        }
        let goes_on = !self.acts.is_empty()
            || is_idle
                && match self.schedule.is_undisturbed {
                    true => self.ask_next(),
                    false => !self.is_fair && self.give_up(),
                };
        if !goes_on {
            let ends = self.stops && self.ordered == 0 && self.is_over();
            if ends {
                self.order(Signal::Stop);
            }
            return ends;
        }
        self.step();
        self.sleeps = 0;
        self.end_sometimes();
        self.time_passes();
        if !self.acts.is_empty() {
            let act = self.random.pick(&self.acts);
            self.perform(act);
            self.tell(|| format!("{act:?}: {:?}", self.lines));
        }
        true
    }

    /// Lists what a client can do.
    fn list(&mut self, at: usize) {
        let World { lines, acts, schedule, random, .. } = self;
        let line = &lines[at];
        let (client, is_link) = (&line.client, line.responder.is_some());
        let closes = line.responder.as_ref().is_some_and(Responder::closes);
        let is_guided = schedule.is_undisturbed && !is_link;
        if client.is_over {
            return;
        }
        if !client.is_connected {
            // Not all at the same time: some find what others have left.
            if random.one_in(CONNECT_ONE_IN) {
                acts.push(Act::Connect(at));
            }
            return;
        }
        if line.waiting() > 0 {
            acts.push(Act::Take(at));
        } else if line.is_at_end() {
            return acts.push(Act::ReadEnd(at));
        }
        if line.ended || is_guided {
            return;
        }
        let has_all = client.ending == Ending::Early || client.received.len() >= client.expected;
        match client.has_sent_all() {
            false if client.can_send() && line.input_room() > 0 => acts.push(Act::Send(at)),
            true if closes || has_all && !is_link => acts.push(Act::Finish(at)),
            _ => {}
        }
    }

    /// While the answers are found out, a client asks for the next when nothing else is to be done.
    fn ask_next(&mut self) -> bool {
        let asks = |line: &Line| {
            let Client { is_connected, is_over, .. } = line.client;
            line.responder.is_none() && is_connected && !is_over && !line.ended
        };
        let Some(line) = self.lines.iter_mut().find(|line| asks(line)) else { return false };
        let answered = line.client.received.len();
        if line.client.at > 0 {
            line.client.ends.push(answered);
        }
        let n = line.client.request_end() - line.client.at;
        if n > 0 {
            line.client_sends(n);
        }
        if line.client.has_sent_all() && (n == 0 || line.client.ending == Ending::Early) {
            line.client_finishes();
        }
        true
    }

    /// Where answers may be others than those that are known, a client sends no more once nothing
    /// comes any more.
    fn give_up(&mut self) -> bool {
        let waits =
            |line: &&mut Line| line.responder.is_none() && line.client.is_connected && !line.ended;
        self.lines.iter_mut().find(waits).map(Line::client_finishes).is_some()
    }

    fn time_passes(&mut self) {
        let ms = match self.schedule.jumps {
            true if self.random.one_in(if self.schedule.slow { 20 } else { 100 }) => {
                self.random.pick(&[100, 2_500, 11_000, 61_000])
            }
            _ if self.schedule.is_undisturbed => 0,
            _ if self.random.one_in(8) => self.random.below(4) as u64,
            _ => 0,
        };
        self.now_ns += ms * 1_000_000;
    }

    fn perform(&mut self, act: Act) {
        let World { lines, random, schedule, queue, connects, disk, tls, .. } = self;
        let upto = |random: &mut Random, most: usize, all: usize| match most.min(all) {
            _ if most == 0 => all,
            some => 1 + random.below(some),
        };
        if let Act::Send(at) | Act::Take(at) = act
            && random.one_in(schedule.leaves)
        {
            return lines[at].client_breaks();
        }
        match act {
            Act::Connect(at) => {
                let says_end = at % 2 == 0;
                let client = &mut lines[at].client;
                client.tls = tls.as_ref().map(|clients| Secure::new(clients, says_end));
                client.is_connected = true;
                queue.push(at);
                *connects += 1;
            }
            Act::Send(at) => {
                let line = &mut lines[at];
                // What a server says is long.
                let least = if line.responder.is_some() { SAID_BYTES } else { 0 };
                let most = if schedule.send_max > 0 { schedule.send_max.max(least) } else { 0 };
                let left = line.client.prepare(|left| upto(random, most.max(SEALED_BYTES), left));
                let room = left.min(line.input_room());
                line.client_sends(upto(random, most, room));
            }
            Act::Take(at) => {
                let waiting = lines[at].waiting();
                lines[at].client_takes(upto(random, schedule.take_max, waiting));
            }
            Act::ReadEnd(at) => lines[at].client_leaves(),
            Act::Finish(at) => {
                if lines[at].client.finishes() {
                    lines[at].client_finishes();
                }
            }
            Act::FinishPlan => disk.finish_one(schedule),
        }
    }
}

/// The calls.
impl World {
    /// Accepts; `None` when no client waits.
    pub(super) fn accept(&mut self, blocks: bool) -> Option<io::Result<(OwnedFd, SocketAddr)>> {
        self.called();
        self.look();
        if self.queue.is_empty() {
            return None;
        }
        let at = self.queue.remove(0);
        let peer = SocketAddr::from(([127, 0, 0, 1], 1_000 + at as u16));
        Some(self.lines[at].open(blocks).map(|near| (near, peer)))
    }

    /// Opens a link to a server.
    pub(super) fn connect(&mut self) -> io::Result<OwnedFd> {
        self.called();
        self.look();
        let Schedule { inbound_max, outbound_max, .. } = self.schedule;
        let mut line = Line::new(Client::of_link(), inbound_max, outbound_max);
        line.responder = Some(Responder::default());
        let near = line.open(false);
        self.lines.push(line);
        near
    }

    /// How many clients wait to be accepted.
    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn receive(&mut self, at: usize, space: &mut [u8], now: bool) -> io::Result<usize> {
        self.called();
        let until_ms = self.until_ms(at, now);
        loop {
            match self.lines[at].receive(space) {
                Some(received) => {
                    self.tell(|| format!("{at} receives {received:?}"));
                    return received;
                }
                None if until_ms.is_some_and(|until| self.pass(until)) => {}
                None => return Err(ErrorKind::WouldBlock.into()),
            }
        }
    }

    /// Sends; a socket that blocks takes all, unless its time is up.
    pub(super) fn send(
        &mut self,
        at: usize,
        slices: &mut [IoSlice<'_>],
        now: bool,
    ) -> io::Result<usize> {
        self.called();
        let until_ms = self.until_ms(at, now);
        let (mut sent, mut left) = (0, slices);
        loop {
            match self.lines[at].send(left) {
                Some(Ok(n)) => {
                    sent += n;
                    self.tell(|| format!("{at} sends {n}"));
                    IoSlice::advance_slices(&mut left, n);
                    if left.is_empty() || until_ms.is_none() {
                        return Ok(sent);
                    }
                }
                Some(error) if sent == 0 => return error,
                Some(_) => return Ok(sent),
                None if until_ms.is_some_and(|until| self.pass(until)) => {}
                None if sent > 0 => return Ok(sent),
                None => return Err(ErrorKind::WouldBlock.into()),
            }
        }
    }

    /// When a call on this socket gives up waiting; `None` where it does not wait.
    fn until_ms(&self, at: usize, now: bool) -> Option<u64> {
        let waits = self.lines[at].blocks && !now;
        waits.then(|| self.now_ms() + crate::worker::BLOCKING_TICK_MS)
    }

    /// Waits until `is_ready` says so of a socket; its state then.
    pub(super) fn wait_for(
        &mut self,
        at: usize,
        timeout_ms: u64,
        is_ready: impl Fn(State) -> bool,
    ) -> State {
        self.called();
        let until_ms = self.now_ms() + timeout_ms;
        while !is_ready(self.lines[at].state()) && self.pass(until_ms) {}
        self.lines[at].state()
    }

    /// Waits for two of them, each for what is said; whether something is to be told of each.
    pub(super) fn wait_for_two(
        &mut self,
        both: [usize; 2],
        wanted: [Interest; 2],
        timeout_ms: u64,
    ) -> [bool; 2] {
        self.called();
        let until_ms = self.now_ms() + timeout_ms;
        loop {
            let ready = [0, 1].map(|one| {
                let (state, wanted) = (self.lines[both[one]].state(), wanted[one]);
                wanted.read && state.read || wanted.write && state.write || state.hangup
            });
            if ready != [false; 2] || !self.pass(until_ms) {
                return ready;
            }
        }
    }
}
