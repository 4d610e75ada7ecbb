//! Where a name leads, by the rules of the directories that it lies in.
//!
//! What is served from a root may belong to another than who names a file in it. So the root's
//! rules for links hold beneath it. Whether a file lies beneath a root is no matter of its name: a
//! link or `..` may lead there. The directories that a walk comes through are compared with the
//! roots by device and inode, and each of them has the rules of the nearest root at or above it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, Stat, fstat, openat};

use super::{Led, Step, Way, enter, is_outside_proc, lead};
use crate::file::{Links, read_opened};

/// Which directory it is, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    device: u64,
    inode: u64,
}

/// Which directory this one is.
///
/// # Errors
/// When the file system fails.
pub fn node(directory: impl AsFd) -> io::Result<Node> {
    Ok(node_of(&fstat(directory)?))
}

fn node_of(about: &Stat) -> Node {
    Node { device: about.st_dev, inode: about.st_ino }
}

/// What a path has led to.
pub struct Within {
    led: Led,
    above: Vec<Passed>,
    asked: Vec<(Node, PathBuf)>,
}

/// A directory that something lies in.
struct Passed {
    name: OsString,
    node: Node,
}

/// Follows a path by links outside of procfs, and beneath a directory for which there are `rules`
/// by these. Blocks on the disk.
///
/// # Errors
/// When there is nothing; as [`open_beneath`] for links that are not followed; when something of
/// procfs is on the way or at the end.
///
/// [`open_beneath`]: crate::file::open_beneath
pub fn lead_within(path: &Path, rules: impl Fn(Node) -> Option<Links>) -> io::Result<Within> {
    let mut way = ByRules { rules, above: Vec::new(), kept_in: 0, asked: Vec::new() };
    let led = lead(path, &mut way)?.ok_or(io::ErrorKind::NotFound)?;
    is_outside_proc(led.found.as_fd())?;
    Ok(Within { led, above: way.above, asked: way.asked })
}

impl Within {
    /// The directories that it lies in, the nearest first, and its name beneath each.
    pub fn above(&self) -> impl Iterator<Item = (Node, PathBuf)> {
        let mut below = PathBuf::from(&self.led.name);
        self.above.iter().rev().map(move |passed| {
            let above = Path::new(&passed.name).join(&below);
            (passed.node, std::mem::replace(&mut below, above))
        })
    }

    /// The name beneath a directory by which it was asked for, if there are only names of the path
    /// from there on, and none of a link.
    pub fn asked_beneath(&self, node: Node) -> Option<&Path> {
        self.asked.iter().rev().find(|(above, _)| *above == node).map(|(_, name)| &**name)
    }

    /// Reads it, as [`read_whole`] does.
    ///
    /// # Errors
    /// As [`read_whole`].
    ///
    /// [`read_whole`]: crate::file::read_whole
    pub fn read(&self, bytes_max: u64) -> io::Result<Vec<u8>> {
        self.led.read(bytes_max)
    }
}

impl Led {
    /// Reads what it led to, a regular file.
    pub(crate) fn read(&self, bytes_max: u64) -> io::Result<Vec<u8>> {
        // O_NONBLOCK keeps the open of a FIFO from waiting for a writer. What it led to is no link.
        let flags =
            OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
        read_opened(openat(&self.directory, &self.name, flags, Mode::empty())?, bytes_max)
    }
}

struct ByRules<R> {
    rules: R,
    /// The directories from the first one on that the walk stands in.
    above: Vec<Passed>,
    /// So many of them must not be left any more: a link was followed that must stay beneath.
    kept_in: usize,
    /// What is asked for beneath roots.
    asked: Vec<(Node, PathBuf)>,
}

impl<R: Fn(Node) -> Option<Links>> ByRules<R> {
    /// The walk stands in a directory that this name has.
    fn push(&mut self, name: &OsStr, node: Node, left: &[Step]) {
        self.above.push(Passed { name: name.to_owned(), node });
        self.note(node, PathBuf::new(), left);
    }

