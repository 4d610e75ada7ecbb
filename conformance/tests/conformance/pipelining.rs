//! Requests that come before the answers to those before them (RFC 9112, section 9.3.2).

use flyball_testkit::{Client, large_at};

use crate::mount::Mount;
use crate::requests::{get, request};

/// Three files that are told apart by their length.
const FILES: [(&str, &str); 3] = [
    ("/hello.txt", "hello, world\n"),
    ("/page.html", "<!doctype html>\n<title>Page</title>\n"),
    ("/empty.txt", ""),
];

fn batch(count: usize) -> String {
    (0..count).map(|at| get(FILES[at % FILES.len()].0)).collect()
}

#[track_caller]
fn expect_batch(client: &mut Client, count: usize) {
    for at in 0..count {
        let answer = client.response();
        assert_eq!(answer.line, "HTTP/1.1 200 OK", "answer {at} of {count}");
        assert_eq!(answer.text(), FILES[at % FILES.len()].1, "answer {at} of {count}");
    }
}

pub(crate) fn three_in_one_segment_are_answered_in_order(mount: &Mount) {
    let mut client = mount.connect();
    for _ in 0..2 {
        client.send(batch(3));
        expect_batch(&mut client, 3);
    }
}

pub(crate) fn more_than_one_gathering_holds_are_answered_in_order(mount: &Mount) {
    let mut client = mount.connect();
    client.send(batch(40));
    expect_batch(&mut client, 40);
    client.send(batch(700));
    expect_batch(&mut client, 700);
    client.half_close();
    client.expect_closed();
}

pub(crate) fn it_does_not_matter_where_a_batch_is_split(mount: &Mount) {
    let all = batch(6);
    let mut client = mount.connect();
    for step in [1, 2, 3, 7, 41, 43, 97] {
        client.send_split(&all, (step..all.len()).step_by(step));
        expect_batch(&mut client, 6);
    }
    for at in 1..batch(2).len() {
        client.send_split(batch(2), [at]);
        expect_batch(&mut client, 2);
    }
}

pub(crate) fn answers_of_every_kind_keep_their_order(mount: &Mount) {
    let mut client = mount.connect();
    let tag = client.ask(get("/hello.txt")).expect("ETag").to_owned();
    let unchanged = request("GET", "/hello.txt", &[&format!("If-None-Match: {tag}")]);
    let mix = [
        get("/hello.txt"),
        unchanged,
        get("/missing"),
        request("HEAD", "/page.html", &[]),
        request("OPTIONS", "/hello.txt", &[]),
        request("GET", "/digits.txt", &["Range: bytes=10-19"]),
        get("/dir"),
        request("HEAD", "/missing", &[]),
        get("/page.html"),
    ];
    for _ in 0..4 {
        client.send(mix.concat());
        assert_eq!(client.response().text(), "hello, world\n");
        assert_eq!(client.response().line, "HTTP/1.1 304 Not Modified");
        assert_eq!(client.response().line, "HTTP/1.1 404 Not Found");
        let head = client.response_head();
        assert_eq!((head.status(), head.expect("Content-Length")), (200, "36"));
        assert_eq!(client.response().line, "HTTP/1.1 204 No Content");
        assert_eq!(client.response().text(), "0000000001");
        assert_eq!(client.response().expect("Location"), "/dir/");
        assert_eq!(client.response_head().line, "HTTP/1.1 404 Not Found");
        assert_eq!(client.response().text(), FILES[1].1);
    }
}

pub(crate) fn large_bodies_come_whole_between_small_ones(mount: &Mount) {
    let mut client = mount.connect();
    let order = ["/hello.txt", "/large.bin", "/page.html", "/large.bin", "/hello.txt"];
    client.send(order.map(get).concat());
    assert_eq!(client.response().text(), FILES[0].1);
    large_at(0, &client.response().body);
    assert_eq!(client.response().text(), FILES[1].1);
    large_at(0, &client.response().body);
    assert_eq!(client.response().text(), FILES[0].1);
}

pub(crate) fn a_batch_before_a_half_close_is_answered_whole(mount: &Mount) {
    for count in [1, 3, 40] {
        let mut client = mount.connect();
        client.send(batch(count));
        client.half_close();
        expect_batch(&mut client, count);
        client.expect_closed();
    }
}

pub(crate) fn a_request_cut_short_after_a_batch_is_dropped(mount: &Mount) {
    let mut client = mount.connect();
    client.send(batch(3) + "GET /hello.txt HTTP/1.1\r\nHo");
    client.half_close();
    expect_batch(&mut client, 3);
    client.expect_closed();
}

pub(crate) fn a_refusal_in_a_batch_ends_it(mount: &Mount) {
    let mut client = mount.connect();
    client.send(batch(2) + "GET /hello.txt HTTP/1.1\r\n\r\n" + &batch(2));
    expect_batch(&mut client, 2);
    let refusal = client.response();
    assert_eq!(refusal.line, "HTTP/1.1 400 Bad Request");
    assert_eq!(refusal.expect("Connection"), "close");
    client.expect_closed();
}
