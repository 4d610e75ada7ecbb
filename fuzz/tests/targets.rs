//! Every target over its seeds, and over mutations of them for a while.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};
use std::{panic, thread};

use flyball_fuzz::mutate::mutated;
use flyball_fuzz::{TARGETS, Target};

/// How much of the processors' time all targets together are tried with mutations.
const MUTATING: Duration = Duration::from_secs(30);

/// The seeds of a target by name, in the order of its file: a seed is a line, and what no line
/// holds is written as in a byte string of Rust (`\n`, `\x00`).
fn seeds(target: &Target) -> Vec<(String, Vec<u8>)> {
    let file = format!("{}/seeds/{}.txt", env!("CARGO_MANIFEST_DIR"), target.name);
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let seed = |line: &str| {
        let (name, bytes) = line.split_once(": ").expect("a name, a colon and the bytes");
        (name.to_owned(), unescaped(bytes).unwrap_or_else(|| panic!("{file}: {name}: an escape")))
    };
    let seeds: Vec<(String, Vec<u8>)> = text.lines().map(seed).collect();
    assert!(!seeds.is_empty(), "{file} has no seeds");
    seeds
}

/// The bytes that a text stands for.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'\\' => match bytes.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'\\' => b'\\',
                b'x' => {
                    let mut digit = || Some(char::from(bytes.next()?).to_digit(16)? as u8);
                    digit()? << 4 | digit()?
                }
                _ => return None,
            },
            byte => byte,
        });
    }
    Some(out)
}

/// Tries mutations until one fails or the time is over; how many passed, or the seed of the one
/// that did not.
fn hunt(
    target: &Target,
    corpus: &[Vec<u8>],
    seeds: impl Iterator<Item = u64>,
    time: Duration,
) -> Result<u64, (u64, Vec<u8>)> {
    let began = Instant::now();
    let mut passed = 0;
    for seed in seeds {
        let input = mutated(seed, corpus, target.words);
        if panic::catch_unwind(|| (target.run)(&input)).is_err() {
            return Err((seed, input));
        }
        passed += 1;
        if began.elapsed() >= time {
            break;
        }
    }
    Ok(passed)
}

#[test]
fn every_target_passes_over_its_seeds() {
    for target in TARGETS {
        for (name, seed) in seeds(target) {
            let run = panic::catch_unwind(|| (target.run)(&seed));
            assert!(run.is_ok(), "seeds/{}/{name} fails", target.name);
        }
    }
}

#[test]
#[ignore = "full tier"]
fn every_target_passes_over_mutations_of_its_seeds() {
    let replay = std::env::var("FLYBALL_SEED").ok();
    let replay = replay.map(|seed| seed.parse::<u64>().expect("FLYBALL_SEED is a number"));
    let first = replay.unwrap_or_else(|| {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| since.as_nanos() as u64)
    });
    let count = if replay.is_some() { 1 } else { usize::MAX };
    println!("mutations begin with seed {first}");
    let failures = Mutex::new(String::new());
    let left = Mutex::new(TARGETS.iter());
    let next = || left.lock().expect("no thread panics with it").next();
    let try_all = || {
        while let Some(target) = next() {
            let corpus: Vec<Vec<u8>> = seeds(target).into_iter().map(|(_, seed)| seed).collect();
            let numbers = (0..u64::MAX).map(|n| first.wrapping_add(n)).take(count);
            match hunt(target, &corpus, numbers, MUTATING / TARGETS.len() as u32) {
                Ok(passed) => println!("{}: {passed} inputs", target.name),
                Err((seed, input)) => {
                    let input = input.escape_ascii();
                    let mut all = failures.lock().expect("no thread panics with it");
                    let _ = writeln!(all, "{}: FLYBALL_SEED={seed}: \"{input}\"", target.name);
                }
            }
        }
    };
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..cpus).for_each(|_| drop(scope.spawn(try_all))));
    let failures = failures.into_inner().expect("no thread panics with it");
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn a_target_that_fails_is_found_and_its_seed_fails_again() {
    fn planted(data: &[u8]) {
        assert!(!data.windows(4).any(|window| window == b"word"), "planted");
    }
    let target = Target { name: "planted", run: planted, words: &[b"word"] };
    let corpus = [b"nothing of the kind".to_vec()];
    let time = Duration::from_secs(60);
    let found = hunt(&target, &corpus, 0..10_000, time);
    let (seed, input) = found.expect_err("one in a few mutations inserts the word");
    assert_eq!(hunt(&target, &corpus, seed..seed + 1, time), Err((seed, input)));
}
