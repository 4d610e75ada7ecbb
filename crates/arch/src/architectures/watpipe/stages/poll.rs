//! A stage in which connections wait for events, and for time to pass.
//!
//! Any thread puts a connection in; the one thread of the stage takes out those that can go on.
//! With epoll the thread that puts one in also arms it (EPOLLONESHOT), so that the thread of the
//! stage is not woken for that. `select` and `poll` know what to watch only from their own thread,
//! which is woken.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flyball_conn::RequestLog;
use flyball_http::Now;
use flyball_site::Upstream;
use flyball_sys::readiness::{Arm, Event, Interest, Readiness};
use flyball_sys::wake::Wake;

use super::connection::{Line, rank};
use crate::kernel::readiness;
use crate::limits::WAIT_MS_MAX;
use crate::links::{Held, LINK, Link};
use crate::room::Yields;
use crate::slots::{FIRST_RESERVED, Slots, Token};
use crate::timers::Timers;
use crate::transmit::cut_off;
use crate::worker::Order;

/// The token of what wakes the thread.
const WAKE: u64 = FIRST_RESERVED;

/// Marks the link of a connection that waits, where [`LINK`] marks those at rest.
const USED: u64 = 1 << 31;

/// Where the connections wait.
pub(crate) struct PollStage {
    /// Which of the pipeline's poll stages it is: 0 or 1.
    number: usize,
    room: Mutex<Room>,
    armer: Option<Box<dyn Arm>>,
    wake: Wake,
}

struct Room {
    waiting: Slots<Line>,
    timers: Timers,
    /// Links at rest, and their tokens, the one that was used last at the end; some have ended.
    links: Slots<Box<Link>>,
    resting: Vec<Token>,
    /// Those that the thread has yet to watch, where only it can.
    arrived: Vec<(Token, Interest)>,
    /// The thread sleeps until then, unless something happens; 0 while it is awake.
    until_ms: u64,
    /// The last order that all that wait were told.
    told: u8,
    /// How many shall make room for others.
    wanted: usize,
}

/// Why a connection left the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// An event.
    Ready { read: bool, write: bool },
    /// Its deadline has passed.
    Expired,
    /// There is an order that it has not been told.
    Ordered,
    /// It only holds its place, and somebody waits for one.
    MakeRoom,
}

/// The one thread of a stage, and what only it may use.
pub(crate) struct Poller {
    mechanism: Box<dyn Readiness>,
    events: Vec<Event>,
    has_armer: bool,
    keeps_links: bool,
}

impl PollStage {
    /// A stage and its thread's part.
    ///
    /// # Errors
    /// When the kernel refuses the mechanism.
    pub(crate) fn new(
        number: usize,
        mechanism: &str,
        now_ms: u64,
    ) -> io::Result<(PollStage, Poller)> {
        let mut mechanism = readiness::open(mechanism)?;
        let wake = Wake::new()?;
        mechanism.add(wake.as_fd(), WAKE, Interest::READ)?;
        let armer = mechanism.armer();
        let room = Room {
            waiting: Slots::default(),
            timers: Timers::new(now_ms),
            links: Slots::default(),
            resting: Vec::new(),
            arrived: Vec::new(),
            until_ms: 0,
            told: 0,
            wanted: 0,
        };
        let has_armer = armer.is_some();
        let stage = PollStage { number, room: Mutex::new(room), armer, wake };
        let keeps_links = stage.keeps_links();
        Ok((stage, Poller { mechanism, events: Vec::new(), has_armer, keeps_links }))
    }

    /// The process ends: so do the connections that wait, in the way that tells their clients
    /// whether an answer is whole.
    pub(crate) fn cut_off(&self, log: &mut RequestLog, now: &Now) {
        for one in self.lock().waiting.values_mut() {
            cut_off(&one.socket, &mut one.connection, (log, now));
        }
    }

    /// Lets a connection wait for `interest` and for its deadline. Gives it back when there is an
    /// order that it has not been told.
    pub(crate) fn park(&self, line: Line, interest: Interest) -> Option<Line> {
        let mut room = self.lock();
        if line.told.0 < room.told {
            return Some(line);
        }
        let deadline = line.connection.deadline();
        let token = room.waiting.insert(line);
        room.timers.set(token.index(), deadline);
        let wakes = match &self.armer {
            Some(armer) => {
                // Under the lock: from now on the thread of the stage may take it out and close it.
                // Without events the connection's timer is what ends it.
                if let Some(line) = room.waiting.find(token) {
                    let _ = self.arm(&**armer, line, token, interest);
                }
                deadline < room.until_ms
            }
            None => {
                room.arrived.push((token, interest));
                room.until_ms > 0
            }
        };
        if wakes {
            room.until_ms = 0;
        }
        drop(room);
        if wakes {
            self.wake.notify();
        }
        None
    }

