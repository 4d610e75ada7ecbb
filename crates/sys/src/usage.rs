//! What other processes use, as /proc tells everybody.

use std::fs;

/// What a process uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time on processors since it started, of all its threads, in milliseconds (10 ms or better).
    pub cpu_ms: u64,
    /// Memory that is its own or shared with others and present, in bytes.
    pub resident_bytes: u64,
    /// Open descriptors; `None` where the kernel does not tell those of others (before Linux 6.2).
    pub descriptors: Option<u64>,
}

/// What the process uses; `None` when it has gone, or /proc is not there.
pub fn of_process(process: i32) -> Option<Usage> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (ticks, pages) = parse(&stat)?;
    // The length of the directory is the number of its entries; no right to read them is needed.
    let descriptors = fs::metadata(format!("/proc/{process}/fd")).map_or(0, |fd| fd.len());
    Some(Usage {
        cpu_ms: ticks * 1_000 / rustix::param::clock_ticks_per_second().max(1),
        resident_bytes: pages * rustix::param::page_size() as u64,
        descriptors: Some(descriptors).filter(|count| *count > 0),
    })
}

/// Ticks of the processor, and resident pages (proc_pid_stat(5): fields 14, 15 and 24). The second
/// field is the program's name, which may hold anything.
fn parse(stat: &str) -> Option<(u64, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let field = |number: usize| rest.split_whitespace().nth(number - 3)?.parse::<u64>().ok();
    Some((field(14)? + field(15)?, field(24)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_what_separates_fields() {
        let fields = (3..=52).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(parse(&format!("7 (a) 9 (b c) {fields}")), Some((29, 24)));
        assert_eq!(parse("7 (short) S 1"), None);
    }

    #[test]
    fn this_process_uses_memory_time_and_descriptors() {
        let before = of_process(std::process::id() as i32).unwrap();
        assert!(before.resident_bytes > 100_000, "{before:?}");
        let files: Vec<_> = (0..50).map(|_| fs::File::open("/proc/self/stat").unwrap()).collect();
        let mut sum = 0_u64;
        let after = loop {
            sum = std::hint::black_box(sum + 1);
            let now = of_process(std::process::id() as i32).unwrap();
            if now.cpu_ms > before.cpu_ms {
                break now;
            }
        };
        if let Some(descriptors) = after.descriptors {
            assert!(descriptors >= files.len() as u64, "{after:?}");
        }
        assert_eq!(of_process(i32::MAX), None);
    }
}
