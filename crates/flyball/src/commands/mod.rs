//! What each subcommand does.

pub(crate) mod arch;
pub(crate) mod cache;
pub(crate) mod check;
pub(crate) mod ctl;
pub(crate) mod docs;
pub(crate) mod explain;
pub(crate) mod fileset;
pub(crate) mod lab;
pub(crate) mod load;
pub(crate) mod serve;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod tune;

use std::io::Write;
use std::process::ExitCode;

use flyball::cli::Failure;
use flyball::settings::{Typed, resolve};
use flyball_arch::Settings;

/// The settings that the user's words make, checked against the architectures that there are.
fn settings(typed: Typed) -> Result<Settings, Failure> {
    let names: Vec<&str> = flyball_arch::ALL.iter().map(|arch| arch.name()).collect();
    resolve(&typed, &names).map_err(Failure::Settings)
}

/// Prints what a command found, or why it could not.
fn finish(outcome: Result<String, String>) -> ExitCode {
    match outcome {
        Ok(text) => {
            print(&text);
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("flyball: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Prints to standard error how something goes on. Whoever reads it may have gone, as a terminal
/// that was closed, and what was begun has to be undone then.
fn tell(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Prints to standard output. Whoever reads it may have gone, which is no reason to fail.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
