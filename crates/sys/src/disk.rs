//! One operation that may wait on the disk, as data: an event loop performs it in place, a helper
//! thread performs it for a loop, a ring submits it.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::file::{self, DirectoryEntry, Links, Stamp, Whereabouts};

/// An operation. It owns everything that the kernel will look at.
#[derive(Debug)]
pub enum Op {
    /// Opens a path beneath a root.
    Open {
        /// The root.
        root: Arc<OwnedFd>,
        /// The path, relative to it.
        path: CString,
        /// Which links are followed.
        links: Links,
    },
    /// Looks at an open file.
    Stat {
        /// The file.
        file: Arc<OwnedFd>,
    },
    /// Lets finish what is being written to a file.
    Settle {
        /// The file.
        file: Arc<OwnedFd>,
    },
    /// Reads into `buffer[filled..]` at the offset `start + filled`.
    Read {
        /// The file.
        file: Arc<OwnedFd>,
        /// Where the bytes go.
        buffer: Vec<u8>,
        /// Bytes of the buffer that are there already.
        filled: usize,
        /// Offset in the file of the first byte of the buffer.
        start: u64,
    },
    /// Lists an open directory.
    List {
        /// The directory.
        directory: Arc<OwnedFd>,
        /// Where it was found.
        place: Whereabouts<Arc<OwnedFd>>,
        /// Most names.
        limit: usize,
    },
    /// Adds to a CRC-32: work for the processor, which an event loop would rather not do itself.
    Digest {
        /// The bytes.
        bytes: Vec<u8>,
        /// The checksum of what came before.
        crc: u32,
    },
}

/// The result of an [`Op`], of the same name.
#[derive(Debug)]
pub enum Done {
    /// The file.
    Opened(io::Result<OwnedFd>),
    /// Its stamp.
    Stamped(io::Result<Stamp>),
    /// Nothing is being written any more that had begun before.
    Settled,
    /// The buffer, and how many bytes were read into it.
    Read(Vec<u8>, io::Result<usize>),
    /// The names, and whether there are more.
    Listed(io::Result<(Vec<DirectoryEntry>, bool)>),
    /// The checksum.
    Digested(u32),
}

impl Op {
    /// Performs it here and now. Blocks on the disk.
    pub fn perform(self) -> Done {
        match self {
            Op::Open { root, path, links } => {
                Done::Opened(file::open_beneath(&*root, path.as_bytes(), links))
            }
            Op::Stat { file } => Done::Stamped(file::stamp(&*file)),
            Op::Settle { file } => {
                file::settle(&*file);
                Done::Settled
            }
            Op::Read { file, mut buffer, filled, start } => {
                let read = file::read_at(&*file, &mut buffer[filled..], start + filled as u64);
                Done::Read(buffer, read)
            }
            Op::List { directory, place, limit } => {
                Done::Listed(file::list(&*directory, &place, limit))
            }
            Op::Digest { bytes, crc } => {
                let mut hasher = crc32fast::Hasher::new_with_initial(crc);
                hasher.update(&bytes);
                Done::Digested(hasher.finalize())
            }
        }
    }
}
