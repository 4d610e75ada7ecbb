//! What the kernel knows of an accept queue, and of a connection that waited in it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::net::sockopt;

use super::{is_unix, wait_readable};

/// How long a connection has been there, to a tick of the kernel: 4 ms at 250 a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Age {
    /// Milliseconds since something was sent on it; where nothing was yet, as on a socket that was
    /// just accepted, since it was established. With deferral that is when its first bytes came.
    pub queued_ms: u32,
    /// Milliseconds since bytes came from its client; where none did, since it was established.
    pub silent_ms: u32,
    /// Whether any did (Linux 4.6).
    pub has_said: bool,
    /// Whether its client has sent all that it will send.
    pub half_closed: bool,
}

/// How old the connection of a socket is, by one call (`TCP_INFO`). `None` where the kernel does
/// not tell: at a Unix-domain socket, and when there is no connection.
pub fn age(socket: impl AsFd) -> Option<Age> {
    const CLOSE_WAIT: u8 = 8;
    let info = tcp_info(socket.as_fd()).ok()?;
    let half_closed = info.state() == CLOSE_WAIT;
    Some(Age {
        queued_ms: info.0[TcpInfo::LAST_DATA_SENT],
        silent_ms: info.0[TcpInfo::LAST_DATA_RECV],
        has_said: info.0[TcpInfo::DATA_SEGS_IN] > 0,
        half_closed,
    })
}

/// Length and limit of the accept queue of a listening socket, from `TCP_INFO`.
///
/// # Errors
/// When `socket` is no listening socket.
pub fn accept_queue(socket: impl AsFd) -> io::Result<(u32, u32)> {
    let socket = socket.as_fd();
    if is_unix(socket) {
        // Of these the kernel tells only whether there is one.
        return Ok((u32::from(wait_readable(socket, 0)?), u32::MAX));
    }
    let info = tcp_info(socket)?;
    Ok((info.0[TcpInfo::UNACKED], info.0[TcpInfo::SACKED]))
}

/// Changes the length of the accept queue of a listening socket. One that listens no more stays so.
///
/// # Errors
/// When it listens no more, or the kernel refuses.
pub fn set_accept_queue(socket: impl AsFd, length: u32) -> io::Result<()> {
    if !sockopt::socket_acceptconn(&socket)? {
        return Err(io::ErrorKind::NotConnected.into());
    }
    Ok(rustix::net::listen(socket, i32::try_from(length).unwrap_or(i32::MAX))?)
}

/// How often a listening socket has dropped a packet since it was made (`SO_MEMINFO`); it starts
/// again at 2^32. Without deferral that is above all because its accept queue was full; with it
/// ([`defers`]) also the end of each handshake. A client that tries again is dropped again: these
/// are not clients.
///
/// # Errors
/// When the kernel does not tell (before Linux 4.12).
pub fn listener_drops(socket: impl AsFd) -> io::Result<u32> {
    // The last of the kernel's SK_MEMINFO_VARS.
    const DROPS: usize = 8;
    let words: [u32; DROPS + 1] = words(socket.as_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO)?;
    Ok(words[DROPS])
}

/// Whether a listening socket keeps connections back until bytes came on them
/// (`TCP_DEFER_ACCEPT`).
///
/// # Errors
/// When `socket` is none of TCP.
pub fn defers(socket: impl AsFd) -> io::Result<bool> {
    let [seconds] = words(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT)?;
    Ok(seconds != 0)
}

/// The beginning of the kernel's `struct tcp_info`, in words.
struct TcpInfo([u32; 39]);

impl TcpInfo {
    /// On a listening socket the length of its accept queue.
    const UNACKED: usize = 6;
    /// On a listening socket the limit of its accept queue.
    const SACKED: usize = 7;
    const LAST_DATA_SENT: usize = 11;
    const LAST_DATA_RECV: usize = 13;
    const DATA_SEGS_IN: usize = 38;

    /// `tcpi_state`, the first byte.
    fn state(&self) -> u8 {
        self.0[0].to_ne_bytes()[0]
    }
}

fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    words(socket, libc::IPPROTO_TCP, libc::TCP_INFO).map(TcpInfo)
}

/// What getsockopt(2) writes; zeros where it writes less.
fn words<const N: usize>(socket: BorrowedFd<'_>, level: i32, option: i32) -> io::Result<[u32; N]> {
    let mut found = [0u32; N];
    let mut len = size_of_val(&found) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `found`, of which any value is one, and
    // updates `len`.
    let done = unsafe {
        let value = found.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), level, option, value, &raw mut len)
    };
    if done == 0 { Ok(found) } else { Err(io::Error::last_os_error()) }
}
