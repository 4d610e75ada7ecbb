//! A running server moves to another architecture: new connections go to the new generation of
//! workers, old ones finish, and no client notices.
use crate::common::load::{Done, under_load};
use crate::common::{
    Launch, Server, Site, architectures, children, ctl, get, last_get, refused, signal, text, told,
    wait_for, within,
};
use flyball_testkit::Client;
use std::path::Path;
use std::time::{Duration, Instant};

/// More than the sockets of both ends hold, so that a download is under way until it is read.
const LARGE_BYTES: usize = 24 * 1024 * 1024;

/// New connections after a change: each listening socket of the generation before gets some.
const NEWCOMERS: usize = 200;

/// How long a generation is on trial.
const TRIAL: Duration = Duration::from_secs(3);

/// Set to run every ordered pair of architectures instead of one cycle through all of them.
const ALL_PAIRS: &str = "FLYBALL_ALL_PAIRS";

fn site() -> Site {
    let large: Vec<u8> = (0..LARGE_BYTES).map(|at| (at % 251) as u8).collect();
    Site::with(&[("small.txt", &[b'x'; 1024]), ("large.bin", &large)])
}

fn launch(site: &Site, arch: &str, socket: &Path) -> Launch {
    let admin = format!("unix:{}", text(socket));
    Launch::new(site, arch).args(&["--workers", "2", "--admin", &admin])
}

/// A download that is under way: its head has come, and its body waits to be read.
fn begin_download(server: &Server) -> Client {
    let mut client = server.connect();
    client.send(last_get("/large.bin"));
    assert_eq!(client.response_head().status(), 200);
    client
}

/// Asks for another architecture, once there is room for one more generation.
fn move_to(socket: &Path, name: &str) -> String {
    wait_for("room for another generation", || {
        let output = ctl(socket, &["set", "arch", name]);
        output.status.success().then(|| String::from_utf8(output.stdout).expect("text"))
    })
}

/// Moves through `order` under load; a client that fails panics, which the scope passes on.
fn change_under_load(order: &[&str]) {
    let site = site();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = within(&directory, "admin");
    // A download is not read before the change is made, however long that takes.
    let server = launch(&site, order[0], &socket).set("rate.window=5min").start();
    under_load(&server, |done: &Done| {
        for name in &order[1..] {
            let mut download = begin_download(&server);
            let said = move_to(&socket, name);
            assert!(said.starts_with(&format!("arch is {name}; it was ")), "{said}");
            assert_eq!(told(&socket, &["get", "arch"]), format!("{name}\n"));
            done.wait_for_more();
            let body = download.take(LARGE_BYTES);
            assert!(body.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8), "{name}");
            download.expect_closed();
        }
    });
    let said = server.errors.so_far();
    assert!(!said.contains("panicked") && !said.contains("is killed"), "{said}");
    wait_for("old generations end", || {
        let workers: u64 = serde_json::from_str::<serde_json::Value>(&told(&socket, &["status"]))
            .ok()?["workers"]
            .as_u64()?;
        (children(server.master()).len() as u64 == workers + 1).then_some(())
    });
}

#[test]
fn a_server_moves_through_all_architectures_under_load() {
    let mut order = architectures();
    order.push(order[0]);
    change_under_load(&order);
}

/// One walk that makes every ordered pair, on request: it takes long.
#[test]
fn a_server_moves_from_any_architecture_to_any_other() {
    if std::env::var_os(ALL_PAIRS).is_none() {
        eprintln!("skipped: set {ALL_PAIRS} to change between all ordered pairs");
        return;
    }
    let all = architectures();
    let mut order = vec![all[0]];
    // From each architecture to each later one and back: every ordered pair, once.
    for (at, from) in all.iter().enumerate() {
        for to in &all[at + 1..] {
            order.extend([to, from]);
        }
        order.extend(all.get(at + 1));
    }
    change_under_load(&order);
}

#[test]
fn what_cannot_be_done_is_refused_and_changes_nothing() {
    let site = site();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = within(&directory, "admin");
    let server = launch(&site, "sped", &socket).start();
    let said = refused(&socket, &["set", "arch", "apache"]);
    assert_eq!(said, "flyball: there is no architecture \"apache\"\n");
    let said = refused(&socket, &["set", "accept.backlog", "3"]);
    assert!(said.contains("cannot be changed while the server runs"), "{said}");
    let said = refused(&socket, &["set", "accept.limit", "0"]);
    assert!(said.contains("expected a number from 0.001"), "{said}");
    let said = refused(&socket, &["get", "pins"]);
    assert!(said.contains("there is no setting \"pins\""), "{said}");
    let said = told(&socket, &["set", "arch", "sped"]);
    assert_eq!(said, "arch is sped already\n");
    assert_eq!(told(&socket, &["get", "arch"]), "sped\n");
    assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
    let nowhere = within(&directory, "nowhere");
    let said = refused(&nowhere, &["status"]);
    assert!(said.contains("no server listens on unix:"), "{said}");
}

