//! The README holds: its configuration and its commands are run as they are written.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::common::wait_for;

/// Commands of other programs that are not run, each with the reason.
const NOT_RUN: [(&str, &str); 7] = [
    ("cargo build ", "builds the program, which this test has"),
    ("cargo install ", "needs the internet"),
    ("cargo test ", "runs this test"),
    ("cargo xtask ", "builds a package"),
    ("podman ", "needs an image, which the internet has a part of"),
    ("rustup ", "needs the internet"),
    ("sudo ", "changes the machine"),
];

/// What stands for something in the table of commands, and one such thing.
const PLACEHOLDERS: [(&str, &str); 10] = [
    ("[DIR]", "public"),
    ("[KEY]", "workers"),
    ("[--json]", "--json"),
    ("DIR", "public"),
    ("FILE", "site.toml"),
    ("KEY", "arch"),
    ("VALUE", "amped"),
    ("LOG", "access.log"),
    ("URL", "http://127.0.0.1:8080/"),
    ("KIND", "one-packet"),
];

/// How the README runs the program out of a checkout, and what that is here.
const OUT_OF_A_CHECKOUT: &str = "cargo run --release -- ";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn readme() -> String {
    fs::read_to_string(repository().join("README.md")).expect("the README is there")
}

/// The fenced blocks of a language.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    let parts = text.split(&fence).skip(1);
    parts.map(|part| part.split_once("```").expect("it ends").0).collect()
}

/// Where the commands are run, beside the files that the README names.
struct Place {
    directory: TempDir,
    /// Servers that were left in the background.
    servers: Vec<Child>,
}

impl Place {
    fn new() -> Place {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let public = directory.path().join("public");
        fs::create_dir(&public).expect("it is made");
        fs::write(public.join("index.html"), "hello").expect("it is written");
        let program = directory.path().join("bin");
        fs::create_dir(&program).expect("it is made");
        let binary = env!("CARGO_BIN_EXE_flyball");
        std::os::unix::fs::symlink(binary, program.join("flyball")).expect("a link");
        // Workers may become another user.
        for path in [directory.path(), &public] {
            fs::set_permissions(path, Permissions::from_mode(0o755)).expect("others may enter");
        }
        Place { directory, servers: Vec::new() }
    }

    fn command(&self, line: &str, from: &Path) -> Command {
        let mut shell = Command::new("sh");
        let programs = self.directory.path().join("bin");
        let path = std::env::var("PATH").unwrap_or_default();
        shell.args(["-c", &format!("exec {line}")]).current_dir(from);
        shell.env("PATH", format!("{}:{path}", programs.display()));
        shell.env("RUNTIME_DIRECTORY", self.directory.path().join("run"));
        shell.env_remove("FLYBALL_ADMIN").stdin(Stdio::null());
        shell
    }

    /// Runs a line of a script. What goes on in the background is waited for until it serves.
    #[track_caller]
    fn run(&mut self, line: &str, from: &Path) -> String {
        let Some(server) = line.strip_suffix(" &") else {
            let output = self.command(line, from).output().expect("sh runs");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{line}: {said}");
            return String::from_utf8_lossy(&output.stdout).into_owned();
        };
        let mut command = self.command(server, from);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("sh runs");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        self.servers.push(child);
        let mut said = String::new();
        for line in output.lines().map_while(Result::ok) {
            said += &(line + "\n");
            if said.contains("Ctrl-C stops it") {
                return said;
            }
        }
        panic!("{line}: {said}");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for server in &mut self.servers {
            if server.try_wait().is_ok_and(|ended| ended.is_none()) {
                let _ = Command::new("kill").arg(server.id().to_string()).status();
            }
            let _ = server.wait();
        }
    }
}

/// The same on ports that are free here.
fn elsewhere(configuration: &str) -> String {
    let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let [clients, admin] =
        free.map(|free| free.local_addr().expect("it is bound").port().to_string());
    configuration.replace("8080", &clients).replace("9090", &admin)
}

#[test]
fn the_configuration_of_the_readme_and_its_commands_go_together() {
    let readme = readme();
    let (configurations, scripts) = (blocks(&readme, "toml"), blocks(&readme, "sh"));
    let [configuration] = configurations.as_slice() else { panic!("one configuration") };
    let mut place = Place::new();
    let here = place.directory.path().to_owned();
    let configuration = elsewhere(configuration);
    fs::write(here.join("site.toml"), &configuration).expect("it is written");
    let lines: Vec<&str> = scripts.iter().flat_map(|script| script.lines()).collect();
    assert!(lines.len() >= 8, "{lines:?}");
    for line in lines {
        let Some(words) = line.strip_prefix(OUT_OF_A_CHECKOUT) else {
            place.run(line, &here);
            continue;
        };
        // The server of a checkout stays in the foreground, and has a socket of its own.
        let mut checkout = Place::new();
        let said = checkout.run(&format!("flyball {words} &"), &repository());
        assert!(said.contains("  at http://127.0.0.1:"), "{said}");
    }
    for server in &mut place.servers {
        let ended = wait_for("the server was drained", || server.try_wait().ok().flatten());
        assert!(ended.success());
    }
    assert!(here.join("access.log").exists());
}

#[test]
fn each_command_that_the_readme_lists_is_known() {
    let readme = readme();
    let listed = readme.lines().filter_map(|line| line.strip_prefix("| `flyball "));
    let listed: Vec<&str> = listed.filter_map(|rest| Some(rest.split_once('`')?.0)).collect();
    assert!(listed.len() >= 20, "{listed:?}");
    for command in listed {
        let words = command.split(' ').map(|word| {
            let stands_for = PLACEHOLDERS.iter().find(|(name, _)| *name == word);
            stands_for.map_or(word, |(_, example)| example)
        });
        // What is looked up only when it is done may be anything.
        let words: Vec<&str> = ["flyball"].into_iter().chain(words).collect();
        if let Err(failure) = flyball::cli::parse(&words) {
            assert!(failure.to_string().contains("site.toml"), "{command}: {failure}");
        }
    }
}

#[test]
fn each_command_of_another_program_says_why_no_test_runs_it() {
    let readme = readme();
    let code = || readme.split('`').skip(1).step_by(2);
    let programs = ["cargo ", "podman ", "rustup ", "sudo "];
    let is_other = |code: &&str| programs.iter().any(|program| code.starts_with(program));
    for command in code().filter(is_other) {
        let is_known = NOT_RUN.iter().any(|(name, _)| command.starts_with(name));
        assert!(is_known, "{command} is neither run nor among those that are not");
    }
    for (name, reason) in NOT_RUN {
        assert!(code().any(|code| code.starts_with(name)), "{name} ({reason}) is gone");
    }
}
