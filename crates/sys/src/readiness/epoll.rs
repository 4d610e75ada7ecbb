//! epoll(7), level- or edge-triggered.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::{Arm, EVENTS_MAX, Event, Interest, Readiness};
use crate::owned::Owned;
use crate::refused::is_refused;

/// An epoll instance. Its own descriptor is readable while one that it watches is ready.
pub struct Epoll {
    instance: Arc<Owned>,
    edge: bool,
}

impl Epoll {
    /// A new one, which watches nothing yet.
    ///
    /// # Errors
    /// When descriptors are out, or the machine refuses to wait for events.
    pub fn new(edge: bool) -> io::Result<Epoll> {
        let instance = Arc::new(Owned::open(|| epoll::create(CreateFlags::CLOEXEC))?);
        let epoll = Epoll { instance, edge };
        // A machine that refuses to wait is found out here, and not in the loop.
        epoll
            .wait_for(&mut Vec::new(), Some(&timespec(0)))
            .map_err(|error| io::Error::new(error.kind(), format!("epoll_pwait: {error}")))?;
        Ok(epoll)
    }

    /// Watches a descriptor for the changes of `interest` alone, edge-triggered, whatever this
    /// instance does otherwise: a socket of which only answers are awaited then wakes nobody when
    /// it can be written.
    ///
    /// # Errors
    /// As [`Readiness::add`].
    pub fn add_edge(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let flags = edges(interest);
        Ok(epoll::add(&self.instance, fd, EventData::new_u64(token), flags)?)
    }

