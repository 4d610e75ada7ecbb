//! How the server copes when the machine fails it: workers that are killed or held, system
//! calls that fail, descriptors that are out. Nothing hangs, nothing is lost for good, and no
//! answer is wrong.
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::common::injection::Injection;
use crate::common::{
    Launch, Server, Site, anonymous_bytes, architectures, children, get, has, is_running, last_get,
    signal, wait_for,
};
use flyball_testkit::{Client, wait};

/// Body of the file that is asked for.
const SMALL: [u8; 1024] = [b'x'; 1024];

/// Body of a file that no memory cache holds.
const LARGE_BYTES: usize = 3 * 1024 * 1024;

/// Connections under load while a worker is killed.
const LOADED: usize = 24;

/// How long a held worker answers nothing.
const HELD: Duration = Duration::from_millis(300);

fn site() -> Site {
    Site::with(&[("small.txt", &SMALL), ("other.txt", b"other\n"), ("large.bin", &large())])
}

fn large() -> Vec<u8> {
    (0..LARGE_BYTES).map(|at| (at % 251) as u8).collect()
}

/// Asks on one connection until it is cut or told to end. What comes is right as far as it comes.
fn load(server: &Server, ends: &AtomicBool, answered: &AtomicUsize) {
    let address = ([127, 0, 0, 1], server.port).into();
    let Some(mut client) = Client::try_connect(address) else { return };
    while !ends.load(SeqCst) {
        let Some(response) = client.try_ask(get("/small.txt")) else { return };
        assert_eq!((response.status(), &*response.body), (200, &SMALL[..]));
        answered.fetch_add(1, SeqCst);
    }
}

/// Ends the load with its owner, also when that fails.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// A connection that is not with this worker: it is answered while the worker is held.
fn beside(server: &Server, worker: u32) -> Client {
    signal(worker, "STOP");
    let mut clients = Vec::new();
    let mut found = wait_for("a connection with another worker", || {
        // Where each worker has a socket of its own, the held one may get it.
        let mut client = server.connect();
        client.send(get("/small.txt"));
        clients.push(client);
        let answered = clients.iter_mut().position(Client::arrived)?;
        Some(clients.swap_remove(answered))
    });
    assert_eq!(found.response().body, SMALL);
    signal(worker, "CONT");
    found
}

/// The processes that serve.
fn serving(server: &Server, arch: &str, count: usize) -> Vec<u32> {
    wait_for("the workers", || {
        let of_master = children(server.master());
        let all = match arch {
            "shared-symped" => of_master.into_iter().flat_map(children).collect(),
            _ => of_master,
        };
        (all.len() == count).then_some(all)
    })
}

#[test]
fn a_worker_that_is_killed_under_load_takes_only_its_own_connections_with_it() {
    let site = site();
    for arch in [
        "n-copy",
        "symped",
        "shared-symped",
        "amped",
        "mt",
        "thread-per-connection",
        "knot-c",
        "knot-a",
        "uring",
    ] {
        if flyball_arch::find(arch).is_none_or(|arch| arch.probe().is_err()) {
            continue;
        }
        let launch = Launch::new(&site, arch).args(&["--workers", "2"]);
        let server = launch.set("accept.exclusive=false").start();
        let workers = serving(&server, arch, 2);
        let mut kept = beside(&server, workers[0]);
        let (ends, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            let ending = Ending(&ends);
            for _ in 0..LOADED {
                scope.spawn(|| load(&server, &ends, &answered));
            }
            let loaded = || (answered.load(SeqCst) >= LOADED * 4).then_some(());
            wait_for("answers under load", loaded);
            signal(workers[0], "KILL");
            let again = wait_for("another worker", || {
                let now = serving(&server, arch, 2);
                (!now.contains(&workers[0])).then_some(now)
            });
            assert!(again.contains(&workers[1]), "{arch}: the other worker goes on");
            // Both old connections and new ones are answered.
            for _ in 0..8 {
                assert_eq!(server.connect().ask(last_get("/small.txt")).body, SMALL, "{arch}");
            }
            assert_eq!(kept.ask(get("/small.txt")).body, SMALL, "{arch}");
            drop(ending);
        });
    }
}

