//! Event mechanisms that tell when a descriptor is ready: select, poll, epoll (S0, section 4.1).
//!
//! Each is one file and one row of [`MECHANISMS`]. They differ in cost, not in meaning: a token
//! that was added is reported while (level) or when (edge) its descriptor is ready.

mod epoll;
mod poll;
mod select;

use std::io;
use std::os::fd::BorrowedFd;

pub use epoll::Epoll;

/// Most events that one wait reports; per worker.
pub const EVENTS_MAX: usize = 512;

/// What a descriptor is watched for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Watch for bytes, the end of the stream, or a connection to accept.
    pub read: bool,
    /// Watch for room in the send buffer.
    pub write: bool,
}

impl Interest {
    /// Reading only.
    pub const READ: Interest = Interest { read: true, write: false };
    /// Writing only.
    pub const WRITE: Interest = Interest { read: false, write: true };
    /// Both.
    pub const BOTH: Interest = Interest { read: true, write: true };
    /// Neither: only errors are reported, and not by every mechanism.
    pub const NONE: Interest = Interest { read: false, write: false };
}

/// One descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What the descriptor was added with.
    pub token: u64,
    /// A read will not block.
    pub read: bool,
    /// A write will not block.
    pub write: bool,
    /// The peer closed its side, or the socket failed: reading on will show which.
    pub hangup: bool,
}

