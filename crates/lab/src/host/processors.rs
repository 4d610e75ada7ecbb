//! What processors did with their time, as the kernel has it in `/proc/stat`.

use std::fs;

use serde::{Deserialize, Serialize};

/// The processors that this process may run on, ascending: those of the machine, or of the set that
/// it was given.
pub fn allowed_cpus() -> Vec<u32> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let cpus = parse_list(list.unwrap_or_default().trim());
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// A list of processors as the kernel writes it: `0,2-3`.
fn parse_list(list: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// Nanoseconds in which these processors wanted to run and the machine beneath did not let them; a
/// share of 1 % of a run voids it.
pub fn stolen_ns(cpus: &[u32]) -> u64 {
    // Linux counts these in hundredths of a second wherever it shows them.
    ProcessorTimes::look(cpus).0[STEAL] * 10_000_000
}

/// Kinds of time that a line tells: user, nice, system, idle, iowait, irq, softirq, steal.
const KINDS: usize = 8;
const NICE: usize = 1;
const IDLE: usize = 3;
const IOWAIT: usize = 4;
const SOFTIRQ: usize = 6;
const STEAL: usize = 7;

/// The times of some processors, added up by kind, in hundredths of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTimes([u64; KINDS]);

/// Shares of the time of processors, of 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// With nothing to do, and nothing that waited for a disk. What a share of a processor's time
    /// withholds from a server is among it, and what keeps the processor awake meanwhile.
    pub idle: f64,
    /// With nothing to do while something waited for a disk.
    pub iowait: f64,
    /// In soft interrupts: packets and timers.
    pub softirq: f64,
}

impl ProcessorTimes {
    /// Looks at these processors.
    pub fn look(cpus: &[u32]) -> ProcessorTimes {
        ProcessorTimes::parse(&fs::read_to_string("/proc/stat").unwrap_or_default(), cpus)
    }

    fn parse(text: &str, cpus: &[u32]) -> ProcessorTimes {
        let mut all = [0; KINDS];
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let id = words.next().and_then(|word| word.strip_prefix("cpu")?.parse::<u32>().ok());
            if id.is_some_and(|id| cpus.contains(&id)) {
                for (sum, word) in all.iter_mut().zip(words) {
                    *sum += word.parse::<u64>().unwrap_or(0);
                }
            }
        }
        ProcessorTimes(all)
    }

    /// The shares of what passed since then; nothing where no time did.
    pub fn since(&self, before: &ProcessorTimes) -> Option<Shares> {
        let grown = |kind: usize| self.0[kind].saturating_sub(before.0[kind]) as f64;
        let all: f64 = (0..KINDS).map(grown).sum();
        let share = |kind: usize| grown(kind) / all;
        let idle = share(IDLE) + share(NICE);
        let shares = Shares { idle, iowait: share(IOWAIT), softirq: share(SOFTIRQ) };
        (all > 0.0).then_some(shares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_have_times_and_shares_of_them() {
        assert!(ProcessorTimes::look(&allowed_cpus()).0.iter().sum::<u64>() > 0);
        let text = "cpu  9 9 9 9 9 9 9 9 0 0\n\
                    cpu0 5 9 5 21 5 0 5 0 0 0\n\
                    cpu1 5 0 5 30 5 0 5 0 0 0\n\
                    cpu2 7 7 7 7 7 7 7 7 0 0\n\
                    intr 4\n";
        let two = ProcessorTimes::parse(text, &[0, 1]);
        assert_eq!(two, ProcessorTimes([10, 9, 10, 51, 10, 0, 10, 0]));
        let shares = two.since(&ProcessorTimes::default());
        assert_eq!(shares, Some(Shares { idle: 0.6, iowait: 0.1, softirq: 0.1 }));
        assert_eq!(two.since(&two), None);
    }

    #[test]
    fn processors_are_those_of_the_set_that_a_lab_was_given() {
        assert_eq!(parse_list("0,2-4,7"), [0, 2, 3, 4, 7]);
        assert!(parse_list("").is_empty());
        assert!(!allowed_cpus().is_empty());
    }
}
