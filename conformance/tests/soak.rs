//! A soak: one server under mixed traffic for a quarter of a minute, or as long as
//! `FLYBALL_SOAK_SECONDS` says, while its architecture changes under it and its configuration is
//! read again. It ends with the descriptors and the memory that it began with, and every answer was
//! right.

#![forbid(unsafe_code)]

#[path = "hostile_clients/besieged.rs"]
#[allow(dead_code, reason = "this uses a part of it")]
mod besieged;
#[path = "common_programs/mod.rs"]
mod common_programs;

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use besieged::{Besieged, get, last_get};
use common_programs::Random;
use flyball_testkit::{Client, LARGE_BYTES, Response, binary, large_at, wait};

/// How long it takes unless `FLYBALL_SOAK_SECONDS` says something else, in seconds.
const SECONDS: u64 = 15;

/// The architectures that the server goes through, again and again.
const ARCHITECTURES: [&str; 8] =
    ["sped", "mt", "uring", "watpipe", "knot-a", "shared-symped", "tux", "amped"];

/// Times that the server changes its architecture, whatever the time.
const CHANGES: u32 = 16;

/// Threads that ask.
const CLIENTS: u64 = 4;

/// What may be open at the end that was not at the beginning: processes that began by a reload hold
/// a little more than others, however many reloads there were.
const DESCRIPTORS_SLACK: usize = 4;

/// Memory that may be taken at the end and was not at the beginning, in bytes: allocators keep
/// what they were given, a little more each time.
const MEMORY_SLACK: u64 = 6 * 1024 * 1024;

/// The most that a cut or refused request may be tried again: an old generation that ends closes
/// what is kept.
const TRIES_MAX: u32 = 20;

