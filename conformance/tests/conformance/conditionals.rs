//! Conditional requests, in the order of precedence of RFC 9110, section 13.2.2.

use std::fs::File;
use std::time::{Duration, SystemTime};

use flyball_testkit::{Client, MODIFIED};

use crate::mount::Mount;
use crate::requests::{get, request};

const SAME: &str = MODIFIED;
const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

fn tag_of(client: &mut Client) -> String {
    client.ask(get("/hello.txt")).expect("ETag").to_owned()
}

/// Asks for `/hello.txt` with these fields, in which `TAG` stands for its entity tag.
#[track_caller]
fn check(mount: &Mount, table: &[(&[&str], u16)]) {
    let mut client = mount.connect();
    let tag = tag_of(&mut client);
    for &(fields, status) in table {
        let fields: Vec<String> = fields.iter().map(|field| field.replace("TAG", &tag)).collect();
        let lines: Vec<&str> = fields.iter().map(String::as_str).collect();
        let answer = client.ask(request("GET", "/hello.txt", &lines));
        assert_eq!(answer.status(), status, "{fields:?}");
        match status {
            200 => assert_eq!(answer.text(), "hello, world\n", "{fields:?}"),
            304 => assert_eq!(answer.expect("ETag"), tag, "{fields:?}"),
            _ => assert!(!answer.text().contains("hello"), "{fields:?}"),
        }
        client.send(request("HEAD", "/hello.txt", &lines));
        assert_eq!(client.response_head().status(), status, "HEAD {fields:?}");
    }
}

pub(crate) fn a_304_has_its_validators_and_no_content(mount: &Mount) {
    let mut client = mount.connect();
    let tag = tag_of(&mut client);
    let unchanged = request("GET", "/hello.txt", &[&format!("If-None-Match: {tag}")]);
    let answer = client.ask(unchanged);
    let date = answer.expect("Date");
    let expected = format!(
        "HTTP/1.1 304 Not Modified\r\nServer: flyball\r\nDate: {date}\r\n\
         Cache-Control: no-cache\r\nETag: {tag}\r\nLast-Modified: {MODIFIED}\r\n\r\n"
    );
    assert_eq!(answer.head, expected);
    assert_eq!(client.ask(get("/page.html")).status(), 200);
}

pub(crate) fn if_none_match_compares_weakly(mount: &Mount) {
    check(
        mount,
        &[
            (&["If-None-Match: TAG"], 304),
            (&["If-None-Match: W/TAG"], 304),
            (&["If-None-Match: *"], 304),
            (&["If-None-Match: \"x\", TAG"], 304),
            (&["If-None-Match: \"x\",,\tW/TAG ,"], 304),
            (&["If-None-Match: \"a,b\",TAG"], 304),
            (&["If-None-Match: \"x\"", "If-None-Match: TAG"], 304),
            (&["If-None-Match: \"x\""], 200),
            (&["If-None-Match: TAGx"], 200),
            (&["If-None-Match: w/TAG"], 200),
            (&["If-None-Match: x"], 200),
            (&["If-None-Match: "], 200),
        ],
    );
}

pub(crate) fn if_match_compares_strongly(mount: &Mount) {
    check(
        mount,
        &[
            (&["If-Match: TAG"], 200),
            (&["If-Match: \"x\", TAG"], 200),
            (&["If-Match: *"], 200),
            (&["If-Match: W/TAG"], 412),
            (&["If-Match: \"x\""], 412),
            (&["If-Match: "], 412),
        ],
    );
}

pub(crate) fn dates_are_compared_in_whole_seconds(mount: &Mount) {
    let since = |date: &str| format!("If-Modified-Since: {date}");
    let unmodified = |date: &str| format!("If-Unmodified-Since: {date}");
    check(
        mount,
        &[
            (&[&since(SAME)], 304),
            (&[&since(AFTER)], 304),
            (&[&since("Sunday, 06-Nov-94 08:49:37 GMT")], 304),
            (&[&since("Sun Nov  6 08:49:37 1994")], 304),
            (&[&since(BEFORE)], 200),
            (&[&since("yesterday")], 200),
            (&[&since("784111777")], 200),
            (&[&since(SAME), &since(SAME)], 200),
            (&[&unmodified(SAME)], 200),
            (&[&unmodified(AFTER)], 200),
            (&[&unmodified(BEFORE)], 412),
            (&[&unmodified("yesterday")], 200),
        ],
    );
}

pub(crate) fn the_order_of_precedence_holds(mount: &Mount) {
    let since = format!("If-Modified-Since: {SAME}");
    let earlier = format!("If-Unmodified-Since: {BEFORE}");
    check(
        mount,
        &[
            // If-None-Match replaces If-Modified-Since.
            (&["If-None-Match: \"x\"", &since], 200),
            (&["If-None-Match: TAG", &format!("If-Modified-Since: {BEFORE}")], 304),
            // If-Match replaces If-Unmodified-Since.
            (&["If-Match: TAG", &earlier], 200),
            (&["If-Match: \"x\"", &format!("If-Unmodified-Since: {AFTER}")], 412),
            // The guards of a change come before those of a cache.
            (&["If-None-Match: TAG", "If-Match: \"x\""], 412),
            (&[&since, &earlier], 412),
            (&["If-None-Match: TAG", &earlier], 412),
            (&["If-Match: TAG", "If-None-Match: TAG"], 304),
            (&["If-Match: TAG", &since], 304),
            // All of them come before ranges.
            (&["Range: bytes=0-1", "If-None-Match: TAG"], 304),
            (&["Range: bytes=0-1", "If-Match: \"x\""], 412),
            (&["Range: bytes=90-", "If-None-Match: TAG"], 304),
        ],
    );
}

