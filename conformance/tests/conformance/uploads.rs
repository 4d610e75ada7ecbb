//! Request bodies: taken as a stream, drained, or refused (RFC 9112, sections 6 and 7; RFC 9110,
//! section 10.1.1). `/digest` takes them and answers with their length and CRC-32.

use std::time::Duration;

use flyball_testkit::{Client, LARGE_BYTES, crc32, large, large_at, wait};

use crate::mount::Mount;
use crate::requests::{get, request, with_body};

/// Room on the way to a client that does not read.
const NARROW_BYTES: usize = 128 * 1024;

/// Length of a body that no buffer on the way holds.
const STREAMED_BYTES: usize = 8 * 1024 * 1024;

/// Long enough for an answer that should not come to come.
const QUIET: Duration = Duration::from_millis(60);

fn post(len: usize, more: &[&str]) -> String {
    let length = format!("Content-Length: {len}");
    request("POST", "/digest", &[&[length.as_str()], more].concat())
}

fn post_chunked(more: &[&str]) -> String {
    request("POST", "/digest", &[&["Transfer-Encoding: chunked"], more].concat())
}

#[track_caller]
fn expect_digest(client: &mut Client, body: &[u8]) {
    let answer = client.response();
    assert_eq!(answer.line, "HTTP/1.1 200 OK", "{:?}", answer.text());
    assert_eq!(answer.text(), format!("bytes {} crc32 {:08x}\n", body.len(), crc32(body)));
}

/// `body` in chunks of these sizes, in turn, and the last chunk.
fn chunks(body: &[u8], sizes: &[usize]) -> Vec<u8> {
    let mut coded = Vec::new();
    let (mut rest, mut sizes) = (body, sizes.iter().cycle());
    while !rest.is_empty() {
        let size = sizes.next().map_or(1, |size| (*size).min(rest.len()));
        coded.extend_from_slice(format!("{size:x}\r\n").as_bytes());
        coded.extend_from_slice(&rest[..size]);
        coded.extend_from_slice(b"\r\n");
        rest = &rest[size..];
    }
    coded.extend_from_slice(b"0\r\n\r\n");
    coded
}

pub(crate) fn a_body_with_a_length_is_streamed(mount: &Mount) {
    let body = &large()[..STREAMED_BYTES];
    let mut client = mount.connect();
    client.send(post(body.len(), &[]));
    client.send(body);
    expect_digest(&mut client, body);
    assert_eq!(client.ask(get("/hello.txt")).text(), "hello, world\n");
}

pub(crate) fn a_chunked_body_is_streamed(mount: &Mount) {
    let body = &large()[..STREAMED_BYTES];
    let mut client = mount.connect();
    client.send(post_chunked(&[]));
    client.send(chunks(body, &[1, 100_000, 15, 16, 65_536, 3, 1_000_000]));
    expect_digest(&mut client, body);
    assert_eq!(client.ask(get("/hello.txt")).text(), "hello, world\n");
}

pub(crate) fn empty_bodies_and_small_ones(mount: &Mount) {
    let mut client = mount.connect();
    for body in ["", "x", "hello"] {
        client.send(post(body.len(), &[]) + body);
        expect_digest(&mut client, body.as_bytes());
        client.send([post_chunked(&[]).as_bytes(), &chunks(body.as_bytes(), &[2])].concat());
        expect_digest(&mut client, body.as_bytes());
        client.send(with_body("PUT", "/digest", &["Content-Length: 3"], "abc"));
        expect_digest(&mut client, b"abc");
    }
    client.send(request("POST", "/digest", &[]));
    expect_digest(&mut client, b"");
}

pub(crate) fn a_slow_client_is_waited_for(mount: &Mount) {
    let body = &large()[..400];
    let mut client = mount.connect();
    for coded in [body.to_vec(), chunks(body, &[7, 90, 1])] {
        let framed = coded.len() != body.len();
        let head = if framed { post_chunked(&[]) } else { post(body.len(), &[]) };
        let all = [head.as_bytes(), &coded].concat();
        client.send_split(&all, (1..all.len()).step_by(9));
        expect_digest(&mut client, body);
    }
}