#[test]
fn the_accept_limit_changes_while_the_server_runs() {
    let site = site();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = within(&directory, "admin");
    let server = launch(&site, "sped", &socket).set("accept.limit=4").start();
    assert_eq!(told(&socket, &["get", "accept.limit"]), "4\n");
    let said = told(&socket, &["set", "accept.limit", "inf"]);
    assert_eq!(said, "accept.limit is inf; it was 4\n");
    assert_eq!(told(&socket, &["get", "accept.limit"]), "inf\n");
    let logged = "flyball: accept.limit is inf; it was 4 (asked for by user ";
    server.errors.wait_for("both values", |said| said.contains(logged));
    assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
}

#[test]
fn an_accept_limit_of_an_architecture_s_own_holds_until_one_is_set() {
    let site = site();
    for (arch, own) in [("sped", "16"), ("knot-c", "1"), ("uring", "inf")] {
        if !architectures().contains(&arch) {
            continue;
        }
        let directory = tempfile::tempdir().expect("a temporary directory");
        let socket = within(&directory, "admin");
        let _server = launch(&site, "mt", &socket).start();
        told(&socket, &["set", "arch", arch]);
        assert_eq!(told(&socket, &["get", "accept.limit"]), format!("{own}\n"), "{arch}");
        let status: serde_json::Value =
            serde_json::from_str(&told(&socket, &["status"])).expect("the status is JSON");
        assert_eq!(status["accept_limit"], own, "{arch}");
        let said = told(&socket, &["set", "accept.limit", "16"]);
        assert_eq!(said, format!("accept.limit is 16; it was {own}\n"), "{arch}");
        // It holds for what comes after it too.
        move_to(&socket, "symped");
        move_to(&socket, arch);
        assert_eq!(told(&socket, &["get", "accept.limit"]), "16\n", "{arch}");
    }
}

/// The number of the generation that accepts.
fn newest_generation(socket: &Path) -> u64 {
    let status: serde_json::Value =
        serde_json::from_str(&told(socket, &["status"])).expect("the status is JSON");
    status["generation"].as_u64().expect("a number")
}

/// The first worker of a generation, once it runs.
fn worker_of(socket: &Path, generation: u64) -> u32 {
    let process = || {
        let status: serde_json::Value = serde_json::from_str(&told(socket, &["status"])).ok()?;
        let mut processes = status["processes"].as_array()?.iter();
        let worker = processes.find(|process| process["generation"] == generation)?;
        worker["process"].as_u64()?.try_into().ok()
    };
    wait_for("a worker of that generation", process)
}

/// What was set is not lost when the generation that ran by then is taken back.
#[test]
fn a_generation_that_fails_takes_no_change_along_and_what_ran_before_runs_again() {
    let site = site();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = within(&directory, "admin");
    let server = launch(&site, "sped", &socket).set("timeout.idle=20s").start();
    let errors = &server.errors;
    let deaths = |said: &str| said.matches("was ended by signal").count();
    loop {
        let before = deaths(&errors.so_far());
        told(&socket, &["set", "cache.paths", "50"]);
        let since = Instant::now();
        told(&socket, &["set", "cache.paths", "60"]);
        for (key, value) in [("timeout.idle", "31s"), ("accept.limit", "3"), ("log.level", "debug")]
        {
            told(&socket, &["set", key, value]);
        }
        signal(worker_of(&socket, newest_generation(&socket)), "ABRT");
        errors.wait_for("its death", |said| deaths(said) > before);
        // Where the machine stood still its trial was over, and it was only started again.
        if since.elapsed() < TRIAL {
            break;
        }
    }
    errors.wait_for("the way back", |said| said.contains("sped failed; sped runs again as before"));
    errors.wait_for("what goes back", |said| said.contains("cache.paths is 50; it was 60"));
    for (key, value) in [
        ("timeout.idle", "31s"),
        ("accept.limit", "3"),
        ("log.level", "debug"),
        ("cache.paths", "50"),
    ] {
        assert_eq!(told(&socket, &["get", key]), format!("{value}\n"), "{key}");
    }
    assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
}

