//! The mechanisms that can be switched one by one: each is seen to do what it says, in the system
//! calls of a real worker, in its counters, or in what a client meets.
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::common::sockets::{answered_at_once, sockets_at, wait_for_unread};
use crate::common::trace::whole_lines;
use crate::common::{
    Launch, Server, Site, get, has, last_get, proc_status, signal, stop_at_rest, wait_for,
};
use flyball_testkit::Client;
use tempfile::TempDir;

/// What a client does so many times while it is counted.
const ROUNDS: usize = 10;

/// A body that no socket takes at once.
const LARGE_BYTES: usize = 900_000;

/// How long a call waits for a client before it gives up (`SO_SNDTIMEO`).
const WAIT_SECONDS: f64 = 0.5;

/// A piece that a call waits for, and what a sendfile says that has sent it.
const PIECE_BYTES: usize = 65_536;
const PIECE_SENT: &str = " = 65536";

/// Longer than a connection may be idle while others wait for its place.
const LONG_IDLE: Duration = Duration::from_millis(2_500);

/// A server that is traced from its start.
struct Traced {
    server: Server,
    log: PathBuf,
    _directory: TempDir,
}

impl Traced {
    /// A traced `sped`, or nothing where there is no strace.
    fn start(site: &Site, settings: &[&str]) -> Option<Traced> {
        if !has("strace") {
            return None;
        }
        let directory = tempfile::tempdir().expect("a temporary directory");
        let log = crate::common::within(&directory, "trace");
        let log_to = crate::common::text(&log);
        let strace = ["strace", "-f", "-qq", "-T", "-s", "64", "-o", log_to, "--"];
        let mut launch = Launch::under(&strace, site, "sped").set("cache.revalidate=1h");
        for setting in settings {
            launch = launch.set(setting);
        }
        let mut server = launch.start();
        let trace = std::fs::read_to_string(&log).expect("there is a trace");
        let master = trace.split_whitespace().next().and_then(|pid| pid.parse().ok());
        server.watches(master.expect("the trace begins with a process id"));
        Some(Traced { server, log, _directory: directory })
    }

    /// Everything that was traced so far, without the numbers of processes.
    fn lines(&self) -> Vec<String> {
        let trace = std::fs::read_to_string(&self.log).expect("there is a trace");
        whole_lines(&trace).into_iter().map(|(_, call)| call).collect()
    }

    /// A kept connection that was answered before.
    fn client(&self) -> Client {
        let mut client = self.server.connect();
        assert_eq!(client.ask(get("/small.txt")).status(), 200);
        client
    }

    /// The calls that `act` causes: those between the arrivals of two requests of `marker`.
    fn calls(&self, marker: &mut Client, act: impl FnOnce()) -> Vec<String> {
        assert_eq!(marker.ask(get("/begin")).status(), 404);
        act();
        assert_eq!(marker.ask(get("/end")).status(), 404);
        wait_for("the end in the trace", || {
            let lines = self.lines();
            let begin = lines.iter().position(|line| line.contains("\"GET /begin "))?;
            let end = lines.iter().position(|line| line.contains("\"GET /end "))?;
            // A wait that the tracer has interrupted is no call of the server.
            let calls = lines[begin + 1..end].iter();
            Some(calls.filter(|call| !call.starts_with("restart_syscall")).cloned().collect())
        })
    }
}

fn site() -> Site {
    let large: Vec<u8> = (0..LARGE_BYTES).map(|at| (at % 251) as u8).collect();
    Site::with(&[("small.txt", &[b'x'; 1024]), ("large.bin", &large)])
}

/// How long a call that was traced took.
fn seconds(call: &str) -> f64 {
    let time = call.rsplit_once('<').and_then(|(_, time)| time.strip_suffix('>'));
    time.and_then(|time| time.parse().ok()).expect("the time of a call")
}

