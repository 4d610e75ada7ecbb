//! Settings that change how answers come about, and must not change the answers.

use std::thread;

use flyball_testkit::{Client, LARGE_BYTES, Server, crc32, digits, large, large_at};

use crate::mount::Mount;
use crate::requests::{get, request};

/// Starts a server with these settings and asks it for some of everything.
#[track_caller]
fn check(mount: &Mount, settings: &str) {
    let server = mount.start(settings);
    // Twice, since caches are empty at first; and by several clients at once.
    for _ in 0..2 {
        let mut clients: Vec<Client> = (0..4).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send(get("/large.bin") + &get("/hello.txt") + &get("/dir"));
        }
        // All of them at once: a call that blocks is one that waits for who does not read.
        thread::scope(|all| {
            for client in &mut clients {
                all.spawn(move || {
                    large_at(0, &client.response().body);
                    assert_eq!(client.response().text(), "hello, world\n", "{settings}");
                    assert_eq!(client.response().expect("Location"), "/dir/", "{settings}");
                });
            }
        });
        one_after_the_other(&server, settings);
    }
}

#[track_caller]
fn one_after_the_other(server: &Server, settings: &str) {
    let mut client = server.connect();
    let whole = client.ask(get("/digits.txt"));
    assert_eq!((whole.line.as_str(), whole.text()), ("HTTP/1.1 200 OK", digits()), "{settings}");
    let unchanged = format!("If-None-Match: {}", whole.expect("ETag"));
    assert_eq!(client.ask(request("GET", "/digits.txt", &[&unchanged])).status(), 304);
    let answer = client.ask(request("GET", "/digits.txt", &["Range: bytes=-10"]));
    assert_eq!((answer.status(), answer.text()), (206, "0000000099"), "{settings}");
    let answer = client.ask(request("GET", "/large.bin", &["Range: bytes=77777-377777"]));
    assert_eq!((answer.status(), answer.body.len()), (206, 300_001), "{settings}");
    large_at(77_777, &answer.body);
    client.send(request("HEAD", "/large.bin", &[]));
    assert_eq!(client.response_head().content_length(), Some(LARGE_BYTES), "{settings}");
    assert_eq!(client.ask(get("/missing")).status(), 404, "{settings}");
    assert_eq!(client.ask(get("/empty.txt")).text(), "", "{settings}");
    let body = &large()[..300_000];
    client.send(request("POST", "/digest", &["Content-Length: 300000"]));
    client.send(body);
    let digest = format!("bytes 300000 crc32 {:08x}\n", crc32(body));
    assert_eq!(client.response().text(), digest, "{settings}");
    let mut last = server.connect();
    let answer = last.ask(request("GET", "/large.bin", &["Connection: close"]));
    assert_eq!(answer.body.len(), LARGE_BYTES, "{settings}");
    last.expect_closed();
}

pub(crate) fn caches_do_not_change_an_answer(mount: &Mount) {
    check(mount, "cache.paths = 0\ncache.heads = false\ncache.content = 0\ncache.files = 0\n");
    check(mount, "cache.paths = 0\n");
    check(mount, "cache.content = 0\ncache.files = 1\n");
    // So small that nothing stays, and believed for no time at all.
    check(mount, "cache.paths = 1\ncache.content = \"1KiB\"\ncache.revalidate = 0\n");
}

pub(crate) fn caching_policies_do_not_change_an_answer(mount: &Mount) {
    // So small that files push each other out.
    let small = "cache.content = \"8KiB\"\ncache.files = 1\ncache.revalidate = 0\n";
    let hints = "cache.pin = [\"/digits.txt\", \"large.*\"]\ncache.never = [\"empty.txt\"]\n";
    check(mount, "cache.policy = \"structured\"\n");
    check(mount, &format!("cache.policy = \"structured\"\n{small}"));
    check(mount, &format!("cache.policy = \"lfu\"\n{small}"));
    check(mount, &format!("cache.policy = \"hinted\"\n{hints}{small}"));
}

