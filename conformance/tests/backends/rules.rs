//! No way leads around a rule: whatever path leads to a file, a directory or a script, the rules of
//! its own URL hold, and what a backend has sent is remembered for no other request.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;

use crate::common_programs::on_every_architecture;
use crate::dynamic::{Answer, answer};
use crate::house::{lay_out, serve};
use flyball_testkit::Server;
use tempfile::TempDir;

/// `ann:secret`, by a hash of the lowest cost.
const USERS: &str = "ann:$2y$04$ViUvEMhOIe9hKRT8ricqau0EnQEXaPe7Rz9cVB8fJof.xyY.s2pPy\n";

const ANN: &str = "Authorization: Basic YW5uOnNlY3JldA==";

/// What no client may see.
const SECRET: &str = "hunter2";

/// Files by name, below the directory of the test.
const FILES: [(&str, &str); 35] = [
    ("app/index.php", "<?php hunter2"),
    ("app/index.php.de", "<?php hunter2"),
    ("app/admin/index.php", "<?php hunter2"),
    ("app/page.html", "a page"),
    ("app/page.html.gz", "hunter2"),
    ("app/.hidden/x.php", "<?php hunter2"),
    ("app/picture.gif", "a picture"),
    ("app/dir.php/x.txt", "hunter2"),
    ("app/blog.html", "hunter2"),
    ("app/cgi-bin/env.sh", "hunter2"),
    ("app/dyn/app.py", "hunter2"),
    ("app/private/secret.txt", "hunter2"),
    ("app/private/README.md", "hunter2"),
    ("app/open/README.md", "hunter2"),
    ("app/open/a.txt", "open"),
    ("app/download.php", "<?php hunter2"),
    ("app/404.html", "not here"),
    ("media/report.html", "hunter2"),
    ("media/index.html", "hunter2"),
    ("media/a.txt", "hunter2"),
    ("other/index.php", "<?php hunter2"),
    ("other/admin/index.php", "<?php hunter2"),
    ("other/closed/index.php", "<?php hunter2"),
    ("programs/env.sh", "#!/bin/sh\necho A: b; echo; echo ran env.sh"),
    ("programs/.git/hook", "#!/bin/sh\necho A: b; echo; echo hunter2"),
    ("programs/loop", "#!/bin/sh\necho x >> HERE/runs; echo Location: /cgi-bin/loop; echo"),
    ("programs/away", "#!/bin/sh\necho Location: /dyn/next; echo"),
    ("programs/inside", "#!/bin/sh\necho Location: /private/for-ann.txt; echo"),
    ("app/private/for-ann.txt", "for ann"),
    ("elsewhere/out.sh", "#!/bin/sh\necho A: b; echo; echo hunter2"),
    ("protected/doc.txt", "for ann"),
    ("users", USERS),
    ("homes/bob/public_html/admin/index.php", "<?php hunter2"),
    ("homes/bob/public_html/a.txt", "of bob"),
    ("passwd", "bob:x:1000:1000::HERE/homes/bob:/bin/sh\n"),
];

const SITES: &str = r#"
[[site]]
hosts = ["rules"]
root = "HERE/app"
index = ["index.php", "index.html"]
pretty-urls = true
listing = true
languages = ["en", "de"]
compress.precompressed = true
auth.file = "HERE/users"
auth.paths = [
    "/admin", "/private", "/media/a.txt", "/media/index.html", "/open/README.md", "/page.html.gz",
    "/other/closed",
]
user-directories = "public_html"
user-table = "HERE/passwd"
rewrite = [
    { from = "/out/*", to = "/private/$1" },
    { from = "/m2/*", to = "/media/$1" },
    { from = "/short", to = "/cgi-bin/env.sh" },
    { from = "/python", to = "/dyn/app.py" },
    { from = "/dotted", to = "/.hidden/x.php" },
]
[[site.access]]
path = "/media/report.html"
allow = ["10.0.0.0/8"]
[[site.alias]]
path = "/media"
root = "HERE/media"
[[site.alias]]
path = "/other"
root = "HERE/other"
[[site.cgi]]
path = "/cgi-bin"
root = "HERE/programs"
[[site.scgi]]
path = "/dyn"
SOCKET
[[site.scgi]]
extensions = ["php"]
SOCKET

