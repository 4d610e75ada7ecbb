//! How many descriptors a process may hold, and has room for.

use std::io;

/// How many descriptors this process may hold.
pub fn descriptor_limit() -> usize {
    use rustix::process::{Resource, getrlimit};
    as_descriptors(getrlimit(Resource::Nofile).current)
}

/// Raises the soft limit of descriptors to the hard one, and says how many this process may hold
/// now: for a process that starts, since a limit may have been lowered on purpose later.
pub fn raise_descriptor_limit() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let is_raised = setrlimit(Resource::Nofile, raised).is_ok();
    as_descriptors(if is_raised { limit.maximum } else { limit.current })
}

/// Makes sure that this process may hold `needed` descriptors, if it can: up to the hard limit, or
/// beyond that for the superuser. How many it may hold now; a higher limit is kept.
pub fn raise_descriptor_limit_to(needed: usize) -> usize {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = raise_descriptor_limit();
    if limit >= needed {
        return limit;
    }
    let wanted = Some(needed as u64);
    match setrlimit(Resource::Nofile, Rlimit { current: wanted, maximum: wanted }) {
        Ok(()) => needed,
        Err(_) => limit,
    }
}

/// The most descriptors that [`grow_descriptor_table`] makes room for: half a MiB of the kernel's
/// memory.
const TABLE_MAX: usize = 1 << 16;

/// Makes room for `wanted` descriptors in the kernel's table of this process, as far as it may hold
/// them, and up to 65,536.
///
/// The table doubles when a descriptor finds no room. Where threads share it, the kernel waits each
/// time until no CPU looks at the old one (`expand_fdtable`): the thread that opened the descriptor
/// stands still for 10 to 20 ms. For a process that has no threads yet.
///
/// # Errors
/// When descriptors are out.
pub fn grow_descriptor_table(wanted: usize) -> io::Result<()> {
    use rustix::fs::{Mode, OFlags};
    let most = descriptor_limit().min(TABLE_MAX).min(wanted);
    let any = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let last = i32::try_from(most.saturating_sub(1)).unwrap_or(i32::MAX);
    // The table stays as large as it was made for this one.
    rustix::io::fcntl_dupfd_cloexec(&any, last).map(drop)?;
    Ok(())
}

fn as_descriptors(limit: Option<u64>) -> usize {
    limit.map_or(1 << 20, |limit| usize::try_from(limit).unwrap_or(1 << 20))
}

/// Lowers the number of descriptors that this process and its children may hold.
///
/// # Errors
/// When it is above the hard limit.
pub fn limit_descriptors(most: usize) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(most as u64), maximum })?)
}
