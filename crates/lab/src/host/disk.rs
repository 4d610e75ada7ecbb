//! A disk with one arm: each read takes the time of a seek, and the next one waits for it.
//!
//! A limit of bytes in a second is no such disk: what a server leaves unread while it computes, it
//! may read at once afterwards, so that waiting costs it nothing. Here an image of the files is
//! served through /dev/fuse, one read after another, to a loop device, and mounted from that: for
//! a server it is a file system on a disk like any other, with a page cache of which all tests of
//! residency tell the truth. What is written is kept in memory, and gone with the disk.

mod written;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, WriteFlags,
};

use super::programs::{find, run};
use super::{DiskReads, PREFIX, SetupError, left_behind, until};
use written::Written;

/// How the image is called where it is served.
const IMAGE: &str = "image";

/// How long a file system may be busy that nobody uses any more, and how often it is tried.
const FREE_WITHIN: Duration = Duration::from_secs(5);
const TRY_EVERY: Duration = Duration::from_millis(20);

/// Room in an image beside its files, for what the file system itself needs: this share of their
/// bytes, and so many bytes.
const IMAGE_SHARE: f64 = 0.1;
const IMAGE_ROOM: u64 = 64 << 20;

/// Inodes beside those of its files.
const IMAGE_INODES: u64 = 1_000;

/// Bytes of a block of the image.
const BLOCK: u64 = 4_096;

/// How long the kernel may believe what it is told of the image, which does not change.
const BELIEVED: Duration = Duration::from_secs(3_600);

/// Files on such a disk, mounted. Unmounted when dropped: nobody may use them any more by then.
#[derive(Debug)]
pub struct Disk {
    /// Where the image is served, and where its files are mounted.
    served: PathBuf,
    root: PathBuf,
    session: Option<BackgroundSession>,
    state: Arc<State>,
}

/// What the disk and the arm have in common.
#[derive(Debug, Default)]
struct State {
    /// Microseconds that a read takes.
    seek_us: AtomicU64,
    /// What was read.
    bytes: AtomicU64,
    requests: AtomicU64,
}

