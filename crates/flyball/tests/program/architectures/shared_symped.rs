//! What is special to `shared-symped`: processes that share descriptors and no memory, files that
//! are opened once for all of them, and what is left of one that is killed: nothing.
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::common::responder::{self, ANSWER, CONTENT, Responder};
use crate::common::{
    Launch, Server, Site, children, get, has, is_running, last_get, proc_status, signal, text,
    wait_for, within,
};
use flyball_sys::process::{Shared, share};
use flyball_testkit::{Client, wait};

/// Connections that are kept while processes die: so many that each process has some.
const KEPT: usize = 64;

/// Links at which each process is asked for something while another dies.
const LINKS: usize = 16;

/// Processes that are killed under load.
const KILLS: usize = 20;

/// The same where the loop accepts and closes in other ways.
const FEWER_KILLS: usize = 6;

/// How often a generation is tried.
const TRIALS: usize = 5;

/// Clients that load the server meanwhile.
const CLIENTS: usize = 6;

/// Files that are kept open meanwhile.
const FILES_MAX: usize = 3;

fn launch(site: &Site, processes: &str) -> Launch {
    Launch::new(site, "shared-symped").args(&["--workers", processes])
}

/// The processes of the group, once there are so many.
#[track_caller]
fn group(server: &Server, count: usize) -> Vec<u32> {
    let leader = server.worker();
    wait_for("the processes of the group", || {
        Some(children(leader)).filter(|processes| processes.len() == count)
    })
}

/// What the descriptors are of that stand in the table which this process uses.
fn descriptors(process: u32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{process}/fd")).expect("the process runs");
    let target = |entry: std::io::Result<std::fs::DirEntry>| {
        Some(std::fs::read_link(entry.ok()?.path()).ok()?.to_string_lossy().into_owned())
    };
    entries.filter_map(target).collect()
}

/// The same, once so many processes have opened what each needs.
#[track_caller]
fn descriptors_of_all(leader: u32, processes: usize) -> Vec<String> {
    wait_for("each process to be ready", || {
        let all = descriptors(leader);
        let ready = all.iter().filter(|target| target.contains("[eventpoll]")).count();
        (ready == processes).then_some(all)
    })
}

#[test]
fn the_processes_share_descriptors_and_no_memory() {
    let site = Site::with(&[("small.txt", b"small")]);
    let server = launch(&site, "3").start();
    let leader = server.worker() as i32;
    for process in group(&server, 3) {
        let shares = |what| share(leader, process as i32, what).expect("both are there");
        assert!(shares(Shared::Descriptors) && !shares(Shared::Memory));
    }
    let master = server.master() as i32;
    assert!(!share(leader, master, Shared::Descriptors).expect("both are there"));
}

/// Which processes made a system call with this in it and without an error, in a trace.
fn callers(trace: &str, call: &str, with: &str) -> Vec<String> {
    let done = |line: &&str| line.contains(call) && line.contains(with) && !line.contains("= -1");
    let pid = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
    trace.lines().filter(done).map(pid).collect()
}

