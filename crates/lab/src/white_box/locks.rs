//! How long threads wait for locks: in futex, by its tracepoints, and in the kernel, by those of
//! its own locks (`lock:contention_begin`, since Linux 5.19).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The tracepoints, as `perf record -e` takes them.
pub(super) const EVENTS: &str = "syscalls:sys_enter_futex,syscalls:sys_exit_futex,\
                                 lock:contention_begin,lock:contention_end";

/// Operations of futex that wait: FUTEX_WAIT, FUTEX_LOCK_PI, FUTEX_WAIT_BITSET and FUTEX_LOCK_PI2.
const WAITING: &[u64] = &[0, 6, 9, 13];

/// The bits of an operation that are flags (FUTEX_PRIVATE_FLAG, FUTEX_CLOCK_REALTIME).
const FLAGS: u64 = 0x180;

/// What the locks of glibc and of Rust's library hold while somebody waits for them: by this a wait
/// for a lock is told from one for work.
const CONTENDED: u64 = 2;

/// Waits that ended, and the time that they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// How many.
    pub count: u64,
    /// Milliseconds together.
    pub ms: f64,
}

impl Waits {
    fn add(&mut self, ms: f64) {
        self.count += 1;
        self.ms += ms;
    }
}

/// Waits of all threads of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Locks {
    /// In futex, for whatever reason: idle threads wait there too.
    pub futex: Waits,
    /// Of these, for a lock that another thread held.
    pub contended: Waits,
    /// For locks of the kernel.
    pub kernel: Waits,
}

/// A wait that has begun.
struct Begun {
    at_s: f64,
    contended: bool,
}

/// From what `perf script -F tid,time,event,trace` prints: a line for each event, with the thread,
/// the time in seconds, the event and its fields.
pub(super) fn parse(text: &str) -> Locks {
    let mut locks = Locks::default();
    let mut in_futex: BTreeMap<u32, Begun> = BTreeMap::new();
    let mut in_kernel: BTreeMap<(u32, &str), f64> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let thread = words.next().and_then(|word| word.parse::<u32>().ok());
        let time = words.next().and_then(|word| word.strip_suffix(':')?.parse::<f64>().ok());
        let (Some(thread), Some(at_s), Some(event)) = (thread, time, words.next()) else {
            continue;
        };
        let since = |begun: f64| (at_s - begun).max(0.0) * 1e3;
        match event {
            "syscalls:sys_enter_futex:"
                if WAITING.contains(&(field(line, "op:").unwrap_or(1) & !FLAGS)) =>
            {
                let contended = field(line, "val:") == Some(CONTENDED);
                in_futex.insert(thread, Begun { at_s, contended });
            }
            "syscalls:sys_exit_futex:" => {
                if let Some(begun) = in_futex.remove(&thread) {
                    locks.futex.add(since(begun.at_s));
                    if begun.contended {
                        locks.contended.add(since(begun.at_s));
                    }
                }
            }
            "lock:contention_begin:" => {
                in_kernel.insert((thread, words.next().unwrap_or_default()), at_s);
            }
            "lock:contention_end:" => {
                let lock = (thread, words.next().unwrap_or_default());
                if let Some(begun) = in_kernel.remove(&lock) {
                    locks.kernel.add(since(begun));
                }
            }
            _ => {}
        }
    }
    locks
}

/// A field of an event, which is a number in hexadecimal.
fn field(line: &str, name: &str) -> Option<u64> {
    let mut words = line.split_whitespace().skip_while(|word| *word != name);
    let value = words.nth(1)?.trim_end_matches(',');
    u64::from_str_radix(value.trim_start_matches("0x"), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "\
 7   10.000000: syscalls:sys_enter_futex: uaddr: 0x7f10, op: 0x00000080, val: 0x00000002, utime: 0
 8   10.001000: syscalls:sys_enter_futex: uaddr: 0x7f10, op: 0x00000081, val: 0x00000001, utime: 0
 8   10.001100:  syscalls:sys_exit_futex: 0x1
 7   10.002000:  syscalls:sys_exit_futex: 0x0
 9   10.000000: syscalls:sys_enter_futex: uaddr: 0x7f20, op: 0x00000189, val: 0x00000005, utime: 0
 9   10.100000:  syscalls:sys_exit_futex: 0xffffffffffffff92
 9   10.200000: lock:contention_begin: 0xffff88 (flags=MUTEX)
 9   10.200500: lock:contention_begin: 0xffff99 (flags=SPIN)
 9   10.200600: lock:contention_end: 0xffff99 (ret=0)
 9   10.201000: lock:contention_end: 0xffff88 (ret=0)
 9   10.300000: syscalls:sys_enter_futex: uaddr: 0x7f20, op: 0x00000189, val: 0x00000005, utime: 0
";

    #[test]
    fn waits_for_locks_are_told_from_waits_for_work_and_from_wake_ups() {
        let locks = parse(SCRIPT);
        let near = |waits: Waits, count: u64, ms: f64| {
            assert_eq!(waits.count, count, "{locks:?}");
            assert!((waits.ms - ms).abs() < 1e-6, "{locks:?}");
        };
        near(locks.futex, 2, 102.0);
        near(locks.contended, 1, 2.0);
        near(locks.kernel, 2, 1.1);
        assert_eq!(parse("cannot be read\n\n"), Locks::default());
    }
}
