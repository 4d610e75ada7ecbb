//! What a loop does that governs itself: phases end when their time is over, and what is left over
//! goes on.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use crate::common::trace::{Traced, tally};
use crate::common::{Launch, Server, Site, get, has, signal, stop_at_rest, wait_for};
use flyball_testkit::Client;

/// Connections that ask at once, and how much each asks for: a loop takes longer for so many than a
/// phase may last.
const CLIENTS: usize = 200;
const REQUESTS: usize = 16;

fn server(arch: &str, settings: &[&str]) -> (Site, Server) {
    let site = Site::with(&[("small.txt", b"small")]);
    let launch =
        Launch::new(&site, arch).workers_for(arch, CLIENTS).args(&["--admin", "127.0.0.1:0"]);
    let launch = settings.iter().fold(launch, |launch, setting| launch.set(setting));
    let server = launch.start();
    (site, server)
}

/// All of them ask while the worker stands still, and each is answered. How many work phases ended
/// because their time was over.
fn ask_at_once(server: &Server) -> u64 {
    let worker = server.told_worker();
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask(get("/small.txt")).status(), 200);
    }
    let before = server.counter("work_time_over");
    stop_at_rest(worker);
    clients.iter_mut().for_each(|client| client.send(get("/small.txt").repeat(REQUESTS)));
    signal(worker, "CONT");
    for client in &mut clients {
        for _ in 0..REQUESTS {
            assert_eq!(client.response().status(), 200);
        }
    }
    let answered = (CLIENTS + CLIENTS * REQUESTS) as u64;
    wait_for("all to be counted", || (server.counter("requests") >= answered).then_some(()));
    server.counter("work_time_over") - before
}

#[test]
fn a_work_phase_whose_time_is_over_leaves_the_others_for_the_next() {
    for arch in ["sped", "amped"] {
        for events in ["events=epoll", "events=epoll-edge", "events=poll"] {
            let settings = ["governor.mode=on", "turn.work-time=1ms", events];
            let (_site, server) = server(arch, &settings);
            assert!(ask_at_once(&server) > 0, "{arch} {events}");
        }
    }
}

#[test]
fn a_loop_that_is_not_governed_has_no_bounds_in_time() {
    for settings in [
        ["governor.mode=off", "turn.work-time=1ms"],
        ["governor.mode=watch", "turn.work-time=1ms"],
        ["governor.mode=on", "turn.work-time=off"],
    ] {
        let (_site, server) = server("sped", &settings);
        assert_eq!(ask_at_once(&server), 0, "{settings:?}");
    }
}

#[test]
fn an_accept_limit_that_is_left_to_a_governor_that_is_not_there_is_the_default() {
    for (mode, holds) in [("off", "16"), ("watch", "16"), ("on", "auto")] {
        let mode = format!("governor.mode={mode}");
        let (_site, server) = server("sped", &[&mode, "accept.limit=auto"]);
        assert_eq!(server.status()["accept_limit"], holds, "{mode}");
        let mut clients: Vec<Client> = (0..40).map(|_| server.connect()).collect();
        for client in &mut clients {
            assert_eq!(client.ask(get("/small.txt")).status(), 200);
        }
    }
}

/// Connections of which each is work for some milliseconds, all of it in the loop: so many requests
/// for what no cache holds.
const HEAVY: usize = 300;
const LOOKS: usize = 400;

fn governed(arch: &str, workers: &str, mode: &str) -> (Site, Server) {
    let site = Site::with(&[("small.txt", b"small")]);
    let launch = Launch::new(&site, arch).args(&["--admin", "127.0.0.1:0", "--workers", workers]);
    let launch = ["accept.limit=auto", "accept.backlog=1000", "governor.target=8ms"]
        .iter()
        .chain(&["cache.paths=0", "cache.files=0"])
        .fold(launch, |launch, setting| launch.set(setting));
    let server = launch.set(&format!("governor.mode={mode}")).start();
    (site, server)
}

/// Connects and asks for so much.
fn ask_for_work(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("it listens");
    let one = "HEAD /small.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let last = "HEAD /small.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let asked = one.repeat(LOOKS - 1) + last;
    stream.write_all(asked.as_bytes()).expect("it is sent");
    stream
}

/// Reads all answers.
fn expect_all(mut stream: TcpStream) {
    let mut answers = String::new();
    stream.read_to_string(&mut answers).expect("the answers");
    assert_eq!(answers.matches("HTTP/1.1 200").count(), LOOKS);
}

