//! A server whose service time is known: the lab's order of runs and its comparison find a planted
//! slowdown of 5 %, and seldom a difference between two copies of one server.
//!
//! The service is waiting, which costs no CPU, so that what else the machine does moves it little.
//! `FLYBALL_LAB_TRIALS=N` compares two copies so many times, instead of 40.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use flyball_lab::host::{Awake, allowed_cpus};
use flyball_lab::schedule::turns;
use flyball_lab::statistics::{Comparison, Finding, median};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A server of one connection, with this service time for each request.
fn server(service: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        // The client has what it wanted when it goes.
        let _ = listener.accept().and_then(|(socket, _)| serve(&socket, service));
    });
    address
}

fn serve(socket: &TcpStream, service: Duration) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut requests = BufReader::new(socket);
    let mut line = String::new();
    while requests.read_line(&mut line)? > 0 {
        if line == "\r\n" {
            let until = Instant::now() + service;
            while let Some(left) = until.checked_duration_since(Instant::now()) {
                thread::park_timeout(left);
            }
            (&mut &*socket).write_all(ANSWER)?;
        }
        line.clear();
    }
    Ok(())
}

/// One run: requests one after the other, and the median of what each took, in microseconds.
fn run(address: SocketAddr, requests: usize) -> f64 {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_nodelay(true).unwrap();
    let mut answer = [0; ANSWER.len()];
    let mut one = || {
        let begun = Instant::now();
        socket.write_all(b"GET / HTTP/1.1\r\nHost: fake\r\n\r\n").unwrap();
        socket.read_exact(&mut answer).unwrap();
        assert_eq!(answer, ANSWER);
        begun.elapsed().as_secs_f64() * 1e6
    };
    median(&(0..requests).map(|_| one()).collect::<Vec<_>>())
}

/// Both servers in each block, in the order that chance decides, and what comes of it.
fn compared(services: [Duration; 2], blocks: usize, requests: usize, seed: u64) -> Finding {
    let mut found = vec![[0.0; 2]; blocks];
    for turn in turns(services.len(), blocks, seed) {
        // A fresh server for each run, as in the lab: where a thread landed is part of the noise.
        found[turn.block][turn.cell] = run(server(services[turn.cell]), requests);
    }
    let pairs: Vec<(f64, f64)> = found.iter().map(|[left, right]| (*left, *right)).collect();
    let comparison = Comparison::of(&pairs, seed).expect("there are pairs");
    comparison.finding(comparison.p)
}

/// A server of this many requests in a second, exactly, on one connection: when it was late it
/// answers without waiting until it has caught up.
fn server_of_rate(rate: f64) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (socket, _) = listener.accept()?;
        let mut requests = BufReader::new(&socket);
        let mut free = Instant::now();
        let mut request = [0; REQUEST.len()];
        while requests.read_exact(&mut request).is_ok() {
            // What lateness costs is made up for; what idleness saves is lost.
            let now = Instant::now();
            let was_idle = now.saturating_duration_since(free) > LATE_MAX;
            free = if was_idle { now } else { free } + Duration::from_secs_f64(1.0 / rate);
            while let Some(left) = free.checked_duration_since(Instant::now()) {
                thread::park_timeout(left);
            }
            (&socket).write_all(ANSWER)?;
        }
        std::io::Result::Ok(())
    });
    address
}

/// Later than that, a server has been idle.
const LATE_MAX: Duration = Duration::from_millis(3);

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: fake\r\n\r\n";

/// Requests at this rate by an absolute clock, and the answers in a second that came within it.
fn good_per_s(address: SocketAddr, rate: f64, seconds: f64) -> f64 {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_nodelay(true).unwrap();
    let mut answers = socket.try_clone().unwrap();
    let begun = Instant::now();
    let end = begun + Duration::from_secs_f64(seconds);
    let reader = thread::spawn(move || {
        let mut answer = [0; ANSWER.len()];
        let mut good = 0_u32;
        while answers.read_exact(&mut answer).is_ok() && Instant::now() < end {
            good += 1;
        }
        good
    });
    for nth in 0..(rate * seconds) as u32 {
        let due = begun + Duration::from_secs_f64(f64::from(nth) / rate);
        while let Some(left) = due.checked_duration_since(Instant::now()) {
            thread::park_timeout(left);
        }
        if socket.write_all(REQUEST).is_err() {
            break;
        }
    }
    // The server may be gone already, which the reader has seen.
    let _ = socket.shutdown(std::net::Shutdown::Write);
    f64::from(reader.join().unwrap()) / seconds
}

#[test]
#[ignore = "full tier"]
fn the_knee_of_a_server_is_found_within_three_percent() {
    let knee = 1_000.0;
    // As in a campaign: processors that sleep are late, without root they are.
    let _awake = Awake::keep(&allowed_cpus());
    let mut run = |rate: f64| {
        Ok::<f64, std::convert::Infallible>(good_per_s(server_of_rate(knee), rate, 0.5))
    };
    // A machine that is busy with others may spoil one search.
    let found = || flyball_lab::knee::find(900.0, &mut run).unwrap().unwrap();
    let mut all = std::iter::repeat_with(found).take(8);
    assert!(all.any(|found| (found / knee - 1.0).abs() <= 0.03), "it is none of eight");
}

#[test]
fn a_planted_slowdown_of_five_percent_is_found() {
    let _awake = Awake::keep(&allowed_cpus());
    let service = Duration::from_millis(6);
    let services = [service.mul_f64(1.05), service];
    // A neighbour that takes the CPU for a while may cost some trials.
    let trials = (0..8).filter(|seed| compared(services, 10, 15, *seed) == Finding::Greater);
    assert_eq!(trials.take(2).count(), 2, "it is found less than twice in 8 trials");
}

#[test]
#[ignore = "full tier"]
fn two_copies_of_one_server_seldom_differ() {
    let given = std::env::var("FLYBALL_LAB_TRIALS").ok().and_then(|text| text.parse().ok());
    let trials: u64 = given.unwrap_or(40);
    let services = [Duration::from_micros(500); 2];
    let differ =
        |seed: &u64| matches!(compared(services, 8, 10, *seed), Finding::Greater | Finding::Less);
    // At a level of 5 %, one set of 40 in 25 has more than four by chance; hardly three on end.
    let of_set = |set: u64| (set * trials..(set + 1) * trials).filter(differ).count() as u64;
    let fewest = (0..3).map(of_set).find(|differences| differences * 10 <= trials);
    assert!(fewest.is_some(), "more than a tenth of {trials} trials differ, three times on end");
}
