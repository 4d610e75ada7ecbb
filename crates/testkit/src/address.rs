//! An address for a program that must be told where to listen.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The ports that are given here: below those that the kernel gives to who asks for any
/// (net.ipv4.ip_local_port_range), so that no other test can get one in between.
const FIRST_PORT: u32 = 10_000;
const PORTS: u32 = 20_000;

/// How many ports were tried in this process.
static TRIED: AtomicU32 = AtomicU32::new(0);

/// An address on the loopback without a listener, which no other call in this process gives. Its
/// host is not 127.0.0.1, from where tests connect to servers.
///
/// # Panics
/// When no port is free.
pub fn free_address() -> SocketAddr {
    // Processes that run at once begin far from each other.
    let first = std::process::id().wrapping_mul(7_919) % PORTS;
    let free = (0..PORTS).find_map(|_| {
        let port = FIRST_PORT + (first + TRIED.fetch_add(1, Relaxed)) % PORTS;
        let address = SocketAddr::from(([127, 64, 0, 1], port as u16));
        TcpListener::bind(address).is_ok().then_some(address)
    });
    free.expect("a free port")
}
