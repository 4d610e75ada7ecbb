//! Addresses to listen on.

use std::fmt;

use flyball_sys::net::Address;

use super::Settings;

/// An address to listen on, and what is spoken and served there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The address.
    pub address: Address,
    /// Whether clients speak TLS there.
    pub tls: bool,
    /// The hosts that are served there, as sites have them; none is all.
    pub hosts: Vec<String>,
}

impl From<Address> for Listen {
    /// All hosts, in the clear.
    fn from(address: Address) -> Listen {
        Listen { address, tls: false, hosts: Vec::new() }
    }
}

impl fmt::Display for Listen {
    /// As it is written in settings.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https://" } else { "" };
        write!(f, "{scheme}{}", self.address)
    }
}

impl Settings {
    /// Whether clients speak TLS at any address.
    pub fn speaks_tls(&self) -> bool {
        self.listen.iter().any(|listen| listen.tls)
    }

    /// The lists of hosts that are served at some addresses alone, each once: their numbers begin
    /// at 1.
    pub fn lists_of_hosts(&self) -> Vec<&[String]> {
        let mut lists: Vec<&[String]> = Vec::new();
        for Listen { hosts, .. } in &self.listen {
            if !hosts.is_empty() && !lists.contains(&hosts.as_slice()) {
                lists.push(hosts);
            }
        }
        lists
    }

    /// The number of the list of hosts that are served at an address; 0 is all.
    pub fn number_of_hosts(&self, listen: &Listen) -> u16 {
        let lists = self.lists_of_hosts();
        let at = lists.iter().position(|list| **list == listen.hosts);
        at.and_then(|at| u16::try_from(at + 1).ok()).unwrap_or(0)
    }
}
