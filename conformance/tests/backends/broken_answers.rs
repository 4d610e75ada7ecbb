//! Answers of responders that break off, and those that seem to: what of them is whole is passed on
//! as whole, and no other.

use crate::common_programs::{noise, on_every_architecture};
use crate::fastcgi::{Front, Link, answer, end, get, record, start, start_with};
use flyball_testkit::Client;

const TABLE: &str = "[[site.fastcgi]]\npath = \"/one\"\nSOCKET\nhold = \"off\"\n";

/// What a client that does not read leaves in the server's socket.
const EARLIER_BYTES: usize = 150_000;

/// Room on the way to such a client.
const NARROW_BYTES: usize = 64 * 1024;

/// More requests than the server reads ahead of its answers.
const UNREAD_REQUESTS: usize = 2_000;

/// A link that is closed races with the bytes on it.
const TRIES: usize = 10;

/// A request without a body, and the link on which it came.
fn asked(front: &Front, request: &str) -> (Client, Link) {
    let mut client = front.server.connect();
    client.send(request);
    let mut link = front.accept();
    link.params(0);
    assert_eq!(link.stream(5), b"");
    (client, link)
}

fn http_1_0(path: &str) -> String {
    format!("GET {path} HTTP/1.0\r\nHost: a\r\n\r\n")
}

/// An answer of this length, and nothing behind it.
fn told(len: usize, content: &[u8]) -> Vec<u8> {
    let head = format!("Content-Type: text/plain\r\nContent-Length: {len}\r\n\r\n");
    let mut all = record(6, head.as_bytes());
    content.chunks(60_000).for_each(|part| all.extend_from_slice(&record(6, part)));
    all
}

/// It answers before it has read the body, and closes: its kernel resets the link then.
fn an_early_answer_that_is_as_long_as_it_says_is_whole(architecture: &str) {
    let Some(front) = start(architecture, TABLE) else { return };
    for len in [10, 40_000, 100_000] {
        let (body, content) = (noise(1, 60_000), noise(2, len));
        let mut client = front.server.connect();
        let head = "POST /one/a HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n";
        client.send([head.as_bytes(), &body].concat());
        let mut link = front.accept();
        link.params(0);
        link.say(&told(len, &content));
        drop(link);
        let head = client.response_head();
        assert_eq!((head.status(), head.content_length()), (200, Some(len)));
        assert!(client.take(len) == content, "another content came");
    }
    assert!(!front.server.errors().contains("backend: "), "{}", front.server.errors());
}

/// Nothing of it has left: the client is told so, and its connection is kept.
fn an_answer_that_is_known_to_be_broken_is_502(architecture: &str) {
    let Some(front) = start(architecture, TABLE) else { return };
    let mut client = front.server.connect();
    for len in [0, 100, 20_000] {
        client.send(get("/one/a"));
        let mut link = front.accept();
        link.params(0);
        assert_eq!(link.stream(5), b"");
        link.say(&[told(len + 7, &noise(3, len)), end(0)].concat());
        assert_eq!(answer(&mut client).0.status(), 502, "{len}");
    }
    front.expect_logged("shorter than its head says");
}

/// What has come is the client's, be it the head alone, and then the connection ends.
fn an_answer_that_breaks_off_leaves_what_came(architecture: &str) {
    let Some(front) = start(architecture, TABLE) else { return };
    for len in [1, 100_000, 200_000] {
        let (mut client, mut link) = asked(&front, &get("/one/a"));
        let content = noise(4, len);
        link.say(&told(len + 7, &[]));
        assert_eq!(client.response_head().content_length(), Some(len + 7));
        link.say(&told(0, &content)[told(0, &[]).len()..]);
        drop(link);
        assert!(client.take(len) == content, "another content came");
        assert_eq!(client.rest_before_end(), b"");
    }
}

/// Its coded form has an end of its own, which only the end of the whole may be.
fn a_coded_answer_that_is_shorter_than_it_says_breaks_off(architecture: &str) {
    let Some(front) = start(architecture, TABLE) else { return };
    for coding in ["gzip", "br", "zstd"] {
        let ask = format!("GET /one/a HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n");
        let (mut client, mut link) = asked(&front, &ask);
        link.say(&told(100_000, b"text "));
        assert_eq!(client.response_head().expect("Content-Encoding"), coding);
        link.say(&[record(6, &[b'x'; 5_000]), end(0)].concat());
        let came = client.rest_before_end();
        assert!(!came.ends_with(b"\r\n0\r\n\r\n"), "{coding}: it passes for whole");
    }
    front.expect_logged("shorter than its head says");
}

/// The end of the connection is that of the content, so that only a reset tells them apart.
fn an_answer_of_unknown_length_to_http_1_0_that_breaks_off_is_reset(architecture: &str) {
    let Some(front) = start(architecture, TABLE) else { return };
    let (mut client, mut link) = asked(&front, &http_1_0("/one/a"));
    link.say(&record(6, b"A: b\r\n\r\nfirst"));
    assert_eq!(client.response_head().status(), 200);
    assert_eq!(client.take(5), b"first");
    drop(link);
    assert_eq!(client.rest_before_reset(), b"");
    // One that is whole ends in good order.
    let (mut client, mut link) = asked(&front, &http_1_0("/one/a"));
    link.answer("A: b\r\n\r\nwhole");
    client.response_head();
    assert_eq!(client.rest(), b"whole");
}

