//! `cargo xtask package`: what is given to others, made of a release build.
//!
//! * `deb`: a Debian package in `target/package`, by dpkg-deb.
//! * `tar`: an archive with a program that needs no library of the system, and what
//!   `deploy/Containerfile` takes. It cannot load dynamic modules, and its README says so.
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
that is linked statically has no dynamic linker.

    ./flyball serve DIRECTORY
    ./flyball docs man
";

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

/// Files of the repository that the Debian package holds: source, place, mode.
pub fn files() -> Vec<(&'static str, &'static str, u32)> {
    vec![
        ("deploy/debian/flyball.toml", "etc/flyball/flyball.toml", 0o644),
        ("deploy/debian/index.html", "var/www/flyball/index.html", 0o644),
        ("examples/production.toml", "usr/share/doc/flyball/examples/production.toml", 0o644),
        ("docs/example.toml", "usr/share/doc/flyball/examples/example.toml", 0o644),
        ("crates/module/include/flyball_module.h", "usr/include/flyball_module.h", 0o644),
        ("docs/modules.md", "usr/share/doc/flyball/modules.md", 0o644),
        ("docs/operations.md", "usr/share/doc/flyball/operations.md", 0o644),
        ("docs/settings.md", "usr/share/doc/flyball/settings.md", 0o644),
        ("CHANGELOG.md", "usr/share/doc/flyball/CHANGELOG.md", 0o644),
        ("LICENSE-MIT", "usr/share/doc/flyball/LICENSE-MIT", 0o644),
        ("LICENSE-APACHE", "usr/share/doc/flyball/LICENSE-APACHE", 0o644),
        ("deploy/debian/postinst", "DEBIAN/postinst", 0o755),
        ("deploy/debian/prerm", "DEBIAN/prerm", 0o755),
        ("deploy/debian/postrm", "DEBIAN/postrm", 0o755),
    ]
}

fn deb(root: &Path, profile: &str) -> Result<PathBuf, String> {
    let program = build(root, profile, &[])?;
    let tree = fresh(&root.join(TARGET).join("deb"))?;
    stripped(&program, &tree.join("usr/bin/flyball"))?;
    for (source, place, mode) in files() {
        install(&root.join(source), &tree.join(place), mode)?;
    }
    for unit in units(root)? {
        let name = unit.file_name().unwrap_or_default();
        install(&unit, &tree.join("usr/lib/systemd/system").join(name), 0o644)?;
    }
    generated(&program, &tree)?;
    write(&tree.join("DEBIAN/conffiles"), "/etc/flyball/flyball.toml\n")?;
    write(&tree.join("DEBIAN/control"), &control(&tree)?)?;
    let package =
        root.join(TARGET).join(format!("flyball_{}_amd64.deb", env!("CARGO_PKG_VERSION")));
    let mut dpkg = Command::new("dpkg-deb");
    run(dpkg.args(["--root-owner-group", "--build"]).arg(&tree).arg(&package))?;
    println!("package: {}", package.display());
    Ok(package)
}

/// Pages of the manual and completions, printed by the program that they are about.
fn generated(program: &Path, tree: &Path) -> Result<(), String> {
    let man = tree.join("usr/share/man/man1");
    let page = output(Command::new(program).args(["docs", "man"]))?;
    write(&man.join("flyball.1"), &page)?;
    let mut gzip = Command::new("gzip");
    gzip.args(["-9", "--no-name"]).arg(man.join("flyball.1"));
    for name in subcommands(&page) {
        let text = output(Command::new(program).args(["docs", "man", &name]))?;
        write(&man.join(format!("flyball-{name}.1")), &text)?;
        gzip.arg(man.join(format!("flyball-{name}.1")));
    }
    run(&mut gzip)?;
    for (shell, place) in [
        ("bash", "usr/share/bash-completion/completions/flyball"),
        ("zsh", "usr/share/zsh/vendor-completions/_flyball"),
        ("fish", "usr/share/fish/vendor_completions.d/flyball.fish"),
    ] {
        let text = output(Command::new(program).args(["docs", "completions", shell]))?;
        write(&tree.join(place), &text)?;
    }
    Ok(())
}

/// The subcommands that the program's own page refers to.
fn subcommands(page: &str) -> Vec<String> {
    let page = page.replace('\\', "");
    let words = page.split_whitespace().filter_map(|word| word.strip_prefix("flyball-"));
    words.filter_map(|word| word.strip_suffix("(1)")).map(ToOwned::to_owned).collect()
}

/// Units of systemd, of which there may be several.
fn units(root: &Path) -> Result<Vec<PathBuf>, String> {
    let Ok(found) = fs::read_dir(root.join("deploy/systemd")) else { return Ok(Vec::new()) };
    let paths: Result<Vec<_>, _> = found.map(|entry| entry.map(|entry| entry.path())).collect();
    paths.map_err(|error| format!("deploy/systemd: {error}"))
}

fn control(tree: &Path) -> Result<String, String> {
    let sizes = output(Command::new("du").args(["-sk", "--apparent-size"]).arg(tree))?;
    let kib = sizes.split_whitespace().next().unwrap_or("0").to_owned();
    let version = env!("CARGO_PKG_VERSION");
    Ok(format!(
        "Package: flyball\nVersion: {version}\nSection: httpd\nPriority: optional\n\
         Architecture: amd64\nMaintainer: The Flyball project <flyball@localhost>\n\
         Installed-Size: {kib}\nDepends: libc6 (>= 2.34), libgcc-s1, adduser\n\
         Description: web server whose concurrency architecture is a setting\n \
         Serves sites over HTTP by one of thirteen architectures, stays up near and past its\n \
         limits, and says why it does what it does.\n"
    ))
}

/// The archive, and beside it what the Containerfile copies. Returns the directory that was packed.
fn tar(root: &Path, profile: &str) -> Result<PathBuf, String> {
    let program = build(root, profile, &["--target", "x86_64-unknown-linux-musl"])?;
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

    #[test]
    fn every_file_of_the_package_is_there() {
        let root = crate::root();
        for (source, ..) in files() {
            assert!(root.join(source).is_file(), "{source}");
        }
        for script in ["postinst", "prerm", "postrm"] {
            let mut sh = Command::new("sh");
            run(sh.arg("-n").arg(root.join("deploy/debian").join(script))).unwrap();
        }
    }
}
