//! The helpers of `amped`, seen from outside: when one is asked, how many there are, and what
//! happens when one is killed.
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::common::{
    Launch, Server, Site, children, get, has, is_running, proc_status, rest, signal, title,
    wait_for,
};
use flyball_sys::file;
use flyball_sys::residency::{Residency, Resident, Test};
use flyball_testkit::slow_disk::{Operation, SlowDisk, content};
use flyball_testkit::{Client, skip};

const KINDS: [&str; 2] = ["thread", "process"];

/// How old a file must be before the loop lets writes to it settle itself, with something to spare.
const QUIET_MS: u128 = 2_200;

const FILES: [&str; 4] = ["/a.txt", "/b.txt", "/c.txt", "/d.txt"];

const LARGE: &str = "/large.bin";

/// The architectures that have helpers.
const HELPED: [&str; 3] = ["amped", "knot-c", "knot-a"];

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// Small files and a large one, unchanged for a while.
fn quiet_site() -> Site {
    let small = bytes(20_000);
    let mut files: Vec<(&str, &[u8])> = FILES.iter().map(|name| (&name[1..], &small[..])).collect();
    let large = bytes(1_000_000);
    files.push((&LARGE[1..], &large));
    let site = Site::with(&files);
    wait_for("the files are quiet", || {
        let stamp = site.path().join(&LARGE[1..]).metadata().ok()?;
        let changed = Duration::new(stamp.ctime() as u64, stamp.ctime_nsec() as u32);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
        (now.saturating_sub(changed).as_millis() >= QUIET_MS).then_some(())
    });
    site
}

fn amped(root: &std::path::Path, kind: &str, settings: &[&str]) -> Launch {
    with_helpers("amped", root, kind, settings)
}

/// An architecture that has helpers.
fn with_helpers(arch: &str, root: &std::path::Path, kind: &str, settings: &[&str]) -> Launch {
    let launch = Launch::bare::<&str>(&[]).arg(root);
    let launch = launch.args(&["--listen", "127.0.0.1:0", "--arch", arch, "--workers", "1"]);
    let launch = launch.args(&["--admin", "127.0.0.1:0"]);
    let launch = launch.set(&format!("amped.helper-kind={kind}"));
    settings.iter().fold(launch, |launch, setting| launch.set(setting))
}

/// The worker: the older of the master's two children, of which the other is the admin process.
fn worker(server: &Server) -> u32 {
    server.children(2)[0]
}

/// How many helpers a worker has.
fn helpers(worker: u32, kind: &str) -> usize {
    match kind {
        "thread" => {
            let threads = proc_status(worker, "Threads").and_then(|threads| threads.parse().ok());
            threads.unwrap_or(1) - 1
        }
        _ => helper_processes(worker).len(),
    }
}

/// The helper processes of a worker: the children of its spawner.
fn helper_processes(worker: u32) -> Vec<u32> {
    children(worker).into_iter().flat_map(children).filter(|helper| is_running(*helper)).collect()
}

/// Slow files, more than there are helpers.
fn slow_names() -> Vec<&'static str> {
    let slow = |name: &&str| name.starts_with("slow/") && *name != "slow/empty.txt";
    flyball_testkit::slow_disk::FILES.iter().map(|file| file.0).filter(slow).collect()
}

/// A counter, once `answers` requests are in it.
#[track_caller]
fn counted(server: &Server, answers: u64, name: &str) -> u64 {
    wait_for("the counters", || (server.counter("requests") == answers).then_some(()));
    server.counter(name)
}

/// Pushes a file's pages out of memory. The kernel keeps those that are in use just then.
fn push_out(site: &Site, name: &str) {
    let path = site.path().join(&name[1..]);
    let output = format!("of={}", path.display());
    let words = [&output[..], "oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none"];
    let file = File::open(path).expect("it is there");
    let len = file.metadata().expect("it has a size").len();
    wait_for("pages to leave the memory", || {
        assert!(Command::new("dd").args(words).status().expect("dd runs").success());
        let seen = Residency::by(Test::Cachestat).sees(&file, 0, len as usize, len);
        (seen != Resident::Yes).then_some(())
    });
}

/// Whether pages of a site's files can be pushed out at all.
fn is_on_disk(site: &Site) -> bool {
    let on_disk = !file::is_memory(File::open(site.path()).expect("it is there"));
    if !on_disk {
        skip("the directory for temporary files is in memory");
    }
    on_disk && has("dd")
}

