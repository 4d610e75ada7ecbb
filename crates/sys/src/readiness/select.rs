//! select(2), the event mechanism of S0's experiments, with bitmaps of our own so that descriptors
//! beyond libc's 1,024 work.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use super::{Event, Interest, Readiness};

const BITS: usize = u64::BITS as usize;

/// What is watched, what the kernel answered, and the token of each descriptor.
pub(super) struct Select {
    watch_read: Vec<u64>,
    watch_write: Vec<u64>,
    ready_read: Vec<u64>,
    ready_write: Vec<u64>,
    tokens: Vec<u64>,
    highest: usize,
}

impl Select {
    pub(super) fn new() -> Select {
        Select {
            watch_read: Vec::new(),
            watch_write: Vec::new(),
            ready_read: Vec::new(),
            ready_write: Vec::new(),
            tokens: Vec::new(),
            highest: 0,
        }
    }

    fn set(&mut self, fd: RawFd, interest: Interest) {
        let (word, bit) = (fd as usize / BITS, 1 << (fd as usize % BITS));
        for (map, on) in
            [(&mut self.watch_read, interest.read), (&mut self.watch_write, interest.write)]
        {
            if on {
                map[word] |= bit;
            } else {
                map[word] &= !bit;
            }
        }
    }
}

impl Readiness for Select {
    fn add(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        let fd = fd.as_raw_fd();
        let words = fd as usize / BITS + 1;
        if words > self.watch_read.len() {
            for map in [
                &mut self.watch_read,
                &mut self.watch_write,
                &mut self.ready_read,
                &mut self.ready_write,
            ] {
                map.resize(words, 0);
            }
            self.tokens.resize(words * BITS, 0);
        }
        self.tokens[fd as usize] = token;
        self.highest = self.highest.max(fd as usize + 1);
        self.set(fd, interest);
        Ok(())
    }

    fn change(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.add(fd, token, interest)
    }

    fn remove(&mut self, fd: BorrowedFd<'_>) {
        let fd = fd.as_raw_fd();
        if (fd as usize) < self.highest {
            self.set(fd, Interest::NONE);
        }
    }

    fn wait(&mut self, events: &mut Vec<Event>, timeout_ms: i32) -> io::Result<()> {
        events.clear();
        let words = self.highest.div_ceil(BITS);
        self.ready_read[..words].copy_from_slice(&self.watch_read[..words]);
        self.ready_write[..words].copy_from_slice(&self.watch_write[..words]);
        let ready = select(
            self.highest,
            &mut self.ready_read[..words],
            &mut self.ready_write[..words],
            timeout_ms,
        )?;
        if ready == 0 {
            return Ok(());
        }
        for word in 0..words {
            let mut bits = self.ready_read[word] | self.ready_write[word];
            while bits != 0 {
                let bit = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                events.push(Event {
                    token: self.tokens[word * BITS + bit],
                    read: self.ready_read[word] >> bit & 1 == 1,
                    write: self.ready_write[word] >> bit & 1 == 1,
                    hangup: false,
                });
            }
        }
        Ok(())
    }
}

/// pselect6 over bitmaps that hold at least `count` bits; how many bits it left set.
fn select(count: usize, read: &mut [u64], write: &mut [u64], timeout_ms: i32) -> io::Result<i64> {
    debug_assert!(read.len() * BITS >= count && write.len() * BITS >= count);
    let limit = libc::timespec {
        tv_sec: i64::from(timeout_ms.max(0)) / 1000,
        tv_nsec: i64::from(timeout_ms.max(0)) % 1000 * 1_000_000,
    };
    let limit = if timeout_ms >= 0 { &raw const limit } else { std::ptr::null() };
    let none: *const u64 = std::ptr::null();
    // SAFETY: the kernel reads and writes `count` bits of each bitmap, rounded up to whole words,
    // which both slices hold; `limit` is null or lives across the call; no signal mask is given.
    let ready = unsafe {
        libc::syscall(
            libc::SYS_pselect6,
            count,
            read.as_mut_ptr(),
            write.as_mut_ptr(),
            none,
            limit,
            none,
        )
    };
    if ready >= 0 {
        return Ok(ready);
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::Interrupted { Ok(0) } else { Err(error) }
}
