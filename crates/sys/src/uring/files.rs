//! Files on a ring: opened, looked at and read by operations.

use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use io_uring::opcode;
use io_uring::types::{Fd, OpenHow};
use rustix::fs::Statx;

use super::{Held, Ring};
use crate::disk::Op;
use crate::file::Links;

impl Ring {
    /// Starts a disk operation; gives it back when the ring has none for it.
    pub fn disk(&mut self, op: Op, token: u64) -> Option<Op> {
        match op {
            Op::Open { root, path, links } => {
                let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
                let how = OpenHow::new().flags(flags as u64).resolve(resolve(links));
                let how = Box::new(how);
                let fd = Fd(root.as_raw_fd());
                let entry = opcode::OpenAt2::new(fd, path.as_ptr(), &raw const *how).build();
                self.start(entry, token, Held::Open { _root: root, _path: path, _how: how });
            }
            Op::Stat { file } => {
                let mut statx = Box::new(MaybeUninit::<Statx>::zeroed());
                let fd = Fd(file.as_raw_fd());
                let entry = opcode::Statx::new(fd, c"".as_ptr(), statx.as_mut_ptr().cast())
                    .flags(libc::AT_EMPTY_PATH)
                    .mask(libc::STATX_BASIC_STATS)
                    .build();
                self.start(entry, token, Held::Stat { _file: file, statx });
            }
            Op::Read { file, mut buffer, filled, start } => {
                let rest = &mut buffer[filled..];
                let len = u32::try_from(rest.len()).unwrap_or(u32::MAX);
                let fd = Fd(file.as_raw_fd());
                let entry = opcode::Read::new(fd, rest.as_mut_ptr(), len)
                    .offset(start + filled as u64)
                    .build();
                self.start(entry, token, Held::Read { _file: file, buffer });
            }
            op @ (Op::Settle { .. }
            | Op::Populate { .. }
            | Op::List { .. }
            | Op::Compute { .. }
            | Op::Keep { .. }
            | Op::Nameless { .. }
            | Op::Write { .. }) => return Some(op),
        }
        None
    }
}

fn resolve(links: Links) -> u64 {
    match links {
        Links::Deny => {
            libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS
        }
        Links::Beneath => libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS,
        Links::Follow => libc::RESOLVE_NO_MAGICLINKS,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::tests::one;
    use super::super::{Completion, Mode};
    use super::*;
    use crate::disk::Done;
    use crate::file;

    #[test]
    fn files_are_opened_looked_at_and_read() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("page"), "hello").unwrap();
        let mut ring = Ring::new(8, Mode::Deferred).unwrap();
        let root = Arc::new(file::open_root(dir.path()).unwrap());
        let op = Op::Open { root, path: c"page".into(), links: Links::Beneath };
        assert!(ring.disk(op, 1).is_none());
        let (1, Completion::Disk(Done::Opened(Ok(page)))) = one(&mut ring) else { panic!() };
        let page = Arc::new(page);
        assert!(ring.disk(Op::Stat { file: Arc::clone(&page) }, 2).is_none());
        let (2, Completion::Disk(Done::Stamped(Ok(stamp)))) = one(&mut ring) else { panic!() };
        assert_eq!(stamp, file::stamp(&*page).unwrap());
        let op = Op::Read { file: page, buffer: vec![b'.'; 8], filled: 2, start: 0 };
        assert!(ring.disk(op, 3).is_none());
        let (3, Completion::Disk(Done::Read(buffer, Ok(3)))) = one(&mut ring) else { panic!() };
        assert_eq!(&buffer, b"..llo...");
    }
}
