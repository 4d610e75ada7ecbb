//! From a path to a file, and to nothing else.

use crate::mount::Mount;
use crate::requests::{get, get_of};

/// Stands in every file that must not be served, and in `/etc/passwd`.
const LEAKS: [&str; 2] = ["SECRET", "root:"];

#[track_caller]
fn serves(mount: &Mount, table: &[(&str, &str)]) {
    let mut client = mount.connect();
    for (target, text) in table {
        let answer = client.ask(get(target));
        assert_eq!((answer.status(), answer.text()), (200, *text), "{target}");
    }
}

pub(crate) fn names_are_decoded_and_normalised(mount: &Mount) {
    let hello = "hello, world\n";
    serves(
        mount,
        &[
            ("/hello.txt", hello),
            ("/hello.txt?query=/../x", hello),
            ("/%68ello%2etxt", hello),
            ("/./hello.txt", hello),
            ("//hello.txt", hello),
            ("///.//hello.txt", hello),
            ("/dir/../hello.txt", hello),
            ("/dir/%2e%2E/hello.txt", hello),
            ("/missing/../hello.txt", hello),
            ("/dir/./.././hello.txt", hello),
            ("/with%20space.txt", "space\n"),
            ("/caf%C3%A9.txt", "accent\n"),
            ("/caf\u{e9}.txt", "accent\n"),
            ("/100%25.txt", "percent\n"),
            ("/.well-known/token", "token\n"),
            ("/inside.txt", hello),
            ("/dir/up.txt", hello),
            ("/inside-dir/up.txt", hello),
        ],
    );
}

pub(crate) fn a_directory_is_its_index(mount: &Mount) {
    let (index, dir) =
        ("<!doctype html>\n<title>Index</title>\n", "<!doctype html>\n<title>Dir</title>\n");
    serves(
        mount,
        &[
            ("/", index),
            ("/?query", index),
            ("//", index),
            ("/.", index),
            ("/dir/..", index),
            ("/dir/", dir),
            ("/dir/.", dir),
            ("/dir//", dir),
            ("/inside-dir/", dir),
        ],
    );
}

pub(crate) fn a_directory_without_a_slash_is_redirected_and_keeps_its_query(mount: &Mount) {
    let mut client = mount.connect();
    for (target, location) in [
        ("/dir", "/dir/"),
        ("/dir?", "/dir/"),
        ("/dir?a=b&c=%2F", "/dir/?a=b&c=%2F"),
        ("/dir?//evil.example/", "/dir/?//evil.example/"),
        ("/%64ir", "/dir/"),
        ("/./dir?x", "/dir/?x"),
        ("http://a.test/dir?x", "/dir/?x"),
        ("/list/below", "/list/below/"),
        ("/inside-dir", "/inside-dir/"),
    ] {
        let answer = client.ask(get(target));
        assert_eq!(answer.line, "HTTP/1.1 301 Moved Permanently", "{target}");
        assert_eq!(answer.expect("Location"), location, "{target}");
    }
}

pub(crate) fn a_redirect_never_leads_to_another_host(mount: &Mount) {
    let mut client = mount.connect();
    for target in [
        "//evil.example/dir",
        "///evil.example/dir",
        "/.//evil.example/dir",
        "/%2e//evil.example/dir",
        "/dir/..//evil.example/dir",
        "http://a.test//evil.example/dir",
    ] {
        let answer = client.ask(get(target));
        assert_eq!(answer.status(), 301, "{target}");
        assert_eq!(answer.expect("Location"), "/evil.example/dir/", "{target}");
    }
    for (target, status) in [
        ("/%5cevil.example/dir", 404),
        ("/\\evil.example/dir", 400),
        ("/%2fevil.example/dir", 404),
        ("/%2f%2fevil.example/dir", 404),
    ] {
        let answer = client.ask(get(target));
        assert_eq!((answer.status(), answer.field("Location")), (status, None), "{target}");
    }
    let split = client.ask(get("/dir?%0d%0aSet-Cookie:%20x"));
    assert_eq!(split.expect("Location"), "/dir/?%0d%0aSet-Cookie:%20x");
}

pub(crate) fn hidden_names_are_not_there(mount: &Mount) {
    let mut client = mount.connect();
    for target in [
        "/.secret",
        "/%2esecret",
        "/dir/.secret",
        "/dir/../.secret",
        "/.well-known/.secret",
        "/.well-known/../.secret",
        "/list/.secret",
        "/.nothing",
    ] {
        let answer = client.ask(get(target));
        assert_eq!(answer.line, "HTTP/1.1 404 Not Found", "{target}");
        assert_eq!(answer.text(), client.ask(get("/nothing")).text(), "{target}");
    }
    let shown = client.ask(get_of("dots.test", "/.secret"));
    assert_eq!((shown.status(), shown.text()), (200, "SECRET of a dot file\n"));
}

