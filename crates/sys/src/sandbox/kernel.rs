//! What this kernel has to take rights away with.

use std::fmt;

use crate::uring::Ring;

/// The version of landlock that knows TCP ports.
pub const LANDLOCK_CONNECT: u32 = 4;

/// The version of landlock that knows signals and abstract Unix-domain sockets.
pub const LANDLOCK_SCOPES: u32 = 6;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The version of landlock; 0 is none.
    pub landlock: u32,
    /// Whether there is seccomp with filters.
    pub seccomp: bool,
    /// Whether rings can be restricted; `None` where there are no rings.
    pub rings: Option<bool>,
}

impl Kernel {
    /// Nothing is used, whatever there is.
    pub const NOTHING: Kernel = Kernel { landlock: 0, seccomp: false, rings: None };

    /// Asks the kernel.
    pub fn probe() -> Kernel {
        let rings = Ring::probe().is_ok().then(|| Ring::probe_restrictions().is_ok());
        Kernel { landlock: landlock_version(), seccomp: has_seccomp(), rings }
    }

    /// What a process without a ring, or one with, misses here.
    pub fn missing(&self, uses_ring: bool) -> Vec<&'static str> {
        let mut missing = Vec::new();
        match self.landlock {
            0 => missing.push("landlock (Linux 5.13)"),
            1..LANDLOCK_CONNECT => missing.push("landlock of TCP ports (Linux 6.7)"),
            LANDLOCK_CONNECT..LANDLOCK_SCOPES => {
                missing.push("landlock of signals and abstract sockets (Linux 6.12)");
            }
            _ => {}
        }
        if !self.seccomp {
            missing.push("seccomp with filters (Linux 4.14)");
        }
        if uses_ring && self.rings == Some(false) {
            missing.push("restrictions of rings (Linux 5.10)");
        }
        missing
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.landlock {
            0 => f.write_str("no landlock")?,
            version => write!(f, "landlock {version}")?,
        }
        f.write_str(if self.seccomp { ", seccomp" } else { ", no seccomp" })?;
        f.write_str(match self.rings {
            Some(true) => ", rings that can be restricted",
            Some(false) => ", rings that cannot be restricted",
            None => ", no rings",
        })
    }
}

fn landlock_version() -> u32 {
    const VERSION: u32 = 1;
    // SAFETY: with no attributes and this flag the call only gives a number.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0, VERSION)
    };
    u32::try_from(version).unwrap_or(0)
}

fn has_seccomp() -> bool {
    let action = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the call reads one number through the pointer, which is that of a live one.
    let answer = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action)
    };
    answer == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kernel_lacks_is_named() {
        let all = Kernel { landlock: 7, seccomp: true, rings: Some(true) };
        assert!(all.missing(true).is_empty());
        let old = Kernel { landlock: 3, seccomp: false, rings: Some(false) };
        assert_eq!(old.missing(true).len(), 3);
        assert_eq!(old.missing(false).len(), 2);
        assert_eq!(Kernel { landlock: 5, ..all }.missing(false).len(), 1);
        assert_eq!(Kernel::NOTHING.missing(true).len(), 2, "no ring needs no restriction");
        assert_eq!(all.to_string(), "landlock 7, seccomp, rings that can be restricted");
    }
}