pub(crate) fn the_way_to_send_does_not_change_an_answer(mount: &Mount) {
    check(mount, "send.mode = \"sendfile\"\n");
    check(mount, "send.piece = \"9999B\"\n");
    check(mount, "send.mode = \"sendfile\"\nsend.piece = \"64KiB\"\ncache.content = 0\n");
    check(mount, "send.mode = \"mapped\"\n");
    check(
        mount,
        "send.mode = \"mapped\"\nsend.piece = \"99999B\"\ncache.content = 0\n\
         cache.mapped = 0\ncache.chunk = \"64KiB\"\nexperiment.cork = true\n",
    );
    check(mount, "limit.pipeline = 1\nlimit.head = \"1KiB\"\n");
}

pub(crate) fn the_way_to_accept_does_not_change_an_answer(mount: &Mount) {
    check(mount, "accept.limit = 0.1\naccept.eager-read = false\n");
    check(mount, "accept.limit = \"inf\"\naccept.defer = false\n");
    check(mount, "accept.limit = 1\naccept.defer = false\naccept.eager-read = false\n");
    check(mount, "workers = 3\naccept.exclusive = false\n");
}

pub(crate) fn the_mechanisms_do_not_change_an_answer(mount: &Mount) {
    check(
        mount,
        "experiment.accept-extra = 1\naccept.limit = 1\nexperiment.work-order = \"lru\"\n\
         experiment.full-read = true\n",
    );
    check(
        mount,
        "experiment.accept-every-loop = true\nexperiment.eager-write = false\n\
         experiment.work-order = \"up\"\n",
    );
    check(
        mount,
        "experiment.accept-on-close = true\nexperiment.work-order = \"writes-first-down\"\n\
         experiment.cork = true\n",
    );
    check(
        mount,
        "send.blocking = true\nsend.mode = \"sendfile\"\nsend.buffer = \"64KiB\"\n\
         experiment.work-order = \"lifo\"\nexperiment.eager-write = false\nclose.reset = true\n",
    );
    check(
        mount,
        "connections.max = 6\nclose.idle-when-full = false\naccept.free-threshold = 2\n\
         experiment.modify-listeners = true\nexperiment.work-order = \"writes-first-up\"\n\
         send.no-delay = false\nreceive.buffer = \"16KiB\"\npin = true\n\
         accept.incoming-cpu = true\nexperiment.cork = true\nsend.mode = \"sendfile\"\n",
    );
}

pub(crate) fn switches_for_measurements_do_not_change_an_answer(mount: &Mount) {
    check(
        mount,
        "experiment.gather = false\ncache.content = 0\nsend.mode = \"copy\"\n\
         experiment.directory-config = true\nexperiment.signal-mask = true\n\
         experiment.date-cache = false\n",
    );
    check(mount, "cache.paths = 0\ncache.heads = false\nexperiment.entry-locks = \"global\"\n");
    check(mount, "experiment.entry-locks = \"global\"\nexperiment.accept-lock = \"fcntl\"\n");
    check(
        mount,
        "cache.content = 0\ncache.files = 0\nexperiment.gather = false\n\
         experiment.accept-lock = \"flock\"\n",
    );
}

pub(crate) fn heads_are_padded_and_anonymous_when_asked(mount: &Mount) {
    let server = mount.start("experiment.head-align = 32\nhead.server = false\n");
    let mut client = server.connect();
    for target in ["/hello.txt", "/digits.txt", "/missing", "/dir", "/large.bin", "/../x"] {
        for fields in [&[][..], &["Range: bytes=1-5"], &["If-Match: *", "Connection: keep-alive"]] {
            let answer = padded(&mut client, target, fields);
            assert_eq!(answer % 32, 0, "{target} {fields:?}");
        }
    }
}

/// The length of the head of an answer, whose padding is taken off a line before it is compared.
#[track_caller]
fn padded(client: &mut Client, target: &str, fields: &[&str]) -> usize {
    client.send(request("GET", target, fields));
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(client.take(1));
    }
    let text = String::from_utf8(head).expect("ASCII");
    assert!(!text.contains("\r\nServer:"), "{text}");
    let length = text.split("\r\nContent-Length: ").nth(1).and_then(|rest| rest.lines().next());
    client.take(length.and_then(|length| length.parse().ok()).expect("a length"));
    text.len()
}
