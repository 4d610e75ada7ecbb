//! Stream sockets: listening, accepting, receiving, sending.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::readiness::Interest;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrUnix,
    SocketFlags, SocketType, sockopt,
};

use crate::clock;
use crate::owned::{Opening, Owned};

mod named;
mod queue;

pub(crate) use named::bind_unix;
pub use named::{
    bind_unix_at, connect_unix, guard_unix, listen_unix, unix_node, unlink_left_unix, unlink_unix,
};
pub use queue::{Age, accept_queue, age, defers, listener_drops, set_accept_queue};

/// An address and port.
pub type Address = SocketAddr;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// An address and port.
    Tcp(Address),
    /// A Unix-domain socket at this path.
    Unix(PathBuf),
}

impl Endpoint {
    /// The address, if it is one.
    pub fn tcp(&self) -> Option<Address> {
        match self {
            Endpoint::Tcp(address) => Some(*address),
            Endpoint::Unix(_) => None,
        }
    }

    /// The path, if it is one.
    pub fn unix(&self) -> Option<&Path> {
        match self {
            Endpoint::Tcp(_) => None,
            Endpoint::Unix(path) => Some(path),
        }
    }
}

impl From<Address> for Endpoint {
    fn from(address: Address) -> Endpoint {
        Endpoint::Tcp(address)
    }
}

impl fmt::Display for Endpoint {
    /// As it is written in settings.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(address) => address.fmt(f),
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// What the sockets accepted from a listening socket inherit from it, at no cost per connection.
#[derive(Clone, Debug, Default)]
pub struct ListenOptions {
    /// Seconds for which the kernel holds a connection back until its first bytes come; 0 is off.
    pub defer_accept_s: u32,
    /// Congestion control; `None` keeps the system's.
    pub congestion: Option<String>,
    /// Time after which a blocking receive or send gives up with `WouldBlock`.
    pub timeout: Option<Duration>,
    /// Whether small segments wait for the acknowledgement of earlier ones (no TCP_NODELAY).
    pub delay: bool,
    /// Send buffer, in bytes; `None` leaves it to the kernel.
    pub send_buffer: Option<u32>,
    /// Receive buffer, in bytes; `None` leaves it to the kernel.
    pub receive_buffer: Option<u32>,
    /// Most bytes that a connection sends in a second; `None` is as many as it can.
    pub pacing: Option<u64>,
}

/// Most free ports that are tried when any will do.
const FREE_PORT_TRIES: u32 = 16;

/// Binds a TCP socket, without `SO_REUSEPORT` unless `share` is set. Nothing listens yet.
///
/// # Errors
/// `AddrInUse` when the port is taken, `AddrNotAvailable`, `PermissionDenied`.
pub fn bind(address: Address, share: bool) -> io::Result<OwnedFd> {
    // A port that the kernel chose is lost when the socket stops listening; one that was asked for
    // is kept. So a free port is found first, and then asked for.
    let mut tries = 0;
    while address.port() == 0 {
        tries += 1;
        let found = local_address(bind_once(address, share)?)?;
        match bind_once(found, share) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries < FREE_PORT_TRIES => {}
            bound => return bound,
        }
    }
    bind_once(address, share)
}

/// All interfaces are those of IPv4 where the machine has no IPv6.
fn bind_once(address: Address, share: bool) -> io::Result<OwnedFd> {
    match bind_family(address, share) {
        Err(error)
            if address.is_ipv6() && has_no_family(&error) && address.ip().is_unspecified() =>
        {
            bind_family((Ipv4Addr::UNSPECIFIED, address.port()).into(), share)
        }
        bound => bound,
    }
}

fn has_no_family(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EAFNOSUPPORT)
}

fn bind_family(address: Address, share: bool) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        // `[::]` serves IPv4 too, as mapped addresses.
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    if share {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

/// Lets further sockets bind to the same port (`SO_REUSEPORT`).
///
/// # Errors
/// When the kernel refuses the option.
pub fn share_port(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_socket_reuseport(socket, true)?)
}

