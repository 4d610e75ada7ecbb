//! The access log, and who the client is taken to be: the same lines whoever serves.

use std::net::TcpStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use flyball_testkit::{Client, LARGE_BYTES, Server, wait};
use tempfile::TempDir;

use crate::access::{ANN, WRONG, users};
use crate::mount::Mount;
use crate::requests::{get, get_of, request, with_body};

/// How long ago a thread has read the clock at most, where the machine is busy, in milliseconds.
const CLOCK_MS_MAX: u64 = 10_000;

/// How long a client holds its answer up: more than a machine that is busy is late by.
const HELD: Duration = Duration::from_millis(200);

/// A server that writes a log, and its log.
struct Logged {
    server: Server,
    path: PathBuf,
    _directory: TempDir,
}

impl Logged {
    fn start(mount: &Mount, settings: &str) -> Logged {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("access.log");
        let log = format!("access-log = \"{}\"\n{settings}", path.display());
        Logged { server: mount.start(&log), path, _directory: directory }
    }

    fn connect(&self) -> Client {
        self.server.connect()
    }

    /// Waits for a line that begins so.
    fn wait_for(&self, start: &str) {
        let is_there = || {
            let text = std::fs::read_to_string(&self.path).unwrap_or_default();
            text.lines().any(|line| line.starts_with(start)).then_some(())
        };
        assert!(wait::until(wait::DEADLINE, is_there).is_some(), "no line begins with {start:?}");
    }

    /// Stops the server, and reads what it wrote.
    fn lines(self) -> Vec<String> {
        self.server.terminate();
        assert_eq!(self.server.wait().code, Some(0));
        let text = std::fs::read_to_string(&self.path).expect("a log in UTF-8");
        assert!(text.is_empty() || text.ends_with('\n'), "a line is torn: {text:?}");
        text.lines().map(str::to_owned).collect()
    }
}

/// A line of the combined format, with `DATE` for what its date must look like.
fn without_date(line: &str) -> String {
    let (before, rest) = line.split_once('[').expect("a date begins");
    let (date, after) = rest.split_once(']').expect("a date ends");
    let shape: String = date.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let letters = |c: char| c.is_ascii_alphabetic();
    assert_eq!(shape.replace(letters, "a"), "00/aaa/0000:00:00:00 +0000", "{line}");
    format!("{before}DATE{after}")
}

/// What it asked for before may still be read: rules and logs go by its address all the same.
pub(crate) fn who_has_reset_its_connection_keeps_its_address(mount: &Mount) {
    let logged = Logged::start(mount, "");
    for _ in 0..100 {
        let mut client = logged.connect();
        client.send(get("/hello.txt"));
        client.reset();
    }
    assert_eq!(logged.connect().ask(get("/hello.txt")).status(), 200);
    let lines = logged.lines();
    let is_known = |line: &String| line.starts_with("127.0.0.1 ");
    assert!(!lines.is_empty() && lines.iter().all(is_known), "{lines:#?}");
}

