//! Ctrl-C, as a terminal sends it to all that runs in front: what the lab and the search for
//! settings have so far is kept, what they set up is undone.
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use flyball_lab::host::{find, is_root};
use flyball_testkit::{binary, interrupt_group, skip, wait};
use serde_json::Value;

/// What is said on the way, and at the end.
struct Ended {
    id: u32,
    status: ExitStatus,
    errors: String,
    output: String,
}

/// Starts the program in a group of its own, interrupts the group when it says this, and waits for
/// its end. `None` when it ended before.
fn interrupted_at(arguments: &[&str], sign: &str) -> Option<Ended> {
    let mut child = Command::new(binary())
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("flyball can be started");
    let mut said = BufReader::new(child.stderr.take().expect("it is a pipe"));
    let mut errors = String::new();
    let mut is_interrupted = false;
    while said.read_line(&mut errors).expect("it is UTF-8") > 0 {
        if !is_interrupted && errors.contains(sign) {
            interrupt_group(&child);
            is_interrupted = true;
        }
    }
    let status = ended(&mut child);
    let mut output = String::new();
    child.stdout.take().expect("it is a pipe").read_to_string(&mut output).expect("it is UTF-8");
    is_interrupted.then_some(Ended { id: child.id(), status, errors, output })
}

fn ended(child: &mut Child) -> ExitStatus {
    let status = wait::until(wait::DEADLINE, || child.try_wait().expect("a child"));
    status.expect("who has closed its standard error has ended")
}

/// Namespaces and control groups of this process, which has ended.
fn left_behind(id: u32) -> Vec<String> {
    let own = format!("flyball-lab-{id}-");
    let directories =
        ["/run/netns", "/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpu"];
    let entries = directories.iter().flat_map(|directory| fs::read_dir(directory).into_iter());
    let names = entries.flatten().flatten().map(|entry| entry.path().display().to_string());
    names.filter(|name| name.contains(&own)).collect()
}

fn lacks_something() -> Option<String> {
    if !is_root() {
        return Some("namespaces and control groups take root".into());
    }
    let missing = ["ip", "setpriv", "taskset"].iter().find_map(|name| find(name).err());
    missing.map(|missing| missing.to_string())
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_campaign_that_is_interrupted_is_undone_and_goes_on() {
    if let Some(why) = lacks_something() {
        return skip(&why);
    }
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().to_str().unwrap();
    let options = ["--quick", "--seconds", "0.3", "--repetitions", "2", "--out", out];
    let run = [&["lab", "run", "s3-sec323"], &options[..]].concat();
    let ended = interrupted_at(&run, "[2/").expect("more than one run is made");
    assert!(ended.errors.contains("interrupted; `--resume` goes on from here"), "{}", ended.errors);
    assert!(ended.status.success(), "{}", ended.errors);
    assert!(ended.output.contains("s3-sec323"), "{}", ended.output);
    assert_eq!(left_behind(ended.id), Vec::<String>::new());
    let kept = fs::read_dir(directory.path().join("runs")).unwrap().count();
    let again = Command::new(binary()).args(&run).arg("--resume").output().unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    assert!(fs::read_dir(directory.path().join("runs")).unwrap().count() > kept);
}

#[test]
fn a_search_that_is_interrupted_says_the_best_so_far_and_that_it_is_unconfirmed() {
    if let Some(why) = lacks_something() {
        return skip(&why);
    }
    let directory = tempfile::tempdir().unwrap();
    let (site, out) = (directory.path().join("site"), directory.path().join("out"));
    fs::create_dir(&site).unwrap();
    fs::write(site.join("a.html"), "a".repeat(3_000)).unwrap();
    let (site, out_name) = (site.to_str().unwrap(), out.to_str().unwrap());
    let run = ["tune", site, "--budget", "40s", "--out", out_name];
    let Some(ended) = interrupted_at(&run, "[screen 1/") else {
        return skip("the machine is too busy");
    };
    assert!(ended.status.success(), "{}", ended.errors);
    let said = "interrupted; the best so far, unconfirmed: ";
    assert!(ended.output.contains(said), "{}\n{}", ended.output, ended.errors);
    assert_eq!(left_behind(ended.id), Vec::<String>::new());
    assert_eq!(json(&out.join("tune.json"))["end"], "interrupted");
    // The default may have been the best so far, and then there is nothing to write.
    if let Ok(config) = fs::read_to_string(out.join("flyball.toml")) {
        assert!(config.contains(&format!("# {said}")), "{config}");
    }
}
