//! What the machine says of itself: for the report, and for whether a run counts.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::programs::{first_line, run};

/// Settings of the kernel that change what a web server can do, for the report.
const SYSCTLS: &[&str] = &[
    "net.core.somaxconn",
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
    "vm.dirty_ratio",
];

/// Where an experiment ran: nothing that names the machine, all that explains its figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The kernel's release.
    pub kernel: String,
    /// The processor's model.
    pub cpu: String,
    /// How many there are.
    pub cpus: usize,
    /// Whether two of them are siblings of one core; unknown in many virtual machines.
    pub siblings: Option<bool>,
    /// Memory, in MiB.
    pub memory_mib: u64,
    /// Which mitigations of the processor's defects are on.
    pub mitigations: BTreeMap<String, String>,
    /// Settings of the kernel.
    pub sysctls: BTreeMap<String, String>,
    /// The commit of flyball's repository where the lab runs in that, with a mark when its files
    /// are others.
    pub commit: Option<String>,
    /// What processors did that had nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_processors: Option<String>,
    /// The page cache's multi-generational list, on or off.
    pub lru_gen: Option<String>,
}

impl Facts {
    /// Looks; settings of the kernel are those that servers have in this namespace. Blocks.
    pub fn of(namespace: Option<&str>) -> Facts {
        let read = |path: &str| fs::read_to_string(path).ok();
        let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
        let field = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = field(&read("/proc/meminfo").unwrap_or_default(), "MemTotal");
        let kib = memory.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        let siblings = read("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list");
        Facts {
            kernel: read("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            cpu: field(&cpuinfo, "model name").unwrap_or_default(),
            cpus: cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
            siblings: siblings.map(|list| list.contains([',', '-'])),
            memory_mib: kib.unwrap_or(0) / 1_024,
            mitigations: mitigations(),
            sysctls: sysctls(namespace),
            commit: commit(),
            idle_processors: None,
            lru_gen: read("/sys/kernel/mm/lru_gen/enabled").map(|text| text.trim().to_owned()),
        }
    }
}

fn mitigations() -> BTreeMap<String, String> {
    let directory = "/sys/devices/system/cpu/vulnerabilities";
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let text = fs::read_to_string(entry.path()).ok()?;
            let is_on = text.starts_with("Mitigation");
            is_on.then(|| (entry.file_name().to_string_lossy().into_owned(), text.trim().into()))
        })
        .collect()
}

fn sysctls(namespace: Option<&str>) -> BTreeMap<String, String> {
    let file = |key: &&str| format!("/proc/sys/{}", key.replace('.', "/"));
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let read = |key: &&'static str| {
        let text = match namespace {
            // What a namespace of networks has of its own is seen from within; the rest is not.
            Some(namespace) => run("ip", &["netns", "exec", namespace, "cat", &file(key)]).ok(),
            None => None,
        };
        let text = text.or_else(|| fs::read_to_string(file(key)).ok())?;
        Some(((*key).to_owned(), plain(&text)))
    };
    SYSCTLS.iter().filter_map(read).collect()
}

/// The commit of our own repository, if this runs in it, with a mark when files differ. That of
/// somebody's site would pass for it.
pub fn commit() -> Option<String> {
    let top = first_line(Command::new("git").args(["rev-parse", "--show-toplevel"]))?;
    if !Path::new(&top).join("crates/lab/Cargo.toml").exists() {
        return None;
    }
    let mut command = Command::new("git");
    command.args(["describe", "--always", "--exclude=*", "--abbrev=7", "--dirty=-changed"]);
    first_line(&mut command).filter(|line| line.bytes().all(|byte| byte.is_ascii_graphic()))
}

/// Whether this process belongs to root: without, experiments run on loopback, and say so.
pub fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.starts_with("Uid:\t") && line.split('\t').nth(2) == Some("0"))
}

/// Connections that the kernel dropped, by its counters (`/proc/net/netstat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenDrops {
    /// All, for whatever reason (`ListenDrops`).
    pub all: u64,
    /// Those for which the accept queue had no room (`ListenOverflows`); they are among all.
    pub overflows: u64,
    /// Requests for which the queue of half-open connections had no room (`TCPReqQFullDrop`).
    pub requests: u64,
}

impl ListenDrops {
    /// From the text of the file, which has the names in one line and the figures in the next.
    pub fn parse(text: &str) -> Option<ListenDrops> {
        let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
        let (names, figures) = (lines.next()?, lines.next()?);
        let all: BTreeMap<&str, u64> = names
            .split_whitespace()
            .zip(figures.split_whitespace())
            .filter_map(|(name, figure)| Some((name, figure.parse().ok()?)))
            .collect();
        Some(ListenDrops {
            all: *all.get("ListenDrops")?,
            overflows: *all.get("ListenOverflows")?,
            requests: all.get("TCPReqQFullDrop").copied().unwrap_or(0),
        })
    }

    /// Those for other reasons: with the queue of half-open connections three quarters full, or
    /// without memory.
    pub fn others(self) -> u64 {
        self.all.saturating_sub(self.overflows + self.requests)
    }

    /// How many more than before.
    pub fn since(self, before: ListenDrops) -> ListenDrops {
        ListenDrops {
            all: self.all.saturating_sub(before.all),
            overflows: self.overflows.saturating_sub(before.overflows),
            requests: self.requests.saturating_sub(before.requests),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_counters_of_drops_are_read() {
        let text = fs::read_to_string("/proc/net/netstat").unwrap();
        assert!(ListenDrops::parse(&text).is_some());
        let made = "TcpExt: A ListenOverflows ListenDrops\nTcpExt: 1 2 5\nIpExt: B\nIpExt: 1\n";
        let drops = ListenDrops::parse(made).unwrap();
        assert_eq!(drops, ListenDrops { all: 5, overflows: 2, requests: 0 });
        assert_eq!(drops.since(ListenDrops { all: 4, overflows: 2, requests: 0 }).all, 1);
    }

    #[test]
    fn a_machine_has_a_kernel_and_a_processor() {
        let facts = Facts::of(None);
        assert!(!facts.kernel.is_empty() && facts.cpus > 0 && facts.memory_mib > 0, "{facts:?}");
    }
}
