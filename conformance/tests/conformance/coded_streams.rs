//! Bodies that are coded while they are sent: large files, listings, and error pages beside them.

use std::fs;
use std::io::Write;
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;
use flyball_testkit::wait::{DEADLINE, until};
use flyball_testkit::{Client, Response, Server};

use crate::codings::{CODINGS, Coded, counter, decode, decoded, text};
use crate::mount::Mount;
use crate::requests::request;

/// What is larger is coded while it is sent.
const SMALL: &str = "compress.max-size = \"16KiB\"\n";

/// A body in chunks, and its head.
#[track_caller]
fn streamed(client: &mut Client, target: &str, fields: &[&str]) -> Response {
    client.send(request("GET", target, fields));
    let mut answer = client.response_head();
    assert_eq!(answer.expect("Transfer-Encoding"), "chunked", "{}", answer.head);
    assert_eq!(answer.content_length(), None);
    let chunks = client.chunks();
    assert!(chunks.iter().all(|chunk| chunk.len() <= 80 * 1024));
    answer.body = chunks.concat();
    answer
}

fn large() -> Vec<u8> {
    text(1).repeat(5)
}

pub(crate) fn a_large_text_is_coded_while_it_is_sent(mount: &Mount) {
    let coded = Coded::start(mount, "", SMALL);
    let mut client = coded.server.connect();
    let plain = client.ask(request("GET", "/large.txt", &[]));
    assert!(plain.body == large() && plain.expect("Vary") == "Accept-Encoding");
    for coding in CODINGS {
        let accepts = format!("Accept-Encoding: {coding}");
        let mut tags = Vec::new();
        // The second time it comes from the cache, and behind others on the same connection.
        for _ in 0..2 {
            client.send(request("GET", "/short.txt", &[]));
            let answer = streamed_behind_short(&mut client, &accepts);
            assert_eq!(answer.expect("Content-Encoding"), coding);
            assert!(decoded(&answer) == large() && answer.body.len() < large().len() / 4);
            assert_eq!(answer.expect("Vary"), "Accept-Encoding");
            assert_eq!(answer.field("Accept-Ranges"), None);
            assert_eq!(answer.expect("Last-Modified"), plain.expect("Last-Modified"));
            assert_eq!(answer.expect("Content-Type"), plain.expect("Content-Type"));
            tags.push((answer.expect("ETag").to_owned(), answer.body));
        }
        // The same entity tag means the same bytes.
        assert!(tags[0] == tags[1] && tags[0].0 != plain.expect("ETag"), "{coding}");
        let ask = |field: &str| coded.ask("/large.txt", &[&accepts, field]);
        let unchanged = ask(&format!("If-None-Match: {}", tags[0].0));
        assert_eq!((unchanged.status(), unchanged.expect("ETag")), (304, &*tags[0].0));
        assert_eq!(ask(&format!("If-Match: {}", plain.expect("ETag"))).status(), 412);
        let part = ask("Range: bytes=30000-30006");
        assert_eq!((part.status(), part.text()), (206, "version"));
        client.send(request("HEAD", "/large.txt", &[&accepts]));
        let head = client.response_head();
        assert_eq!((head.status(), head.expect("Content-Encoding")), (200, coding));
        assert_eq!((head.expect("ETag"), head.content_length()), (&*tags[0].0, None));
    }
    assert_eq!(client.ask(request("GET", "/short.txt", &[])).text(), "short\n");
}

#[track_caller]
fn streamed_behind_short(client: &mut Client, accepts: &str) -> Response {
    client.send(request("GET", "/large.txt", &[accepts]));
    assert_eq!(client.response().text(), "short\n");
    let mut answer = client.response_head();
    assert_eq!(answer.expect("Transfer-Encoding"), "chunked");
    answer.body = client.chunks().concat();
    answer
}

pub(crate) fn http_1_0_gets_a_coded_text_until_the_connection_ends(mount: &Mount) {
    let coded = Coded::start(mount, "", SMALL);
    let mut client = coded.server.connect();
    let accepts = "Accept-Encoding: gzip\r\nConnection: keep-alive";
    client.send(format!("GET /large.txt HTTP/1.0\r\nHost: a.test\r\n{accepts}\r\n\r\n"));
    let head = client.response_head();
    assert_eq!(head.expect("Connection"), "close");
    assert_eq!((head.field("Transfer-Encoding"), head.content_length()), (None, None));
    assert!(decode(head.expect("Content-Encoding"), &client.rest()) == large());
}

