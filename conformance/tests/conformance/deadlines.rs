//! Clients that stall: each wait has an end (RFC 9112, section 9.5).

use std::time::{Duration, Instant};

use flyball_testkit::{Client, LARGE_BYTES, Server, large_at, wait};

use crate::draining::wait_until_all_are_told;
use crate::mount::Mount;
use crate::requests::{get, request};

/// Short enough for a test, long enough for a busy machine to tell an early end from one in time.
const SETTINGS: &str = "admin = \"127.0.0.1:0\"\nworkers = 1\naccept.defer = false\n\
    timeout.head = \"1s\"\ntimeout.idle = \"1s\"\ntimeout.linger = \"1s\"\n\
    timeout.linger-most = \"3s\"\ntimeout.send = \"1s\"\nrate.window = \"1s\"\n\
    rate.body-min = \"1MB\"\nrate.send-min = \"1MB\"\n";

/// The least that each of these waits may take.
const WAIT: Duration = Duration::from_millis(990);

/// The most: blocking threads look at the time every half second, and the machine may be busy.
const WAIT_MAX: Duration = Duration::from_secs(18);

/// Of what began before the server could begin to wait.
#[track_caller]
fn assert_in_time(start: Instant) {
    assert!(start.elapsed() >= WAIT, "it took {:?}", start.elapsed());
    wait::assert_within(start, WAIT_MAX, "a wait");
}

/// Clients that ask for ever more and read nothing, and by how many requests each asks for more.
const CROWD: usize = 120;
const PIPELINED: usize = 20;

/// Waits until as many connections were closed for this reason.
#[track_caller]
fn expect_closed_for(server: &Server, reason: &str, count: usize) {
    let wanted = format!("\"{reason}\": {count},");
    let found = wait::until(wait::DEADLINE, || server.status().contains(&wanted).then_some(()));
    assert!(found.is_some(), "never {wanted} in {}", server.status());
}

pub(crate) fn every_wait_for_a_client_has_an_end(mount: &Mount) {
    let server = mount.start(SETTINGS);
    std::thread::scope(|scope| {
        for wait in
            [silent, head, head_in_drips, idle, body, lingering, lingering_and_sending, reader]
        {
            let server = &server;
            scope.spawn(move || wait(server));
        }
    });
    expect_closed_for(&server, "idle-timeout", 1);
    expect_closed_for(&server, "head-timeout", 3);
    expect_closed_for(&server, "body-timeout", 1);
    expect_closed_for(&server, "send-timeout", 1);
}

/// A connection on which nothing is ever sent.
fn silent(server: &Server) {
    let start = Instant::now();
    let mut client = server.connect();
    client.expect_closed();
    assert_in_time(start);
}

fn head(server: &Server) {
    let start = Instant::now();
    let mut client = server.connect();
    client.send("GET /hello.txt HTTP/1.1\r\nHost: a");
    let answer = client.response();
    assert_in_time(start);
    assert_eq!(answer.line, "HTTP/1.1 408 Request Timeout");
    assert_eq!(answer.field("Connection"), Some("close"));
    client.expect_closed();
}

/// The time is for the whole head: a byte now and then does not win more of it.
fn head_in_drips(server: &Server) {
    let start = Instant::now();
    let mut client = server.connect();
    client.send("GET /hello.txt HTTP/1.1\r\nX: ");
    while start.elapsed() < WAIT_MAX && client.try_send("y") {
        wait::dawdle(Duration::from_millis(20));
        if client.arrived() {
            break;
        }
    }
    assert_eq!(client.response().line, "HTTP/1.1 408 Request Timeout");
    assert_in_time(start);
    client.expect_closed();
}

/// Nobody asked for anything, so that nothing is said.
fn idle(server: &Server) {
    let mut client = server.connect();
    // The time may begin long before the answer is read.
    let start = Instant::now();
    assert_eq!(client.ask(get("/hello.txt")).status(), 200);
    client.expect_closed();
    assert_in_time(start);
}

