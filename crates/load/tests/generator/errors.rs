//! Every way in which a request can fail, each by a real socket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{OK, answer_all, options, rate, request, run, server};
use flyball_load::fileset::{Kind as Set, Manifest};
use flyball_load::job::{Asking, Job, Load};
use flyball_load::observe::{Kind, Report, csv, json};
use flyball_load::workload::{Catalog, Content, Expected, Message};
use flyball_sys::net;
use flyball_testkit::free_address;
use flyball_testkit::wait::{DEADLINE, dawdle, until};
use serde_json::Value;

/// Time for a request that is not answered.
const SHORT: Duration = Duration::from_millis(300);

/// Ten connections in a tenth of a second, each with one request, and time to be answered.
fn ten(address: SocketAddr, change: impl FnOnce(&mut flyball_load::job::Options)) -> Report {
    let mut options = options(address, rate("100"), 100);
    options.timeout = DEADLINE;
    change(&mut options);
    run(&options)
}

#[track_caller]
fn all_failed_by(kind: Kind, report: &Report) {
    assert_eq!(report.tally.errors_of(kind), 10, "{:?}", report.tally.errors);
    assert_eq!(report.tally.error_count(), 10, "{:?}", report.tally.errors);
    assert_eq!(report.tally.replies, 0);
    assert_eq!(report.tally.unanswered, 10);
}