/// How many of the calls have all of these words.
fn count(calls: &[String], words: &[&str]) -> usize {
    calls.iter().filter(|call| words.iter().all(|word| call.contains(word))).count()
}

/// The descriptor that a call is about.
fn descriptor(call: &str) -> i32 {
    let argument = call.split_once('(').and_then(|(_, rest)| rest.split([',', ')']).next());
    argument.and_then(|number| number.parse().ok()).expect("a call on a descriptor")
}

fn start(site: &Site, settings: &[&str]) -> Server {
    let launch = Launch::new(site, "sped").args(&["--admin", "127.0.0.1:0"]);
    settings.iter().fold(launch, |launch, setting| launch.set(setting)).start()
}

/// Reads once; a signal that interrupts a read with a time-out ends it early.
fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> Result<usize, ErrorKind> {
    loop {
        match stream.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            found => return found.map_err(|error| error.kind()),
        }
    }
}

/// What a connection for one request got: its first bytes, or how it ended without any.
fn outcome(server: &Server, request: &str) -> Result<usize, ErrorKind> {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("it accepts");
    stream.set_read_timeout(Some(flyball_testkit::wait::DEADLINE)).expect("a time-out");
    // It may be over already.
    let _ = stream.write_all(request.as_bytes());
    let found = read(&mut stream, &mut [0; 64]);
    assert_ne!(found, Err(ErrorKind::WouldBlock), "nothing came in time");
    found
}

fn was_answered(outcome: Result<usize, ErrorKind>) -> bool {
    outcome.is_ok_and(|bytes| bytes > 0)
}

/// In which order four connections are worked on that were reported as 2, 0, 3, 1 and worked on
/// before as 1, 3, 2, 0; they are named by their place in the order of descriptors.
fn worked_on(site: &Site, order: &str) -> Option<Vec<usize>> {
    let traced = Traced::start(site, &[&format!("experiment.work-order={order}")])?;
    let worker = traced.server.worker();
    let mut marker = traced.client();
    let mut clients: Vec<Client> = (0..4).map(|_| traced.client()).collect();
    let calls = traced.calls(&mut marker, || {
        for (at, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.ask(get(&format!("/name-{at}"))).status(), 404);
        }
    });
    let fd_of = |at: &usize| {
        let mark = format!("\"GET /name-{at} ");
        descriptor(calls.iter().find(|call| call.contains(&mark)).expect("it was read"))
    };
    let mut places: Vec<usize> = (0..4).collect();
    places.sort_by_key(fd_of);
    for place in [1, 3, 2, 0] {
        assert_eq!(clients[places[place]].ask(get("/small.txt")).status(), 200);
    }
    stop_at_rest(worker);
    for (sent, place) in (1..).zip([2, 0, 3, 1]) {
        clients[places[place]].send(get(&format!("/turn-{place}")));
        wait_for_unread(traced.server.port, sent);
    }
    signal(worker, "CONT");
    for client in &mut clients {
        assert_eq!(client.response().status(), 404);
    }
    let turn = |line: String| line.split_once("\"GET /turn-")?.1[..1].parse().ok();
    let seen = || Some(traced.lines().into_iter().filter_map(turn).collect::<Vec<usize>>());
    Some(wait_for("four turns", || seen().filter(|turns| turns.len() == 4)))
}

#[test]
#[ignore = "full tier"]
fn ready_connections_are_worked_on_in_the_order_that_is_asked_for() {
    let site = site();
    for (order, expected) in [
        ("fifo", [2, 0, 3, 1]),
        ("lifo", [1, 3, 0, 2]),
        ("up", [0, 1, 2, 3]),
        ("down", [3, 2, 1, 0]),
        ("writes-first-up", [0, 1, 2, 3]),
        ("writes-first-down", [3, 2, 1, 0]),
        ("lru", [1, 3, 2, 0]),
    ] {
        let Some(turns) = worked_on(&site, order) else { return };
        assert_eq!(turns, expected, "{order}");
    }
}

