//! A request is the same request however its bytes arrive, and its answer however it is read.

use std::time::Duration;

use flyball_testkit::{Client, LARGE_BYTES, large_at, wait};

use crate::mount::Mount;
use crate::requests::{get, request};

/// Socket buffer of a client that is slower than the server.
const NARROW_BYTES: usize = 128 * 1024;

/// What it reads at once.
const SIP_BYTES: usize = 8 * 1024;

/// How long nothing happens.
const IDLE: Duration = Duration::from_secs(1);

/// How often a server stands still during one download.
const STANDSTILLS: usize = 4;

pub(crate) fn a_request_may_be_split_at_every_byte(mount: &Mount) {
    let request = request("GET", "/hello.txt", &["Connection: close"]);
    for at in 1..request.len() {
        let mut client = mount.connect();
        client.send_split(&request, [at]);
        assert_eq!(client.response().text(), "hello, world\n", "split at {at}");
        client.expect_closed();
    }
}

pub(crate) fn a_request_may_come_byte_by_byte(mount: &Mount) {
    let mut client = mount.connect();
    let request = get("/hello.txt");
    for _ in 0..2 {
        client.send_split(&request, 1..request.len());
        assert_eq!(client.response().text(), "hello, world\n");
    }
}

pub(crate) fn a_refusal_does_not_depend_on_the_split(mount: &Mount) {
    let request = "GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n";
    for at in 1..request.len() {
        let mut client = mount.connect();
        client.send_split(request, [at]);
        assert_eq!(client.response().status(), 400, "split at {at}");
        client.expect_closed();
    }
}

pub(crate) fn a_large_file_comes_byte_for_byte(mount: &Mount) {
    let mut client = mount.connect();
    for _ in 0..2 {
        let answer = client.ask(get("/large.bin"));
        assert_eq!((answer.status(), answer.body.len()), (200, LARGE_BYTES));
        large_at(0, &answer.body);
    }
    assert_eq!(client.ask(get("/hello.txt")).text(), "hello, world\n");
}

pub(crate) fn a_slow_reader_gets_a_large_file_whole(mount: &Mount) {
    let mut client = mount.server().connect_narrow(NARROW_BYTES);
    client.send(get("/large.bin"));
    let head = client.response_head();
    assert_eq!(head.content_length(), Some(LARGE_BYTES));
    let mut at = 0;
    while at < LARGE_BYTES {
        let piece = client.take((LARGE_BYTES - at).min(SIP_BYTES));
        large_at(at, &piece);
        at += piece.len();
        // The server's socket is full most of the time even without a pause, and for long with one.
        if at % (LARGE_BYTES / 16) < SIP_BYTES {
            wait::dawdle(Duration::from_millis(5));
        }
    }
    assert_eq!(client.ask(get("/hello.txt")).text(), "hello, world\n");
}

pub(crate) fn many_downloads_at_once_are_kept_apart(mount: &Mount) {
    let narrow = || mount.server().connect_narrow(NARROW_BYTES);
    let mut clients: Vec<Client> = (0..8).map(|_| narrow()).collect();
    let start = |n: usize| n * 777_777;
    for (n, client) in clients.iter_mut().enumerate() {
        let range = format!("Range: bytes={}-{}", start(n), start(n) + 999_999);
        client.send(request("GET", "/large.bin", &[&range]));
        assert_eq!(client.response_head().status(), 206);
    }
    for at in (0..1_000_000).step_by(100_000) {
        for (n, client) in clients.iter_mut().enumerate() {
            large_at(start(n) + at, &client.take(100_000));
        }
    }
    for mut client in clients {
        assert_eq!(client.ask(get("/hello.txt")).text(), "hello, world\n");
    }
}

pub(crate) fn a_half_close_after_the_request_changes_nothing(mount: &Mount) {
    for (target, len) in [("/hello.txt", 13), ("/missing", 0), ("/large.bin", LARGE_BYTES)] {
        let mut client = mount.connect();
        client.send(get(target));
        client.half_close();
        let answer = client.response();
        assert!(len == 0 || answer.body.len() == len, "{target}: {}", answer.head);
        client.expect_closed();
    }
    let mut client = mount.server().connect_narrow(NARROW_BYTES);
    client.send(get("/large.bin"));
    client.half_close();
    large_at(0, &client.response().body);
    client.expect_closed();
}

/// As `nc -N` does; a kernel may tell the server meanwhile that there is no room.
pub(crate) fn a_client_that_closed_its_side_and_pauses_gets_the_whole_file(mount: &Mount) {
    let mut client = mount.server().connect_narrow(NARROW_BYTES);
    client.send(get("/large.bin"));
    client.half_close();
    wait::dawdle(Duration::from_secs(1));
    large_at(0, &client.response().body);
    client.expect_closed();
}

