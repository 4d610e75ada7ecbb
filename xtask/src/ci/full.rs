//! The full tier: the tests that the fast one leaves out, by executables, of which the longest is
//! first: the checks beside it are done before the end then.

use std::path::Path;

use super::executables::Executable;
use super::times;

/// The executables, or why they do not build.
pub(super) type Built = Result<Vec<Executable>, String>;

/// How many tests run at a time: fewer than alone, since the checks run beside them.
const THREADS: &str = "8";

/// Runs what was built. Whether all passed, and what libtest says of those that did not.
///
/// # Errors
/// When it was not built, or cannot be started.
pub(super) fn run(root: &Path, built: Built) -> Result<(bool, Vec<String>), String> {
    let mut all = built?;
    let known = times::of_full_tier(root);
    // Who is not in the table takes a moment.
    all.sort_by_key(|one| std::cmp::Reverse(known.get(&one.name).copied().unwrap_or(0)));
    let (mut passed, mut failures) = (true, Vec::new());
    for one in all {
        let ran = one.run(&["--ignored", "--test-threads", THREADS])?;
        println!("ci: {:<24}{:>8.1?}", one.name, ran.took);
        passed &= ran.passed;
        failures.extend(ran.failures);
    }
    Ok((passed, failures))
}
