//! What a disk that is slow does to others: under some architectures nothing, under some
//! everything, as the papers say. The disk is a file system that the test itself serves, so that an
//! operation takes exactly as long as the test wants.

use std::time::Duration;

use crate::common_programs::on_every_architecture_over_tls;
use flyball_testkit::slow_disk::{FILES, Operation, SlowDisk, content};
use flyball_testkit::{Client, Launch, Response, Server, as_ourselves, wait};

/// How long a slow operation takes where there is no gate.
const DELAY: Duration = Duration::from_millis(20);

/// How long nothing arrives that must not: far longer than the answer to a cached request takes.
const SILENCE: Duration = Duration::from_millis(200);

/// Connections opened to take over the slots of others.
const NEWCOMERS: usize = 16;

/// One request of the test answers before the next: no entry is looked at again meanwhile, and
/// large bodies need several pieces.
const SETTINGS: &str = "cache.revalidate = \"1h\"\nsend.piece = \"64KiB\"\n";

/// One worker, except where a worker serves one connection at a time.
fn workers(architecture: &str) -> &str {
    if architecture.starts_with("mp") { "mp.processes = 24\n" } else { "workers = 1\n" }
}

/// Mounts bodies per architecture: some are true of all, some only where disk work stops the
/// others, some only where it does not.
macro_rules! mount {
    ($($tier:ident $module:ident $architecture:literal: [$($body:ident),* $(,)?],)*) => {
        $(mount!(@one $tier $module $architecture [$($body),*]);)*
    };
    (@one $tier:ident $module:ident $architecture:literal [$($body:ident),*]) => {
        mod $module {
            $(flyball_testkit::test_in_tier! { $tier $body { super::$body($architecture); } })*
        }
    };
}

