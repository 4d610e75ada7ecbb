//! Agents that are not as they should be, each by a real socket.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use flyball_load::agent::coordinate;
use flyball_load::job::{Load, Options};
use flyball_load::observe::Report;
use serde_json::{Value, json};

/// Runs with one agent, which is ready and answers until it is to start; then `fate` has it.
fn with_an_agent(fate: fn(TcpStream)) -> Result<Report, String> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let agent = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines();
        for line in lines.map_while(Result::ok) {
            let order: Value = serde_json::from_str(&line).unwrap();
            let answer = match order.get("ping") {
                Some(number) => json!({ "pong": number }),
                None if order.get("start_in_ns").is_some() => break,
                None => json!({ "ready": true, "workload": "none", "notes": ["it is here"] }),
            };
            writeln!(stream, "{answer}").unwrap();
        }
        fate(stream);
    });
    let load = Load::Rate("10".parse().unwrap());
    let asked = Options::new("http://127.0.0.1:9/", load).asked();
    let report = coordinate(&[address], &["http://127.0.0.1:9/".into()], asked);
    agent.join().unwrap();
    report
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