pub(crate) fn a_chunked_body_may_be_split_anywhere(mount: &Mount) {
    let coded =
        "5;a;b=c;d=\"e;\\\"\r\nhello\r\n1\r\n \r\n00A\r\n0123456789\r\n000\r\nX: y\r\nZ:\r\n\r\n";
    // A backslash may precede any byte of a quoted string, but the quote must be closed.
    let coded = coded.replace("\\\"\r", "\\\"\"\r");
    let all = post_chunked(&[]) + &coded + &get("/hello.txt");
    let mut client = mount.connect();
    for at in 1..all.len() {
        client.send_split(&all, [at]);
        expect_digest(&mut client, b"hello 0123456789");
        assert_eq!(client.response().text(), "hello, world\n", "split at {at}");
    }
    client.send_split(&all, 1..all.len());
    expect_digest(&mut client, b"hello 0123456789");
    assert_eq!(client.response().text(), "hello, world\n");
}

pub(crate) fn requests_pipelined_behind_a_body_are_answered(mount: &Mount) {
    let body = &large()[..200_000];
    let mut client = mount.connect();
    let head = post(body.len(), &[]);
    let behind = get("/hello.txt") + &post(5, &[]) + "hello" + &get("/page.html");
    client.send([head.as_bytes(), body, behind.as_bytes()].concat());
    expect_digest(&mut client, body);
    assert_eq!(client.response().text(), "hello, world\n");
    expect_digest(&mut client, b"hello");
    assert_eq!(client.response().status(), 200);
    client.send([post_chunked(&[]).as_bytes(), &chunks(body, &[999]), behind.as_bytes()].concat());
    expect_digest(&mut client, body);
    assert_eq!(client.response().text(), "hello, world\n");
    expect_digest(&mut client, b"hello");
    assert_eq!(client.response().status(), 200);
}

pub(crate) fn an_upload_on_a_connection_that_closes(mount: &Mount) {
    for fields in [&["Connection: close"][..], &["Connection: close", "Expect: 100-continue"]] {
        let mut client = mount.connect();
        client.send(post(5, fields) + "hello");
        if fields.len() > 1 {
            assert_eq!(client.response().head, "HTTP/1.1 100 Continue\r\n\r\n");
        }
        expect_digest(&mut client, b"hello");
        client.expect_closed();
    }
}

