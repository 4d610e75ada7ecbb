//! Floods: of pipelined requests whose answers nobody reads, of connections from one address, of
//! connections that are reset. They cost what they cost; memory and descriptors are bounded, the
//! time-outs hold, and everything is given back.

use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use flyball_stats::median;
use flyball_testkit::{Client, Door, wait};

use crate::besieged::{Besieged, Honest, get, is_strict, last_get, measuring};
use crate::holding::HELLO_BEGINS;

/// Connections that flood with requests.
const PIPELINES: usize = 8;

/// What a connection may cost that pipelines and reads nothing, in bytes, with the thread or the
/// process that serves it.
const PIPELINE_BYTES_MAX: u64 = 1024 * 1024;

/// The most that a connection which reads nothing is kept: a window of half a second, another of
/// what it may have read before, and the rest for a busy machine.
const ENDED_WITHIN: Duration = Duration::from_secs(60);

/// Connections of each storm.
const STORM: usize = 300;

/// The most that the storms may cost in memory, in bytes.
const STORM_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Connections that one address may have.
const PER_ADDRESS: usize = 20;

/// Written at once.
const FLOOD: usize = 1_000;

on_each_way_to_hold! {
    [
        requests_whose_answers_nobody_reads_are_ended_and_cost_little,
        storms_of_connections_and_resets_leave_nothing_behind,
    ]
}

on_ways_to_hold_over_tls! {
    requests_whose_answers_nobody_reads_are_ended_and_cost_little,
    storms_of_connections_and_resets_leave_nothing_behind,
}

