//! Paths with encoded slashes and backslashes, and with bytes that are no text: what is on the disk
//! is served, programs get them whole, and no rule is got around by them.

use std::fs;

use crate::common_programs::on_every_architecture;
use crate::dynamic::answer;
use crate::house::{lay_out, serve};
use crate::rules::responder;
use flyball_testkit::{Response, Server, wait};
use tempfile::TempDir;

/// Files by name, below the directory of the test.
const FILES: [(&[u8], &str); 12] = [
    (b"app/index.php", "<?php hunter2"),
    (b"app/private/secret.txt", "hunter2"),
    (b"app/closed/secret.txt", "hunter2"),
    (b"app/caf\xe9/page.txt", "in a directory"),
    (b"app/list/caf\xe9.txt", "of Latin-1"),
    (b"app/list/caf\xc3\xa9.txt", "of UTF-8"),
    (b"app/list/back\\slash.txt", "with a backslash"),
    (b"app/list/..\\up.txt", "not listed"),
    (b"app/list/line\nfeed.txt", "not listed"),
    (b"app/list/.dot.txt", "not listed"),
    (b"programs/env", "#!/bin/sh\necho A: b; echo; env"),
    (b"programs/dir/env", "#!/bin/sh\necho A: b; echo; echo hunter2"),
];

const SITES: &str = r#"
[[site]]
hosts = ["front"]
root = "HERE/app"
listing = true
fallback = "/index.php"
auth.file = "HERE/users"
auth.paths = ["/private"]
redirect = [
    { from = "/old/*", to = "/new/$1" },
    { from = "~^/go/(.)(.*)$", to = "/$1/$2" },
]
rewrite = [
    { from = "/r/*", to = "/index.php/$1" },
    { from = "~^/to/(.*)$", to = "/$1" },
]
[[site.access]]
path = "/closed"
allow = ["10.0.0.0/8"]
[[site.cgi]]
path = "/run"
root = "HERE/programs"
[[site.scgi]]
extensions = ["php"]
socket = "SOCKET"

[[site]]
hosts = ["app"]
root = "HERE/app"
auth.file = "HERE/users"
auth.paths = ["/private"]
[[site.scgi]]
path = "/"
socket = "SOCKET"

[[site]]
hosts = ["files"]
root = "HERE/app"
listing = true
"#;

const USERS: &str = "ann:$2y$04$ViUvEMhOIe9hKRT8ricqau0EnQEXaPe7Rz9cVB8fJof.xyY.s2pPy\n";

struct House {
    server: Server,
    here: TempDir,
}

fn start(architecture: &str) -> Option<House> {
    let users: (&[u8], &str) = (b"users", USERS);
    let files = FILES.into_iter().chain([users]).map(|(name, text)| (name, text.to_owned()));
    let here = lay_out(files);
    let sites = SITES.replace("SOCKET", &responder(reply));
    let server = serve(architecture, here.path(), &sites)?;
    Some(House { server, here })
}

/// Tells what it was told of the path, escaped.
fn reply(head: &[u8]) -> Vec<u8> {
    let texts: Vec<&[u8]> = head.split(|&byte| byte == 0).collect();
    let value = |name: &str| {
        let pair = texts.chunks(2).find(|pair| pair[0] == name.as_bytes());
        pair.map(|pair| pair[1].escape_ascii().to_string()).unwrap_or_default()
    };
    let of = ["SCRIPT_NAME", "PATH_INFO", "REQUEST_URI"].map(value);
    format!("Content-Type: text/plain\n\n{}", of.join(" ")).into_bytes()
}

impl House {
    /// The answer with its body, which never holds the secret.
    fn get(&self, host: &str, path: &[u8]) -> (Response, String) {
        let mut client = self.server.connect();
        client.send([b"GET ", path, b" HTTP/1.1\r\nHost: ", host.as_bytes(), b"\r\n\r\n"].concat());
        let answer = answer(&mut client);
        assert!(!answer.text.contains("hunter2"), "{}", path.escape_ascii());
        (answer.head, answer.text)
    }

    /// The same twice: the caches may know it the second time.
    fn twice(&self, host: &str, path: impl AsRef<[u8]>) -> (u16, String) {
        let path = path.as_ref();
        let [(one, first), (other, second)] = [self.get(host, path), self.get(host, path)];
        let shown = path.escape_ascii();
        assert_eq!((one.status(), &first), (other.status(), &second), "{shown}");
        (one.status(), first)
    }
}

fn what_a_listing_links_to_is_served(architecture: &str) {
    let Some(house) = start(architecture) else { return };
    for format in ["html", "json"] {
        let (status, page) = house.twice("files", format!("/list/?format={format}"));
        assert_eq!(status, 200);
        let links: Vec<&str> =
            page.split("\"./").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(links, ["back%5Cslash.txt", "caf%C3%A9.txt", "caf%E9.txt"], "{page}");
        for (link, text) in links.iter().zip(["with a backslash", "of UTF-8", "of Latin-1"]) {
            assert_eq!(house.twice("files", format!("/list/{link}")), (200, text.into()), "{link}");
        }
    }
    assert_eq!(house.twice("files", "/caf%e9/page.txt"), (200, "in a directory".into()));
    let (moved, _) = house.get("files", "/caf%e9?\u{e9}".as_bytes());
    assert_eq!((moved.status(), moved.expect("Location")), (301, "/caf%E9/?%C3%A9"));
    let (status, page) = house.twice("files", "/caf%e9/?format=json");
    assert!(status == 200 && page.contains("\"path\":\"/caf%E9/\""), "{page}");
}

