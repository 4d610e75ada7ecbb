//! What clients may take of a path: connections at a time, requests in a second, bytes in a second.

use std::time::{Duration, Instant};

use flyball_testkit::{Client, LARGE_BYTES, Server, Site, large_at, wait};

use crate::mount::Mount;
use crate::requests::get;

/// Bytes that the kernel holds for a client that does not read, far fewer than the large file has.
const NARROW: usize = 16 * 1024;

/// Times that a client asks in vain while others take their time.
const TRIES: u32 = 20;

/// The pace that is measured, in bytes per second: the large file takes more than half of one.
const PACE: u64 = 16 * 1024 * 1024;

/// Times that the pace is measured, when the machine was busy with something else.
const PACE_TRIES: u32 = 20;

/// A server with these limits of the large file, and of all other files none.
fn start(mount: &Mount, limit: &str) -> Server {
    mount.start_with_sites("", &sites(limit))
}

fn sites(limit: &str) -> String {
    let root = Site::shared().root();
    let alias = format!("[[site.alias]]\npath = \"/free\"\nroot = {root:?}\n");
    let limit = format!("[[site.limit]]\npath = \"/large.bin\"\n{limit}");
    format!("[[site]]\nroot = {root:?}\n{limit}{alias}")
}

/// A client whose answer is under way until it reads it.
fn loads(server: &Server) -> Client {
    let mut client = server.connect_narrow(NARROW);
    client.send(get("/large.bin"));
    assert_eq!(client.response_head().status(), 200);
    client
}

fn reads_all(client: &mut Client) {
    large_at(0, &client.take(LARGE_BYTES));
}

/// The answer to whom the path takes no more, and that the connection serves on.
fn expect_refused(client: &mut Client, line: &str) {
    let refused = client.ask(get("/large.bin"));
    assert_eq!(refused.line, line);
    assert_eq!(refused.expect("Retry-After"), "1");
    assert_eq!(client.ask(get("/hello.txt")).status(), 200);
    // However the path is written.
    assert_eq!(client.ask(get("/dir/../l%61rge.bin")).status(), refused.status());
    assert_eq!(client.ask(get("/free/hello.txt")).status(), 200);
}

/// Loads once more when there is room again.
fn loads_when_there_is_room(server: &Server) {
    let again = wait::until(wait::DEADLINE, || {
        let mut client = server.connect();
        let answer = client.ask(get("/large.bin"));
        (answer.status() == 200).then_some(answer)
    });
    large_at(0, &again.expect("there is room again").body);
}

pub(crate) fn so_many_connections_of_a_client_are_answered_at_a_path(mount: &Mount) {
    let server = start(mount, "connections-per-address = 2\n");
    let (mut first, second) = (loads(&server), loads(&server));
    let mut third = server.connect();
    expect_refused(&mut third, "HTTP/1.1 429 Too Many Requests");
    // A place is free again when the answer has left, and the connection stays.
    reads_all(&mut first);
    loads_when_there_is_room(&server);
    assert_eq!(first.ask(get("/hello.txt")).status(), 200);
    let again = loads(&server);
    expect_refused(&mut third, "HTTP/1.1 429 Too Many Requests");
    // And when the client has gone.
    second.reset();
    loads_when_there_is_room(&server);
    // Many answers of one connection take one place.
    let mut batch = server.connect();
    batch.send(get("/large.bin").repeat(3));
    for _ in 0..3 {
        large_at(0, &batch.response().body);
    }
    drop(again);
}

pub(crate) fn so_many_connections_of_all_clients_are_answered_at_a_path(mount: &Mount) {
    let server = start(mount, "connections = 2\n");
    let (first, mut second) = (loads(&server), loads(&server));
    let mut third = server.connect();
    expect_refused(&mut third, "HTTP/1.1 503 Service Unavailable");
    // A reload forgets none that is under way, whatever else it changes.
    server.reload();
    let mut fourth = server.connect();
    expect_refused(&mut fourth, "HTTP/1.1 503 Service Unavailable");
    reads_all(&mut second);
    loads_when_there_is_room(&server);
    drop(first);
}

