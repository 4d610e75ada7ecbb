//! The dynamic requests of SPECweb99 as a module of the server, held against the rules by the
//! generator.

use std::fs;
use std::path::Path;

use crate::common::generator::{fileset, load, report};
use crate::common::{architectures, wait_for};
use flyball_testkit::{Launch, Server};
use serde_json::Value;

/// The example with these places, for an architecture with so many workers.
fn config(root: &Path, architecture: &str, workers: u32) -> String {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let text = fs::read_to_string(examples.join("specweb99.toml")).expect("the example");
    let program = examples.join("specweb99-cgi.sh").canonicalize().expect("the program");
    let text = text
        .replace("${LISTEN:-127.0.0.1:8080}", "127.0.0.1:0")
        .replace("${SPECWEB_ROOT}", &root.display().to_string())
        .replace(
            "${SPECWEB_CGI:-/usr/share/doc/flyball/examples/specweb99-cgi.sh}",
            &program.display().to_string(),
        );
    format!("arch = {architecture:?}\nworkers = {workers}\n{text}")
}

fn served(root: &Path, architecture: &str, workers: u32) -> Server {
    let started = Launch::config(config(root, architecture, workers)).start();
    started.unwrap_or_else(|refused| panic!("{architecture}: {refused:?}"))
}

fn dynamic(server: &Server, set: &Path, mix: &str) -> Value {
    let (set, url) = (set.display().to_string(), format!("http://{}/", server.address()));
    let arguments = [
        "--connections",
        "8",
        "--duration",
        "400ms",
        "--json",
        "--verify",
        "--fileset",
        &set,
        &url,
    ];
    let output = load(&[&["--dynamic", mix], &arguments[..]].concat());
    let found = report(&output);
    assert_eq!(output.status.code(), Some(0), "{found}");
    assert_eq!((&found["error_count"], &found["status"]["200"]), (&0.into(), &found["replies"]));
    assert_eq!(found["dynamic"]["log_wrong"], Value::Array(Vec::new()), "{found}");
    found
}

/// A report in which something was posted: on a busy machine there may be few requests in one.
fn with_a_post(mut dynamic: impl FnMut() -> Value) -> Value {
    wait_for("a post", || {
        Some(dynamic()).filter(|found| found["dynamic"]["posts"].as_u64() > Some(0))
    })
}

/// A set of files, where workers of any user may read it.
fn set() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("set").display().to_string();
    fileset(&["specweb99", &path, "--directories", "1"]);
    directory
}

/// One code under every architecture that runs here; of some, processes append to one log.
#[test]
#[ignore = "full tier"]
fn every_reply_keeps_the_rules_and_every_post_is_in_the_log_on_every_architecture() {
    let directory = set();
    let root = directory.path().join("set");
    for architecture in architectures() {
        let workers = if ["symped", "mp", "n-copy"].contains(&architecture) { 4 } else { 1 };
        let server = served(&root, architecture, workers);
        let found = with_a_post(|| dynamic(&server, &root, "100:40/2/40/18"));
        let posts = found["dynamic"]["posts"].as_u64();
        assert!(found["dynamic"]["logged_posts"].as_u64() >= posts, "{architecture}");
    }
}

/// S1, Sections 3 and 4.3: an extension in the process of an event loop holds it up.
#[test]
fn an_event_loop_calls_it_in_place_where_it_is_taken_not_to_block() {
    let directory = set();
    let root = directory.path().join("set");
    for (blocking, has_helpers) in [("\"as-it-says\"", true), ("true", true), ("false", false)] {
        let (name, said) = ("name = \"specweb99\"\n", format!("blocking = {blocking}\n"));
        let text = config(&root, "sped", 1);
        assert!(text.contains(name));
        let text = text.replace(name, &(name.to_owned() + &said));
        let server = Launch::config(format!("admin = \"127.0.0.1:0\"\n{text}")).start();
        let server = server.unwrap_or_else(|refused| panic!("{blocking}: {refused:?}"));
        with_a_post(|| dynamic(&server, &root, "100"));
        let status: Value = serde_json::from_str(&server.status()).expect("the status is JSON");
        let helpers = status["counters"]["helpers_started"].as_u64().expect("a counter");
        assert_eq!(helpers > 0, has_helpers, "{blocking}");
    }
}

#[test]
fn what_is_posted_is_reset_and_what_is_no_file_of_the_set_is_refused() {
    let directory = set();
    let root = directory.path().join("set");
    let server = served(&root, "symped", 2);
    with_a_post(|| dynamic(&server, &root, "50"));
    let ask = |target: &str| {
        let head = format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        server.connect().ask(head)
    };
    let script = "/specweb99-dynamic";
    assert!(ask(&format!("{script}?command/Fetch")).body.len() > 139);
    assert_eq!(
        ask(&format!("{script}?command/Reset&maxload=7&pttime=5")).text(),
        "7 users, 360 ads\n"
    );
    assert_eq!(ask(&format!("{script}?command/Fetch")).text(), "         0\n");
    assert_eq!(fs::metadata(root.join("User.Personality")).unwrap().len(), 7 * 15);
    for other in ["?/../etc/passwd", "?/file_set/dir00000/class9_9", "?", "?command/Other"] {
        assert_eq!(ask(&format!("{script}{other}")).status(), 404, "{other}");
    }
    let body = "urlroot=/file_set/&dir=0&class=0&num=x&client=1";
    let len = body.len();
    let head = format!("POST {script} HTTP/1.1\r\nHost: h\r\nContent-Length: {len}\r\n\r\n{body}");
    assert_eq!(server.connect().ask(head).status(), 400);
}
