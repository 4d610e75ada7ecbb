//! Each switch of `experiment.*` does what it says, counted in system calls, and nothing when it
//! is not touched.
use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::trace::{Call, Traced, tally};
use crate::common::{Launch, Site, get, has, last_get, wait_for};

/// What a client does so many times while it is counted.
const ROUNDS: usize = 20;

/// Bytes of the file that is asked for.
const BYTES: usize = 1024;

/// For longer than this, a file is too young for the caches.
const YOUNG: Duration = Duration::from_millis(200);

/// Where it is: three directories deep, the root included.
const TARGET: &str = "/a/b/small.txt";

fn site() -> Site {
    let site = Site::with(&[]);
    let path = site.path().join(&TARGET[1..]);
    std::fs::create_dir_all(path.parent().expect("it is in a directory")).expect("it is made");
    std::fs::write(&path, [b'x'; BYTES]).expect("it is written");
    // A younger one does not enter the caches.
    let is_old = || {
        let changed = std::fs::metadata(&path).and_then(|found| found.modified()).ok()?;
        changed.elapsed().is_ok_and(|age| age > YOUNG).then_some(())
    };
    wait_for("the file is old enough", is_old);
    site
}

/// The calls for [`ROUNDS`] requests over a kept connection, without the waits for events.
fn calls(arch: &str, settings: &[&str]) -> Vec<Call> {
    let site = site();
    let traced = Traced::start(&site, arch, settings);
    let mut client = traced.warm(TARGET);
    let mut calls = traced.calls(&mut client, |client| {
        for _ in 0..ROUNDS {
            assert_eq!(client.ask(get(TARGET)).body, [b'x'; BYTES], "{settings:?}");
        }
    });
    calls.retain(|call| call.kind() != "wait");
    println!("{arch} {settings:?}: {:?} for {ROUNDS} requests", tally(&calls));
    calls
}

/// Each of these calls so many times for each request, and no other.
#[track_caller]
fn assert_each(calls: &[Call], each: &[(&str, usize)]) {
    let expected: BTreeMap<&str, usize> =
        each.iter().map(|(kind, times)| (*kind, times * ROUNDS)).collect();
    assert_eq!(tally(calls), expected, "{calls:#?}");
}

const PLAIN: [(&str, usize); 2] = [("read", 1), ("write", 1)];

#[test]
fn switches_at_their_defaults_cost_no_call() {
    if !has("strace") {
        return;
    }
    let switches = [
        "experiment.date-cache=true",
        "experiment.gather=true",
        "experiment.entry-locks=entry",
        "experiment.directory-config=false",
        "experiment.accept-lock=off",
        "experiment.signal-mask=false",
    ];
    assert_each(&calls("symped", &switches), &PLAIN);
}

#[test]
fn without_the_path_cache_each_request_opens_its_file_and_looks_at_it() {
    if !has("strace") {
        return;
    }
    let looked = calls("sped", &["cache.paths=0"]);
    assert_each(&looked, &[&PLAIN[..], &[("openat2", 1), ("stat", 1), ("close", 1)]].concat());
}

#[test]
fn without_the_content_cache_nothing_is_kept_of_a_file() {
    if !has("strace") {
        return;
    }
    // Translated, settled, and read from its descriptor with a look before the end. When memory
    // goes back to the system depends on what lies beside it.
    let read = [("openat2", 1), ("lseek", 1), ("pread64", 1), ("close", 1), ("read", 1)];
    let mut found = calls("sped", &["cache.content=0", "cache.files=0", "send.mode=copy"]);
    found.retain(|call| call.name != "madvise");
    assert_each(&found, &[&read[..], &[("stat", 2), ("write", 2)]].concat());
}

#[test]
fn without_the_head_cache_and_the_date_cache_no_call_is_made_and_the_answer_is_the_same() {
    if !has("strace") {
        return;
    }
    for switch in ["cache.heads=false", "experiment.date-cache=false"] {
        assert_each(&calls("sped", &[switch]), &PLAIN);
    }
    let site = site();
    let head = |settings: &[&str]| {
        let launch = Launch::new(&site, "sped");
        let server = settings.iter().fold(launch, |launch, setting| launch.set(setting)).start();
        let mut client = server.connect();
        client.ask(get(TARGET));
        let answer = client.ask(get(TARGET));
        // The file may have been made in the second that the answer was.
        let date = format!("Date: {}", answer.expect("Date"));
        (answer.head.replacen(&date, "", 1), date.len())
    };
    assert_eq!(head(&["cache.heads=false", "experiment.date-cache=false"]), head(&[]));
}

#[test]
fn without_gathering_head_and_body_are_two_writes() {
    if !has("strace") {
        return;
    }
    for arch in ["sped", "mt"] {
        let settings = ["experiment.gather=false", "mt.threads=1"];
        let settings = if arch == "mt" { &settings[..] } else { &settings[..1] };
        let mut found = calls(arch, settings);
        // Nor what a thread does that has had nothing to do for half a second.
        found.retain(|call| call.result >= 0 && !["futex", "madvise"].contains(&call.kind()));
        // The body of the answer that the count begins behind.
        assert_eq!(found.remove(0).kind(), "write", "{found:#?}");
        assert_each(&found, &[("read", 1), ("write", 2)]);
        let writes = found.iter().filter(|call| call.kind() == "write");
        let bodies = writes.filter(|call| call.result == BYTES as i64);
        assert_eq!(bodies.count(), ROUNDS, "{found:#?}");
    }
}

