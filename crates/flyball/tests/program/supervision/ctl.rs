//! What `flyball ctl` tells of a running server and changes in it, and what it refuses.
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use crate::common::{
    Launch, Server, Site, architectures, children, copy_program, ctl, get, refused, text, told,
    wait_for, within,
};
use flyball_server::Changes;
use tempfile::TempDir;

struct Controlled {
    directory: TempDir,
    server: Server,
    _site: Site,
}

impl Controlled {
    fn start(arch: &str, settings: &[&str]) -> Controlled {
        let site = Site::with(&[("small.txt", &[b'x'; 1024])]);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let admin = format!("unix:{}", text(&within(&directory, "admin")));
        let launch = Launch::new(&site, arch).args(&["--workers", "2", "--admin", &admin]);
        let server = settings.iter().fold(launch, |launch, setting| launch.set(setting)).start();
        Controlled { directory, server, _site: site }
    }

    fn socket(&self) -> PathBuf {
        within(&self.directory, "admin")
    }
}

#[test]
#[ignore = "full tier"]
fn a_time_out_changes_in_place_for_new_connections() {
    for arch in architectures() {
        let controlled = Controlled::start(arch, &["workers=1"]);
        let (socket, server) = (controlled.socket(), &controlled.server);
        assert_eq!(told(&socket, &["get", "timeout.idle"]), "1min\n", "{arch}");
        let said = told(&socket, &["set", "timeout.idle", "50ms"]);
        assert_eq!(said, "timeout.idle is 50ms; it was 1min\n", "{arch}");
        assert_eq!(told(&socket, &["get", "timeout.idle"]), "50ms\n", "{arch}");
        let logged = |said: &str| said.contains("timeout.idle is 50ms; it was 1min");
        server.errors.wait_for(arch, logged);
        wait_for(&format!("{arch}: connections that end soon"), || {
            let mut client = server.connect();
            assert_eq!(client.ask(get("/small.txt")).status(), 200, "{arch}");
            // A loop takes the change over when it reads the clock, which may be after this.
            flyball_testkit::wait::until(std::time::Duration::from_secs(1), || {
                client.arrived().then_some(())
            })
        });
        let status: serde_json::Value =
            serde_json::from_str(&told(&socket, &["status"])).expect("JSON");
        assert_eq!(status["generation"], 1, "{arch}");
    }
}

#[test]
fn what_workers_are_made_with_changes_by_a_new_generation() {
    let controlled = Controlled::start("sped", &["close.idle-when-full=false"]);
    let (socket, server) = (controlled.socket(), &controlled.server);
    let said = told(&socket, &["set", "connections.max", "2"]);
    assert!(said.starts_with("connections.max is 2; it was "), "{said}");
    assert!(said.ends_with("; generation 2 goes by it\n"), "{said}");
    let mut clients = [server.connect(), server.connect()];
    for client in &mut clients {
        assert_eq!(client.ask(get("/small.txt")).status(), 200);
    }
    let mut third = server.connect();
    third.send(get("/small.txt"));
    server.errors.wait_for("that it is full", |said| said.contains("as many connections as"));
    drop(clients);
    assert_eq!(third.response().status(), 200);
    for (key, value) in [("cache.content", "1MiB"), ("cache.paths", "50"), ("cache.files", "9")] {
        let said = wait_for("room for another generation", || {
            let output = ctl(&socket, &["set", key, value]);
            output.status.success().then(|| String::from_utf8(output.stdout).expect("text"))
        });
        assert!(said.starts_with(&format!("{key} is {value}; it was ")), "{said}");
        assert_eq!(told(&socket, &["get", key]), format!("{value}\n"));
    }
    assert_eq!(told(&socket, &["get", "connections.max"]), "2\n");
}

#[test]
fn what_the_architecture_makes_nothing_of_waits_for_another_and_is_told_so() {
    // Who is idle for a second would make room for another.
    let settings = ["connections.max=30", "mp.processes=2", "close.idle-when-full=false"];
    let controlled = Controlled::start("mp", &settings);
    let (socket, server) = (controlled.socket(), &controlled.server);
    let warning = "`connections.max` has no meaning for mp and is ignored";
    server.errors.wait_for("the warning", |said| said.contains(warning));
    let before = server.children(3);
    let said = told(&socket, &["set", "connections.max", "1"]);
    assert_eq!(said, "connections.max is 1; it was 30; mp does not use it\n");
    assert_eq!(server.children(3), before, "no worker was made again for it");
    let mut clients = [server.connect(), server.connect()];
    for client in &mut clients {
        assert_eq!(client.ask(get("/small.txt")).status(), 200);
    }
    drop(clients);
    let said = told(&socket, &["set", "arch", "sped"]);
    assert!(said.starts_with("arch is sped; it was mp"), "{said}");
    assert_eq!(told(&socket, &["get", "connections.max"]), "1\n");
    let mut first = server.connect();
    assert_eq!(first.ask(get("/small.txt")).status(), 200);
    let mut second = server.connect();
    second.send(get("/small.txt"));
    server.errors.wait_for("that it is full", |said| said.contains("as many connections as"));
}

