//! Packages, served from in roots of their own: what `cargo xtask package ... --test` does.
//!
//! Every root is entered with a network and processes of its own (unshare), so that no port is
//! taken twice and nothing stays when the test fails. All of it needs the superuser's rights.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{TARGET, fresh, install, run, write};

/// The release of Debian that the clean root is of.
const SUITE: &str = "bookworm";

/// What is done in the clean root. The systemctl is one that only writes down what it is told: the
/// scripts of the package are what is tried, not systemd.
const DEB: &str = include_str!("deb-test.sh");

/// Boots a root with systemd, which starts a unit and ends by it.
const BOOT: &str = include_str!("systemd-boot.sh");

/// What is done there, where systemd is process 1.
const SYSTEMD: &str = include_str!("systemd-test.sh");

/// The unit that does it. systemd exits with how it went.
const UNIT: &str = "\
[Unit]
Requires=multi-user.target
After=multi-user.target
SuccessAction=exit
FailureAction=exit
FailureActionExitStatus=1

[Service]
Type=oneshot
ExecStart=/bin/sh /srv/test.sh
StandardOutput=file:/srv/test.log
StandardError=inherit
TimeoutStartSec=300
";

/// Goes into the clean root.
const ENTER: &str = "\
set -eu
ip link set lo up
mount -t proc proc \"$1/proc\"
exec env --ignore-environment /usr/sbin/chroot \"$1\" /bin/sh /tmp/test.sh
";

/// Starts the program of a root, with `/proc`, and asks it for a page and for its status. The
/// arguments: the root, `chroot`'s options in one word, and what is started.
const SERVE: &str = "\
set -eu
root=$1 options=$2; shift 2
ip link set lo up
mkdir -p \"$root/proc\"
mount -t proc proc \"$root/proc\"
chroot $options \"$root\" \"$@\" & server=$!
for _ in $(seq 100); do
    page=$(curl --fail --silent http://127.0.0.1:8080/) && break
    kill -0 $server; sleep 0.1
done
chroot $options \"$root\" \"$1\" ctl status | grep -q 8080
kill $server
wait $server
test \"$page\" = 'from the root'
";

/// Installs the package in a clean root, serves from there, asks for a page, and takes it away.
pub fn deb(root: &Path, package: &Path) -> Result<(), String> {
    let clean = clean(root, SUITE, "adduser,curl")?;
    install(package, &clean.join("tmp/flyball.deb"), 0o644)?;
    write(&clean.join("tmp/test.sh"), DEB)?;
    run(alone().args(["/bin/sh", "-c", ENTER, "sh"]).arg(&clean))?;
    println!("package: installed, served from, and purged in {}", clean.display());
    Ok(())
}

/// Installs the package in a clean root that was booted, and has its systemd start, reload,
/// upgrade, watch and stop the service.
pub fn systemd(root: &Path, package: &Path) -> Result<(), String> {
    let made = format!("{SUITE}-systemd");
    let clean = clean(root, &made, "adduser,curl,dbus,systemd,systemd-sysv")?;
    install(package, &clean.join("srv/flyball.deb"), 0o644)?;
    write(&clean.join("srv/test.sh"), SYSTEMD)?;
    write(&clean.join("etc/systemd/system/flyball-test.service"), UNIT)?;
    let mut boot = Command::new("/bin/sh");
    boot.args(["-c", BOOT, "sh"]).arg(&clean).arg("flyball-test.service");
    run(&mut boot).inspect_err(|_| {
        let log = fs::read_to_string(clean.join("srv/test.log"));
        eprintln!("{}", log.unwrap_or_default());
    })?;
    println!("package: run by systemd in {}", clean.display());
    Ok(())
}

/// A copy of a root of Debian with these packages, which is made once.
fn clean(root: &Path, name: &str, include: &str) -> Result<PathBuf, String> {
    let packages = root.join(TARGET);
    let made = packages.join(name);
    if !made.exists() {
        let new = fresh(&packages.join("root.new"))?;
        let mut debootstrap = Command::new("debootstrap");
        debootstrap.args(["--variant=minbase", &format!("--include={include}"), SUITE]);
        run(debootstrap.arg(&new))?;
        fs::rename(&new, &made).map_err(|error| format!("{}: {error}", made.display()))?;
    }
    let clean = fresh(&packages.join("root"))?;
    run(Command::new("cp").args(["--archive", "--reflink=auto", "-T"]).arg(&made).arg(&clean))?;
    Ok(clean)
}

/// Serves from a root with nothing in it but what the archive holds, as the superuser.
pub fn tar(root: &Path, tree: &Path) -> Result<(), String> {
    let empty = fresh(&root.join(TARGET).join("empty"))?;
    install(&tree.join("flyball"), &empty.join("flyball"), 0o755)?;
    write(&empty.join("site/index.html"), "from the root\n")?;
    // There is no /run.
    let environment = [("RUNTIME_DIRECTORY".to_owned(), "/runtime".to_owned())];
    let command = ["/flyball", "serve", "/site", "--listen", "8080"];
    serve(&empty, "", &environment, &command)?;
    println!("package: served from {}, where nothing else is", empty.display());
    Ok(())
}

/// Makes the root that `deploy/Containerfile` describes, and starts there what it says as the user
/// that it says. A runtime would add `/dev` and `/sys` to `/proc`; here is none of them.
pub fn image(root: &Path) -> Result<(), String> {
    let packages = root.join(TARGET);
    let text = fs::read_to_string(root.join("deploy/Containerfile"))
        .map_err(|error| format!("deploy/Containerfile: {error}"))?;
    let image = fresh(&packages.join("image"))?;
    let (mut user, mut command, mut environment) = (String::new(), Vec::new(), Vec::new());
    for step in steps(&text)? {
        match step {
            Step::Copy { files, place } => {
                for file in files {
                    if packages.join(&file).is_dir() {
                        let mut copy = Command::new("cp");
                        copy.arg("-aT").arg(packages.join(&file));
                        run(copy.arg(image.join(place.trim_start_matches('/'))))?;
                        continue;
                    }
                    let mode = if file == "flyball" { 0o755 } else { 0o644 };
                    let mut to = place.trim_start_matches('/').to_owned();
                    if to.ends_with('/') {
                        to.push_str(&file);
                    }
                    install(&packages.join(&file), &image.join(to), mode)?;
                }
            }
            Step::Set(name, value) => environment.push((name, value)),
            Step::User(name) => user = name,
            Step::Start(words) => command.extend(words),
        }
    }
    write(&image.join("srv/index.html"), "from the root\n")?;
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    serve(&image, &format!("--userspec={user}"), &environment, &words)?;
    println!("package: served from {} as the Containerfile says", image.display());
    Ok(())
}

/// What a Containerfile asks for, as far as ours does.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Copy { files: Vec<String>, place: String },
    Set(String, String),
    User(String),
    Start(Vec<String>),
}

