//! Random clients against the machine, compared with a server that is too simple to be wrong. The
//! seed is printed when it fails; `FLYBALL_SEED=<seed>` runs that one alone.

use flyball_http::random::Stream;
use flyball_http::{CloseReason, Limits};

use crate::driver::Driver;
use crate::script::{answer, limits, until_close};

/// How many connections are simulated.
const RUNS: u64 = 3_000;

/// Draws that a seed repeats.
struct Random(Stream);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0.number() % end
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// What a client sends, and what it must get.
#[derive(Default)]
struct Dialogue {
    sent: Vec<u8>,
    expected: String,
}

/// Valid requests, of which only the last may end the connection.
fn dialogue(random: &mut Random) -> Dialogue {
    let mut dialogue = Dialogue::default();
    for _ in 0..random.below(12) {
        if dialogue.add_request(random) {
            break;
        }
    }
    dialogue
}

impl Dialogue {
    /// Adds a request with its answer; true when it is the last.
    fn add_request(&mut self, random: &mut Random) -> bool {
        if random.one_in(4) {
            self.sent.extend(b"\r\n".repeat(random.below(3) as usize));
        }
        let (version, connection, answered) = match random.below(12) {
            0 => ("1.0", "", "Connection: close\r\n"),
            1 => ("1.0", "Connection: keep-alive\r\n", "Connection: keep-alive\r\n"),
            2 => ("1.1", "Connection: close\r\n", "Connection: close\r\n"),
            _ => ("1.1", "", ""),
        };
        let last = answered == "Connection: close\r\n";
        let noise = random.pick(&["", "Accept: */*\r\n", "X:\t\r\nUser-Agent: x y\r\n"]);
        let head = |method: &str, path: &str, fields: &str| {
            format!("{method} {path} HTTP/{version}\r\nHost: a\r\n{noise}{connection}{fields}\r\n")
        };
        if random.one_in(5) {
            let kind = random.pick(&["stream", "sized", "slow"]);
            let len = random.below(3_000);
            // At most ten pieces: each may have to be waited for.
            let piece = 1 + len / 10 + random.below(900);
            let path = format!("/{kind}/{len}/{piece}");
            self.sent.extend(head("GET", &path, "").bytes());
            if version == "1.0" && kind != "sized" {
                self.expected += &until_close(&path);
                return true;
            }
            self.expected += &answer(&path, answered);
            return last;
        }
        if random.below(3) > 0 {
            let numbered = format!("/file/{}", random.below(3_000));
            let path = random.pick(&["/a", "/wait", "/empty", "/parts", &numbered]);
            self.sent.extend(head("GET", path, "").bytes());
            self.expected += &answer(path, answered);
            return last;
        }
        let upload = random.one_in(2);
        // What is not taken is drained, which has its bound.
        let len = random.below(if upload { 1_800 } else { limits().drain_bytes_max + 1 });
        let body: Vec<u8> = (0..len).map(|_| random.0.number() as u8).collect();
        let chunked = version == "1.1" && random.one_in(2);
        let expects = upload && random.one_in(3);
        let mut fields = if chunked {
            "Transfer-Encoding: chunked\r\n".to_owned()
        } else {
            format!("Content-Length: {len}\r\n")
        };
        if expects {
            fields += "Expect: 100-continue\r\n";
            if version == "1.1" && (chunked || len > 0) {
                self.expected += "HTTP/1.1 100 Continue\r\n\r\n";
            }
        }
        let (path, answer_path) = if upload {
            let sum = body.iter().map(|&byte| u64::from(byte)).sum::<u64>();
            (format!("/upload/{}", 1 + random.below(700)), format!("/sum/{len}/{sum}"))
        } else {
            let path = random.pick(&["/a", "/wait"]).to_owned();
            (path.clone(), path)
        };
        self.sent.extend(head("POST", &path, &fields).bytes());
        if chunked {
            self.send_chunks(&body, random)
        } else {
            self.sent.extend(&body)
        }
        // An unread body ends a connection that would end anyway.
        self.expected += &answer(&answer_path, answered);
        last
    }

    fn send_chunks(&mut self, mut body: &[u8], random: &mut Random) {
        while !body.is_empty() {
            let (chunk, rest) = body.split_at(1 + random.below(body.len() as u64) as usize);
            let extension = random.pick(&["", ";a", ";a=b;c=\"\\\"\""]);
            self.sent.extend(format!("{:x}{extension}\r\n", chunk.len()).bytes());
            self.sent.extend(chunk);
            self.sent.extend(b"\r\n");
            body = rest;
        }
        let trailer = random.pick(&["", "X: y\r\n", "X:\r\nContent-Length: 9\r\n"]);
        self.sent.extend(format!("00\r\n{trailer}\r\n").bytes());
    }
}

/// One connection from its seed.
fn simulate(seed: u64) {
    let random = &mut Random(Stream::of(seed));
    let dialogue = dialogue(random);
    // Time passes here, but no deadline: those have tests of their own.
    let limits = Limits {
        pipeline_max: 1 + random.below(6) as u16,
        rate_window_ms: 1 << 40,
        send_ms: 1 << 40,
        head_ms: 1 << 40,
        idle_ms: 1 << 40,
        answer_ms: 1 << 40,
        ..limits()
    };
    let pipeline_max = usize::from(limits.pipeline_max);
    let mut driver = Driver::new(limits);
    let (largest_piece, largest_write) = (1 + random.below(900), 1 + random.below(2_000));
    let fails = random.one_in(8);
    let mut left = &dialogue.sent[..];
    let mut finished = false;
    driver.room = 0;
    for step in 0_u64.. {
        assert!(step < 100_000, "the connection makes no progress");
        match random.below(if fails { 60 } else { 50 }) {
            0..20 if !left.is_empty() => {
                let n = (1 + random.below(largest_piece) as usize).min(left.len());
                driver.receive(&left[..n]);
                left = &left[n..];
            }
            0..20 if !finished => {
                finished = true;
                driver.finish();
            }
            0..40 => {
                driver.write_max = 1 + random.below(largest_write) as usize;
                driver.open(random.below(largest_write + 1));
            }
            40..47 => {
                driver.release();
            }
            47..50 => driver.wait(random.below(50)),
            50 => driver.abort(CloseReason::ClientGone),
            _ => {}
        }
        if driver.closed.is_some() {
            break;
        }
    }
    assert!(driver.batch_max <= pipeline_max, "{} answers gathered", driver.batch_max);
    let complete = driver.closed != Some(CloseReason::ClientGone);
    assert!(complete || fails, "{:?}", driver.closed);
    let wire = driver.text();
    if complete {
        assert_eq!(wire, dialogue.expected);
    } else {
        assert!(dialogue.expected.starts_with(&wire), "{wire}\nis no beginning of the answers");
    }
}

#[test]
fn random_clients_get_the_answers_that_a_simple_server_would_give() {
    let replay = std::env::var("FLYBALL_SEED")
        .ok()
        .map(|seed| seed.parse::<u64>().expect("FLYBALL_SEED is a number"));
    let seeds = replay.map_or(0..RUNS, |seed| seed..seed + 1);
    for seed in seeds {
        let run = std::panic::catch_unwind(|| simulate(seed));
        assert!(run.is_ok(), "failed with FLYBALL_SEED={seed}");
    }
}
