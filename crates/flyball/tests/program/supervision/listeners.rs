//! Addresses of `[[listener]]` tables: served, told, and changed by a reload and by an upgrade.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use super::systemd::handed_over;
use crate::common::{
    Launch, Server, Site, architectures, copy_program, end_successor, last_get, refused, signal,
    text, told, wait_for, within,
};
use flyball_testkit::{Client, Identity, free_address};
use tempfile::TempDir;

/// Architectures with listening sockets of their own: one for all, one for each worker, shared by
/// processes, watched by a ring.
const KINDS: [&str; 4] = ["sped", "n-copy", "mp", "uring"];

/// A server of listeners, started from a program and a file of its own.
struct Listening {
    site: Site,
    directory: TempDir,
    server: Server,
}

impl Listening {
    fn start(arch: &str, listeners: &str) -> Listening {
        let site = Site::with(&[("small.txt", &[b'x'; 1024])]);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = within(&directory, "certificate.pem");
        let Identity { chain, key, .. } = Identity::shared();
        std::fs::write(&file, format!("{chain}{key}")).expect("the file is written");
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&file, mode).expect("and hidden");
        let program = within(&directory, "flyball");
        copy_program(&program);
        write(&directory, &site, arch, listeners);
        let config = within(&directory, "flyball.toml");
        let server =
            Launch::program(&[program.into()]).asked().args(&["--config", text(&config)]).start();
        Listening { site, directory, server }
    }

    fn socket(&self) -> PathBuf {
        within(&self.directory, "admin")
    }

    fn reload(&self, arch: &str, listeners: &str) {
        write(&self.directory, &self.site, arch, listeners);
        told(&self.socket(), &["reload"]);
    }

    #[track_caller]
    fn status(&self) -> serde_json::Value {
        serde_json::from_str(&told(&self.socket(), &["status"])).expect("the status is JSON")
    }
}

/// Ends a server that took the place of the first, with the test.
impl Drop for Listening {
    fn drop(&mut self) {
        end_successor(&self.directory, &self.server);
    }
}

fn write(directory: &TempDir, site: &Site, arch: &str, listeners: &str) {
    let path = |name: &str| within(directory, name);
    let lines = format!(
        "arch = {arch:?}\nworkers = 2\nadmin = \"unix:{}\"\npid-file = {:?}\n\
         tls.redirect-http = false\n{listeners}\n[[site]]\nroot = {:?}\ncertificate = {:?}\n",
        text(&path("admin")),
        path("pid"),
        site.path(),
        path("certificate.pem")
    );
    std::fs::write(path("flyball.toml"), lines).expect("the file is written");
}

/// A `[[listener]]` table.
fn listener(address: SocketAddr, lines: &str) -> String {
    format!("[[listener]]\naddress = \"{address}\"\n{lines}\n")
}

#[track_caller]
fn answers(address: SocketAddr, is_secure: bool) {
    let client = Client::connect(address);
    let mut client = if is_secure { client.secure() } else { client };
    assert_eq!(client.ask(last_get("/small.txt")).status(), 200, "{address}");
}

fn is_refused(address: SocketAddr) -> bool {
    let refused = std::io::ErrorKind::ConnectionRefused;
    std::net::TcpStream::connect(address).is_err_and(|error| error.kind() == refused)
}

#[test]
fn listeners_come_go_and_change_by_a_reload() {
    for arch in KINDS.into_iter().filter(|kind| architectures().contains(kind)) {
        let (first, second, third) = (free_address(), free_address(), free_address());
        let short = format!("listen = [\"{first}\"]\n");
        let listening = Listening::start(arch, &(short.clone() + &listener(second, "tls = true")));
        answers(first, false);
        answers(second, true);
        let listeners = listening.status()["listeners"].clone();
        assert_eq!(listeners[0]["address"], first.to_string(), "{arch}");
        assert_eq!(listeners[1]["address"], second.to_string(), "{arch}");
        assert_eq!((&listeners[0]["tls"], &listeners[1]["tls"]), (&false.into(), &true.into()));
        // One comes, and one speaks something else.
        listening.reload(arch, &(listener(second, "") + &listener(third, "tls = true")));
        assert!(is_refused(first), "{arch}");
        answers(second, false);
        answers(third, true);
        // What is wrong changes nothing.
        write(
            &listening.directory,
            &listening.site,
            arch,
            &(listener(second, "") + &listener(second, "")),
        );
        let said = refused(&listening.socket(), &["reload"]);
        assert!(said.contains("is listened on already"), "{arch}: {said}");
        answers(second, false);
        answers(third, true);
    }
}

