//! A simulated event mechanism: it tells by level or by edge, and once where it is armed for that.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flyball_sys::readiness::{Arm, Event, Interest, Readiness};

use super::world::{Source, World, with};

/// How a descriptor is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It is told while it is ready.
    Level,
    /// It is told when something came.
    Edge,
    /// It is told once.
    Once,
}

#[derive(Debug)]
struct Watch {
    source: Source,
    token: u64,
    interest: Interest,
    way: Way,
    /// It is told at once if it is ready.
    is_new: bool,
    /// As often as this it had woken.
    seen: u64,
}

/// What is watched.
#[derive(Debug, Default)]
struct Watches(Mutex<Vec<Watch>>);

/// The mechanism.
#[derive(Debug)]
pub(super) struct Mechanism {
    watches: Arc<Watches>,
    is_edge_triggered: bool,
}

/// A mechanism where this thread has a world.
pub(super) fn open(name: &str) -> Option<Box<dyn Readiness>> {
    let is_edge_triggered = name == "epoll-edge";
    with(|_| Box::new(Mechanism { watches: Arc::default(), is_edge_triggered }) as _)
}

impl Watches {
    fn set(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest, way: Way) -> io::Result<()> {
        let watch = with(|world| {
            let source = world.source(fd.as_raw_fd())?;
            // One that was watched is not: a change that is lost would be told again and again.
            let is_first = self.lock().iter().all(|one| one.source != source);
            if way == Way::Level && is_first && is_lost(source, world) {
                return None;
            }
            let seen = world.state(source)?.1;
            Some(Watch { source, token, interest, way, is_new: true, seen })
        });
        if let Some(watch) = watch.flatten() {
            let mut all = self.lock();
            all.retain(|one| one.source != watch.source);
            all.push(watch);
        }
        Ok(())
    }

    fn remove(&self, fd: BorrowedFd<'_>) {
        let source = with(|world| world.source(fd.as_raw_fd())).flatten();
        let mut all = self.lock();
        all.retain(|one| Some(one.source) != source);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Watch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells what is ready.
    fn tell(&self, world: &mut World, events: &mut Vec<Event>) {
        let mut all = self.lock();
        // Closing a descriptor takes it out.
        all.retain(|watch| world.state(watch.source).is_some());
        for watch in all.iter_mut() {
            events.extend(watch.told(world));
        }
        // They come in any order.
        for at in (1..events.len()).rev() {
            events.swap(at, world.random.below(at + 1));
        }
    }
}

impl Watch {
    fn told(&mut self, world: &mut World) -> Option<Event> {
        let (state, wakes) = world.state(self.source)?;
        if world.fault.ends_rest() && world.is_at_rest(self.source) {
            let Watch { token, .. } = *self;
            return Some(Event { token, read: true, write: false, hangup: false });
        }
        let Interest { read, write } = self.interest;
        let hangup = state.hangup || self.way == Way::Edge && state.ended;
        let event = Event {
            token: self.token,
            read: read && state.read || hangup,
            write: write && state.write || hangup,
            hangup,
        };
        if !event.read && !event.write {
            return None;
        }
        match self.way {
            Way::Level => {}
            Way::Edge if self.is_new || self.seen != wakes => {}
            Way::Once if self.is_new => {}
            Way::Edge | Way::Once => return None,
        }
        (self.is_new, self.seen) = (false, wakes);
        let is_lost = self.way != Way::Level && is_lost(self.source, world);
        (!is_lost).then_some(event)
    }
}

/// Whether a fault is planted here.
fn is_lost(source: Source, world: &mut World) -> bool {
    matches!(source, Source::Line(_)) && world.fault.loses(&mut world.random)
}

impl Mechanism {
    fn set(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        match self.is_edge_triggered {
            true => self.watches.set(fd, token, Interest::BOTH, Way::Edge),
            false => self.watches.set(fd, token, interest, Way::Level),
        }
    }
}

impl Readiness for Mechanism {
    fn add(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.set(fd, token, interest)
    }

    fn add_link(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        let way = if self.is_edge_triggered { Way::Edge } else { Way::Level };
        self.watches.set(fd, token, interest, way)
    }

    fn change_link(
        &mut self,
        fd: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        self.add_link(fd, token, interest)
    }

    fn change(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.set(fd, token, interest)
    }

    fn remove(&mut self, fd: BorrowedFd<'_>) {
        self.watches.remove(fd);
    }

    fn forget(&mut self, _: BorrowedFd<'_>) {}

    fn wait(&mut self, events: &mut Vec<Event>, timeout_ms: i32) -> io::Result<()> {
        events.clear();
        with(|world| {
            world.called();
            world.look();
            let limit_ms = u64::try_from(timeout_ms).unwrap_or(u64::MAX);
            let until_ms = world.now_ms().saturating_add(limit_ms);
            loop {
                self.watches.tell(world, events);
                let may_wait = limit_ms > 0 && events.is_empty() && !world.is_shared;
                if !may_wait || world.random.one_in(world.schedule.spurious) {
                    return;
                }
                if !world.pass(until_ms) {
                    return;
                }
            }
        });
        Ok(())
    }

    fn armer(&self) -> Option<Box<dyn Arm>> {
        Some(Box::new(Armer(Arc::clone(&self.watches))))
    }

    fn is_edge_triggered(&self) -> bool {
        self.is_edge_triggered
    }
}

/// What arms a descriptor to be told once.
#[derive(Debug)]
struct Armer(Arc<Watches>);

impl Arm for Armer {
    fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.0.set(fd, token, interest, Way::Once)
    }

    fn again(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.0.set(fd, token, interest, Way::Once)
    }
}