fn requests_whose_answers_nobody_reads_are_ended_and_cost_little(arch: &str) {
    let settings = "admin = \"127.0.0.1:0\"\ntimeout.send = \"500ms\"";
    let Some(besieged) = Besieged::start(arch, settings) else { return };
    let requests = get("/hello.txt").repeat(FLOOD);
    // Each, and where in the requests it is.
    let mut flooding: Vec<(Client, usize)> =
        (0..PIPELINES).map(|_| (besieged.server.connect(), 0)).collect();
    let start = Instant::now();
    let (mut sent, mut most) = (0_u64, 0);
    while !flooding.is_empty() {
        flooding.retain_mut(|(client, at)| match client.send_some(&requests.as_bytes()[*at..]) {
            Ok(n) => {
                (*at, sent) = ((*at + n) % requests.len(), sent + n as u64);
                true
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        });
        most = most.max(besieged.memory_taken());
        let kept = format!("{arch}: {} are kept", flooding.len());
        wait::assert_within(start, ENDED_WITHIN, &kept);
        wait::dawdle(Duration::from_millis(5));
    }
    assert!(most <= PIPELINE_BYTES_MAX * PIPELINES as u64, "{arch}: {most} bytes");
    assert!(sent > 0);
    let closed = format!("\"send-timeout\": {PIPELINES},");
    let found = wait::until(wait::DEADLINE, || besieged.server.status().find(&closed));
    assert!(found.is_some(), "{arch}: {}", besieged.server.status());
    assert_eq!(besieged.ask_anew("/hello.txt"), 200);
    besieged.expect_descriptors_back();
}

fn storms_of_connections_and_resets_leave_nothing_behind(arch: &str) {
    let settings = format!("limit.connections-per-address = {PER_ADDRESS}");
    let Some(besieged) = Besieged::start(arch, &settings) else { return };
    let door = besieged.server.door();
    let neighbour = Ipv4Addr::new(127, 0, 0, 2);
    let taken = besieged.most_taken_during(|| storm(door));
    assert!(taken <= STORM_BYTES_MAX, "{arch}: {taken} bytes");
    besieged.expect_descriptors_back();
    // One address has all it may have, and is told so; its neighbour is served. What the storm has
    // left in the queue of the listening socket may have its turn only now.
    let all_served = || {
        let connect = |_| door.try_enter(Client::connect(door.address));
        let mut held: Vec<Client> = (0..PER_ADDRESS).map_while(connect).collect();
        let served = |client: &mut Client| client.ask(get("/hello.txt")).status() == 200;
        (held.len() == PER_ADDRESS && held.iter_mut().all(served)).then_some(held)
    };
    let held = wait::until(wait::DEADLINE, all_served);
    assert!(held.is_some(), "{arch}: it never has all that it may have");
    for _ in 0..PER_ADDRESS {
        let client = door.try_enter(Client::connect(door.address));
        assert_eq!(client.is_none(), door.is_secure, "{arch}: one too many shakes hands");
        if let Some(mut client) = client {
            client.try_send(last_get("/hello.txt"));
            assert_eq!(client.response().status(), 429, "{arch}");
        }
    }
    let mut other = door.enter(Client::connect_from(neighbour.into(), door.address));
    assert_eq!(other.ask(last_get("/hello.txt")).status(), 200, "{arch}");
    drop((held, other));
    besieged.expect_descriptors_back();
}

/// Opens connections that end at every step, in good order and by a reset: of those over TLS the
/// first two kinds before their handshake and in it. Who has too many is refused there.
fn storm(door: Door) {
    for at in 0..STORM {
        let connected = Client::connect(door.address);
        let entered = match at % 6 {
            0 | 1 => Some(connected),
            _ => door.try_enter(connected),
        };
        let Some(mut client) = entered else { continue };
        match at % 6 {
            1 if door.is_secure => drop(client.try_send(HELLO_BEGINS)),
            0 => {}
            1 => drop(client.try_send("GET /large.bin HT")),
            2 => drop(client.try_send(get("/large.bin"))),
            3 => drop(client.try_send(get("/hello.txt").repeat(20))),
            4 => drop(
                client.try_send("POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx"),
            ),
            _ => {
                client.try_send(get("/large.bin"));
                client.arrived();
            }
        }
        match at % 2 {
            0 => client.reset(),
            _ => drop(client),
        }
    }
}

/// How honest clients are crowded out.
#[derive(Clone, Copy, Debug)]
enum Flood {
    /// Connections that are opened and closed.
    Connections,
    /// Connections that ask for something and are reset.
    Resets,
    /// Requests whose answers nobody reads, on a few connections.
    Pipelines,
}

/// Floods as fast as one thread can, and counts the connections that it opened.
fn flood(kind: Flood, address: SocketAddr, opened: &AtomicU64, ended: &AtomicBool) {
    let requests = get("/hello.txt").repeat(FLOOD);
    while !ended.load(SeqCst) {
        let Ok(mut stream) = TcpStream::connect(address) else { continue };
        opened.fetch_add(1, SeqCst);
        match kind {
            Flood::Connections => drop(stream.shutdown(Shutdown::Both)),
            // What was received and not read makes it a reset.
            Flood::Resets => drop(stream.write(get("/hello.txt").as_bytes())),
            Flood::Pipelines => {
                stream.set_nonblocking(true).expect("O_NONBLOCK");
                while !ended.load(SeqCst) && stream.write(requests.as_bytes()).is_ok() {}
            }
        }
    }
}

/// Of floods the figure is told: they take processor time, which nothing can give back.
#[test]
#[ignore = "full tier"]
fn what_honest_clients_keep_beside_a_flood_is_told() {
    for arch in ["sped", "mt", "uring"] {
        for kind in [Flood::Connections, Flood::Resets, Flood::Pipelines] {
            let Some(besieged) = Besieged::start(arch, "") else { continue };
            let kept = share_kept(&besieged, kind);
            println!("{arch}: {kind:?} leave honest clients {:.0} %", kept * 100.0);
            assert!(kept > 0.0, "{arch}: {kind:?}");
            besieged.expect_descriptors_back();
        }
    }
}

/// The throughput of honest clients beside a flood, as a share of that without one.
fn share_kept(besieged: &Besieged, kind: Flood) -> f64 {
    let (mut honest, _) = Honest::connect(&besieged.server);
    let _alone = measuring();
    let slice = Duration::from_millis(if is_strict() { 500 } else { 60 });
    let address = besieged.server.address();
    let ended = AtomicBool::new(false);
    let mut pair = |_| {
        let before = honest.throughput(slice);
        let opened = AtomicU64::new(0);
        let during = std::thread::scope(|scope| {
            ended.store(false, SeqCst);
            let flood = scope.spawn(|| flood(kind, address, &opened, &ended));
            let begun = wait::until(wait::DEADLINE, || (opened.load(SeqCst) > 0).then_some(()));
            let during = honest.throughput(slice);
            ended.store(true, SeqCst);
            flood.join().expect("the flood ends");
            assert!(begun.is_some(), "{kind:?} opened nothing");
            during
        });
        during / before
    };
    median(&(0..5).map(&mut pair).collect::<Vec<_>>())
}
