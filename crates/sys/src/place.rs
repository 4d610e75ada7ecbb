//! Where a name leads. The directories of a path are walked one after the other, and each link
//! among them is looked at before it is followed.
//!
//! Where a file is made or appended to with rights that others lack ([`Place`]), a user who may
//! change one of the directories could put a symbolic link there, and have the file made wherever
//! it leads: a link is followed only if it is the superuser's or that of the user of this process.
//! Where something is read, no link of procfs is followed: such a link leads where its reader is,
//! past the directories above that (proc(5), `/proc/pid/cwd`, `fd` and `root`). What is shown to
//! all is found by the owners of links and by the rules of roots ([`crate::within`]).

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, chmod, chownat, fstat, fstatfs, openat, readlinkat,
    unlinkat,
};
use rustix::process::Gid;

use crate::node::{Node, node, node_of};

/// Most links that lead to one place, as in the kernel (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// The f_type of procfs (statfs(2)).
const PROC: i64 = 0x9fa0;

/// A directory that is open, and a name in it.
#[derive(Debug)]
pub struct Place {
    directory: OwnedFd,
    name: OsString,
}

impl Place {
    /// The place that a path names. Blocks on the disk.
    ///
    /// # Errors
    /// When one of its directories is not there, or a link of another user; `InvalidInput` for a
    /// path without a name at its end.
    pub fn of(path: &Path) -> io::Result<Place> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let directory = match lead(path.parent().unwrap_or(Path::new("")), &mut Own)? {
            Some(led) => led.found,
            None => enter(CWD, Path::new("."))?,
        };
        Ok(Place { directory, name })
    }

    /// The directory.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// The name in it.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Which file it names; of a link, the link.
    pub(crate) fn node(&self) -> io::Result<Node> {
        node(enter(&self.directory, Path::new(&self.name))?)
    }

    /// Whether it names a socket.
    pub(crate) fn is_socket(&self) -> bool {
        let about = enter(&self.directory, Path::new(&self.name)).and_then(|it| Ok(fstat(&it)?));
        about.is_ok_and(|about| FileType::from_raw_mode(about.st_mode) == FileType::Socket)
    }

    /// Removes the file or socket that it names.
    pub(crate) fn unlink(&self) -> io::Result<()> {
        Ok(unlinkat(&self.directory, &self.name, AtFlags::empty())?)
    }

    /// Gives what it names to a group, without following it if it is a link.
    pub(crate) fn change_group(&self, group: u32) -> io::Result<()> {
        let (group, flags) = (Some(Gid::from_raw(group)), AtFlags::SYMLINK_NOFOLLOW);
        Ok(chownat(&self.directory, &self.name, None, group, flags)?)
    }

    /// Gives the socket that it names this mode, and to this group, and returns which file it is.
    /// Nothing is changed by the name, where another user may have put a link or another socket
    /// meanwhile: it must be the one that is `known`, and where none is, it must have that mode and
    /// group.
    pub(crate) fn guard_socket(
        &self,
        mode: u32,
        group: u32,
        known: Option<Node>,
    ) -> io::Result<Node> {
        let socket = enter(&self.directory, Path::new(&self.name))?;
        let about = fstat(&socket)?;
        if FileType::from_raw_mode(about.st_mode) != FileType::Socket {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let node = node_of(&about);
        let is_as_wanted = Mode::from_raw_mode(about.st_mode) == Mode::from_raw_mode(mode)
            && group == about.st_gid;
        if known.map_or(!is_as_wanted, |known| known != node) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if is_as_wanted {
            return Ok(node);
        }
        let by_number = format!("/proc/self/fd/{}", socket.as_fd().as_raw_fd());
        let (group, flags) = (Some(Gid::from_raw(group)), AtFlags::EMPTY_PATH);
        chownat(&socket, "", None, group, flags)?;
        chmod(by_number, Mode::from_raw_mode(mode))?;
        Ok(node)
    }

    /// The name in it with something behind it.
    pub fn name_and(&self, more: &str) -> OsString {
        let mut name = self.name.clone();
        name.push(more);
        name
    }
}

