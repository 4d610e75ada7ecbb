//! A server reads its configuration again: a new generation of workers runs by it, and a
//! configuration that cannot be used changes nothing.
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::common::load::under_load;
use crate::common::{
    Launch, Server, Site, architectures, children, get, last_get, refused, signal, text, told,
    wait_for, within,
};
use flyball_testkit::{Client, free_address};
use tempfile::TempDir;

/// More than the sockets of both ends hold, so that a download is under way until it is read.
const LARGE_BYTES: usize = 24 * 1024 * 1024;

/// New connections after a change: each listening socket of the generation before gets some.
const NEWCOMERS: usize = 200;

/// A server with a configuration file that can be written again.
struct Configured {
    site: Site,
    directory: TempDir,
    server: Server,
}

impl Configured {
    /// Starts one with these lines above its one site.
    fn start(lines: &str) -> Configured {
        let site = Site::with(&[("small.txt", &[b'x'; 1024])]);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let server = {
            let path = within(&directory, "flyball.toml");
            std::fs::write(&path, whole(&site, lines)).expect("the file is written");
            let admin = format!("unix:{}", text(&within(&directory, "admin")));
            let launch = Launch::bare::<&str>(&[]).args(&["--config", text(&path)]);
            launch.args(&["--listen", "127.0.0.1:0", "--admin", &admin]).start()
        };
        Configured { site, directory, server }
    }

    fn socket(&self) -> PathBuf {
        within(&self.directory, "admin")
    }

    fn write(&self, lines: &str) {
        self.write_all(&whole(&self.site, lines));
    }

    fn write_all(&self, text: &str) {
        std::fs::write(within(&self.directory, "flyball.toml"), text).expect("it is written");
    }

    fn reload(&self) -> String {
        told(&self.socket(), &["reload"])
    }

    fn refused(&self) -> String {
        refused(&self.socket(), &["reload"])
    }

    #[track_caller]
    fn status(&self) -> serde_json::Value {
        serde_json::from_str(&told(&self.socket(), &["status"])).expect("the status is JSON")
    }
}

fn whole(site: &Site, lines: &str) -> String {
    format!("{lines}\n[[site]]\nroot = {:?}\n", text(site.path()))
}

#[test]
#[ignore = "full tier"]
fn a_reload_under_load_loses_no_connection_on_any_architecture() {
    let order = architectures();
    let configured = Configured::start(&format!("arch = \"{}\"\nworkers = 3", order[0]));
    let Configured { server, .. } = &configured;
    let old_ones_end = || {
        wait_for("old generations end", || {
            let workers = configured.status()["workers"].as_u64()?;
            (children(server.master()).len() as u64 <= workers + 1).then_some(())
        });
    };
    under_load(server, |done| {
        // Each architecture gives way to itself, by a signal, and then to the next, by a command.
        for (at, arch) in order.iter().enumerate() {
            configured.write(&format!("arch = \"{arch}\"\nworkers = 1"));
            signal(server.master(), "HUP");
            let loaded = |number| format!("the configuration is loaded: generation {number}, ");
            let hung_up = loaded(2 * at + 2) + arch + " with ";
            server.errors.wait_for(&hung_up, |said| said.contains(&hung_up));
            done.wait_for_more();
            old_ones_end();
            let next = order[(at + 1) % order.len()];
            configured.write(&format!("arch = \"{next}\"\nworkers = 3"));
            let said = configured.reload();
            assert!(said.starts_with(&(loaded(2 * at + 3) + next + " with ")), "{said}");
            done.wait_for_more();
            old_ones_end();
        }
    });
    let said = server.errors.so_far();
    assert!(!said.contains("panicked") && !said.contains("is killed"), "{said}");
}

