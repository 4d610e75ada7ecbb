//! Where a file lies that the server makes or appends to, with rights that others lack. A user who
//! may change one of the directories of its name could put a symbolic link there, and have the file
//! made wherever it leads. So the directories are walked one after the other, and a link among them
//! is followed only if it is the superuser's or that of the user of this process.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat, readlinkat};

/// Most links that lead to one place, as in the kernel (path_resolution(7)).
const LINKS_MAX: usize = 40;

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
        let directory = walk(path.parent().unwrap_or(Path::new("")))?;
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

    /// The name in it with something behind it.
    pub fn name_and(&self, more: &str) -> OsString {
        let mut name = self.name.clone();
        name.push(more);
        name
    }
}

/// Opens a directory to be looked into.
fn enter(at: impl AsFd, name: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, name, flags, Mode::empty())?)
}

fn walk(path: &Path) -> io::Result<OwnedFd> {
    let reversed = |path: &Path| {
        let parts = path.components().rev().map(|part| PathBuf::from(part.as_os_str()));
        parts.collect::<Vec<_>>()
    };
    let (mut left, mut links) = (reversed(path), 0);
    let mut here = enter(CWD, Path::new(Component::CurDir.as_os_str()))?;
    while let Some(part) = left.pop() {
        let found = enter(&here, &part)?;
        let about = fstat(&found)?;
        if FileType::from_raw_mode(about.st_mode) != FileType::Symlink {
            here = found;
            continue;
        }
        if about.st_uid != 0 && about.st_uid != rustix::process::geteuid().as_raw() {
            let part = part.display();
            return Err(io::Error::other(format!(
                "{part} is a symbolic link of another user, which is not followed"
            )));
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        let target = readlinkat(&found, "", Vec::new())?.into_bytes();
        left.extend(reversed(Path::new(&OsString::from_vec(target))));
    }
    Ok(here)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, lchown, symlink};

    fn leads_to(path: &Path) -> io::Result<u64> {
        Ok(fstat(Place::of(path)?.directory())?.st_ino)
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
    }
}
