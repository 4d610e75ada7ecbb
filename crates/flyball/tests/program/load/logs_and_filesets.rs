//! `flyball load` with requests out of logs and sets of files, against a real server.

use std::fs;

use crate::common::generator::{fileset, load, report, run, server_of};
use flyball_testkit::Site;

#[test]
fn sessions_of_a_log_are_asked_for_whole_and_wrong_lines_are_told() {
    let site = Site::new();
    fs::write(site.root().join("a.txt"), "a").unwrap();
    let server = server_of(&site.root());
    let log = tempfile::NamedTempFile::new().unwrap();
    let text = "# one session\n/a.txt think=0.01\n  /a.txt\n/none\nwrong\n";
    fs::write(log.path(), text).unwrap();
    let (file, url) = (log.path().display().to_string(), format!("http://{}/", server.address()));
    let asked = ["--sessions", "20", "--duration", "500ms", "--json", "--wsesslog", &file, &url];
    let output = load(&asked);
    let found = report(&output);
    assert_eq!((&found["sessions"], &found["sessions_complete"]), (&10.into(), &10.into()));
    assert_eq!((&found["status"]["200"], &found["status"]["404"]), (&20.into(), &10.into()));
    assert_eq!(found["connections"], 10, "a session has one connection: {found}");
    assert!(found["notes"].to_string().contains("line 5: it begins with no path"), "{found}");
    assert_eq!(found["skipped_lines"], 1);
    let output = load(&[&["--strict"], &asked[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("line 5: it begins with no path"), "{errors}");
}

#[test]
fn a_log_is_replayed_in_order_and_by_its_times() {
    let site = Site::new();
    fs::write(site.root().join("a b.txt"), "a").unwrap();
    let server = server_of(&site.root());
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut text = Vec::new();
    for second in 10..15 {
        let line = format!("c - - [01/Jul/1995:00:00:{second} -0400] \"GET /a b.txt\" 200 -\n");
        text.extend_from_slice(line.as_bytes());
    }
    text.extend_from_slice(b"\xff\n d - - [01/Jul/1995:00:00:14 -0400] \"GET /\xe4\" 404 -\n");
    fs::write(log.path(), text).unwrap();
    let (file, url) = (log.path().display().to_string(), format!("http://{}/", server.address()));
    let found = report(&load(&["--replay-times=x20", "--json", "--log", &file, &url]));
    assert_eq!((&found["mode"], &found["load"]), (&"replay".into(), &"x20".into()));
    assert_eq!((&found["intended"], &found["replies"]), (&6.into(), &6.into()), "{found}");
    assert_eq!(found["status"]["200"], 5, "{found}");
    let duration = found["duration_s"].as_f64().unwrap();
    assert!((duration - 0.201).abs() < 1e-6, "four seconds at twenty times the speed: {duration}");
    assert!(found["notes"].to_string().contains("1 line was skipped: line 6"), "{found}");
    let output = load(&["--strict", "--replay-times=x20", "--log", &file, &url]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains(&format!("flyball: {file}: line 6: ")), "{errors}");
    let grouped = ["--client-gap", "10s", "--replay-times=x20", "--json", "--log", &file, &url];
    let found = report(&load(&grouped));
    assert_eq!((&found["sessions"], &found["replies"]), (&2.into(), &6.into()), "{found}");
    assert_eq!(found["requests_per_session"], 3.0, "{found}");
}

/// A record of the World Cup's logs: `GET object`, answered by HTTP/1.0 with 200.
fn record(second: u32, object: u32) -> Vec<u8> {
    let (client, size) = (7_u32, 1_u32);
    let numbers = [898_000_000 + second, client, object, size];
    let (method, status, kind, server) = (0, 1 << 6 | 2, 1, 0);
    [&numbers.map(u32::to_be_bytes).concat()[..], &[method, status, kind, server]].concat()
}

#[test]
fn binary_records_of_a_log_are_asked_for() {
    let site = Site::new();
    fs::write(site.root().join("57"), "a").unwrap();
    let server = server_of(&site.root());
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut records: Vec<u8> =
        [(0, 57), (1, 57), (2, 58)].map(|(at, name)| record(at, name)).concat();
    records.push(0);
    fs::write(log.path(), records).unwrap();
    let (file, url) = (log.path().display().to_string(), format!("http://{}/", server.address()));
    let found = report(&load(&["--replay-times=x20", "--json", "--log", &file, &url]));
    assert_eq!(
        (&found["status"]["200"], &found["status"]["404"]),
        (&2.into(), &1.into()),
        "{found}"
    );
    assert!(found["notes"].to_string().contains("record 4: it is cut off"), "{found}");
}

#[test]
fn a_mix_is_judged_by_its_set_and_a_set_of_another_seed_stops_before_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    for (name, seed) in [("one", "1"), ("two", "2")] {
        fileset(&["specweb99", &path(name), "--directories", "1", "--seed", seed]);
    }
    let server = server_of(path("one").as_ref());
    let url = format!("http://{}/", server.address());
    // However long that takes.
    let quick = ["--connections", "2", "--requests", "60", "--duration", "20s", "--json", &url];
    let own = path("one");
    let mix = ["--mix", "specweb99", "--surge=inactive-k=0.01,inactive-cap=0.02,active-cap=0.01"];
    let found = report(&load(&[&mix, &["--verify", "--fileset", &own], &quick[..]].concat()));
    assert_eq!((&found["qos"]["verdict"], &found["error_count"]), (&"pass".into(), &0.into()));
    assert!(found["workload"].to_string().contains("capped at 0.02 s"), "{found}");
    let paths = ["--mix", "specweb99", "--directories", "1"];
    let found = report(&load(&[&paths, &quick[..]].concat()));
    assert_eq!(found["workload"], "36 paths of specweb99", "{found}");
    assert_eq!(found["status"]["200"], found["replies"], "{found}");
    let (other, changed) = (path("two"), path("changed"));
    fileset(&["specweb99", &changed, "--directories", "1"]);
    fs::write(path("changed/file_set/dir00000/class0_0"), "changed").unwrap();
    for (arguments, why) in [
        (["--mix=specweb99", "--fileset", &changed], "class0_0 is not what seed 1 makes of it"),
        (["--verify", "--fileset", &other], "other than the set of files says"),
        (["--verify", "--mix", "s4"], "name its --fileset"),
        (["--mix=webstone", "--fileset", &own], "holds a set of specweb99"),
    ] {
        let output = load(&[&arguments, &quick[..]].concat());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(why), "{errors}");
    }
}

