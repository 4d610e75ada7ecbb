//! epoll(7), level- or edge-triggered.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::{EVENTS_MAX, Event, Interest, Readiness};

/// An epoll instance.
pub(super) struct Epoll {
    instance: OwnedFd,
    edge: bool,
    ready: Vec<epoll::Event>,
}

impl Epoll {
    pub(super) fn new(edge: bool) -> io::Result<Epoll> {
        let instance = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Epoll { instance, edge, ready: Vec::with_capacity(EVENTS_MAX) })
    }

    fn flags(&self, interest: Interest) -> EventFlags {
        if self.edge {
            // Registered once for everything: readiness is remembered, interest never changes.
            return EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        }
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, interest.read);
        flags.set(EventFlags::OUT, interest.write);
        flags
    }
}

impl Readiness for Epoll {
    fn add(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        let flags = self.flags(interest);
        Ok(epoll::add(&self.instance, fd, EventData::new_u64(token), flags)?)
    }

    fn add_shared(&mut self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::EXCLUSIVE;
        Ok(epoll::add(&self.instance, fd, EventData::new_u64(token), flags)?)
    }

    fn change(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        let flags = self.flags(interest);
        Ok(epoll::modify(&self.instance, fd, EventData::new_u64(token), flags)?)
    }

    fn remove(&mut self, fd: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.instance, fd);
    }

    /// Closing the last descriptor of a socket takes it out of every epoll instance.
    fn forget(&mut self, _fd: BorrowedFd<'_>) {}

    fn wait(&mut self, events: &mut Vec<Event>, timeout_ms: i32) -> io::Result<()> {
        events.clear();
        self.ready.clear();
        let limit = (timeout_ms >= 0).then(|| timespec(timeout_ms));
        let buffer = rustix::buffer::spare_capacity(&mut self.ready);
        match epoll::wait(&self.instance, buffer, limit.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        events.extend(self.ready.iter().map(|event| {
            let flags = event.flags;
            let hangup = flags.intersects(EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP);
            Event {
                token: event.data.u64(),
                read: flags.contains(EventFlags::IN) || hangup,
                write: flags.contains(EventFlags::OUT) || hangup,
                hangup,
            }
        }));
        Ok(())
    }

    fn is_edge_triggered(&self) -> bool {
        self.edge
    }
}

/// Milliseconds as the kernel's pair of seconds and nanoseconds.
pub(super) fn timespec(timeout_ms: i32) -> Timespec {
    let ms = i64::from(timeout_ms.max(0));
    Timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 }
}
