//! The four modes of slowhttptest: a slow head, a slow body, a slow reader, and a head that asks
//! for very many ranges.

use std::time::Duration;

use flyball_testkit::wait;

use crate::besieged::Besieged;
use crate::common_programs::{have, on_architectures, program};

/// Time-outs that are over before the program is.
const SETTINGS: &str = "admin = \"127.0.0.1:0\"\ntimeout.head = \"1s\"\nrate.window = \"1s\"\n\
    close.idle-when-full = false\nrate.send-min = \"100kB\"";

/// The most that all of an attack's connections may cost, in bytes.
const MEMORY_MAX: u64 = 64 * 1024 * 1024;

/// Each attack, its path, and how the server ends it; an answer ends that of the ranges.
const MODES: [(&[&str], &str, Option<&str>); 4] = [
    (&["-H", "-i", "1"], "/hello.txt", Some("head-timeout")),
    (&["-B", "-i", "1", "-s", "8192", "-t", "POST"], "/digest", Some("body-timeout")),
    (&["-X", "-w", "10", "-y", "20", "-n", "1", "-z", "32"], "/large.bin", Some("send-timeout")),
    (&["-R", "-a", "10", "-b", "3000"], "/large.bin", None),
];

on_architectures! {
    [full sped = "sped", fast mt = "mt", full uring = "uring"]
    [slowhttptest_closes_nobody_out_and_is_closed_in_time]
}

fn slowhttptest_closes_nobody_out_and_is_closed_in_time(arch: &str) {
    if !have(&["slowhttptest"]) {
        return;
    }
    let threads = if arch == "mt" { "mt.threads = 512\n" } else { "" };
    let Some(besieged) = Besieged::start(arch, &format!("{threads}{SETTINGS}")) else { return };
    let attacks: Vec<_> = MODES
        .iter()
        .map(|(mode, path, _)| {
            let url = format!("http://{}{path}", besieged.server.address());
            let mut command = program("slowhttptest");
            command.args(*mode).args(["-c", "60", "-r", "200", "-l", "3", "-p", "10"]);
            command.args(["-u", &url]);
            std::thread::spawn(move || command.output().expect("slowhttptest starts"))
        })
        .collect();
    let mut asked = 0;
    while attacks.iter().any(|attack| !attack.is_finished()) {
        assert_eq!(besieged.ask_anew("/hello.txt"), 200);
        assert!(besieged.memory_taken() <= MEMORY_MAX, "{arch}: {}", besieged.memory_taken());
        asked += 1;
        wait::dawdle(Duration::from_millis(20));
    }
    for (attack, (mode, ..)) in attacks.into_iter().zip(MODES) {
        let said = attack.join().expect("the attack ends").stdout;
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains("YES"), "{arch}: {mode:?} said nothing: {said}");
        assert!(!said.contains("NO\u{1b}"), "{arch}: {mode:?} closed the server");
    }
    assert!(asked > 10, "{arch}: honest clients were answered {asked} times");
    for reason in MODES.iter().filter_map(|(.., reason)| *reason) {
        let found = wait::until(wait::DEADLINE, || {
            let none = format!("\"{reason}\": 0,");
            (!besieged.server.status().contains(&none)).then_some(())
        });
        assert!(found.is_some(), "{arch}: no {reason}: {}", besieged.server.status());
    }
    besieged.expect_descriptors_back();
}