/// Opens what a path leads to as a place alone (`O_PATH`), by links of the superuser and of the
/// user of this process. Blocks on the disk.
///
/// # Errors
/// When there is nothing, or a link of another user on the way.
pub fn open_by_own_links(path: &Path) -> io::Result<OwnedFd> {
    Ok(lead(path, &mut Own)?.ok_or(io::ErrorKind::NotFound)?.found)
}

/// Opens a directory to be looked into.
pub(crate) fn enter(at: impl AsFd, name: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, name, flags, Mode::empty())?)
}

/// Where a path has led.
pub(crate) struct Led {
    /// The directory of the last name, which is no link.
    pub(crate) directory: OwnedFd,
    /// That name.
    pub(crate) name: PathBuf,
    /// What it names, as a place alone (`O_PATH`).
    pub(crate) found: OwnedFd,
}

/// How a path is followed: which links are, and what the directories on the way are to it.
pub(crate) trait Way {
    /// The walk enters a directory by this name: `/`, `..` or one of those that the last one holds.
    /// Whether the name that is next is one of a link, and not of the path.
    fn enters(&mut self, _name: &Path, _about: &Stat, _goes_on_by_link: bool) -> io::Result<()> {
        Ok(())
    }

    /// A link of this name shall be followed.
    fn follows(&mut self, name: &Path, link: BorrowedFd<'_>, about: &Stat) -> io::Result<()>;
}

/// The names of a path, the first one last.
fn steps(path: &Path) -> impl Iterator<Item = PathBuf> {
    path.components().rev().map(|part| PathBuf::from(part.as_os_str()))
}

/// By links that lie outside of procfs.
struct OutsideProc;

impl Way for OutsideProc {
    fn follows(&mut self, _: &Path, link: BorrowedFd<'_>, _: &Stat) -> io::Result<()> {
        is_outside_proc(link)
    }
}

/// By links of the superuser and of the user of this process.
struct Own;

impl Way for Own {
    fn follows(&mut self, name: &Path, _: BorrowedFd<'_>, about: &Stat) -> io::Result<()> {
        if is_own(about) { Ok(()) } else { Err(not_followed(name)) }
    }
}

/// Whether the superuser or the user of this process owns it.
pub(crate) fn is_own(about: &Stat) -> bool {
    about.st_uid == 0 || about.st_uid == rustix::process::geteuid().as_raw()
}

pub(crate) fn not_followed(link: &Path) -> io::Error {
    let link = link.display();
    io::Error::other(format!("{link} is a symbolic link of another user, which is not followed"))
}

/// Follows a path by links that lie outside of procfs, to something outside of it. Blocks on the
/// disk.
///
/// # Errors
/// When there is nothing, or something of procfs is on the way or at the end.
pub(crate) fn lead_outside_proc(path: &Path) -> io::Result<Led> {
    let led = lead(path, &mut OutsideProc)?.ok_or(io::ErrorKind::NotFound)?;
    is_outside_proc(led.found.as_fd())?;
    Ok(led)
}

/// Fails for what is of procfs.
pub(crate) fn is_outside_proc(place: BorrowedFd<'_>) -> io::Result<()> {
    match fstatfs(place)?.f_type {
        PROC => Err(io::Error::other("leads to /proc, where each reader finds something else")),
        _ => Ok(()),
    }
}

/// Follows a path; `None` when it has no name at all.
pub(crate) fn lead(path: &Path, way: &mut impl Way) -> io::Result<Option<Led>> {
    let (mut left, mut links) = (steps(path).collect::<Vec<_>>(), 0);
    // So many of them are of the path.
    let mut of_path = left.len();
    // An absolute path leads on from where the process is closed.
    let start: &OsStr = match path.is_absolute() {
        true => Component::RootDir.as_os_str(),
        false => Component::CurDir.as_os_str(),
    };
    let mut directory = enter(CWD, Path::new(start))?;
    while let Some(name) = left.pop() {
        of_path = of_path.min(left.len());
        let found = enter(&directory, &name)?;
        let about = fstat(&found)?;
        if FileType::from_raw_mode(about.st_mode) != FileType::Symlink {
            if left.is_empty() {
                return Ok(Some(Led { directory, name, found }));
            }
            way.enters(&name, &about, left.len() > of_path)?;
            directory = found;
            continue;
        }
        way.follows(&name, found.as_fd(), &about)?;
        links += 1;
        if links > LINKS_MAX {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        let target = readlinkat(&found, "", Vec::new())?.into_bytes();
        left.extend(steps(Path::new(&OsString::from_vec(target))));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, lchown, symlink};

    fn leads_to(path: &Path) -> io::Result<u64> {
        Ok(fstat(Place::of(path)?.directory())?.st_ino)
    }

    #[test]
    fn a_link_of_proc_is_not_followed_and_nothing_of_it_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("a")).unwrap();
        std::fs::write(at("a/page"), "text").unwrap();
        for (target, name) in [
            ("a", "near"),
            ("/proc/self/cwd", "cwd"),
            ("/proc/self/root/usr", "usr"),
            ("/proc/self/maps", "maps"),
            ("/proc/self", "self"),
            ("self/cwd", "twice"),
        ] {
            symlink(target, at(name)).unwrap();
        }
        let open = std::fs::File::open(at("a/page")).unwrap();
        symlink(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open)), at("fd"))
            .unwrap();
        for name in ["near", "near/page", "near/../a", ""] {
            assert!(lead_outside_proc(&at(name)).is_ok(), "{name}");
        }
        for name in ["cwd", "usr", "maps", "self", "twice", "fd", "self/status"] {
            let error = lead_outside_proc(&at(name)).err().map(|error| error.to_string());
            assert!(error.is_some_and(|why| why.contains("leads to /proc")), "{name}");
        }
    }

    #[test]
    fn own_links_are_followed_and_those_of_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("a/b")).unwrap();
        for (target, name) in [("a", "near"), ("../a/./b/", "a/up"), ("loop", "loop")] {
            symlink(target, at(name)).unwrap();
        }
        symlink(at("near/up"), at("far")).unwrap();
        let b = at("a/b").metadata().unwrap().ino();
        for name in ["a/b/log", "near/b/log", "a/up/log", "far/log", "far/../b/log"] {
            assert_eq!(leads_to(&at(name)).unwrap(), b, "{name}");
        }
        let here = std::fs::metadata(".").unwrap().ino();
        assert_eq!(leads_to(Path::new("log")).unwrap(), here);
        for name in ["none/log", "loop/log", ".."] {
            assert!(Place::of(&at(name)).is_err(), "{name}");
        }
        std::fs::write(at("file"), "").unwrap();
        assert!(
            openat(
                Place::of(&at("file/log")).unwrap().directory(),
                "log",
                OFlags::PATH,
                Mode::empty()
            )
            .is_err()
        );
        if !crate::process::is_root() {
            return eprintln!("only the superuser makes links of others: not tested");
        }
        lchown(at("near"), Some(61_001), None).unwrap();
        for name in ["near/b/log", "far/log"] {
            let error = Place::of(&at(name)).unwrap_err().to_string();
            assert!(error.contains("near is a symbolic link of another user"), "{error}");
        }
        for name in ["near", "near/b", "far"] {
            let error = open_by_own_links(&at(name)).unwrap_err().to_string();
            assert!(error.contains("near is a symbolic link of another user"), "{error}");
        }
        let inode = |path: &Path| fstat(open_by_own_links(path).unwrap()).unwrap().st_ino;
        assert_eq!((inode(&at("a/up")), inode(&at("a/b"))), (b, b));
        assert_eq!(inode(Path::new("/")), std::fs::metadata("/").unwrap().ino());
    }
}
