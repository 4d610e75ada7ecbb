//! Content codings: what is compressed here, what was compressed beforehand, and what leaves plain.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use flyball_testkit::wait::{DEADLINE, dawdle, until};
use flyball_testkit::{Response, Server, responses};
use tempfile::TempDir;

use crate::mount::Mount;
use crate::requests::request;

/// Length of the text that is compressed in most bodies.
const TEXT_BYTES: usize = 30_000;

/// A server with a site of its own.
pub(crate) struct Coded {
    site: TempDir,
    pub(crate) server: Server,
}

impl Coded {
    /// With files of every kind, and these lines among the settings of the site.
    pub(crate) fn start(mount: &Mount, settings: &str, of_site: &str) -> Coded {
        let site = tempfile::Builder::new().prefix("flyball-codings-").tempdir();
        let site = site.expect("a temporary directory");
        let write = |name: &str, body: &[u8]| {
            let path = site.path().join(name);
            fs::write(&path, body).expect("the site can be written");
            // A young file has another tag later.
            set_modified(&path, SystemTime::now() - Duration::from_secs(60));
        };
        write("text.txt", &text(1));
        write("short.txt", b"short\n");
        write("noise.txt", &noise());
        write("image.png", &text(1));
        write("large.txt", &text(1).repeat(5));
        let root = site.path().display();
        // It is told by the clock what codings cost: on a busy machine that may be too much.
        let much = if of_site.contains("compress.cpu") { "" } else { "compress.cpu = 10000\n" };
        let sites = format!("[[site]]\nhosts = [\"*\"]\nroot = \"{root}\"\n{much}{of_site}\n");
        let server = mount.start_with_sites(settings, &sites);
        Coded { site, server }
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.site.path().join(name)
    }

    /// A file that has just been written is not cached yet.
    pub(crate) fn wait_until_cached(&self) {
        // The server goes by the change of an inode, whose time no one can set.
        let aged = || {
            let about = fs::metadata(self.path("text.txt")).expect("the file is there");
            let changed = Duration::new(about.ctime() as u64, about.ctime_nsec() as u32);
            let age = (SystemTime::UNIX_EPOCH + changed).elapsed().unwrap_or_default();
            (age > Duration::from_millis(200)).then_some(())
        };
        assert!(until(DEADLINE, aged).is_some());
    }

    /// Asks on a connection of its own.
    #[track_caller]
    pub(crate) fn ask(&self, target: &str, fields: &[&str]) -> Response {
        self.server.connect().ask(request("GET", target, fields))
    }
}

/// Text that says its version in every line and shrinks to a fraction.
pub(crate) fn text(version: u32) -> Vec<u8> {
    let line = |n: usize| format!("version {version:04}, line {n:06}, and so on and on\n");
    (0..).flat_map(|n| line(n).into_bytes()).take(TEXT_BYTES).collect()
}

/// Bytes that do not shrink.
fn noise() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..8_000).map(|_| next()).collect()
}

pub(crate) const CODINGS: [&str; 3] = ["gzip", "br", "zstd"];

/// The body as it was before it was coded.
#[track_caller]
pub(crate) fn decoded(answer: &Response) -> Vec<u8> {
    decode(answer.expect("Content-Encoding"), &answer.body)
}

pub(crate) fn decode(coding: &str, body: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    match coding {
        "gzip" => flate2::read::MultiGzDecoder::new(body).read_to_end(&mut plain),
        "br" => brotli::Decompressor::new(body, 4096).read_to_end(&mut plain),
        "zstd" => zstd::Decoder::new(body).expect("a frame").read_to_end(&mut plain),
        "deflate" => flate2::read::ZlibDecoder::new(body).read_to_end(&mut plain),
        other => panic!("nobody knows {other}"),
    }
    .expect("a whole body in its coding");
    plain
}

fn encode(coding: &str, body: &[u8]) -> Vec<u8> {
    let mut coded = Vec::new();
    match coding {
        "gzip" => flate2::read::GzEncoder::new(body, Default::default()).read_to_end(&mut coded),
        "br" => brotli::CompressorReader::new(body, 4096, 5, 20).read_to_end(&mut coded),
        "zstd" => {
            zstd::stream::read::Encoder::new(body, 1).expect("a coder").read_to_end(&mut coded)
        }
        "deflate" => {
            flate2::read::ZlibEncoder::new(body, Default::default()).read_to_end(&mut coded)
        }
        other => panic!("nobody knows {other}"),
    }
    .expect("it can be coded");
    coded
}