    fn arm(
        &self,
        armer: &dyn Arm,
        line: &mut Line,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        if let Some(awaited) = &line.awaited {
            let (fd, bits) = (awaited.descriptor.as_fd(), token.bits() | USED);
            let link = line.link.as_mut().filter(|_| self.keeps_links());
            match link {
                Some(link) => arm_link(armer, link, bits, awaited.interest)?,
                None => armer.add(fd, bits, awaited.interest)?,
            }
        }
        if interest == Interest::NONE {
            return Ok(());
        }
        let fd = line.socket.as_fd();
        if line.watched[self.number] {
            return armer.again(fd, token.bits(), interest);
        }
        armer.add(fd, token.bits(), interest)?;
        line.watched[self.number] = true;
        Ok(())
    }

    /// Whether it watches links at rest, and knows those that were waited for here from then on.
    pub(crate) fn keeps_links(&self) -> bool {
        self.number == 0 && self.armer.is_some()
    }

    /// A link at rest that leads there. Who takes it has it for itself: an event that comes for it
    /// finds none.
    pub(crate) fn take_link(&self, upstream: &Arc<Upstream>) -> Held {
        let mut room = self.lock();
        let Room { links, resting, .. } = &mut *room;
        let at = resting.iter().rposition(|token| leads(links.find(*token), upstream))?;
        let mut link = links.remove(resting.remove(at))?;
        link.write = true;
        Some(link)
    }

    /// Watches a link at rest, if there is room for it: what it says, or its end, ends it.
    pub(crate) fn rest_link(&self, mut link: Box<Link>) {
        let (Some(armer), Some(upstream)) = (&self.armer, link.upstream().cloned()) else { return };
        let mut room = self.lock();
        let Room { links, resting, told, .. } = &mut *room;
        resting.retain(|token| links.find(*token).is_some());
        let all = resting.iter().filter(|token| leads(links.find(**token), &upstream)).count();
        if *told > 0 || all >= upstream.bounds().idle_max {
            return;
        }
        // Who waits for the place finds the link.
        let place = link.take_place();
        (link.read, link.write) = (false, true);
        let token = links.insert(link);
        let armed = links
            .find(token)
            .map(|link| arm_link(&**armer, link, token.bits() | LINK, Interest::READ));
        match armed {
            Some(Ok(())) => resting.push(token),
            _ => drop(links.remove(token)),
        }
        drop(room);
        drop(place);
    }

    /// Wakes the thread of the stage: there is an order, or all is over.
    pub(crate) fn wake(&self) {
        self.wake.notify();
    }