/// Connections of a server whose workers are held: where a process serves one at a time, as many
/// processes.
const HELD_CONNECTIONS: usize = 3;

#[test]
fn workers_that_are_held_go_on_where_they_were() {
    let (site, large) = (site(), large());
    std::thread::scope(|scope| {
        for arch in architectures() {
            let (site, large) = (&site, &large);
            scope.spawn(move || is_held_and_goes_on(site, large, arch));
        }
    });
}

fn is_held_and_goes_on(site: &Site, large: &[u8], arch: &str) {
    let launch = Launch::new(site, arch).workers_for(arch, HELD_CONNECTIONS);
    let server = launch.set("rate.window=5min").start();
    let count = if arch == "mp" { HELD_CONNECTIONS } else { 1 };
    let workers = serving(&server, arch, count);
    let mut kept = server.connect();
    assert_eq!(kept.ask(get("/small.txt")).body, SMALL);
    let mut download = Client::connect_narrow(([127, 0, 0, 1], server.port).into(), 256 << 10);
    download.send(get("/large.bin"));
    assert_eq!(download.response_head().status(), 200);
    workers.iter().for_each(|worker| signal(*worker, "STOP"));
    kept.send(get("/small.txt"));
    let mut new = server.connect();
    new.send(get("/other.txt"));
    kept.expect_silence(HELD);
    assert!(!new.arrived(), "{arch}: a worker answers");
    workers.iter().for_each(|worker| signal(*worker, "CONT"));
    assert_eq!(kept.response().body, SMALL, "{arch}");
    assert_eq!(new.response().body, b"other\n", "{arch}");
    assert!(download.take(LARGE_BYTES) == large, "{arch}: the body is not the file");
    assert_eq!(serving(&server, arch, count), workers, "{arch}: none of them has died");
}

/// System calls, how they fail, and what a client may be answered whose request meets that.
const FAULTS: &[(&str, &str, &[u16])] = &[
    ("openat,openat2", "error=EIO", &[503]),
    ("openat,openat2", "error=ENFILE", &[503]),
    ("openat,openat2", "error=EMFILE", &[503]),
    ("openat,openat2", "error=ENOMEM", &[503]),
    ("pread64,preadv,preadv2,sendfile", "error=EIO", &[500, 503]),
    ("statx,fstat,newfstatat", "error=EIO", &[500, 503]),
    ("accept4", "error=ENFILE:when=1..4", &[200]),
    ("accept4", "error=ENOMEM:when=1..4", &[200]),
    ("accept4", "error=ECONNABORTED:when=1..4", &[200]),
    ("epoll_ctl", "error=ENOMEM:when=1..2", &[200]),
    ("sendto,sendmsg,writev", "error=EINTR:when=1..2", &[200]),
    ("recvfrom,recvmsg", "error=EINTR:when=1..2", &[200]),
    ("sendto,sendmsg,writev", "error=ENOBUFS:when=1", &[]),
    ("recvfrom,recvmsg", "error=ENOMEM:when=1", &[]),
    ("clone3,clone", "error=EAGAIN", &[503]),
    ("io_uring_enter", "error=EINTR:when=1..2", &[]),
];

/// The most that all of these faults may leave of memory, in bytes.
const FAULTS_BYTES_MAX: u64 = 16 * 1024 * 1024;

