//! The program under test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Names a program to test instead of the one of this workspace.
const OVERRIDE: &str = "FLYBALL_BIN";

/// Where Cargo says that it is, to a test of its own package, for which it has just been built.
const BUILT: &str = "CARGO_BIN_EXE_flyball";

/// The path of `flyball`, built like this test and up to date. Blocks while it is built, once per
/// test process.
///
/// # Panics
/// When it cannot be built.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os(OVERRIDE).or_else(|| std::env::var_os(BUILT)) {
        Some(path) => path.into(),
        None => build(),
    })
}

fn build() -> PathBuf {
    // A test is `TARGET/PROFILE/deps/NAME`.
    let own = std::env::current_exe().expect("a test knows its own path");
    let profile = own
        .ancestors()
        .find(|path| path.join("deps").is_dir())
        .expect("a test lies in a target directory");
    let target = profile.parent().expect("a profile has a target directory");
    let name = profile.file_name().and_then(|name| name.to_str()).expect("a profile has a name");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--package", "flyball", "--bin", "flyball"])
        .args(["--profile", if name == "debug" { "dev" } else { name }])
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo can be started");
    assert!(built.success(), "flyball does not build");
    profile.join("flyball")
}