pub(crate) fn a_path_above_the_root_is_400(mount: &Mount) {
    refused(
        mount,
        &[400],
        &[
            "/..",
            "/../",
            "/../secret.txt",
            "/../../../../etc/passwd",
            "/dir/../../secret.txt",
            "/%2e%2e/secret.txt",
            "/%2E%2e/secret.txt",
            "/.%2e/secret.txt",
            "/%2e./secret.txt",
            "/dir/%2e%2e/%2e%2e/secret.txt",
            "/..%2fsecret.txt",
            "/%2e%2e%2fsecret.txt",
            "/dir%2f..%2f..%2fsecret.txt",
            "/..%5csecret.txt",
            "/..\\secret.txt",
            "/\\..\\secret.txt",
            "/.well-known/../../secret.txt",
            "//../secret.txt",
            "/./../secret.txt",
            "http://a.test/../secret.txt",
        ],
    );
}

pub(crate) fn broken_escapes_and_controls_are_400(mount: &Mount) {
    refused(
        mount,
        &[400],
        &[
            "/%",
            "/%2",
            "/%zz",
            "/%2g",
            "/%u002e%u002e/secret.txt",
            "/hello.txt%00",
            "/hello.txt%00.html",
            "/%00",
            "/%0a",
            "/%0d%0aX:y",
            "/%1f",
            "/%7f",
        ],
    );
}

pub(crate) fn what_is_no_separator_and_no_dot_to_the_disk_is_neither_here(mount: &Mount) {
    refused(
        mount,
        &[404],
        &[
            "/%2fetc%2fpasswd",
            "/dir%2fhello.txt",
            "/dir%5chello.txt",
            "/%c0%ae%c0%ae/secret.txt",
            "/%c0%ae%c0%ae%c0%afsecret.txt",
            "/..%c0%afsecret.txt",
            "/..%c1%9csecret.txt",
            "/%e0%80%ae%e0%80%ae/secret.txt",
            "/..%e0%80%afsecret.txt",
            "/..%f0%80%80%afsecret.txt",
            "/..%f8%80%80%80%afsecret.txt",
            "/%ff",
            "/%ed%a0%80",
            "/%f4%90%80%80",
            "/%80",
        ],
    );
}

pub(crate) fn what_is_decoded_twice_elsewhere_is_decoded_once_here(mount: &Mount) {
    refused(
        mount,
        &[404],
        &[
            "/%252e%252e/secret.txt",
            "/%252e%252e%252fsecret.txt",
            "/..%252fsecret.txt",
            "/%25%32%65%25%32%65/secret.txt",
            "/hello.txt%2500",
            "/..;/secret.txt",
            "/...",
            "/..../secret.txt",
        ],
    );
}

pub(crate) fn links_that_leave_the_root_lead_nowhere(mount: &Mount) {
    refused(
        mount,
        &[403, 404],
        &[
            "/escape.txt",
            "/escape-dir",
            "/escape-dir/",
            "/escape-dir/secret.txt",
            "/escape-dir/root/hello.txt",
            "/dir/escape-dir/secret.txt",
            "/inside-dir/escape-dir/secret.txt",
            "/absolute.txt",
            "/absolute-dir/etc/passwd",
            "/loop",
            "/loop/",
            "/dangling",
        ],
    );
}

pub(crate) fn names_that_cannot_be_are_not_there(mount: &Mount) {
    let long = format!("/{}", "x".repeat(256));
    let deep = "/d".repeat(3_000);
    refused(mount, &[404], &[&long, &deep, "/hello.txt/", "/hello.txt/x", "/empty.txt/..x"]);
    // A device is no file, and a directory without index and listing is none either.
    refused(mount, &[403], &["/list/", "/empty/"]);
}

/// Refused with one of these statuses, nothing said about why, and the connection kept.
#[track_caller]
fn refused(mount: &Mount, statuses: &[u16], targets: &[&str]) {
    let mut client = mount.connect();
    for target in targets {
        // Twice: the second answer may come from a cache.
        for _ in 0..2 {
            let answer = client.ask(get(target));
            assert!(statuses.contains(&answer.status()), "{target}: {}", answer.head);
            assert_eq!(answer.expect("Content-Type"), "text/html; charset=utf-8", "{target}");
            let said = answer.head.clone() + answer.text();
            assert!(!LEAKS.iter().any(|word| said.contains(word)), "{target}: {said}");
            assert_eq!(answer.field("Location"), None, "{target}");
        }
    }
    assert_eq!(client.ask(get("/hello.txt")).text(), "hello, world\n");
}

pub(crate) fn a_listing_names_what_is_there_and_not_what_is_hidden(mount: &Mount) {
    let mut client = mount.connect();
    let answer = client.ask(get_of("list.test", "/"));
    assert_eq!(answer.line, "HTTP/1.1 200 OK");
    assert_eq!(answer.expect("Content-Type"), "text/html; charset=utf-8");
    let text = answer.text();
    for link in ["href=\"a.txt\"", "href=\"below/\"", "href=\"b%26%3Cc%3E.txt\""] {
        assert!(
            text.contains(link) || text.contains(&link.replace("=\"", "=\"./")),
            "{link}: {text}"
        );
    }
    assert!(text.contains("b&amp;&lt;c&gt;.txt") && !text.contains("<c>"), "{text}");
    assert!(!text.contains("secret"), "{text}");
    for (target, text) in [("/a.txt", "a\n"), ("/b%26%3Cc%3E.txt", "b\n"), ("/below/c.txt", "c\n")]
    {
        assert_eq!(client.ask(get_of("list.test", target)).text(), text);
    }
}
