//! An event descriptor: how another thread wakes an event loop.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

use crate::owned::Owned;

/// A counter in the kernel that is readable while it is above zero.
#[derive(Debug)]
pub struct Wake(Arc<Owned>);

impl Wake {
    /// A new one, non-blocking and closed on exec.
    ///
    /// # Errors
    /// When the process is out of descriptors.
    pub fn new() -> io::Result<Wake> {
        let wake = Owned::open(|| eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC))?;
        Ok(Wake(Arc::new(wake)))
    }

    /// What can be read while it is above zero.
    pub fn descriptor(&self) -> &Arc<Owned> {
        &self.0
    }

    /// Makes it readable. Never blocks.
    pub fn notify(&self) {
        // EAGAIN means the counter is at its top, so that it is readable already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Makes it unreadable again. Never blocks.
    pub fn clear(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.0, &mut count);
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
