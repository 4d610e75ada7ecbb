//! What a program needs that answers many requests: a listening socket that has a name, and what
//! tells whether it has worked lately.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Stat, fstat, renameat, statat, unlinkat};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::place::Place;
use crate::process::ProcessId;

/// Names that are tried for a socket that has not its own name yet.
const TRIES: usize = 8;

/// As much of the name is part of those.
const NAME_SHOWN_MAX: usize = 48;

/// Digits of the number that no other name has, behind the mark.
const NUMBER_DIGITS: usize = 16;

/// What tells the sockets that are made for one purpose from all others. A socket is bound by a
/// name that holds its mark, and keeps that as its address, whatever name it gets and whatever
/// leads to it. The mark follows from the path and the purpose alone, so that those who connect
/// know it also of a socket that is made later, or by another version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark(String);

impl Mark {
    /// That of the sockets at `path` that lead to what `purpose` says, in parts whose number is the
    /// same for all.
    pub fn of(path: &Path, purpose: &[&[u8]]) -> Mark {
        let parts = [path.as_os_str().as_bytes()].into_iter().chain(purpose.iter().copied());
        // FNV-1a: it is no secret, all that is asked of it is that purposes have different ones.
        // No part holds a NUL.
        let bytes = parts.flat_map(|part| part.iter().chain(&[0]));
        let number = bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Mark(format!(".{number:016x}."))
    }

    /// Whether this socket is connected to one that has been made for the purpose by this process's
    /// user, or by the superuser. The name may have led elsewhere: also to a socket of the same
    /// user.
    ///
    /// # Errors
    /// What it is connected to instead.
    pub fn check(&self, socket: impl AsFd) -> Result<(), &'static str> {
        if !crate::net::peer(&socket).is_ok_and(|peer| is_trusted(peer.user, own())) {
            return Err("its socket is that of another user");
        }
        let address = rustix::net::getpeername(socket).ok().flatten();
        let address = address.and_then(|address| SocketAddrUnix::try_from(address).ok());
        let bound = address.as_ref().and_then(SocketAddrUnix::path_bytes).unwrap_or_default();
        let marked = &bound[..bound.len().saturating_sub(NUMBER_DIGITS)];
        match marked.ends_with(self.0.as_bytes()) {
            true => Ok(()),
            false => Err("its name leads to another socket"),
        }
    }
}

/// The name of a listening Unix-domain socket. It stays when the socket is closed, so that no other
/// user can have it meanwhile: connections are refused then.
#[derive(Debug)]
pub struct SocketName {
    path: PathBuf,
    place: Arc<Place>,
    /// Device and inode of the socket that has it.
    identity: (u64, u64),
}

/// A listening socket that has not its name yet. Where it never gets it, nothing has changed.
#[derive(Debug)]
pub struct Unnamed {
    socket: OwnedFd,
    path: PathBuf,
    /// Where it is bound meanwhile.
    bound: Bound,
    identity: (u64, u64),
}

/// A name that is bound for a while, beside the one that the socket shall have.
#[derive(Debug)]
struct Bound {
    place: Arc<Place>,
    name: OsString,
}

impl Drop for Bound {
    fn drop(&mut self) {
        // Where the socket has got its own, nothing has this name any more.
        let _ = unlinkat(self.place.directory(), &self.name, AtFlags::empty());
    }
}

