//! Attacks that hold connections: a worker that is full of them serves honest clients all the same,
//! nearly as fast as one that nobody attacks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

use flyball_testkit::{Client, Server, wait};

use crate::besieged::{Besieged, Honest, get, is_strict, measuring, median};

/// Places of the attacked worker; the attackers take all of them.
const PLACES: usize = 64;

/// How many attackers hold their places in each way.
const HOLDERS: [(Hold, usize); 5] = [
    (Hold::Silent, 12),
    (Hold::Head, 28),
    (Hold::Body, 8),
    (Hold::Reading, 8),
    (Hold::ZeroWindow, 8),
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

/// Pairs of measurements of which the median counts: the last ones, of as many as are made while
/// the machine is busy with something else than this.
const PAIRS: usize = 5;
const PAIRS_MAX: usize = 40;

/// The same on a machine that does nothing else, where all count.
const PAIRS_STRICT: usize = 25;

on_each_way_to_hold! {
    [those_who_hold_all_places_do_not_keep_honest_clients_out]
}

/// How an attacker keeps its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// Sends nothing.
    Silent,
    /// Sends a head that never ends.
    Head,
    /// Sends a body, barely fast enough.
    Body,
    /// Reads an answer little by little.
    Reading,
    /// Reads nothing of it.
    ZeroWindow,
}

impl Hold {
    fn begin(self, server: &Server) -> Client {
        let mut client = match self {
            Hold::Reading | Hold::ZeroWindow => {
                Client::connect_narrow(server.address(), 128 * 1024)
            }
            _ => server.connect(),
        };
        let post = "POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";
        let begin = match self {
            Hold::Silent => String::new(),
            Hold::Head => "GET / HTTP/1.1\r\nHost: a\r\nX: ".into(),
            Hold::Body => format!("{post}{}", "x".repeat(8_000)),
            Hold::Reading | Hold::ZeroWindow => get("/large.bin"),
        };
        client.try_send(begin);
        client
    }

    /// One more byte, or a look; false when the server has ended it.
    fn drip(self, client: &mut Client) -> bool {
        match self {
            Hold::Head => client.try_send("x"),
            Hold::Body => client.try_send("x".repeat(64)),
            Hold::Silent => !client.arrived(),
            Hold::Reading | Hold::ZeroWindow => true,
        }
    }
}

/// Attackers that come again when they are thrown out.
struct Siege {
    told: Arc<(AtomicBool, AtomicBool)>,
    attacker: Option<JoinHandle<()>>,
}

impl Siege {
    /// Returns when all have connected.
    fn lay(server: &Server) -> Siege {
        let kinds = HOLDERS.iter().flat_map(|(hold, count)| std::iter::repeat_n(*hold, *count));
        let mut holders: Vec<_> = kinds.map(|hold| (hold, hold.begin(server))).collect();
        let address = server.address();
        let told = Arc::new((AtomicBool::new(false), AtomicBool::new(false)));
        let (ended, rests) = (Arc::clone(&told), Arc::clone(&told));
        let attacker = std::thread::spawn(move || {
            let mut round = 0_usize;
            while !ended.0.load(SeqCst) {
                wait::dawdle(DRIP_EVERY);
                if rests.1.load(SeqCst) {
                    continue;
                }
                round += 1;
                for (at, (hold, client)) in holders.iter_mut().enumerate() {
                    let reads = *hold == Hold::Reading && (round + at).is_multiple_of(40);
                    if reads {
                        client.arrived();
                    }
                    if !hold.drip(client) {
                        *client = Client::connect(address);
                        client.try_send(if *hold == Hold::Head {
                            "GET / HTTP/1.1\r\n"
                        } else {
                            ""
                        });
                    }
                }
            }
        });
        Siege { told, attacker: Some(attacker) }
    }

    /// Lets the attackers do nothing for a while but hold what they have.
    fn rest(&self, rests: bool) {
        self.told.1.store(rests, SeqCst);
    }
}

impl Drop for Siege {
    fn drop(&mut self) {
        self.told.0.store(true, SeqCst);
        let ended = self.attacker.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_some_and(|ended| ended.is_ok()));
    }
}

fn those_who_hold_all_places_do_not_keep_honest_clients_out(arch: &str) {
    let settings = format!(
        "accept.defer = false\nconnections.max = {PLACES}\nmt.threads = {PLACES}\n\
         mp.processes = {PLACES}\n"
    );
    let settings = match arch {
        "mt" => settings.replace("mp.processes = 64\n", ""),
        "mp" => settings.replace("mt.threads = 64\n", ""),
        _ => settings.replace("mp.processes = 64\n", "").replace("mt.threads = 64\n", ""),
    };
    let Some(quiet) = Besieged::start(arch, &settings) else { return };
    let Some(attacked) = Besieged::start(arch, &settings) else { return };
    let siege = Siege::lay(&attacked.server);
    let (_, waited) = Honest::connect(&attacked.server);
    assert!(waited < SERVED_WITHIN, "{arch}: a newcomer waited for {waited:?}");
    let kept = share_kept(&quiet, &attacked, &siege);
    let taken = attacked.memory_taken();
    println!(
        "{arch}: {PLACES} held places leave honest clients {:.0} % of their throughput; a newcomer \
         waited for {waited:?}; {} KiB for each place",
        kept * 100.0,
        taken / PLACES as u64 / 1024,
    );
    let floor = if is_strict() { FLOOR_STRICT } else { FLOOR };
    assert!(kept >= floor, "{arch}: {kept:.2} of the throughput is left");
    let most = match arch {
        "mp" => HELD_BY_PROCESS_MAX,
        "mt" | "thread-per-connection" => HELD_BY_THREAD_MAX,
        _ => HELD_BYTES_MAX,
    };
    assert!(taken <= most * PLACES as u64, "{arch}: {taken} bytes");
    drop(siege);
    attacked.expect_descriptors_back();
}

/// The throughput of honest clients of the attacked server, as a share of that of another.
fn share_kept(quiet: &Besieged, attacked: &Besieged, siege: &Siege) -> f64 {
    let _alone = measuring();
    let (mut unharmed, _) = Honest::connect(&quiet.server);
    let (mut harmed, _) = Honest::connect(&attacked.server);
    let mut pair = |slice| {
        siege.rest(true);
        let before = unharmed.throughput(slice);
        siege.rest(false);
        harmed.throughput(slice) / before
    };
    if is_strict() {
        return median((0..PAIRS_STRICT).map(|_| pair(Duration::from_millis(200))).collect());
    }
    let mut ratios = Vec::new();
    loop {
        ratios.push(pair(Duration::from_millis(30)));
        let last = ratios[ratios.len().saturating_sub(PAIRS)..].to_vec();
        let kept = median(last);
        if ratios.len() >= PAIRS && kept >= FLOOR || ratios.len() >= PAIRS_MAX {
            return kept;
        }
    }
}