#[test]
fn every_address_is_answered_when_there_are_as_many_as_connections_may_be_or_more() {
    for arch in architectures() {
        for most in [4, 8, 100] {
            let all: Vec<SocketAddr> = (0..8).map(|_| free_address()).collect();
            let tables: String = all.iter().map(|address| listener(*address, "")).collect();
            let lines = format!("connections.max = {most}\naccept.defer = false\n{tables}");
            let _server = Listening::start(arch, &lines);
            for _ in 0..3 {
                all.iter().for_each(|address| answers(*address, false));
            }
            // One that is held where another is full of them leaves the others theirs.
            let held = Client::connect(all[7]);
            all.iter().for_each(|address| answers(*address, false));
            drop(held);
        }
    }
}

#[test]
fn an_upgrade_hands_listeners_over() {
    for arch in KINDS.into_iter().filter(|kind| architectures().contains(kind)) {
        let (first, second) = (free_address(), free_address());
        let listeners = listener(first, "") + &listener(second, "tls = true");
        let mut listening = Listening::start(arch, &listeners);
        answers(second, true);
        let said = told(&listening.socket(), &["upgrade"]);
        assert!(said.ends_with(" has taken over\n"), "{arch}: {said}");
        answers(first, false);
        answers(second, true);
        assert!(listening.server.ended().success(), "{arch}");
        assert_eq!(listening.status()["listeners"][1]["tls"], true, "{arch}");
    }
}

#[test]
fn a_listener_takes_the_socket_that_was_handed_over_for_its_address() {
    let site = Site::with(&[("small.txt", b"small")]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("it is bound");
    let config = within(&directory, "flyball.toml");
    let lines =
        format!("arch = \"sped\"\n{}[[site]]\nroot = {:?}\n", listener(address, ""), site.path());
    std::fs::write(&config, lines).expect("the file is written");
    let mut child =
        handed_over(&config, socket.try_clone().expect("a copy")).spawn().expect("sh runs");
    for _ in 0..3 {
        answers(address, false);
    }
    signal(child.id(), "TERM");
    assert!(wait_for("the end", || child.try_wait().expect("a child")).success());
}

/// What systemd lends stays its own, by its name, its mode and as something that listens: through
/// reloads that do not list it and list it again, an upgrade and the end.
#[test]
fn a_socket_that_was_lent_is_its_owners_to_the_end() {
    for arch in ["n-copy", "mt", "uring"] {
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = tcp.local_addr().expect("it is bound").to_string();
        stays_its_owners(arch, &address, OwnedFd::from(tcp), &|| {
            answers(address.parse().expect("an address"), false);
        });
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = within(&directory, "lent.sock");
        let local = UnixListener::bind(&path).expect("it is bound");
        let mode = || std::fs::metadata(&path).expect("it is there").permissions().mode() & 0o777;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).expect("a mode");
        stays_its_owners(arch, &format!("unix:{}", text(&path)), OwnedFd::from(local), &|| {
            assert_eq!(Client::connect_unix(&path).ask(last_get("/small.txt")).status(), 200);
            assert_eq!(mode(), 0o666, "{arch}");
        });
        assert_eq!(mode(), 0o666, "{arch}");
    }
}

fn stays_its_owners(arch: &str, address: &str, socket: OwnedFd, answers: &dyn Fn()) {
    let site = Site::with(&[("small.txt", b"small")]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let config = within(&directory, "flyball.toml");
    let configure = |listener: &str| write(&directory, &site, arch, listener);
    std::fs::write(within(&directory, "certificate.pem"), "").expect("it is written");
    let listed = format!("listen = [\"127.0.0.1:0\"]\n[[listener]]\naddress = {address:?}\n");
    configure(&listed);
    let mut child =
        handed_over(&config, socket.try_clone().expect("a copy")).spawn().expect("sh runs");
    let (admin, pid) = (within(&directory, "admin"), within(&directory, "pid"));
    wait_for("the server", || pid.exists().then_some(()));
    answers();
    configure("listen = [\"127.0.0.1:0\"]\n");
    told(&admin, &["reload"]);
    configure(&listed);
    told(&admin, &["reload"]);
    answers();
    let said = told(&admin, &["upgrade"]);
    assert!(said.ends_with(" has taken over\n"), "{arch}: {said}");
    assert!(wait_for("the end", || child.try_wait().expect("a child")).success());
    answers();
    told(&admin, &["reload"]);
    answers();
    let successor = std::fs::read_to_string(&pid).expect("the number of the master");
    signal(successor.trim().parse().expect("a number"), "TERM");
    wait_for("its end", || (!pid.exists()).then_some(()));
    // Who connects now waits for the next server, which is what the socket is lent for.
    let late = match address.strip_prefix("unix:") {
        Some(path) => UnixStream::connect(path).map(drop),
        None => std::net::TcpStream::connect(address).map(drop),
    };
    late.unwrap_or_else(|error| panic!("{arch}: {address}: {error}"));
}
