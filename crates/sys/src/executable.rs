//! The file of a program, looked up once.
//!
//! The directory that holds it stays open, and the program is executed there by its name alone. So
//! no directory above is looked up a second time: a user who owns one of them could have replaced
//! it by a link in between. Of the file itself a replacement is seen as far as the check goes; who
//! may write to its directory may change the program as well.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, Stat, accessat, fstat, openat, statat};

use crate::file::{self, Links};
use crate::place::{is_outside_proc, lead_outside_proc};

/// As much of a script as the kernel looks at for its interpreter (BINPRM_BUF_SIZE).
const FIRST_LINE_MAX: usize = 256;

/// A file that was found, and not yet whether it may be executed.
#[derive(Debug)]
pub struct Executable {
    directory: OwnedFd,
    name: OsString,
    about: Stat,
}

impl Executable {
    /// What a path leads to, by links outside of procfs. Blocks on the disk.
    ///
    /// # Errors
    /// When there is nothing, or something of procfs is on the way, or the file was replaced
    /// meanwhile.
    pub fn find(path: &Path) -> io::Result<Executable> {
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::from_raw_os_error(libc::EISDIR));
        };
        let directory = lead_outside_proc(directory)?.found;
        Executable::of(directory, name, lead_outside_proc(path)?.found.as_fd())
    }

    /// What a path beneath `root` leads to by the links that may be followed; `None` is a
    /// directory. Blocks on the disk.
    ///
    /// # Errors
    /// As [`Executable::find`], and as [`file::open_beneath`] for links that are not followed.
    pub fn find_beneath(
        root: impl AsFd,
        path: &[u8],
        links: Links,
    ) -> io::Result<Option<Executable>> {
        let place = |path: &[u8]| file::open_place(root.as_fd(), path, links);
        let found = place(path)?;
        if kind(&fstat(&found)?) == FileType::Directory {
            return Ok(None);
        }
        let (directory, name) = match path.iter().rposition(|&byte| byte == b'/') {
            Some(end) => (place(&path[..end])?, &path[end + 1..]),
            None => (place(b".")?, path),
        };
        is_outside_proc(found.as_fd())?;
        Executable::of(directory, OsStr::from_bytes(name), found.as_fd()).map(Some)
    }

    /// The name in a directory, which must lead to what was found.
    fn of(directory: OwnedFd, name: &OsStr, found: BorrowedFd<'_>) -> io::Result<Executable> {
        let (about, there) = (fstat(found)?, statat(&directory, name, AtFlags::empty())?);
        if (about.st_dev, about.st_ino) != (there.st_dev, there.st_ino) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Executable { directory, name: name.to_owned(), about })
    }

    /// Whether it is a regular file that this process may execute. Blocks on the disk.
    ///
    /// # Errors
    /// Why not, as execve(2) would say: `PermissionDenied`, `IsADirectory`.
    pub fn check(&self) -> io::Result<()> {
        match kind(&self.about) {
            FileType::RegularFile => {
                Ok(accessat(&self.directory, &self.name, Access::EXEC_OK, AtFlags::empty())?)
            }
            FileType::Directory => Err(io::Error::from_raw_os_error(libc::EISDIR)),
            _ => Err(io::Error::from_raw_os_error(libc::EACCES)),
        }
    }

    /// The directory that holds it, which is its working directory.
    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// By which it is executed in its directory: a script finds it in `$0`.
    pub(crate) fn path_there(&self) -> PathBuf {
        Path::new(".").join(&self.name)
    }

    /// What the first line of a script names as its interpreter, as the kernel reads it
    /// (execve(2)); `None` when it names none. Blocks on the disk.
    ///
    /// # Errors
    /// Why the script cannot be read.
    pub fn interpreter(&self) -> io::Result<Option<Vec<u8>>> {
        let mut first = Vec::with_capacity(FIRST_LINE_MAX);
        // O_NONBLOCK: it may have become a FIFO meanwhile.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = openat(&self.directory, &self.name, flags, Mode::empty())?;
        std::fs::File::from(opened).take(FIRST_LINE_MAX as u64).read_to_end(&mut first)?;
        let Some(line) = first.strip_prefix(b"#!") else { return Ok(None) };
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let mut words = line.split(|byte| b" \t".contains(byte)).filter(|word| !word.is_empty());
        Ok(words.next().map(<[u8]>::to_vec))
    }
}

