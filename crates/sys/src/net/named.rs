//! Unix-domain sockets by their names in the file system: who may connect, and whose name it is.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::set_timeout;
use crate::node::Node;
use crate::place::Place;

/// A listening Unix-domain socket at `path`, as [`bind_unix_at`] makes it.
///
/// # Errors
/// As [`bind_unix_at`].
pub fn listen_unix(path: &Path, mode: u32, group: u32) -> io::Result<OwnedFd> {
    let socket = bind_unix_at(path, mode, group)?;
    rustix::net::listen(&socket, 16)?;
    Ok(socket)
}

/// A Unix-domain socket at `path`, where it replaces one that no process listens on. Its mode and
/// its group say who may connect. Nothing listens yet. Does not block.
///
/// # Errors
/// `AddrInUse` when another socket listens on `path`, or one of another kind is there; as
/// [`Place::of`] when a directory of it is a link of another user; else as bind(2) and lchown(2).
pub fn bind_unix_at(path: &Path, mode: u32, group: u32) -> io::Result<OwnedFd> {
    let place = Place::of(path)?;
    let address = address_in(&place)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match bind_unix(&socket, &address, mode) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            if !is_left(&address)? {
                return Err(error);
            }
            place.unlink()?;
            bind_unix(&socket, &address, mode)?;
        }
        bound => bound?,
    }
    // Of a link that has taken its place, this changes the link.
    place.change_group(group)?;
    Ok(socket)
}

/// The address of a socket in a directory that is open: by its name it could have become another
/// meanwhile, where others may change it.
fn address_in(place: &Place) -> io::Result<SocketAddrUnix> {
    let directory = format!("/proc/self/fd/{}", place.directory().as_raw_fd());
    Ok(SocketAddrUnix::new(Path::new(&directory).join(place.name()))?)
}

/// Whether no process has a socket any more that was bound there.
fn is_left(address: &SocketAddrUnix) -> io::Result<bool> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    Ok(rustix::net::connect(&probe, address) == Err(rustix::io::Errno::CONNREFUSED))
}

/// Removes the name of a Unix-domain socket that no process has any more. What is something else,
/// or cannot be removed, stays.
pub fn unlink_left_unix(path: &Path) {
    let Ok(place) = Place::of(path) else { return };
    let is_left = || is_left(&address_in(&place)?);
    if place.is_socket() && is_left().unwrap_or(false) {
        let _ = place.unlink();
    }
}

/// Binds a socket whose name has this mode from the beginning: nothing is changed by the name,
/// which another user may have made a link meanwhile. The mask of the process does not count.
///
/// # Errors
/// As bind(2).
pub(crate) fn bind_unix(socket: &OwnedFd, address: &SocketAddrUnix, mode: u32) -> io::Result<()> {
    rustix::fs::fchmod(socket, rustix::fs::Mode::from_raw_mode(mode))?;
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    let bound = rustix::net::bind(socket, address);
    rustix::process::umask(mask);
    Ok(bound?)
}

/// Changes who may connect to the Unix-domain socket at `path`, and returns which file that is: the
/// one that is `known`, or where none is, one that has this mode and group already.
///
/// # Errors
/// As [`Place::of`] and chmod(2); `InvalidInput` when something else is there, `AlreadyExists` when
/// it may be another socket.
pub fn guard_unix(path: &Path, mode: u32, group: u32, known: Option<Node>) -> io::Result<Node> {
    Place::of(path)?.guard_socket(mode, group, known)
}

/// Which file the name of a Unix-domain socket leads to.
///
/// # Errors
/// As [`Place::of`]; when nothing is there.
pub fn unix_node(path: &Path) -> io::Result<Node> {
    Place::of(path)?.node()
}

/// Removes the name of a Unix-domain socket that shall not be found any more, unless it leads to
/// something else than this file by now.
pub fn unlink_unix(path: &Path, own: Node) {
    let is_own = |place: &Place| place.node().is_ok_and(|node| node == own);
    let _ = Place::of(path).map(|place| is_own(&place).then(|| place.unlink()));
}

/// Connects to a Unix-domain socket at `path`; calls on it wait for `timeout` at most.
///
/// # Errors
/// `NotFound`, `ConnectionRefused`, `PermissionDenied`.
pub fn connect_unix(path: &Path, timeout: Duration) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // For the call itself too, which waits for room in the queue.
    set_timeout(&socket, timeout)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}
