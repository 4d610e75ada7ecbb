//! Timelines of requests: what `flyball ctl trace` prints, and the log of slow requests.
use std::io::{BufRead, BufReader, Lines};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::common::{has, wait_for};
use flyball_testkit::slow_disk::SlowDisk;
use flyball_testkit::{Client, Launch, Server, binary};
use serde_json::Value;

/// How long each operation of the slow disk takes.
const DELAY: Duration = Duration::from_millis(30);

/// The same in microseconds.
const DELAY_US: u64 = 30_000;

/// What is slow, in milliseconds: less than the delay of the disk.
const SLOW_MS: f64 = 25.0;

/// Requests that need no disk.
const FAST: usize = 20;

/// A server with a socket to be asked through.
struct Traced {
    server: Server,
    directory: tempfile::TempDir,
}

impl Traced {
    fn start(arch: &str, root: &str, settings: &[&str]) -> Traced {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("a.txt"), "hello").expect("a file");
        let root = if root.is_empty() { directory.path().to_str().expect("UTF-8") } else { root };
        let mut launch = Launch::arguments([root, "--arch", arch, "--set", "admin-hosts=*"]);
        launch = launch.and("--admin").and(format!("unix:{}/admin", directory.path().display()));
        for setting in settings {
            launch = launch.and("--set").and(*setting);
        }
        Traced { server: launch.start().expect("it starts"), directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// `flyball ctl trace`, when the server traces already.
    fn trace(&self, arguments: &[&str]) -> Trace {
        let admin = format!("unix:{}", self.path("admin").display());
        let mut child = Command::new(binary())
            .args(["ctl", "trace", "--json", "--admin", &admin])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Trace { child, lines }
    }

    /// Asks again and again until a timeline of `path` comes: a client that asks for timelines sees
    /// only what begins later.
    fn traced(&self, arguments: &[&str], path: &str) -> Value {
        let mut trace = self.trace(arguments);
        let (found, server) = (AtomicBool::new(false), &self.server);
        let record = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !found.load(Relaxed) {
                    ask(&mut server.connect(), path);
                }
            });
            let record = trace.next(path);
            found.store(true, Relaxed);
            record
        });
        record.unwrap_or_else(|why| panic!("{why}"))
    }
}

fn ask(client: &mut Client, path: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n");
    client.ask(request).status()
}

