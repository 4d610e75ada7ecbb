//! Attacks that hold connections: a worker that is full of them serves honest clients all the same,
//! nearly as fast as one that nobody attacks.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flyball_stats::median;
use flyball_testkit::{Begun, Client, Door, LARGE_BYTES, Server, wait};

use crate::besieged::{Besieged, Honest, get, is_strict, last_get, measuring, name_of};

/// Places of the attacked worker; the attackers take all of them.
const PLACES: usize = 64;

/// Places of a worker that clients fill which pause: enough that those who come one after the other
/// meanwhile find room.
const FEW_PLACES: usize = 4;

/// How many attackers hold their places in each way.
const HOLDERS: [(Hold, usize); 6] = [
    (Hold::Silent, 12),
    (Hold::Head, 20),
    (Hold::Body, 8),
    (Hold::Reading, 8),
    (Hold::ZeroWindow, 8),
    (Hold::Refused, 8),
];

/// The most that a place which is held may cost, in bytes: the input of a head, the output queue,
/// and the piece of a large body that was read.
const HELD_BYTES_MAX: u64 = 384 * 1024;

/// The same with a thread for each connection, and with a process, which has a heap of its own.
const HELD_BY_THREAD_MAX: u64 = 512 * 1024;
const HELD_BY_PROCESS_MAX: u64 = 1024 * 1024;

/// A newcomer waits until somebody has held a place for a second, and for threads that look around
/// twice a second; the rest is for a busy machine.
const SERVED_WITHIN: Duration = Duration::from_secs(8);

/// Between two bytes of an attacker.
const DRIP_EVERY: Duration = Duration::from_millis(50);

/// The share of their throughput that honest clients must keep on a machine that does nothing
/// else, and on any.
const FLOOR_STRICT: f64 = 0.90;
const FLOOR: f64 = 0.70;

/// The window of the least rates, in place of ten seconds, and the time of those who read nothing:
/// they are cut within the time that is measured, and have to come again.
const WINDOW: &str = "rate.window = \"2s\"\ntimeout.send = \"2s\"\n";

/// How long a client reads nothing: several windows of the least rate.
const PAUSED_FOR: Duration = Duration::from_secs(1);

/// An answer that a socket holds whole.
const IN_SOCKET_BYTES: usize = 1_000_000;

/// How it is taken, and for how long: longer than an idle connection has its place, and lingers.
const TAKEN_BYTES: usize = 4 * 1024;
const TAKEN_EVERY: Duration = Duration::from_millis(25);
const TAKEN_FOR: Duration = Duration::from_millis(3_500);

/// The heads of a record and of a hello in it (RFC 8446, sections 4 and 5.1) that is as long as a
/// record may be: sent byte by byte it never ends.
pub const HELLO_BEGINS: &[u8] = b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03";

/// Times that the attackers of a kind come again, at most.
const COMES_AGAIN_MAX: usize = 2_000;

/// Names a file to which the figures are appended, a line for each architecture.
const RECORD: &str = "FLYBALL_RECORD";

/// Pairs of measurements of which the median counts: the last ones, of as many as are made while
/// the machine is busy with something else than this.
const PAIRS: usize = 5;
const PAIRS_MAX: usize = 40;

/// The same on a machine that does nothing else, where all count.
const PAIRS_STRICT: usize = 25;

on_each_way_to_hold! {
    [
        those_who_hold_all_places_do_not_keep_honest_clients_out,
        a_client_that_pauses_keeps_its_place_until_another_needs_it,
        a_client_that_takes_its_answer_from_the_socket_keeps_its_place,
        those_who_have_asked_are_answered_before_their_places_are_given_away,
    ]
}

on_ways_to_hold_over_tls! {
    those_who_hold_all_places_do_not_keep_honest_clients_out,
    a_client_that_pauses_keeps_its_place_until_another_needs_it,
    a_client_that_takes_its_answer_from_the_socket_keeps_its_place,
    those_who_have_asked_are_answered_before_their_places_are_given_away,
}

/// How an attacker keeps its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// Sends nothing.
    Silent,
    /// Sends a head that never ends; over TLS a hello.
    Head,
    /// Sends a body, barely fast enough.
    Body,
    /// Reads an answer little by little.
    Reading,
    /// Reads nothing of it.
    ZeroWindow,
    /// Is refused, and goes on sending.
    Refused,
}