fn body(server: &Server) {
    let start = Instant::now();
    let mut client = server.connect();
    client.send(request("POST", "/digest", &["Content-Length: 1000000"]) + "hello");
    let answer = client.response();
    assert_in_time(start);
    assert_eq!(answer.line, "HTTP/1.1 408 Request Timeout");
    assert_eq!(answer.field("Connection"), Some("close"));
    client.expect_closed();
}

/// A refused client that neither sends nor closes does not keep the connection for ever.
fn lingering(server: &Server) {
    let mut client = server.connect();
    client.send("GET /hello.txt HTTP/1.1\r\n\r\n");
    assert_eq!(client.response().line, "HTTP/1.1 400 Bad Request");
    client.expect_closed();
    let start = Instant::now();
    let gone = wait::until(wait::DEADLINE, || (!client.try_send("x")).then_some(()));
    assert!(gone.is_some(), "it lingers after {:?}", start.elapsed());
}

/// Who goes on sending is not cut off after the time of one wait, and is at the end of all.
fn lingering_and_sending(server: &Server) {
    let mut client = server.connect();
    client.send("GET /hello.txt HTTP/1.1\r\n\r\n");
    assert_eq!(client.response().line, "HTTP/1.1 400 Bad Request");
    client.expect_closed();
    let start = Instant::now();
    let mut longest = Duration::ZERO;
    let mut last = start;
    while start.elapsed() < WAIT_MAX && client.try_send("x") {
        longest = longest.max(last.elapsed());
        last = Instant::now();
        wait::dawdle(Duration::from_millis(20));
    }
    // On a busy machine it may have paused for as long as it is waited for.
    let went_on = longest < WAIT / 2;
    assert!(!went_on || start.elapsed() >= 2 * WAIT, "it lingers for {:?}", start.elapsed());
    wait::assert_within(start, WAIT_MAX, "lingering");
}

fn reader(server: &Server) {
    let mut client = server.connect_narrow(128 * 1024);
    client.send(get("/large.bin"));
    assert_eq!(client.response_head().status(), 200);
    expect_closed_for(server, "send-timeout", 1);
    let rest = client.rest_before_end();
    assert!(rest.len() < LARGE_BYTES, "all {} bytes came", rest.len());
}

/// Clients of a kind that ask while the server stands still: together more than a ring tells of at
/// once, and fewer than `mt` has threads.
const ASKING: usize = 20;

/// How long it stands still, and the times of its clients.
const STANDSTILL: Duration = Duration::from_secs(2);

/// Has clients ask while a server stands still whose times are not over, and has it go on when they
/// are: an answer for each. `None` if their times were over before.
fn all_asked_in_time(server: &Server, of_a_kind: usize) -> Option<Vec<u16>> {
    let start = Instant::now();
    let request = get("/hello.txt");
    let (first, rest) = request.split_at(20);
    let mut clients = Vec::new();
    for _ in 0..of_a_kind {
        let (mut idle, fresh, mut head) = (server.connect(), server.connect(), server.connect());
        assert_eq!(idle.try_ask(&request)?.status(), 200);
        head.send(first);
        clients.extend([(idle, request.as_str()), (fresh, request.as_str()), (head, rest)]);
    }
    let wanted = format!("\"reading-head\": {of_a_kind},");
    wait::until(STANDSTILL, || server.status().contains(&wanted).then_some(()))?;
    let held = server.hold();
    let sent = clients.iter_mut().all(|(client, bytes)| client.try_send(*bytes));
    if !sent || start.elapsed() >= STANDSTILL {
        return None;
    }
    wait::dawdle(STANDSTILL);
    drop(held);
    Some(clients.iter_mut().map(|(client, _)| client.response().status()).collect())
}

/// What came before a deadline counts, however late the server gets to see it.
pub(crate) fn what_came_in_time_is_answered_after_a_standstill(mount: &Mount) {
    let server = mount.start(&SETTINGS.replace("\"1s\"", "\"2s\""));
    let of_a_kind = if mount.architecture() == "mp" { 1 } else { ASKING };
    // On a busy machine time may be over before the server stands still.
    let statuses = wait::until(wait::DEADLINE, || all_asked_in_time(&server, of_a_kind));
    assert_eq!(statuses.expect("it stands still in time"), vec![200; of_a_kind * 3]);
}