#[test]
fn every_setting_can_be_read_and_wrong_changes_change_nothing() {
    let controlled = Controlled::start("n-copy", &["timeout.head=7s"]);
    let (socket, server) = (controlled.socket(), &controlled.server);
    for setting in flyball::settings::SETTINGS {
        let value = told(&socket, &["get", setting.key]);
        assert!(value.ends_with('\n'), "{}: {value}", setting.key);
    }
    assert_eq!(told(&socket, &["get", "timeout.head"]), "7s\n");
    assert_eq!(told(&socket, &["get", "workers"]), "2\n");
    assert_eq!(told(&socket, &["get", "arch"]), "n-copy\n");
    let port = told(&socket, &["get", "listen"]);
    assert_eq!(port, format!("127.0.0.1:{}\n", server.port));
    let before = children(server.master());
    for (words, why) in [
        (["set", "timeout.idel", "3s"], "no setting \"timeout.idel\"; did you mean timeout.idle?"),
        (["set", "timeout.idle", "3"], "timeout.idle: expected"),
        (["set", "timeout.idle", "99999h"], "timeout.idle: expected"),
        (["set", "connections.max", "0"], "connections.max: expected an integer from 1"),
        (["set", "cache.content", "much"], "cache.content: expected"),
        (["set", "pin", "true"], "cannot be changed while the server runs, but by a reload"),
        (["set", "arch", "apache"], "there is no architecture \"apache\""),
        (["set", "accept.limit", "0"], "expected a number from 0.001"),
        (["set", "timeout.idle", "1s\n"], "cannot be set to"),
    ] {
        let said = refused(&socket, &words);
        assert!(said.contains(why), "{words:?}: {said}");
    }
    assert_eq!(children(server.master()), before);
    assert_eq!(told(&socket, &["get", "timeout.idle"]), "1min\n");
}

/// Each setting that may be changed: another value, and one that is refused, with why.
const CHANGES: &[(&str, &str, &str, &str)] = &[
    ("accept.limit", "0.5", "0", "expected a number from 0.001"),
    ("timeout.head", "3s", "0", "timeout.head: expected"),
    ("timeout.idle", "3s", "1", "timeout.idle: expected"),
    ("timeout.handshake", "3s", "0", "timeout.handshake: expected"),
    ("timeout.send", "3s", "0", "timeout.send: expected"),
    ("timeout.linger-most", "3s", "1w", "timeout.linger-most: expected"),
    ("timeout.answer", "3s", "1h30", "timeout.answer: expected"),
    ("timeout.linger", "3s", "1w", "timeout.linger: expected"),
    ("rate.window", "3s", "never", "rate.window: expected"),
    ("rate.body-min", "100B", "1e9", "rate.body-min: expected"),
    ("rate.send-min", "100B", "x", "rate.send-min: expected"),
    ("log.level", "debug", "loud", "log.level: expected error, warn, info or debug"),
    ("connections.max", "20", "0", "connections.max: expected an integer from 1"),
    ("cache.content", "1MiB", "1PiB", "cache.content: expected"),
    ("cache.paths", "50", "many", "cache.paths: expected"),
    ("cache.files", "9", "9.5", "cache.files: expected"),
    ("cache.mapped", "1MiB", "", "cannot be set to"),
    ("drain", "5s", "5", "drain: expected"),
    ("arch", "n-copy", "apache", "there is no architecture \"apache\""),
];

#[test]
fn each_change_is_logged_with_both_values_and_a_bad_one_changes_nothing() {
    let controlled = Controlled::start("sped", &[]);
    let (socket, server) = (controlled.socket(), &controlled.server);
    let generation = || {
        let status: serde_json::Value =
            serde_json::from_str(&told(&socket, &["status"])).expect("JSON");
        status["generation"].as_u64()
    };
    let (own, _) = own_ids();
    for (key, _, bad, why) in CHANGES {
        let before = told(&socket, &["get", key]);
        let said = refused(&socket, &["set", key, bad]);
        assert!(said.contains(why), "{key} {bad}: {said}");
        assert_eq!(told(&socket, &["get", key]), before, "{key}");
    }
    assert_eq!(generation(), Some(1));
    for (key, value, ..) in CHANGES {
        let before = told(&socket, &["get", key]);
        let said = wait_for("room for another generation", || {
            let output = ctl(&socket, &["set", key, value]);
            output.status.success().then(|| String::from_utf8(output.stdout).expect("text"))
        });
        let expected = format!("{key} is {value}; it was {}", before.trim_end());
        assert!(said.starts_with(&expected), "{said}, not {expected}");
        assert_eq!(told(&socket, &["get", key]), format!("{value}\n"), "{key}");
        let line = format!("flyball: {} (asked for by user {own}, process ", said.trim_end());
        server.errors.wait_for(&line, |said| said.contains(&line));
    }
    assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
}

