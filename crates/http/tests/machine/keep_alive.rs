//! When a connection is kept (RFC 9112, section 9.3).

use flyball_http::h1::state::State;
use flyball_http::{CloseReason, HeadStyle};

use crate::script::{Act, answer, kept, last, limits, play, play_with, send};

#[test]
fn an_http_1_1_connection_is_kept_until_the_client_closes_it() {
    let end = play(&[
        send("GET /one HTTP/1.1\r\nHost: a\r\n\r\n"),
        send("HEAD /empty HTTP/1.1\r\nHost: a\r\n\r\n"),
        send("GET /file/40 HTTP/1.1\r\nHost: a\r\n\r\n"),
        send("GET /parts HTTP/1.1\r\nHost: a\r\n\r\n"),
    ]);
    assert_eq!(end.wire, kept("/one") + &kept("/empty") + &kept("/file/40") + &kept("/parts"));
    assert_eq!((end.state, end.closed), (State::Idle, None));
    let end = play(&[send("GET /one HTTP/1.1\r\nHost: a\r\n\r\n"), Act::Finish]);
    assert_eq!((end.wire, end.closed), (kept("/one"), Some(CloseReason::ClientDone)));
}

#[test]
fn the_connection_field_and_the_version_decide_whether_it_is_kept() {
    let close = "Connection: close\r\n";
    let keep = "Connection: keep-alive\r\n";
    for (version, field, expected) in [
        ("1.1", "", ""),
        ("1.1", "Connection: close\r\n", close),
        ("1.1", "connection:CLOSE\r\n", close),
        ("1.1", "Connection: x , Close,y\r\n", close),
        ("1.1", "Connection: x\r\nConnection: close\r\n", close),
        ("1.1", "Connection: keep-alive, close\r\n", close),
        ("1.1", "Connection: closed\r\n", ""),
        ("1.1", "Connection: keep-alive\r\n", ""),
        ("1.0", "", close),
        ("1.0", "Connection: keep-alive\r\n", keep),
        ("1.0", "Connection: Keep-Alive, x\r\n", keep),
        ("1.0", "Connection: keep-alive, close\r\n", close),
    ] {
        let request = format!("GET /x HTTP/{version}\r\nHost: a\r\n{field}\r\n");
        let end = play(&[send(&request)]);
        assert_eq!(end.wire, answer("/x", expected), "{request:?}");
        let closed = (expected == close).then_some(CloseReason::Requested);
        assert_eq!(end.closed, closed, "{request:?}");
    }
}

#[test]
fn what_follows_a_request_that_asked_for_close_is_not_answered() {
    let end = play(&[
        send(
            "GET /a HTTP/1.1\r\nHost: a\r\n\r\n\
             GET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n\
             GET /c HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        Act::Finish,
    ]);
    assert_eq!(end.wire, kept("/a") + &last("/b"));
    assert_eq!(end.closed, Some(CloseReason::Requested));
}

#[test]
fn an_answer_that_cannot_keep_the_connection_says_so() {
    let end = play(&[send("GET /close HTTP/1.1\r\nHost: a\r\n\r\n"), Act::Finish]);
    assert_eq!((end.wire, end.closed), (last("/close"), Some(CloseReason::Refused)));
}

#[test]
fn empty_lines_before_a_request_are_passed_over() {
    let end =
        play(&[send("\r\n\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n\r\nGET /b HTTP/1.0\r\n\r\n")]);
    assert_eq!(end.wire, kept("/a") + &last("/b"));
}

#[test]
fn the_fields_of_every_answer_follow_the_settings() {
    let request = send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    let limits = flyball_http::Limits {
        server_field: false,
        head_style: HeadStyle { align: 32, ..HeadStyle::default() },
        ..limits()
    };
    let end = play_with(&limits, &[request]);
    let expected = "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT";
    assert!(end.wire.starts_with(expected), "{}", end.wire);
    let head = end.wire.find("\r\n\r\n").expect("a head ends") + 4;
    assert_eq!(head % 32, 0, "{}", end.wire);
    assert_eq!(&end.wire[head..], "/x");
    assert!(!end.wire.contains("Server"));
}
