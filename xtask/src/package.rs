//! `cargo xtask package`: what is given to others, made of a release build.
//!
//! * `deb`: a Debian package in `target/package`, by cargo-deb, of what `crates/flyball/Cargo.toml`
//!   lists.
//! * `tar`: an archive with a program that needs no library of the system, and what
//!   `deploy/Containerfile` takes. It only serves: it has no load generator, lab or `tune`, and
//!   cannot load dynamic modules. Its README says so.
//!
//! With `--test` what was made is also served from in a root of its own (`proof`). With
//! `--profile NAME` the build is another than `release`, for those who only try the recipe.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

mod proof;

/// Where packages are put, from the top of the repository.
const TARGET: &str = "target/package";

const USAGE: &str = "usage: cargo xtask package deb|tar [--test] [--profile NAME]";

/// What the static archive says about itself.
const STATIC_README: &str = "\
Flyball, linked statically: it needs no library of the system it runs on. In a root of its own it
needs /proc there, and nothing else.

It was built for x86_64 with the C library musl inside. It cannot load dynamic modules: a program
that is linked statically has no dynamic linker. Commands that load, measure and tune servers are
left out (fileset, lab, load, tune): the Debian package and `cargo build --release` have them.

    ./flyball serve DIRECTORY
    ./flyball docs man
";

/// What makes Debian packages, as cargo installs it.
const CARGO_DEB: [&str; 3] = ["install", "cargo-deb", "--locked"];

