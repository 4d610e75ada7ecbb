//! Answers of programs leave coded to clients that accept it, and can be read as they come.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;

use crate::common_programs::on_every_architecture;
use flyball_testkit::{Client, Launch, Response, Server, as_ourselves, wait};
use tempfile::TempDir;

/// Lines of the long text, each of 50 bytes.
const LINES: usize = 20_000;

/// Programs by name: shell scripts. `$HERE/go` is made by the test.
const PROGRAMS: [(&str, &str); 11] = [
    (
        "long",
        "echo Content-Type: text/html; echo 'ETag: \"a\"'; echo Accept-Ranges: bytes; echo; \
         exec cat $HERE/long",
    ),
    (
        "measured",
        "echo Content-Type: text/html; echo Content-Length: 1000000; echo; \
         test $REQUEST_METHOD = HEAD || exec cat $HERE/long",
    ),
    ("short", "echo Content-Type: text/html; echo Content-Length: 6; echo; echo short"),
    (
        "slow",
        "echo Content-Type: text/html; echo Vary: Cookie; echo; echo first; \
         until [ -e $HERE/go ]; do sleep 0.05; done; echo second",
    ),
    ("coded", "echo Content-Type: text/html; echo Content-Encoding: x; echo; cat $HERE/long"),
    ("digest", "echo Content-Type: text/html; echo Repr-Digest: x; echo; cat $HERE/long"),
    (
        "kept",
        "echo Content-Type: text/html; echo Cache-Control: no-transform; echo; cat $HERE/long",
    ),
    ("events", "echo Content-Type: text/event-stream; echo; exec cat $HERE/long"),
    ("image", "echo Content-Type: image/png; echo; exec cat $HERE/long"),
    ("missing", "echo Status: 404; echo Content-Type: text/html; echo; exec cat $HERE/long"),
    ("cut", "echo Content-Type: text/html; echo; cat $HERE/long; kill -9 $$"),
];

struct Programs {
    server: Server,
    files: TempDir,
}

