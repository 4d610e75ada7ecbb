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
mod full;
mod neighbours;
mod options;
mod timed;
mod times;

use options::{Options, What};

/// The README's command, which is the first step.
const FAST: &[&str] = &["test", "--workspace", "--no-fail-fast"];

/// What is looked at beside the full tier, in the time that its tests leave.
const CHECKS: &[(&str, &[&str])] = &[
    ("fmt", &["fmt", "--all", "--check"]),
    ("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    ("server", &with("")),
    ("acme", &with("acme")),
    ("load", &with("load")),
    ("lab", &with("lab")),
    ("tune", &with("tune")),
];

/// How nice the checks are to the tests beside them.
const NICE: &str = "10";

/// Checks the program with the commands of a server and those of this feature, and no others.
const fn with(feature: &str) -> [&str; 8] {
    let only = "--no-default-features";
    ["clippy", "--package=flyball", only, "--features", feature, "--", "-D", "warnings"]
}

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
        What::Full => full::repeated(&root, options.repeat, neighbours),
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

/// Runs every step, so that one report names every failure, then prints the tests that failed and a
/// line for each step with its time. Whether all passed.
fn steps(root: &Path) -> bool {
    let mut results = vec![step("fast", || told(&mut tests(root)))];
    // Before the checks: Cargo lets one of them build at a time, and they would go first.
    let built = executables::build(root);
    std::thread::scope(|scope| {
        let full = scope.spawn(|| step("full", || full::run(root, built)));
        results.extend(CHECKS.iter().map(|(name, check)| step(name, || checked(root, check))));
        results.extend(full.join());
    });
    for result in results.iter().filter(|result| !result.failures.is_empty()) {
        println!("ci: {} once more:\n{}", result.name, result.failures.join("\n"));
    }
    for result in &results {
        println!("ci: {result}");
    }
    let has_all = results.len() == CHECKS.len() + 2;
    has_all && results.iter().all(|result| result.passed)
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

fn step(
    name: &'static str,
    run: impl FnOnce() -> Result<(bool, Vec<String>), String>,
) -> StepResult {
    let start = Instant::now();
    let (passed, failures) = run().unwrap_or_else(|why| {
        eprintln!("ci: {name}: {why}");
        (false, Vec::new())
    });
    StepResult { name, passed, took: start.elapsed(), failures }
}

/// The fast tier.
fn tests(root: &Path) -> Command {
    let mut cargo = crate::cargo(root);
    // The tests' own build has made the program when the first of them runs: another build of it
    // alone may choose other features of what it depends on, and take minutes.
    cargo.args(FAST).env("FLYBALL_BIN", executables::program(root));
    cargo
}

/// Runs a command to its end and passes on what it prints. Whether it succeeded, and what it says
/// of tests that failed.
fn told(command: &mut Command) -> Result<(bool, Vec<String>), String> {
    let mut told = || {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let failures = match child.stdout.take() {
            Some(stdout) => failures::tee(BufReader::new(stdout), std::io::stdout().lock())?,
            None => Vec::new(),
        };
        Ok((child.wait()?.success(), failures))
    };
    told().map_err(|error: std::io::Error| format!("cannot run cargo: {error}"))
}

/// Runs a check, which gives way to what else runs. What it says is printed when it fails, in one
/// piece.
fn checked(root: &Path, check: &[&str]) -> Result<(bool, Vec<String>), String> {
    let cargo = crate::cargo(root);
    let mut nice = Command::new("nice");
    nice.args(["-n", NICE]).arg(cargo.get_program()).args(check).current_dir(root);
    let output = nice.output().map_err(|error| format!("cannot run nice: {error}"))?;
    let passed = output.status.success();
    if !passed {
        let said = [output.stdout, output.stderr].concat();
        println!("ci: cargo {}\n{}", check.join(" "), String::from_utf8_lossy(&said));
    }
    Ok((passed, Vec::new()))
}
