//! What is special to `watpipe`: its threads, where they run, and that the ways to send and the
//! sizes of its stages change no answer.
use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::{Launch, Server, Site, get, last_get, signal, wait_for};
use flyball_testkit::Client;

/// A body that no socket's buffer holds.
const LARGE_BYTES: usize = 16 * 1024 * 1024 + 7;

/// The signal that retires a worker: SIGRTMIN + 1, where the C library keeps the first two.
const RETIRE: &str = "35";

/// How long nothing arrives that must not.
const SILENCE: Duration = Duration::from_millis(200);

fn site() -> Site {
    Site::with(&[("small.txt", &[b'x'; 1024]), ("large.bin", &large())])
}

fn large() -> Vec<u8> {
    (0..LARGE_BYTES).map(|at| (at % 251) as u8).collect()
}

fn start(site: &Site, settings: &[&str]) -> Server {
    let launch = Launch::new(site, "watpipe").args(&["--workers", "1", "--admin", "127.0.0.1:0"]);
    settings.iter().fold(launch, |launch, setting| launch.set(setting)).start()
}

/// The worker's threads: their names, and the CPUs that each may use.
fn threads(server: &Server) -> BTreeMap<String, String> {
    let worker = server.children(2)[0];
    let tasks = std::fs::read_dir(format!("/proc/{worker}/task")).expect("the worker runs");
    let thread = |task: std::io::Result<std::fs::DirEntry>| {
        let place = task.expect("a thread").path();
        let read = |file: &str| std::fs::read_to_string(place.join(file)).expect("it is there");
        let status = read("status");
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        (read("comm").trim().to_string(), cpus.expect("a list").trim().to_string())
    };
    tasks.map(thread).collect()
}

/// How many threads there are of each stage, and of others.
fn stages(threads: &BTreeMap<String, String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for name in threads.keys() {
        let stage = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
        *counts.entry(stage.to_string()).or_insert(0) += 1;
    }
    counts
}

#[test]
fn exactly_two_threads_poll_and_the_other_stages_have_as_many_as_are_set() {
    let site = site();
    for (partitions, readers, writers) in [(1, 1, 1), (3, 2, 5)] {
        let settings = [
            format!("watpipe.partitions={partitions}"),
            format!("watpipe.readers={readers}"),
            format!("watpipe.writers={writers}"),
        ];
        let server = start(&site, &settings.each_ref().map(String::as_str));
        let expected = [
            ("accept", partitions),
            ("flyball", 1),
            ("read", partitions * readers),
            ("read-poll", 1),
            ("write", partitions * writers),
            ("write-poll", 1),
        ];
        let expected: BTreeMap<String, usize> =
            expected.into_iter().map(|(stage, count)| (stage.to_string(), count)).collect();
        wait_for("every thread", || (stages(&threads(&server)) == expected).then_some(()));
        assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
    }
}

#[test]
fn threads_of_read_and_write_are_bound_to_the_cpu_of_their_partition_and_others_float() {
    let site = site();
    let cpus: Vec<String> =
        flyball_sys::process::allowed_cpus().iter().map(usize::to_string).collect();
    let server = start(&site, &["watpipe.partitions=2", "pin=true"]);
    let own: String =
        crate::common::proc_status(std::process::id(), "Cpus_allowed_list").expect("a list");
    let expected = |name: &str| {
        let mut parts = name.split('-');
        match (parts.next(), parts.next().and_then(|part| part.parse::<usize>().ok())) {
            (Some("read" | "write"), Some(partition)) => &cpus[partition % cpus.len()],
            _ => &own,
        }
    };
    // A thread has its name before it is bound.
    let is_bound = |name: &str, list: &str| list == expected(name);
    wait_for("every thread to be bound, and no other", || {
        let threads = threads(&server);
        let bound = |name: &&String| name.starts_with("read-0") || name.starts_with("write-");
        let all = threads.iter().all(|(name, list)| is_bound(name, list));
        (all && threads.keys().filter(bound).count() > 16).then_some(())
    });
    assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
}

#[test]
fn threads_are_bound_to_the_cpus_that_are_named() {
    let site = site();
    let allowed = flyball_sys::process::allowed_cpus();
    let last = allowed.last().expect("there is a CPU").to_string();
    let named = format!("pin-cpus={last}");
    let server = start(&site, &["watpipe.partitions=2", "pin=true", &named]);
    wait_for("the threads of both partitions to be bound", || {
        let threads = threads(&server);
        let names = ["read-0-0", "read-1-0", "write-0-0", "write-1-7"];
        names.iter().all(|name| threads.get(*name) == Some(&last)).then_some(())
    });
}

/// Small answers, pipelined ones, one large body that is read at once and one that is not, and
/// the end of a connection.
fn assert_answers(server: &Server, large: &[u8]) {
    let mut client = server.connect();
    client.send(get("/small.txt").repeat(5) + &get("/large.bin") + &get("/none"));
    for _ in 0..5 {
        assert_eq!(client.response().body, [b'x'; 1024]);
    }
    // The writer has filled the socket long before this is read.
    let mut slow = server.connect();
    slow.send(get("/large.bin"));
    let head = slow.response_head();
    assert_eq!(client.response().body, large);
    assert_eq!(client.response().status(), 404);
    assert_eq!(slow.take(head.content_length().expect("a length")), large);
    assert_eq!(slow.ask(last_get("/small.txt")).body, [b'x'; 1024]);
    slow.expect_closed();
}

