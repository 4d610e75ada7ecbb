//! How many descriptors a program that the lab starts may come to hold.

use std::fs;

/// The bit of CAP_SYS_RESOURCE, which raises a hard limit.
const CAP_SYS_RESOURCE: u32 = 24;

/// What the kernel allows at most; what a process may have unless told otherwise.
const SYSTEM_MAX: &str = "/proc/sys/fs/nr_open";
const SYSTEM_MAX_USUAL: usize = 1 << 20;

/// How many descriptors a child of this process may hold when it raises its limit as far as it can.
pub fn descriptors_max() -> usize {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let system = read(SYSTEM_MAX).trim().parse().unwrap_or(SYSTEM_MAX_USUAL);
    match may_raise(&read("/proc/self/status")) {
        true => system,
        false => hard_limit(&read("/proc/self/limits")).unwrap_or(system),
    }
}

/// Whether a process with this status may raise its hard limits.
fn may_raise(status: &str) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    effective.is_some_and(|set| set & 1 << CAP_SYS_RESOURCE != 0)
}

/// The hard limit of descriptors among these; nothing when there is none.
fn hard_limit(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hard_limit_holds_for_those_who_may_not_raise_it() {
        let limits = "Limit   Soft Limit  Hard Limit  Units\nMax open files  1024  20000  files\n";
        assert_eq!(hard_limit(limits), Some(20_000));
        assert_eq!(hard_limit("Max open files  1024  unlimited  files\n"), None);
        assert!(may_raise("Name:\tsh\nCapEff:\t000001ffffffffff\n"));
        assert!(!may_raise("CapPrm:\t000001ffffffffff\nCapEff:\t000001fffeffffff\n"));
        assert!(!may_raise(""));
        assert!(descriptors_max() > 0);
    }
}