pub(crate) fn every_request_has_exactly_its_line(mount: &Mount) {
    let logged = Logged::start(mount, "");
    let mut client = logged.connect();
    let hello = client.ask(request(
        "GET",
        "/hello.txt?a=%22\"",
        &["User-Agent: me\t\"\\\u{e9}", "Referer: http://a.test/"],
    ));
    assert_eq!(hello.status(), 200);
    client.send(request("HEAD", "/hello.txt", &[]));
    assert_eq!(client.response_head().status(), 200);
    let absent = client.ask(get("/absent"));
    assert_eq!(absent.status(), 404);
    let part = client.ask(request("GET", "/hello.txt", &["Range: bytes=0-3"]));
    assert_eq!(part.status(), 206);
    let digest = client.ask(with_body("POST", "/digest", &["Content-Length: 3"], "abc"));
    assert_eq!(digest.status(), 200);
    let fields = ["Content-Length: 100000000", "User-Agent: long"];
    let long = client.ask(request("POST", "/digest", &fields));
    assert_eq!(long.status(), 413);
    drop(client);
    let mut refused = logged.connect();
    refused.send("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    let refusal = refused.response();
    assert_eq!(refusal.status(), 400);
    let why = refusal.body;
    drop(refused);
    let lines: Vec<String> = logged.lines().iter().map(|line| without_date(line)).collect();
    let line = |request: &str, status: u16, bytes: usize, more: &str| {
        format!("127.0.0.1 - - DATE \"{request} HTTP/1.1\" {status} {bytes} {more}")
    };
    let mut expected = vec![
        line(
            "GET /hello.txt?a=%22\\x22",
            200,
            13,
            "\"http://a.test/\" \"me\\x09\\x22\\x5c\\xc3\\xa9\"",
        ),
        line("HEAD /hello.txt", 200, 0, "\"-\" \"-\""),
        line("GET /absent", 404, absent.body.len(), "\"-\" \"-\""),
        line("GET /hello.txt", 206, 4, "\"-\" \"-\""),
        line("POST /digest", 200, digest.body.len(), "\"-\" \"-\""),
        line("POST /digest", 413, long.body.len(), "\"-\" \"long\""),
        format!("127.0.0.1 - - DATE \"-\" 400 {} \"-\" \"-\"", why.len()),
    ];
    // Two workers may have served the two connections, and each hands over its own lines.
    let mut lines = lines;
    lines.sort();
    expected.sort();
    assert_eq!(lines, expected);
}

pub(crate) fn fields_are_chosen_and_hostile_bytes_break_no_line(mount: &Mount) {
    let format = "log.format = '{$method|$path|$query|$status|$http_x_a|$host} $$'\n";
    let logged = Logged::start(mount, format);
    let mut client = logged.connect();
    let mut hostile = b"GET /%0a?\\\"{} HTTP/1.1\r\nHost: h.test:1\r\nX-A: a".to_vec();
    hostile.extend((0x80..=0xffu8).filter(|byte| *byte != 0x85));
    hostile.extend(b"\"\r\n\r\n");
    client.ask(hostile);
    drop(client);
    let lines = logged.lines();
    let bytes: String =
        (0x80..=0xffu8).filter(|b| *b != 0x85).map(|b| format!("\\x{b:02x}")).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let (request, rest) = lines[0].split_once("|400|").expect("a name with a line feed is 400");
    assert_eq!(request, "{GET|/%0a|\\x5c\\x22{}");
    assert_eq!(rest, format!("a{bytes}\\x22|h.test}} $"));
}

pub(crate) fn what_is_pipelined_is_logged_once_each(mount: &Mount) {
    const REQUESTS: usize = 700;
    let logged = Logged::start(mount, "log.format = \"$query $status $duration_us\"\n");
    let mut client = logged.connect();
    for start in (0..REQUESTS).step_by(50) {
        let batch: String = (start..start + 50)
            .map(|n| get(&format!("/hello.txt?{n}{}", "-".repeat(150))))
            .collect();
        client.send(batch);
        (0..50).for_each(|_| assert_eq!(client.response().status(), 200));
    }
    drop(client);
    let lines = logged.lines();
    let mut seen: Vec<usize> = Vec::new();
    for line in &lines {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[1], "200", "{line}");
        assert!(words[2].parse::<u64>().is_ok_and(|us| us < 20_000_000), "{line}");
        seen.push(words[0].trim_end_matches('-').parse().expect("the number of a request"));
    }
    // Where stages have threads of their own, these hand over their lines one after the other.
    seen.sort_unstable();
    assert_eq!(seen, (0..REQUESTS).collect::<Vec<_>>());
}