/// Pushes a file out and asks for it until that took work of a helper: looking whether pages are
/// there has the kernel read them ahead, and on a busy machine they may come before it looks. Gives
/// the helpers' work so far, and the requests that were made, `asked` of them before.
#[track_caller]
fn asked_until_a_helper_is_needed(
    site: &Site,
    server: &Server,
    name: &str,
    mut asked: u64,
) -> (u64, u64) {
    let (mut client, before) = (server.connect(), counted(server, asked, "helper_jobs"));
    wait_for("a helper's work", || {
        push_out(site, name);
        assert_whole(&mut client, name);
        asked += 1;
        let jobs = counted(server, asked, "helper_jobs");
        (jobs > before).then_some((jobs, asked))
    })
}

#[track_caller]
fn assert_whole(client: &mut Client, name: &str) {
    let expected = bytes(if name == LARGE { 1_000_000 } else { 20_000 });
    let answer = client.ask(get(name));
    assert_eq!(answer.status(), 200, "{name}");
    assert!(answer.body == expected, "{name} differs");
}

#[test]
fn files_in_memory_need_no_helper_although_no_cache_holds_them() {
    let site = quiet_site();
    for kind in KINDS {
        let server = amped(site.path(), kind, &["cache.paths=0", "cache.content=0"]).start();
        let mut client = server.connect();
        for name in FILES.iter().chain([&LARGE]).chain(&FILES) {
            assert_whole(&mut client, name);
        }
        assert_eq!(counted(&server, 9, "helper_jobs"), 0, "{kind}");
        assert!(server.counter("disk_waits") >= 9, "{kind}");
        assert_eq!(server.counter("helpers_started"), 0, "{kind}");
    }
}

#[test]
fn pages_that_are_not_in_memory_and_names_that_nobody_asked_for_need_a_helper() {
    let site = quiet_site();
    if !is_on_disk(&site) {
        return;
    }
    for kind in KINDS {
        let server = amped(site.path(), kind, &["cache.content=0"]).start();
        let mut client = server.connect();
        let (for_pages, asked) = asked_until_a_helper_is_needed(&site, &server, FILES[0], 0);
        let absent = format!("/absent-{kind}");
        assert_eq!(client.ask(get(&absent)).status(), 404);
        assert_eq!(counted(&server, asked + 1, "helper_jobs"), for_pages + 1, "{kind}");
        // Now the kernel knows that there is no such name, and so does the cache.
        assert_eq!(client.ask(get(&absent)).status(), 404);
        assert_eq!(counted(&server, asked + 2, "helper_jobs"), for_pages + 1, "{kind}");
    }
}

#[test]
#[ignore = "full tier"]
fn every_residency_test_and_way_to_send_gives_the_same_bytes() {
    let site = quiet_site();
    let evicts = is_on_disk(&site);
    for kind in KINDS {
        for test in ["auto", "nowait", "cachestat", "mincore"] {
            for mode in ["copy", "sendfile", "mapped"] {
                let (test, mode) = (format!("amped.residency={test}"), format!("send.mode={mode}"));
                // Pages that stay mapped would not be pushed out.
                let none_kept = ["send.piece=64KiB", "cache.content=0", "cache.mapped=0"];
                let settings = [&[&test[..], &mode][..], &none_kept].concat();
                let server = amped(site.path(), kind, &settings).start();
                let mut asked = 1;
                assert_whole(&mut server.connect(), LARGE);
                for name in FILES.iter().chain([&LARGE]) {
                    if evicts {
                        (_, asked) = asked_until_a_helper_is_needed(&site, &server, name, asked);
                    } else {
                        assert_whole(&mut server.connect(), name);
                    }
                }
            }
        }
    }
}

#[test]
fn helpers_are_started_on_demand_kept_in_reserve_and_reaped_when_idle() {
    for kind in KINDS {
        let Some(disk) = SlowDisk::mount(Duration::ZERO) else { return };
        let settings = ["amped.helpers=4", "amped.reserve=1", "amped.idle=50ms"];
        let server = amped(disk.root(), kind, &settings).start();
        let worker = worker(&server);
        assert_eq!(helpers(worker, kind), 0, "{kind}");
        let shut = disk.shut(Operation::Open);
        let slow = slow_names();
        let mut clients: Vec<Client> = slow.iter().map(|_| server.connect()).collect();
        for (at, (client, name)) in clients.iter_mut().zip(&slow).enumerate() {
            client.send(get(&format!("/{name}")));
            shut.wait_for((at + 1).min(4));
            assert_eq!(helpers(worker, kind), (at + 1).min(4), "{kind}");
        }
        shut.open();
        for (client, name) in clients.iter_mut().zip(&slow) {
            assert!(client.response().body == content(name), "{kind}: {name}");
        }
        wait_for("the reserve alone is left", || (helpers(worker, kind) == 1).then_some(()));
        // On a busy machine one may be idle, end, and be missed while the others still work.
        let (started, reaped) = wait_for("all others are counted", || {
            let (started, reaped) =
                (server.counter("helpers_started"), server.counter("helpers_reaped"));
            (started == reaped + 1).then_some((started, reaped))
        });
        assert!(started >= 4 && reaped >= 3, "{kind}: {started}, {reaped}");
        // The one in reserve is enough for one at a time.
        assert_eq!(clients[0].ask(get("/slow/none-9")).status(), 404, "{kind}");
        assert_eq!(counted(&server, slow.len() as u64 + 1, "helpers_started"), started, "{kind}");
        assert_eq!(server.counter("helpers_died"), 0, "{kind}");
    }
}