/// Bytes of a segment on an Ethernet, whose packets have time stamps.
const SEGMENT: u64 = 1_448;

#[test]
fn a_reply_with_the_one_packet_file_is_one_packet() {
    let directory = tempfile::tempdir().unwrap();
    let set = directory.path().join("set").display().to_string();
    fileset(&["one-packet", &set]);
    let server = server_of(set.as_ref());
    let url = format!("http://{}/", server.address());
    let quick = ["--rate", "50", "--duration", "200ms", "--timeout", "2min", "--json", "--verify"];
    let found = report(&load(&[&quick[..], &["--fileset", &set, &url]].concat()));
    assert_eq!((&found["replies"], &found["error_count"]), (&10.into(), &0.into()), "{found}");
    assert!((1_024..=SEGMENT).contains(&(found["bytes_in"].as_u64().unwrap() / 10)), "{found}");
}

#[test]
fn sessions_of_a_log_are_judged_by_the_set_that_they_ask_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let logs = ["--session-logs", &path("logs"), "--logs", "1", "--sessions", "40"];
    fileset(&[&["s4", &path("set"), "--directories", "1"], &logs[..]].concat());
    fileset(&["s4", &path("other"), "--directories", "1", "--seed", "2"]);
    let log = path("logs/sessions-01.log");
    // Without what its sessions think, which is minutes.
    let text = fs::read_to_string(&log).unwrap();
    let lines = text.lines().map(|line| line.split(" think=").next().unwrap_or_default());
    fs::write(&log, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let server = server_of(path("set").as_ref());
    let url = format!("http://{}/", server.address());
    let quick = ["--sessions", "40", "--duration", "500ms", "--json", "--verify", &url];
    let judged = |set: &str| load(&[&["--wsesslog", &log, "--fileset", set], &quick[..]].concat());
    let output = judged(&path("set"));
    let found = report(&output);
    assert_eq!((output.status.code(), &found["error_count"]), (Some(0), &0.into()), "{found}");
    assert_eq!(found["qos"]["verdict"], "pass", "{found}");
    let classes = found["classes"].as_array().unwrap();
    let replies: u64 = classes.iter().map(|class| class["replies"].as_u64().unwrap()).sum();
    assert_eq!((found["sessions"].as_u64(), found["replies"].as_u64()), (Some(20), Some(replies)));
    let output = judged(&path("other"));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("other than the set of files says"), "{errors}");
}