pub(crate) fn a_line_says_how_its_answer_ended_and_how_much_of_it_was_sent(mount: &Mount) {
    let format = "log.format = \"$method $host$path $status $sent $bytes_sent $end\"\n";
    let logged = Logged::start(mount, format);
    let mut expected = Vec::new();
    let mut expect = |request: &str, status: u16, sent: usize, end: &str| {
        expected.push(format!("{request} {status} {sent} {sent} {end}"));
    };
    let mut client = logged.connect();
    for (target, status) in [("/hello.txt", 200), ("/absent", 404), ("/empty.txt", 200)] {
        let answer = client.ask(get(target));
        assert_eq!(answer.status(), status);
        expect(&format!("GET a.test{target}"), status, answer.body.len(), "whole");
    }
    client.send(request("HEAD", "/hello.txt", &[]));
    assert_eq!(client.response_head().status(), 200);
    expect("HEAD a.test/hello.txt", 200, 0, "whole");
    assert_eq!(client.ask(request("GET", "/hello.txt", &["If-None-Match: *"])).status(), 304);
    expect("GET a.test/hello.txt", 304, 0, "whole");
    // What is pipelined leaves together, and each has its own line.
    client.send([get("/hello.txt"), get("/page.html"), get("/list/a.txt")].concat());
    for target in ["/hello.txt", "/page.html", "/list/a.txt"] {
        expect(&format!("GET a.test{target}"), 200, client.response().body.len(), "whole");
    }
    // A body whose length is known when it has ended: in chunks, to HEAD, and until the end.
    client.send(get_of("many.test", "/"));
    assert_eq!(client.response_head().status(), 200);
    let list = client.chunks().concat();
    assert!(list.len() > 100_000, "{}", list.len());
    expect("GET many.test/", 200, list.len(), "whole");
    client.send("HEAD / HTTP/1.1\r\nHost: many.test\r\n\r\n");
    assert_eq!(client.response_head().status(), 200);
    expect("HEAD many.test/", 200, 0, "whole");
    client.send("GET / HTTP/1.0\r\nHost: many.test\r\n\r\n");
    assert_eq!(client.response_head().status(), 200);
    assert_eq!(client.rest(), list);
    expect("GET many.test/", 200, list.len(), "whole");
    let mut client = logged.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    expect("- --", 400, client.response().body.len(), "refused");
    drop(client);
    let mut client = logged.connect();
    let large = client.ask(get("/large.bin"));
    expect("GET a.test/large.bin", 200, large.body.len(), "whole");
    drop(client);
    let mut lines = logged.lines();
    lines.sort();
    expected.sort();
    assert_eq!(lines, expected);
}

/// Room that a client has which does not read, in bytes.
const NARROW_BYTES: usize = 64 * 1024;

/// Most that is acknowledged for it, in bytes.
const TAKEN_BYTES_MAX: usize = 256 * 1024;

/// Leaves within a download.
type Leave = fn(Client);

/// Ways to do that, and a name for each.
const WAYS_TO_LEAVE: [(&str, Leave); 2] = [("closed", drop), ("reset", Client::reset)];

pub(crate) fn who_leaves_within_a_download_is_logged_with_what_it_took(mount: &Mount) {
    let logged = Logged::start(mount, "log.format = \"$query $status $sent $end\"\n");
    for (name, leaves) in WAYS_TO_LEAVE {
        let mut client = logged.server.connect_narrow(NARROW_BYTES);
        // The second is never begun.
        client.send([get(&format!("/large.bin?{name}")), get("/hello.txt?behind")].concat());
        assert_eq!(client.response_head().status(), 200);
        assert_eq!(client.take(1024).len(), 1024);
        leaves(client);
    }
    let lines = logged.lines();
    let cut: Vec<&String> = lines.iter().filter(|line| !line.starts_with("behind ")).collect();
    assert_eq!(cut.len(), WAYS_TO_LEAVE.len(), "{lines:#?}");
    for line in cut {
        let words: Vec<&str> = line.split(' ').collect();
        let sent: usize = words[2].parse().expect("a number of bytes");
        assert!((1024..=TAKEN_BYTES_MAX).contains(&sent), "{line}");
        assert_eq!((words[1], words[3]), ("200", "left"), "{line}");
    }
    for line in lines.iter().filter(|line| line.starts_with("behind ")) {
        assert_eq!(line, "behind 200 0 left");
    }
}

