//! The program under test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;
use std::{fs, io};

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
    let program = profile.join("flyball");
    if is_up_to_date(&program) {
        return program;
    }
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
    program
}

/// Whether nothing that the program is made of has changed since it was built. Tests of the whole
/// workspace have other features of some libraries: for them `cargo build` would build a program of
/// its own, which takes a minute, beside the one that was just built.
fn is_up_to_date(program: &Path) -> bool {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manifests = ["Cargo.lock", "Cargo.toml", "crates/flyball/Cargo.toml"];
    let Ok(built) = changed(program) else { return false };
    let Ok(made_of) = fs::read_to_string(program.with_extension("d")) else { return false };
    let Some((_, sources)) = made_of.split_once(": ") else { return false };
    // Cargo puts a backslash before a space: such a path is not found, and counts as changed.
    let sources = sources.split_ascii_whitespace().map(PathBuf::from);
    let manifests = manifests.into_iter().map(|name| workspace.join(name));
    sources.chain(manifests).all(|path| changed(&path).is_ok_and(|at| at <= built))
}

fn changed(path: &Path) -> io::Result<SystemTime> {
    fs::metadata(path)?.modified()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_built_again_when_a_file_that_it_is_made_of_has_changed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let (program, source) = (at("flyball"), at("main.rs"));
        fs::write(&source, "").unwrap();
        fs::write(&program, "").unwrap();
        assert!(!is_up_to_date(&program), "what it is made of is not known");
        let names = format!("{}: {}\n", program.display(), source.display());
        fs::write(at("flyball.d"), names).unwrap();
        assert!(is_up_to_date(&program));
        let later = changed(&program).unwrap() + std::time::Duration::from_secs(1);
        fs::File::open(&source).unwrap().set_modified(later).unwrap();
        assert!(!is_up_to_date(&program), "a source has changed");
        fs::remove_file(&source).unwrap();
        assert!(!is_up_to_date(&program), "a source is gone");
        assert!(!is_up_to_date(&at("missing")));
    }
}
