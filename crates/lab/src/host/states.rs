//! What the processes of a server are doing, as the kernel has it in `/proc`.

use std::cell::RefCell;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use super::until;

/// How often it is looked: hundreds of times in a run of seconds, and not in step with the
/// milliseconds of a disk or of a quota.
const LOOK_EVERY: Duration = Duration::from_micros(4_700);

/// Bytes of a line that are read: the state comes after a name of sixteen bytes at most.
const LINE_BYTES: usize = 64;

/// The threads of some processes, for a look at what they are doing.
#[derive(Debug)]
pub struct States(Vec<File>);

impl States {
    /// The threads that these processes have now.
    pub fn of(processes: &[u32]) -> States {
        let threads = processes.iter().flat_map(|id| fs::read_dir(format!("/proc/{id}/task")));
        let lines = threads.flatten().flatten().map(|thread| thread.path().join("stat"));
        States(lines.filter_map(|line| File::open(line).ok()).collect())
    }

    /// The share of the time, of 1, in which no thread could run while one at least waited for a
    /// disk; `None` when none was left to be looked at. One that could run, and has no processor or
    /// is kept from it by a quota, is not blocked. Blocks for as long.
    pub fn blocked_share(&self, seconds: f64, stop: &dyn Fn() -> bool) -> Option<f64> {
        let looks = RefCell::new((0_u32, 0_u32));
        until(Duration::from_secs_f64(seconds.max(0.0)), LOOK_EVERY, stop, || {
            if let Some(blocked) = are_blocked(self.0.iter().filter_map(state)) {
                let (all, of_them) = &mut *looks.borrow_mut();
                *all += 1;
                *of_them += u32::from(blocked);
            }
            None::<()>
        });
        let (all, blocked) = looks.into_inner();
        (all > 0).then(|| f64::from(blocked) / f64::from(all))
    }
}

/// Whether none of them can run and one waits for a disk; `None` of nothing.
fn are_blocked(states: impl Iterator<Item = u8>) -> Option<bool> {
    let (mut any, mut waits) = (false, false);
    for state in states {
        match state {
            b'R' => return Some(false),
            b'D' => waits = true,
            _ => {}
        }
        any = true;
    }
    any.then_some(waits)
}

/// The letter of a thread's state; `None` when it has ended.
fn state(line: &File) -> Option<u8> {
    let mut bytes = [0; LINE_BYTES];
    let length = line.read_at(&mut bytes, 0).ok()?;
    letter(&bytes[..length])
}

/// The letter after the name, which may have any character in it.
fn letter(line: &[u8]) -> Option<u8> {
    let end_of_name = line.iter().rposition(|byte| *byte == b')')?;
    line.get(end_of_name + 2).copied()
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    #[test]
    fn who_can_run_is_not_blocked_and_who_waits_for_clients_does_not_count() {
        let blocked = |states: &str| are_blocked(states.bytes());
        assert_eq!(blocked("DDD"), Some(true));
        assert_eq!(blocked("SDS"), Some(true), "the others have nothing to do");
        assert_eq!(blocked("DRD"), Some(false));
        assert_eq!(blocked("SSI"), Some(false), "nothing waits for a disk");
        assert_eq!(blocked(""), None);
    }

    #[test]
    fn a_name_may_look_like_a_state() {
        assert_eq!(letter(b"17 (a) R (b) D 1 17"), Some(b'D'));
        assert_eq!(letter(b"17 (sh"), None);
        assert_eq!(letter(b"17 (sh)"), None);
    }

    #[test]
    fn a_thread_that_looks_at_itself_runs() {
        let states = States::of(&[process::id()]);
        assert!(states.0.iter().filter_map(state).any(|state| state == b'R'));
        assert_eq!(states.blocked_share(0.01, &|| false), Some(0.0));
        assert_eq!(States::of(&[]).blocked_share(0.0, &|| false), None);
    }
}
