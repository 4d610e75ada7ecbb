//! `send.mode` mapped: large bodies leave from chunks of files that stay mapped.
use std::fs::File;

use crate::common::trace::{Call, Traced, tally};
use crate::common::{Launch, Server, Site, architectures, children, get, has, wait_for};

/// `cache.chunk` of the tests.
const CHUNK_BYTES: usize = 64 * 1024;

/// A body of a few chunks: its last one is a part of a chunk.
const CHUNKS: usize = 5;
const LARGE_BYTES: usize = (CHUNKS - 1) * CHUNK_BYTES + 10_000;

/// Bytes at the end of a body that are read and not mapped.
const TAIL_BYTES: usize = 4096;

/// What a client does so many times while it is counted.
const ROUNDS: usize = 10;

/// More than the sockets of both sides can hold.
const HUGE_BYTES: usize = 24 << 20;

const SETTINGS: [&str; 3] = ["send.mode=mapped", "cache.chunk=64KiB", "cache.small=1KiB"];

fn site() -> Site {
    let large: Vec<u8> = (0..LARGE_BYTES).map(|at| (at % 251) as u8).collect();
    Site::with(&[("small.txt", &[b'x'; 1024]), ("large.bin", &large)])
}

fn start(site: &Site, arch: &str, settings: &[&str]) -> Server {
    let settings = SETTINGS.iter().chain(settings);
    let launch = Launch::new(site, arch).workers_for(arch, 4).args(&["--admin", "127.0.0.1:0"]);
    settings.fold(launch, |launch, setting| launch.set(setting)).start()
}

fn counter(server: &Server, what: &str) -> u64 {
    server.counter(&format!("mapped_chunk_{what}"))
}

/// Waits until so many chunks were mapped: what a worker counts is published a moment later.
fn wait_for_misses(server: &Server, misses: usize) {
    let mapped = || (counter(server, "misses") == misses as u64).then_some(());
    wait_for(&format!("{misses} misses"), mapped);
}

fn count(calls: &[Call], kind: &str) -> usize {
    calls.iter().filter(|call| call.kind() == kind).count()
}

#[test]
fn a_file_is_mapped_once_and_then_sent_without_being_read_but_for_its_tail() {
    if !has("strace") {
        return;
    }
    let site = site();
    let expected = std::fs::read(site.path().join("large.bin")).expect("the file is there");
    for (arch, looks) in [("sped", 0), ("amped", CHUNKS)] {
        let traced = Traced::start(&site, arch, &SETTINGS);
        let mut client = traced.warm("/large.bin");
        let calls = traced.calls(&mut client, |client| {
            for _ in 0..ROUNDS {
                assert!(client.ask(get("/large.bin")).body == expected, "{arch}");
            }
        });
        println!("{arch}: {:?} for {ROUNDS} bodies of {CHUNKS} chunks", tally(&calls));
        for kind in ["mmap", "munmap", "madvise", "sendfile"] {
            assert_eq!(count(&calls, kind), 0, "{arch}: {kind}: {calls:#?}");
        }
        // Each piece that leaves from a mapping is looked at before; one that the socket took only
        // in part is looked at again.
        let partly = calls.iter().filter(|call| call.kind() == "write").count();
        let looked = count(&calls, "mincore");
        assert!(looked >= looks * ROUNDS && looked <= looks.min(1) * partly, "{arch}: {calls:#?}");
        let tails = calls.iter().filter(|call| call.kind() == "pread64" || call.name == "preadv2");
        let tails: Vec<i64> = tails.map(|call| call.result).collect();
        assert!(tails.iter().all(|read| *read == TAIL_BYTES as i64), "{arch}: {tails:?}");
        assert!((ROUNDS..2 * ROUNDS).contains(&tails.len()), "{arch}: {tails:?}");
    }
}

#[test]
fn what_no_connection_sends_from_is_unmapped_when_there_is_no_room() {
    let site = site();
    for (room, misses) in [("128MiB", CHUNKS), ("128KiB", CHUNKS * ROUNDS)] {
        let server = start(&site, "sped", &[&format!("cache.mapped={room}")]);
        for _ in 0..ROUNDS {
            assert_eq!(server.connect().ask(get("/large.bin")).body.len(), LARGE_BYTES);
        }
        // Each round pushes out what the next will want first, or finds all.
        wait_for(&format!("{room}: so many hits and misses"), || {
            let [hits, found] = ["hits", "misses"].map(|what| counter(&server, what) as usize);
            ((hits, found) == (CHUNKS * ROUNDS - misses, misses)).then_some(())
        });
        let mapped = misses as u64 - counter(&server, "unmaps");
        assert!(mapped <= CHUNKS as u64 && (mapped == CHUNKS as u64 || mapped <= 2), "{room}");
    }
}