/// Sets the options that accepted sockets inherit, then listens. Those that a Unix-domain socket
/// accepts inherit none: it has the time-out alone.
///
/// # Errors
/// When the kernel refuses an option, such as a congestion control that it does not have.
pub fn listen(socket: impl AsFd, backlog: u32, options: &ListenOptions) -> io::Result<()> {
    let socket = socket.as_fd();
    if !is_unix(socket) {
        // Two processes that stop it, one after the other, leave it shut down: listen(2) does not
        // take that back, and what it accepts would be at its end at once. To disconnect it does.
        if !sockopt::socket_acceptconn(socket)? {
            let _ = rustix::net::connect_unspec(socket);
        }
        prepare_connections(socket, options)?;
    }
    if options.timeout.is_some() {
        sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, options.timeout)?;
        sockopt::set_socket_timeout(socket, sockopt::Timeout::Send, options.timeout)?;
    }
    Ok(rustix::net::listen(socket, i32::try_from(backlog).unwrap_or(i32::MAX))?)
}

/// Sets what belongs to TCP.
fn prepare_connections(socket: BorrowedFd<'_>, options: &ListenOptions) -> io::Result<()> {
    sockopt::set_tcp_nodelay(socket, !options.delay)?;
    if let Some(bytes) = options.send_buffer {
        sockopt::set_socket_send_buffer_size(socket, bytes as usize)?;
    }
    if let Some(bytes) = options.receive_buffer {
        sockopt::set_socket_recv_buffer_size(socket, bytes as usize)?;
    }
    // It may have listened before, with other options.
    set_pacing(socket, options.pacing.unwrap_or(u64::MAX))?;
    set_unsent(socket, options.pacing.map_or(0, crate::clients::unsent_at))?;
    if let Some(name) = &options.congestion {
        sockopt::set_tcp_congestion(socket, name)?;
    }
    set_tcp_option(socket, libc::TCP_DEFER_ACCEPT, options.defer_accept_s)
}

/// Bounds the bytes that a connection sends in a second (`SO_MAX_PACING_RATE`); `u64::MAX` takes
/// the bound away. TCP spreads its segments over time by itself, whatever the queueing discipline
/// of the device.
///
/// # Errors
/// When the connection has gone.
pub fn set_pacing(socket: impl AsFd, bytes_per_s: u64) -> io::Result<()> {
    let socket = socket.as_fd();
    let len = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the value lives across the call and `len` is its size; the kernel only reads it.
    let done = unsafe {
        let value = (&raw const bytes_per_s).cast();
        let (fd, option) = (socket.as_raw_fd(), libc::SO_MAX_PACING_RATE);
        libc::setsockopt(fd, libc::SOL_SOCKET, option, value, len)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Bounds the bytes that a connection takes and has not begun to send (`TCP_NOTSENT_LOWAT`), give
/// or take a segment; 0 takes the bound away.
///
/// # Errors
/// When the connection has gone, or is none of TCP.
pub fn set_unsent(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    set_tcp_option(socket.as_fd(), libc::TCP_NOTSENT_LOWAT, bytes)
}

/// Holds short segments back until it is called with false (`TCP_CORK`); the kernel lets them go
/// after 200 ms. A Unix-domain socket has no segments.
///
/// # Errors
/// When the connection has gone.
pub fn set_cork(socket: impl AsFd, corked: bool) -> io::Result<()> {
    match sockopt::set_tcp_cork(socket, corked) {
        Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
        set => Ok(set?),
    }
}

/// Acknowledges what was received now, not by what is sent next or 40 ms later (`TCP_QUICKACK`).
///
/// # Errors
/// When the connection has gone, or is none of TCP.
pub fn acknowledge(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_tcp_quickack(socket, true)?)
}

/// Lets calls on the socket wait, or makes them fail with `WouldBlock` instead (`O_NONBLOCK`).
/// Accepted sockets do not inherit it.
///
/// # Errors
/// Never, in practice.
pub fn set_nonblocking(socket: impl AsFd, on: bool) -> io::Result<()> {
    let flags = if on { rustix::fs::OFlags::NONBLOCK } else { rustix::fs::OFlags::empty() };
    Ok(rustix::fs::fcntl_setfl(socket, flags)?)
}

/// A pair of connected streams within this machine, closed at the next exec.
///
/// # Errors
/// When descriptors are out.
pub fn stream_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (family, kind) = (rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM);
    Ok(rustix::net::socketpair(family, kind, rustix::net::SocketFlags::CLOEXEC, None)?)
}

/// Makes closing reset the connection and drop what is not yet sent (`SO_LINGER` of no time).
///
/// # Errors
/// Never, in practice.
pub fn reset_on_close(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(socket, Some(Duration::ZERO))?)
}

