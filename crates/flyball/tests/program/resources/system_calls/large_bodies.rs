//! Large bodies, counted: pieces, looks at the file and at what of it is in memory.

use std::time::Instant;

use flyball_testkit::Client;

use super::{ROUNDS, without_waits};
use crate::common::trace::{Call, Traced, tally};
use crate::common::{Site, get, has, last_get, wait_for};

/// `send.piece` of the tests.
const PIECE_BYTES: usize = 64 * 1024;

/// A body of many pieces.
const LARGE_BYTES: usize = 20 * PIECE_BYTES + 7;

/// Bytes that one sendfile may take.
const SENDFILE_BYTES_MAX: usize = 4 * 1024 * 1024;

fn site() -> Site {
    let large: Vec<u8> = (0..LARGE_BYTES).map(|at| (at % 251) as u8).collect();
    Site::with(&[("small.txt", &[b'x'; 1024]), ("large.bin", &large)])
}

#[test]
fn a_large_file_leaves_corked_to_its_head_and_in_bounded_pieces() {
    if !has("strace") {
        return;
    }
    let site = site();
    let expected = std::fs::read(site.path().join("large.bin")).expect("the file is there");
    let piece = format!("send.piece={PIECE_BYTES}B");
    for (mode, bound) in [("copy", PIECE_BYTES), ("sendfile", SENDFILE_BYTES_MAX)] {
        let traced = Traced::start(
            &site,
            "sped",
            &[&piece, &format!("send.mode={mode}"), "cache.small=1KiB"],
        );
        let mut client = traced.warm("/large.bin");
        let mut head_bytes = 0;
        let calls = traced.calls(&mut client, |client| {
            let response = client.ask(get("/large.bin"));
            head_bytes = response.head.len();
            assert!(response.body == expected, "{mode}: the body is not the file");
        });
        check_large(mode, bound, head_bytes, &calls);
    }
}

/// One read; the head with more to come; then pieces until all is sent, and one look at the file.
fn check_large(mode: &str, bound: usize, head_bytes: usize, calls: &[Call]) {
    let (mut counts, _) = without_waits(tally(calls));
    println!("{mode}: {counts:?} for {LARGE_BYTES} bytes in pieces of {bound}");
    assert_eq!(counts.remove("read"), Some(1), "{mode}: {calls:#?}");
    let is_sent = |call: &&Call| matches!(call.kind(), "write" | "sendfile");
    let sends: Vec<&Call> = calls.iter().filter(is_sent).collect();
    let took: Vec<usize> =
        sends.iter().filter_map(|call| usize::try_from(call.result).ok()).collect();
    assert_eq!(took[0], head_bytes, "{mode}: the head goes first: {calls:#?}");
    assert!(sends[0].arguments.contains("MSG_MORE"), "{mode}: {:?}", sends[0]);
    assert_eq!(took.iter().sum::<usize>(), head_bytes + LARGE_BYTES, "{mode}: {calls:#?}");
    assert!(took[1..].iter().all(|piece| *piece <= bound), "{mode}: {took:?}");
    let copied = sends[1..].iter().filter(|call| call.kind() == "write");
    let open: Vec<bool> = copied.map(|call| call.arguments.contains("MSG_MORE")).collect();
    // A piece that the socket took only in part is read and sent again from where it stopped.
    let (last, earlier) = open.split_last().unwrap_or((&false, &[]));
    assert!(!last, "{mode}: the last piece waits for nothing: {calls:#?}");
    let tail = earlier.iter().rev().take_while(|more| !**more).count();
    assert!(earlier[..earlier.len() - tail].iter().all(|more| *more), "{mode}: {calls:#?}");
    let pieces = sends.len() - 1;
    assert_eq!(counts.remove("pread64").unwrap_or(0), open.len(), "{mode}: {calls:#?}");
    let looks = counts.remove("stat").unwrap_or(0);
    assert!((1..=1 + tail + 2).contains(&looks), "{mode}: {looks} looks: {calls:#?}");
    let changes = counts.remove("epoll_ctl").unwrap_or(0);
    assert!(changes <= 2 * pieces, "{mode}: {changes} changes of interest: {calls:#?}");
    counts.remove("write");
    counts.remove("sendfile");
    assert!(counts.is_empty(), "{mode}: {counts:?} beside: {calls:#?}");
}

/// A large body is 16 MiB: more than any socket takes at once.
const HUGE_BYTES: usize = 16 << 20;

