//! `flyball explain`: each kind of reason, asked of the program.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flyball_testkit::{binary, skip};
use serde_json::Value;

fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("it runs");
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("text")
}

fn explain(arguments: &[&str]) -> String {
    run(Command::new(binary()).arg("explain").args(arguments))
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&explain(&[arguments, &["--json"]].concat())).expect("JSON")
}

/// A setting of the server in the answer.
fn setting<'a>(answer: &'a Value, key: &str) -> &'a Value {
    let settings = answer["tables"][0]["settings"].as_array().expect("a list");
    settings.iter().find(|setting| setting["key"] == key).unwrap_or_else(|| panic!("{key}"))
}

/// The reasons of a setting, in one text.
fn changes(setting: &Value) -> String {
    let changes = setting["changes"].as_array().expect("a list");
    changes.iter().map(ToString::to_string).collect()
}

fn config(text: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("site.toml");
    std::fs::write(&path, text).expect("the file is written");
    (directory, path)
}

#[test]
fn every_setting_says_where_it_was_written() {
    let (directory, path) =
        config("drain = \"5s\"\n\n[cache]\nsmall = \"4KiB\"\n[[site]]\nroot = \".\"\n");
    let file = path.to_str().expect("a path in UTF-8");
    let answer = json(&["--config", file, "--set", "cache.paths=7", "--events", "poll"]);
    for (key, value, origin, at) in [
        ("drain", "5s", "file", Some(format!("{file}:1"))),
        ("cache.small", "4KiB", "file", Some(format!("{file}:4"))),
        ("cache.paths", "7", "set", Some("--set".into())),
        ("events", "poll", "flag", Some("--events".into())),
        ("timeout.head", "10s", "default", None),
    ] {
        let setting = setting(&answer, key);
        let found = (&setting["value"], &setting["origin"], setting["at"].as_str());
        assert_eq!(found, (&value.into(), &origin.into(), at.as_deref()), "{key}");
    }
    let text = explain(&["--config", file]);
    let line = |key: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(key));
        line.unwrap_or_else(|| panic!("{key}: {text}")).split_whitespace().collect::<Vec<_>>()
    };
    assert_eq!(line("cache.small"), ["cache.small", "4KiB", &format!("{file}:4")]);
    assert_eq!(line("timeout.head"), ["timeout.head", "10s", "default"]);
    assert!(text.contains(&format!("\n[[site]], {file}:5\n")), "{text}");
    drop(directory);
}

#[test]
fn nothing_needs_to_be_written() {
    let answer = json(&[]);
    let site = &answer["tables"][1];
    let root = site["settings"].as_array().and_then(|all| all.iter().find(|s| s["key"] == "root"));
    assert_eq!(root.expect("a root")["value"], ".");
    let listen = setting(&answer, "listen");
    assert_eq!(listen["value"], "127.0.0.1:8080");
    assert!(changes(listen).contains("the next free port"), "{listen}");
    let names: Vec<_> = answer["machine"].as_array().expect("a list").iter().collect();
    for name in ["cpu.affinity", "memory.limit", "net.core.somaxconn", "cachestat", "landlock"] {
        assert!(names.iter().any(|fact| fact["name"] == name), "{name}");
    }
}

#[test]
fn only_what_is_asked_for_is_told() {
    let text = explain(&["workers", "accept"]);
    let keys = text.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    assert!(keys.clone().any(|key| key == "accept.backlog"), "{text}");
    assert!(keys.clone().all(|key| key == "workers" || key.starts_with("accept.")), "{text}");
    let wrong = Command::new(binary()).args(["explain", "worker"]).output().expect("it runs");
    assert_eq!(wrong.status.code(), Some(2));
    let why = String::from_utf8_lossy(&wrong.stderr);
    assert_eq!(why, "flyball: there is no setting \"worker\"; did you mean workers?\n");
}

#[test]
fn a_setting_that_is_wrong_is_told_as_by_serve() {
    let wrong = Command::new(binary()).args(["explain", "--set", "workers=x"]).output();
    let wrong = wrong.expect("it runs");
    assert_eq!((wrong.status.code(), wrong.stdout.is_empty()), (Some(2), true));
    assert!(String::from_utf8_lossy(&wrong.stderr).starts_with("--set workers: expected "));
}

