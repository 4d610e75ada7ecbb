//! `cargo xtask ci`: what must pass before a change is merged, and how long it takes.
//!
//! Tests are in two tiers. `cargo test --workspace` runs the fast one. Those of the full tier are
//! marked `#[ignore = "full tier"]`, so that libtest's `--ignored` runs exactly the rest.

use std::io::BufReader;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

mod executables;
mod failures;
mod neighbours;
mod options;
mod timed;
mod times;

use options::{Options, What};

/// The steps, of which the first is the README's command. All of them run, so that one report names
/// every failure.
const STEPS: &[(&str, &[&str])] = &[
    ("fast", &["test", "--workspace", "--no-fail-fast"]),
    ("fmt", &["fmt", "--all", "--check"]),
    ("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    ("server", &with("")),
    ("acme", &with("acme")),
    ("load", &with("load")),
    ("lab", &with("lab")),
    ("tune", &with("tune")),
    ("full", &FULL),
];

/// Checks the program with the commands of a server and those of this feature, and no others.
const fn with(feature: &str) -> [&str; 8] {
    let only = "--no-default-features";
    ["clippy", "--package=flyball", only, "--features", feature, "--", "-D", "warnings"]
}

/// The tests that the fast tier leaves out. Documentation has none of them.
const FULL: [&str; 8] =
    ["test", "--workspace", "--no-fail-fast", "--lib", "--bins", "--tests", "--", "--ignored"];

/// Does what the arguments after `ci` say. Fails when anything failed.
pub fn main(arguments: &[String]) -> ExitCode {
    let options = match Options::parse(arguments) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("ci: {why}\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    let root = crate::root();
    let neighbours = || neighbours::start(options.beside, options.hog_bytes);
    let passed = match options.what {
        What::Steps => {
            let _neighbours = neighbours();
            Ok((0..options.repeat).all(|_| steps(&root)))
        }
        What::Times => times::main(&root),
        What::Timed => timed::main(&root, options.repeat, neighbours),
    };
    match passed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("ci: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs every step, then prints the tests that failed and a line for each step with its time.
/// Whether all passed.
fn steps(root: &Path) -> bool {
    let results: Vec<StepResult> =
        STEPS.iter().map(|(name, arguments)| run(root, name, arguments)).collect();
    for result in results.iter().filter(|result| !result.failures.is_empty()) {
        println!("ci: {} once more:\n{}", result.name, result.failures.join("\n"));
    }
    for result in &results {
        println!("ci: {result}");
    }
    results.iter().all(|result| result.passed)
}

struct StepResult {
    name: &'static str,
    passed: bool,
    took: Duration,
    /// What libtest says of tests that failed, by lines.
    failures: Vec<String>,
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
    let mut cargo = crate::cargo(root);
    // The tests' own build has made the program when the first of them runs: another build of it
    // alone may choose other features of what it depends on, and take minutes.
    let program = executables::program(root);
    cargo.args(arguments).env("FLYBALL_BIN", program).stdout(Stdio::piped());
    let (passed, failures) = told(&mut cargo).unwrap_or_else(|error| {
        eprintln!("ci: cannot run cargo: {error}");
        (false, Vec::new())
    });
    StepResult { name, passed, took: start.elapsed(), failures }
}

/// Runs a command to its end and passes on what it prints. Whether it succeeded, and what it says
/// of tests that failed.
fn told(command: &mut Command) -> std::io::Result<(bool, Vec<String>)> {
    let mut child = command.spawn()?;
    let failures = match child.stdout.take() {
        Some(stdout) => failures::tee(BufReader::new(stdout), std::io::stdout().lock())?,
        None => Vec::new(),
    };
    Ok((child.wait()?.success(), failures))
}