    /// Has as many as that leave which only hold their places.
    pub(crate) fn make_room(&self, wanted: usize) {
        if wanted > 0 {
            self.lock().wanted = wanted;
            self.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn leads(link: Option<&mut Box<Link>>, upstream: &Arc<Upstream>) -> bool {
    link.and_then(|link| link.upstream()).is_some_and(|one| Arc::ptr_eq(one, upstream))
}

fn arm_link(armer: &dyn Arm, link: &mut Link, bits: u64, interest: Interest) -> io::Result<()> {
    if link.armed {
        return armer.again(link.socket.as_fd(), bits, interest);
    }
    armer.add(link.socket.as_fd(), bits, interest)?;
    link.armed = true;
    Ok(())
}

impl Poller {
    /// Waits until a connection may go on. Blocks, though not for long.
    ///
    /// # Errors
    /// When the event mechanism fails.
    pub(crate) fn wait(&mut self, stage: &PollStage, now_ms: u64) -> io::Result<()> {
        let wait_ms = self.begin(stage, now_ms);
        self.mechanism.wait(&mut self.events, wait_ms as i32)
    }

    /// Takes out those that can go on, after the wait: by an event, by the time, by an order.
    pub(crate) fn take_out(
        &mut self,
        stage: &PollStage,
        now_ms: u64,
        order: Option<Order>,
        found: &mut Vec<(Line, Found)>,
    ) {
        let mut room = stage.lock();
        room.until_ms = 0;
        let events = std::mem::take(&mut self.events);
        for event in &events {
            if event.token == WAKE {
                stage.wake.clear();
                continue;
            }
            if event.token & LINK != 0 {
                room.links.remove(Token::from_bits(event.token & !LINK));
                continue;
            }
            // What the backend is ready for says nothing of the client.
            let (token, why) = match event.token & USED {
                0 => (event.token, Found::Ready { read: event.read, write: event.write }),
                _ => (event.token & !USED, Found::Ready { read: false, write: false }),
            };
            self.remove(&mut room, Token::from_bits(token), why, found);
        }
        self.events = events;
        while let Some(index) = room.timers.pop(now_ms) {
            let Some(token) = room.waiting.token_at(index) else { continue };
            let waiting = room.waiting.find(token);
            match waiting.map_or(u64::MAX, |line| line.connection.deadline()) {
                deadline if now_ms < deadline => room.timers.set(index, deadline),
                _ => self.remove(&mut room, token, Found::Expired, found),
            }
        }
        let wanted = std::mem::take(&mut room.wanted);
        if wanted > 0 {
            let waiting = room.waiting.iter();
            let open = waiting.map(|(token, one)| (token, Yields::of(&one.connection, true)));
            for token in crate::room::choose(open, wanted, now_ms) {
                self.remove(&mut room, token, Found::MakeRoom, found);
            }
        }
        if rank(order) > room.told {
            room.told = rank(order);
            room.links = Slots::default();
            for token in room.waiting.tokens() {
                self.remove(&mut room, token, Found::Ordered, found);
            }
        }
    }

    /// Watches those that arrived; how long to sleep.
    fn begin(&mut self, stage: &PollStage, now_ms: u64) -> u64 {
        let mut room = stage.lock();
        for (token, interest) in std::mem::take(&mut room.arrived) {
            if let Some(line) = room.waiting.find(token) {
                // Without events its timer is what ends it.
                if interest != Interest::NONE {
                    let _ = self.mechanism.add(line.socket.as_fd(), token.bits(), interest);
                }
                if let Some(awaited) = &line.awaited {
                    let (fd, bits) = (awaited.descriptor.as_fd(), token.bits() | USED);
                    let _ = self.mechanism.add(fd, bits, awaited.interest);
                }
            }
        }
        let wait_ms = room.timers.wait_ms(now_ms, WAIT_MS_MAX);
        room.until_ms = now_ms + wait_ms.max(1);
        wait_ms
    }

    fn remove(
        &mut self,
        room: &mut Room,
        token: Token,
        why: Found,
        found: &mut Vec<(Line, Found)>,
    ) {
        // An event may come for one that expired.
        let Some(mut line) = room.waiting.remove(token) else { return };
        if let Some(awaited) = line.awaited.take().filter(|_| !self.keeps_links) {
            self.mechanism.remove(awaited.descriptor.as_fd());
        }
        room.timers.clear(token.index());
        if !self.has_armer {
            self.mechanism.remove(line.socket.as_fd());
        }
        found.push((line, why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desk::Desk;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    /// A connection over a pair of sockets, and its other end.
    fn line(desk: &Desk) -> (Line, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 1)).into();
        (Line::new(near.into(), peer, 0, desk), far)
    }

    fn waited(
        stage: &PollStage,
        poller: &mut Poller,
        now_ms: u64,
        order: Option<Order>,
    ) -> Vec<Found> {
        let mut found = Vec::new();
        poller.wait(stage, now_ms).unwrap();
        poller.take_out(stage, now_ms, order, &mut found);
        found.into_iter().map(|(_, why)| why).collect()
    }

    #[test]
    fn a_connection_leaves_the_stage_once_by_an_event_a_deadline_or_an_order() {
        for name in ["select", "poll", "epoll", "epoll-edge"] {
            let desk = Desk::for_tests();
            let now_ms = desk.now.ms();
            let (stage, mut poller) = PollStage::new(0, name, now_ms).unwrap();
            let (first, mut far) = line(&desk);
            far.write_all(b"x").unwrap();
            let late_ms = first.connection.deadline() + 1_000;
            assert!(stage.park(first, Interest::READ).is_none());
            let ready = Found::Ready { read: true, write: false };
            assert_eq!(waited(&stage, &mut poller, now_ms, None), [ready], "{name}");

            let (second, _far) = line(&desk);
            assert!(stage.park(second, Interest::READ).is_none());
            assert_eq!(waited(&stage, &mut poller, late_ms, None), [Found::Expired], "{name}");

            let (third, _far) = line(&desk);
            assert!(stage.park(third, Interest::READ).is_none());
            stage.wake();
            let ordered = waited(&stage, &mut poller, late_ms, Some(Order::Retire));
            assert_eq!(ordered, [Found::Ordered], "{name}");

            // From now on all that come must know.
            let (fourth, _far) = line(&desk);
            let mut fourth = stage.park(fourth, Interest::READ).unwrap();
            fourth.tell(Some(Order::Retire));
            assert!(stage.park(fourth, Interest::READ).is_none());
        }
    }

    #[test]
    fn a_connection_that_is_put_in_while_the_thread_sleeps_is_watched_at_once() {
        for name in ["select", "poll", "epoll"] {
            let desk = Desk::for_tests();
            let now_ms = desk.now.ms();
            let (stage, mut poller) = PollStage::new(1, name, now_ms).unwrap();
            let stage = &stage;
            std::thread::scope(|scope| {
                let thread = scope.spawn(move || {
                    let mut turns = 0;
                    loop {
                        turns += 1;
                        let found = waited(stage, &mut poller, now_ms, None);
                        if !found.is_empty() {
                            return (turns, found);
                        }
                    }
                });
                while stage.lock().until_ms == 0 {
                    std::thread::yield_now();
                }
                let (writable, _far) = line(&desk);
                assert!(stage.park(writable, Interest::WRITE).is_none());
                let (turns, found) = thread.join().unwrap();
                assert_eq!(found, [Found::Ready { read: false, write: true }], "{name}");
                assert!(turns <= 3, "{name}: it slept through {turns} turns");
            });
        }
    }
}