impl Unnamed {
    /// Listens in the directory of `path` for connections of this process's user, which come once
    /// the socket has its name, and know it by `mark`. Calls on the socket wait.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is that of something else; as [`check_place`]; as
    /// [`Place::of`]; else as bind(2).
    pub fn listen(path: &Path, mark: &Mark, backlog: i32) -> io::Result<Unnamed> {
        // Others connect by the path, whose length has a limit.
        SocketAddrUnix::new(path)?;
        let user = own();
        let place = Place::of(path)?;
        let about = fstat(place.directory())?;
        keeps_names(path, about.st_uid, about.st_mode, user)?;
        let at = place.directory();
        match statat(at, place.name(), AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::NOENT) => {}
            known => is_socket_of(path, &known?, user)?,
        }
        let flags = SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let name = bind(&socket, &place, mark)?;
        let bound = Bound { place: Arc::new(place), name };
        rustix::net::listen(&socket, backlog)?;
        let about = statat(bound.place.directory(), &bound.name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Unnamed { socket, path: path.to_owned(), bound, identity: identity(&about) })
    }

    /// Gives the socket its name. A socket that has that name loses it, and there is no moment at
    /// which it is the name of nothing.
    ///
    /// # Errors
    /// As rename(2).
    pub fn take_name(self) -> io::Result<(OwnedFd, SocketName)> {
        let Unnamed { socket, path, bound, identity } = self;
        let place = Arc::clone(&bound.place);
        renameat(place.directory(), &bound.name, place.directory(), place.name())?;
        Ok((socket, SocketName { path, place, identity }))
    }
}

impl SocketName {
    /// Takes the name away, unless another socket has it by now.
    pub fn unlink(&self) {
        let at = self.place.directory();
        let known = statat(at, self.place.name(), AtFlags::SYMLINK_NOFOLLOW);
        if known.is_ok_and(|known| identity(&known) == self.identity) {
            let _ = self.place.unlink();
        }
    }

    /// Whether its path leads to the socket that was given it.
    pub fn is_held(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|known| (known.dev(), known.ino()) == self.identity)
    }

    /// Whether its path leads to nothing, or to something of another user.
    pub fn is_lost(&self) -> bool {
        match fs::symlink_metadata(&self.path) {
            Ok(known) => !is_trusted(known.uid(), own()),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }
}

/// Binds a socket in the directory of its place, and tells by which name. It holds the mark, and
/// none can be known before, and taken.
fn bind(socket: &OwnedFd, place: &Place, mark: &Mark) -> io::Result<OsString> {
    // By its name a directory that others may change could have become another meanwhile.
    let directory = PathBuf::from(format!("/proc/self/fd/{}", place.directory().as_raw_fd()));
    let shown = place.name().as_bytes();
    let shown = &shown[..shown.len().min(NAME_SHOWN_MAX)];
    let mut tries = 0;
    loop {
        let mut number = [0; 8];
        crate::random::fill(&mut number)?;
        let number = format!("{:0NUMBER_DIGITS$x}", u64::from_ne_bytes(number));
        let name = OsString::from_vec([shown, mark.0.as_bytes(), number.as_bytes()].concat());
        let address = SocketAddrUnix::new(directory.join(&name))?;
        tries += 1;
        match crate::net::bind_unix(socket, &address, 0o600) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries < TRIES => {}
            bound => return bound.map(|()| name),
        }
    }
}

fn own() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn identity(about: &Stat) -> (u64, u64) {
    (about.st_dev, about.st_ino)
}

/// Whether a user may have what this one relies on.
fn is_trusted(owner: u32, user: u32) -> bool {
    owner == 0 || owner == user
}

/// Fails where a socket that this user makes at `path` could lose its name to another user. Blocks
/// on the disk.
///
/// # Errors
/// Who could take the name or has it, and what helps. What is not there is no error.
pub fn check_place(path: &Path, user: u32) -> io::Result<()> {
    if let Some(about) = path.parent().and_then(|directory| fs::metadata(directory).ok()) {
        keeps_names(path, about.uid(), about.mode(), user)?;
    }
    match fs::symlink_metadata(path) {
        Ok(known) if known.file_type().is_socket() && !is_trusted(known.uid(), user) => {
            Err(of_another(known.uid()))
        }
        _ => Ok(()),
    }
}

/// Fails unless no other user can replace a name in the directory of `path`.
fn keeps_names(path: &Path, owner: u32, mode: u32, user: u32) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("")).display();
    let is_sticky = mode & libc::S_ISVTX != 0;
    if !is_trusted(owner, user) {
        return Err(io::Error::other(format!(
            "user {owner}, whose directory {directory} is, could replace the socket: name a \
             directory of root or of the workers' user"
        )));
    }
    if mode & 0o022 != 0 && !is_sticky {
        return Err(io::Error::other(format!(
            "others, who may write to {directory}, could replace the socket: take that right away \
             (chmod go-w), or let users remove only what is their own (chmod +t)"
        )));
    }
    Ok(())
}