/// A ring tells of the end of its client's side with every wait for room.
pub(crate) fn a_half_closed_client_that_reads_nothing_holds_up_no_other(mount: &Mount) {
    let server = mount.start("workers = 1\nsend.buffer = \"64KiB\"\n");
    let mut client = server.connect_narrow(NARROW_BYTES);
    client.send(get("/large.bin"));
    client.half_close();
    assert_eq!(client.response_head().status(), 200);
    for _ in 0..20 {
        assert_eq!(server.connect().ask(get("/hello.txt")).status(), 200);
    }
    large_at(0, &client.take(LARGE_BYTES));
    client.expect_closed();
}

/// Such a wait comes back at once, room or not: one that is begun again each time never sleeps.
pub(crate) fn a_half_closed_client_that_reads_nothing_keeps_no_processor_busy(mount: &Mount) {
    for mode in ["copy", "sendfile"] {
        let settings = "workers = 1\nsend.buffer = \"64KiB\"\n";
        let server = mount.start(&format!("{settings}send.mode = \"{mode}\"\n"));
        let mut client = server.connect_narrow(NARROW_BYTES);
        client.send(get("/large.bin"));
        client.half_close();
        assert_eq!(client.response_head().status(), 200);
        let before = server.processor_time();
        wait::dawdle(IDLE);
        let taken = server.processor_time().saturating_sub(before);
        assert!(taken < IDLE / 5, "{mode}: {taken:?} of a processor in {IDLE:?}");
        large_at(0, &client.take(LARGE_BYTES));
        client.expect_closed();
    }
}

/// What waits for room in a thread of the kernel's own is interrupted when the process is stopped.
pub(crate) fn a_half_closed_client_gets_the_whole_file_after_standstills(mount: &Mount) {
    for mode in ["auto", "copy", "sendfile", "mapped"] {
        let settings = format!("workers = 1\nsend.buffer = \"64KiB\"\nsend.mode = \"{mode}\"\n");
        let server = mount.start(&settings);
        let mut client = server.connect_narrow(NARROW_BYTES);
        client.send(get("/large.bin"));
        client.half_close();
        assert_eq!(client.response_head().status(), 200, "{mode}");
        let mut at = 0;
        for _ in 0..STANDSTILLS {
            // The server fills the socket, and waits for room.
            wait::dawdle(Duration::from_millis(50));
            drop(server.hold());
            wait::dawdle(Duration::from_millis(20));
            let piece = client.take(LARGE_BYTES / STANDSTILLS / 2);
            large_at(at, &piece);
            at += piece.len();
        }
        large_at(at, &client.take(LARGE_BYTES - at));
        client.expect_closed();
    }
}

/// It takes a little all the time: who sends is never overdue, and hears of the reload all the
/// same.
pub(crate) fn a_slow_download_is_not_cut_by_a_reload(mount: &Mount) {
    let server = mount.start("send.mode = \"sendfile\"\nsend.buffer = \"64KiB\"\n");
    let mut client = server.connect_narrow(NARROW_BYTES);
    client.send(get("/large.bin"));
    assert_eq!(client.response_head().status(), 200);
    let mut at = 0;
    std::thread::scope(|scope| {
        let reload = scope.spawn(|| server.reload());
        while !reload.is_finished() && at < LARGE_BYTES {
            let piece = client.take(SIP_BYTES.min(LARGE_BYTES - at));
            large_at(at, &piece);
            at += piece.len();
            wait::dawdle(Duration::from_millis(20));
        }
    });
    // More than is on its way.
    large_at(at, &client.take((LARGE_BYTES - at).min(8 * NARROW_BYTES)));
    server.assert_sound();
}

pub(crate) fn a_half_close_within_a_head_is_let_go(mount: &Mount) {
    for part in ["G", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: a\r\n"] {
        let mut client = mount.connect();
        client.send(part);
        client.half_close();
        client.expect_closed();
    }
}

pub(crate) fn a_reset_in_a_download_disturbs_nobody_else(mount: &Mount) {
    let mut witness = mount.server().connect_narrow(NARROW_BYTES);
    witness.send(get("/large.bin"));
    assert_eq!(witness.response_head().status(), 200);
    for at in (0..LARGE_BYTES).step_by(LARGE_BYTES / 8) {
        let mut client = mount.connect();
        client.send(get("/large.bin").repeat(3));
        client.take(50_000);
        client.reset();
        // Without a word as well, and within a request.
        mount.connect().reset();
        let mut client = mount.connect();
        client.send("GET /hello.t");
        client.reset();
        large_at(at, &witness.take(LARGE_BYTES / 8));
    }
    assert_eq!(witness.ask(get("/hello.txt")).text(), "hello, world\n");
}

pub(crate) fn a_client_that_pipelines_without_reading_is_held_back(mount: &Mount) {
    let mut client = mount.server().connect_narrow(NARROW_BYTES);
    let batch = get("/large.bin") + &get("/hello.txt").repeat(200);
    client.send(&batch);
    wait::dawdle(Duration::from_millis(20));
    large_at(0, &client.response().body);
    for at in 0..200 {
        assert_eq!(client.response().text(), "hello, world\n", "answer {at}");
    }
}