mount! {
    full sped "sped": [
        slow_files_are_served_whole,
        a_slow_open_delays_the_others,
        a_slow_read_delays_the_others,
        a_slow_listing_delays_nobody_else,
        a_stopping_server_finishes_an_answer_that_waits_for_the_disk,
    ],
    full symped "symped": [
        slow_files_are_served_whole,
        a_slow_open_delays_the_others,
        a_slow_read_delays_the_others,
        a_slow_listing_delays_nobody_else,
        a_slow_disk_stops_one_process_and_not_the_other,
        a_stopping_server_finishes_an_answer_that_waits_for_the_disk,
    ],
    full shared_symped "shared-symped": [
        slow_files_are_served_whole,
        a_slow_open_delays_the_others,
        a_slow_read_delays_the_others,
        a_slow_listing_delays_nobody_else,
        a_slow_disk_stops_one_process_and_not_the_other,
        a_stopping_server_finishes_an_answer_that_waits_for_the_disk,
    ],
    fast n_copy "n-copy": [
        slow_files_are_served_whole,
        a_slow_open_delays_the_others,
        a_slow_read_delays_the_others,
        a_slow_listing_delays_nobody_else,
        a_slow_disk_stops_one_process_and_not_the_other,
        a_stopping_server_finishes_an_answer_that_waits_for_the_disk,
    ],
    fast amped "amped": [
        slow_files_are_served_whole,
        a_slow_open_delays_nobody_else,
        a_slow_read_delays_nobody_else,
        a_slow_index_delays_nobody_else,
        a_slow_listing_delays_nobody_else,
        a_slow_piece_of_a_large_body_delays_nobody_else,
        a_slow_piece_sent_from_a_mapping_delays_nobody_else,
        a_slow_piece_sent_by_reference_delays_nobody_else,
        an_answer_may_be_ready_before_the_piece_in_front_of_it,
        a_client_that_leaves_while_the_disk_works_harms_nobody,
        an_answer_that_comes_too_late_reaches_nobody,
        a_stopping_server_finishes_an_answer_that_waits_for_the_disk,
        a_server_that_stops_does_not_wait_for_a_client_that_left,
    ],
    full amped_processes "amped-processes": [
        slow_files_are_served_whole,
        a_slow_listing_delays_nobody_else,
    ],
    full mp "mp": [
        slow_files_are_served_whole,
        a_slow_open_delays_nobody_else,
        a_slow_read_delays_nobody_else,
        a_slow_index_delays_nobody_else,
        a_slow_listing_delays_nobody_else,
        a_slow_piece_of_a_large_body_delays_nobody_else,
        a_slow_piece_sent_from_a_mapping_delays_nobody_else,
        a_client_that_leaves_while_the_disk_works_harms_nobody,
        a_stopping_server_finishes_an_answer_that_waits_for_the_disk,
        a_server_that_stops_does_not_wait_for_a_client_that_left,
    ],
    fast mt "mt": [
        slow_files_are_served_whole,
        a_slow_open_delays_nobody_else,
        a_slow_read_delays_nobody_else,
        a_slow_index_delays_nobody_else,
        a_slow_listing_delays_nobody_else,
        a_slow_piece_of_a_large_body_delays_nobody_else,
        a_slow_piece_sent_from_a_mapping_delays_nobody_else,
        a_client_that_leaves_while_the_disk_works_harms_nobody,
        a_stopping_server_finishes_an_answer_that_waits_for_the_disk,
        a_server_that_stops_does_not_wait_for_a_client_that_left,
    ],
    full tux "tux": [
        slow_files_are_served_whole,
        a_slow_open_delays_nobody_else,
        a_slow_read_delays_nobody_else,
        a_slow_index_delays_nobody_else,
        a_slow_listing_delays_nobody_else,
        a_slow_piece_of_a_large_body_delays_nobody_else,
        a_slow_piece_sent_from_a_mapping_delays_nobody_else,
        a_slow_piece_sent_by_reference_delays_nobody_else,
        an_answer_may_be_ready_before_the_piece_in_front_of_it,
        a_client_that_leaves_while_the_disk_works_harms_nobody,
        an_answer_that_comes_too_late_reaches_nobody,
        a_stopping_server_finishes_an_answer_that_waits_for_the_disk,
        a_server_that_stops_does_not_wait_for_a_client_that_left,
    ],
    full thread_per_connection "thread-per-connection": [
        slow_files_are_served_whole,
        a_slow_open_delays_nobody_else,
        a_slow_read_delays_nobody_else,
        a_slow_index_delays_nobody_else,
        a_slow_listing_delays_nobody_else,
        a_slow_piece_of_a_large_body_delays_nobody_else,
        a_slow_piece_sent_from_a_mapping_delays_nobody_else,
        a_client_that_leaves_while_the_disk_works_harms_nobody,
        a_stopping_server_finishes_an_answer_that_waits_for_the_disk,
        a_server_that_stops_does_not_wait_for_a_client_that_left,
    ],
    full knot_c "knot-c": [
        slow_files_are_served_whole,
        a_slow_open_delays_nobody_else,
        a_slow_read_delays_nobody_else,
        a_slow_index_delays_nobody_else,
        a_slow_listing_delays_nobody_else,
        a_slow_piece_of_a_large_body_delays_nobody_else,
        a_slow_piece_sent_from_a_mapping_delays_nobody_else,
        a_slow_piece_sent_by_reference_delays_nobody_else,
        a_client_that_leaves_while_the_disk_works_harms_nobody,
        an_answer_that_comes_too_late_reaches_nobody,
        a_stopping_server_finishes_an_answer_that_waits_for_the_disk,
        a_server_that_stops_does_not_wait_for_a_client_that_left,
    ],
    full knot_a "knot-a": [
        slow_files_are_served_whole,
        a_slow_open_delays_nobody_else,
        a_slow_read_delays_nobody_else,
        a_slow_index_delays_nobody_else,
        a_slow_listing_delays_nobody_else,
        a_slow_piece_of_a_large_body_delays_nobody_else,
        a_slow_piece_sent_from_a_mapping_delays_nobody_else,
        a_slow_piece_sent_by_reference_delays_nobody_else,
        a_client_that_leaves_while_the_disk_works_harms_nobody,
        an_answer_that_comes_too_late_reaches_nobody,
        a_stopping_server_finishes_an_answer_that_waits_for_the_disk,
        a_server_that_stops_does_not_wait_for_a_client_that_left,
    ],
    fast watpipe "watpipe": [
        slow_files_are_served_whole,
        a_slow_open_delays_nobody_else,
        a_slow_read_delays_nobody_else,
        a_slow_index_delays_nobody_else,
        a_slow_listing_delays_nobody_else,
        a_slow_piece_of_a_large_body_delays_nobody_else,
        a_slow_piece_sent_from_a_mapping_delays_nobody_else,
        a_client_that_leaves_while_the_disk_works_harms_nobody,
        a_stopping_server_finishes_an_answer_that_waits_for_the_disk,
        a_server_that_stops_does_not_wait_for_a_client_that_left,
    ],
    fast uring "uring": [
        slow_files_are_served_whole,
        a_slow_open_delays_nobody_else,
        a_slow_read_delays_nobody_else,
        a_slow_index_delays_nobody_else,
        a_slow_listing_delays_nobody_else,
        a_slow_piece_of_a_large_body_delays_nobody_else,
        a_slow_piece_sent_from_a_mapping_delays_nobody_else,
        a_slow_piece_sent_by_reference_delays_nobody_else,
        a_client_that_leaves_while_the_disk_works_harms_nobody,
        an_answer_that_comes_too_late_reaches_nobody,
        a_stopping_server_finishes_an_answer_that_waits_for_the_disk,
        a_server_that_stops_does_not_wait_for_a_client_that_left,
    ],
}

