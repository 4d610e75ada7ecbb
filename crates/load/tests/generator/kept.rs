//! Requests at a rate on connections that are kept: all of them in turn, and no wait left out.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::common::{OK, answer_all, options, request, run, server};
use flyball_load::job::{Job, Load, Options};
use flyball_load::observe::{Kind, Report, text};
use flyball_testkit::wait::{DEADLINE, assert_within, dawdle};

fn kept(address: SocketAddr, rate: &str, connections: u32, duration_ms: u64) -> Options {
    let rate = rate.parse().expect("a rate");
    options(address, Load::Requests(rate, connections), duration_ms)
}

/// When the server of the next test stands still, in seconds of the run, and how long that is.
const STOPS_S: f64 = 2.0;
const GOES_ON_S: f64 = 4.0;
const RUN_S: f64 = 6.0;

/// Requests per second there.
const RATE: f64 = 200.0;

/// Answers at once, but for those two seconds after its first request, in which it does nothing.
fn server_that_stops() -> SocketAddr {
    let begin = OnceLock::new();
    server(move |_, mut stream: TcpStream| {
        while request(&mut stream).is_some() {
            let at_s = begin.get_or_init(Instant::now).elapsed().as_secs_f64();
            if (STOPS_S..GOES_ON_S).contains(&at_s) {
                dawdle(Duration::from_secs_f64(GOES_ON_S - at_s));
            }
            if stream.write_all(OK).is_err() {
                return;
            }
        }
    })
}

/// The latency in seconds that so many per cent of all requests do not exceed: who is due while the
/// server stands still has its answer when it goes on, and the others at once.
fn computed_s(percentile: f64) -> f64 {
    let count = (RATE * RUN_S) as usize;
    let due_s = (0..count).map(|nth| nth as f64 / RATE);
    let mut all: Vec<f64> = due_s
        .map(|at| if (STOPS_S..GOES_ON_S).contains(&at) { GOES_ON_S - at } else { 0.0 })
        .collect();
    all.sort_by(f64::total_cmp);
    all[((count as f64 * percentile / 100.0).ceil() as usize).clamp(1, count) - 1]
}

/// The percentiles that are not what was computed: a busy machine adds to them.
fn wrong(report: &Report) -> Vec<String> {
    let mut wrong = Vec::new();
    for percentile in [50.0, 75.0, 90.0, 95.0, 99.0, 100.0] {
        let found_s = report.tally.latency.percentile_us(percentile) / 1e6;
        let expected_s = computed_s(percentile);
        if !(-0.01..0.06).contains(&(found_s - expected_s)) {
            wrong.push(format!("p{percentile} is {found_s} s, not {expected_s}"));
        }
    }
    wrong
}

#[test]
fn a_server_that_stops_for_two_of_six_seconds_has_the_tail_that_follows_from_it() {
    assert!(computed_s(50.0) < 1e-9 && (computed_s(75.0) - 0.5).abs() < 0.01);
    let mut all = Vec::new();
    for _ in 0..4 {
        let options = kept(server_that_stops(), "200", 8, 6_000);
        let report = run(&options);
        let tally = &report.tally;
        assert_eq!((tally.intended, tally.replies), (1_200, 1_200), "{:?}", tally.errors);
        assert_eq!((tally.connections, tally.open_max), (8, 8));
        assert!(tally.backlog_max >= 300, "{} waited", tally.backlog_max);
        // What is counted from when it was sent leaves all but eight out.
        assert!(tally.latency_actual.percentile_us(99.0) < 1_000_000.0);
        let wrong = wrong(&report);
        if wrong.is_empty() {
            return;
        }
        all.push(wrong);
    }
    panic!("{all:?}");
}

