//! Who a connection is with, and what is spoken on it.

use std::net::SocketAddr;

use flyball_tls::Config;

/// The other end of a connection, as the listening socket that accepted it knows it.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// What TLS goes by there; `None` where plain text is spoken.
    pub tls: Option<Config>,
}

impl From<SocketAddr> for Peer {
    /// One that speaks plain text.
    fn from(address: SocketAddr) -> Peer {
        Peer { address, tls: None }
    }
}
