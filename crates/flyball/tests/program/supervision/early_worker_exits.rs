//! Workers that end before they serve: the start fails with the reason, a change is taken back, and
//! what a request ends is restarted however often. strace plays a machine that refuses a call.
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

use crate::common::{
    Launch, Server, Site, architectures, children, ctl, get, has, signal, text, told, wait_for,
    within,
};
use flyball_testkit::Client;

/// Ends within a minute that are too many.
const TOO_MANY: usize = 5;

fn site() -> Site {
    Site::with(&[("small.txt", b"small")])
}

/// A server all of whose processes run with this injected.
fn injected(inject: &str) -> [&str; 7] {
    ["strace", "-f", "-qq", "-o", "/dev/null", "-e", inject]
}

/// What it answers, as soon as it does.
fn served(server: &Server) -> String {
    let address = ([127, 0, 0, 1], server.port).into();
    let ask = || Client::try_connect(address)?.try_ask(get("/small.txt"));
    wait_for("an answer", ask).text().to_owned()
}

/// The last words of a server whose workers cannot begin. It never reports that it is ready.
#[track_caller]
fn failed(arch: &str, inject: &str) -> String {
    let site = site();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let pid = within(&directory, "pid");
    let name = format!("flyball-early-{}-{arch}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let manager = UnixDatagram::bind_addr(&address).expect("a socket");
    manager.set_nonblocking(true).expect("O_NONBLOCK");
    // A call that strace lets fail has no number any more, and is one that the sandbox forbids.
    let launch = Launch::under(&injected(inject), &site, arch).set("sandbox=off");
    let launch = launch.workers_for(arch, 2).set(&format!("pid-file={}", text(&pid)));
    let mut server = launch.env("NOTIFY_SOCKET", format!("@{name}")).start();
    let status = server.ended();
    let said = server.errors.whole();
    assert_eq!(status.code(), Some(1), "{arch}: {said}");
    assert!(!pid.exists(), "{arch}");
    let mut buffer = [0; 1024];
    while let Ok(len) = manager.recv(&mut buffer) {
        let told = String::from_utf8_lossy(&buffer[..len]);
        assert!(!told.contains("READY=1"), "{arch}: {told}");
    }
    said
}

#[test]
#[ignore = "full tier"]
fn workers_that_cannot_begin_end_the_start_with_the_reason() {
    if !has("strace") {
        return;
    }
    for arch in architectures() {
        // The first that a worker asks for: to end with its master.
        let said = failed(arch, "inject=prctl:error=EPERM");
        let last = said.lines().last().unwrap_or_default();
        let (who, how) = last.split_once(" has ended 5 times before it could serve; ").unwrap();
        // A line may begin with the time.
        let who = &who[who.find("flyball: ").unwrap_or_default()..];
        assert!(who.starts_with("flyball: worker "), "{arch}: {said}");
        assert_eq!(how, "the last exited with code 1", "{arch}: {said}");
        let why = format!("{who}: Operation not permitted (os error 1)\n");
        assert_eq!(said.matches(&why).count(), TOO_MANY, "{arch}: {said}");
        assert_eq!(said.matches(&format!("{who} exited")).count(), TOO_MANY - 1, "{arch}: {said}");
    }
    // In the processes of a group, and by a signal.
    let said = failed("shared-symped", "inject=epoll_create1:error=EMFILE");
    assert!(said.contains("worker 0: process 0: Too many open files"), "{said}");
    assert!(said.ends_with("before it could serve; the last exited with code 1\n"), "{said}");
    let said = failed("sped", "inject=epoll_create1:signal=KILL");
    assert!(said.ends_with("before it could serve; the last was ended by signal 9\n"), "{said}");
}

#[test]
fn a_generation_that_cannot_begin_leaves_what_ran_before() {
    if !has("strace") {
        return;
    }
    let (site, directory) = (site(), tempfile::tempdir().expect("a temporary directory"));
    let (socket, config) = (within(&directory, "admin"), within(&directory, "flyball.toml"));
    let (admin, root) = (format!("unix:{}", text(&socket)), text(site.path()));
    let write = |arch: &str, events: &str| {
        let lines = format!("arch = {arch:?}\nevents = {events:?}\n[[site]]\nroot = {root:?}\n");
        std::fs::write(&config, lines).expect("the file is written");
    };
    for arch in ["sped", "shared-symped", "knot-c"] {
        write(arch, "poll");
        let launch = Launch::bare(&injected("inject=epoll_create1:error=EMFILE"));
        let launch = launch.args(&["--config", text(&config), "--listen", "127.0.0.1:0"]);
        let server = launch.set("sandbox=off").args(&["--admin", &admin]).start();
        assert_eq!(served(&server), "small", "{arch}");
        write(arch, "epoll");
        told(&socket, &["reload"]);
        let back = format!("{arch} failed; {arch} runs again as before");
        server.errors.wait_for("the way back", |said| said.contains(&back));
        assert_eq!(served(&server), "small", "{arch}");
        assert!(!server.errors.so_far().contains("times before it could serve"));
    }
}

#[test]
fn what_a_reload_changes_of_admin_and_the_pid_file_goes_back_with_it() {
    if !has("strace") {
        return;
    }
    let (site, directory) = (site(), tempfile::tempdir().expect("a temporary directory"));
    let config = within(&directory, "flyball.toml");
    let [first, second, both] = ["first", "second", "both"].map(|name| within(&directory, name));
    let [first_pid, second_pid] = ["1", "2"].map(|name| within(&directory, name));
    let write = |events: &str, socket: &Path, mode: &str, pid: &Path| {
        let (socket, both, root) = (text(socket), text(&both), text(site.path()));
        let lines = format!(
            "arch = \"sped\"\nevents = {events:?}\npid-file = {pid:?}\nadmin-mode = {mode:?}\n\
             admin = [\"unix:{socket}\", \"unix:{both}\"]\n[[site]]\nroot = {root:?}\n"
        );
        std::fs::write(&config, lines).expect("the file is written");
    };
    write("poll", &first, "0640", &first_pid);
    let launch = Launch::bare(&injected("inject=epoll_create1:error=EMFILE")).asked();
    let launch = launch.args(&["--config", text(&config), "--listen", "127.0.0.1:0"]);
    let server = launch.set("sandbox=off").start();
    write("epoll", &second, "0600", &second_pid);
    told(&first, &["reload"]);
    let back = "sped failed; sped runs again as before";
    server.errors.wait_for("the way back", |said| said.contains(back));
    wait_for("its socket", || ctl(&first, &["status"]).status.success().then_some(()));
    assert!(told(&both, &["status"]).contains("\"generation\": 3"));
    let mode = |path: &Path| std::fs::metadata(path).expect("it is there").mode() & 0o777;
    assert_eq!((mode(&first), mode(&both)), (0o640, 0o640));
    assert!(first_pid.exists() && !second_pid.exists() && !second.exists());
    assert_eq!(served(&server), "small");
}

#[test]
#[ignore = "full tier"]
fn a_worker_that_has_served_is_restarted_however_often_it_ends() {
    let site = site();
    for arch in architectures() {
        let server = Launch::new(&site, arch).workers_for(arch, 1).start();
        let mut before = None;
        for ends in 1..=TOO_MANY {
            assert_eq!(served(&server), "small", "{arch}");
            let worker = wait_for("the worker", || {
                children(server.master()).into_iter().find(|worker| before != Some(*worker))
            });
            signal(worker, "ABRT");
            before = Some(worker);
            let is_told = |said: &str| said.matches("was ended by signal 6; it").count() == ends;
            server.errors.wait_for(arch, is_told);
        }
        assert_eq!(served(&server), "small", "{arch}");
    }
}