on_every_architecture_over_tls! {
    slow_files_are_served_whole,
    a_stopping_server_finishes_an_answer_that_waits_for_the_disk,
}

mount! {
    full amped_tls_alone "amped over TLS": [
        a_slow_read_delays_nobody_else,
        a_slow_piece_of_a_large_body_delays_nobody_else,
        an_answer_may_be_ready_before_the_piece_in_front_of_it,
        a_client_that_leaves_while_the_disk_works_harms_nobody,
        an_answer_that_comes_too_late_reaches_nobody,
    ],
    full mt_tls_alone "mt over TLS": [
        a_slow_read_delays_nobody_else,
        a_slow_piece_of_a_large_body_delays_nobody_else,
        a_client_that_leaves_while_the_disk_works_harms_nobody,
    ],
    full watpipe_tls_alone "watpipe over TLS": [
        a_slow_read_delays_nobody_else,
        a_slow_piece_of_a_large_body_delays_nobody_else,
        a_client_that_leaves_while_the_disk_works_harms_nobody,
    ],
    full uring_tls_alone "uring over TLS": [
        a_slow_read_delays_nobody_else,
        a_slow_piece_of_a_large_body_delays_nobody_else,
        a_client_that_leaves_while_the_disk_works_harms_nobody,
        an_answer_that_comes_too_late_reaches_nobody,
    ],
}

/// A server of one worker whose site is a slow disk. `None`, said aloud, where there can be none.
fn start(architecture: &str, delay: Duration, settings: &str) -> Option<(SlowDisk, Server)> {
    start_with(architecture, workers(architecture), delay, settings)
}

/// The same with other workers.
fn start_with(
    architecture: &str,
    workers: &str,
    delay: Duration,
    settings: &str,
) -> Option<(SlowDisk, Server)> {
    let disk = SlowDisk::mount(delay)?;
    let root = disk.root().display();
    let site =
        format!("[[site]]\nhosts = [\"*\"]\nroot = \"{root}\"\nlisting = true\nindex = []\n");
    // Nobody but who mounted the disk may enter it, the superuser's rights or not.
    let user = as_ourselves();
    let architecture = match architecture {
        "amped-processes" => "amped\"\namped.helper-kind = \"process",
        other => other,
    };
    let config = format!("arch = \"{architecture}\"\n{workers}{user}{SETTINGS}{settings}\n{site}");
    let server = Launch::config(config).start_where_possible()?;
    // Bound in this order and dropped in the reverse: the server goes before its disk.
    Some((disk, server))
}

