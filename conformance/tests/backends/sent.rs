//! Files that a backend has sent: what of the answer is the backend's, and what is the file's.

use std::fs;
use std::io::Read;

use crate::common_programs::on_every_architecture;
use crate::house::{lay_out, serve};
use flyball_testkit::{Response, Server, wait};
use tempfile::TempDir;

/// Says the fields that the request tells in `Says`, separated by bars, and has a file sent.
const PROGRAM: &str = "#!/bin/sh\n\
    set -f; IFS='|'; for field in $HTTP_SAYS; do echo \"$field\"; done\n\
    case \"$HTTP_SAYS\" in *X-Sendfile*) ;; *) echo X-Sendfile: HERE/files/doc.txt ;; esac\n\
    echo A: b; echo\n";

/// Sites by host: one whose files are coded at once, one where it is while they are sent.
const SITES: &str = "[[site]]\nhosts = [\"whole\"]\nSETTINGS\
    [[site]]\nhosts = [\"streams\"]\ncompress.max-size = \"1KiB\"\nSETTINGS\
    [[site]]\nhosts = [\"kept\"]\nroot = \"HERE/files\"\n\
    auth.file = \"HERE/users\"\nauth.paths = [\"/drafts\"]\n\
    [[site.cgi]]\npath = \"/run\"\nroot = \"HERE/programs\"\nsendfile-roots = [\"HERE\"]\n";

/// `ann:secret`, by a hash of the lowest cost.
const USERS: &str = "ann:$2y$04$ViUvEMhOIe9hKRT8ricqau0EnQEXaPe7Rz9cVB8fJof.xyY.s2pPy\n";

/// It is told by the clock what coding costs: on a busy machine that may be too much.
const SETTINGS: &str = "root = \"HERE/files\"\ncompress.cpu = 10000\n\
    [[site.cgi]]\npath = \"/run\"\nroot = \"HERE/programs\"\nsendfile-roots = [\"HERE/files\"]\n\
    [[site.header]]\npath = \"/run/ruled\"\nremove = [\"X-Powered-By\"]\n\
    set = { Vary = \"Origin\", Cache-Control = \"no-store\" }\n\
    add = { Link = \"</a>\" }\n";

const TYPE: &str = "Content-Type: text/x-own; v=1";

struct House {
    server: Server,
    here: TempDir,
}

fn start(architecture: &str) -> Option<House> {
    let program = || PROGRAM.to_owned();
    let here = lay_out([
        ("files/doc.txt", text()),
        ("users", USERS.to_owned()),
        ("programs/send", program()),
        ("programs/ruled", program()),
    ]);
    let server = serve(architecture, here.path(), &SITES.replace("SETTINGS", SETTINGS))?;
    Some(House { server, here })
}

fn text() -> String {
    (0..1_000).map(|n| format!("line {n}\n")).collect()
}

impl House {
    /// Asks for the file, of which the program says this.
    fn get(&self, says: &str, fields: &[&str]) -> Response {
        self.ask("GET", "whole/run/send", says, fields)
    }

    fn ask(&self, method: &str, url: &str, says: &str, fields: &[&str]) -> Response {
        let (host, path) = url.split_once('/').unwrap();
        let lines: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        let head = format!("{method} /{path} HTTP/1.1\r\nHost: {host}\r\nSays: {says}\r\n");
        let mut client = self.server.connect();
        client.send(format!("{head}{lines}\r\n"));
        let mut answer = client.response_head();
        if method != "HEAD" && !matches!(answer.status(), 204 | 205 | 304) {
            answer.body = match answer.content_length() {
                Some(len) => client.take(len),
                None => client.chunks().concat(),
            };
        }
        answer
    }
}

/// The words of all lines of a field, in order.
fn words(answer: &Response, name: &str) -> Vec<String> {
    let lines = answer.fields.iter().filter(|(one, _)| one.eq_ignore_ascii_case(name));
    let mut words: Vec<String> =
        lines.flat_map(|(_, value)| value.split(", ").map(str::to_lowercase)).collect();
    words.sort();
    words
}

/// Nothing that can be said once is said twice.
fn assert_once(answer: &Response) {
    for name in ["ETag", "Last-Modified", "Cache-Control", "Content-Type", "Content-Length"] {
        answer.field(name);
    }
    for name in ["Content-Encoding", "Content-Range", "Accept-Ranges", "A", "Link"] {
        answer.field(name);
    }
}

