//! How clients behave: what the server sees of them.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::{OK, answer_all, options, rate, request, run, server};
use flyball_load::engine::Closing;
use flyball_load::fileset::{Kind, Manifest, Parameters};
use flyball_load::job::{Asking, Http10, Load};
use flyball_testkit::wait::{DEADLINE, assert_within, until};

#[test]
fn a_connection_that_is_kept_carries_as_many_requests_as_it_may() {
    let mut options = options(server(|_, s| answer_all(s, OK)), Load::Connections(1), 60_000);
    options.requests_per_connection = Some(5);
    options.requests = Some(23);
    let tally = run(&options).tally;
    assert_eq!(tally.error_count(), 0, "{:?}", tally.errors);
    assert_eq!((tally.replies, tally.connections), (23, 5));
}

#[test]
fn a_run_of_so_many_requests_ends_with_the_last_of_them() {
    // S3, Section 2.4: fifteen connections with a thousand requests each; fewer here.
    let mut options = options(server(|_, s| answer_all(s, OK)), Load::Connections(15), 60_000);
    options.requests = Some(300);
    options.threads = 2;
    let begin = Instant::now();
    let report = run(&options);
    let tally = &report.tally;
    assert_eq!((tally.sent, tally.replies, tally.error_count()), (300, 300, 0));
    assert_eq!((tally.connections, tally.replies_in_window), (15, 300));
    assert_within(begin, Duration::from_secs(30), "it ends with the last of them");
    assert!(tally.window.seconds() <= begin.elapsed().as_secs_f64(), "rates are of that time");
    options.load = rate("1000");
    options.requests_per_connection = Some(7);
    let tally = run(&options).tally;
    assert_eq!(
        (tally.replies, tally.sessions, tally.intended),
        (300, 44, 300),
        "22 on each thread"
    );
}

#[test]
fn requests_are_sent_together_when_they_are_pipelined() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let at_once = Arc::clone(&seen);
    let serve = move |_, mut stream: TcpStream| {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = stream.read(&mut buffer) {
            let count = buffer[..n].windows(4).filter(|four| four == b"\r\n\r\n").count();
            at_once.lock().unwrap().push(count);
            stream.write_all(&OK.repeat(count)).unwrap();
        }
    };
    let mut options = options(server(serve), rate("10"), 100);
    options.requests_per_connection = Some(10);
    options.behaviour.pipeline = 4;
    let tally = run(&options).tally;
    assert_eq!((tally.replies, tally.error_count()), (10, 0), "{:?}", tally.errors);
    assert_eq!(seen.lock().unwrap()[0], 4);
}

#[test]
fn clients_come_from_every_source_address() {
    let peers = Arc::new(Mutex::new(HashSet::new()));
    let seen = Arc::clone(&peers);
    let serve = move |_, stream: TcpStream| {
        seen.lock().unwrap().insert(stream.peer_addr().unwrap().ip().to_string());
        answer_all(stream, OK);
    };
    let mut options = options(server(serve), rate("100"), 100);
    options.behaviour.sources =
        ["127.0.0.7", "127.0.0.8"].map(|text| text.parse().unwrap()).to_vec();
    options.threads = 2;
    let tally = run(&options).tally;
    assert_eq!((tally.replies, tally.error_count()), (10, 0), "{:?}", tally.errors);
    let expected = ["127.0.0.7", "127.0.0.8"].map(String::from);
    assert_eq!(*peers.lock().unwrap(), HashSet::from(expected));
}

#[test]
fn a_client_that_resets_leaves_no_orderly_end() {
    for (closing, is_reset) in [(Closing::Orderly, false), (Closing::Reset, true)] {
        let ends = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&ends);
        let serve = move |_, mut stream: TcpStream| {
            request(&mut stream);
            stream.write_all(OK).unwrap();
            let end = stream.read(&mut [0]);
            seen.lock().unwrap().push(end.is_err());
        };
        let mut options = options(server(serve), rate("50"), 100);
        options.behaviour.closing = closing;
        assert_eq!(run(&options).tally.replies, 5);
        let found = until(DEADLINE, || {
            let ends = ends.lock().unwrap();
            (ends.len() == 5).then(|| ends.clone())
        });
        assert_eq!(found, Some(vec![is_reset; 5]), "{closing:?}");
    }
}