/// Makes a listening socket, of those that share its port, the one for connections whose packets
/// `cpu` took in (`SO_INCOMING_CPU`).
///
/// # Errors
/// When the kernel refuses the option.
pub fn prefer_cpu(socket: impl AsFd, cpu: u32) -> io::Result<()> {
    Ok(sockopt::set_socket_incoming_cpu(socket, cpu)?)
}

/// Whether sockets may have the congestion control of this name (`TCP_CONGESTION`). For the
/// superuser the kernel may load a module for it.
///
/// # Errors
/// `NotFound` when there is none, `PermissionDenied` when only the superuser may have it.
pub fn try_congestion(name: &str) -> io::Result<()> {
    let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    Ok(sockopt::set_tcp_congestion(socket, name)?)
}

/// Refuses new connections, for every process that holds the socket; what is in the accept queue is
/// reset. [`listen`] takes it back.
pub fn stop_listening(socket: impl AsFd) {
    // It fails only when the socket does not listen.
    let _ = rustix::net::shutdown(socket, Shutdown::Both);
}

/// Drops the packets of whoever connects to a listening socket from now on, as if they were lost:
/// what is in its accept queue can be accepted, and nothing is added (`SO_ATTACH_FILTER`).
pub fn ignore_newcomers(socket: impl AsFd) {
    let mut drop_all =
        libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut drop_all };
    let len = size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: the program and its one instruction live across the call, which copies them.
    // It fails only for want of memory; newcomers are then refused a moment later.
    unsafe {
        let value = (&raw const program).cast();
        let (fd, option) = (socket.as_fd().as_raw_fd(), libc::SO_ATTACH_FILTER);
        libc::setsockopt(fd, libc::SOL_SOCKET, option, value, len);
    }
}

/// Waits until nothing is left in the accept queues of these sockets, whoever accepts, at most
/// `timeout_ms`. The kernel does not tell; they are looked at every millisecond. Blocks.
pub fn wait_for_accepts(sockets: &[impl AsFd], timeout_ms: u64) {
    let until_ms = clock::monotonic_ms() + timeout_ms;
    let waits = |socket: &_| accept_queue(socket).is_ok_and(|(length, _)| length > 0);
    while sockets.iter().any(waits) && clock::monotonic_ms() < until_ms {
        let moment = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        let _ = poll(&mut [], Some(&moment));
    }
}

/// Takes [`ignore_newcomers`] back.
pub fn admit_newcomers(socket: impl AsFd) {
    let nothing = 0i32;
    // SAFETY: the kernel reads an integer that lives across the call. It fails where there is no
    // filter, which is as well.
    unsafe {
        let (fd, option) = (socket.as_fd().as_raw_fd(), libc::SO_DETACH_FILTER);
        let len = size_of::<i32>() as libc::socklen_t;
        libc::setsockopt(fd, libc::SOL_SOCKET, option, (&raw const nothing).cast(), len);
    }
}