fn start(architecture: &str, more: &str) -> Option<Programs> {
    let files = tempfile::tempdir().unwrap();
    let programs = files.path().join("programs");
    fs::create_dir(&programs).unwrap();
    fs::set_permissions(files.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for (name, script) in PROGRAMS {
        let path = programs.join(name);
        let text = format!("#!/bin/sh\nHERE={}\n{script}\n", files.path().display());
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(files.path().join("long"), long()).unwrap();
    let root = files.path().display();
    // It is told by the clock what coding costs: on a busy machine that may be too much.
    let config = format!(
        "{}arch = \"{architecture}\"\nlisten = \"127.0.0.1:0\"\n[[site]]\nroot = \"{root}\"\n\
         compress.cpu = 10000\n{more}\n[[site.cgi]]\npath = \"/run\"\nroot = \"{root}/programs\"\n",
        as_ourselves()
    );
    let server = Launch::config(config).start_where_possible()?;
    Some(Programs { server, files })
}

fn long() -> Vec<u8> {
    let line = |n: usize| format!("line {n:08}, {:034}\n", n.wrapping_mul(0x9e37_79b9) % 99_991);
    (0..LINES).flat_map(|n| line(n).into_bytes()).collect()
}

fn ask(client: &mut Client, method: &str, name: &str, fields: &str) -> Response {
    client.send(format!("{method} /run/{name} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    let mut answer = client.response_head();
    if method != "HEAD" {
        answer.body = match answer.content_length() {
            Some(len) => client.take(len),
            None => client.chunks().concat(),
        };
    }
    answer
}

pub(crate) fn decode(coding: &str, body: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let whole = match coding {
        "identity" => return body.to_vec(),
        "gzip" => flate2::read::GzDecoder::new(body).read_to_end(&mut plain),
        "br" => brotli::Decompressor::new(body, 4096).read_to_end(&mut plain),
        "zstd" => zstd::Decoder::new(body).unwrap().read_to_end(&mut plain),
        other => panic!("an unknown coding: {other}"),
    };
    whole.expect("a whole body in its coding");
    plain
}

fn what_a_program_says_leaves_coded(architecture: &str) {
    let Some(programs) = start(architecture, "") else { return };
    let mut client = programs.server.connect();
    for coding in ["gzip", "br", "zstd"] {
        let accepts = format!("Accept-Encoding: {coding}\r\n");
        for name in ["long", "measured"] {
            let answer = ask(&mut client, "GET", name, &accepts);
            assert_eq!(answer.expect("Content-Encoding"), coding, "{name}");
            assert_eq!(answer.expect("Vary"), "Accept-Encoding");
            assert_eq!((answer.content_length(), answer.field("Accept-Ranges")), (None, None));
            assert!(answer.body.len() < 300_000 && decode(coding, &answer.body) == long());
        }
        assert_eq!(ask(&mut client, "POST", "long", &accepts).expect("ETag"), "W/\"a\"");
        let head = ask(&mut client, "HEAD", "measured", &accepts);
        assert_eq!((head.expect("Content-Encoding"), head.content_length()), (coding, None));
        // What GET would say of a length that is not known is not known either.
        let head = ask(&mut client, "HEAD", "long", &accepts);
        assert_eq!((head.field("Content-Encoding"), head.expect("ETag")), (None, "W/\"a\""));
    }
    let plain = ask(&mut client, "GET", "long", "");
    assert!(plain.body == long() && plain.expect("Vary") == "Accept-Encoding");
    assert_eq!((plain.field("Content-Encoding"), plain.expect("ETag")), (None, "\"a\""));
    let part = ask(&mut client, "GET", "long", "Accept-Encoding: gzip\r\nRange: bytes=0-9\r\n");
    assert!(part.body == long() && part.field("Content-Encoding").is_none());
    for (name, status) in [
        ("coded", 200),
        ("digest", 200),
        ("kept", 200),
        ("events", 200),
        ("image", 200),
        ("missing", 404),
        ("short", 200),
    ] {
        let answer = ask(&mut client, "GET", name, "Accept-Encoding: gzip\r\n");
        assert_eq!((answer.status(), answer.field("Vary")), (status, None), "{name}");
        let expected = if name == "short" { b"short\n".to_vec() } else { long() };
        assert!(answer.body == expected, "{name}");
        assert_eq!(answer.field("Content-Encoding").is_some(), name == "coded");
    }
    // Until the connection ends.
    let mut old = programs.server.connect();
    old.send("GET /run/long HTTP/1.0\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    let head = old.response_head();
    assert_eq!((head.field("Transfer-Encoding"), head.content_length()), (None, None));
    assert!(decode(head.expect("Content-Encoding"), &old.rest()) == long());
    programs.server.assert_sound();
}

fn a_pause_of_a_program_lets_a_client_read_what_came(architecture: &str) {
    let Some(programs) = start(architecture, "") else { return };
    let mut client = programs.server.connect();
    client.send("GET /run/slow HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    let head = client.response_head();
    assert_eq!(head.expect("Content-Encoding"), "gzip");
    let vary = head.fields.iter().filter(|(name, _)| name == "Vary");
    let vary: Vec<&str> = vary.map(|(_, value)| value.as_str()).collect();
    assert_eq!(vary, ["Cookie", "Accept-Encoding"]);
    let mut body = Vec::new();
    let mut plain = [0; 6];
    while flate2::read::GzDecoder::new(&*body).read_exact(&mut plain).is_err() {
        body.extend(chunk(&mut client));
    }
    assert_eq!(&plain, b"first\n");
    fs::write(programs.files.path().join("go"), "").unwrap();
    body.extend(client.chunks().concat());
    assert_eq!(decode("gzip", &body), b"first\nsecond\n");
}

/// The next chunk.
fn chunk(client: &mut Client) -> Vec<u8> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.extend(client.take(1));
    }
    let size = std::str::from_utf8(&line[..line.len() - 2]).unwrap();
    let size = usize::from_str_radix(size, 16).unwrap();
    assert!(size > 0, "the body ended");
    let chunk = client.take(size);
    client.take(2);
    chunk
}

fn a_program_that_is_cut_off_ends_no_coded_answer(architecture: &str) {
    let Some(programs) = start(architecture, "") else { return };
    let mut client = programs.server.connect();
    client.send("GET /run/cut HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    assert_eq!(client.response_head().expect("Content-Encoding"), "gzip");
    let rest = client.rest_before_end();
    assert!(!rest.ends_with(b"0\r\n\r\n"), "it passes for whole");
    // And a client that leaves ends nothing but its own.
    for _ in 0..5 {
        let mut gone = programs.server.connect();
        gone.send("GET /run/long HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\n\r\n");
        gone.response_head();
        gone.reset();
    }
    let accepts = "Accept-Encoding: gzip\r\n";
    let answer = ask(&mut programs.server.connect(), "GET", "long", accepts);
    assert!(decode("gzip", &answer.body) == long());
    programs.server.assert_sound();
}

fn answers_leave_plain_where_settings_say_so(architecture: &str) {
    for settings in ["compress.backends = false", "compress.on = false", "compress.types = \"a/b\""]
    {
        let Some(programs) = start(architecture, settings) else { return };
        let mut client = programs.server.connect();
        let answer = ask(&mut client, "GET", "long", "Accept-Encoding: gzip\r\n");
        assert!(answer.body == long() && answer.field("Vary").is_none(), "{settings}");
        assert_eq!(answer.expect("ETag"), "\"a\"");
    }
    // Where there is enough to do, what is beyond leaves plain: one that goes on holds the place.
    let Some(programs) = start(architecture, "compress.streams = 1") else { return };
    let accepts = "Accept-Encoding: gzip\r\n";
    let mut slow = programs.server.connect();
    slow.send(format!("GET /run/slow HTTP/1.1\r\nHost: a\r\n{accepts}\r\n"));
    assert_eq!(slow.response_head().expect("Content-Encoding"), "gzip");
    // Another process has places of its own.
    let is_full = || {
        let answer = ask(&mut programs.server.connect(), "GET", "long", accepts);
        assert_eq!(answer.expect("Vary"), "Accept-Encoding");
        let is_plain = answer.field("Content-Encoding").is_none();
        assert!(!is_plain || answer.body == long());
        is_plain.then_some(())
    };
    if !matches!(architecture, "mp" | "symped") {
        assert!(wait::until(wait::DEADLINE, is_full).is_some());
    }
    fs::write(programs.files.path().join("go"), "").unwrap();
    assert_eq!(decode("gzip", &slow.chunks().concat()), b"first\nsecond\n");
}

on_every_architecture!([
    a_pause_of_a_program_lets_a_client_read_what_came,
    a_program_that_is_cut_off_ends_no_coded_answer,
    answers_leave_plain_where_settings_say_so,
    what_a_program_says_leaves_coded,
]);
