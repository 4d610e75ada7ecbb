//! The configurations that are shown as examples are ones that run.
use std::path::{Path, PathBuf};
use std::process::Command;

use flyball_testkit::{Launch, binary};

/// The file of this name, from the top of the repository.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

/// The text with what it takes from the environment set to places of a test.
fn in_place(text: &str, directory: &Path) -> String {
    let directory = directory.display().to_string();
    let with = |text: String, name: &str, default: &str, value: &str| {
        let variable = format!("${{{name}:-{default}}}");
        assert!(text.contains(&variable), "{variable}");
        text.replace(&variable, value)
    };
    let text = with(text.to_owned(), "FLYBALL_LISTEN", "80", "127.0.0.1:0");
    let text = with(text, "FLYBALL_USER", "flyball", "auto");
    let text = with(text, "FLYBALL_RUN", "/run/flyball", &directory);
    let text = with(text, "FLYBALL_LOGS", "/var/log/flyball", &directory);
    with(text, "FLYBALL_ROOT", "/var/www/html", &directory)
}

#[test]
fn the_production_configuration_serves() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("index.html"), "<p>hello").expect("a page");
    let text = std::fs::read_to_string(file("examples/production.toml")).expect("the example");
    let server = Launch::config(in_place(&text, directory.path())).start().expect("it starts");
    let answer =
        server.connect().ask("GET / HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n");
    assert_eq!((answer.status(), answer.text()), (200, "<p>hello"));
    assert_eq!(answer.field("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.field("server"), None);
    let admin = format!("unix:{}/admin.sock", directory.path().display());
    let status = Command::new(binary()).args(["ctl", "status", "--admin", &admin]).output();
    assert!(status.expect("it runs").status.success());
    // Nothing that it says is ignored or cut on a machine with the limits of any.
    assert!(!server.errors().contains("is ignored"), "{}", server.errors());
}

#[test]
fn every_line_of_the_production_configuration_has_its_reason() {
    let text = std::fs::read_to_string(file("examples/production.toml")).expect("the example");
    // Each key and each head of a table has a comment of its own right above it.
    let mut above = "";
    let mut told = 0;
    for (at, line) in text.lines().enumerate() {
        if !line.is_empty() && !line.starts_with('#') {
            let reason = above.strip_prefix("# ").unwrap_or_default();
            assert!(!reason.is_empty(), "line {}: no reason for {line}", at + 1);
            told += 1;
        }
        above = line;
    }
    assert!(told > 30, "{told} lines");
}

/// Who stops the server waits for longer than its downloads may take.
#[test]
fn the_unit_gives_the_production_configuration_time_to_drain() {
    let text = |name: &str| std::fs::read_to_string(file(name)).expect("it is there");
    let seconds = |text: &str, key: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(key)).expect(key);
        let value = value.trim_matches('"');
        let minutes = value.strip_suffix("min").map(|n| 60 * n.parse::<u64>().expect("minutes"));
        minutes.or_else(|| value.strip_suffix('s')?.parse().ok()).expect("a time")
    };
    let stop = seconds(&text("deploy/systemd/flyball.service"), "TimeoutStopSec=");
    let drain = seconds(&text("examples/production.toml"), "drain = ");
    assert!(stop > drain + 2, "{drain} s to drain, and it is killed after {stop}");
}
