//! The executables of tests, as Cargo builds them, and how they run one by one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::failures;

/// One executable of tests.
pub(super) struct Executable {
    /// Package and target, such as `flyball program`.
    pub(super) name: String,
    path: PathBuf,
    /// Where Cargo would run it: the directory of its package.
    directory: PathBuf,
    program: PathBuf,
}

/// How a run ended.
pub(super) struct Ran {
    pub(super) took: Duration,
    pub(super) passed: bool,
    /// What libtest says of tests that failed, by lines.
    pub(super) failures: Vec<String>,
    /// The time of each test that says it, in seconds.
    pub(super) tests: BTreeMap<String, f64>,
    /// The names of tests that failed.
    pub(super) failed: Vec<String>,
}

/// The program that the tests' own build makes, which tests start.
pub(super) fn program(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), Into::into);
    target.join("debug/flyball")
}

/// Builds all tests; the executables in the order in which Cargo names them.
///
/// # Errors
/// When it does not build, or what Cargo says cannot be read.
pub(super) fn build(root: &Path) -> Result<Vec<Executable>, String> {
    let mut cargo = crate::cargo(root);
    cargo.args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
    let output = cargo.stderr(Stdio::inherit()).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err("the tests do not build".to_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let found: Vec<Executable> = text.lines().filter_map(|line| executable(root, line)).collect();
    if found.is_empty() { Err("Cargo names no executable".to_owned()) } else { Ok(found) }
}

/// The executable of tests that a message of Cargo is about.
fn executable(root: &Path, message: &str) -> Option<Executable> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let path = PathBuf::from(message["executable"].as_str()?);
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let directory = manifest.parent()?.to_owned();
    let package = directory.file_name()?.to_str()?;
    let target = message["target"]["name"].as_str()?;
    let kind = message["target"]["kind"][0].as_str()?;
    let name = match kind {
        "test" => format!("{package} {target}"),
        _ => format!("{package} ({kind})"),
    };
    Some(Executable { name, path, directory, program: program(root) })
}

impl Executable {
    /// Runs it with these arguments.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<Ran, String> {
        let start = Instant::now();
        let output = self.command(arguments).output();
        let output = output.map_err(|error| format!("{}: {error}", self.path.display()))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let passed = output.status.success();
        if !passed {
            let errors = String::from_utf8_lossy(&output.stderr);
            println!("ci: {} failed\n{text}\n{errors}", self.name);
        }
        let tests = text.lines().filter_map(time_of).collect();
        let failed = text.lines().filter_map(failure_of).map(str::to_owned).collect();
        let failures = failures::kept(&text);
        Ok(Ran { took: start.elapsed(), passed, failures, tests, failed })
    }

    /// The names of its tests.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn tests(&self) -> Result<Vec<String>, String> {
        let output = self.command(&["--list", "--include-ignored"]).output();
        let output = output.map_err(|error| format!("{}: {error}", self.path.display()))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
        Ok(names.map(str::to_owned).collect())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command
            .args(arguments)
            .args(["-Z", "unstable-options", "--report-time"])
            // The stable libtest has times too, for those who know that they may change.
            .env("RUSTC_BOOTSTRAP", "1")
            .env("FLYBALL_BIN", &self.program)
            .current_dir(&self.directory)
            .stdin(Stdio::null());
        command
    }
}

/// The name and the seconds in `test NAME ... ok <1.234s>`.
fn time_of(line: &str) -> Option<(String, f64)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let seconds = rest.split_once('<')?.1.strip_suffix("s>")?;
    Some((name.to_owned(), seconds.parse().ok()?))
}

/// The name in `test NAME ... FAILED`.
fn failure_of(line: &str) -> Option<&str> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    rest.starts_with("FAILED").then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_failures_are_read_from_what_libtest_prints() {
        assert_eq!(time_of("test a::b ... ok <1.250s>"), Some(("a::b".to_owned(), 1.25)));
        assert_eq!(time_of("test a::b ... ignored, full tier"), None);
        assert_eq!(failure_of("test a::b ... FAILED <0.1s>"), Some("a::b"));
        assert_eq!(failure_of("test a::b ... ok <0.1s>"), None);
    }

    #[test]
    fn an_executable_is_named_by_its_package_and_target() {
        let message = r#"{"reason":"compiler-artifact","profile":{"test":true},
            "manifest_path":"/w/crates/flyball/Cargo.toml","executable":"/t/program-1",
            "target":{"name":"program","kind":["test"]}}"#;
        let found = executable(Path::new("/w"), message).unwrap();
        assert_eq!(found.name, "flyball program");
        assert_eq!(found.directory, Path::new("/w/crates/flyball"));
        let lib = message.replace("\"test\"]", "\"lib\"]");
        assert_eq!(executable(Path::new("/w"), &lib).unwrap().name, "flyball (lib)");
        let other = message.replace("\"test\":true", "\"test\":false");
        assert!(executable(Path::new("/w"), &other).is_none());
    }
}
