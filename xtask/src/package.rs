//! `cargo xtask package`: what is given to others, made of a release build.
//!
//! * `deb`: a Debian package in `target/package`, by dpkg-deb. With `--test` it is then installed
//!   and served from in a root of its own, which debootstrap makes.
//! * `musl`: an archive with a program that needs no library of the system, and what
//!   `deploy/Containerfile` takes. It cannot load dynamic modules, and its README says so.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Where packages are put, from the top of the repository.
const TARGET: &str = "target/package";

/// What the static archive says about itself.
const STATIC_README: &str = "\
Flyball, linked statically: it needs no library of the system it runs on.

It was built for x86_64 with the C library musl inside. It cannot load dynamic modules: a program
that is linked statically has no dynamic linker.
";

/// Makes the package that is named.
pub fn main(arguments: &[String]) -> ExitCode {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = crate::root();
    let made = match words.as_slice() {
        ["deb"] => deb(&root).map(drop),
        ["deb", "--test"] => deb(&root).and_then(|package| test_deb(&root, &package)),
        ["musl"] => archive(&root),
        _ => Err("usage: cargo xtask package deb [--test] | musl".to_owned()),
    };
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("package: {why}");
            ExitCode::FAILURE
        }
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

fn deb(root: &Path) -> Result<PathBuf, String> {
    let program = build(root, &[])?;
    let tree = fresh(&root.join(TARGET).join("deb"))?;
    install(&program, &tree.join("usr/bin/flyball"), 0o755)?;
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
    for name in subcommands(&page) {
        let text = output(Command::new(program).args(["docs", "man", &name]))?;
        write(&man.join(format!("flyball-{name}.1")), &text)?;
    }
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

/// Installs the package in a root of its own, serves from there, and asks for a page.
fn test_deb(root: &Path, package: &Path) -> Result<(), String> {
    let clean = fresh(&root.join(TARGET).join("root"))?;
    let mut debootstrap = Command::new("debootstrap");
    debootstrap.args(["--variant=minbase", "--include=adduser,curl", "bookworm"]);
    run(debootstrap.arg(&clean))?;
    install(package, &clean.join("tmp/flyball.deb"), 0o644)?;
    let script = "\
set -e
dpkg --install /tmp/flyball.deb
getent passwd flyball
flyball check --config /etc/flyball/flyball.toml
mkdir -p /run/flyball
flyball serve --config /etc/flyball/flyball.toml --listen 127.0.0.1:18480 >/tmp/out 2>&1 &
server=$!
for _ in 1 2 3 4 5 6 7 8 9 10; do
    grep -q 'Ctrl-C stops it' /tmp/out && break
    sleep 0.5
done
curl --fail --silent http://127.0.0.1:18480/ | grep -q 'Flyball is installed'
flyball ctl status --admin unix:/run/flyball/admin.sock >/dev/null
kill $server
wait $server
dpkg --purge flyball
test ! -e /usr/bin/flyball
test ! -e /etc/flyball/flyball.toml
";
    run(Command::new("chroot").arg(&clean).args(["/bin/sh", "-c", script]))?;
    println!("package: installed, served from, and purged in {}", clean.display());
    Ok(())
}

fn archive(root: &Path) -> Result<(), String> {
    let program = build(root, &["--target", "x86_64-unknown-linux-musl"])?;
    let found = output(Command::new("ldd").arg(&program)).unwrap_or_default();
    if found.contains("=>") {
        return Err(format!("{} is not linked statically:\n{found}", program.display()));
    }
    let name = format!("flyball-{}-x86_64-linux-musl", env!("CARGO_PKG_VERSION"));
    let packages = root.join(TARGET);
    let tree = fresh(&packages.join(&name))?;
    install(&program, &tree.join("flyball"), 0o755)?;
    install(&program, &packages.join("flyball"), 0o755)?;
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
    Ok(())
}

/// A release build of the program, by cargo with these arguments.
fn build(root: &Path, arguments: &[&str]) -> Result<PathBuf, String> {
    let mut cargo = crate::cargo(root);
    cargo.args(["build", "--release", "--package", "flyball", "--message-format=json"]);
    cargo.args(arguments).stderr(std::process::Stdio::inherit());
    let messages = output(&mut cargo)?;
    let built = messages.lines().rev().filter_map(|line| serde_json::from_str(line).ok());
    // The last that it built.
    let mut programs =
        built.filter_map(|told: serde_json::Value| Some(told["executable"].as_str()?.into()));
    programs.next().ok_or_else(|| "cargo built no program".to_owned())
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
