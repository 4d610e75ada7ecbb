//! poll(2): the whole array goes to the kernel with every wait.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use super::{Event, Interest, Readiness};

/// The array, the token of each of its entries, and where each descriptor stands in it.
pub(super) struct Poll {
    array: Vec<libc::pollfd>,
    tokens: Vec<u64>,
    places: HashMap<RawFd, usize>,
}

impl Poll {
    pub(super) fn new() -> Poll {
        Poll { array: Vec::new(), tokens: Vec::new(), places: HashMap::new() }
    }
}

fn flags(interest: Interest) -> i16 {
    let read = if interest.read { libc::POLLIN } else { 0 };
    read | if interest.write { libc::POLLOUT } else { 0 }
}

impl Readiness for Poll {
    fn add(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        let fd = fd.as_raw_fd();
        if self.places.contains_key(&fd) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.places.insert(fd, self.array.len());
        self.array.push(libc::pollfd { fd, events: flags(interest), revents: 0 });
        self.tokens.push(token);
        Ok(())
    }

    fn change(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        let place = *self.places.get(&fd.as_raw_fd()).ok_or(io::ErrorKind::NotFound)?;
        self.array[place].events = flags(interest);
        self.tokens[place] = token;
        Ok(())
    }

    fn remove(&mut self, fd: BorrowedFd<'_>) {
        let Some(place) = self.places.remove(&fd.as_raw_fd()) else { return };
        self.array.swap_remove(place);
        self.tokens.swap_remove(place);
        if let Some(moved) = self.array.get(place) {
            self.places.insert(moved.fd, place);
        }
    }

    fn wait(&mut self, events: &mut Vec<Event>, timeout_ms: i32) -> io::Result<()> {
        events.clear();
        let len = self.array.len() as libc::nfds_t;
        // SAFETY: the pointer and the length are those of a live vector, which the kernel only
        // writes `revents` of.
        let mut left = unsafe { libc::poll(self.array.as_mut_ptr(), len, timeout_ms) };
        if left < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
        }
        for (entry, &token) in self.array.iter().zip(&self.tokens) {
            if left == 0 {
                break;
            }
            if entry.revents != 0 {
                left -= 1;
                let hangup = entry.revents & (libc::POLLHUP | libc::POLLERR) != 0;
                events.push(Event {
                    token,
                    read: entry.revents & libc::POLLIN != 0 || hangup,
                    write: entry.revents & libc::POLLOUT != 0 || hangup,
                    hangup,
                });
            }
        }
        Ok(())
    }
}
