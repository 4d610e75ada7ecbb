//! The access log when what it is written to is full, slow, gone or moved: no request waits, and
//! what is lost is counted.
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::common::{Launch, Server, Site, architectures, children, get, signal, wait_for};
use flyball_testkit::{Client, wait};
use serde_json::Value;

/// O_NONBLOCK on every Linux that the server runs on.
const NONBLOCK: i32 = 0o4000;

/// Longest time that a request may take while the log is in trouble: one that waited for the log
/// would take until the end of the test.
const ANSWERED_WITHIN: Duration = Duration::from_secs(15);

struct Logged {
    server: Server,
    directory: tempfile::TempDir,
    _site: Site,
}

impl Logged {
    /// A server whose log is `name` in a directory of its own, made by `make` before.
    fn start(arch: &str, name: &str, settings: &[&str], make: impl FnOnce(&Path)) -> Logged {
        let site = Site::with(&[("small.txt", &[b'x'; 100])]);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join(name);
        make(&path);
        let mut launch = Launch::new(&site, arch).workers_for(arch, 4);
        launch = launch.args(&["--admin", "127.0.0.1:0"]);
        launch = launch.args(&["--access-log", &path.display().to_string()]);
        for setting in settings {
            launch = launch.set(setting);
        }
        Logged { server: launch.start(), directory, _site: site }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Asks `count` times, numbered from `from`, and fails when an answer is late.
    fn ask(&self, from: usize, count: usize) {
        let mut client = self.server.connect();
        ask(&mut client, from, count);
    }

    /// Waits until the server says that it lost lines, or wrote them.
    fn wait_for_counter(&self, name: &str, least: u64) -> u64 {
        wait_for(name, || Some(self.server.counter(name)).filter(|count| *count >= least))
    }

    /// Stops the server, which must end in time and in good order.
    fn stop(&mut self) {
        signal(self.server.master(), "TERM");
        assert_eq!(self.server.ended().code(), Some(0));
    }

    /// The numbers of the requests in these files, each of which holds whole lines.
    fn numbers(&self, files: &[PathBuf]) -> Vec<usize> {
        let texts = files.iter().map(|file| fs::read_to_string(file).expect("a log"));
        let mut numbers: Vec<usize> = texts.flat_map(|text| numbers(&text)).collect();
        numbers.sort_unstable();
        numbers
    }
}

fn ask(client: &mut Client, from: usize, count: usize) {
    for n in from..from + count {
        let began = Instant::now();
        assert_eq!(client.ask(get(&format!("/small.txt?{n}-"))).status(), 200);
        wait::assert_within(began, ANSWERED_WITHIN, "a request waits for the log");
    }
}

/// The numbers of the requests in whole lines of the combined format.
fn numbers(text: &str) -> Vec<usize> {
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is torn");
    let number = |line: &str| {
        let fits = line.starts_with("127.0.0.1 - - [") && line.ends_with(" \"-\" \"-\"");
        assert!(fits, "a torn line: {line:?}");
        let (_, rest) = line.split_once("/small.txt?").expect("a request of ours");
        rest.split_once('-').expect("its number").0.parse().expect("a number")
    };
    text.lines().map(number).collect()
}

fn make_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success());
}

fn open_reader(path: &Path) -> File {
    OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path).expect("the pipe opens")
}

fn read_available(reader: &mut File) -> String {
    let mut bytes = Vec::new();
    let mut piece = [0; 65_536];
    while let Ok(n @ 1..) = reader.read(&mut piece) {
        bytes.extend_from_slice(&piece[..n]);
    }
    String::from_utf8(bytes).expect("a log in UTF-8")
}

/// Architectures with one thread, several, and several processes.
const SOME: [&str; 4] = ["sped", "mt", "shared-symped", "uring"];

/// Tests every architecture, all at once: each spends its time waiting.
fn on_every_architecture(test: impl Fn(&str) + Sync) {
    let test = &test;
    std::thread::scope(|scope| {
        for arch in architectures() {
            scope.spawn(move || test(arch));
        }
    });
}

#[test]
fn a_full_disk_fails_no_request_and_its_lines_are_counted() {
    on_every_architecture(|arch| {
        let mut logged = Logged::start(arch, "/dev/full", &[], |_| {});
        logged.ask(0, 500);
        let lost = logged.wait_for_counter("access_log_lost", 500);
        assert_eq!((lost, logged.server.counter("access_log_lines")), (500, 0), "{arch}");
        logged.stop();
        let said = logged.server.errors.whole();
        assert_eq!(said.matches("lines are lost").count(), 1, "{arch}: said once: {said}");
    });
}

