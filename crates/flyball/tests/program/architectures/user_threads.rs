//! What is special about servers of user-level threads: how many connections a thread accepts
//! before it works, what bounds the threads, and what a thread costs.
use std::path::Path;
use std::time::Duration;

use crate::common::sockets::{sockets_at, wait_for_unread};
use crate::common::trace::Traced;
use crate::common::{
    Launch, Server, Site, anonymous_bytes, get, has, last_get, signal, stop_at_rest, wait_for,
};
use flyball_testkit::Client;

/// How long nothing comes on a connection that is not served.
const SILENCE: Duration = Duration::from_millis(300);

/// Looks at events that a server makes in that time when it has nothing to do: it publishes its
/// counters, now and then.
const IDLE_LOOKS_MAX: u64 = 20;

/// Connections that are kept idle to see what each costs.
const IDLE: usize = 500;

/// What an idle connection may cost with a thread of its own, in bytes: the pages of its stack that
/// it has touched, and a little beside. This is measured and is no budget of an event loop.
const BYTES_PER_THREAD_MAX: u64 = 20 * 1024;

/// `knot.stack` as it is by default, in KiB.
const STACK_KIB: u64 = 64;

fn small_site() -> Site {
    Site::with(&[("small.txt", &[b'x'; 1024])])
}

fn start(site: &Site, arch: &str, settings: &[&str]) -> Server {
    let mut launch = Launch::new(site, arch).args(&["--workers", "1", "--admin", "127.0.0.1:0"]);
    for setting in settings {
        launch = launch.set(setting);
    }
    // No connection makes room or times out, however idle it is and however busy the machine.
    launch.set("close.idle-when-full=false").set("timeout.head=10min").start()
}

#[track_caller]
fn wait_for_accepted(server: &Server, count: u64) {
    wait_for("connections to be accepted", || (server.counter("accepted") >= count).then_some(()));
}

/// The first bytes of a request, which make the kernel hand the connection over.
fn begin(server: &Server) -> Client {
    let mut client = server.connect();
    client.send("GET /small.txt HTTP/1.1\r\n");
    client
}

#[track_caller]
fn finish(client: &mut Client) {
    client.send("Host: localhost\r\n\r\n");
    assert_eq!(client.response().status(), 200);
}

#[test]
fn with_limit_1_a_thread_accepts_one_at_a_time() {
    let site = small_site();
    // By default as well: that is the original.
    for settings in [&["knot.threads=1"][..], &["knot.threads=1", "accept.limit=1"]] {
        let server = start(&site, "knot-c", settings);
        let mut first = begin(&server);
        wait_for_accepted(&server, 1);
        let mut second = begin(&server);
        second.send("Host: localhost\r\n\r\n");
        second.expect_silence(SILENCE);
        finish(&mut first);
        // The only thread belongs to the first client for as long as that is connected.
        assert_eq!(first.ask(get("/small.txt")).status(), 200);
        second.expect_silence(SILENCE);
        assert_eq!(server.counter("accepted"), 1, "{settings:?}");
        drop(first);
        assert_eq!(second.response().status(), 200);
        wait_for_accepted(&server, 2);
    }
}

#[test]
fn with_limit_2_a_thread_accepts_two_and_works_them_off_before_it_accepts_again() {
    let site = small_site();
    let server = start(&site, "knot-c", &["knot.threads=1", "accept.limit=2"]);
    // While the only thread has this one, three others queue up.
    let mut holder = begin(&server);
    wait_for_accepted(&server, 1);
    let [mut first, mut second, mut third] = [1, 2, 3].map(|count| {
        let client = begin(&server);
        wait_for_unread(server.port, count);
        client
    });
    for client in [&mut second, &mut third] {
        client.send("Host: localhost\r\n\r\n");
        client.expect_silence(SILENCE);
    }
    finish(&mut holder);
    drop(holder);
    wait_for_accepted(&server, 3);
    second.expect_silence(SILENCE);
    assert_eq!(server.counter("accepted"), 3, "the third waits in the queue");
    finish(&mut first);
    // Another of its batch waits, so that it is not kept.
    first.expect_closed();
    assert_eq!(second.response().status(), 200);
    third.expect_silence(SILENCE);
    assert_eq!(server.counter("accepted"), 3, "a batch is worked off first");
    drop(second);
    assert_eq!(third.response().status(), 200);
    assert_eq!(third.ask(get("/small.txt")).status(), 200, "no connection waits behind it");
}