impl Disk {
    /// Puts what a directory holds on a disk which is fast until [`Disk::set_seek`]. The image is
    /// made beside the directory, and kept. Blocks for as long as that takes.
    ///
    /// # Errors
    /// As [`Disk::can_be_made`], and when the kernel refuses.
    pub fn with(files: &Path) -> Result<Disk, SetupError> {
        static DISKS: AtomicU32 = AtomicU32::new(0);
        Disk::can_be_made()?;
        let image = image_of(files)?;
        let name = format!("{PREFIX}{}-disk-{}", process::id(), DISKS.fetch_add(1, Relaxed));
        let own = std::env::temp_dir().join(name);
        // Never what somebody else has put there; and by the name that the kernel has for it.
        let own = fs::create_dir(&own).and_then(|()| own.canonicalize());
        let own = own.map_err(|error| wrong(&std::env::temp_dir(), &error))?;
        let (served, root) = (own.join("served"), own.join("files"));
        let state = Arc::<State>::default();
        let mut disk = Disk { served, root, session: None, state: Arc::clone(&state) };
        for directory in [&disk.served, &disk.root] {
            fs::create_dir(directory).map_err(|error| wrong(directory, &error))?;
        }
        let file = File::open(&image).map_err(|error| wrong(&image, &error))?;
        let len = file.metadata().map_err(|error| wrong(&image, &error))?.len();
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("flyball-lab".into())];
        config.n_threads = Some(ARMS);
        let arm = Arm { file, len, state, written: Mutex::default() };
        let session = fuser::spawn_mount(arm, &disk.served, &config)
            .map_err(|error| SetupError(format!("a slow disk, by /dev/fuse: {error}")))?;
        disk.session = Some(session);
        let image = disk.served.join(IMAGE);
        // The loop device goes with the mount.
        run("mount", &["-o", "loop,noatime,noinit_itable", &text(&image), &text(&disk.root)])?;
        Ok(disk)
    }

    /// Whether there is what such a disk takes.
    ///
    /// # Errors
    /// Without /dev/fuse or loop devices; when a program is missing.
    pub fn can_be_made() -> Result<(), SetupError> {
        for device in ["/dev/fuse", "/dev/loop-control"] {
            let _: fs::Metadata = fs::metadata(device)
                .map_err(|error| SetupError(format!("a slow disk takes {device}: {error}")))?;
        }
        for program in ["mkfs.ext4", "mount", "umount"] {
            find(program)?;
        }
        Ok(())
    }

    /// Where the files are.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// From now on each read takes so long, and the next one begins when it is done.
    pub fn set_seek(&self, seek: Duration) {
        self.state.seek_us.store(u64::try_from(seek.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// What was read since it was there, by whomever. Control groups of the first version count
    /// reads only of disks that they limit.
    pub fn reads(&self) -> DiskReads {
        let State { bytes, requests, .. } = &*self.state;
        DiskReads { bytes: bytes.load(Relaxed), requests: requests.load(Relaxed) }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.set_seek(Duration::ZERO);
        unmount(&self.root);
        let ended = self.session.take().map(BackgroundSession::umount_and_join);
        // Somebody is at the files still, or has a copy of what was mounted in a namespace of his
        // own: the image is served until the last of them has gone.
        if ended.is_some_and(|ended| ended.is_err())
            && let Err(error) = detach(&self.served)
        {
            eprintln!("{} stays mounted: {error}", self.served.display());
            return;
        }
        remove(&self.root);
    }
}

/// Unmounts, when nobody is at it any more; who still is keeps it, and nobody else sees it.
fn unmount(root: &Path) {
    let plainly =
        || run("umount", &[&text(root)]).ok().or_else(|| (!is_mounted(root)).then(String::new));
    if until(FREE_WITHIN, TRY_EVERY, &|| false, plainly).is_none() {
        let _ = detach(root);
    }
}

/// Takes it out of the tree at once, whoever is at it.
fn detach(root: &Path) -> Result<String, SetupError> {
    run("umount", &["--lazy", &text(root)])
}

/// Removes the directories that were mounted on. Only empty ones: never what is mounted.
fn remove(root: &Path) {
    let own = root.parent().unwrap_or(root);
    for directory in [root, &own.join("served"), own] {
        let _ = fs::remove_dir(directory);
    }
}

fn is_mounted(root: &Path) -> bool {
    mounts().iter().any(|mounted| mounted == root)
}

/// What is mounted where, the first mounted first.
fn mounts() -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    text.lines().filter_map(|line| line.split(' ').nth(1).map(PathBuf::from)).collect()
}

/// Unmounts what labs that are gone have left, and removes what they mounted it on.
pub(super) fn clear_leftovers() -> Result<(), SetupError> {
    let is_left = |path: &Path| {
        path.components().any(|part| part.as_os_str().to_str().is_some_and(left_behind))
    };
    for mounted in mounts().iter().rev().filter(|path| is_left(path)) {
        // Who served it is gone: nothing of it can be read, and nobody needs to be waited for.
        // Another lab may clear at the same time.
        if let Err(error) = detach(mounted)
            && is_mounted(mounted)
        {
            return Err(error);
        }
    }
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| is_left(Path::new(&entry.file_name()))) {
        remove(&entry.path().join("files"));
        if entry.path().exists() {
            return Err(SetupError(format!("{}: it cannot be removed", entry.path().display())));
        }
    }
    Ok(())
}

/// The image of a directory, beside it; made if it is not there or older than what it holds.
fn image_of(files: &Path) -> Result<PathBuf, SetupError> {
    let beside = |ending: &str| PathBuf::from(format!("{}{ending}", files.display()));
    let image = beside(".ext4");
    let contents = Contents::of(files).map_err(|error| wrong(files, &error))?;
    let made = fs::metadata(&image).and_then(|found| found.modified());
    if made.is_ok_and(|made| made > contents.changed) {
        return Ok(image);
    }
    let size = contents.bytes + (contents.bytes as f64 * IMAGE_SHARE) as u64 + IMAGE_ROOM;
    // Whole or not at all.
    let half = beside(".ext4.half");
    let _ = fs::remove_file(&half);
    let (inodes, blocks) =
        ((contents.count + IMAGE_INODES).to_string(), (size / BLOCK).to_string());
    let (from, block) = (text(files), BLOCK.to_string());
    run(
        "mkfs.ext4",
        &["-q", "-F", "-O", "^has_journal", "-m", "0", "-b", &block, "-N", &inodes, "-d", &from]
            .into_iter()
            .chain([text(&half).as_str(), &blocks])
            .collect::<Vec<_>>(),
    )?;
    fs::rename(&half, &image).map_err(|error| wrong(&image, &error))?;
    Ok(image)
}

