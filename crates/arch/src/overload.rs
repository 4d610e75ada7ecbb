//! When a worker has more to do than it can, so that it leaves out what can be left out: new bodies
//! leave plain then (S3, section 6: M140).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use flyball_site::Overloaded;
use flyball_sys::{clock, net};

use crate::listener::Listener;
use crate::shared_state::SharedState;

/// How long it lasts once it was seen, in milliseconds: who waits then has gone in or away before
/// bodies are compressed again.
const LASTS_MS: u64 = 1_000;

/// Whether a worker is overloaded. It is from when somebody looks and sees that
///
/// * connections wait at its listening sockets and have no place: as many are open as
///   `connections.max` allows, or each thread or process has one; where others read the same
///   sockets, in all of them together; or
/// * as many wait at one of the sockets as half of its accept queue holds;
///
/// and is no more when [`LASTS_MS`] are over and the next look sees neither. There is a look when
/// a body would be coded, which costs a thousand times as much, and none when nothing is.
///
/// Both are true of every architecture. A process of `mp` and a thread of `mt` have one place each,
/// which an idle connection takes as well: with `close.idle-when-full` it is taken from that one
/// after a second.
#[derive(Debug)]
pub(crate) struct Overload {
    listeners: Vec<Listener>,
    shared: Arc<SharedState>,
    /// Whose connections count: those of this generation, and of this process alone unless others
    /// read its sockets.
    generation: u64,
    process: Option<i32>,
    /// How many connections one process may have.
    places: usize,
    until_ms: AtomicU64,
}

impl Overload {
    /// That of a worker which counts in this block among others, and has so many places; whether
    /// other processes read its listening sockets.
    pub(crate) fn of(
        block: usize,
        places: usize,
        listeners: &[Listener],
        shares_listeners: bool,
        shared: &Arc<SharedState>,
    ) -> Overload {
        let owner = shared.blocks.owner(block);
        Overload {
            listeners: listeners.to_vec(),
            shared: Arc::clone(shared),
            generation: owner.map_or(0, |owner| owner.generation),
            process: owner.filter(|_| !shares_listeners).map(|owner| owner.process),
            places,
            until_ms: AtomicU64::new(0),
        }
    }

    fn is_at(&self, now_ms: u64) -> bool {
        if now_ms < self.until_ms.load(Relaxed) {
            return true;
        }
        let is_seen = self.look();
        if is_seen {
            self.until_ms.store(now_ms + LASTS_MS, Relaxed);
        }
        is_seen
    }

    fn look(&self) -> bool {
        let queues = self.listeners.iter().filter_map(|socket| net::accept_queue(socket).ok());
        let (mut waiting, mut half_full) = (0, false);
        for (length, most) in queues {
            waiting += length;
            half_full |= length > 0 && length >= most / 2;
        }
        half_full || waiting > 0 && !self.has_place()
    }

    fn has_place(&self) -> bool {
        let (open, processes) = self.shared.blocks.open(|owner| {
            owner.generation == self.generation
                && owner.worker.is_some()
                && self.process.is_none_or(|process| process == owner.process)
        });
        open < self.places.saturating_mul(processes) as u64
    }
}

impl Overloaded for Overload {
    fn is_overloaded(&self) -> bool {
        self.is_at(clock::monotonic_ms())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_observe::counters::Owner;
    use flyball_sys::net::ListenOptions;
    use std::net::{SocketAddr, TcpStream};

    /// Of process 1, which has a worker with so many places.
    fn overload(places: usize, sharing: bool) -> (Overload, SocketAddr) {
        let listener = net::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
        net::listen(&listener, 8, &ListenOptions::default()).unwrap();
        let address = net::local_address(&listener).unwrap();
        let shared = Arc::new(SharedState::new(4).unwrap());
        for (index, process) in [1, 1, 2].into_iter().enumerate() {
            shared.blocks.set_owner(index, Owner { generation: 7, worker: Some(0), process });
        }
        shared.blocks.set_owner(3, Owner { generation: 6, worker: Some(0), process: 3 });
        let overload = Overload {
            listeners: vec![listener.into()],
            shared,
            generation: 7,
            process: (!sharing).then_some(1),
            places,
            until_ms: AtomicU64::new(0),
        };
        (overload, address)
    }

    #[test]
    fn it_is_when_somebody_waits_without_a_place_and_for_a_while_afterwards() {
        let (overload, address) = overload(2, false);
        let client = || TcpStream::connect(address).unwrap();
        let _waits = client();
        // One of two threads has a place, and others have none to give.
        overload.shared.blocks.opened(0);
        overload.shared.blocks.opened(2);
        overload.shared.blocks.opened(3);
        assert!(!overload.is_at(5));
        overload.shared.blocks.opened(1);
        assert!(overload.is_at(5));
        overload.shared.blocks.closed(1);
        assert!(overload.is_at(5 + LASTS_MS - 1));
        assert!(!overload.is_at(5 + LASTS_MS));
        // Nobody waits.
        overload.shared.blocks.opened(1);
        assert!(overload.is_at(3_000));
        net::accept(&overload.listeners[0], true).unwrap();
        assert!(overload.is_at(3_999) && !overload.is_at(4_000));
    }

    #[test]
    fn who_reads_the_same_socket_has_places_too() {
        let (overload, address) = overload(1, true);
        let _waits = TcpStream::connect(address).unwrap();
        overload.shared.blocks.opened(0);
        assert!(!overload.is_at(5));
        overload.shared.blocks.opened(2);
        assert!(overload.is_at(5));
        // A process that died has none.
        overload.shared.fold(2, true);
        assert!(overload.is_at(5 + LASTS_MS));
        overload.shared.blocks.closed(0);
        assert!(!overload.is_at(5 + 2 * LASTS_MS));
    }

    #[test]
    fn it_is_when_an_accept_queue_is_half_full_although_there_are_places() {
        let (overload, address) = overload(100, false);
        let mut waiting = Vec::new();
        for n in 1..=5 {
            waiting.push(TcpStream::connect(address).unwrap());
            assert_eq!(overload.look(), n >= 4, "{n} wait");
        }
    }
}