#[test]
fn a_log_that_is_a_link_is_refused_and_never_followed() {
    let site = Site::with(&[("small.txt", b"x")]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (link, victim) = (directory.path().join("log"), directory.path().join("victim"));
    fs::write(&victim, "victim\n").expect("it is written");
    std::os::unix::fs::symlink(&victim, &link).expect("a link");
    let link = link.display().to_string();
    for sandbox in ["on", "off"] {
        for key in ["access-log", "slow-log"] {
            let launch = Launch::new(&site, "sped").set(&format!("sandbox={sandbox}"));
            let (status, said) = match launch.set(&format!("{key}={link}")).try_start() {
                Ok(server) => panic!("it serves: {}", server.errors.so_far()),
                Err(ended) => ended,
            };
            assert!(!status.success() && said.contains("is a symbolic link"), "{said}");
            assert!(said.contains(key), "{said}");
        }
        // Neither is one that comes later, and what is lost is told and counted.
        let log = directory.path().join(sandbox).display().to_string();
        let launch = Launch::new(&site, "sped").args(&["--admin", "127.0.0.1:0"]);
        let launch = launch.set(&format!("sandbox={sandbox}"));
        let server = launch.args(&["--access-log", &log]).start();
        assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
        wait_for("the first line", || (server.counter("access_log_lines") > 0).then_some(()));
        fs::remove_file(&log).expect("it is there");
        std::os::unix::fs::symlink(&victim, &log).expect("a link");
        signal(server.master(), "USR1");
        server.errors.wait_for("why it is not opened", |said| said.contains("cannot be opened"));
        assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
        wait_for("the line is lost", || (server.counter("access_log_lost") > 0).then_some(()));
    }
    assert_eq!(fs::read_to_string(&victim).expect("it is there"), "victim\n");
}

/// Lines in which the path stands.
fn lines_of(stream: &mut impl Read) -> usize {
    let mut all = String::new();
    stream.read_to_string(&mut all).expect("text");
    all.lines().filter(|line| line.contains("GET /small.txt")).count()
}

#[test]
fn the_names_of_standard_output_and_standard_error_are_these() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    for (log, expected) in [("-", [1, 0]), ("/dev/stdout", [1, 0]), ("/dev/stderr", [0, 1])] {
        let site = Site::with(&[("small.txt", b"x")]);
        let mut child = Command::new(env!("CARGO_BIN_EXE_flyball"))
            .arg("serve")
            .arg(site.path())
            .args(["--listen", "127.0.0.1:0", "--arch", "sped", "--access-log", log])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("flyball runs");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut errors = child.stderr.take().expect("it is piped");
        let mut port = None;
        for line in output.by_ref().lines().map_while(Result::ok) {
            if let Some(url) = line.strip_prefix("  at http://") {
                let digits = url.trim_end_matches('/').rsplit(':').next();
                port = digits.and_then(|digits| digits.parse::<u16>().ok());
            } else if line.starts_with("  by ") {
                break;
            }
        }
        let port = port.expect("it listens");
        let mut client = Client::connect(([127, 0, 0, 1], port).into());
        assert_eq!(client.ask(get("/small.txt")).status(), 200);
        signal(child.id(), "TERM");
        assert!(child.wait().expect("it ends").success());
        assert_eq!([lines_of(&mut output), lines_of(&mut errors)], expected, "{log}");
    }
}

#[test]
fn a_pipe_without_a_reader_fails_no_request_and_one_that_comes_later_gets_lines() {
    let mut logged = Logged::start("sped", "fifo", &[], make_fifo);
    logged.ask(0, 100);
    assert_eq!(logged.wait_for_counter("access_log_lost", 100), 100);
    let mut reader = open_reader(&logged.path("fifo"));
    let mut from = 100;
    let text = wait_for("lines in the pipe", || {
        logged.ask(from, 100);
        from += 100;
        Some(read_available(&mut reader)).filter(|text| !text.is_empty())
    });
    assert!(numbers(&text).iter().all(|n| (100..from).contains(n)));
    drop(reader);
    let lost = logged.server.counter("access_log_lost");
    wait_for("lines are lost again", || {
        logged.ask(from, 100);
        from += 100;
        (logged.server.counter("access_log_lost") > lost).then_some(())
    });
    logged.stop();
}

#[test]
fn a_reader_that_does_not_read_holds_no_request_up_and_then_gets_whole_lines() {
    let mut reader = None;
    let mut logged = Logged::start("sped", "fifo", &["log.format=common"], |path| {
        make_fifo(path);
        reader = Some(open_reader(path));
    });
    let mut reader = reader.expect("it is open");
    // More than the pipe, the channel and the buffers of the worker hold.
    let mut client = logged.server.connect();
    let target = format!("/small.txt?{}", "y".repeat(7_000));
    let mut asked = 0;
    wait_for("lines are lost", || {
        let began = Instant::now();
        let batch = get(&target).repeat(8);
        client.send(batch);
        (0..8).for_each(|_| assert_eq!(client.response().status(), 200));
        wait::assert_within(began, ANSWERED_WITHIN, "a request waits for the log");
        asked += 8;
        (asked % 256 == 0 && logged.server.counter("access_log_lost") > 0).then_some(())
    });
    drop(client);
    let mut text = String::new();
    let came = wait_for("the lines that were not lost", || {
        text += &read_available(&mut reader);
        let lost = logged.server.counter("access_log_lost") as usize;
        let came = text.matches('\n').count();
        (came + lost == asked).then_some(came)
    });
    assert!(came > 0 && text.ends_with('\n'));
    assert!(text.lines().all(|line| line.ends_with("HTTP/1.1\" 200 100")), "a torn line");
    logged.stop();
}

