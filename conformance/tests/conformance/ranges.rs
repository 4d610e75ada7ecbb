//! Byte ranges (RFC 9110, section 14).

use flyball_testkit::{Client, LARGE_BYTES, Response, Site, digits, large, large_at};

use crate::mount::Mount;
use crate::requests::{get, request};

#[track_caller]
fn ask(client: &mut Client, target: &str, ranges: &str) -> Response {
    client.ask(request("GET", target, &[&format!("Range: {ranges}")]))
}

/// One part of a representation: its `Content-Range` and its bytes.
type Part = (String, Vec<u8>);

/// The parts of a multipart/byteranges body, whose every byte is accounted for.
#[track_caller]
fn parts(answer: &Response, media_type: &str) -> Vec<Part> {
    assert_eq!(answer.line, "HTTP/1.1 206 Partial Content");
    assert_eq!(answer.field("Content-Range"), None, "RFC 9110, section 15.3.7.2");
    let content_type = answer.expect("Content-Type");
    let boundary =
        content_type.strip_prefix("multipart/byteranges; boundary=").expect(content_type);
    let mut rest = answer.body.as_slice();
    let mut parts = Vec::new();
    let opening = format!("\r\n--{boundary}");
    loop {
        rest = rest.strip_prefix(opening.as_bytes()).expect("a boundary");
        if rest == b"--\r\n" {
            return parts;
        }
        let end = rest.windows(4).position(|w| w == b"\r\n\r\n").expect("the head of a part");
        let head = std::str::from_utf8(&rest[..end]).expect("ASCII");
        let prefix = format!("\r\nContent-Type: {media_type}\r\nContent-Range: ");
        let range = head.strip_prefix(&prefix).expect(head).to_owned();
        let (first, last) = span(&range);
        let body = rest.get(end + 4..end + 4 + last - first + 1).expect("a whole part");
        parts.push((range, body.to_vec()));
        rest = &rest[end + 4 + body.len()..];
    }
}

/// First and last byte of a `Content-Range`.
fn span(range: &str) -> (usize, usize) {
    let numbers = range.strip_prefix("bytes ").and_then(|r| r.split('/').next()).expect(range);
    let (first, last) = numbers.split_once('-').expect(range);
    (first.parse().expect(range), last.parse().expect(range))
}

pub(crate) fn one_range_is_sent_as_it_is(mount: &Mount) {
    let mut client = mount.connect();
    let whole = client.ask(get("/digits.txt"));
    for (ranges, first, last) in [
        ("bytes=0-0", 0, 0),
        ("bytes=0-499", 0, 499),
        ("bytes=500-", 500, 999),
        ("bytes=0-", 0, 999),
        ("bytes=990-5000", 990, 999),
        ("bytes=-1", 999, 999),
        ("bytes=-300", 700, 999),
        ("bytes=-5000", 0, 999),
        ("Bytes=7-0008", 7, 8),
        ("bytes=1-2, ", 1, 2),
        ("bytes=5-99999999999999999999", 5, 999),
    ] {
        let answer = ask(&mut client, "/digits.txt", ranges);
        assert_eq!(answer.line, "HTTP/1.1 206 Partial Content", "{ranges}");
        assert_eq!(answer.expect("Content-Range"), format!("bytes {first}-{last}/1000"));
        assert_eq!(answer.text(), &digits()[first..=last], "{ranges}");
        for name in ["ETag", "Last-Modified", "Content-Type"] {
            assert_eq!(answer.expect(name), whole.expect(name), "{ranges}");
        }
    }
}

pub(crate) fn several_ranges_come_as_parts(mount: &Mount) {
    let mut client = mount.connect();
    for (ranges, expected) in [
        ("bytes=0-9,500-509", &[(0, 9), (500, 509)][..]),
        ("bytes=0-9, 200-299 ,-10", &[(0, 9), (200, 299), (990, 999)]),
        ("bytes=0-0,2000-,999-", &[(0, 0), (999, 999)]),
        // In the order of the request, where what is joined stands in the place of its first.
        ("bytes=500-509,0-9", &[(500, 509), (0, 9)]),
        ("bytes=990-999,0-9,500-509,5-19", &[(990, 999), (0, 19), (500, 509)]),
    ] {
        let answer = ask(&mut client, "/digits.txt", ranges);
        let expected: Vec<Part> = expected
            .iter()
            .map(|&(a, b)| (format!("bytes {a}-{b}/1000"), digits().as_bytes()[a..=b].to_vec()))
            .collect();
        assert_eq!(parts(&answer, "text/plain; charset=utf-8"), expected, "{ranges}");
    }
    assert_eq!(client.ask(get("/hello.txt")).status(), 200);
}

pub(crate) fn overlapping_and_near_ranges_become_one(mount: &Mount) {
    let mut client = mount.connect();
    for (ranges, first, last) in [
        ("bytes=0-99,50-149", 0, 149),
        ("bytes=0-99,100-199", 0, 199),
        ("bytes=0-9,20-29", 0, 29),
        ("bytes=0-99,0-99,0-99", 0, 99),
        ("bytes=10-19,0-999", 0, 999),
        ("bytes=500-,-600", 400, 999),
    ] {
        let answer = ask(&mut client, "/digits.txt", ranges);
        assert_eq!(
            answer.expect("Content-Range"),
            format!("bytes {first}-{last}/1000"),
            "{ranges}"
        );
        assert_eq!(answer.text(), &digits()[first..=last], "{ranges}");
    }
    let answer = ask(&mut client, "/digits.txt", "bytes=0-99,50-149,800-,700-899");
    let found: Vec<(usize, usize)> =
        parts(&answer, "text/plain; charset=utf-8").iter().map(|(range, _)| span(range)).collect();
    assert_eq!(found, [(0, 149), (700, 999)]);
}

