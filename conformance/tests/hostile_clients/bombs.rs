//! Requests that are made to cost much: each is refused with its status, or answered at a bounded
//! price, and nothing of it is left behind.

use std::time::Duration;

use flyball_testkit::{Client, LARGE_BYTES, Response};

use crate::besieged::{Besieged, get, last_get};
use crate::common_programs::on_every_architecture;

/// The most that all of these together may cost in memory, in bytes: the buffers of a few
/// connections, and with threads or processes the stacks and caches of those that come to serve.
const MEMORY_MAX: u64 = 32 * 1024 * 1024;

/// The most of a processor's time that any of them may cost the server.
const PROCESSOR_MAX: Duration = Duration::from_secs(5);

/// What the server discards after a refusal (`limit.linger`, 64 MiB), and what the sockets of both
/// ends may hold (`tcp_rmem`, `tcp_wmem`). A busy kernel delivers the refusal late, and the client
/// goes on sending meanwhile.
const UNREAD_MAX: usize = (64 + 64) * 1024 * 1024;

/// Lines of a head of which none is long.
const TINY_HEADERS: usize = 1_000_000;

on_every_architecture! { [requests_that_are_bombs_cost_little] }

/// Throws one at a server.
type Bomb = fn(&Besieged);

fn requests_that_are_bombs_cost_little(arch: &str) {
    let Some(besieged) = Besieged::start(arch, "") else { return };
    let bombs: [(&str, Bomb); 6] = [
        ("tiny headers", tiny_headers),
        ("chunk extensions", chunk_extensions),
        ("trailers", trailers),
        ("small chunks", small_chunks),
        ("paths", paths),
        ("ranges", ranges),
    ];
    for (name, bomb) in bombs {
        let before = besieged.server.processor_time();
        let taken = besieged.most_taken_during(|| bomb(&besieged));
        let cost = besieged.server.processor_time().saturating_sub(before);
        assert!(cost < PROCESSOR_MAX, "{arch}: {name}: {cost:?}");
        assert!(taken <= MEMORY_MAX, "{arch}: {name}: {taken} bytes");
    }
    assert_eq!(besieged.ask_anew("/hello.txt"), 200);
    besieged.expect_descriptors_back();
}

/// Sends pieces without end until the server has refused; what it answered.
fn without_end(besieged: &Besieged, begin: &str, piece: &str) -> Response {
    let mut client = besieged.server.connect();
    client.send(begin);
    let mut sent = 0;
    while !client.arrived() && client.try_send(piece) {
        sent += piece.len();
        assert!(sent < UNREAD_MAX, "it takes {sent} bytes");
    }
    let response = client.response();
    client.rest_before_end();
    response
}

fn tiny_headers(besieged: &Besieged) {
    let mut client = besieged.server.connect();
    client.send("GET /hello.txt HTTP/1.1\r\nHost: a\r\n");
    let lines = "a:b\r\n".repeat(1_000);
    for _ in 0..TINY_HEADERS / 1_000 {
        if client.arrived() || !client.try_send(&lines) {
            break;
        }
    }
    assert_eq!(client.response().status(), 431);
    client.rest_before_end();
}

/// The head of a request whose body comes in chunks, and whose answer is a digest of that.
const CHUNKED: &str = "POST /digest HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

fn chunk_extensions(besieged: &Besieged) {
    let response = without_end(besieged, &format!("{CHUNKED}1;"), &"e".repeat(4_096));
    assert_eq!(response.status(), 400);
    // Many that are short.
    let response = without_end(besieged, CHUNKED, &"1;e=f\r\nx\r\n".repeat(1_000));
    assert_eq!(response.status() / 100, 4, "{}", response.line);
}

fn trailers(besieged: &Besieged) {
    let response = without_end(besieged, &format!("{CHUNKED}0\r\n"), &"a: b\r\n".repeat(1_000));
    assert_eq!(response.status() / 100, 4, "{}", response.line);
}

/// A body of many chunks of one byte is allowed, up to the length that any body has.
fn small_chunks(besieged: &Besieged) {
    let mut client = besieged.server.connect();
    client.send(CHUNKED);
    for _ in 0..100 {
        client.send("1\r\nx\r\n".repeat(1_000));
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.response().status(), 200);
}

fn paths(besieged: &Besieged) {
    let pieces = [
        "/a",
        "/..",
        "/.",
        "//",
        "/%2e%2e",
        "/%2e",
        "/dir/..",
        "/%2f",
        "/;x",
        "?/",
        "/*",
        "/%00",
        "/\u{7f}",
        "/%ff",
        "/a%20",
        "/inside-dir",
        "/loop",
    ];
    for piece in pieces {
        for bytes in [2_000, 7_900, 40_000] {
            let mut client = besieged.server.connect();
            // The rest of a long one may come after the refusal.
            client.try_send(last_get(&format!("/{}", piece.repeat(bytes / piece.len()))));
            let status = client.response().status();
            let refused = matches!(status, 400 | 403 | 404 | 414 | 431);
            let is_root = matches!(status, 200 | 301 | 308);
            assert!(refused || is_root && bytes < 40_000, "{piece} × {bytes}: {status}");
            client.rest_before_end();
        }
    }
}

/// However many ranges are asked for, no more is sent than the file has.
fn ranges(besieged: &Besieged) {
    let many = |range: &str| range.repeat(15_000 / range.len());
    for ranges in ["0-,", "0-0,", "5-6,", "-1,", "0-9999999,", "9-1,", "1-,0-,"] {
        let ranges = many(ranges);
        let mut client = Client::connect(besieged.server.address());
        let range = format!("Range: bytes={}\r\n\r\n", ranges.trim_end_matches(','));
        client.send(get("/large.bin").replacen("\r\n\r\n", &format!("\r\n{range}"), 1));
        let response = client.response();
        assert!(matches!(response.status(), 200 | 206 | 416), "{}", response.line);
        let most = LARGE_BYTES + 1024 * 1024;
        assert!(response.body.len() <= most, "{} bytes", response.body.len());
    }
}
