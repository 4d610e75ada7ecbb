//! Another generation of workers over TLS: what is under way goes on, and sessions are resumed.

use flyball_testkit::{LARGE_BYTES, Visitor, large_at, wait};

use crate::mount::Mount;
use crate::requests::get;

/// Socket buffer of a client whose download is under way for as long as it likes.
const NARROW_BYTES: usize = 128 * 1024;

/// What is taken of it before another generation begins.
const BEFORE_BYTES: usize = 100_000;

/// Nothing follows for those who have nothing under way, and over TLS that is said: a client does
/// not have to ask itself whether anything was cut.
pub(crate) fn who_is_idle_at_the_end_of_drain_is_told_that_nothing_follows(mount: &Mount) {
    let server = mount.start("workers = 1\ndrain = \"300ms\"\n");
    let mut idle = server.connect();
    assert_eq!(idle.ask(get("/hello.txt")).text(), "hello, world\n");
    let mut head = server.connect();
    assert_eq!(head.ask(get("/hello.txt")).status(), 200);
    server.reload();
    head.send("GET /hello.txt HTTP/1.1\r\nHo");
    idle.expect_closed();
    head.expect_closed();
    server.assert_sound();
}

pub(crate) fn a_reload_finishes_what_is_under_way_and_sessions_are_resumed(mount: &Mount) {
    let server = mount.start("");
    let visitor = Visitor::new();
    let mut first = visitor.connect(server.address());
    assert_eq!(first.ask(get("/hello.txt")).text(), "hello, world\n");
    assert!(!first.is_resumed());
    let mut download = server.connect_narrow(NARROW_BYTES);
    download.send(get("/large.bin"));
    assert_eq!(download.response_head().status(), 200);
    large_at(0, &download.take(BEFORE_BYTES));

    server.reload();

    // Who was between two requests may ask until the worker has learnt of the end, which is one of
    // TLS.
    let is_last = || {
        let answer = first.ask(get("/hello.txt"));
        assert_eq!(answer.text(), "hello, world\n");
        (answer.field("Connection") == Some("close")).then_some(())
    };
    assert!(wait::until(wait::DEADLINE, is_last).is_some(), "the worker before goes on");
    first.expect_closed();
    let mut again = visitor.connect(server.address());
    assert_eq!(again.ask(get("/hello.txt")).text(), "hello, world\n");
    assert!(again.is_resumed(), "by another generation");
    large_at(BEFORE_BYTES, &download.take(LARGE_BYTES - BEFORE_BYTES));
    server.assert_sound();
}
