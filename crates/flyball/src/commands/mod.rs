//! What each subcommand does.

#[cfg(feature = "acme")]
pub(crate) mod acme_agent;
pub(crate) mod arch;
pub(crate) mod cache;
#[cfg(feature = "acme")]
pub(crate) mod cert;
pub(crate) mod check;
pub(crate) mod ctl;
pub(crate) mod docs;
pub(crate) mod explain;
#[cfg(feature = "load")]
pub(crate) mod fileset;
#[cfg(feature = "lab")]
pub(crate) mod lab;
#[cfg(feature = "load")]
pub(crate) mod load;
#[cfg(any(feature = "lab", feature = "tune"))]
mod progress;
pub(crate) mod serve;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod trust;
#[cfg(feature = "tune")]
pub(crate) mod tune;

use std::io::Write;
use std::process::ExitCode;

use flyball::cli::Failure;
use flyball::settings::{Typed, resolve};
use flyball_arch::Settings;

/// Exit code where nothing was compared.
#[cfg(any(feature = "lab", feature = "tune"))]
const NO_RESULT_EXIT: u8 = 4;

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

/// The same of what may come to no result, which has an exit code of its own.
#[cfg(any(feature = "lab", feature = "tune"))]
fn finish_said(came: Result<flyball_lab::outcome::Said, String>) -> ExitCode {
    match came {
        Ok(said) if !said.has_result => {
            print(&said.text);
            ExitCode::from(NO_RESULT_EXIT)
        }
        came => finish(came.map(|said| said.text)),
    }
}

/// Prints to standard output. Whoever reads it may have gone, which is no reason to fail.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