/// An open event mechanism.
pub trait Readiness: Send {
    /// Watches a descriptor.
    ///
    /// # Errors
    /// When the mechanism cannot take the descriptor.
    fn add(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()>;

    /// Watches a listening socket that other processes watch too, so that one of them is woken
    /// where the mechanism can (EPOLLEXCLUSIVE).
    ///
    /// # Errors
    /// As [`Readiness::add`].
    fn add_shared(&mut self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.add(fd, token, Interest::READ)
    }

    /// Changes what a descriptor is watched for.
    ///
    /// # Errors
    /// When it was not added.
    fn change(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()>;

    /// As [`Readiness::add`], for a socket of which never more is told than what it is watched for
    /// and its end: also by a mechanism that registers others once for everything.
    ///
    /// # Errors
    /// As [`Readiness::add`].
    fn add_link(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.add(fd, token, interest)
    }

    /// Changes what such a socket is watched for.
    ///
    /// # Errors
    /// As [`Readiness::change`].
    fn change_link(
        &mut self,
        fd: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        self.change(fd, token, interest)
    }

    /// Stops watching a descriptor.
    fn remove(&mut self, fd: BorrowedFd<'_>);

    /// The descriptor is closed right after this call; where closing is enough, this does nothing.
    fn forget(&mut self, fd: BorrowedFd<'_>) {
        self.remove(fd);
    }

    /// Waits at most `timeout_ms` (negative: without limit) and replaces `events` by what is
    /// ready. Blocks. An interrupting signal ends it with no events.
    ///
    /// # Errors
    /// When the kernel refuses the wait.
    fn wait(&mut self, events: &mut Vec<Event>, timeout_ms: i32) -> io::Result<()>;

    /// What lets other threads watch descriptors while this one waits; `None` where the mechanism
    /// is no object in the kernel, so that only the thread that waits can change it.
    fn armer(&self) -> Option<Box<dyn Arm>> {
        None
    }

    /// The descriptor of the mechanism itself, if it has one.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// True when an event comes once per change, so that readiness must be remembered.
    fn is_edge_triggered(&self) -> bool {
        false
    }
}

/// Watches descriptors for one event each (EPOLLONESHOT), from any thread: who is told has the
/// descriptor for itself until it is armed again.
pub trait Arm: Send + Sync {
    /// Watches a descriptor for the first time.
    ///
    /// # Errors
    /// When memory or the limit of watched descriptors is out.
    fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()>;

    /// Watches it once more. What is ready already is told at once.
    ///
    /// # Errors
    /// When it was not added.
    fn again(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()>;
}

/// A row of the table.
#[derive(Debug)]
pub struct Mechanism {
    /// Its name in the settings.
    pub name: &'static str,
    /// One line about its cost.
    pub about: &'static str,
    /// Opens it.
    pub open: fn() -> io::Result<Box<dyn Readiness>>,
}

/// Every event mechanism.
pub static MECHANISMS: &[Mechanism] = &[
    Mechanism {
        name: "select",
        about: "bitmaps of our own, beyond 1,024 descriptors; each wait costs the highest number",
        open: || Ok(Box::new(select::Select::new())),
    },
    Mechanism {
        name: "poll",
        about: "an array; each wait costs the number of descriptors",
        open: || Ok(Box::new(poll::Poll::new())),
    },
    Mechanism {
        name: "epoll",
        about: "a kernel object, level-triggered; each wait costs the number of ready descriptors",
        open: || Ok(Box::new(epoll::Epoll::new(false)?)),
    },
    Mechanism {
        name: "epoll-edge",
        about: "epoll, edge-triggered: registered once, no change of interest",
        open: || Ok(Box::new(epoll::Epoll::new(true)?)),
    },
];

/// Opens the mechanism of this name.
///
/// # Errors
/// `InvalidInput` for an unknown name; else what the kernel says.
pub fn open(name: &str) -> io::Result<Box<dyn Readiness>> {
    let mechanism = MECHANISMS.iter().find(|mechanism| mechanism.name == name);
    (mechanism.ok_or(io::ErrorKind::InvalidInput)?.open)()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apart::apart;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    fn ready(mechanism: &mut dyn Readiness) -> Vec<Event> {
        let mut events = Vec::new();
        mechanism.wait(&mut events, 0).unwrap();
        events.sort_by_key(|event| event.token);
        events
    }

    #[test]
    fn every_mechanism_tells_the_same() {
        apart(|| {
            for row in MECHANISMS {
                let mut mechanism = (row.open)().unwrap();
                let (mut near, mut far) = UnixStream::pair().unwrap();
                let (idle, _keep) = UnixStream::pair().unwrap();
                mechanism.add(near.as_fd(), 7, Interest::READ).unwrap();
                mechanism.add(idle.as_fd(), 8, Interest::READ).unwrap();
                assert_eq!(
                    ready(&mut *mechanism).iter().filter(|e| e.read).count(),
                    0,
                    "{}",
                    row.name
                );

                far.write_all(b"x").unwrap();
                let events = ready(&mut *mechanism);
                assert!(events.iter().any(|e| e.token == 7 && e.read), "{}", row.name);
                near.read_exact(&mut [0]).unwrap();

                mechanism.change(near.as_fd(), 7, Interest::WRITE).unwrap();
                let events = ready(&mut *mechanism);
                assert!(events.iter().any(|e| e.token == 7 && e.write), "{}", row.name);

                mechanism.change(near.as_fd(), 7, Interest::READ).unwrap();
                drop(far);
                let events = ready(&mut *mechanism);
                assert!(events.iter().any(|e| e.token == 7 && e.read), "{}", row.name);

                mechanism.remove(near.as_fd());
                assert!(ready(&mut *mechanism).iter().all(|e| e.token != 7), "{}", row.name);
            }
        });
    }

    #[test]
    fn descriptors_beyond_1024_are_watched_by_every_mechanism() {
        use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_getfd};
        for row in MECHANISMS {
            let mut mechanism = (row.open)().unwrap();
            let (near, mut far) = UnixStream::pair().unwrap();
            let high = fcntl_dupfd_cloexec(&near, 3000).unwrap();
            assert_eq!(fcntl_getfd(&high).unwrap(), FdFlags::CLOEXEC);
            mechanism.add(high.as_fd(), 1, Interest::READ).unwrap();
            far.write_all(b"x").unwrap();
            let events = ready(&mut *mechanism);
            assert!(events.iter().any(|e| e.token == 1 && e.read), "{}", row.name);
        }
    }

    #[test]
    fn an_edge_is_told_once() {
        let mut mechanism = open("epoll-edge").unwrap();
        let (near, mut far) = UnixStream::pair().unwrap();
        mechanism.add(near.as_fd(), 1, Interest::BOTH).unwrap();
        far.write_all(b"x").unwrap();
        assert!(ready(&mut *mechanism).iter().any(|e| e.read));
        assert!(ready(&mut *mechanism).is_empty());
    }

    #[test]
    fn an_edge_is_told_for_what_was_asked_and_a_wait_may_be_shorter_than_a_millisecond() {
        let mut mechanism = Epoll::new(false).unwrap();
        let (near, mut far) = UnixStream::pair().unwrap();
        mechanism.add_edge(&near, 1, Interest::READ).unwrap();
        let mut events = Vec::new();
        mechanism.wait_ns(&mut events, 100_000).unwrap();
        assert_eq!(events, [], "it can be written, which nobody asked for");
        far.write_all(b"x").unwrap();
        mechanism.wait_ns(&mut events, 5_000_000_000).unwrap();
        assert_eq!(events, [Event { token: 1, read: true, write: false, hangup: false }]);
        drop(far);
        mechanism.wait_ns(&mut events, 5_000_000_000).unwrap();
        assert!(events[0].hangup, "the end is told, too");
        mechanism.wait_ns(&mut events, 0).unwrap();
        assert_eq!(events, [], "once");
    }

    #[test]
    fn a_descriptor_that_another_thread_arms_is_told_once_until_it_is_armed_again() {
        for name in ["epoll", "epoll-edge"] {
            let mut mechanism = open(name).unwrap();
            let armer = mechanism.armer().unwrap();
            let (near, mut far) = UnixStream::pair().unwrap();
            far.write_all(b"x").unwrap();
            let near = &near;
            std::thread::scope(|scope| {
                scope.spawn(|| armer.add(near.as_fd(), 5, Interest::READ).unwrap());
                let mut events = Vec::new();
                mechanism.wait(&mut events, 5_000).unwrap();
                assert_eq!(
                    events.iter().map(|e| (e.token, e.read)).collect::<Vec<_>>(),
                    [(5, true)]
                );
            });
            assert_eq!(ready(&mut *mechanism), [], "{name}: told once");
            armer.again(near.as_fd(), 6, Interest::READ).unwrap();
            let tokens: Vec<_> = ready(&mut *mechanism).iter().map(|e| e.token).collect();
            assert_eq!(tokens, [6], "{name}: still readable");
            assert_eq!(ready(&mut *mechanism), [], "{name}: told once");
        }
        for name in ["select", "poll"] {
            assert!(open(name).unwrap().armer().is_none(), "{name}");
        }
    }

    #[test]
    fn an_unknown_name_is_refused() {
        assert!(open("kqueue").is_err());
    }
}