/// What is below a directory.
struct Contents {
    /// Bytes, in whole blocks, with a block for each name.
    bytes: u64,
    /// Files and directories.
    count: u64,
    /// When the last of them was changed, or the directory itself.
    changed: SystemTime,
}

impl Contents {
    fn of(directory: &Path) -> io::Result<Contents> {
        let changed = fs::metadata(directory)?.modified()?;
        let mut contents = Contents { bytes: 0, count: 0, changed };
        contents.add(directory)?;
        Ok(contents)
    }

    fn add(&mut self, directory: &Path) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let found = entry?;
            let metadata = found.metadata()?;
            self.bytes += metadata.size().next_multiple_of(BLOCK) + BLOCK;
            self.count += 1;
            self.changed = self.changed.max(metadata.modified()?);
            if metadata.is_dir() {
                self.add(&found.path())?;
            }
        }
        Ok(())
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn wrong(path: &Path, error: &io::Error) -> SetupError {
    SetupError(format!("{}: {error}", path.display()))
}

/// Threads of [`Arm`]: with one, reads wait for each other.
const ARMS: usize = 1;

/// A file system of one file, the image.
struct Arm {
    file: File,
    len: u64,
    state: Arc<State>,
    written: Mutex<Written>,
}

/// The inode of the image.
const IMAGE_INODE: INodeNo = INodeNo(2);

impl Arm {
    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let is_root = inode == INodeNo::ROOT;
        let then = SystemTime::UNIX_EPOCH;
        FileAttr {
            ino: inode,
            size: if is_root { 0 } else { self.len },
            blocks: if is_root { 0 } else { self.len.div_ceil(512) },
            atime: then,
            mtime: then,
            ctime: then,
            crtime: then,
            kind: if is_root { FileType::Directory } else { FileType::RegularFile },
            perm: if is_root { 0o500 } else { 0o600 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: BLOCK as u32,
            flags: 0,
        }
    }
}

impl Filesystem for Arm {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name == IMAGE {
            true => reply.entry(&BELIEVED, &self.attributes(IMAGE_INODE), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&BELIEVED, &self.attributes(inode));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Past this file's own page cache: what is read twice from the disk takes two seeks.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let seek = Duration::from_micros(self.state.seek_us.load(Relaxed));
        // Nothing is looked for but the time.
        until(seek, seek, &|| false, || None::<()>);
        let mut bytes = vec![0; size as usize];
        match self.file.read_at(&mut bytes, offset) {
            Ok(read) => {
                self.written().over(offset, &mut bytes[..read]);
                self.state.requests.fetch_add(1, Relaxed);
                self.state.bytes.fetch_add(read as u64, Relaxed);
                reply.data(&bytes[..read]);
            }
            Err(error) => reply.error(error.into()),
        }
    }