#[test]
fn all_that_can_be_changed_is_listed_with_its_value() {
    let controlled = Controlled::start("sped", &["timeout.head=7s"]);
    let socket = controlled.socket();
    let listed = || -> BTreeMap<String, serde_json::Value> {
        serde_json::from_str(&told(&socket, &["settings", "--json"])).expect("JSON")
    };
    let all = listed();
    let rows = flyball::settings::SETTINGS.iter().filter(|row| row.changes != Changes::Reload);
    let rows: Vec<_> = rows.collect();
    let keys: BTreeSet<&str> = rows.iter().map(|row| row.key).collect();
    assert_eq!(all.keys().map(String::as_str).collect::<BTreeSet<_>>(), keys);
    // Each of them is changed by a test.
    assert_eq!(CHANGES.iter().map(|(key, ..)| *key).collect::<BTreeSet<_>>(), keys);
    for row in rows {
        let about = &all[row.key];
        let value = told(&socket, &["get", row.key]);
        assert_eq!(about["value"], value.trim_end(), "{}", row.key);
        assert_eq!(
            (about["form"].as_str(), about["default"].as_str()),
            (Some(&*row.form()), row.default)
        );
        let changes = if row.changes == Changes::InPlace { "in place" } else { "generation" };
        assert_eq!(about["changes"], changes, "{}", row.key);
    }
    let values = |all: &BTreeMap<String, serde_json::Value>| {
        let one = |key: &str| all[key]["value"].as_str().unwrap_or_default().to_owned();
        ["timeout.head", "drain", "arch"].map(one)
    };
    assert_eq!(values(&all), ["7s", "30s", "sped"]);
    for (key, value) in [("timeout.head", "8s"), ("drain", "9s"), ("arch", "n-copy")] {
        told(&socket, &["set", key, value]);
    }
    assert_eq!(values(&listed()), ["8s", "9s", "n-copy"]);
    let text = told(&socket, &["settings"]);
    let head = text.lines().find(|line| line.starts_with("timeout.head ")).expect("its line");
    let words: Vec<&str> = head.split_whitespace().take(5).collect();
    assert_eq!(words, ["timeout.head", "8s", "10s", "in", "place"]);
}

/// The user and the group of this process.
fn own_ids() -> (u32, u32) {
    let own = std::fs::metadata("/proc/self").expect("it is there");
    (own.uid(), own.gid())
}

#[test]
fn the_log_level_changes_for_processes_that_run() {
    // The kernel cuts such a backlog, which is a warning; a worker that is full says so as one.
    let full = ["connections.max=2", "close.idle-when-full=false"];
    let settings = [&["log.level=error", "accept.backlog=65535", "workers=1"][..], &full].concat();
    let controlled = Controlled::start("sped", &settings);
    let (socket, server) = (controlled.socket(), &controlled.server);
    assert_eq!(server.errors.so_far(), "", "a warning");
    let said = told(&socket, &["set", "log.level", "warn"]);
    assert_eq!(said, "log.level is warn; it was error\n");
    let clients = [0; 3].map(|_| {
        let mut client = server.connect();
        client.send(get("/small.txt"));
        client
    });
    server.errors.wait_for("that it is full", |said| said.contains("as many connections as"));
    drop(clients);
    assert!(!server.errors.so_far().contains(" asks: "), "a question");
    told(&socket, &["set", "log.level", "debug"]);
    told(&socket, &["get", "drain"]);
    server.errors.wait_for("the question", |said| said.contains(" asks: Get(\"drain\")"));
    let status: serde_json::Value =
        serde_json::from_str(&told(&socket, &["status"])).expect("JSON");
    assert_eq!(status["generation"], 1);
}

