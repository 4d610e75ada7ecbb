//! The full tier: the tests that the fast one leaves out, by executables, two at a time, of which
//! the longest is first: the checks beside it are done before the end then.

use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use super::executables::{self, Executable};
use super::neighbours::Neighbours;
use super::times;

/// The executables, or why they do not build.
pub(super) type Built = Result<Vec<Executable>, String>;

/// How many executables run at a time: most of them wait for their last, longest tests.
const LANES: usize = 2;

/// How many tests of an executable run at a time. Most of them wait: with 8 in each of two lanes,
/// two processors stood idle for a fifth of the time.
const THREADS: &str = "12";

/// Whether all passed, and what libtest says of those that did not.
type Ran = Result<(bool, Vec<String>), String>;

/// Runs it so often, beside neighbours that begin when all is built. Whether all passed.
///
/// # Errors
/// When it does not build, or cannot be started.
pub(super) fn repeated(
    root: &Path,
    repeat: usize,
    neighbours: impl FnOnce() -> Neighbours,
) -> Result<bool, String> {
    executables::build(root)?;
    let _neighbours = neighbours();
    let mut all_passed = true;
    for turn in 1..=repeat {
        let start = Instant::now();
        // What Cargo has built, it names at once.
        let (passed, failures) = run(root, executables::build(root))?;
        failures.iter().for_each(|line| println!("{line}"));
        let outcome = if passed { "passed" } else { "FAILED" };
        println!("ci: turn {turn} of {repeat} {outcome}, {:.0?}", start.elapsed());
        all_passed &= passed;
    }
    Ok(all_passed)
}

/// Runs what was built.
///
/// # Errors
/// When it was not built, or cannot be started.
pub(super) fn run(root: &Path, built: Built) -> Ran {
    let mut all = built?;
    let known = times::of_full_tier(root);
    // One that is not in the table takes a moment, or was never timed: all would wait for the last.
    all.sort_by_key(|one| std::cmp::Reverse(known.get(&one.name).copied().unwrap_or(u64::MAX)));
    let waiting = Mutex::new(all.into_iter());
    // The lock is held for the choice alone, and not for as long as the chosen one runs.
    let next = || waiting.lock().ok()?.next();
    let ran: Vec<Ran> = thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(|| lane(next))).collect();
        let ended = |lane: thread::ScopedJoinHandle<Ran>| {
            lane.join().unwrap_or_else(|_| Err("a lane of the full tier panicked".to_owned()))
        };
        lanes.into_iter().map(ended).collect()
    });
    let (mut passed, mut failures) = (true, Vec::new());
    for lane in ran {
        let (lane_passed, lane_failures) = lane?;
        passed &= lane_passed;
        failures.extend(lane_failures);
    }
    Ok((passed, failures))
}

/// Runs one after the other until none is left.
fn lane(next: impl Fn() -> Option<Executable>) -> Ran {
    let (mut passed, mut failures) = (true, Vec::new());
    while let Some(one) = next() {
        let ran = one.run(&["--ignored", "--test-threads", THREADS])?;
        println!("ci: {:<24}{:>8.1?}", one.name, ran.took);
        passed &= ran.passed;
        failures.extend(ran.failures);
    }
    Ok((passed, failures))
}