/// Asks for work again and again until the log says this: a machine may take in clients as fast as
/// they come.
fn overload(server: &Server, told: &str) {
    wait_for("an overload", || {
        let clients: Vec<TcpStream> = (0..HEAVY).map(|_| ask_for_work(server)).collect();
        clients.into_iter().for_each(expect_all);
        server.errors.so_far().contains(told).then_some(())
    });
}

/// The lengths that the accept queues may have.
fn queue_limits(server: &Server) -> Vec<u64> {
    let status = server.status();
    let queues = status["accept_queues"].as_array().expect("a list").iter();
    queues.map(|queue| queue["limit"].as_u64().expect("a number")).collect()
}

#[test]
fn the_accept_queue_of_an_overloaded_loop_is_bounded_in_time() {
    for arch in ["sped", "n-copy"] {
        let (_site, server) = governed(arch, "1", "on");
        assert_eq!(queue_limits(&server), [1_000]);
        // Who waits already keeps his place.
        overload(&server, "governor: overload 0 -> 1: the head of");
        wait_for("a shorter queue", || (queue_limits(&server)[0] < 1_000).then_some(()));
        assert!(server.counter("overloads") > 0 && server.counter("governor_moves") > 1);
    }
}

#[test]
fn a_queue_that_is_only_watched_or_shared_keeps_its_length() {
    for (arch, workers, mode) in [("sped", "1", "watch"), ("symped", "2", "on")] {
        let (_site, server) = governed(arch, workers, mode);
        let watched = if mode == "watch" { " (watched)" } else { "" };
        overload(&server, &format!("governor{watched}: overload 0 -> 1"));
        assert_eq!(queue_limits(&server), [1_000], "{arch} {mode}");
    }
}

/// How many clients give up.
const GONE: usize = 50;

/// How long a client is silent before it counts as gone, and a little more.
const SILENT: Duration = Duration::from_millis(1_100);

#[test]
fn who_has_gone_is_not_served_by_a_loop_that_is_overloaded() {
    for (mode, discards) in [("on", true), ("watch", false)] {
        let (_site, server) = governed("sped", "1", mode);
        let worker = server.told_worker();
        stop_at_rest(worker);
        let clients: Vec<TcpStream> = (0..HEAVY).map(|_| ask_for_work(&server)).collect();
        let gone: Vec<TcpStream> = (0..GONE).map(|_| ask_for_work(&server)).collect();
        for stream in &gone {
            stream.shutdown(Shutdown::Write).expect("it is closed");
        }
        let since = Instant::now();
        wait_for("their silence", || (since.elapsed() > SILENT).then_some(()));
        signal(worker, "CONT");
        clients.into_iter().for_each(expect_all);
        let accepted = (HEAVY + GONE) as u64;
        wait_for("all of them", || (server.counter("accepted") >= accepted).then_some(()));
        let discarded = server.status()["closed"]["discarded"].as_u64().expect("a counter");
        assert_eq!(discarded > 0, discards, "{mode}: {discarded}");
    }
}

/// Requests whose calls are counted.
const ROUNDS: usize = 50;

/// Looks of a governor at an accept queue, per listening socket: its length, and what was dropped.
const LOOK: usize = 2;

#[test]
fn a_request_to_a_loop_that_governs_itself_makes_no_call_more() {
    if !has("strace") {
        return;
    }
    let site = Site::with(&[("small.txt", b"small")]);
    for arch in ["sped", "symped", "n-copy", "amped"] {
        let settings = ["governor.mode=on", "accept.limit=auto"];
        let traced = Traced::start(&site, arch, &settings);
        let mut client = traced.warm("/small.txt");
        let start = Instant::now();
        let calls = traced.calls(&mut client, |client| {
            for _ in 0..ROUNDS {
                assert_eq!(client.ask(get("/small.txt")).body, b"small");
            }
        });
        // A loop that is busy, as it seems to be while each of its calls is told, looks ten times
        // in a second.
        let windows = start.elapsed().as_millis() as usize / 100 + 1;
        let mut counts = tally(&calls);
        counts.remove("wait");
        let looks = counts.remove("getsockopt").unwrap_or(0);
        let budget = BTreeMap::from([("read", ROUNDS), ("write", ROUNDS)]);
        assert_eq!(counts, budget, "{arch}, {ROUNDS} requests: {calls:#?}");
        assert!(looks <= LOOK * windows, "{arch}: {looks} looks in {windows} windows");
    }
}
