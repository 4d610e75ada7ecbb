//! A disk with one arm: each read takes the time of a seek, and the next one waits for it.
//!
//! A limit of bytes in a second is no such disk: what a server leaves unread while it computes, it
//! may read at once afterwards, so that waiting costs it nothing. Here an image of the files is
//! served through /dev/fuse, a read after the other, to a loop device, and mounted from that: for
//! a server it is a file system on a disk like any other, with a page cache of which all tests of
//! residency tell the truth.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEntry,
    ReplyOpen, Request,
};

use super::programs::run;
use super::{DiskReads, PREFIX, SetupError, left_behind, until};

/// How the image is called where it is served.
const IMAGE: &str = "image";

/// How long a file system may be busy that nobody uses any more, and how often it is tried.
const FREE_WITHIN: Duration = Duration::from_secs(5);
const TRY_EVERY: Duration = Duration::from_millis(20);

/// Room in an image beside its files: what the file system needs, at most about this share of it
/// and so much.
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
    /// Without root, /dev/fuse or a loop device; when a program is missing.
    pub fn with(files: &Path) -> Result<Disk, SetupError> {
        static DISKS: AtomicU32 = AtomicU32::new(0);
        let image = image_of(files)?;
        let name = format!("{PREFIX}{}-disk-{}", process::id(), DISKS.fetch_add(1, Relaxed));
        let own = std::env::temp_dir().join(name);
        let (served, root) = (own.join("served"), own.join("files"));
        let state = Arc::<State>::default();
        let mut disk = Disk { served, root, session: None, state: Arc::clone(&state) };
        for directory in [&disk.served, &disk.root] {
            fs::create_dir_all(directory).map_err(|error| wrong(directory, &error))?;
        }
        let file = File::open(&image).map_err(|error| wrong(&image, &error))?;
        let len = file.metadata().map_err(|error| wrong(&image, &error))?.len();
        let mut config = Config::default();
        config.mount_options = vec![MountOption::RO, MountOption::FSName("flyball-lab".into())];
        let arm = Arm { file, len, state };
        let session = fuser::spawn_mount(arm, &disk.served, &config)
            .map_err(|error| SetupError(format!("a slow disk, by /dev/fuse: {error}")))?;
        disk.session = Some(session);
        let image = disk.served.join(IMAGE);
        let device = run("losetup", &["--find", "--show", "--read-only", &text(&image)])?;
        let device = device.trim();
        let mounted = run("mount", &["-o", "ro,noatime", device, &text(&disk.root)]);
        // It stays for as long as it is mounted.
        run("losetup", &["--detach", device])?;
        mounted.map(|_| disk)
    }

    /// Where the files are.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// From now on each read takes so long, and the next one begins when it is done.
    pub fn set_seek(&self, seek: Duration) {
        self.state.seek_us.store(u64::try_from(seek.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// What was read since it was there. Control groups do not count what a disk like this reads.
    pub fn reads(&self) -> DiskReads {
        let State { bytes, requests, .. } = &*self.state;
        DiskReads { bytes: bytes.load(Relaxed), requests: requests.load(Relaxed) }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.set_seek(Duration::ZERO);
        unmount(&self.root);
        if let Some(session) = self.session.take()
            && let Err(error) = session.umount_and_join()
        {
            eprintln!("{} stays mounted: {error}", self.served.display());
            return;
        }
        remove(&self.root);
    }
}

/// Unmounts, when nobody is at it any more; what somebody is at goes with him.
fn unmount(root: &Path) {
    let plainly =
        || run("umount", &[&text(root)]).ok().or_else(|| (!is_mounted(root)).then(String::new));
    if until(FREE_WITHIN, TRY_EVERY, &|| false, plainly).is_none() {
        let _ = run("umount", &["--lazy", &text(root)]);
    }
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
pub(super) fn clear_leftovers() {
    let is_left = |path: &Path| {
        path.components().any(|part| part.as_os_str().to_str().is_some_and(left_behind))
    };
    for mounted in mounts().iter().rev().filter(|path| is_left(path)) {
        // Who served it is gone: nothing of it can be read, and nobody needs to be waited for.
        let _ = run("umount", &["--lazy", &text(mounted)]);
    }
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| is_left(Path::new(&entry.file_name()))) {
        remove(&entry.path().join("files"));
    }
}

/// The image of a directory, beside it; made if it is not there or older than the directory.
fn image_of(files: &Path) -> Result<PathBuf, SetupError> {
    let beside = |ending: &str| PathBuf::from(format!("{}{ending}", files.display()));
    let image = beside(".ext4");
    let modified = |path: &Path| fs::metadata(path).and_then(|found| found.modified());
    let of_files = modified(files).map_err(|error| wrong(files, &error))?;
    if modified(&image).is_ok_and(|of_image| of_image > of_files) {
        return Ok(image);
    }
    let (mut bytes, mut count) = (0, 0);
    measure(files, &mut bytes, &mut count).map_err(|error| wrong(files, &error))?;
    let size = bytes + (bytes as f64 * IMAGE_SHARE) as u64 + IMAGE_ROOM;
    // Whole or not at all.
    let half = beside(".ext4.half");
    let _ = fs::remove_file(&half);
    let (inodes, blocks) = ((count + IMAGE_INODES).to_string(), (size / BLOCK).to_string());
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

/// Bytes of blocks below a directory, and files and directories.
fn measure(directory: &Path, bytes: &mut u64, count: &mut u64) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let found = entry?;
        let metadata = found.metadata()?;
        *bytes += metadata.size().next_multiple_of(BLOCK) + BLOCK;
        *count += 1;
        if metadata.is_dir() {
            measure(&found.path(), bytes, count)?;
        }
    }
    Ok(())
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn wrong(path: &Path, error: &io::Error) -> SetupError {
    SetupError(format!("{}: {error}", path.display()))
}

/// A file system of one file, the image. It has one thread, so that reads wait for each other.
struct Arm {
    file: File,
    len: u64,
    state: Arc<State>,
}

/// The inode of the image.
const IMAGE_INODE: INodeNo = INodeNo(2);

impl Arm {
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
            perm: if is_root { 0o500 } else { 0o400 },
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
        thread::sleep(Duration::from_micros(self.state.seek_us.load(Relaxed)));
        self.state.requests.fetch_add(1, Relaxed);
        self.state.bytes.fetch_add(u64::from(size), Relaxed);
        let mut bytes = vec![0; size as usize];
        match self.file.read_at(&mut bytes, offset) {
            Ok(read) => reply.data(&bytes[..read]),
            Err(error) => reply.error(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn files_are_what_they_were_each_read_takes_a_seek_and_all_is_gone_afterwards() {
        if !super::super::is_root() || !Path::new("/dev/fuse").exists() {
            return eprintln!("skipped: it takes root and /dev/fuse");
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
        let begun = Instant::now();
        assert!(fs::read(root.join("below/7")).unwrap() == bodies[7]);
        assert!(begun.elapsed() < seek, "what was read is in memory");
        drop(disk);
        assert!(!root.exists() && !is_mounted(&root));
        let devices = run("losetup", &["--list", "--noheadings", "--output", "BACK-FILE"]).unwrap();
        assert!(!devices.contains(&text(root.parent().unwrap())), "{devices}");
    }

    #[test]
    fn an_image_is_made_once_and_anew_when_its_files_change() {
        if super::super::find("mkfs.ext4").is_err() {
            return eprintln!("skipped: mkfs.ext4 is not installed");
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
        assert!(made(&image_of(&files).unwrap()) > first);
    }
}