#[test]
fn the_accept_limit_of_a_pipeline_changes_while_it_runs() {
    let site = site();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = within(&directory, "admin");
    let settings = ["accept.limit=inf", "watpipe.partitions=2"];
    let launch = launch(&site, "watpipe", &socket);
    let server = settings.iter().fold(launch, |launch, setting| launch.set(setting)).start();
    let counter = |name: &str| {
        let status: serde_json::Value =
            serde_json::from_str(&told(&socket, &["status"])).expect("the status is JSON");
        status["counters"][name].as_u64().expect("there is such a counter")
    };
    assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
    wait_for("the first to be counted", || (counter("accepted") == 1).then_some(()));
    assert_eq!(counter("accept_limit_reached"), 0, "there was no limit");
    told(&socket, &["set", "accept.limit", "1"]);
    assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
    wait_for("the second to be counted", || (counter("accepted") == 2).then_some(()));
    assert_eq!(counter("accept_limit_reached"), 1, "one connection is the limit");
}

/// As many sockets as there are workers, or CPUs, are divided among three partitions.
#[test]
fn a_pipeline_accepts_from_every_socket_of_the_generation_before() {
    for workers in ["auto", "8"] {
        let site = site();
        let directory = tempfile::tempdir().expect("a temporary directory");
        let socket = within(&directory, "admin");
        let admin = format!("unix:{}", text(&socket));
        let launch = Launch::new(&site, "n-copy").args(&["--workers", workers, "--admin", &admin]);
        let server = launch.set("watpipe.partitions=3").set("watpipe.writers=1").start();
        assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
        told(&socket, &["set", "arch", "watpipe"]);
        for newcomer in 0..NEWCOMERS {
            let answer = server.connect().ask(get("/small.txt"));
            assert_eq!(answer.status(), 200, "{newcomer} of {workers}");
        }
    }
}

#[test]
fn only_the_owner_of_the_socket_may_change_the_server() {
    use std::os::unix::fs::PermissionsExt;
    let site = site();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = within(&directory, "admin");
    let _server = launch(&site, "sped", &socket).start();
    let mode = socket.metadata().expect("the socket is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let open = Launch::new(&site, "sped").args(&["--admin", "127.0.0.1:0"]).start();
    let post = "POST /settings?architecture=mt HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(open.connect_admin().ask(post).status(), 403);
}

/// Idle connections are kept for the request that may be on its way, and end with the server.
#[test]
fn a_stop_after_a_change_ends_both_generations() {
    for arch in ["sped", "mp", "mt", "thread-per-connection"] {
        let site = site();
        let directory = tempfile::tempdir().expect("a temporary directory");
        let socket = within(&directory, "admin");
        let mut server = launch(&site, arch, &socket).start();
        let mut idle = server.connect();
        assert_eq!(idle.ask(get("/small.txt")).status(), 200, "{arch}");
        told(&socket, &["set", "arch", "n-copy"]);
        let mut late = server.connect();
        late.send(get("/small.txt"));
        assert_eq!(late.response().status(), 200, "{arch}");
        signal(server.master(), "TERM");
        idle.expect_closed();
        assert!(server.ended().success(), "{arch}");
    }
}

/// The answer of the master takes longer than a client of `--admin` may.
#[test]
#[ignore = "full tier"]
fn a_worker_that_does_not_leave_is_killed_and_the_change_is_answered() {
    let site = site();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = within(&directory, "admin");
    let server = launch(&site, "sped", &socket).start();
    let worker = server.children(2)[0];
    signal(worker, "STOP");
    let said = told(&socket, &["set", "arch", "symped"]);
    assert_eq!(said, "arch is symped; it was sped\n");
    assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
    let line = "flyball: worker 0 does not leave and is killed\n";
    server.errors.wait_for("the warning", |said| said.contains(line));
}

/// A process that was told to end, and does, is no process that has to be killed.
#[test]
fn a_reload_ends_no_process_by_force() {
    let site = site();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = within(&directory, "admin");
    let server = launch(&site, "sped", &socket).start();
    // The process that is asked may be the one that ends.
    let asked = |words: &[&str]| Some(ctl(&socket, words)).filter(|output| output.status.success());
    for generation in 2..12 {
        wait_for("a reload", || asked(&["reload"]));
        wait_for("its worker", || {
            let status: serde_json::Value =
                serde_json::from_slice(&asked(&["status"])?.stdout).ok()?;
            let mut processes = status["processes"].as_array()?.iter();
            processes.find(|process| process["generation"].as_u64() >= Some(generation)).map(drop)
        });
    }
    let said = server.errors.so_far();
    assert!(!said.contains("was ended by signal"), "{said}");
}
