//! Requests that are refused, each with its status, and how the connection ends then.

use flyball_testkit::Client;

use crate::mount::Mount;
use crate::requests::{get, request};

/// The request line and `Host` of a request that would be fine without what follows.
const FINE: &str = "GET /hello.txt HTTP/1.1\r\nHost: a\r\n";

/// Refused with `line`, told so, and closed in good order.
#[track_caller]
fn assert_refused(client: &mut Client, request: &str, line: &str) {
    let shown: String = request.chars().take(120).collect();
    let refusal = client.response();
    assert_eq!(refusal.line, line, "{shown:?}");
    assert_eq!(refusal.field("Connection"), Some("close"), "{shown:?}");
    assert_eq!(refusal.field("Content-Type"), Some("text/plain; charset=utf-8"), "{shown:?}");
    assert!(refusal.text().ends_with(".\n"), "{shown:?}");
    client.expect_closed();
}

#[track_caller]
fn refuses(mount: &Mount, line: &str, requests: &[String]) {
    for request in requests {
        let mut client = mount.connect();
        client.send(request);
        assert_refused(&mut client, request, line);
    }
}

fn with_fields(fields: &[&str]) -> Vec<String> {
    fields.iter().map(|field| format!("{FINE}{field}\r\n\r\n")).collect()
}