#[test]
#[ignore = "full tier"]
fn a_system_call_that_fails_costs_an_answer_and_no_more() {
    if !has("strace") {
        return;
    }
    let (site, large) = (site(), large());
    for arch in architectures() {
        // Nothing is in memory, so that every request asks the disk.
        let launch = Launch::new(&site, arch).workers_for(arch, 1).set("cache.content=0");
        // A call that strace lets fail has no number any more, and would be a forbidden one.
        let server = launch.set("cache.paths=0").set("sandbox=off").start();
        let worker = serving(&server, arch, 1)[0];
        for path in ["/small.txt", "/large.bin"] {
            assert_eq!(server.connect().ask(last_get(path)).status(), 200, "{arch}");
        }
        let (before, bytes) = (descriptors(worker), anonymous_bytes(worker));
        for (calls, fault, statuses) in FAULTS {
            let injection = Injection::attach(worker, calls, fault);
            for path in ["/small.txt", "/large.bin"] {
                let mut client = server.connect();
                client.send(last_get(path));
                let whole = client.rest_before_end();
                let outcome = outcome(&whole, if path == "/small.txt" { &SMALL } else { &large });
                let expected = match outcome {
                    Outcome::Whole => true,
                    // What is asked about a file may be asked in the middle of its body.
                    Outcome::Cut => ["pread64", "statx", "send"].iter().any(|c| calls.contains(c)),
                    // Without a thread for it a connection of its own thread ends at once.
                    Outcome::Closed => {
                        let is_moved = calls.contains("send") || calls.contains("recv");
                        is_moved || calls.contains("clone") && arch == "thread-per-connection"
                    }
                    Outcome::Refused(status) => statuses.contains(&status),
                };
                assert!(expected, "{arch}: {calls} {fault}: {path}: {outcome:?}");
            }
            injection.end(worker);
            for _ in 0..2 {
                let mut client = server.connect();
                assert_eq!(client.ask(get("/small.txt")).body, SMALL, "{arch}: after {fault}");
                assert_eq!(client.ask(last_get("/other.txt")).body, b"other\n", "{arch}");
            }
        }
        assert_eq!(serving(&server, arch, 1), [worker], "{arch}: the worker has not died");
        let bytes = anonymous_bytes(worker).saturating_sub(bytes);
        assert!(bytes <= FAULTS_BYTES_MAX, "{arch}: {bytes} bytes more than before");
        wait_for("descriptors to be given back", || {
            (descriptors(worker) <= before + FILES_SLACK).then_some(())
        });
    }
}

#[test]
fn a_disk_that_fails_under_the_logs_costs_lines_and_no_request() {
    if !has("strace") {
        return;
    }
    let (site, directory) = (site(), tempfile::tempdir().expect("a temporary directory"));
    let [access, slow] = ["access.log", "slow.log"].map(|name| directory.path().join(name));
    let set = |key: &str, path: &std::path::Path| format!("{key}={}", crate::common::text(path));
    let launch = Launch::new(&site, "sped").args(&["--admin", "127.0.0.1:0"]);
    let launch = launch.set(&set("access-log", &access)).set(&set("slow-log", &slow));
    let server = launch.set("log.slow-threshold=0ms").set("sandbox=off").start();
    let ask = || assert_eq!(server.connect().ask(last_get("/small.txt")).body, SMALL);
    let lines = |path: &std::path::Path| {
        std::fs::read_to_string(path).map_or(0, |text| text.lines().count())
    };
    ask();
    wait_for("the first lines", || (lines(&access) == 1 && lines(&slow) == 1).then_some(()));
    let process = server.child_with(&access);
    let injection = Injection::attach(process, "write,writev,pwritev", "error=EIO");
    for _ in 0..20 {
        ask();
    }
    for counter in ["access_log_lost", "slow_log_lost"] {
        wait_for(counter, || (server.counter(counter) == 20).then_some(()));
    }
    injection.end(process);
    assert_eq!((lines(&access), lines(&slow)), (1, 1));
    ask();
    wait_for("lines again", || (lines(&access) == 2 && lines(&slow) == 2).then_some(()));
}

/// Files that caches may keep open beside those from before.
const FILES_SLACK: usize = 4;

/// What a request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Whole,
    /// The connection ended within the body, which tells the client that something is missing.
    Cut,
    /// It ended without an answer.
    Closed,
    Refused(u16),
}

/// What came of a file that holds `expected`.
///
/// # Panics
/// When it is no answer, or one with wrong bytes.
fn outcome(whole: &[u8], expected: &[u8]) -> Outcome {
    if whole.is_empty() {
        return Outcome::Closed;
    }
    let head = whole.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer") + 4;
    let text = std::str::from_utf8(&whole[..head]).expect("a head is ASCII");
    let status = text[9..12].parse().expect("a status");
    if status != 200 {
        return Outcome::Refused(status);
    }
    let body = &whole[head..];
    assert!(text.contains(&format!("Content-Length: {}\r\n", expected.len())), "{text}");
    assert!(expected.starts_with(body), "wrong bytes");
    if body.len() == expected.len() { Outcome::Whole } else { Outcome::Cut }
}

/// How many descriptors a process has open.
fn descriptors(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count)
}

