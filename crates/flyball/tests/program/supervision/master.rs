//! What the master does: bind, start, stop, restart; with every architecture or whatever it is.
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use crate::common::sockets::sockets_at;
use crate::common::{
    Launch, Server, Site, architectures, get, has, is_running, last_get, proc_status, signal,
    wait_for,
};
use flyball_testkit::{Client, wait};

/// More than the sockets of both ends hold, so that a download is under way until it is read.
const LARGE_BYTES: usize = 32 * 1024 * 1024;

/// How long the acceptor of `thread-per-connection` rests when it cannot accept.
const ACCEPTOR_REST: Duration = Duration::from_millis(250);

/// What a stopping server may take beyond its drain deadline: workers look at the time twice a
/// second, and the rest is for a busy machine.
const STOPPED_AFTER: Duration = Duration::from_secs(15);

fn small_site() -> Site {
    Site::with(&[("small.txt", &[b'x'; 1024])])
}

fn large_site() -> Site {
    Site::with(&[("small.txt", &[b'x'; 1024]), ("large.bin", &large())])
}

fn large() -> Vec<u8> {
    (0..LARGE_BYTES).map(|at| (at % 251) as u8).collect()
}

/// The server does not start: its exit code is 1, and what it says is given back.
#[track_caller]
fn refused(launch: Launch) -> String {
    match launch.try_start() {
        Ok(_) => panic!("it starts"),
        Err((status, said)) => {
            assert_eq!(status.code(), Some(1), "{said}");
            said
        }
    }
}

fn on_port(site: &Site, arch: &str, port: u16) -> Launch {
    let listen = format!("127.0.0.1:{port}");
    let launch = Launch::bare::<&str>(&[]).arg(site.path());
    launch.args(&["--arch", arch, "--workers", "2", "--listen", &listen])
}

#[test]
fn a_taken_port_is_told_and_nothing_starts() {
    let site = small_site();
    let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = other.local_addr().expect("it is bound").port();
    for arch in architectures() {
        let said = refused(on_port(&site, arch, port));
        let expected = format!(
            "flyball: cannot listen on 127.0.0.1:{port}: the port is taken by another program\n"
        );
        assert_eq!(said, expected, "{arch}");
    }
}

#[test]
fn copies_that_share_a_port_do_not_let_another_server_share_it() {
    let site = small_site();
    let first = Launch::new(&site, "n-copy").args(&["--workers", "2"]).start();
    let said = refused(on_port(&site, "n-copy", first.port));
    assert!(said.contains("the port is taken by another program"), "{said}");
    assert_eq!(first.connect().ask(get("/small.txt")).status(), 200);
}

#[test]
fn a_directory_alone_moves_to_the_next_free_port() {
    let site = small_site();
    let start = || Launch::bare::<&str>(&[]).arg(site.path()).start();
    let (first, second) = (start(), start());
    assert!(first.port >= 8080 && second.port >= 8080, "{} {}", first.port, second.port);
    assert_ne!(first.port, second.port);
    for server in [first, second] {
        assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
    }
}

/// A download of which only the head was read, and the length of its body.
fn download(server: &Server) -> (Client, usize) {
    let mut client = server.connect();
    client.send(get("/large.bin"));
    let head = client.response_head();
    assert_eq!(head.status(), 200);
    (client, head.content_length().expect("a length"))
}

#[test]
fn a_stopping_server_finishes_what_is_under_way_and_exits_0() {
    let (site, large) = (large_site(), large());
    for (arch, name) in architectures().into_iter().zip(["TERM", "INT"].into_iter().cycle()) {
        let mut server = Launch::new(&site, arch).workers_for(arch, 2).start();
        let mut idle = server.connect();
        assert_eq!(idle.ask(get("/small.txt")).status(), 200);
        let (mut busy, length) = download(&server);
        signal(server.master(), name);
        idle.expect_closed();
        assert!(busy.take(length) == large, "{arch}: the body is not the file");
        busy.expect_closed();
        let status = server.ended();
        assert_eq!(status.code(), Some(0), "{arch}: {}", server.errors.whole());
        assert_eq!(server.errors.whole(), "", "{arch} has nothing to say");
    }
}

/// Its number on every architecture of Linux.
const SIGQUIT: i32 = 3;

/// Bit of SIGTERM in the sets of signals of `/proc/PID/status`.
const SIGTERM_BIT: u64 = 1 << 14;