#[test]
fn a_request_behind_an_answer_in_chunks_is_answered_when_others_take_over() {
    // Long also when it is coded, so that it is under way until it is read.
    let lines: String = (0..300_000).map(|n| format!("{}\n", n * 7_919_u64)).collect();
    for arch in architectures() {
        let configured = Configured::start(&format!("arch = {arch:?}\nworkers = 1"));
        let Configured { site, server, .. } = &configured;
        std::fs::write(site.path().join("lines.txt"), &lines).expect("it is written");
        let mut client = Client::connect_narrow(([127, 0, 0, 1], server.port).into(), 64 << 10);
        let accepts = "GET /lines.txt HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n";
        client.send(accepts.to_owned() + &get("/small.txt"));
        let head = client.response_head();
        assert_eq!(head.expect("Transfer-Encoding"), "chunked", "{arch}: its length is not known");
        assert_eq!(head.field("Connection"), None, "{arch}");
        configured.reload();
        assert!(client.chunks().concat().len() > 100_000, "{arch}");
        let behind = client.response();
        assert_eq!((behind.status(), behind.body.len()), (200, 1024), "{arch}");
    }
}

#[test]
fn a_hangup_loads_sites_error_pages_and_the_log_of_the_new_configuration() {
    let configured = Configured::start("arch = \"n-copy\"\nworkers = 2");
    let Configured { server, directory, .. } = &configured;
    let mut kept = server.connect();
    assert_eq!(kept.ask(get("/small.txt")).status(), 200);
    let other = Site::with(&[("new.txt", b"new"), ("lost.html", b"it is lost")]);
    let log = within(directory, "access.log");
    let mut text = format!("workers = 1\naccess-log = {:?}\n", crate::common::text(&log));
    let _ = writeln!(text, "[[site]]\nroot = {:?}", crate::common::text(other.path()));
    let page = other.path().join("lost.html");
    let _ = writeln!(text, "error-page.404 = {:?}", crate::common::text(&page));
    configured.write_all(&text);
    signal(server.master(), "HUP");
    server.errors.wait_for("the reload", |said| said.contains("the configuration is loaded"));
    // A connection of the generation before is served as before, once more.
    let last = kept.ask(get("/small.txt"));
    assert_eq!((last.status(), last.field("Connection")), (200, Some("close")));
    let mut client = server.connect();
    assert_eq!(client.ask(get("/new.txt")).body, b"new");
    let lost = client.ask(get("/small.txt"));
    assert_eq!((lost.status(), lost.body.as_slice()), (404, b"it is lost".as_slice()));
    wait_for("lines of the new log", || {
        let log = std::fs::read_to_string(&log).ok()?;
        (log.contains("GET /new.txt") && log.contains("\"GET /small.txt HTTP/1.1\" 404"))
            .then_some(())
    });
    assert_eq!(configured.status()["generation"], 2);
}

