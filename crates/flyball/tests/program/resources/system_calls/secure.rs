//! What TLS adds to the calls of a worker: nothing for a request, and no call for its end.

use std::collections::BTreeMap;

use super::{BATCH, EVENT_DRIVEN, ROUNDS, without_waits};
use crate::common::trace::{Call, Traced, tally};
use crate::common::{Site, get, has, last_get, secure_config, wait_for};
use flyball_testkit::Client;
use tempfile::TempDir;

/// Plain text of a batch.
const BATCH_BYTES: usize = 64 * 1024;

/// A body of so many batches.
const BATCHES: usize = 160;

/// Architectures of each way to receive. The addresses in a log keep the sockets of a ring in the
/// table of its process, where calls show.
const RECEIVING: [(&str, &[&str]); 7] = [
    ("n-copy", &[]),
    ("knot-a", &[]),
    ("mp", &["mp.processes=20"]),
    ("mt", &["mt.threads=20"]),
    ("watpipe", &[]),
    ("tux", &[]),
    ("uring", &["access-log=/dev/null"]),
];

/// A site over TLS, and at a plain address, where the marks in the trace can be read.
fn start(arch: &str, more: &[&str]) -> (Traced, Site, TempDir) {
    let large = vec![b'x'; BATCHES * BATCH_BYTES];
    let site = Site::with(&[("small.txt", &[b'x'; 1024]), ("large.bin", &large)]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let config = secure_config(&directory, &site);
    let what = ["--config", &config, "--listen", "https://127.0.0.1:0"];
    let settings = [&["tls.redirect-http=false"], more].concat();
    let traced = Traced::start_from(&what, arch, &settings);
    (traced, site, directory)
}

fn only(calls: &[Call], kinds: [&str; 2]) -> Vec<Call> {
    calls.iter().filter(|call| kinds.contains(&call.kind())).cloned().collect()
}

#[test]
fn a_kept_request_over_tls_is_one_read_and_one_write() {
    if !has("strace") {
        return;
    }
    for arch in EVENT_DRIVEN {
        let (traced, _site, _directory) = start(arch, &[]);
        let mut marks = traced.warm("/small.txt");
        let mut client = traced.server.connect_secure();
        for _ in 0..3 {
            assert_eq!(client.ask(get("/small.txt")).status(), 200);
        }
        let calls = traced.calls(&mut marks, |_| {
            for _ in 0..ROUNDS {
                assert_eq!(client.ask(get("/small.txt")).body.len(), 1024);
            }
        });
        let (counts, waits) = without_waits(tally(&calls));
        println!("{arch}: {counts:?} and {waits} waits for {ROUNDS} requests");
        let budget = BTreeMap::from([("read", ROUNDS), ("write", ROUNDS)]);
        assert_eq!(counts, budget, "{arch}, {ROUNDS} requests: {calls:#?}");
    }
}

#[test]
fn the_last_word_of_a_handshake_is_acknowledged_once_and_no_request_is() {
    if !has("strace") {
        return;
    }
    for (arch, settings) in RECEIVING {
        if flyball_arch::find(arch).is_none_or(|arch| arch.probe().is_err()) {
            flyball_testkit::skip(&format!("{arch} cannot be used here"));
            continue;
        }
        let (traced, _site, _directory) = start(arch, settings);
        let acknowledged = || {
            let trace = std::fs::read_to_string(&traced.log).expect("there is a trace");
            trace.matches("TCP_QUICKACK, [1]").count()
        };
        let connect = |_| traced.server.connect_secure();
        let mut clients: Vec<Client> = (0..BATCH).map(connect).collect();
        // None has sent anything since.
        wait_for("acknowledgements", || (acknowledged() >= BATCH).then_some(()));
        for client in &mut clients {
            assert_eq!(client.ask(get("/small.txt")).body.len(), 1024);
            assert_eq!(client.ask(last_get("/small.txt")).body.len(), 1024);
            client.expect_closed();
        }
        assert_eq!(acknowledged(), BATCH, "{arch}");
    }
}

#[test]
fn the_end_is_told_in_the_write_of_the_last_record() {
    if !has("strace") {
        return;
    }
    let (traced, _site, _directory) = start("sped", &[]);
    let mut marks = traced.warm("/small.txt");
    let calls = traced.calls(&mut marks, |_| {
        for _ in 0..ROUNDS {
            let mut client = traced.server.connect_secure();
            assert_eq!(client.ask(last_get("/small.txt")).body.len(), 1024);
            // It sees that the end was told.
            client.expect_closed();
        }
    });
    let writes = only(&calls, ["write", "shutdown"]);
    // The server's part of the handshake, and the answer; then its side is shut down.
    let budget = BTreeMap::from([("shutdown", ROUNDS), ("write", 2 * ROUNDS)]);
    assert_eq!(tally(&writes), budget, "{ROUNDS} connections: {writes:#?}");
}

#[test]
fn a_large_body_over_tls_is_one_read_and_one_write_for_each_batch() {
    if !has("strace") {
        return;
    }
    let (traced, _site, _directory) = start("sped", &[]);
    let mut marks = traced.warm("/small.txt");
    let mut client = traced.server.connect_secure();
    assert_eq!(client.ask(get("/large.bin")).body.len(), BATCHES * BATCH_BYTES);
    let calls = traced.calls(&mut marks, |_| {
        assert_eq!(client.ask(get("/large.bin")).body.len(), BATCHES * BATCH_BYTES);
    });
    let counts = tally(&calls);
    println!("{counts:?} for {BATCHES} batches");
    // The head shares the first batch, so that the body ends in one more.
    assert_eq!(counts.get("pread64"), Some(&(BATCHES + 1)), "{calls:#?}");
    // What the socket took in part is sent on from there.
    let is_whole = |call: &&Call| call.kind() == "write" && call.result > BATCH_BYTES as i64;
    let whole = calls.iter().filter(is_whole).count();
    let writes = counts.get("write").copied().unwrap_or(0);
    let partial = writes - whole;
    println!("{whole} whole batches, {partial} parts");
    assert!(whole + partial / 2 <= BATCHES + 1, "{calls:#?}");
    // The memory of a record is used again: only buffers that are given back cost a call.
    let given_back = counts.get("madvise").copied().unwrap_or(0);
    assert!(given_back <= 8, "{given_back} times: {calls:#?}");
}
