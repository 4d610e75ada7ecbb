//! Takes a processor from a server for a part of the time, in short turns.
//!
//! The quota of a control group is kept by the kernel's tick: a server runs until the next one, and
//! then stands still for as many milliseconds as make its account even. What arrives meanwhile
//! gathers, which is a burst that no client sent. A thread of a higher class that is busy for the
//! rest of each turn leaves a server pieces of some tens of microseconds instead.

use std::fs;
use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::SetupError;
use super::precedence::PRIORITY;
use super::programs::run;

/// A thread that is busy on a processor for its part of each turn. Ended when dropped.
#[derive(Debug)]
pub struct Occupier {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Occupier {
    /// From now on others have this share of a processor, numbered as `taskset` does, in each turn.
    /// Blocks until it is so.
    ///
    /// # Errors
    /// Without the right to, and when a program that this takes is not installed.
    pub fn start(cpu: &str, share: f64, turn: Duration) -> Result<Occupier, SetupError> {
        let ended = Arc::<AtomicBool>::default();
        let (told, begun) = mpsc::channel();
        let (cpu, theirs) = (cpu.to_owned(), turn.mul_f64(share));
        let until = Arc::clone(&ended);
        let thread = thread::Builder::new().name("occupier".into()).spawn(move || {
            let placed = place(&cpu);
            let is_placed = placed.is_ok();
            // Who does not listen has gone.
            if told.send(placed).is_ok() && is_placed {
                occupy(theirs, turn, &until);
            }
        });
        let thread = thread.map_err(|error| SetupError(format!("a thread: {error}")))?;
        let occupier = Occupier { ended, thread: Some(thread) };
        let placed = begun.recv().unwrap_or_else(|_| Err(SetupError("a thread ended".into())));
        placed.map(|()| occupier)
    }
}

impl Drop for Occupier {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Binds this thread to a processor, and puts it before all ordinary programs there.
fn place(cpu: &str) -> Result<(), SetupError> {
    const FILE: &str = "/proc/thread-self";
    let own = fs::read_link(FILE).map_err(|error| SetupError(format!("{FILE}: {error}")))?;
    let id = own.file_name().unwrap_or_default().to_string_lossy().into_owned();
    run("taskset", &["-cp", cpu, &id])?;
    run("chrt", &["--fifo", "-p", PRIORITY, &id]).map(|_| ())
}

/// Is busy for all of each turn but the others' part of it.
fn occupy(theirs: Duration, turn: Duration, ended: &AtomicBool) {
    let busy = turn.saturating_sub(theirs);
    let mut begun = Instant::now();
    while !ended.load(Relaxed) {
        while begun.elapsed() < busy {
            hint::spin_loop();
        }
        begun += turn;
        let now = Instant::now();
        // Where the machine beneath took the rest of the turn, the others have theirs nevertheless.
        if begun < now {
            begun = now + theirs;
        }
        // It may wake up early, which costs the others a part of one turn.
        thread::park_timeout(begun - now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{is_root, until};

    /// Nanoseconds that this process's occupier has been on a processor, and its class; nothing
    /// when there is none.
    fn occupied() -> Option<(u64, String)> {
        let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
        let name = |path: &std::path::Path| fs::read_to_string(path.join("comm"));
        let path = threads
            .map(|thread| thread.path())
            .find(|path| name(path).is_ok_and(|name| name.trim() == "occupier"))?;
        let used = fs::read_to_string(path.join("schedstat")).ok()?;
        let stat = fs::read_to_string(path.join("stat")).ok()?;
        let class = stat.rsplit_once(") ")?.1.split(' ').nth(38)?.to_owned();
        Some((used.split(' ').next()?.parse().ok()?, class))
    }

    #[test]
    fn it_has_its_part_of_a_processor_that_is_there_and_leaves_the_rest() {
        if !is_root() {
            return eprintln!("skipped: it takes root");
        }
        let occupier = Occupier::start("0", 0.25, Duration::from_micros(200)).unwrap();
        let share = |_| {
            let (before, begun) = (occupied().unwrap().0, Instant::now());
            // A thousand turns.
            let while_it_lasts = Duration::from_millis(200);
            until(while_it_lasts, while_it_lasts, &|| false, || None::<()>);
            let (after, class) = occupied().unwrap();
            assert_eq!(class, "1", "SCHED_FIFO");
            (after - before) as f64 / begun.elapsed().as_nanos() as f64
        };
        // The machine beneath may take or add a part of one look.
        let right = (0..10).map(share).find(|share| (0.5..0.85).contains(share));
        assert!(right.is_some(), "it never has three quarters");
        drop(occupier);
        assert_eq!(occupied(), None);
        // Here, for its thread has the same name.
        let wrong = Occupier::start("100000", 0.5, Duration::from_micros(100)).unwrap_err();
        assert!(wrong.to_string().contains("taskset"), "{wrong}");
    }
}
