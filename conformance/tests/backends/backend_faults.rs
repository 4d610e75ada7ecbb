//! What goes wrong with programs that answer, and with clients that leave, many times over: nothing
//! of it may stay behind, no descriptor, no process, no memory. `FLYBALL_FAULTS=10000` has that
//! many of each; without it `sped` has 1,000, and `mt` and `uring`, which wait otherwise, fewer.
//! The other architectures share the code that may leave something behind.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use crate::common_programs::on_architectures;
use crate::fastcgi::{self, Front};
use crate::modules;
use flyball_testkit::{Launch, Server, as_ourselves, wait};

/// Of each, on the architecture that has the most.
const MANY: usize = 1_000;

/// Of each, on the others.
const FEW: usize = 25;

/// Looks in turn that find a server alike when it is at rest.
const RESTED_AFTER: u32 = 20;

/// Clients at a time.
const CLIENTS: usize = 24;

/// Of each, before it is waited until all programs have ended: clients leave sooner than programs
/// end, of which only so many may run.
const BATCH: usize = 250;

/// Bytes of memory that a process may have more of afterwards: what an allocator keeps, and stacks
/// that were not touched before. A leak of a few hundred bytes for each request is more.
pub(crate) const MEMORY_MAX: u64 = 3 << 20;

/// What the client does, and what becomes of it.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// No answer comes in the short time that one path has.
    Late,
    /// The answer has this status.
    Refused(&'static str, u16),
    /// The answer begins and is broken off, or is refused if that comes to the same moment.
    BrokenOff(&'static str),
    /// The client leaves when it has sent a part of the body.
    LeavesInBody,
    /// It leaves when it has sent all.
    LeavesUnanswered(&'static str),
    /// It leaves when it has a part of the answer.
    LeavesInAnswer(&'static str),
    /// The same, with a reset.
    ResetsInAnswer(&'static str),
}

const FAULTS_OF_PROGRAMS: [Fault; 11] = [
    Fault::Late,
    Fault::Refused("mid-head", 502),
    Fault::Refused("malformed", 502),
    Fault::Refused("closes", 502),
    Fault::Refused("dies", 502),
    Fault::BrokenOff("mid-body"),
    Fault::BrokenOff("flood"),
    Fault::LeavesInBody,
    Fault::LeavesUnanswered("never"),
    Fault::LeavesInAnswer("flood"),
    Fault::ResetsInAnswer("flood"),
];

/// Of responders none dies, which is followed by a pause, and none is busy for ever with a request
/// whose client has left: nobody would end it.
const FAULTS_OF_RESPONDERS: [Fault; 11] = [
    Fault::Late,
    Fault::Refused("mid-head", 502),
    Fault::Refused("malformed", 502),
    Fault::Refused("closes", 502),
    Fault::Refused("bad-record", 502),
    Fault::BrokenOff("mid-body"),
    Fault::BrokenOff("flood"),
    Fault::LeavesInBody,
    Fault::LeavesUnanswered("slow"),
    Fault::LeavesInAnswer("flood"),
    Fault::ResetsInAnswer("flood"),
];

/// Of modules: one that panics, and clients that leave while it reads and while it writes.
const FAULTS_OF_MODULES: [Fault; 4] = [
    Fault::Refused("panic", 500),
    Fault::LeavesInBody,
    Fault::LeavesInAnswer("stream"),
    Fault::ResetsInAnswer("stream"),
];

/// Of one that waits for times.
const FAULTS_OF_WAITING_MODULES: [Fault; 1] = [Fault::LeavesUnanswered("count")];

impl Fault {
    fn happen(self, server: &Server, path: &str) {
        let mut client = server.connect();
        let get = |name: &str| format!("GET {path}/{name} HTTP/1.1\r\nHost: a\r\n\r\n");
        match self {
            Fault::Late => {
                client.send(format!("GET {path}-late/never HTTP/1.1\r\nHost: a\r\n\r\n"));
                assert_eq!(client.response().status(), 504);
            }
            Fault::Refused(name, status) => {
                client.send(get(name));
                assert_eq!(client.response().status(), status, "{name}");
            }
            Fault::BrokenOff(name) => {
                let head = format!("GET {path}/{name} HTTP/1.1\r\nHost: a\r\n");
                client.send(format!("{head}Connection: close\r\n\r\n"));
                let came = client.rest_before_end();
                let text = String::from_utf8_lossy(&came[..came.len().min(12)]).into_owned();
                assert!(matches!(&*text, "HTTP/1.1 200" | "HTTP/1.1 502" | ""), "{text}");
            }
            Fault::LeavesInBody => {
                let head = format!("POST {path}/sum HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n");
                client.send(format!("{head}\r\n1234"));
            }
            Fault::LeavesUnanswered(name) => client.send(get(name)),
            Fault::LeavesInAnswer(name) | Fault::ResetsInAnswer(name) => {
                client.send(get(name));
                assert_eq!(client.response_head().status(), 200);
                client.take(1_000);
                if let Fault::ResetsInAnswer(_) = self {
                    client.reset();
                }
            }
        }
    }
}

/// What a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holding {
    pub(crate) descriptors: usize,
    pub(crate) memory: u64,
}

/// The processes that the master itself has started.
pub(crate) fn children(server: &Server) -> BTreeSet<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| status_of(*pid, "PPid:") == Some(u64::from(server.pid()))).collect()
}

/// Every process of the server, and of those that it has started.
pub(crate) fn processes(server: &Server) -> BTreeMap<u32, Holding> {
    let mut parents: BTreeMap<u32, u32> = BTreeMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Some(parent) = status_of(pid, "PPid:") {
            parents.insert(pid, parent as u32);
        }
    }
    let mut all = vec![server.pid()];
    let mut at = 0;
    while at < all.len() {
        let parent = all[at];
        all.extend(parents.iter().filter(|(_, of)| **of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    all.into_iter().filter_map(|pid| Some((pid, holding_of(pid)?))).collect()
}

fn status_of(pid: u32, key: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

pub(crate) fn holding_of(pid: u32) -> Option<Holding> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count();
    Some(Holding { descriptors, memory: status_of(pid, "VmRSS:")? * 1024 })
}

/// What the server's processes hold once nothing is under way any more: as few processes as there
/// were, or `None` after a while.
fn at_rest(server: &Server, before: Option<&BTreeMap<u32, Holding>>) -> BTreeMap<u32, Holding> {
    let (mut last, mut alike) = (BTreeMap::new(), 0);
    let rested = wait::until(wait::DEADLINE, || {
        let now = processes(server);
        let same = |(pid, held): (&u32, &Holding)| {
            before.is_none_or(|all| all.get(pid).is_some_and(|b| held.descriptors <= b.descriptors))
        };
        let is_same = match before {
            Some(before) => now.len() == before.len() && now.iter().all(same),
            None => {
                let numbers = |all: &BTreeMap<u32, Holding>| -> Vec<(u32, usize)> {
                    all.iter().map(|(pid, held)| (*pid, held.descriptors)).collect()
                };
                numbers(&now) == numbers(&last)
            }
        };
        last = now;
        alike = if is_same { alike + 1 } else { 0 };
        (alike >= RESTED_AFTER).then_some(())
    });
    assert!(rested.is_some(), "before: {before:?}\nafter: {last:?}");
    last
}

/// How many of each there shall be under an architecture.
fn how_many(architecture: &str) -> usize {
    match std::env::var("FLYBALL_FAULTS") {
        Ok(text) => text.parse().expect("FLYBALL_FAULTS is a number"),
        Err(_) if architecture == "sped" => MANY,
        Err(_) => FEW,
    }
}

fn have_all_happen(server: &Server, path: &str, faults: &[Fault], count: usize) {
    assert_eq!(ask(server, path), 200);
    let others = at_rest(server, None).len();
    for &fault in faults {
        let began = Instant::now();
        for first in (0..count).step_by(BATCH) {
            have_happen(server, path, fault, BATCH.min(count - first));
            let ended = || (processes(server).len() <= others).then_some(());
            assert!(
                wait::until(wait::DEADLINE, ended).is_some(),
                "{fault:?}: {:?}",
                processes(server)
            );
            // Behind all that waited.
            let answers = || (ask(server, path) == 200).then_some(());
            assert!(wait::until(wait::DEADLINE, answers).is_some(), "{fault:?}");
        }
        println!("{fault:?}: {count} in {:?}", began.elapsed());
    }
}

/// The status of an answer that should be well.
fn ask(server: &Server, path: &str) -> u16 {
    let mut client = server.connect();
    client.send(format!("GET {path}/answer HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
    let status = client.response_head().status();
    client.rest();
    status
}

fn have_happen(server: &Server, path: &str, fault: Fault, count: usize) {
    let left = AtomicUsize::new(count);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS.min(count) {
            scope.spawn(|| {
                let next = || left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
                while next().is_ok() {
                    fault.happen(server, path);
                }
            });
        }
    });
}

fn start(architecture: &str, backend: &str) -> Option<(Server, tempfile::TempDir)> {
    let root = tempfile::tempdir().unwrap();
    let config = format!(
        "{}arch = \"{architecture}\"\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n\
         workers = 1\n[[site]]\nroot = {:?}\n{backend}",
        as_ourselves(),
        root.path(),
    );
    let server = Launch::config(config).start_where_possible()?;
    Some((server, root))
}

/// The same faults again and again, and what is left behind.
fn leaves_nothing(server: &Server, path: &str, faults: &[Fault], count: usize) {
    // What is made once, such as buffers and stacks for so many at a time.
    have_all_happen(server, path, faults, count.min(CLIENTS * 2));
    let before = at_rest(server, None);
    have_all_happen(server, path, faults, count);
    expect_nothing_left(server, &before);
    assert_eq!(ask(server, path), 200);
    server.assert_sound();
}

/// The server's processes hold no more than before.
fn expect_nothing_left(server: &Server, before: &BTreeMap<u32, Holding>) {
    let after = at_rest(server, Some(before));
    for (pid, held) in &after {
        let grown = held.memory.saturating_sub(before[pid].memory);
        println!("process {pid}: {} and {grown} bytes more", held.descriptors);
        assert!(grown < MEMORY_MAX, "process {pid} has {grown} bytes more");
    }
}

fn faults_of_programs_and_clients_leave_nothing_behind(architecture: &str) {
    let count = how_many(architecture);
    let program = env!("CARGO_BIN_EXE_backend");
    let table = |path: &str, timeout: &str| {
        format!(
            "[[site.cgi]]\npath = {path:?}\nprogram = {program:?}\nprocesses = 500\n\
             output-max = \"256KiB\"\nanswer-timeout = {timeout:?}\n"
        )
    };
    let cgi = table("/run", "1min") + &table("/run-late", "20ms");
    let Some((server, _root)) = start(architecture, &cgi) else { return };
    leaves_nothing(&server, "/run", &FAULTS_OF_PROGRAMS, count);
}

/// The same of responders. They answer one connection at a time, and those that never answer only
/// their own. Those that die are few: after each there is a pause.
fn faults_of_responders_and_clients_leave_nothing_behind(architecture: &str) {
    let count = how_many(architecture);
    let table = |path: &str, program: &str, timeout: &str| {
        format!(
            "[[site.fastcgi]]\npath = {path:?}\n{program}output-max = \"256KiB\"\n\
             answer-timeout = {timeout:?}\n"
        )
    };
    let sockets = tempfile::tempdir().unwrap();
    let socket =
        |name: &str| format!("socket = \"unix:{}\"\n", sockets.path().join(name).display());
    let program = format!("program = {:?}\n", env!("CARGO_BIN_EXE_backend"));
    let pool = format!("{program}{}processes = 16\nprocesses-min = 16\n", socket("app"));
    // Where nobody accepts, nobody answers.
    let _deaf = UnixListener::bind(sockets.path().join("late")).unwrap();
    let tables = table("/run", &pool, "1min") + &table("/run-late", &socket("late"), "20ms");
    let Some((server, _root)) = start(architecture, &tables) else { return };
    leaves_nothing(&server, "/run", &FAULTS_OF_RESPONDERS, count);
}

/// The same of modules. One that aborts takes its worker along, of which the next begins later each
/// time: that is another test's.
fn faults_of_modules_and_clients_leave_nothing_behind(architecture: &str) {
    let count = how_many(architecture);
    let Some(modules) = modules::start(architecture, "") else { return };
    leaves_nothing(&modules.server, "/rust", &FAULTS_OF_MODULES, count);
    leaves_nothing(&modules.server, "/hello", &FAULTS_OF_WAITING_MODULES, count);
}

/// A server that is started anew after each answer, to which a link was kept.
fn restarts_of_a_server_leave_nothing_behind(architecture: &str) {
    let count = how_many(architecture);
    let Some(mut front) = fastcgi::start(architecture, fastcgi::TABLES) else { return };
    let path = front.listener.local_addr().unwrap().as_pathname().unwrap().to_owned();
    // One connection stays with one process, whose links are its own.
    let mut client = front.server.connect();
    let restart = |front: &mut Front| {
        fs::remove_file(&path).unwrap();
        front.listener = UnixListener::bind(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    };
    let mut happen = |front: &mut Front, count: usize| {
        for _ in 0..count {
            client.send(fastcgi::get("/a.php"));
            let mut link = front.accept();
            link.request();
            link.answer("A: b\r\n\r\nfresh");
            assert_eq!(fastcgi::answer(&mut client).1, "fresh");
            drop(link);
            restart(front);
        }
    };
    happen(&mut front, count.min(CLIENTS * 2));
    let before = at_rest(&front.server, None);
    happen(&mut front, count);
    expect_nothing_left(&front.server, &before);
}

on_architectures! {
    [full sped = "sped", fast mt = "mt", full uring = "uring"]
    [
        restarts_of_a_server_leave_nothing_behind,
        faults_of_modules_and_clients_leave_nothing_behind,
        faults_of_responders_and_clients_leave_nothing_behind,
    ]
    full [faults_of_programs_and_clients_leave_nothing_behind]
}