    /// As [`Readiness::wait`], with a limit in nanoseconds that is kept to within tens of
    /// microseconds (epoll_pwait2, Linux 5.11), and to within a millisecond by an older kernel.
    ///
    /// # Errors
    /// When the kernel refuses the wait.
    pub fn wait_ns(&mut self, events: &mut Vec<Event>, timeout_ns: u64) -> io::Result<()> {
        events.clear();
        let limit = libc::timespec {
            tv_sec: i64::try_from(timeout_ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
        };
        let mut buffer = [const { libc::epoll_event { events: 0, u64: 0 } }; EVENTS_MAX];
        // SAFETY: the kernel writes at most as many events as it is told the buffer has room for,
        // reads the limit, and gets no signal mask, whose size then does not matter. Both live
        // longer than the call. rustix has the call only for programs that need Linux 5.11.
        let ready = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.instance.as_raw_fd(),
                buffer.as_mut_ptr(),
                EVENTS_MAX as libc::c_int,
                &raw const limit,
                std::ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        if let Ok(ready) = usize::try_from(ready) {
            events.extend(buffer[..ready].iter().map(told_raw));
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => Ok(()),
            Some(libc::ENOSYS | libc::EPERM) => {
                let ms = timeout_ns.div_ceil(1_000_000);
                self.wait_for(events, Some(&timespec(i32::try_from(ms).unwrap_or(i32::MAX))))
            }
            _ => Err(error),
        }
    }

    fn wait_for(&self, events: &mut Vec<Event>, limit: Option<&Timespec>) -> io::Result<()> {
        events.clear();
        let mut buffer = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS_MAX];
        let ready = match epoll::wait(&self.instance, &mut buffer, limit) {
            Ok((ready, _)) => ready,
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) if is_refused(error) => return self.wait_as_before(events, limit, error),
            Err(error) => return Err(error.into()),
        };
        events.extend(ready.iter().map(|event| told(event.data.u64(), event.flags)));
        Ok(())
    }

    /// As [`Epoll::wait_for`] where the machine `refused` the call that takes a signal mask: by the
    /// one that was there before it.
    #[cfg(target_arch = "x86_64")]
    fn wait_as_before(
        &self,
        events: &mut Vec<Event>,
        limit: Option<&Timespec>,
        refused: rustix::io::Errno,
    ) -> io::Result<()> {
        let ms = limit.map(|limit| limit.tv_sec * 1_000 + (limit.tv_nsec + 999_999) / 1_000_000);
        let ms = ms.map_or(-1, |ms| i32::try_from(ms).unwrap_or(i32::MAX));
        let mut buffer = [const { libc::epoll_event { events: 0, u64: 0 } }; EVENTS_MAX];
        // SAFETY: the kernel writes at most as many events as it is told the buffer has room for,
        // which lives longer than the call.
        let ready = unsafe {
            libc::syscall(
                libc::SYS_epoll_wait,
                self.instance.as_raw_fd(),
                buffer.as_mut_ptr(),
                EVENTS_MAX as libc::c_int,
                ms,
            )
        };
        match usize::try_from(ready) {
            Ok(ready) => events.extend(buffer[..ready].iter().map(told_raw)),
            Err(_) => match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::EINTR) => {}
                _ => return Err(refused.into()),
            },
        }
        Ok(())
    }

    /// There was none before it.
    #[cfg(not(target_arch = "x86_64"))]
    fn wait_as_before(
        &self,
        _events: &mut Vec<Event>,
        _limit: Option<&Timespec>,
        refused: rustix::io::Errno,
    ) -> io::Result<()> {
        Err(refused.into())
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

/// The changes that `interest` names, and the end.
fn edges(interest: Interest) -> EventFlags {
    let mut flags = EventFlags::RDHUP | EventFlags::ET;
    flags.set(EventFlags::IN, interest.read);
    flags.set(EventFlags::OUT, interest.write);
    flags
}

/// The same of what came without rustix.
fn told_raw(event: &libc::epoll_event) -> Event {
    let event = *event;
    told(event.u64, EventFlags::from_bits_retain(event.events))
}

/// What the kernel says of a descriptor.
fn told(token: u64, flags: EventFlags) -> Event {
    let hangup = flags.intersects(EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP);
    Event {
        token,
        read: flags.contains(EventFlags::IN) || hangup,
        write: flags.contains(EventFlags::OUT) || hangup,
        hangup,
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

    fn add_link(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        match self.edge {
            true => self.add_edge(fd, token, interest),
            false => self.add(fd, token, interest),
        }
    }

    fn change_link(
        &mut self,
        fd: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        let flags = if self.edge { edges(interest) } else { self.flags(interest) };
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

    fn armer(&self) -> Option<Box<dyn Arm>> {
        Some(Box::new(Armer(Arc::clone(&self.instance))))
    }
}

/// What arms descriptors from any thread.
struct Armer(Arc<Owned>);

impl Arm for Armer {
    fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.0, fd, EventData::new_u64(token), once(interest))?)
    }

    fn again(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.0, fd, EventData::new_u64(token), once(interest))?)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apart::apart;
    use crate::refused::tests::{REFUSALS, without};
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    #[test]
    fn a_wait_of_less_than_a_millisecond_is_not_made_a_whole_one() {
        let mut epoll = Epoll::new(false).unwrap();
        let mut events = Vec::new();
        let mut took = || {
            let begun = Instant::now();
            epoll.wait_ns(&mut events, 100_000).unwrap();
            assert!(events.is_empty());
            begun.elapsed()
        };
        let shortest = (0..50).map(|_| took()).min().unwrap();
        let expected = Duration::from_micros(100)..Duration::from_micros(900);
        assert!(expected.contains(&shortest), "{shortest:?}");
    }

    #[test]
    fn what_is_ready_is_told_as_a_wait_without_end_tells_it() {
        apart(|| {
            let mut epoll = Epoll::new(false).unwrap();
            let (near, mut far) = UnixStream::pair().unwrap();
            epoll.add(near.as_fd(), 7, Interest { read: true, write: false }).unwrap();
            far.write_all(b"x").unwrap();
            let (mut exact, mut other) = (Vec::new(), Vec::new());
            epoll.wait_ns(&mut exact, 1_000_000_000).unwrap();
            epoll.wait(&mut other, 1_000).unwrap();
            assert_eq!(exact.len(), 1);
            assert_eq!((exact[0].token, exact[0].read, exact[0].hangup), (7, true, false));
            assert_eq!((other[0].token, other[0].read, other[0].hangup), (7, true, false));
            drop(far);
            epoll.wait_ns(&mut exact, 1_000_000_000).unwrap();
            assert!(exact[0].hangup);
        });
    }

    #[test]
    fn a_machine_that_refuses_the_newer_waits_has_the_oldest() {
        for errno in REFUSALS {
            without(&[libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2], errno, || {
                if !cfg!(target_arch = "x86_64") {
                    return assert_refused();
                }
                let mut epoll = Epoll::new(false).unwrap();
                let (near, mut far) = UnixStream::pair().unwrap();
                epoll.add(near.as_fd(), 7, Interest { read: true, write: false }).unwrap();
                let (mut exact, mut other) = (Vec::new(), Vec::new());
                let begun = Instant::now();
                epoll.wait(&mut other, 2).unwrap();
                epoll.wait_ns(&mut exact, 1_000_001).unwrap();
                assert!(begun.elapsed() >= Duration::from_millis(4), "it does not wait");
                assert!(exact.is_empty() && other.is_empty());
                far.write_all(b"x").unwrap();
                epoll.wait(&mut other, -1).unwrap();
                epoll.wait_ns(&mut exact, 1_000_000_000).unwrap();
                let told = Event { token: 7, read: true, write: false, hangup: false };
                assert_eq!((&exact[..], &other[..]), (&[told][..], &[told][..]));
            });
            #[cfg(target_arch = "x86_64")]
            without(&[libc::SYS_epoll_pwait, libc::SYS_epoll_wait], errno, assert_refused);
        }
    }

    fn assert_refused() {
        let error = Epoll::new(false).unwrap_err().to_string();
        assert!(error.starts_with("epoll_pwait: "), "{error}");
    }
}