/// Lets a process open no descriptor beyond those it has, or as many as before.
fn limit_descriptors(process: u32, most: usize) {
    let words = ["--pid", &process.to_string(), &format!("--nofile={most}:")];
    assert!(Command::new("prlimit").args(words).status().expect("prlimit runs").success());
}

/// Connections while no descriptor is left for them: a process that waits for one has its
/// descriptor already.
const WITHOUT_DESCRIPTORS: usize = 3;

#[test]
fn connections_wait_for_descriptors_and_are_served_when_there_are_some() {
    if !has("prlimit") {
        return;
    }
    let site = site();
    std::thread::scope(|scope| {
        for arch in ["mp", "knot-c", "knot-a", "watpipe"] {
            scope.spawn(|| waits_for_descriptors(&site, arch));
        }
    });
}

fn waits_for_descriptors(site: &Site, arch: &str) {
    let launch = Launch::new(site, arch).workers_for(arch, 1).set("cache.revalidate=1h");
    let server = launch.args(&["--admin", "127.0.0.1:0"]).start();
    // The file is in memory from here on: an answer needs no descriptor.
    let mut first = server.connect();
    assert_eq!(first.ask(last_get("/small.txt")).body, SMALL);
    first.expect_closed();
    // The oldest child; the other serves the status.
    let worker = server.children(2)[0];
    crate::common::rest(worker);
    let free = |at: &usize| !std::fs::exists(format!("/proc/{worker}/fd/{at}")).unwrap_or(true);
    limit_descriptors(worker, (0..).find(free).expect("one is free"));
    let mut clients = [0; WITHOUT_DESCRIPTORS].map(|_| {
        let mut client = server.connect();
        client.send(last_get("/small.txt"));
        client
    });
    clients[WITHOUT_DESCRIPTORS - 1].expect_silence(HELD);
    limit_descriptors(worker, 1024);
    for client in &mut clients {
        assert_eq!(client.response().body, SMALL, "{arch}");
    }
    let counted = || (server.counter("out_of_descriptors") > 0).then_some(());
    wait_for(&format!("{arch}: the count"), counted);
    assert!(is_running(worker), "{arch}: the worker has not died");
}

/// Requests while the kernel gives no memory.
const WITHOUT_MEMORY: usize = 6;

#[test]
fn a_kernel_that_gives_no_memory_hangs_nobody_and_is_served_from_afterwards() {
    if !has("strace") {
        return;
    }
    let (site, large) = (site(), large());
    std::thread::scope(|scope| {
        for arch in architectures() {
            let (site, large) = (&site, &large);
            scope.spawn(move || goes_on_without_memory(site, large, arch));
        }
    });
}

fn goes_on_without_memory(site: &Site, large: &[u8], arch: &str) {
    let launch = Launch::new(site, arch).workers_for(arch, 1).set("cache.content=0");
    // Each file is mapped again, so that the kernel is asked under every architecture.
    let launch = launch.set("send.mode=mapped").set("cache.mapped=0");
    let server = launch.set("rate.window=2s").set("sandbox=off").start();
    assert_eq!(server.connect().ask(last_get("/small.txt")).body, SMALL, "{arch}");
    let worker = serving(&server, arch, 1)[0];
    let log = tempfile::NamedTempFile::new().expect("a temporary file");
    let path = crate::common::text(log.path());
    let injection = Injection::logged(worker, "mmap,mremap,brk", "error=ENOMEM", path);
    for path in ["/small.txt", "/large.bin"].into_iter().cycle().take(WITHOUT_MEMORY) {
        let Some(mut client) = Client::try_connect(([127, 0, 0, 1], server.port).into()) else {
            continue;
        };
        client.try_send(last_get(path));
        // Bytes that come are right; a worker that cannot do without memory ends, and with it its
        // connections.
        outcome(&client.rest_before_end(), if path == "/small.txt" { &SMALL } else { large });
    }
    injection.release();
    let calls = std::fs::read_to_string(path).expect("strace has written");
    assert!(calls.contains("(INJECTED)"), "{arch}: no process has asked for memory");
    // Another worker may have taken its place, a moment after it ended.
    wait_for(&format!("{arch}: answers as before"), || {
        let address = ([127, 0, 0, 1], server.port).into();
        let answer = |path| Client::try_connect(address)?.try_ask(last_get(path));
        let (small, whole) = (answer("/small.txt")?, answer("/large.bin")?);
        (small.body == SMALL && whole.body == large).then_some(())
    });
}

