//! The clock of the day jumps under a server that runs: what tells the time follows, and nothing
//! else notices.

#![cfg(target_arch = "x86_64")]

use std::path::Path;
use std::time::{Duration, SystemTime};

use flyball_testkit::foreign_clock::set_ahead;
use flyball_testkit::{Client, Response};

use crate::common::{
    Launch, Server, Site, architectures, children, get, signal, text, wait_for, within,
};

const DAY_S: i64 = 24 * 60 * 60;

/// How far `Date` may be off: its clock is read at most every second, and the test takes its time.
const OFF_S: i64 = 10;

/// The master and all below it.
fn all_of(server: &Server) -> Vec<u32> {
    let mut all = vec![server.master()];
    let mut at = 0;
    while at < all.len() {
        all.extend(children(all[at]));
        at += 1;
    }
    all
}

/// The whole server believes that it is so much later, or earlier, from one moment to the next.
fn jump(server: &Server, seconds: i64) {
    let all = all_of(server);
    for process in &all {
        signal(*process, "STOP");
    }
    for process in &all {
        set_ahead(*process, seconds);
    }
    for process in &all {
        signal(*process, "CONT");
    }
}

/// Seconds since 1970 in a date of HTTP (RFC 9110, section 5.6.7), as `date` reads it.
fn seconds(date: &str) -> i64 {
    let output = std::process::Command::new("date").args(["-u", "-d", date, "+%s"]).output();
    let text = String::from_utf8(output.expect("date runs").stdout).expect("digits");
    text.trim().parse().unwrap_or_else(|_| panic!("{date:?} is no date"))
}

/// Waits until `Date` is so far ahead on this connection, which answers meanwhile.
fn expect_ahead(client: &mut Client, ahead_s: i64) {
    wait_for("Date to jump", || {
        let response: Response = client.ask(get("/page"));
        assert_eq!((response.status(), response.text()), (200, "page"));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        let off = seconds(response.expect("Date")) - now.as_secs() as i64 - ahead_s;
        (off.abs() <= OFF_S).then_some(())
    });
}

/// The lines of the access log, and of what of it was put aside.
fn logged(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("it is there").flatten();
    let is_log = |path: &Path| text(path).contains("access.log");
    let files = entries.map(|entry| entry.path()).filter(|path| is_log(path));
    let lines = files.flat_map(|path| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    });
    lines.collect()
}

#[test]
#[ignore = "full tier"]
fn a_clock_that_jumps_moves_dates_and_no_deadline() {
    for arch in architectures() {
        let site = Site::with(&[("page", b"page"), ("changes", b"before")]);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let log = within(&directory, "access.log");
        let server = Launch::new(&site, arch)
            .workers_for(arch, 8)
            .args(&["--access-log", text(&log)])
            .set("log.rotate-age=1440h")
            .set("log.keep=1000")
            .set("timeout.head=10min")
            .start();
        let mut kept = server.connect();
        expect_ahead(&mut kept, 0);
        // One in the middle of a head, one that is idle, and a file that is cached.
        let (mut slow, mut idle) = (server.connect(), server.connect());
        slow.send("GET /page HTTP/1.1\r\n");
        assert_eq!(idle.ask(get("/changes")).text(), "before");

        // What is put aside by its age has something in it.
        wait_for("the first lines", || (!logged(directory.path()).is_empty()).then_some(()));

        for days in [400, -400] {
            jump(&server, days * DAY_S);
            expect_ahead(&mut kept, days * DAY_S);
            idle.expect_silence(Duration::from_millis(50));
            slow.send("X: y\r\n");
            slow.expect_silence(Duration::from_millis(50));
            // A file that has changed now is not the cached one, whatever day it is.
            let content = format!("after {days}");
            let (next, changes) = (site.path().join("next"), site.path().join("changes"));
            std::fs::write(&next, &content).expect("it can be written");
            std::fs::rename(next, changes).expect("it takes the other's place");
            wait_for("the new content", || {
                (idle.ask(get("/changes")).text() == content).then_some(())
            });
            expect_ahead(&mut server.connect(), days * DAY_S);
            // The log goes on, with the day that each request had.
            assert_eq!(idle.ask(get(&format!("/at{days}"))).status(), 404, "{arch}");
            let line = format!("GET /at{days} ");
            wait_for("the line", || {
                logged(directory.path()).iter().any(|said| said.contains(&line)).then_some(())
            });
        }
        slow.send("Host: localhost\r\n\r\n");
        assert_eq!(slow.response().text(), "page", "{arch}");

        let years: std::collections::BTreeSet<String> = logged(directory.path())
            .iter()
            .filter_map(|line| Some(line.split_once('[')?.1.get(7..11)?.to_owned()))
            .collect();
        assert!(years.len() >= 3, "{arch}: {years:?}");
        // It was put aside when it had become too old, and not by a jump back.
        assert!(directory.path().join("access.log.1").exists(), "{arch}");
        let said = server.errors.so_far();
        assert!(!said.contains("ended by"), "{arch}: {said}");
    }
}
