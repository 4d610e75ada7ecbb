//! The server's control group: what it may use, and what it has used.
//!
//! Both versions of control groups are spoken: with the first each controller has a tree of its
//! own.

use std::fs;
use std::io;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use super::process::signal;
use super::{PREFIX, SetupError, left_behind, until};

const ROOT: &str = "/sys/fs/cgroup";

/// How long the processes of a group may take to be gone, and how often it is looked.
const EMPTY_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Controllers of the first version that are used, and of the second.
const CONTROLLERS: &[&str] = &["memory", "cpu", "cpuacct", "blkio"];
const UNIFIED_CONTROLLERS: &[&str] = &["memory", "cpu", "io"];

/// The least quota of processor time that the kernel takes, in microseconds. A longer one would
/// stop servers for longer at a time.
const QUOTA_US: f64 = 1_000.0;

/// What was read from disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskReads {
    /// Bytes.
    pub bytes: u64,
    /// Requests to the disk.
    pub requests: u64,
}

impl DiskReads {
    /// How much more than before.
    pub fn since(self, before: DiskReads) -> DiskReads {
        DiskReads {
            bytes: self.bytes.saturating_sub(before.bytes),
            requests: self.requests.saturating_sub(before.requests),
        }
    }
}

/// A control group. Gone when dropped, once its processes are.
#[derive(Debug)]
pub struct Group {
    /// Its directory in each tree; one with the second version.
    directories: Vec<PathBuf>,
    unified: bool,
}

impl Group {
    /// Makes a group that has so many bytes of memory with the page cache; without a limit when
    /// absent.
    ///
    /// # Errors
    /// Without the right to, or where the kernel lacks a controller.
    pub fn new(name: &str, memory: Option<u64>) -> Result<Group, SetupError> {
        let unified = Path::new(ROOT).join("cgroup.controllers").exists();
        let name = format!("{PREFIX}{}-{name}", process::id());
        if unified {
            hand_down();
        }
        let trees: Vec<PathBuf> = match unified {
            true => vec![Path::new(ROOT).into()],
            false => CONTROLLERS.iter().map(|tree| Path::new(ROOT).join(tree)).collect(),
        };
        let mut group = Group { directories: Vec::new(), unified };
        for tree in trees {
            let directory = tree.join(&name);
            fs::create_dir_all(&directory)
                .map_err(|error| SetupError(format!("{}: {error}", directory.display())))?;
            group.directories.push(directory);
        }
        if let Some(bytes) = memory {
            let key = if group.unified { "memory.max" } else { "memory.limit_in_bytes" };
            group.write("memory", key, &bytes.to_string())?;
        }
        Ok(group)
    }

    /// From now on its processes read so many bytes in a second from the disk that holds `files`,
    /// at most.
    ///
    /// # Errors
    /// Where the kernel lacks the controller.
    pub fn slow_disk(&self, per_s: u64, files: &Path) -> Result<(), SetupError> {
        let disk = disk_of(files)?;
        let (key, value) = match self.unified {
            true => ("io.max", format!("{disk} rbps={per_s}")),
            false => ("blkio.throttle.read_bps_device", format!("{disk} {per_s}")),
        };
        self.write(if self.unified { "io" } else { "blkio" }, key, &value)
    }

    /// From now on its processes have this many CPUs' time, which may be less than one.
    ///
    /// # Errors
    /// Where the kernel lacks the controller.
    pub fn slow_cpu(&self, cpus: f64) -> Result<(), SetupError> {
        // The quota grows where many CPUs would make the period shorter than the kernel allows.
        let quota = QUOTA_US * cpus.max(1.0);
        let period = (quota / cpus).round();
        if self.unified {
            return self.write("cpu", "cpu.max", &format!("{quota:.0} {period:.0}"));
        }
        self.write("cpu", "cpu.cfs_period_us", &format!("{period:.0}"))?;
        self.write("cpu", "cpu.cfs_quota_us", &format!("{quota:.0}"))
    }

    /// From now on its processes run only when no others want to.
    ///
    /// # Errors
    /// Where the kernel lacks the controller, or is older than Linux 5.15.
    pub fn comes_last(&self) -> Result<(), SetupError> {
        self.write("cpu", "cpu.idle", "1")
    }

    /// Files into which a process writes its id to join.
    pub fn joins(&self) -> Vec<PathBuf> {
        self.directories.iter().map(|directory| directory.join("cgroup.procs")).collect()
    }

    /// Nanoseconds of CPU time that all its processes have used, in the kernel for them too.
    pub fn cpu_ns(&self) -> Option<u64> {
        if !self.unified {
            return self.read("cpuacct", "cpuacct.usage")?.trim().parse().ok();
        }
        let text = self.read("cpu", "cpu.stat")?;
        let line = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
        line.parse::<u64>().ok().map(|us| us * 1_000)
    }

    /// Bytes of memory that belong to no file on a disk, those that its processes share included.
    pub fn anonymous(&self) -> Option<u64> {
        Some(self.memory(if self.unified { "anon " } else { "rss " })? + self.shared()?)
    }

