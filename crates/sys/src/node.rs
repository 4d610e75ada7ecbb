//! Which file or directory it is, whatever its name.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{Stat, fstat};

/// A file or directory, by its device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    device: u64,
    inode: u64,
}

/// Which file or directory this one is.
///
/// # Errors
/// When the file system fails.
pub fn node(opened: impl AsFd) -> io::Result<Node> {
    Ok(node_of(&fstat(opened)?))
}

pub(crate) fn node_of(about: &Stat) -> Node {
    Node { device: about.st_dev, inode: about.st_ino }
}

impl From<[u64; 2]> for Node {
    /// As another process wrote it.
    fn from([device, inode]: [u64; 2]) -> Node {
        Node { device, inode }
    }
}

impl From<Node> for [u64; 2] {
    /// For another process of this machine.
    fn from(node: Node) -> [u64; 2] {
        [node.device, node.inode]
    }
}
