//! A file that is known by what it is, whatever name leads to it; or a directory, by what is in it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};

use crate::node::{Node, node, node_of};

/// Most files and directories that are known beneath one directory.
const BENEATH_MAX: usize = 100_000;

/// A file or directory that has been found by its name.
#[derive(Debug)]
pub struct KnownFile {
    /// While it is held, no other file gets its inode number.
    _held: OwnedFd,
    node: Node,
    above: Vec<(Node, PathBuf)>,
}

impl KnownFile {
    /// Finds it, all links followed, and holds it as a place alone (`O_PATH`), which gives no right
    /// to read it. Blocks on the disk.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(path: &Path) -> io::Result<KnownFile> {
        let held = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let node = node(&held)?;
        let real = path.canonicalize()?;
        let above = |directory: &Path| {
            let name = real.strip_prefix(directory).map_err(io::Error::other)?;
            Ok((node_of(&rustix::fs::stat(directory)?), name.to_owned()))
        };
        let above = real.ancestors().skip(1).map(above).collect::<io::Result<_>>()?;
        Ok(KnownFile { _held: held, node, above })
    }

    /// Which it is.
    pub fn node(&self) -> Node {
        self.node
    }

    /// The directories that it was found in, the nearest first, and its name beneath each.
    pub fn above(&self) -> impl Iterator<Item = (Node, &Path)> {
        self.above.iter().map(|(node, name)| (*node, &**name))
    }
}

/// What this name leads to and, if that is a directory, all that is beneath it: also what links in
/// it lead to, but nothing beneath that. Blocks on the disk.
///
/// # Errors
/// When there is none, when it cannot be read, or when more than [`BENEATH_MAX`] are in it.
pub fn all_of(path: &Path) -> io::Result<Vec<Node>> {
    let mut nodes = vec![node_of(&rustix::fs::stat(path)?)];
    let mut due = vec![path.to_owned()];
    while let Some(path) = due.pop() {
        let entries = match std::fs::read_dir(&path) {
            // What is gone by now is no secret.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotADirectory | io::ErrorKind::NotFound
                ) =>
            {
                continue;
            }
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            let Ok(stat) = rustix::fs::statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            nodes.push(node_of(&stat));
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => due.push(path),
                FileType::Symlink => nodes.extend(rustix::fs::stat(&path).map(|to| node_of(&to))),
                _ => {}
            }
            if nodes.len() > BENEATH_MAX {
                let why = format!("holds more than {BENEATH_MAX} files");
                return Err(io::Error::other(why));
            }
        }
    }
    Ok(nodes)
}

/// Whether links lead in a circle, or are too many.
pub fn is_loop(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_file_is_known_by_all_of_its_names_and_no_other_gets_its_number() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("in")).unwrap();
        fs::write(at("in/file"), "").unwrap();
        symlink("in/file", at("link")).unwrap();
        let known = KnownFile::find(&at("link")).unwrap();
        let (nearest, next) = (at("in"), at(""));
        for (at, (directory, name)) in [(0, (nearest, "file")), (1, (next, "in/file"))] {
            let directory = node(fs::File::open(directory).unwrap()).unwrap();
            assert_eq!(known.above().nth(at), Some((directory, Path::new(name))));
        }
        fs::hard_link(at("in/file"), at("other")).unwrap();
        let other = node(fs::File::open(at("other")).unwrap()).unwrap();
        assert_eq!(known.node(), other);
        fs::remove_file(at("in/file")).unwrap();
        fs::remove_file(at("other")).unwrap();
        for name in 0..100 {
            let file = fs::File::create(at(&name.to_string())).unwrap();
            assert_ne!(node(file).unwrap(), known.node());
        }
        assert!(KnownFile::find(&at("link")).is_err());
    }

    #[test]
    fn a_directory_is_all_that_is_beneath_it_and_what_its_links_lead_to() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("in/deep")).unwrap();
        for name in ["in/file", "in/deep/file", "linked", "beside"] {
            fs::write(at(name), "").unwrap();
        }
        symlink(at("linked"), at("in/link")).unwrap();
        symlink("nowhere", at("in/broken")).unwrap();
        fs::hard_link(at("in/deep/file"), at("other")).unwrap();
        let nodes = all_of(&at("in")).unwrap();
        let of = |name: &str| node(fs::File::open(at(name)).unwrap()).unwrap();
        for (name, known) in [
            ("in", true),
            ("in/file", true),
            ("in/deep", true),
            ("other", true),
            ("linked", true),
            ("beside", false),
        ] {
            assert_eq!(nodes.contains(&of(name)), known, "{name}");
        }
        assert_eq!(all_of(&at("beside")).unwrap().len(), 1);
        assert!(all_of(&at("nowhere")).is_err_and(|error| !is_loop(&error)));
        symlink("circle", at("circle")).unwrap();
        assert!(all_of(&at("circle")).is_err_and(|error| is_loop(&error)));
    }
}