#[test]
fn accept_phases_happen_where_they_are_asked_for() {
    let site = site();
    for (setting, least) in [
        ("experiment.accept-extra=1", 1),
        ("experiment.accept-every-loop=true", 1),
        ("drain=9s", 0),
    ] {
        let Some(traced) = Traced::start(&site, &[setting]) else { return };
        let (mut marker, mut client) = (traced.client(), traced.client());
        let calls = traced.calls(&mut marker, || {
            for _ in 0..ROUNDS {
                assert_eq!(client.ask(get("/small.txt")).body.len(), 1024);
            }
        });
        let empty = count(&calls, &["accept4(", "EAGAIN"]);
        match least {
            0 => assert_eq!(empty, 0, "{setting}: {calls:#?}"),
            _ => assert!(empty >= ROUNDS, "{setting}: {empty} of {ROUNDS}: {calls:#?}"),
        }
    }
}

#[test]
fn an_extra_accept_phase_comes_after_as_many_turns_as_asked_for() {
    let site = site();
    let Some(traced) = Traced::start(&site, &["experiment.accept-extra=3"]) else { return };
    let worker = traced.server.worker();
    let mut marker = traced.client();
    let mut clients: Vec<Client> = (0..7).map(|_| traced.client()).collect();
    let calls = traced.calls(&mut marker, || {
        answered_at_once(worker, traced.server.port, &mut clients);
    });
    assert_eq!(count(&calls, &["accept4(", "EAGAIN"]), 2, "{calls:#?}");
}

#[test]
fn a_close_is_followed_by_an_accept_when_asked_for() {
    let site = site();
    // With limit 1 no accept phase looks at an empty queue.
    for (setting, expected) in
        [("experiment.accept-on-close=true", ROUNDS), ("experiment.accept-on-close=false", 0)]
    {
        let Some(traced) = Traced::start(&site, &["accept.limit=1", setting]) else { return };
        let mut marker = traced.client();
        let calls = traced.calls(&mut marker, || {
            for _ in 0..ROUNDS {
                let mut client = traced.server.connect();
                assert_eq!(client.ask(last_get("/small.txt")).status(), 200);
                client.expect_closed();
            }
        });
        let at_once =
            |pair: &&[String]| pair[0].starts_with("close(") && pair[1].starts_with("accept4(");
        // Other processes have calls in between.
        let is_of_loop = |call: &String| {
            ["close(", "accept4(", "epoll_"].iter().any(|own| call.starts_with(own))
        };
        let calls: Vec<String> = calls.into_iter().filter(is_of_loop).collect();
        let after_close = calls.windows(2).filter(at_once).count();
        assert_eq!(after_close, expected, "{setting}: {calls:#?}");
    }
}

#[test]
fn a_full_worker_accepts_again_at_its_threshold() {
    let site = site();
    for (threshold, after_one) in [(1, 6), (3, 5)] {
        let threshold = format!("accept.free-threshold={threshold}");
        let max = "connections.max=5";
        let keeps = "close.idle-when-full=false";
        let server = start(&site, &[max, keeps, "accept.defer=false", &threshold]);
        let mut clients: Vec<Client> = (0..5).map(|_| server.connect()).collect();
        for client in &mut clients {
            assert_eq!(client.ask(get("/small.txt")).status(), 200);
        }
        let mut waiting = server.connect();
        waiting.send(get("/small.txt"));
        // The worker has seen it, is full, and leaves it in the queue.
        server.errors.wait_for("the pause", |text| text.contains("accepting is paused"));
        let closed = |count: u64| {
            wait_for("closed connections", || {
                (server.status()["closed"]["client-done"] == count).then_some(())
            });
        };
        drop(clients.pop());
        closed(1);
        for _ in 0..ROUNDS {
            assert_eq!(clients[0].ask(get("/small.txt")).status(), 200);
        }
        if after_one == 6 {
            assert_eq!(waiting.response().status(), 200);
        }
        wait_for("those that were accepted to be counted", || {
            (server.counter("accepted") == after_one).then_some(())
        });
        clients.truncate(2);
        closed(3);
        if after_one == 5 {
            assert_eq!(waiting.response().status(), 200);
        }
    }
}