struct Trace {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Trace {
    /// The next timeline of this path, which is told byte by byte, in printable ASCII.
    fn next(&mut self, path: &str) -> Result<Value, String> {
        let told: String = path.bytes().map(char::from).collect();
        for line in self.lines.by_ref() {
            let line = line.map_err(|error| error.to_string())?;
            if !line.bytes().all(|byte| (b' '..0x7f).contains(&byte)) {
                return Err(format!("{line:?} is not ASCII"));
            }
            let record: Value = serde_json::from_str(&line).map_err(|error| error.to_string())?;
            if record["path"] == *told {
                return Ok(record);
            }
        }
        Err(format!("no timeline of {path}"))
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn point(record: &Value, name: &str) -> u64 {
    record["points_us"][name].as_u64().unwrap_or_else(|| panic!("no {name} in {record}"))
}

fn wait_us(record: &Value, name: &str) -> u64 {
    record["waits_us"][name].as_u64().unwrap_or_else(|| panic!("no {name} in {record}"))
}

#[test]
fn a_cached_request_shows_every_step_and_asks_for_nothing() {
    let traced = Traced::start("sped", "", &["cache.revalidate=1h"]);
    // A file is cached when it has not changed for a moment.
    wait_for("the file is in the cache", || {
        ask(&mut traced.server.connect(), "/a.txt");
        let record = traced.traced(&["--count", "1"], "/a.txt");
        (record["asks"] == 0).then_some(())
    });
    let record = traced.traced(&[], "/a.txt");
    let order = ["accept", "begin", "head", "lookup", "answer", "first-byte", "done", "close"];
    let times: Vec<u64> = order.iter().map(|name| point(&record, name)).collect();
    assert!(times.is_sorted(), "{record}");
    assert_eq!((times[0], &record["asks"]), (0, &0.into()), "{record}");
    assert_eq!(record["points_us"]["ask"], Value::Null);
    for (key, value) in [
        ("method", "GET".into()),
        ("host", Value::from("example.org")),
        ("status", 200.into()),
        ("client", "127.0.0.1".into()),
        ("request", 1.into()),
        ("worker", 0.into()),
    ] {
        assert_eq!(record[key], value, "{key} of {record}");
    }
    assert!(record["bytes"].as_u64() > Some(100), "{record}");
    assert!(record["close"].is_string(), "{record}");
}

#[test]
fn what_a_client_wrote_reaches_no_terminal_as_it_is() {
    let traced = Traced::start("sped", "", &[]);
    // A control of eight bits, an override of the direction, and a letter.
    let path = "/a\u{9b}2Jb\u{202e}\u{e9}";
    assert_eq!(traced.traced(&[], path)["status"], 404);
}

#[test]
fn a_slow_disk_is_named_as_what_was_waited_for() {
    let Some(disk) = SlowDisk::mount(DELAY) else { return };
    let root = disk.root().to_str().expect("UTF-8");
    for arch in ["sped", "amped", "mt", "uring"] {
        if flyball_arch::find(arch).is_none_or(|arch| arch.probe().is_err()) {
            flyball_testkit::skip(&format!("{arch} cannot run here"));
            continue;
        }
        // Nothing is kept: each request waits.
        let settings = ["cache.paths=0", "cache.content=0", "cache.files=0"];
        let traced = Traced::start(arch, root, &settings);
        // On a busy machine it may wait for its client longer.
        let record = wait_for(&format!("{arch}: the disk to be the longest wait"), || {
            let record = traced.traced(&["--slower-than", "20ms"], "/slow/small-0.txt");
            (record["longest_wait"] == "disk").then_some(record)
        });
        assert!(wait_us(&record, "disk") >= DELAY_US, "{arch}: {record}");
        let asked = point(&record, "asked") - point(&record, "ask");
        assert!(asked >= DELAY_US, "{arch}: {record}");
        assert!(record["took_us"].as_u64() >= Some(asked), "{arch}: {record}");
    }
}

#[test]
fn every_architecture_tells_every_step() {
    let directory = tempfile::tempdir().expect("a directory");
    for arch in flyball_arch::ALL.iter().filter(|arch| arch.probe().is_ok()) {
        let arch = arch.name();
        let path = directory.path().join(arch);
        let log = format!("slow-log={}", path.display());
        let traced = Traced::start(arch, "", &[&log, "log.slow-threshold=0s"]);
        let mut client = traced.server.connect();
        for _ in 0..2 {
            assert_eq!(client.ask("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").status(), 200);
        }
        // Another connection may be served by another process, and its line come first.
        let first = lines(&path, 2);
        assert_eq!(ask(&mut client, "/none.txt"), 404);
        client.expect_closed();
        let all = lines(&path, 3);
        for (at, line) in all.iter().enumerate() {
            let path = if at < 2 { " GET /a.txt 200 " } else { " GET /none.txt 404 " };
            let number = format!(" request {} ", at + 1);
            let begin = if at == 0 { "| accept 0.000ms begin " } else { "| begin 0.000ms " };
            let steps = [" head ", " lookup ", " answer ", " first-byte ", " done "];
            for part in [path, " client 127.0.0.1 ", &number, begin].into_iter().chain(steps) {
                assert!(line.contains(part), "{arch}: {part:?} in {line}");
            }
            assert_eq!(line.contains(" close "), at == 2, "{arch}: {line}");
        }
        assert_eq!(first.len(), 2, "{arch}: {first:?}");
    }
}

#[test]
fn filters_hold_and_a_sample_is_one() {
    let traced = Traced::start("sped", "", &[]);
    let mut trace = traced.trace(&["--host", "example.org", "--sample", "1/2"]);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Not one of these is of the host that is asked for.
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                traced.server.connect().ask("GET /other HTTP/1.0\r\nHost: other.org\r\n\r\n");
                let mut client = traced.server.connect();
                for _ in 0..4 {
                    let response = client.ask("GET /a.txt HTTP/1.1\r\nHost: EXAMPLE.ORG:1\r\n\r\n");
                    assert_eq!(response.status(), 200);
                }
            }
        });
        let mut requests = Vec::new();
        for line in trace.lines.by_ref().take(40) {
            let record: Value = serde_json::from_str(&line.expect("text")).expect("JSON");
            assert_eq!(record["path"], "/a.txt", "{record}");
            requests.push(record["request"].as_u64().expect("a number"));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        // Of every four, about two.
        assert!((1..=4).all(|n| requests.contains(&n)), "{requests:?}");
    });
}