#[test]
fn an_error_has_its_page_when_there_is_no_descriptor_for_one() {
    if !has("prlimit") {
        return;
    }
    let site = Site::with(&[("small.txt", &SMALL), ("503.html", b"short of it\n")]);
    std::fs::write(site.path().join("404.html"), "lost\n").expect("it is written");
    let root = site.path().display();
    let config = format!(
        "[[site]]\nroot = \"{root}\"\n[site.error-page]\n404 = \"{root}/404.html\"\n\
         503 = \"{root}/503.html\"\n"
    );
    for arch in ["sped", "amped", "mt", "watpipe"] {
        let file = site.path().join("flyball.toml");
        std::fs::write(&file, &config).expect("it is written");
        let launch = Launch::bare::<&str>(&[]).args(&["--config", crate::common::text(&file)]);
        let launch = launch.args(&["--arch", arch, "--workers", "1", "--listen", "127.0.0.1:0"]);
        // Only the same user may change the limits of a process without being asked for more.
        let launch = match flyball_sys::process::is_root() {
            true => launch.set("user=root").set("group=root"),
            false => launch,
        };
        let server = launch.set("cache.revalidate=1h").start();
        let worker = server.worker();
        let mut client = server.connect();
        assert_eq!(client.ask(get("/small.txt")).body, SMALL, "{arch}");
        crate::common::rest(worker);
        let free = |at: &usize| !std::fs::exists(format!("/proc/{worker}/fd/{at}")).unwrap_or(true);
        limit_descriptors(worker, (0..).find(free).expect("one is free"));
        for path in ["/nothing.txt", "/503.html"] {
            let answer = client.ask(get(path));
            assert_eq!(answer.status(), 503, "{arch}: {path}");
            assert_eq!(answer.text(), "short of it\n", "{arch}");
        }
        assert_eq!(client.ask(get("/small.txt")).body, SMALL, "{arch}: what is cached");
        limit_descriptors(worker, 1024);
        let lost = client.ask(get("/nothing.txt"));
        assert_eq!((lost.status(), lost.text()), (404, "lost\n"), "{arch}");
    }
}

/// Longer than what both sockets hold, so that the end of the file is met while it is sent.
const SHRINKING_BYTES: usize = 24 * 1024 * 1024;

/// An edge is told when a socket that was full has room again. At the end of a file that became
/// shorter a call sends less than it was asked for, and the socket is not full.
#[test]
#[ignore = "full tier"]
fn a_file_that_shrinks_while_edges_are_waited_for_ends_its_connection_at_once() {
    for arch in ["sped", "amped", "knot-a"] {
        let whole = vec![b'y'; SHRINKING_BYTES];
        let site = Site::with(&[("small.txt", &SMALL), ("shrinks.bin", &whole)]);
        let launch = Launch::new(&site, arch).args(&["--workers", "1", "--admin", "127.0.0.1:0"]);
        let launch = launch.set("events=epoll-edge").set("send.mode=sendfile");
        let server = launch.set("rate.window=5min").start();
        let mut client = Client::connect_narrow(([127, 0, 0, 1], server.port).into(), 128 * 1024);
        // From here on the event mechanism knows the connection.
        assert_eq!(client.ask(get("/small.txt")).status(), 200);
        wait::dawdle(Duration::from_millis(20));
        assert_eq!(client.ask(get("/small.txt")).status(), 200);
        client.send(get("/shrinks.bin"));
        assert_eq!(client.response_head().status(), 200);
        let file = std::fs::OpenOptions::new().write(true).open(site.path().join("shrinks.bin"));
        // No multiple of a page or of what is sent at once.
        file.and_then(|file| file.set_len(SHRINKING_BYTES as u64 * 2 / 3 + 333))
            .expect("it shrinks");
        let rest = client.rest_before_end();
        assert!(rest.len() < SHRINKING_BYTES && rest.iter().all(|byte| *byte == b'y'), "{arch}");
        wait_for("the reason", || (server.status()["closed"]["file-changed"] == 1).then_some(()));
    }
}
