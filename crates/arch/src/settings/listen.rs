//! Addresses to listen on.

use std::fmt;

use flyball_sys::net::{Address, Endpoint};

use super::Settings;

/// An address to listen on, and what is spoken and served there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The address, or the path of a Unix-domain socket.
    pub address: Endpoint,
    /// Whether clients speak TLS there.
    pub tls: bool,
    /// The hosts that are served there, as sites have them; none is all.
    pub hosts: Vec<String>,
    /// Who may connect to a Unix-domain socket: its mode.
    pub mode: u32,
    /// The group of that socket, by name or number; `None` leaves that of the process.
    pub group: Option<String>,
}

/// The mode of a Unix-domain socket where none is written.
const MODE: u32 = 0o660;

impl From<Endpoint> for Listen {
    /// All hosts, in the clear.
    fn from(address: Endpoint) -> Listen {
        Listen { address, tls: false, hosts: Vec::new(), mode: MODE, group: None }
    }
}

impl From<Address> for Listen {
    fn from(address: Address) -> Listen {
        Endpoint::Tcp(address).into()
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