/// The body is the file itself.
#[track_caller]
fn assert_plain(answer: &Response, file: &[u8]) {
    assert_eq!(answer.status(), 200, "{}", answer.head);
    assert_eq!(answer.field("Content-Encoding"), None);
    assert_eq!(answer.expect("Accept-Ranges"), "bytes");
    assert!(answer.body == file, "{}", answer.head);
}

pub(crate) fn a_text_leaves_in_the_coding_that_its_client_likes_best(mount: &Mount) {
    let coded = Coded::start(mount, "", "");
    let plain = coded.ask("/text.txt", &[]);
    assert_plain(&plain, &text(1));
    assert_eq!(plain.expect("Vary"), "Accept-Encoding");
    let mut client = coded.server.connect();
    for (accepts, coding) in [
        ("gzip", "gzip"),
        ("x-gzip, deflate", "gzip"),
        ("br", "br"),
        ("zstd", "zstd"),
        ("gzip, deflate, br, zstd", "br"),
        ("*", "br"),
        ("br;q=0.5, gzip;q=0.6, zstd;q=0.55", "gzip"),
        ("br;q=0, *;q=0.1", "zstd"),
        ("identity;q=0, GZIP", "gzip"),
    ] {
        // Twice: the second comes from the cache, as soon as the file is old enough for that.
        for _ in 0..2 {
            let fields = format!("Accept-Encoding: {accepts}");
            let answer = client.ask(request("GET", "/text.txt", &[&fields]));
            assert_eq!((answer.status(), answer.expect("Content-Encoding")), (200, coding));
            assert!(decoded(&answer) == text(1), "{accepts}");
            assert!(answer.body.len() < TEXT_BYTES / 4, "{accepts}");
            assert_eq!(answer.expect("Vary"), "Accept-Encoding");
            assert_eq!(answer.expect("Content-Type"), plain.expect("Content-Type"));
            assert_eq!(answer.expect("Last-Modified"), plain.expect("Last-Modified"));
            assert_eq!(answer.field("Accept-Ranges"), None);
            assert_ne!(answer.expect("ETag"), plain.expect("ETag"));
        }
    }
    let mut tags = CODINGS.map(|coding| {
        let answer = coded.ask("/text.txt", &[&format!("Accept-Encoding: {coding}")]);
        answer.expect("ETag").to_owned()
    });
    tags.sort();
    assert!(tags[0] != tags[1] && tags[1] != tags[2], "{tags:?}");
}

pub(crate) fn what_nobody_asked_to_be_coded_leaves_plain(mount: &Mount) {
    let coded = Coded::start(mount, "", "");
    for accepts in [
        &[][..],
        &["Accept-Encoding:"],
        &["Accept-Encoding: identity"],
        &["Accept-Encoding: deflate, compress"],
        &["Accept-Encoding: gzip;q=0, br;q=0"],
        &["Accept-Encoding: gzip;q=0.5, identity"],
        &["Accept-Encoding: gzip;q=nonsense"],
        // Nothing else is on offer then: the field is disregarded (RFC 9110, section 12.4.1).
        &["Accept-Encoding: identity;q=0"],
        &["Accept-Encoding: *;q=0"],
    ] {
        let answer = coded.ask("/text.txt", accepts);
        assert_plain(&answer, &text(1));
        assert_eq!(answer.expect("Vary"), "Accept-Encoding", "{accepts:?}");
    }
}

pub(crate) fn what_does_not_become_smaller_leaves_plain(mount: &Mount) {
    let coded = Coded::start(
        mount,
        "",
        "compress.max-size = \"100KiB\"\ncompress.stream-max-size = \"off\"",
    );
    for _ in 0..2 {
        for coding in CODINGS {
            let accepts = format!("Accept-Encoding: {coding}");
            for (target, file, varies) in [
                ("/noise.txt", noise(), true),
                ("/image.png", text(1), false),
                ("/short.txt", b"short\n".to_vec(), false),
                ("/large.txt", text(1).repeat(5), true),
            ] {
                let answer = coded.ask(target, &[&accepts]);
                assert_plain(&answer, &file);
                let vary = varies.then_some("Accept-Encoding");
                assert_eq!(answer.field("Vary"), vary, "{target}");
            }
        }
    }
}

