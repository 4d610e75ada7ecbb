//! Stopping: what is under way is finished, and nothing else is begun.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use flyball_testkit::{Begun, Client, LARGE_BYTES, Server, Site, free_address, large_at, wait};

use crate::mount::Mount;
use crate::requests::{get, request};

/// Socket buffer of a client whose download is under way for as long as it likes.
const NARROW_BYTES: usize = 128 * 1024;

/// Calls that block return twice a second, for the process to look around; the rest is for a busy
/// machine.
const ALL_TOLD: Duration = Duration::from_secs(3);

/// Clients at each of two addresses that are accepted before an end and have said nothing: fewer
/// than `mp` has processes there.
const ACCEPTED: usize = 4;

/// Clients that come to each of them while the workers stand still: with those, more than `mt` has
/// threads there, so that some are accepted after the end has begun.
const QUEUED: usize = 36;

/// Those whose processes or threads learn of a drain each for itself.
const TOLD_APART: [&str; 4] = ["mp", "mt", "thread-per-connection", "watpipe"];

/// One connection was closed by a drain: waits until it is known wherever another is served.
pub(crate) fn wait_until_all_are_told(mount: &Mount) {
    if TOLD_APART.contains(&mount.architecture()) {
        wait::dawdle(ALL_TOLD);
    }
}

pub(crate) fn a_stopping_server_finishes_what_is_under_way(mount: &Mount) {
    let server = mount.start("workers = 1\n");
    let mut download = server.connect_narrow(NARROW_BYTES);
    download.send(get("/large.bin"));
    assert_eq!(download.response_head().field("Connection"), None);
    large_at(0, &download.take(100_000));
    let mut upload = server.connect();
    upload.send(request("POST", "/digest", &["Content-Length: 5", "Expect: 100-continue"]));
    assert_eq!(upload.response().status(), 100);
    let mut head = server.connect();
    assert_eq!(head.ask(get("/hello.txt")).status(), 200);
    head.send_split("GET /hello.txt HTTP/1.1\r\nHo", [5]);
    let mut idle = server.connect();
    assert_eq!(idle.ask(get("/hello.txt")).status(), 200);

    server.terminate();
    // The idle connection tells when draining has begun.
    idle.expect_closed();
    wait_until_all_are_told(mount);

    head.send("st: a\r\n\r\n");
    let answer = head.response();
    assert_eq!((answer.text(), answer.field("Connection")), ("hello, world\n", Some("close")));
    head.expect_closed();
    upload.send("hello");
    let answer = upload.response();
    assert_eq!(answer.text(), "bytes 5 crc32 3610a686\n");
    assert_eq!(answer.field("Connection"), Some("close"));
    upload.expect_closed();
    large_at(100_000, &download.take(LARGE_BYTES - 100_000));
    download.expect_closed();

    // Who stays after an end is waited for a while.
    drop((download, upload, head));
    let address = server.address();
    let stopped = server.wait();
    assert_eq!((stopped.code, stopped.errors.as_str()), (Some(0), ""));
    assert!(TcpStream::connect(address).is_err(), "somebody still listens");
}

pub(crate) fn a_stopping_server_does_not_wait_for_ever(mount: &Mount) {
    let server = mount.start("workers = 1\ndrain = \"200ms\"\n");
    let mut client = server.connect_narrow(NARROW_BYTES);
    client.send(get("/large.bin"));
    assert_eq!(client.response_head().status(), 200);
    server.terminate();
    let stopped = server.wait();
    assert_eq!(stopped.code, Some(0), "{}", stopped.errors);
    assert!(client.rest_before_cut().len() < LARGE_BYTES, "the deadline was not needed");
}

/// The time to drain of a server that stands still, and for how long it does so.
const DRAIN: Duration = Duration::from_secs(2);
const STANDSTILL: Duration = Duration::from_millis(3_500);

/// Has a server stop, has clients ask while it stands still and its time is not over, and has it go
/// on when that is: the status of each answer. `None` if the time was over before.
fn all_asked_in_time(server: &Server, requests: &[String]) -> Option<Vec<u16>> {
    let mut witness = server.connect();
    assert_eq!(witness.ask(get("/hello.txt")).status(), 200);
    let mut clients: Vec<_> = requests.iter().map(|_| server.connect()).collect();
    for (client, request) in clients.iter_mut().zip(requests) {
        // A connection that has asked once is known, and a head that has begun is under way.
        assert_eq!(client.ask(get("/hello.txt")).status(), 200);
        client.send_split(&request[..20], [5]);
    }
    let start = Instant::now();
    server.terminate();
    witness.expect_closed();
    let held = server.hold();
    for (client, request) in clients.iter_mut().zip(requests) {
        client.send(&request[20..]);
    }
    if start.elapsed() >= DRAIN {
        return None;
    }
    wait::dawdle(STANDSTILL);
    drop(held);
    // 0 where there is none.
    let answer = |client: &mut Client| client.try_response().map_or(0, |answer| answer.status());
    Some(clients.iter_mut().map(answer).collect())
}