fn an_answer_of_unknown_length_to_http_1_0_that_the_end_of_the_drain_cuts_is_reset(
    architecture: &str,
) {
    let Some(front) = start_with(architecture, "drain = \"100ms\"\n", TABLE) else { return };
    let (mut client, mut link) = asked(&front, &http_1_0("/one/a"));
    link.say(&record(6, b"A: b\r\n\r\nfirst"));
    assert_eq!(client.response_head().status(), 200);
    assert_eq!(client.take(5), b"first");
    front.server.terminate();
    assert_eq!(client.rest_before_reset(), b"");
    drop(link);
}

/// What its socket holds of an earlier answer is the client's, however slowly it reads.
fn an_answer_that_breaks_off_takes_no_earlier_one_along(architecture: &str) {
    let Some(front) = start_with(architecture, "timeout.linger = \"20s\"\n", TABLE) else { return };
    let earlier = noise(5, EARLIER_BYTES);
    // By HTTP/1.0 only a reset tells that it is cut; unread requests could make the end one.
    for (version, more) in [("1.0", 0), ("1.1", 0), ("1.1", UNREAD_REQUESTS)] {
        let ask = format!("GET /one/a HTTP/{version}\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
        let mut client = Client::connect_narrow(front.server.address(), NARROW_BYTES);
        client.send(ask.repeat(2));
        let mut link = front.accept();
        link.params(0);
        assert_eq!(link.stream(5), b"");
        link.say(&[told(EARLIER_BYTES, &earlier), end(0)].concat());
        drop(link);
        let mut link = front.accept();
        link.params(0);
        assert_eq!(link.stream(5), b"");
        link.say(&record(6, b"A: b\r\n\r\nfirst"));
        front.expect_state("streaming");
        client.send(ask.repeat(more));
        drop(link);
        front.expect_state(if version == "1.0" { "breaking-off" } else { "lingering" });
        assert_eq!(client.response_head().content_length(), Some(EARLIER_BYTES), "{version}");
        assert!(client.take(EARLIER_BYTES) == earlier, "{version}: another content came");
        assert_eq!(client.response_head().status(), 200);
        if version == "1.0" {
            assert_eq!(client.rest_before_reset(), b"first");
        } else {
            assert_eq!(client.rest_before_end(), b"5\r\nfirst\r\n");
        }
    }
}

/// What is thrown away has a bound, behind which the connection ends; not before the client has
/// what was answered.
fn a_body_without_end_takes_no_earlier_answer_along(architecture: &str) {
    let settings = "timeout.linger = \"20s\"\nlimit.linger = \"16KiB\"\n";
    let Some(front) = start_with(architecture, settings, TABLE) else { return };
    let earlier = noise(6, EARLIER_BYTES);
    let mut client = Client::connect_narrow(front.server.address(), NARROW_BYTES);
    client.send(get("/one/a"));
    let mut link = front.accept();
    link.params(0);
    assert_eq!(link.stream(5), b"");
    link.say(&[told(EARLIER_BYTES, &earlier), end(0)].concat());
    let body = noise(7, 200_000);
    client.send("POST /page.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n");
    client.send(body);
    front.expect_state("breaking-off");
    assert_eq!(client.response_head().content_length(), Some(EARLIER_BYTES));
    assert!(client.take(EARLIER_BYTES) == earlier, "another content came");
    let refusal = client.response();
    assert_eq!((refusal.status(), refusal.field("Connection")), (405, Some("close")));
}

/// Of an answer that breaks off at once its head comes, coded or not, or a 502 in its place.
fn an_answer_that_breaks_off_at_once_is_no_bare_reset(architecture: &str) {
    let Some(front) = start(architecture, TABLE) else { return };
    for coding in ["gzip", "identity"] {
        for _ in 0..TRIES {
            let accept = format!("Accept-Encoding: {coding}\r\n\r\n");
            let ask = http_1_0("/one/a").replace("\r\n\r\n", &format!("\r\n{accept}"));
            let (mut client, mut link) = asked(&front, &ask);
            let begun = [b"Content-Type: text/plain\r\n\r\n", &[b'a'; 100][..]].concat();
            link.say(&record(6, &begun));
            drop(link);
            let status = client.response_head().status();
            assert!([200, 502].contains(&status), "{coding}: {status}");
        }
    }
}

on_every_architecture! {
    [
        an_answer_that_breaks_off_takes_no_earlier_one_along,
        an_answer_that_breaks_off_at_once_is_no_bare_reset,
        a_body_without_end_takes_no_earlier_answer_along,
        an_early_answer_that_is_as_long_as_it_says_is_whole,
        an_answer_that_is_known_to_be_broken_is_502,
        an_answer_that_breaks_off_leaves_what_came,
        a_coded_answer_that_is_shorter_than_it_says_breaks_off,
        an_answer_of_unknown_length_to_http_1_0_that_breaks_off_is_reset,
        an_answer_of_unknown_length_to_http_1_0_that_the_end_of_the_drain_cuts_is_reset,
    ]
}
