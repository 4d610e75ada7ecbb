//! Files beneath a root: opening, looking at, reading, listing, sending.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, MemfdFlags, Mode, OFlags, RawDir, ResolveFlags, SealFlags, SeekFrom, Stat, Statx,
    StatxFlags,
};

use crate::node::{Node, device_number, device_of_stat};
use crate::place::lead_outside_proc;
use crate::refused::is_refused;

mod roots;

pub use roots::{closed_directory, leads_elsewhere, open_directory, open_root};

/// Most times that a link is looked at again because names were changed meanwhile.
const RACES_MAX: u32 = 200;

/// Which symbolic links an open follows, the strictest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Links {
    /// None.
    Deny,
    /// Those that stay beneath the root.
    Beneath,
    /// All.
    Follow,
}

/// The identity and version of a file: two equal stamps mean the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Device.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Length in bytes.
    pub size: u64,
    /// Time of the last change of the bytes, in nanoseconds since 1970.
    pub modified_ns: i128,
    /// Time of the last change of the bytes or of the inode.
    pub changed_ns: i128,
    /// Number of names.
    pub links: u32,
    /// What kind of file it is.
    pub kind: Kind,
}

/// Kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// Anything else: a device, a pipe, a socket.
    Other,
}

impl From<&Stamp> for Node {
    fn from(stamp: &Stamp) -> Node {
        Node::from([stamp.device, stamp.inode])
    }
}

impl Stamp {
    /// True when a body that was begun under `self` may be finished under `later`: the same size
    /// and times. Only when names were added or removed may the time of the inode's change differ
    /// (a replacing rename unlinks the old file); its bytes are the same then.
    pub fn same_body(&self, later: &Stamp) -> bool {
        (self.device, self.inode, self.size) == (later.device, later.inode, later.size)
            && self.modified_ns == later.modified_ns
            && (self.changed_ns == later.changed_ns || self.links != later.links)
    }

    /// True when a body that was begun under `self` may be finished under `later`, as `promise`
    /// says.
    pub fn keeps(&self, later: &Stamp, promise: Promise) -> bool {
        let same_file = (self.device, self.inode) == (later.device, later.inode);
        match promise {
            Promise::Version => self.same_body(later),
            Promise::Bytes if later.size == self.size => {
                same_file && later.modified_ns == self.modified_ns
            }
            Promise::Bytes => same_file && later.size > self.size,
        }
    }
}

/// What must hold of a file until the last of a body has left it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Promise {
    /// It is the version that the head was made of, by [`Stamp::same_body`].
    Version,
    /// It has the bytes that the head has promised. A file that has grown is taken to have been
    /// appended to: whether it was also rewritten, no stamp tells.
    #[default]
    Bytes,
}

/// Looks at a file that has the size of before and another time, 0.3 us each.
const LOOKS_AT_A_WRITE: usize = 64;

/// True when a file that has the size of before and another time turns out to be growing: a write
/// sets the time some microseconds before the size. May block on the disk.
pub fn grows(file: impl AsFd, before: &Stamp) -> bool {
    let keeps = |now: Stamp| before.keeps(&now, Promise::Bytes);
    (0..LOOKS_AT_A_WRITE).any(|_| stamp(&file).is_ok_and(keeps))
}

/// What a failed operation on a file means to whoever asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The rights do not suffice.
    Denied,
    /// Descriptors, memory or the device failed, or names changed too fast: the file may well be
    /// there.
    Exhausted,
    /// There is nothing of that name beneath the root, or it may not be followed.
    Missing,
}

/// Tells the three apart.
pub fn failure(error: &io::Error) -> Failure {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => Failure::Denied,
        // A ring cancels what it gets no thread for, as where processes are out.
        Some(
            libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EIO | libc::EAGAIN | libc::ECANCELED,
        ) => Failure::Exhausted,
        _ => Failure::Missing,
    }
}

/// True when an open failed for want of descriptors or memory: another name would have, too.
pub fn is_out(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

/// True when an open failed only because names were changed at the same time (EAGAIN in
/// openat2(2)): it may be tried again.
pub fn is_race(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EAGAIN)
}

/// True when an open failed at a symbolic link that is not followed, or beyond its root.
pub fn is_kept_out(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ELOOP | libc::EXDEV))
}

