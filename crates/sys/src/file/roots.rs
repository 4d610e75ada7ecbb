//! Directories beneath which names are looked for.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::{Failure, Links, failure, open_as, stamp};
use crate::place::lead_outside_proc;

/// Opens the directory that a site is served from. Names are looked for in it, for which it need
/// not be readable. Blocks on the disk.
///
/// # Errors
/// When it is not there, no directory, or may not be entered, and when /proc is on the way to it.
pub fn open_root(path: &Path) -> io::Result<OwnedFd> {
    let led = lead_outside_proc(path)?;
    Ok(rustix::fs::openat(led.found, c".", DIRECTORY, Mode::empty())?)
}

/// How a directory is opened in which names are looked for.
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::PATH).union(OFlags::CLOEXEC);

/// The first of the directories of a path, the last among them, that may not be entered. Blocks on
/// the disk.
pub fn closed_directory(path: &Path) -> Option<&Path> {
    let mut above: Vec<&Path> = path.ancestors().collect();
    above.retain(|directory| !directory.as_os_str().is_empty());
    let is_closed = |directory: &&&Path| {
        open_root(directory).is_err_and(|error| failure(&error) == Failure::Denied)
    };
    above.iter().rev().find(is_closed).copied()
}

/// Whether a path leads to another directory than this one. Blocks on the disk.
///
/// # Errors
/// When it leads to none, or to one that may not be entered.
pub fn leads_elsewhere(path: &Path, root: impl AsFd) -> io::Result<bool> {
    let (there, here) = (stamp(open_root(path)?)?, stamp(root)?);
    Ok((there.device, there.inode) != (here.device, here.inode))
}

/// Fails unless names may be looked for in an open directory.
fn enter(directory: impl AsFd) -> io::Result<()> {
    rustix::fs::openat(directory, c".", DIRECTORY, Mode::empty())?;
    Ok(())
}

/// Opens the directory of this path beneath `root`, as [`open_root`] and [`open_beneath`] do.
/// Blocks on the disk.
///
/// # Errors
/// As both.
pub fn open_directory(root: impl AsFd, path: &Path, links: Links) -> io::Result<OwnedFd> {
    let opened = open_as(root.as_fd(), path.as_os_str().as_bytes(), DIRECTORY, links)?;
    enter(&opened)?;
    Ok(opened)
}
