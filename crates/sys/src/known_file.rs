//! A file that is known by what it is, whatever name leads to it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::within::{Node, node, node_of};

/// A file that has been found by its name.
#[derive(Debug)]
pub struct KnownFile {
    /// While it is held, no other file gets its inode number.
    _held: OwnedFd,
    node: Node,
    above: Vec<(Node, PathBuf)>,
}

impl KnownFile {
    /// Finds a file, all links followed, and holds it as a place alone (`O_PATH`), which gives no
    /// right to read it. Blocks on the disk.
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

    /// Which file it is.
    pub fn node(&self) -> Node {
        self.node
    }

    /// The directories that it was found in, the nearest first, and its name beneath each.
    pub fn above(&self) -> impl Iterator<Item = (Node, &Path)> {
        self.above.iter().map(|(node, name)| (*node, &**name))
    }
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
}
