//! `flyball tune` as a program: a short search on real servers, and what is refused.
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use flyball_lab::host::{find, is_root};
use flyball_testkit::{binary, skip, wait};
use serde_json::Value;

fn tune(arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.arg("tune").args(arguments).stdin(Stdio::null());
    command.output().expect("flyball can be started")
}

/// Seconds of budget, each tried when half of the one before was gone before the first comparison,
/// or no answer came in time: beside other tests starting one server may take so long.
const BUDGETS_S: [u64; 3] = [10, 20, 40];

/// A search with the least budget that is enough here, and that budget.
fn tune_in_time(arguments: &[&str]) -> (Output, Duration) {
    let search = |seconds: u64| {
        let budget = format!("{seconds}s");
        let output = tune(&[arguments, &["--budget", &budget]].concat());
        let errors = text(&output.stderr);
        let is_late = ["half of the budget is gone", "answered nothing of what was asked for well"];
        let is_enough = !is_late.iter().any(|late| errors.contains(late));
        is_enough.then_some((output, Duration::from_secs(seconds)))
    };
    BUDGETS_S.into_iter().find_map(search).expect("a server can be started within seconds")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A directory of three small files.
fn site(directory: &Path) -> String {
    let site = directory.join("site");
    fs::create_dir(&site).unwrap();
    for (name, size) in [("a.html", 500), ("b.html", 3_000), ("c d.txt", 9_000)] {
        fs::write(site.join(name), vec![b'x'; size]).unwrap();
    }
    site.to_str().unwrap().to_owned()
}

#[test]
#[ignore = "full tier"]
fn a_tiny_budget_ends_in_time_with_an_answer_and_the_evidence() {
    if let Some(missing) = ["setpriv", "taskset"].iter().find_map(|name| find(name).err()) {
        return skip(&missing.to_string());
    }
    if !is_root() {
        return skip("files of a temporary directory are for root");
    }
    let directory = tempfile::tempdir().unwrap();
    let (site, out) = (site(directory.path()), directory.path().join("out"));
    let begun = Instant::now();
    let (output, budget) = tune_in_time(&[&site, "--out", out.to_str().unwrap()]);
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    // What was tried before had half as long each.
    wait::assert_within(begun, 2 * budget + Duration::from_secs(5), &errors);
    assert!(errors.contains("[noise 1/6") && errors.contains("left]"), "{errors}");
    let evidence = fs::read_to_string(out.join("tune.json")).unwrap();
    let evidence: Value = serde_json::from_str(&evidence).unwrap();
    match evidence["end"].as_str() {
        // Six blocks, without which nothing is certain, do not fit.
        Some("no-difference") => {
            assert!(said.contains("no difference found"), "{said}");
            assert_eq!(output.status.code(), Some(0), "{errors}");
        }
        Some("no-result") => {
            assert!(said.contains("no result: nothing was compared"), "{said}");
            assert_eq!(output.status.code(), Some(4), "{errors}");
        }
        end => panic!("{end:?}: {said}"),
    }
    assert!(!out.join("flyball.toml").exists(), "{said}");
    assert!(!evidence["found"]["trials"].as_array().unwrap().is_empty());
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    let verdicts = ["Nothing beat the default significantly", "No result: nothing was compared"];
    assert!(verdicts.iter().any(|verdict| page.contains(verdict)), "{page}");
    assert!(!page.contains("src=") && !page.contains("href="), "it needs nothing else");
}

#[test]
#[ignore = "full tier"]
fn what_a_log_says_is_asked_for_and_a_bound_of_latency_holds() {
    if let Some(missing) = ["setpriv", "taskset"].iter().find_map(|name| find(name).err()) {
        return skip(&missing.to_string());
    }
    if !is_root() {
        return skip("files of a temporary directory are for root");
    }
    let directory = tempfile::tempdir().unwrap();
    let site = site(directory.path());
    let log = directory.path().join("access.log");
    let line = |second: u32, path: &str| {
        format!("c - - [24/Nov/2026:10:00:{second:02} +0000] \"GET {path} HTTP/1.1\" 200 9\n")
    };
    // What has gone since is asked for as well.
    let lines: String =
        (0..30).map(|at| line(at, ["/a.html", "/b.html", "/gone"][at as usize % 3])).collect();
    fs::write(&log, lines).unwrap();
    let asked = |out: &str, bound: &str| {
        let out = directory.path().join(out);
        let (log, out) = (log.to_str().unwrap(), out.to_str().unwrap());
        tune_in_time(&[&site, "--log", log, "--p99-max", bound, "--out", out]).0
    };
    let output = asked("wide", "9s");
    let errors = text(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 4)), "{errors}");
    let evidence = fs::read_to_string(directory.path().join("wide/tune.json")).unwrap();
    let evidence: Value = serde_json::from_str(&evidence).unwrap();
    assert!(["no-difference", "no-result"].iter().any(|end| evidence["end"] == *end));
    let output = asked("narrow", "1us");
    let errors = text(&output.stderr);
    // A run of the default that does not count says nothing of its latency.
    if output.status.code() == Some(1) {
        assert!(errors.contains("allow for more by --p99-max"), "{errors}");
    }
}

#[test]
fn what_cannot_be_tuned_is_said_before_anything_runs() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().to_str().unwrap();
    let out = directory.path().join("out");
    let out = out.to_str().unwrap();
    let config = directory.path().join("flyball.toml");
    fs::write(&config, "[[site]]\nroot = \".\"\n").unwrap();
    let empty = directory.path().join("empty");
    fs::create_dir(&empty).unwrap();
    for (arguments, code, expected) in [
        (&[here, "--budget", "5s"][..], 2, "10 s are the least"),
        (&["--budget", "20s"], 2, "required"),
        (&[here, "--log", "a", "--list", "b"], 2, "cannot be used with"),
        (&[empty.to_str().unwrap(), "--out", out], 1, "it has no files to ask for"),
        (&[here, "--log", "no-such.log", "--out", out], 1, "no-such.log"),
        (&["--config", config.to_str().unwrap(), "--out", out], 1, "give --log or --list"),
        (&["--workload", "specweb98", "--out", out], 1, "did you mean specweb9"),
        (&[here, "--server", "ngnix"], 2, "did you mean nginx?"),
        (&["--config", "a", "--server", "nginx"], 2, "cannot be used with"),
        (&[here, "--server", "haproxy", "--out", out], 1, "haproxy"),
    ] {
        let output = tune(arguments);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
        assert!(errors.contains(expected), "{arguments:?}: {errors}");
    }
}