[[site]]
hosts = ["front"]
root = "HERE/app"
index = ["index.php"]
fallback = "/index.php"
[[site.scgi]]
extensions = ["php"]
sendfile-roots = ["HERE/protected"]
SOCKET

[[site]]
hosts = ["python"]
root = "HERE/app"
fallback = "/dyn/app.py"
symlinks = "deny"
[[site.scgi]]
path = "/dyn"
SOCKET
[[site.cgi]]
path = "/cgi-bin"
root = "HERE/programs"
"#;

/// A site whose logins are verified for each request.
const FORGETS: &str = r#"
[[site]]
hosts = ["forgets"]
root = "HERE/app"
auth.file = "HERE/users"
auth.remember = "0ms"
[[site.cgi]]
path = "/cgi-bin"
root = "HERE/programs"
"#;

/// A server of these sites, and one that speaks SCGI.
struct House {
    server: Server,
    here: TempDir,
}

fn start(architecture: &str) -> Option<House> {
    let here = lay_out(FILES.map(|(name, text)| (name, text.to_owned())));
    let link = here.path().join("programs/link.sh");
    std::os::unix::fs::symlink(here.path().join("elsewhere/out.sh"), link).unwrap();
    let document = here.path().join("protected/doc.txt");
    let address = responder(move |head| reply(head, &document));
    let sites = [SITES, FORGETS].concat().replace("SOCKET", &format!("socket = \"{address}\""));
    let server = serve(architecture, here.path(), &sites)?;
    Some(House { server, here })
}

/// A server that speaks SCGI, for as long as the test runs, and answers a head so.
pub(crate) fn responder(reply: impl Fn(&[u8]) -> Vec<u8> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for link in listener.incoming() {
            let mut link = BufReader::new(link.unwrap());
            let mut length = Vec::new();
            if link.read_until(b':', &mut length).unwrap_or(0) < 2 {
                continue;
            }
            let length: usize =
                String::from_utf8_lossy(&length[..length.len() - 1]).parse().unwrap();
            // With the comma behind it.
            let mut head = vec![0; length + 1];
            link.read_exact(&mut head).unwrap();
            let mut answer = reply(&head);
            link.get_ref().set_nonblocking(true).unwrap();
            let more = link.buffer().len() + link.get_ref().read(&mut [0; 16]).unwrap_or(0);
            if more > 0 {
                answer.extend_from_slice(b" and more than it was told of");
            }
            let _ = link.get_mut().write_all(&answer);
        }
    });
    address
}

/// One that tells which script it would run.
pub(crate) fn scripts() -> String {
    responder(|head| reply(head, Path::new("/nowhere")))
}

/// Tells which script it would run, and has a file sent to who may have it.
fn reply(head: &[u8], document: &Path) -> Vec<u8> {
    let texts: Vec<_> = head.split(|&byte| byte == 0).map(String::from_utf8_lossy).collect();
    let value = |name: &str| {
        let pair = texts.chunks(2).find(|pair| pair[0] == name);
        pair.map_or("", |pair| pair[1].as_ref())
    };
    if value("REQUEST_URI").starts_with("/download") {
        return match value("HTTP_COOKIE") {
            "user=ann" => format!(
                "X-Sendfile: {}\nCache-Control: private, no-store\nContent-Type: text/plain\n\n",
                document.display()
            ),
            "user=bob" => "X-Sendfile: /nowhere\nContent-Type: text/plain\n\n".to_owned(),
            "user=eve" => format!("X-Sendfile: {}.none\n\n", document.display()),
            _ => "Status: 403 Forbidden\nContent-Type: text/plain\n\nlogin first".to_owned(),
        }
        .into_bytes();
    }
    let of = ["REQUEST_METHOD", "SCRIPT_NAME", "SCRIPT_FILENAME", "PATH_INFO"].map(value);
    format!("Content-Type: text/plain\n\nran {}", of.join(" ")).into_bytes()
}