fn is_whole(answer: &Response) -> bool {
    answer.text() == text() && answer.field("Content-Range").is_none()
}

fn gunzipped(answer: &Response) -> String {
    assert_eq!(answer.expect("Content-Encoding"), "gzip");
    let mut plain = String::new();
    flate2::read::GzDecoder::new(&answer.body[..]).read_to_string(&mut plain).unwrap();
    plain
}

fn parts_have_the_type_that_the_backend_says(architecture: &str) {
    let Some(house) = start(architecture) else { return };
    let parts = ["Range: bytes=0-1,3000-3001"];
    for (says, kind) in [(TYPE, "text/x-own; v=1"), ("B: c", "text/plain; charset=utf-8")] {
        let answer = house.get(says, &parts);
        assert_eq!((answer.status(), answer.expect("A")), (206, "b"));
        assert_once(&answer);
        let whole = answer.expect("Content-Type");
        let boundary = whole.strip_prefix("multipart/byteranges; boundary=").expect(whole);
        let of_parts = format!("\r\n--{boundary}\r\nContent-Type: {kind}\r\nContent-Range: bytes ");
        assert_eq!(answer.text().matches(&of_parts).count(), 2, "{}", answer.text());
        assert!(answer.text().ends_with(&format!("\r\n--{boundary}--\r\n")));
        let answer = house.get(says, &["Range: bytes=0-3"]);
        assert_eq!((answer.status(), answer.text()), (206, "line"));
        assert_eq!(answer.expect("Content-Type"), kind);
        assert_eq!(answer.expect("Content-Range"), format!("bytes 0-3/{}", text().len()));
    }
}

fn fields_of_both_are_said_once(architecture: &str) {
    let Some(house) = start(architecture) else { return };
    let tag = |accepts: &str| house.get("B: c", &[accepts]).expect("ETag").to_owned();
    let (gzip, none) = ("Accept-Encoding: gzip", "Accept: */*");
    let of_gzip = format!("If-None-Match: {}", tag(gzip));
    let of_plain = format!("If-None-Match: {}", tag(none));
    let says = "Vary: Cookie|Cache-Control: private|ETag: \"x\"|Last-Modified: x|X-Powered-By: me";
    for (fields, status) in [
        (&[none][..], 200),
        (&[gzip], 200),
        (&[none, "Range: bytes=0-3"], 206),
        (&[gzip, "Range: bytes=0-3"], 206),
        (&[none, &of_plain], 304),
        (&[gzip, &of_gzip], 304),
    ] {
        for (url, also, control) in
            [("whole/run/send", None, "private"), ("whole/run/ruled", Some("origin"), "no-store")]
        {
            let answer = house.ask("GET", url, says, fields);
            assert_eq!(answer.status(), status, "{fields:?}");
            let mut varies = vec!["accept-encoding", "cookie"];
            varies.extend(also);
            assert_eq!(words(&answer, "Vary"), varies, "{:?}", answer.head);
            assert_once(&answer);
            assert_eq!((answer.expect("Cache-Control"), answer.expect("A")), (control, "b"));
            assert!(answer.expect("ETag") != "\"x\"" && answer.expect("Last-Modified") != "x");
            assert_eq!(answer.field("Link"), also.map(|_| "</a>"));
            assert_eq!(answer.field("X-Powered-By").is_some(), also.is_none());
            let is_coded = fields.first() == Some(&gzip) && status == 200;
            assert_eq!(answer.field("Content-Encoding").is_some(), is_coded);
        }
    }
    // What the backend says itself is not repeated.
    let answer = house.get("Vary: Cookie, accept-encoding", &[gzip]);
    assert_eq!(words(&answer, "Vary"), ["accept-encoding", "cookie"]);
    assert_eq!(gunzipped(&answer), text());
    let answer = house.ask("GET", "streams/run/send", says, &[gzip]);
    assert_eq!(words(&answer, "Vary"), ["accept-encoding", "cookie"]);
    assert_eq!((gunzipped(&answer), answer.expect("Cache-Control")), (text(), "private"));
}

