//! What a server stands on: its files on the disk that the figure asks for, and its group with the
//! page cache as it should be.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Site;
use crate::definition::{Machine, PageCache};
use crate::host::{Disk, DiskReads, Group, Place, Running, SetupError};

/// Time that reading all files once may take.
const PRIME_MAX: Duration = Duration::from_secs(600);

/// Bytes of which memory holds all or nothing of a file.
const PAGE: u64 = 4_096;

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
        let group = group(machine)?;
        if machine.page_cache == PageCache::Dropped || machine.memory_mib.is_some() {
            drop_page_cache()?;
        }
        if machine.page_cache == PageCache::Primed {
            prime(site, &files, (group.as_ref(), machine), stop)?;
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

fn group(machine: &Machine) -> Result<Option<Group>, SetupError> {
    if !crate::host::is_root() {
        return Ok(None);
    }
    Group::new("server", machine.memory_mib.map(|mib| mib << 20)).map(Some)
}

/// Takes what is clean out of the page cache. Without root it stays, and nothing is limited either.
pub(super) fn drop_page_cache() -> Result<(), SetupError> {
    const FILE: &str = "/proc/sys/vm/drop_caches";
    let written = fs::write(FILE, "1").map_err(|error| SetupError(format!("{FILE}: {error}")));
    if crate::host::is_root() { written } else { Ok(()) }
}

/// Reads files as the server's group, to which their pages are charged from then on: all of them,
/// or as many as its memory holds, since more would only push out what was read before.
fn prime(
    site: &Site,
    files: &Path,
    (group, machine): (Option<&Group>, &Machine),
    stop: &dyn Fn() -> bool,
) -> Result<(), SetupError> {
    let memory = machine.memory_mib.filter(|_| group.is_some()).map(|mib| mib << 20);
    let list = site.scratch.join("prime.list");
    let failed = |path: &Path, error: io::Error| SetupError(format!("{}: {error}", path.display()));
    // Listed where they were made: what is looked at on the server's disk stays in memory, and is
    // not the server's.
    let names = that_fit(&site.files, memory.unwrap_or(u64::MAX));
    let names = names.map_err(|error| failed(&site.files, error))?;
    let there: Vec<PathBuf> = names.iter().map(|name| files.join(name)).collect();
    let names: Vec<&[u8]> =
        there.iter().flat_map(|name| [name.as_os_str().as_bytes(), b"\0"]).collect();
    fs::write(&list, names.concat()).map_err(|error| failed(&list, error))?;
    let joins = group.map(Group::joins).unwrap_or_default();
    let place = Place { joins, cpus: Some(site.cpus.of_server()), ..Place::default() };
    let mut command = place.command(&crate::host::find("sh")?)?;
    command.args(["-c", "xargs -0 cat < \"$1\" > /dev/null", "sh"]).arg(&list);
    let log = site.scratch.join("prime.log");
    let ended = Running::start(&mut command, &log)?.wait(PRIME_MAX, stop);
    if ended.is_some_and(|status| status.success()) || stop() {
        return Ok(());
    }
    let said = fs::read_to_string(&log).unwrap_or_default();
    let files = files.display();
    Err(SetupError(format!("{files}: not all files could be read once: {}", said.trim())))
}

/// The first files by name whose pages fit into so many bytes, below the directory and the very
/// first last: of sets whose directories are numbered by how often they are asked for, that is what
/// has to stay longest.
fn that_fit(directory: &Path, room: u64) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    files_below(directory, &mut files)?;
    files.sort_unstable();
    let mut taken = 0_u64;
    let fits = |(_, size): &&(PathBuf, u64)| {
        taken = taken.saturating_add(size.next_multiple_of(PAGE));
        taken <= room
    };
    let fitting = files.iter().take_while(fits).map(|(path, _)| path);
    let below = |path: &PathBuf| path.strip_prefix(directory).unwrap_or(path).to_owned();
    let mut fitting: Vec<PathBuf> = fitting.map(below).collect();
    fitting.reverse();
    Ok(fitting)
}

/// Files with their sizes.
fn files_below(directory: &Path, files: &mut Vec<(PathBuf, u64)>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let found = entry?;
        let metadata = found.metadata()?;
        if metadata.is_dir() {
            files_below(&found.path(), files)?;
        } else if metadata.is_file() {
            files.push((found.path(), metadata.len()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_into_memory_is_not_read_before_a_run() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("a")).unwrap();
        for (name, size) in [("a/2", 5_000), ("a/1", 1), ("b", 4_096), ("c", 9_000)] {
            fs::write(directory.path().join(name), vec![0; size]).unwrap();
        }
        let fit = |room| that_fit(directory.path(), room).unwrap();
        assert_eq!(fit(4 * PAGE), ["b", "a/2", "a/1"].map(PathBuf::from));
        assert_eq!(fit(4 * PAGE - 1), ["a/2", "a/1"].map(PathBuf::from));
        assert_eq!(fit(u64::MAX).len(), 4);
    }
}
