//! Who else uses the machine during a run: a figure that others had a part in is void.

use std::collections::BTreeMap;
use std::fs;
use std::process;

use super::ListenDrops;
use super::processes::{Processes, Used};

/// The parent of all threads of the kernel.
const KERNEL: u32 = 2;

/// Processor time by process and when it began.
type Ticks = BTreeMap<(u32, u64), Used>;

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
    /// The process that took more than half of it itself.
    pub mostly: Option<u32>,
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
        let mut grown = Used::default();
        let mut most = (0, 0);
        for (key, now) in &self.ticks {
            let then = before.ticks.get(key).copied().unwrap_or_default();
            let own = now.own.saturating_sub(then.own);
            most = most.max((own, key.0));
            grown.own += own;
            grown.of_ended += now.of_ended.saturating_sub(then.of_ended);
        }
        // What ended in between is among its parent's, with what it had before.
        let ended = before.ticks.iter().filter(|(key, _)| !self.ticks.contains_key(key));
        let had: u64 = ended.map(|(_, then)| then.own + then.of_ended).sum();
        let all = grown.own + grown.of_ended.saturating_sub(had);
        Disturbance {
            cpu_s: all as f64 / 100.0,
            mostly: (most.0 * 2 > all).then_some(most.1),
            drops: self.drops.since(before.drops).all,
            resets: self.resets.saturating_sub(before.resets),
        }
    }
}

/// Of all processes that are no threads of the kernel and do not descend from this one.
fn ticks(lab: u32) -> Ticks {
    let processes = Processes::look();
    let others = processes
        .all
        .iter()
        .filter(|one| one.id != KERNEL && one.parent != KERNEL && !processes.descends(one.id, lab));
    others.map(|one| ((one.id, one.begun), one.used)).collect()
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
            ticks: ticks.iter().map(|(key, own)| (*key, Used { own: *own, of_ended: 0 })).collect(),
            drops: ListenDrops { all: resets, ..ListenDrops::default() },
            resets,
        };
        let before = of(&[((7, 1), 50), ((8, 1), 90)], 3);
        // 8 ended, and another process has its id.
        let after = of(&[((7, 1), 75), ((8, 2), 5)], 10);
        let grown = after.since(&before);
        let expected = Disturbance { cpu_s: 0.3, mostly: Some(7), drops: 7, resets: 7 };
        assert_eq!(grown, expected);
        assert!(resets(&fs::read_to_string("/proc/net/snmp").unwrap()).is_some());
    }

    #[test]
    fn who_began_and_ended_between_two_looks_was_not_seen() {
        let of = |ids: &[(u32, u64, u64)]| Others {
            ticks: ids
                .iter()
                .map(|(id, own, of_ended)| ((*id, 1), Used { own: *own, of_ended: *of_ended }))
                .collect(),
            ..Others::default()
        };
        // 8 had 90 and took 30 more before it ended; others came and went meanwhile and took 400.
        let before = of(&[(7, 50, 1_000), (8, 90, 0)]);
        let after = of(&[(7, 60, 1_520)]);
        let grown = after.since(&before);
        assert_eq!((grown.cpu_s, grown.mostly), (4.4, None));
        // Nobody asked for the end of 8: what it did last is not known.
        let after = of(&[(7, 60, 1_000)]);
        assert_eq!(after.since(&before).cpu_s, 0.1);
    }
}