/// A file without a name that holds these bytes in memory and is sealed: nobody can change it.
///
/// # Errors
/// When memory or descriptors are out.
pub fn in_memory(bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("flyball-body", flags)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::write(&file, rest)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => rest = &rest[n..],
        }
    }
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file)
}

/// Opens `path`, relative to `root`, for reading; it never leaves the root unless `links` follows
/// all. May block on the disk, but never on a pipe or a device.
///
/// # Errors
/// `NotFound`, `PermissionDenied`; `ELOOP` and `EXDEV` for links that are not followed; `EAGAIN`
/// when [`is_race`] says so.
pub fn open_beneath(root: impl AsFd, path: &[u8], links: Links) -> io::Result<OwnedFd> {
    // O_NONBLOCK keeps the open of a FIFO from waiting for a writer; files do not mind it.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    open_as(root.as_fd(), path, flags, links)
}

fn open_as(root: BorrowedFd<'_>, path: &[u8], flags: OFlags, links: Links) -> io::Result<OwnedFd> {
    match rustix::fs::openat2(root, path, flags, Mode::empty(), resolve(links)) {
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::INVAL) => {
            open_stepwise(root, path, flags)
        }
        // Some file systems say so of a file too.
        Err(rustix::io::Errno::PERM) if !has_openat2(root) => open_stepwise(root, path, flags),
        opened => Ok(opened?),
    }
}

/// Whether this process may make the call at all.
fn has_openat2(root: BorrowedFd<'_>) -> bool {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let opened = rustix::fs::openat2(root, c".", flags, Mode::empty(), ResolveFlags::BENEATH);
    !opened.is_err_and(is_refused)
}

/// As [`open_beneath`], but only through names that are in memory and without leaving the file
/// system of the root. Does not wait on the disk where opening itself does not, which
/// [`opens_locally`] tells.
///
/// # Errors
/// `WouldBlock` when only [`open_beneath`] can tell, as for a name that is not in memory, a link
/// whose time of access is due, and now and then while mounts change; else the errors that it
/// would have too.
pub fn open_cached(root: impl AsFd, path: &[u8], links: Links) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = resolve(links) | ResolveFlags::CACHED | ResolveFlags::NO_XDEV;
    match rustix::fs::openat2(root.as_fd(), path, flags, Mode::empty(), resolve) {
        // Kernels before 5.12 do not know the flag, those before 5.6 not the call. XDEV may mean
        // the root as well as a file system that is mounted below it.
        Err(
            rustix::io::Errno::NOSYS
            | rustix::io::Errno::INVAL
            | rustix::io::Errno::AGAIN
            | rustix::io::Errno::PERM
            | rustix::io::Errno::XDEV,
        ) => Err(io::ErrorKind::WouldBlock.into()),
        opened => Ok(opened?),
    }
}

/// Opens what a path beneath `root` leads to as a place alone (`O_PATH`), for which it need not be
/// readable; else as [`open_beneath`].
pub(crate) fn open_place(root: BorrowedFd<'_>, path: &[u8], links: Links) -> io::Result<OwnedFd> {
    open_as(root, path, OFlags::PATH | OFlags::CLOEXEC, links)
}

/// Whether [`open_cached`] works at all here.
pub fn tells_cached_names() -> bool {
    /// A mount that changes elsewhere at that moment makes a lookup in memory fail.
    const TRIES: usize = 5;
    let Ok(root) = open_root(Path::new("/")) else { return false };
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::CACHED | ResolveFlags::BENEATH;
    let opens = |_| rustix::fs::openat2(&root, c".", flags, Mode::empty(), resolve).is_ok();
    (0..TRIES).any(opens)
}

/// Whether files of the file system that this one lies in are opened and looked at in the kernel's
/// memory once their names are there. Others (FUSE, network file systems) ask somebody else each
/// time. May block where it answers no.
pub fn opens_locally(file: impl AsFd) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|found| LOCAL.contains(&(found.f_type as u32)))
}

/// The f_type of file systems that [`opens_locally`] knows (statfs(2)): bcachefs, btrfs, erofs,
/// ext2 to ext4, f2fs, overlayfs, ramfs, squashfs, tmpfs, XFS and ZFS.
const LOCAL: [u32; 11] = [
    0xca45_1a4e,
    0x9123_683e,
    0xe0f5_e1e2,
    0xef53,
    0xf2f5_2010,
    0x794c_7630,
    0x8584_58f6,
    0x7371_7368,
    0x0102_1994,
    0x5846_5342,
    0x2fc1_2fc1,
];

