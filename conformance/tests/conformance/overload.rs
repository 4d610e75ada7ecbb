//! What leaves plain while the server is overloaded: clients wait, and nobody has a place for them.

use std::fs;

use flyball_testkit::wait::{DEADLINE, until};
use flyball_testkit::{Client, Response};

use crate::codings::{Coded, counter, decode, decoded, text};
use crate::mount::Mount;
use crate::requests::request;

const ACCEPTS: &str = "Accept-Encoding: gzip";

/// One worker, or two processes of one connection each, and places for two connections, which
/// nobody gives up for others. Files are looked at each time, and so is how they leave.
fn with_two_places(mount: &Mount) -> String {
    let of_one = match mount.architecture() {
        "mp" => "mp.processes = 2\n",
        "mt" => "mt.threads = 2\n",
        _ => "",
    };
    format!(
        "workers = 1\nadmin = \"127.0.0.1:0\"\naccept.defer = false\nclose.idle-when-full = false\n\
         connections.max = 2\ncache.revalidate = 0\n{of_one}"
    )
}

/// Takes a place and keeps it.
fn keeps(coded: &Coded) -> Client {
    let mut client = coded.server.connect();
    assert_eq!(client.ask(request("GET", "/short.txt", &[])).status(), 200);
    client
}

fn get(client: &mut Client, target: &str) -> Response {
    client.ask(request("GET", target, &[ACCEPTS]))
}

#[track_caller]
fn assert_plain(answer: &Response, file: &[u8]) {
    assert_eq!((answer.status(), answer.field("Content-Encoding")), (200, None));
    assert!(answer.body == file && answer.expect("Vary") == "Accept-Encoding");
}

pub(crate) fn new_bodies_leave_plain_while_clients_wait_for_a_place(mount: &Mount) {
    let small = "compress.max-size = \"100KiB\"\n";
    let coded = Coded::start(mount, &with_two_places(mount), small);
    fs::write(coded.path("other.txt"), text(2)).expect("the site can be written");
    coded.wait_until_cached();
    let mut first = keeps(&coded);
    // All places are taken, but nobody waits: this one is coded, and kept so.
    let second = keeps(&coded);
    assert!(decoded(&get(&mut first, "/text.txt")) == text(1));
    let mut third = coded.server.connect();
    third.send(request("GET", "/short.txt", &[]));
    assert_plain(&get(&mut first, "/other.txt"), &text(2));
    assert_plain(&get(&mut first, "/large.txt"), &text(1).repeat(5));
    assert!(decoded(&get(&mut first, "/text.txt")) == text(1), "it was coded before");
    let shed = || (counter(&coded.server.status(), "compressions_shed") >= 2).then_some(());
    assert!(until(DEADLINE, shed).is_some(), "{}", coded.server.status());
    // Somebody goes: who waits has a place, and what left plain is coded.
    drop(second);
    assert_eq!(third.response().text(), "short\n");
    let coded_again = || {
        let answer = get(&mut first, "/other.txt");
        answer.field("Content-Encoding").map(|_| decoded(&answer) == text(2))
    };
    assert_eq!(until(DEADLINE, coded_again), Some(true));
    first.send(request("GET", "/large.txt", &[ACCEPTS]));
    assert_eq!(first.response_head().expect("Content-Encoding"), "gzip");
    assert!(decode("gzip", &first.chunks().concat()) == text(1).repeat(5));
}

pub(crate) fn new_bodies_are_coded_although_clients_wait_where_that_is_wanted(mount: &Mount) {
    let wanted = "compress.when-overloaded = \"compressed\"\n";
    let coded = Coded::start(mount, &with_two_places(mount), wanted);
    let (mut first, _second) = (keeps(&coded), keeps(&coded));
    let _third = coded.server.connect();
    assert!(decoded(&get(&mut first, "/text.txt")) == text(1));
}