#[test]
fn a_ring_sends_a_large_body_in_memory_by_sendfile_however_slowly_it_is_read() {
    if !has("strace") {
        return;
    }
    let body: Vec<u8> = (0..HUGE_BYTES / 8).flat_map(usize::to_le_bytes).collect();
    let site = Site::with(&[("small.txt", &[b'x'; 1024]), ("huge.bin", &body)]);
    for features in ["auto", "plain"] {
        let setting = format!("uring.features={features}");
        let traced = Traced::start(&site, "uring", &[&setting, "send.quiet=0s"]);
        let _warm = traced.warm("/huge.bin");
        let fds = format!("/proc/{}/fd", traced.server.worker());
        let open = || std::fs::read_dir(&fds).map_or(0, Iterator::count);
        let before = open();
        let calls = traced.calls_of_worker(|| {
            let mut client = traced.server.connect();
            // The second request waits behind the body, the third for the second.
            client.send(get("/huge.bin") + &get("/small.txt"));
            assert!(client.response().body == body, "{features}: the body is not the file");
            assert_eq!(client.response().body.len(), 1024, "{features}");
            assert_eq!(client.ask(last_get("/huge.bin")).body.len(), HUGE_BYTES, "{features}");
            client.expect_closed();
            // One that goes away in the middle leaves nothing behind.
            let mut gone = traced.server.connect();
            gone.send(get("/huge.bin"));
            assert_eq!(gone.take(65_536).len(), 65_536, "{features}");
        });
        let sends = calls.iter().filter(|call| call.kind() == "sendfile");
        let sent: i64 = sends.map(|call| call.result.max(0)).sum();
        let counts = tally(&calls);
        println!("uring, {features}: {counts:?}");
        assert!(sent >= 2 * HUGE_BYTES as i64, "{features}: {sent} bytes by reference");
        assert_eq!(counts.get("pread64"), None, "{features}: {counts:?}");
        wait_for("the descriptors are closed", || (open() <= before).then_some(()));
    }
}

/// For how long what was seen in memory is taken to be there, and how much one look covers.
const SEEN_HOLDS_MS: u128 = 100;
const LOOK_BYTES_MAX: usize = 1024 * 1024;

/// Room on the way to a client: with more, the socket takes all of [`LARGE_BYTES`] at once while
/// the client does not run.
const NARROW_BYTES: usize = 128 * 1024;

/// How many looks may be made from then on, if one covers each time all that is asked for: the
/// server counts whole milliseconds, and so may begin one earlier.
fn looks_since(start: Instant) -> usize {
    let repeated = (start.elapsed().as_millis() + 1) / SEEN_HOLDS_MS;
    1 + usize::try_from(repeated).expect("the test ends soon")
}

/// Looks among these calls: one is a call for the pages, and one for a page that cannot be there.
fn looks(calls: &[Call]) -> usize {
    tally(calls).get("mincore").copied().unwrap_or(0) / 2
}

#[test]
fn a_body_in_memory_is_not_looked_at_again_for_each_sendfile() {
    if !has("strace") {
        return;
    }
    let site = site();
    let settings = ["send.mode=sendfile", "cache.small=1KiB", "send.buffer=16KiB"];
    let traced = Traced::start(&site, "amped", &settings);
    let address = ([127, 0, 0, 1], traced.server.port).into();
    let mut client = Client::connect_narrow(address, NARROW_BYTES);
    let ask = |client: &mut Client| {
        assert_eq!(client.ask(get("/large.bin")).body.len(), LARGE_BYTES);
    };
    let first = traced.calls_between(&mut client, "-first", ask);
    assert!(looks(&first) > 0, "no look is seen: {first:#?}");
    let start = Instant::now();
    let calls = traced.calls(&mut client, ask);
    let (looks, most) = (looks(&calls), looks_since(start) + LARGE_BYTES / LOOK_BYTES_MAX);
    let counts = tally(&calls);
    println!("amped: {counts:?} for {LARGE_BYTES} bytes through a small socket");
    assert!(counts["sendfile"] > 5, "the socket takes all at once: {calls:#?}");
    assert!(looks <= most, "{looks} looks, {most} at most: {calls:#?}");
}

#[test]
fn a_body_in_memory_is_not_looked_at_again_for_each_request() {
    if !has("strace") {
        return;
    }
    let site = site();
    let traced = Traced::start(&site, "amped", &["send.mode=sendfile", "cache.small=512B"]);
    let mut client = traced.warm("/small.txt");
    let start = Instant::now();
    let calls = traced.calls(&mut client, |client| {
        for _ in 0..ROUNDS {
            assert_eq!(client.ask(get("/small.txt")).body.len(), 1024);
        }
    });
    let counts = tally(&calls);
    println!("amped: {counts:?} for {ROUNDS} requests");
    assert_eq!(counts["sendfile"], ROUNDS, "each body by reference: {calls:#?}");
    let (looks, most) = (looks(&calls), looks_since(start));
    assert!(looks <= most, "{looks} looks, {most} at most: {calls:#?}");
}
