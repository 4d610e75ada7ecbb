//! What an idle connection costs, and that ten thousand of them disturb no other.
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::common::{Launch, Server, Site, anonymous_bytes, get, has, wait_for};
use flyball_testkit::{Client, skip, wait};

/// Connections that have had an answer and wait.
const IDLE: usize = 10_000;

/// Connections that are busy meanwhile.
const ACTIVE: usize = 64;

/// Threads that keep them busy, and how long each waits before it asks on all of its own again:
/// ten thousand are opened meanwhile on the same processors.
const DRIVERS: usize = 4;
const ASKS_EVERY: Duration = Duration::from_millis(5);

/// The budget: bytes of user memory for each idle connection, preallocation included.
const BYTES_PER_IDLE_MAX: u64 = 640;

/// Descriptors that the test and the server each need; the server keeps some for its caches.
const DESCRIPTORS: u64 = 12_000;

#[test]
#[ignore = "full tier"]
fn ten_thousand_idle_connections_cost_little_and_disturb_nobody() {
    if !has("prlimit") || !may_open(DESCRIPTORS) {
        return;
    }
    // One after the other: each needs all the descriptors.
    for arch in ["sped", "watpipe", "uring"] {
        if flyball_arch::find(arch).is_none_or(|arch| arch.probe().is_err()) {
            skip(&format!("{arch} cannot run here"));
            continue;
        }
        idle_connections_cost_little_and_disturb_nobody(arch);
    }
}

fn idle_connections_cost_little_and_disturb_nobody(arch: &str) {
    let site = Site::with(&[("small.txt", &[b'x'; 1024])]);
    // The tag of a young file is another later, and longer or shorter.
    let file =
        File::options().write(true).open(site.path().join("small.txt")).expect("it is there");
    file.set_modified(SystemTime::now() - Duration::from_secs(60)).expect("it has a time");
    // On a busy machine it takes long to open so many, and then to ask on each.
    let launch = Launch::new(&site, arch).workers_for(arch, 1).set("timeout.idle=10min");
    let server = launch.set("timeout.head=10min").start();
    let worker = server.worker();
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let progress = |rounds: u64| {
        let target = answered.load(Ordering::Relaxed) + rounds * ACTIVE as u64;
        let reached = || (answered.load(Ordering::Relaxed) >= target).then_some(());
        wait_for("answers to the active connections", reached);
    };
    std::thread::scope(|scope| {
        let drivers: Vec<_> = (0..DRIVERS)
            .map(|_| scope.spawn(|| keep_busy(&server, ACTIVE / DRIVERS, &stop, &answered)))
            .collect();
        let _stop = StopOnDrop(&stop);
        progress(20);
        let before = anonymous_bytes(worker);
        let answer_bytes = answer_bytes(&server);
        let mut idle: Vec<TcpStream> = (0..IDLE).map(|_| open_idle(&server)).collect();
        for stream in &mut idle {
            ask(stream, answer_bytes);
        }
        progress(20);
        let after = anonymous_bytes(worker);
        let each = after.saturating_sub(before) / IDLE as u64;
        println!(
            "{arch}: {each} bytes for each of {IDLE} idle connections, {before} before and \
             {after} after"
        );
        assert!(each <= BYTES_PER_IDLE_MAX, "{arch}: {each} bytes for each idle connection");
        assert!(after > before, "the memory that {IDLE} connections take is not seen");
        // None of them was given up, and each can be taken up again.
        for stream in &mut idle {
            ask(stream, answer_bytes);
        }
        progress(20);
        stop.store(true, Ordering::Relaxed);
        for driver in drivers {
            driver.join().expect("no active connection fails");
        }
    });
}

/// Lets the drivers end when the test fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether this process may open that many descriptors, after its soft limit was raised.
fn may_open(descriptors: u64) -> bool {
    let own = std::process::id().to_string();
    let raise = |limit: &str| {
        let limit = format!("--nofile={limit}");
        let status = Command::new("prlimit").args(["--pid", &own, &limit]).status();
        status.is_ok_and(|status| status.success())
    };
    let hard = std::fs::read_to_string("/proc/self/limits").expect("a process has limits");
    let hard = hard.lines().find_map(|line| line.strip_prefix("Max open files"));
    let hard = hard.and_then(|line| line.split_whitespace().nth(1)).unwrap_or("0").to_string();
    let enough = hard.parse().map_or(hard == "unlimited", |limit: u64| limit >= descriptors);
    if !enough || !raise(&format!("{descriptors}:{hard}")) {
        skip(&format!("{descriptors} descriptors are needed, and {hard} are allowed"));
        return false;
    }
    true
}

/// Requests on these connections, all at once and again after a moment, until told to stop.
fn keep_busy(server: &Server, count: usize, stop: &AtomicBool, answered: &AtomicU64) {
    let mut clients: Vec<Client> = (0..count).map(|_| server.connect()).collect();
    while !stop.load(Ordering::Relaxed) {
        for client in &mut clients {
            client.send(get("/small.txt"));
        }
        for client in &mut clients {
            assert_eq!(client.response().body.len(), 1024);
            answered.fetch_add(1, Ordering::Relaxed);
        }
        wait::dawdle(ASKS_EVERY);
    }
}

/// How long the answer is, head included; every one is as long.
fn answer_bytes(server: &Server) -> usize {
    let response = server.connect().ask(get("/small.txt"));
    response.head.len() + response.body.len()
}

/// A connection without a buffer, which ten thousand could not have.
fn open_idle(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", server.port)).expect("the server listens");
    stream.set_read_timeout(Some(wait::DEADLINE)).expect("a time-out can be set");
    stream
}

fn ask(stream: &mut TcpStream, answer_bytes: usize) {
    stream.write_all(get("/small.txt").as_bytes()).expect("the request is sent");
    let mut answer = vec![0; answer_bytes];
    stream.read_exact(&mut answer).expect("a whole answer");
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{:?}", String::from_utf8_lossy(&answer));
}
