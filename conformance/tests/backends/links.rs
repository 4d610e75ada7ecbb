//! As many links to a server as may be in use, those who wait for one, and a server that cannot be
//! reached.

use crate::common_programs::on_every_architecture;
use crate::fastcgi::{Front, Link, answer, get, start, value};
use flyball_testkit::wait;

const ONE: &str = "[[site.fastcgi]]\npath = \"/one\"\nSOCKET\nlinks = 1\nqueue = 1\n\
                   [[site.fastcgi]]\npath = \"/short\"\nPLACE\nlinks = 1\n\
                   queue-timeout = \"50ms\"\n\
                   [[site.fastcgi]]\npath = \"/early\"\nSOCKET\nhold = \"off\"\n\
                   idle-links = 1\n\
                   [[site.fastcgi]]\npath = \"/kept\"\nSOCKET\nlinks = 1\nidle-links = 1\n";

/// Waits until so many requests were given to backends since the server began.
#[track_caller]
pub(crate) fn expect_given(front: &Front, count: u64) {
    let given = || (front.counted("backend_requests") == count).then_some(());
    assert!(wait::until(wait::DEADLINE, given).is_some(), "{}", front.server.status());
}

/// A request without a body, which says whether the link is kept: its parameters.
fn request(link: &mut Link, keep: u8) -> Vec<(String, String)> {
    let params = link.params(keep);
    assert_eq!(link.stream(5), b"");
    params
}

pub(crate) fn nobody_connects(front: &Front) {
    let more = front.listener.accept().map(|_| ()).map_err(|error| error.kind());
    assert_eq!(more, Err(std::io::ErrorKind::WouldBlock), "it came on another link");
}

