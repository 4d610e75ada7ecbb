//! Ctrl-C, as a terminal sends it to all that runs in front: what the lab and the search for
//! settings have so far is kept, what they set up is undone. What a killed lab left can be cleared.

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use flyball_lab::host::{Disk, find, is_root};
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
/// its end. What it said instead, when it ended before.
fn interrupted_at(arguments: &[&str], sign: &str) -> Result<Ended, String> {
    ended_at(arguments, sign, &mut |child| interrupt_group(child))
}

/// The same, ended in some way. What a shell runs in the background ignores interruptions, and
/// tests that run there would hand that on.
fn ended_at(
    arguments: &[&str],
    sign: &str,
    end: &mut dyn FnMut(&mut Child),
) -> Result<Ended, String> {
    let mut child = Command::new("env")
        .arg("--default-signal=INT")
        .arg(binary())
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("flyball can be started");
    let mut said = child.stderr.take().expect("it is a pipe");
    let (mut errors, mut some) = (String::new(), [0; 4096]);
    let mut is_interrupted = false;
    // Not by lines: one that a run begins with ends with it.
    while let len @ 1.. = said.read(&mut some).expect("it can be read") {
        errors += &String::from_utf8_lossy(&some[..len]);
        if !is_interrupted && errors.contains(sign) {
            end(&mut child);
            is_interrupted = true;
        }
    }
    let status = ended(&mut child);
    let mut output = String::new();
    child.stdout.take().expect("it is a pipe").read_to_string(&mut output).expect("it is UTF-8");
    match is_interrupted {
        true => Ok(Ended { id: child.id(), status, errors, output }),
        false => Err(errors),
    }
}

fn ended(child: &mut Child) -> ExitStatus {
    let status = wait::until(wait::DEADLINE, || child.try_wait().expect("a child"));
    status.expect("who has closed its standard error has ended")
}

/// Namespaces, control groups, directories and mounts of this process.
fn left_behind(id: u32) -> Vec<String> {
    let own = format!("flyball-lab-{id}-");
    let scratch = std::env::temp_dir();
    let directories =
        ["/run/netns", "/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpu"];
    let directories = directories.iter().map(Path::new).chain([scratch.as_path()]);
    let entries = directories.flat_map(|directory| fs::read_dir(directory).into_iter());
    let names = entries.flatten().flatten().map(|entry| entry.path().display().to_string());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mounts = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(str::to_owned);
    names.chain(mounts).filter(|name| name.contains(&own)).collect()
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
#[ignore = "full tier"]
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
    assert_eq!(ended.status.code(), Some(4), "two repetitions tell nothing: {}", ended.errors);
    assert!(ended.output.contains("s3-sec323"), "{}", ended.output);
    assert_eq!(left_behind(ended.id), Vec::<String>::new());
    let kept = fs::read_dir(directory.path().join("runs")).unwrap().count();
    let again = Command::new(binary()).args(&run).arg("--resume").output().unwrap();
    assert_eq!(again.status.code(), Some(4), "{}", String::from_utf8_lossy(&again.stderr));
    assert!(fs::read_dir(directory.path().join("runs")).unwrap().count() > kept);
}

/// By a peer, which has changed its user, in little memory and on a slow disk.
#[test]
#[ignore = "full tier"]
fn what_a_killed_campaign_left_is_cleared() {
    let missing =
        lacks_something().or_else(|| Disk::can_be_made().err().map(|why| why.to_string()));
    if let Some(why) = missing.or_else(|| find("apache2").err().map(|why| why.to_string())) {
        return skip(&why);
    }
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().to_str().unwrap();
    let run = ["lab", "run", "s2-fig8-small", "--seconds", "1", "--repetitions", "1", "--out", out];
    let (mut has_begun, mut had) = (None, Vec::new());
    let killed = ended_at(&run, "] apache", &mut |child| {
        let is_apache = |id: &String| {
            fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name == "apache2\n")
        };
        let begun = || processes_of(child.id()).iter().any(is_apache).then_some(());
        has_begun = wait::until(wait::DEADLINE, begun);
        had = left_behind(child.id());
        child.kill().expect("it is a child");
    });
    // Before anything is looked at, so that nothing stays whatever is found.
    let cleared = Command::new(binary()).args(["lab", "clear"]).output().unwrap();
    assert!(cleared.status.success(), "{}", String::from_utf8_lossy(&cleared.stderr));
    let killed = killed.expect("Apache takes part");
    assert!(has_begun.is_some(), "Apache did not begin: {}", killed.errors);
    for kind in ["-disk-", "/run/netns/", "-server"] {
        assert!(had.iter().any(|name| name.contains(kind)), "no {kind} in {had:?}");
    }
    assert_eq!(left_behind(killed.id), Vec::<String>::new());
}

/// The processes of a lab's server, by its control group of either version.
fn processes_of(lab: u32) -> Vec<String> {
    let name = format!("flyball-lab-{lab}-server/cgroup.procs");
    let trees = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory"];
    let lists =
        trees.iter().filter_map(|tree| fs::read_to_string(Path::new(tree).join(&name)).ok());
    lists.flat_map(|list| list.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
#[ignore = "full tier"]
fn a_search_that_is_interrupted_says_the_best_so_far_and_that_it_is_unconfirmed() {
    if let Some(why) = lacks_something() {
        return skip(&why);
    }
    let directory = tempfile::tempdir().unwrap();
    let (site, out) = (directory.path().join("site"), directory.path().join("out"));
    fs::create_dir(&site).unwrap();
    fs::write(site.join("a.html"), "a".repeat(3_000)).unwrap();
    let (site, out_name) = (site.to_str().unwrap(), out.to_str().unwrap());
    // Beside other tests the half of a budget may be gone before the first comparison.
    let search = |budget| {
        interrupted_at(&["tune", site, "--budget", budget, "--out", out_name], "[screen 1/")
    };
    let ended = search("40s").or_else(|_| search("80s")).expect("it comes to the screen");
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