pub(crate) fn what_does_not_exist_has_no_preconditions(mount: &Mount) {
    let mut client = mount.connect();
    for field in ["If-Match: *", "If-None-Match: *", "If-Match: \"x\""] {
        assert_eq!(client.ask(request("GET", "/missing", &[field])).status(), 404, "{field}");
        assert_eq!(client.ask(request("GET", "/dir", &[field])).status(), 301, "{field}");
    }
    let unconditional = client.ask(request("POST", "/hello.txt", &["If-Match: \"x\""]));
    assert_eq!(unconditional.status(), 405);
}

pub(crate) fn if_range_lets_a_range_through_only_when_it_matches(mount: &Mount) {
    let mut client = mount.connect();
    let tag = tag_of(&mut client);
    for (value, status) in [
        (tag.clone(), 206),
        (SAME.to_owned(), 206),
        (format!("W/{tag}"), 200),
        ("\"x\"".to_owned(), 200),
        (BEFORE.to_owned(), 200),
        (AFTER.to_owned(), 200),
        ("*".to_owned(), 200),
        ("x".to_owned(), 200),
        (format!("{tag}, {tag}"), 200),
    ] {
        let fields = ["Range: bytes=0-4", &format!("If-Range: {value}")];
        let answer = client.ask(request("GET", "/hello.txt", &fields));
        let text = if status == 206 { "hello" } else { "hello, world\n" };
        assert_eq!((answer.status(), answer.text()), (status, text), "{value}");
    }
    // Without Range it says nothing, and it hides that a range cannot be satisfied.
    let alone = client.ask(request("GET", "/hello.txt", &["If-Range: \"x\""]));
    assert_eq!(alone.status(), 200);
    let beyond = ["Range: bytes=90-", "If-Range: \"x\""];
    assert_eq!(client.ask(request("GET", "/hello.txt", &beyond)).status(), 200);
}

pub(crate) fn a_date_in_if_range_is_strong_once_it_is_a_minute_old(mount: &Mount) {
    let root = tempfile::tempdir().expect("a directory");
    let path = root.path().join("a.txt");
    let file = File::create(&path).expect("a file");
    std::fs::write(&path, "0123456789").expect("the file can be written");
    let site = format!("[[site]]\nroot = \"{}\"\n", root.path().display());
    let server = mount.start_with_sites("cache.revalidate = 0\nworkers = 1\n", &site);
    let mut client = server.connect();
    for (age_s, status) in [(10, 200), (90, 206)] {
        file.set_modified(SystemTime::now() - Duration::from_secs(age_s)).expect("its time is set");
        let date = client.ask(get("/a.txt")).expect("Last-Modified").to_owned();
        let fields = ["Range: bytes=0-4", &format!("If-Range: {date}")];
        assert_eq!(client.ask(request("GET", "/a.txt", &fields)).status(), status, "{age_s} s");
        let fields = [&*format!("If-Modified-Since: {date}")];
        assert_eq!(client.ask(request("GET", "/a.txt", &fields)).status(), 304, "{age_s} s");
    }
    server.assert_sound();
}

/// It has the time at which it was looked at (RFC 9110, section 8.8.2.1).
pub(crate) fn a_file_from_the_future_has_changed_no_later_than_the_date(mount: &Mount) {
    let root = tempfile::tempdir().expect("a directory");
    let path = root.path().join("a.txt");
    std::fs::write(&path, "0123456789").expect("the file can be written");
    let file = File::options().write(true).open(&path).expect("a file");
    file.set_modified(SystemTime::now() + Duration::from_secs(86_400)).expect("its time is set");
    let site = format!("[[site]]\nroot = \"{}\"\n", root.path().display());
    let server = mount.start_with_sites("workers = 1\n", &site);
    let mut client = server.connect();
    // A head that is built again tells a later second: until it is in a cache, say.
    let mut seen = Vec::new();
    let expected = [200, 304, 304];
    flyball_testkit::wait::until(flyball_testkit::wait::DEADLINE, || {
        let answer = client.ask(get("/a.txt"));
        let (date, modified) = (answer.expect("Date"), answer.expect("Last-Modified"));
        let fields = [
            format!("If-Unmodified-Since: {date}"),
            format!("If-Modified-Since: {date}"),
            format!("If-Modified-Since: {modified}"),
        ];
        let statuses =
            fields.map(|field| client.ask(request("GET", "/a.txt", &[&*field])).status());
        seen.push(format!("{statuses:?} with {modified} at {date}"));
        (statuses == expected).then_some(())
    })
    .unwrap_or_else(|| panic!("{seen:#?}"));
    server.assert_sound();
}