/// What needs the disk takes a ring several turns, and a listing a thread beside it.
pub(crate) fn what_came_before_the_end_of_drain_is_answered_after_a_standstill(mount: &Mount) {
    let listing = "GET / HTTP/1.1\r\nHost: list.test\r\n\r\n";
    let requests = [get("/hello.txt"), get("/empty.txt"), get("/missing"), listing.to_owned()];
    let settings = format!("workers = 1\ndrain = \"{}s\"\n", DRAIN.as_secs());
    // On a busy machine time may be over before the server stands still.
    let answers =
        wait::until(wait::DEADLINE, || all_asked_in_time(&mount.start(&settings), &requests));
    assert_eq!(answers.expect("it stands still in time"), [200, 200, 404, 200]);
}

/// A server at two addresses, and clients that have begun when its worker is told of an end: whole
/// hellos, or requests in the clear, and halves of them, which no process has read yet. The status
/// that each gets when it goes on, 0 where the connection ends: as many as there were clients.
fn all_that_has_begun(mount: &Mount, more: &str, end: fn(&Server)) -> (Server, Vec<u16>) {
    let scheme = if mount.is_secure() { "https://" } else { "" };
    let (other, root) = (free_address(), Site::shared().path("").display().to_string());
    let tables =
        format!("[[listener]]\naddress = \"{scheme}{other}\"\n[[site]]\nroot = \"{root}\"\n");
    let settings = format!("workers = 1\ntimeout.handshake = \"5min\"\n{more}");
    let server = mount.start_with_sites(&settings, &tables);
    let addresses = [server.address(), other];
    let connect = |count| (0..count).flat_map(|_| addresses).map(Client::connect);
    let mut clients: Vec<Client> = connect(ACCEPTED).collect();
    for witness in addresses {
        // Who comes behind them has an answer.
        let asked = Client::connect(witness).begin(mount.is_secure(), get("/hello.txt"), false);
        assert_eq!(asked.finish().map(|answer| answer.status()), Some(200));
    }
    let held = server.hold_workers();
    clients.extend(connect(QUEUED));
    let begin = |(number, client): (usize, Client)| {
        client.begin(mount.is_secure(), get("/hello.txt"), number / 2 % 2 == 1)
    };
    let begun: Vec<Begun> = clients.into_iter().enumerate().map(begin).collect();
    end(&server);
    held.wait_until_told();
    drop(held);
    // In the order in which they are accepted: `mp` serves so many at a time.
    let status = |begun: Begun| begun.finish().map_or(0, |answer| answer.status());
    (server, begun.into_iter().map(status).collect())
}

/// How many of them got another answer than theirs.
fn cut(statuses: &[u16]) -> usize {
    assert_eq!(statuses.len(), 2 * (ACCEPTED + QUEUED));
    statuses.iter().filter(|status| **status != 200).count()
}

pub(crate) fn what_has_begun_when_the_server_stops_is_finished(mount: &Mount) {
    let (server, statuses) = all_that_has_begun(mount, "", Server::terminate);
    assert_eq!(cut(&statuses), 0, "{statuses:?}");
    assert_eq!(server.wait().code, Some(0));
}

/// Where no new connection is read before it is told to be readable.
pub(crate) fn what_has_begun_unread_when_the_server_stops_is_finished(mount: &Mount) {
    let more = "accept.eager-read = false\n";
    let (server, statuses) = all_that_has_begun(mount, more, Server::terminate);
    assert_eq!(cut(&statuses), 0, "{statuses:?}");
    assert_eq!(server.wait().code, Some(0));
}

pub(crate) fn what_has_begun_at_a_reload_is_finished(mount: &Mount) {
    let (server, statuses) = all_that_has_begun(mount, "", Server::begin_reload);
    assert_eq!(cut(&statuses), 0, "{statuses:?}");
    server.assert_sound();
}