/// A file that the kernel would take as a whole, as far as it has its way: it has room for 4 MB.
const MIDDLE_BYTES: usize = 2_000_000;

pub(crate) fn a_place_is_kept_while_the_kernel_could_hold_the_answer(mount: &Mount) {
    let root = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(root.path().join("middle.bin"), vec![b'm'; MIDDLE_BYTES])
        .expect("it is written");
    // A pace of which a second is far less than the file, and none.
    for pace in ["bandwidth = 200000\n", ""] {
        let limit = format!("[[site.limit]]\npath = \"/\"\nconnections-per-address = 2\n{pace}");
        let sites = format!("[[site]]\nroot = {:?}\n{limit}", root.path());
        let server = mount.start_with_sites("", &sites);
        let loads = || {
            let mut client = server.connect_narrow(NARROW);
            client.send(get("/middle.bin"));
            assert_eq!(client.response_head().status(), 200);
            client
        };
        let (mut first, _second) = (loads(), loads());
        // They get what a pace lets through at once, and wait then for clients that do not read.
        let mut third = server.connect();
        for _ in 0..TRIES {
            let refused = third.ask(get("/middle.bin"));
            assert_eq!(refused.line, "HTTP/1.1 429 Too Many Requests", "{pace}");
        }
        if pace.is_empty() {
            assert_eq!(first.take(MIDDLE_BYTES), vec![b'm'; MIDDLE_BYTES]);
            let again = wait::until(wait::DEADLINE, || {
                let answer = third.ask(get("/middle.bin"));
                (answer.status() == 200).then_some(answer.body.len())
            });
            assert_eq!(again, Some(MIDDLE_BYTES));
        }
    }
}

pub(crate) fn a_client_asks_so_often_for_a_path(mount: &Mount) {
    let root = Site::shared().root();
    let site = format!("[[site]]\nroot = {root:?}\n");
    let limit = "[[site.limit]]\nmatch = '~\\.txt$'\nrequests-per-address = 1\n\
                 requests-burst = 5\n";
    let server = mount.start_with_sites("", &format!("{site}{limit}"));
    let mut client = server.connect();
    let statuses: Vec<u16> = (0..30)
        .map(|_| {
            assert_eq!(client.ask(get("/")).status(), 200);
            let answer = client.ask(get("/hello.txt"));
            if answer.status() == 429 {
                assert_eq!(answer.expect("Retry-After"), "1");
            }
            answer.status()
        })
        .collect();
    assert_eq!(statuses[..5], [200; 5]);
    // On a busy machine some seconds may have passed.
    let refused = statuses.iter().filter(|status| **status == 429).count();
    assert!((10..=25).contains(&refused), "{statuses:?}");
}

pub(crate) fn a_connection_has_the_pace_of_the_path_that_it_asks_for(mount: &Mount) {
    let ideal = Duration::from_secs_f64(LARGE_BYTES as f64 / PACE as f64);
    let server = start(mount, &format!("bandwidth = {PACE}\n"));
    let timed = |client: &mut Client, path: &str| {
        let start = Instant::now();
        let answer = client.ask(get(path));
        let took = start.elapsed();
        large_at(0, &answer.body);
        took
    };
    let (mut slow, mut fast) = (Duration::MAX, Duration::MAX);
    for _ in 0..PACE_TRIES {
        let mut client = server.connect();
        slow = slow.min(timed(&mut client, "/large.bin"));
        // It goes on as fast as it can where it is not limited.
        fast = fast.min(timed(&mut client, "/free/large.bin"));
        if slow <= ideal * 12 / 10 && fast < ideal / 2 {
            break;
        }
    }
    assert!((ideal * 8 / 10..=ideal * 12 / 10).contains(&slow), "{slow:?} for {ideal:?}");
    assert!(fast < ideal / 2, "{fast:?} beside {ideal:?}");
    // What is asked for behind it does not make it faster.
    let mut client = server.connect();
    let start = Instant::now();
    client.send(get("/large.bin") + &get("/free/hello.txt"));
    large_at(0, &client.response().body);
    let took = start.elapsed();
    assert!(took >= ideal * 8 / 10, "{took:?} for {ideal:?}");
    assert_eq!(client.response().status(), 200);
}
