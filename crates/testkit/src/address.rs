//! An address for a program that must be told where to listen.

use std::net::{SocketAddr, TcpListener};

/// An address on the loopback without a listener. Its host is not 127.0.0.1, from where tests
/// connect to servers: between here and the program's `bind`, no connection of another test can be
/// given the port.
///
/// # Panics
/// When no port is free.
pub fn free_address() -> SocketAddr {
    let socket = TcpListener::bind("127.64.0.1:0").expect("a free port");
    socket.local_addr().expect("it is bound")
}
