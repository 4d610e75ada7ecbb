//! The full tier: the tests that the fast one leaves out, by executables. Tests wait more than they
//! work, and the longest of an executable often runs alone: several can run at a time.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::executables::Executable;
use super::times;

/// The executables, or why they do not build.
pub(super) type Built = Result<Vec<Executable>, String>;

/// How many executables run at a time. With two, all tests have not been seen to pass as yet.
const LANES: usize = 1;

/// How many tests of each.
const THREADS: &str = "8";

/// Runs what was built, the longest first. Whether all passed, and what libtest says of those that
/// did not.
///
/// # Errors
/// When it was not built, or cannot be started.
pub(super) fn run(root: &Path, built: Built) -> Result<(bool, Vec<String>), String> {
    let mut all = built?;
    let known = times::of_full_tier(root);
    // Who is not in the table takes a moment.
    all.sort_by_key(|one| std::cmp::Reverse(known.get(&one.name).copied().unwrap_or(0)));
    let left = Mutex::new(all.into_iter());
    let lane = || {
        let (mut passed, mut failures) = (true, Vec::new());
        // Not within `while let`, which would hold the lock while the executable runs.
        let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
        while let Some(one) = next() {
            let ran = one.run(&["--ignored", "--test-threads", THREADS])?;
            println!("ci: {:<24}{:>8.1?}", one.name, ran.took);
            passed &= ran.passed;
            failures.extend(ran.failures);
        }
        Ok::<_, String>((passed, failures))
    };
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
        let mut sum = (true, Vec::new());
        for lane in lanes {
            let (passed, failures) = lane.join().map_err(|_| "a lane panicked".to_owned())??;
            sum.0 &= passed;
            sum.1.extend(failures);
        }
        Ok(sum)
    })
}
