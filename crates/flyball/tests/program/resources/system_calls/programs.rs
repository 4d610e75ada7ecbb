//! Programs that are started for one request each, counted: what their worker does.

use std::os::unix::fs::PermissionsExt;

use flyball_testkit::as_ourselves;

use super::{EVENT_DRIVEN, ROUNDS, without_waits};
use crate::common::trace::{Traced, tally};
use crate::common::{get, has, text, within};

#[test]
fn a_request_to_a_program_makes_and_closes_its_descriptors_and_reads_little_in_vain() {
    if !has("strace") {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (program, config) = (within(&directory, "program"), within(&directory, "flyball.toml"));
    let script = "#!/bin/sh\nprintf 'Content-Length: 6\\n\\nhello\\n'\n";
    std::fs::write(&program, script).expect("the program can be written");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&program, mode).expect("the program can be run");
    let (owner, root) = (as_ourselves(), directory.path());
    let site = format!(
        "{owner}[[site]]\nroot = {root:?}\n[[site.cgi]]\npath = \"/run\"\nprogram = {program:?}\n"
    );
    std::fs::write(&config, site).expect("the configuration can be written");
    for arch in EVENT_DRIVEN {
        let traced = Traced::start_from(&["--config", text(&config)], arch, &[]);
        let mut client = traced.warm("/run");
        let calls = traced.calls(&mut client, |client| {
            for _ in 0..ROUNDS {
                assert_eq!(client.ask(get("/run")).body, b"hello\n");
            }
        });
        let (counts, waits) = without_waits(tally(&calls));
        println!("{arch}: {counts:?} and {waits} waits for {ROUNDS} requests");
        // Three pipes, a leash, and what stands for them.
        for (name, each) in [("pipe2", 3), ("socketpair", 1), ("epoll_create1", 1)] {
            assert_eq!(counts.get(name), Some(&(each * ROUNDS)), "{arch}: {name}: {calls:#?}");
        }
        // How often it is waited for is the program's to say.
        for (name, most) in [("close", 10), ("read", 9), ("write", 6), ("epoll_ctl", 6)] {
            assert!(counts[name] <= most * ROUNDS, "{arch}: {name}: {counts:?}: {calls:#?}");
        }
    }
}