#[test]
fn a_log_cut_off_at_a_size_of_its_files_is_asked_for_with_the_files_that_were_made_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let line = |nth: usize, request: &str, outcome: &str| {
        format!("h - - [01/Jul/1995:00:00:{nth:02} -0400] \"GET {request} HTTP/1.0\" {outcome}\n")
    };
    let requests = [
        ("/a", "200 70000"),
        ("/b/", "200 900"),
        ("/no", "404 9"),
        ("/a", "304 -"),
        ("/c", "200 9"),
    ];
    let log: String =
        requests.iter().enumerate().map(|(nth, (asked, got))| line(nth, asked, got)).collect();
    fs::write(path("log"), log + "nothing of a log\n").unwrap();
    let (log, site) = (path("log"), path("site"));
    let cut = ["--log", &log, "--data-set", "70900"];
    let output = run("fileset", &[&["log", &site, "--strict"], &cut[..]].concat());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains(&format!("{log}: line 6: it has no [time]")), "{errors}");
    assert!(!fs::exists(&site).unwrap(), "nothing is made of it");
    let told = fileset(&[&["log", &site], &cut[..]].concat());
    assert!(told.starts_with("2 files with 70900 bytes of a log in "), "{told}");
    assert!(told.contains("1 line was skipped: line 6: it has no [time]"), "{told}");
    assert!(fs::read(path("site/b/index.html")).unwrap().starts_with(b"      900 b/index.html\n"));
    let server = server_of(site.as_ref());
    let url = format!("http://{}/", server.address());
    let quick = ["--connections", "2", "--requests", "60", "--json", "--verify-with", &site, &url];
    let output = load(&[&cut[..], &quick].concat());
    let found = report(&output);
    assert_eq!(
        (found["error_count"].as_u64(), output.status.code()),
        (Some(0), Some(0)),
        "{found}"
    );
    assert!(found["workload"].to_string().contains("3 sessions of "), "{found}");
    assert_eq!(found["status"]["200"], found["replies"], "{found}");
    // Another file of the same length: wrong from the beginning, and torn in its middle.
    let mut wrong = fs::read(path("site/a")).unwrap();
    wrong[60_000] ^= 1;
    fs::create_dir_all(path("other/b")).unwrap();
    fs::write(path("other/a"), wrong).unwrap();
    fs::write(path("other/b/index.html"), [b'x'; 900]).unwrap();
    let other = path("other");
    let quick = ["--connections", "2", "--requests", "60", "--json", "--verify-with", &other, &url];
    let output = load(&[&cut[..], &quick].concat());
    let found = report(&output);
    assert_eq!(output.status.code(), Some(3), "{found}");
    for kind in ["wrong_body", "torn_body"] {
        assert!(found["errors"][kind].as_u64().unwrap() > 0, "{kind}: {found}");
    }
    // So does a curve of which a rate had wrong bodies.
    let peak = ["--find-peak", "--rate", "200", "--duration", "50ms", "--timeout", "200ms"];
    let more = ["--quiet", "--json", "--verify-with", &other, &url];
    let output = load(&[&cut[..], &peak, &more].concat());
    assert_eq!(output.status.code(), Some(3), "{}", report(&output));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("/s: ") && errors.contains(" wrong bodies, "), "{errors}");
}