    /// Takes no time: what a server writes leaves its memory when nobody waits for it.
    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.written().write(&self.file, offset, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::thread;
    use std::time::Instant;

    use super::*;

    #[test]
    fn files_are_what_they_were_each_read_takes_a_seek_and_all_is_gone_afterwards() {
        if !super::super::is_root() {
            return eprintln!("skipped: it takes root");
        }
        if is_skipped(Disk::can_be_made()) {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let files = directory.path().join("set");
        fs::create_dir_all(files.join("below")).unwrap();
        let bodies: Vec<Vec<u8>> = (0..8_u8).map(|at| vec![at; 10_000]).collect();
        for (at, body) in bodies.iter().enumerate() {
            fs::write(files.join(format!("below/{at}")), body).unwrap();
        }
        let disk = Disk::with(&files).unwrap();
        let root = disk.root().to_owned();
        assert!(fs::read(root.join("below/0")).unwrap() == bodies[0]);
        let seek = Duration::from_millis(20);
        disk.set_seek(seek);
        let before = disk.reads();
        let begun = Instant::now();
        // Together: they wait for each other.
        thread::scope(|scope| {
            for (at, body) in bodies.iter().enumerate().skip(1) {
                let path = root.join(format!("below/{at}"));
                scope.spawn(move || assert!(fs::read(path).unwrap() == *body, "{at}"));
            }
        });
        let took = begun.elapsed();
        assert!(took >= seek * 7, "seven files in {took:?}");
        let reads = disk.reads().since(before);
        assert!(reads.requests >= 7 && reads.bytes >= 70_000, "{reads:?}");
        let before = disk.reads();
        assert!(fs::read(root.join("below/7")).unwrap() == bodies[7]);
        assert_eq!(disk.reads(), before, "what was read is in memory");
        fs::write(root.join("log"), [9; 5_000]).unwrap();
        run("sync", &["-f", &text(&root)]).unwrap();
        run("sh", &["-c", "echo 1 > /proc/sys/vm/drop_caches"]).unwrap();
        assert!(fs::read(root.join("log")).unwrap() == [9; 5_000]);
        assert!(is_mounted(&root) && has_loop_device(&root));
        drop(disk);
        assert!(!root.exists() && !is_mounted(&root) && !has_loop_device(&root));
        let anew = Disk::with(&files).unwrap();
        assert!(!anew.root().join("log").exists(), "what was written is gone with the disk");
    }

    /// Files that somebody is at stay for him, and for nobody else; then all is gone.
    #[test]
    fn a_disk_that_somebody_is_at_is_gone_when_he_is() {
        if !super::super::is_root() || is_skipped(Disk::can_be_made()) {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let files = directory.path().join("set");
        fs::create_dir(&files).unwrap();
        fs::write(files.join("one"), [7; 100]).unwrap();
        let disk = Disk::with(&files).unwrap();
        let root = disk.root().to_owned();
        let mut held = File::open(root.join("one")).unwrap();
        drop(disk);
        assert!(!root.exists() && !is_mounted(&root));
        let mut body = Vec::new();
        held.read_to_end(&mut body).unwrap();
        assert_eq!(body, [7; 100]);
        drop(held);
        let gone = || (!has_loop_device(&root)).then_some(());
        until(FREE_WITHIN, TRY_EVERY, &|| false, gone).expect("the loop device is free");
    }

    /// Without what such a disk takes nothing is tested, but where everything has to be there.
    fn is_skipped(possible: Result<(), SetupError>) -> bool {
        let Err(why) = possible else { return false };
        assert!(std::env::var_os("FLYBALL_CI").is_none(), "{why}");
        eprintln!("skipped: {why}");
        true
    }

    /// Whether the image that was mounted there is behind a loop device.
    fn has_loop_device(root: &Path) -> bool {
        let image = root.with_file_name("served").join(IMAGE);
        let devices = fs::read_dir("/sys/block").unwrap().flatten();
        let mut behind = devices
            .filter_map(|device| fs::read(device.path().join("loop/backing_file")).ok())
            .map(|behind| PathBuf::from(String::from_utf8_lossy(&behind).trim_end()));
        behind.any(|behind| behind == image)
    }

    #[test]
    fn an_image_is_made_once_and_anew_when_its_files_change() {
        let mkfs = find("mkfs.ext4").map(|_| ()).map_err(|missing| missing.into());
        if is_skipped(mkfs) {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let files = directory.path().join("set-600");
        fs::create_dir(&files).unwrap();
        let made = |image: &Path| fs::metadata(image).unwrap().modified().unwrap();
        let image = image_of(&files).unwrap();
        assert_eq!(image, directory.path().join("set-600.ext4"));
        let first = made(&image);
        assert_eq!(made(&image_of(&files).unwrap()), first);
        fs::write(files.join("one"), [7; 100]).unwrap();
        let second = made(&image_of(&files).unwrap());
        assert!(second > first);
        // In place: the directory is as it was.
        fs::write(files.join("one"), [8; 100]).unwrap();
        assert!(made(&image_of(&files).unwrap()) > second);
    }
}
