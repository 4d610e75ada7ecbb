//! The descriptors of a process, closed as they must be where other processes use the same table.
//!
//! In a group of processes that share one table ([`descriptors`](crate::descriptors)) each
//! descriptor is registered as it is opened, and its name is taken out before it is closed. Both
//! are done here, by the process's one [`Member`]; elsewhere there is none, which one look tells.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, OnceLock};

use crate::descriptors::{Descriptor, Member};

/// This process's part in the table that it shares, if it shares one.
static MEMBER: OnceLock<Arc<Member>> = OnceLock::new();

/// From now on this process opens and closes as that member of a group. To be called once, before
/// it opens anything: a second call changes nothing.
pub fn register_by(member: &Arc<Member>) {
    let _ = MEMBER.set(Arc::clone(member));
}

/// While it is there, descriptors may be opened; the leader of a group sweeps none.
#[derive(Debug)]
pub struct Opening(Option<&'static Arc<Member>>);

impl Opening {
    /// To be called before descriptors are opened. Waits while the leader of a group sweeps, never
    /// long.
    pub fn begin() -> Opening {
        let member = MEMBER.get();
        if let Some(member) = member {
            member.begin();
        }
        Opening(member)
    }

    /// Registers what was opened since.
    pub fn own(&self, descriptor: OwnedFd) -> Owned {
        if let Some(member) = self.0 {
            member.own(&descriptor);
        }
        Owned(ManuallyDrop::new(descriptor))
    }

    /// The same of a file, which the processes of a group may lend to each other.
    pub fn keep(&self, file: OwnedFd) -> Descriptor {
        match self.0 {
            Some(member) => member.keep(file),
            None => file.into(),
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(member) = self.0 {
            member.end();
        }
    }
}

/// A descriptor that this process opened. It is closed when it is dropped.
#[derive(Debug)]
pub struct Owned(ManuallyDrop<OwnedFd>);

impl Owned {
    /// What `open` opens.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn open<E: Into<io::Error>>(
        open: impl FnOnce() -> Result<OwnedFd, E>,
    ) -> io::Result<Owned> {
        let opening = Opening::begin();
        open().map(|descriptor| opening.own(descriptor)).map_err(Into::into)
    }
}

/// Registers late: only for what came from elsewhere.
impl<D: Into<OwnedFd>> From<D> for Owned {
    fn from(descriptor: D) -> Owned {
        Opening::begin().own(descriptor.into())
    }
}

impl AsFd for Owned {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Owned {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: it is taken out once, here, and not used again.
        let descriptor = unsafe { ManuallyDrop::take(&mut self.0) };
        match MEMBER.get() {
            Some(member) => member.close(descriptor),
            None => drop(descriptor),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apart::apart;
    use crate::bundle::Bundle;
    use crate::channel::Channel;
    use crate::descriptors::tests::{is_open, killed, open, table};
    use crate::program::{End, pipe};
    use crate::signal::Signals;
    use crate::timer::Timer;
    use crate::wake::Wake;
    use crate::{net, readiness};
    use std::os::fd::IntoRawFd;

    /// The numbers that are open now.
    fn numbers() -> Vec<RawFd> {
        (0..256).filter(|number| is_open(*number)).collect()
    }

    #[test]
    fn whatever_a_killed_process_had_opened_is_closed_at_once() {
        apart(|| {
            let listener = net::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
            net::listen(&listener, 8, &net::ListenOptions::default()).unwrap();
            let address = net::local_address(&listener).unwrap();
            let (table, before) = (table(2, 1), numbers());
            killed(&table, 0, |member| {
                register_by(member);
                let link = net::begin_to_connect(&net::Endpoint::Tcp(address)).unwrap();
                let accepted = net::accept(&listener, false).unwrap();
                let (pipe, channel) = (pipe(End::Reading).unwrap(), Channel::pair().unwrap());
                let (timer, wake) = (Timer::after_ms(1).unwrap(), Wake::new().unwrap());
                let bundle = (Bundle::new().unwrap(), Signals::block().unwrap());
                let mechanism = readiness::open("epoll").unwrap();
                let directory = crate::file::open_root("/".as_ref()).unwrap();
                let kept = Opening::begin().keep(directory);
                let late = Owned::from(open());
                std::mem::forget((link, accepted, pipe, channel, timer, wake, bundle));
                std::mem::forget((mechanism, kept, late));
            });
            assert_eq!(numbers().len(), before.len() + 13);
            table.bury(0);
            assert_eq!(numbers(), before);
        });
    }

    #[test]
    fn a_number_that_was_closed_is_not_closed_again_with_its_old_owner() {
        apart(|| {
            let (table, before) = (table(2, 1), numbers());
            killed(&table, 0, |member| {
                register_by(member);
                drop((Wake::new().unwrap(), pipe(End::Writing).unwrap()));
                drop(Opening::begin().keep(open()));
                // The next to open would be another process.
                assert_eq!(numbers(), before);
                let theirs = (open().into_raw_fd(), open().into_raw_fd(), open().into_raw_fd());
                assert!(is_open(theirs.0));
            });
            table.bury(0);
            assert_eq!(numbers().len(), before.len() + 3);
            assert_eq!(table.sweep().unwrap(), Some(3));
        });
    }

    #[test]
    fn what_cannot_be_opened_holds_no_sweep_up() {
        apart(|| {
            let table = table(1, 1);
            register_by(&table.join(0));
            let refused = Owned::open(|| Err::<OwnedFd, _>(io::ErrorKind::NotFound));
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::NotFound);
            let opening = Opening::begin();
            assert_eq!(table.sweep().unwrap(), None);
            drop((Wake::new().unwrap(), opening));
            assert_eq!(table.sweep().unwrap(), Some(0));
        });
    }

    #[test]
    fn a_process_that_shares_no_table_closes_what_it_drops_and_it_takes_no_more_room() {
        let wake = Owned::open(|| Ok::<_, io::Error>(open())).unwrap();
        let number = wake.as_raw_fd();
        assert!(std::fs::metadata(format!("/proc/self/fd/{number}")).is_ok());
        let (mut end, other) = std::os::unix::net::UnixStream::pair().unwrap();
        drop((wake, Owned::from(other)));
        assert_eq!(io::Read::read(&mut end, &mut [0]).unwrap(), 0);
        assert_eq!(size_of::<Option<Owned>>(), size_of::<RawFd>());
    }
}