#[test]
fn only_whoever_may_change_the_server_may_trace() {
    let server = Launch::arguments(["."]).and("--admin").and("127.0.0.1:0").start().unwrap();
    let mut client = Client::connect(server.admin());
    let response =
        client.ask("POST /trace?sample=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(response.status(), 403);
}

#[test]
fn a_wrong_question_is_told() {
    let traced = Traced::start("sped", "", &[]);
    let admin = format!("unix:{}", traced.path("admin").display());
    for wrong in [["--sample", "0"], ["--slower-than", "10"], ["--host", "a b"], ["--count", "0"]] {
        let output = Command::new(binary())
            .args(["ctl", "trace", "--admin", &admin])
            .args(wrong)
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
    let unserved = Command::new(binary())
        .args(["ctl", "trace", "--admin", "unix:/nowhere"])
        .output()
        .expect("it runs");
    assert_eq!(unserved.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&unserved.stderr).contains("no server listens on"));
}

/// The lines of a log, when there are as many.
fn lines(path: &PathBuf, count: usize) -> Vec<String> {
    wait_for("lines of the slow log", || {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
        (text.ends_with('\n') && lines.len() >= count).then_some(lines)
    })
}

#[test]
fn a_slow_request_has_its_line_and_others_have_none() {
    let Some(disk) = SlowDisk::mount(DELAY) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("slow.log");
    let log = format!("slow-log={}", path.display());
    let root = disk.root().to_str().expect("UTF-8");
    let threshold = format!("log.slow-threshold={SLOW_MS}ms");
    let settings = [log.as_str(), &threshold, "cache.revalidate=1h"];
    let traced = Traced::start("sped", root, &settings);
    let slow = ["/slow/small-0.txt?a=b", "/slow/none.txt"];
    for at in 0..FAST {
        ask(&mut traced.server.connect(), "/fast.txt");
        if let Some(path) = slow.get(at) {
            ask(&mut traced.server.connect(), path);
        }
    }
    let of_slow = |lines: &[String]| -> Vec<String> {
        lines.iter().filter(|line| line.contains(" GET /slow/")).cloned().collect()
    };
    let all = wait_for("the lines of both", || {
        Some(lines(&path, 2)).filter(|lines| of_slow(lines).len() == slow.len())
    });
    // On a busy machine others may be slow now and then, but then they have been.
    assert!(all.len() < slow.len() + FAST, "all of {FAST} fast requests have lines: {all:?}");
    for line in &all {
        let took = line.split_whitespace().find_map(|word| word.strip_suffix("ms"));
        let took: f64 = took.and_then(|took| took.parse().ok()).expect("how long it took");
        assert!(took >= SLOW_MS, "it was not slow: {line}");
    }
    let lines = of_slow(&all);
    assert!(lines[0].contains(" GET /slow/small-0.txt 200 "), "{lines:?}");
    assert!(lines[1].contains(" GET /slow/none.txt 404 "), "{lines:?}");
    for part in [" | host example.org client 127.0.0.1 worker 0 ", " ask ", " asked ", " asks)"] {
        assert!(lines[0].contains(part), "{part} in {lines:?}");
    }
    // It may have waited for its client longer.
    assert!(lines[0].contains(" disk ") && lines[0].contains("; longest "), "{lines:?}");
}

#[test]
fn a_full_disk_under_the_slow_log_costs_its_lines_and_no_request() {
    const ASKED: u64 = 50;
    let settings = ["slow-log=/dev/full", "log.slow-threshold=0s"];
    for arch in ["sped", "mt", "shared-symped", "uring"] {
        if flyball_arch::find(arch).is_none_or(|arch| arch.probe().is_err()) {
            flyball_testkit::skip(&format!("{arch} cannot run here"));
            continue;
        }
        let traced = Traced::start(arch, "", &settings);
        for _ in 0..ASKED {
            assert_eq!(ask(&mut traced.server.connect(), "/a.txt"), 200, "{arch}");
        }
        let admin = traced.path("admin");
        let counter = |name: &str| {
            let status: Value =
                serde_json::from_str(&crate::common::told(&admin, &["status"])).expect("JSON");
            status["counters"][name].as_u64()
        };
        for name in ["slow_log_lost", "slow_requests"] {
            wait_for(&format!("{arch}: {name}"), || (counter(name) == Some(ASKED)).then_some(()));
        }
        let said = traced.server.errors();
        assert_eq!(said.matches("lines are lost").count(), 1, "{arch}: said once: {said}");
        assert!(said.contains("the slow log cannot be written"), "{arch}: {said}");
    }
}

#[test]
fn the_slow_log_goes_on_beside_the_access_log_and_is_opened_anew() {
    if !has("sh") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name);
    let slow = format!("slow-log={}", file("slow.log").display());
    let access = format!("access-log={}", file("access.log").display());
    let traced = Traced::start("mt", "", &[&slow, &access, "log.slow-threshold=0s"]);
    ask(&mut traced.server.connect(), "/a.txt");
    lines(&file("slow.log"), 1);
    lines(&file("access.log"), 1);
    std::fs::rename(file("slow.log"), file("slow.old")).expect("renamed");
    crate::common::signal(traced.server.pid(), "USR1");
    wait_for("the slow log is made again", || file("slow.log").exists().then_some(()));
    ask(&mut traced.server.connect(), "/a.txt");
    lines(&file("slow.log"), 1);
    lines(&file("access.log"), 2);
}
