//! Handshakes of TLS that attack: hellos that come slowly or never end, and those after which
//! nothing comes. They are ended in time, cost little, and keep no honest client out.

use std::time::{Duration, Instant};

use flyball_testkit::{Begun, Client, Door, wait};

use crate::besieged::{Besieged, get, last_get};
use crate::holding::{HELLO_BEGINS, with_places};

/// Places of the attacked worker; the attackers take all of them.
const PLACES: usize = 32;

/// The most that a handshake may cost that is not finished, in bytes: the input that holds a hello,
/// the session, and the answer to it, with the stack of a thread.
const HANDSHAKE_BYTES_MAX: u64 = 512 * 1024;

/// Between two bytes of a hello.
const DRIP_EVERY: Duration = Duration::from_millis(50);

/// The most that a handshake is kept whose time is five seconds; the rest is for a busy machine.
const ENDED_WITHIN: Duration = Duration::from_secs(60);

/// Hellos of a flood.
const FLOOD: usize = 500;

/// The most that a flood may cost in memory, in bytes.
const FLOOD_BYTES_MAX: u64 = 32 * 1024 * 1024;

on_ways_to_hold_over_tls! {
    handshakes_that_do_not_go_on_lose_their_places_and_are_ended_in_time,
    a_flood_of_hellos_that_are_never_finished_leaves_nothing_behind,
}

/// Sends a hello, and nothing after it.
fn unfinished(door: Door) -> Begun {
    Client::connect(door.address).begin(true, get("/hello.txt"), false)
}

/// How many handshakes have ended because their time was over.
fn late(besieged: &Besieged) -> usize {
    let status = besieged.server.status();
    let count = status.split("\"tls_failed_late\": ").nth(1).and_then(|rest| {
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
        digits?.parse().ok()
    });
    count.unwrap_or_else(|| panic!("it counts none: {status}"))
}

fn handshakes_that_do_not_go_on_lose_their_places_and_are_ended_in_time(arch: &str) {
    let settings = format!(
        "admin = \"127.0.0.1:0\"\ntimeout.handshake = \"5s\"\n{}",
        with_places(arch, PLACES)
    );
    let Some(besieged) = Besieged::start(arch, &settings) else { return };
    let door = besieged.server.door();
    let _answered: Vec<Begun> = (0..PLACES / 2).map(|_| unfinished(door)).collect();
    let mut slow: Vec<Client> = (0..PLACES / 2).map(|_| Client::connect(door.address)).collect();
    slow.iter_mut().for_each(|client| assert!(client.try_send(HELLO_BEGINS)));
    // One more than there are places.
    assert_eq!(besieged.ask_anew("/hello.txt"), 200, "{arch}");
    let status = besieged.server.status();
    assert!(!status.contains("\"made-room\": 0,"), "{arch}: {status}");
    let (start, mut most) = (Instant::now(), 0);
    while !slow.is_empty() {
        slow.retain_mut(|client| client.try_send("\0") && !client.arrived());
        most = most.max(besieged.memory_taken());
        wait::assert_within(start, ENDED_WITHIN, &format!("{arch}: {} are kept", slow.len()));
        wait::dawdle(DRIP_EVERY);
    }
    assert!(most <= HANDSHAKE_BYTES_MAX * PLACES as u64, "{arch}: {most} bytes");
    // All but those who have given their place to a newcomer.
    let ended = wait::until(wait::DEADLINE, || (late(&besieged) >= PLACES / 2).then_some(()));
    assert!(ended.is_some(), "{arch}: {}", besieged.server.status());
    besieged.expect_descriptors_back();
    besieged.server.assert_sound();
}

fn a_flood_of_hellos_that_are_never_finished_leaves_nothing_behind(arch: &str) {
    let settings = format!("timeout.handshake = \"1s\"\n{}", with_places(arch, PLACES));
    let Some(besieged) = Besieged::start(arch, &settings) else { return };
    let door = besieged.server.door();
    let mut kept = door.connect();
    let taken = besieged.most_taken_during(|| {
        for at in 0..FLOOD {
            drop(unfinished(door));
            if at % 50 == 0 {
                assert_eq!(kept.ask(get("/hello.txt")).status(), 200, "{arch}");
                assert_eq!(door.connect().ask(last_get("/hello.txt")).status(), 200, "{arch}");
            }
        }
    });
    assert!(taken <= FLOOD_BYTES_MAX, "{arch}: {taken} bytes");
    drop(kept);
    besieged.expect_descriptors_back();
    besieged.server.assert_sound();
}
