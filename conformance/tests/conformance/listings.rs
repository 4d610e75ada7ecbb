//! Listings of directories without an index.

use flyball_testkit::{Client, Site};

use crate::mount::Mount;
use crate::requests::get_of;

/// The names that a page links to, in order.
fn names(client: &mut Client, target: &str) -> Vec<String> {
    let answer = client.ask(get_of("list.test", target));
    assert_eq!(answer.line, "HTTP/1.1 200 OK", "{target}");
    let links = answer.text().split("<a href=\"./").skip(1);
    links.filter_map(|link| link.split('"').next()).map(str::to_owned).collect()
}

pub(crate) fn a_listing_is_sorted_as_the_query_says(mount: &Mount) {
    let mut client = mount.connect();
    let [one, two, ten] = ["one.txt", "two.txt", "Ten.txt"];
    for (target, expected) in [
        ("/sorted/", ["sub/", one, ten, two]),
        ("/sorted/?sort=name", ["sub/", one, ten, two]),
        ("/sorted/?sort=name&order=desc", ["sub/", two, ten, one]),
        ("/sorted/?sort=size", ["sub/", one, two, ten]),
        ("/sorted/?sort=size&order=desc", ["sub/", ten, two, one]),
        ("/sorted/?order=asc&sort=time", ["sub/", one, ten, two]),
        ("/sorted/?sort=nothing&order=nothing", ["sub/", one, ten, two]),
    ] {
        assert_eq!(names(&mut client, target), expected, "{target}");
    }
}

pub(crate) fn a_listing_is_json_when_that_is_preferred(mount: &Mount) {
    let mut client = mount.connect();
    let ask = |target: &str, accept: &str| {
        format!("GET {target} HTTP/1.1\r\nHost: list.test\r\nAccept: {accept}\r\n\r\n")
    };
    for (target, accept) in [
        ("/sorted/?sort=size", "application/json"),
        ("/sorted/?sort=size", "text/html;q=0.5, application/json;q=0.6"),
        ("/sorted/?sort=size&format=json", "text/html"),
    ] {
        let answer = client.ask(ask(target, accept));
        assert_eq!(answer.status(), 200, "{target} {accept}");
        assert_eq!(answer.expect("Content-Type"), "application/json");
        assert_eq!(answer.expect("Vary"), "Accept");
        let file = |name: &str, size: u32| {
            format!(
                "{{\"name\":\"{name}\",\"href\":\"./{name}\",\"type\":\"file\",\"size\":{size},\
                 \"modified\":\"1994-11-06T08:49:37Z\"}}"
            )
        };
        let lines: Vec<&str> = answer.text().lines().collect();
        assert_eq!(lines.len(), 6, "{}", answer.text());
        assert_eq!(lines[0], "{\"path\":\"/sorted/\",\"sorted\":true,\"entries\":[");
        let sub = "{\"name\":\"sub\",\"href\":\"./sub/\",\"type\":\"directory\",\"modified\":\"";
        assert!(lines[1].starts_with(sub) && lines[1].ends_with("},"), "{}", lines[1]);
        let files = [file("one.txt", 1) + ",", file("two.txt", 2) + ",", file("Ten.txt", 10)];
        assert_eq!(lines[2..5], files);
        assert_eq!(lines[5], "],\"directories\":1,\"files\":3,\"bytes\":13}");
    }
    for accept in ["*/*", "text/html, application/json", "application/json;q=0"] {
        let answer = client.ask(ask("/sorted/", accept));
        assert_eq!(answer.expect("Content-Type"), "text/html; charset=utf-8", "{accept}");
        assert_eq!(answer.expect("Vary"), "Accept, Accept-Encoding");
    }
}

pub(crate) fn a_readme_is_shown_below(mount: &Mount) {
    let mut client = mount.connect();
    let answer = client.ask(get_of("list.test", "/read/"));
    let page = answer.text();
    let (table, below) = page.split_once("</table>").expect("a page has a table");
    assert!(table.contains("href=\"./README\""), "{page}");
    assert!(below.contains("<pre>Read &lt;me&gt; &amp; go.\n</pre>"), "{page}");
    assert!(!client.ask(get_of("list.test", "/read/?format=json")).text().contains("me&"));
}

pub(crate) fn what_links_out_of_the_root_is_not_listed(mount: &Mount) {
    let mut client = mount.connect();
    assert!(Site::shared().path("list/leaving/out").is_symlink());
    assert_eq!(names(&mut client, "/leaving/"), ["inside"]);
    let answer = client.ask(get_of("list.test", "/leaving/"));
    assert!(!answer.text().contains("SECRET"), "{}", answer.text());
}

pub(crate) fn what_is_answered_by_a_return_is_not_listed(mount: &Mount) {
    let list = Site::shared().path("list");
    let sites = format!(
        "[[site]]\nroot = {list:?}\nlisting = true\nrewrite = [{{ from = \"/to/*\", to = \
         \"/sorted/$1\" }}]\n[[site.alias]]\npath = \"/a\"\nroot = {list:?}\n\
         [[site.return]]\nmatch = \"~two\\\\.txt$\"\nstatus = 404\n\
         [[site.return]]\npath = \"/sorted/sub\"\nstatus = 403\n\
         [[site.return]]\npath = \"/to/one.txt\"\nstatus = 410\n"
    );
    let server = mount.start_with_sites("workers = 1\n", &sites);
    let mut client = server.connect();
    for (target, expected) in [
        ("/sorted/", &["one.txt", "Ten.txt"][..]),
        ("/a/sorted/", &["sub/", "one.txt", "Ten.txt"]),
        ("/to/", &["Ten.txt"]),
    ] {
        assert_eq!(names(&mut client, target), expected, "{target}");
        for name in expected {
            let status = client.ask(get_of("list.test", &format!("{target}{name}"))).status();
            assert_eq!(status, 200, "{target}{name}");
        }
    }
    server.assert_sound();
}
