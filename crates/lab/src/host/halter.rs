//! Leaves a server a part of a processor's time without a control group, which takes root: stops
//! all of its processes for the rest of each turn.
//!
//! Turns are those in which the kernel's tick keeps a control group's quota, so that what a server
//! is stopped for is as long. Without this a server on loopback has a whole processor, its
//! generator no more, and the generator is the limit of most runs and makes them void.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::SetupError;

/// How long a turn is: a tick of the kernel where 250 of them make a second.
const TURN: Duration = Duration::from_millis(4);

/// A thread that stops and continues the processes of a group. They go on when it is dropped.
#[derive(Debug)]
pub struct Halter {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Halter {
    /// From now on the processes of this group run for a share of each turn, all at once. When this
    /// process ends in whatever way the kernel lets them go on, as it does with those that were
    /// stopped in a group that nobody is left to continue.
    ///
    /// # Errors
    /// When the id is none, the share is not above 0 and at most 1, or no thread can be had.
    pub fn start(group: u32, share: f64) -> Result<Halter, SetupError> {
        let id = i32::try_from(group).ok().and_then(Pid::from_raw);
        let id = id.ok_or_else(|| SetupError(format!("{group} is no group of processes")))?;
        if !(share > 0.0 && share <= 1.0) {
            return Err(SetupError(format!("{share} is no share of a processor")));
        }
        let ended = Arc::<AtomicBool>::default();
        let until = Arc::clone(&ended);
        let thread = thread::Builder::new().name("halter".into());
        let thread = thread.spawn(move || halt(id, share, &until));
        let thread = thread.map_err(|error| SetupError(format!("a thread: {error}")))?;
        Ok(Halter { ended, thread: Some(thread) })
    }
}

impl Drop for Halter {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// Lets them run for a share of each turn, until they are gone. Who was stopped too late stays
/// stopped for as much longer, as by a quota: this thread waits for a processor, too.
fn halt(group: Pid, share: f64, ended: &AtomicBool) {
    while !ended.load(Relaxed) && kill_process_group(group, Signal::CONT).is_ok() {
        let begun = Instant::now();
        thread::park_timeout(TURN.mul_f64(share));
        if kill_process_group(group, Signal::STOP).is_err() {
            return;
        }
        thread::park_timeout(begun.elapsed().mul_f64((1.0 - share) / share));
    }
    // Who has gone needs no signal.
    let _ = kill_process_group(group, Signal::CONT);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::host::{Place, Running, until};

    /// Hundredths of a second that a process has been on a processor, and its state.
    fn used(id: u32) -> (u64, String) {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        (fields[11].parse().unwrap(), fields[0].to_owned())
    }

    /// As long as only a test that fails waits.
    const PATIENCE: Duration = Duration::from_secs(120);

    #[test]
    fn a_busy_process_is_stopped_and_let_go_by_turns_and_goes_on_afterwards() {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Place::default().command(Path::new("/bin/sh")).unwrap();
        command.args(["-c", "while :; do :; done"]);
        let busy = Running::start(&mut command, &directory.path().join("output")).unwrap();
        let sees = |state: &str, more_than: u64| {
            let is_seen = || {
                let (now, is) = used(busy.id());
                (now > more_than && is == state).then_some(now)
            };
            until(PATIENCE, TURN / 3, &|| false, is_seen).expect(state)
        };
        let halter = Halter::start(busy.id(), 0.25).unwrap();
        let mut before = 0;
        for _ in 0..3 {
            before = sees("T", before);
        }
        drop(halter);
        sees("R", before);
        assert!(Halter::start(0, 0.5).is_err() && Halter::start(busy.id(), 0.0).is_err());
    }
}
