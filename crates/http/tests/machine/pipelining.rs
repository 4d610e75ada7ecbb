//! Batches of pipelined requests.

use flyball_http::Limits;
use flyball_http::h1::state::State;

use crate::script::{Act, drive, kept, limits, play, play_with, send};

fn batch(paths: impl Iterator<Item = usize>) -> String {
    paths.map(|n| format!("GET /{n} HTTP/1.1\r\nHost: a\r\n\r\n")).collect()
}

fn answers(paths: impl Iterator<Item = usize>) -> String {
    paths.map(|n| kept(&format!("/{n}"))).collect()
}

#[test]
fn a_batch_within_the_bound_is_answered_in_one_write() {
    let driver = drive(&limits(), &[send(batch(0..4))], usize::MAX);
    assert_eq!(driver.text(), answers(0..4));
    assert_eq!(driver.batch_max, 4);
}

#[test]
fn a_batch_beyond_the_bound_is_answered_in_full_and_in_order() {
    let end = play(&[send(batch(0..23))]);
    assert_eq!(end.wire, answers(0..23));
    assert_eq!(end.state, State::Idle);
    let driver = drive(&limits(), &[send(batch(0..23))], usize::MAX);
    assert_eq!(driver.batch_max, 4, "the bound is used, and it holds");
}

#[test]
fn a_bound_of_one_answers_one_at_a_time() {
    let limits = Limits { pipeline_max: 1, ..limits() };
    let end = play_with(&limits, &[send(batch(0..5))]);
    assert_eq!(end.wire, answers(0..5));
}

#[test]
fn a_client_that_does_not_read_is_not_read_from_either() {
    let acts = [Act::Room(0), send(batch(0..4)), send(batch(4..100)), send(batch(100..103))];
    let mut driver = drive(&limits(), &acts, usize::MAX);
    assert_eq!((driver.text().as_str(), driver.requests), ("", 4));
    // No more than one buffer was taken in; the rest waits in the socket.
    let unread = driver.socket.len();
    assert!(unread >= batch(4..103).len() - limits().head_bytes_max, "{unread}");
    driver.open(10);
    assert_eq!((driver.wire.len(), driver.requests), (10, 4));
    driver.open(u64::MAX);
    assert_eq!(driver.text(), answers(0..103));
}

#[test]
fn while_an_answer_waits_further_heads_stay_in_the_socket() {
    for first in [batch(0..1), batch(0..1) + "GET"] {
        let rest = &batch(1..2)[first.len() - batch(0..1).len()..];
        let acts = [Act::Room(0), send(&first), send(rest)];
        let mut driver = drive(&limits(), &acts, usize::MAX);
        let wants = driver.conn.wants();
        assert!(wants.write && !wants.read, "{wants:?}");
        assert_eq!((driver.requests, driver.socket.len()), (1, rest.len()));
        driver.open(u64::MAX);
        assert_eq!(driver.text(), answers(0..2));
    }
}

#[test]
fn the_output_queue_bounds_a_batch_as_well_as_its_count() {
    let limits = Limits { pipeline_max: u16::MAX, ..limits() };
    let acts = [Act::Room(0), send(batch(0..30))];
    let mut driver = drive(&limits, &acts, usize::MAX);
    assert!(driver.requests <= flyball_http::out::SEGMENTS_MAX / 2, "{}", driver.requests);
    driver.open(u64::MAX);
    assert_eq!(driver.text(), answers(0..30));
}

#[test]
fn answers_that_wait_keep_their_place() {
    let head = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    let all = head("/a") + &head("/wait/b") + &head("/c") + &head("/wait/d") + &head("/e");
    let end = play(&[send(all), Act::Release, Act::Release]);
    let expected = ["/a", "/wait/b", "/c", "/wait/d", "/e"].map(kept).concat();
    assert_eq!((end.wire, end.state), (expected, State::Idle));
}

#[test]
fn a_late_answer_is_dropped_unless_its_request_is_still_open() {
    let end = play(&[
        Act::Late,
        send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n"),
        Act::Late,
        send("GET /b HTTP/1.1\r\nHost: a\r\n\r\nGET"),
        Act::Late,
    ]);
    assert_eq!((end.wire, end.state), (kept("/a") + &kept("/b"), State::Head));
    let end = play(&[
        send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n"),
        Act::Wait(limits().answer_ms),
        Act::Late,
        Act::Finish,
        Act::Late,
    ]);
    assert!(end.wire.starts_with("HTTP/1.1 503 "), "{}", end.wire);
    assert!(!end.wire.contains("/late"), "{}", end.wire);
    assert_eq!(end.wire.matches("HTTP/1.1").count(), 1, "{}", end.wire);
}