#[test]
fn a_slow_reader_takes_its_time_and_gets_everything() {
    let body = vec![b'x'; 60_000];
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let answer = [head.as_bytes(), &body].concat();
    let mut options = options(server(move |_, s| answer_all(s, &answer)), rate("10"), 100);
    options.behaviour.read_rate = Some(120_000);
    options.behaviour.receive_buffer = Some(8192);
    let tally = run(&options).tally;
    assert_eq!((tally.replies, tally.body_bytes), (1, 60_000), "{:?}", tally.errors);
    assert!(tally.latency.min_us() >= 480_000.0, "{}", tally.latency.min_us());
}

/// 60,000 bytes by a line of 120,000 in a second are half a second, within sessions and
/// between them; and none waits for its line when the time is over.
#[test]
fn a_client_asks_no_faster_than_its_line_carries() {
    let body = vec![b'x'; 60_000];
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let answer = Arc::new([head.as_bytes(), &body].concat());
    let served = |load: Load| {
        let answer = Arc::clone(&answer);
        let mut options = options(server(move |_, s| answer_all(s, &answer)), load, 2_250);
        options.behaviour.line_rate = Some(120_000);
        options.requests_per_connection = Some(3);
        options
    };
    for rate in [120_000, 1_000] {
        let mut options = served(Load::Connections(1));
        options.behaviour.line_rate = Some(rate);
        let begun = Instant::now();
        let tally = run(&options).tally;
        let replies = if rate == 1_000 { 1..=1 } else { 4..=5 };
        assert!(replies.contains(&tally.replies), "{rate}: {} replies", tally.replies);
        // The rest of an answer of a minute.
        assert_within(
            begun,
            Duration::from_secs(30),
            &format!("the rest of a line of {rate} is left"),
        );
    }
    // One session, due at once: its third request is sent when the line has carried two replies.
    let mut options = served(rate("0.4"));
    let begun = Instant::now();
    assert_eq!(run(&options).tally.replies, 3);
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    options.behaviour.line_rate = None;
    assert_eq!(run(&options).tally.replies, 3);
    // Its line is not free before the time is over: it asks for nothing more.
    options.behaviour.line_rate = Some(12_000);
    let tally = run(&options).tally;
    assert_eq!((tally.replies, tally.intended, tally.unanswered), (1, 1, 0));
}

#[test]
fn a_paced_writer_takes_its_time() {
    let mut options = options(server(|_, stream| answer_all(stream, OK)), rate("10"), 100);
    options.fields = vec![format!("X-Long: {}", "x".repeat(4000))];
    options.behaviour.write_rate = Some(10_000);
    let tally = run(&options).tally;
    assert_eq!(tally.replies, 1, "{:?}", tally.errors);
    assert!(tally.latency.min_us() >= 390_000.0, "{}", tally.latency.min_us());
}

#[test]
fn requests_have_the_fields_methods_and_bodies_that_were_asked_for() {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    let serve = move |_, mut stream: TcpStream| {
        while let Some(head) = request(&mut stream) {
            stream.read_exact(&mut [0; 3]).unwrap();
            seen.lock().unwrap().push(head);
            stream.write_all(OK).unwrap();
        }
    };
    let mut options = options(server(serve), rate("10"), 100);
    options.method = "POST".into();
    options.body = b"abc".to_vec();
    options.fields = vec!["Accept-Encoding: gzip".into()];
    options.conditional = 1.0;
    assert_eq!(run(&options).tally.replies, 1);
    let heads = heads.lock().unwrap();
    assert!(heads[0].starts_with("POST / HTTP/1.1\r\nHost: 127.0.0.1:"), "{}", heads[0]);
    for field in ["Accept-Encoding: gzip", "Content-Length: 3", "If-Modified-Since: "] {
        assert!(heads[0].contains(field), "{}", heads[0]);
    }
}

