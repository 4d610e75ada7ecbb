//! A disk that fails under the root of a site (EIO): requests that need it are refused or cut
//! short, and nothing else happens. The disk is a file system that the test itself serves, so that
//! also what a ring reads by itself fails.

use std::time::Duration;

use crate::common_programs::on_every_architecture;
use flyball_testkit::slow_disk::{Operation, SlowDisk, content};
use flyball_testkit::{Client, Launch, as_ourselves};

/// Files of the disk that a test names; those in a cache of the server.
const SMALL: &str = "slow/small-1.txt";
const LARGE: &str = "slow/large-1.bin";

/// The kernel reads ahead by less than all of it.
const LARGEST: &str = "slow/large-2.bin";

/// Room on the way to a client of a large body, so that the server has not read it all before.
const NARROW: usize = 16 * 1024;

/// Nothing is kept: every request asks the disk.
const SETTINGS: &str = "cache.content = 0\ncache.paths = 0\ncache.mapped = \"64KiB\"\n\
                        send.buffer = \"16KiB\"\nsend.piece = \"16KiB\"\n";

on_every_architecture! { [
    a_disk_that_fails_costs_answers_and_no_more,
] }

fn get(name: &str) -> String {
    format!("GET /{name} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// The head and the body of an answer, however much of them came.
fn parts(whole: &[u8]) -> (&str, &[u8]) {
    let end = whole.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| at + 4);
    (std::str::from_utf8(&whole[..end]).expect("a head is ASCII"), &whole[end..])
}

/// Whether a body is the beginning of a file, and not all of it.
fn is_cut(body: &[u8], name: &str) -> bool {
    let expected = content(name);
    expected.starts_with(body) && body.len() < expected.len()
}

fn a_disk_that_fails_costs_answers_and_no_more(architecture: &str) {
    for mode in ["auto", "mapped"] {
        let Some(disk) = SlowDisk::mount(Duration::ZERO) else { return };
        let root = disk.root().display();
        // Nobody but who mounted the disk may enter it, the superuser's rights or not.
        let user = as_ourselves();
        let config = format!(
            "arch = \"{architecture}\"\n{user}{SETTINGS}send.mode = \"{mode}\"\n\
             [[site]]\nroot = \"{root}\"\n"
        );
        let Some(server) = Launch::config(config).start_where_possible() else { return };
        let mut witness = server.connect();
        for operation in [Operation::Lookup, Operation::Open, Operation::Read] {
            let failing = disk.fail(operation);
            for name in [SMALL, LARGE] {
                // Whether it is answered or cut is the same to the others.
                let mut client = server.connect();
                client.send(get(name).replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
                let whole = client.rest_before_end();
                let (head, body) = parts(&whole);
                match head.get(..12).unwrap_or_default() {
                    "HTTP/1.1 500" | "HTTP/1.1 503" => {}
                    "HTTP/1.1 200" if operation == Operation::Read => {
                        assert!(is_cut(body, name), "{architecture} {mode} {name}");
                    }
                    other => panic!("{architecture} {mode} {operation:?} {name}: {other}"),
                }
            }
            assert_eq!(witness.ask(get("fast.txt")).body, content("fast.txt"), "{architecture}");
            drop(failing);
            for name in [SMALL, LARGE] {
                let answer = server.connect().ask(get(name));
                assert!(answer.body == content(name), "{architecture} {mode}: after {operation:?}");
            }
        }
        let mut download = Client::connect_narrow(server.address(), NARROW);
        download.send(get(LARGEST));
        assert_eq!(download.response_head().status(), 200, "{architecture}");
        let failing = disk.fail(Operation::Read);
        let rest = download.rest_before_end();
        assert!(is_cut(&rest, LARGEST), "{architecture} {mode}: it was read before");
        drop(failing);
        let answer = witness.ask(get(LARGEST));
        assert!(answer.body == content(LARGEST), "{architecture} {mode}");
        server.assert_sound();
    }
}
