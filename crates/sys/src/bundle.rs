//! Several descriptors to be waited for as one: an epoll(7) descriptor that is readable while any
//! of them is ready, and that every event mechanism can watch like a socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::owned::Owned;
use crate::readiness::Interest;

/// The descriptors. Whoever waits does not ask which of them is ready: it tries each.
#[derive(Debug)]
pub struct Bundle(Arc<Owned>);

impl Bundle {
    /// An empty one.
    ///
    /// # Errors
    /// When descriptors are out.
    pub fn new() -> io::Result<Bundle> {
        Owned::open(|| epoll::create(CreateFlags::CLOEXEC)).map(|epoll| Bundle(Arc::new(epoll)))
    }

    /// What is to be waited for, until it can be read.
    pub fn descriptor(&self) -> &Arc<Owned> {
        &self.0
    }

    /// Watches a descriptor for `wanted`; `before` is what it was watched for until now. One that
    /// is watched for nothing is not in the bundle: not even its end is told.
    ///
    /// # Errors
    /// When memory is out.
    pub fn watch(&self, fd: BorrowedFd<'_>, before: Interest, wanted: Interest) -> io::Result<()> {
        if before == wanted {
            return Ok(());
        }
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, wanted.read);
        flags.set(EventFlags::OUT, wanted.write);
        let none = EventData::new_u64(0);
        match (before, wanted) {
            (Interest::NONE, _) => epoll::add(&self.0, fd, none, flags)?,
            (_, Interest::NONE) => epoll::delete(&self.0, fd)?,
            _ => epoll::modify(&self.0, fd, none, flags)?,
        }
        Ok(())
    }
}

impl AsFd for Bundle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readiness::{self, MECHANISMS};
    use std::io::{Read, Write};

    #[test]
    fn every_mechanism_tells_of_a_bundle_while_one_of_it_is_ready() {
        for row in MECHANISMS {
            let bundle = Bundle::new().unwrap();
            let (mut read, mut write) = std::io::pipe().unwrap();
            let (other, _held) = std::io::pipe().unwrap();
            bundle.watch(read.as_fd(), Interest::NONE, Interest::READ).unwrap();
            bundle.watch(other.as_fd(), Interest::NONE, Interest::READ).unwrap();
            let mut mechanism = readiness::open(row.name).unwrap();
            mechanism.add(bundle.as_fd(), 7, Interest::READ).unwrap();
            let mut ready = || {
                let mut events = Vec::new();
                mechanism.wait(&mut events, 0).unwrap();
                events.len()
            };
            for _ in 0..3 {
                assert_eq!(ready(), 0, "{}", row.name);
                write.write_all(b"x").unwrap();
                assert_eq!(ready(), 1, "{}", row.name);
                read.read_exact(&mut [0]).unwrap();
            }
            write.write_all(b"x").unwrap();
            bundle.watch(read.as_fd(), Interest::READ, Interest::NONE).unwrap();
            assert_eq!(ready(), 0, "{}: nothing of it is watched", row.name);
        }
    }
}
