//! What a program needs that answers many requests: a listening socket that has a name, and what
//! tells whether it has worked lately.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::process::ProcessId;

/// What stands behind the name of a socket that has not its own name yet.
const UNREADY: &str = ".new";

/// A listening Unix-domain socket and its name.
#[derive(Debug)]
pub struct NamedSocket {
    socket: OwnedFd,
    path: PathBuf,
    /// Device and inode of the name.
    identity: (u64, u64),
}

impl NamedSocket {
    /// Listens at `path` for connections of this process's user. A socket that has that name loses
    /// it, and there is no moment at which nobody has it. Calls on the socket wait.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is that of something else; else as bind(2) and rename(2).
    pub fn listen(path: &Path, backlog: i32) -> io::Result<NamedSocket> {
        if fs::symlink_metadata(path).is_ok_and(|known| !known.file_type().is_socket()) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let mut unready = path.as_os_str().to_owned();
        unready.push(UNREADY);
        let unready = PathBuf::from(unready);
        match fs::remove_file(&unready) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let flags = SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        crate::net::bind_unix(&socket, &SocketAddrUnix::new(&unready)?, 0o600)?;
        rustix::net::listen(&socket, backlog)?;
        let known = fs::symlink_metadata(&unready)?;
        fs::rename(&unready, path)?;
        Ok(NamedSocket { socket, path: path.to_owned(), identity: (known.dev(), known.ino()) })
    }

    /// Takes the name away, unless another has it by now. Whoever waits to be accepted is turned
    /// away when the last copy of the socket is closed.
    pub fn unlink(&self) {
        let is_own = fs::symlink_metadata(&self.path)
            .is_ok_and(|known| (known.dev(), known.ino()) == self.identity);
        if is_own {
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Whether nothing has its name any more, so that nobody can connect.
    pub fn has_lost_its_name(&self) -> bool {
        let known = fs::symlink_metadata(&self.path);
        known.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// A copy for another process.
    ///
    /// # Errors
    /// When descriptors are out.
    pub fn copy(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
    }

    /// Whether somebody waits to be accepted. Never blocks.
    pub fn has_waiting(&self) -> bool {
        crate::net::wait_readable(&self.socket, 0).unwrap_or(false)
    }
}

impl AsFd for NamedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Makes a directory that only this process's user may enter; one that is there already must be
/// such a one.
///
/// # Errors
/// `PermissionDenied` when it is somebody else's, or open to others; else as mkdir(2).
pub fn make_private_directory(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let known = fs::symlink_metadata(path)?;
            let own = rustix::process::geteuid().as_raw();
            let is_private = known.is_dir() && known.uid() == own && known.mode() & 0o077 == 0;
            if is_private { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
        }
        made => made,
    }
}

/// Removes a directory that has nothing in it; one that has, or is not there, stays as it is.
pub fn remove_directory(path: &Path) {
    let _ = fs::remove_dir(path);
}

/// A number that changes when a process has worked: the processor time of all its threads and how
/// often its first thread has waited. `None` when it is gone.
pub fn work_of(process: ProcessId) -> Option<u64> {
    let of = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", process.number())).ok();
    let (times, status) = (of("stat")?, of("status")?);
    // The name of the program may hold anything, so that fields are counted from behind it:
    // `utime` and `stime` are 14 and 15 (proc_pid_stat(5)), and the first behind it is 3.
    let fields = times.rsplit_once(')')?.1.split_ascii_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    let waits = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let waits: u64 = waits?.trim().parse().ok()?;
    Some(ticks.wrapping_add(waits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn a_name_passes_from_one_socket_to_the_next_and_only_its_holder_takes_it_away() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let first = NamedSocket::listen(&path, 4).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!first.has_waiting());
        let mut early = UnixStream::connect(&path).unwrap();
        assert!(first.has_waiting());
        let second = NamedSocket::listen(&path, 4).unwrap();
        let _late = UnixStream::connect(&path).unwrap();
        assert!(second.has_waiting());
        first.unlink();
        assert!(path.exists(), "another socket has the name");
        // Who came to the first is still its own.
        let accepting = UnixListener::from(first.copy().unwrap());
        accepting.accept().unwrap().0.write_all(b"x").unwrap();
        early.read_exact(&mut [0]).unwrap();
        assert!(!first.has_lost_its_name());
        second.unlink();
        assert!(!path.exists() && first.has_lost_its_name());
    }

    #[test]
    fn nothing_but_a_socket_loses_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "x").unwrap();
        let refused = NamedSocket::listen(&path, 4).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"x");
    }

    #[test]
    fn a_private_directory_is_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own");
        make_private_directory(&path).unwrap();
        make_private_directory(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(make_private_directory(&path).is_err());
        fs::write(path.join("file"), "x").unwrap();
        remove_directory(&path);
        fs::remove_file(path.join("file")).unwrap();
        remove_directory(&path);
        assert!(!path.exists());
        std::os::unix::fs::symlink("/", &path).unwrap();
        assert!(make_private_directory(&path).is_err());
    }

    #[test]
    fn work_shows_and_rest_does_not() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let id = ProcessId::of(child.id() as i32).unwrap();
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut pass = || {
            input.write_all(b"x").unwrap();
            output.read_exact(&mut [0]).unwrap();
        };
        pass();
        // It answers before it waits again: until then its number may change.
        let settled = || {
            let deadline = crate::clock::monotonic_ms() + 10_000;
            let state = || fs::read_to_string(format!("/proc/{}/stat", id.number())).unwrap();
            while !state().contains(") S ") && crate::clock::monotonic_ms() < deadline {
                std::thread::yield_now();
            }
            work_of(id).unwrap()
        };
        let before = settled();
        assert_eq!(work_of(id), Some(before));
        pass();
        assert_ne!(settled(), before);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(work_of(id), None);
    }
}