impl Hold {
    fn begin(self, door: Door) -> Client {
        let connected = match self {
            Hold::Reading | Hold::ZeroWindow => Client::connect_narrow(door.address, 128 * 1024),
            _ => Client::connect(door.address),
        };
        if door.is_secure && self == Hold::Silent {
            return connected;
        }
        if door.is_secure && self == Hold::Head {
            let mut client = connected;
            client.try_send(HELLO_BEGINS);
            return client;
        }
        // One that is thrown out in its handshake comes again.
        let Some(mut client) = door.try_enter(connected) else {
            return Client::connect(door.address);
        };
        let post = "POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";
        let begin = match self {
            Hold::Silent => String::new(),
            Hold::Head => "GET / HTTP/1.1\r\nHost: a\r\nX: ".into(),
            Hold::Body => format!("{post}{}", "x".repeat(8_000)),
            Hold::Reading | Hold::ZeroWindow => get("/large.bin"),
            Hold::Refused => "GET / HTTP/1.1\r\n\r\n".into(),
        };
        client.try_send(begin);
        client
    }

    /// One more byte, or a look; false when the server has ended it.
    fn drip(self, client: &mut Client) -> bool {
        match self {
            Hold::Head | Hold::Refused => client.try_send("x"),
            Hold::Body => client.try_send("x".repeat(64)),
            Hold::Silent => !client.arrived(),
            // Who reads nothing does not see the end of a connection, but that nobody takes what
            // it sends: bytes of a next request, which the server leaves where they are.
            Hold::Reading | Hold::ZeroWindow => client.try_send("G"),
        }
    }
}

/// Attackers that come again when they are thrown out.
struct Siege {
    told: Arc<Told>,
    attacker: Option<JoinHandle<()>>,
}

/// What attackers are told, and what they tell.
#[derive(Default)]
struct Told {
    ended: AtomicBool,
    rests: AtomicBool,
    /// How often those of each kind came again.
    came_again: [AtomicUsize; HOLDERS.len()],
}

impl Siege {
    /// Returns when all have connected.
    fn lay(server: &Server) -> Siege {
        let door = server.door();
        let kinds = HOLDERS.iter().enumerate();
        let kinds = kinds.flat_map(|(kind, (hold, count))| {
            std::iter::repeat_n(*hold, *count).map(move |hold| (kind, hold))
        });
        let begin = |(kind, hold): (usize, Hold)| (kind, hold, hold.begin(door));
        let mut holders: Vec<_> = kinds.map(begin).collect();
        let told = Arc::new(Told::default());
        let heard = Arc::clone(&told);
        let attacker = std::thread::spawn(move || {
            let mut round = 0_usize;
            while !heard.ended.load(SeqCst) {
                wait::dawdle(DRIP_EVERY);
                if heard.rests.load(SeqCst) {
                    continue;
                }
                round += 1;
                for (at, (kind, hold, client)) in holders.iter_mut().enumerate() {
                    let reads = *hold == Hold::Reading && (round + at).is_multiple_of(40);
                    if reads {
                        client.arrived();
                    }
                    let came = &heard.came_again[*kind];
                    if !hold.drip(client) && came.load(SeqCst) < COMES_AGAIN_MAX {
                        *client = hold.begin(door);
                        came.fetch_add(1, SeqCst);
                    }
                }
            }
        });
        Siege { told, attacker: Some(attacker) }
    }

    /// How often attackers of each kind came again.
    fn came_again(&self) -> [usize; HOLDERS.len()] {
        self.told.came_again.each_ref().map(|count| count.load(SeqCst))
    }

    /// Lets the attackers do nothing for a while but hold what they have.
    fn rest(&self, rests: bool) {
        self.told.rests.store(rests, SeqCst);
    }
}

impl Drop for Siege {
    fn drop(&mut self) {
        self.told.ended.store(true, SeqCst);
        let ended = self.attacker.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_some_and(|ended| ended.is_ok()));
    }
}

