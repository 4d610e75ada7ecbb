//! Connecting as a client does that opens many connections: without waiting, from chosen source
//! addresses, and without taking a port before the destination is known.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// What a socket is given before it connects; each costs a system call per connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectOptions {
    /// The address to connect from; `None` leaves it to the kernel.
    pub source: Option<IpAddr>,
    /// Receive buffer, in bytes; `None` leaves it to the kernel.
    pub receive_buffer: Option<u32>,
    /// Whether small segments are sent at once (TCP_NODELAY).
    pub no_delay: bool,
    /// Whether closing resets the connection and leaves no TIME_WAIT behind (SO_LINGER).
    pub reset_on_close: bool,
}

/// Begins to connect, and does not wait for it. The handshake of the loopback is over when this
/// returns: a first send may be tried at once, and fails with `WouldBlock` while it is not.
///
/// # Errors
/// `EMFILE` and the like when descriptors are out, `AddrNotAvailable` when ports are out or the
/// source is not of this machine, `NetworkUnreachable`.
pub fn start(to: SocketAddr, options: &ConnectOptions) -> io::Result<OwnedFd> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    if let Some(bytes) = options.receive_buffer {
        sockopt::set_socket_recv_buffer_size(&socket, bytes as usize)?;
    }
    if options.no_delay {
        sockopt::set_tcp_nodelay(&socket, true)?;
    }
    if options.reset_on_close {
        sockopt::set_socket_linger(&socket, Some(std::time::Duration::ZERO))?;
    }
    if let Some(source) = options.source {
        // Else bind takes a port for itself that no other destination can share.
        choose_port_late(socket.as_fd())?;
        rustix::net::bind(&socket, &SocketAddr::new(source, 0))?;
    }
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// How connecting ended: to be asked when the socket can be written.
///
/// # Errors
/// `ConnectionRefused`, `TimedOut` and the like.
pub fn outcome(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::socket_error(socket)??)
}

fn choose_port_late(socket: BorrowedFd<'_>) -> io::Result<()> {
    let on: libc::c_int = 1;
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `on` lives across the call and `len` is its size; the kernel only reads it.
    let done = unsafe {
        let (fd, value) = (socket.as_raw_fd(), (&raw const on).cast());
        libc::setsockopt(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, value, len)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net;
    use std::io::Read;
    use std::net::TcpListener;

    #[test]
    fn a_first_send_needs_no_wait_on_the_loopback_and_comes_from_the_source() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let source = Some("127.0.0.9".parse().unwrap());
        let options = ConnectOptions { source, no_delay: true, ..ConnectOptions::default() };
        let socket = start(listener.local_addr().unwrap(), &options).unwrap();
        assert_eq!(net::send(&socket, b"x", false).unwrap(), 1);
        let (mut accepted, peer) = listener.accept().unwrap();
        assert_eq!(peer.ip().to_string(), "127.0.0.9");
        assert_eq!(accepted.read(&mut [0; 4]).unwrap(), 1);
        outcome(&socket).unwrap();
    }

    #[test]
    fn a_refusal_and_a_source_of_others_are_told() {
        // Nobody listens there, and nobody else is given it.
        let held = net::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
        let address = net::local_address(&held).unwrap();
        let socket = start(address, &ConnectOptions::default()).unwrap();
        assert!(net::wait_writable(&socket, 10_000).unwrap());
        assert_eq!(outcome(&socket).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let source = Some("192.0.2.1".parse().unwrap());
        let options = ConnectOptions { source, ..ConnectOptions::default() };
        let error = start(address, &options).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
    }

    #[test]
    fn closing_may_reset() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let options = ConnectOptions {
            reset_on_close: true,
            receive_buffer: Some(4096),
            ..ConnectOptions::default()
        };
        let socket = start(listener.local_addr().unwrap(), &options).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        drop(socket);
        let error = accepted.read(&mut [0; 4]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }
}
