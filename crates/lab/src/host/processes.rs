//! Processes as `/proc` has them: who began whom, and how long each was on a processor.

use std::collections::BTreeMap;
use std::fs;

/// Nanoseconds of a hundredth of a second, the unit of `/proc`.
const TICK_NS: u64 = 10_000_000;

/// Processor time in hundredths of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) own: u64,
    /// Of children that ended, which a process has when it asked for their ends.
    pub(super) of_ended: u64,
}

/// A process as `/proc/PID/stat` has it.
pub(super) struct Stat {
    pub(super) id: u32,
    pub(super) parent: u32,
    pub(super) used: Used,
    /// When it began: its number alone may be another's later.
    pub(super) begun: u64,
}

/// All processes of one moment.
pub(super) struct Processes {
    pub(super) all: Vec<Stat>,
    parents: BTreeMap<u32, u32>,
}

impl Processes {
    /// Blocks for as long as it takes to read a file for each.
    pub(super) fn look() -> Processes {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let all: Vec<Stat> = ids.filter_map(stat).collect();
        let parents = all.iter().map(|one| (one.id, one.parent)).collect();
        Processes { all, parents }
    }

    /// Whether a process is this one, or was begun by it or by what it began.
    pub(super) fn descends(&self, id: u32, from: u32) -> bool {
        // The chain ends at the first process, whose parent has no id.
        let mut at = id;
        while at != from && at != 0 {
            at = self.parents.get(&at).copied().unwrap_or(0);
        }
        at == from
    }
}

/// Time on processors so far of a process and of what it began, to a hundredth of a second for each
/// of them; `None` when it has gone. Blocks while it reads a file for each process that there is.
pub fn cpu_ns_of(id: u32) -> Option<u64> {
    let processes = Processes::look();
    let own = processes.all.iter().filter(|one| processes.descends(one.id, id));
    let ticks = own.map(|one| one.used.own + one.used.of_ended).reduce(|sum, more| sum + more);
    ticks.map(|ticks| ticks * TICK_NS)
}

fn stat(id: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name, in parentheses, may hold blanks and parentheses itself.
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let number = |nth: usize| fields.get(nth)?.parse::<u64>().ok();
    let sum = |nth: usize| Some(number(nth)? + number(nth + 1)?);
    let used = Used { own: sum(11)?, of_ended: sum(13)? };
    Some(Stat { id, parent: fields.get(1)?.parse().ok()?, used, begun: number(19)? })
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;
    use crate::host::wait::until;

    #[test]
    fn time_is_that_of_a_process_and_of_what_it_began_also_after_its_end() {
        // The shell waits for a child that is busy, asks for its end, and stays.
        let script = "sh -c 'i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done'; exec sleep 1000";
        let mut shell = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let (most, every) = (Duration::from_secs(60), Duration::from_millis(5));
        let ended = until(most, every, &|| false, || {
            let name = fs::read_to_string(format!("/proc/{}/comm", shell.id())).unwrap();
            (name == "sleep\n").then_some(())
        });
        let used = cpu_ns_of(shell.id());
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert!(ended.is_some() && used.is_some_and(|ns| ns >= 3 * TICK_NS), "{used:?}");
        assert_eq!(cpu_ns_of(shell.id()), None);
    }
}