/// Makes the package that is named.
pub fn main(arguments: &[String]) -> ExitCode {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match make(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("package: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Makes the package that the words after `cargo xtask package` ask for.
///
/// # Errors
///
/// What went wrong: the words, the build, or a step of the test.
pub fn make(words: &[&str]) -> Result<(), String> {
    let root = crate::root();
    let (kind, options) = words.split_first().ok_or(USAGE)?;
    let (mut test, mut profile) = (false, "release");
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match *option {
            "--test" => test = true,
            "--profile" => profile = options.next().ok_or(USAGE)?,
            _ => return Err(USAGE.to_owned()),
        }
    }
    match *kind {
        "deb" => {
            if test {
                install_cargo_deb(&root)?;
            }
            let package = deb(&root, profile)?;
            if !test {
                return Ok(());
            }
            proof::deb(&root, &package).and_then(|()| proof::systemd(&root, &package))
        }
        "tar" => {
            let tree = tar(&root, profile)?;
            if test { proof::tar(&root, &tree).and_then(|()| proof::image(&root)) } else { Ok(()) }
        }
        _ => Err(USAGE.to_owned()),
    }
}

/// Makes the Debian package of a build by this profile.
fn deb(root: &Path, profile: &str) -> Result<PathBuf, String> {
    if !has_cargo_deb(root) {
        return Err(format!("cargo-deb is missing: cargo {}", CARGO_DEB.join(" ")));
    }
    let program = build(root, profile, &[])?;
    // cargo-deb looks for what was built below the directory of builds for release: here is one
    // that has nothing else.
    let tree = fresh(&root.join(TARGET).join("deb"))?;
    stripped(&program, &tree.join("release/flyball"))?;
    generated(&program, &tree)?;
    let package =
        root.join(TARGET).join(format!("flyball_{}_amd64.deb", env!("CARGO_PKG_VERSION")));
    let mut cargo = cargo_deb(root);
    cargo.args(["--package", "flyball", "--no-build", "--no-strip", "--output"]).arg(&package);
    run(cargo.env("CARGO_TARGET_DIR", &tree))?;
    println!("package: {}", package.display());
    Ok(package)
}

/// `cargo deb`, whose program may be where the tests install it.
fn cargo_deb(root: &Path) -> Command {
    let mut cargo = crate::cargo(root);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = root.join(TARGET).join("tools/bin");
    let all = std::env::split_paths(&path).chain([own]);
    if let Ok(path) = std::env::join_paths(all) {
        cargo.env("PATH", path);
    }
    cargo.arg("deb");
    cargo
}

fn has_cargo_deb(root: &Path) -> bool {
    output(cargo_deb(root).arg("--version")).is_ok()
}

/// Has cargo install it beside the packages, if it is nowhere.
fn install_cargo_deb(root: &Path) -> Result<(), String> {
    if has_cargo_deb(root) {
        return Ok(());
    }
    let mut cargo = crate::cargo(root);
    run(cargo.args(CARGO_DEB).arg("--root").arg(root.join(TARGET).join("tools")))
}

/// Pages of the manual and completions, printed by the program that they are about.
fn generated(program: &Path, tree: &Path) -> Result<(), String> {
    let man = tree.join("man");
    let page = output(Command::new(program).args(["docs", "man"]))?;
    write(&man.join("flyball.1"), &page)?;
    for name in subcommands(&page) {
        let text = output(Command::new(program).args(["docs", "man", &name]))?;
        write(&man.join(format!("flyball-{name}.1")), &text)?;
    }
    for (shell, file) in [("bash", "flyball"), ("zsh", "_flyball"), ("fish", "flyball.fish")] {
        let text = output(Command::new(program).args(["docs", "completions", shell]))?;
        write(&tree.join("completions").join(file), &text)?;
    }
    Ok(())
}

/// What this machine trusts, which the image takes along: authorities that issue certificates are
/// known by it.
const ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The subcommands that the program's own page refers to.
fn subcommands(page: &str) -> Vec<String> {
    let page = page.replace('\\', "");
    let words = page.split_whitespace().filter_map(|word| word.strip_prefix("flyball-"));
    words.filter_map(|word| word.strip_suffix("(1)")).map(ToOwned::to_owned).collect()
}

/// The archive, and beside it what the Containerfile copies. Returns the directory that was packed.
fn tar(root: &Path, profile: &str) -> Result<PathBuf, String> {
    let acme = ["--no-default-features", "--features", "acme"];
    let server = [&["--target", "x86_64-unknown-linux-musl"], &acme[..]].concat();
    let program = build(root, profile, &server)?;
    let found = output(Command::new("ldd").arg(&program)).unwrap_or_default();
    if found.contains("=>") {
        return Err(format!("{} is not linked statically:\n{found}", program.display()));
    }
    let name = format!("flyball-{}-x86_64-linux-musl", env!("CARGO_PKG_VERSION"));
    let packages = root.join(TARGET);
    let tree = fresh(&packages.join(&name))?;
    stripped(&program, &tree.join("flyball"))?;
    install(&tree.join("flyball"), &packages.join("flyball"), 0o755)?;
    write(&packages.join("passwd"), "flyball:x:65532:65532::/:/nonexistent\n")?;
    write(&packages.join("group"), "flyball:x:65532:\n")?;
    let var = fresh(&packages.join("var"))?;
    temporary(&var.join("tmp"))?;
    fs::create_dir(var.join("lib")).map_err(|error| format!("var/lib: {error}"))?;
    // The user that the image runs as makes what is its own there.
    temporary(&var.join("lib/flyball"))?;
    install(Path::new(ROOTS), &packages.join("ca-certificates.crt"), 0o644)?;
    write(&tree.join("README"), STATIC_README)?;
    for file in ["LICENSE-MIT", "LICENSE-APACHE", "examples/production.toml", "docs/example.toml"] {
        let name = Path::new(file).file_name().unwrap_or_default();
        install(&root.join(file), &tree.join(name), 0o644)?;
    }
    let archive = packages.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--owner=0", "--group=0", "-C"]).arg(&packages).arg("-czf").arg(&archive).arg(&name);
    run(&mut tar)?;
    println!("package: {}", archive.display());
    Ok(tree)
}

/// A build of the program, by cargo with these arguments.
fn build(root: &Path, profile: &str, arguments: &[&str]) -> Result<PathBuf, String> {
    let mut cargo = crate::cargo(root);
    cargo.args(["build", "--package", "flyball", "--message-format=json"]);
    cargo.args(["--profile", profile]).args(arguments).stderr(std::process::Stdio::inherit());
    let messages = output(&mut cargo)?;
    let built = messages.lines().rev().filter_map(|line| serde_json::from_str(line).ok());
    // The last that it built.
    let mut programs =
        built.filter_map(|told: serde_json::Value| Some(told["executable"].as_str()?.into()));
    programs.next().ok_or_else(|| "cargo built no program".to_owned())
}

/// Puts the program into a package: the names of its functions stay, for stacks in reports of
/// crashes, what a debugger needs goes.
fn stripped(program: &Path, place: &Path) -> Result<(), String> {
    install(program, place, 0o755)?;
    run(Command::new("strip").arg("--strip-debug").arg(place))
}

/// An empty directory in the place of what was there.
fn fresh(path: &Path) -> Result<PathBuf, String> {
    if path.exists() {
        fs::remove_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path.to_owned())
}

/// Makes a directory for files of everybody.
fn temporary(path: &Path) -> Result<(), String> {
    let made = fs::create_dir_all(path)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o1777)));
    made.map_err(|error| format!("{}: {error}", path.display()))
}