pub(crate) fn who_takes_too_long_is_logged_as_that(mount: &Mount) {
    let settings = "log.format = \"$query $status $sent $end\"\ntimeout.send = \"3s\"\n\
                    timeout.head = \"1s\"\ndrain = \"1s\"\n";
    let logged = Logged::start(mount, settings);
    let mut slow = logged.server.connect_narrow(NARROW_BYTES);
    slow.send(get("/large.bin?slow"));
    assert_eq!(slow.response_head().status(), 200);
    let mut late = logged.connect();
    late.send("GET /hello.txt?late HTTP/1.1\r\n");
    let refusal = late.response();
    assert_eq!(refusal.status(), 408);
    logged.wait_for("slow ");
    // One is still taking its answer when the server ends.
    let mut cut = logged.server.connect_narrow(NARROW_BYTES);
    cut.send(get("/large.bin?cut"));
    assert_eq!(cut.response_head().status(), 200);
    let mut lines = logged.lines();
    drop((slow, cut));
    lines.sort();
    let words: Vec<Vec<&str>> = lines.iter().map(|line| line.split(' ').collect()).collect();
    let words = words.iter().map(|words| (words[0], words[1], words[3]));
    let expected = [("-", "408", "timeout"), ("cut", "200", "cut"), ("slow", "200", "timeout")];
    assert_eq!(words.collect::<Vec<_>>(), expected, "{lines:#?}");
    let sent = |line: &str| line.split(' ').nth(2).and_then(|word| word.parse::<usize>().ok());
    assert_eq!(sent(&lines[0]), Some(refusal.body.len()));
    assert!(sent(&lines[2]).is_some_and(|sent| sent <= TAKEN_BYTES_MAX), "{lines:#?}");
}

pub(crate) fn a_line_tells_when_its_answer_began_and_ended(mount: &Mount) {
    let format = "log.format = \"$duration_us $first_byte_us $request_us $backend_us $time_ms \
                  $request_id$path\"\n";
    let logged = Logged::start(mount, format);
    let now_ms = || {
        let since = SystemTime::UNIX_EPOCH.elapsed().expect("it is later than 1970");
        since.as_millis() as u64
    };
    let (began, began_ms) = (Instant::now(), now_ms());
    let mut client = logged.server.connect_narrow(NARROW_BYTES);
    client.send(get("/large.bin"));
    assert_eq!(client.response_head().status(), 200);
    let before_the_rest = began.elapsed();
    // Others are answered meanwhile.
    while began.elapsed() < before_the_rest + HELD {
        assert_eq!(logged.connect().ask(get("/hello.txt")).status(), 200);
    }
    assert_eq!(client.take(LARGE_BYTES).len(), LARGE_BYTES);
    let took_us = began.elapsed().as_micros() as u64;
    let ended_ms = now_ms();
    drop(client);
    let lines = logged.lines();
    let is_whole = |line: &&String| line.ends_with("/large.bin");
    let line = lines.iter().find(is_whole).expect("the line of the download");
    let words: Vec<&str> = line.split(' ').collect();
    let number = |at: usize| words[at].parse::<u64>().expect("a number");
    let (known, first, whole) = (number(0), number(1), number(2));
    assert!(known <= first && first <= before_the_rest.as_micros() as u64, "{line}");
    assert!((HELD.as_micros() as u64..=took_us).contains(&whole), "{line} in {took_us}");
    assert_eq!(words[3], "-", "there is no backend");
    // It is that of the turn which found the request.
    let around_ms = began_ms - CLOCK_MS_MAX..=ended_ms;
    assert!(around_ms.contains(&number(4)), "{line} within {around_ms:?}");
    assert_eq!(words[5].len(), 32 + "/large.bin".len(), "{line}");
}

/// Two ticks of a kernel that has 250 in a second.
const TICKS_MS: u64 = 8;

/// The server stands still, and so the client waits in the accept queue.
pub(crate) fn who_has_waited_in_the_queue_is_logged_with_that_time(mount: &Mount) {
    // What its client says first over TLS is known too late to have come by then.
    let defer = format!("accept.defer = {}\n", !mount.is_secure());
    let format = "log.format = \"$path $queued_ms $age_ms\"\n";
    let logged = Logged::start(mount, &(defer + format));
    let ms_since = |then: Instant| then.elapsed().as_millis() as u64;
    let held = logged.server.hold();
    let before = Instant::now();
    let stream = TcpStream::connect(logged.server.address()).expect("the kernel accepts");
    let mut client = Client::accepted(stream);
    if !mount.is_secure() {
        client.send(get("/hello.txt"));
    }
    let queued = Instant::now();
    let (mut client, least) = thread::scope(|scope| {
        let client = scope.spawn(|| match mount.is_secure() {
            false => client,
            true => {
                let mut client = client.secure();
                client.send(get("/hello.txt"));
                client
            }
        });
        wait::dawdle(HELD);
        let least = ms_since(queued) - TICKS_MS;
        drop(held);
        (client.join().expect("it shakes hands"), least)
    });
    assert_eq!(client.response().status(), 200);
    let most = ms_since(before) + TICKS_MS;
    assert_eq!(client.ask(get("/absent")).status(), 404);
    drop(client);
    let lines = logged.lines();
    let mut first = lines[0].split(' ').skip(1).map(|word| word.parse::<u64>().ok());
    let [queued, age] = [first.next().flatten(), first.next().flatten()];
    let is_within = |ms: u64| (least..=most).contains(&ms);
    assert!(queued.is_some_and(is_within), "{lines:?} is not within {least} to {most}");
    assert!(age.map_or(mount.is_secure(), is_within), "{lines:?} is not within {least} to {most}");
    assert_eq!(lines[1..], ["/absent - -"]);
}

