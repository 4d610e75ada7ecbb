//! Every state has its deadline, and none is earlier than it says.

use std::sync::Arc;

use flyball_http::h1::Conn;
use flyball_http::h1::state::State;
use flyball_http::out::Out;
use flyball_http::{CloseReason, Head, Limits, Now};

use crate::script::{Act, End, drive, kept, limits, play, play_with, send};

const GET: &str = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

/// Plays `acts` and then `ms` of waiting: nothing must happen one millisecond before.
fn after(acts: &[Act], ms: u64) -> End {
    let before = play(&[acts, &[Act::Wait(ms - 1)]].concat());
    assert_eq!(before.closed, None, "{acts:?}");
    assert_eq!(before.wire, play(acts).wire, "{acts:?}");
    play(&[acts, &[Act::Wait(ms - 1), Act::Wait(1)]].concat())
}

#[test]
fn a_connection_on_which_nothing_comes_is_closed_in_silence() {
    let end = after(&[], 1_000);
    assert_eq!((end.wire.as_str(), end.closed), ("", Some(CloseReason::HeadTimeout)));
    let end = after(&[send(GET)], 5_000);
    assert_eq!((end.wire, end.closed), (kept("/a"), Some(CloseReason::IdleTimeout)));
}

#[test]
fn a_head_has_its_time_from_its_first_byte_however_it_trickles() {
    let end = after(&[send("G"), Act::Wait(500), send("ET")], 500);
    assert!(end.wire.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{}", end.wire);
    assert_eq!(end.state, State::Lingering);
    let end = play(&[send(GET), Act::Wait(4_999), send("GET"), Act::Wait(999), send(&GET[3..])]);
    assert_eq!((end.wire, end.state), (kept("/a") + &kept("/a"), State::Idle));
}

#[test]
fn work_behind_an_answer_has_its_time() {
    for request in [
        "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
    ] {
        let end = after(&[send(request)], 3_000);
        assert!(end.wire.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{}", end.wire);
        let end = play(&[send(request), Act::Wait(3_000), Act::Finish]);
        assert_eq!(end.closed, Some(CloseReason::AnswerTimeout));
    }
}

#[test]
fn a_refusal_of_a_head_request_has_no_content() {
    let end = play(&[send("HEAD /wait HTTP/1.1\r\nHost: a\r\n\r\n"), Act::Wait(3_000)]);
    assert!(end.wire.starts_with("HTTP/1.1 503 "), "{}", end.wire);
    assert!(end.wire.ends_with("\r\n\r\n"), "{}", end.wire);
}

#[test]
fn a_body_must_keep_its_rate_in_every_window() {
    let head = |path: &str| {
        send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"))
    };
    let chunk = || send("8\r\n12345678\r\n");
    for (path, status) in [("/upload/9", "HTTP/1.1 408 "), ("/a", "HTTP/1.1 200 ")] {
        let enough = [head(path), chunk(), Act::Wait(1_000), chunk(), Act::Wait(1_000)];
        let stalled = after(&enough, 1_000);
        assert!(stalled.wire.starts_with(status), "{}", stalled.wire);
        let end = play(&[&enough[..], &[Act::Wait(1_000), Act::Finish]].concat());
        assert_eq!(end.closed, Some(CloseReason::BodyTimeout), "{path}");
    }
    let end = after(&[head("/upload/9"), send("7\r\n1234567\r\n")], 1_000);
    assert!(end.wire.starts_with("HTTP/1.1 408 "), "{}", end.wire);
}

#[test]
fn a_body_whose_taker_is_slow_is_not_the_clients_fault() {
    let head = "POST /hold/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n";
    let end = after(&[send([head, "abc"].concat())], 3_000);
    assert!(end.wire.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{}", end.wire);
    // The time that the taker took is not counted, and the client has all of its own.
    let mut driver = drive(&limits(), &[send([head, "abc"].concat())], usize::MAX);
    driver.wait(2_900);
    driver.take_held(3);
    driver.wait(999);
    assert_eq!((driver.state(), driver.text().as_str()), (State::AskedBody, ""));
    driver.wait(1);
    assert!(driver.text().starts_with("HTTP/1.1 408 "), "{}", driver.text());
}

#[test]
fn a_client_that_takes_its_answer_must_keep_the_rate() {
    let file = send("GET /file/60000 HTTP/1.1\r\nHost: a\r\n\r\n");
    let end = play(&[Act::Room(0), file.clone(), Act::Wait(1_000)]);
    assert_eq!(end.closed, Some(CloseReason::SendTimeout));
    let end = play(&[Act::Room(99), file.clone(), Act::Wait(1_000)]);
    assert_eq!(end.closed, Some(CloseReason::SendTimeout));
    let room = [Act::Room(100), Act::Wait(1_000)];
    let mut acts = vec![Act::Room(0), file];
    (0..20).for_each(|_| acts.extend(room.clone()));
    let end = play(&acts);
    assert_eq!((end.closed, end.wire.chars().count()), (None, 2_000));
}

#[test]
fn only_what_left_the_socket_counts_as_taken() {
    let file = send("GET /file/60000 HTTP/1.1\r\nHost: a\r\n\r\n");
    // All of it went into the socket's buffer and stays there.
    let stuck = [Act::Room(50_000), file.clone(), Act::InSocket(49_901), Act::Wait(1_000)];
    assert_eq!(play(&stuck).closed, Some(CloseReason::SendTimeout));
    // What went in earlier and leaves now counts now.
    let mut acts = vec![Act::Room(50_000), file];
    for left in [49_900, 49_800, 49_700] {
        acts.extend([Act::InSocket(left), Act::Wait(1_000)]);
    }
    assert_eq!(play(&acts).closed, None);
    acts.extend([Act::InSocket(49_601), Act::Wait(1_000)]);
    assert_eq!(play(&acts).closed, Some(CloseReason::SendTimeout));
}

#[test]
fn a_client_that_pauses_is_told_to_lag_and_given_up_when_its_time_is_over() {
    let limits = Limits { keeps_slow: true, send_ms: 3_000, ..limits() };
    let file = send("GET /file/60000 HTTP/1.1\r\nHost: a\r\n\r\n");
    let begun = [Act::Room(50_000), file, Act::InSocket(49_000)];
    let pauses = |acts: &[Act]| drive(&limits, &[&begun[..], acts].concat(), usize::MAX);
    let wait = || Act::Wait(1_000);
    // Much was taken in the first window, and nothing after it.
    let driver = pauses(&[wait()]);
    assert_eq!((driver.closed, driver.conn.lags_since()), (None, None));
    let driver = pauses(&[wait(), wait(), wait()]);
    assert_eq!((driver.closed, driver.conn.lags_since()), (None, Some(1_000)));
    // A byte shows that it is there, and does not make it fast.
    let slowly = [wait(), wait(), wait(), Act::InSocket(48_999), wait(), wait(), wait()];
    let driver = pauses(&slowly);
    assert_eq!((driver.closed, driver.conn.lags_since()), (None, Some(1_000)));
    let again = [&slowly[..], &[Act::InSocket(40_000), wait()]].concat();
    assert_eq!(pauses(&again).conn.lags_since(), None);
    let driver = pauses(&[wait(), wait(), wait(), wait()]);
    assert_eq!(driver.closed, Some(CloseReason::SendTimeout));
}

#[test]
fn a_head_that_waits_behind_a_slow_answer_is_not_late() {
    // Half of the second request is in memory; the rest cannot be read while an answer is pending.
    let acts = [
        Act::Room(0),
        send(format!("GET /file/400 HTTP/1.1\r\nHost: a\r\n\r\n{}", &GET[..9])),
        Act::Room(200),
        Act::Wait(1_000),
        Act::Room(200),
        Act::Wait(999),
        Act::Room(u64::MAX),
    ];
    let driver = drive(&limits(), &acts, usize::MAX);
    assert_eq!((driver.state(), driver.text()), (State::Head, kept("/file/400")));
    let end = play(&[&acts[..], &[Act::Wait(999), send(&GET[9..])]].concat());
    assert_eq!(end.wire, kept("/file/400") + &kept("/a"));
}

#[test]
fn the_idle_time_begins_when_the_answer_is_sent() {
    let acts = [Act::Room(50), send(GET), Act::Wait(999), Act::Room(u64::MAX), Act::Wait(4_999)];
    let end = play(&acts);
    assert_eq!((end.closed, end.state), (None, State::Idle));
    let end = play(&[&acts[..], &[Act::Wait(1)]].concat());
    assert_eq!(end.closed, Some(CloseReason::IdleTimeout));
}

#[test]
fn the_idle_time_begins_when_the_client_has_its_answer() {
    let limits = Limits { keeps_slow: true, send_ms: 3_000, ..limits() };
    let play = |acts: &[Act]| play_with(&limits, acts);
    let late = [send(GET), Act::InSocket(300), Act::Wait(5_000), Act::Wait(2_000)];
    let end = play(&late);
    assert_eq!((end.state, end.closed), (State::Idle, None), "it has 3 s to take the next byte");
    let taken = [Act::InSocket(200), Act::Wait(1_000), Act::Wait(1_000), Act::Wait(1_000)];
    let more = [&late[..], &taken].concat();
    assert_eq!(play(&more).state, State::Idle, "it took something");
    let end = play(&[&more[..], &[Act::Wait(1_000)]].concat());
    assert_eq!((end.state, end.wire), (State::Lingering, kept("/a")), "it takes nothing");
    let end = play(&[&more[..], &[Act::Wait(1_000), Act::Wait(limits.linger_ms)]].concat());
    assert_eq!(end.closed, Some(CloseReason::SendTimeout));
    let end = play(&[&more[..], &[send(GET), Act::Wait(4_999)]].concat());
    assert_eq!((end.state, end.wire), (State::Idle, kept("/a").repeat(2)), "it asks again");
    let has_all = [&late[..], &[Act::InSocket(0), Act::Wait(1_000), Act::Wait(4_999)]].concat();
    assert_eq!(play(&has_all).state, State::Idle);
    let end = play(&[&has_all[..], &[Act::Wait(1)]].concat());
    assert_eq!((end.state, end.closed), (State::Closed, Some(CloseReason::IdleTimeout)));
}

#[test]
fn a_client_that_takes_its_answer_from_the_socket_makes_no_room() {
    let limits = Limits { keeps_slow: true, ..limits() };
    let asked = |bytes: usize, in_socket: u64| {
        let get = format!("GET /file/{bytes} HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut driver = drive(&limits, &[send(&get), Act::InSocket(in_socket)], usize::MAX);
        driver.wait(10);
        let since_ms = driver.conn.idle_since();
        driver.conn.make_room();
        driver.wait(10);
        (driver, since_ms)
    };
    assert_eq!(asked(20_000, 0).0.closed, Some(CloseReason::MadeRoom), "it has all");
    assert_eq!(asked(400, 300).0.closed, Some(CloseReason::MadeRoom), "all has left the socket");
    let (mut driver, since_ms) = asked(20_000, 300);
    assert_eq!((driver.closed, driver.state()), (None, State::Idle));
    assert!(driver.conn.idle_since() > since_ms, "it is idle from then on");
    driver.wait(limits.rate_window_ms);
    assert!(driver.conn.lags_since().is_some(), "it has taken nothing in the window");
    driver.conn.make_room();
    driver.wait(10);
    assert_eq!(driver.closed, Some(CloseReason::MadeRoom), "others take what they have");
}

#[test]
fn no_state_waits_for_ever() {
    let stuck: &[&[Act]] = &[
        &[],
        &[send("G")],
        &[send(GET)],
        &[send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")],
        &[send("POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n")],
        &[send("POST /hold/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")],
        &[send("POST /upload/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n")],
        &[send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n")],
        &[send("GET /\r\n\r\n")],
        &[Act::Room(0), send("GET /\r\n\r\n")],
        &[Act::Room(0), send(GET)],
        &[Act::Room(0), send("GET /a HTTP/1.0\r\n\r\n")],
    ];
    let limits = Limits { rate_window_ms: 700, ..limits() };
    for acts in stuck {
        let mut driver = drive(&limits, acts, usize::MAX);
        for _ in 0..100 {
            let deadline = driver.conn.deadline();
            if driver.closed.is_none() {
                assert_ne!(deadline, u64::MAX, "{:?} after {acts:?}", driver.state());
            }
            driver.wait(100);
        }
        assert!(driver.closed.is_some(), "{:?} after {acts:?}", driver.state());
    }
}

/// Deadlines go by the monotonic clock alone.
#[test]
fn a_jump_of_the_clock_of_the_day_moves_no_deadline() {
    let day_ms = 1_000_000_000_000;
    let mut now = Now::new(0, day_ms);
    let mut conn = Conn::new(Arc::new(limits()), &now);
    let (mut head, mut out) = (Head::default(), Out::<u8>::new());
    conn.recv(b"GET", &mut head, &mut out, &now);
    let deadline = conn.deadline();
    for jumped_ms in [0, day_ms / 2, day_ms * 2] {
        now.set(now.ms() + 1, jumped_ms);
        conn.expired(0, &mut out, &now);
        assert_eq!((conn.deadline(), conn.state()), (deadline, State::Head), "to {jumped_ms}");
    }
    now.set(deadline, 0);
    conn.expired(0, &mut out, &now);
    assert_eq!(conn.state(), State::Parting);
}