fn kind(about: &Stat) -> FileType {
    FileType::from_raw_mode(about.st_mode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A directory with programs in it, and links to them.
    fn laid_out() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("root/sub")).unwrap();
        fs::create_dir(at("out")).unwrap();
        for name in ["root/sub/run", "root/sub/plain", "out/run"] {
            fs::write(at(name), "#!/bin/sh\n").unwrap();
            let mode = if name.ends_with("run") { 0o755 } else { 0o644 };
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        for (target, name) in [
            ("sub", "root/near"),
            ("../sub/run", "root/sub/again"),
            ("../../out/run", "root/sub/away"),
            ("../out", "root/far"),
            ("/proc/self/cwd", "root/here"),
            ("/proc/self/exe", "root/exe"),
            ("/proc/self/status", "root/status"),
        ] {
            symlink(target, at(name)).unwrap();
        }
        dir
    }

    #[test]
    fn a_program_is_found_by_the_links_that_may_be_followed_and_none_of_proc() {
        let dir = laid_out();
        let root = file::open_root(&dir.path().join("root")).unwrap();
        let finds =
            |name: &str, links| match Executable::find_beneath(&root, name.as_bytes(), links) {
                Ok(Some(found)) => found.check().is_ok(),
                Ok(None) => panic!("{name} is a directory"),
                Err(_) => false,
            };
        for (name, least) in [
            ("sub/run", Some(Links::Deny)),
            ("near/run", Some(Links::Beneath)),
            ("sub/again", Some(Links::Beneath)),
            ("near/again", Some(Links::Beneath)),
            ("sub/away", Some(Links::Follow)),
            ("far/run", Some(Links::Follow)),
            ("sub/plain", None),
            ("exe", None),
            ("status", None),
            ("here/Cargo.toml", None),
            ("sub/none", None),
        ] {
            let order = [Links::Deny, Links::Beneath, Links::Follow];
            let from = order.iter().position(|links| Some(*links) == least);
            for (at, links) in order.into_iter().enumerate() {
                let may = from.is_some_and(|from| at >= from);
                assert_eq!(finds(name, links), may, "{name} {links:?}");
            }
        }
        assert!(matches!(Executable::find_beneath(&root, b"sub", Links::Deny), Ok(None)));
        let at = |name: &str| Executable::find(&dir.path().join("root").join(name));
        for name in ["sub/run", "near/again", "far/run", "sub/away"] {
            at(name).unwrap().check().unwrap();
        }
        for name in ["here/Cargo.toml", "exe", "status"] {
            let error = at(name).unwrap_err().to_string();
            assert!(error.contains("leads to /proc"), "{name}: {error}");
        }
        let not = |path: &str| Executable::find(path.as_ref()).and_then(|found| found.check());
        assert_eq!(not("/bin").unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(not("/").unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(not("/etc/passwd").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(not("/dev/null").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_file_that_is_another_than_the_one_that_was_looked_at_is_not_found() {
        let dir = laid_out();
        let opens = |name: &str| lead_outside_proc(&dir.path().join(name)).unwrap().found;
        let of = |directory: &str, found: &str| {
            Executable::of(opens(directory), "run".as_ref(), opens(found).as_fd())
        };
        assert!(of("out", "out/run").is_ok());
        let error = of("out", "root/sub/run").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_interpreter_of_a_script_is_the_first_word_behind_its_mark() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("script");
        for (text, named) in [
            ("#!/bin/sh\n", Some("/bin/sh")),
            ("#! \t/usr/bin/env  perl -w\n#!/bin/sh", Some("/usr/bin/env")),
            ("#!/bin/sh\r\necho", Some("/bin/sh\r")),
            ("#!\n/bin/sh", None),
            ("echo", None),
            ("", None),
        ] {
            fs::write(&path, text).unwrap();
            let found = Executable::find(&path).unwrap().interpreter().unwrap();
            assert_eq!(found.as_deref(), named.map(str::as_bytes), "{text:?}");
        }
    }
}