#[test]
fn a_file_is_opened_once_however_many_processes_serve_it() {
    if !has("strace") {
        return;
    }
    let site = Site::with(&[("small.txt", b"small"), ("other.txt", b"other")]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let log = within(&directory, "trace");
    let calls = "trace=openat2,accept4";
    let strace = ["strace", "-f", "-qq", "-e", calls, "-o", text(&log), "--"];
    let launch = Launch::under(&strace, &site, "shared-symped").args(&["--workers", "4"]);
    let settings = ["cache.revalidate=1h", "shared-symped.partitions=4"];
    let mut server = settings.iter().fold(launch, |launch, setting| launch.set(setting)).start();
    let tracer = server.child.id();
    server.watches(children(tracer)[0]);
    for _ in 0..100 {
        for (path, body) in [("/small.txt", "small"), ("/other.txt", "other")] {
            assert_eq!(server.connect().ask(last_get(path)).text(), body);
        }
    }
    // What the last answers needed was written before they came.
    let trace = std::fs::read_to_string(&log).expect("there is a trace");
    let served: HashSet<_> = callers(&trace, "accept4", "").into_iter().collect();
    assert_eq!(served.len(), 4, "each process has served: {trace}");
    for name in ["\"small.txt\"", "\"other.txt\""] {
        assert_eq!(callers(&trace, "openat2", name).len(), 1, "{name}: {trace}");
    }
}

/// Whether a connection that was answered before is answered again; if not, it was closed.
fn is_answered(client: &mut TcpStream) -> bool {
    let asked = client.write_all(get("/small.txt").as_bytes());
    let mut answer = [0; 1024];
    asked.is_ok() && matches!(client.read(&mut answer), Ok(1..))
}

#[test]
fn the_clients_of_a_killed_process_see_a_close_and_those_of_others_nothing() {
    let site = Site::with(&[("small.txt", b"small")]);
    let server = launch(&site, "3").set("shared-symped.partitions=3").start();
    let processes = group(&server, 3);
    let mut clients: Vec<TcpStream> = (0..KEPT)
        .map(|_| {
            let mut client = TcpStream::connect(("127.0.0.1", server.port)).expect("it listens");
            client.set_read_timeout(Some(wait::DEADLINE)).expect("a time-out");
            assert!(is_answered(&mut client));
            client
        })
        .collect();
    for (killed, process) in processes.iter().enumerate() {
        let before = clients.len();
        signal(*process, "KILL");
        server.errors.wait_for("its end", |said| {
            said.matches("was ended by signal 9; it is restarted").count() > killed
        });
        clients.retain_mut(is_answered);
        assert!(clients.len() < before, "a killed process had clients");
        assert!(!clients.is_empty() || killed == 2, "the others had clients too");
    }
    assert!(clients.is_empty(), "{} connections outlived their processes", clients.len());
    group(&server, 3);
    assert_eq!(server.connect().ask(get("/small.txt")).text(), "small");
}

#[test]
fn the_link_of_a_request_that_is_made_again_outlives_the_death_of_another_process() {
    let (front, listener) = Responder::bind();
    let launch = Launch::bare::<&str>(&[]).args(&["--config", &front.config(4)]);
    let launch = launch.args(&["--listen", "127.0.0.1:0", "--arch", "shared-symped"]);
    let settings = ["workers=2", "shared-symped.partitions=2"];
    let server = settings.iter().fold(launch, |launch, setting| launch.set(setting)).start();
    let before = group(&server, 2);
    let accept = || {
        let mut link = listener.accept().expect("a link").0;
        responder::request(&mut link).expect("a request");
        link
    };
    // Each asks on a link that was kept, which ends then: it is asked again on another.
    let mut asked: Vec<(Client, UnixStream)> = Vec::new();
    for _ in 0..LINKS {
        let mut client = server.connect();
        client.send(get(responder::PATH));
        let mut kept = accept();
        kept.write_all(ANSWER).expect("the link is there");
        assert_eq!(client.response().body, CONTENT);
        client.send(get(responder::PATH));
        responder::request(&mut kept).expect("the same link");
        drop(kept);
        asked.push((client, accept()));
    }
    signal(before[0], "KILL");
    // What the dead left is swept before another comes.
    wait_for("another process", || {
        let now = children(server.worker());
        (now.len() == 2 && !now.contains(&before[0])).then_some(())
    });
    // The clients of the dead see the end of their connections.
    asked.retain_mut(|(client, _)| !client.arrived());
    assert!((1..LINKS).contains(&asked.len()), "{} of {LINKS} are left", asked.len());
    for (mut client, mut link) in asked {
        link.write_all(ANSWER).expect("the link is there");
        assert_eq!(client.response().body, CONTENT);
    }
}

/// Asks for one file on a connection of its own. `None` when the connection broke, as those of a
/// killed process do.
fn ask_once(port: u16, path: &str) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(wait::DEADLINE)).ok()?;
    stream.write_all(last_get(path).as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let fields = String::from_utf8(answer[..head].to_vec()).expect("a head is text");
    let length = fields.lines().find_map(|line| line.strip_prefix("Content-Length: "))?;
    assert!(fields.starts_with("HTTP/1.1 200 "), "{fields}");
    let body = answer.split_off(head);
    (body.len() == length.parse::<usize>().expect("a number")).then_some(body)
}

