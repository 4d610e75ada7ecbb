//! `flyball load` as a program: run to its end, and what it reported.

use std::process::{Command, Output, Stdio};

use flyball_testkit::{Launch, Server, binary};
use serde_json::Value;
use std::path::Path;

/// Runs `flyball load` with these arguments.
pub fn load(arguments: &[&str]) -> Output {
    run("load", arguments)
}

/// Runs `flyball fileset` with these arguments, which must succeed; what it prints.
#[track_caller]
pub fn fileset(arguments: &[&str]) -> String {
    let output = run("fileset", arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs `flyball` with this subcommand and these arguments.
pub fn run(subcommand: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.arg(subcommand).args(arguments).stdin(Stdio::null());
    command.output().expect("flyball can be started")
}

/// A server of this directory.
pub fn server_of(directory: &Path) -> Server {
    Launch::arguments([directory.display().to_string()]).start().expect("it starts")
}

/// The report of a run with `--json`.
#[track_caller]
pub fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    })
}