fn set_tcp_option(socket: BorrowedFd<'_>, option: i32, value: u32) -> io::Result<()> {
    let value = i32::try_from(value).unwrap_or(i32::MAX);
    let len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: `value` lives across the call and `len` is its size; the kernel only reads it.
    let done = unsafe {
        let value = (&raw const value).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, option, value, len)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Connects to an address; connecting, and each call on the socket, waits for `timeout` at most.
///
/// # Errors
/// `ConnectionRefused`, `TimedOut`, unreachable.
pub fn connect(address: Address, timeout: Duration) -> io::Result<OwnedFd> {
    let socket = OwnedFd::from(std::net::TcpStream::connect_timeout(&address, timeout)?);
    set_timeout(&socket, timeout)?;
    Ok(socket)
}

/// Begins to connect to a server, without waiting: once the socket can be written,
/// [`connected`] tells what came of it. Calls on it return `WouldBlock` instead of waiting.
///
/// # Errors
/// `WouldBlock` when the queue of a server at a Unix-domain socket is full; `NotFound`,
/// `ConnectionRefused`, `PermissionDenied` and the like.
pub fn begin_to_connect(server: &Endpoint) -> io::Result<Owned> {
    use rustix::io::Errno;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket =
        |family| Owned::open(|| rustix::net::socket_with(family, SocketType::STREAM, flags, None));
    let (socket, begun) = match server {
        Endpoint::Unix(path) => {
            let socket = socket(AddressFamily::UNIX)?;
            let begun = rustix::net::connect(&socket, &SocketAddrUnix::new(path)?);
            (socket, begun)
        }
        Endpoint::Tcp(address) => {
            let v4 = address.is_ipv4();
            let socket = socket(if v4 { AddressFamily::INET } else { AddressFamily::INET6 })?;
            sockopt::set_tcp_nodelay(&socket, true)?;
            let begun = rustix::net::connect(&socket, address);
            (socket, begun)
        }
    };
    match begun {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// Whether what is at this path is a Unix-domain socket; `None` when nothing is to be found there.
/// Blocks on the disk.
pub fn is_socket_at(path: &Path) -> Option<bool> {
    use std::os::unix::fs::FileTypeExt;
    Some(std::fs::metadata(path).ok()?.file_type().is_socket())
}

/// Whether this thread may connect to the Unix-domain socket at this path, by its rights to files
/// at the moment. Blocks on the disk.
///
/// # Errors
/// Why not: `PermissionDenied` and the like.
pub fn may_connect(path: &Path) -> io::Result<()> {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    Ok(accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS)?)
}

/// What came of connecting a socket that can be written.
///
/// # Errors
/// Why it is not connected: `ConnectionRefused` and the like.
pub fn connected(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::socket_error(socket)??)
}

/// Looks whether there is something to be received, without taking it: `None` when nothing is there
/// yet, `Some(false)` at the end of the stream or when the socket has failed. Never blocks.
pub fn has_input(socket: impl AsFd) -> Option<bool> {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match rustix::net::recv(socket, &mut [0u8; 1][..], flags) {
        Ok((_, n)) => Some(n > 0),
        Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => None,
        Err(_) => Some(false),
    }
}

/// Who is at the other end of a Unix-domain socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its user, when it connected.
    pub user: u32,
    /// Its process then; 0 when that is in another namespace.
    pub process: i32,
}

/// Who connected to this Unix-domain socket, as the kernel knows it (SO_PEERCRED in unix(7)).
///
/// # Errors
/// When it is no such socket.
pub fn peer(socket: impl AsFd) -> io::Result<Peer> {
    // A namespace in which the process has no number makes it 0, which is none of rustix's.
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `len` bytes to `found`, which is that long and plain
    // numbers.
    let answer = unsafe {
        let found = (&raw mut found).cast();
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, found, &raw mut len)
    };
    match answer {
        0 => Ok(Peer { user: found.uid, process: found.pid }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether this is a Unix-domain socket.
pub fn is_unix(socket: impl AsFd) -> bool {
    sockopt::socket_domain(socket).is_ok_and(|domain| domain == AddressFamily::UNIX)
}

/// Where a socket is bound, by the name that it was bound by.
///
/// # Errors
/// When that is neither an address nor a path.
pub fn local_endpoint(socket: impl AsFd) -> io::Result<Endpoint> {
    let socket = socket.as_fd();
    if !is_unix(socket) {
        return local_address(socket).map(Endpoint::Tcp);
    }
    let address = SocketAddrUnix::try_from(rustix::net::getsockname(socket)?)?;
    let path = address.path_bytes().ok_or(io::ErrorKind::AddrNotAvailable)?;
    Ok(Endpoint::Unix(PathBuf::from(OsStr::from_bytes(path))))
}

/// The address that a socket is bound to.
///
/// # Errors
/// When it is not an IP socket.
pub fn local_address(socket: impl AsFd) -> io::Result<Address> {
    Ok(SocketAddr::try_from(rustix::net::getsockname(socket)?)?)
}

/// The address of the other end; unspecified when its family has none.
///
/// # Errors
/// When the other end has reset the connection, though what came before that can still be read.
pub fn peer_address(socket: impl AsFd) -> io::Result<Address> {
    let peer = rustix::net::getpeername(socket)?;
    let peer = peer.and_then(|address| SocketAddr::try_from(address).ok());
    Ok(peer.unwrap_or_else(no_address))
}

/// The address of nobody.
pub fn no_address() -> Address {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0)
}

/// Accepts one connection. Blocks when the listening socket does.
///
/// # Errors
/// `WouldBlock` when the queue is empty; `EMFILE` and `ENFILE` when descriptors are out;
/// `ECONNABORTED` and the like when the peer has gone, which are no reason to stop.
pub fn accept(listener: impl AsFd, nonblocking: bool) -> io::Result<(Owned, Address)> {
    accept_within(&Opening::begin(), listener, nonblocking)
}

/// As [`accept`], one of several.
///
/// # Errors
/// The same.
pub fn accept_within(
    opening: &Opening,
    listener: impl AsFd,
    nonblocking: bool,
) -> io::Result<(Owned, Address)> {
    let mut flags = SocketFlags::CLOEXEC;
    flags.set(SocketFlags::NONBLOCK, nonblocking);
    let (socket, address) = rustix::net::acceptfrom_with(listener, flags)?;
    let peer = address.and_then(|address| SocketAddr::try_from(address).ok());
    Ok((opening.own(socket), peer.unwrap_or_else(no_address)))
}

/// True when an accept failed because descriptors or memory are out, so that trying again at once
/// is useless.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

/// True when an accept failed because the socket does not listen, so that trying again at once is
/// useless: another process may have called [`stop_listening`].
pub fn is_not_listening(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINVAL)
}

