//! The processes of a server, and the time that they take.

use std::fs;
use std::time::Duration;

use crate::Server;

impl Server {
    /// The master and all below it.
    pub fn processes(&self) -> Vec<u32> {
        let mut found = vec![self.pid()];
        let mut at = 0;
        while at < found.len() {
            found.extend(children(found[at]));
            at += 1;
        }
        found
    }

    /// Time of a processor that they have taken until now. Those that ended count with the master.
    pub fn processor_time(&self) -> Duration {
        self.processes().into_iter().map(processor_time).sum()
    }
}

/// User and system time of a process and of its children that ended.
fn processor_time(process: u32) -> Duration {
    /// Milliseconds of a tick, which is 1/100 s to user space on every machine.
    const TICK_MS: u64 = 10;
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name before them, in brackets, may hold anything.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let ticks: u64 = fields.skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * TICK_MS)
}

fn children(parent: u32) -> Vec<u32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}
