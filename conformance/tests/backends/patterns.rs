//! Rules by pattern: who may come to what fits one, and what is refused whatever is there. They
//! hold for the URL of whatever answers, however it was come by.

use crate::common_programs::on_every_architecture;
use crate::dynamic::{Answer, answer};
use crate::house::{lay_out, serve};
use crate::rules::scripts;
use flyball_testkit::{Launch, Server};
use tempfile::TempDir;

const FILES: [(&str, &str); 14] = [
    ("app/page.html", "a page"),
    ("app/reports/a.csv", "of reports"),
    ("app/reports/index.csv", "of reports"),
    ("app/uploads/x.php", "<?php uploaded"),
    ("app/uploads/index.php", "<?php uploaded"),
    ("app/uploads/x.jpg", "a picture"),
    ("app/blog.php", "<?php a blog"),
    ("app/old/page.html", "old"),
    ("app/data/a.txt", "data"),
    ("app/list/README.md", "read this"),
    ("app/list/a.txt", "listed"),
    ("media/x.php", "<?php uploaded"),
    ("programs/secret.sh", "#!/bin/sh\necho A: b; echo; echo ran secret"),
    ("programs/open.sh", "#!/bin/sh\necho A: b; echo; echo ran open"),
];

const SITE: &str = r#"
[[site]]
root = "HERE/app"
index = ["index.csv", "index.php"]
listing = true
pretty-urls = true
rewrite = [
    { from = "/short", to = "/reports/a.csv" },
    { from = "/b.csv", to = "/reports/a.csv" },
    { from = "/run", to = "/cgi-bin/secret.sh" },
    { from = "/up", to = "/uploads/x.php" },
    { from = "/up/*", to = "/uploads/x.php/$1" },
    { from = "/was", to = "/old/page.html" },
]
redirect = [{ from = "/old/*", to = "/new/$1" }]
access = [
    { path = "/list", deny = ["192.0.2.66"] },
    { match = '~\.csv$', allow = ["10.0.0.0/8"] },
    { match = "/reports/*", allow = ["10.1.0.0/16"] },
    { match = '~secret\.sh$', allow = ["10.0.0.0/8"] },
    { match = "/list/README.md", allow = ["10.0.0.0/8"] },
    { match = "/hello/in/*", allow = ["10.0.0.0/8"] },
]
return = [
    { match = '~^/(uploads|media)/.*\.php$' },
    { path = "/old", status = 410 },
    { match = "/data/*", status = 404 },
    { match = "/hello/gone", status = 410 },
]
[[site.alias]]
path = "/media"
root = "HERE/media"
[[site.cgi]]
path = "/cgi-bin"
root = "HERE/programs"
[[site.module]]
path = "/hello"
name = "hello"
[[site.scgi]]
extensions = ["php"]
socket = "SOCKET"
"#;

/// Addresses of clients: one that no rule names, one of the wider network, and one of the narrower.
const STRANGER: &str = "192.0.2.1";
const NEAR: &str = "10.9.0.1";
const NEARER: &str = "10.1.0.1";

struct House {
    server: Server,
    _files: TempDir,
}

fn start(architecture: &str) -> Option<House> {
    let here = lay_out(FILES.map(|(name, text)| (name, text.to_owned())));
    let site = SITE.replace("SOCKET", &scripts());
    let client = "client.address = \"x-forwarded-for\"\nclient.trusted = [\"127.0.0.1\"]\n";
    let server = serve(architecture, here.path(), &(client.to_owned() + &site))?;
    Some(House { server, _files: here })
}

impl House {
    fn send(&self, method: &str, path: &str, from: &str) -> Answer {
        let mut client = self.server.connect();
        let fields = format!("Host: a\r\nX-Forwarded-For: {from}\r\nContent-Length: 0\r\n\r\n");
        client.send(format!("{method} {path} HTTP/1.1\r\n{fields}"));
        answer(&mut client)
    }

    fn get(&self, path: &str, from: &str) -> (u16, String) {
        let answer = self.send("GET", path, from);
        (answer.status(), answer.text)
    }
}

