//! How a connection ends, as `openssl s_client` sees it: by TLS's own notice, or cut.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Child;

use flyball_testkit::{Server, skip};

use crate::common::https::Authority;

/// What openssl 3 says of an end without the notice (RFC 8446, section 6.1).
const CUT: &str = "unexpected eof while reading";

/// What it says of one with the notice.
const CLOSED: &str = "closed\n";

/// The versions, as arguments of openssl.
const VERSIONS: [&str; 2] = ["-tls1_2", "-tls1_3"];

/// A client that was answered and may ask again.
fn kept(authority: &Authority, server: &Server, version: &str) -> Child {
    let mut child = authority.begin_openssl(server, "a.test", &[version]);
    let request = b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
    child.stdin.as_mut().expect("a pipe").write_all(request).expect("it reads");
    let output = child.stdout.as_mut().expect("a pipe");
    let (mut said, mut byte) = (Vec::new(), [0]);
    while !said.ends_with(b"over TLS\n") {
        let len = output.read(&mut byte).expect("it says something");
        assert_eq!(len, 1, "{}", String::from_utf8_lossy(&said));
        said.push(byte[0]);
    }
    child
}

/// What it says until it ends.
fn rest(child: Child) -> String {
    let output = child.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    String::from_utf8_lossy(&output.stdout).into_owned() + &errors
}

fn started(arch: &str) -> Option<(Authority, Server)> {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test"]);
    let config =
        format!("arch = \"{arch}\"\nworkers = 1\n{}", authority.site("\"a.test\"", "a.pem", ""));
    match authority.launch(&config) {
        Err(refused) if refused.is_unavailable() => {
            skip(&format!("{arch} cannot run here"));
            None
        }
        server => Some((authority, server.expect("it starts"))),
    }
}

#[test]
fn openssl_sees_the_notice_of_the_end_behind_an_answer_and_at_a_stop() {
    for arch in ["n-copy", "mt", "watpipe", "uring"] {
        let Some((authority, server)) = started(arch) else { continue };
        for version in VERSIONS {
            let said = authority.openssl(&server, "a.test", &[version]);
            assert!(said.contains(CLOSED) && !said.contains(CUT), "{arch} {version}: {said}");
        }
        let waiting = VERSIONS.map(|version| kept(&authority, &server, version));
        server.terminate();
        for (child, version) in waiting.into_iter().zip(VERSIONS) {
            let said = rest(child);
            assert!(said.contains(CLOSED) && !said.contains(CUT), "{arch} {version}: {said}");
        }
        assert_eq!(server.wait().code, Some(0), "{arch}");
    }
}

/// It would see another end: what is cut ends without the notice.
#[test]
fn openssl_sees_that_a_body_was_cut() {
    let Some((authority, server)) = started("n-copy") else { return };
    std::fs::write(authority.path("root/large"), vec![b'x'; 64 << 20]).expect("it is written");
    for version in VERSIONS {
        let mut child = authority.begin_openssl(&server, "a.test", &[version]);
        let request = b"GET /large HTTP/1.1\r\nHost: a.test\r\n\r\n";
        child.stdin.as_mut().expect("a pipe").write_all(request).expect("it reads");
        let mut some = [0; 64 << 10];
        child.stdout.as_mut().expect("a pipe").read_exact(&mut some).expect("it says something");
        std::fs::write(authority.path("root/large"), "").expect("it is cut");
        let said = rest(child);
        assert!(said.contains(CUT), "{version}: {}", &said[said.len().saturating_sub(500)..]);
        std::fs::write(authority.path("root/large"), vec![b'x'; 64 << 20]).expect("it is there");
    }
    server.assert_sound();
}

#[test]
fn a_client_whose_hello_is_too_long_or_whose_certificate_is_by_tls_1_2_is_told() {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test"]);
    authority.issue_by("long.pem", &["someone"], |params| {
        params.distinguished_name.push(rcgen::DnType::CommonName, "x".repeat(20_000));
    });
    let lines = format!("tls.client-ca = {:?}", authority.path("ca.pem"));
    let server = authority.start(&authority.site("\"a.test\"", "a.pem", &lines));
    // A hello of 60,000 bytes is announced, in records of 16 KiB.
    let mut hello = vec![0x16, 3, 1, 0x40, 0, 1, 0, 0xea, 0x60];
    hello.resize(5 + 0x4000, 0);
    hello.extend([0x16, 3, 1, 0x40, 0]);
    hello.resize(18_437, 0);
    let mut client = TcpStream::connect(server.secure()).expect("it accepts");
    client.write_all(&hello).expect("it reads");
    let mut said = Vec::new();
    client.read_to_end(&mut said).expect("it ends");
    assert_eq!(said, [0x15, 3, 3, 0, 2, 2, 50]);
    let long = authority.path("long.pem").display().to_string();
    let certificate = ["-cert", &long, "-key", &long, "-tls1_2"];
    let said = authority.openssl(&server, "a.test", &certificate);
    assert!(said.contains("alert decode error"), "{said}");
    server.assert_sound();
}
