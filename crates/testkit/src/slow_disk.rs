//! A disk that is slow or fails on purpose: a small file system, served by the test itself through
//! /dev/fuse, on which operations take a while, stand at a gate that the test opens, or fail.
//!
//! Names in the root are answered at once, those below `slow/` late. The kernel asks for each name
//! every time, and keeps what was read of a file only as long as that stays open.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEntry, ReplyOpen, Request,
};
use rustix::mount::{UnmountFlags, unmount};
use tempfile::TempDir;

use crate::skip::skip;
use crate::wait::{DEADLINE, dawdle};
use crate::watchdog::Watchdog;

/// Every file: its name, and its length in bytes.
pub const FILES: &[(&str, usize)] = &[
    ("fast.txt", 1_000),
    ("fast.bin", 300_000),
    ("slow/small-0.txt", 1_000),
    ("slow/small-1.txt", 60_000),
    ("slow/small-2.txt", 1),
    ("slow/empty.txt", 0),
    ("slow/large-0.bin", 300_000),
    ("slow/large-1.bin", 300_001),
    ("slow/large-2.bin", 1_000_000),
];

/// The slow directory.
const SLOW: INodeNo = INodeNo(2);

/// The file at the front of [`FILES`]; the others follow.
const FIRST_FILE: u64 = 3;

/// How long the kernel may believe an answer: it asks each time.
const BELIEVED: Duration = Duration::ZERO;

/// What every file holds up to its length: lines that say where they are, and in which file.
pub fn content(name: &str) -> Vec<u8> {
    let at = FILES.iter().position(|file| file.0 == name).expect("a file of the slow disk");
    contents()[at].clone()
}

/// What the files hold, in their order: made once, and not for each piece that is read.
fn contents() -> &'static [Vec<u8>] {
    static CONTENTS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    CONTENTS.get_or_init(|| {
        let content = |(name, len): &(&str, usize)| {
            let line = |at: usize| format!("{name} {at:08}\n").into_bytes();
            (0..).flat_map(line).take(*len).collect()
        };
        FILES.iter().map(content).collect()
    })
}

/// An operation on something below `slow/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A name is looked up.
    Lookup,
    /// A file is opened.
    Open,
    /// Bytes are read.
    Read,
    /// The names of the directory are read.
    List,
}

/// The mounted file system, unmounted when the value is dropped.
#[derive(Debug)]
pub struct SlowDisk {
    gates: Arc<Gates>,
    session: Option<BackgroundSession>,
    directory: Option<TempDir>,
    watchdog: Watchdog,
}

impl SlowDisk {
    /// Mounts it; each slow operation then takes `delay`. `None`, said aloud, where there is no
    /// /dev/fuse or no right to mount.
    ///
    /// # Panics
    /// Instead, when `FLYBALL_CI` is set.
    pub fn mount(delay: Duration) -> Option<SlowDisk> {
        let directory = tempfile::Builder::new().prefix("flyball-slow-").tempdir();
        let directory = directory.expect("a temporary directory");
        let gates = Arc::new(Gates::default());
        let served = Served { gates: Arc::clone(&gates), delay };
        let mut config = Config::default();
        config.mount_options = vec![MountOption::RO, MountOption::FSName("slow-disk".into())];
        match fuser::spawn_mount(served, directory.path(), &config) {
            Ok(session) => {
                let watchdog = Watchdog::unmount(directory.path());
                let (session, directory) = (Some(session), Some(directory));
                Some(SlowDisk { gates, session, directory, watchdog })
            }
            Err(error) => {
                skip(&format!("a slow disk cannot be mounted: {error}"));
                None
            }
        }
    }

    /// Its root.
    pub fn root(&self) -> &Path {
        self.directory.as_ref().expect("it is mounted").path()
    }

    /// Shuts a gate: every such operation from now on waits there until the value is dropped.
    pub fn shut(&self, operation: Operation) -> Shut<'_> {
        let mut gates = self.gates.lock();
        let gate = &mut gates[operation as usize];
        assert!(!gate.shut, "the gate is shut already");
        gate.shut = true;
        Shut { gates: &self.gates, operation }
    }

    /// Every such operation from now on fails with EIO, until the value is dropped.
    pub fn fail(&self, operation: Operation) -> Failing<'_> {
        self.gates.lock()[operation as usize].fails = true;
        Failing { gates: &self.gates, operation }
    }
}

