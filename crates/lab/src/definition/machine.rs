//! What surrounds the servers of an experiment.

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// The share of their CPUs' time that servers have: a generator needs up to twice the time of a
/// server for a request, and has to send twice as many as it answers.
const CPU_SHARE: f64 = 0.25;

/// Microseconds that a turn may take: shorter ones are mostly change of hands, and longer ones no
/// better than a quota.
const CPU_TURN_US: RangeInclusive<f64> = 50.0..=10_000.0;

/// The share that a server may have of each: the kernel keeps a twentieth of each second from
/// threads of real-time priority.
const CPU_TURN_SHARE: RangeInclusive<f64> = 0.1..=0.9;

/// Longest time that a disk may take for a read, in milliseconds: that of a tape.
const DISK_SEEK_MS_MAX: f64 = 10_000.0;

/// What surrounds the servers: the same for all of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Machine {
    /// CPUs that servers may use.
    pub cpus: u32,
    /// The share of their time that a server has while it is measured, so that the generator on its
    /// own CPU is never the limit.
    pub cpu_share: f64,
    /// Microseconds in which a server has its share once, and a thread of higher priority all else;
    /// without, its share is a quota of its cgroup, which stops it for milliseconds at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_turn_us: Option<f64>,
    /// Memory of the server's cgroup with its page cache, in MiB; without a limit when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// What of the files is in the page cache when a run begins.
    pub page_cache: PageCache,
    /// The most that the disk reads in a second, in MiB: the figure needs a slow disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_mib_per_s: Option<u64>,
    /// Milliseconds that the disk takes for each read, one after the other: the figure needs a disk
    /// on which it matters who waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_seek_ms: Option<f64>,
    /// The accept queue's length.
    pub backlog: u32,
    /// `net.ipv4.tcp_syncookies` is on.
    pub syn_cookies: bool,
    /// Stacks of the server are sampled during each run. That slows it down: only shares of its own
    /// time are compared.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub profiled: bool,
    /// It is looked at during each run how often nothing of the server could run while something of
    /// it waited for a disk (S1, Section 5).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub watched: bool,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine {
            cpus: 1,
            cpu_share: CPU_SHARE,
            cpu_turn_us: None,
            memory_mib: None,
            page_cache: PageCache::Primed,
            disk_mib_per_s: None,
            disk_seek_ms: None,
            backlog: 1_024,
            syn_cookies: true,
            profiled: false,
            watched: false,
        }
    }
}

impl Machine {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.profiled && self.watched {
            return Err("`profiled` and `watched` look at the same time: take one of them".into());
        }
        if !(0.0..=1.0).contains(&self.cpu_share) || self.cpu_share == 0.0 {
            return Err("`cpu-share` is a share: above 0, and at most 1".into());
        }
        if let Some(us) = self.cpu_turn_us {
            if !CPU_TURN_US.contains(&us) {
                let (least, most) = (CPU_TURN_US.start(), CPU_TURN_US.end());
                return Err(format!("`cpu-turn-us` is {least} to {most}"));
            }
            if self.cpus != 1 || !CPU_TURN_SHARE.contains(&self.cpu_share) {
                return Err("`cpu-turn-us` takes one CPU, of which a server has 0.1 to 0.9".into());
            }
        }
        let Some(ms) = self.disk_seek_ms else { return Ok(()) };
        if !(ms > 0.0 && ms <= DISK_SEEK_MS_MAX) {
            return Err(format!("`disk-seek-ms` is above 0, and at most {DISK_SEEK_MS_MAX}"));
        }
        match self.disk_mib_per_s {
            Some(_) => Err("`disk-seek-ms` and `disk-mib-per-s` are two disks".into()),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Machine {
    /// In words, with its limits.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = self.cpu_share * 100.0;
        let cpus = if self.cpus == 1 { "CPU" } else { "CPUs" };
        write!(out, "{share:.0} % of {} {cpus}, ", self.cpus)?;
        if let Some(us) = self.cpu_turn_us {
            write!(out, "in turns of {us} us, ")?;
        }
        match self.memory_mib {
            Some(mib) => write!(out, "{mib} MiB of memory with the page cache")?,
            None => out.write_str("memory without a limit")?,
        }
        let cache = match self.page_cache {
            PageCache::Primed if self.memory_mib.is_some() => {
                "as many files read before each run as fit"
            }
            PageCache::Primed => "files read before each run",
            PageCache::Dropped => "no file in memory before a run",
        };
        write!(out, ", {cache}")?;
        if let Some(mib) = self.disk_mib_per_s {
            write!(out, ", a disk of {mib} MiB/s")?;
        }
        if let Some(ms) = self.disk_seek_ms {
            write!(out, ", a disk that takes {ms} ms for each read")?;
        }
        let cookies = if self.syn_cookies { "with" } else { "without" };
        write!(out, ", an accept queue of {}, {cookies} SYN cookies", self.backlog)?;
        if self.profiled {
            out.write_str(", stacks sampled during each run")?;
        }
        if self.watched {
            out.write_str(", processes looked at during each run")?;
        }
        Ok(())
    }
}

/// What of the files is in memory when a run begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageCache {
    /// All that fits.
    #[default]
    Primed,
    /// Nothing.
    Dropped,
}