#[test]
fn a_reader_that_never_reads_does_not_hold_the_end_of_the_server_up() {
    let mut reader = None;
    let mut logged = Logged::start("sped", "fifo", &["drain=1s"], |path| {
        make_fifo(path);
        reader = Some(open_reader(path));
    });
    logged.ask(0, 3_000);
    logged.stop();
    drop(reader);
}

#[test]
fn a_log_that_is_moved_away_and_opened_anew_loses_and_tears_no_line() {
    const CLIENTS: usize = 3;
    for arch in architectures() {
        let mut logged = Logged::start(arch, "log", &[], |_| {});
        let stop = AtomicBool::new(false);
        let mut files = Vec::new();
        let asked: Vec<usize> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let (logged, stop) = (&logged, &stop);
                    scope.spawn(move || {
                        let mut numbers = Vec::new();
                        let mut connection = logged.server.connect();
                        while !stop.load(SeqCst) {
                            let n = numbers.len() * CLIENTS + client;
                            ask(&mut connection, n, 1);
                            numbers.push(n);
                        }
                        numbers
                    })
                })
                .collect();
            for turn in 0..5 {
                let (log, moved) = (logged.path("log"), logged.path(&format!("moved-{turn}")));
                let has_lines = || fs::metadata(&log).is_ok_and(|log| log.len() > 0).then_some(());
                wait_for("lines in the log", has_lines);
                fs::rename(&log, &moved).expect("it can be moved");
                signal(logged.server.master(), "USR1");
                wait_for("a new log", || log.exists().then_some(()));
                files.push(moved);
            }
            stop.store(true, SeqCst);
            clients.into_iter().flat_map(|client| client.join().expect("no panic")).collect()
        });
        assert_eq!(logged.server.counter("access_log_lost"), 0, "{arch}");
        logged.stop();
        files.push(logged.path("log"));
        let mut asked = asked;
        asked.sort_unstable();
        assert_eq!(logged.numbers(&files), asked, "{arch}");
    }
}

#[test]
fn a_log_that_is_too_long_is_put_aside_and_so_many_are_kept() {
    on_every_architecture(is_put_aside_when_it_is_too_long);
}

fn is_put_aside_when_it_is_too_long(arch: &str) {
    let settings = ["log.rotate-size=64KiB", "log.keep=3", "log.format=$query"];
    // Lines of several threads come in no order.
    let alone = (arch == "watpipe").then_some("watpipe.writers=1");
    let settings: Vec<&str> = settings.into_iter().chain(alone).collect();
    let mut logged = Logged::start(arch, "log", &settings, |_| {});
    let mut client = logged.server.connect();
    let tail = "z".repeat(1_000);
    for n in 0..500 {
        assert_eq!(client.ask(get(&format!("/small.txt?{n}-{tail}"))).status(), 200, "{arch}");
    }
    drop(client);
    logged.stop();
    let files: BTreeMap<String, String> = fs::read_dir(logged.directory.path())
        .expect("the directory of the log")
        .map(|entry| entry.expect("an entry"))
        .map(|entry| {
            let name = entry.file_name().into_string().expect("UTF-8");
            (name, fs::read_to_string(entry.path()).expect("a log"))
        })
        .collect();
    let names: Vec<&String> = files.keys().collect();
    assert_eq!(names, ["log", "log.1", "log.2", "log.3"], "{arch}");
    assert!(files.values().all(|text| (1..=64 * 1024).contains(&text.len())), "{arch}");
    // From the oldest on, nothing is missing up to the last.
    let text = ["log.3", "log.2", "log.1", "log"].map(|name| files[name].as_str()).concat();
    let numbers: Vec<usize> = text
        .lines()
        .map(|line| line.strip_suffix(&tail).expect("a whole line"))
        .map(|line| line.trim_end_matches('-').parse().expect("a number"))
        .collect();
    assert_eq!(numbers, (numbers[0]..500).collect::<Vec<_>>(), "{arch}");
}

