//! Connections that are cut at every step of a request and of its answer, in good order and by a
//! reset: nothing of them is left, and nobody else notices.

use flyball_testkit::{Client, LARGE_BYTES, large_at};

use crate::besieged::{Besieged, get, last_get};
use crate::common_programs::on_every_architecture;

/// The most that all of the cut connections may cost in memory, in bytes.
const MEMORY_MAX: u64 = 32 * 1024 * 1024;

/// Between two cuts of a large body, in bytes: no divisor of a piece or a page.
const STRIDE: usize = 2_100_001;

/// Room on the way to a client of a large body, so that the server has not sent it all before.
const NARROW: usize = 128 * 1024;

on_every_architecture! { [connections_that_are_cut_anywhere_leave_nothing_behind] }

/// How a connection is cut.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Close,
    Reset,
}

const CUTS: [Cut; 2] = [Cut::Close, Cut::Reset];

fn cut(client: Client, how: Cut) {
    match how {
        Cut::Close => drop(client),
        Cut::Reset => client.reset(),
    }
}

fn connections_that_are_cut_anywhere_leave_nothing_behind(arch: &str) {
    // The witness is idle meanwhile.
    let settings = "close.idle-when-full = false";
    let Some(besieged) = Besieged::start(arch, settings) else { return };
    let mut witness = besieged.server.connect();
    assert_eq!(witness.ask(get("/hello.txt")).status(), 200, "{arch}");
    let taken = besieged.most_taken_during(|| {
        for how in CUTS {
            requests(&besieged, how);
            small_answers(&besieged, how);
            large_answers(&besieged, how);
            assert_eq!(witness.ask(get("/hello.txt")).text(), "hello, world\n", "{arch}: {how:?}");
        }
    });
    assert!(taken <= MEMORY_MAX, "{arch}: {taken} bytes");
    drop(witness);
    besieged.expect_descriptors_back();
    let whole = besieged.server.connect().ask(last_get("/large.bin"));
    assert_eq!(whole.body.len(), LARGE_BYTES, "{arch}");
    large_at(0, &whole.body);
    besieged.server.assert_sound();
}

/// After each number of bytes of a request with a body, and of two that are pipelined.
fn requests(besieged: &Besieged, how: Cut) {
    let post = "POST /digest HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                3\r\nabc\r\n0\r\n\r\n";
    for request in [post.to_owned(), get("/hello.txt") + &get("/dir/")] {
        for n in 0..=request.len() {
            let mut client = besieged.server.connect();
            client.send(&request[..n]);
            cut(client, how);
        }
    }
}

/// After each number of bytes of an answer: of a file, of a part and of several of it, of none that
/// is new, of a listing, of an error and of two that are pipelined.
fn small_answers(besieged: &Besieged, how: Cut) {
    let tag = besieged.server.connect().ask(get("/hello.txt")).expect("ETag").to_owned();
    let file = |more: &str| format!("GET /hello.txt HTTP/1.1\r\nHost: a\r\n{more}\r\n");
    for (request, begins) in [
        (file(""), "HTTP/1.1 200 OK\r\n"),
        (file("Range: bytes=2-4\r\n"), "HTTP/1.1 206 Partial Content\r\n"),
        (file("Range: bytes=0-0,2-2\r\n"), "HTTP/1.1 206 Partial Content\r\n"),
        (file(&format!("If-None-Match: {tag}\r\n")), "HTTP/1.1 304 Not Modified\r\n"),
        (get("/empty/?format=json"), "HTTP/1.1 200 OK\r\n"),
        (get("/missing"), "HTTP/1.1 404 Not Found\r\n"),
        (file("") + &get("/missing"), "HTTP/1.1 200 OK\r\n"),
    ] {
        let whole = whole_answer(besieged, &request);
        assert!(whole.starts_with(begins.as_bytes()), "{request}");
        for n in 0..=whole.len() {
            let mut client = besieged.server.connect();
            client.send(&request);
            client.take(n);
            cut(client, how);
        }
    }
}

/// All that comes for these requests.
fn whole_answer(besieged: &Besieged, requests: &str) -> Vec<u8> {
    let mut client = besieged.server.connect();
    client.send(requests);
    client.half_close();
    client.rest_before_end()
}

/// At many places of a body that the socket cannot hold.
fn large_answers(besieged: &Besieged, how: Cut) {
    for n in (0..LARGE_BYTES).step_by(STRIDE) {
        let mut client = Client::connect_narrow(besieged.server.address(), NARROW);
        client.send(get("/large.bin"));
        client.response_head();
        large_at(0, &client.take(n));
        cut(client, how);
    }
}