pub(crate) fn bodies_beyond_what_is_held_in_memory_are_coded_too(mount: &Mount) {
    let coded = Coded::start(mount, "cache.small = \"4KiB\"\n", "");
    for coding in CODINGS {
        for _ in 0..2 {
            let answer = coded.ask("/large.txt", &[&format!("Accept-Encoding: {coding}")]);
            assert_eq!(answer.expect("Content-Encoding"), coding);
            assert!(decoded(&answer) == text(1).repeat(5));
        }
    }
    assert_plain(&coded.ask("/large.txt", &[]), &text(1).repeat(5));
}

pub(crate) fn head_of_a_coded_body_has_the_fields_of_get(mount: &Mount) {
    let coded = Coded::start(mount, "", "");
    let undated = |answer: &Response| {
        let fields = answer.fields.iter().filter(|(name, _)| name != "Date");
        fields.cloned().collect::<Vec<_>>()
    };
    for accepts in [&["Accept-Encoding: gzip"][..], &["Accept-Encoding: br"], &[]] {
        // HEAD comes first, so that the body is coded for it.
        let mut client = coded.server.connect();
        client.send(request("HEAD", "/text.txt", accepts));
        let head = client.response_head();
        let get = client.ask(request("GET", "/text.txt", accepts));
        assert_eq!(undated(&head), undated(&get));
        assert_eq!(head.content_length(), Some(get.body.len()));
    }
}

pub(crate) fn conditions_are_compared_with_the_coded_body(mount: &Mount) {
    let coded = Coded::start(mount, "", "");
    let plain = coded.ask("/text.txt", &[]).expect("ETag").to_owned();
    for coding in CODINGS {
        let accepts = format!("Accept-Encoding: {coding}");
        let whole = coded.ask("/text.txt", &[&accepts]);
        let tag = whole.expect("ETag");
        let ask = |field: String| coded.ask("/text.txt", &[&accepts, &field]);
        let unchanged = ask(format!("If-None-Match: {tag}"));
        assert_eq!((unchanged.status(), unchanged.expect("ETag")), (304, tag));
        assert_eq!(unchanged.expect("Vary"), "Accept-Encoding");
        assert_eq!(unchanged.field("Content-Encoding"), None);
        assert_eq!(ask(format!("If-None-Match: {plain}")).status(), 200);
        assert_eq!(ask(format!("If-Match: {tag}")).status(), 200);
        assert_eq!(ask(format!("If-Match: {plain}")).status(), 412);
        let since = format!("If-Modified-Since: {}", whole.expect("Last-Modified"));
        assert_eq!(ask(since).status(), 304);
        // To a client that does not accept the coding its tag means nothing.
        let other = coded.ask("/text.txt", &[&format!("If-None-Match: {tag}")]);
        assert_plain(&other, &text(1));
    }
}

pub(crate) fn a_range_is_one_of_the_plain_body(mount: &Mount) {
    let coded = Coded::start(mount, "", "");
    let accepts = "Accept-Encoding: gzip, br, zstd";
    let plain = coded.ask("/text.txt", &[]);
    let tag = coded.ask("/text.txt", &[accepts]).expect("ETag").to_owned();
    let part = coded.ask("/text.txt", &[accepts, "Range: bytes=100-199"]);
    assert_eq!((part.status(), part.body.as_slice()), (206, &text(1)[100..200]));
    assert_eq!(part.expect("Content-Range"), format!("bytes 100-199/{TEXT_BYTES}"));
    assert_eq!(part.field("Content-Encoding"), None);
    assert_eq!(part.expect("ETag"), plain.expect("ETag"));
    assert_eq!(part.expect("Vary"), "Accept-Encoding");
    let parts = coded.ask("/text.txt", &[accepts, "Range: bytes=0-9, 5000-5009"]);
    assert!(parts.status() == 206 && parts.expect("Content-Type").starts_with("multipart/"));
    // A part of one body is never joined to another: the tag of the coded one is not this one's.
    let range = "Range: bytes=100-199";
    let whole = coded.ask("/text.txt", &[accepts, range, &format!("If-Range: {tag}")]);
    assert_plain(&whole, &text(1));
    let if_range = format!("If-Range: {}", plain.expect("ETag"));
    assert_eq!(coded.ask("/text.txt", &[accepts, range, &if_range]).status(), 206);
    assert_eq!(coded.ask("/text.txt", &[accepts, "Range: bytes=99999-"]).status(), 416);
}