fn install(source: &Path, place: &Path, mode: u32) -> Result<(), String> {
    let content = fs::read(source).map_err(|error| format!("{}: {error}", source.display()))?;
    write(place, content)?;
    let mode = fs::Permissions::from_mode(mode);
    fs::set_permissions(place, mode).map_err(|error| format!("{}: {error}", place.display()))
}

fn write(place: &Path, content: impl AsRef<[u8]>) -> Result<(), String> {
    let above = place.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(above)
        .and_then(|()| fs::write(place, content))
        .map_err(|error| format!("{}: {error}", place.display()))
}

fn run(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_the_manual_are_found_in_the_first() {
        let page = ".SH SUBCOMMANDS\n.TP\nflyball\\-serve(1)\nServe\n.TP\nflyball\\-ctl(1)\n";
        assert_eq!(subcommands(page), ["serve", "ctl"]);
    }

    /// What `crates/flyball/Cargo.toml` says about the Debian package.
    fn metadata() -> serde_json::Value {
        let mut cargo = crate::cargo(&crate::root());
        let told = output(cargo.args(["metadata", "--no-deps", "--format-version", "1"])).unwrap();
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        let mut packages = told["packages"].as_array().unwrap().iter();
        packages.find(|package| package["name"] == "flyball").unwrap()["metadata"]["deb"].clone()
    }

    #[test]
    fn every_file_of_the_package_is_there() {
        let metadata = metadata();
        let beside = crate::root().join("crates/flyball");
        let mut places = Vec::new();
        for asset in metadata["assets"].as_array().unwrap() {
            let asset: Vec<&str> =
                asset.as_array().unwrap().iter().flat_map(|a| a.as_str()).collect();
            let [source, place, mode] = asset[..] else { panic!("{asset:?}") };
            assert_eq!(mode, if place == "usr/bin/" { "755" } else { "644" }, "{source}");
            let (above, name) = source.rsplit_once('/').unwrap();
            places.push(format!("/{place}{name}"));
            // What is printed by the program is there when the package is made.
            if !source.contains("target/") {
                let all = name == "*" && fs::read_dir(beside.join(above)).unwrap().count() > 0;
                assert!(all || beside.join(source).is_file(), "{source}");
            }
        }
        // Whatever is written by hand must not be lost with the next version.
        let kept = metadata["conf-files"].as_array().unwrap();
        let kept: Vec<&str> = kept.iter().flat_map(|file| file.as_str()).collect();
        let below_etc: Vec<&String> =
            places.iter().filter(|place| place.starts_with("/etc/")).collect();
        assert_eq!(below_etc, kept);
    }

    #[test]
    fn the_scripts_of_the_package_are_there_and_a_shell_can_read_them() {
        let scripts = metadata()["maintainer-scripts"].as_str().unwrap().to_owned();
        let scripts = crate::root().join("crates/flyball").join(scripts);
        for script in ["postinst", "prerm", "postrm"] {
            run(Command::new("sh").arg("-n").arg(scripts.join(script))).unwrap();
        }
    }
}
