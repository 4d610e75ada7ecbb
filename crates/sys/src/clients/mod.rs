//! What clients have used, in memory that all processes of a server share: how fast each of them
//! goes, and how many connections each of them holds.
//!
//! Both are tables of a fixed number of 64-bit words that are changed by compare-and-swap alone.
//! There is no lock, so that a process which dies holds nobody up. What a client is known by is
//! hashed with a key that nobody outside knows, so that nobody can choose who shares a place.

mod holders;
mod rates;

pub use holders::{Holders, Seat};
pub use rates::{Rate, Rates};

use std::net::IpAddr;

/// What stands for a client: an IPv4 address, or the first 64 bits of an IPv6 address, which is
/// the least that one client has for itself (RFC 6177, section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// An IPv4 address, mapped into IPv6 or not.
    V4(u32),
    /// A network of 64 bits.
    V6(u64),
    /// All that have no address.
    Local,
}

impl Client {
    /// The client that this address belongs to, if it has one.
    pub fn of(address: Option<IpAddr>) -> Client {
        match address.map(|address| address.to_canonical()) {
            Some(IpAddr::V4(address)) => Client::V4(address.to_bits()),
            Some(IpAddr::V6(address)) => Client::V6((address.to_bits() >> 64) as u64),
            None => Client::Local,
        }
    }
}

/// The fewest bytes that wait in a paced socket: what TCP sends in one go.
const UNSENT_LEAST: u64 = 64 * 1024;

/// How many bytes may wait to be sent in a socket of this pace, in bytes: those of about a second.
/// What its client has still to come is known that well, and an answer ends when it does.
pub fn unsent_at(bytes_per_s: u64) -> u32 {
    u32::try_from(bytes_per_s.max(UNSENT_LEAST)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_client_is_its_network_and_a_mapped_address_is_that_of_ipv4() {
        let client = |text: &str| Client::of(text.parse().ok());
        assert_eq!(client("2001:db8:0:1::1"), client("2001:db8:0:1:ffff::2"));
        assert_ne!(client("2001:db8:0:1::1"), client("2001:db8:0:2::1"));
        assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
        assert_ne!(client("0.0.0.0"), Client::of(None));
    }
}