impl House {
    fn send(&self, host: &str, method: &str, path: &str, fields: &[&str]) -> Answer {
        let mut client = self.server.connect();
        let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        client.send(format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"));
        let answer = answer(&mut client);
        assert!(!answer.text.contains(SECRET), "{method} {path}: {}", answer.text);
        answer
    }

    fn get(&self, host: &str, path: &str) -> (u16, String) {
        let answer = self.send(host, "GET", path, &[]);
        (answer.status(), answer.text)
    }

    /// What the stand-in says of a script beneath the directory of the test.
    fn ran(&self, method: &str, name: &str, file: &str, info: &str) -> (u16, String) {
        let file = self.here.path().join(file);
        (200, format!("ran {method} {name} {} {info}", file.display()))
    }
}

fn rules_of_a_url_hold_for_whatever_leads_there(architecture: &str) {
    let Some(house) = start(architecture) else { return };
    // Twice: the caches may know it the second time.
    for _ in 0..2 {
        for (path, status) in [
            ("/media/report.html", 403),
            ("/media/report", 403),
            ("/media/index.html", 401),
            ("/media/", 403),
            ("/media/a.txt", 401),
            ("/m2/a.txt", 403),
            ("/m2/none.txt", 404),
            ("/private/", 401),
            ("/out/secret.txt", 403),
            ("/out/none", 403),
            ("/out/", 403),
            ("/out/?format=json", 403),
            ("/out", 404),
            ("/other/closed/", 401),
            ("/.hidden/x.php", 404),
            ("/dotted", 404),
            ("/cgi-bin/.git/hook", 404),
            ("/cgi-bin/link.sh", 404),
            ("/picture.gif/x.php", 404),
            ("/dir.php", 404),
            ("/dir.php/x.txt", 404),
            ("/~bob/a.txt", 200),
            ("/page.html", 200),
        ] {
            assert_eq!(house.get("rules", path).0, status, "{path}");
        }
        let coded = house.send("rules", "GET", "/page.html", &["Accept-Encoding: gzip"]);
        assert_eq!((coded.status(), &*coded.text), (200, "a page"));
        let listing = house.get("rules", "/open/");
        assert!(listing.0 == 200 && listing.1.contains("a.txt"), "{listing:?}");
        assert_eq!(house.get("python", "/cgi-bin/link.sh").0, 404);
    }
}

fn the_script_that_was_found_is_run_and_never_sent(architecture: &str) {
    let Some(house) = start(architecture) else { return };
    for _ in 0..2 {
        for (path, name, file) in [
            ("/", "/index.php", "app/index.php"),
            ("/other/", "/other/index.php", "other/index.php"),
            ("/other/admin/", "/other/admin/index.php", "other/admin/index.php"),
            ("/other/index.php", "/other/index.php", "other/index.php"),
            ("/~bob/admin/", "/~bob/admin/index.php", "homes/bob/public_html/admin/index.php"),
        ] {
            assert_eq!(house.get("rules", path), house.ran("GET", name, file, ""), "{path}");
        }
        let german = house.send("rules", "GET", "/", &["Accept-Language: de"]);
        let expected = house.ran("GET", "/index.php", "app/index.php", "").1;
        assert_eq!((german.status(), german.text), (200, expected));
        assert_eq!(house.get("rules", "/short"), (200, "ran env.sh\n".to_owned()));
        let by_path = house.ran("GET", "/dyn", "app/dyn", "/app.py");
        assert_eq!(house.get("rules", "/python"), by_path);
        // A front controller gets what names no file, whatever it looks like, by any method.
        let front = |method| house.ran(method, "/index.php", "app/index.php", "");
        for path in ["/robots.txt", "/a/b", "/none/"] {
            assert_eq!(house.get("front", path), front("GET"), "{path}");
        }
        for method in ["OPTIONS", "PROPFIND", "DELETE"] {
            let answer = house.send("front", method, "/dav/a.ics", &[]);
            assert_eq!((answer.status(), answer.text), front(method));
        }
        let mut client = house.server.connect();
        client.send("OPTIONS /page.html HTTP/1.1\r\nHost: front\r\n\r\n");
        assert_eq!(client.response_head().status(), 204);
        assert_eq!(house.get("python", "/anything"), by_path);
        assert_eq!(house.get("python", "/page.html"), (200, "a page".to_owned()));
    }
}

fn what_a_backend_has_sent_is_remembered_for_no_other_request(architecture: &str) {
    let Some(house) = start(architecture) else { return };
    let ask = |method, path, user: &str| {
        let cookie = format!("Cookie: user={user}");
        let answer = house.send("front", method, path, &[&cookie, "Content-Length: 0"]);
        let control = answer.head.field("Cache-Control").unwrap_or_default().to_owned();
        (answer.status(), answer.text, control)
    };
    // By the fallback, by the index, and by the path of the script itself.
    for path in ["/download/1", "/download?x", "/download.php"] {
        for method in ["GET", "POST"] {
            for _ in 0..3 {
                let (status, text, control) = ask(method, path, "ann");
                assert_eq!((status, &*text), (200, "for ann"), "{method} {path}");
                assert_eq!(control, "private, no-store");
                let others = [ask("GET", path, "none"), ask("POST", path, "none")];
                for (status, text, _) in others {
                    assert_eq!((status, &*text), (403, "login first"), "{path}");
                }
                // Neither is that there is no such file.
                assert_eq!((ask(method, path, "eve").0, ask(method, path, "bob").0), (404, 502));
            }
        }
    }
    let tag = house.send("front", "GET", "/download/1", &["Cookie: user=ann"]);
    let same = format!("If-None-Match: {}", tag.head.expect("ETag"));
    let mut client = house.server.connect();
    let fields = format!("Host: front\r\nCookie: user=ann\r\n{same}\r\n\r\n");
    let known = client.ask(format!("GET /download/1 HTTP/1.1\r\n{fields}"));
    assert_eq!((known.status(), known.expect("Cache-Control")), (304, "private, no-store"));
}

fn a_program_sends_a_request_elsewhere_ten_times_at_most(architecture: &str) {
    let Some(house) = start(architecture) else { return };
    // A verification between two programs begins no new count.
    let answer = house.send("forgets", "GET", "/cgi-bin/loop", &[ANN]);
    assert_eq!(answer.status(), 502);
    let runs = fs::read_to_string(house.here.path().join("runs")).unwrap();
    assert_eq!(runs.lines().count(), 11);
}

fn a_body_is_for_the_first_program_alone(architecture: &str) {
    let Some(house) = start(architecture) else { return };
    for _ in 0..3 {
        let mut client = house.server.connect();
        // Longer than what is held, so that it comes while the second backend is asked.
        let body = vec![b'x'; 1_500_000];
        let fields = format!("Host: rules\r\nContent-Length: {}\r\n\r\n", body.len());
        client.send(format!("POST /cgi-bin/away HTTP/1.1\r\n{fields}"));
        let _ = client.try_send(&body);
        let answer = answer(&mut client);
        assert_eq!((answer.status(), answer.text), house.ran("GET", "/dyn", "app/dyn", "/next"));
    }
}

fn what_a_program_leads_to_is_as_private_as_by_its_own_path(architecture: &str) {
    let Some(house) = start(architecture) else { return };
    for _ in 0..2 {
        assert_eq!(house.get("rules", "/cgi-bin/inside").0, 401);
        for path in ["/private/for-ann.txt", "/cgi-bin/inside"] {
            let answer = house.send("rules", "GET", path, &[ANN]);
            assert_eq!((answer.status(), &*answer.text), (200, "for ann"), "{path}");
            assert!(is_private(&answer), "{path}: {:?}", answer.head);
        }
        let answer = house.send("rules", "GET", "/cgi-bin/env.sh", &[ANN]);
        assert!(!is_private(&answer), "it is for all");
    }
}

fn is_private(answer: &Answer) -> bool {
    answer.head.fields.iter().any(|(name, value)| name == "Cache-Control" && value == "private")
}

on_every_architecture!([
    a_body_is_for_the_first_program_alone,
    a_program_sends_a_request_elsewhere_ten_times_at_most,
    rules_of_a_url_hold_for_whatever_leads_there,
    the_script_that_was_found_is_run_and_never_sent,
    what_a_backend_has_sent_is_remembered_for_no_other_request,
    what_a_program_leads_to_is_as_private_as_by_its_own_path,
]);