fn steps(text: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, rest) = line.split_once(' ').ok_or_else(|| format!("Containerfile: {line}"))?;
        match name {
            "FROM" if rest == "scratch" => {}
            "EXPOSE" | "STOPSIGNAL" | "VOLUME" => {}
            "ENV" => {
                let (name, value) = rest.split_once('=').ok_or_else(|| line.to_owned())?;
                steps.push(Step::Set(name.to_owned(), value.to_owned()));
            }
            "COPY" => {
                let mut files: Vec<String> = rest.split(' ').map(ToOwned::to_owned).collect();
                let place = files.pop().unwrap_or_default();
                steps.push(Step::Copy { files, place });
            }
            "USER" => steps.push(Step::User(rest.to_owned())),
            "ENTRYPOINT" | "CMD" => {
                let words = serde_json::from_str(rest).map_err(|error| format!("{line}: {error}"));
                steps.push(Step::Start(words?));
            }
            _ => return Err(format!("Containerfile: a step that the test cannot do: {line}")),
        }
    }
    Ok(steps)
}

fn serve(
    root: &Path,
    options: &str,
    environment: &[(String, String)],
    command: &[&str],
) -> Result<(), String> {
    let mut shell = alone();
    shell.envs(environment.iter().cloned());
    shell.args(["/bin/sh", "-c", SERVE, "sh"]).arg(root).arg(options).args(command);
    run(&mut shell)
}

/// A command that runs another with a network, mounts and processes of its own, which all end with
/// it.
fn alone() -> Command {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--net", "--pid", "--fork", "--kill-child"]);
    unshare
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_can_do_what_the_containerfile_says() {
        let text = fs::read_to_string(crate::root().join("deploy/Containerfile")).unwrap();
        let steps = steps(&text).unwrap();
        assert!(steps.contains(&Step::User("65532:65532".to_owned())), "{steps:?}");
        let starts = steps.iter().filter(|step| matches!(step, Step::Start(_)));
        assert_eq!(starts.count(), 2, "{steps:?}");
    }

    #[test]
    fn a_step_that_is_not_known_is_an_error() {
        assert!(steps("FROM scratch\nRUN make\n").is_err());
        assert!(steps("FROM debian\n").is_err());
    }
}