/// Sets when a file was last changed, as a program that copies it does.
fn set_modified(path: &Path, modified: SystemTime) {
    let file = File::options().write(true).open(path).expect("the file is there");
    file.set_modified(modified).expect("its times can be set");
}

pub(crate) fn what_was_coded_beforehand_is_sent_unless_it_is_older(mount: &Mount) {
    let coded = Coded::start(mount, "cache.revalidate = 0\n", "");
    // It holds another text, which tells who coded it.
    let other = zstd::encode_all(&text(2)[..], 1).expect("a frame");
    let neighbour = coded.path("text.txt.zst");
    fs::write(&neighbour, &other).expect("the site can be written");
    let modified = fs::metadata(coded.path("text.txt")).and_then(|m| m.modified()).expect("a time");
    let accepts = ["Accept-Encoding: gzip, zstd"];
    let is_sent = |modified| {
        set_modified(&neighbour, modified);
        let answer = coded.ask("/text.txt", &accepts);
        assert_eq!(answer.expect("Vary"), "Accept-Encoding");
        assert_eq!(answer.expect("Content-Type"), "text/plain; charset=utf-8");
        answer.expect("Content-Encoding") == "zstd" && decoded(&answer) == text(2)
    };
    for _ in 0..2 {
        assert!(is_sent(modified + Duration::from_secs(1)));
        assert!(!is_sent(modified - Duration::from_secs(1)));
        assert!(is_sent(modified));
    }
    // Who does not accept it gets what is coded here, and a range is one of the plain file.
    let answer = coded.ask("/text.txt", &["Accept-Encoding: gzip"]);
    assert!(answer.expect("Content-Encoding") == "gzip" && decoded(&answer) == text(1));
    let answer = coded.ask("/text.txt", &[accepts[0], "Range: bytes=0-6"]);
    assert_eq!((answer.status(), answer.text()), (206, "version"));
    // Its own name leads to the file as it is.
    let itself = coded.ask("/text.txt.zst", &accepts);
    assert_plain(&itself, &other);
    assert_eq!(itself.expect("Content-Type"), "application/zstd");
    // Its tag is its own, and goes with it.
    let tag = format!("If-None-Match: {}", coded.ask("/text.txt", &accepts).expect("ETag"));
    assert_eq!(coded.ask("/text.txt", &[accepts[0], &tag]).status(), 304);
    fs::remove_file(&neighbour).expect("it is there");
    let answer = coded.ask("/text.txt", &[accepts[0], &tag]);
    assert!(answer.status() == 200 && decoded(&answer) == text(1));
    // What is in the place of one and no file is passed over.
    fs::create_dir(&neighbour).expect("the site can be written");
    assert!(decoded(&coded.ask("/text.txt", &accepts)) == text(1));
}

pub(crate) fn what_was_coded_beforehand_is_sent_in_each_coding(mount: &Mount) {
    let coded = Coded::start(mount, "cache.revalidate = 0\n", "");
    let modified = fs::metadata(coded.path("text.txt")).and_then(|m| m.modified()).expect("a time");
    for (version, coding, suffix) in [(2, "gzip", "gz"), (3, "br", "br"), (4, "zstd", "zst")] {
        let neighbour = coded.path(&format!("text.txt.{suffix}"));
        fs::write(&neighbour, encode(coding, &text(version))).expect("the site can be written");
        set_modified(&neighbour, modified);
    }
    let asks = |accepts: &str| coded.ask("/text.txt", &[&format!("Accept-Encoding: {accepts}")]);
    for _ in 0..2 {
        for (version, coding) in [(2, "gzip"), (3, "br"), (4, "zstd")] {
            let answer = asks(coding);
            assert_eq!(answer.expect("Content-Encoding"), coding);
            assert_eq!(answer.expect("Vary"), "Accept-Encoding");
            assert_eq!(answer.expect("Content-Type"), "text/plain; charset=utf-8");
            assert!(decoded(&answer) == text(version), "{coding}");
        }
    }
    // Of several, the one that the client likes best.
    assert!(decoded(&asks("gzip, br;q=0.5")) == text(2));
    assert!(decoded(&asks("gzip;q=0.5, br")) == text(3));
    assert_plain(&asks("identity"), &text(1));
}

