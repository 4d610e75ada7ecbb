//! Who else uses the machine during a run: a figure that others had a part in is void.

use std::collections::BTreeMap;
use std::fs;
use std::process;

use super::ListenDrops;

/// The parent of all threads of the kernel.
const KERNEL: u32 = 2;

/// Processor time in the units of `/proc`, hundredths of a second, by process and when it began.
type Ticks = BTreeMap<(u32, u64), u64>;

/// What all but the lab, its servers and its generator have done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Others {
    ticks: Ticks,
    /// Drops and resets of the machine's own sockets; those of a server are in its namespace.
    drops: ListenDrops,
    resets: u64,
}

/// What they did between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Disturbance {
    /// Seconds of processor time.
    pub cpu_s: f64,
    /// Connections that their listening sockets dropped.
    pub drops: u64,
    /// Resets that they sent.
    pub resets: u64,
}

impl Others {
    /// Looks. Blocks for as long as it takes to read a file for each process.
    pub fn look() -> Others {
        let netstat = fs::read_to_string("/proc/net/netstat").unwrap_or_default();
        let snmp = fs::read_to_string("/proc/net/snmp").unwrap_or_default();
        Others {
            ticks: ticks(process::id()),
            drops: ListenDrops::parse(&netstat).unwrap_or_default(),
            resets: resets(&snmp).unwrap_or(0),
        }
    }

    /// What happened since then.
    pub fn since(&self, before: &Others) -> Disturbance {
        let grown = |(key, now): (&(u32, u64), &u64)| {
            now.saturating_sub(before.ticks.get(key).copied().unwrap_or(0))
        };
        let ticks: u64 = self.ticks.iter().map(grown).sum();
        Disturbance {
            cpu_s: ticks as f64 / 100.0,
            drops: self.drops.since(before.drops).all,
            resets: self.resets.saturating_sub(before.resets),
        }
    }
}

/// A process as `/proc/PID/stat` has it.
struct Stat {
    id: u32,
    parent: u32,
    ticks: u64,
    begun: u64,
}

/// Of all processes that are no threads of the kernel and do not descend from this one.
fn ticks(lab: u32) -> Ticks {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let all: Vec<Stat> = ids.filter_map(stat).collect();
    let parents: BTreeMap<u32, u32> = all.iter().map(|one| (one.id, one.parent)).collect();
    let ours = |id: u32| {
        // The chain ends at the first process, whose parent has no id.
        let mut at = id;
        while at != lab && at != 0 {
            at = parents.get(&at).copied().unwrap_or(0);
        }
        at == lab
    };
    let others = all.iter().filter(|one| one.id != KERNEL && one.parent != KERNEL && !ours(one.id));
    others.map(|one| ((one.id, one.begun), one.ticks)).collect()
}

fn stat(id: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name, in parentheses, may hold blanks and parentheses itself.
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let number = |nth: usize| fields.get(nth)?.parse::<u64>().ok();
    let ticks = number(11)? + number(12)?;
    Some(Stat { id, parent: fields.get(1)?.parse().ok()?, ticks, begun: number(19)? })
}

/// `OutRsts` of TCP.
fn resets(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter(|line| line.starts_with("Tcp:"));
    let at = lines.next()?.split(' ').position(|name| name == "OutRsts")?;
    lines.next()?.split(' ').nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_and_what_it_started_are_no_others() {
        let own = process::id();
        let mut child = process::Command::new("sleep").arg("1000").spawn().unwrap();
        let ids = |lab: u32| ticks(lab).into_keys().map(|(id, _)| id).collect::<Vec<_>>();
        let (seen, all) = (ids(own), ids(u32::MAX));
        assert!(!seen.contains(&own) && !seen.contains(&child.id()));
        assert!(all.contains(&own) && all.contains(&child.id()), "{all:?}");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn what_others_did_is_what_grew() {
        let of = |ticks: &[((u32, u64), u64)], resets| Others {
            ticks: ticks.iter().copied().collect(),
            drops: ListenDrops { all: resets, ..ListenDrops::default() },
            resets,
        };
        let before = of(&[((7, 1), 50), ((8, 1), 90)], 3);
        // 8 ended, and another process has its id.
        let after = of(&[((7, 1), 75), ((8, 2), 5)], 10);
        let grown = after.since(&before);
        assert_eq!(grown, Disturbance { cpu_s: 0.3, drops: 7, resets: 7 });
        assert!(resets(&fs::read_to_string("/proc/net/snmp").unwrap()).is_some());
    }
}
