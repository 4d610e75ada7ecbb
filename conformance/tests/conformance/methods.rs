//! HEAD, OPTIONS and the forms of a target (RFC 9110, section 9.3; RFC 9112, section 3.2).

use flyball_testkit::Response;

use crate::mount::Mount;
use crate::requests::{get, get_of, request};

/// The head without `Date`, which may differ by a second between two answers.
fn undated(response: &Response) -> String {
    let kept = response.head.split_inclusive("\r\n").filter(|line| !line.starts_with("Date: "));
    kept.collect()
}

pub(crate) fn head_has_the_fields_of_get_and_no_body(mount: &Mount) {
    let mut client = mount.connect();
    let tag = client.ask(get("/hello.txt")).expect("ETag").to_owned();
    let unchanged = format!("If-None-Match: {tag}");
    for (target, fields, status) in [
        ("/hello.txt", &[][..], 200),
        ("/", &[], 200),
        ("/large.bin", &[], 200),
        ("/empty.txt", &[], 200),
        ("/missing", &[], 404),
        ("/list/", &[], 403),
        ("/../x", &[], 400),
        ("/dir", &[], 301),
        ("/hello.txt", &[unchanged.as_str()], 304),
        ("/hello.txt", &["If-Match: \"x\""], 412),
    ] {
        let got = client.ask(request("GET", target, fields));
        assert_eq!(got.status(), status, "{target}");
        client.send(request("HEAD", target, fields));
        let head = client.response_head();
        assert_eq!(undated(&head), undated(&got), "{target}");
    }
    // The next answer begins right behind the head.
    client.send(request("HEAD", "/page.html", &[]) + &get("/hello.txt"));
    assert_eq!(client.response_head().line, "HTTP/1.1 200 OK");
    assert_eq!(client.response().text(), "hello, world\n");
}

pub(crate) fn head_of_a_listing_has_no_body(mount: &Mount) {
    let mut client = mount.connect();
    let got = client.ask(get_of("list.test", "/"));
    client.send("HEAD / HTTP/1.1\r\nHost: list.test\r\n\r\n");
    assert_eq!(undated(&client.response_head()), undated(&got));
    assert_eq!(client.ask(get("/hello.txt")).text(), "hello, world\n");
}

pub(crate) fn options_tells_what_is_allowed(mount: &Mount) {
    let mut client = mount.connect();
    for target in ["/hello.txt", "/", "/missing", "*"] {
        let answer = client.ask(request("OPTIONS", target, &[]));
        assert_eq!(answer.line, "HTTP/1.1 204 No Content", "{target}");
        assert_eq!(answer.expect("Allow"), "GET, HEAD, OPTIONS", "{target}");
        assert_eq!(answer.field("Content-Length"), None, "RFC 9110, section 8.6");
    }
}

pub(crate) fn an_absolute_target_is_a_path_and_a_host(mount: &Mount) {
    let mut client = mount.connect();
    for (target, text) in [
        ("http://a.test/hello.txt", "hello, world\n"),
        ("HTTP://a.test:8080/hello.txt", "hello, world\n"),
        ("https://a.test/hello.txt?query", "hello, world\n"),
        ("http://[::1]:80/hello.txt", "hello, world\n"),
        ("http://a.test", "<!doctype html>\n<title>Index</title>\n"),
        ("http://a.test?query", "<!doctype html>\n<title>Index</title>\n"),
        // It wins over Host.
        ("http://exact.test/who.txt", "exact\n"),
        ("http://a.wild.test/who.txt", "wild\n"),
    ] {
        let answer = client.ask(get(target));
        assert_eq!((answer.status(), answer.text()), (200, text), "{target}");
    }
    let other = client.ask(get_of("exact.test", "http://a.test/who.txt"));
    assert_eq!(other.text(), "default\n");
}
