//! Request bodies: taken in windows, drained, or too long for either (RFC 9112, section 9.3).

use flyball_http::h1::state::State;
use flyball_http::{CloseReason, Limits};

use crate::script::{Act, drive, kept, last, limits, play, play_with, send};

const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";

fn post(path: &str, fields: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}")
}

fn with_length(path: &str, body: &str) -> String {
    post(path, &format!("Content-Length: {}\r\n", body.len()), body)
}

fn chunked(path: &str, body: &str) -> String {
    post(path, "Transfer-Encoding: chunked\r\n", body)
}

fn sum(body: &str) -> String {
    format!("/sum/{}/{}", body.len(), body.bytes().map(u64::from).sum::<u64>())
}

#[test]
fn a_body_reaches_its_taker_whole_in_windows_of_any_size() {
    let body = "The quick brown fox jumps over the lazy dog.";
    let chunks = "4\r\nThe \r\n1b;a=\"b;\\\"\"\r\nquick brown fox jumps over \r\n\
                  D\r\nthe lazy dog.\r\n000\r\nX-Trailer: y\r\nZ:\r\n\r\n";
    for window in [1, 3, 44, 1000] {
        let path = format!("/upload/{window}");
        let after = "GET /after HTTP/1.1\r\nHost: a\r\n\r\n";
        let end = play(&[send(with_length(&path, body) + after)]);
        assert_eq!(end.wire, kept(&sum(body)) + &kept("/after"), "window {window}");
        let end = play(&[send(chunked(&path, chunks) + after)]);
        assert_eq!(end.wire, kept(&sum(body)) + &kept("/after"), "window {window}, chunked");
        assert_eq!(end.state, State::Idle);
    }
}

#[test]
fn a_body_without_content_is_complete_at_once() {
    for request in [with_length("/upload/9", ""), chunked("/upload/9", "0\r\n\r\n")] {
        let end = play(&[send(request + "GET /b HTTP/1.1\r\nHost: a\r\n\r\n")]);
        assert_eq!(end.wire, kept(&sum("")) + &kept("/b"));
    }
}

#[test]
fn a_client_that_waits_gets_its_100_once_the_body_is_wanted() {
    let head = post("/upload/5", "Content-Length: 12\r\nExpect: 100-continue\r\n", "");
    let end = play(&[send(&head)]);
    assert_eq!((end.wire.as_str(), end.state), (CONTINUE, State::AskedBody));
    let end = play(&[send(&head), send("Hello, world")]);
    assert_eq!(end.wire, CONTINUE.to_owned() + &kept(&sum("Hello, world")));
    // It keeps its place among the answers of a batch.
    let get = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
    let end = play(&[send(format!("{get}{head}Hello, world{get}"))]);
    assert_eq!(end.wire, kept("/a") + CONTINUE + &kept(&sum("Hello, world")) + &kept("/a"));
}

#[test]
fn no_100_is_sent_where_none_can_be_understood_or_none_is_needed() {
    let end = play(&[send(post("/upload/5", "Expect: 100-continue\r\n", ""))]);
    assert_eq!(end.wire, kept(&sum("")), "there is no body");
    let old = "POST /upload/5 HTTP/1.0\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\nab";
    assert_eq!(play(&[send(old)]).wire, last(&sum("ab")), "HTTP/1.0 knows no 100");
}

#[test]
fn a_client_that_waits_in_vain_gets_its_answer_and_the_end() {
    let head = post("/a", "Content-Length: 12\r\nExpect: 100-Continue\r\n", "");
    let end = play(&[send(head), Act::Finish]);
    assert_eq!((end.wire, end.closed), (last("/a"), Some(CloseReason::BodyUnread)));
}

#[test]
fn an_unwanted_body_within_the_bound_is_drained_and_the_connection_kept() {
    let body = "x".repeat(limits().drain_bytes_max as usize);
    let chunks = format!("20\r\n{}\r\n20\r\n{}\r\n0\r\n\r\n", &body[..32], &body[32..]);
    for request in [with_length("/a", &body), chunked("/a", &chunks)] {
        let end = play(&[send(request + "GET /b HTTP/1.1\r\nHost: a\r\n\r\n")]);
        assert_eq!(end.wire, kept("/a") + &kept("/b"));
        assert_eq!(end.state, State::Idle);
    }
}

#[test]
fn an_unwanted_body_beyond_the_bound_ends_the_connection_and_lingers() {
    let body = "x".repeat(limits().drain_bytes_max as usize + 1);
    let acts = [send(with_length("/a", &body) + "GET /b HTTP/1.1\r\nHost: a\r\n\r\n")];
    let end = play(&acts);
    assert_eq!((end.wire, end.state), (last("/a"), State::Lingering));
    assert!(drive(&limits(), &acts, 1).was_shut);
    // The length of a chunked body shows only when the answer has already said otherwise.
    let chunks = format!("20\r\n{}\r\n21\r\n{}\r\n0\r\n\r\n", &body[..32], &body[32..]);
    let end = play(&[send(chunked("/a", &chunks) + "GET /b HTTP/1.1\r\nHost: a\r\n\r\n")]);
    assert_eq!((end.wire, end.state), (kept("/a"), State::Lingering));
    let end = play(&[send(chunked("/a", &chunks)), Act::Finish]);
    assert_eq!(end.closed, Some(CloseReason::BodyUnread));
}