#[test]
#[ignore = "full tier"]
fn helper_processes_that_are_killed_under_load_lose_no_request() {
    for arch in HELPED {
        killed_under_load_they_lose_no_request(arch);
    }
}

fn killed_under_load_they_lose_no_request(arch: &str) {
    const CLIENTS: usize = 4;
    const REQUESTS: usize = 60;
    const KILLS: usize = 10;
    let Some(disk) = SlowDisk::mount(Duration::from_millis(1)) else { return };
    let settings = ["amped.helpers=4", "cache.paths=0", "cache.content=0", "send.piece=64KiB"];
    let server = with_helpers(arch, disk.root(), "process", &settings).start();
    let worker = worker(&server);
    let (ended, killed) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let load = |at: usize| {
            let mut client = server.connect();
            let names = ["slow/small-0.txt", "slow/small-1.txt", "slow/large-0.bin"];
            let mut asked = 0;
            // Until there was enough of both.
            while asked < REQUESTS || killed.load(Ordering::Relaxed) < KILLS {
                let name = names[(at + asked) % names.len()];
                let answer = client.ask(get(&format!("/{name}")));
                assert_eq!(answer.status(), 200, "{name}");
                assert!(answer.body == content(name), "{name} differs");
                asked += 1;
            }
        };
        let clients: Vec<_> = (0..CLIENTS).map(|at| scope.spawn(move || load(at))).collect();
        scope.spawn(|| {
            let mut dead = Vec::new();
            while !ended.load(Ordering::Relaxed) && dead.len() < KILLS {
                let lives = |helper: &u32| !dead.contains(helper);
                let Some(helper) = helper_processes(worker).into_iter().find(lives) else {
                    std::thread::yield_now();
                    continue;
                };
                kill(helper);
                dead.push(helper);
                killed.store(dead.len(), Ordering::Relaxed);
            }
        });
        let results: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        ended.store(true, Ordering::Relaxed);
        results.into_iter().for_each(|result| result.expect("every answer is right"));
    });
    let all_died = || (server.counter("helpers_died") == KILLS as u64).then_some(());
    wait_for("all who were killed to be counted", all_died);
    server.errors.wait_for("the death", |text| text.contains("a helper process died"));
    assert_eq!(server.children(2)[0], worker, "the worker lived on");
}

#[test]
fn the_work_of_a_helper_that_is_killed_while_it_waits_is_done_by_another() {
    for arch in HELPED {
        killed_while_it_waits_another_does_its_work(arch);
    }
}

fn killed_while_it_waits_another_does_its_work(arch: &str) {
    let Some(disk) = SlowDisk::mount(Duration::ZERO) else { return };
    let server = with_helpers(arch, disk.root(), "process", &[]).start();
    let worker = worker(&server);
    let mut client = server.connect();
    let shut = disk.shut(Operation::Open);
    client.send(get("/slow/small-0.txt"));
    shut.wait_for(1);
    let first = helper_processes(worker);
    assert_eq!(first.len(), 1);
    // A process in the hands of a file system dies when that lets go of it.
    kill(first[0]);
    shut.open();
    let answer = client.response();
    assert_eq!((answer.status(), answer.body), (200, content("slow/small-0.txt")));
    assert_eq!(counted(&server, 1, "helpers_died"), 1);
    // Its parent too, with which the others die.
    let shut = disk.shut(Operation::Open);
    client.send(get("/slow/small-1.txt"));
    shut.wait_for(1);
    kill(children(worker)[0]);
    server.errors.wait_for("the death", |said| said.contains("that starts helpers died"));
    shut.open();
    let answer = client.response();
    assert_eq!((answer.status(), answer.body), (200, content("slow/small-1.txt")));
    wait_for("all three deaths", || (counted(&server, 2, "helpers_died") == 3).then_some(()));
}

