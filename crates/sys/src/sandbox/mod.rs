//! What takes rights away from a process for good: its user and capabilities, the files that it may
//! open (landlock), and the system calls that it may make (seccomp).
//!
//! A process applies it to itself, once, while it has one thread; what it forks or starts later is
//! bound too. Nothing here knows which process needs what: the caller says so in a [`Sandbox`].

mod calls;
mod capabilities;
mod filter;
mod identity;
mod kernel;
mod paths;
mod rights;

use std::io;
use std::os::fd::BorrowedFd;

pub use calls::{Call, Calls};
pub use capabilities::{Capability, keep_capabilities, keeps};
pub use filter::{Violation, forbid_new_rings};
pub use identity::Identity;
pub use kernel::{Kernel, LANDLOCK_CONNECT, LANDLOCK_SCOPES};
pub use paths::{Access, Grant};
pub use rights::Rights;

/// Permissions that nothing a child makes has: those of the group and of others to write, and those
/// of others to read.
const UMASK: u32 = 0o027;

/// What a process keeps. Whatever is not said here is taken away.
#[derive(Debug)]
pub struct Sandbox<'a> {
    /// Who the process becomes; `None` stays who it is. Needs the superuser's rights.
    pub identity: Option<&'a Identity>,
    /// Capabilities that stay.
    pub capabilities: &'a [Capability],
    /// Whether files that it makes get no permission for others.
    pub umask: bool,
    /// Bytes that it may lock in memory, if it needs more than it may; `u64::MAX` has no limit.
    pub locked_bytes: Option<u64>,
    /// What it may open; `None` does without landlock.
    pub grants: Option<&'a [Grant<'a>]>,
    /// TCP ports that it may connect to; each also needs [`Calls::Connect`].
    pub connects: &'a [u16],
    /// System calls that it may make; `None` does without seccomp.
    pub calls: Option<&'a [Calls]>,
    /// What becomes of any other call.
    pub violation: Violation,
    /// What the kernel has; what it has not is left out.
    pub kernel: Kernel,
    /// Whether others of the same user, and files of its memory, are kept from what it holds even
    /// where it stays who it is.
    pub hides_memory: bool,
    /// The parent with which the process shall end: the kernel forgets it when a process changes
    /// its user, so that it is told anew.
    pub parent: Option<i32>,
}

impl Sandbox<'_> {
    /// Takes everything else away from this process, which must have one thread, for good.
    ///
    /// # Errors
    /// Which step failed, and why. The process must end then: it has lost some of its rights.
    pub fn apply(&self) -> io::Result<()> {
        let step = |name: &str| {
            let name = name.to_owned();
            move |error: io::Error| io::Error::new(error.kind(), format!("{name}: {error}"))
        };
        if let Some(bytes) = self.locked_bytes {
            capabilities::raise_locked(bytes);
        }
        if self.umask {
            rustix::process::umask(rustix::fs::Mode::from_raw_mode(UMASK));
        }
        // The rules name descriptors and paths that only the old user may be able to open.
        let rules = match self.grants {
            Some(grants) if self.kernel.landlock > 0 => {
                Some(paths::Rules::new(grants, self.connects).map_err(step("landlock"))?)
            }
            _ => None,
        };
        capabilities::empty_bounding_set(self.capabilities).map_err(step("capabilities"))?;
        if let Some(identity) = self.identity {
            identity.assume(!self.capabilities.is_empty()).map_err(step("user"))?;
        }
        capabilities::keep_capabilities(self.capabilities).map_err(step("capabilities"))?;
        rustix::thread::set_no_new_privs(true)?;
        if self.identity.is_some() || self.hides_memory {
            crate::process::hide_memory()?;
        }
        if let Some(parent) = self.parent {
            crate::process::die_with_parent(parent)?;
        }
        if let Some(rules) = rules {
            rules.enforce().map_err(step("landlock"))?;
        }
        match self.calls {
            Some(calls) if self.kernel.seccomp => {
                filter::install(calls, self.violation).map_err(step("seccomp"))
            }
            _ => Ok(()),
        }
    }
}

/// The path that this descriptor was opened by, as far as the kernel can tell.
pub fn path_of(fd: BorrowedFd<'_>) -> std::path::PathBuf {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap_or_default()
}

#[cfg(test)]
mod tests;
