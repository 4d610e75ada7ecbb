//! Who a connection is with, and what is spoken on it.

use std::net::SocketAddr;

use flyball_http::Remote;
use flyball_tls::Config;

use crate::arrival::Arrival;

/// The other end of a connection, as the listening socket that accepted it knows it.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Who it is.
    pub remote: Remote,
    /// What TLS goes by there; `None` where plain text is spoken.
    pub tls: Option<Config>,
    /// The number of the hosts that are served there; 0 is all.
    pub listener: u16,
    /// How long it had been there, if that was asked for.
    pub arrival: Arrival,
}

/// Who the client of a connection is taken to be, where it came in, and since when it had been
/// there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) client: Remote,
    /// The number of the hosts that are served where it came in; 0 is all.
    pub(crate) listener: u16,
    /// Until the first request is found.
    pub(crate) arrival: Arrival,
}

impl From<SocketAddr> for Peer {
    /// One that speaks plain text, where every host is served.
    fn from(address: SocketAddr) -> Peer {
        let (remote, arrival) = (Remote::Ip(address.ip()), Arrival::default());
        Peer { remote, tls: None, listener: 0, arrival }
    }
}
