//! What the machine has, and where that was found.

use flyball_sys::residency::Probe;
use flyball_sys::uring::Ring;
use flyball_sys::user_thread::stacks_max;
use flyball_sys::{cgroup, file, machine as kernel, process};

use super::bytes;
use crate::words::counted;

/// One thing that is so on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// What it is.
    pub name: &'static str,
    /// How it is here.
    pub value: String,
    /// Where that was found.
    pub source: String,
}

/// What the settings of a server depend on. Blocks on the kernel's file systems.
pub fn facts() -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut add = |name, value: String, source: &str| {
        facts.push(Fact { name, value, source: source.to_owned() });
    };
    if let Some(release) = kernel::sysctl("kernel/osrelease") {
        add("kernel", release, "uname");
    }
    let cpus = process::allowed_cpus();
    let listed = cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let value = format!("{} ({listed})", counted(cpus.len() as u64, "CPU"));
    add("cpu.affinity", value, "sched_getaffinity: cpuset and taskset");
    match cgroup::cpu_quota() {
        Some(quota) => add("cpu.quota", format!("{} CPUs", quota.most), &quota.file),
        None => add("cpu.quota", "none".into(), "/proc/self/cgroup"),
    }
    add(
        "cpu.allowance",
        counted(process::cpu_allowance() as u64, "CPU"),
        "the smaller, rounded up",
    );
    if let Some(memory) = kernel::memory_bytes() {
        add("memory", bytes(memory), "/proc/meminfo");
    }
    match cgroup::memory_limit() {
        Some(limit) => add("memory.limit", bytes(limit.most), &limit.file),
        None => add("memory.limit", "none".into(), "/proc/self/cgroup"),
    }
    let limits = kernel::descriptors();
    let text = |limit: Option<u64>| limit.map_or("none".to_owned(), |limit| limit.to_string());
    add("nofile.soft", text(limits.soft), "RLIMIT_NOFILE; a server raises it to the hard limit");
    add("nofile.hard", text(limits.hard), "RLIMIT_NOFILE");
    for (name, path) in [
        ("net.core.somaxconn", "net/core/somaxconn"),
        ("net.core.wmem_max", "net/core/wmem_max"),
        ("net.core.rmem_max", "net/core/rmem_max"),
        ("net.ipv4.tcp_congestion_control", "net/ipv4/tcp_congestion_control"),
        ("vm.max_map_count", "vm/max_map_count"),
    ] {
        if let Some(value) = kernel::sysctl(path) {
            add(name, value, &format!("/proc/sys/{path}"));
        }
    }
    add("stacks", stacks_max().to_string(), "half of vm.max_map_count less 2,048");
    features(&mut add);
    facts
}

/// Features of the kernel, as they were probed.
fn features(add: &mut impl FnMut(&'static str, String, &str)) {
    let probe = Probe::here();
    let names = if file::tells_cached_names() { "works" } else { "not supported (Linux 5.12)" };
    let ring = match Ring::probe() {
        Ok(()) => "works".to_owned(),
        Err(error) => format!("io_uring: {error}"),
    };
    let landlock = match kernel::landlock_version() {
        Some(version) => format!("version {version}"),
        None => "none".to_owned(),
    };
    add("openat2 RESOLVE_CACHED", names.to_owned(), "probed");
    add("preadv2 RWF_NOWAIT", probe.nowait.to_string(), "probed");
    add("cachestat", probe.cachestat.to_string(), "probed");
    add("mincore", probe.mincore.to_string(), "probed");
    add("madvise MADV_POPULATE_READ", probe.populate.to_string(), "probed");
    add("io_uring", ring, "probed");
    add("landlock", landlock, "probed");
}
