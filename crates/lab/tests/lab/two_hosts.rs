//! Two namespaces as hosts: made, joined, limited, and gone afterwards.

use std::fs;
use std::path::Path;
use std::process::Command;

use flyball_lab::host::{
    CLIENT_ADDRESS, Group, Network, Place, Running, SERVER_ADDRESS, clear_leftovers, find, is_root,
};
use flyball_testkit::wait::DEADLINE;

/// True when what this takes is not there, which is said.
fn skips() -> bool {
    let why = if !is_root() {
        "it takes root".to_owned()
    } else if let Some(missing) = ["ip", "setpriv", "taskset"].iter().find_map(|p| find(p).err()) {
        missing.to_string()
    } else {
        return false;
    };
    eprintln!("skipped: {why}");
    true
}

fn namespaces() -> String {
    let output = Command::new(find("ip").unwrap()).args(["netns", "list"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn clients_reach_a_server_in_another_namespace_and_both_are_gone_afterwards() {
    if skips() {
        return;
    }
    clear_leftovers().unwrap();
    let network = Network::new(0, 1, 128).unwrap();
    network.set_syn_cookies(false).unwrap();
    let name = network.server().to_owned();
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("output");
    let place = |namespace: &str| Place {
        namespace: Some(namespace.into()),
        cpus: Some("0".into()),
        ..Place::default()
    };
    let shell = Path::new("/bin/sh");
    let mut asked = place(network.server()).command(shell).unwrap();
    asked.args(["-c", "cat /proc/sys/net/core/somaxconn /proc/sys/net/ipv4/tcp_syncookies"]);
    let mut running = Running::start(&mut asked, &output).unwrap();
    assert!(running.wait(DEADLINE, &|| false).is_some_and(|end| end.success()));
    assert_eq!(fs::read_to_string(&output).unwrap(), "128\n0\n");

    let mut route = place(network.client()).command(&find("ip").unwrap()).unwrap();
    route.args(["route", "get", &SERVER_ADDRESS.to_string()]);
    let mut running = Running::start(&mut route, &output).unwrap();
    assert!(running.wait(DEADLINE, &|| false).is_some_and(|end| end.success()));
    let text = fs::read_to_string(&output).unwrap();
    assert!(text.contains(&format!("src {CLIENT_ADDRESS}")), "{text}");

    let group = Group::new("both", None);
    let joins = group.as_ref().map(Group::joins).unwrap_or_default();
    let both = Place { joins, ..place(network.server()) };
    let mut asked = both.command(shell).unwrap();
    asked.args(["-c", "cat /proc/self/cgroup; cat /proc/net/dev"]);
    let mut running = Running::start(&mut asked, &output).unwrap();
    assert!(running.wait(DEADLINE, &|| false).is_some_and(|end| end.success()));
    let text = fs::read_to_string(&output).unwrap();
    assert!(group.is_err() || text.contains("-both"), "{text}");
    assert!(text.contains(&format!("fl{}s", std::process::id())), "{text}");

    drop(network);
    assert!(!namespaces().contains(&name));
}

#[test]
fn what_a_lab_that_is_gone_left_is_cleared() {
    if skips() {
        return;
    }
    // No process has this id: it is beyond the largest that the kernel gives.
    let name = "flyball-lab-99999999-s";
    let ip = find("ip").unwrap();
    assert!(Command::new(ip).args(["netns", "add", name]).status().unwrap().success());
    // Two at once, as two laboratories may that are started together.
    let other = std::thread::spawn(|| clear_leftovers().unwrap());
    clear_leftovers().unwrap();
    other.join().unwrap();
    assert!(!namespaces().contains(name));
}

#[test]
fn a_group_counts_the_time_of_its_processes_and_limits_their_memory() {
    if skips() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let group = Group::new("test", Some(64 << 20));
    let limited = |group: Group| group.slow_disk(8 << 20, directory.path()).map(|()| group);
    let group = match group.and_then(limited) {
        Ok(group) => group,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let place = Place { joins: group.joins(), ..Place::default() };
    let output = directory.path().join("output");
    let mut busy = place.command(Path::new("/bin/sh")).unwrap();
    busy.args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]);
    let mut running = Running::start(&mut busy, &output).unwrap();
    assert!(running.wait(DEADLINE, &|| false).is_some_and(|end| end.success()));
    assert!(group.cpu_ns().unwrap() > 1_000_000, "{:?}", group.cpu_ns());
    assert!(group.anonymous().is_some() && group.page_cache().is_some());
    assert!(group.disk_reads().is_some() && group.processes().is_empty());

    // A twentieth of a processor: what took no time before now takes some.
    group.slow_cpu(0.05).unwrap();
    let (begun, before) = (std::time::Instant::now(), group.cpu_ns().unwrap());
    let mut busy = place.command(Path::new("/bin/sh")).unwrap();
    busy.args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]);
    let mut running = Running::start(&mut busy, &output).unwrap();
    assert!(running.wait(DEADLINE, &|| false).is_some_and(|end| end.success()));
    let used = (group.cpu_ns().unwrap() - before) as f64 / 1e9;
    let took = begun.elapsed().as_secs_f64();
    assert!(used <= 0.2 * took, "{used} s of {took} s");
    group.slow_cpu(1.0).unwrap();

    let mut large = place.command(Path::new("/bin/sh")).unwrap();
    large.args(["-c", "head -c 200000000 /dev/zero | tail"]);
    let mut running = Running::start(&mut large, &output).unwrap();
    let end = running.wait(DEADLINE, &|| false);
    assert!(end.is_some_and(|end| !end.success()), "200 MB fitted into 64 MiB: {end:?}");
}