fn what_a_program_has_done_is_answered_whole(architecture: &str) {
    let Some(house) = start(architecture) else { return };
    let fields = [
        "If-None-Match: *",
        "If-Match: \"x\"",
        "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
        "Range: bytes=0-1",
    ];
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"] {
        let answer = house.ask(method, "whole/run/send", TYPE, &fields);
        assert_eq!(answer.status(), 200, "{method}");
        assert!(is_whole(&answer) && answer.expect("Content-Type") == &TYPE[14..]);
        let none = format!("X-Sendfile: {}/files/none", house.here.path().display());
        assert_eq!(house.ask(method, "whole/run/send", &none, &[]).status(), 404, "{method}");
    }
    // Those of GET and HEAD are asked for the file itself.
    let head = |field| house.ask("HEAD", "whole/run/send", TYPE, &[field]).status();
    assert_eq!(fields.map(head), [304, 412, 412, 200]);
    let get = |field| house.get(TYPE, &[field]).status();
    assert_eq!(fields.map(get), [304, 412, 412, 206]);
    let is_logged = |method: &&str| {
        let log = fs::read_to_string(house.here.path().join("access.log")).unwrap_or_default();
        log.contains(&format!("\"{method} /run/send HTTP/1.1\" 200 "))
    };
    let all = || ["POST", "PROPFIND", "HEAD"].iter().all(is_logged).then_some(());
    assert!(wait::until(wait::DEADLINE, all).is_some(), "the log names the methods");
}

fn a_status_of_the_backend_stays(architecture: &str) {
    let Some(house) = start(architecture) else { return };
    let fields = ["If-None-Match: *", "If-Match: \"x\"", "Range: bytes=0-1,3000-"];
    for status in [201, 302, 401, 404, 500] {
        let says = format!("Status: {status} X|WWW-Authenticate: Basic|{TYPE}|ETag: \"of it\"");
        let answer = house.get(&says, &fields);
        assert_eq!((answer.status(), answer.expect("A")), (status, "b"));
        assert!(is_whole(&answer) && answer.expect("Content-Type") == &TYPE[14..]);
        assert_eq!(answer.expect("WWW-Authenticate"), "Basic");
        assert_eq!(answer.expect("ETag"), "\"of it\"");
        for of_the_file in ["Last-Modified", "Accept-Ranges", "Cache-Control"] {
            assert_eq!(answer.field(of_the_file), None, "{status}");
        }
        for url in ["whole/run/send", "streams/run/send"] {
            let answer = house.ask("GET", url, &says, &["Accept-Encoding: gzip"]);
            assert_eq!((answer.status(), gunzipped(&answer)), (status, text()));
            assert_eq!(answer.expect("Vary"), "Accept-Encoding");
        }
        let answer = house.ask("HEAD", "whole/run/send", &says, &[]);
        assert_eq!((answer.status(), answer.content_length()), (status, Some(text().len())));
        let answer = house.ask("POST", "whole/run/send", &says, &[]);
        assert!(answer.status() == status && is_whole(&answer));
    }
    // Which part is sent is not the backend's to say, and some have no content.
    for (says, status) in [("Status: 206|Content-Range: bytes 0-1/2", 200), ("Location: /x", 302)] {
        let answer = house.get(says, &[]);
        assert!(answer.status() == status && is_whole(&answer), "{says}");
    }
    assert_eq!(house.get("Status: 206", &["Range: bytes=0-3"]).text(), "line");
    for (status, len) in [(204, None), (205, Some(0)), (304, None)] {
        let answer = house.get(&format!("Status: {status}"), &[]);
        assert_eq!((answer.status(), answer.content_length()), (status, len));
    }
    house.server.assert_sound();
}

fn no_backend_has_a_file_of_users_sent(architecture: &str) {
    let Some(house) = start(architecture) else { return };
    for (file, status) in [("files/doc.txt", 200), ("users", 404)] {
        let says = format!("X-Sendfile: {}", house.here.path().join(file).display());
        let answer = house.ask("GET", "kept/run/send", &says, &[]);
        assert_eq!(answer.status(), status, "{file}: {}", answer.text());
    }
}

on_every_architecture!([
    a_status_of_the_backend_stays,
    fields_of_both_are_said_once,
    no_backend_has_a_file_of_users_sent,
    parts_have_the_type_that_the_backend_says,
    what_a_program_has_done_is_answered_whole,
]);