impl Drop for SlowDisk {
    /// In use or not, it vanishes from the tree at once; nothing here waits for those who use it.
    fn drop(&mut self) {
        self.gates.open_all();
        let unmounted = unmount(self.root(), UnmountFlags::DETACH);
        if let Err(error) = unmounted {
            eprintln!("{} stays mounted: {error}", self.root().display());
            // Deleting the directory would lead into the file system.
            self.directory.take().map(TempDir::keep);
        } else {
            self.watchdog.call_off();
        }
        // Its thread ends with the last user.
        drop(self.session.take());
    }
}

/// A shut gate. Dropped, it opens.
#[derive(Debug)]
pub struct Shut<'a> {
    gates: &'a Gates,
    operation: Operation,
}

impl Shut<'_> {
    /// Blocks until so many operations stand at the gate.
    ///
    /// # Panics
    /// When they do not come before the deadline.
    #[track_caller]
    pub fn wait_for(&self, operations: usize) {
        let until = Instant::now() + DEADLINE;
        let mut gates = self.gates.lock();
        loop {
            let waiting = gates[self.operation as usize].waiting;
            let left = until.saturating_duration_since(Instant::now());
            if waiting >= operations {
                return;
            }
            assert!(!left.is_zero(), "{waiting} of {operations} came to the gate");
            let waited = self.gates.changed.wait_timeout(gates, left);
            gates = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Opens the gate.
    pub fn open(self) {}
}

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        self.gates.lock()[self.operation as usize].shut = false;
        self.gates.changed.notify_all();
    }
}

/// Operations that fail. Dropped, they succeed again.
#[derive(Debug)]
pub struct Failing<'a> {
    gates: &'a Gates,
    operation: Operation,
}

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        self.gates.lock()[self.operation as usize].fails = false;
    }
}

/// How many kinds of [`Operation`] there are.
const OPERATIONS: usize = 4;

/// A gate for each [`Operation`].
#[derive(Debug, Default)]
struct Gates {
    gates: Mutex<[Gate; OPERATIONS]>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Gate {
    shut: bool,
    waiting: usize,
    fails: bool,
}

impl Gates {
    fn lock(&self) -> MutexGuard<'_, [Gate; OPERATIONS]> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_all(&self) {
        self.lock().iter_mut().for_each(|gate| gate.shut = false);
        self.changed.notify_all();
    }

    /// Blocks for as long as this gate is shut; whether the operation shall fail then.
    fn pass(&self, operation: Operation) -> bool {
        let at = operation as usize;
        let mut gates = self.lock();
        gates[at].waiting += 1;
        self.changed.notify_all();
        while gates[at].shut {
            gates = self.changed.wait(gates).unwrap_or_else(PoisonError::into_inner);
        }
        gates[at].waiting -= 1;
        gates[at].fails
    }
}

/// The file system as fuser drives it.
struct Served {
    gates: Arc<Gates>,
    delay: Duration,
}

