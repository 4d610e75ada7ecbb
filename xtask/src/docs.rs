//! `cargo xtask docs`: regenerates the documents that are made from code.

use std::path::Path;
use std::process::{ExitCode, Stdio};

/// Where the table of settings goes.
const SETTINGS: &str = "docs/settings.md";

/// Regenerates every generated document. A document is only replaced when its generator succeeded.
pub fn main() -> ExitCode {
    let root = crate::root();
    match settings(&root).and_then(|()| states(&root)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("docs: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The table of settings, printed by the binary that reads them.
fn settings(root: &Path) -> Result<(), String> {
    let output = crate::cargo(root)
        .args(["run", "--quiet", "--package", "flyball", "--", "docs", "settings"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() || output.stdout.is_empty() {
        return Err(format!("`flyball docs settings` printed nothing useful: {}", output.status));
    }
    std::fs::write(root.join(SETTINGS), output.stdout)
        .map_err(|error| format!("cannot write {SETTINGS}: {error}"))?;
    println!("docs: wrote {SETTINGS}");
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
