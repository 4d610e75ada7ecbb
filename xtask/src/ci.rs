//! `cargo xtask ci`: what must pass before a change is merged.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The steps, cheapest first. All of them run, so that one report names every failure.
const STEPS: &[(&str, &[&str])] = &[
    ("fmt", &["fmt", "--all", "--check"]),
    ("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    ("test", &["test", "--workspace"]),
];

/// Runs every step, then prints a line for each with its time. Fails when one failed.
pub fn main() -> ExitCode {
    let root = crate::root();
    let results: Vec<StepResult> =
        STEPS.iter().map(|(name, arguments)| run(&root, name, arguments)).collect();
    for result in &results {
        println!("ci: {result}");
    }
    if results.iter().all(|result| result.passed) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct StepResult {
    name: &'static str,
    passed: bool,
    took: Duration,
}

impl std::fmt::Display for StepResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let outcome = if self.passed { "passed" } else { "FAILED" };
        write!(f, "{:<8}{outcome} {:>8.1} s", self.name, self.took.as_secs_f64())
    }
}

fn run(root: &Path, name: &'static str, arguments: &[&str]) -> StepResult {
    println!("ci: cargo {}", arguments.join(" "));
    let start = Instant::now();
    // The tests' own build has made the program when the first of them runs: another build of it
    // alone may choose other features of what it depends on, and take minutes.
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), Into::into);
    let program = target.join("debug/flyball");
    let mut cargo = crate::cargo(root);
    let passed = match cargo.args(arguments).env("FLYBALL_BIN", program).status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("ci: cannot run cargo: {error}");
            false
        }
    };
    StepResult { name, passed, took: start.elapsed() }
}
