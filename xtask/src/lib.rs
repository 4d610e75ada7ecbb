//! Repository chores, as a library so that `cargo test` runs the same checks as `cargo xtask tidy`.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

pub mod ci;
pub mod docs;
pub mod package;
mod rust;
pub mod tidy;

/// The root of the workspace: the directory above this crate.
pub fn root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root
}

/// A command that runs the Cargo of this toolchain at `root`.
fn cargo(root: &Path) -> std::process::Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(program);
    command.current_dir(root);
    command
}
