//! `flyball cache simulate`: what it prints of a log, and what it says of one that is none.
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_flyball");

fn simulate(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(PROGRAM)
        .args(["cache", "simulate"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Who refuses the arguments does not read.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn log_of(lines: &[(&str, u64)]) -> String {
    let line = |(path, bytes): &(&str, u64)| {
        format!("::1 - - [06/Nov/1994:08:49:37 +0000] \"GET {path} HTTP/1.1\" 200 {bytes}\n")
    };
    lines.iter().map(line).collect()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn file(directory: &TempDir, name: &str, content: &str) -> String {
    let path = directory.path().join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_log_gives_a_table_of_every_policy_and_size() {
    let directory = TempDir::new().unwrap();
    let log =
        file(&directory, "access.log", &log_of(&[("/a", 9), ("/b", 9), ("/a", 9), ("/a", 9)]));
    let output = simulate(&[&log, "--size", "1MiB,10MB"], "");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.starts_with("4 requests of 4 lines, 36B; 2 files, 18B\n"), "{table}");
    assert!(!table.contains("hinted"), "there are no hints: {table}");
    let last = "\nSet cache.policy = \"lru\" and cache.content = \"1MiB\": it would have answered \
                50.0 % of the requests, and none of the others more than 1 % more.\n";
    assert!(table.ends_with(last), "{table}");
    let hinted = simulate(&[&log, "--pin", "/a", "--size", "1MiB"], "");
    assert!(text(&hinted.stdout).contains("\nhinted "), "{}", text(&hinted.stdout));
    for policy in ["lru", "lfu", "structured"] {
        for size in ["1MiB", "9.5MiB"] {
            let row = format!("{policy:<11} {size:>9}   50.00 %   50.00 %           0         0\n");
            assert!(table.contains(&row), "{row}{table}");
        }
    }
}

#[test]
fn standard_input_gives_json_of_the_policies_that_were_asked_for() {
    let log = log_of(&[("/page.html", 9), ("/a.png", 9)]) + "nonsense\n";
    let output = simulate(&["-", "--policy", "lfu,lru", "--size", "1MiB", "--json"], &log);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["requests"], &report["files"]), (&2.into(), &2.into()));
    assert_eq!(report["left_out"]["malformed_lines"], serde_json::json!([3]));
    let outcomes = report["outcomes"].as_array().unwrap();
    let policies: Vec<&str> = outcomes.iter().map(|o| o["policy"].as_str().unwrap()).collect();
    assert_eq!(policies, ["lru", "lfu"]);
    assert_eq!(outcomes[0]["hit_ratio"], 0.0);
}

#[test]
fn the_files_themselves_say_how_large_they_are_and_what_pages_refer_to() {
    let directory = TempDir::new().unwrap();
    file(&directory, "index.html", "<img src=a.png>");
    file(&directory, "a.png", "image");
    let root = directory.path().to_str().unwrap();
    let log = log_of(&[("/", 999_999), ("/a.png", 1)]);
    let arguments = ["-", "--root", root, "--policy=structured", "--size=1MiB", "--json"];
    let output = simulate(&arguments, &log);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["file_bytes"], 20);
    let outcome = &report["outcomes"][0];
    assert_eq!((&outcome["hits"], &outcome["brought_in_ahead"]), (&1.into(), &1.into()));
}

#[test]
fn what_is_wrong_is_said_with_its_name() {
    let directory = TempDir::new().unwrap();
    let log = file(&directory, "access.log", &log_of(&[("/a", 9)]));
    let empty = file(&directory, "empty.log", "");
    let nonsense = file(&directory, "nonsense.log", "one\ntwo\n");
    let root = Path::new(&log).parent().unwrap().to_str().unwrap();
    for (arguments, code, said) in [
        (vec!["/nowhere/access.log"], 2, "/nowhere/access.log: No such file"),
        (vec![root], 2, "is a directory"),
        (vec![&log[..], "--root", "/nowhere"], 2, "--root /nowhere: No such file"),
        (vec![&log, "--policy", "lfru"], 2, "similar value"),
        (vec![&log, "--size", "many"], 2, "expected a size such as 512KiB"),
        (vec![&log, "--size", "0"], 2, "expected a size"),
        (vec![&log, "--pin", ""], 2, "expected a pattern"),
        (vec![], 2, "LOG"),
        (vec![&nonsense], 1, "no line is of an access log"),
        (vec![&nonsense], 1, "malformed: 2 (lines 1, 2)"),
        (vec![&empty], 0, ""),
    ] {
        let output = simulate(&arguments, "");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(said), "{arguments:?}: {}", text(&output.stderr));
    }
}