pub(crate) fn a_client_that_expects_it_is_told_to_continue(mount: &Mount) {
    let mut client = mount.connect();
    for field in ["Expect: 100-continue", "expect: 100-Continue"] {
        client.send(post(5, &[field]));
        assert_eq!(client.response().head, "HTTP/1.1 100 Continue\r\n\r\n");
        client.expect_silence(QUIET);
        client.send("hello");
        expect_digest(&mut client, b"hello");
    }
    client.send(post_chunked(&["Expect: 100-continue"]));
    assert_eq!(client.response().head, "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("5\r\nhello\r\n0\r\n\r\n");
    expect_digest(&mut client, b"hello");
    // Without a body there is nothing to continue with.
    client.send(post(0, &["Expect: 100-continue"]));
    expect_digest(&mut client, b"");
}

pub(crate) fn http_1_0_is_never_told_to_continue(mount: &Mount) {
    let mut client = mount.connect();
    let head = "POST /digest HTTP/1.0\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    client.send(head);
    client.expect_silence(QUIET);
    client.send("hello");
    expect_digest(&mut client, b"hello");
    client.expect_closed();
}

pub(crate) fn a_client_that_expects_a_refusal_gets_it_before_it_sends(mount: &Mount) {
    let fields = ["Content-Length: 5", "Expect: 100-continue"];
    let mut client = mount.connect();
    let answer = client.ask(request("POST", "/hello.txt", &fields));
    assert_eq!(answer.line, "HTTP/1.1 405 Method Not Allowed");
    // Nobody knows whether the body will come, so that nothing after it can be believed.
    assert_eq!(answer.field("Connection"), Some("close"));
    client.expect_closed();
    let mut client = mount.connect();
    let answer = client.ask(post(100_000_000, &["Expect: 100-continue"]));
    assert_eq!(answer.line, "HTTP/1.1 413 Content Too Large");
    client.expect_closed();
}

pub(crate) fn a_body_that_nobody_wants_is_drained(mount: &Mount) {
    let mut client = mount.connect();
    for body in ["x".repeat(5), "GET /page.html HTTP/1.1\r\n\r\n".into(), "y".repeat(60_000)] {
        let length = format!("Content-Length: {}", body.len());
        let coded = String::from_utf8(chunks(body.as_bytes(), &[1_000])).expect("ASCII");
        for (field, body) in [(length.as_str(), &body), ("Transfer-Encoding: chunked", &coded)] {
            for (method, status) in [("GET", 200), ("POST", 405), ("OPTIONS", 204), ("FROB", 501)] {
                client.send(with_body(method, "/hello.txt", &[field], body) + &get("/empty.txt"));
                assert_eq!(client.response().status(), status, "{method} {field}");
                let next = client.response();
                assert_eq!((next.status(), next.text()), (200, ""), "{method} {field}");
            }
        }
        client.send(with_body("HEAD", "/hello.txt", &[&length], &body));
        assert_eq!(client.response_head().line, "HTTP/1.1 200 OK");
    }
}

pub(crate) fn a_body_that_is_too_long_to_drain_costs_the_connection(mount: &Mount) {
    let body = "GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n".repeat(5_000);
    let mut client = mount.connect();
    let length = format!("Content-Length: {}", body.len());
    client.send(with_body("POST", "/page.html", &[&length], &body));
    let answer = client.response();
    assert_eq!(answer.line, "HTTP/1.1 405 Method Not Allowed");
    assert_eq!(answer.field("Connection"), Some("close"));
    client.expect_closed();
    // The length of a chunked body is not known beforehand, so that the answer promises nothing.
    let coded = String::from_utf8(chunks(body.as_bytes(), &[37])).expect("ASCII");
    let mut client = mount.connect();
    client.send(with_body("POST", "/page.html", &["Transfer-Encoding: chunked"], &coded));
    assert_eq!(client.response().line, "HTTP/1.1 405 Method Not Allowed");
    client.expect_closed();
}

/// As libraries do that write a request before they read.
pub(crate) fn a_client_that_first_sends_a_body_that_nobody_wants_gets_the_whole_answer(
    mount: &Mount,
) {
    let mut client = mount.server().connect_narrow(NARROW_BYTES);
    let length = format!("Content-Length: {}", 2 * LARGE_BYTES);
    client.send(with_body("GET", "/large.bin", &[&length], ""));
    // More than sockets hold.
    for _ in 0..2 {
        client.send(large());
    }
    let answer = client.response();
    assert_eq!((answer.status(), answer.field("Connection")), (200, Some("close")));
    large_at(0, &answer.body);
    client.expect_closed();
}

/// The answer is there after a head, and is read when 20 MB were sent.
pub(crate) fn a_client_that_sends_all_before_it_reads_sees_why_it_is_refused(mount: &Mount) {
    const SENT_BYTES: usize = 20_000_000;
    let server = mount.start("limit.body = \"1MiB\"\n");
    for (path, fields, line) in [
        ("/digest", format!("Content-Length: {SENT_BYTES}"), "HTTP/1.1 413 Content Too Large"),
        ("/hello.txt", "Content-Length: 1000000".into(), "HTTP/1.1 405 Method Not Allowed"),
        ("/digest", "Content-Length: x".into(), "HTTP/1.1 400 Bad Request"),
    ] {
        let mut client = server.connect();
        client.send(with_body("POST", path, &[&fields], ""));
        for start in (0..SENT_BYTES).step_by(LARGE_BYTES) {
            client.send(&large()[..LARGE_BYTES.min(SENT_BYTES - start)]);
        }
        assert_eq!(client.response().line, line);
        client.expect_closed();
    }
}

pub(crate) fn an_upload_that_breaks_off_is_forgotten(mount: &Mount) {
    let expecting = post(10, &["Expect: 100-continue"]);
    for request in [post(10, &[]) + "hello", post_chunked(&[]) + "5\r\nhel", expecting] {
        let mut client = mount.connect();
        client.send(&request);
        client.half_close();
        let said = String::from_utf8(client.rest_before_end()).expect("ASCII");
        // At most the invitation to go on, which may have left before the end was seen.
        assert!(
            said.is_empty() || said == "HTTP/1.1 100 Continue\r\n\r\n",
            "{request:?}: {said:?}"
        );
        let mut client = mount.connect();
        client.send(&request);
        client.reset();
    }
    let mut client = mount.connect();
    client.send(post(5, &[]) + "hello");
    expect_digest(&mut client, b"hello");
}

pub(crate) fn many_uploads_at_once_are_kept_apart(mount: &Mount) {
    let bodies: Vec<Vec<u8>> = (1..=12).map(|n| large()[n * 1_000..n * 30_000].to_vec()).collect();
    let mut clients: Vec<Client> = bodies.iter().map(|_| mount.connect()).collect();
    for (client, body) in clients.iter_mut().zip(&bodies) {
        client.send(post(body.len(), &[]));
    }
    for start in (0..360_000).step_by(20_000) {
        for (client, body) in clients.iter_mut().zip(&bodies) {
            let piece = &body[start.min(body.len())..(start + 20_000).min(body.len())];
            client.send(piece);
        }
        wait::dawdle(Duration::from_millis(1));
    }
    for (client, body) in clients.iter_mut().zip(&bodies) {
        expect_digest(client, body);
    }
}
