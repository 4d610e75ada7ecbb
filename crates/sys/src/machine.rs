//! What the machine and its kernel give a server, for those who ask why it is as it is. All of it
//! blocks on the kernel's file systems, and is for programs that start.

use std::path::Path;

use rustix::process::{Resource, getrlimit};

/// The limits of open descriptors of this process; `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// What holds now.
    pub soft: Option<u64>,
    /// How far it may be raised.
    pub hard: Option<u64>,
}

/// The limits of open descriptors.
pub fn descriptors() -> Descriptors {
    let limit = getrlimit(Resource::Nofile);
    Descriptors { soft: limit.current, hard: limit.maximum }
}

/// A value below `/proc/sys`, such as `net/core/somaxconn`, without the line feed.
pub fn sysctl(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(Path::new("/proc/sys").join(path)).ok()?;
    Some(text.trim().to_owned())
}

/// The same as a number.
pub fn sysctl_number(path: &str) -> Option<u64> {
    sysctl(path)?.parse().ok()
}

/// Memory of the machine, in bytes.
pub fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The version of landlock(7) that the kernel speaks; `None` when it has none, or it is off.
pub fn landlock_version() -> Option<u32> {
    const VERSION: u32 = 1;
    let no_rules = std::ptr::null::<u8>();
    // SAFETY: with this flag and no attributes the kernel reads no memory and returns a number.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, no_rules, 0usize, VERSION) };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_tells_what_it_has() {
        let limits = descriptors();
        assert!(limits.soft > Some(0) && (limits.hard.is_none() || limits.soft <= limits.hard));
        assert_eq!(sysctl("kernel/ostype").as_deref(), Some("Linux"));
        assert_eq!(sysctl("kernel/no-such-thing"), None);
        assert!(sysctl_number("net/core/somaxconn") > Some(0));
        assert_eq!(sysctl_number("kernel/ostype"), None);
        assert!(memory_bytes() > Some(1 << 20));
        assert_ne!(landlock_version(), Some(0));
    }
}
