//! Who is at the other end of a connection, as far as it has an address.

use std::fmt;
use std::net::IpAddr;

/// The client of a connection, or whom a proxy names as its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Remote {
    /// Its address.
    Ip(IpAddr),
    /// A process of this machine, over a Unix-domain socket: it has none.
    Unix,
}

impl Remote {
    /// How a peer without an address is written, in settings and in logs.
    pub const UNIX: &str = "unix";

    /// Its address, if it has one.
    pub fn ip(self) -> Option<IpAddr> {
        match self {
            Remote::Ip(address) => Some(address),
            Remote::Unix => None,
        }
    }

    /// The same where an IPv4 address that is mapped into IPv6 is an IPv4 address.
    #[must_use]
    pub fn to_canonical(self) -> Remote {
        match self {
            Remote::Ip(address) => Remote::Ip(address.to_canonical()),
            Remote::Unix => Remote::Unix,
        }
    }
}

impl From<IpAddr> for Remote {
    fn from(address: IpAddr) -> Remote {
        Remote::Ip(address)
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remote::Ip(address) => address.fmt(f),
            Remote::Unix => f.write_str(Remote::UNIX),
        }
    }
}
