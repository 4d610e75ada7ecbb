//! The hot path, counted: how many system calls a real worker makes for what a client does.

mod ages;
mod large_bodies;
mod programs;
mod secure;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Instant;

use crate::common::responder::{self, CONTENT, Responder};
use crate::common::sockets::{answered_at_once, wait_for_unread};
use crate::common::trace::{Call, Traced, tally, whole_calls};
use crate::common::{Site, get, has, last_get, rest, signal, stop_at_rest, wait_for};
use flyball_testkit::Client;

/// What a client does so many times while it is counted.
const ROUNDS: usize = 50;

/// Connections that wait at once, and requests in a pipelined batch.
const BATCH: usize = 16;

/// Event loops whose worker accepts, reads and writes by itself.
const EVENT_DRIVEN: [&str; 6] = ["sped", "symped", "n-copy", "amped", "knot-c", "knot-a"];

fn site() -> Site {
    Site::with(&[("small.txt", &[b'x'; 1024])])
}

/// How often a worker without work looks meanwhile whether anything else is to be done.
fn ticks_since(start: Instant) -> usize {
    const TICK_MS: u128 = 500;
    (start.elapsed().as_millis() / TICK_MS) as usize
}

/// Waits that told of something; the others timed out or were interrupted.
fn telling_waits(calls: &[Call]) -> usize {
    calls.iter().filter(|call| call.kind() == "wait" && call.result > 0).count()
}

/// Takes the waits for events out of a tally: they are amortised over all that is ready.
fn without_waits(mut counts: BTreeMap<&str, usize>) -> (BTreeMap<&str, usize>, usize) {
    let waits = counts.remove("wait").unwrap_or(0);
    (counts, waits)
}