/// Whether a process runs at this moment.
fn is_at_work(process: u32) -> bool {
    proc_status(process, "State").is_some_and(|state| state.starts_with('R'))
}

/// A file's content, which tells its name.
fn content(file: usize) -> Vec<u8> {
    format!("file {file} ").repeat(1_000 * (file + 1)).into_bytes()
}

/// Asks for one file after the other until told to stop; every whole answer is that file.
fn load(port: u16, first: usize, stop: &AtomicBool, whole: &AtomicU64) {
    for file in (first..).map(|at| at % 8) {
        if stop.load(Relaxed) {
            return;
        }
        if let Some(body) = ask_once(port, &format!("/{file}.txt")) {
            assert!(body == content(file), "file {file} is another one");
            whole.fetch_add(1, Relaxed);
        }
    }
}

/// Ends the load when it is let go of, also by a failure: who waits for its end would wait forever.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Kills so many processes under load and looks at what is left of them.
fn kill_under_load(kills: usize, settings: &[&str]) {
    let names: Vec<String> = (0..8).map(|file| format!("{file}.txt")).collect();
    let contents: Vec<Vec<u8>> = (0..8).map(content).collect();
    let files: Vec<(&str, &[u8])> =
        names.iter().map(String::as_str).zip(contents.iter().map(Vec::as_slice)).collect();
    let site = Site::with(&files);
    // So few files and paths that every request evicts, under both locks.
    let small = [&format!("cache.files={FILES_MAX}"), "cache.paths=3", "cache.revalidate=1ms"];
    let launch = small.iter().fold(launch(&site, "8"), |launch, setting| launch.set(setting));
    let launch = settings.iter().fold(launch, |launch, setting| launch.set(setting));
    let server = launch.start();
    group(&server, 8);
    let leader = server.worker();
    let before = descriptors_of_all(leader, 8).len();
    let (stop, whole) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _load = Ends(&stop);
        for first in 0..CLIENTS {
            let (stop, whole, port) = (&stop, &whole, server.port);
            scope.spawn(move || load(port, first, stop, whole));
        }
        for kill in 0..kills {
            let answered = whole.load(Relaxed);
            wait_for("answers between kills", || {
                (whole.load(Relaxed) > answered + 20).then_some(())
            });
            // One that is at work, and not always the same.
            let victim = wait_for("a process at work", || {
                let mut processes = children(leader);
                let len = processes.len().max(1);
                processes.rotate_left(kill % len);
                processes.into_iter().find(|process| is_at_work(*process))
            });
            signal(victim, "KILL");
            wait_for("its end", || (!is_running(victim)).then_some(()));
        }
    });
    let ended = |said: &str| said.matches("was ended by signal 9").count();
    server.errors.wait_for("each end to be said", |said| ended(said) >= kills);
    group(&server, 8);
    let closed = wait::until(wait::DEADLINE, || {
        (descriptors(leader).len() <= before + FILES_MAX).then_some(())
    });
    assert!(closed.is_some(), "{before} before and now {:#?}", descriptors(leader));
    for (file, content) in contents.iter().enumerate() {
        assert!(ask_once(server.port, &format!("/{file}.txt")).as_ref() == Some(content));
    }
    let said = server.errors.so_far();
    assert_eq!(ended(&said), kills, "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn processes_killed_under_load_leak_no_descriptor_and_no_lock() {
    kill_under_load(KILLS, &[]);
}

#[test]
fn no_way_to_accept_or_to_close_leaks_a_descriptor() {
    let accepting = [
        "experiment.accept-on-close=true",
        "experiment.accept-every-loop=true",
        "experiment.accept-extra=1",
    ];
    let closing = ["close.reset=true", "timeout.idle=50ms", "send.blocking=true"];
    kill_under_load(FEWER_KILLS, &[&accepting[..], &closing].concat());
}

