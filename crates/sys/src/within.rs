//! Where a name leads, by the owners of links and by the rules of the directories that it lies in.
//!
//! What is named is shown to all, but another than who names it may own a directory on the way, and
//! make a link there. So a link is followed if it is the superuser's or that of the user of this
//! process, or of the owner of the file that it leads to, who could show that file anyway.
//!
//! Beneath a root its rules for links hold instead. Whether a file lies beneath a root is no matter
//! of its name: a link or `..` may lead there. The directories that a walk comes through are
//! compared with the roots by device and inode, and each of them has the rules of the nearest root
//! at or above it. A link that leads from outside into a root is one of that root as well, and one
//! that leads out of all roots is judged as if it lay outside too.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, Stat, fstat, openat};

use crate::file::{Links, read_opened};
use crate::node::{Node, node, node_of};
use crate::place::{Led, Way, enter, is_outside_proc, is_own, lead, not_followed};

/// What a path has led to.
pub struct Within {
    led: Led,
    above: Vec<Passed>,
    is_by_link: bool,
}

/// A directory that something lies in.
struct Passed {
    name: OsString,
    node: Node,
}

/// Follows a path: beneath a directory for which there are `rules` by these, and elsewhere by links
/// of the superuser, of the user of this process, and of the owner of what it leads to. Blocks on
/// the disk.
///
/// # Errors
/// When there is nothing; as [`open_beneath`] for links that are not followed; when a link is of
/// another user; when something of procfs is on the way or at the end.
///
/// [`open_beneath`]: crate::file::open_beneath
pub fn lead_within(path: &Path, rules: impl Fn(Node) -> Option<Links>) -> io::Result<Within> {
    let (above, others) = (Vec::new(), Vec::new());
    let mut way = ByRules { rules, above, kept_in: 0, is_by_link: false, others };
    if path.is_relative() {
        way.climb()?;
    }
    let led = lead(path, &mut way)?.ok_or(io::ErrorKind::NotFound)?;
    is_outside_proc(led.found.as_fd())?;
    let owner = fstat(&led.found)?.st_uid;
    let is_beneath = way.nearest().is_some();
    let counts = |other: &&Other| !(other.is_beneath && is_beneath) && other.maker != owner;
    if let Some(other) = way.others.iter().find(counts) {
        return Err(not_followed(&other.link));
    }
    match way.nearest() {
        Some((_, Links::Deny)) if way.is_by_link => Err(io::Error::from_raw_os_error(libc::ELOOP)),
        _ => Ok(Within { led, above: way.above, is_by_link: way.is_by_link }),
    }
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

    /// Which file it is.
    ///
    /// # Errors
    /// When the file system fails.
    pub fn node(&self) -> io::Result<Node> {
        node(&self.led.found)
    }

    /// Whether a link beneath one of those directories, or from outside into one, is on the way.
    pub fn is_by_link(&self) -> bool {
        self.is_by_link
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
    /// As [`Within::is_by_link`].
    is_by_link: bool,
    /// Followed links of other users.
    others: Vec<Other>,
}

/// A link of another user.
struct Other {
    link: PathBuf,
    maker: u32,
    /// Whether it lies beneath a root, whose rules let it be followed.
    is_beneath: bool,
}

impl<R: Fn(Node) -> Option<Links>> ByRules<R> {
    /// The nearest directory with rules that the walk stands in or beneath, and its rules.
    fn nearest(&self) -> Option<(usize, Links)> {
        let rules = |(at, passed): (usize, &Passed)| Some((at, (self.rules)(passed.node)?));
        self.above.iter().enumerate().rev().find_map(rules)
    }

    /// The directories above a relative path, of which the walk comes through none.
    fn climb(&mut self) -> io::Result<()> {
        let here = std::env::current_dir().unwrap_or_default();
        let mut names = here.components().rev();
        let mut at = enter(CWD, Path::new("."))?;
        let mut last = node(&at)?;
        loop {
            let name = names.next().map_or(OsStr::new(""), |name| name.as_os_str());
            self.above.push(Passed { name: name.to_owned(), node: last });
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
    fn enters(&mut self, name: &Path, about: &Stat, goes_on_by_link: bool) -> io::Result<()> {
        let node = node_of(about);
        self.is_by_link |= goes_on_by_link && (self.rules)(node).is_some();
        match name.components().next() {
            Some(Component::RootDir) if self.kept_in > 0 => Err(left_its_root()),
            Some(Component::RootDir) => {
                self.above = vec![Passed { name: name.into(), node }];
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
                self.above.push(Passed { name: name.to_owned(), node });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn follows(&mut self, name: &Path, link: BorrowedFd<'_>, about: &Stat) -> io::Result<()> {
        is_outside_proc(link)?;
        let nearest = self.nearest();
        self.is_by_link |= nearest.is_some();
        match nearest {
            Some((_, Links::Deny)) => return Err(io::Error::from_raw_os_error(libc::ELOOP)),
            Some((at, Links::Beneath)) => self.kept_in = self.kept_in.max(at + 1),
            Some((_, Links::Follow)) | None => {}
        }
        if !is_own(about) {
            let (link, is_beneath) = (name.to_owned(), nearest.is_some());
            self.others.push(Other { link, maker: about.st_uid, is_beneath });
        }
        Ok(())
    }
}

fn left_its_root() -> io::Error {
    io::Error::from_raw_os_error(libc::EXDEV)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{chown, lchown, symlink};

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
        assert_eq!(inner("root/deep", Links::Deny), None, "a link leads into it");
        assert_eq!(inner("root/deep", Links::Beneath).unwrap(), "root/sub/inner/page");
        assert_eq!(inner("root/sub/inner/page", Links::Deny).unwrap(), "root/sub/inner/page");
    }

    #[test]
    fn a_link_beneath_a_root_or_into_one_is_told_and_one_to_the_root_itself_is_not() {
        let (_dir, base) = tree();
        symlink("../root/sub", base.join("out/into")).unwrap();
        symlink(".", base.join("root/self")).unwrap();
        let root = of(&base.join("root"));
        let read = |path: &str, links| {
            let found =
                lead_within(&base.join(path), |node| (node == root).then_some(links)).ok()?;
            let name = found.above().find(|(node, _)| *node == root).map(|(_, name)| name);
            Some((name, found.is_by_link()))
        };
        for (path, name, is_by_link) in [
            ("root/sub/page", Some("sub/page"), false),
            ("root/sub/../page", Some("page"), false),
            ("current/sub/page", Some("sub/page"), false),
            ("root/../current/page", Some("page"), false),
            ("root/near", Some("page"), true),
            ("root/self/page", Some("page"), true),
            ("led", Some("page"), true),
            ("out/into/page", Some("sub/page"), true),
            ("out/into/../page", Some("page"), true),
            ("current/deep", Some("sub/inner/page"), true),
            ("root/out", None, true),
            ("out/page", None, false),
        ] {
            let told = read(path, Links::Follow);
            assert_eq!(told, Some((name.map(PathBuf::from), is_by_link)), "{path}");
            assert_eq!(read(path, Links::Deny).is_some(), !is_by_link, "{path}");
        }
    }

    #[test]
    fn outside_of_roots_the_owner_of_a_link_decides() {
        let (_dir, base) = tree();
        if !crate::process::is_root() {
            return eprintln!("only the superuser makes links of others: not tested");
        }
        for (target, name) in [("../out/page", "x/file"), ("../out", "x/directory")] {
            fs::create_dir_all(base.join("x")).unwrap();
            symlink(target, base.join(name)).unwrap();
        }
        symlink("../root", base.join("x/root")).unwrap();
        let read = |path: &str, links: Option<Links>| {
            let root = of(&base.join("root"));
            let found = lead_within(&base.join(path), |node| links.filter(|_| node == root))
                .map_err(|error| error.to_string())?;
            Ok::<_, String>(String::from_utf8(found.read(64).unwrap()).unwrap())
        };
        let all = ["x/file", "x/directory/page", "x/root/page", "x/root/near"];
        for path in all {
            assert!(read(path, None).is_ok(), "{path}: a link of the superuser");
        }
        for name in ["x/file", "x/directory", "x/root"] {
            lchown(base.join(name), Some(61_001), None).unwrap();
        }
        for (path, name) in [
            ("x/file", "file"),
            ("x/directory/page", "directory"),
            ("x/root/page", "root"),
            ("x/root/near", "root"),
        ] {
            let why = format!("{name} is a symbolic link of another user, which is not followed");
            assert_eq!(read(path, None), Err(why), "{path}");
        }
        for name in ["out/page", "root/page"] {
            chown(base.join(name), Some(61_001), None).unwrap();
        }
        for path in all {
            assert!(read(path, None).is_ok(), "{path}: a link to a file of its owner");
        }
        lchown(base.join("x/directory"), Some(61_002), None).unwrap();
        symlink("directory/page", base.join("x/both")).unwrap();
        lchown(base.join("x/both"), Some(61_001), None).unwrap();
        assert!(read("x/both", None).is_err(), "one of two links is of another");
        // Beneath a root its rules alone hold.
        lchown(base.join("root/near"), Some(61_002), None).unwrap();
        assert!(read("root/near", None).is_err());
        assert!(read("root/near", Some(Links::Beneath)).is_ok());
        assert!(read("root/near", Some(Links::Deny)).is_err());
        // Where they let it lead out of the root, its owner decides again.
        lchown(base.join("root/out"), Some(61_002), None).unwrap();
        assert!(read("root/out", Some(Links::Follow)).is_err());
        lchown(base.join("root/out"), Some(61_001), None).unwrap();
        assert!(read("root/out", Some(Links::Follow)).is_ok());
    }

    #[test]
    fn a_relative_name_lies_beneath_what_is_above_the_working_directory() {
        let here = std::env::current_dir().unwrap();
        let root = of(here.parent().unwrap());
        let rules = |node| (node == root).then_some(Links::Deny);
        let name = Path::new(here.file_name().unwrap()).join("Cargo.toml");
        for path in ["Cargo.toml", "./Cargo.toml", "./src/../Cargo.toml"] {
            let found = lead_within(Path::new(path), rules).unwrap();
            assert!(found.above().any(|place| place == (root, name.clone())), "{path}");
            assert!(!found.is_by_link(), "{path}");
        }
    }
}
