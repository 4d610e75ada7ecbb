//! The percentiles are those of the server, whatever it does: delays and pauses are injected.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::common::{OK, answer_all, options, rate, request, run, server};
use flyball_load::job::{Job, Load};
use flyball_load::observe::{Live, Report};
use flyball_load::think::Think;
use flyball_sys::clock::monotonic_ns;
use flyball_testkit::wait::{DEADLINE, dawdle, until};

fn wait_until(at: Instant) {
    dawdle(at.saturating_duration_since(Instant::now()));
}

/// Which percentile should be how many microseconds, to what share.
type Injected = (f64, f64, f64);

/// The percentiles that are not what was injected.
fn wrong(report: &Report, injected: &[Injected]) -> Vec<String> {
    let found = |percentile| report.tally.latency.percentile_us(percentile);
    let is_off =
        |(percentile, us, share): &&Injected| (found(*percentile) / us - 1.0).abs() > *share;
    let off = injected.iter().filter(is_off);
    off.map(|(p, us, _)| format!("p{p} is {} us, not {us}", found(*p))).collect()
}

/// Runs of which one has to be right.
const ATTEMPTS: usize = 8;

/// A busy machine delays server and client alike, which only adds: of some runs one has to be
/// right. A generator that counts wrongly is wrong in all of them.
#[track_caller]
fn one_of_some_is_right(injected: &[Injected], mut run: impl FnMut() -> Report) {
    let mut all = Vec::new();
    for _ in 0..ATTEMPTS {
        let wrong = wrong(&run(), injected);
        if wrong.is_empty() {
            return;
        }
        all.push(wrong);
    }
    panic!("{all:?}");
}

#[test]
#[ignore = "full tier"]
fn injected_delays_come_out_as_percentiles() {
    // Nine of ten requests take a second, one takes four: long beside what a busy machine adds.
    let served = AtomicUsize::new(0);
    let serve = move |_, mut stream: TcpStream| {
        while request(&mut stream).is_some() {
            let slow = served.fetch_add(1, SeqCst) % 10 == 9;
            wait_until(Instant::now() + Duration::from_millis(if slow { 4_000 } else { 1_000 }));
            stream.write_all(OK).unwrap();
        }
    };
    let address = server(serve);
    let injected = [
        (50.0, 1_000_000.0, 0.02),
        (85.0, 1_000_000.0, 0.02),
        (95.0, 4_000_000.0, 0.02),
        (100.0, 4_000_000.0, 0.02),
    ];
    one_of_some_is_right(&injected, || {
        let report = run(&options(address, rate("100"), 1000));
        assert_eq!(report.tally.replies, 100);
        report
    });
}

#[test]
#[ignore = "full tier"]
fn a_pause_of_the_server_is_counted_from_when_each_request_was_due() {
    // Who asks within the first four seconds is answered at their end: of twice that at a steady
    // rate, half wait from four seconds down to nothing. A generator that waits for answers would
    // count one long one.
    let serve_from = || {
        let begin = OnceLock::new();
        server(move |_, mut stream: TcpStream| {
            let begin = *begin.get_or_init(Instant::now);
            if request(&mut stream).is_some() {
                wait_until(begin + Duration::from_secs(4));
                stream.write_all(OK).unwrap();
            }
        })
    };
    // Latencies of those that had to wait are uniform in 0..4 s: the p75 of all is half of it.
    let injected =
        [(75.0, 2_000_000.0, 0.02), (95.0, 3_600_000.0, 0.02), (100.0, 4_000_000.0, 0.02)];
    one_of_some_is_right(&injected, || {
        let report = run(&options(serve_from(), rate("40"), 8_000));
        assert_eq!(report.tally.replies, 320);
        report
    });
}

/// Whether the kernel has a connection to this port of 127.0.0.1 that was not answered
/// (proc_net_tcp(5): SYN_SENT is 2).
fn is_connecting_to(port: u16) -> bool {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the table of sockets");
    table.contains(&format!(" 0100007F:{port:04X} 02 "))
}

#[test]
fn time_spent_connecting_is_part_of_the_latency_and_told_apart() {
    // No connection is accepted at first; one fits in the queue, and the first packets of the
    // others are dropped until the kernel tries again after a second.
    use flyball_sys::net;
    let listener = net::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
    net::listen(&listener, 0, &net::ListenOptions::default()).unwrap();
    let address = net::local_address(&listener).unwrap();
    let first = TcpStream::connect(address).unwrap();
    std::thread::spawn(move || {
        // The packet that is dropped has to be sent before there is room for it.
        let asks = || is_connecting_to(address.port()).then_some(());
        until(DEADLINE, asks).expect("a client connects");
        dawdle(Duration::from_millis(100));
        drop(first);
        let listener = std::net::TcpListener::from(listener);
        listener.set_nonblocking(false).unwrap();
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer_all(stream, OK));
        }
    });
    let report = run(&options(address, rate("10"), 100));
    assert_eq!(report.tally.replies, 1);
    assert!(report.tally.latency.min_us() >= 999_000.0, "{}", report.tally.latency.min_us());
    assert!(report.tally.connect.min_us() >= 999_000.0, "{}", report.tally.connect.min_us());
}