#[test]
fn without_eager_writes_each_answer_waits_for_room_to_be_reported() {
    let site = site();
    for (setting, expected) in
        [("experiment.eager-write=false", ROUNDS), ("experiment.eager-write=true", 0)]
    {
        let Some(traced) = Traced::start(&site, &[setting]) else { return };
        let (mut marker, mut client) = (traced.client(), traced.client());
        let calls = traced.calls(&mut marker, || {
            for _ in 0..ROUNDS {
                assert_eq!(client.ask(get("/small.txt")).body.len(), 1024);
            }
        });
        let asked = count(&calls, &["epoll_ctl(", "EPOLLOUT"]);
        assert!((expected..=expected * 2).contains(&asked), "{setting}: {asked}: {calls:#?}");
    }
}

#[test]
fn a_full_read_goes_on_until_it_would_block() {
    let site = site();
    for (setting, expected) in
        [("experiment.full-read=true", ROUNDS), ("experiment.full-read=false", 0)]
    {
        let Some(traced) = Traced::start(&site, &[setting]) else { return };
        let worker = traced.server.worker();
        let mut marker = traced.client();
        let mut clients: Vec<Client> = (0..ROUNDS).map(|_| traced.client()).collect();
        let calls = traced.calls(&mut marker, || {
            stop_at_rest(worker);
            for client in &mut clients {
                client.send(get("/small.txt"));
            }
            signal(worker, "CONT");
            for client in &mut clients {
                assert_eq!(client.response().status(), 200);
            }
        });
        // The marker's own answer may be followed by one too.
        let of_marker = usize::from(expected > 0);
        let empty = count(&calls, &["recvfrom(", "EAGAIN"]);
        let expected = expected..=expected + of_marker;
        assert!(expected.contains(&empty), "{setting}: {empty}: {calls:#?}");
    }
}

#[test]
fn a_share_of_connections_is_rejected_evenly() {
    let site = site();
    let server = start(&site, &["experiment.reject-rate=25"]);
    let answered: Vec<bool> =
        (0..8).map(|_| was_answered(outcome(&server, &last_get("/small.txt")))).collect();
    assert_eq!(answered, [true, true, true, false, true, true, true, false]);
    wait_for("the counter", || (server.status()["closed"]["lab-stage"] == 2).then_some(()));
}

#[test]
fn connections_are_closed_after_the_stage_that_is_named() {
    let site = site();
    let (good, malformed) = (last_get("/small.txt"), "GET\r\n\r\n");
    for (stage, reads, answers_malformed) in [
        ("off", true, true),
        ("accept", false, false),
        ("read", true, false),
        ("parse", true, true),
    ] {
        let server = start(&site, &[&format!("experiment.close-after={stage}")]);
        assert_eq!(was_answered(outcome(&server, &good)), stage == "off", "{stage}");
        assert_eq!(was_answered(outcome(&server, malformed)), answers_malformed, "{stage}");
        let closed = |status: &serde_json::Value| {
            let reasons = status["closed"].as_object().expect("reasons");
            reasons.values().filter_map(serde_json::Value::as_u64).sum::<u64>()
        };
        wait_for("two closed connections", || (closed(&server.status()) == 2).then_some(()));
        assert_eq!(server.counter("bytes_received") > 0, reads, "{stage}");
    }
}