/// Bytes of files in memory that stand in the table which this process uses.
fn bytes_in_memory(process: u32) -> u64 {
    let entries = std::fs::read_dir(format!("/proc/{process}/fd")).expect("the process runs");
    let bytes = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.ok()?.path();
        let target = std::fs::read_link(&path).ok()?;
        let is_in_memory = target.to_string_lossy().starts_with("/memfd:");
        Some(std::fs::metadata(path).ok().filter(|_| is_in_memory)?.len())
    };
    entries.filter_map(bytes).sum()
}

#[test]
fn coded_bodies_stay_within_the_limit_of_all_processes_and_texts_go_on_being_coded() {
    const FILES: usize = 40;
    const LIMIT: u64 = 64 * 1024;
    // Its hexadecimal digits shrink to half and no further.
    let digits = |file: usize| -> String {
        let mut state = file as u64 + 1;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            format!("{:08x}", state >> 32)
        };
        (0..2_000).map(|_| next()).collect()
    };
    let texts: Vec<String> = (0..FILES).map(digits).collect();
    let names: Vec<String> = (0..FILES).map(|file| format!("{file}.txt")).collect();
    let files: Vec<(&str, &[u8])> =
        names.iter().zip(&texts).map(|(name, text)| (&**name, text.as_bytes())).collect();
    let site = Site::with(&files);
    let mut most = Vec::new();
    for limit in ["cache.content=64KiB", "cache.content=128MiB"] {
        let server = launch(&site, "3").set(limit).start();
        group(&server, 3);
        let mut held = 0;
        for _ in 0..2 {
            for name in &names {
                let asks = last_get(&format!("/{name}"));
                let asks = asks.replace("\r\n\r\n", "\r\nAccept-Encoding: gzip\r\n\r\n");
                // Coding has a share of time, of which a machine that stands still takes some.
                wait_for(&format!("{limit} {name}: a coded answer"), || {
                    let answer = server.connect().ask(&asks);
                    (answer.field("Content-Encoding") == Some("gzip")).then_some(())
                });
                held = held.max(bytes_in_memory(server.worker()));
            }
        }
        most.push(held);
    }
    // One is being sent, or was just now; without the limit there are many times more.
    assert!((LIMIT / 2..=LIMIT + 16 * 1024).contains(&most[0]), "{most:?}");
    assert!(most[1] > 4 * LIMIT, "{most:?}");
}

/// The CPUs that a process may use, as the kernel writes them.
fn cpus(process: u32) -> String {
    proc_status(process, "Cpus_allowed_list").expect("the process runs")
}

#[test]
fn pinned_processes_are_as_many_as_the_cpus_and_their_leader_is_not_pinned() {
    let site = Site::with(&[("small.txt", b"small")]);
    let server = Launch::new(&site, "shared-symped").set("pin=true").start();
    let (count, allowed) = (flyball_sys::process::cpu_allowance(), process_cpus());
    let mut expected: Vec<String> = (0..count).map(|at| allowed[at].to_string()).collect();
    expected.sort_unstable();
    let processes = group(&server, count);
    wait_for("pinned processes", || {
        let mut found: Vec<String> = processes.iter().map(|process| cpus(*process)).collect();
        found.sort_unstable();
        (found == expected).then_some(())
    });
    assert_eq!(cpus(server.worker()), cpus(std::process::id()));
}

fn process_cpus() -> Vec<usize> {
    flyball_sys::process::allowed_cpus()
}

#[test]
fn processes_are_bound_to_the_cpus_that_are_named() {
    let site = Site::with(&[("small.txt", b"small")]);
    let last = process_cpus().last().expect("there is a CPU").to_string();
    let launch = launch(&site, "3").set("pin=true").set(&format!("pin-cpus={last}"));
    let server = launch.set("shared-symped.partitions=3").start();
    for process in group(&server, 3) {
        wait_for("the affinity", || (cpus(process) == last).then_some(()));
    }
}