#[test]
#[ignore = "full tier"]
fn the_pool_bounds_connections_and_waiting_for_a_thread_costs_nothing() {
    let site = small_site();
    for events in ["select", "poll", "epoll", "epoll-edge"] {
        let events = format!("events={events}");
        let server = start(&site, "knot-c", &["knot.threads=3", &events]);
        let mut kept: Vec<Client> = (0..3).map(|_| server.connect()).collect();
        for client in &mut kept {
            assert_eq!(client.ask(get("/small.txt")).status(), 200, "{events}");
        }
        let mut waiting: Vec<Client> = (0..3).map(|_| server.connect()).collect();
        for client in &mut waiting {
            client.send(last_get("/small.txt"));
        }
        waiting[0].expect_silence(SILENCE);
        let before = server.counter("getevents_calls");
        waiting[1].expect_silence(SILENCE);
        let looks = server.counter("getevents_calls") - before;
        assert!(
            looks <= IDLE_LOOKS_MAX,
            "{events}: {looks} looks while no connection can be accepted"
        );
        kept.pop();
        for client in &mut waiting {
            assert_eq!(client.response().status(), 200, "{events}");
            client.expect_closed();
        }
        assert_eq!(kept[0].ask(get("/small.txt")).status(), 200, "{events}");
    }
}

#[test]
fn an_accepting_thread_stops_at_its_limit_and_takes_the_rest_later() {
    let site = small_site();
    for (events, limit) in [("epoll", "0.2"), ("epoll-edge", "2"), ("poll", "1"), ("epoll", "inf")]
    {
        let (events, limit) = (format!("events={events}"), format!("accept.limit={limit}"));
        let server = start(&site, "knot-a", &[&events, &limit]);
        let mut clients: Vec<Client> = (0..64).map(|_| begin(&server)).collect();
        // The last first: each has a thread of its own.
        for client in clients.iter_mut().rev() {
            finish(client);
        }
        for client in &mut clients {
            assert_eq!(client.ask(get("/small.txt")).status(), 200, "{events}, {limit}");
        }
        wait_for_accepted(&server, 64);
    }
}

#[test]
fn connections_that_are_open_at_the_drain_deadline_are_closed() {
    let site = small_site();
    for arch in ["knot-c", "knot-a"] {
        let mut server = start(&site, arch, &["drain=200ms"]);
        let mut client = begin(&server);
        wait_for_accepted(&server, 1);
        signal(server.master(), "TERM");
        client.expect_closed();
        assert_eq!(server.ended().code(), Some(0), "{arch}: {}", server.errors.whole());
    }
}

/// The worker of a server that has an admin process too: the one that has its listening socket.
fn worker(server: &Server) -> u32 {
    let listening = sockets_at(server.port).into_iter().find(|socket| socket.listens);
    let inode = listening.expect("it listens").inode;
    server.child_with(Path::new(&format!("socket:[{inode}]")))
}

#[test]
fn an_idle_connection_costs_the_pages_of_its_stack() {
    let site = small_site();
    let server = start(&site, "knot-a", &["timeout.idle=10min"]);
    let worker = worker(&server);
    let mut clients: Vec<Client> = vec![server.connect()];
    assert_eq!(clients[0].ask(get("/small.txt")).status(), 200);
    let before = anonymous_bytes(worker);
    for _ in 0..IDLE {
        let mut client = server.connect();
        assert_eq!(client.ask(get("/small.txt")).status(), 200);
        clients.push(client);
    }
    let each = (anonymous_bytes(worker) - before) / IDLE as u64;
    println!("{each} bytes for each of {IDLE} idle connections");
    assert!(each <= BYTES_PER_THREAD_MAX, "{each} bytes for each idle connection");
    assert!(each >= 4096, "the stacks are not seen");
}

/// KiB that are touched of the mapping which takes most of those with the size of a stack.
fn deepest_stack_kib(process: u32) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{process}/smaps")).expect("it runs");
    let kib = |line: &str, name: &str| -> Option<u64> {
        line.strip_prefix(name)?.trim().trim_end_matches(" kB").trim().parse().ok()
    };
    let (mut is_writable, mut size, mut deepest) = (false, 0, 0);
    for line in maps.lines() {
        // A part of the program may happen to have the size of a stack.
        if let Some((_, rights)) = line.split_once(' ').filter(|(range, _)| range.contains('-')) {
            is_writable = rights.starts_with("rw-p");
        }
        if let Some(found) = kib(line, "Size:") {
            size = found;
        }
        if let Some(touched) = kib(line, "Rss:").filter(|_| is_writable && size == STACK_KIB) {
            deepest = deepest.max(touched);
        }
    }
    deepest
}