pub(crate) fn what_no_byte_satisfies_is_416(mount: &Mount) {
    let mut client = mount.connect();
    for ranges in ["bytes=1000-", "bytes=1000-1000", "bytes=-0", "bytes=5000-6000,1000-,-0"] {
        let answer = ask(&mut client, "/digits.txt", ranges);
        assert_eq!(answer.line, "HTTP/1.1 416 Range Not Satisfiable", "{ranges}");
        assert_eq!(answer.expect("Content-Range"), "bytes */1000", "{ranges}");
    }
    let answer = ask(&mut client, "/empty.txt", "bytes=1-");
    assert_eq!((answer.status(), answer.expect("Content-Range")), (416, "bytes */0"));
}

pub(crate) fn what_is_not_a_range_is_ignored(mount: &Mount) {
    let mut client = mount.connect();
    for ranges in [
        "bytes=",
        "bytes=-",
        "bytes=a-b",
        "bytes=5-4",
        "bytes=1",
        "bytes 0-1",
        "bytes = 0-1",
        "bytes=0-1;2-3",
        "bytes=0-1,x",
        "bytes=0--1",
        "bytes=+0-1",
        "bytes=0x0-0x1",
        "lines=0-1",
        "0-1",
    ] {
        let answer = ask(&mut client, "/digits.txt", ranges);
        assert_eq!(answer.line, "HTTP/1.1 200 OK", "{ranges}");
        assert_eq!(answer.text(), digits(), "{ranges}");
        assert_eq!(answer.field("Content-Range"), None, "{ranges}");
    }
    let twice = ["Range: bytes=0-1", "Range: bytes=2-3"];
    assert_eq!(client.ask(request("GET", "/digits.txt", &twice)).status(), 200);
    for ranges in ["bytes=-5", "bytes=0-", "bytes=0-99"] {
        assert_eq!(ask(&mut client, "/empty.txt", ranges).status(), 200, "{ranges}");
    }
}

pub(crate) fn more_ranges_than_the_limit_are_ignored(mount: &Mount) {
    let set = |count: usize| {
        let ranges: Vec<String> = (0..count).map(|at| format!("{at}-{at}")).collect();
        format!("bytes={}", ranges.join(","))
    };
    let mut client = mount.connect();
    assert_eq!(
        ask(&mut client, "/digits.txt", &set(256)).expect("Content-Range"),
        "bytes 0-255/1000"
    );
    let answer = ask(&mut client, "/digits.txt", &set(257));
    assert_eq!((answer.status(), answer.text()), (200, digits()));
    let abuse = format!("bytes={}", ["0-"; 1_000].join(","));
    let answer = ask(&mut client, "/large.bin", &abuse);
    assert_eq!((answer.status(), answer.body.len()), (200, LARGE_BYTES));
    let root = Site::shared().path("").display().to_string();
    let sites = format!("[[site]]\nroot = \"{root}\"\nmax-ranges = 3\n");
    let server = mount.start_with_sites("", &sites);
    let mut client = server.connect();
    for (count, status) in [(3, 206), (4, 200)] {
        assert_eq!(ask(&mut client, "/digits.txt", &set(count)).status(), status, "{count}");
    }
}

pub(crate) fn as_many_ranges_as_may_be_come_whole(mount: &Mount) {
    let mut client = mount.connect();
    let starts: Vec<usize> = (0..256).rev().map(|at| at * 100).collect();
    let ranges: Vec<String> = starts.iter().map(|at| format!("{at}-{at}")).collect();
    let answer = ask(&mut client, "/large.bin", &format!("bytes={}", ranges.join(",")));
    let expected: Vec<Part> = starts
        .iter()
        .map(|&at| (format!("bytes {at}-{at}/{LARGE_BYTES}"), vec![large()[at]]))
        .collect();
    assert_eq!(parts(&answer, "application/octet-stream"), expected);
}

pub(crate) fn a_range_with_another_method_is_ignored(mount: &Mount) {
    let mut client = mount.connect();
    for ranges in ["bytes=0-9", "bytes=0-9,500-509", "bytes=5000-"] {
        client.send(request("HEAD", "/digits.txt", &[&format!("Range: {ranges}")]));
        let answer = client.response_head();
        assert_eq!((answer.status(), answer.expect("Content-Length")), (200, "1000"), "{ranges}");
        assert_eq!(answer.expect("Accept-Ranges"), "bytes");
    }
}

pub(crate) fn ranges_of_a_large_file(mount: &Mount) {
    let mut client = mount.connect();
    for (first, last) in [
        (0, 0),
        (1, 100_000),
        (65_535, 65_536),
        (262_143, 786_433),
        (5_000_001, 9_999_999),
        (LARGE_BYTES - 1, LARGE_BYTES - 1),
    ] {
        let answer = ask(&mut client, "/large.bin", &format!("bytes={first}-{last}"));
        assert_eq!(answer.expect("Content-Range"), format!("bytes {first}-{last}/{LARGE_BYTES}"));
        assert_eq!(answer.body.len(), last - first + 1);
        large_at(first, &answer.body);
    }
    let answer = ask(&mut client, "/large.bin", "bytes=10-20,300000-900000,-70000");
    let parts = parts(&answer, "application/octet-stream");
    let expected = [(10, 20), (300_000, 900_000), (LARGE_BYTES - 70_000, LARGE_BYTES - 1)];
    assert_eq!(parts.len(), expected.len());
    for ((range, bytes), (first, last)) in parts.iter().zip(expected) {
        assert_eq!(*range, format!("bytes {first}-{last}/{LARGE_BYTES}"));
        assert!(bytes.as_slice() == &large()[first..=last], "{range}");
    }
    assert_eq!(client.ask(get("/hello.txt")).status(), 200);
}
