//! Agents that are not as they should be, each by a real socket.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use flyball_load::agent::coordinate;
use flyball_load::job::{Load, Options};
use flyball_load::observe::{Glance, Live, Report};
use flyball_testkit::wait::{DEADLINE, until};
use serde_json::{Value, json};

/// Runs with so many agents, which are ready and answer until they are to start; then `fate` has
/// each.
fn with_agents(
    count: usize,
    fate: fn(TcpStream),
    live: &Live,
    stop: &AtomicBool,
) -> Result<Report, String> {
    let listeners: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addresses: Vec<String> =
        listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
    let agents: Vec<_> = listeners
        .into_iter()
        .map(|listener| thread::spawn(move || agent(&listener, fate)))
        .collect();
    let load = Load::Rate("10".parse().unwrap());
    let asked = Options::new("http://127.0.0.1:9/", load).asked();
    let arguments = ["http://127.0.0.1:9/".into()];
    let report = coordinate(&addresses, &arguments, asked, live, stop);
    agents.into_iter().for_each(|agent| agent.join().unwrap());
    report
}

fn agent(listener: &TcpListener, fate: fn(TcpStream)) {
    let (mut stream, _) = listener.accept().unwrap();
    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
    for line in lines.map_while(Result::ok) {
        let order: Value = serde_json::from_str(&line).unwrap();
        let answer = match order.get("ping") {
            Some(number) => json!({ "pong": number }),
            None if order.get("start_in_ns").is_some() => break,
            None => json!({
                "ready": true,
                "workload": "none",
                "duration_s": 7.0,
                "notes": ["it is here"],
            }),
        };
        writeln!(stream, "{answer}").unwrap();
    }
    fate(stream);
}

fn with_an_agent(fate: fn(TcpStream)) -> Result<Report, String> {
    with_agents(1, fate, &Live::default(), &AtomicBool::new(false))
}

#[test]
fn what_agents_do_is_shown_together_and_they_are_told_to_end() {
    let fate = |mut stream: TcpStream| {
        for alive in [[4, 2, 1, 9], [5, 3, 1, 2]] {
            writeln!(stream, "{}", json!({ "alive": alive })).unwrap();
        }
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        // The next sign of life is answered by what there is to say.
        let told = thread::scope(|scope| {
            let told = scope.spawn(|| lines.next());
            while !told.is_finished() {
                writeln!(stream, "{}", json!({ "alive": [5, 3, 1, 2] })).unwrap();
                thread::yield_now();
            }
            told.join().unwrap()
        });
        assert_eq!(told.unwrap().unwrap(), r#"{"stop":true}"#);
    };
    let (live, stop) = (Live::default(), AtomicBool::new(false));
    let (shown, report) = thread::scope(|scope| {
        let shown = scope.spawn(|| {
            let both = |glance: &Glance| (glance.replies, glance.open) == (6, 4);
            let shown = until(DEADLINE, || Some(live.glance()).filter(both));
            stop.store(true, Relaxed);
            shown
        });
        let report = with_agents(2, fate, &live, &stop);
        (shown.join().unwrap(), report)
    });
    let shown = shown.expect("both are in it");
    assert_eq!((shown.sent, shown.errors), (10, 2));
    let length_ns = shown.window.to_ns - shown.window.from_ns;
    assert_eq!(length_ns, 7_000_000_000, "as long as the agents say");
    assert_eq!(live.glance().open, 0, "they have gone");
    assert_eq!(report.unwrap().void.len(), 2);
}

#[test]
fn an_agent_that_says_nothing_for_too_long_is_lost() {
    let report = with_an_agent(|stream| {
        // Until the coordinator goes.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let _ = BufReader::new(stream).lines().count();
    });
    let report = report.unwrap();
    assert!(!report.is_valid());
    assert!(report.void[0].ends_with(": it was silent for 5 s"), "{:?}", report.void);
    assert!(report.notes[0].ends_with(": it is here"), "{:?}", report.notes);
}

#[test]
fn an_agent_whose_connection_ends_is_lost() {
    let report = with_an_agent(drop).unwrap();
    assert!(report.void[0].ends_with(": it was lost"), "{:?}", report.void);
    assert_eq!(report.tally.replies, 0);
}
