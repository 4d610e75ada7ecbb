//! What kind of thing a path leads to.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// What there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A Unix-domain socket.
    Socket,
    /// A device, or a named pipe.
    Other,
}

/// The absolute path without links of what is at this path. Blocks on the disk.
///
/// # Errors
/// As realpath(3): `NotFound`, `PermissionDenied`.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    std::fs::canonicalize(path)
}

/// What is at this path, links followed. Blocks on the disk.
///
/// # Errors
/// As stat(2): `NotFound`, `PermissionDenied`.
pub fn kind_at(path: &Path) -> io::Result<FileKind> {
    let kind = std::fs::metadata(path)?.file_type();
    Ok(match kind {
        _ if kind.is_file() => FileKind::File,
        _ if kind.is_dir() => FileKind::Directory,
        _ if kind.is_socket() => FileKind::Socket,
        _ => FileKind::Other,
    })
}