fn resolve(links: Links) -> ResolveFlags {
    match links {
        Links::Deny => {
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS
        }
        Links::Beneath => ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
        Links::Follow => ResolveFlags::NO_MAGICLINKS,
    }
}

/// What openat2 does, for kernels before 5.6: a segment at a time, following no link at all. The
/// empty path names nothing, not the root.
fn open_stepwise(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
    if path.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut directory: Option<OwnedFd> = None;
    let mut segments =
        path.split(|&b| b == b'/').filter(|s| !s.is_empty() && *s != b".").peekable();
    if segments.peek().is_none() {
        return Ok(rustix::fs::openat(root, ".", flags, Mode::empty())?);
    }
    while let Some(segment) = segments.next() {
        if segment == b".." {
            return Err(io::Error::from_raw_os_error(libc::EXDEV));
        }
        let at = directory.as_ref().map_or(root, |d| d.as_fd());
        let last = segments.peek().is_none();
        let step = if last { flags } else { OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC };
        let opened = rustix::fs::openat(at, segment, step | OFlags::NOFOLLOW, Mode::empty())?;
        // Of a link, O_PATH opens the link itself.
        if step.contains(OFlags::PATH) && is_link(rustix::fs::fstat(&opened)?.st_mode) {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        directory = Some(opened);
    }
    directory.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Reads a regular file of at most this many bytes. Blocks on the disk.
///
/// # Errors
/// When it is not there, no regular file, not readable, or longer, and when /proc is on the way to
/// it.
pub fn read_whole(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    lead_outside_proc(path)?.read(bytes_max)
}

pub(crate) fn read_opened(opened: OwnedFd, bytes_max: u64) -> io::Result<Vec<u8>> {
    let opened = std::fs::File::from(opened);
    if stamp(&opened)?.kind != Kind::Regular {
        return Err(io::Error::other("is not a file"));
    }
    let mut bytes = Vec::new();
    opened.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("is longer than {bytes_max} bytes")));
    }
    Ok(bytes)
}

/// Looks at an open file. May block on the disk.
///
/// # Errors
/// When the file system fails.
pub fn stamp(file: impl AsFd) -> io::Result<Stamp> {
    let mask = StatxFlags::BASIC_STATS;
    match rustix::fs::statx(&file, c"", AtFlags::EMPTY_PATH, mask) {
        Err(error) if is_refused(error) => Ok(stamp_of_stat(&rustix::fs::fstat(file)?)),
        looked => Ok(stamp_of(&looked?)),
    }
}

/// The stamp in the kernel's answer to stat(2): the same as in that to statx(2).
fn stamp_of_stat(stat: &Stat) -> Stamp {
    let ns = |s: i64, ns: i64| i128::from(s) * 1_000_000_000 + i128::from(ns);
    Stamp {
        device: device_of_stat(stat),
        inode: stat.st_ino,
        size: stat.st_size as u64,
        modified_ns: ns(stat.st_mtime, stat.st_mtime_nsec as i64),
        changed_ns: ns(stat.st_ctime, stat.st_ctime_nsec as i64),
        links: stat.st_nlink as u32,
        kind: kind_of(stat.st_mode),
    }
}

fn kind_of(mode: u32) -> Kind {
    match mode & libc::S_IFMT {
        libc::S_IFREG => Kind::Regular,
        libc::S_IFDIR => Kind::Directory,
        _ => Kind::Other,
    }
}

/// The stamp in the kernel's answer to statx(2).
pub(crate) fn stamp_of(statx: &Statx) -> Stamp {
    let ns = |time: rustix::fs::StatxTimestamp| {
        i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
    };
    Stamp {
        device: device_number(statx.stx_dev_major, statx.stx_dev_minor),
        inode: statx.stx_ino,
        size: statx.stx_size,
        modified_ns: ns(statx.stx_mtime),
        changed_ns: ns(statx.stx_ctime),
        links: statx.stx_nlink,
        kind: kind_of(u32::from(statx.stx_mode)),
    }
}

