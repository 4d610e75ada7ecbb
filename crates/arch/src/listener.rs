//! A listening socket as a worker has it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use flyball_conn::{Arrival, Peer};
use flyball_http::Remote;
use flyball_observe::queues::Queues;
use flyball_sys::owned::{Opening, Owned};
use flyball_tls::Config;

use crate::kernel::{clock, net};
use crate::limits::BLOCKING_TICK_MS;

/// A listening socket, and what is spoken on the connections that come from it.
#[derive(Clone, Debug)]
pub struct Listener {
    socket: Arc<OwnedFd>,
    tls: Option<Config>,
    /// The number of its address among those of the server.
    address: usize,
    /// The number of the hosts that are served there; 0 is all.
    hosts: u16,
    /// Other workers read it too.
    is_shared: bool,
    /// Its connections come from processes of this machine, which have no address.
    is_unix: bool,
    /// Whether it asks how old they are.
    asks_ages: bool,
    queue: Option<Queue>,
}

/// Where it tells how long the head of its accept queue waits, by its number among all sockets.
#[derive(Clone, Debug)]
struct Queue {
    queues: Arc<Queues>,
    socket: usize,
}

impl Listener {
    /// One whose connections speak TLS by this, or plain text.
    pub fn new(socket: Arc<OwnedFd>, tls: Option<Config>) -> Listener {
        Listener {
            socket,
            tls,
            address: 0,
            hosts: 0,
            is_shared: false,
            is_unix: false,
            asks_ages: false,
            queue: None,
        }
    }

    /// The same, where the hosts of this number are served alone.
    #[must_use]
    pub fn serving(self, hosts: u16) -> Listener {
        Listener { hosts, ..self }
    }

    /// The same at the address of this number.
    #[must_use]
    pub fn of_address(self, address: usize) -> Listener {
        Listener { address, ..self }
    }

    /// The same, which other workers read too if that is true.
    #[must_use]
    pub fn shared(self, is_shared: bool) -> Listener {
        Listener { is_shared, ..self }
    }

    /// The same, which is a Unix-domain socket if that is true.
    #[must_use]
    pub fn over_unix(self, is_unix: bool) -> Listener {
        Listener { is_unix, ..self }
    }

    /// The same, which asks the kernel how old each connection is if that is true: one call for
    /// each.
    #[must_use]
    pub fn asking_ages(self, asks_ages: bool) -> Listener {
        Listener { asks_ages, ..self }
    }

    /// The same, which tells there how long the head of its queue waits, while that is asked for:
    /// by its number among the sockets of all addresses.
    #[must_use]
    pub fn seen_in(self, queues: &Arc<Queues>, socket: usize) -> Listener {
        Listener { queue: Some(Queue { queues: Arc::clone(queues), socket }), ..self }
    }

    /// The number of its address among those of the server.
    pub(crate) fn address(&self) -> usize {
        self.address
    }

    /// Whether the length of its accept queue may be changed here: it is one of TCP that no other
    /// worker reads.
    pub(crate) fn has_own_queue(&self) -> bool {
        !self.is_shared && !self.is_unix
    }

    /// Whether it is a Unix-domain socket, of which an address has one alone.
    pub(crate) fn is_unix(&self) -> bool {
        self.is_unix
    }

    /// Accepts a connection, one of several. Blocks when the socket does, and so do calls on the
    /// connection unless it is `nonblocking`, for [`BLOCKING_TICK_MS`] at most.
    ///
    /// # Errors
    /// As [`net::accept_within`].
    pub(crate) fn accept_within(
        &self,
        opening: &Opening,
        nonblocking: bool,
    ) -> io::Result<(Owned, Peer)> {
        let (socket, address) = net::accept_within(opening, self, nonblocking)?;
        if self.is_unix && !nonblocking {
            // It is not inherited from the listening socket, as that of TCP is.
            net::set_timeout(&socket, Duration::from_millis(BLOCKING_TICK_MS))?;
        }
        let peer = self.peer(address, Some(socket.as_fd()));
        Ok((socket, peer))
    }

    /// The other end of a connection that it accepted now from this address, whose socket this is
    /// where it has one that can be asked.
    pub(crate) fn peer(&self, address: SocketAddr, socket: Option<BorrowedFd<'_>>) -> Peer {
        let remote = if self.is_unix { Remote::Unix } else { Remote::Ip(address.ip()) };
        Peer { remote, tls: self.tls.clone(), listener: self.hosts, arrival: self.arrival(socket) }
    }

    /// How long a connection had been there that was accepted now, if anything asks for that.
    fn arrival(&self, socket: Option<BorrowedFd<'_>>) -> Arrival {
        // What is accepted was the head of its queue.
        let told = |queue: &&Queue| queue.queues.accepted(queue.socket, clock::monotonic_ms);
        let queue = self.queue.as_ref().filter(told);
        let asked = socket.filter(|_| self.asks_ages || queue.is_some());
        let Some(age) = asked.and_then(net::age) else { return Arrival::default() };
        if let Some(Queue { queues, socket }) = queue {
            queues.saw(*socket, age.queued_ms.into(), clock::monotonic_ms());
        }
        let silent_ns = u64::from(age.silent_ms) * 1_000_000;
        // Over TLS that is a handshake, and no request.
        let has_said = age.has_said && self.tls.is_none();
        let said_ns = has_said.then(|| clock::monotonic_ns().saturating_sub(silent_ns));
        Arrival::of(age.queued_ms, said_ns)
    }

    /// The socket itself.
    pub(crate) fn socket(&self) -> &Arc<OwnedFd> {
        &self.socket
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
impl From<OwnedFd> for Listener {
    fn from(socket: OwnedFd) -> Listener {
        Listener::new(Arc::new(socket), None)
    }
}