fn programs_get_encoded_bytes_of_a_path(architecture: &str) {
    let Some(house) = start(architecture) else { return };
    for (host, path, expected) in [
        ("front", "/index.php/AC%2FDC", "/index.php /AC%2FDC /index.php/AC%2FDC"),
        // What is encoded twice looks like nothing else.
        ("front", "/index.php/AC%252FDC", "/index.php /AC%252FDC /index.php/AC%252FDC"),
        ("front", "/index.php/caf%E9/a%5Cb", "/index.php /caf\\xe9/a\\\\b /index.php/caf%E9/a%5Cb"),
        ("front", "/@scope%2fname", "/index.php  /@scope%2fname"),
        ("front", "/caf%E8", "/index.php  /caf%E8"),
        // No script's name holds a slash, and none is beneath such a name.
        ("front", "/x%2Findex.php", "/index.php  /x%2Findex.php"),
        ("front", "/x%2Fy/index.php/z", "/index.php  /x%2Fy/index.php/z"),
        ("front", "/run%2Fenv", "/index.php  /run%2Fenv"),
        ("front", "/r/AC%2fDC/caf%e9", "/index.php /AC%2FDC/caf\\xe9 /r/AC%2fDC/caf%e9"),
        ("app", "/@scope%2fname/%FF", " /@scope%2Fname/\\xff /@scope%2fname/%FF"),
    ] {
        assert_eq!(house.twice(host, path), (200, expected.into()), "{path}");
    }
    let (head, text) = house.get("front", b"/run/env/AC%2FDC%5C/%E9");
    assert_eq!(head.status(), 200);
    for line in ["SCRIPT_NAME=/run/env", "REQUEST_URI=/run/env/AC%2FDC%5C/%E9"] {
        assert!(text.lines().any(|found| found == line), "{line}:\n{text}");
    }
    assert!(text.contains("PATH_INFO=/AC%2FDC\\/\u{fffd}\n"), "{text}");
    assert_eq!(house.twice("front", "/run/dir%2Fenv").0, 404);
    for (path, location) in [
        ("/old/AC%2fDC/a%5Cb/caf%E9", "/new/AC%2FDC/a%5Cb/caf%E9"),
        ("/go/%E9%2f%2Fevil.test", "/%E9/%2F%2Fevil.test"),
        ("/go/%2F%2Fevil.test", "/%2F/%2Fevil.test"),
    ] {
        let (moved, _) = house.get("front", path.as_bytes());
        assert_eq!((moved.status(), moved.expect("Location")), (302, location), "{path}");
    }
}

fn no_rule_is_got_around_by_an_encoded_slash(architecture: &str) {
    let Some(house) = start(architecture) else { return };
    for (host, path, status) in [
        ("front", "/private%2Fsecret.txt", 401),
        ("front", "/%2Fprivate%2fsecret.txt", 401),
        ("front", "/to/private%2Fsecret.txt", 403),
        ("front", "/closed%2Fsecret.txt", 403),
        ("front", "/to/closed%2Fsecret.txt", 403),
        ("app", "/private%2Fsecret.txt", 401),
        ("app", "/%2fprivate/x", 401),
        ("files", "/private%2Fsecret.txt", 404),
        ("files", "/private%5Csecret.txt", 404),
        ("files", "/list%2F", 404),
        ("front", "/index.php/..%2fprivate%2fsecret.txt", 400),
        ("front", "/x%2F..%2Fprivate/secret.txt", 400),
        ("app", "/a%2F..", 400),
        ("app", "/..%5Cprivate", 400),
        ("app", "/a%00b", 400),
        ("files", "/list%2F..%2Fprivate%2Fsecret.txt", 400),
    ] {
        assert_eq!(house.twice(host, path).0, status, "{host} {path}");
    }
    // What was asked for stands in the log in one line of printable ASCII each.
    house.get("files", "/\u{e9}%0a%E9".as_bytes());
    let log = house.here.path().join("access.log");
    let said = || fs::read(&log).ok().filter(|said| said.ends_with(b"\n"));
    let said = || said().filter(|said| said.windows(6).any(|part| part == b"%0a%E9"));
    let said = wait::until(wait::DEADLINE, said).expect("a line of the log");
    assert!(said.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n')), "{}", said.escape_ascii());
}

on_every_architecture! { [
    what_a_listing_links_to_is_served,
    programs_get_encoded_bytes_of_a_path,
    no_rule_is_got_around_by_an_encoded_slash,
] }