#[test]
fn paths_of_a_list_are_asked_for_as_often_as_they_weigh() {
    let counts = Arc::new(Mutex::new([0u32; 2]));
    let seen = Arc::clone(&counts);
    let serve = move |_, mut stream: TcpStream| {
        while let Some(head) = request(&mut stream) {
            seen.lock().unwrap()[usize::from(head.starts_with("GET /b "))] += 1;
            stream.write_all(OK).unwrap();
        }
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "/a 1\n/b 3\n").unwrap();
    let mut options = options(server(serve), rate("20"), 500);
    options.requests_per_connection = Some(40);
    options.asking = Asking::List(file.path().into());
    assert_eq!(run(&options).tally.replies, 400);
    let [a, b] = *counts.lock().unwrap();
    assert_eq!(a + b, 400);
    assert!((260..=340).contains(&b), "{b}");
}

#[test]
fn connections_of_specweb99_with_one_request_are_of_http10_when_that_is_asked_for() {
    let kind = Kind::SpecWeb99;
    let parameters = Parameters { directories: 2, ..kind.defaults() };
    for http10 in [Http10::Never, Http10::Singles, Http10::Always] {
        let connections = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&connections);
        let serve = move |_, mut stream: TcpStream| {
            let mut lines = Vec::new();
            while let Some(head) = request(&mut stream) {
                let (line, rest) = head.split_once("\r\n").unwrap();
                assert!(rest.starts_with("Host: 127.0.0.1:") && rest.ends_with("\r\n\r\n"));
                lines.push(line.to_owned());
                if line.ends_with(" HTTP/1.0") {
                    // It ends the connection.
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhi");
                    break;
                }
                let _ = stream.write_all(OK);
            }
            seen.lock().unwrap().push(lines);
        };
        let mut options = options(server(serve), Load::Connections(4), 60_000);
        options.asking = Asking::Mix(Manifest { kind, parameters });
        options.requests = Some(1_000);
        options.http10 = http10;
        let report = run(&options);
        let tally = &report.tally;
        assert_eq!((tally.replies, tally.error_count()), (1_000, 0), "{:?}", tally.errors);
        let opened = tally.connections as usize;
        let all = until(DEADLINE, || {
            let connections = connections.lock().unwrap();
            (connections.len() == opened).then(|| connections.clone())
        });
        let all = all.expect("every connection ends");
        let is_wrong = |lines: &&Vec<String>| {
            let is_single = http10 == Http10::Singles && lines.len() == 1;
            let is_old = http10 == Http10::Always || is_single;
            let version = if is_old { " HTTP/1.0" } else { " HTTP/1.1" };
            let starts = |line: &String| line.starts_with("GET /file_set/dir0000");
            !lines.iter().all(|line| starts(line) && line.ends_with(version))
        };
        // Of the last session there may be no more than its first request.
        let wrong: Vec<_> = all.iter().filter(is_wrong).collect();
        assert!(wrong.len() <= usize::from(http10 == Http10::Singles), "{http10:?}: {wrong:?}");
        if http10 == Http10::Singles {
            let singles = all.iter().filter(|lines| lines.len() == 1).count() as f64;
            let share = singles / all.len() as f64;
            assert!((share - 0.3).abs() < 0.1, "{share} of {}", all.len());
            let words = &report.asked.workload;
            assert_eq!(words, "72 paths of specweb99; sessions of one request by HTTP/1.0");
        }
    }
}

#[test]
fn a_head_has_no_body_to_wait_for() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    let mut options = options(server(|_, s| answer_all(s, answer)), rate("50"), 100);
    options.method = "HEAD".into();
    options.requests_per_connection = Some(2);
    let tally = run(&options).tally;
    assert_eq!((tally.replies, tally.body_bytes, tally.error_count()), (10, 0, 0));
}
