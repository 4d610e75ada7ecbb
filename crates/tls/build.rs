//! Sees to it that the cryptography is built as `.cargo/config.toml` says. Those settings do not
//! reach a build that begins elsewhere, and without the first one each process spends 40 ms of a
//! processor at its first handshake (<https://github.com/aws/aws-lc-rs/issues/1140>).

use std::env;
use std::path::Path;
use std::process::ExitCode;

const NO_JITTER: &str = "AWS_LC_SYS_NO_JITTER_ENTROPY";

fn main() -> ExitCode {
    println!("cargo::rerun-if-env-changed={NO_JITTER}");
    println!("cargo::rerun-if-changed=build.rs");
    if env::var(NO_JITTER).is_ok_and(|value| value == "1") {
        return ExitCode::SUCCESS;
    }
    let directory = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let told =
        format!("{NO_JITTER} is not 1: each process will spend 40 ms at its first handshake");
    if !is_in_workspace(Path::new(&directory)) {
        println!("cargo::warning={told}");
        return ExitCode::SUCCESS;
    }
    println!("cargo::error={told}; .cargo/config.toml of the workspace sets it");
    ExitCode::FAILURE
}

/// Whether the settings of the workspace hold where it is built. Cargo has copies of a repository
/// in a directory of this name when it builds a dependency, or installs a program, from there.
fn is_in_workspace(directory: &Path) -> bool {
    let is_copy = directory.iter().any(|part| part == "checkouts");
    !is_copy && directory.join("../../.cargo/config.toml").exists()
}