fn get(name: &str) -> String {
    format!("GET /{name} HTTP/1.1\r\nHost: a.test\r\n\r\n")
}

#[track_caller]
fn assert_whole(name: &str, answer: &Response) {
    let expected = content(name);
    assert_eq!((answer.status(), answer.body.len()), (200, expected.len()), "{name}");
    let differs = answer.body.iter().zip(&expected).position(|(a, b)| a != b);
    assert_eq!(differs, None, "{name} differs there");
}

/// A kept connection over which the fast file has come into memory.
fn warm(server: &Server) -> Client {
    let mut client = server.connect();
    for _ in 0..2 {
        assert_whole("fast.txt", &client.ask(get("fast.txt")));
    }
    client
}

fn slow_files_are_served_whole(architecture: &str) {
    let Some((_disk, server)) = start(architecture, DELAY, "") else { return };
    // Each by a client of its own, at once; then all pipelined, in memory or not.
    let mut clients: Vec<(&str, Client)> =
        FILES.iter().map(|(name, _)| (*name, server.connect())).collect();
    for (name, client) in &mut clients {
        client.send(get(name));
    }
    for (name, client) in &mut clients {
        assert_whole(name, &client.response());
    }
    let mut client = server.connect();
    client.send(FILES.iter().map(|(name, _)| get(name)).collect::<String>());
    for (name, _) in FILES {
        assert_whole(name, &client.response());
    }
    assert_eq!(client.ask(get("slow/none")).status(), 404);
    server.assert_sound();
}

fn a_slow_open_delays_nobody_else(architecture: &str) {
    delays_nobody_else(architecture, Operation::Lookup, "slow/small-0.txt");
    delays_nobody_else(architecture, Operation::Open, "slow/small-1.txt");
}

fn a_slow_read_delays_nobody_else(architecture: &str) {
    delays_nobody_else(architecture, Operation::Read, "slow/small-0.txt");
}

/// What a name names has to be asked of the disk, for each name of a directory.
/// A directory is listed when there is no index in it, which has to be looked for.
fn a_slow_index_delays_nobody_else(architecture: &str) {
    listing_delays_nobody_else(architecture, Operation::Lookup);
}

fn a_slow_listing_delays_nobody_else(architecture: &str) {
    listing_delays_nobody_else(architecture, Operation::List);
}

fn listing_delays_nobody_else(architecture: &str, operation: Operation) {
    let Some((disk, server)) = start(architecture, Duration::ZERO, "") else { return };
    let mut known = warm(&server);
    let mut slow = server.connect();
    let shut = disk.shut(operation);
    slow.send(get("slow/?format=json"));
    shut.wait_for(1);
    assert_whole("fast.txt", &known.ask(get("fast.txt")));
    assert_whole("fast.bin", &server.connect().ask(get("fast.bin")));
    shut.open();
    let answer = slow.response();
    let listed = FILES.iter().filter_map(|(name, len)| Some((name.strip_prefix("slow/")?, len)));
    for (name, len) in listed {
        let entry = format!("\"href\":\"./{name}\",\"type\":\"file\",\"size\":{len},");
        assert!(answer.text().contains(&entry), "{entry} in {}", answer.text());
    }
    server.assert_sound();
}

fn a_slow_piece_of_a_large_body_delays_nobody_else(architecture: &str) {
    delays_nobody_else(architecture, Operation::Read, "slow/large-0.bin");
}

/// Here the bytes never pass through the server, so that no read tells whether they are there.
fn a_slow_piece_sent_by_reference_delays_nobody_else(architecture: &str) {
    let settings = "send.mode = \"sendfile\"\n";
    delays_nobody_else_with(settings, architecture, Operation::Read, "slow/large-0.bin");
}

/// Here nobody reads: the pages of the mapping are brought in, and the kernel copies from there.
fn a_slow_piece_sent_from_a_mapping_delays_nobody_else(architecture: &str) {
    let settings = "send.mode = \"mapped\"\ncache.chunk = \"64KiB\"\n";
    delays_nobody_else_with(settings, architecture, Operation::Read, "slow/large-0.bin");
}

