//! Which file or directory it is, whatever its name.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{Stat, fstat, major, minor};

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
    Node { device: device_of_stat(about), inode: about.st_ino }
}

/// The number of a device, as stat(2) tells of it: the same as [`device_number`] of statx(2).
pub(crate) fn device_of_stat(about: &Stat) -> u64 {
    device_number(major(about.st_dev), minor(about.st_dev))
}

/// The number of a device by its two parts, which is not the kernel's own number: that of stat(2)
/// has the parts in pieces, and statx(2) has none.
pub(crate) fn device_number(major: u32, minor: u32) -> u64 {
    u64::from(major) << 32 | u64::from(minor)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_same_however_it_was_looked_at() {
        let file = tempfile::tempfile().unwrap();
        let stamp = crate::file::stamp(&file).unwrap();
        assert_eq!(node(&file).unwrap(), Node::from(&stamp));
    }
}
