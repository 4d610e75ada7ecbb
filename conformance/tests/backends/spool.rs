//! Slow clients hold no backend: what is too long for memory waits in files until it is whole.

use std::os::unix::fs::PermissionsExt;

use crate::common_programs::{noise, on_every_architecture};
use crate::fastcgi::{AT_MOST, Front, answer, chunked, get, start, start_workers, value};
use crate::links::{expect_given, nobody_connects};
use flyball_testkit::{Client, wait};

/// Clients that are slow at the same time.
const SLOW: usize = 8;

/// Processes of `mp` have one connection each.
const WORKERS_OF_MP: usize = SLOW + 2;

/// A server with one child: the test, which takes a link when it is ready for one.
const TABLE: &str = "[[site.fastcgi]]\npath = \"/one\"\nSOCKET\nhold = \"64KiB\"\n";

fn one_child(architecture: &str, more: &str) -> Option<Front> {
    let workers = if architecture == "mp" { WORKERS_OF_MP } else { 1 };
    start_workers(architecture, workers, &format!("{TABLE}{more}"))
}

/// An upload without its last bytes, and these.
fn upload(number: usize, body: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (framing, mut all) = match number % 2 {
        0 => (format!("Content-Length: {}", body.len()), body.to_vec()),
        _ => ("Transfer-Encoding: chunked".to_string(), chunked(body)),
    };
    let last = all.split_off(all.len() - 7);
    let head = format!("POST /one/slow HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n");
    ([head.into_bytes(), all].concat(), last)
}

/// Eight of them are under way, and an honest request is answered; then each arrives whole.
fn upload_slowly(front: &Front, body: &[u8]) {
    let mut slow: Vec<(Client, Vec<u8>)> = Vec::new();
    for number in 0..SLOW {
        let (first, last) = upload(number, body);
        let mut client = front.server.connect();
        client.send(first);
        slow.push((client, last));
    }
    expect_given(front, SLOW as u64);
    nobody_connects(front);
    let mut honest = front.server.connect();
    honest.send(get("/one/honest"));
    let mut link = front.accept();
    assert_eq!(value(&link.params(0), "PATH_INFO"), Some("/honest"));
    assert_eq!(link.stream(5), b"");
    link.answer("A: b\r\n\r\nhonest");
    assert_eq!(answer(&mut honest).1, "honest");
    nobody_connects(front);
    for (client, last) in &mut slow {
        client.send(last);
        let mut link = front.accept();
        let params = link.params(0);
        assert_eq!(value(&params, "CONTENT_LENGTH"), Some(&*body.len().to_string()));
        assert_eq!(value(&params, "HTTP_TRANSFER_ENCODING"), None);
        assert!(link.stream(5) == body, "another body came");
        link.answer("A: b\r\n\r\nslow");
        assert_eq!(answer(client).1, "slow");
    }
}

fn slow_uploads_keep_the_only_child_from_nobody(architecture: &str) {
    let Some(front) = one_child(architecture, "") else { return };
    upload_slowly(&front, &noise(1, 700_001));
}

#[test]
fn slow_uploads_of_60_mb_keep_the_only_child_from_nobody() {
    let Some(front) = start("n-copy", "[[site.fastcgi]]\npath = \"/one\"\nSOCKET\n") else {
        return;
    };
    upload_slowly(&front, &noise(2, 60_000_000));
}

/// Waits until this counter has this value.
fn expect_counted(front: &Front, name: &str, count: u64) {
    let counted = || (front.counted(name) == count).then_some(());
    assert!(wait::until(AT_MOST, counted).is_some(), "{name}: {}", front.server.status());
}

fn a_full_spool_is_503_and_counted_until_there_is_room(architecture: &str) {
    let Some(front) = one_child(architecture, "[spool]\nmax = \"1MiB\"\n") else { return };
    let body = noise(3, 900_000);
    let (first, last) = upload(0, &body);
    let mut slow = front.server.connect();
    slow.send(&first);
    expect_given(&front, 1);
    for number in 0..2 {
        let mut refused = front.server.connect();
        let (first, _) = upload(number, &body);
        // It is answered before its body has ended.
        refused.try_send(first);
        assert_eq!(refused.response_head().status(), 503);
        expect_counted(&front, "spool_full", number as u64 + 1);
    }
    front.expect_logged("the place for request bodies is full");
    nobody_connects(&front);
    assert_eq!(front.counted("backend_failures_503"), 0);
    slow.reset();
    let whole = [first, last].concat();
    let served = || {
        let mut next = front.server.connect();
        next.try_send(&whole);
        let refused = |next: &mut Client| next.arrived().then_some(None);
        let outcome = || front.try_accept().map(Some).or_else(|| refused(&mut next));
        wait::until(AT_MOST, outcome)?.map(|link| (next, link))
    };
    let (mut next, mut link) = wait::until(AT_MOST, served).expect("there is room again");
    link.params(0);
    assert!(link.stream(5) == body, "another body came");
    link.answer("A: b\r\n\r\nnext");
    assert_eq!(answer(&mut next).1, "next");
}

/// Without a place that can be written nothing is run for a body that memory does not hold.
fn expect_memory_alone(front: &Front) {
    let body = noise(4, 100_000);
    for (number, status) in [(0, 413), (1, 411)] {
        let mut client = front.server.connect();
        client.try_send(upload(number, &body).0);
        assert_eq!(client.response_head().status(), status);
    }
    nobody_connects(front);
    let mut client = front.server.connect();
    let (first, last) = upload(1, &body[..60_000]);
    client.send([first, last].concat());
    let mut link = front.accept();
    assert_eq!(value(&link.params(0), "CONTENT_LENGTH"), Some("60000"));
    assert!(link.stream(5) == body[..60_000], "another body came");
    link.answer("A: b\r\n\r\nheld");
    assert_eq!(answer(&mut client).1, "held");
}

fn without_a_place_that_can_be_written_a_long_body_is_refused(architecture: &str) {
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
    let more = format!("[spool]\ndirectory = \"{}\"\n", place.path().display());
    let Some(front) = one_child(architecture, &more) else { return };
    front.expect_logged("workers cannot write in");
    expect_memory_alone(&front);
}

#[test]
fn without_files_a_long_body_is_refused() {
    let Some(front) = one_child("sped", "[spool]\nmax = \"off\"\n") else { return };
    expect_memory_alone(&front);
    let nowhere = "[spool]\ndirectory = \"/no/such/directory\"\n";
    let Some(front) = one_child("sped", nowhere) else { return };
    expect_memory_alone(&front);
}

on_every_architecture! {
    [
        slow_uploads_keep_the_only_child_from_nobody,
        a_full_spool_is_503_and_counted_until_there_is_room,
        without_a_place_that_can_be_written_a_long_body_is_refused,
    ]
}