#[test]
fn sites_that_a_reload_brings_are_counted_by_their_own_names() {
    let configured = Configured::start("arch = \"n-copy\"");
    let site = |host: &str| {
        let root = crate::common::text(configured.site.path());
        format!("[[site]]\nhosts = [{host:?}]\nroot = {root:?}\n")
    };
    let answered = |host: &str, name: &str, count: u64| {
        let request = format!("GET /small.txt HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let answer = configured.server.connect().ask(request);
        assert_eq!(answer.status(), 200, "{host}");
        wait_for(name, || (configured.status()["hosts"][name]["2xx"] == count).then_some(()));
    };
    answered("any.example", "*", 1);
    configured.write_all(&(site("one.example") + &site("two.example")));
    configured.reload();
    answered("two.example", "two.example", 1);
    answered("one.example", "one.example", 1);
    // What went and came back goes on, in another place of the file.
    configured.write_all(&(site("two.example") + &site("*")));
    configured.reload();
    answered("two.example", "two.example", 2);
    answered("any.example", "*", 2);
    let status = configured.status();
    let names: Vec<&String> = status["hosts"].as_object().expect("hosts").keys().collect();
    assert_eq!(names.len(), 4, "{names:?}");
    assert_eq!(status["hosts"]["other"]["2xx"], 0, "{status}");
}

#[test]
fn a_configuration_that_cannot_be_used_changes_nothing_and_says_why() {
    let configured = Configured::start("arch = \"sped\"");
    let Configured { server, .. } = &configured;
    let worker = server.children(2)[0];
    configured.write("arch = \"sped\"\ntimeout.idel = \"3s\"");
    let said = configured.refused();
    assert!(said.contains("nothing changes"), "{said}");
    assert!(said.contains("flyball.toml:2") && said.contains("timeout.idle"), "{said}");
    configured.write_all("[[site]]\nroot = \"/no/such/root\"\n");
    let said = configured.refused();
    assert!(said.contains("/no/such/root"), "{said}");
    configured.write("listen = [not toml");
    assert!(configured.refused().contains("flyball.toml:1"), "it does not say where");
    std::fs::remove_file(within(&configured.directory, "flyball.toml")).expect("it is there");
    assert!(configured.refused().contains("flyball.toml"), "it does not say what");
    configured.write("arch = \"sped\"");
    signal(server.master(), "HUP");
    server.errors.wait_for("the reload", |said| said.contains("generation 2, sped"));
    assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
    wait_for("the first worker ends", || (!crate::common::is_running(worker)).then_some(()));
}

/// A server whose addresses are those of its file.
fn listening_on(site: &Site, directory: &TempDir, addresses: &str) -> Server {
    write_addresses(site, directory, addresses);
    let path = within(directory, "flyball.toml");
    let admin = format!("unix:{}", text(&within(directory, "admin")));
    Launch::bare::<&str>(&[]).args(&["--config", text(&path), "--admin", &admin]).start()
}

fn write_addresses(site: &Site, directory: &TempDir, addresses: &str) {
    let lines = format!("arch = \"n-copy\"\nworkers = 2\nlisten = [{addresses}]");
    let path = within(directory, "flyball.toml");
    std::fs::write(path, whole(site, &lines)).expect("the file is written");
}

fn is_refused(address: SocketAddr) -> bool {
    let refused = std::io::ErrorKind::ConnectionRefused;
    std::net::TcpStream::connect(address).is_err_and(|error| error.kind() == refused)
}

fn answers(address: SocketAddr) {
    let mut client = Client::connect(address);
    assert_eq!(client.ask(last_get("/small.txt")).status(), 200, "{address}");
}

#[test]
fn addresses_come_and_go_and_come_back() {
    let site = Site::with(&[("small.txt", &[b'x'; 1024])]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = within(&directory, "admin");
    let (first, second) = (free_address(), free_address());
    let (one, other) = (format!("\"{first}\""), format!("\"{second}\""));
    let server = listening_on(&site, &directory, &one);
    let mut kept = Client::connect(first);
    assert_eq!(kept.ask(get("/small.txt")).status(), 200);
    write_addresses(&site, &directory, &format!("{one}, {other}"));
    told(&socket, &["reload"]);
    answers(first);
    answers(second);
    // The first generation still has a connection, and with it the sockets.
    write_addresses(&site, &directory, &other);
    told(&socket, &["reload"]);
    assert!(is_refused(first));
    answers(second);
    assert_eq!(kept.ask(get("/small.txt")).status(), 200);
    wait_for("earlier generations end", || (children(server.master()).len() == 3).then_some(()));
    assert!(is_refused(first));
    write_addresses(&site, &directory, &format!("{other}, {one}"));
    told(&socket, &["reload"]);
    answers(first);
    answers(second);
    // A port that another process took meanwhile.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("it is bound").port();
    write_addresses(&site, &directory, &format!("{one}, \"127.0.0.1:{port}\""));
    let said = refused(&socket, &["reload"]);
    assert!(said.contains("the port is taken by another program"), "{said}");
    answers(first);
    answers(second);
}

#[test]
fn an_address_that_comes_back_before_the_old_workers_have_ended_is_served_again() {
    let site = Site::with(&[("small.txt", &[b'x'; 1024])]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = within(&directory, "admin");
    let (first, second) = (free_address(), free_address());
    let (one, other) = (format!("\"{first}\""), format!("\"{second}\""));
    let _server = listening_on(&site, &directory, &one);
    let mut kept = Client::connect(first);
    assert_eq!(kept.ask(get("/small.txt")).status(), 200);
    write_addresses(&site, &directory, &other);
    told(&socket, &["reload"]);
    assert!(is_refused(first));
    write_addresses(&site, &directory, &one);
    told(&socket, &["reload"]);
    answers(first);
    assert!(is_refused(second));
    assert_eq!(kept.ask(get("/small.txt")).status(), 200);
}

#[test]
fn fewer_workers_than_sockets_leave_no_accept_queue_alone() {
    let configured = Configured::start("arch = \"n-copy\"\nworkers = 8");
    for arch in ["n-copy", "uring", "tux", "shared-symped"] {
        if flyball_arch::find(arch).is_none_or(|arch| arch.probe().is_err()) {
            continue;
        }
        configured.write(&format!("arch = \"{arch}\"\nworkers = 1"));
        configured.reload();
        for newcomer in 0..NEWCOMERS {
            let mut client = configured.server.connect();
            assert_eq!(client.ask(last_get("/small.txt")).status(), 200, "{arch}: {newcomer}");
        }
    }
}

#[test]
fn generations_do_not_pile_up() {
    let large: Vec<u8> = vec![b'x'; LARGE_BYTES];
    let configured = Configured::start("arch = \"sped\"");
    std::fs::write(configured.site.path().join("large.bin"), &large).expect("it is written");
    let mut downloads = Vec::new();
    for generation in 1..4 {
        let mut client = configured.server.connect();
        client.send(last_get("/large.bin"));
        assert_eq!(client.response_head().status(), 200);
        downloads.push(client);
        if generation < 3 {
            configured.reload();
        }
    }
    let said = configured.refused();
    assert!(said.contains("2 earlier generations of workers still have connections"), "{said}");
    assert!(said.contains("; try again when `drain` ("), "{said}");
    assert_eq!(configured.status()["generation"], 3);
    assert_eq!(configured.server.connect().ask(last_get("/small.txt")).status(), 200);
    for client in &mut downloads {
        assert_eq!(client.take(LARGE_BYTES).len(), LARGE_BYTES);
    }
    drop(downloads);
    wait_for("room for another", || {
        crate::common::ctl(&configured.socket(), &["reload"]).status.success().then_some(())
    });
}

#[test]
#[ignore = "full tier"]
fn a_download_that_outlasts_the_drain_of_a_reload_is_cut() {
    let large: Vec<u8> = vec![b'x'; LARGE_BYTES];
    for arch in architectures() {
        let configured = Configured::start(&format!("arch = {arch:?}\ndrain = \"1s\""));
        std::fs::write(configured.site.path().join("large.bin"), &large).expect("it is written");
        let mut client = configured.server.connect();
        client.send(last_get("/large.bin"));
        assert_eq!(client.response_head().status(), 200, "{arch}");
        configured.reload();
        let told = "1 connections were still open at the drain deadline";
        configured.server.errors.wait_for("the drain deadline", |said| said.contains(told));
        assert!(client.rest_before_end().len() < LARGE_BYTES, "{arch}");
        assert_eq!(configured.server.connect().ask(last_get("/small.txt")).status(), 200, "{arch}");
    }
}

#[test]
fn what_a_reload_changes_is_told_with_both_values() {
    let configured = Configured::start("arch = \"sped\"\ntimeout.idle = \"20s\"");
    told(&configured.socket(), &["set", "rate.window", "9s"]);
    configured.write("arch = \"mt\"\ntimeout.idle = \"21s\"\nmt.threads = 7");
    configured.reload();
    let all = |said: &str| said.matches("; it was ").count() >= 5;
    let said = configured.server.errors.wait_for("all changes", all);
    for change in [
        "arch is mt; it was sped",
        "timeout.idle is 21s; it was 20s",
        "rate.window is 10s; it was 9s",
        "mt.threads is 7; it was ",
    ] {
        assert!(said.contains(&format!("flyball: {change}")), "{change} is not in\n{said}");
    }
    assert_eq!(said.matches("; it was ").count(), 5, "{said}");
}

#[test]
fn a_server_without_a_configuration_file_ends_with_its_terminal() {
    let site = Site::with(&[("small.txt", &[b'x'; 1024])]);
    let mut server = Launch::new(&site, "sped").start();
    signal(server.master(), "HUP");
    assert!(server.ended().success());
}

#[test]
fn workers_that_divide_the_addresses_read_their_own_alone() {
    const CLIENTS: usize = 8;
    let site = Site::with(&[("small.txt", &[b'x'; 1024])]);
    for arch in ["n-copy", "amped", "uring"] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = within(&directory, "flyball.toml");
        let addresses = [free_address(), free_address()];
        let listen = addresses.map(|address| format!("\"{address}\"")).join(", ");
        let lines = format!("arch = \"{arch}\"\nworkers = 2\nlisten = [{listen}]");
        std::fs::write(&path, whole(&site, &lines)).expect("the file is written");
        let launch = Launch::bare::<&str>(&[]).args(&["--config", text(&path)]);
        let server = launch.set("accept.by-address=true").start();
        let served = server.children(2).into_iter().map(|worker| {
            signal(worker, "STOP");
            let mut clients = addresses.map(|address| {
                [(); CLIENTS].map(|()| {
                    let mut client = Client::connect(address);
                    client.send(last_get("/small.txt"));
                    client
                })
            });
            // The other worker answers all of one address, and none of this one's.
            let served = wait_for("one address is served", || {
                let arrived = |address: usize| {
                    clients[address].iter_mut().filter_map(|c| c.arrived().then_some(())).count()
                };
                let counts = [0, 1].map(arrived);
                counts.iter().position(|count| *count == CLIENTS).map(|at| (at, counts))
            });
            signal(worker, "CONT");
            for client in clients.iter_mut().flatten() {
                assert_eq!(client.response().status(), 200, "{arch}");
            }
            assert_eq!(served.1.iter().sum::<usize>(), CLIENTS, "{arch}");
            served.0
        });
        let mut served: Vec<usize> = served.collect();
        served.sort_unstable();
        assert_eq!(served, [0, 1], "{arch}");
    }
}

/// Counters are in memory that all processes share from the start on.
#[test]
fn more_workers_than_room_was_made_for_at_the_start_are_refused() {
    let configured = Configured::start("arch = \"sped\"\nworkers = 1\nmt.threads = 8\n");
    let socket = configured.socket();
    let before = configured.server.children(2);
    let refusal = "n-copy would have 1000 workers or threads, and this server has made room for ";
    configured.write("arch = \"n-copy\"\nworkers = 1000\n");
    let said = configured.refused();
    assert!(said.contains(refusal) && said.contains("; restart it"), "{said}");
    assert_eq!(children(configured.server.master()), before);
    assert_eq!(told(&socket, &["get", "workers"]), "1\n");
    assert_eq!(told(&socket, &["get", "arch"]), "sped\n");

    // The same for an architecture that has one worker, which another would not.
    configured.write("arch = \"sped\"\nworkers = 1000\n");
    configured.reload();
    let running = wait_for("the new generation without the old one", || {
        let now = children(configured.server.master());
        (now.len() == 2 && now.iter().all(|process| !before.contains(process))).then_some(now)
    });
    let said = refused(&socket, &["set", "arch", "n-copy"]);
    assert!(said.contains("arch stays sped: ") && said.contains(refusal), "{said}");
    assert_eq!(children(configured.server.master()), running);
    let mut client = configured.server.connect();
    assert_eq!(client.ask(get("/small.txt")).status(), 200);

    // What there is room for goes on as before.
    configured.write("arch = \"n-copy\"\nworkers = 2\n");
    configured.reload();
    assert_eq!(configured.server.connect().ask(get("/small.txt")).status(), 200);
    assert_eq!(told(&socket, &["get", "arch"]), "n-copy\n");
}