/// Waits until every write(2) to a file that had begun before has finished. Blocks that long.
///
/// The kernel gives a file its new time when a write begins and copies the bytes afterwards, so
/// that a look at the file and a read right behind it may see the new time and the old bytes. File
/// systems hold the inode's lock over both, and asking for the first data takes that lock (ext4,
/// btrfs, tmpfs, f2fs); on XFS reading takes it anyway.
pub fn settle(file: impl AsFd) {
    // An empty file has no data, which is an error and no matter.
    let _ = rustix::fs::seek(file, rustix::fs::SeekFrom::Data(0));
}

/// Reads at an offset; 0 is the end of the file. May block on the disk.
///
/// # Errors
/// When the file system fails.
pub fn read_at(file: impl AsFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    Ok(rustix::io::pread(file, buffer, offset)?)
}

/// Reads a range, so that its pages are in memory, as far as that succeeds. Blocks on the disk.
pub fn touch(file: impl AsFd, start: u64, len: u64, scratch: &mut [u8]) {
    let (mut at, end) = (start, start.saturating_add(len));
    while at < end {
        let most = scratch.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
        match read_at(&file, &mut scratch[..most], at) {
            Ok(0) | Err(_) => return,
            Ok(read) => at += read as u64,
        }
    }
}

/// Reads at an offset only what is in memory. Never blocks.
///
/// # Errors
/// `WouldBlock` when the bytes are on the disk; `Unsupported` when the file system cannot tell.
pub fn read_resident(file: impl AsFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut slices = [io::IoSliceMut::new(buffer)];
    let flags = rustix::io::ReadWriteFlags::NOWAIT;
    match rustix::io::preadv2(file, &mut slices, offset, flags) {
        Err(rustix::io::Errno::OPNOTSUPP) => Err(io::ErrorKind::Unsupported.into()),
        read => Ok(read?),
    }
}

/// Whether a file lies in a file system that is nothing but memory: reading does not wait there.
pub fn is_memory(file: impl AsFd) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|found| found.f_type == libc::TMPFS_MAGIC)
}

/// Sends a range of a file to a socket without copying it through user space. May block on the
/// disk, and on the socket when that blocks.
///
/// # Errors
/// `WouldBlock` when the socket is full; `BrokenPipe` and the like.
pub fn send_file(
    socket: impl AsFd,
    file: impl AsFd,
    offset: u64,
    count: usize,
) -> io::Result<usize> {
    let mut offset = offset;
    Ok(rustix::fs::sendfile(socket, file, Some(&mut offset), count)?)
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name.
    pub name: Vec<u8>,
    /// What it names, links followed; `None` when that cannot be seen.
    pub stamp: Option<Stamp>,
}

/// Where a directory was found, which is what its links are followed by.
#[derive(Clone, Debug)]
pub struct Whereabouts<R> {
    /// The root.
    pub root: R,
    /// The path of the directory, relative to the root.
    pub path: Vec<u8>,
    /// Which links are followed.
    pub links: Links,
}

/// Bytes of names that the kernel gives in one go: some four hundred of ordinary length, and never
/// less than fifty.
const NAMES_BYTES: usize = 16 * 1024;

/// Some of the names in a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// What they name; `.` and `..` are left out.
    pub entries: Vec<DirectoryEntry>,
    /// Where the next batch begins; `None` when there are no more names.
    pub next: Option<u64>,
}

/// Lists an open directory from `position` on, which is 0 or what the last batch says comes next:
/// as many names as the kernel gives at once. Nothing is told about what a link leads to that
/// [`open_beneath`] would not open. Blocks on the disk.
///
/// A name that is added or removed between two batches may be in none of them; every other is in
/// exactly one (POSIX, readdir).
///
/// # Errors
/// When it is no directory or the file system fails.
pub fn list(
    directory: impl AsFd,
    place: &Whereabouts<impl AsFd>,
    position: u64,
) -> io::Result<Batch> {
    let directory = directory.as_fd();
    // Where the last batch ended the descriptor stands already, and so it does on a file system
    // whose positions cannot be sought.
    let _ = rustix::fs::seek(directory, SeekFrom::Start(position));
    let mut buffer = Vec::with_capacity(NAMES_BYTES);
    let mut names = RawDir::new(directory, buffer.spare_capacity_mut());
    let mut batch = Batch::default();
    while let Some(entry) = names.next() {
        let entry = entry?;
        batch.next = Some(entry.next_entry_cookie());
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            let stamp = place.stamp_of(directory, name);
            batch.entries.push(DirectoryEntry { name: name.to_vec(), stamp });
        }
        if names.is_buffer_empty() {
            break;
        }
    }
    Ok(batch)
}

