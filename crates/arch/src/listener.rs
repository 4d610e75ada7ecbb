//! A listening socket as a worker has it.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use flyball_conn::Peer;
use flyball_tls::Config;

/// A listening socket, and what is spoken on the connections that come from it.
#[derive(Clone, Debug)]
pub struct Listener {
    socket: Arc<OwnedFd>,
    tls: Option<Config>,
    /// The number of the hosts that are served there; 0 is all.
    hosts: u16,
}

impl Listener {
    /// One whose connections speak TLS by this, or plain text.
    pub fn new(socket: Arc<OwnedFd>, tls: Option<Config>) -> Listener {
        Listener { socket, tls, hosts: 0 }
    }

    /// The same, where the hosts of this number are served alone.
    #[must_use]
    pub fn serving(self, hosts: u16) -> Listener {
        Listener { hosts, ..self }
    }

    /// The other end of a connection that it accepted from this address.
    pub(crate) fn peer(&self, address: SocketAddr) -> Peer {
        Peer { address, tls: self.tls.clone(), listener: self.hosts }
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