#[test]
fn what_is_left_of_a_body_is_thrown_away_while_the_answer_waits_for_room() {
    let body = "x".repeat(limits().linger_bytes_max as usize);
    for path in ["/a", "/stream/90/9"] {
        let acts = [Act::Room(10), send(with_length(path, &body))];
        let driver = drive(&limits(), &acts, usize::MAX);
        assert_eq!(
            (driver.closed, driver.socket.len(), driver.wire.len()),
            (None, 0, 10),
            "{path}"
        );
        // Of a client that sends without end the rest stays where it is.
        let long = [Act::Room(10), send(with_length(path, &body.repeat(40)))];
        let driver = drive(&limits(), &long, usize::MAX);
        assert!(driver.socket.len() > 30 * body.len(), "{path}");
        // One that has closed its side is not read again and again.
        let end = play(&[&acts[..], &[Act::Finish, Act::Room(u64::MAX)]].concat());
        assert_eq!((end.wire, end.closed), (last(path), Some(CloseReason::BodyUnread)), "{path}");
    }
}

#[test]
fn bytes_after_an_unread_body_are_never_taken_for_a_request() {
    let hidden = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";
    let long = format!("{hidden}{}", "x".repeat(100));
    let end = play(&[send(with_length("/a", &long)), Act::Finish]);
    assert_eq!(end.wire, last("/a"));
    let broken = format!("1\r\nxx\r\n{hidden}");
    let end = play(&[send(chunked("/a", &broken)), Act::Finish]);
    assert_eq!(end.wire, kept("/a"));
    let limits = Limits { drain_bytes_max: 1024, ..limits() };
    let end = play_with(&limits, &[send(with_length("/a", hidden)), Act::Finish]);
    assert_eq!((end.wire, end.closed), (kept("/a"), Some(CloseReason::ClientDone)));
}

#[test]
fn a_body_that_waits_for_its_answer_stays_where_it_is() {
    let request = with_length("/wait", "Hello");
    let end = play(&[send(&request), Act::Release]);
    assert_eq!((end.wire, end.state), (kept("/wait"), State::Idle));
    // More than one buffer of it is not even read.
    let limits = Limits { head_bytes_max: 256, body_bytes_max: 1 << 20, ..limits() };
    let acts = [send(with_length("/wait", &"x".repeat(10_000)))];
    let driver = drive(&limits, &acts, usize::MAX);
    assert!(driver.socket.len() > 9_000, "{} bytes are left", driver.socket.len());
}

#[test]
fn a_window_that_is_not_taken_stops_the_reading() {
    let limits = Limits { body_bytes_max: 1 << 20, ..limits() };
    let acts = [send(with_length("/hold/1", &"x".repeat(10_000)))];
    let driver = drive(&limits, &acts, usize::MAX);
    let wants = driver.conn.wants();
    assert!(wants.body > 0 && !wants.read && !wants.recv, "{wants:?}");
    assert!(driver.socket.len() >= 10_000 - limits.head_bytes_max, "{}", driver.socket.len());
}

#[test]
fn what_was_offered_of_a_body_is_offered_no_more_once_the_answer_is_there() {
    let get = "GET /b HTTP/1.1\r\nHost: a\r\n\r\n";
    for request in [with_length("/hold/1", "Hello"), chunked("/hold/1", "5\r\nHello\r\n0\r\n\r\n")]
    {
        let end = play(&[send(request + get), Act::Release]);
        assert_eq!((end.wire, end.state), (kept("/hold/1") + &kept("/b"), State::Idle));
    }
}

#[test]
fn a_body_whose_framing_breaks_under_its_taker_is_refused() {
    for broken in ["x\r\n", "3\r\nabcd", "3\r\nabc\r\n5 \r\n", "3\r\nabc\r\n0\r\nX\r\n\r\n"] {
        let end = play(&[send(chunked("/upload/9", broken)), Act::Finish]);
        assert!(end.wire.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{broken:?}: {}", end.wire);
        assert_eq!(end.wire.matches("HTTP/1.1 ").count(), 1, "{}", end.wire);
        assert_eq!(end.closed, Some(CloseReason::Refused), "{broken:?}");
    }
    let long = format!("3ff\r\n{}\r\n402\r\n", "x".repeat(1023));
    let end = play_with(&limits(), &[send(chunked("/upload/999", &long)), Act::Finish]);
    assert!(end.wire.starts_with("HTTP/1.1 413 "), "{}", end.wire);
}
