//! Memory in which one process leaves what others read whenever they look: longer than words, and
//! secret. Those who read cannot write there, and nothing is handed over for it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use rustix::fs::MemfdFlags;

use crate::shared::SharedCounters;

/// Longest text, in bytes.
pub const TEXT_BYTES_MAX: usize = 64 << 20;

/// The texts lie in turn at the beginning and there, so that one is not written over while others
/// read it.
const SECOND_AT: u64 = 1 << 30;

/// Where the number of the last text stands, and where its length does.
const NUMBER: usize = 0;
const LENGTH: usize = 1;

/// The end that writes.
#[derive(Debug)]
pub struct Letterbox {
    memory: File,
    reader: Arc<Reader>,
}

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
    /// When memory or descriptors are out, or /proc is not there.
    pub fn new() -> io::Result<Letterbox> {
        let memory = rustix::fs::memfd_create("letterbox", MemfdFlags::CLOEXEC)?;
        // Another opening of the same memory, which gives no right to write.
        let read = File::open(format!("/proc/self/fd/{}", memory.as_raw_fd()))?;
        let reader = Arc::new(Reader { memory: read, words: SharedCounters::new(2)? });
        Ok(Letterbox { memory: memory.into(), reader })
    }

    /// The end that reads.
    pub fn reader(&self) -> &Arc<Reader> {
        &self.reader
    }

    /// Leaves a text in the place of the last one.
    ///
    /// # Errors
    /// When it is longer than [`TEXT_BYTES_MAX`], or memory is out; the last one stays then.
    pub fn leave(&self, text: &[u8]) -> io::Result<()> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(io::Error::other(format!("it is longer than {TEXT_BYTES_MAX} bytes")));
        }
        let number = self.reader.number() + 1;
        self.memory.write_all_at(text, place(number))?;
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
        self.memory.read_exact_at(&mut text, place(number))?;
        Ok(text)
    }
}

fn place(number: u64) -> u64 {
    number % 2 * SECOND_AT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Forked, exit_now, fork, wait_for};

    #[test]
    fn others_read_what_was_left_last_and_cannot_write() {
        let letterbox = Letterbox::new().unwrap();
        let reader = letterbox.reader();
        assert_eq!(reader.number(), 0);
        for (number, text) in [(1, "first"), (2, "the second"), (3, "3")] {
            letterbox.leave(text.as_bytes()).unwrap();
            assert_eq!((reader.number(), &reader.text().unwrap()[..]), (number, text.as_bytes()));
        }
        assert!(reader.memory.write_all_at(b"x", 0).is_err());
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
                exit_now(i32::from(text != b"later"));
            }
            Forked::Parent(child) => {
                letterbox.leave(b"later").unwrap();
                drop(go);
                assert_eq!(wait_for(child).unwrap(), 0);
            }
        }
    }
}