fn is_socket_of(path: &Path, known: &Stat, user: u32) -> io::Result<()> {
    use rustix::fs::FileType;
    if FileType::from_raw_mode(known.st_mode) != FileType::Socket {
        let name = path.file_name().unwrap_or(OsStr::new("")).display();
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{name} is no socket")));
    }
    if is_trusted(known.st_uid, user) { Ok(()) } else { Err(of_another(known.st_uid)) }
}

fn of_another(owner: u32) -> io::Error {
    io::Error::other(format!("the name is that of a socket of user {owner}: remove that first"))
}

/// Has a listening socket refuse connections, also where other processes have copies of it.
pub fn refuse(socket: impl AsFd) {
    // It listens, so that this does not fail.
    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
}

/// Whether a connection waits to be accepted. Never blocks.
pub fn has_waiting(socket: impl AsFd) -> bool {
    crate::net::wait_readable(socket, 0).unwrap_or(false)
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

    fn unnamed(path: &Path) -> io::Result<Unnamed> {
        Unnamed::listen(path, &Mark::of(path, &[]), 4)
    }

    fn listen(path: &Path) -> io::Result<(OwnedFd, SocketName)> {
        unnamed(path)?.take_name()
    }

    /// Of this user alone, whatever mask of modes another test has set meanwhile.
    fn own_directory() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
        directory
    }

    #[test]
    fn a_name_passes_from_one_socket_to_the_next_and_only_its_holder_takes_it_away() {
        let directory = own_directory();
        let path = directory.path().join("s");
        let (first, its_name) = listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!has_waiting(&first));
        let mut early = UnixStream::connect(&path).unwrap();
        assert!(has_waiting(&first));
        let (second, name) = listen(&path).unwrap();
        let _late = UnixStream::connect(&path).unwrap();
        assert!(has_waiting(&second));
        its_name.unlink();
        assert!(path.exists(), "another socket has the name");
        // What has connected to the first is still its own.
        let accepting = UnixListener::from(first);
        accepting.accept().unwrap().0.write_all(b"x").unwrap();
        early.read_exact(&mut [0]).unwrap();
        assert!(!its_name.is_lost());
        // Of a socket that refuses the name is there, and no other can be bound to it.
        let _copy = second.try_clone().unwrap();
        refuse(&second);
        drop(second);
        let refused = UnixStream::connect(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(UnixListener::bind(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let names = fs::read_dir(directory.path()).unwrap();
        assert_eq!(names.count(), 1, "no other name is left");
        name.unlink();
        assert!(!path.exists() && name.is_lost());
    }

    #[test]
    fn a_socket_that_never_gets_its_name_leaves_that_of_another_and_no_other_behind() {
        let directory = own_directory();
        let path = directory.path().join("s");
        let names = || fs::read_dir(directory.path()).unwrap().count();
        let (first, name) = listen(&path).unwrap();
        let next = unnamed(&path).unwrap();
        let _early = UnixStream::connect(&path).unwrap();
        assert!(has_waiting(&first) && name.is_held());
        assert_eq!(names(), 2);
        drop(next);
        assert!(names() == 1 && name.is_held());
        let (next, its_name) = listen(&path).unwrap();
        let _late = UnixStream::connect(&path).unwrap();
        assert!(has_waiting(&next) && its_name.is_held() && !name.is_held() && !name.is_lost());
        assert_eq!(names(), 1);
    }

    #[test]
    fn only_sockets_that_were_made_for_a_path_are_taken_for_its_own_wherever_it_leads() {
        let directory = own_directory();
        let at = |name: &str| directory.path().join(name);
        let (path, elsewhere) = (at("s"), "its name leads to another socket");
        let check = || Mark::of(&path, &[]).check(UnixStream::connect(&path).unwrap());
        let _first = listen(&path).unwrap();
        assert_eq!(check(), Ok(()));
        let _next = listen(&path).unwrap();
        assert_eq!(check(), Ok(()));
        // By another name it is the same socket still.
        fs::rename(&path, at("moved")).unwrap();
        std::os::unix::fs::symlink("moved", &path).unwrap();
        assert_eq!(check(), Ok(()));
        let _other = listen(&at("other")).unwrap();
        let _foreign = UnixListener::bind(at("foreign")).unwrap();
        for name in ["other", "foreign"] {
            fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink(name, &path).unwrap();
            assert_eq!(check(), Err(elsewhere), "{name}");
        }
        // A socket without an address, and one that is not connected.
        let (one, _two) = UnixStream::pair().unwrap();
        assert_eq!(Mark::of(&path, &[]).check(one), Err(elsewhere));
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(Mark::of(&path, &[]).check(tcp).is_err());
    }

    #[test]
    fn a_socket_that_has_the_same_name_for_another_purpose_is_another() {
        let directory = own_directory();
        let path = directory.path().join("s");
        let of = |purpose: &[&[u8]]| Mark::of(&path, purpose);
        let ours = of(&[b"a.example", b"/app"]);
        let unnamed = Unnamed::listen(&path, &ours, 4).unwrap();
        let _held = unnamed.take_name().unwrap();
        let check = |mark: Mark| mark.check(UnixStream::connect(&path).unwrap()).is_ok();
        assert!(check(ours));
        for other in [[&b"b.example"[..], b"/app"], [b"a.example", b"/"], [b"a.example/", b"app"]] {
            assert!(!check(of(&other)), "{other:?}");
        }
    }

    #[test]
    fn a_long_name_may_be_as_long_as_an_address() {
        let directory = own_directory();
        let len = |path: &Path| path.as_os_str().len();
        let left = 107 - len(directory.path()) - 1;
        let path = directory.path().join("s".repeat(left));
        let (_socket, _name) = listen(&path).unwrap();
        UnixStream::connect(&path).unwrap();
        let longer = directory.path().join("s".repeat(left + 2));
        assert!(listen(&longer).is_err());
    }

    #[test]
    fn nothing_but_a_socket_loses_its_name() {
        let directory = own_directory();
        let path = directory.path().join("file");
        fs::write(&path, "x").unwrap();
        let refused = listen(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"x");
    }

    #[test]
    fn no_socket_is_where_another_user_could_replace_it() {
        let directory = own_directory();
        let path = directory.path().join("s");
        let refused = |path: &Path| listen(path).unwrap_err().to_string();
        let own = own();
        let mode = |mode| {
            fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode)).unwrap();
        };
        for (bits, holds) in [
            (0o755, true),
            (0o775, false),
            (0o757, false),
            (0o1777, true),
            (0o1775, true),
            (0o700, true),
        ] {
            mode(bits);
            assert_eq!(check_place(&path, own).is_ok(), holds, "{bits:o}");
            assert_eq!(listen(&path).is_ok(), holds, "{bits:o}");
        }
        if !crate::process::is_root() {
            return eprintln!("only the superuser gives files to others: not tested");
        }
        assert!(check_place(&path, 61_001).is_ok(), "a socket of the superuser may be replaced");
        let (_socket, name) = listen(&path).unwrap();
        std::os::unix::fs::chown(&path, Some(61_001), None).unwrap();
        assert!(name.is_lost());
        assert!(refused(&path).contains("a socket of user 61001"), "{}", refused(&path));
        assert!(check_place(&path, own).is_err() && check_place(&path, 61_001).is_ok());
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::chown(directory.path(), Some(61_001), None).unwrap();
        assert!(refused(&path).contains("user 61001, whose directory"), "{}", refused(&path));
        assert!(check_place(&path, own).is_err() && check_place(&path, 61_001).is_ok());
    }

    #[test]
    fn a_private_directory_is_private() {
        let directory = own_directory();
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