/// Descriptors are limited by prlimit(1): connections and files get what that leaves.
#[test]
fn what_descriptors_cut_is_told() {
    let mut command = Command::new("prlimit");
    command.args(["--nofile=100:400"]).arg(binary()).args(["explain", "--json"]);
    let text = run(command.args(["--set", "connections.max=1000", "--set", "arch=sped"]));
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    let facts = answer["machine"].as_array().expect("a list");
    let fact =
        |name: &str| facts.iter().find(|f| f["name"] == name).expect("a fact")["value"].clone();
    assert_eq!((fact("nofile.soft"), fact("nofile.hard")), ("100".into(), "400".into()));
    let files = setting(&answer, "cache.files");
    assert_eq!(files["value"], "100");
    assert!(changes(files).contains("a quarter of 400 descriptors"), "{files}");
    let connections = setting(&answer, "connections.max");
    // 400 less the 100 of the files and 64.
    assert_eq!(connections["value"], "236");
    assert_eq!(connections["changes"][0]["was"], "1000");
    let why = changes(connections);
    assert!(why.contains("the soft limit of 100 raised to the hard"), "{why}");
}

#[test]
fn what_the_kernel_cuts_is_told() {
    let limit = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/core/{name}"));
        text.ok().map(|text| text.trim().to_owned())
    };
    let answer = json(&["--set", "accept.backlog=65535", "--set", "send.buffer=512MiB"]);
    for (key, name, unit) in [("accept.backlog", "somaxconn", ""), ("send.buffer", "wmem_max", "B")]
    {
        let Some(limit) = limit(name) else { return skip("net.core is not there") };
        let setting = setting(&answer, key);
        assert_eq!(setting["value"], format!("{limit}{unit}"), "{key}");
        assert!(changes(setting).contains(&format!("by net.core.{name}")), "{setting}");
        assert_eq!(setting["changes"][0]["kind"], "cut");
    }
}

#[test]
fn what_an_architecture_makes_nothing_of_is_told() {
    let answer = json(&["--arch", "sped", "--set", "amped.helpers=3"]);
    assert!(changes(setting(&answer, "amped.helpers")).contains("no meaning for sped"));
    assert_eq!(setting(&answer, "workers")["value"], "1");
    let uring = json(&["--arch", "uring"]);
    assert_eq!(setting(&uring, "accept.limit")["value"], "inf");
}

/// A control group that this test made, and the file of its quota.
struct Quota {
    group: PathBuf,
    file: &'static str,
}

impl Quota {
    /// A group with half a CPU's time, of version 1 or 2, where this machine lets one be made.
    fn half() -> Option<Quota> {
        let name = format!("flyball-{}", std::process::id());
        let make = |groups: &str, file, limits: &[(&str, &str)]| {
            let group = Path::new(groups).join(&name);
            std::fs::create_dir(&group).ok()?;
            let quota = Quota { group, file };
            let write = |(file, limit): &(&str, &str)| {
                let path = quota.group.join(file);
                // A group without the controller lacks it.
                path.exists() && std::fs::write(path, limit).is_ok()
            };
            limits.iter().all(write).then_some(quota)
        };
        let halves = [("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "50000")];
        make("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", &halves)
            .or_else(|| make("/sys/fs/cgroup", "cpu.max", &[("cpu.max", "50000 100000")]))
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.group);
    }
}

#[test]
fn a_quota_of_a_cgroup_is_named_by_its_file() {
    let Some(quota) = Quota::half() else {
        return skip("no control group with a quota can be made here");
    };
    let group = quota.group.to_str().expect("a path in UTF-8");
    let script = "echo $$ > \"$1/cgroup.procs\" && exec \"$2\" explain --json";
    let text = run(Command::new("sh").args(["-c", script, "sh", group]).arg(Path::new(&binary())));
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    let workers = setting(&answer, "workers");
    assert_eq!(workers["value"], "1");
    let why = changes(workers);
    assert!(why.contains("0.5 CPUs in /sys/fs/cgroup/"), "{why}");
    let name = quota.group.file_name().expect("it has one").display();
    assert!(why.contains(&format!("{name}/{}", quota.file)), "{why}");
}
