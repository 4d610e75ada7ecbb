//! Records of TLS as they come: in pieces that end anywhere, changed, and cut off; and the end of a
//! connection, as they tell it.

use flyball_testkit::{Client, Harm, LARGE_BYTES, wait};

use crate::mount::Mount;
use crate::requests::get;

/// A request whose answer is known.
const REQUEST: &str = "GET /hello.txt HTTP/1.1\r\nHost: a.test\r\n\r\n";

/// Socket buffer of a client that does not read.
const NARROW_BYTES: usize = 128 * 1024;

/// Places that are tried in a connection of a short hello: beyond its end nothing is harmed.
const PLACES: usize = 500;

/// Every how many places where few suffice.
const FEW: usize = 29;

#[track_caller]
fn assert_answered(client: &mut Client, what: Harm) {
    let answer = client.ask(REQUEST);
    assert_eq!((answer.status(), answer.text()), (200, "hello, world\n"), "{what:?}");
}

fn answered_by(mount: &Mount, harm: Harm) {
    let client = mount.server().connect_by(harm);
    let mut client = client.unwrap_or_else(|error| panic!("{harm:?}: {error}"));
    assert_answered(&mut client, harm);
    assert_answered(&mut client, harm);
}

pub(crate) fn a_handshake_and_requests_may_come_byte_by_byte(mount: &Mount) {
    for len in [1, 5, 97] {
        answered_by(mount, Harm::Pieces(len));
    }
}

pub(crate) fn a_handshake_may_be_split_anywhere(mount: &Mount) {
    (1..PLACES).step_by(FEW).for_each(|at| answered_by(mount, Harm::SplitAt(at)));
}

pub(crate) fn a_handshake_may_be_split_at_every_byte(mount: &Mount) {
    (1..PLACES).for_each(|at| answered_by(mount, Harm::SplitAt(at)));
}

/// What a changed byte does to its own connection: an end, or, where it was one of no meaning,
/// such as a version of long ago, nothing.
fn ends_or_is_answered(mount: &Mount, harm: Harm) {
    let Ok(mut client) = mount.server().connect_by(harm) else { return };
    if let Some(answer) = client.try_ask(REQUEST) {
        assert_eq!(answer.status(), 200, "{harm:?}");
    }
}

/// A harm at every so many places ends its own connection alone. The other one asks each time: one
/// that rests gives up its place to those that wait.
fn harms_its_own_connection_alone(mount: &Mount, every: usize, at: fn(usize) -> Harm) {
    let mut witness = mount.connect();
    for harm in (0..PLACES).step_by(every).map(at) {
        ends_or_is_answered(mount, harm);
        assert_answered(&mut witness, harm);
    }
}

pub(crate) fn a_changed_byte_ends_its_own_connection_alone(mount: &Mount) {
    harms_its_own_connection_alone(mount, FEW, Harm::ChangedAt);
}

pub(crate) fn a_changed_byte_at_every_place_is_no_harm_to_others(mount: &Mount) {
    harms_its_own_connection_alone(mount, 1, Harm::ChangedAt);
}

/// An end within a hello, a record or between two.
pub(crate) fn an_end_within_a_handshake_or_a_record_is_let_go(mount: &Mount) {
    harms_its_own_connection_alone(mount, FEW, Harm::CutAt);
}

/// Ways to go that TLS does not count as an orderly end.
const WAYS_TO_GO: [(&str, GoesBy); 2] = [("cut", Client::cut), ("failed", Client::fail)];
type GoesBy = fn(&mut Client);

/// Of more than a server can have on its way to a client that does not read.
pub(crate) fn who_goes_within_a_download_gets_no_more_of_it(mount: &Mount) {
    let settings = "admin = \"127.0.0.1:0\"\nworkers = 1\nsend.buffer = \"64KiB\"\n";
    for (name, goes) in WAYS_TO_GO {
        let server = mount.start(settings);
        let mut client = server.connect_narrow(NARROW_BYTES);
        client.send(get("/large.bin"));
        assert_eq!(client.response_head().status(), 200, "{name}");
        goes(&mut client);
        let is_seen = || server.status().contains("\"client-gone\": 1,").then_some(());
        wait::until(wait::DEADLINE, is_seen)
            .unwrap_or_else(|| panic!("{name}: {}", server.status()));
        let came = client.bytes_to_the_end();
        assert!(came < LARGE_BYTES / 2, "{name}: {came} bytes");
    }
}