#[test]
fn a_keep_alive_request_is_one_read_and_one_write() {
    if !has("strace") {
        return;
    }
    let site = site();
    for arch in EVENT_DRIVEN {
        let traced = Traced::start(&site, arch, &[]);
        let mut client = traced.warm("/small.txt");
        let calls = traced.calls(&mut client, |client| {
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
fn a_request_that_is_logged_makes_no_call_more() {
    if !has("strace") {
        return;
    }
    let site = site();
    for arch in EVENT_DRIVEN {
        let traced = Traced::start(&site, arch, &["access-log=/dev/null", "log.format=combined"]);
        let mut client = traced.warm("/small.txt");
        let calls = traced.calls(&mut client, |client| {
            for _ in 0..ROUNDS {
                assert_eq!(client.ask(get("/small.txt")).body.len(), 1024);
            }
        });
        // Lines that have waited for a second are handed over.
        let (batches, calls): (Vec<Call>, Vec<Call>) =
            calls.into_iter().partition(|call| call.arguments.contains("\"127.0.0.1 - - ["));
        let (counts, _) = without_waits(tally(&calls));
        let budget = BTreeMap::from([("read", ROUNDS), ("write", ROUNDS)]);
        assert_eq!(counts, budget, "{arch}, {ROUNDS} requests: {calls:#?}");
        assert!(batches.len() <= ROUNDS / 10, "{arch}: {batches:#?}");
    }
}

#[test]
fn a_blocking_thread_makes_two_calls_for_a_request_and_waits_in_the_read() {
    if !has("strace") {
        return;
    }
    let site = site();
    for (arch, setting) in BLOCKING {
        let traced = Traced::start(&site, arch, &[setting]);
        let budget = BTreeMap::from([("read", ROUNDS), ("write", ROUNDS)]);
        check_blocking(&traced, arch, "/small.txt", &[b'x'; 1024], budget);
    }
}

#[test]
fn a_blocking_thread_makes_five_calls_for_a_request_over_a_link_that_is_kept() {
    if !has("strace") {
        return;
    }
    let responder = Responder::start();
    let config = responder.config(4);
    for (arch, setting) in BLOCKING {
        let traced = Traced::start_from(&["--config", &config], arch, &[setting]);
        // One is the look at the link before it is used again; the thread waits in the receives.
        let budget = BTreeMap::from([("read", 3 * ROUNDS), ("write", 2 * ROUNDS)]);
        check_blocking(&traced, arch, responder::PATH, CONTENT, budget);
    }
}

#[test]
fn a_request_over_a_link_that_is_kept_enters_a_ring_and_calls_no_more_than_that_leaves_to_it() {
    if !has("strace") {
        return;
    }
    let responder = Responder::start();
    let config = responder.config(4);
    // The ring of `tux` tells of sockets, that of `uring` receives and sends as well.
    let called = BTreeMap::from([("read", 2 * ROUNDS), ("write", 2 * ROUNDS)]);
    for (arch, budget) in [("tux", called), ("uring", BTreeMap::new())] {
        if flyball_arch::find(arch).is_none_or(|arch| arch.probe().is_err()) {
            flyball_testkit::skip("io_uring cannot be used here");
            continue;
        }
        let traced = Traced::start_from(&["--config", &config], arch, &[]);
        let mut client = traced.warm(responder::PATH);
        let start = Instant::now();
        let ask = |client: &mut Client| {
            for _ in 0..ROUNDS {
                assert_eq!(client.ask(get(responder::PATH)).body, CONTENT);
            }
        };
        let calls = match arch {
            "tux" => traced.calls(&mut client, ask),
            // No call shows what is received from a client.
            _ => traced.calls_of_worker(|| ask(&mut client)),
        };
        let ticks = ticks_since(start);
        let mut counts = tally(&calls);
        println!("{arch}: {counts:?} for {ROUNDS} requests");
        let entered = counts.remove("io_uring_enter").unwrap_or(0);
        // When the allocator gives memory back that is empty is its own concern.
        counts.remove("madvise");
        assert_eq!(counts, budget, "{arch}: {calls:#?}");
        assert!(entered <= 4 * ROUNDS + 4 + ticks, "{arch}: {entered} for {ROUNDS} requests");
    }
}

/// Architectures whose threads block, with a setting that keeps them few.
const BLOCKING: [(&str, &str); 3] = [
    ("mp", "mp.processes=1"),
    ("mt", "mt.threads=4"),
    ("thread-per-connection", "thread.stack=256KiB"),
];

/// Asks for a path again and again, and compares the calls that a blocking thread makes for that.
fn check_blocking(
    traced: &Traced,
    arch: &str,
    path: &str,
    content: &[u8],
    budget: BTreeMap<&str, usize>,
) {
    let mut client = traced.warm(path);
    let start = Instant::now();
    let calls = traced.calls(&mut client, |client| {
        for _ in 0..ROUNDS {
            assert_eq!(client.ask(get(path)).body, content);
        }
    });
    let ticks = ticks_since(start);
    // What a tick makes: a receive times out, buffers go, a wait takes its place, and the
    // process finds that it was not told to end.
    let of_tick = |call: &&Call| {
        let is_look = call.arguments.contains("MSG_PEEK");
        call.result < 0 && !is_look || ["wait", "madvise"].contains(&call.kind())
    };
    let answered: Vec<Call> = calls.iter().filter(|call| !of_tick(call)).cloned().collect();
    println!("{arch}: {:?} for {ROUNDS} requests", tally(&answered));
    // A lock that another thread holds is the one other call that may be seen.
    let (futexes, other): (Vec<Call>, Vec<Call>) =
        answered.iter().cloned().partition(|call| call.name == "futex");
    assert_eq!(tally(&other), budget, "{arch}, {ROUNDS} requests: {calls:#?}");
    assert!(futexes.len() <= ROUNDS / 10, "{arch}: {} futex calls", futexes.len());
    let of_ticks = calls.len() - answered.len();
    assert!(of_ticks <= 4 * (1 + ticks), "{arch} does not spin in {ticks} ticks: {calls:#?}");
}

#[test]
fn a_request_that_a_responder_answers_is_sent_and_received_once_on_each_side() {
    if !has("strace") {
        return;
    }
    let responder = Responder::start();
    // What there is beside that: a link of its own. One that is kept stays watched.
    let own = [("close", 1), ("connect", 1), ("epoll_ctl", 1), ("read", 2), ("socket", 1)];
    let kept = [("read", 2)];
    for (links, each) in [(0, BTreeMap::from(own)), (4, BTreeMap::from(kept))] {
        let config = responder.config(links);
        for arch in ["sped", "n-copy", "amped", "knot-c", "knot-a"] {
            let traced = Traced::start_from(&["--config", &config], arch, &[]);
            let mut client = traced.warm(responder::PATH);
            let calls = traced.calls(&mut client, |client| {
                for _ in 0..ROUNDS {
                    assert_eq!(client.ask(get(responder::PATH)).body, CONTENT);
                }
            });
            let (counts, waits) = without_waits(tally(&calls));
            println!("{arch}, {links} links: {counts:?} and {waits} waits for {ROUNDS} requests");
            let mut budget: BTreeMap<&str, usize> =
                each.iter().map(|(name, count)| (*name, count * ROUNDS)).collect();
            budget.insert("write", 2 * ROUNDS);
            assert_eq!(counts, budget, "{arch}, {links} links: {calls:#?}");
        }
    }
}

#[test]
fn a_process_that_shares_its_files_sends_each_from_its_descriptor() {
    if !has("strace") {
        return;
    }
    let site = site();
    let copied = [("pread64", ROUNDS), ("read", ROUNDS), ("stat", ROUNDS), ("write", 2 * ROUNDS)];
    let sent = [("read", ROUNDS), ("sendfile", ROUNDS), ("stat", ROUNDS), ("write", ROUNDS)];
    for (mode, budget) in [("send.mode=copy", copied), ("send.mode=sendfile", sent)] {
        let traced = Traced::start(&site, "shared-symped", &[mode]);
        let mut client = traced.warm("/small.txt");
        let calls = traced.calls(&mut client, |client| {
            for _ in 0..ROUNDS {
                assert_eq!(client.ask(get("/small.txt")).body.len(), 1024);
            }
        });
        let (counts, waits) = without_waits(tally(&calls));
        println!("{mode}: {counts:?} and {waits} waits for {ROUNDS} requests");
        assert_eq!(counts, BTreeMap::from(budget), "{mode}, {ROUNDS} requests: {calls:#?}");
    }
}

#[test]
fn a_ring_is_entered_twice_for_a_request_and_nothing_else_is_called() {
    let runs = flyball_arch::find("uring").is_some_and(|arch| arch.probe().is_ok());
    if !has("strace") {
        return;
    }
    if !runs {
        return flyball_testkit::skip("io_uring cannot be used here");
    }
    let site = site();
    let traced = Traced::start(&site, "uring", &[]);
    let mut client = traced.warm("/small.txt");
    let start = Instant::now();
    let calls = traced.calls_on_a_ring(&mut client);
    let ticks = ticks_since(start);
    let counts = tally(&calls);
    println!("uring: {counts:?} for {ROUNDS} requests");
    let entered = counts.get("io_uring_enter").copied().unwrap_or(0);
    assert_eq!(counts.len(), 1, "only the ring is used: {counts:?}");
    assert!(entered <= 2 * ROUNDS + 4 + ticks, "{entered} for {ROUNDS} requests");
}

#[test]
fn a_connection_for_one_request_is_served_by_entering_the_ring_and_nothing_else() {
    let runs = flyball_arch::find("uring").is_some_and(|arch| arch.probe().is_ok());
    if !has("strace") {
        return;
    }
    if !runs {
        return flyball_testkit::skip("io_uring cannot be used here");
    }
    let site = site();
    for limit in ["accept.limit=inf", "accept.limit=16"] {
        let traced = Traced::start(&site, "uring", &[limit]);
        traced.warm_and_close("/small.txt");
        let start = Instant::now();
        let calls = traced.calls_of_worker(|| {
            for _ in 0..ROUNDS {
                let mut client = traced.server.connect();
                assert_eq!(client.ask(last_get("/small.txt")).body.len(), 1024);
                client.expect_closed();
            }
        });
        let ticks = ticks_since(start);
        let counts = tally(&calls);
        println!("uring, {limit}: {counts:?} for {ROUNDS} connections");
        let entered = counts.get("io_uring_enter").copied().unwrap_or(0);
        assert_eq!(counts.len(), 1, "only the ring is used: {counts:?}");
        // One at a time: the connection, its request, and its answer with the close.
        let budget = 3 * ROUNDS + 4 + ticks;
        assert!(entered <= budget, "{limit}: {entered} for {ROUNDS} connections");
    }
}

#[test]
fn connections_that_come_together_share_the_entering_of_the_ring() {
    let runs = flyball_arch::find("uring").is_some_and(|arch| arch.probe().is_ok());
    if !has("strace") {
        return;
    }
    if !runs {
        return flyball_testkit::skip("io_uring cannot be used here");
    }
    let site = site();
    let traced = Traced::start(&site, "uring", &["accept.limit=inf"]);
    traced.warm_and_close("/small.txt");
    let worker = traced.server.worker();
    let calls = traced.calls_of_worker(|| {
        stop_at_rest(worker);
        let mut clients: Vec<Client> = (0..BATCH).map(|_| traced.server.connect()).collect();
        for client in &mut clients {
            client.send(last_get("/small.txt"));
        }
        wait_for_unread(traced.server.port, clients.len());
        signal(worker, "CONT");
        for client in &mut clients {
            assert_eq!(client.response().status(), 200);
            client.expect_closed();
        }
    });
    let entered = tally(&calls).get("io_uring_enter").copied().unwrap_or(0);
    println!("uring: {entered} calls for {BATCH} connections");
    assert!(entered <= BATCH, "{entered} for {BATCH} connections: {calls:#?}");
}

impl Traced {
    /// On a ring no call shows what was received: everything that the worker calls is taken, from
    /// when the connection is warm until all is answered.
    fn calls_on_a_ring(&self, client: &mut Client) -> Vec<Call> {
        self.calls_of_worker(|| {
            for _ in 0..ROUNDS {
                assert_eq!(client.ask(get("/small.txt")).body.len(), 1024);
            }
        })
    }

    fn calls_of_worker(&self, act: impl FnOnce()) -> Vec<Call> {
        let worker = self.server.worker().to_string();
        let of_worker = || {
            let trace = std::fs::read_to_string(&self.log).expect("there is a trace");
            let calls = whole_calls(&trace).into_iter();
            calls.filter(|(by, _)| *by == worker).map(|(_, call)| call).collect::<Vec<_>>()
        };
        let before = of_worker().len();
        act();
        of_worker().split_off(before)
    }
}

/// System calls of a pipeline for one request, when it is alone: what each stage does for it, and
/// the waking of the next stage's thread. Under load threads are awake, and waits are amortised.
const PIPELINE_CALLS: [(&str, usize); 5] = [
    // ReadPoll is told, Read receives, Write sends and lets ReadPoll watch again.
    ("wait", 1),
    ("read", 1),
    ("write", 1),
    ("epoll_ctl", 1),
    // ReadPoll wakes Read, and Read wakes Write: one call wakes, and another slept.
    ("futex", 4),
];

/// Futex calls beyond those: of the first mark and of the second, which are counted in part.
const FUTEXES_MORE: usize = 4;

/// Calls without those whose number is the scheduler's. Those for locks: one is held while
/// ReadPoll's event is armed, which takes long under strace. A thread that waits for one expects 2
/// there, which the standard library writes where another thread waits; other numbers that are
/// waited for only grow. And waits that came after the waking, which do not sleep and are made
/// again.
fn without_locks(calls: &[Call]) -> Vec<Call> {
    fn place(call: &Call) -> Option<&str> {
        call.arguments.split(',').next().filter(|_| call.name == "futex")
    }
    let waits = || calls.iter().filter(|call| call.arguments.contains("FUTEX_WAIT"));
    let is_for_lock = |call: &&Call| call.arguments.contains("FUTEX_WAIT_BITSET_PRIVATE, 2, ");
    let mut locks: BTreeSet<&str> = waits().filter(is_for_lock).filter_map(place).collect();
    for call in waits().filter(|call| !is_for_lock(call)) {
        place(call).map(|place| locks.remove(place));
    }
    let is_other = |call: &&Call| place(call).is_none_or(|place| !locks.contains(place));
    let slept = |call: &&Call| call.result >= 0 || !call.arguments.contains("FUTEX_WAIT");
    calls.iter().filter(is_other).filter(slept).cloned().collect()
}

#[test]
fn a_pipeline_makes_eight_calls_for_a_request_that_is_alone() {
    if !has("strace") {
        return;
    }
    let site = site();
    let traced = Traced::start(&site, "watpipe", &[]);
    let mut client = traced.warm("/small.txt");
    let calls = traced.calls_of_all_threads(&mut client, |client| {
        for _ in 0..ROUNDS {
            assert_eq!(client.ask(get("/small.txt")).body.len(), 1024);
        }
    });
    let calls = without_locks(&calls);
    let counts = tally(&calls);
    println!("watpipe: {counts:?} for {ROUNDS} requests");
    let kinds: Vec<&str> = PIPELINE_CALLS.iter().map(|(kind, _)| *kind).collect();
    assert!(counts.keys().all(|kind| kinds.contains(kind)), "{counts:?}: {calls:#?}");
    for (kind, each) in PIPELINE_CALLS {
        let more = match kind {
            "futex" => FUTEXES_MORE,
            // Each poll thread looks at the time twice a second.
            "wait" => ROUNDS / 2,
            // The end of the first mark's connection to the poll stage may be counted here.
            "epoll_ctl" => 1,
            _ => 0,
        };
        let made = counts.get(kind).copied().unwrap_or(0);
        assert!(made <= each * ROUNDS + more, "{made} of {kind} for {ROUNDS} requests: {calls:#?}");
    }
}

#[test]
fn a_pipeline_arms_each_end_that_waits_and_looks_at_no_link_that_is_kept() {
    if !has("strace") {
        return;
    }
    let responder = Responder::start();
    let config = responder.config(4);
    let traced = Traced::start_from(&["--config", &config], "watpipe", &[]);
    let mut client = traced.warm(responder::PATH);
    let calls = traced.calls_of_all_threads(&mut client, |client| {
        for _ in 0..ROUNDS {
            assert_eq!(client.ask(get(responder::PATH)).body, CONTENT);
        }
    });
    let calls = without_locks(&calls);
    let mut counts = tally(&calls);
    println!("watpipe: {counts:?} for {ROUNDS} requests");
    // Waits and wake-ups are shared under load; when the allocator gives memory back is its own.
    for kind in ["wait", "futex", "madvise"] {
        counts.remove(kind);
    }
    // The client and its link while that is waited for, then the link at rest, and the client.
    let armed = counts.remove("epoll_ctl").unwrap_or(0);
    assert!(armed <= 4 * ROUNDS + 1, "{armed} for {ROUNDS} requests: {calls:#?}");
    let budget = BTreeMap::from([("read", 2 * ROUNDS), ("write", 2 * ROUNDS)]);
    assert_eq!(counts, budget, "{calls:#?}");
}

#[test]
fn a_pipeline_does_not_wake_threads_that_are_awake() {
    if !has("strace") {
        return;
    }
    let site = site();
    // The poll thread finds all at once, and each stage has one thread.
    let settings = ["watpipe.partitions=1", "watpipe.writers=1"];
    let traced = Traced::start(&site, "watpipe", &settings);
    let worker = traced.server.worker();
    let mut marker = traced.warm("/small.txt");
    let mut clients: Vec<Client> = (0..BATCH).map(|_| traced.warm("/small.txt")).collect();
    let calls = traced.calls_of_all_threads(&mut marker, |_| {
        answered_at_once(worker, traced.server.port, &mut clients);
    });
    let counts = tally(&calls);
    println!("watpipe: {counts:?} for {BATCH} requests at once");
    assert_eq!((counts["read"], counts["write"]), (BATCH, BATCH), "{calls:#?}");
    let calls = without_locks(&calls);
    let futexes = |kind: &str| calls.iter().filter(|call| call.arguments.contains(kind)).count();
    let (slept, woken) = (futexes("FUTEX_WAIT"), futexes("FUTEX_WAKE"));
    // Two of them slept at first.
    assert!(woken <= slept + 2, "{woken} are woken, {slept} slept: {calls:#?}");
}

impl Traced {
    /// The calls that `act` causes in all threads of the worker, between the answers to two marks.
    fn calls_of_all_threads(
        &self,
        client: &mut Client,
        act: impl FnOnce(&mut Client),
    ) -> Vec<Call> {
        // A thread that begins only now would make calls of its own.
        let worker = self.server.worker();
        rest(worker);
        let tasks = std::fs::read_dir(format!("/proc/{worker}/task"));
        let names = tasks.expect("the worker runs").map(|task| task.expect("a thread").file_name());
        let threads: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
        assert_eq!(client.ask(get("/begin")).status(), 404);
        act(client);
        assert_eq!(client.ask(get("/end")).status(), 404);
        wait_for("the end in the trace", || {
            let trace = std::fs::read_to_string(&self.log).expect("there is a trace");
            let calls = whole_calls(&trace).into_iter();
            let own = calls.filter(|(by, _)| threads.iter().any(|thread| thread == by));
            let own: Vec<Call> = own.map(|(_, call)| call).collect();
            let at = |mark: &str| own.iter().position(|call| call.arguments.contains(mark));
            let (begin, end) = (at("\"GET /begin ")?, at("\"GET /end ")?);
            let after = own[begin..end].iter().skip_while(|call| call.kind() != "write").skip(1);
            Some(after.cloned().collect())
        })
    }
}

#[test]
fn one_wait_serves_all_connections_that_are_ready() {
    if !has("strace") {
        return;
    }
    let site = site();
    let traced = Traced::start(&site, "sped", &[]);
    let worker = traced.server.worker();
    let mut marker = traced.warm("/small.txt");
    let mut clients: Vec<Client> = (0..BATCH).map(|_| traced.warm("/small.txt")).collect();
    let calls = traced.calls(&mut marker, |_| {
        answered_at_once(worker, traced.server.port, &mut clients);
    });
    let (counts, _) = without_waits(tally(&calls));
    let budget = BTreeMap::from([("read", BATCH), ("write", BATCH)]);
    assert_eq!(counts, budget, "{calls:#?}");
    // The one that tells of everything, and that of the second mark.
    let waits = telling_waits(&calls);
    assert!(waits <= 2, "{waits} waits for {BATCH} requests: {calls:#?}");
}

#[test]
fn a_connection_for_one_request_is_four_calls() {
    if !has("strace") {
        return;
    }
    let site = site();
    for arch in EVENT_DRIVEN {
        // A phase that takes one connection need not look whether the queue is empty.
        let traced = Traced::start(&site, arch, &["accept.limit=1"]);
        let mut marker = traced.warm("/small.txt");
        // Where connections have threads, the second at once is the first that uses this stack.
        traced.warm_and_close("/small.txt");
        let calls = traced.calls(&mut marker, |_| {
            for _ in 0..ROUNDS {
                let mut client = traced.server.connect();
                assert_eq!(client.ask(last_get("/small.txt")).body.len(), 1024);
                client.expect_closed();
            }
        });
        let (counts, waits) = without_waits(tally(&calls));
        println!("{arch}: {counts:?} and {waits} waits for {ROUNDS} connections");
        let kinds = ["accept4", "close", "read", "write"];
        assert_eq!(counts, BTreeMap::from(kinds.map(|kind| (kind, ROUNDS))), "{arch}: {calls:#?}");
    }
}

#[test]
fn an_accept_phase_looks_at_an_empty_queue_at_most_once() {
    if !has("strace") {
        return;
    }
    let site = site();
    let traced = Traced::start(&site, "sped", &["accept.limit=inf"]);
    let worker = traced.server.worker();
    let mut marker = traced.warm("/small.txt");
    let calls = traced.calls(&mut marker, |_| {
        stop_at_rest(worker);
        let mut clients: Vec<Client> = (0..BATCH).map(|_| traced.server.connect()).collect();
        for client in &mut clients {
            client.send(last_get("/small.txt"));
        }
        wait_for_unread(traced.server.port, clients.len());
        signal(worker, "CONT");
        for client in &mut clients {
            assert_eq!(client.response().status(), 200);
            client.expect_closed();
        }
    });
    let (mut counts, _) = without_waits(tally(&calls));
    assert_eq!(counts.remove("empty accept"), Some(1), "{calls:#?}");
    let kinds = ["accept4", "close", "read", "write"];
    assert_eq!(counts, BTreeMap::from(kinds.map(|kind| (kind, BATCH))), "{calls:#?}");
    let waits = telling_waits(&calls);
    assert!(waits <= 2, "{waits} waits for {BATCH} connections: {calls:#?}");
}

#[test]
fn a_pipelined_batch_is_one_read_and_one_write() {
    if !has("strace") {
        return;
    }
    let site = site();
    for arch in EVENT_DRIVEN {
        let traced = Traced::start(&site, arch, &[]);
        let mut client = traced.warm("/small.txt");
        let calls = traced.calls(&mut client, |client| {
            for _ in 0..ROUNDS {
                client.send(get("/small.txt").repeat(BATCH));
                for _ in 0..BATCH {
                    assert_eq!(client.response().body.len(), 1024);
                }
            }
        });
        let (counts, _) = without_waits(tally(&calls));
        println!("{arch}: {counts:?} for {ROUNDS} batches of {BATCH}");
        let budget = BTreeMap::from([("read", ROUNDS), ("write", ROUNDS)]);
        assert_eq!(counts, budget, "{arch}: {calls:#?}");
    }
}

/// An entry into the ring that waits: `io_uring_enter(5, 0, 1, IORING_ENTER_GETEVENTS|...)`.
fn waits_on_the_ring(call: &Call) -> bool {
    call.name == "io_uring_enter" && call.arguments.split(", ").nth(2) != Some("0")
}

/// `tux` under strace, if it runs here.
fn traced_tux(site: &Site, settings: &[&str]) -> Option<Traced> {
    if !has("strace") {
        return None;
    }
    if flyball_arch::find("tux").is_none_or(|arch| arch.probe().is_err()) {
        flyball_testkit::skip("io_uring cannot be used here");
        return None;
    }
    Some(Traced::start(site, "tux", settings))
}

#[test]
fn a_request_to_tux_is_one_read_and_one_write_and_the_ring_is_entered_twice_at_most() {
    let site = site();
    let Some(traced) = traced_tux(&site, &[]) else { return };
    let mut client = traced.warm("/small.txt");
    let start = Instant::now();
    let calls = traced.calls(&mut client, |client| {
        for _ in 0..ROUNDS {
            assert_eq!(client.ask(get("/small.txt")).body.len(), 1024);
        }
    });
    let ticks = ticks_since(start);
    let mut counts = tally(&calls);
    println!("tux: {counts:?} for {ROUNDS} requests, one after the other");
    let entered = counts.remove("io_uring_enter").unwrap_or(0);
    assert_eq!(counts, BTreeMap::from([("read", ROUNDS), ("write", ROUNDS)]), "{calls:#?}");
    // One hands the callback over, one sleeps; a counter that is published may come between.
    let budget = 2 * ROUNDS + 4 + ticks;
    assert!(entered <= budget, "{entered} for {ROUNDS} requests: {calls:#?}");
}

#[test]
fn a_connection_to_tux_is_four_calls_and_a_look_at_the_empty_queue() {
    let site = site();
    let Some(traced) = traced_tux(&site, &[]) else { return };
    let mut marker = traced.warm("/small.txt");
    let start = Instant::now();
    let calls = traced.calls(&mut marker, |_| {
        for _ in 0..ROUNDS {
            let mut client = traced.server.connect();
            assert_eq!(client.ask(last_get("/small.txt")).body.len(), 1024);
            client.expect_closed();
        }
    });
    let ticks = ticks_since(start);
    let mut counts = tally(&calls);
    println!("tux: {counts:?} for {ROUNDS} connections, one after the other");
    let entered = counts.remove("io_uring_enter").unwrap_or(0);
    let looks = counts.remove("empty accept").unwrap_or(0);
    let kinds = ["accept4", "close", "read", "write"];
    assert_eq!(counts, BTreeMap::from(kinds.map(|kind| (kind, ROUNDS))), "{calls:#?}");
    let budget = 2 * ROUNDS + 4 + ticks;
    assert!(looks <= ROUNDS && entered <= budget, "{looks} {entered}: {calls:#?}");
}

/// All requests are there before the worker looks: it reads and answers them all before it waits,
/// and the one that came last is the first.
#[test]
#[ignore = "full tier"]
fn tux_never_waits_while_work_is_pending_and_works_on_the_newest_first() {
    let site = site();
    let Some(traced) = traced_tux(&site, &[]) else { return };
    let worker = traced.server.worker();
    let mut marker = traced.warm("/small.txt");
    let mut clients: Vec<Client> = (0..BATCH).map(|_| traced.warm("/small.txt")).collect();
    let calls = traced.calls(&mut marker, |_| {
        stop_at_rest(worker);
        for (at, client) in clients.iter_mut().enumerate() {
            client.send(get(&format!("/small.txt?{at}")));
            wait_for_unread(traced.server.port, at + 1);
        }
        signal(worker, "CONT");
        for client in &mut clients {
            assert_eq!(client.response().status(), 200);
        }
    });
    let is_read = |call: &Call| call.kind() == "read" && call.result > 0;
    let first = calls.iter().position(is_read).expect("requests are read");
    let last = calls.iter().rposition(|call| call.kind() == "write").expect("they are answered");
    let busy = &calls[first..=last];
    let waits = busy.iter().filter(|call| waits_on_the_ring(call)).count();
    assert_eq!(waits, 0, "work is pending: {busy:#?}");
    let asked = |call: &Call| {
        let (_, rest) = call.arguments.split_once("/small.txt?")?;
        rest.split(' ').next()?.parse::<usize>().ok()
    };
    let order: Vec<usize> = busy.iter().filter(|call| is_read(call)).filter_map(asked).collect();
    let newest_first: Vec<usize> = (0..BATCH).rev().collect();
    assert_eq!(order, newest_first, "{busy:#?}");
}

/// Connections that [`tux_waits_rarely_under_load`] keeps busy, and how often all ask at once.
const BUSY: usize = 32;
const BURSTS: usize = 8;

#[test]
#[ignore = "full tier"]
fn tux_waits_rarely_under_load() {
    let site = site();
    let Some(traced) = traced_tux(&site, &[]) else { return };
    let worker = traced.server.worker();
    let mut marker = traced.warm("/small.txt");
    let mut clients: Vec<Client> = (0..BUSY).map(|_| traced.warm("/small.txt")).collect();
    let start = Instant::now();
    let calls = traced.calls(&mut marker, |_| {
        for _ in 0..BURSTS {
            stop_at_rest(worker);
            clients.iter_mut().for_each(|client| client.send(get("/small.txt")));
            wait_for_unread(traced.server.port, clients.len());
            signal(worker, "CONT");
            for client in &mut clients {
                assert_eq!(client.response().status(), 200);
            }
        }
    });
    let ticks = ticks_since(start);
    let requests = BUSY * BURSTS;
    let waits = calls.iter().filter(|call| waits_on_the_ring(call)).count();
    let counts = tally(&calls);
    println!("tux: {counts:?} and {waits} waits for {requests} requests on {BUSY} connections");
    assert!(counts["read"] >= requests, "{counts:?}");
    // Each stop ends one and each start begins one.
    assert!(waits <= 4 * BURSTS + ticks, "{waits} waits for {requests} requests");
    // Callbacks are handed over many at a time.
    assert!(counts["io_uring_enter"] <= requests / 2 + ticks, "{counts:?}");
}

/// The accept-limit of a running server, as `flyball ctl` sets it.
fn set_accept_limit(admin: &str, limit: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
    let output = command.args(["ctl", "set", "accept.limit", limit, "--admin", admin]).output();
    let output = output.expect("flyball runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_accept_phase_of_tux_keeps_to_the_limit_that_was_set_while_it_runs() {
    let site = site();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let admin =
        format!("unix:{}", crate::common::text(&crate::common::within(&directory, "admin")));
    let setting = format!("admin={admin}");
    let Some(traced) = traced_tux(&site, &[&setting, "accept.limit=inf"]) else { return };
    let mut marker = traced.warm("/small.txt");
    let worker = traced.serving();
    for (limit, phase) in [("2", 2), ("inf", BATCH), ("1", 1)] {
        set_accept_limit(&admin, limit);
        let calls = traced.calls_between(&mut marker, &format!("limit-{limit}"), |_| {
            stop_at_rest(worker);
            let mut clients: Vec<Client> = (0..BATCH).map(|_| traced.server.connect()).collect();
            clients.iter_mut().for_each(|client| client.send(last_get("/small.txt")));
            wait_for_unread(traced.server.port, clients.len());
            signal(worker, "CONT");
            for client in &mut clients {
                assert_eq!(client.response().status(), 200);
                client.expect_closed();
            }
        });
        // Accepted and parsed in one phase, then answered in the next.
        let kinds = calls.iter().map(Call::kind).filter(|kind| ["accept4", "write"].contains(kind));
        let kinds: Vec<&str> = kinds.collect();
        let phases: Vec<usize> = kinds
            .chunk_by(|a, b| a == b)
            .filter(|run| run[0] == "accept4")
            .map(<[_]>::len)
            .collect();
        assert_eq!(phases, vec![phase; BATCH / phase], "limit {limit}: {calls:#?}");
    }
}