/// Connections that nothing has accepted when the server is told to stop: more than `mt` has
/// threads, and than a ring accepts at a time.
const QUEUED: usize = 100;

#[test]
#[ignore = "full tier"]
fn a_stopping_server_answers_what_has_arrived_before() {
    let site = small_site();
    let all = architectures();
    assert!(all.contains(&"mt") && all.contains(&"mp"), "{all:?}");
    for arch in all {
        for limit in ["accept.limit=2", "accept.limit=inf"] {
            // For whatever fails.
            println!("{arch} with {limit}");
            stops_with_what_has_arrived(Launch::new(&site, arch).workers_for(arch, 1).set(limit));
        }
    }
}

/// Has this server stop while its worker has read nothing of what has arrived.
fn stops_with_what_has_arrived(launch: Launch) {
    let mut server = launch.start();
    let worker = server.worker();
    let mut kept = server.connect();
    assert_eq!(kept.ask(get("/small.txt")).status(), 200);
    signal(worker, "STOP");
    wait_for("the worker to be held", || {
        proc_status(worker, "State").filter(|state| state.starts_with('T'))
    });
    let mut clients = vec![kept];
    clients.extend((0..QUEUED).map(|_| server.connect()));
    clients.iter_mut().for_each(|client| client.send(get("/small.txt")));
    // Another process of a group may read some, and answers them.
    wait_for("what has arrived", || {
        let sockets = sockets_at(server.port);
        let unread = sockets.iter().filter(|socket| !socket.listens && socket.unread > 0).count();
        let answered = clients.iter_mut().filter_map(|client| client.arrived().then_some(()));
        (unread + answered.count() == clients.len()).then_some(())
    });
    signal(server.master(), "TERM");
    wait_for("the worker to be told", || {
        let pending = u64::from_str_radix(&proc_status(worker, "ShdPnd")?, 16).ok()?;
        (pending & SIGTERM_BIT != 0).then_some(())
    });
    signal(worker, "CONT");
    // 0 where there is none. Each closes when it has its answer, so that another has its place.
    let answered = clients.into_iter().map(|mut client| {
        let status = client.try_response().map_or(0, |answer| answer.status());
        if status == 200 {
            client.expect_closed();
        }
        status
    });
    assert_eq!(answered.collect::<Vec<_>>(), [200; QUEUED + 1], "the kept one is the first");
    assert_eq!(server.ended().code(), Some(0));
}

#[test]
fn a_stopping_server_refuses_new_connections_at_once() {
    let (site, large) = (large_site(), large());
    for arch in architectures() {
        let mut server = Launch::new(&site, arch).start();
        let (mut busy, length) = download(&server);
        signal(server.master(), "TERM");
        wait_for("a connection to be refused", || {
            let connected = TcpStream::connect(("127.0.0.1", server.port));
            connected.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused).then_some(())
        });
        assert!(busy.take(length) == large, "{arch}: the body is not the file");
        assert_eq!(server.ended().code(), Some(0), "{arch}");
    }
}

#[test]
fn a_worker_that_somebody_else_stops_is_replaced_and_its_port_serves_again() {
    let site = small_site();
    for arch in architectures() {
        let server = Launch::new(&site, arch).workers_for(arch, 1).start();
        let worker = server.worker();
        signal(worker, "TERM");
        wait_for("another worker", || {
            let workers = crate::common::children(server.master());
            (workers.len() == 1 && !workers.contains(&worker)).then_some(())
        });
        assert_eq!(server.connect().ask(get("/small.txt")).status(), 200, "{arch}");
    }
}

/// Another process stops one of two workers with a socket in common, which closes it for both.
#[test]
fn an_acceptor_rests_while_another_worker_with_its_socket_drains() {
    let site = large_site();
    let launch = Launch::new(&site, "thread-per-connection").set("rate.send-min=0B");
    let server = launch.args(&["--workers", "2", "--admin", "127.0.0.1:0"]).start();
    let [drains, rests, _] = server.children(3)[..] else { panic!("two workers") };
    // So that the other one has the connection.
    signal(rests, "STOP");
    wait_for("the worker to be held", || {
        proc_status(rests, "State").filter(|state| state.starts_with('T'))
    });
    let _busy = download(&server);
    signal(rests, "CONT");
    signal(drains, "TERM");
    wait_for("a connection to be refused", || {
        let connected = TcpStream::connect(("127.0.0.1", server.port));
        connected.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused).then_some(())
    });
    let (since, before) = (Instant::now(), server.counter("accept_phases"));
    let phases = || server.counter("accept_phases") - before;
    let tried = wait_for("some attempts", || Some(phases()).filter(|count| *count >= 3));
    let rests = since.elapsed().as_millis() / ACCEPTOR_REST.as_millis();
    // One may have begun before, and one may have been published late.
    assert!(u128::from(tried) <= rests + 2, "{tried} attempts in {:?}", since.elapsed());
    assert!(is_running(drains), "it still has the download");
}

