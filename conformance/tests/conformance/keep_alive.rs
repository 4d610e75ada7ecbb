//! Which connections persist (RFC 9112, section 9.3), and the bytes of a plain answer.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use flyball_testkit::{MODIFIED, Response, Site};

use crate::mount::Mount;
use crate::requests::{get, request};

/// Long enough for an answer that should not come to come.
const QUIET: Duration = Duration::from_millis(60);

#[track_caller]
fn assert_hello(response: &Response, connection: Option<&str>) {
    assert_eq!(response.line, "HTTP/1.1 200 OK");
    assert_eq!(response.field("Connection"), connection);
    assert_eq!(response.text(), "hello, world\n");
}

pub(crate) fn a_plain_answer_is_exactly_this(mount: &Mount) {
    let mut client = mount.connect();
    let answer = client.ask(get("/hello.txt"));
    let file = std::fs::metadata(Site::shared().path("hello.txt")).expect("it is there");
    let ns = |seconds: i64, rest: i64| (seconds * 1_000_000_000 + rest) as u64;
    let modified = ns(file.mtime(), file.mtime_nsec());
    let date = answer.expect("Date").to_owned();
    let expected = format!(
        "HTTP/1.1 200 OK\r\nServer: flyball\r\nDate: {date}\r\n\
         Content-Type: text/plain; charset=utf-8\r\nContent-Length: 13\r\nAccept-Ranges: bytes\r\n\
         Cache-Control: no-cache\r\n\
         ETag: \"{:x}-{modified:x}\"\r\nLast-Modified: {MODIFIED}\r\n\r\n",
        file.size(),
    );
    assert_eq!(answer.head, expected);
    assert_eq!(answer.body, b"hello, world\n");
    assert!(date.len() == MODIFIED.len() && date.ends_with(" GMT"), "{date}");
}

pub(crate) fn http_1_1_is_kept_without_being_asked(mount: &Mount) {
    let mut client = mount.connect();
    for _ in 0..3 {
        assert_hello(&client.ask(get("/hello.txt")), None);
    }
    client.expect_silence(QUIET);
}

pub(crate) fn http_1_1_is_closed_when_asked(mount: &Mount) {
    for field in [
        "Connection: close",
        "Connection: CLOSE",
        "Connection: x, close",
        "Connection: close, x",
        "Connection: keep-alive, close",
        "Connection: keep-alive\r\nConnection: close",
    ] {
        let mut client = mount.connect();
        let answer = client.ask(request("GET", "/hello.txt", &[field]));
        assert_hello(&answer, Some("close"));
        client.expect_closed();
    }
}

pub(crate) fn unknown_connection_options_change_nothing(mount: &Mount) {
    let mut client = mount.connect();
    for field in ["Connection: closed", "Connection: keep-alive", "Connection: ,x,,y"] {
        assert_hello(&client.ask(request("GET", "/hello.txt", &[field])), None);
    }
}

pub(crate) fn http_1_0_is_closed_unless_it_asks(mount: &Mount) {
    for head in ["GET /hello.txt HTTP/1.0", "GET /hello.txt HTTP/1.0\r\nHost: a"] {
        let mut client = mount.connect();
        assert_hello(&client.ask(format!("{head}\r\n\r\n")), Some("close"));
        client.expect_closed();
    }
}

pub(crate) fn http_1_0_is_kept_when_it_asks_and_is_told_so(mount: &Mount) {
    let mut client = mount.connect();
    let kept = "GET /hello.txt HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n";
    for _ in 0..3 {
        assert_hello(&client.ask(kept), Some("keep-alive"));
    }
    assert_hello(&client.ask("GET /hello.txt HTTP/1.0\r\n\r\n"), Some("close"));
    client.expect_closed();
}

pub(crate) fn errors_that_leave_no_doubt_keep_the_connection(mount: &Mount) {
    let mut client = mount.connect();
    for (request, line) in [
        (get("/missing"), "HTTP/1.1 404 Not Found"),
        (get("/../x"), "HTTP/1.1 400 Bad Request"),
        (get("/list/"), "HTTP/1.1 403 Forbidden"),
        (request("POST", "/hello.txt", &[]), "HTTP/1.1 405 Method Not Allowed"),
        (request("FROB", "/hello.txt", &[]), "HTTP/1.1 501 Not Implemented"),
        (get("/dir"), "HTTP/1.1 301 Moved Permanently"),
    ] {
        let answer = client.ask(request);
        assert_eq!((answer.line.as_str(), answer.field("Connection")), (line, None));
        assert!(!answer.body.is_empty());
    }
    assert_hello(&client.ask(get("/hello.txt")), None);
}

pub(crate) fn nothing_is_answered_after_a_close(mount: &Mount) {
    let mut client = mount.connect();
    let last = request("GET", "/hello.txt", &["Connection: close"]);
    client.send(last + &get("/page.html"));
    assert_hello(&client.response(), Some("close"));
    client.expect_closed();
}

pub(crate) fn a_client_that_goes_between_requests_is_let_go(mount: &Mount) {
    let mut client = mount.connect();
    assert_hello(&client.ask(get("/hello.txt")), None);
    client.half_close();
    client.expect_closed();
}

pub(crate) fn empty_lines_before_a_request_are_passed_over(mount: &Mount) {
    let mut client = mount.connect();
    assert_hello(&client.ask(format!("\r\n{}", get("/hello.txt"))), None);
    assert_hello(&client.ask(format!("\r\n\r\n{}", get("/hello.txt"))), None);
}

pub(crate) fn an_empty_file_is_a_whole_answer(mount: &Mount) {
    let mut client = mount.connect();
    let answer = client.ask(get("/empty.txt"));
    assert_eq!((answer.line.as_str(), answer.expect("Content-Length")), ("HTTP/1.1 200 OK", "0"));
    assert_hello(&client.ask(get("/hello.txt")), None);
}