    /// Notes what is asked for beneath a root: these names, and then those that are left.
    fn note(&mut self, root: Node, mut asked: PathBuf, left: &[Step]) {
        if (self.rules)(root).is_none() {
            return;
        }
        for step in left.iter().rev() {
            match step.name.components().next() {
                Some(Component::Normal(name)) if !step.is_of_link => asked.push(name),
                Some(Component::CurDir) => {}
                _ => return,
            }
        }
        self.asked.push((root, asked));
    }

    /// The directories above a relative path, of which the walk comes through none.
    fn climb(&mut self, directory: BorrowedFd<'_>, left: &[Step]) -> io::Result<()> {
        let here = std::env::current_dir().unwrap_or_default();
        let mut names = here.components().rev();
        let (mut at, mut last) = (enter(directory, Path::new("."))?, node(directory)?);
        let mut below = PathBuf::new();
        loop {
            let name = names.next().map_or(OsStr::new(""), |name| name.as_os_str());
            self.note(last, below.clone(), left);
            self.above.push(Passed { name: name.to_owned(), node: last });
            below = Path::new(name).join(below);
            // Beneath what may not be entered nothing is served.
            let Ok(above) = enter(&at, Path::new("..")) else { break };
            let found = node(&above)?;
            if found == last {
                break;
            }
            (at, last) = (above, found);
        }
        self.above.reverse();
        Ok(())
    }
}

impl<R: Fn(Node) -> Option<Links>> Way for ByRules<R> {
    fn begins(&mut self, directory: BorrowedFd<'_>, left: &[Step]) -> io::Result<()> {
        match left.last() {
            Some(step) if step.name.is_absolute() => Ok(()),
            _ => self.climb(directory, left),
        }
    }

