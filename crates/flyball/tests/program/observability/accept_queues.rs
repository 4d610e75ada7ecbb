//! What is told of the accept queues: how long their heads wait, and what was dropped at them.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use flyball_testkit::{Client, wait};
use serde_json::Value;

use crate::common::{Launch, Server, Site, get, metrics, signal};

/// How long a connection waits at least.
const WAIT: Duration = Duration::from_millis(60);

/// Two ticks of a kernel that has 250 in a second.
const TICKS_MS: u64 = 8;

fn launch(site: &Site) -> Launch {
    Launch::new(site, "sped").args(&["--workers", "1", "--admin", "127.0.0.1:0"])
}

fn start(site: &Site) -> Server {
    launch(site).set("accept.backlog=1").set("accept.defer=off").start()
}

/// What `/status` tells of the only accept queue.
fn queue(server: &Server) -> Value {
    server.status()["accept_queues"][0].clone()
}

fn number(queue: &Value, key: &str) -> u64 {
    queue[key].as_u64().unwrap_or_else(|| panic!("no {key} in {queue}"))
}

/// What a family of `/metrics` says of the only accept queue.
fn of_queue(told: &str, family: &str) -> f64 {
    match &metrics::parse(told)[family].samples[..] {
        [sample] => sample.value,
        other => panic!("not of one queue: {other:?}"),
    }
}

fn ms_since(then: Instant) -> u64 {
    then.elapsed().as_millis() as u64
}

#[test]
fn the_wait_of_the_head_of_a_queue_is_told_while_it_stands_and_when_it_was_accepted() {
    let site = Site::with(&[("small.txt", b"small")]);
    let server = start(&site);
    assert_eq!(number(&queue(&server), "head_age_ms"), 0);
    let worker = server.told_worker();
    signal(worker, "STOP");
    let before = Instant::now();
    let mut client = server.connect();
    let connected = Instant::now();
    client.send(get("/small.txt"));
    // The first look finds that something waits, and the next that it is the same.
    queue(&server);
    let looked = Instant::now();
    wait::dawdle(WAIT);
    let least = ms_since(looked) - TICKS_MS;
    let stands = number(&queue(&server), "head_age_ms");
    assert!((least..=ms_since(before) + TICKS_MS).contains(&stands), "{stands} of {least}");
    let least = ms_since(connected) - TICKS_MS;
    signal(worker, "CONT");
    assert_eq!(client.response().status(), 200);
    let most = ms_since(before) + TICKS_MS;
    let told = server.connect_admin().ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let head_age = of_queue(told.text(), "flyball_head_age_seconds");
    let head_age_ms = (head_age * 1e3).round() as u64;
    // A machine that stood still meanwhile looks at an empty queue, later.
    let is_late = ms_since(before) > most + 1_000;
    assert!((least..=most).contains(&head_age_ms) || is_late, "{head_age_ms} in {least}..={most}");
}

#[test]
fn what_a_listening_socket_drops_is_told() {
    let site = Site::with(&[("small.txt", b"small")]);
    let server = start(&site);
    assert_eq!(number(&queue(&server), "drops"), 0);
    let worker = server.told_worker();
    signal(worker, "STOP");
    // The queue holds one more than its limit; the rest is dropped and tried again in vain.
    let address = ([127, 0, 0, 1], server.port).into();
    let clients: Vec<_> =
        (0..6).map(|_| TcpStream::connect_timeout(&address, Duration::from_millis(50))).collect();
    let lost = clients.iter().filter(|client| client.is_err()).count();
    assert!(lost > 0);
    assert!(number(&queue(&server), "drops") >= lost as u64, "{}", queue(&server));
    let told = server.connect_admin().ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let drops = of_queue(told.text(), "flyball_listener_drops_total");
    assert!(drops >= lost as f64, "{drops} of {lost}");
    signal(worker, "CONT");
    drop(clients);
    let mut client: Client = server.connect();
    assert_eq!(client.ask(get("/small.txt")).status(), 200);
}

#[test]
fn a_listening_socket_that_defers_tells_no_drops_since_it_drops_the_end_of_each_handshake() {
    let site = Site::with(&[("small.txt", b"small")]);
    let server = launch(&site).start();
    for _ in 0..3 {
        assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
    }
    assert!(queue(&server)["drops"].is_null(), "{}", queue(&server));
    let status = server.status();
    assert!(status["accept_queue"]["drops"].is_null(), "{}", status["accept_queue"]);
    let told = server.connect_admin().ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let told = metrics::parse(told.text());
    assert!(!told.contains_key("flyball_listener_drops_total"));
    assert!(told.contains_key("flyball_kernel_listen_drops_total"));
}