fn those_who_hold_all_places_do_not_keep_honest_clients_out(arch: &str) {
    let settings = format!("{WINDOW}{}", with_places(arch, PLACES));
    let Some(quiet) = Besieged::start(arch, &settings) else { return };
    let Some(attacked) = Besieged::start(arch, &settings) else { return };
    let siege = Siege::lay(&attacked.server);
    let (_, waited) = Honest::connect(&attacked.server);
    wait::assert_within(Instant::now() - waited, SERVED_WITHIN, arch);
    let pairs = pairs(&quiet, &attacked, &siege);
    let kept = share_kept(&pairs);
    let taken = attacked.memory_taken();
    let came_again = siege.came_again();
    println!(
        "{arch}: {PLACES} held places leave honest clients {:.0} % of their throughput; a newcomer \
         waited for {waited:?}; {} KiB for each place",
        kept * 100.0,
        taken / PLACES as u64 / 1024,
    );
    record(arch, &pairs, waited, taken, came_again);
    if is_strict() {
        // Those who send a body are fast enough to stay, and so are those who read.
        for (at, hold) in [(0, Hold::Silent), (1, Hold::Head), (4, Hold::ZeroWindow)] {
            assert_eq!(HOLDERS[at].0, hold);
            assert!(came_again[at] > 0, "{arch}: nobody of {hold:?} came again: {came_again:?}");
        }
    }
    let floor = if is_strict() { FLOOR_STRICT } else { FLOOR };
    assert!(kept >= floor, "{arch}: {kept:.2} of the throughput is left");
    let most = match name_of(arch) {
        "mp" => HELD_BY_PROCESS_MAX,
        "mt" | "thread-per-connection" => HELD_BY_THREAD_MAX,
        _ => HELD_BYTES_MAX,
    };
    assert!(taken <= most * PLACES as u64, "{arch}: {taken} bytes");
    drop(siege);
    attacked.expect_descriptors_back();
}

/// Settings of a worker with so many places.
pub fn with_places(arch: &str, places: usize) -> String {
    let own = match name_of(arch) {
        "mt" => format!("mt.threads = {places}\n"),
        "mp" => format!("mp.processes = {places}\n"),
        _ => String::new(),
    };
    format!("accept.defer = false\nconnections.max = {places}\n{own}")
}

fn a_client_that_pauses_keeps_its_place_until_another_needs_it(arch: &str) {
    let settings = "admin = \"127.0.0.1:0\"\nrate.window = \"200ms\"\nrate.send-min = \"1MB\"\n";
    let settings = format!("{settings}{}", with_places(arch, FEW_PLACES));
    let Some(besieged) = Besieged::start(arch, &settings) else { return };
    let pause = || {
        let mut client = besieged.server.connect_narrow(128 * 1024);
        client.send(last_get("/large.bin"));
        assert_eq!(client.response_head().status(), 200, "{arch}");
        client
    };
    // Others come and go at the other places.
    let (mut paused, since) = (pause(), Instant::now());
    while since.elapsed() < PAUSED_FOR {
        assert_eq!(besieged.ask_anew("/hello.txt"), 200, "{arch}");
    }
    assert_eq!(paused.rest_before_end().len(), LARGE_BYTES, "{arch}: cut while there was room");

    let paused: Vec<Client> = (0..FEW_PLACES).map(|_| pause()).collect();
    assert_eq!(besieged.ask_anew("/hello.txt"), 200, "{arch}");
    let made = || (!besieged.server.status().contains("\"made-room\": 0,")).then_some(());
    assert!(wait::until(wait::DEADLINE, made).is_some(), "{arch}: {}", besieged.server.status());
    let got = paused.into_iter().map(|mut client| client.rest_before_end().len());
    let got: Vec<usize> = got.collect();
    let whole = got.iter().filter(|got| **got == LARGE_BYTES).count();
    // Processes, and the two stages that poll, that find at the same time that a place is needed
    // may all give theirs.
    let fewest = match arch {
        "mp" | "watpipe" => FEW_PLACES - 2,
        _ => FEW_PLACES - 1,
    };
    assert!((fewest..FEW_PLACES).contains(&whole), "{arch}: {got:?}");
}