fn a_request_waits_until_a_link_is_free_and_no_longer_than_it_may(architecture: &str) {
    // Each process of `mp` has one connection, and so one link.
    let Some(front) = start(architecture, ONE).filter(|_| architecture != "mp") else { return };
    let [mut first, mut second, mut third] = [(); 3].map(|()| front.server.connect());
    first.send(get("/one/a"));
    let mut link = front.accept();
    request(&mut link, 0);
    second.send(get("/one/b"));
    expect_given(&front, 2);
    // As many wait as may.
    third.send(get("/one/c"));
    assert_eq!(answer(&mut third).0.status(), 503);
    front.expect_logged("in use as may be");
    nobody_connects(&front);
    link.answer("A: b\r\n\r\nfirst");
    assert_eq!(answer(&mut first).1, "first");
    let mut link = front.accept();
    assert_eq!(value(&request(&mut link, 0), "PATH_INFO"), Some("/b"));
    // One that leaves while it waits has no turn.
    first.send(get("/one/d"));
    expect_given(&front, 4);
    first.reset();
    let left = || (front.counted("backend_cancels") == 1).then_some(());
    assert!(wait::until(wait::DEADLINE, left).is_some(), "{}", front.server.status());
    third.send("POST /one/e HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    expect_given(&front, 5);
    link.answer("A: b\r\n\r\nsecond");
    assert_eq!(answer(&mut second).1, "second");
    let mut link = front.accept();
    assert_eq!(value(&link.params(0), "PATH_INFO"), Some("/e"));
    assert_eq!(link.stream(5), b"hi");
    link.answer("A: b\r\n\r\nthird");
    assert_eq!(answer(&mut third).1, "third");
    // One that has waited for too long.
    second.send(get("/short/a"));
    let mut link = front.accept();
    request(&mut link, 0);
    third.send(get("/short/b"));
    assert_eq!(answer(&mut third).0.status(), 503);
    front.expect_logged("no link was free for");
    link.answer("A: b\r\n\r\n1");
    assert_eq!(answer(&mut second).1, "1");
    nobody_connects(&front);
}

fn a_link_that_is_kept_goes_to_who_has_waited_for_it(architecture: &str) {
    let Some(front) = start(architecture, ONE).filter(|_| architecture != "mp") else { return };
    let [mut first, mut second] = [(); 2].map(|()| front.server.connect());
    first.send(get("/kept/a"));
    let mut link = front.accept();
    request(&mut link, 1);
    second.send(get("/kept/b"));
    expect_given(&front, 2);
    link.answer("A: b\r\n\r\nfirst");
    assert_eq!(answer(&mut first).1, "first");
    assert_eq!(value(&request(&mut link, 1), "PATH_INFO"), Some("/b"));
    link.answer("A: b\r\n\r\nsecond");
    assert_eq!(answer(&mut second).1, "second");
    nobody_connects(&front);
}

/// The responder would take the rest of the body for the next request.
fn a_link_whose_request_ended_before_its_body_is_not_kept(architecture: &str) {
    let Some(front) = start(architecture, ONE) else { return };
    let mut client = front.server.connect();
    client.send("POST /early/a HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhi");
    let mut link = front.accept();
    link.params(1);
    assert_eq!(link.record(), (5, b"hi".to_vec()));
    link.answer("A: b\r\nContent-Length: 5\r\n\r\nearly");
    assert_eq!(answer(&mut client).1, "early");
    link.expect_end();
}

/// The only link is another's until the body is whole.
fn a_slow_body_takes_no_link_from_others(architecture: &str) {
    let Some(front) = start(architecture, ONE).filter(|_| architecture != "mp") else { return };
    let [mut slow, mut honest] = [(); 2].map(|()| front.server.connect());
    slow.send("POST /one/a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nhi");
    expect_given(&front, 1);
    nobody_connects(&front);
    honest.send(get("/one/b"));
    let mut link = front.accept();
    assert_eq!(value(&request(&mut link, 0), "PATH_INFO"), Some("/b"));
    link.answer("A: b\r\n\r\nhonest");
    assert_eq!(answer(&mut honest).1, "honest");
    slow.send("gh");
    let mut link = front.accept();
    assert_eq!(value(&link.params(0), "CONTENT_LENGTH"), Some("4"));
    assert_eq!(link.stream(5), b"high");
    link.answer("A: b\r\n\r\nslow");
    assert_eq!(answer(&mut slow).1, "slow");
}

/// Each holds a process of its server.
fn a_link_at_rest_ends_with_a_reload_and_one_in_use_does_not(architecture: &str) {
    let Some(front) = start(architecture, ONE) else { return };
    let [mut first, mut second] = [(); 2].map(|()| front.server.connect());
    first.send(get("/kept/a"));
    let mut rests = front.accept();
    request(&mut rests, 1);
    second.send(get("/one/b"));
    let mut used = front.accept();
    request(&mut used, 0);
    rests.answer("A: b\r\n\r\nfirst");
    assert_eq!(answer(&mut first).1, "first");
    front.server.reload();
    rests.expect_end();
    used.answer("A: b\r\n\r\nsecond");
    assert_eq!(answer(&mut second).1, "second");
}

/// What it says was not asked for, and would be taken for the next answer.
fn a_link_at_rest_that_says_something_is_not_used_again(architecture: &str) {
    let Some(front) = start(architecture, ONE) else { return };
    let mut client = front.server.connect();
    client.send(get("/kept/a"));
    let mut link = front.accept();
    request(&mut link, 1);
    link.answer("A: b\r\n\r\nfirst");
    assert_eq!(answer(&mut client).1, "first");
    link.say(b"A: c\r\n\r\nunasked");
    client.send(get("/kept/b"));
    let mut fresh = front.accept();
    assert_eq!(value(&request(&mut fresh, 1), "PATH_INFO"), Some("/b"));
    link.expect_end();
    fresh.answer("A: b\r\n\r\nsecond");
    assert_eq!(answer(&mut client).1, "second");
}

on_every_architecture! {
    [
        a_link_at_rest_ends_with_a_reload_and_one_in_use_does_not,
        a_link_at_rest_that_says_something_is_not_used_again,
        a_request_waits_until_a_link_is_free_and_no_longer_than_it_may,
        a_slow_body_takes_no_link_from_others,
        a_link_whose_request_ended_before_its_body_is_not_kept,
        a_link_that_is_kept_goes_to_who_has_waited_for_it,
    ]
}