fn is_link(mode: u32) -> bool {
    mode & libc::S_IFMT == libc::S_IFLNK
}

impl<R: AsFd> Whereabouts<R> {
    /// What a name in this place names, links followed where they may be.
    fn stamp_of(&self, directory: BorrowedFd<'_>, name: &[u8]) -> Option<Stamp> {
        let (path, flags) = (OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW);
        let looked = rustix::fs::statx(directory, path, flags, StatxFlags::BASIC_STATS);
        let (mode, stamp) = match looked {
            Err(error) if is_refused(error) => {
                let stat = rustix::fs::statat(directory, path, flags).ok()?;
                (stat.st_mode, stamp_of_stat(&stat))
            }
            looked => {
                let statx = looked.ok()?;
                (u32::from(statx.stx_mode), stamp_of(&statx))
            }
        };
        if is_link(mode) { self.stamp_of_link(name) } else { Some(stamp) }
    }

    /// What a link in this place leads to, if it may be followed.
    fn stamp_of_link(&self, name: &[u8]) -> Option<Stamp> {
        let path = [&self.path, &b"/"[..], name].concat();
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = resolve(self.links);
        let open = || rustix::fs::openat2(&self.root, &*path, flags, Mode::empty(), resolve);
        let raced = |opened: &rustix::io::Result<_>| {
            opened.as_ref().is_err_and(|error| *error == rustix::io::Errno::AGAIN)
        };
        let opened = (0..RACES_MAX).map(|_| open()).find(|opened| !raced(opened));
        stamp(opened?.ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refused::tests::{REFUSALS, without};
    use std::fs;
    use std::os::unix::fs::symlink;

    fn root() -> (tempfile::TempDir, OwnedFd) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("site/sub")).unwrap();
        fs::write(dir.path().join("secret"), "secret").unwrap();
        fs::write(dir.path().join("site/sub/page"), "page").unwrap();
        symlink("sub/page", dir.path().join("site/inside")).unwrap();
        symlink("../secret", dir.path().join("site/outside")).unwrap();
        symlink("/etc/passwd", dir.path().join("site/absolute")).unwrap();
        let root = open_root(&dir.path().join("site")).unwrap();
        (dir, root)
    }

    #[test]
    fn links_are_followed_as_far_as_the_policy_says() {
        let (_dir, root) = root();
        let opens = |path: &str, links| open_beneath(&root, path.as_bytes(), links).is_ok();
        for (path, deny, beneath, follow) in [
            ("sub/page", true, true, true),
            ("inside", false, true, true),
            ("outside", false, false, true),
            ("absolute", false, false, true),
            ("../secret", false, false, true),
            ("sub/../../secret", false, false, true),
        ] {
            assert_eq!(opens(path, Links::Deny), deny, "{path}");
            assert_eq!(opens(path, Links::Beneath), beneath, "{path}");
            assert_eq!(opens(path, Links::Follow), follow, "{path}");
        }
    }

    #[test]
    fn without_openat2_no_link_is_followed_and_nothing_leaves_the_root() {
        let (_dir, root) = root();
        let opens = |path: &str| {
            open_stepwise(root.as_fd(), path.as_bytes(), OFlags::RDONLY | OFlags::CLOEXEC).is_ok()
        };
        assert!(opens("sub/page") && opens("."));
        for path in ["inside", "outside", "absolute", "../secret", "sub/../sub/page", "none"] {
            assert!(!opens(path), "{path}");
        }
    }

    #[test]
    fn files_are_opened_looked_at_and_listed_where_openat2_and_statx_are_refused() {
        let (dir, root) = root();
        let page = fs::File::open(dir.path().join("site/sub/page")).unwrap();
        let expected = stamp(&page).unwrap();
        let (root, page) = (&root, &page);
        for errno in REFUSALS {
            without(&[libc::SYS_openat2, libc::SYS_statx], errno, || {
                let file = open_beneath(root, b"sub/page", Links::Beneath).unwrap();
                assert_eq!((stamp(&file).unwrap(), stamp(page).unwrap()), (expected, expected));
                assert!(open_beneath(root, b"outside", Links::Beneath).is_err());
                assert!(open_place(root.as_fd(), b"sub/page", Links::Beneath).is_ok());
                assert!(open_place(root.as_fd(), b"outside", Links::Beneath).is_err());
                for name in [&b"none"[..], b""] {
                    let missing = open_beneath(root, name, Links::Beneath).unwrap_err();
                    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
                }
                let cached = open_cached(root, b"sub/page", Links::Beneath).unwrap_err();
                assert_eq!(cached.kind(), io::ErrorKind::WouldBlock);
                let directory = open_beneath(root, b"sub", Links::Beneath).unwrap();
                let place = Whereabouts { root, path: b"sub".to_vec(), links: Links::Beneath };
                let entries = list(&directory, &place, 0).unwrap().entries;
                let stamps: Vec<_> = entries.iter().filter_map(|entry| entry.stamp).collect();
                assert_eq!(stamps, [expected]);
            });
        }
    }

