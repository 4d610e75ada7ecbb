//! A server whose speed is known: it answers [`RATE`] requests in a second, one after the other,
//! however many ask and whatever machine it runs on. It waits instead of working. By it the lab is
//! tried as a whole: what it says of this server is right or wrong.
//!
//! It takes nginx's arguments and reads of its configuration what it needs, so that the lab starts
//! it where it looks for nginx: where to listen, which files, and `multi_accept`, by which it is
//! [`SLOWER`].
#![forbid(unsafe_code)]

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Requests that it answers in a second.
const RATE: f64 = 400.0;

/// The share of that which is left with `multi_accept`.
const SLOWER: f64 = 0.95;

/// Later than that, it has been idle: what lateness costs is made up for, what idleness saves is
/// lost.
const LATE_MAX: Duration = Duration::from_millis(20);

/// Longest line of a request.
const LINE_BYTES_MAX: u64 = 8 * 1024;

/// When the server is free for the next request.
struct Turns {
    service: Duration,
    free: Mutex<Instant>,
}

impl Turns {
    /// Waits until all who asked before have been served, and then for as long as a service takes.
    fn wait(&self) {
        let until = {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let was_idle = now.saturating_duration_since(*free) > LATE_MAX;
            *free = if was_idle { now } else { *free } + self.service;
            *free
        };
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            thread::park_timeout(left);
        }
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    if words.iter().any(|word| word == "-v") {
        println!("flyball-fake: {RATE} requests in a second");
        return ExitCode::SUCCESS;
    }
    let given = words.iter().position(|word| word == "-c").and_then(|at| words.get(at + 1));
    let Some(config) = given else {
        eprintln!("usage: flyball-fake -c FILE, a configuration of nginx");
        return ExitCode::from(2);
    };
    match fs::read_to_string(config).and_then(|text| serve(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flyball-fake: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves by this configuration until it is ended.
fn serve(config: &str) -> io::Result<()> {
    let said = |name: &str| {
        let words =
            config.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(' '));
        let word = words
            .and_then(|words| words.split([' ', ';']).next())
            .map(|word| word.trim_matches('"'));
        word.ok_or_else(|| io::Error::other(format!("the configuration has no {name}")))
    };
    let share = if said("multi_accept")? == "on" { SLOWER } else { 1.0 };
    let service = Duration::from_secs_f64(1.0 / (RATE * share));
    let turns = Arc::new(Turns { service, free: Mutex::new(Instant::now()) });
    let root = PathBuf::from(said("root")?);
    let listener = TcpListener::bind(said("listen")?)?;
    loop {
        let (socket, _) = listener.accept()?;
        let (turns, root) = (Arc::clone(&turns), root.clone());
        thread::Builder::new().spawn(move || {
            // A client that goes is no failure.
            let _ = answer(&socket, &turns, &root);
        })?;
    }
}

/// Answers one connection until its client ends it. Blocks.
fn answer(socket: &TcpStream, turns: &Turns, root: &Path) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut requests = BufReader::new(socket);
    let mut path = None;
    loop {
        let mut line = String::new();
        if io::Read::take(&mut requests, LINE_BYTES_MAX).read_line(&mut line)? == 0 {
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix("GET /") {
            path = rest.split(' ').next().map(|name| root.join(name));
        }
        if line == "\r\n" {
            let body = path.take().map_or(Ok(Vec::new()), fs::read)?;
            turns.wait();
            let mut reply =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
            reply.extend(body);
            (&mut &*socket).write_all(&reply)?;
        }
    }
}