/// Answers of which the last is small, and closes the connection: however many are in front of it
/// and fill the socket, a client that reads none has the time that others have.
pub(crate) fn a_last_answer_behind_a_full_socket_has_an_end(mount: &Mount) {
    let server = mount.start(&format!("{SETTINGS}send.buffer = \"64KiB\"\n"));
    let clients: Vec<Client> = (0..CROWD)
        .map(|nth| {
            let mut client = server.connect_narrow(64 * 1024);
            let last = request("GET", "/hello.txt", &["Connection: close"]);
            let _ = client.try_send(get("/hello.txt").repeat(nth * PIPELINED) + &last);
            client
        })
        .collect();
    let all_closed = || {
        let status = server.status();
        let (_, closed) = status.split_once("\"closed\": {")?;
        let counts = closed.split_once('}')?.0.split(',').filter_map(|pair| pair.split_once(':'));
        let closed: usize = counts.filter_map(|(_, n)| n.trim().parse::<usize>().ok()).sum();
        (closed >= CROWD).then_some(())
    };
    // What it answers before the last takes a busy machine longer than the waits do.
    let found = wait::until(wait::DEADLINE, all_closed);
    assert!(found.is_some(), "some are held: {}", server.status());
    drop(clients);
}

/// The answer to one that reads late: more than it has room for, and no more than its server's
/// socket takes.
const LATE_BYTES: usize = 400_000;

/// A client that has asked for such an answer, and reads no more than its head.
fn late(server: &Server) -> Client {
    let mut client = server.connect_narrow(16 * 1024);
    let range = format!("Range: bytes=0-{}", LATE_BYTES - 1);
    client.send(request("GET", "/large.bin", &[&range]));
    assert_eq!(client.response_head().status(), 206);
    client
}

/// It asks again, before it reads the content that it has asked for first.
fn expect_all_of_it(mut client: Client) -> Client {
    client.send(get("/hello.txt"));
    large_at(0, &client.take(LATE_BYTES));
    client
}

/// A connection that is at an end is reset when more comes for it. What its socket holds would be
/// lost then: the client has its time, and nothing that it sends meanwhile cuts that short.
pub(crate) fn an_end_in_order_leaves_a_late_reader_its_answer(mount: &Mount) {
    let settings = SETTINGS.replace("timeout.linger = \"1s\"", "timeout.linger = \"30s\"");
    let server = mount.start(&settings);
    let takes_nothing = late(&server);
    let lingers = || server.status().contains("\"lingering\": 1,").then_some(());
    let found = wait::until(WAIT_MAX, lingers);
    assert!(found.is_some(), "it does not linger: {}", server.status());
    expect_all_of_it(takes_nothing).expect_closed();
    drop(server);

    let settings = settings.replace("timeout.send = \"1s\"", "timeout.send = \"1min\"");
    let server = mount.start(&settings);
    let pauses = late(&server);
    // Its time would be over long since.
    (0..2).for_each(|_| idle(&server));
    let start = Instant::now();
    let mut pauses = expect_all_of_it(pauses);
    assert_eq!(pauses.response().text(), "hello, world\n", "its time had not begun");
    pauses.expect_closed();
    assert_in_time(start);
    expect_closed_for(&server, "idle-timeout", 3);
    drop(server);

    let server = mount.start("workers = 1\ntimeout.linger = \"30s\"\n");
    let stays = late(&server);
    let mut witness = server.connect();
    assert_eq!(witness.ask(get("/hello.txt")).status(), 200);
    server.terminate();
    witness.expect_closed();
    wait_until_all_are_told(mount);
    let mut stays = expect_all_of_it(stays);
    let answer = stays.response();
    assert_eq!((answer.text(), answer.field("Connection")), ("hello, world\n", Some("close")));
    stays.expect_closed();
}