/// A connection whose answer is all in its socket waits for the next request, but its client has
/// not got the answer: closed, it would lose the rest with its next request.
fn a_client_that_takes_its_answer_from_the_socket_keeps_its_place(arch: &str) {
    let settings = format!("admin = \"127.0.0.1:0\"\n{}", with_places(arch, FEW_PLACES));
    let Some(besieged) = Besieged::start(arch, &settings) else { return };
    let range = format!("Range: bytes=0-{}", IN_SOCKET_BYTES - 1);
    let begin = |_| {
        let mut client = besieged.server.connect_narrow(64 * 1024);
        client.send(format!("GET /large.bin HTTP/1.1\r\nHost: a\r\n{range}\r\n\r\n"));
        assert_eq!(client.response_head().status(), 206, "{arch}");
        client
    };
    let mut takers: Vec<Client> = (0..FEW_PLACES).map(begin).collect();
    let door = besieged.server.door();
    let new = Client::connect(door.address);
    let new = new.begin(door.is_secure, last_get("/hello.txt"), false);
    let (mut taken, since) = (0, Instant::now());
    while since.elapsed() < TAKEN_FOR && taken + TAKEN_BYTES < IN_SOCKET_BYTES {
        takers.iter_mut().for_each(|client| drop(client.take(TAKEN_BYTES)));
        taken += TAKEN_BYTES;
        wait::dawdle(TAKEN_EVERY);
    }
    for client in &mut takers {
        client.send(get("/hello.txt"));
        assert_eq!(client.take(IN_SOCKET_BYTES - taken).len(), IN_SOCKET_BYTES - taken, "{arch}");
        assert_eq!(client.response().status(), 200, "{arch}");
    }
    // They have their answers now, and are idle.
    assert_eq!(new.finish().map(|answer| answer.status()), Some(200), "{arch}");
}

/// A request may come between two looks at a connection, as while the server stands still: then
/// it is not idle any more, although others wait for its place.
fn those_who_have_asked_are_answered_before_their_places_are_given_away(arch: &str) {
    let Some(besieged) = Besieged::start(arch, &with_places(arch, FEW_PLACES)) else { return };
    let door = besieged.server.door();
    let connect = || {
        let mut client = door.connect();
        assert_eq!(client.ask(get("/hello.txt")).status(), 200, "{arch}");
        client
    };
    let mut kept: Vec<Client> = (0..FEW_PLACES).map(|_| connect()).collect();
    let held = besieged.server.hold();
    let begin = |_| {
        let client = Client::connect(door.address);
        client.begin(door.is_secure, last_get("/hello.txt"), false)
    };
    let new: Vec<Begun> = (0..FEW_PLACES).map(begin).collect();
    kept.iter_mut().for_each(|client| client.send(get("/hello.txt")));
    drop(held);
    let kept = kept.into_iter().map(|mut client| client.response());
    let new = new.into_iter().map(|client| client.finish().expect("an answer"));
    for answer in kept.chain(new) {
        assert_eq!(answer.status(), 200, "{arch}");
    }
}

/// Appends the figures to the record, if one is asked for.
fn record(
    arch: &str,
    pairs: &[[f64; 2]],
    waited: Duration,
    taken: u64,
    came_again: [usize; HOLDERS.len()],
) {
    let Some(path) = std::env::var_os(RECORD) else { return };
    let came_again = HOLDERS.into_iter().zip(came_again);
    let came_again: Vec<String> =
        came_again.map(|((hold, _), count)| format!("\"{hold:?}\":{count}")).collect();
    let line = format!(
        "{{\"architecture\":\"{arch}\",\"kept\":{:.4},\"newcomer_ms\":{},\"bytes_per_place\":{},\
         \"came_again\":{{{}}},\"pairs\":{pairs:?}}}\n",
        share_kept(pairs),
        waited.as_millis(),
        taken / PLACES as u64,
        came_again.join(","),
    );
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the record is written");
}

/// The share of the throughput that counts.
fn share_kept(pairs: &[[f64; 2]]) -> f64 {
    median(&pairs.iter().map(|[quiet, attacked]| attacked / quiet).collect::<Vec<_>>())
}

/// The throughput of honest clients of a server that nobody attacks, and of the attacked one, in
/// requests in a second: pairs of measurements.
fn pairs(quiet: &Besieged, attacked: &Besieged, siege: &Siege) -> Vec<[f64; 2]> {
    let _alone = measuring();
    let (mut unharmed, _) = Honest::connect(&quiet.server);
    let (mut harmed, _) = Honest::connect(&attacked.server);
    let mut pair = |slice| {
        siege.rest(true);
        let before = unharmed.throughput(slice);
        siege.rest(false);
        [before, harmed.throughput(slice)].map(f64::round)
    };
    if is_strict() {
        return (0..PAIRS_STRICT).map(|_| pair(Duration::from_millis(200))).collect();
    }
    let mut pairs = Vec::new();
    for made in 1.. {
        pairs.push(pair(Duration::from_millis(30)));
        let begin = pairs.len().saturating_sub(PAIRS);
        pairs.drain(..begin);
        if made >= PAIRS && share_kept(&pairs) >= FLOOR || made >= PAIRS_MAX {
            break;
        }
    }
    pairs
}