#[test]
fn an_idle_connection_is_reset_when_asked_for() {
    let site = site();
    for (setting, expected) in
        [("close.reset=true", Err(ErrorKind::ConnectionReset)), ("close.reset=false", Ok(0))]
    {
        let server = start(&site, &["timeout.idle=200ms", setting]);
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("it accepts");
        stream.set_read_timeout(Some(flyball_testkit::wait::DEADLINE)).expect("a time-out");
        stream.write_all(get("/missing").as_bytes()).expect("it is sent");
        let mut answer = Vec::new();
        let mut piece = [0; 4096];
        let ended = loop {
            match read(&mut stream, &mut piece) {
                Ok(n) if n > 0 => answer.extend_from_slice(&piece[..n]),
                ended => break ended,
            }
        };
        assert!(answer.starts_with(b"HTTP/1.1 404 "), "{setting}");
        assert_eq!(ended, expected, "{setting}");
    }
}

#[test]
fn idle_connections_make_room_when_asked_for() {
    let site = site();
    let server = start(&site, &["connections.max=2", "close.idle-when-full=true"]);
    let mut clients: Vec<Client> = (0..2).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask(get("/small.txt")).status(), 200);
    }
    let mut newcomer = server.connect();
    assert_eq!(newcomer.ask(get("/small.txt")).status(), 200);
    // The first has waited longest.
    clients[0].expect_closed();
    assert_eq!(clients[1].ask(get("/small.txt")).status(), 200);
    wait_for("the reason", || (server.status()["closed"]["made-room"] == 1).then_some(()));
}

/// A connection that is accepted at once has not waited for another to end, however many come.
#[test]
#[ignore = "full tier"]
fn idle_connections_stay_while_there_is_room() {
    let site = site();
    for arch in ["sped", "mt", "thread-per-connection"] {
        let server = Launch::new(&site, arch).args(&["--admin", "127.0.0.1:0"]).start();
        let mut idle: Vec<Client> = (0..ROUNDS).map(|_| server.connect()).collect();
        for client in &mut idle {
            assert_eq!(client.ask(get("/small.txt")).status(), 200, "{arch}");
        }
        let since = Instant::now();
        while since.elapsed() < LONG_IDLE {
            assert_eq!(server.connect().ask(last_get("/small.txt")).status(), 200, "{arch}");
        }
        for client in &mut idle {
            assert_eq!(client.ask(get("/small.txt")).status(), 200, "{arch}");
        }
        assert_eq!(server.status()["closed"]["made-room"], 0, "{arch}");
    }
}

#[test]
fn a_pause_changes_the_watch_of_the_listeners_when_asked_for() {
    let site = site();
    for (setting, keeps) in
        [("experiment.modify-listeners=true", true), ("experiment.modify-listeners=false", false)]
    {
        let settings = ["connections.max=1", "close.idle-when-full=false", setting];
        let Some(traced) = Traced::start(&site, &settings) else { return };
        let client = traced.client();
        let mut waiting = traced.server.connect();
        waiting.send(get("/small.txt"));
        traced.server.errors.wait_for("the pause", |text| text.contains("accepting is paused"));
        drop(client);
        assert_eq!(waiting.response().status(), 200);
        let lines = traced.lines();
        let removed = count(&lines, &["epoll_ctl(", "EPOLL_CTL_DEL"]);
        let changed = count(&lines, &["epoll_ctl(", "EPOLL_CTL_MOD"]);
        assert_eq!((changed > 0, removed > 0), (keeps, !keeps), "{setting}: {lines:#?}");
    }
}

#[test]
fn a_cork_joins_a_head_and_its_body_when_asked_for() {
    let site = site();
    for mode in ["copy", "sendfile"] {
        let mode = format!("send.mode={mode}");
        let settings = ["experiment.cork=true", "cache.small=1KiB", "send.piece=64KiB", &mode];
        let Some(traced) = Traced::start(&site, &settings) else { return };
        let (mut marker, mut client) = (traced.client(), traced.client());
        let calls = traced.calls(&mut marker, || {
            assert_eq!(client.ask(get("/large.bin")).body.len(), LARGE_BYTES);
        });
        let place = |words: &[&str]| {
            calls.iter().position(|call| words.iter().all(|word| call.contains(word)))
        };
        let (corked, pulled) = (place(&["TCP_CORK", "[1]"]), place(&["TCP_CORK", "[0]"]));
        let head = place(&["\"HTTP/1.1 200 OK"]);
        assert!(corked.is_some() && corked < head && head < pulled, "{mode}: {calls:#?}");
        let with_flag = place(&["\"HTTP/1.1 200 OK", "MSG_MORE"]);
        assert_eq!(with_flag, None, "{mode}: {calls:#?}");
        assert_eq!(count(&calls, &["TCP_CORK"]), 2, "{mode}: {calls:#?}");
    }
}