impl Served {
    /// Does a slow operation on a thread of its own, late; others meanwhile. The reply is told
    /// whether to fail.
    fn late(&self, operation: Operation, reply: impl FnOnce(bool) + Send + 'static) {
        let (gates, delay) = (Arc::clone(&self.gates), self.delay);
        thread::spawn(move || {
            dawdle(delay);
            reply(gates.pass(operation));
        });
    }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = name.to_str().and_then(|name| find(parent, name));
        let answer = move |fails| match found.and_then(attributes) {
            _ if fails => reply.error(Errno::EIO),
            Some(attributes) => reply.entry(&BELIEVED, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        };
        if parent == SLOW { self.late(Operation::Lookup, answer) } else { answer(false) }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match attributes(inode) {
            Some(attributes) => reply.attr(&BELIEVED, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let answer = |fails| match fails {
            true => reply.error(Errno::EIO),
            false => reply.opened(FileHandle(0), FopenFlags::empty()),
        };
        if is_slow(inode) { self.late(Operation::Open, answer) } else { answer(false) }
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let answer = move |fails| match file(inode) {
            _ if fails => reply.error(Errno::EIO),
            Some((_, len)) => {
                let start = (offset as usize).min(*len);
                let end = (start + size as usize).min(*len);
                reply.data(&contents()[(inode.0 - FIRST_FILE) as usize][start..end]);
            }
            None => reply.error(Errno::EISDIR),
        };
        if is_slow(inode) { self.late(Operation::Read, answer) } else { answer(false) }
    }

    fn readdir(
        &self,
        _: &Request,
        directory: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let answer = move |fails| {
            if fails {
                return reply.error(Errno::EIO);
            }
            let slow = (directory == INodeNo::ROOT).then_some((SLOW, "slow"));
            let files = FILES.iter().enumerate().filter_map(|(at, (name, _))| {
                let inode = INodeNo(FIRST_FILE + at as u64);
                let (below, name) = split(name);
                (below == directory).then_some((inode, name))
            });
            for (at, (inode, name)) in slow.into_iter().chain(files).enumerate() {
                let kind = attributes(inode).map_or(FileType::RegularFile, |found| found.kind);
                if at as u64 >= offset && reply.add(inode, at as u64 + 1, kind, name) {
                    break;
                }
            }
            reply.ok();
        };
        if directory == SLOW { self.late(Operation::List, answer) } else { answer(false) }
    }
}

/// The directory of a file, and its name there.
fn split(name: &str) -> (INodeNo, &str) {
    match name.strip_prefix("slow/") {
        Some(name) => (SLOW, name),
        None => (INodeNo::ROOT, name),
    }
}

fn find(directory: INodeNo, name: &str) -> Option<INodeNo> {
    if (directory, name) == (INodeNo::ROOT, "slow") {
        return Some(SLOW);
    }
    let at = FILES.iter().position(|file| split(file.0) == (directory, name))?;
    Some(INodeNo(FIRST_FILE + at as u64))
}

fn file(inode: INodeNo) -> Option<&'static (&'static str, usize)> {
    FILES.get(usize::try_from(inode.0.checked_sub(FIRST_FILE)?).ok()?)
}

fn is_slow(inode: INodeNo) -> bool {
    file(inode).is_some_and(|(name, _)| split(name).0 == SLOW)
}

fn attributes(inode: INodeNo) -> Option<FileAttr> {
    let (kind, perm, size) = match file(inode) {
        Some((_, len)) => (FileType::RegularFile, 0o444, *len as u64),
        None if inode == INodeNo::ROOT || inode == SLOW => (FileType::Directory, 0o555, 0),
        None => return None,
    };
    let never = SystemTime::UNIX_EPOCH;
    Some(FileAttr {
        ino: inode,
        size,
        blocks: size.div_ceil(512),
        atime: never,
        mtime: never,
        ctime: never,
        crtime: never,
        kind,
        perm,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn every_file_is_there_and_what_is_slow_waits_at_the_gate() {
        let Some(disk) = SlowDisk::mount(Duration::ZERO) else { return };
        let root = disk.root().to_owned();
        for (name, _) in FILES {
            assert!(fs::read(root.join(name)).unwrap() == content(name), "{name}");
        }
        assert_eq!(fs::read_dir(root.join("slow")).unwrap().count(), FILES.len() - 2);
        assert!(fs::read(root.join("slow/none")).is_err());
        for operation in [Operation::Lookup, Operation::Open, Operation::Read] {
            let shut = disk.shut(operation);
            let path = root.join("slow/small-0.txt");
            let reader = thread::spawn(move || fs::read(path));
            shut.wait_for(1);
            assert!(fs::read(root.join("fast.txt")).unwrap() == content("fast.txt"));
            assert!(!reader.is_finished(), "{operation:?}");
            shut.open();
            assert!(reader.join().unwrap().unwrap() == content("slow/small-0.txt"));
            let failing = disk.fail(operation);
            let error = fs::read(root.join("slow/small-0.txt")).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(5), "{operation:?}");
            drop(failing);
        }
        let shut = disk.shut(Operation::List);
        let path = root.join("slow");
        let lister = thread::spawn(move || fs::read_dir(path).unwrap().count());
        shut.wait_for(1);
        assert!(!lister.is_finished());
        shut.open();
        assert_eq!(lister.join().unwrap(), FILES.len() - 2);
        drop(disk);
        assert!(!root.exists());
    }
}