#[test]
fn each_directory_of_a_path_is_asked_for_settings() {
    if !has("strace") {
        return;
    }
    let found = calls("sped", &["experiment.directory-config=true"]);
    assert_each(&found, &[&PLAIN[..], &[("openat2", 3)]].concat());
    for name in ["\".htaccess\"", "\"a/.htaccess\"", "\"a/b/.htaccess\""] {
        let asked = found.iter().filter(|call| call.arguments.contains(name));
        assert_eq!(asked.count(), ROUNDS, "{name}: {found:#?}");
    }
}

#[test]
fn every_body_is_read_and_written_by_a_copy_loop() {
    if !has("strace") {
        return;
    }
    let found = calls("sped", &["cache.content=0", "send.mode=copy"]);
    assert_each(&found, &[("read", 1), ("pread64", 1), ("stat", 1), ("write", 2)]);
}

#[test]
fn signals_are_masked_and_unmasked_around_each_request() {
    if !has("strace") {
        return;
    }
    let found = calls("sped", &["experiment.signal-mask=true"]);
    assert_each(&found, &[&PLAIN[..], &[("rt_sigprocmask", 2)]].concat());
}

/// A connection for each request: how often its process locks and unlocks a file.
#[test]
fn a_lock_is_taken_and_given_back_around_each_accept() {
    if !has("strace") {
        return;
    }
    let site = site();
    for arch in ["symped", "mp", "mt"] {
        for (way, name) in [("off", "flock"), ("fcntl", "fcntl"), ("flock", "flock")] {
            let lock = format!("experiment.accept-lock={way}");
            let one = match arch {
                "mp" => "mp.processes=1",
                "mt" => "mt.threads=1",
                _ => "accept.limit=1",
            };
            let traced = Traced::start(&site, arch, &[&lock, one]);
            let trace = || std::fs::read_to_string(&traced.log).expect("there is a trace");
            let serve = || {
                let mut client = traced.server.connect();
                assert_eq!(client.ask(last_get(TARGET)).status(), 200);
                client.expect_closed();
            };
            (0..ROUNDS).for_each(|_| serve());
            let locks = |trace: &str| {
                let calls = crate::common::trace::whole_calls(trace);
                let is_lock = |call: &&(&str, Call)| {
                    let (_, call) = call;
                    call.name == name && !call.arguments.contains("F_GETF")
                };
                calls.iter().filter(is_lock).count()
            };
            if way == "off" {
                assert_eq!(locks(&trace()), 0, "{arch}: {way}");
                continue;
            }
            // Those that blocked until no client came give back and take again.
            let most = 2 * ROUNDS * 4;
            wait_for("the locks", || (locks(&trace()) >= 2 * ROUNDS).then_some(()));
            assert!(locks(&trace()) <= most, "{arch}: {way}: {}", locks(&trace()));
        }
    }
}

#[test]
fn threads_that_share_one_lock_for_all_take_one_for_a_request() {
    let site = site();
    for (locks, each) in [("entry", 2), ("global", 1)] {
        let lock = format!("experiment.entry-locks={locks}");
        let launch = Launch::new(&site, "mt").args(&["--admin", "127.0.0.1:0"]);
        let launch = launch.set(&lock).set("mt.threads=2").set("cache.revalidate=1h");
        let server = launch.start();
        let mut client = server.connect();
        let count = |requests: u64| {
            wait_for("all is counted", || {
                let answered = server.counter("requests");
                (answered == requests).then(|| server.counter("lock_operations"))
            })
        };
        // In the cache once it is old enough.
        let mut asked = 0;
        wait_for("a hit", || {
            client.ask(get(TARGET));
            asked += 1;
            (server.counter("content_cache_hits") > 0).then_some(())
        });
        let before = count(asked);
        for _ in 0..ROUNDS {
            client.ask(get(TARGET));
        }
        let after = count(asked + ROUNDS as u64);
        assert_eq!(after - before, each * ROUNDS as u64, "{locks}");
    }
}

#[test]
fn processes_that_wait_for_a_lock_stop_and_hand_over_in_time() {
    let site = site();
    for arch in ["symped", "mp", "mt"] {
        for way in ["fcntl", "flock"] {
            let launch = Launch::new(&site, arch).set(&format!("experiment.accept-lock={way}"));
            let launch = match arch {
                "symped" => launch.args(&["--workers", "3"]),
                _ => launch,
            };
            let mut server = launch.start();
            for _ in 0..ROUNDS {
                let mut client = server.connect();
                assert_eq!(client.ask(last_get(TARGET)).status(), 200, "{arch}");
            }
            crate::common::signal(server.master(), "TERM");
            assert!(server.ended().success(), "{arch}: {way}");
        }
    }
}
