//! Clients that try again, against servers that refuse, break off, or say nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use crate::common::{OK, answer_all, options, rate, request, run, server};
use flyball_load::engine::Retries;
use flyball_load::job::Load;
use flyball_load::observe::{End, Kind, Report, Tries, json, text};
use flyball_sys::net;
use flyball_sys::netstat::Drops;
use flyball_testkit::free_address;
use flyball_testkit::wait::{DEADLINE, until};

const BUSY: &[u8] = b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy";

/// Ten clients in a tenth of a second, each with one request, that try so many times more.
fn ten(address: SocketAddr, most: u32, timeout: Duration) -> Report {
    let mut options = options(address, rate("100"), 100);
    options.timeout = timeout;
    options.retries = Retries { most, backoff: Duration::from_millis(2) };
    run(&options)
}

/// First tries, further ones, and those that were given up.
fn tries(tries: &Tries) -> (u64, u64, u64) {
    (tries.all() - tries.again, tries.again, tries.given_up)
}

/// A server that refuses so many requests, and answers all others.
fn refuses(many: usize, answer: &'static [u8]) -> SocketAddr {
    let left = AtomicUsize::new(many);
    server(move |_, mut stream| {
        let refuse = || left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        while request(&mut stream).is_some() {
            let answer = if refuse() { answer } else { OK };
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    })
}

#[test]
fn who_is_refused_tries_again_and_is_answered() {
    let report = ten(refuses(7, BUSY), 9, DEADLINE);
    let tally = &report.tally;
    assert_eq!(tries(&tally.tries), (10, 7, 0), "{:?}", tally.tries.ends);
    assert_eq!((tally.intended, tally.good, tally.error_count()), (10, 10, 0));
    // A client may be refused more than once, and is answered once.
    assert!((1..=7).contains(&tally.tries.good_again), "{}", tally.tries.good_again);
    assert_eq!((tally.status[503], tally.status[200], tally.replies), (7, 10, 17));
    assert_eq!((tally.latency.count(), tally.tries.admitted.count()), (10, 10), "each once");
    let report = json(&report);
    assert_eq!(
        (&report["tries"]["first"], &report["tries"]["status_503"]),
        (&10.into(), &7.into())
    );
    assert_eq!(report["tries"]["refused_share"], 7.0 / 17.0);
}

#[test]
fn who_has_no_retry_left_gives_up() {
    let report = ten(refuses(1_000, BUSY), 2, DEADLINE);
    let tally = &report.tally;
    assert_eq!(tries(&tally.tries), (10, 20, 10));
    assert_eq!((tally.good, tally.status[503], tally.latency.count()), (0, 30, 10));
    assert_eq!(tally.tries.admitted.count(), 0);
    let told = text(&report);
    assert!(told.contains("10  first, 20 again, 10 given up"), "{told}");
    assert!(told.contains("100.0%  0.0% timed out"), "{told}");
    // Without retries there is one try of each.
    let report = ten(refuses(1_000, BUSY), 0, DEADLINE);
    assert_eq!(tries(&report.tally.tries), (10, 0, 10));
}

#[test]
fn each_try_has_the_whole_time_and_latency_is_that_of_all() {
    let silent = server(|_, mut stream| drop(stream.read_to_end(&mut Vec::new())));
    let report = ten(silent, 2, Duration::from_millis(60));
    let tally = &report.tally;
    assert_eq!(tries(&tally.tries), (10, 20, 10));
    assert_eq!(tally.tries.count(End::Timeout), 30);
    assert_eq!(tally.errors_of(Kind::FirstByteTimeout), 10, "what was tried again is no error");
    assert_eq!((tally.connections, tally.sent, tally.unanswered), (30, 10, 10));
    // Three times 60 ms, and two waits of at least 1 and 2 ms.
    assert!(tally.latency.min_us() >= 183_000.0, "{}", tally.latency.min_us());
}

#[test]
fn a_late_try_is_good_by_the_time_since_it_was_due() {
    // The first connection is silent, and its client comes again.
    let address = server(|nth, mut stream| match nth {
        0 => drop(stream.read_to_end(&mut Vec::new())),
        _ => answer_all(stream, OK),
    });
    let mut options = options(address, rate("10"), 100);
    options.timeout = Duration::from_millis(900);
    options.retries = Retries { most: 1, backoff: Duration::ZERO };
    let tally = run(&options).tally;
    assert_eq!((tally.good, tally.tries.good_again), (1, 1));
    assert!(tally.latency.min_us() >= 900_000.0, "from when it was due at first");
    assert!(tally.tries.admitted.max_us() < tally.latency.min_us());
}

#[test]
fn what_is_refused_or_cut_is_tried_again() {
    let report = ten(free_address(), 1, DEADLINE);
    assert_eq!(tries(&report.tally.tries), (10, 10, 10));
    assert_eq!(report.tally.tries.count(End::Refused), 20);
    assert_eq!(report.tally.errors_of(Kind::Refused), 10);
    let cuts = server(|nth, mut stream| match nth % 2 {
        0 => drop(request(&mut stream)),
        _ => answer_all(stream, OK),
    });
    let report = ten(cuts, 20, DEADLINE);
    let tally = &report.tally;
    assert_eq!((tally.good, tally.error_count(), tally.tries.given_up), (10, 0, 0));
    assert_eq!(tally.tries.count(End::Cut), tally.tries.again);
    assert!(tally.tries.again > 0);
}

#[test]
fn a_connection_that_is_kept_is_kept_while_its_client_waits() {
    for load in [Load::Requests("50".parse().unwrap(), 1), Load::Connections(1)] {
        let mut options = options(refuses(3, BUSY), load, 200);
        options.retries = Retries { most: 5, backoff: Duration::from_millis(1) };
        let tally = run(&options).tally;
        assert_eq!((tally.connections, tally.reconnects), (1, 0), "{:?}", options.load);
        assert_eq!((tally.tries.count(End::Unavailable), tally.tries.again), (3, 3));
        assert_eq!(tally.good, tally.intended, "{:?}", options.load);
        // The server ends it while the client waits: that is no failure.
        let nth = AtomicUsize::new(0);
        let address = server(move |_, mut stream| {
            while request(&mut stream).is_some() {
                match nth.fetch_add(1, Relaxed) {
                    0 => return drop(stream.write_all(BUSY)),
                    _ => stream.write_all(OK).unwrap_or_default(),
                }
            }
        });
        options.url = format!("http://{address}/");
        options.retries.backoff = Duration::from_millis(40);
        let tally = run(&options).tally;
        assert_eq!((tally.connections, tally.error_count()), (2, 0), "{:?}", options.load);
        assert_eq!(tally.tries.again, 1);
    }
}

#[test]
fn a_client_waits_as_long_as_it_is_asked_to() {
    let asks: &[u8] = b"HTTP/1.1 429 Later\r\nretry-after: 1\r\nContent-Length: 0\r\n\r\n";
    let report = ten(refuses(10, asks), 1, DEADLINE);
    let tally = &report.tally;
    assert_eq!((tally.tries.count(End::TooMany), tally.good), (10, 10));
    assert!(tally.latency.min_us() >= 1_000_000.0, "{}", tally.latency.min_us());
}

#[test]
fn a_session_goes_on_after_a_retry() {
    let mut options = options(refuses(2, BUSY), rate("10"), 100);
    options.requests_per_connection = Some(3);
    options.retries = Retries { most: 2, backoff: Duration::from_millis(1) };
    let tally = run(&options).tally;
    assert_eq!((tally.intended, tally.good, tally.sessions_complete), (3, 3, 1));
    assert_eq!((tally.tries.again, tally.connections), (2, 1));
}

#[test]
fn a_connection_whose_first_packet_was_lost_is_told_apart() {
    let listener = net::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
    net::listen(&listener, 0, &net::ListenOptions::default()).unwrap();
    let address = net::local_address(&listener).unwrap();
    let queued = TcpStream::connect(address).unwrap();
    let before = Drops::read().listen_drops;
    // There is room as soon as the client's first packet was dropped.
    let serving = thread::spawn(move || {
        until(DEADLINE, || (Drops::read().listen_drops > before).then_some(())).expect("a drop");
        let listener = TcpListener::from(listener);
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer_all(stream, OK));
        }
    });
    let mut options = options(address, rate("10"), 100);
    options.timeout = DEADLINE;
    let report = run(&options);
    let tries = &report.tally.tries;
    assert_eq!((report.tally.good, tries.syn_retries), (1, 1));
    assert_eq!((tries.admitted.count(), tries.admitted_at_once.count()), (1, 0));
    assert!(report.tally.connect.min_us() >= 900_000.0);
    assert!(text(&report).contains("1  connections of 0.9 s or more"), "{}", text(&report));
    drop((queued, serving));
}