#[test]
#[ignore = "full tier"]
fn a_client_that_reads_nothing_does_not_keep_a_stopping_server() {
    let site = large_site();
    for arch in architectures() {
        let launch = Launch::new(&site, arch).workers_for(arch, 1);
        let mut server = launch.set("drain=1s").start();
        let (_stalled, _) = download(&server);
        let start = Instant::now();
        signal(server.master(), "TERM");
        let status = server.ended();
        assert_eq!(status.code(), Some(0), "{arch}: {}", server.errors.whole());
        assert!(start.elapsed() >= Duration::from_secs(1), "{arch}: not given its time");
        wait::assert_within(start, STOPPED_AFTER, arch);
        let said = server.errors.whole();
        let (time, line) = said.split_once(' ').expect("the time is before it");
        let expected = "flyball: worker 0: 1 connections were still open at the drain deadline\n";
        assert_eq!((line, said.lines().count()), (expected, 1), "{arch}");
        assert!(time.len() == 24 && time.ends_with('Z') && &time[10..11] == "T", "{said}");
    }
}

#[test]
fn a_worker_that_dies_is_replaced_later_each_time_and_what_it_counted_stays() {
    let site = small_site();
    let server = Launch::new(&site, "sped").args(&["--admin", "127.0.0.1:0"]).start();
    let mut asked = 0;
    for wait_ms in [50, 100, 200] {
        for _ in 0..5 {
            assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
            asked += 1;
        }
        wait_for("the requests in /status", || (server.counter("requests") == asked).then_some(()));
        let worker = server.children(2)[if wait_ms == 50 { 0 } else { 1 }];
        signal(worker, "KILL");
        let said = format!("worker 0 was ended by signal 9; it is restarted in {wait_ms} ms");
        server.errors.wait_for("the restart", |errors| errors.contains(&said));
        wait_for("another worker", || {
            assert!(server.counter("requests") >= asked, "the total went backwards");
            let workers = crate::common::children(server.master());
            (workers.len() == 2 && !workers.contains(&worker)).then_some(())
        });
    }
    assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
}

/// Ends what a failed test would leave behind.
struct Orphans(Vec<u32>);

impl Drop for Orphans {
    fn drop(&mut self) {
        for process in self.0.iter().filter(|process| is_running(**process)) {
            signal(*process, "KILL");
        }
    }
}

#[test]
fn nothing_outlives_the_master() {
    let site = small_site();
    for arch in architectures() {
        let (workers, setting) = match arch {
            "n-copy" | "symped" => (2, "workers=2"),
            "mp" => (2, "mp.processes=2"),
            _ => (1, "workers=1"),
        };
        let launch = Launch::new(&site, arch).args(&["--admin", "127.0.0.1:0"]);
        let mut server = launch.set(setting).start();
        assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
        // The admin process has answered, so it has given up its rights.
        assert!(server.status().is_object());
        let orphans = Orphans(server.children(workers + 1));
        server.child.kill().expect("the master is killed");
        server.ended();
        wait_for(&format!("the end of every process of {arch}"), || {
            orphans.0.iter().all(|process| !is_running(*process)).then_some(())
        });
    }
}