/// Waits until the client goes, so that nothing is closed before.
fn hold(mut stream: TcpStream) {
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn a_server_that_answers_has_no_errors() {
    let report = ten(server(|_, stream| answer_all(stream, OK)), |_| {});
    assert_eq!(report.tally.error_count(), 0, "{:?}", report.tally.errors);
    assert_eq!((report.tally.intended, report.tally.replies), (10, 10));
    assert_eq!(report.tally.status[200], 10);
    assert_eq!(report.tally.body_bytes, 20);
    assert_eq!(report.tally.connections, 10);
}

#[test]
fn a_port_that_nobody_listens_on_refuses() {
    let free = free_address();
    let report = ten(free, |_| {});
    all_failed_by(Kind::Refused, &report);
    assert_eq!((report.tally.intended, report.tally.sent), (10, 0), "no socket took a request");
}

#[test]
fn a_full_accept_queue_times_connections_out() {
    let listener = net::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
    net::listen(&listener, 0, &net::ListenOptions::default()).unwrap();
    let address = net::local_address(&listener).unwrap();
    // One fits in the queue; it is not accepted.
    let _queued = TcpStream::connect(address).unwrap();
    let report = ten(address, |options| options.timeout = SHORT);
    all_failed_by(Kind::ConnectTimeout, &report);
    assert!(report.listen_drops.is_some_and(|drops| drops >= 10), "{:?}", report.listen_drops);
    assert_eq!(report.tally.latency.count(), 10, "they are in the distribution");
    assert!(report.tally.latency.min_us() >= 299_000.0, "{}", report.tally.latency.min_us());
}

#[test]
fn a_server_that_says_nothing_times_first_bytes_out() {
    let report = ten(server(|_, stream| hold(stream)), |options| options.timeout = SHORT);
    all_failed_by(Kind::FirstByteTimeout, &report);
    let latency = &report.tally.latency;
    assert_eq!(latency.count(), 10);
    let censored = latency.percentile_us(50.0);
    assert!((299_000.0..5_000_000.0).contains(&censored), "at the time-out: {censored}");
}

#[test]
fn connections_and_first_bytes_have_times_of_their_own() {
    let listener = net::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
    net::listen(&listener, 0, &net::ListenOptions::default()).unwrap();
    let full = net::local_address(&listener).unwrap();
    let _queued = TcpStream::connect(full).unwrap();
    let is_short = |report: &Report| {
        let latency = &report.tally.latency;
        let (least, most) = (latency.min_us(), latency.max_us());
        assert!(least >= 99_000.0 && most < 5_000_000.0, "{least} to {most}");
    };
    let own = Duration::from_millis(100);
    let report = ten(full, |options| {
        (options.timeout, options.connect_timeout) = (DEADLINE, Some(own));
    });
    all_failed_by(Kind::ConnectTimeout, &report);
    is_short(&report);
    let report = ten(server(|_, stream| hold(stream)), |options| {
        (options.timeout, options.first_byte_timeout) = (DEADLINE, Some(own));
    });
    all_failed_by(Kind::FirstByteTimeout, &report);
    is_short(&report);
}

#[test]
#[ignore = "full tier"]
fn a_reply_after_the_deadline_is_a_reply_and_not_a_good_one() {
    let serve = |_, mut stream: TcpStream| {
        while request(&mut stream).is_some() {
            dawdle(Duration::from_millis(60));
            stream.write_all(OK).unwrap();
        }
    };
    let address = server(serve);
    for (deadline, is_good) in [(Duration::from_millis(50), false), (DEADLINE, true)] {
        // Kept busy, so that replies are within the window.
        let mut options = options(address, Load::Connections(2), 3_000);
        options.deadline = Some(deadline);
        let tally = run(&options).tally;
        assert!(tally.replies_in_window > 0 && tally.error_count() == 0);
        let good = if is_good { tally.replies_in_window } else { 0 };
        assert_eq!(tally.good_in_window, good, "{deadline:?}");
    }
}

#[test]
fn a_server_that_gives_up_requests_of_a_size_fails_by_its_quality_of_service() {
    let serve = |gives_up: bool| {
        server(move |_, mut stream: TcpStream| {
            while let Some(head) = request(&mut stream) {
                if gives_up && head.starts_with("GET /file50k.html ") {
                    return hold(stream);
                }
                stream.write_all(OK).unwrap();
            }
        })
    };
    let manifest = Manifest { kind: Set::WebStone, parameters: Set::WebStone.defaults() };
    for (gives_up, verdict, class) in
        [(false, "pass", Value::Null), (true, "fail", "below 100 KiB".into())]
    {
        let mut options = options(serve(gives_up), rate("400"), 500);
        options.timeout = if gives_up { SHORT } else { DEADLINE };
        options.asking = Asking::Mix(manifest);
        let qos = &json(&run(&options))["qos"];
        assert_eq!((&qos["verdict"], &qos["class"]), (&verdict.into(), &class), "{qos}");
    }
}

#[test]
fn the_seconds_of_a_run_have_its_time_outs_in_their_percentiles() {
    let report = ten(server(|_, stream| hold(stream)), |options| {
        (options.series, options.timeout) = (true, SHORT);
    });
    let text = csv(&report);
    // All in the first second, unless the machine was held up.
    let rows = text.lines().skip(1).map(|line| line.split(',').collect::<Vec<&str>>());
    let rows: Vec<Vec<&str>> = rows.collect();
    let sum =
        |column: usize| -> u64 { rows.iter().map(|row| row[column].parse::<u64>().unwrap()).sum() };
    assert_eq!([1, 2, 3, 4].map(sum), [10, 0, 0, 10], "{text}");
    let timed_out = rows.iter().find(|row| row[4] != "0").unwrap();
    let p99_us: f64 = timed_out[7].parse().unwrap();
    assert!((299_000.0..5_000_000.0).contains(&p99_us), "{text}");
}

#[test]
fn a_server_that_stops_half_way_times_replies_out() {
    let serve = |_, mut stream: TcpStream| {
        request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").unwrap();
        hold(stream);
    };
    // Time enough for the first half to come.
    let report = ten(server(serve), |options| options.timeout = 10 * SHORT);
    all_failed_by(Kind::ReplyTimeout, &report);
}

#[test]
fn a_connection_that_ends_within_a_body_was_too_short() {
    let serve = |_, mut stream: TcpStream| {
        request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n").unwrap();
    };
    all_failed_by(Kind::ShortBody, &ten(server(serve), |_| {}));
}

#[test]
fn a_body_that_a_reset_cuts_off_was_too_short() {
    let serve = |_, mut stream: TcpStream| {
        request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n").unwrap();
        // Until the client has the head: a reset throws away what it has not read.
        let queue = || net::unacknowledged(&stream);
        assert!(until(DEADLINE, || (queue() == 0).then_some(())).is_some());
        net::reset_on_close(&stream).unwrap();
    };
    all_failed_by(Kind::ShortBody, &ten(server(serve), |_| {}));
}

#[test]
fn an_orderly_end_without_a_reply_is_no_reset() {
    let serve = |_, mut stream: TcpStream| {
        request(&mut stream);
    };
    all_failed_by(Kind::Closed, &ten(server(serve), |_| {}));
}

#[test]
fn a_reset_is_a_reset() {
    let serve = |_, mut stream: TcpStream| {
        request(&mut stream);
        net::reset_on_close(&stream).unwrap();
    };
    all_failed_by(Kind::Reset, &ten(server(serve), |_| {}));
}

#[test]
fn what_is_not_http_is_malformed() {
    all_failed_by(Kind::Malformed, &ten(server(|_, s| answer_all(s, b"SSH-2.0-x\r\n")), |_| {}));
}

#[test]
fn an_answer_that_nobody_asked_for_is_malformed() {
    let two: Vec<u8> = [OK, OK].concat();
    let report = ten(server(move |_, stream| answer_all(stream, &two)), |options| {
        options.requests_per_connection = Some(2);
    });
    assert_eq!(report.tally.errors_of(Kind::Malformed), 10, "{:?}", report.tally.errors);
    assert_eq!(report.tally.replies, 10);
}

#[test]
fn a_network_without_a_way_is_unreachable_or_not_ours() {
    // No route to the addresses of documentation leads out of the source address of the loopback.
    let report = ten("192.0.2.1:9".parse().unwrap(), |options| {
        options.behaviour.sources = vec!["127.0.0.1".parse().unwrap()];
        options.timeout = SHORT;
    });
    assert_eq!(report.tally.error_count(), 10);
    assert_eq!(report.tally.replies, 0);
}

#[test]
fn a_failed_session_never_sends_the_rest() {
    let serve = |_, mut stream: TcpStream| {
        request(&mut stream);
        hold(stream);
    };
    let report = ten(server(serve), |options| {
        (options.requests_per_connection, options.timeout) = (Some(7), SHORT);
    });
    assert_eq!(report.tally.errors_of(Kind::FirstByteTimeout), 10);
    assert_eq!((report.tally.intended, report.tally.sent), (70, 10));
    assert_eq!(report.tally.unanswered, 70);
}

#[test]
fn a_connection_that_ends_between_replies_is_opened_anew_and_nothing_is_lost() {
    let serve = |_, mut stream: TcpStream| {
        for _ in 0..2 {
            request(&mut stream);
            stream.write_all(OK).unwrap();
        }
    };
    let report = ten(server(serve), |options| options.requests_per_connection = Some(5));
    assert_eq!(report.tally.error_count(), 0, "{:?}", report.tally.errors);
    assert_eq!((report.tally.replies, report.tally.sessions_complete), (50, 10));
    assert_eq!(report.tally.connections, 30, "two, two and one reply on each");
}

#[test]
fn a_body_without_a_length_ends_with_its_connection() {
    let serve = |_, mut stream: TcpStream| {
        request(&mut stream);
        stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nuntil the end").unwrap();
    };
    let report = ten(server(serve), |options| options.requests_per_connection = Some(2));
    assert_eq!(report.tally.error_count(), 0, "{:?}", report.tally.errors);
    assert_eq!((report.tally.replies, report.tally.body_bytes), (20, 20 * 13));
}

#[test]
fn every_framing_is_read_however_it_arrives() {
    let answer =
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                   3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: 1\r\n\r\n";
    for step in [1, 7, answer.len()] {
        let serve = move |_, mut stream: TcpStream| {
            stream.set_nodelay(true).unwrap();
            while request(&mut stream).is_some() {
                for piece in answer.chunks(step) {
                    stream.write_all(piece).unwrap();
                }
            }
        };
        let report = ten(server(serve), |options| options.requests_per_connection = Some(2));
        assert_eq!(report.tally.error_count(), 0, "{step}: {:?}", report.tally.errors);
        assert_eq!((report.tally.replies, report.tally.body_bytes), (20, 100), "{step}");
    }
}

#[derive(Debug)]
struct Alphabet;

impl Content for Alphabet {
    fn matches(&self, offset: u64, bytes: &[u8]) -> bool {
        b"abcdefgh".get(offset as usize..).is_some_and(|rest| rest.starts_with(bytes))
    }
}

#[test]
fn a_body_that_is_not_what_it_should_be_is_wrong() {
    let answer =
        |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    for (body, wrong, short) in [
        ("abcdefgh", 0, 0),
        ("abcdefgx", 10, 0),
        ("abcdefghi", 10, 0),
        ("abcdefg", 0, 10),
        ("", 0, 10),
    ] {
        let text = answer(body);
        let address = server(move |_, stream| answer_all(stream, text.as_bytes()));
        let mut job = Job::prepare(&options(address, rate("100"), 100)).unwrap();
        job.plan.behaviour.verify = true;
        let mut catalog = Catalog::new("h", Vec::new());
        let content: Option<Arc<dyn Content>> = Some(Arc::new(Alphabet));
        let expected =
            Expected { status: Some(200), length: Some(8), content, ..Expected::default() };
        catalog.add(&Message { target: "/".into(), expected, ..Message::default() });
        job.plan.catalog = catalog;
        let tally = job.run(&Arc::default(), &false.into()).unwrap().tally;
        assert_eq!(tally.errors_of(Kind::WrongBody), wrong, "{body}");
        assert_eq!(tally.errors_of(Kind::ShortBody), short, "{body}");
        assert_eq!((tally.replies, tally.error_count()), (10, wrong + short), "{body}");
        assert!(tally.good_in_window <= 10 - wrong - short, "{body}");
    }
}

#[derive(Debug)]
struct Zeros;

impl Content for Zeros {
    fn matches(&self, _: u64, bytes: &[u8]) -> bool {
        bytes.iter().all(|byte| *byte == b'0')
    }
}

#[test]
fn a_body_that_begins_right_and_goes_on_wrong_is_torn() {
    let text = format!("HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n{:0100}{:x>100}", 0, "");
    let address = server(move |_, stream| answer_all(stream, text.as_bytes()));
    let mut job = Job::prepare(&options(address, rate("100"), 100)).unwrap();
    job.plan.behaviour.verify = true;
    let content: Option<Arc<dyn Content>> = Some(Arc::new(Zeros));
    let expected = Expected { content, ..Expected::default() };
    job.plan.catalog = Catalog::new("h", Vec::new());
    job.plan.catalog.add(&Message { target: "/".into(), expected, ..Message::default() });
    let tally = job.run(&Arc::default(), &false.into()).unwrap().tally;
    assert_eq!((tally.errors_of(Kind::TornBody), tally.errors_of(Kind::WrongBody)), (10, 0));
}

#[test]
fn what_is_wrong_within_the_warm_up_is_counted_apart() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("index.html"), "hi").unwrap();
    // The first five of twenty connections, of which ten are within the warm-up.
    let serve = |number, stream| {
        let wrong: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nho";
        answer_all(stream, if number < 5 { wrong } else { OK });
    };
    let report = ten(server(serve), |options| {
        options.verify_with = Some(directory.path().into());
        options.behaviour.verify = true;
        options.warmup = options.duration;
        options.duration *= 2;
    });
    let tally = &report.tally;
    assert_eq!((tally.replies, tally.error_count()), (10, 0), "{:?}", tally.errors);
    assert_eq!(tally.warmup_errors[Kind::WrongBody as usize], 5, "{:?}", tally.warmup_errors);
    let value = json(&report);
    assert_eq!(
        (&value["warmup_errors"]["wrong_body"], &value["errors"]["wrong_body"]),
        (&5.into(), &0.into())
    );
}