fn delays_nobody_else(architecture: &str, operation: Operation, name: &str) {
    delays_nobody_else_with("", architecture, operation, name);
}

/// While a slow file is asked for and the disk does not answer, others are served.
fn delays_nobody_else_with(settings: &str, architecture: &str, operation: Operation, name: &str) {
    let Some((disk, server)) = start(architecture, Duration::ZERO, settings) else { return };
    let mut known = warm(&server);
    let mut slow = server.connect();
    let shut = disk.shut(operation);
    slow.send(get(name));
    shut.wait_for(1);
    // In memory, over a kept connection and a new one; and from the disk, which is fast elsewhere.
    assert_whole("fast.txt", &known.ask(get("fast.txt")));
    assert_whole("fast.txt", &server.connect().ask(get("fast.txt")));
    assert_whole("fast.bin", &server.connect().ask(get("fast.bin")));
    assert_eq!(known.ask(get("none")).status(), 404);
    shut.open();
    assert_whole(name, &slow.response());
    server.assert_sound();
}

/// The disk works for a piece of a large body and for the request behind it at the same time, and
/// the later work is done first.
fn an_answer_may_be_ready_before_the_piece_in_front_of_it(architecture: &str) {
    let Some((disk, server)) = start(architecture, Duration::ZERO, "") else { return };
    let mut client = server.connect();
    client.send("HEAD /slow/large-0.bin HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(client.response_head().status(), 200);
    let lookup = disk.shut(Operation::Lookup);
    let read = disk.shut(Operation::Read);
    client.send(get("slow/large-0.bin") + &get("slow/none"));
    lookup.wait_for(1);
    // What arrives gives the connection another turn, in which it sends what it can.
    client.send(get("fast.txt"));
    read.wait_for(1);
    lookup.open();
    // The same work, done later: that of the first client is done too, most likely.
    assert_eq!(server.connect().ask(get("slow/no-other")).status(), 404);
    read.open();
    assert_whole("slow/large-0.bin", &client.response());
    assert_eq!(client.response().status(), 404);
    assert_whole("fast.txt", &client.response());
    server.assert_sound();
}

fn a_slow_open_delays_the_others(architecture: &str) {
    delays_the_others(architecture, Operation::Open, "slow/small-0.txt");
}

fn a_slow_read_delays_the_others(architecture: &str) {
    delays_the_others(architecture, Operation::Read, "slow/small-0.txt");
    delays_the_others(architecture, Operation::Read, "slow/large-0.bin");
}

/// While a slow file is asked for and the disk does not answer, nobody is served.
fn delays_the_others(architecture: &str, operation: Operation, name: &str) {
    let Some((disk, server)) = start(architecture, Duration::ZERO, "") else { return };
    let mut known = warm(&server);
    let mut slow = server.connect();
    let shut = disk.shut(operation);
    slow.send(get(name));
    shut.wait_for(1);
    known.send(get("fast.txt"));
    known.expect_silence(SILENCE);
    shut.open();
    assert_whole("fast.txt", &known.response());
    assert_whole(name, &slow.response());
    server.assert_sound();
}

/// While one process waits for the disk, the other serves.
fn a_slow_disk_stops_one_process_and_not_the_other(architecture: &str) {
    let started = start_with(architecture, "workers = 2\n", Duration::ZERO, "");
    let Some((disk, server)) = started else { return };
    let mut slow = server.connect();
    let shut = disk.shut(Operation::Open);
    slow.send(get("slow/small-0.txt"));
    shut.wait_for(1);
    // Where each process has a socket of its own, only some of the connections get to the other.
    let mut others: Vec<Client> = Vec::new();
    let served = wait::until(wait::DEADLINE, || {
        if others.len() < NEWCOMERS {
            let mut other = server.connect();
            other.send(get("fast.txt"));
            others.push(other);
        }
        others.iter_mut().position(Client::arrived)
    });
    let served = served.expect("the other process serves");
    assert!(!slow.arrived(), "the disk still waits");
    assert_whole("fast.txt", &others.swap_remove(served).response());
    shut.open();
    assert_whole("slow/small-0.txt", &slow.response());
    for mut other in others {
        assert_whole("fast.txt", &other.response());
    }
    server.assert_sound();
}

fn a_client_that_leaves_while_the_disk_works_harms_nobody(architecture: &str) {
    for operation in [Operation::Open, Operation::Read] {
        let Some((disk, server)) = start(architecture, Duration::ZERO, "") else { return };
        let mut known = warm(&server);
        let shut = disk.shut(operation);
        for (at, name) in ["slow/small-0.txt", "slow/large-0.bin"].into_iter().enumerate() {
            let mut leaving = server.connect();
            leaving.send(get(name));
            shut.wait_for(at + 1);
            leaving.reset();
        }
        assert_whole("fast.txt", &known.ask(get("fast.txt")));
        let mut newcomers: Vec<Client> = (0..NEWCOMERS).map(|_| warm(&server)).collect();
        newcomers.iter_mut().for_each(|client| client.send(get("slow/small-2.txt")));
        shut.open();
        for client in &mut newcomers {
            assert_whole("slow/small-2.txt", &client.response());
            assert_whole("slow/large-0.bin", &client.ask(get("slow/large-0.bin")));
        }
        server.assert_sound();
    }
}

/// The server gives up on the disk and tells the client; what the disk says at last is meant for a
/// connection that is gone, and whose slot another may have.
fn an_answer_that_comes_too_late_reaches_nobody(architecture: &str) {
    let settings = "timeout.answer = \"3s\"\ntimeout.linger = \"100ms\"\n";
    let Some((disk, server)) = start(architecture, Duration::ZERO, settings) else { return };
    let mut known = warm(&server);
    let shut = disk.shut(Operation::Open);
    let mut overdue = server.connect();
    overdue.send(get("slow/small-0.txt"));
    shut.wait_for(1);
    assert_eq!(overdue.response().status(), 503);
    overdue.expect_closed();
    drop(overdue);
    let mut newcomers: Vec<Client> = (0..NEWCOMERS).map(|_| warm(&server)).collect();
    shut.open();
    assert_whole("fast.txt", &known.ask(get("fast.txt")));
    for client in &mut newcomers {
        assert_whole("fast.txt", &client.ask(get("fast.txt")));
        assert_whole("slow/small-0.txt", &client.ask(get("slow/small-0.txt")));
    }
    server.assert_sound();
}

fn a_stopping_server_finishes_an_answer_that_waits_for_the_disk(architecture: &str) {
    for operation in [Operation::Open, Operation::Read] {
        let Some((disk, server)) = start(architecture, Duration::ZERO, "") else { return };
        let mut small = server.connect();
        let shut = disk.shut(operation);
        small.send(get("slow/small-0.txt"));
        shut.wait_for(1);
        server.terminate();
        shut.open();
        assert_whole("slow/small-0.txt", &small.response());
        small.expect_closed();
        let stopped = server.wait();
        assert_eq!((stopped.code, stopped.errors.as_str()), (Some(0), ""), "{operation:?}");
    }
}

fn a_server_that_stops_does_not_wait_for_a_client_that_left(architecture: &str) {
    let Some((disk, server)) = start(architecture, Duration::ZERO, "") else { return };
    let mut idle = warm(&server);
    let shut = disk.shut(Operation::Open);
    let mut leaving = server.connect();
    leaving.send(get("slow/small-0.txt"));
    shut.wait_for(1);
    let mut small = server.connect();
    small.send(get("slow/small-1.txt"));
    shut.wait_for(2);
    leaving.reset();
    server.terminate();
    // It tells when draining has begun.
    idle.expect_closed();
    shut.open();
    assert_whole("slow/small-1.txt", &small.response());
    small.expect_closed();
    let stopped = server.wait();
    assert_eq!((stopped.code, stopped.errors.as_str()), (Some(0), ""));
}