#[test]
#[ignore = "full tier"]
fn a_server_ends_a_soak_with_what_it_began_with() {
    let seconds = std::env::var("FLYBALL_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    let time = Duration::from_secs(seconds.unwrap_or(SECONDS));
    let directory = tempfile::tempdir().expect("a temporary directory");
    let admin = format!("unix:{}", directory.path().join("admin").display());
    let settings = format!("admin = \"{admin}\"\ndrain = \"2s\"\n");
    let Some(mut soaked) = Besieged::start("sped", &settings) else { return };
    let (counts, processes) = (Counts::default(), soaked.server.processes().len());
    let soak = |soaked: &Besieged, changes: u32, part: u32| {
        run(soaked, &admin, &counts, changes, time * part / 12);
        // Clients have gone; an old generation that was left ends with its last connection.
        let settled = || (soaked.server.processes().len() == processes).then_some(());
        let found = wait::until(wait::DEADLINE, settled);
        assert!(found.is_some(), "{} processes, not {processes}", soaked.server.processes().len());
        soaked.await_processes();
        (soaked.descriptors_taken(), soaked.memory_taken())
    };
    let assert_back = |(descriptors, memory): (usize, u64), since: &str| {
        println!("since {since}: {descriptors} descriptors and {} KiB more", memory / 1024);
        assert!(descriptors <= DESCRIPTORS_SLACK, "{descriptors} descriptors more than {since}");
        assert!(memory <= MEMORY_SLACK, "{memory} bytes more than {since}");
    };
    // Every architecture once, and some traffic, before anything is counted.
    soak(&soaked, ARCHITECTURES.len() as u32, 2);
    soak(&soaked, 0, 1);
    soaked.begin();
    assert_back(soak(&soaked, 0, 3), "the worker began");
    soak(&soaked, CHANGES, 5);
    assert_back(soak(&soaked, 0, 1), "the server began");
    println!(
        "soak of {time:?}: {} answers, {} cut and asked again, {} connections that clients cut",
        counts.answers.load(SeqCst),
        counts.again.load(SeqCst),
        counts.aborted.load(SeqCst),
    );
    assert!(counts.answers.load(SeqCst) > 100 * CLIENTS);
    soaked.server.assert_sound();
}

#[derive(Debug, Default)]
struct Counts {
    answers: AtomicU64,
    /// Requests whose connection ended before their answer, as that of an old generation may.
    again: AtomicU64,
    /// Connections that clients cut on purpose.
    aborted: AtomicU64,
    ended: AtomicBool,
}

/// Traffic for so long, and so many changes of architecture; the last is back to the first.
fn run(soaked: &Besieged, admin: &str, counts: &Counts, changes: u32, time: Duration) {
    counts.ended.store(false, SeqCst);
    std::thread::scope(|scope| {
        for seed in 0..CLIENTS {
            scope.spawn(move || ask_until_told(soaked, counts, seed));
        }
        let _end = EndOnDrop(&counts.ended);
        let start = Instant::now();
        for change in 1..=changes {
            let architecture = ARCHITECTURES[change as usize % ARCHITECTURES.len()];
            wait::dawdle((time * change / (changes + 1)).saturating_sub(start.elapsed()));
            // The configuration says what it began with, and is read again now and then.
            match change % 3 {
                0 => tell(admin, &["reload"]),
                _ => tell(admin, &["set", "arch", architecture]),
            }
        }
        wait::dawdle(time.saturating_sub(start.elapsed()));
    });
}

/// Lets the clients end, also when the test fails.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// `flyball ctl WORDS`, again while generations would stack up: old ones end with their
/// connections.
fn tell(admin: &str, words: &[&str]) {
    let done = wait::until(wait::DEADLINE, || {
        let mut command = Command::new(binary());
        let output = command.arg("ctl").args(words).args(["--admin", admin]).output();
        let output = output.expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        let done = output.status.success() || said.contains("cannot run here");
        assert!(done || said.contains("generations of workers still"), "{words:?}: {said}");
        done.then_some(())
    });
    assert!(done.is_some(), "{words:?}: old generations do not end");
}

/// Asks in every way there is until told to end; each answer is right.
fn ask_until_told(soaked: &Besieged, counts: &Counts, seed: u64) {
    let mut random = Random::new(seed + 1);
    let mut kept = Asker { address: soaked.server.address(), client: None };
    while !counts.ended.load(SeqCst) {
        match random.below(12) {
            0..=4 => {
                let answer = kept.ask(&get("/hello.txt"), counts);
                assert_eq!(answer.body, b"hello, world\n");
            }
            5 => {
                let answer = kept.ask(&get("/missing"), counts);
                assert_eq!(answer.status(), 404);
            }
            6 => not_modified(&mut kept, counts),
            7 => range(&mut kept, random.below(LARGE_BYTES as u64 - 70_000) as usize, counts),
            8 => {
                let mut new = Asker { address: kept.address, client: None };
                assert_eq!(new.ask(&last_get("/hello.txt"), counts).body, b"hello, world\n");
            }
            9 => {
                let answer = kept.ask(&get("/large.bin"), counts);
                assert_eq!(answer.body.len(), LARGE_BYTES);
                large_at(0, &answer.body);
            }
            10 => abort(soaked, &mut random, counts),
            _ => {
                let post = "POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
                assert_eq!(kept.ask(post, counts).status(), 200);
            }
        }
    }
}

fn not_modified(kept: &mut Asker, counts: &Counts) {
    let request = get("/hello.txt");
    let etag = kept.ask(&request, counts).field("ETag").expect("a file has one").to_owned();
    let field = format!("\r\nIf-None-Match: {etag}\r\n\r\n");
    let answer = kept.ask(&request.replacen("\r\n\r\n", &field, 1), counts);
    assert_eq!((answer.status(), answer.body.len()), (304, 0));
}

fn range(kept: &mut Asker, from: usize, counts: &Counts) {
    let field = format!("\r\nRange: bytes={from}-{}\r\n\r\n", from + 65_535);
    let answer = kept.ask(&get("/large.bin").replacen("\r\n\r\n", &field, 1), counts);
    assert_eq!((answer.status(), answer.body.len()), (206, 65_536));
    large_at(from, &answer.body);
}

/// A client that leaves in the middle of something.
fn abort(soaked: &Besieged, random: &mut Random, counts: &Counts) {
    let Some(mut client) = Client::try_connect(soaked.server.address()) else { return };
    let request = get(if random.below(2) == 0 { "/large.bin" } else { "/hello.txt" });
    let bytes = random.below(request.len() as u64 + 1) as usize;
    client.try_send(if random.below(2) == 0 { &request[..bytes] } else { &request });
    client.arrived();
    match random.below(2) {
        0 => client.reset(),
        _ => drop(client),
    }
    counts.aborted.fetch_add(1, SeqCst);
}

/// A client that connects again when its connection is closed between two requests.
struct Asker {
    address: std::net::SocketAddr,
    client: Option<Client>,
}

impl Asker {
    fn ask(&mut self, request: &str, counts: &Counts) -> Response {
        for _ in 0..TRIES_MAX {
            let known = self.client.take().or_else(|| Client::try_connect(self.address));
            let Some(mut client) = known else { continue };
            if let Some(response) = client.try_ask(request) {
                counts.answers.fetch_add(1, SeqCst);
                let closes = response.field("Connection") == Some("close");
                self.client = Some(client).filter(|_| !closes);
                return response;
            }
            counts.again.fetch_add(1, SeqCst);
        }
        panic!("{TRIES_MAX} tries of {request:?}");
    }
}