pub(crate) fn codings_are_chosen_and_switched_off_by_settings(mount: &Mount) {
    let accepts = ["Accept-Encoding: br, gzip"];
    let off = "compress.on = false\ncompress.precompressed = false\n";
    let coded = Coded::start(mount, "", off);
    fs::copy(coded.path("noise.txt"), coded.path("text.txt.br")).expect("a copy");
    let answer = coded.ask("/text.txt", &accepts);
    assert_plain(&answer, &text(1));
    assert_eq!(answer.field("Vary"), None);
    let chosen = "compress.codings = [\"gzip\", \"br\"]\ncompress.gzip-level = 9\n\
                  compress.types = [\"image/*\"]\ncompress.min-size = 0\n";
    let coded = Coded::start(mount, "", chosen);
    let answer = coded.ask("/image.png", &accepts);
    assert!(answer.expect("Content-Encoding") == "gzip" && decoded(&answer) == text(1));
    assert_plain(&coded.ask("/text.txt", &accepts), &text(1));
    let none = coded.ask("/image.png", &["Accept-Encoding: zstd"]);
    assert_plain(&none, &text(1));
}

pub(crate) fn a_coding_that_is_off_unless_it_is_named_is_like_the_others(mount: &Mount) {
    const REQUESTS: u64 = 100;
    let named = "compress.codings = [\"gzip\", \"deflate\"]\ncompress.deflate-level = 9\n\
                 compress.max-size = \"100KiB\"\n";
    let coded = Coded::start(mount, "workers = 1\nadmin = \"127.0.0.1:0\"\n", named);
    coded.wait_until_cached();
    for (accepts, coding) in
        [("gzip, deflate", "gzip"), ("DEFLATE", "deflate"), ("gzip;q=0.5, deflate, br", "deflate")]
    {
        let answer = coded.ask("/text.txt", &[&format!("Accept-Encoding: {accepts}")]);
        assert_eq!(answer.expect("Content-Encoding"), coding, "{accepts}");
        assert!(decoded(&answer) == text(1) && answer.body.len() < TEXT_BYTES / 4);
        assert_eq!(answer.expect("Vary"), "Accept-Encoding");
    }
    let accepts = "Accept-Encoding: deflate";
    let tags = [accepts, "Accept-Encoding: gzip", "Accept-Encoding: identity"]
        .map(|accepts| coded.ask("/text.txt", &[accepts]).expect("ETag").to_owned());
    assert!(tags[0] != tags[1] && tags[0] != tags[2], "{tags:?}");
    let unchanged = format!("If-None-Match: {}", tags[0]);
    assert_eq!(coded.ask("/text.txt", &[accepts, &unchanged]).status(), 304);
    // Larger than what is kept: coded while it is sent.
    let mut client = coded.server.connect();
    client.send(request("GET", "/large.txt", &[accepts]));
    assert_eq!(client.response_head().expect("Content-Encoding"), "deflate");
    assert!(decode("deflate", &client.chunks().concat()) == text(1).repeat(5));
    // Beside a file that has not been asked for.
    fs::write(coded.path("beside.txt"), text(1)).expect("the site can be written");
    fs::write(coded.path("beside.txt.zz"), encode("deflate", &text(2))).expect("the same");
    assert!(decoded(&coded.ask("/beside.txt", &[accepts])) == text(2));
    // What was coded is kept.
    for _ in 0..REQUESTS {
        assert!(decoded(&client.ask(request("GET", "/text.txt", &[accepts]))) == text(1));
    }
    let counted = until(DEADLINE, || {
        let status = coded.server.status();
        assert!(counter(&status, "compressions") <= REQUESTS / 5, "{status}");
        (counter(&status, "requests") >= REQUESTS).then_some(())
    });
    assert!(counted.is_some(), "{}", coded.server.status());
}

pub(crate) fn a_file_that_was_replaced_is_never_sent_as_it_was(mount: &Mount) {
    let coded = Coded::start(mount, "cache.revalidate = 0\n", "");
    for version in 1..=12 {
        let new = coded.path("new");
        fs::write(&new, text(version)).expect("the site can be written");
        fs::rename(&new, coded.path("text.txt")).expect("it can be replaced");
        for coding in CODINGS {
            let answer = coded.ask("/text.txt", &[&format!("Accept-Encoding: {coding}")]);
            assert_eq!(answer.expect("Content-Encoding"), coding);
            assert!(decoded(&answer) == text(version), "version {version}");
        }
    }
}