fn every_pattern_that_fits_decides_who_may_come(architecture: &str) {
    let Some(house) = start(architecture) else { return };
    // Those who may come first: what is remembered of theirs opens nothing to others.
    for _ in 0..2 {
        for (path, nearer, near, stranger) in [
            ("/reports/a.csv", 200, 403, 403),
            ("/reports/%61.cs%76", 200, 403, 403),
            ("/x/..//reports/a.csv", 200, 403, 403),
            // Another URL of a file fits the one pattern, and not the other.
            ("/b.csv", 403, 403, 403),
            ("/short", 403, 403, 403),
            ("/reports/", 403, 403, 403),
            ("/reports/none", 404, 403, 403),
            ("/none.csv", 404, 404, 403),
            ("/cgi-bin/secret.sh", 200, 200, 403),
            ("/cgi-bin/secret.sh/more", 403, 403, 403),
            ("/cgi-bin/open.sh/more", 200, 200, 200),
            ("/run", 403, 403, 403),
            ("/hello/in/side", 200, 200, 403),
            ("/hello/out", 200, 200, 200),
            ("/page", 200, 200, 200),
            ("/list/", 200, 200, 200),
        ] {
            for (from, status) in [(NEARER, nearer), (NEAR, near), (STRANGER, stranger)] {
                assert_eq!(house.get(path, from).0, status, "{path} from {from}");
            }
        }
        // The rule of the path holds beside them.
        assert_eq!(house.get("/list/", "192.0.2.66").0, 403);
        for (path, is_private) in
            [("/reports/a.csv", true), ("/cgi-bin/secret.sh", true), ("/page", false)]
        {
            let answer = house.send("GET", path, NEARER);
            let mut fields = answer.head.fields.iter();
            let told = fields.any(|(name, value)| name == "Cache-Control" && value == "private");
            assert_eq!(told, is_private, "{path}: {:?}", answer.head);
        }
        let (_, listing) = house.get("/list/", NEARER);
        assert!(listing.contains("a.txt") && !listing.contains("read this"), "{listing}");
    }
}

fn a_return_answers_whatever_is_there(architecture: &str) {
    let Some(house) = start(architecture) else { return };
    for _ in 0..2 {
        for (path, status) in [
            ("/uploads/x.php", 403),
            ("/uploads/x.php/", 403),
            ("/uploads/x.php/more", 403),
            ("/uploads/none.php", 403),
            ("//uploads/./%78.p%68p?a=b", 403),
            ("/uploads/", 403),
            ("/media/x.php", 403),
            ("/up", 403),
            ("/up/more", 403),
            ("/uploads/x.jpg", 200),
            ("/old", 410),
            ("/old/page.html", 410),
            ("/old/page", 410),
            ("/old/none", 410),
            ("/was", 410),
            ("/older", 404),
            ("/data/a.txt", 404),
            ("/hello/gone", 410),
            ("/hello/here", 200),
            ("/blog.php", 200),
        ] {
            for method in ["GET", "POST", "HEAD", "OPTIONS"] {
                let answer = match method {
                    "HEAD" => {
                        let mut client = house.server.connect();
                        client.send(format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
                        assert_eq!(client.response_head().status(), status, "HEAD {path}");
                        continue;
                    }
                    "OPTIONS" if matches!(status, 200 | 404) => continue,
                    "POST" if !path.ends_with(".php") && status == 200 => continue,
                    _ => house.send(method, path, STRANGER),
                };
                assert_eq!(answer.status(), status, "{method} {path}");
                assert!(!answer.text.contains("upload"), "{method} {path}: {}", answer.text);
            }
        }
    }
}

/// A site of redirects, and one of returns.
const NO_FILES: &str = r#"
[[site]]
hosts = ["old.test"]
redirect = [{ from = "/a/*", to = "https://new.test/$1", status = 308 }]
return = [{ path = "/gone", status = 410 }]
[[site]]
hosts = ["closed.test"]
return = [{ match = "/*", status = 410 }]
header = [{ set = { X-Site = "closed" } }]
"#;

fn a_site_of_redirects_and_returns_needs_no_root(architecture: &str) {
    let log = "access-log = \"off\"\ncache.warm = [\"/a\"]\n";
    let config = format!("arch = \"{architecture}\"\nlisten = \"127.0.0.1:0\"\n{log}{NO_FILES}");
    let Some(server) = Launch::config(config).start_where_possible() else { return };
    let mut client = server.connect();
    for _ in 0..2 {
        for (host, path, status) in [
            ("old.test", "/a/b%20c?d", 308),
            ("old.test", "/a", 404),
            ("old.test", "/", 404),
            ("old.test", "/gone/x", 410),
            ("old.test", "/a/../..", 400),
            ("old.test", "/.hidden", 404),
            ("closed.test", "/", 410),
            ("other.test", "/a/b", 421),
        ] {
            for method in ["GET", "POST", "DELETE", "OPTIONS", "PROPFIND"] {
                let fields = format!("Host: {host}\r\nContent-Length: 2\r\n\r\nxy");
                let answer = client.ask(format!("{method} {path} HTTP/1.1\r\n{fields}"));
                assert_eq!(answer.status(), status, "{method} {host} {path}");
                let location = (status == 308).then_some("https://new.test/b%20c?d");
                assert_eq!(answer.field("Location"), location);
                assert_eq!(answer.field("X-Site").is_some(), host == "closed.test");
            }
        }
        client.send("HEAD /a/x HTTP/1.1\r\nHost: old.test\r\n\r\n");
        assert_eq!(client.response_head().status(), 308);
        let all = client.ask("OPTIONS * HTTP/1.1\r\nHost: old.test\r\n\r\n");
        assert_eq!(all.status(), 204);
    }
}

on_every_architecture!([
    a_site_of_redirects_and_returns_needs_no_root,
    a_return_answers_whatever_is_there,
    every_pattern_that_fits_decides_who_may_come,
]);