#[test]
fn sockets_get_the_options_that_are_asked_for() {
    let site = site();
    // What is done until it is told that it serves: its workers do it again.
    let bound = |traced: Traced| -> Vec<String> {
        let lines = traced.lines().into_iter();
        lines.take_while(|line| !line.starts_with("write(1, \"serving")).collect()
    };
    let settings =
        ["send.no-delay=false", "send.buffer=40KB", "receive.buffer=30KB", "accept.defer=false"];
    let Some(lines) = Traced::start(&site, &settings).map(bound) else { return };
    for (option, value) in
        [("TCP_NODELAY", "[0]"), ("SO_SNDBUF", "[40000]"), ("SO_RCVBUF", "[30000]")]
    {
        assert_eq!(count(&lines, &["setsockopt(", option, value]), 1, "{option}: {lines:#?}");
    }
    let Some(lines) = Traced::start(&site, &[]).map(bound) else { return };
    assert_eq!(count(&lines, &["TCP_NODELAY", "[1]"]), 1, "{lines:#?}");
    assert_eq!(
        count(&lines, &["setsockopt(", "SO_SNDBUF"]) + count(&lines, &["setsockopt(", "SO_RCVBUF"]),
        0,
        "{lines:#?}"
    );
}

#[test]
fn a_buffer_that_the_kernel_cuts_is_told() {
    let site = site();
    let server = start(&site, &["send.buffer=512MiB"]);
    let told = server.errors.wait_for("the warning", |text| text.contains("send.buffer is"));
    assert!(told.contains("net.core.wmem_max cuts it"), "{told}");
}

#[test]
fn blocking_sendfile_waits_until_a_body_is_taken_and_nothing_else_waits() {
    let site = site();
    let common = ["send.mode=sendfile", "cache.small=1KiB", "send.buffer=64KiB"];
    for blocking in [true, false] {
        let setting = format!("send.blocking={blocking}");
        let settings: Vec<&str> = common.into_iter().chain([setting.as_str()]).collect();
        let Some(traced) = Traced::start(&site, &settings) else { return };
        let (mut marker, mut client) = (traced.client(), traced.client());
        let calls = traced.calls(&mut marker, || {
            client.send(get("/large.bin"));
            if !blocking {
                // Nothing is read before nothing more is taken.
                wait_for("a full socket", || {
                    let lines = traced.lines();
                    (count(&lines, &["epoll_ctl(", "EPOLLOUT"]) > 0).then_some(())
                });
            }
            assert_eq!(client.response().body.len(), LARGE_BYTES);
        });
        let all = traced.lines();
        let sent = calls.iter().filter(|call| call.starts_with("sendfile("));
        let sent: Vec<&String> = sent.collect();
        if blocking {
            // Each takes its piece, or gave up: the client was late. Only then is room waited for.
            let (_, all_but_the_last) = sent.split_last().expect("it is sent");
            let gave_up = all_but_the_last.iter().filter(|call| !call.contains(PIECE_SENT));
            let gave_up: Vec<f64> = gave_up.map(|call| seconds(call)).collect();
            let waited = gave_up.iter().all(|seconds| *seconds > WAIT_SECONDS / 2.0);
            assert!(waited, "it waits for all of {LARGE_BYTES} bytes: {calls:#?}");
            // A slow client holds the loop for no more than a piece.
            assert!(sent.len() >= LARGE_BYTES / PIECE_BYTES, "{calls:#?}");
            assert!(count(&calls, &["epoll_ctl("]) <= 2 * gave_up.len(), "{calls:#?}");
            assert_eq!(count(&all, &["accept4(", "SOCK_NONBLOCK"]), 0, "{all:#?}");
            for call in calls
                .iter()
                .filter(|call| call.starts_with("recvfrom(") || call.starts_with("sendto("))
            {
                assert!(call.contains("MSG_DONTWAIT"), "{call}");
            }
        } else {
            assert!(sent.len() > 1, "a small buffer takes it in pieces: {calls:#?}");
            assert!(count(&all, &["accept4(", "SOCK_NONBLOCK"]) > 0, "{all:#?}");
            assert_eq!(count(&all, &["MSG_DONTWAIT"]), 0, "{all:#?}");
        }
    }
}