/// Clients that go once they have the answer: the end of one connection, which may come late,
/// never reaches the next one, which may have its place.
pub(crate) fn a_refusal_never_ends_the_next_connection(mount: &Mount) {
    const CONNECTIONS: usize = 300;
    for _ in 0..CONNECTIONS {
        let mut client = mount.connect();
        client.send("GET /hello\x00.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response().line, "HTTP/1.1 400 Bad Request");
    }
}

/// A client of TLS could not read an answer in the clear.
pub(crate) fn tls_where_plain_text_is_spoken_ends_the_connection(mount: &Mount) {
    const HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    for said in [HELLO, &HELLO[..1]] {
        let mut client = mount.connect();
        client.send(said);
        assert_eq!(client.rest_before_end(), b"");
    }
}

pub(crate) fn a_malformed_request_line_is_400(mount: &Mount) {
    let lines = [
        "GET /hello.txt",
        "GET",
        "GET /hello.txt HTTP/1",
        "GET /hello.txt HTTP/1.10",
        "GET /hello.txt http/1.1",
        "GET /hello.txt HTTP/1.1 ",
        "GET  /hello.txt HTTP/1.1",
        "GET /hello.txt  HTTP/1.1",
        "GET /hello world HTTP/1.1",
        "GET\t/hello.txt HTTP/1.1",
        "GET /hello.txt\tHTTP/1.1",
        "GET /hello\x00.txt HTTP/1.1",
        "GET /hello\x7f.txt HTTP/1.1",
        "GET /hello.txt#part HTTP/1.1",
        "GET hello.txt HTTP/1.1",
        "GET * HTTP/1.1",
        "GET ftp://a/hello.txt HTTP/1.1",
        "GET http:///hello.txt HTTP/1.1",
        "GET http://user@a/hello.txt HTTP/1.1",
        "G@T /hello.txt HTTP/1.1",
        "GET\r /hello.txt HTTP/1.1",
        " GET /hello.txt HTTP/1.1",
        ": GET /hello.txt HTTP/1.1",
    ];
    let requests = lines.map(|line| format!("{line}\r\nHost: a\r\n\r\n"));
    refuses(mount, "HTTP/1.1 400 Bad Request", &requests);
}

pub(crate) fn a_malformed_field_line_is_400(mount: &Mount) {
    let fields = [
        "X : y",
        "X\t: y",
        ": y",
        "X",
        "X y",
        "X: a\rb",
        "X: a\x00b",
        "X: a\x01b",
        "X: a\x1fb",
        "X: a\x7fb",
        "X\x00Y: z",
        "X(Y): z",
        "X: a\r\n folded",
        "X: a\r\n\tfolded",
        " X: y",
        "\tX: y",
        "X: a\nY: b",
        "X: a\n",
        "X: a\r\r\nY: b",
    ];
    refuses(mount, "HTTP/1.1 400 Bad Request", &with_fields(&fields));
    let bare =
        ["GET /hello.txt HTTP/1.1\nHost: a\n\n", "\nGET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n"];
    refuses(mount, "HTTP/1.1 400 Bad Request", &bare.map(String::from));
    let first = "GET /hello.txt HTTP/1.1\r\n Host: a\r\n\r\n";
    refuses(mount, "HTTP/1.1 400 Bad Request", &[first.to_owned()]);
}

pub(crate) fn a_host_that_is_missing_or_doubtful_is_400(mount: &Mount) {
    let hosts = [
        "",
        "Host: a\r\nHost: a\r\n",
        "Host: a\r\nhost: b\r\n",
        "Host: a b\r\n",
        "Host: a/b\r\n",
        "Host: a@b\r\n",
        "Host: a, b\r\n",
        "Host: http://a\r\n",
        "Host: a:b\r\n",
        "Host: a:80:80\r\n",
        "Host: a:123456\r\n",
        "Host: [::1\r\n",
        "Host: []\r\n",
        "Host: [::1]a\r\n",
        "Host: \u{e4}\r\n",
        "Host: a\"\r\n",
    ];
    let origin = hosts.map(|host| format!("GET /hello.txt HTTP/1.1\r\n{host}\r\n"));
    refuses(mount, "HTTP/1.1 400 Bad Request", &origin);
    let absolute = hosts.map(|host| format!("GET http://a/hello.txt HTTP/1.1\r\n{host}\r\n"));
    refuses(mount, "HTTP/1.1 400 Bad Request", &absolute);
}

pub(crate) fn a_length_that_is_not_one_number_is_400(mount: &Mount) {
    let fields = [
        "Content-Length: ",
        "Content-Length: x",
        "Content-Length: -1",
        "Content-Length: +5",
        "Content-Length: 0x5",
        "Content-Length: 5 5",
        "Content-Length: 5, 5",
        "Content-Length: 5,6",
        "Content-Length: 5.0",
        "Content-Length: 99999999999999999999",
        "Content-Length: 18446744073709551621",
        "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 0\r\nContent-Length: 5",
    ];
    refuses(mount, "HTTP/1.1 400 Bad Request", &with_fields(&fields));
}

pub(crate) fn framing_that_is_ambiguous_is_400(mount: &Mount) {
    let fields = [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Transfer-Encoding: chunked\r\nContent-Length: 0",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, identity, chunked",
        // Nothing says where a body ends that is not chunked last (RFC 9112, section 6.3).
        "Transfer-Encoding: chunked, gzip",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip",
        "Transfer-Encoding: chunked,",
    ];
    refuses(mount, "HTTP/1.1 400 Bad Request", &with_fields(&fields));
    let old = "POST /digest HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    refuses(mount, "HTTP/1.1 400 Bad Request", &[old.to_owned()]);
}

pub(crate) fn a_transfer_coding_other_than_chunked_is_501(mount: &Mount) {
    let fields = [
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked;q=1",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
    ];
    refuses(mount, "HTTP/1.1 501 Not Implemented", &with_fields(&fields));
}

pub(crate) fn another_version_is_505(mount: &Mount) {
    let versions = ["0.9", "2.0", "1.2", "3.0", "9.9"];
    let requests = versions.map(|v| format!("GET /hello.txt HTTP/{v}\r\nHost: a\r\n\r\n"));
    refuses(mount, "HTTP/1.1 505 HTTP Version Not Supported", &requests);
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    refuses(mount, "HTTP/1.1 505 HTTP Version Not Supported", &[preface.to_owned()]);
}

pub(crate) fn another_expectation_is_417(mount: &Mount) {
    let fields = ["Expect: 200-ok", "Expect: 100-continue, x", "Expect: "];
    refuses(mount, "HTTP/1.1 417 Expectation Failed", &with_fields(&fields));
}

pub(crate) fn a_target_longer_than_the_limit_is_414(mount: &Mount) {
    let target = |len: usize| format!("/{}", "x".repeat(len - 1));
    let mut client = mount.connect();
    assert_eq!(client.ask(get(&target(8192))).line, "HTTP/1.1 404 Not Found");
    let requests = [get(&target(8193)), get(&target(9000)), get(&target(15_000))];
    refuses(mount, "HTTP/1.1 414 URI Too Long", &requests);
    // Without an end in sight it is refused as well.
    let endless = format!("GET {}", target(20_000));
    refuses(mount, "HTTP/1.1 414 URI Too Long", &[endless]);
}

pub(crate) fn a_head_larger_than_the_limits_is_431(mount: &Mount) {
    let head = |len: usize| {
        let rest = len - FINE.len() - "X: \r\n\r\n".len();
        format!("{FINE}X: {}\r\n\r\n", "y".repeat(rest))
    };
    let mut client = mount.connect();
    assert_eq!(client.ask(head(16_384)).line, "HTTP/1.1 200 OK");
    let fields = |count: usize| format!("{FINE}{}\r\n", "X: y\r\n".repeat(count - 1));
    assert_eq!(client.ask(fields(100)).line, "HTTP/1.1 200 OK");
    let endless = head(20_000).trim_end().to_owned();
    let requests = [head(16_385), head(30_000), fields(101), fields(1_000), endless];
    refuses(mount, "HTTP/1.1 431 Request Header Fields Too Large", &requests);
}

pub(crate) fn a_body_longer_than_the_limit_is_413(mount: &Mount) {
    let line = "HTTP/1.1 413 Content Too Large";
    // Where the head tells, the site answers, as it does with any error.
    for length in [64 * 1024 * 1024 + 1, u64::MAX / 2] {
        let mut client = mount.connect();
        let length = format!("Content-Length: {length}");
        let refusal = client.ask(request("POST", "/digest", &[&length]));
        assert_eq!((refusal.line.as_str(), refusal.expect("Connection")), (line, "close"));
        assert_eq!(refusal.expect("Content-Type"), "text/html; charset=utf-8");
        client.expect_closed();
    }
    let chunked = request("POST", "/digest", &["Transfer-Encoding: chunked"]);
    let requests = [
        format!("{chunked}4000001\r\n"),
        format!("{chunked}fffffffffffffff\r\n"),
        format!("{chunked}1\r\nx\r\n4000000\r\n"),
    ];
    refuses(mount, line, &requests);
}

pub(crate) fn methods_that_a_file_does_not_know(mount: &Mount) {
    let mut client = mount.connect();
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE"] {
        let answer = client.ask(request(method, "/hello.txt", &[]));
        assert_eq!(answer.line, "HTTP/1.1 405 Method Not Allowed", "{method}");
        assert_eq!(answer.expect("Allow"), "GET, HEAD, OPTIONS", "{method}");
        assert!(!answer.text().contains("a.test"), "a request is never echoed");
    }
    for method in ["FROB", "get", "Get", "PROPFIND", "GETX"] {
        let answer = client.ask(request(method, "/hello.txt", &[]));
        assert_eq!(answer.line, "HTTP/1.1 501 Not Implemented", "{method}");
    }
    let answer = client.ask(request("CONNECT", "a.test:443", &[]));
    assert_eq!(answer.line, "HTTP/1.1 405 Method Not Allowed");
    assert_eq!(answer.expect("Allow"), "GET, HEAD, OPTIONS");
}

pub(crate) fn a_refused_client_that_goes_on_sending_reads_the_refusal(mount: &Mount) {
    let refused = "GET /hello.txt HTTP/1.1\r\n\r\n";
    let junk = "x".repeat(200_000);
    // All at once: most of it is still in the socket when the refusal is written.
    let mut client = mount.connect();
    client.send(format!("{refused}{junk}"));
    assert_refused(&mut client, refused, "HTTP/1.1 400 Bad Request");
    // And after it was read: a reset would show in a later read.
    client.send(&junk);
    client.send(&junk);
    client.expect_closed();
    client.half_close();
    client.expect_closed();
}