#[test]
fn blocking_and_other_writes_give_the_same_answers_whatever_the_number_of_writers() {
    let (site, large) = (site(), large());
    for blocking in [false, true] {
        for (mode, writers) in [("sendfile", 2), ("copy", 2), ("sendfile", 500)] {
            let settings = [
                format!("send.blocking={blocking}"),
                format!("send.mode={mode}"),
                format!("watpipe.writers={writers}"),
                "watpipe.partitions=1".to_string(),
            ];
            let server = start(&site, &settings.each_ref().map(String::as_str));
            assert_answers(&server, &large);
        }
    }
    let server = start(&site, &["watpipe.writers=1", "watpipe.partitions=1"]);
    assert_answers(&server, &large);
}

/// A client that has asked for more than its socket holds and reads nothing of it.
fn stalled(server: &Server) -> (Client, usize) {
    let mut client = server.connect();
    client.send(get("/large.bin"));
    let length = client.response_head().content_length().expect("a length");
    (client, length)
}

#[test]
fn a_client_that_does_not_read_keeps_a_blocking_writer_and_no_other() {
    let (site, large) = (site(), large());
    for (blocking, delays) in [("send.blocking=false", false), ("send.blocking=true", true)] {
        let settings = [blocking, "watpipe.partitions=1", "watpipe.writers=1", "rate.send-min=0B"];
        let server = start(&site, &settings);
        let (mut slow, length) = stalled(&server);
        let mut other = server.connect();
        other.send(get("/small.txt"));
        if delays {
            other.expect_silence(SILENCE);
        } else {
            assert_eq!(other.response().status(), 200, "{blocking}");
        }
        assert_eq!(slow.take(length), large, "{blocking}");
        if delays {
            assert_eq!(other.response().status(), 200, "{blocking}");
        }
    }
}

#[test]
fn a_blocking_writer_gives_up_a_client_that_takes_nothing_and_at_the_drain_deadline() {
    let site = site();
    let writers = ["watpipe.partitions=1", "watpipe.writers=1", "send.blocking=true"];
    let rate = [writers.as_slice(), &["rate.window=1s", "rate.send-min=1MiB"]].concat();
    let server = start(&site, &rate);
    let (_slow, _) = stalled(&server);
    assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
    let mut server = start(&site, &[writers.as_slice(), &["drain=300ms"]].concat());
    let (_slow, _) = stalled(&server);
    signal(server.master(), "TERM");
    assert_eq!(server.ended().code(), Some(0));
}

#[test]
fn a_worker_that_retires_answers_every_connection_once_more_and_leaves_new_ones_to_others() {
    let (site, large) = (site(), large());
    for setting in ["watpipe.partitions=2", "send.blocking=true", "events=poll"] {
        // A client that does not close its side delays the end of the worker by this.
        let server = start(&site, &[setting, "timeout.linger=100ms"]);
        let mut idle: Vec<Client> = (0..8).map(|_| server.connect()).collect();
        for client in &mut idle {
            assert_eq!(client.ask(get("/small.txt")).status(), 200);
        }
        let (mut busy, length) = stalled(&server);
        let worker = server.children(2)[0];
        // The signal to retire, which only another process of the server sends otherwise.
        signal(worker, RETIRE);
        // It tells when the worker has seen it.
        let mut first = idle.pop().expect("there are some");
        wait_for("the order to be seen", || {
            let answer = first.ask(get("/small.txt"));
            assert_eq!(answer.status(), 200);
            answer.field("Connection").is_some_and(|value| value == "close").then_some(())
        });
        first.expect_closed();
        let mut newcomers: Vec<Client> = (0..8).map(|_| server.connect()).collect();
        newcomers.iter_mut().for_each(|client| client.send(get("/small.txt")));
        for client in &mut idle {
            let answer = client.ask(get("/small.txt"));
            assert_eq!((answer.status(), answer.body.len()), (200, 1024));
            client.expect_closed();
        }
        // The head of this answer did not say that it is the last.
        assert_eq!(busy.take(length), large);
        assert_eq!(busy.ask(get("/small.txt")).status(), 200);
        busy.expect_closed();
        // The master takes the end of a worker for an accident, and starts another.
        for client in &mut newcomers {
            assert_eq!(client.response().status(), 200);
        }
    }
}

#[test]
fn when_a_worker_is_killed_its_clients_see_a_close_and_another_serves() {
    let site = site();
    let server = start(&site, &["watpipe.partitions=2"]);
    let mut clients: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask(get("/small.txt")).status(), 200);
    }
    let (busy, _) = stalled(&server);
    let worker = server.children(2)[0];
    signal(worker, "KILL");
    clients.iter_mut().for_each(Client::expect_closed);
    drop(busy);
    assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
    wait_for("no connection but the new one", || {
        let states = server.status()["connections"].clone();
        // What one thread has counted and another not yet makes up for it in the sum.
        let counts = states.as_object()?.values().filter_map(|count| count.as_u64());
        let open = counts.fold(0, u64::wrapping_add);
        (open <= 1).then_some(())
    });
}

#[test]
fn the_states_of_connections_add_up_and_hand_overs_are_counted() {
    let site = site();
    let server = start(&site, &["watpipe.partitions=2"]);
    let mut clients: Vec<Client> = (0..20).map(|_| server.connect()).collect();
    for client in &mut clients {
        for _ in 0..3 {
            assert_eq!(client.ask(get("/small.txt")).status(), 200);
        }
    }
    let idle = |count: u64| (server.status()["connections"]["idle"] == count).then_some(());
    wait_for("20 idle connections", || idle(20));
    // At least to Write for each request, and to Read for each but the first.
    wait_for("hand-overs", || (server.counter("stage_handovers") >= 20 * 5).then_some(()));
    clients.truncate(7);
    wait_for("7 idle connections", || idle(7));
}
