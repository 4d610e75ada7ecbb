//! Networks of addresses, such as `10.0.0.0/8` (RFC 4632, section 3.1; RFC 4291, section 2.3), and
//! `unix`, which is all that have no address.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::remote::Remote;

/// Clients that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Network {
    /// Those of these addresses.
    Ip(Block),
    /// Those that have no address: they come over a Unix-domain socket.
    Unix,
}

/// All addresses that begin with the same bits. Never IPv4 addresses mapped into IPv6: those are
/// IPv4 here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// What a valid network looks like.
    pub const FORM: &str = "an address, a network such as 10.0.0.0/8 or fd00::/8, or unix";

    /// Whether a client is one of them.
    pub fn contains(&self, client: Remote) -> bool {
        match (self, client) {
            (Network::Ip(block), Remote::Ip(address)) => block.contains(address),
            (Network::Unix, Remote::Unix) => true,
            _ => false,
        }
    }
}

impl Block {
    /// The network that `address` lies in whose first `prefix` bits are given; `None` when the
    /// address has fewer bits, or has bits set beyond these.
    fn new(address: IpAddr, prefix: u8) -> Option<Block> {
        let (bits, width) = bits_of(address);
        let block = Block { address, prefix };
        (u32::from(prefix) <= width && bits & block.mask(width) == bits).then_some(block)
    }

    /// Whether this address lies in it.
    fn contains(&self, address: IpAddr) -> bool {
        let (own, width) = bits_of(self.address);
        let (other, other_width) = bits_of(address.to_canonical());
        width == other_width && (own ^ other) & self.mask(width) == 0
    }

    fn mask(&self, width: u32) -> u128 {
        let rest = width.saturating_sub(u32::from(self.prefix));
        let ones = if width == 128 { u128::MAX } else { (1 << width) - 1 };
        ones & u128::MAX.checked_shl(rest).unwrap_or(0)
    }
}

/// The bits of an address, and how many it has.
fn bits_of(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    }
}

impl FromStr for Network {
    type Err = ();

    /// Reads an address, which is a network of one, or an address, a slash and a number of bits; or
    /// `unix`.
    fn from_str(text: &str) -> Result<Network, ()> {
        if text == Remote::UNIX {
            return Ok(Network::Unix);
        }
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(drop)?;
        let prefix = match prefix {
            None => bits_of(address).1 as u8,
            Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
                digits.parse().map_err(drop)?
            }
            Some(_) => return Err(()),
        };
        // A mapped address is never met.
        if address.to_canonical() != address {
            return Err(());
        }
        Block::new(address, prefix).map(Network::Ip).ok_or(())
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Network::Ip(Block { address, prefix }) => write!(f, "{address}/{prefix}"),
            Network::Unix => f.write_str(Remote::UNIX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_network_holds_the_addresses_that_begin_with_its_bits() {
        for (network, address, inside) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("0.0.0.0/0", "255.255.255.255", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "1.2.3.4", false),
            ("fd00::/8", "fdff::1", true),
            ("fd00::/8", "fe80::1", false),
            ("::1", "::1", true),
            ("2001:db8::/33", "2001:db8:7fff::", true),
            ("2001:db8::/33", "2001:db8:8000::", false),
        ] {
            let read: Network = network.parse().unwrap();
            let client = Remote::Ip(address.parse().unwrap());
            assert_eq!(read.contains(client), inside, "{network} {address}");
            assert!(!read.contains(Remote::Unix), "{network}");
        }
    }

    #[test]
    fn those_without_an_address_are_a_network_of_their_own() {
        let unix: Network = "unix".parse().unwrap();
        assert!(unix.contains(Remote::Unix));
        for address in ["0.0.0.0", "::", "127.0.0.1"] {
            assert!(!unix.contains(Remote::Ip(address.parse().unwrap())), "{address}");
        }
        assert_eq!(unix.to_string(), "unix");
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "",
            "/",
            "/8",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/256",
            "10.0.0.1/8",
            "::/129",
            "fd00::1/8",
            "::ffff:10.0.0.0/104",
            "localhost",
            "unix:",
            "unix/0",
            "10.0.0",
            "10.0.0.0/255.0.0.0",
            "10.0.0.0/8/8",
        ] {
            assert_eq!(text.parse::<Network>(), Err(()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(bits: u128, prefix in 0u8..=128) {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            let address = IpAddr::from(std::net::Ipv6Addr::from_bits(bits & mask));
            prop_assume!(address.to_canonical() == address);
            let network = Network::Ip(Block::new(address, prefix).unwrap());
            prop_assert_eq!(network.to_string().parse(), Ok(network));
            prop_assert!(network.contains(Remote::Ip(address)));
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = text.parse::<Network>();
        }
    }
}
