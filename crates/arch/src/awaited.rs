//! What a connection waits for while a backend works: the backend's descriptor, and its client,
//! who may leave.

use std::os::fd::AsFd;
use std::sync::Arc;

use flyball_sys::owned::Owned;
use flyball_sys::readiness::Interest;

use crate::kernel::net;
use crate::kernel::uring::Ring;

/// A backend that is waited for.
#[derive(Clone, Debug)]
pub struct Awaited {
    /// A descriptor of the backend.
    pub descriptor: Arc<Owned>,
    /// What it is waited for.
    pub interest: Interest,
    /// Whether input from the client is wanted too. Otherwise only its leaving matters.
    pub reads: bool,
}

/// Marks, in the bits of a token, events of a slot's backend; slots never have so high a number.
pub const BACKEND: u64 = 1 << 31;

#[cfg(test)]
impl Awaited {
    fn of(descriptor: Arc<Owned>) -> Awaited {
        Awaited { descriptor, interest: Interest::READ, reads: false }
    }
}

/// What a client does that nothing is wanted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// Nothing.
    Waits,
    /// It sends its next request already: whether it leaves is not seen behind that.
    Sends,
    /// It closed its side, or is gone: whatever is being made for it is of no use.
    Left,
}

impl Client {
    /// Looks, without taking anything. Never blocks.
    pub fn look(socket: impl AsFd) -> Client {
        match net::has_input(socket) {
            None => Client::Waits,
            Some(true) => Client::Sends,
            Some(false) => Client::Left,
        }
    }
}

/// The backend of a slot, as a ring polls it: one operation tells of it once.
#[derive(Debug, Default)]
pub struct BackendPoll {
    polled: Option<Arc<Owned>>,
    interest: Interest,
    /// Operations whose completion has not come, those included that were cancelled.
    under_way: u16,
}

impl BackendPoll {
    /// Has the ring poll for what is waited for, if it does not already; whether an operation was
    /// started.
    pub fn set(&mut self, ring: &mut Ring, bits: u64, awaited: &Awaited) -> bool {
        let Awaited { descriptor, interest, .. } = awaited;
        let is_same = |known: &Arc<Owned>| Arc::ptr_eq(known, descriptor);
        if self.interest == *interest && self.polled.as_ref().is_some_and(is_same) {
            return false;
        }
        if self.polled.is_some() {
            ring.cancel(bits);
        }
        (self.polled, self.interest) = (Some(Arc::clone(descriptor)), *interest);
        self.under_way = self.under_way.saturating_add(1);
        ring.poll(Arc::clone(descriptor), bits, *interest);
        true
    }

    /// Has the ring poll for nothing, so that it holds no descriptor whose link has ended.
    pub fn forget(&mut self, ring: &mut Ring, bits: u64) {
        if self.polled.take().is_some() {
            ring.cancel(bits);
        }
    }

    /// An operation has completed. Which one is not told: after the last of them nothing is polled.
    pub fn completed(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
        if self.under_way == 0 {
            self.polled = None;
        }
    }

    /// The slot is over: nothing is polled for it any more.
    pub fn end(&self, ring: &mut Ring, bits: u64) {
        if self.under_way > 0 {
            ring.cancel(bits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::uring::Mode;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_ring_that_polls_for_one_thing_is_told_of_another() {
        if let Err(error) = Ring::probe() {
            return eprintln!("no rings here: {error}");
        }
        let mut ring = Ring::new(8, Mode::Deferred).unwrap();
        let (near, _far) = UnixStream::pair().unwrap();
        let descriptor = Arc::new(Owned::from(near));
        let mut awaited = Awaited::of(descriptor);
        let mut poll = BackendPoll::default();
        assert!(poll.set(&mut ring, 7, &awaited));
        assert!(!poll.set(&mut ring, 7, &awaited), "it is polled already");
        // Nothing is to be read, but there is room.
        awaited.interest = Interest::BOTH;
        assert!(poll.set(&mut ring, 7, &awaited));
        let mut completions = Vec::new();
        while completions.len() < 2 {
            ring.wait(&mut completions, 10_000).unwrap();
        }
        poll.completed();
        assert!(!poll.set(&mut ring, 7, &awaited), "one of them may be under way");
        poll.completed();
        assert!(poll.set(&mut ring, 7, &awaited));
        poll.end(&mut ring, 7);
    }

    #[test]
    fn a_client_that_leaves_is_seen_unless_it_has_sent_more() {
        let (near, mut far) = UnixStream::pair().unwrap();
        assert_eq!(Client::look(&near), Client::Waits);
        std::io::Write::write_all(&mut far, b"GET").unwrap();
        assert_eq!(Client::look(&near), Client::Sends);
        let (near, far) = UnixStream::pair().unwrap();
        drop(far);
        assert_eq!(Client::look(&near), Client::Left);
    }
}
