//! Memory in which one process leaves what others read whenever they look: longer than words, and
//! secret. Those who read cannot write there, and nothing is handed over for it.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::process::{Pid, getpid};

use crate::shared::SharedCounters;

/// Longest text, in bytes.
pub const TEXT_BYTES_MAX: usize = 64 << 20;

/// Room for two texts, which lie there in turn, so that one is not written over while others read
/// it. Memory is taken for what is written.
const ROOM: usize = 2 * TEXT_BYTES_MAX;

/// Where the number of the last text stands, and where its length does.
const NUMBER: usize = 0;
const LENGTH: usize = 1;

/// The end that writes: through a mapping that forked processes do not have. No process can write
/// by a descriptor (F_SEAL_FUTURE_WRITE in fcntl(2)).
#[derive(Debug)]
pub struct Letterbox {
    /// Where the mapping is, in the process that made it.
    start: Mutex<NonNull<u8>>,
    owner: Pid,
    reader: Arc<Reader>,
}

// SAFETY: the mapping is the whole process's, and is written to by the holder of the lock alone.
unsafe impl Send for Letterbox {}
// SAFETY: as above.
unsafe impl Sync for Letterbox {}

/// The end that reads, which processes have that are forked later.
#[derive(Debug)]
pub struct Reader {
    memory: File,
    words: SharedCounters,
}

impl Letterbox {
    /// An empty one; to be called before the first fork.
    ///
    /// # Errors
    /// When memory or descriptors are out.
    pub fn new() -> io::Result<Letterbox> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = rustix::fs::memfd_create("letterbox", flags)?;
        rustix::fs::ftruncate(&memory, ROOM as u64)?;
        let words = SharedCounters::new(2)?;
        let (prot, map) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping is asked for wherever there is room; it replaces none.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), ROOM, prot, map, &memory, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(ErrorKind::OutOfMemory)?;
        let reader = Arc::new(Reader { memory: memory.into(), words });
        let letterbox = Letterbox { start: Mutex::new(start), owner: getpid(), reader };
        for advice in [Advice::LinuxDontFork, Advice::LinuxDontDump] {
            // SAFETY: the range is the mapping, and neither changes what it holds. Where it is not
            // there, in a forked process, `leave` and `drop` keep away from it.
            unsafe { rustix::mm::madvise(start.as_ptr().cast(), ROOM, advice) }?;
        }
        let seals = SealFlags::FUTURE_WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&letterbox.reader.memory, seals)?;
        Ok(letterbox)
    }

    /// The end that reads.
    pub fn reader(&self) -> &Arc<Reader> {
        &self.reader
    }

    /// Leaves a text in the place of the last one.
    ///
    /// # Errors
    /// In a process forked from the one that made it, and when the text is longer than
    /// [`TEXT_BYTES_MAX`]; the last one stays then.
    pub fn leave(&self, text: &[u8]) -> io::Result<()> {
        if getpid() != self.owner {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let start = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        if text.len() > TEXT_BYTES_MAX {
            return Err(io::Error::other(format!("it is longer than {TEXT_BYTES_MAX} bytes")));
        }
        let number = self.reader.number() + 1;
        // SAFETY: a place and the longest text are within the mapping, of which there are no
        // references: others read by the kernel.
        unsafe {
            let to = start.as_ptr().add(place(number));
            std::ptr::copy_nonoverlapping(text.as_ptr(), to, text.len());
        }
        let words = self.reader.words.all();
        words[LENGTH].store(text.len() as u64, Relaxed);
        words[NUMBER].store(number, Release);
        Ok(())
    }
}

impl Reader {
    /// The number of the last text, from 1; 0 when there is none.
    pub fn number(&self) -> u64 {
        self.words.all()[NUMBER].load(Acquire)
    }

    /// The last text. While the next but one is being left it may be in parts another: who reads it
    /// must see whether it is whole.
    ///
    /// # Errors
    /// When memory is out.
    pub fn text(&self) -> io::Result<Vec<u8>> {
        let number = self.number();
        let len = self.words.all()[LENGTH].load(Relaxed).min(TEXT_BYTES_MAX as u64);
        let mut text = vec![0; len as usize];
        self.memory.read_exact_at(&mut text, place(number) as u64)?;
        Ok(text)
    }
}

impl Drop for Letterbox {
    fn drop(&mut self) {
        if getpid() == self.owner {
            let start = self.start.get_mut().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the mapping is this one's own, and no pointer into it is left.
            let _ = unsafe { rustix::mm::munmap(start.as_ptr().cast(), ROOM) };
        }
    }
}

fn place(number: u64) -> usize {
    (number % 2) as usize * TEXT_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Forked, exit_now, fork, wait_for};
    use std::os::fd::AsRawFd;

    #[test]
    fn others_read_what_was_left_last_and_cannot_write() {
        let letterbox = Letterbox::new().unwrap();
        let reader = letterbox.reader();
        assert_eq!(reader.number(), 0);
        for (number, text) in [(1, "first"), (2, "the second"), (3, "3")] {
            letterbox.leave(text.as_bytes()).unwrap();
            assert_eq!((reader.number(), &reader.text().unwrap()[..]), (number, text.as_bytes()));
        }
        let opened = std::fs::OpenOptions::new()
            .write(true)
            .open(format!("/proc/self/fd/{}", reader.memory.as_raw_fd()));
        for memory in [Some(&reader.memory), opened.as_ref().ok()].into_iter().flatten() {
            assert!(memory.write_all_at(b"x", 0).is_err());
            assert!(memory.set_len(0).is_err());
        }
        assert!(letterbox.leave(&vec![0; TEXT_BYTES_MAX + 1]).is_err());
        assert_eq!(reader.number(), 3);
    }

    #[test]
    fn a_child_sees_what_is_left_after_its_fork() {
        let letterbox = Letterbox::new().unwrap();
        let (wait, go) = std::io::pipe().unwrap();
        match fork().unwrap() {
            Forked::Child => {
                drop(go);
                let _ = std::io::Read::read(&mut &wait, &mut [0]);
                let text = letterbox.reader().text().unwrap_or_default();
                let leaves = letterbox.leave(b"forged").is_ok();
                drop(letterbox);
                exit_now(i32::from(text != b"later" || leaves));
            }
            Forked::Parent(child) => {
                letterbox.leave(b"later").unwrap();
                drop(go);
                assert_eq!(wait_for(child).unwrap(), 0);
            }
        }
    }
}