    /// Bytes of the page cache that are charged to it: of files on disks.
    pub fn page_cache(&self) -> Option<u64> {
        // What is shared is a file, too, by the kernel's account.
        let files = self.memory(if self.unified { "file " } else { "cache " })?;
        Some(files.saturating_sub(self.shared()?))
    }

    fn shared(&self) -> Option<u64> {
        self.memory("shmem ")
    }

    fn memory(&self, key: &str) -> Option<u64> {
        let text = self.read("memory", "memory.stat")?;
        text.lines().find_map(|line| line.strip_prefix(key))?.parse().ok()
    }

    /// What its processes have read from disks, so far.
    pub fn disk_reads(&self) -> Option<DiskReads> {
        if self.unified {
            let text = self.read("io", "io.stat")?;
            let sum = |key: &str| {
                let words = text.split_whitespace().filter_map(|word| word.strip_prefix(key));
                words.filter_map(|word| word.parse::<u64>().ok()).sum()
            };
            return Some(DiskReads { bytes: sum("rbytes="), requests: sum("rios=") });
        }
        let sum = |file: &str| {
            let text = self.read("blkio", file)?;
            let reads =
                text.lines().filter_map(|line| line.split_once(" Read ")?.1.parse::<u64>().ok());
            Some(reads.sum::<u64>())
        };
        let bytes = sum("blkio.throttle.io_service_bytes")?;
        Some(DiskReads { bytes, requests: sum("blkio.throttle.io_serviced")? })
    }

    /// The processes in it.
    pub fn processes(&self) -> Vec<u32> {
        let joins = self.joins();
        let text = joins.first().and_then(|file| fs::read_to_string(file).ok());
        text.unwrap_or_default().lines().filter_map(|line| line.parse().ok()).collect()
    }

    fn path(&self, controller: &str, file: &str) -> Option<PathBuf> {
        let of = |directory: &&PathBuf| {
            self.unified || directory.starts_with(Path::new(ROOT).join(controller))
        };
        Some(self.directories.iter().find(of)?.join(file))
    }

    fn read(&self, controller: &str, file: &str) -> Option<String> {
        fs::read_to_string(self.path(controller, file)?).ok()
    }

    fn write(&self, controller: &str, file: &str, value: &str) -> Result<(), SetupError> {
        let missing = || SetupError(format!("control groups have no controller {controller}"));
        // A directory of the second version has the files of the controllers that it was given.
        let path = self.path(controller, file).filter(|path| path.exists()).ok_or_else(missing)?;
        fs::write(&path, value).map_err(|error| SetupError(format!("{}: {error}", path.display())))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for directory in &self.directories {
            // Its processes have been told to end, and are counted until they have. The next run
            // would have the limits of a group that stays.
            until(EMPTY_WITHIN, LOOK_EVERY, &|| false, || removed(directory));
        }
    }
}

/// Gives the groups of the second version's root the controllers that they are limited by. One that
/// the kernel lacks is missed when it is needed; what was given stays given, for others may use it
/// by then.
fn hand_down() {
    for controller in UNIFIED_CONTROLLERS {
        let _ = fs::write(Path::new(ROOT).join("cgroup.subtree_control"), format!("+{controller}"));
    }
}

/// The whole disk that holds a file, as `major:minor`: limits hold for disks, not for partitions.
fn disk_of(files: &Path) -> Result<String, SetupError> {
    let wrong = |error| SetupError(format!("{}: {error}", files.display()));
    let device = fs::metadata(files).map_err(wrong)?.st_dev();
    // As `makedev` puts them together.
    let (major, minor) = ((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0xfff00));
    let system = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).map_err(wrong)?;
    let disk = match system.join("partition").exists() {
        true => system.parent().map_or(system.clone(), Path::to_path_buf),
        false => system,
    };
    Ok(fs::read_to_string(disk.join("dev")).map_err(wrong)?.trim().to_owned())
}

/// Removes the groups of labs that are gone.
pub(super) fn clear_leftovers() -> Result<(), SetupError> {
    let trees = CONTROLLERS.iter().map(|tree| Path::new(ROOT).join(tree));
    for tree in trees.chain([Path::new(ROOT).to_path_buf()]) {
        let Ok(entries) = fs::read_dir(&tree) else { continue };
        for entry in entries.flatten() {
            if entry.file_name().to_str().is_some_and(left_behind) {
                // A peer that changed its user does not end with the lab that started it.
                kill_all(&entry.path());
                let gone = until(EMPTY_WITHIN, LOOK_EVERY, &|| false, || removed(&entry.path()));
                gone.ok_or_else(|| {
                    SetupError(format!("{}: it cannot be removed", entry.path().display()))
                })?;
            }
        }
    }
    Ok(())
}

/// Removes a group's directory; nothing when something is in it yet.
fn removed(directory: &Path) -> Option<()> {
    match fs::remove_dir(directory) {
        Ok(()) => Some(()),
        Err(error) => (error.kind() == io::ErrorKind::NotFound).then_some(()),
    }
}

/// Kills the processes of a group.
fn kill_all(group: &Path) {
    let processes = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    for id in processes.lines() {
        signal("KILL", id);
    }
}