#[test]
fn a_client_that_takes_nothing_stops_a_blocking_sendfile_only_for_a_while() {
    let site = site();
    let settings = ["send.blocking=true", "send.mode=sendfile", "cache.small=1KiB"];
    let server = start(&site, &[&settings[..], &["send.buffer=64KiB"]].concat());
    let mut slow = server.connect();
    slow.send(get("/large.bin"));
    assert_eq!(slow.response_head().status(), 200);
    let mut other = server.connect();
    assert_eq!(other.ask(get("/small.txt")).status(), 200);
    let body = slow.take(LARGE_BYTES);
    assert!(body.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 251));
}

#[test]
fn workers_are_bound_to_the_cpus_that_are_named() {
    let site = site();
    let allowed = flyball_sys::process::allowed_cpus();
    let last = *allowed.last().expect("there is a CPU");
    let pinned = |cpus: &str| {
        let cpus = format!("pin-cpus={cpus}");
        Launch::new(&site, "n-copy").set("workers=2").set("pin=true").set(&cpus)
    };
    let server = pinned(&last.to_string()).start();
    for worker in server.children(2) {
        let cpus = || proc_status(worker, "Cpus_allowed_list");
        wait_for("the affinity", || cpus().filter(|cpus| *cpus == last.to_string()));
    }
    let (status, said) = pinned("60000").try_start().err().expect("no such CPU");
    assert!(!status.success());
    assert!(said.contains("CPU 60000 is not one of those allowed"), "{said}");
}

#[test]
fn the_listening_socket_of_a_pinned_worker_prefers_its_cpu_when_asked_for() {
    let site = site();
    let cpu = flyball_sys::process::allowed_cpus()[0];
    let pin = format!("pin-cpus={cpu}");
    for (setting, expected) in [("accept.incoming-cpu=true", 1), ("accept.incoming-cpu=false", 0)] {
        let settings = [setting, "pin=true", &pin];
        let Some(traced) = Traced::start(&site, &settings) else { return };
        let lines = traced.lines();
        let options = count(&lines, &["SO_INCOMING_CPU", &format!("[{cpu}]")]);
        assert_eq!(options, expected, "{setting}: {lines:#?}");
    }
}

#[test]
fn accept_phases_are_counted_by_how_many_they_accepted() {
    let site = site();
    let server = start(&site, &["accept.defer=false"]);
    let worker = server.children(2)[0];
    stop_at_rest(worker);
    let _clients: Vec<Client> = (0..5).map(|_| server.connect()).collect();
    // Of a socket that listens the table tells how many wait to be accepted.
    let waiting = || sockets_at(server.port).iter().any(|socket| socket.unread == 5);
    wait_for("five that wait", || waiting().then_some(()));
    signal(worker, "CONT");
    wait_for("five accepted", || (server.counter("accepted") == 5).then_some(()));
    assert_eq!(server.counter("accept_phase_4"), 1);
    assert_eq!(server.counter("accept_phase_1"), 0);
}