pub(crate) fn a_file_that_changes_is_never_sent_torn(mount: &Mount) {
    let coded = Coded::start(mount, "cache.revalidate = 0\n", "");
    // Rewritten in place by single calls: each leaves a version.
    let file = File::options().write(true).open(coded.path("text.txt")).expect("it is there");
    let (done, versions) = (AtomicBool::new(false), [text(1), text(2)]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for version in (0..=1).cycle() {
                file.write_all_at(&versions[version], 0).expect("the site can be written");
                if done.load(Relaxed) {
                    break;
                }
                dawdle(Duration::from_millis(1));
            }
        });
        let mut count = 0;
        for coding in CODINGS.into_iter().cycle().take(60) {
            let fields = [&*format!("Accept-Encoding: {coding}"), "Connection: close"];
            let mut client = coded.server.connect();
            client.send(request("GET", "/text.txt", &fields));
            // A body that breaks off because its file changed costs the connection, and is right.
            let Some(answer) = whole(&client.rest_before_end()) else { continue };
            let body = match answer.field("Content-Encoding") {
                Some(coding) => decode(coding, &answer.body),
                None => answer.body.clone(),
            };
            assert!(versions.contains(&body), "torn: {}", answer.head);
            count += 1;
        }
        done.store(true, Relaxed);
        assert!(count > 0, "no body came whole");
    });
}

/// The answer, unless it was broken off.
fn whole(bytes: &[u8]) -> Option<Response> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&bytes[..head]).expect("a head in ASCII");
    let length = text.split("\r\nContent-Length: ").nth(1)?.lines().next()?;
    let length: usize = length.parse().expect("a length");
    (bytes.len() >= head + length).then(|| responses(bytes).remove(0))
}

pub(crate) fn a_cached_body_is_coded_once(mount: &Mount) {
    const REQUESTS: u64 = 200;
    let coded = Coded::start(mount, "workers = 1\nadmin = \"127.0.0.1:0\"\n", "");
    coded.wait_until_cached();
    let mut client = coded.server.connect();
    for n in 0..REQUESTS {
        let answer = client.ask(request("GET", "/text.txt", &["Accept-Encoding: gzip"]));
        assert!(decoded(&answer) == text(1));
        if n % 10 == 0 {
            client = coded.server.connect();
        }
    }
    let counted = until(DEADLINE, || {
        let status = coded.server.status();
        let saved = counter(&status, "compression_saved_bytes");
        // Once for each process, of which every connection may meet another.
        assert!(counter(&status, "compressions") <= REQUESTS / 5, "{status}");
        (counter(&status, "requests") >= REQUESTS && saved > 0).then_some(())
    });
    assert!(counted.is_some(), "{}", coded.server.status());
}

pub(crate) fn what_costs_too_much_leaves_plain(mount: &Mount) {
    const FILES: usize = 60;
    // So small a share that a few files use up what may be spent at once.
    let admin = "workers = 1\nadmin = \"127.0.0.1:0\"\n";
    let coded = Coded::start(mount, admin, "compress.cpu = 1\ncompress.brotli-level = 11\n");
    let large = text(1).repeat(5);
    for n in 0..FILES {
        fs::write(coded.path(&format!("{n}.txt")), &large).expect("the site can be written");
    }
    let mut plain = 0;
    let mut client = coded.server.connect();
    for n in 0..FILES {
        let target = format!("/{n}.txt");
        let answer = client.ask(request("GET", &target, &["Accept-Encoding: br"]));
        assert_eq!(answer.expect("Vary"), "Accept-Encoding");
        if answer.field("Content-Encoding").is_some() {
            assert!(decoded(&answer) == large);
        } else {
            assert_plain(&answer, &large);
            plain += 1;
        }
    }
    assert!(plain > 0 && plain < FILES, "{plain} of {FILES} left plain");
    let counted = until(DEADLINE, || {
        (counter(&coded.server.status(), "compressions_shed") >= plain as u64).then_some(())
    });
    assert!(counted.is_some(), "{}", coded.server.status());
}

pub(crate) fn counter(status: &str, name: &str) -> u64 {
    let rest = status.split(&format!("\"{name}\":")).nth(1).expect("the counter is there");
    let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}
