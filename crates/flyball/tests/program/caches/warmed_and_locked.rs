//! What the caches hold beyond their sizes and their policy: what is there at start, what never is,
//! and what is locked in memory.
use crate::common::{Launch, Server, Site, get, proc_status, wait_for};

/// A cache of each kind: private, shared by threads, shared by processes.
const KINDS: [&str; 3] = ["sped", "mt", "shared-symped"];

fn site() -> Site {
    Site::with(&[
        ("small.txt", &[b's'; 50]),
        ("page.txt", &[b'p'; 5_000]),
        ("large.bin", &[b'l'; 200_000]),
    ])
}

fn start(site: &Site, arch: &str, settings: &[&str]) -> Server {
    let launch = Launch::new(site, arch).args(&["--admin", "127.0.0.1:0"]);
    let launch = launch.workers_for(arch, 1).set("cache.revalidate=1h");
    settings.iter().fold(launch, |launch, setting| launch.set(setting)).start()
}

/// Hits of the caches of contents and of open files.
fn hits(server: &Server) -> u64 {
    server.counter("content_cache_hits") + server.counter("descriptor_cache_hits")
}

/// Asks once for each on one connection.
fn ask_for(server: &Server, paths: &[&str]) {
    let before = server.counter("requests");
    let mut client = server.connect();
    for path in paths {
        assert_eq!(client.ask(get(path)).status(), 200, "{path}");
    }
    drop(client);
    let counted = || server.counter("requests") >= before + paths.len() as u64;
    wait_for("the requests are counted", || counted().then_some(()));
}

#[test]
fn what_is_warmed_is_there_before_the_first_request() {
    let site = site();
    for arch in KINDS {
        let server = start(&site, arch, &["cache.warm=/page.txt,/large.bin,/absent"]);
        ask_for(&server, &["/page.txt", "/large.bin"]);
        assert_eq!(hits(&server), 2, "{arch}: {:#}", server.status()["counters"]);
        ask_for(&server, &["/small.txt"]);
        assert_eq!(hits(&server), 2, "{arch}");
    }
}

#[test]
fn files_outside_the_bounds_are_not_held() {
    let site = site();
    for arch in KINDS {
        let server = start(&site, arch, &["cache.least=51", "cache.most=100000"]);
        for _ in 0..3 {
            ask_for(&server, &["/small.txt", "/page.txt", "/large.bin"]);
        }
        assert_eq!(hits(&server), 2, "{arch}: {:#}", server.status()["counters"]);
    }
}

#[test]
fn bodies_are_locked_in_memory_when_asked_for() {
    let site = site();
    for arch in ["sped", "mt"] {
        for (lock, expected) in [("true", true), ("false", false)] {
            let launch = Launch::new(&site, arch).workers_for(arch, 1);
            let server = launch.set(&format!("cache.lock={lock}")).start();
            assert_eq!(server.connect().ask(get("/page.txt")).status(), 200);
            let locked = proc_status(server.worker(), "VmLck").expect("the worker runs");
            assert_eq!(locked != "0 kB", expected, "{arch}, {lock}: {locked}");
        }
    }
}
