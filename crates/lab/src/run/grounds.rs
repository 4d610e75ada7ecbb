//! What a server stands on: its files on the disk that the figure asks for, and its group with the
//! page cache as it should be.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Site;
use crate::definition::{Machine, PageCache};
use crate::host::{Disk, DiskReads, Group, GroupLimits, Place, Running, SetupError};

/// Time that reading all files once may take.
const PRIME_MAX: Duration = Duration::from_secs(600);

/// What a server stands on. The server has to be gone before this is dropped.
pub(crate) struct Grounds {
    pub(super) group: Option<Group>,
    /// Where the files are for the server.
    pub(super) files: PathBuf,
    /// Gone after the group, whose pages are of its files.
    disk: Option<Disk>,
}

impl Grounds {
    /// Whether what it takes is there.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) fn can_be_prepared(machine: &Machine) -> Result<(), SetupError> {
        match machine.disk_seek_ms.filter(|_| crate::host::is_root()) {
            Some(_) => Disk::can_be_made(),
            None => Ok(()),
        }
    }

    /// Without root nothing is limited, and the files are where they are. Blocks for as long as it
    /// takes to read all files, where the page cache is to hold them.
    pub(super) fn prepare(
        site: &Site,
        machine: &Machine,
        stop: &dyn Fn() -> bool,
    ) -> Result<Grounds, SetupError> {
        let disk = machine.disk_seek_ms.filter(|_| crate::host::is_root());
        let disk = disk.map(|_| Disk::with(&site.files)).transpose()?;
        let files = disk.as_ref().map_or(site.files.as_path(), Disk::root).to_owned();
        let group = group(machine, &site.files)?;
        if machine.page_cache == PageCache::Dropped || machine.memory_mib.is_some() {
            drop_page_cache()?;
        }
        if machine.page_cache == PageCache::Primed {
            prime(site, &files, group.as_ref(), stop)?;
        }
        // Files are read once at the disk's own speed: what is slow is slow for the server.
        if let (Some(group), Some(mib)) = (&group, machine.disk_mib_per_s) {
            group.slow_disk(mib << 20, &site.files)?;
        }
        if let (Some(disk), Some(ms)) = (&disk, machine.disk_seek_ms) {
            disk.set_seek(Duration::from_secs_f64(ms / 1e3));
        }
        Ok(Grounds { group, files, disk })
    }

    /// What was read from the disk for the server's group; of a disk of its own all that was.
    pub(super) fn disk_reads(&self) -> Option<DiskReads> {
        let of_group = || self.group.as_ref().and_then(Group::disk_reads);
        self.disk.as_ref().map(Disk::reads).or_else(of_group)
    }
}

fn group(machine: &Machine, files: &Path) -> Result<Option<Group>, SetupError> {
    if !crate::host::is_root() {
        return Ok(None);
    }
    let limits = GroupLimits { memory: machine.memory_mib.map(|mib| mib << 20), disk_per_s: None };
    Group::new("server", limits, files).map(Some)
}

/// Takes what is clean out of the page cache. Without root it stays, and nothing is limited either.
pub(super) fn drop_page_cache() -> Result<(), SetupError> {
    const FILE: &str = "/proc/sys/vm/drop_caches";
    let written = fs::write(FILE, "1").map_err(|error| SetupError(format!("{FILE}: {error}")));
    if crate::host::is_root() { written } else { Ok(()) }
}

/// Reads all files as the server's group, to which their pages are charged from then on.
fn prime(
    site: &Site,
    files: &Path,
    group: Option<&Group>,
    stop: &dyn Fn() -> bool,
) -> Result<(), SetupError> {
    let joins = group.map(Group::joins).unwrap_or_default();
    let place = Place { joins, cpus: Some(site.cpus.server.clone()), ..Place::default() };
    let mut command = place.command(&crate::host::find("sh")?)?;
    command.args(["-c", "find \"$1\" -type f -exec cat {} + > /dev/null", "sh"]).arg(files);
    let log = site.scratch.join("prime.log");
    let ended = Running::start(&mut command, &log)?.wait(PRIME_MAX, stop);
    if ended.is_some_and(|status| status.success()) || stop() {
        return Ok(());
    }
    let said = fs::read_to_string(&log).unwrap_or_default();
    let files = files.display();
    Err(SetupError(format!("{files}: not all files could be read once: {}", said.trim())))
}