/// Receives into `buffer`; 0 is the end of the stream. Blocks when the socket does.
///
/// # Errors
/// `WouldBlock`, `ConnectionReset` and the like.
pub fn recv(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (received, _) = rustix::net::recv(socket, buffer, RecvFlags::empty())?;
    Ok(received)
}

/// Receives what is there into `buffer`; never blocks, even where the socket does.
///
/// # Errors
/// As [`recv`].
pub fn recv_now(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (received, _) = rustix::net::recv(socket, buffer, RecvFlags::DONTWAIT)?;
    Ok(received)
}

/// Sends one buffer; `more` says that more follows at once, so that a short segment waits for it.
///
/// # Errors
/// `WouldBlock`, `BrokenPipe`, `ConnectionReset` and the like; never a SIGPIPE.
pub fn send(socket: impl AsFd, buffer: &[u8], more: bool) -> io::Result<usize> {
    Ok(rustix::net::send(socket, buffer, send_flags(more))?)
}

/// Gathers several buffers into one send.
///
/// # Errors
/// As [`send`].
pub fn send_gather(socket: impl AsFd, slices: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
    if let [slice] = slices {
        return send(socket, slice, more);
    }
    let mut control = SendAncillaryBuffer::default();
    Ok(rustix::net::sendmsg(socket, slices, &mut control, send_flags(more))?)
}

/// As [`send_gather`], but never blocks, whatever the socket does otherwise.
///
/// # Errors
/// As [`send`].
pub fn send_gather_now(socket: impl AsFd, slices: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
    let flags = send_flags(more) | SendFlags::DONTWAIT;
    if let [slice] = slices {
        return Ok(rustix::net::send(socket, slice, flags)?);
    }
    let mut control = SendAncillaryBuffer::default();
    Ok(rustix::net::sendmsg(socket, slices, &mut control, flags)?)
}

fn send_flags(more: bool) -> SendFlags {
    let mut flags = SendFlags::NOSIGNAL;
    flags.set(SendFlags::MORE, more);
    flags
}

/// Waits until a socket can be read or written, at most `timeout_ms`; which of the two it can.
/// Blocks.
///
/// # Errors
/// When the kernel refuses the wait; an interrupting signal is no error.
pub fn wait_either(socket: impl AsFd, timeout_ms: u64) -> io::Result<(bool, bool)> {
    let found = wait_for(socket, PollFlags::IN | PollFlags::OUT, timeout_ms)?;
    let over = found.intersects(PollFlags::HUP | PollFlags::ERR);
    Ok((found.contains(PollFlags::IN) || over, found.contains(PollFlags::OUT) || over))
}

/// Waits until a descriptor can be read or is at its end, at most `timeout_ms`; whether that is so.
/// Blocks.
///
/// # Errors
/// When the kernel refuses the wait; an interrupting signal is no error.
pub fn wait_readable(fd: impl AsFd, timeout_ms: u64) -> io::Result<bool> {
    Ok(!wait_for(fd, PollFlags::IN, timeout_ms)?.is_empty())
}

/// Waits until the other end of a pipe or a socket is closed, at most `timeout_ms`; whether that is
/// so. Blocks.
///
/// # Errors
/// When the kernel refuses the wait; an interrupting signal is no error.
pub fn wait_closed(fd: impl AsFd, timeout_ms: u64) -> io::Result<bool> {
    Ok(!wait_for(fd, PollFlags::empty(), timeout_ms)?.is_empty())
}