#[test]
fn no_request_comes_near_the_end_of_a_stack() {
    let large = vec![b'x'; 1 << 20];
    let site = Site::with(&[("small.txt", &[b'x'; 1024]), ("large.bin", &large)]);
    let log = site.path().join("access.log");
    let log = log.to_str().expect("a path in UTF-8");
    for arch in ["knot-c", "knot-a"] {
        for mode in ["send.mode=copy", "send.mode=sendfile"] {
            let server = start(&site, arch, &[mode, &format!("access-log={log}")]);
            for _ in 0..8 {
                exercise(&server);
            }
            let deepest = deepest_stack_kib(worker(&server));
            println!("{arch}, {mode}: {deepest} KiB of {STACK_KIB}");
            assert!((4..=STACK_KIB / 2).contains(&deepest), "{arch}: {deepest} KiB");
        }
    }
}

/// Some of everything that a thread does on its stack.
fn exercise(server: &Server) {
    let mut client = server.connect();
    let long = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x/".repeat(2000));
    assert_eq!(client.ask(long).status(), 404);
    let fields: String = (0..90).map(|at| format!("X-{at}: {at}\r\n")).collect();
    let wide = format!("GET /small.txt HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
    assert_eq!(client.ask(wide).status(), 200);
    let parts: String = (0..8).map(|at| format!(",{}-{}", at * 9000, at * 9000 + 5)).collect();
    let ranges = format!("Range: bytes={}", &parts[1..]);
    let ranges = format!("GET /large.bin HTTP/1.1\r\nHost: localhost\r\n{ranges}\r\n\r\n");
    assert_eq!(client.ask(ranges).status(), 206);
    assert!(client.ask(get("/")).text().contains("large.bin"), "a listing");
    client.send(get("/small.txt").repeat(20) + &get("/large.bin"));
    for _ in 0..21 {
        assert_eq!(client.response().status(), 200);
    }
    assert_eq!(client.ask("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").status(), 400);
    client.half_close();
    client.expect_closed();
}

/// Which of three clients is read first, who can all go on at once, in this order: one that sent
/// the rest of a head, one that asks once more, one that asks for the last time. Four connections
/// are allowed, and those before that asked for the last time were closed.
fn turns(site: &Site, order: &str) -> Vec<String> {
    let settings = [&*format!("knot.order={order}"), "connections.max=4", "timeout.head=2min"];
    let traced = Traced::start(site, "knot-a", &settings);
    for _ in 0..3 {
        traced.warm_and_close("/small.txt");
    }
    let mut clients = [(); 3].map(|()| traced.warm("/small.txt"));
    let head = "GET /turn-head HTTP/1.1\r\nX: ";
    clients[0].send(head);
    let log = || std::fs::read_to_string(&traced.log).expect("there is a trace");
    wait_for("half a head is read", || log().contains("\"GET /turn-head").then_some(()));
    stop_at_rest(traced.serving());
    let rest = "REST\r\nHost: localhost\r\n\r\n".to_owned();
    let texts = [rest, get("/turn-again"), last_get("/turn-last")];
    for (at, text) in texts.into_iter().enumerate() {
        clients[at].send(text);
        wait_for_unread(traced.server.port, at + 1);
    }
    signal(traced.serving(), "CONT");
    for client in &mut clients {
        assert_eq!(client.response().status(), 404);
    }
    let marks = ["\"REST", "\"GET /turn-again", "\"GET /turn-last"];
    let trace = log();
    let mut seen: Vec<(usize, &str)> =
        marks.iter().map(|mark| (trace.find(mark).expect("it was read"), *mark)).collect();
    seen.sort_unstable();
    seen.iter().map(|(_, mark)| mark.trim_start_matches("\"GET /turn-").to_string()).collect()
}

#[test]
#[ignore = "full tier"]
fn threads_run_in_the_order_that_is_set_and_those_that_close_first_when_places_run_short() {
    if !has("strace") {
        return;
    }
    let site = small_site();
    assert_eq!(turns(&site, "fifo"), ["\"REST", "again", "last"]);
    assert_eq!(turns(&site, "lifo"), ["last", "again", "\"REST"]);
    // Those that wait for a request are at one point, where some closed; within a head none did.
    assert_eq!(turns(&site, "resource"), ["again", "last", "\"REST"]);
}