#[test]
fn the_listening_socket_of_a_partition_prefers_the_cpu_of_its_processes() {
    if !has("strace") {
        return;
    }
    let site = Site::with(&[("small.txt", b"small")]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let log = within(&directory, "trace");
    let strace = ["strace", "-qq", "-e", "trace=setsockopt", "-o", text(&log), "--"];
    let launch = Launch::under(&strace, &site, "shared-symped").args(&["--workers", "2"]);
    let settings = ["shared-symped.partitions=2", "pin=true", "accept.incoming-cpu=true"];
    let server = settings.iter().fold(launch, |launch, setting| launch.set(setting)).start();
    let allowed = process_cpus();
    let trace = std::fs::read_to_string(&log).expect("there is a trace");
    let is_set = |line: &&str| line.contains("SO_INCOMING_CPU");
    let lines: Vec<&str> = trace.lines().filter(is_set).collect();
    assert_eq!(lines.len(), 2, "{trace}");
    for (partition, line) in lines.iter().enumerate() {
        let cpu = allowed[partition % allowed.len()];
        assert!(line.contains(&format!("[{cpu}]")), "{line}");
    }
    assert_eq!(server.connect().ask(get("/small.txt")).text(), "small");
}

#[test]
fn a_generation_of_which_a_process_fails_at_once_is_taken_back() {
    let site = Site::with(&[("small.txt", b"small")]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let admin = format!("unix:{}", text(&within(&directory, "admin")));
    let launch = Launch::new(&site, "sped").args(&["--workers", "2", "--admin", &admin]);
    let server = launch.start();
    let back = "shared-symped failed; sped runs again";
    // On a busy machine the trial may be over before the process fails.
    for _ in 0..TRIALS {
        for arch in ["sped", "shared-symped"] {
            let ctl = ["ctl", "set", "arch", arch, "--admin", &admin];
            let told = Command::new(env!("CARGO_BIN_EXE_flyball")).args(ctl).output();
            assert!(told.expect("flyball runs").status.success());
        }
        let process = wait_for("a process of the group", || {
            let grandchildren = children(server.master()).into_iter().flat_map(children);
            grandchildren.last()
        });
        let failures = server.errors.so_far().matches("ended by signal 6").count();
        signal(process, "ABRT");
        server.errors.wait_for("its end", |said| {
            let failed = said.matches("ended by signal 6; it is restarted").count() > failures;
            failed || said.contains(back)
        });
        if server.errors.so_far().contains(back) {
            assert_eq!(server.connect().ask(get("/small.txt")).text(), "small");
            return;
        }
    }
    panic!("{}", server.errors.so_far());
}

#[test]
fn a_process_that_somebody_else_stops_is_replaced_and_the_port_goes_on() {
    let site = Site::with(&[("small.txt", b"small")]);
    let server = launch(&site, "2").set("shared-symped.partitions=1").start();
    let before = group(&server, 2);
    signal(before[0], "TERM");
    server.errors.wait_for("its end", |said| said.contains("process 0 exited with code 0"));
    for _ in 0..20 {
        assert_eq!(server.connect().ask(get("/small.txt")).text(), "small");
    }
    let after = group(&server, 2);
    assert!(!after.contains(&before[0]) && after.contains(&before[1]));
}

#[test]
fn the_group_goes_when_its_leader_is_killed_and_another_comes() {
    let site = Site::with(&[("small.txt", b"small")]);
    let server = launch(&site, "2").start();
    let (leader, before) = (server.worker(), group(&server, 2));
    signal(leader, "KILL");
    wait_for("another leader", || {
        let leaders = children(server.master());
        (leaders.len() == 1 && leaders[0] != leader).then_some(())
    });
    let after = group(&server, 2);
    assert!(before.iter().all(|process| !after.contains(process)));
    wait_for("the old processes to end", || {
        before.iter().all(|process| !Path::new(&format!("/proc/{process}")).exists()).then_some(())
    });
    let mut client: Client = server.connect();
    assert_eq!(client.ask(get("/small.txt")).text(), "small");
}
