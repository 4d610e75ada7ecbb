//! How the rings of a worker are made, where less is allowed than the kernel could do.

use std::io;

use flyball_sys::sandbox::{Calls, forbid_new_rings};

use crate::kernel::uring::{Mode, Ring};

/// Why there is no ring, where memory is left.
const NO_MEMORY_FOR_RINGS: &str = "no memory for a ring: the processes of its user may not lock so \
                                   much together (RLIMIT_MEMLOCK, ulimit -l)";

/// What a worker with rings calls: threads do what a ring has no operation for.
pub(crate) const CALLS: &[Calls] = &[Calls::Ring, Calls::Threads];

/// How a worker makes its rings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rings {
    /// Of the kernel's operations they have only those that are used.
    pub restricted: bool,
    /// The worker makes no others later.
    pub sealed: bool,
}

impl Rings {
    /// Makes one.
    ///
    /// # Errors
    /// As [`Ring::new`].
    pub(crate) fn make(self, entries: u32, mode: Mode) -> io::Result<Ring> {
        let made = match self.restricted {
            true => Ring::restricted(entries, mode),
            false => Ring::new(entries, mode),
        };
        made.map_err(|error| match error.kind() {
            io::ErrorKind::OutOfMemory => io::Error::new(error.kind(), NO_MEMORY_FOR_RINGS),
            _ => error,
        })
    }

    /// Makes no other: code that takes the process over cannot either.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn seal(self) -> io::Result<()> {
        if self.sealed { forbid_new_rings() } else { Ok(()) }
    }
}
