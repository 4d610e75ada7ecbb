//! `flyball load` with requests out of logs and sets of files, against a real server.

use std::fs;
use std::process::{Command, Output, Stdio};

use flyball_testkit::{Launch, Server, Site, binary};
use serde_json::Value;

fn load(arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.arg("load").args(arguments).stdin(Stdio::null());
    command.output().expect("flyball can be started")
}

fn server(site: &Site) -> Server {
    Launch::arguments([site.root().display().to_string()]).start().expect("it starts")
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    })
}

#[test]
fn sessions_of_a_log_are_asked_for_whole_and_wrong_lines_are_told() {
    let site = Site::new();
    fs::write(site.root().join("a.txt"), "a").unwrap();
    let server = server(&site);
    let log = tempfile::NamedTempFile::new().unwrap();
    let text = "# one session\n/a.txt think=0.01\n  /a.txt\n/none\nwrong\n";
    fs::write(log.path(), text).unwrap();
    let (file, url) = (log.path().display().to_string(), format!("http://{}/", server.address()));
    let asked = ["--sessions", "20", "--duration", "500ms", "--json", "--wsesslog", &file, &url];
    let output = load(&asked);
    let found = report(&output);
    assert_eq!((&found["sessions"], &found["sessions_complete"]), (&10.into(), &10.into()));
    assert_eq!((&found["status"]["200"], &found["status"]["404"]), (&20.into(), &10.into()));
    assert_eq!(found["connections"], 10, "a session has one connection: {found}");
    assert!(found["notes"].to_string().contains("line 5: it begins with no path"), "{found}");
    let output = load(&[&["--strict"], &asked[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("line 5: it begins with no path"), "{errors}");
}
