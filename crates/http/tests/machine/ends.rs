//! The client leaves, the server drains, the socket fails: in every state.

use flyball_http::CloseReason;
use flyball_http::h1::state::State;

use crate::script::{Act, drive, kept, last, limits, play, send};

const GET: &str = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
const WAIT: &str = "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n";
const SLOW: &str = "GET /slow/9/9 HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n";
const UPLOAD: &str = "POST /upload/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n";
const FAILING: &str = "GET /failing/40/9 HTTP/1.0\r\n\r\n";
const ECHO: &str = "POST /echo/0/0 HTTP/1.0\r\nContent-Length: 3\r\n\r\n";

/// What leads to each state.
fn ways() -> Vec<(State, Vec<Act>)> {
    let old = "GET /a HTTP/1.0\r\n\r\n";
    vec![
        (State::Idle, vec![]),
        (State::Head, vec![send("G")]),
        (State::Asked, vec![send(WAIT)]),
        (State::AskedBody, vec![send(UPLOAD)]),
        (State::AnsweredBody, vec![send(POST)]),
        (State::Streaming, vec![send(SLOW)]),
        (State::Exchanging, vec![send(ECHO)]),
        (State::Closing, vec![Act::Room(0), send(old)]),
        (State::Parting, vec![Act::Room(0), send("GET\r\n\r\n")]),
        (State::Lingering, vec![send("GET\r\n\r\n")]),
        (State::Breaking, vec![send(FAILING)]),
        (State::Closed, vec![send(old)]),
    ]
}

#[test]
fn every_state_is_reached() {
    for (state, acts) in ways() {
        assert_eq!(drive(&limits(), &acts, usize::MAX).state(), state);
    }
    assert_eq!(ways().len(), State::ALL.len());
}

#[test]
fn a_client_that_leaves_ends_the_connection_in_every_state() {
    for (state, acts) in ways() {
        let rest = [Act::HangUp, Act::Room(u64::MAX), Act::Finish];
        let mut acts = [&acts[..], &rest].concat();
        if matches!(state, State::Asked | State::Streaming) {
            acts.push(Act::Release);
        }
        if state == State::Breaking {
            acts.push(Act::Wait(1));
        }
        let end = play(&acts);
        let reason = match state {
            State::Idle => CloseReason::ClientDone,
            State::Asked | State::Streaming => CloseReason::ClientDone,
            State::Head | State::AskedBody | State::AnsweredBody | State::Exchanging => {
                CloseReason::ClientGone
            }
            State::Parting | State::Lingering => CloseReason::Refused,
            State::Closing | State::Closed => CloseReason::Requested,
            State::Breaking => CloseReason::SourceFailed,
        };
        assert_eq!(end.closed, Some(reason), "{state:?}");
        // Whatever was answered before stays answered, and nothing is cut off.
        let answers = end.wire.matches("\r\nServer: ").count();
        let none = matches!(state, State::Idle | State::Head | State::AskedBody);
        assert_eq!(answers, usize::from(!none), "{state:?}: {}", end.wire);
    }
}

#[test]
fn a_client_that_closes_its_side_after_its_request_gets_the_answer() {
    let end = play(&[send(GET), send(WAIT), Act::Finish, Act::Release]);
    assert_eq!(end.wire, kept("/a") + &kept("/wait"));
    assert_eq!(end.closed, Some(CloseReason::ClientDone));
    let end = play(&[send(WAIT), Act::HangUp, Act::Release, Act::HangUp]);
    assert_eq!((end.wire, end.closed), (kept("/wait"), Some(CloseReason::ClientDone)));
}

#[test]
fn answers_that_are_owed_are_sent_although_the_client_closed_its_side() {
    for (rest, reason) in [
        ("", CloseReason::ClientDone),
        ("GET /b", CloseReason::ClientGone),
        (UPLOAD, CloseReason::ClientGone),
        (POST, CloseReason::ClientGone),
    ] {
        // All of it is in memory when the first answer has to wait.
        let acts = [Act::Room(0), send([GET, rest].concat()), Act::HangUp];
        let waiting = drive(&limits(), &acts, usize::MAX);
        assert_eq!((waiting.text().as_str(), waiting.closed), ("", None), "{rest:?}");
        let sent = drive(&limits(), &[&acts[..], &[Act::Room(u64::MAX)]].concat(), usize::MAX);
        let answers = if rest == POST { 2 } else { 1 };
        assert_eq!(sent.text(), kept("/a").repeat(answers), "{rest:?}");
        assert_eq!(sent.closed, Some(reason), "{rest:?}");
    }
}