#[test]
fn replies_that_nothing_is_known_of_cannot_be_compared() {
    let list = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(list.path(), "/a\n").unwrap();
    let mut options = options("127.0.0.1:9".parse().unwrap(), rate("10"), 100);
    options.behaviour.verify = true;
    for asking in [Asking::Url, Asking::List(list.path().into())] {
        options.asking = asking;
        let why = Job::prepare(&options).unwrap_err();
        assert!(why.contains("name the files that the server sends, as a --fileset"), "{why}");
    }
}

#[test]
fn a_conditional_request_gets_its_file_or_that_it_was_not_modified() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("index.html"), "hi").unwrap();
    let not_modified: &[u8] = b"HTTP/1.1 304 Not Modified\r\n\r\n";
    let other: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nho";
    let failed: &[u8] = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n";
    for (share, answer, wrong) in [
        (1.0, OK, 0),
        (1.0, not_modified, 0),
        (1.0, other, 10),
        (1.0, failed, 10),
        (0.0, not_modified, 10),
    ] {
        let report = ten(server(move |_, stream| answer_all(stream, answer)), |options| {
            (options.behaviour.verify, options.conditional) = (true, share);
            options.verify_with = Some(directory.path().into());
        });
        let tally = &report.tally;
        assert_eq!(tally.replies, 10);
        assert_eq!(tally.errors_of(Kind::WrongBody), wrong, "{share} {answer:?}");
    }
}

#[test]
fn a_closed_loop_pauses_after_failures_and_goes_on() {
    let free = free_address();
    let report = run(&options(free, Load::Connections(2), 200));
    let refused = report.tally.errors_of(Kind::Refused);
    assert!((2..=44).contains(&refused), "each at most once in 10 ms: {refused}");
}
