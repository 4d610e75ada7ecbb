//! `flyball lab` as a program: what it lists and shows, a run from set-up to verdict, and that the
//! definitions speak of settings and architectures that there are.
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use flyball::experiments::refusal;
use flyball_lab::catalogue;
use flyball_lab::contestant::OURS;
use flyball_lab::host::{find, is_root};
use flyball_testkit::{binary, skip};
use serde_json::Value;

/// Times that perf may be too slow beside other tests.
const LOOKS_MAX: usize = 3;

fn lab(arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.arg("lab").args(arguments).stdin(Stdio::null());
    command.output().expect("flyball can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn experiments_are_listed_and_shown() {
    let listed = text(&lab(&["list"]).stdout);
    for name in ["s0-fig8", "s1-fig3", "s2-fig11", "s3-fig2", "s4-fig3"] {
        assert!(listed.lines().any(|line| line.starts_with(name)), "{name}: {listed}");
    }
    let shown = text(&lab(&["show", "s0-fig8"]).stdout);
    for part in [
        "S0, Figure 8, M31",
        "Machine: 25 % of 1 CPU, memory without a limit, files read before each run, an accept \
         queue of 128, without SYN cookies",
        "Points: ",
        "Series:",
        "reproduced when the ratio is",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn an_unknown_experiment_is_answered_with_the_nearest() {
    for arguments in [["show", "s0-fig88"], ["run", "s0-fig88"]] {
        let output = lab(&arguments);
        assert_eq!(output.status.code(), Some(1));
        let errors = text(&output.stderr);
        assert!(errors.contains("did you mean s0-fig8?"), "{errors}");
    }
}

#[test]
#[ignore = "full tier"]
fn an_experiment_goes_from_set_up_to_verdict_and_leaves_nothing_behind() {
    if !is_root() {
        return skip("namespaces and control groups take root");
    }
    if let Some(missing) = ["ip", "setpriv", "taskset"].iter().find_map(|name| find(name).err()) {
        return skip(&missing.to_string());
    }
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().to_str().unwrap();
    let short = ["--quick", "--seconds", "0.3", "--repetitions", "1", "--out", out];
    let run = [&["run", "s3-sec323"], &short[..]].concat();
    let mut command = Command::new(binary());
    command.arg("lab").args(run).stdin(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().expect("flyball can be started");
    let id = child.id();
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    assert_eq!(namespaces_of(id), Vec::<String>::new());
    let verdict = json(&directory.path().join("verdict.json"));
    assert_eq!(verdict["experiment"], "s3-sec323");
    // One repetition makes no pair, and without pairs there is nothing to say.
    assert_eq!(verdict["verdict"], "no-result");
    assert!(!verdict["predicate"].as_array().unwrap().is_empty());
    assert!(!verdict["figures"].as_array().unwrap().is_empty());
    assert_eq!(verdict["reduced"], false);
    let version = verdict["versions"]["flyball"].as_str().unwrap();
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    let runs = json(&directory.path().join("runs.json"));
    let records = runs["records"].as_array().unwrap();
    assert!(records.len() >= 2, "{runs}");
    for record in records {
        assert_eq!(record["generator"]["errors"]["wrong_body"], 0, "{record}");
        if !record["void"].as_array().unwrap().is_empty() {
            // Something else had the machine: perhaps no request was answered in so short a time.
            continue;
        }
        assert!(record["figures"]["goodput_per_s"].as_f64().unwrap() > 0.0, "{record}");
        assert!(record["figures"]["cpu_us_per_reply"].as_f64().unwrap() > 0.0, "{record}");
    }
    let page = fs::read_to_string(directory.path().join("report.html")).unwrap();
    for part in ["no-result", "A quick campaign", "<svg", "flyball lab run s3-sec323 --quick"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("src=") && !page.contains("href="), "it needs nothing else");
    for arguments in [["report", out], ["rank", out]] {
        assert!(lab(&arguments).status.success());
    }
    goes_on(directory.path(), &short);
    let other = text(&lab(&["run", "s3-fig14", "--out", out]).stderr);
    assert!(other.contains("holds the results of s3-sec323"), "{other}");
    let same = text(&lab(&["compare", out, out]).stdout);
    assert!(same.contains("too few valid runs"), "{same}");
}

/// A campaign that was broken off before its last run: only that one is made, and then nothing.
fn goes_on(out: &Path, options: &[&str]) {
    let runs = || -> BTreeMap<PathBuf, String> {
        let entries = fs::read_dir(out.join("runs")).unwrap().flatten();
        entries.map(|entry| (entry.path(), fs::read_to_string(entry.path()).unwrap())).collect()
    };
    let before = runs();
    let last = before.keys().next_back().unwrap();
    for gone in [last, &out.join("verdict.json"), &out.join("runs.json")] {
        fs::remove_file(gone).unwrap();
    }
    let again = [&["run", "s3-sec323", "--resume"], options].concat();
    let output = lab(&again);
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    let after = runs();
    for (path, text) in &before {
        assert_eq!(after.get(path) == Some(text), path != last, "{path:?}");
    }
    assert!(after.contains_key(last) && out.join("verdict.json").exists());
    let kept = text(&lab(&again).stderr);
    assert!(kept.contains("it is complete, and kept"), "{kept}");
    assert_eq!(runs(), after);
}

fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    serde_json::from_str(&text).unwrap()
}

/// Namespaces that a lab has left behind.
fn namespaces_of(lab: u32) -> Vec<String> {
    let names = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(&format!("flyball-lab-{lab}-"))).collect()
}

/// It makes 360 MB of files: on request, by this variable.
#[test]
fn dynamic_requests_are_measured_where_their_module_answers() {
    if std::env::var_os("FLYBALL_LAB_DYNAMIC").is_none() || !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().to_str().unwrap();
    let short = ["--quick", "--seconds", "0.5", "--repetitions", "1", "--out", out];
    let output = lab(&[&["run", "s1-fig3"], &short[..]].concat());
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    let runs = json(&directory.path().join("runs.json"));
    for record in runs["records"].as_array().unwrap() {
        assert_eq!(record["generator"]["errors"]["wrong_dynamic"], 0, "{record}");
        assert!(record["generator"]["dynamic"]["posts"].as_u64().unwrap() > 0, "{record}");
    }
}

#[test]
#[ignore = "full tier"]
fn clients_are_compared_that_are_a_process_for_each_connection() {
    if let Some(missing) = ["setpriv", "taskset"].iter().find_map(|name| find(name).err()) {
        return skip(&missing.to_string());
    }
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().to_str().unwrap();
    let short = ["--quick", "--seconds", "0.5", "--repetitions", "1", "--out", out];
    let output = lab(&[&["run", "s3-sec224"], &short[..]].concat());
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    let runs = json(&directory.path().join("runs.json"));
    let records = runs["records"].as_array().unwrap().iter();
    let apart = |record: &&Value| record["series"] == "a process for each client";
    let (apart, together): (Vec<&Value>, Vec<&Value>) = records.partition(apart);
    for (records, processes) in [(&apart, true), (&together, false)] {
        // Each point, and all of the connections at it.
        for point in [1.0, 10.0, 42.0] {
            let mut here = records.iter().filter(|record| record["point"] == point);
            let all_came = |record: &&&Value| {
                let cpu = record["figures"]["client_cpu_us_per_reply"].as_f64();
                record["generator"]["connections_open_max"] == point && cpu > Some(0.0)
            };
            // A run is made again where something else had the machine.
            let found = here.find(all_came);
            assert!(found.is_some(), "{processes} {point}: {runs}");
        }
    }
}

#[test]
#[ignore = "full tier"]
fn servers_are_looked_into_by_call_and_by_stack() {
    if !is_root() {
        return skip("looking into servers takes root");
    }
    if let Some(missing) = ["ip", "perf", "taskset"].iter().find_map(|name| find(name).err()) {
        return skip(&missing.to_string());
    }
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().to_str().unwrap();
    let look = || lab(&["run", "s3-fig14", "--white-box", "--out", out]);
    // On a busy machine perf is slower than the load lasts, and the lab says that instead.
    let mut looks = std::iter::repeat_with(look).take(LOOKS_MAX);
    let is_in_time = |output: &Output| !text(&output.stderr).contains("too busy");
    let Some(output) = looks.find(is_in_time) else { return };
    assert!(output.status.success(), "{}", text(&output.stderr));
    let seen = json(&directory.path().join("white-box.json"));
    let boxes = seen["boxes"].as_array().unwrap();
    assert_eq!(boxes.len(), 2, "{seen}");
    for one in boxes {
        assert!(one["samples"]["kernel"].as_u64().unwrap() > 0, "{one}");
        assert!(one["calls"]["recvfrom"]["calls"].as_u64().unwrap() > 0, "{one}");
        assert!(!one["record"]["counters"].as_object().unwrap().is_empty(), "{one}");
    }
    let page = fs::read_to_string(directory.path().join("white-box.html")).unwrap();
    assert!(page.contains("class=\"pie\"") && page.contains("synchronisation"), "{page}");
    assert!(!page.contains("src=") && !page.contains("href="), "it needs nothing else");
}

#[test]
fn every_definition_sets_what_the_server_takes() {
    let mut refused = Vec::new();
    for experiment in catalogue::all().unwrap() {
        for series in experiment.series.iter().filter(|series| series.contestant == OURS) {
            if let Some(why) = refusal(&experiment, series) {
                refused.push(format!("{}, {}: {why}", experiment.name, series.name));
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn a_definition_with_a_wrong_setting_would_be_noticed() {
    let experiments = catalogue::all().unwrap();
    let experiment = catalogue::find(&experiments, "s0-fig8").unwrap();
    let mut series = experiment.series[0].clone();
    assert_eq!(refusal(experiment, &series), None);
    series.architecture = Some("spet".into());
    assert!(refusal(experiment, &series).is_some_and(|why| why.contains("sped")));
}

#[test]
fn nothing_runs_that_is_not_named() {
    let output = lab(&["run"]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("<NAME>"), "{errors}");
}

#[test]
fn a_definition_that_the_server_would_not_take_is_refused_before_anything_runs() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("own.toml");
    let definition = "name = \"own\"\ntitle = \"x\"\nsource = \"-\"\n\
         rows = [\"M0\"]\nshows = \"x\"\n\
         [workload]\nname = \"one-packet\"\n[axis]\nconnections = 4\n\
         [[series]]\nname = \"a\"\ncontestant = \"flyball\"\narchitecture = \"mt\"\n\
         [[series]]\nname = \"b\"\ncontestant = \"flyball\"\nset = { \"accept.limt\" = 1 }\n\
         [[claims]]\nsays = \"x\"\nmeasure = \"goodput_per_s\"\nleft = \"a\"\nright = \"b\"\n\
         at = \"last\"\nis = \"equal\"\n";
    fs::write(&file, definition).unwrap();
    let output = lab(&["run", file.to_str().unwrap(), "--out", directory.path().to_str().unwrap()]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("own: series \"b\"") && errors.contains("accept.limit"), "{errors}");
}