#[test]
fn think_times_are_no_latency() {
    let mut options = options(server(|_, stream| answer_all(stream, OK)), rate("20"), 100);
    options.requests_per_connection = Some(3);
    options.think = Think::Always(Duration::from_secs(1));
    let begin = Instant::now();
    let report = run(&options);
    assert_eq!(report.tally.connections, 2);
    assert_eq!(report.tally.replies, 6, "a session counts to its end");
    assert!(begin.elapsed() >= Duration::from_secs(2));
    // With a think time in it, it would be a second.
    let usual_us = report.tally.latency.percentile_us(50.0);
    assert!(usual_us < 900_000.0, "{usual_us}");
}

#[test]
fn connections_that_are_kept_busy_think_between_replies_and_requests() {
    for (pipeline, requests) in [(1, 6), (3, 18)] {
        let address = server(|_, stream| answer_all(stream, OK));
        let mut options = options(address, Load::Connections(2), 60_000);
        options.behaviour.pipeline = pipeline;
        options.requests = Some(requests);
        options.think = Think::Always(Duration::from_millis(400));
        let begin = Instant::now();
        let tally = run(&options).tally;
        assert_eq!((tally.connections, tally.replies), (2, requests), "{:?}", tally.errors);
        // Three requests, or bursts of them, on each.
        assert!(begin.elapsed() >= Duration::from_millis(800), "{:?}", begin.elapsed());
        assert!(tally.latency.percentile_us(50.0) < 400_000.0, "a pause is no latency");
    }
}

#[test]
fn connections_that_think_do_not_begin_all_at_once() {
    let address = server(|_, stream| answer_all(stream, OK));
    let mut options = options(address, Load::Connections(8), 60_000);
    options.requests = Some(8);
    options.think = "800ms".parse().unwrap();
    let begin = Instant::now();
    assert_eq!(run(&options).tally.replies, 8);
    // The eighth begins in the last eighth of a think time, and no other asks twice before it.
    assert!(begin.elapsed() >= Duration::from_millis(700), "{:?}", begin.elapsed());
}

#[test]
fn a_reply_takes_until_it_is_received_also_behind_others() {
    // Each fills what the client receives at once, so that it looks for more before it waits.
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 131000\r\nX: xxxxxxxxxxxxxxxxxxxxxxxx\r\n\r\n";
    let answer = [head.as_bytes(), &vec![b'y'; 131_000]].concat();
    assert_eq!(answer.len(), 128 << 10);
    let address = server(move |_, stream| answer_all(stream, &answer));
    let mut options = options(address, Load::Connections(2), 60_000);
    options.requests = Some(2_000);
    options.behaviour.pipeline = 4;
    let tally = run(&options).tally;
    assert_eq!((tally.replies, tally.error_count()), (2_000, 0), "{:?}", tally.errors);
    let least_us = tally.latency.min_us();
    assert!(least_us >= 1.0, "a request and its reply took {least_us} us");
}

#[test]
fn a_warm_up_is_not_counted() {
    let mut options = options(server(|_, stream| answer_all(stream, OK)), rate("100"), 400);
    options.warmup = Duration::from_millis(300);
    let report = run(&options);
    assert_eq!((report.tally.intended, report.tally.replies), (10, 10));
    assert_eq!(report.tally.replies_total, 40);
}

#[test]
fn a_closed_loop_sends_when_an_answer_has_come() {
    let serve = |_, mut stream: TcpStream| {
        while request(&mut stream).is_some() {
            wait_until(Instant::now() + Duration::from_millis(20));
            stream.write_all(OK).unwrap();
        }
    };
    let mut options = options(server(serve), Load::Connections(4), 60_000);
    options.requests = Some(80);
    let begin = Instant::now();
    let report = run(&options);
    assert_eq!((report.tally.connections, report.tally.replies), (4, 80));
    // Four at a time, 20 ms each.
    assert!(begin.elapsed() >= Duration::from_millis(400), "{:?}", begin.elapsed());
    assert!(report.tally.latency.min_us() >= 20_000.0);
}

#[test]
fn a_generator_that_comes_late_says_so_and_hides_nothing() {
    let address = server(|_, stream| answer_all(stream, OK));
    let job = Job::prepare(&options(address, rate("100"), 100)).unwrap();
    // It begins a second after the first session was due.
    let start_ns = monotonic_ns() - 1_000_000_000;
    let report = job.run_from(start_ns, &Arc::default(), &false.into()).unwrap();
    assert_eq!((report.tally.replies, report.tally.late), (10, 10));
    assert!(report.tally.lateness.min_us() >= 900_000.0, "{}", report.tally.lateness.min_us());
    assert!(report.tally.latency.min_us() >= 900_000.0, "it counts from when they were due");
    assert!(report.tally.latency_actual.min_us() < report.tally.latency.min_us() - 800_000.0);
    let why = report.client_limits().join("; ");
    assert!(why.contains("ms late or later"), "{why}");
}

#[test]
fn a_run_that_is_broken_off_intended_what_it_had_come_to() {
    let mut options = options(server(|_, stream| answer_all(stream, OK)), rate("100"), 60_000);
    options.requests_per_connection = Some(3);
    options.think = Think::Always(Duration::from_secs(60));
    let job = Job::prepare(&options).unwrap();
    let (live, stop) = (Arc::new(Live::default()), AtomicBool::new(false));
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            until(DEADLINE, || (live.glance().replies >= 5).then_some(()));
            stop.store(true, SeqCst);
        });
        job.run(&live, &stop).unwrap()
    });
    let tally = &report.tally;
    // Each session has its first reply, and thinks.
    assert!(tally.replies >= 5 && tally.unanswered == 0);
    assert!((tally.replies..=tally.replies + 1).contains(&tally.intended), "{}", tally.intended);
    assert!(tally.sent >= tally.replies);
}