/// A quit asks for a dump of the master's memory, not for an orderly end: no worker is waited for.
#[test]
fn a_quit_ends_the_master_at_once_and_its_workers_after_it() {
    if !has("prlimit") {
        return;
    }
    let site = small_site();
    // Without the dump itself, and also where a shell that runs the tests behind its back has them
    // ignore the signal.
    let prefix = ["env", "--default-signal=QUIT", "prlimit", "--core=0", "--"];
    let launch = Launch::under(&prefix, &site, "n-copy");
    let mut server = launch.args(&["--workers", "2"]).start();
    assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
    let orphans = Orphans(server.children(2));
    signal(server.master(), "QUIT");
    assert_eq!(server.ended().signal(), Some(SIGQUIT));
    wait_for("the end of the workers", || {
        orphans.0.iter().all(|process| !is_running(*process)).then_some(())
    });
    let refused = TcpStream::connect(("127.0.0.1", server.port));
    assert_eq!(refused.map(drop).map_err(|error| error.kind()), Err(ErrorKind::ConnectionRefused));
}

#[test]
fn a_broken_pipe_ends_nobody() {
    let site = small_site();
    let log = tempfile::NamedTempFile::new().expect("a temporary file");
    for arch in architectures() {
        let launch = Launch::new(&site, arch).workers_for(arch, 1);
        let access = format!("access-log={}", crate::common::text(log.path()));
        let launch = launch.args(&["--admin", "127.0.0.1:0"]).set(&access);
        let server = launch.start();
        assert_eq!(server.connect().ask(last_get("/small.txt")).status(), 200, "{arch}");
        assert!(server.status().is_object());
        // The worker, the log, and who serves the status.
        let mut all = server.children(3);
        all.push(server.master());
        for process in &all {
            crate::common::rest(*process);
            signal(*process, "PIPE");
        }
        assert_eq!(server.connect().ask(last_get("/small.txt")).status(), 200, "{arch}");
        assert!(server.status().is_object());
        assert!(all.iter().all(|process| is_running(*process)), "{arch}");
    }
}

/// CPUs in a list such as `0-3,8`.
fn cpus(process: u32) -> Vec<usize> {
    let list = proc_status(process, "Cpus_allowed_list").expect("the process runs");
    let number = |text: &str| text.parse::<usize>().expect("a number");
    let ranges = list.split(',').map(|range| range.split_once('-').unwrap_or((range, range)));
    ranges.flat_map(|(first, last)| number(first)..=number(last)).collect()
}

#[test]
fn pinned_workers_take_the_allowed_cpus_in_turn() {
    let site = small_site();
    let allowed = cpus(std::process::id());
    let workers = allowed.len() + 1;
    let launch = Launch::new(&site, "n-copy").args(&["--workers", &workers.to_string()]);
    let server = launch.set("pin=true").start();
    let found = wait_for("pinned workers", || {
        let found: Vec<Vec<usize>> = server.children(workers).into_iter().map(cpus).collect();
        (allowed.len() == 1 || found.iter().all(|cpus| cpus.len() == 1)).then_some(found)
    });
    let expected: Vec<Vec<usize>> =
        (0..workers).map(|index| vec![allowed[index % allowed.len()]]).collect();
    assert_eq!(found, expected);
    let free = Launch::new(&site, "n-copy").args(&["--workers", "2"]).start();
    assert!(free.children(2).into_iter().all(|worker| cpus(worker) == allowed));
}

#[test]
fn copies_have_a_listening_socket_each_and_symmetric_processes_share_one() {
    let site = small_site();
    for (arch, sockets) in [("n-copy", 3), ("symped", 1)] {
        let server = Launch::new(&site, arch).args(&["--workers", "3"]).start();
        server.children(3);
        let listening = sockets_at(server.port).into_iter().filter(|socket| socket.listens);
        assert_eq!(listening.count(), sockets, "{arch}");
        // Wherever connections end up, they are served.
        for _ in 0..20 {
            assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
        }
    }
}

#[test]
fn a_backlog_that_the_kernel_cuts_is_told() {
    let cap = std::fs::read_to_string("/proc/sys/net/core/somaxconn").expect("the cap is there");
    let cap: u64 = cap.trim().parse().expect("a number");
    let site = small_site();
    let backlog = |length: u64| {
        let launch = Launch::new(&site, "sped").set(&format!("accept.backlog={length}"));
        launch.start()
    };
    let over = backlog(cap + 1);
    let expected = format!(
        "flyball: warning: accept.backlog is {}, but net.core.somaxconn cuts it to {cap}\n",
        cap + 1
    );
    over.errors.wait_for("the warning", |errors| errors == expected);
    let at = backlog(cap);
    assert_eq!(at.connect().ask(get("/small.txt")).status(), 200);
    assert_eq!(at.errors.so_far(), "");
}