/// Lets a process open so many descriptors from now on, or as many as before.
fn limit_descriptors(process: u32, most: usize) {
    let words = ["--pid", &process.to_string(), &format!("--nofile={most}:")];
    assert!(Command::new("prlimit").args(words).status().expect("prlimit runs").success());
}

/// The lowest descriptor that a process has not opened.
fn lowest_free(process: u32) -> usize {
    let is_open =
        |at: &usize| std::fs::symlink_metadata(format!("/proc/{process}/fd/{at}")).is_ok();
    (0..).find(|at| !is_open(at)).expect("there is one")
}

/// Asks for pages that are not in memory where no helper can be had, and again once one can.
fn assert_served_without_helpers(without_descriptors: impl Fn(u32) -> u32) {
    let site = quiet_site();
    if !is_on_disk(&site) || !has("prlimit") {
        return;
    }
    let server = amped(site.path(), "process", &["cache.content=0"]).start();
    let mut client = server.connect();
    assert_whole(&mut client, LARGE);
    assert_eq!(counted(&server, 1, "helpers_started"), 0);
    let worker = worker(&server);
    let process = without_descriptors(worker);
    // It has closed what it was given and does not use.
    rest(process);
    limit_descriptors(process, lowest_free(process));
    let (since, mut asked) = (Instant::now(), 0);
    let (said, lines) = wait_for("a helper that cannot be started", || {
        push_out(&site, LARGE);
        assert_whole(&mut client, LARGE);
        asked += 1;
        let said = server.errors.so_far();
        let lines = said.matches("a helper process cannot be started").count() as u64;
        (lines > 0 && asked >= 3).then_some((said, lines))
    });
    // One a second at most.
    assert!(lines <= since.elapsed().as_secs() + 1, "{said}");
    limit_descriptors(process, 1024);
    wait_for("a helper", || {
        push_out(&site, LARGE);
        assert_whole(&mut client, LARGE);
        (!helper_processes(worker).is_empty()).then_some(())
    });
}

#[test]
fn a_spawner_that_cannot_start_helpers_delays_no_answer_and_is_not_asked_at_once() {
    assert_served_without_helpers(|worker| children(worker)[0]);
}

#[test]
fn a_worker_without_descriptors_for_helpers_answers_and_does_not_ask_at_once() {
    assert_served_without_helpers(|worker| worker);
}

#[test]
fn helper_processes_end_with_their_worker_however_it_ends() {
    let Some(disk) = SlowDisk::mount(Duration::ZERO) else { return };
    let mut server = amped(disk.root(), "process", &[]).start();
    let known = |worker| [children(worker), helper_processes(worker)].concat();
    let first = worker(&server);
    assert_eq!(server.connect().ask(get("/slow/none")).status(), 404);
    let processes = known(first);
    let shown: Vec<String> = processes.iter().map(|process| title(*process)).collect();
    assert_eq!(shown, ["flyball: helper spawner", "flyball: helper"]);
    kill(first);
    let all_ended = |processes: &[u32]| processes.iter().all(|process| !is_running(*process));
    wait_for("their end", || all_ended(&processes).then_some(()));
    let second = wait_for("the next worker", || {
        let workers = children(server.master());
        workers.into_iter().find(|pid| *pid != first && !children(*pid).is_empty())
    });
    assert_eq!(server.connect().ask(get("/slow/none")).status(), 404);
    let processes = known(second);
    signal(server.master(), "TERM");
    assert!(server.ended().success());
    wait_for("their end", || all_ended(&processes).then_some(()));
}

#[test]
fn what_was_probed_is_told() {
    let output = Command::new(env!("CARGO_BIN_EXE_flyball")).args(["arch", "--json"]).output();
    let list: serde_json::Value =
        serde_json::from_slice(&output.expect("it runs").stdout).expect("it is JSON");
    let amped = list.as_array().expect("a list").iter().find(|arch| arch["name"] == "amped");
    let found = &amped.expect("it is listed")["found"];
    for feature in ["before a path is opened", "before bytes are read", "before sendfile"] {
        let chosen = found[format!("residency test {feature}")].as_str();
        assert!(chosen.is_some_and(|chosen| !chosen.is_empty()), "{feature}: {found}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_flyball")).arg("arch").output();
    let text = String::from_utf8(output.expect("it runs").stdout).expect("it is text");
    assert!(text.contains("found: cachestat: "), "{text}");
}

fn kill(process: u32) {
    // It may be gone already.
    let words = ["-c", "kill -s KILL \"$1\" 2>&-", "sh", &process.to_string()];
    let _ = Command::new("sh").args(words).status();
}