#[test]
fn a_draining_server_closes_what_is_idle_at_once() {
    let end = play(&[Act::Drain]);
    assert_eq!((end.wire.as_str(), end.closed), ("", Some(CloseReason::Draining)));
    let end = play(&[send(GET), Act::Drain]);
    assert_eq!((end.wire, end.closed), (kept("/a"), Some(CloseReason::Draining)));
}

#[test]
fn a_draining_server_gives_the_answer_it_owes_and_closes() {
    let draining = Some(CloseReason::Draining);
    let end = play(&[send("GET"), Act::Drain, send(&GET[3..]), Act::Finish]);
    assert_eq!((end.wire, end.closed), (last("/a"), draining));
    let end = play(&[send(WAIT), Act::Drain, Act::Release, Act::Finish]);
    assert_eq!((end.wire, end.closed), (last("/wait"), draining));
    let end = play(&[send(UPLOAD), Act::Drain, send("abc"), Act::Finish]);
    assert_eq!((end.wire, end.closed), (last("/sum/3/294"), draining));
    // The answer to a request that comes in the meantime says that it is the last.
    let end = play(&[send([WAIT, GET].concat()), Act::Drain, Act::Release, Act::Finish]);
    assert_eq!((end.wire, end.closed), (last("/wait"), draining));
}

#[test]
fn a_draining_server_closes_once_what_is_under_way_is_over() {
    let draining = Some(CloseReason::Draining);
    let end = play(&[Act::Room(10), send(GET), Act::Drain, Act::Room(u64::MAX)]);
    assert_eq!((end.wire, end.closed), (kept("/a"), draining), "an answer was being sent");
    let end = play(&[send(POST), Act::Drain, send("abc")]);
    assert_eq!((end.wire, end.closed), (kept("/a"), draining), "a body was being drained");
}

#[test]
fn a_socket_that_fails_ends_the_connection_in_every_state() {
    for (state, acts) in ways() {
        let sent = play(&acts).wire;
        let end = play(&[&acts[..], &[Act::Abort, Act::Room(u64::MAX), Act::Late]].concat());
        assert_eq!(end.closed, Some(CloseReason::SocketError), "{state:?}");
        assert_eq!(end.wire, sent, "nothing is sent after a failure in {state:?}");
    }
}

#[test]
fn an_end_in_order_waits_for_a_client_that_still_takes_its_answer() {
    let draining = Some(CloseReason::Draining);
    let large = "GET /file/14600 HTTP/1.1\r\nHost: a\r\n\r\n";
    let drive = |acts: &[Act]| drive(&limits(), acts, usize::MAX);
    let late = [send(large), Act::InSocket(10), Act::Drain];
    assert_eq!(drive(&late).state(), State::Idle);
    let end = drive(&[&late[..], &[Act::InSocket(0), Act::Wait(5)]].concat());
    assert_eq!(end.closed, draining, "it has all of it");
    let end = drive(&[&late[..], &[send(GET), Act::Finish]].concat());
    assert_eq!((end.text(), end.closed), (kept("/file/14600") + &last("/a"), draining));
    let over = [&late[..], &[Act::Wait(limits().linger_ms)]].concat();
    assert_eq!(drive(&over).state(), State::Lingering);
    let end = drive(&[&over[..], &[send(GET), Act::Finish]].concat());
    assert_eq!((end.text(), end.closed), (kept("/file/14600"), draining), "it is discarded");
    // So little is on its way.
    let end = play(&[send(GET), Act::InSocket(10), Act::Drain]);
    assert_eq!(end.closed, draining);
    // It has said that it sends no more.
    let large = "GET /file/14600 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert_eq!(drive(&[send(large)]).closed, Some(CloseReason::Requested));
}
