//! Bodies that are produced while they are sent: the listing of a directory that is too large to be
//! listed at once.

use std::time::Duration;

use flyball_testkit::{Client, MANY, Response, name_of_many, wait};

use crate::draining::wait_until_all_are_told;
use crate::mount::Mount;
use crate::requests::{get, get_of};

/// Socket buffer of a client that is slower than the server.
const NARROW_BYTES: usize = 128 * 1024;

/// The request for it.
fn request() -> String {
    get_of("many.test", "/")
}

fn narrow(mount: &Mount) -> Client {
    mount.server().connect_narrow(NARROW_BYTES)
}

/// The page has every name, once and in order, and ends as it should.
#[track_caller]
fn expect_page(page: &[u8]) {
    let page = std::str::from_utf8(page).expect("a page is UTF-8");
    assert!(page.starts_with("<!DOCTYPE html>\n") && page.ends_with("</body>\n</html>\n"));
    let mut links = page.split("<a href=\"./").skip(1);
    for at in 0..MANY {
        let link = links.next().and_then(|link| link.split('"').next());
        assert_eq!(link, Some(&*name_of_many(at).replace('&', "%26")), "entry {at}");
    }
    assert_eq!(links.next(), None);
    assert!(page.contains(&format!("0 directories, {MANY} files, 0 B")));
}

#[track_caller]
fn expect_head(head: &Response) {
    assert_eq!(head.line, "HTTP/1.1 200 OK");
    assert_eq!(head.field("Content-Length"), None);
    assert_eq!(head.expect("Content-Type"), "text/html; charset=utf-8");
}

#[track_caller]
fn expect_stream(client: &mut Client) {
    let head = client.response_head();
    expect_head(&head);
    assert_eq!(head.expect("Transfer-Encoding"), "chunked");
    let chunks = client.chunks();
    assert!(chunks.len() > 10, "{} chunks", chunks.len());
    assert!(chunks.iter().all(|chunk| chunk.len() < 64 * 1024));
    expect_page(&chunks.concat());
}

pub(crate) fn a_body_of_unknown_length_comes_in_chunks(mount: &Mount) {
    let mut client = mount.connect();
    for _ in 0..2 {
        client.send(request());
        expect_stream(&mut client);
    }
    assert_eq!(client.ask(get("/hello.txt")).text(), "hello, world\n");
}

pub(crate) fn http_1_0_gets_it_until_the_connection_ends(mount: &Mount) {
    for fields in ["", "Connection: keep-alive\r\n"] {
        let mut client = mount.connect();
        client.send(format!("GET / HTTP/1.0\r\nHost: many.test\r\n{fields}\r\n"));
        let head = client.response_head();
        expect_head(&head);
        assert_eq!(head.expect("Connection"), "close");
        assert_eq!(head.field("Transfer-Encoding"), None);
        expect_page(&client.rest());
    }
}

pub(crate) fn head_has_the_fields_and_no_body(mount: &Mount) {
    let mut client = mount.connect();
    client.send("HEAD / HTTP/1.1\r\nHost: many.test\r\n\r\n".to_owned() + &get("/hello.txt"));
    expect_head(&client.response_head());
    assert_eq!(client.response().text(), "hello, world\n");
    client.send("HEAD / HTTP/1.0\r\nHost: many.test\r\nConnection: keep-alive\r\n\r\n");
    let head = client.response_head();
    expect_head(&head);
    assert_eq!(head.expect("Connection"), "keep-alive");
    assert_eq!(client.ask(get("/hello.txt")).text(), "hello, world\n");
}

pub(crate) fn requests_behind_it_wait_for_its_end(mount: &Mount) {
    let mut client = narrow(mount);
    let batch = [get("/hello.txt"), request(), get("/missing"), request(), get("/hello.txt")];
    client.send(batch.concat());
    assert_eq!(client.response().text(), "hello, world\n");
    expect_stream(&mut client);
    assert_eq!(client.response().status(), 404);
    expect_stream(&mut client);
    assert_eq!(client.response().text(), "hello, world\n");
}

pub(crate) fn a_slow_reader_gets_it_whole(mount: &Mount) {
    let mut client = narrow(mount);
    client.send(request() + &get("/hello.txt"));
    expect_head(&client.response_head());
    // The server's socket is full by then, and so is what it may have ready.
    wait::dawdle(Duration::from_millis(50));
    expect_page(&client.chunks().concat());
    assert_eq!(client.response().text(), "hello, world\n");
}

pub(crate) fn a_client_that_goes_away_disturbs_nobody_else(mount: &Mount) {
    let mut witness = narrow(mount);
    witness.send(request());
    expect_head(&witness.response_head());
    for bytes in [0, 1, 100, 50_000, 1_000_000] {
        let mut client = narrow(mount);
        client.send(request().repeat(2));
        client.take(bytes);
        client.reset();
        let mut client = narrow(mount);
        client.send(request());
        client.take(bytes);
        drop(client);
    }
    expect_page(&witness.chunks().concat());
    assert_eq!(witness.ask(get("/hello.txt")).text(), "hello, world\n");
}

pub(crate) fn many_at_once_are_kept_apart(mount: &Mount) {
    let mut clients: Vec<Client> = (0..5).map(|_| narrow(mount)).collect();
    for client in &mut clients {
        client.send(request());
    }
    // Others are served meanwhile.
    assert_eq!(mount.connect().ask(get("/hello.txt")).text(), "hello, world\n");
    for client in clients.iter_mut().rev() {
        expect_stream(client);
        assert_eq!(client.ask(get("/hello.txt")).text(), "hello, world\n");
    }
}

pub(crate) fn an_unread_request_body_makes_it_the_last_answer(mount: &Mount) {
    let mut client = mount.connect();
    client.send("GET / HTTP/1.1\r\nHost: many.test\r\nContent-Length: 5\r\n\r\nhello");
    let head = client.response_head();
    expect_head(&head);
    assert_eq!(head.expect("Connection"), "close");
    expect_page(&client.chunks().concat());
    client.expect_closed();
}

pub(crate) fn a_stopping_server_finishes_it(mount: &Mount) {
    let server = mount.start("workers = 1\n");
    let mut client = server.connect_narrow(NARROW_BYTES);
    client.send(request() + &get("/hello.txt"));
    let head = client.response_head();
    assert_eq!((head.status(), head.field("Connection")), (200, None));
    let mut idle = server.connect();
    assert_eq!(idle.ask(get("/hello.txt")).status(), 200);
    server.terminate();
    // It tells when draining has begun.
    idle.expect_closed();
    wait_until_all_are_told(mount);
    expect_page(&client.chunks().concat());
    client.expect_closed();
    // Who stays after an end is waited for a while.
    drop(client);
    let stopped = server.wait();
    assert_eq!((stopped.code, stopped.errors.as_str()), (Some(0), ""));
}

pub(crate) fn http_1_0_is_told_that_it_was_cut_short(mount: &Mount) {
    let server = mount.start("admin = \"127.0.0.1:0\"\nworkers = 1\ntimeout.send = \"300ms\"\n");
    let mut client = server.connect_narrow(NARROW_BYTES);
    client.send("GET / HTTP/1.0\r\nHost: many.test\r\n\r\n");
    // It does not read, and is given up.
    let given_up = || server.status().contains("\"send-timeout\": 1,").then_some(());
    assert!(wait::until(wait::DEADLINE, given_up).is_some(), "{}", server.status());
    let page = client.rest_before_reset();
    assert!(!page.ends_with(b"</html>\n"));
}
