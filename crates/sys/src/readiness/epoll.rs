//! epoll(7), level- or edge-triggered.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::{EVENTS_MAX, Event, Interest, Readiness};

/// An epoll instance. Its own descriptor is readable while one that it watches is ready.
pub struct Epoll {
    instance: Arc<OwnedFd>,
    edge: bool,
}

impl Epoll {
    /// A new one, which watches nothing yet.
    ///
    /// # Errors
    /// When descriptors are out.
    pub fn new(edge: bool) -> io::Result<Epoll> {
        let instance = Arc::new(epoll::create(CreateFlags::CLOEXEC)?);
        Ok(Epoll { instance, edge })
    }

    /// Watches a descriptor for the changes of `interest` alone, edge-triggered, whatever this
    /// instance does otherwise: a socket of which only answers are awaited then wakes nobody when
    /// it can be written.
    ///
    /// # Errors
    /// As [`Readiness::add`].
    pub fn add_edge(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let mut flags = EventFlags::RDHUP | EventFlags::ET;
        flags.set(EventFlags::IN, interest.read);
        flags.set(EventFlags::OUT, interest.write);
        Ok(epoll::add(&self.instance, fd, EventData::new_u64(token), flags)?)
    }

    /// As [`Readiness::wait`], with a limit in nanoseconds.
    ///
    /// # Errors
    /// When the kernel refuses the wait.
    pub fn wait_ns(&mut self, events: &mut Vec<Event>, timeout_ns: u64) -> io::Result<()> {
        let limit = Timespec {
            tv_sec: i64::try_from(timeout_ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (timeout_ns % 1_000_000_000) as i64,
        };
        self.wait_for(events, Some(&limit))
    }

    fn wait_for(&self, events: &mut Vec<Event>, limit: Option<&Timespec>) -> io::Result<()> {
        events.clear();
        let mut buffer = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS_MAX];
        let ready = match epoll::wait(&self.instance, &mut buffer, limit) {
            Ok((ready, _)) => ready,
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        events.extend(ready.iter().map(|event| {
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
        let limit = (timeout_ms >= 0).then(|| timespec(timeout_ms));
        self.wait_for(events, limit.as_ref())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.instance.as_fd())
    }

    fn is_edge_triggered(&self) -> bool {
        self.edge
    }

    fn armer(&self) -> Option<Armer> {
        Some(Armer { instance: Arc::clone(&self.instance) })
    }
}

/// Watches descriptors for one event each (EPOLLONESHOT), from any thread: whoever is told has the
/// descriptor for itself until it is armed again.
#[derive(Debug)]
pub struct Armer {
    instance: Arc<OwnedFd>,
}

impl Armer {
    /// Watches a descriptor for the first time.
    ///
    /// # Errors
    /// When memory or the limit of watched descriptors is out.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.instance, fd, EventData::new_u64(token), once(interest))?)
    }

    /// Watches it once more. What is ready already is told at once.
    ///
    /// # Errors
    /// When it was not added.
    pub fn again(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.instance, fd, EventData::new_u64(token), once(interest))?)
    }
}

fn once(interest: Interest) -> EventFlags {
    let mut flags = EventFlags::ONESHOT;
    flags.set(EventFlags::IN, interest.read);
    flags.set(EventFlags::OUT, interest.write);
    flags
}

impl std::fmt::Debug for Epoll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Epoll").field("instance", &self.instance).finish_non_exhaustive()
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.instance.as_fd()
    }
}

/// Milliseconds as the kernel's pair of seconds and nanoseconds.
pub(super) fn timespec(timeout_ms: i32) -> Timespec {
    let ms = i64::from(timeout_ms.max(0));
    Timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 }
}
