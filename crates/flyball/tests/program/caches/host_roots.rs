//! Directories of hosts (`root = "/srv/$host"`) come and go while the server runs, and over an
//! upgrade.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::common::{
    Launch, Server, copy_program, end_successor, last_get, text, told, wait_for, within,
};
use flyball_testkit::binary;

const CLEAR: &str = "127.0.0.1:0";

/// A server of the hosts that are directories of `hosts`.
struct Hosting {
    directory: TempDir,
    server: Server,
}

impl Hosting {
    fn start(arch: &str, hosts: &[&str], (listen, more): (&str, &str)) -> Hosting {
        let directory = tempfile::tempdir().expect("a temporary directory");
        hosts.iter().for_each(|host| add(&directory, host, host));
        let program = within(&directory, "flyball");
        copy_program(&program);
        let config = config(&directory, arch, ("", more));
        let launch = Launch::program(&[program.into()]).asked().args(&["--config", text(&config)]);
        Hosting { server: launch.args(&["--listen", listen]).start(), directory }
    }

    fn who(&self, host: &str) -> String {
        let request = last_get("/who.txt").replace("localhost", host);
        let answer = self.server.connect().ask(request);
        match answer.status() {
            200 => answer.text().to_owned(),
            status => status.to_string(),
        }
    }

    fn becomes(&self, host: &str, expected: &str) {
        wait_for(host, || (self.who(host) == expected).then_some(()));
    }
}

impl Drop for Hosting {
    fn drop(&mut self) {
        end_successor(&self.directory, &self.server);
    }
}

fn config(directory: &TempDir, arch: &str, (server, site): (&str, &str)) -> PathBuf {
    let config = within(directory, "flyball.toml");
    let lines = format!(
        "arch = {arch:?}\nworkers = 1\ncache.revalidate = \"100ms\"\nadmin = \"unix:{}\"\n\
         pid-file = {:?}\n{server}[[site]]\nroot = \"{}/$host\"\n{site}",
        text(&within(directory, "admin")),
        text(&within(directory, "pid")),
        text(&within(directory, "hosts"))
    );
    fs::write(&config, lines).expect("the file is written");
    config
}

fn add(directory: &TempDir, host: &str, words: &str) {
    let root = within(directory, "hosts").join(host);
    fs::create_dir_all(&root).expect("a directory can be made");
    fs::write(root.join("who.txt"), words).expect("a file can be written");
}

/// The process that runs, unless its file is about to be replaced.
fn pid(directory: &TempDir) -> Option<u32> {
    fs::read_to_string(within(directory, "pid")).ok()?.trim().parse().ok()
}

#[test]
#[ignore = "full tier"]
fn hosts_come_go_and_are_replaced_without_a_reload() {
    for arch in ["sped", "mt", "uring"] {
        let hosting = Hosting::start(arch, &["a.test", "b.test"], (CLEAR, ""));
        let at = |name: &str| within(&hosting.directory, "hosts").join(name);
        assert_eq!(["a.test", "c.test"].map(|host| hosting.who(host)), ["a.test", "421"]);
        add(&hosting.directory, "c.test", "c.test");
        hosting.becomes("c.test", "c.test");
        fs::remove_dir_all(at("a.test")).expect("it can be removed");
        hosting.becomes("a.test", "421");
        add(&hosting.directory, "next", "another");
        fs::rename(at("b.test"), at("x.test")).expect("it can be renamed");
        fs::rename(at("next"), at("b.test")).expect("it can be renamed");
        hosting.becomes("b.test", "another");
        assert_eq!(hosting.who("c.test"), "c.test");
    }
}

#[test]
fn a_root_is_replaced_while_other_hosts_cannot_be_served() {
    let beside = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| within(&beside, name);
    fs::create_dir(at("logs")).expect("a directory can be made");
    for name in ["own", "next"] {
        fs::create_dir(at(name)).expect("a directory can be made");
        fs::write(at(name).join("who.txt"), name).expect("a file can be written");
    }
    let more = format!(
        "access-log = {:?}\n[[site]]\nhosts = [\"own.test\"]\nroot = {:?}\n",
        at("logs/access"),
        at("own")
    );
    let hosting = Hosting::start("sped", &["a.test"], (CLEAR, &more));
    fs::remove_dir_all(at("logs")).expect("it can be removed");
    add(&hosting.directory, "b.test", "b.test");
    hosting.server.errors.wait_for("the failure", |said| said.contains("and are not served: "));
    fs::rename(at("own"), at("old")).expect("it can be renamed");
    fs::rename(at("next"), at("own")).expect("it can be renamed");
    hosting.becomes("own.test", "next");
    assert_eq!(["a.test", "b.test"].map(|host| hosting.who(host)), ["a.test", "421"]);
}

#[test]
fn hosts_are_served_after_an_upgrade_and_those_that_came_meanwhile() {
    let mut hosting = Hosting::start("n-copy", &["a.test"], (CLEAR, ""));
    let first = Some(wait_for("the PID", || pid(&hosting.directory)));
    add(&hosting.directory, "b.test", "b.test");
    told(&within(&hosting.directory, "admin"), &["upgrade"]);
    wait_for("the new PID", || pid(&hosting.directory).filter(|pid| Some(*pid) != first));
    assert!(hosting.server.ended().success());
    assert_eq!(
        ["a.test", "b.test", "c.test"].map(|host| hosting.who(host)),
        ["a.test", "b.test", "421"]
    );
}

/// What `flyball check` says: whether all is right, and its lines.
fn checked(config: &Path) -> (bool, String) {
    let output = Command::new(binary()).args(["check", "--config", text(config)]).output();
    let output = output.expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).expect("it is text"))
}

#[test]
fn requests_to_hosts_are_in_the_log_of_their_table() {
    let logs = tempfile::tempdir().expect("a temporary directory");
    let log = logs.path().join("hosts.log");
    let more = format!("access-log = {:?}\n", text(&log));
    let hosting = Hosting::start("sped", &["a.test"], ("127.0.0.1:0", &more));
    assert_eq!(hosting.who("a.test"), "a.test");
    wait_for("its line", || fs::read_to_string(&log).ok()?.contains("GET /who.txt ").then_some(()));
}

#[test]
fn a_check_tells_what_is_not_served() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for host in ["a.test", "b.test", "Big.test", ".x", "a_b", "c d", "e.test."] {
        add(&directory, host, host);
    }
    let listeners = "[[listener]]\naddress = \"127.0.0.1:0\"\nhosts = [\"a.test\", \"z.test\"]\n";
    let (is_right, said) = checked(&config(&directory, "sped", (listeners, "")));
    assert!(is_right, "{said}");
    assert!(said.contains("ok: 2 sites"), "{said}");
    assert!(
        said.contains("no hosts, and not served, are \".x\", \"Big.test\", \"a_b\" and 2 more")
    );
    assert!(said.contains("there is no directory for z.test"), "{said}");
    for (root, why) in [
        ("/nowhere/$host", "/nowhere cannot be found"),
        ("/srv/x$host", "`$host` is the whole name of one directory"),
    ] {
        let path = within(&directory, "wrong.toml");
        fs::write(&path, format!("[[site]]\nroot = {root:?}\n")).expect("the file is written");
        let (is_right, said) = checked(&path);
        assert!(!is_right && said.contains(why), "{root}: {said}");
    }
}