pub(crate) fn listings_and_error_pages_are_coded_too(mount: &Mount) {
    let site = "listing = true\nindex = []\nerror-page = { 404 = \"missing.html\" }\n";
    let pages = tempfile::tempdir().expect("a temporary directory");
    let page = pages.path().join("missing.html");
    fs::write(&page, text(3)).expect("the page can be written");
    let site = site.replace("missing.html", page.to_str().expect("a path"));
    let coded = Coded::start(mount, "", &site);
    let mut client = coded.server.connect();
    for n in 0..40 {
        fs::write(coded.path(&format!("{n}.txt")), "").expect("the site can be written");
    }
    let plain = client.ask(request("GET", "/", &[]));
    assert_eq!(plain.expect("Vary"), "Accept, Accept-Encoding");
    let missing = client.ask(request("GET", "/missing", &[]));
    assert_eq!((missing.status(), missing.expect("Vary")), (404, "Accept-Encoding"));
    assert!(missing.body == text(3) && missing.field("Content-Encoding").is_none());
    for coding in CODINGS {
        let accepts = format!("Accept-Encoding: {coding}");
        let listing = streamed(&mut client, "/", &[&accepts]);
        assert_eq!(listing.expect("Vary"), "Accept, Accept-Encoding");
        assert!(decoded(&listing) == plain.body && listing.field("ETag").is_none());
        client.send(request("HEAD", "/", &[&accepts]));
        let head = client.response_head();
        assert_eq!((head.expect("Content-Encoding"), head.content_length()), (coding, None));
        let json = streamed(&mut client, "/", &[&accepts, "Accept: application/json"]);
        assert!(decoded(&json).starts_with(b"{"));
        let missing = client.ask(request("GET", "/missing", &[&accepts]));
        assert_eq!((missing.status(), missing.expect("Content-Encoding")), (404, coding));
        assert!(decoded(&missing) == text(3) && missing.expect("Vary") == "Accept-Encoding");
        client.send(request("HEAD", "/missing", &[&accepts]));
        let head = client.response_head();
        assert_eq!(head.content_length(), Some(missing.body.len()));
    }
}

pub(crate) fn of_what_is_coded_while_it_is_sent_there_are_only_so_many(mount: &Mount) {
    const BYTES: usize = 12 << 20;
    let settings = "workers = 1\nadmin = \"127.0.0.1:0\"\n";
    // What does not shrink fills the sockets.
    let few = format!("{SMALL}compress.streams = 1\ncompress.cpu = 10000\n");
    let coded = Coded::start(mount, settings, &few);
    let noise: Vec<u8> = (0..BYTES / 8)
        .map(|n| (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31))
        .flat_map(|n| (n ^ n >> 23).to_le_bytes())
        .collect();
    fs::write(coded.path("huge.txt"), &noise).expect("the site can be written");
    let accepts = ["Accept-Encoding: zstd"];
    let mut slow = Client::connect_narrow(coded.server.address(), 64 * 1024);
    slow.send(request("GET", "/huge.txt", &accepts));
    assert_eq!(slow.response_head().expect("Content-Encoding"), "zstd");
    let status = coded.server.status();
    // Each process has its own count, and those of some architectures are many.
    if counter(&status, "workers") == 1 {
        let plain = coded.ask("/large.txt", &accepts);
        assert!(plain.field("Content-Encoding").is_none() && plain.body == large());
        assert_eq!(plain.expect("Vary"), "Accept-Encoding");
        let shed = || (counter(&coded.server.status(), "compressions_shed") > 0).then_some(());
        assert!(until(DEADLINE, shed).is_some());
    }
    // Whoever goes away makes room.
    slow.reset();
    let coded_again = || {
        let mut client = coded.server.connect();
        client.send(request("GET", "/large.txt", &accepts));
        client.response_head().field("Content-Encoding").map(drop)
    };
    assert!(until(DEADLINE, coded_again).is_some());
}

/// How old they are.
const AGE: Duration = Duration::from_secs(60);

/// Files of which there is only what gzip has made of them.
struct GzipOnly {
    directory: tempfile::TempDir,
    short: Vec<u8>,
    long: Vec<u8>,
    zeros: Vec<u8>,
}

impl GzipOnly {
    fn lay_out() -> GzipOnly {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (short, long, zeros) = (text(1), text(1).repeat(40), vec![0; 30_000_000]);
        let whole = gzip(&short);
        for (name, bytes) in [
            ("short.txt.gz", &whole[..]),
            ("long.txt.gz", &gzip(&long)),
            ("members.txt.gz", &[&whole[..], &whole].concat()),
            ("zeros.gz", &gzip(&zeros)),
            ("cut.txt.gz", &gzip(&long)[..3_000]),
            ("both.txt", b"plain\n"),
            ("both.txt.gz", &whole),
            ("dir/index.html.gz", &whole),
            ("closed.txt.gz", &whole),
            (".hidden.gz", &whole),
        ] {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
            fs::write(&path, bytes).expect("the file can be written");
            // A young file has another tag later.
            let file = fs::File::options().write(true).open(&path).expect("it is there");
            file.set_modified(SystemTime::now() - AGE).expect("its time can be set");
        }
        GzipOnly { directory, short, long, zeros }
    }