/// The header of version 2 of the PROXY protocol for a client at 198.51.100.7, with a value behind
/// the addresses.
fn proxy_v2() -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x11".to_vec();
    header.extend([198, 51, 100, 7, 127, 0, 0, 1, 0x12, 0x34, 0, 80]);
    header.extend([4, 0, 2, 1, 2]);
    header
}

pub(crate) fn a_trusted_proxy_tells_who_connects(mount: &Mount) {
    let settings = "log.format = \"$remote_addr $query\"\nclient.address = \"proxy-protocol\"\n\
                    client.trusted = [\"127.0.0.0/8\"]\n";
    let logged = Logged::start(mount, settings);
    let v1 = "PROXY TCP4 192.0.2.7 127.0.0.1 5000 80\r\n";
    let mut client = logged.connect();
    client.send(format!("{v1}{}{}", get("/hello.txt?1"), get("/hello.txt?2")));
    assert_eq!((client.response().status(), client.response().status()), (200, 200));
    assert_eq!(client.ask(get("/hello.txt?3")).status(), 200);
    // Only in front of the first request.
    client.send(format!("{v1}\r\n"));
    assert_eq!(client.response().status(), 400);
    drop(client);
    let v6 = "PROXY TCP6 2001:db8::7 ::1 5000 80\r\n";
    let mut client = logged.connect();
    client.send_split(format!("{v6}{}", get("/hello.txt?4")), 1..v6.len() + 20);
    assert_eq!(client.response().status(), 200);
    drop(client);
    let mut client = logged.connect();
    let header = [proxy_v2(), get("/hello.txt?5").into_bytes()].concat();
    client.send_split(header, 1..proxy_v2().len() + 3);
    assert_eq!(client.response().status(), 200);
    drop(client);
    for own in [&b"PROXY UNKNOWN\r\n"[..], b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"] {
        let mut client = logged.connect();
        client.send([own, get("/hello.txt?6").as_bytes()].concat());
        assert_eq!(client.response().status(), 200);
    }
    let mut lines = logged.lines();
    lines.sort();
    assert_eq!(
        lines,
        [
            "127.0.0.1 6",
            "127.0.0.1 6",
            "192.0.2.7 -",
            "192.0.2.7 1",
            "192.0.2.7 2",
            "192.0.2.7 3",
            "198.51.100.7 5",
            "2001:db8::7 4",
        ]
    );
}

pub(crate) fn a_header_of_a_stranger_and_a_missing_one_are_refused(mount: &Mount) {
    let start = |trusted: &str| {
        let settings = format!(
            "log.format = \"$remote_addr $status\"\nclient.address = \"proxy-protocol\"\n\
             client.trusted = [\"{trusted}\"]\nlimit.head = \"256B\"\n"
        );
        Logged::start(mount, &settings)
    };
    let v1 = "PROXY TCP4 192.0.2.7 127.0.0.1 5000 80\r\n";
    let from_strangers = start("192.0.2.0/24");
    for header in [v1.as_bytes(), &proxy_v2(), b"PROXY nonsense\r\n"] {
        let mut client = from_strangers.connect();
        client.send([header, get("/hello.txt").as_bytes()].concat());
        assert_eq!(client.rest_before_end(), b"", "{header:?}");
    }
    let mut client = from_strangers.connect();
    client.send_split(request("POST", "/hello.txt", &["Content-Length: 0"]), 1..6);
    assert_eq!(client.response().status(), 405);
    drop(client);
    assert_eq!(from_strangers.lines(), ["127.0.0.1 405"]);
    let from_proxies = start("127.0.0.1");
    // The last is longer than what is read at once.
    let long = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x01\0";
    for front in [&b"GET / HTTP/1.1\r\n"[..], b"PROXY TCP4 1\r\n", b"\r\n\r\nGET", long] {
        let mut client = from_proxies.connect();
        client.send([front, get("/hello.txt").as_bytes()].concat());
        assert_eq!(client.rest_before_end(), b"", "{front:?}");
    }
    assert!(from_proxies.lines().is_empty());
}