    fn enters(&mut self, name: &Path, about: &Stat, left: &[Step]) -> io::Result<()> {
        let node = node_of(about);
        match name.components().next() {
            Some(Component::RootDir) if self.kept_in > 0 => Err(left_its_root()),
            Some(Component::RootDir) => {
                self.above.clear();
                self.push(name.as_os_str(), node, left);
                Ok(())
            }
            Some(Component::ParentDir) if self.kept_in == self.above.len() => Err(left_its_root()),
            Some(Component::ParentDir) => {
                if self.above.len() > 1 {
                    self.above.pop();
                }
                match self.above.last() {
                    Some(above) if above.node == node => Ok(()),
                    // It was moved meanwhile.
                    _ => Err(io::Error::from_raw_os_error(libc::EAGAIN)),
                }
            }
            Some(Component::Normal(name)) => {
                self.push(name, node, left);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn follows(&mut self, _: &Path, link: BorrowedFd<'_>, _: &Stat) -> io::Result<()> {
        is_outside_proc(link)?;
        let nearest = |(at, passed): (usize, &Passed)| Some((at, (self.rules)(passed.node)?));
        match self.above.iter().enumerate().rev().find_map(nearest) {
            Some((_, Links::Deny)) => Err(io::Error::from_raw_os_error(libc::ELOOP)),
            Some((at, Links::Beneath)) => {
                self.kept_in = self.kept_in.max(at + 1);
                Ok(())
            }
            Some((_, Links::Follow)) | None => Ok(()),
        }
    }
}

fn left_its_root() -> io::Error {
    io::Error::from_raw_os_error(libc::EXDEV)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn tree() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for name in ["root/sub/inner", "out"] {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        for name in ["root/page", "root/sub/page", "root/sub/inner/page", "out/page"] {
            fs::write(base.join(name), name).unwrap();
        }
        for (target, name) in [
            ("root", "current"),
            ("root/sub/near", "led"),
            ("page", "root/near"),
            ("../page", "root/sub/near"),
            ("../../page", "root/sub/inner/above"),
            ("../out/page", "root/out"),
            ("sub/inner/above", "root/twice"),
            ("sub/inner/page", "root/deep"),
        ] {
            symlink(target, base.join(name)).unwrap();
        }
        symlink(base.join("root/page"), base.join("root/absolute")).unwrap();
        (dir, base)
    }

    fn of(directory: &Path) -> Node {
        node(fs::File::open(directory).unwrap()).unwrap()
    }

    /// What is read by these rules for the directory `root`, and for `root/sub/inner`.
    fn read(path: &Path, base: &Path, root: Links, inner: Option<Links>) -> Option<String> {
        let (outer, within) = (of(&base.join("root")), of(&base.join("root/sub/inner")));
        let rules = |node| match node {
            _ if node == outer => Some(root),
            _ if node == within => inner,
            _ => None,
        };
        let found = lead_within(path, rules).ok()?;
        Some(String::from_utf8(found.read(64).unwrap()).unwrap())
    }

    #[test]
    fn the_rules_of_a_root_hold_beneath_it_by_whatever_name_it_is_reached() {
        let (_dir, base) = tree();
        for way in ["root", "current", "out/../root", "root/../current", "root/sub/..", "./root"] {
            for (name, deny, beneath, follow) in [
                ("page", true, true, true),
                ("sub/../page", true, true, true),
                ("near", false, true, true),
                ("sub/near", false, true, true),
                ("sub/inner/above", false, true, true),
                ("twice", false, true, true),
                ("absolute", false, false, true),
                ("out", false, false, true),
                ("../out/page", true, true, true),
            ] {
                let path = base.join(way).join(name);
                for (links, opens) in
                    [(Links::Deny, deny), (Links::Beneath, beneath), (Links::Follow, follow)]
                {
                    let read = read(&path, &base, links, None);
                    assert_eq!(read.is_some(), opens, "{way}/{name}: {links:?}");
                }
            }
        }
        let led = |links| read(&base.join("led"), &base, links, None);
        assert_eq!(led(Links::Deny), None, "a link leads to one beneath the root");
        assert_eq!(led(Links::Beneath).unwrap(), "root/page");
    }

    #[test]
    fn the_nearest_root_decides() {
        let (_dir, base) = tree();
        let inner = |name: &str, inner| read(&base.join(name), &base, Links::Follow, Some(inner));
        for name in ["root/sub/inner/above", "root/twice"] {
            assert_eq!(inner(name, Links::Deny), None, "{name}");
            assert_eq!(inner(name, Links::Beneath), None, "{name}");
            assert_eq!(inner(name, Links::Follow).unwrap(), "root/page", "{name}");
        }
        assert_eq!(inner("root/deep", Links::Deny).unwrap(), "root/sub/inner/page");
    }

    #[test]
    fn what_was_asked_for_is_told_unless_a_link_chose_it() {
        let (_dir, base) = tree();
        let root = of(&base.join("root"));
        let rules = |node| (node == root).then_some(Links::Follow);
        for (path, name, asked) in [
            ("root/sub/page", Some("sub/page"), Some("sub/page")),
            ("current/sub/page", Some("sub/page"), Some("sub/page")),
            ("root/near", Some("page"), Some("near")),
            ("led", Some("page"), None),
            ("root/../current/deep", Some("sub/inner/page"), Some("deep")),
            ("root/out", None, Some("out")),
            ("out/page", None, None),
        ] {
            let found = lead_within(&base.join(path), rules).unwrap();
            let told = found.above().find(|(node, _)| *node == root).map(|(_, name)| name);
            assert_eq!(told.as_deref(), name.map(Path::new), "{path}");
            assert_eq!(found.asked_beneath(root), asked.map(Path::new), "{path}");
        }
    }

    #[test]
    fn a_relative_name_lies_beneath_what_is_above_the_working_directory() {
        let here = std::env::current_dir().unwrap();
        let root = of(here.parent().unwrap());
        let rules = |node| (node == root).then_some(Links::Deny);
        let name = Path::new(here.file_name().unwrap()).join("Cargo.toml");
        for path in ["Cargo.toml", "./Cargo.toml", "./src/../Cargo.toml"] {
            let found = lead_within(Path::new(path), rules).unwrap();
            let asked = (!path.contains("..")).then_some(&*name);
            assert_eq!(found.asked_beneath(root), asked, "{path}");
            assert!(found.above().any(|place| place == (root, name.clone())), "{path}");
        }
    }
}
