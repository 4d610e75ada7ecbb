//! What is under way at the same time on one connection does not mix, and is not counted twice.
use crate::common::{Launch, Site, architectures, last_get, wait_for};
use flyball_testkit::Client;

/// More than the sockets of both ends hold, so that it leaves piece by piece.
const LARGE_BYTES: usize = 16 * 1024 * 1024;

/// What it holds.
static LARGE: [u8; LARGE_BYTES] = [b'.'; LARGE_BYTES];

/// Small files that no cache holds yet.
const COLD: usize = 16;

fn site() -> Site {
    let names: Vec<_> = (0..COLD).map(|n| (format!("cold-{n}.txt"), cold(n))).collect();
    let mut files: Vec<(&str, &[u8])> =
        names.iter().map(|(name, body)| (name.as_str(), body.as_bytes())).collect();
    files.push(("large.bin", &LARGE));
    Site::with(&files)
}

fn cold(number: usize) -> String {
    format!("the body of cold file {number}")
}

/// The large file is asked for with a body that comes late; behind it, a file that is not cached.
/// So a translation begins while pieces of the large file are being read and sent.
fn ask_for_both(client: &mut Client, number: usize) {
    client.send("GET /large.bin HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n");
    let mut head = client.response_head();
    assert_eq!((head.status(), head.content_length()), (200, Some(LARGE_BYTES)));
    client.send(format!("z{}", last_get(&format!("/cold-{number}.txt"))));
    head.body = client.take(LARGE_BYTES);
    assert!(head.body == LARGE, "the large file is not mixed with others");
    assert_eq!(client.response().text(), cold(number));
}

#[test]
#[ignore = "full tier"]
fn a_file_that_is_opened_while_another_is_sent_is_not_mixed_with_it() {
    let site = site();
    for arch in architectures() {
        let server = Launch::new(&site, arch).workers_for(arch, 1).start();
        let worker = server.worker();
        for number in 0..COLD {
            ask_for_both(&mut server.connect(), number);
        }
        assert_eq!(server.worker(), worker, "{arch}: the worker lives on");
    }
}

#[test]
fn a_connection_that_is_always_ready_has_one_turn_in_each_work_phase() {
    let site = site();
    for events in ["select", "poll", "epoll", "epoll-edge"] {
        let server = Launch::new(&site, "sped")
            .args(&["--events", events, "--admin", "127.0.0.1:0"])
            .set("send.mode=copy")
            .set("send.piece=16KiB")
            .start();
        let mut client = server.connect();
        client.send(last_get("/large.bin"));
        assert_eq!(client.response().body.len(), LARGE_BYTES);
        // A counter that is published between the two is right a moment later.
        wait_for(&format!("{events}: a turn for each phase, of one connection"), || {
            let counters = &server.status()["counters"];
            let counted = |name: &str| counters[name].as_u64().expect("a counter");
            (counted("requests") > 0 && counted("worked_on") == counted("work_phases"))
                .then_some(())
        });
    }
}