pub(crate) fn fields_of_trusted_proxies_tell_who_asks(mount: &Mount) {
    for (address, field, ours) in [
        (
            "x-forwarded-for",
            "X-Forwarded-For",
            ["6.6.6.6, 192.0.2.7", "[2001:db8::7]:80, 127.0.0.9"],
        ),
        (
            "forwarded",
            "Forwarded",
            ["for=6.6.6.6;x=\", for=192.0.2.7", "for=\"[2001:db8::7]\", for=127.0.0.9"],
        ),
    ] {
        let settings = format!(
            "log.format = \"$remote_addr\"\nclient.address = \"{address}\"\n\
             client.trusted = [\"127.0.0.0/8\"]\n"
        );
        let logged = Logged::start(mount, &settings);
        let mut client = logged.connect();
        for value in ours {
            let line = format!("{field}: {value}");
            assert_eq!(client.ask(request("GET", "/hello.txt", &[&line])).status(), 200);
        }
        let other = "Forwarded: for=1.1.1.1\r\nX-Forwarded-For: 1.1.1.1";
        let other = other.replace(&format!("{field}: "), "X-Other: ");
        assert_eq!(client.ask(request("GET", "/absent", &[&other])).status(), 404);
        drop(client);
        let mut lines = logged.lines();
        lines.sort();
        assert_eq!(lines, ["127.0.0.1", "192.0.2.7", "2001:db8::7"], "{address}");
    }
}

pub(crate) fn who_has_logged_in_has_a_name(mount: &Mount) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("access.log");
    let log = format!(
        "access-log = \"{}\"\nlog.format = \"$remote_user $method $status\"\n",
        path.display()
    );
    let root = flyball_testkit::Site::shared().root();
    let auth = format!("auth.file = {:?}\nauth.paths = [\"/dir\"]\n", users());
    let site = format!("[[site]]\nroot = {root:?}\ndigest-path = \"/dir/digest\"\n{auth}");
    let server = mount.start_with_sites(&log, &site);
    let mut client = server.connect();
    let body = with_body("POST", "/dir/digest", &[ANN, "Content-Length: 3"], "abc");
    for (asked, status) in [
        // The first is verified, the others are remembered, or find the file in the cache.
        (request("GET", "/dir/", &[ANN]), 200),
        (request("GET", "/dir/", &[ANN]), 200),
        (request("GET", "/dir/absent", &[ANN]), 404),
        (body, 200),
        // A name that nobody has to have, and one that nobody has.
        (request("GET", "/hello.txt", &[ANN]), 200),
        (request("GET", "/dir/", &[WRONG]), 401),
        (get("/dir/"), 401),
    ] {
        assert_eq!(client.ask(asked).status(), status);
    }
    // The line of an answer that comes later tells its own name, whatever was asked meanwhile.
    let mut late = server.connect();
    let fields = [ANN, "Content-Length: 3", "Expect: 100-continue"];
    late.send(request("POST", "/dir/digest", &fields));
    assert_eq!(late.response_head().status(), 100);
    assert_eq!(client.ask(request("GET", "/hello.txt", &[ANN])).status(), 200);
    late.send("abc");
    assert_eq!(late.response().status(), 200);
    drop((client, late));
    server.terminate();
    assert_eq!(server.wait().code, Some(0));
    let text = std::fs::read_to_string(&path).expect("a log in UTF-8");
    // Threads that answer in turn have buffers of their own, and write them in any order.
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let nameless = ["- GET 200", "- GET 200", "- GET 401", "- GET 401"];
    let named = ["ann GET 200", "ann GET 200", "ann GET 404", "ann POST 200", "ann POST 200"];
    assert_eq!(lines, [&nameless[..], &named].concat());
}
