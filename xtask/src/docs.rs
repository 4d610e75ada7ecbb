//! `cargo xtask docs`: regenerates the documents that are made from code.

use std::path::Path;
use std::process::{ExitCode, Stdio};

/// Where the tables of settings go.
const SETTINGS: &str = "docs/settings.md";
const EXPERIMENTS: &str = "docs/experiment-settings.md";

/// Where what came of the experiments goes, and what it is made from.
const REPRODUCTION: &str = "docs/reproduction.md";
const RECORDS: &str = "lab/records";

/// Regenerates every generated document. A document is only replaced when its generator succeeded.
pub fn main() -> ExitCode {
    let root = crate::root();
    match settings(&root).and_then(|()| reproduction(&root)).and_then(|()| states(&root)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("docs: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The tables of settings, printed by the binary that reads them.
fn settings(root: &Path) -> Result<(), String> {
    printed(root, &["docs".into(), "settings".into()], SETTINGS)?;
    printed(root, &["docs".into(), "experiments".into()], EXPERIMENTS)
}

/// The table of experiments, from what was kept of campaigns.
fn reproduction(root: &Path) -> Result<(), String> {
    let wrong = |error| format!("cannot read {RECORDS}: {error}");
    let entries = std::fs::read_dir(root.join(RECORDS)).map_err(wrong)?.flatten();
    let mut records: Vec<_> = entries.map(|entry| entry.path()).collect();
    records.retain(|path| path.is_dir());
    records.sort();
    let words = records.into_iter().map(|path| path.to_string_lossy().into_owned());
    let asked: Vec<String> = ["lab".into(), "table".into()].into_iter().chain(words).collect();
    printed(root, &asked, REPRODUCTION)
}

/// Writes what the program prints when it is asked for this.
fn printed(root: &Path, asked: &[String], file: &str) -> Result<(), String> {
    let output = crate::cargo(root)
        .args(["run", "--quiet", "--package", "flyball", "--"])
        .args(asked)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() || output.stdout.is_empty() {
        let asked = asked.iter().take(2).cloned().collect::<Vec<_>>().join(" ");
        return Err(format!("`flyball {asked}` printed nothing useful: {}", output.status));
    }
    std::fs::write(root.join(file), output.stdout)
        .map_err(|error| format!("cannot write {file}: {error}"))?;
    println!("docs: wrote {file}");
    Ok(())
}

/// The state diagram, written by the test that fails when it is stale.
fn states(root: &Path) -> Result<(), String> {
    let status = crate::cargo(root)
        .args(["test", "--quiet", "--package", "flyball-http", "--lib", "state"])
        .env("FLYBALL_BLESS", "1")
        .status()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("the state diagram test failed: {status}")) }
}