#[test]
fn every_connection_is_opened_and_used_in_turn() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::clone(&seen);
    let serve = move |number, mut stream: TcpStream| {
        while request(&mut stream).is_some() && stream.write_all(OK).is_ok() {
            asked.lock().unwrap().push(number);
        }
    };
    let mut options = kept(server(serve), "100", 3, 600);
    options.threads = 2;
    let report = run(&options);
    assert_eq!((report.tally.replies, report.tally.connections), (60, 3));
    assert_eq!(report.tally.error_count(), 0, "{:?}", report.tally.errors);
    let seen = seen.lock().unwrap();
    let counts = [0, 1, 2].map(|n| seen.iter().filter(|number| **number == n).count());
    assert!(counts.iter().all(|count| *count >= 5), "{counts:?}");
    let told = text(&report);
    assert!(told.starts_with("100 requests/s (deterministic) on 3 connections of http"), "{told}");
    assert!(told.contains("  latency, as intended ") && told.contains("  intended "), "{told}");
}

#[test]
fn who_finds_no_connection_in_its_time_is_given_up_at_the_time_that_it_took() {
    let address = server(|_, mut stream| while request(&mut stream).is_some() {});
    let mut options = kept(address, "100", 2, 500);
    options.timeout = Duration::from_millis(300);
    let begin = Instant::now();
    let tally = run(&options).tally;
    assert_within(begin, DEADLINE, "it ends");
    assert_eq!((tally.replies, tally.intended, tally.unanswered), (0, 50, 50));
    assert_eq!((tally.error_count(), tally.latency.count()), (50, 50), "{:?}", tally.errors);
    assert!(tally.errors_of(Kind::NoConnection) >= 30, "{:?}", tally.errors);
    assert!(tally.latency.min_us() >= 300_000.0 * 0.999, "{}", tally.latency.min_us());
}

#[test]
fn a_connection_that_the_server_ends_is_opened_again_for_the_next_request() {
    let last = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";
    let told = server(move |_, mut stream| {
        request(&mut stream);
        stream.write_all(last).unwrap();
    });
    let untold = server(|_, mut stream| {
        request(&mut stream);
        stream.write_all(OK).unwrap();
    });
    for address in [told, untold] {
        let tally = run(&kept(address, "50", 2, 400)).tally;
        assert_eq!((tally.replies, tally.error_count()), (20, 0), "{:?}", tally.errors);
        assert_eq!(tally.connections, 20);
    }
    let mut options = kept(server(|_, stream| answer_all(stream, OK)), "50", 1, 400);
    options.requests_per_connection = Some(5);
    let tally = run(&options).tally;
    assert_eq!((tally.replies, tally.connections), (20, 4), "{:?}", tally.errors);
}

#[test]
fn an_answer_without_a_request_ends_its_connection_and_nothing_else() {
    let address = server(|number, mut stream| {
        if request(&mut stream).is_some() {
            let answers = if number == 0 { 2 } else { 1 };
            stream.write_all(OK).unwrap();
            dawdle(Duration::from_millis(30));
            (1..answers).for_each(|_| stream.write_all(OK).unwrap());
        }
        answer_all(stream, OK);
    });
    let tally = run(&kept(address, "10", 2, 1_000)).tally;
    assert_eq!((tally.replies, tally.connections), (10, 3), "{:?}", tally.errors);
    assert_eq!(tally.errors_of(Kind::Malformed), 1, "{:?}", tally.errors);
}

#[test]
fn each_thread_needs_a_connection_of_its_own() {
    let mut options = kept("127.0.0.1:9".parse().unwrap(), "100", 3, 100);
    options.threads = 4;
    let why = Job::prepare(&options).unwrap_err();
    assert!(why.contains("4 threads share 3 connections"), "{why}");
}

#[test]
fn where_the_server_sets_the_pace_nothing_is_called_intended() {
    let mut options = options(server(|_, s| answer_all(s, OK)), Load::Connections(2), 60_000);
    options.requests = Some(20);
    let told = text(&run(&options));
    assert!(!told.contains("intended") && !told.contains("as begun"), "{told}");
    assert!(told.contains("\n  latency    ") && told.contains("\n  sent "), "{told}");
}