/// The program, where everybody can run it, as another user.
#[test]
fn who_may_not_write_to_the_socket_is_told_so_and_changes_nothing() {
    if !flyball_sys::process::is_root() {
        return flyball_testkit::skip("only the superuser can become another user");
    }
    let controlled = Controlled::start("sped", &[]);
    let everybody = |path: &std::path::Path| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("chmod");
    };
    let program = within(&controlled.directory, "flyball");
    copy_program(&program);
    everybody(controlled.directory.path());
    everybody(&program);
    let admin = format!("unix:{}", text(&controlled.socket()));
    let set = ["set", "timeout.idle", "9s"].as_slice();
    let trace = ["trace", "--sample", "1/1"].as_slice();
    for words in
        [set, trace, &["get", "listen"], &["reload"], &["upgrade"], &["drain"], &["status"]]
    {
        let mut command = std::process::Command::new(&program);
        command.arg("ctl").args(words).args(["--admin", &admin]).uid(65_534).gid(65_534);
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains("no permission to control the server at unix:"), "{said}");
    }
    assert_eq!(told(&controlled.socket(), &["get", "timeout.idle"]), "1min\n");
}

#[test]
fn the_admin_socket_has_the_mode_and_the_group_of_the_settings() {
    let own = std::fs::metadata("/proc/self").expect("it is there").gid();
    let group = format!("admin-group={own}");
    let controlled = Controlled::start("sped", &["admin-mode=0660", &group]);
    let socket = controlled.socket().metadata().expect("the socket is there");
    assert_eq!((socket.permissions().mode() & 0o777, socket.gid()), (0o660, own));
}

#[test]
#[ignore = "full tier"]
fn a_drain_finishes_what_is_under_way_and_ends() {
    let mut controlled = Controlled::start("n-copy", &[]);
    let mut late = controlled.server.connect();
    late.send("GET /small.txt HTTP/1.1\r\n");
    let said = told(&controlled.socket(), &["drain"]);
    assert!(said.contains("finishes and ends"), "{said}");
    assert!(controlled.server.ended().success());
    let said = refused(&controlled.socket(), &["status"]);
    assert!(said.contains("no server listens on unix:"), "{said}");
}

#[test]
fn what_a_socket_answers_is_escaped_for_the_terminal() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = within(&directory, "admin");
    let listener = UnixListener::bind(&socket).expect("a socket can be bound");
    let body = "a\u{9b}2J\x1b[2J\nb\u{202e}\n";
    let shown = "a\\u{9b}2J\\u{1b}[2J\nb\\u{202e}\n";
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for status in ["200 OK", "409 Conflict"] {
                let (mut client, _) = listener.accept().expect("ctl connects");
                let length = body.len();
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n");
                client.write_all((head + body).as_bytes()).expect("it is sent");
                client.read_to_end(&mut Vec::new()).expect("ctl ends");
            }
        });
        let [said, refused] = [(); 2].map(|()| ctl(&socket, &["get", "workers"]));
        assert_eq!(String::from_utf8_lossy(&said.stdout), shown);
        assert_eq!(String::from_utf8_lossy(&refused.stderr), format!("flyball: {shown}"));
    });
}

#[test]
fn nothing_is_changed_over_tcp() {
    let site = Site::with(&[("small.txt", &[b'x'; 1024])]);
    let server = Launch::new(&site, "sped").args(&["--admin", "127.0.0.1:0"]).start();
    for target in ["/settings?timeout.idle=1s", "/reload", "/drain", "/upgrade"] {
        let request = format!("POST {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(server.connect_admin().ask(request).status(), 403, "{target}");
    }
    assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
}

/// In either order, and by the environment where it is not said.
#[test]
fn the_server_is_named_before_or_behind_what_it_is_asked_or_by_the_environment() {
    let controlled = Controlled::start("sped", &[]);
    let admin = format!("unix:{}", text(&controlled.socket()));
    let ask = |words: &[&str], variable: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_flyball"));
        command.arg("ctl").args(words).env("FLYBALL_ADMIN", variable);
        command.env("RUNTIME_DIRECTORY", "/nowhere");
        let output = command.output().expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), error)
    };
    for (words, variable) in [
        (&["--admin", &admin, "get", "arch"][..], ""),
        (&["get", "arch", "--admin", &admin], "unix:/nowhere"),
        (&["get", "arch"], &admin),
        // Its name in the version before.
        (&["get", "architecture"], &admin),
    ] {
        let (code, said, error) = ask(words, variable);
        assert_eq!((code, &*said), (Some(0), "sped\n"), "{words:?}: {error}");
    }
    let (code, _, error) = ask(&["get", "arch"], "");
    assert!(code == Some(1) && error.contains("--admin or FLYBALL_ADMIN"), "{error}");
    let (code, _, error) = ask(&["get", "arch"], "9090");
    assert!(code == Some(2) && error.contains("FLYBALL_ADMIN: expected unix:PATH"), "{error}");
    let (_, said, _) = ask(&["set", "architecture", "sped"], &admin);
    assert!(said.contains("architecture is arch now"), "{said}");
}