/// Waits until a descriptor can be written or has failed, at most `timeout_ms`; whether that is so.
/// Blocks.
///
/// # Errors
/// When the kernel refuses the wait; an interrupting signal is no error.
pub fn wait_writable(fd: impl AsFd, timeout_ms: u64) -> io::Result<bool> {
    Ok(!wait_for(fd, PollFlags::OUT, timeout_ms)?.is_empty())
}

/// Waits until the socket has failed or ended in both directions, at most `timeout_ms`; false when
/// it has not. Blocks.
///
/// # Errors
/// When the kernel refuses the wait; an interrupting signal is no error.
pub fn wait_for_failure(fd: impl AsFd, timeout_ms: u64) -> io::Result<bool> {
    Ok(!wait_for(fd, PollFlags::empty(), timeout_ms)?.is_empty())
}

/// Waits for two descriptors at once, each for what is said, at most `timeout_ms`; whether
/// something is to be told of each: what it is waited for, its end, or that it has failed. Blocks.
///
/// # Errors
/// When the kernel refuses the wait; an interrupting signal is no error.
pub fn wait_for_two(
    two: [(BorrowedFd<'_>, Interest); 2],
    timeout_ms: u64,
) -> io::Result<[bool; 2]> {
    let flags = |interest: Interest| {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, interest.read);
        flags.set(PollFlags::OUT, interest.write);
        flags
    };
    let mut fds = two.map(|(fd, interest)| PollFd::from_borrowed_fd(fd, flags(interest)));
    let limit = Timespec {
        tv_sec: i64::try_from(timeout_ms / 1000).unwrap_or(i64::MAX),
        tv_nsec: (timeout_ms % 1000 * 1_000_000) as i64,
    };
    match poll(&mut fds, Some(&limit)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(fds.map(|fd| !fd.revents().is_empty())),
        Err(error) => Err(error.into()),
    }
}

fn wait_for(fd: impl AsFd, events: PollFlags, timeout_ms: u64) -> io::Result<PollFlags> {
    let mut fds = [PollFd::new(&fd, events)];
    let limit = Timespec {
        tv_sec: i64::try_from(timeout_ms / 1000).unwrap_or(i64::MAX),
        tv_nsec: (timeout_ms % 1000 * 1_000_000) as i64,
    };
    match poll(&mut fds, Some(&limit)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(fds[0].revents()),
        Err(error) => Err(error.into()),
    }
}

/// Shuts down the write side: the peer reads the end of the stream after what was sent.
///
/// # Errors
/// When the socket is not connected any more.
pub fn shutdown_write(socket: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::shutdown(socket, Shutdown::Write)?)
}

/// Shuts down both sides: operations under way on the socket end.
///
/// # Errors
/// When the socket is not connected any more.
pub fn shutdown_both(socket: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::shutdown(socket, Shutdown::Both)?)
}

/// Limits how long a blocking receive or send may wait.
///
/// # Errors
/// Never, in practice.
pub fn set_timeout(socket: impl AsFd, timeout: Duration) -> io::Result<()> {
    let socket = socket.as_fd();
    sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, Some(timeout))?;
    Ok(sockopt::set_socket_timeout(socket, sockopt::Timeout::Send, Some(timeout))?)
}

/// Bytes sent but not yet acknowledged by the peer (SIOCOUTQ); 0 when the kernel does not tell, and
/// when the connection has failed, so that they never will be.
pub fn unacknowledged(socket: impl AsFd) -> u64 {
    let queued = untaken(&socket);
    let has_failed = || wait_for_failure(&socket, 0).unwrap_or(true);
    if queued > 0 && has_failed() { 0 } else { queued }
}

/// The same, also when the connection has failed: what its peer has never acknowledged. The end of
/// the stream counts as a byte once it is sent.
pub fn untaken(socket: impl AsFd) -> u64 {
    let mut queued: libc::c_int = 0;
    // SAFETY: TIOCOUTQ (SIOCOUTQ) writes one int through the pointer, which points at `queued`.
    let done = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut queued) };
    if done == 0 { u64::try_from(queued).unwrap_or(0) } else { 0 }
}

#[cfg(test)]
mod tests;