    #[test]
    fn opening_a_fifo_does_not_wait_for_a_writer() {
        let (dir, root) = root();
        let fifo = dir.path().join("site/fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, Mode::from_raw_mode(0o600)).unwrap();
        let file = open_beneath(&root, b"fifo", Links::Deny).unwrap();
        assert_eq!(stamp(&file).unwrap().kind, Kind::Other);
    }

    #[test]
    fn a_stamp_tells_a_changed_body_from_a_changed_name() {
        let (dir, root) = root();
        let path = dir.path().join("site/sub/page");
        let file = open_beneath(&root, b"sub/page", Links::Deny).unwrap();
        let before = stamp(&file).unwrap();
        assert_eq!(before.size, 4);
        fs::hard_link(&path, dir.path().join("site/other")).unwrap();
        assert!(before.same_body(&stamp(&file).unwrap()));
        fs::write(&path, "ride").unwrap();
        assert!(!before.same_body(&stamp(&file).unwrap()));
    }

    #[test]
    fn what_is_appended_breaks_no_promise_of_bytes_and_what_is_lost_or_rewritten_does() {
        let (dir, root) = root();
        let path = dir.path().join("site/sub/page");
        let file = open_beneath(&root, b"sub/page", Links::Deny).unwrap();
        let before = stamp(&file).unwrap();
        let keeps = |promise| before.keeps(&stamp(&file).unwrap(), promise);
        assert!(keeps(Promise::Bytes) && keeps(Promise::Version));
        fs::write(&path, "page and more").unwrap();
        assert!(keeps(Promise::Bytes) && !keeps(Promise::Version) && grows(&file, &before));
        fs::write(&path, "pag").unwrap();
        assert!(!keeps(Promise::Bytes) && !keeps(Promise::Version));
        fs::write(&path, "ride").unwrap();
        let page = fs::File::options().write(true).open(&path).unwrap();
        page.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert!(!grows(&file, &before), "the time alone differs");
        assert!(!keeps(Promise::Bytes) && !keeps(Promise::Version));
        let other = stamp(&root).unwrap();
        assert!(!before.keeps(&Stamp { size: 1 << 20, ..other }, Promise::Bytes));
    }

    #[test]
    fn a_whole_file_is_read_only_when_it_is_one_and_not_too_long() {
        let (dir, _root) = root();
        let page = dir.path().join("site/sub/page");
        assert_eq!(read_whole(&page, 4).unwrap(), b"page");
        assert!(read_whole(&page, 3).unwrap_err().to_string().contains("longer than 3 bytes"));
        assert!(read_whole(&dir.path().join("site"), 4).is_err());
        assert!(read_whole(&dir.path().join("none"), 4).is_err());
    }

    #[test]
    fn a_directory_is_opened_beneath_another_and_nothing_else_is() {
        let (dir, root) = root();
        symlink(dir.path(), dir.path().join("site/up")).unwrap();
        let opens = |path: &str, links| open_directory(&root, Path::new(path), links).is_ok();
        assert!(opens("sub", Links::Deny) && opens("up", Links::Follow));
        assert!(!opens("sub/page", Links::Follow) && !opens("none", Links::Follow));
        assert!(!opens("up", Links::Beneath) && !opens("..", Links::Beneath));
    }

    #[test]
    fn files_are_read_and_directories_listed() {
        let (_dir, root) = root();
        let file = open_beneath(&root, b"sub/page", Links::Deny).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(read_at(&file, &mut buffer, 1).unwrap(), 3);
        assert_eq!(&buffer[..3], b"age");
        assert_eq!(read_at(&file, &mut buffer, 9).unwrap(), 0);
        assert_eq!(read_resident(&file, &mut buffer, 0).unwrap(), 4);
        let directory = open_beneath(&root, b".", Links::Deny).unwrap();
        let place = |links| Whereabouts { root: &root, path: b".".to_vec(), links };
        let Batch { mut entries, next } = list(&directory, &place(Links::Beneath), 0).unwrap();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let names: Vec<_> = entries.iter().map(|e| e.name.as_slice()).collect();
        assert_eq!(names, [&b"absolute"[..], b"inside", b"outside", b"sub"]);
        let end = list(&directory, &place(Links::Beneath), next.unwrap()).unwrap();
        assert_eq!(end, Batch::default());
        // From the beginning again.
        assert_eq!(list(&directory, &place(Links::Deny), 0).unwrap().entries.len(), 4);
    }

    #[test]
    fn a_large_directory_is_listed_in_batches_each_name_once() {
        let dir = tempfile::tempdir().unwrap();
        for at in 0..3_000 {
            fs::write(dir.path().join(format!("name-of-file-{at}")), "").unwrap();
        }
        let directory = fs::File::open(dir.path()).unwrap();
        let place = Whereabouts { root: &directory, path: b".".to_vec(), links: Links::Deny };
        let (mut names, mut position, mut batches) = (Vec::new(), Some(0), 0);
        while let Some(from) = position {
            let batch = list(&directory, &place, from).unwrap();
            assert!(batch.entries.len() < NAMES_BYTES / 24);
            // A batch whose result was lost is the same again.
            if batches == 2 {
                assert_eq!(list(&directory, &place, from).unwrap(), batch);
            }
            names.extend(batch.entries.into_iter().map(|entry| entry.name));
            (position, batches) = (batch.next, batches + 1);
        }
        assert!(batches > 3, "{batches}");
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!((count, names.len()), (3_000, 3_000));
    }

    #[test]
    fn a_name_that_is_in_memory_is_opened_and_another_is_left_to_others() {
        let (dir, root) = root();
        assert!(tells_cached_names() && opens_locally(&root));
        assert!(!opens_locally(fs::File::open("/proc/self/status").unwrap()));
        let open = |path: &[u8]| open_cached(&root, path, Links::Beneath);
        assert_eq!(open(b"never/asked").unwrap_err().kind(), io::ErrorKind::WouldBlock);
        // Following a link from memory fails while it is due a new time of access (relatime), as
        // one that was made and read within one tick of the clock is again after that tick; and
        // any name does while a mount changes.
        const TRIES: usize = 5;
        let opens = |path: &str| {
            fs::read(dir.path().join("site").join(path)).unwrap();
            open(path.as_bytes()).is_ok()
        };
        assert!((0..TRIES).any(|_| opens("sub/page")), "a file whose name is in memory");
        assert!((0..TRIES).any(|_| opens("inside")), "a link whose name is in memory");
        assert!(open_beneath(&root, b"absent", Links::Beneath).is_err());
        assert_eq!(open(b"absent").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(open(b"outside").unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn memory_is_told_from_what_may_be_a_disk() {
        let memory = rustix::fs::memfd_create("memory", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        assert!(is_memory(memory));
        assert!(!is_memory(fs::File::open("/proc/self/status").unwrap()));
    }

    #[test]
    fn a_listing_tells_of_what_links_lead_to_as_far_as_they_are_followed() {
        let (dir, root) = root();
        symlink("../inside", dir.path().join("site/sub/back")).unwrap();
        let seen = |path: &str, links| {
            let directory = open_beneath(&root, path.as_bytes(), Links::Deny).unwrap();
            let place = Whereabouts { root: &root, path: path.into(), links };
            let entries = list(&directory, &place, 0).unwrap().entries;
            let seen = entries.into_iter().filter(|entry| entry.stamp.is_some());
            let mut names: Vec<_> =
                seen.map(|entry| String::from_utf8(entry.name).unwrap()).collect();
            names.sort();
            names
        };
        assert_eq!(seen(".", Links::Deny), ["sub"]);
        assert_eq!(seen(".", Links::Beneath), ["inside", "sub"]);
        assert_eq!(seen(".", Links::Follow), ["absolute", "inside", "outside", "sub"]);
        assert_eq!(seen("sub", Links::Deny), ["page"]);
        assert_eq!(seen("sub", Links::Beneath), ["back", "page"]);
    }
}