#[test]
fn a_log_that_is_too_old_is_put_aside() {
    on_every_architecture(|arch| {
        let mut logged = Logged::start(arch, "log", &["log.rotate-age=1s"], |_| {});
        logged.ask(0, 3);
        wait_for(arch, || logged.path("log.1").exists().then_some(()));
        logged.ask(3, 3);
        logged.stop();
        let names = ["log", "log.1", "log.2", "log.3"].map(|name| logged.path(name));
        let files: Vec<PathBuf> = names.into_iter().filter(|path| path.exists()).collect();
        assert_eq!(logged.numbers(&files), [0, 1, 2, 3, 4, 5], "{arch}");
    });
}

#[test]
fn a_log_process_that_dies_is_started_again_and_what_waits_is_written() {
    let mut logged = Logged::start("sped", "log", &[], |_| {});
    logged.ask(0, 10);
    assert_eq!(logged.wait_for_counter("access_log_lines", 10), 10);
    // The log process is the first child of the master.
    let before = children(logged.server.master());
    signal(before[0], "KILL");
    logged.ask(10, 10);
    assert_eq!(logged.wait_for_counter("access_log_lines", 20), 20);
    logged.stop();
    assert_eq!(logged.numbers(&[logged.path("log")]), (0..20).collect::<Vec<_>>());
}

#[test]
fn lines_that_a_killed_worker_had_gathered_count_as_lost() {
    for arch in ["sped", "mt", "uring", "watpipe"] {
        if !architectures().contains(&arch) {
            continue;
        }
        let logged = Logged::start(arch, "log", &[], |_| {});
        let mut client = logged.server.connect();
        ask(&mut client, 0, 100);
        // It has published what it has gathered, and not waited for a second yet.
        assert_eq!(logged.wait_for_counter("responses_2xx", 100), 100, "{arch}");
        // The log process, the worker and the admin process.
        signal(logged.server.children(3)[1], "KILL");
        let of = |name| logged.server.counter(name);
        let is_told = || (of("access_log_lines") + of("access_log_lost") == 100).then_some(());
        wait_for(arch, is_told);
    }
}

#[test]
fn signals_to_the_log_process_and_to_workers_end_neither() {
    let mut logged = Logged::start("sped", "log", &[], |_| {});
    // The log process, a worker and the admin process.
    let all = logged.server.children(3);
    all.iter().for_each(|process| signal(*process, "USR1"));
    let log = all[0];
    signal(log, "TERM");
    signal(log, "INT");
    logged.ask(0, 5);
    assert_eq!(logged.wait_for_counter("access_log_lines", 5), 5);
    assert_eq!(logged.server.children(3), all);
    logged.stop();
}

#[test]
fn each_line_of_json_is_an_object_whatever_is_asked_for() {
    for arch in SOME {
        let mut logged = Logged::start(arch, "log", &["log.format=json"], |_| {});
        let mut client = logged.server.connect();
        let mut hostile =
            b"GET /a\"%22?\\&%0a HTTP/1.1\r\nHost: localhost\r\nUser-Agent: ".to_vec();
        hostile.extend((1..=255u8).filter(|byte| *byte >= b' ' && *byte != 0x7f));
        hostile.extend(b"\r\nReferer: \"},{\"\r\n\r\n");
        client.ask(hostile);
        drop(client);
        let mut refused = logged.server.connect();
        refused.ask("BAD\r\n\r\n");
        drop(refused);
        logged.stop();
        let text = fs::read_to_string(logged.path("log")).expect("a log");
        let mut lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        lines.sort_by_key(|line| line["method"].as_str().map(str::len));
        assert_eq!(lines.len(), 2, "{arch}: {text}");
        assert_eq!((&lines[0]["status"], &lines[0]["end"]), (&400.into(), &"refused".into()));
        assert!(lines[0]["bytes_sent"].as_u64() > Some(0) && lines[0]["request_us"].is_null());
        let line = &lines[1];
        assert_eq!((&line["path"], &line["query"]), (&"/a\"%22".into(), &"\\&%0a".into()));
        assert_eq!((&line["referer"], &line["host"]), (&"\"},{\"".into(), &"localhost".into()));
        let agent = line["user_agent"].as_str().expect("a string");
        assert!(agent.chars().map(u32::from).eq((0x21..=0xff).filter(|c| *c != 0x7f)), "{agent}");
        assert!(line["duration_us"].is_u64() && line["status"].is_u64(), "{arch}: {line}");
        assert!(line["request_us"].as_u64() >= line["first_byte_us"].as_u64(), "{arch}: {line}");
        assert!(line["first_byte_us"].is_u64() && line["backend_us"].is_null(), "{arch}: {line}");
        assert_eq!((&line["end"], &line["sent"]), (&"whole".into(), &line["bytes_sent"]));
        assert_eq!(line["remote_addr"], "127.0.0.1");
        let time = line["time"].as_str().expect("a string");
        assert!(time.len() == 20 && time.ends_with('Z') && &time[10..11] == "T", "{time}");
    }
}