#[test]
fn what_is_never_held_does_not_stay_mapped_and_what_is_pinned_stays_longest() {
    let site = site();
    for unheld in [&["cache.policy=hinted", "cache.never=*.bin"][..], &["cache.most=100KiB"]] {
        let server = start(&site, "sped", unheld);
        for _ in 0..ROUNDS {
            assert_eq!(server.connect().ask(get("/large.bin")).body.len(), LARGE_BYTES);
        }
        wait_for_misses(&server, CHUNKS * ROUNDS);
        wait_for("all is unmapped", || {
            (counter(&server, "unmaps") == (CHUNKS * ROUNDS) as u64).then_some(())
        });
    }
    std::fs::copy(site.path().join("large.bin"), site.path().join("other.bin")).expect("a copy");
    let pinned = ["cache.policy=hinted", "cache.pin=large*", "cache.mapped=512KiB"];
    let server = start(&site, "sped", &pinned);
    for _ in 0..ROUNDS {
        for target in ["/large.bin", "/other.bin"] {
            assert_eq!(server.connect().ask(get(target)).body.len(), LARGE_BYTES, "{target}");
        }
    }
    // Of the other file, only the chunks for which there is no room are mapped again.
    let hits = wait_for("all is counted", || {
        let [hits, misses] = ["hits", "misses"].map(|what| counter(&server, what));
        (hits + misses == (2 * CHUNKS * ROUNDS) as u64).then_some(hits)
    });
    assert!(hits >= (CHUNKS * (ROUNDS - 1)) as u64, "{hits} hits");
}

#[test]
fn the_processes_of_mp_keep_as_much_mapped_as_the_paper_says() {
    let large = vec![7; 6 << 20];
    let site = Site::with(&[("large.bin", &large)]);
    let mapped = |settings: &[&str]| {
        let server = start(&site, "mp", &[&["mp.processes=1"], settings].concat());
        for _ in 0..2 {
            assert_eq!(server.connect().ask(get("/large.bin")).body.len(), large.len());
        }
        let all = large.len() / CHUNK_BYTES;
        wait_for("all is counted", || {
            let [hits, misses, unmaps] =
                ["hits", "misses", "unmaps"].map(|what| counter(&server, what));
            (hits + misses == 2 * all as u64).then(|| (misses - unmaps) * CHUNK_BYTES as u64)
        })
    };
    assert_eq!(mapped(&[]), 4 << 20);
    assert_eq!(mapped(&["cache.mapped=128MiB"]), 6 << 20);
}

#[test]
fn a_mapped_file_that_shrinks_costs_one_connection_and_no_process() {
    for arch in architectures() {
        let site = Site::with(&[("small.txt", b"small"), ("huge.bin", &vec![7; HUGE_BYTES])]);
        let server = start(&site, arch, &[]);
        let mut other = server.connect();
        assert_eq!(other.ask(get("/small.txt")).status(), 200, "{arch}");
        let processes = children(server.master());
        let mut client = server.connect();
        client.send(get("/huge.bin"));
        let head = client.response_head();
        assert_eq!(head.content_length(), Some(HUGE_BYTES), "{arch}");
        let path = site.path().join("huge.bin");
        let file = File::options().write(true).open(path).expect("it is there");
        file.set_len(100_000).expect("it can be cut short");
        let rest = client.rest();
        assert!(rest.len() < HUGE_BYTES, "{arch}: finished under a head that is not true");
        assert!(rest.iter().all(|byte| *byte == 7), "{arch}: bytes that the file never held");
        assert_eq!(other.ask(get("/small.txt")).body, b"small", "{arch}");
        assert_eq!(server.connect().ask(get("/huge.bin")).body.len(), 100_000, "{arch}");
        let left = children(server.master());
        assert!(processes.iter().all(|id| left.contains(id)), "{arch}: a process has died");
    }
}