    fn start(&self, mount: &Mount, keys: &str) -> Server {
        let root = self.directory.path().display();
        let closed = "[[site.return]]\npath = \"/closed.txt.gz\"\n";
        mount.start_with_sites("", &format!("[[site]]\nroot = \"{root}\"\n{keys}\n{closed}"))
    }
}

pub(crate) fn a_file_that_is_there_by_gzip_alone_answers_for_the_plain_one(mount: &Mount) {
    let files = GzipOnly::lay_out();
    let server = files.start(mount, "compress.gzip-only = true");
    let mut client = server.connect();
    for (target, plain, kind) in [
        ("/short.txt", &files.short, "text/plain; charset=utf-8"),
        ("/long.txt", &files.long, "text/plain; charset=utf-8"),
        ("/members.txt", &files.short.repeat(2), "text/plain; charset=utf-8"),
        ("/zeros", &files.zeros, "application/octet-stream"),
        ("/dir/", &files.short, "text/html; charset=utf-8"),
    ] {
        let mut tags = Vec::new();
        for _ in 0..2 {
            let answer = streamed(&mut client, target, &[]);
            assert!(answer.body == *plain, "{target}: {} bytes", answer.body.len());
            assert_eq!(answer.expect("Content-Type"), kind, "{target}");
            assert_eq!(answer.expect("Vary"), "Accept-Encoding", "{target}");
            for name in ["Content-Encoding", "Accept-Ranges"] {
                assert_eq!(answer.field(name), None, "{target}");
            }
            tags.push(answer.expect("ETag").to_owned());
            let coded = client.ask(request("GET", target, &["Accept-Encoding: gzip"]));
            assert_eq!(coded.expect("Content-Encoding"), "gzip", "{target}");
            assert!(decoded(&coded) == *plain && coded.content_length().is_some(), "{target}");
            assert_eq!(coded.expect("Content-Type"), kind, "{target}");
            assert_ne!(coded.expect("ETag"), tags[0], "{target}");
        }
        assert_eq!(tags[0], tags[1], "{target}");
        let unchanged = format!("If-None-Match: {}", tags[0]);
        assert_eq!(client.ask(request("GET", target, &[&unchanged])).status(), 304, "{target}");
        let part = streamed(&mut client, target, &["Range: bytes=0-1", "Accept-Encoding: gzip"]);
        assert!(part.status() == 200 && part.body == *plain, "{target}");
        client.send(request("HEAD", target, &[]));
        let head = client.response_head();
        assert_eq!((head.content_length(), head.expect("ETag")), (None, &*tags[0]), "{target}");
    }
}

pub(crate) fn what_is_there_by_gzip_alone_is_closed_cut_or_replaced_as_any_file(mount: &Mount) {
    let files = GzipOnly::lay_out();
    let server = files.start(mount, "compress.gzip-only = true");
    let ask = |target: &str| server.connect().ask(request("GET", target, &[]));
    assert_eq!(ask("/both.txt").text(), "plain\n");
    for (target, status) in [("/closed.txt", 404), ("/.hidden", 404), ("/missing.txt", 404)] {
        assert_eq!(ask(target).status(), status, "{target}");
    }
    let mut client = server.connect();
    client.send(request("GET", "/cut.txt", &[]));
    assert_eq!(client.response_head().status(), 200);
    let got = client.rest_before_end();
    assert!(!got.ends_with(b"0\r\n\r\n"), "it ends as if it were whole");
    let plain = files.directory.path().join("short.txt");
    assert_eq!(streamed(&mut server.connect(), "/short.txt", &[]).body, files.short);
    fs::write(plain, "now plain\n").expect("it can be written");
    let seen = || {
        let mut client = server.connect();
        client.send(request("GET", "/short.txt", &["Connection: close"]));
        client.rest_before_end().ends_with(b"now plain\n").then_some(())
    };
    assert!(until(DEADLINE, seen).is_some(), "the plain file is never seen");
    let server = files.start(mount, "");
    let mut client = server.connect();
    assert_eq!(client.ask(request("GET", "/long.txt", &["Accept-Encoding: gzip"])).status(), 404);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(bytes).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}
