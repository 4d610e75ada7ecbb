//! What runs in the helper processes, and in the small process that forks them on demand.
//!
//! Both are single-threaded and hold nothing but the channel to whoever asks: no client's socket,
//! so that closing one in the worker ends the connection, and none of the worker's caches beyond
//! what a fork shares.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use flyball_sys::channel::{self, Channel};
use flyball_sys::disk::{FIRST_BYTES, Op};
use flyball_sys::file::{self, Links, Whereabouts};
use flyball_sys::mapping::Mapping;
use flyball_sys::{process, title};

/// Bytes of a request in front of its path: operation, links, 6 unused, number, offset, length.
const REQUEST_HEAD: usize = 32;

/// Longest path in a request (PATH_MAX); a longer one names nothing, which costs no disk.
const PATH_BYTES_MAX: usize = 4096;

/// Bytes of a completion: the number of the request.
pub(super) const COMPLETION_BYTES: usize = 8;

/// Bytes that a helper reads at a time.
const READ_BYTES: usize = 256 * 1024;

/// Mappings begin at a multiple of this: no page of Linux is larger.
const PAGE_BYTES_MAX: u64 = 64 * 1024;

/// What a helper brings into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    /// Pathname translation: the directories on a path, and the inode at its end.
    Path = 1,
    /// The inode of an open file.
    Inode = 2,
    /// The first data of a file and what leads to it, once writes to it have finished.
    Settle = 3,
    /// Pages of a file.
    Pages = 4,
    /// Some names in a directory, and what they name.
    Names = 5,
    /// Pages of a file that is mapped.
    Mapped = 6,
}

/// The record that asks for an operation's names or pages, and the descriptor that goes with it.
/// `None` when the operation needs no disk.
pub(super) fn request(op: &Op, number: u64) -> Option<(Vec<u8>, BorrowedFd<'_>)> {
    let record = |kind: Kind, links: u8, offset: u64, len: usize, path: &[u8]| {
        let mut record = Vec::with_capacity(REQUEST_HEAD + path.len());
        record.extend([kind as u8, links, 0, 0, 0, 0, 0, 0]);
        record.extend(number.to_ne_bytes());
        record.extend(offset.to_ne_bytes());
        record.extend((len as u64).to_ne_bytes());
        record.extend(path);
        record
    };
    Some(match op {
        Op::Open { root, path, links } => {
            let path = path.as_bytes();
            if path.len() > PATH_BYTES_MAX {
                return None;
            }
            (record(Kind::Path, links_code(*links), 0, 0, path), root.as_fd())
        }
        Op::Stat { file } => (record(Kind::Inode, 0, 0, 0, b""), file.as_fd()),
        Op::Settle { file, .. } => (record(Kind::Settle, 0, 0, 0, b""), file.as_fd()),
        Op::Read { file, buffer, filled, start } => {
            let (offset, len) = (start + *filled as u64, buffer.len() - filled);
            (record(Kind::Pages, 0, offset, len, b""), file.as_fd())
        }
        Op::Populate { file, start, len, .. } => {
            (record(Kind::Mapped, 0, *start, *len, b""), file.as_fd())
        }
        Op::List { directory, position, .. } => {
            (record(Kind::Names, 0, *position, 0, b""), directory.as_fd())
        }
        Op::Compute { .. } | Op::Keep { .. } | Op::Nameless { .. } | Op::Write { .. } => {
            return None;
        }
    })
}

/// The spawner's life: forks a helper for each record, and sends the worker's end of a channel to
/// it, or nothing when it cannot. Ends with the worker.
pub(super) fn spawn_on_demand(worker: &Channel) -> i32 {
    title::set("flyball: helper spawner");
    while let Ok((1.., _)) = worker.receive(&mut [0]) {
        let sent = match spawn() {
            Ok(helper) => worker.send(b"h", Some(helper.as_fd())),
            Err(_) => worker.send(b"-", None),
        };
        if sent.is_err() {
            break;
        }
    }
    0
}

fn spawn() -> std::io::Result<Channel> {
    let (here, there) = Channel::pair()?;
    process::fork_apart(&[there.as_fd()], || help(&there))?;
    Ok(here)
}

/// A helper's life: one request at a time, and a completion for each. Ends when nobody asks any
/// more.
fn help(worker: &Channel) -> i32 {
    title::set("flyball: helper");
    let mut record = vec![0; REQUEST_HEAD + PATH_BYTES_MAX];
    let mut scratch = Vec::new();
    while let Ok((len @ 1.., descriptor)) = worker.receive(&mut record) {
        let Some((head, path)) = record[..len].split_at_checked(REQUEST_HEAD) else {
            channel::say_dropped();
            continue;
        };
        let number = word(head, 8);
        // Without one there is nothing to bring in, and the worker waits for an end all the same.
        match descriptor {
            Some(descriptor) => bring_in(head, path, descriptor, &mut scratch),
            None => channel::say_dropped(),
        }
        if worker.send(&number.to_ne_bytes(), None).is_err() {
            break;
        }
    }
    0
}

/// Does what a request asks for, and forgets what it found: errors are found again by the loop.
fn bring_in(head: &[u8], path: &[u8], descriptor: OwnedFd, scratch: &mut Vec<u8>) {
    match head[0] {
        kind if kind == Kind::Path as u8 => {
            if let Ok(found) = file::open_beneath(&descriptor, path, links_of(head[1])) {
                let _ = file::stamp(&found);
            }
        }
        kind if kind == Kind::Inode as u8 => {
            let _ = file::stamp(&descriptor);
        }
        kind if kind == Kind::Settle as u8 => {
            scratch.resize(READ_BYTES, 0);
            file::touch(&descriptor, 0, FIRST_BYTES as u64, scratch);
            file::settle(&descriptor);
        }
        kind if kind == Kind::Pages as u8 => {
            scratch.resize(READ_BYTES, 0);
            file::touch(&descriptor, word(head, 16), word(head, 24), scratch);
        }
        kind if kind == Kind::Mapped as u8 => {
            populate(&descriptor, word(head, 16), word(head, 24), scratch);
        }
        kind if kind == Kind::Names as u8 => {
            let (path, links) = (b".".to_vec(), Links::Beneath);
            let place = Whereabouts { root: &descriptor, path, links };
            // The position of the descriptor is the loop's too, which seeks before it lists.
            let _ = file::list(&descriptor, &place, word(head, 16));
        }
        _ => {}
    }
}

/// Maps a range, so that its pages are in memory, as Flash's helpers do; reads it where that fails.
fn populate(file: &OwnedFd, start: u64, len: u64, scratch: &mut Vec<u8>) {
    let first = start / PAGE_BYTES_MAX * PAGE_BYTES_MAX;
    let mapped = usize::try_from(start - first + len).unwrap_or(usize::MAX);
    let mapping = Mapping::new(file, first, mapped);
    let rest = usize::try_from(len).unwrap_or(usize::MAX);
    if mapping.and_then(|mapping| mapping.populate(start, rest)).is_err() {
        scratch.resize(READ_BYTES, 0);
        file::touch(file, start, len, scratch);
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
    u64::from_ne_bytes(word.unwrap_or_default())
}

fn links_code(links: Links) -> u8 {
    match links {
        Links::Deny => 0,
        Links::Beneath => 1,
        Links::Follow => 2,
    }
}

fn links_of(code: u8) -> Links {
    match code {
        1 => Links::Beneath,
        2 => Links::Follow,
        _ => Links::Deny,
    }
}
