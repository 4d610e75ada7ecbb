//! Rewrites that lead to programs: with a query, and only where no file is.

use crate::common_programs::on_every_architecture;
use crate::dynamic::answer;
use crate::house::{lay_out, serve};
use flyball_testkit::Server;

const PROGRAM: &str = "#!/bin/sh\nset -f\necho A: b; echo; \
    echo $REQUEST_METHOD $SCRIPT_NAME $QUERY_STRING $REQUEST_URI";

const SITE: &str = r#"
[[site]]
root = "HERE/site"
fallback = "/run/fallback"
auth.file = "HERE/users"
auth.paths = ["/private", "/run/private"]
rewrite = [
    { from = '~^/item/(.+)$', to = "/run/item?id=$1" },
    { from = "/plain", to = "/run/item" },
    { from = "/twice/*", to = "/item/$1" },
    { from = "/led", to = "/run/private?a" },
    { from = "/dir", to = "/directory?a" },
    { from = '~^/(.+)\.html$', to = "/run/front?page=$1", if = "no-file" },
    { from = "/private/*", to = "/run/front?private=$1", if = "no-file" },
    { from = "/to-file/*", to = "/there.html?$1", if = "no-file" },
    { from = "/to-private/*", to = "/private/secret.txt", if = "no-file" },
    { from = "/shown/*", to = "/run/front", if = "no-file" },
]
[[site.cgi]]
path = "/run"
root = "HERE/run"
"#;

/// What no client may see.
const SECRET: &str = "hunter2";

on_every_architecture! {
    [
        a_rule_gives_programs_a_query_and_holds_where_no_file_is,
    ]
}

fn ask(server: &Server, method: &str, target: &str) -> (u16, String) {
    let mut client = server.connect();
    let body = if method == "POST" { "Content-Length: 2\r\n\r\nab" } else { "\r\n" };
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{body}"));
    let answer = answer(&mut client);
    assert!(!answer.text.contains(SECRET), "{target}: {}", answer.text);
    (answer.head.status(), answer.text)
}

fn a_rule_gives_programs_a_query_and_holds_where_no_file_is(arch: &str) {
    let users = "ann:$2y$04$ViUvEMhOIe9hKRT8ricqau0EnQEXaPe7Rz9cVB8fJof.xyY.s2pPy\n";
    let here = lay_out([
        ("run/item", PROGRAM.to_owned()),
        ("run/front", PROGRAM.to_owned()),
        ("run/fallback", PROGRAM.to_owned()),
        ("run/private", format!("#!/bin/sh\necho A: b; echo; echo {SECRET}")),
        ("site/there.html", "it is there\n".to_owned()),
        ("site/shown/index.html", "shown\n".to_owned()),
        ("site/directory/x", "x".to_owned()),
        ("site/private/secret.txt", SECRET.to_owned()),
        ("users", users.to_owned()),
    ]);
    let Some(server) = serve(arch, here.path(), SITE) else { return };
    let unread = |text: &str| format!("{text}\n");
    for (target, expected) in [
        ("/item/7", "/run/item id=7 /item/7"),
        ("/item/7?x=y&z", "/run/item id=7&x=y&z /item/7?x=y&z"),
        ("/item/a%26b=c%3Fd", "/run/item id=a%26b%3Dc%3Fd /item/a%26b=c%3Fd"),
        ("/twice/7?x", "/run/item id=7&x /twice/7?x"),
        ("/plain?x", "/run/item x /plain?x"),
        ("/missing.html?x", "/run/front page=missing&x /missing.html?x"),
        ("/a/b.html", "/run/front page=a/b /a/b.html"),
        ("/shown/more", "/run/front /shown/more"),
        ("/missing?x", "/run/fallback x /missing?x"),
    ] {
        for method in ["GET", "POST"] {
            let expected = (200, unread(&format!("{method} {expected}")));
            assert_eq!(ask(&server, method, target), expected, "{arch}: {target}");
        }
    }
    for (target, text) in [
        ("/there.html?x", "it is there\n"),
        ("/shown/", "shown\n"),
        ("/to-file/x", "it is there\n"),
        ("/to-file/x", "it is there\n"),
    ] {
        assert_eq!(ask(&server, "GET", target), (200, text.to_owned()), "{arch}: {target}");
    }
    // Neither a rule nor its condition leads around a login, or tells what is behind one.
    for (target, status) in [
        ("/led", 403),
        ("/to-private/x", 403),
        ("/private/secret.txt", 401),
        ("/private/missing.html", 401),
        ("/run/private", 401),
    ] {
        assert_eq!(ask(&server, "GET", target).0, status, "{arch}: {target}");
    }
    let mut client = server.connect();
    for _ in 0..2 {
        let asked = client.ask("GET /dir?x HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!((asked.status(), asked.expect("Location")), (301, "/dir/?x"), "{arch}");
    }
    // A file that is made is seen, however often the rule has held.
    let seen = || {
        let found = ask(&server, "GET", "/missing.html");
        (found.1 == "made\n").then_some(())
    };
    std::fs::write(here.path().join("site/missing.html"), "made\n").unwrap();
    assert!(flyball_testkit::wait::until(flyball_testkit::wait::DEADLINE, seen).is_some());
}
