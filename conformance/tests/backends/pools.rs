//! Responders that the server starts itself: as many as are needed, again when they die, and none
//! when it ends.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::coded;
use crate::common_programs::on_every_architecture;
use flyball_testkit::{Client, Launch, Response, Server, as_ourselves, binary, wait};

const PROGRAM: &str = env!("CARGO_BIN_EXE_backend");

struct Responders {
    server: Server,
    _root: tempfile::TempDir,
}

/// A server with responders of these keys.
fn start(keys: &str) -> Responders {
    start_under("sped", keys)
}

fn start_under(architecture: &str, keys: &str) -> Responders {
    start_where_possible(architecture, keys).expect("it can run here")
}

/// One process, always: a busy machine would have a second one start while the first is late.
const ONE: &str = "processes-min = 1\nprocesses = 1\n";

fn start_where_possible(architecture: &str, keys: &str) -> Option<Responders> {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("page.txt"), "a page\n").unwrap();
    let server = launch(architecture, keys, root.path()).start_where_possible()?;
    Some(Responders { server, _root: root })
}

fn launch(architecture: &str, keys: &str, root: &Path) -> Launch {
    launch_with("", architecture, keys, root)
}

fn launch_with(settings: &str, architecture: &str, keys: &str, root: &Path) -> Launch {
    let user = as_ourselves();
    let workers = if architecture == "mp" { "" } else { "workers = 1\n" };
    Launch::config(format!(
        "{user}{settings}arch = \"{architecture}\"\nlisten = \"127.0.0.1:0\"\n\
         admin = \"127.0.0.1:0\"\n{workers}[[site]]\nroot = {root:?}\n\
         [[site.fastcgi]]\npath = \"/app\"\nprogram = {PROGRAM:?}\n{keys}",
    ))
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.0\r\n\r\n")
}

impl Responders {
    fn ask(&self, path: &str) -> Response {
        let mut client = self.server.connect();
        client.send(get(path));
        let mut response = client.response_head();
        response.body = client.rest();
        response
    }

    /// Asks a responder for the number of its process.
    fn number(&self) -> u32 {
        let response = self.ask("/app/id");
        assert_eq!(response.status(), 200, "{}", self.server.errors());
        response.text().trim().parse().unwrap()
    }

    /// The processes of responders.
    fn processes(&self) -> BTreeSet<u32> {
        let is_ours = |pid: &u32| {
            let path = fs::read_link(format!("/proc/{pid}/exe"));
            path.is_ok_and(|path| path == Path::new(PROGRAM)) && self.is_below(*pid)
        };
        let names = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name());
        names.filter_map(|name| name.to_str()?.parse().ok()).filter(is_ours).collect()
    }

    /// Whether the server has started a process, itself or by another.
    fn is_below(&self, mut pid: u32) -> bool {
        while pid > 1 && pid != self.server.pid() {
            let Some(parent) = parent_of(pid) else { return false };
            pid = parent;
        }
        pid == self.server.pid()
    }

    #[track_caller]
    fn expect_processes(&self, count: usize) -> BTreeSet<u32> {
        let mut found = BTreeSet::new();
        let reached = wait::until(wait::DEADLINE, || {
            found = self.processes();
            (found.len() == count).then_some(())
        });
        assert!(reached.is_some(), "{found:?} are not {count}: {}", self.server.errors());
        found
    }

    #[track_caller]
    fn expect_logged(&self, text: &str) {
        let logged = || self.server.errors().contains(text).then_some(());
        assert!(wait::until(wait::DEADLINE, logged).is_some(), "{text}: {}", self.server.errors());
    }
}

fn parent_of(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let parent = text.lines().find_map(|line| line.strip_prefix("PPid:"));
    parent.and_then(|text| text.trim().parse().ok())
}

fn kill(pid: u32, signal: &str) {
    let status = std::process::Command::new("kill").args([signal, &pid.to_string()]).status();
    assert!(status.unwrap().success());
}

#[test]
fn the_first_request_starts_one_that_answers_all_that_come_one_after_the_other() {
    for architecture in ["sped", "mt", "knot-c", "watpipe", "uring"] {
        let responders = start_under(architecture, "processes-min = 0\nprocesses = 20\n");
        assert_eq!(responders.processes().len(), 0);
        let first = responders.number();
        let numbers: BTreeSet<u32> = (0..20).map(|_| responders.number()).collect();
        let processes = responders.processes();
        // Where one took so long on a busy machine that another was started, those are few.
        assert!(processes.contains(&first) && numbers.is_subset(&processes), "{architecture}");
        assert!(processes.len() <= 5, "{architecture}: {processes:?}");
        assert_eq!(responders.ask("/page.txt").text(), "a page\n");
    }
}

#[test]
fn as_many_are_started_as_are_needed_and_as_may_be_and_idle_ones_end() {
    let responders = start("processes-min = 1\nprocesses = 3\nprocess-idle = \"300ms\"\n");
    responders.expect_processes(1);
    let seen = AtomicBool::new(false);
    let ask = || {
        while !seen.load(Relaxed) {
            assert_eq!(responders.ask("/app/slow").status(), 200);
        }
    };
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..12).map(|_| scope.spawn(ask)).collect();
        let most =
            wait::until(wait::DEADLINE, || (responders.processes().len() == 3).then_some(()));
        seen.store(true, Relaxed);
        assert!(most.is_some(), "{:?}", responders.processes());
        for asked in asking {
            asked.join().unwrap();
            assert!(responders.processes().len() <= 3);
        }
    });
    responders.expect_processes(1);
    assert_eq!(responders.ask("/app/answer").text(), "hello\n");
    // Being ended for want of work is no failure.
    assert!(!responders.server.errors().contains("signal"), "{}", responders.server.errors());
}

#[test]
fn one_that_dies_is_replaced_and_what_it_said_is_logged() {
    let responders = start(ONE);
    let first = responders.number();
    // One that has lived for a while, so that there is no pause.
    let born = Instant::now();
    wait::until(wait::DEADLINE, || (born.elapsed() > Duration::from_millis(1_100)).then_some(()));
    assert_eq!(responders.ask("/app/dies").status(), 502);
    responders.expect_logged(&format!("[{first}]: dies of it"));
    responders.expect_logged(&format!("[{first}]: was ended by signal 6"));
    let second = responders.number();
    assert_ne!(first, second);
    kill(second, "-KILL");
    responders.expect_logged(&format!("[{second}]: was ended by signal 9"));
    let third = wait::until(wait::DEADLINE, || {
        let response = responders.ask("/app/id");
        // Until the pause is over.
        assert!(matches!(response.status(), 200 | 502 | 503), "{}", response.status());
        (response.status() == 200).then(|| response.text().trim().parse::<u32>().unwrap())
    });
    assert!(third.is_some_and(|third| third != second));
}

#[test]
fn one_that_never_lives_is_tried_later_each_time_and_clients_are_told_at_once() {
    let responders =
        start("processes-min = 1\nprocesses = 2\nenvironment = { DIES_AFTER = \"0\" }\n");
    responders.expect_logged("the next is started in 800 ms");
    // Told at once is told by this status: who waits gets an answer or nothing.
    let response = responders.ask("/app/id");
    assert!(matches!(response.status(), 502 | 503), "{}", response.status());
    let errors = responders.server.errors();
    assert!(errors.contains("it does not want to live"), "{errors}");
    assert!(errors.matches("ended with code 1").count() < 10, "{errors}");
    assert_eq!(responders.ask("/page.txt").text(), "a page\n");
}

#[test]
fn no_request_is_lost_when_responders_end_after_some_requests() {
    let keys = "processes-min = 2\nprocesses = 4\nenvironment = { DIES_AFTER = \"50\" }\n";
    let responders = start(keys);
    let (left, numbers) = (AtomicUsize::new(600), std::sync::Mutex::new(BTreeSet::new()));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
                    let number = responders.number();
                    numbers.lock().unwrap().insert(number);
                }
            });
        }
    });
    let numbers = numbers.into_inner().unwrap();
    assert!(numbers.len() >= 10, "{}", numbers.len());
}

#[test]
fn all_end_with_the_server_and_leave_no_socket() {
    let (_directory, socket) = place_for_a_socket();
    for keys in [String::new(), format!("socket = \"unix:{}\"\n", socket.display())] {
        let responders = start(&format!("{keys}processes-min = 3\nprocesses = 3\n"));
        let processes = responders.expect_processes(3);
        responders.number();
        assert_eq!(socket.exists(), !keys.is_empty());
        let at = private_sockets(&processes);
        responders.server.terminate();
        let stopped = responders.server.wait();
        assert_eq!(stopped.code, Some(0), "{}", stopped.errors);
        for pid in processes {
            let path = format!("/proc/{pid}");
            let gone = wait::until(wait::DEADLINE, || (!Path::new(&path).exists()).then_some(()));
            assert!(gone.is_some(), "{pid} still runs");
        }
        assert!(!socket.exists());
        let gone =
            wait::until(wait::DEADLINE, || at.iter().all(|path| !path.exists()).then_some(()));
        assert!(gone.is_some(), "{at:?}");
    }
}

/// The names of the sockets that processes listen on.
fn private_sockets(processes: &BTreeSet<u32>) -> Vec<PathBuf> {
    // A mark and a number are behind the name by which each was bound.
    let name = |bound: PathBuf| bound.with_extension("").with_extension("");
    let all: Vec<_> = bound_sockets(processes).into_iter().map(name).collect();
    assert!(!all.is_empty() && all.iter().all(|path| path.exists()), "{all:?}");
    all
}

/// The names by which the sockets were bound that processes listen on.
fn bound_sockets(processes: &BTreeSet<u32>) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/net/unix").unwrap();
    let link = |path: String| fs::read_link(path).unwrap().to_string_lossy().into_owned();
    let inode = |pid: &u32| {
        let text = link(format!("/proc/{pid}/fd/0"));
        text.trim_start_matches("socket:[").trim_end_matches(']').to_owned()
    };
    let inodes: BTreeSet<String> = processes.iter().map(inode).collect();
    let starter = processes.first().and_then(|pid| parent_of(*pid)).unwrap();
    let named = table.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_ours = fields.get(6).is_some_and(|inode| inodes.contains(*inode));
        // They were bound by the number of their directory.
        let bound = fields.get(7).filter(|_| is_ours)?.strip_prefix("/proc/self/fd/")?;
        let (directory, name) = bound.split_once('/')?;
        let directory = link(format!("/proc/{starter}/fd/{directory}"));
        Some(Path::new(&directory).join(name))
    });
    named.collect()
}

#[test]
#[ignore = "full tier"]
fn a_reload_under_load_loses_no_request_and_leaves_no_responder_of_before() {
    let (_directory, socket) = place_for_a_socket();
    let keys = format!("socket = \"unix:{}\"\n", socket.display());
    for keys in [&keys[..], ""] {
        let responders = start(&format!("{keys}processes-min = 2\nprocesses = 2\n"));
        let before = responders.expect_processes(2);
        let (stop, begun) = (AtomicBool::new(false), Barrier::new(5));
        std::thread::scope(|scope| {
            let asking: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        responders.number();
                        begun.wait();
                        let mut count = 0;
                        while !stop.load(Relaxed) {
                            responders.number();
                            count += 1;
                        }
                        count
                    })
                })
                .collect();
            begun.wait();
            kill(responders.server.pid(), "-HUP");
            let changed = wait::until(wait::DEADLINE, || {
                let now = responders.processes();
                (now.len() == 2 && now.is_disjoint(&before)).then_some(())
            });
            stop.store(true, Relaxed);
            let counts: Vec<usize> = asking.into_iter().map(|t| t.join().unwrap()).collect();
            assert!(changed.is_some(), "{before:?} {:?}", responders.processes());
            assert!(counts.iter().sum::<usize>() > 0, "{counts:?}");
        });
        assert_eq!(socket.exists(), !keys.is_empty());
        responders.number();
    }
}

#[test]
fn a_socket_whose_name_was_taken_away_is_made_again() {
    let (_directory, socket) = place_for_a_socket();
    let keys = format!("socket = \"unix:{}\"\n{ONE}", socket.display());
    let responders = start(&keys);
    let first = responders.number();
    fs::remove_file(&socket).unwrap();
    let again = wait::until(wait::DEADLINE, || {
        let response = responders.ask("/app/id");
        (response.status() == 200).then(|| response.text().trim().parse::<u32>().unwrap())
    });
    assert!(again.is_some_and(|again| again != first), "{}", responders.server.errors());
    responders.expect_processes(1);
}

#[test]
fn the_name_of_a_socket_stays_while_none_lives_and_refuses() {
    let (_directory, socket) = place_for_a_socket();
    let keys =
        format!("socket = \"unix:{}\"\nenvironment = {{ DIES_AFTER = \"0\" }}\n", socket.display());
    let responders = start(&keys);
    responders.expect_logged("the next is started in 800 ms");
    let refuses = || {
        assert!(socket.exists());
        let connected = std::os::unix::net::UnixStream::connect(&socket);
        connected.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused).then_some(())
    };
    assert!(wait::until(wait::DEADLINE, refuses).is_some(), "{}", responders.server.errors());
    assert!(std::os::unix::net::UnixListener::bind(&socket).is_err());
    responders.server.terminate();
    let stopped = responders.server.wait();
    assert!(!socket.exists(), "{}", stopped.errors);
}

/// A user that is neither the superuser nor one that the server runs as.
const OTHER: u32 = 61_001;

/// What listens for what is meant for others, until the test ends.
struct Overhearing(std::process::Child);

impl Overhearing {
    fn at(directory: &Path, path: &Path, user: Option<u32>) -> Overhearing {
        use std::os::unix::process::CommandExt;
        let program = directory.join("overhear");
        fs::copy(PROGRAM, &program).unwrap();
        let mut command = std::process::Command::new(program);
        command.arg(path).stdout(std::process::Stdio::piped());
        user.map(|user| command.uid(user));
        // A process that another test has just forked may have the file open for writing still.
        let mut child =
            wait::until(wait::DEADLINE, || command.spawn().ok()).expect("it can be run");
        let mut line = [0; 8];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        assert_eq!(&line, b"listens\n");
        Overhearing(child)
    }

    /// What it was told.
    fn end(mut self) -> String {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
        std::io::read_to_string(self.0.stdout.take().unwrap()).unwrap()
    }
}

/// A directory in which only this user makes names, and a name for a socket in it.
fn place_for_a_socket() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    set_mode(directory.path(), 0o755);
    let socket = directory.path().join("app.sock");
    (directory, socket)
}

/// A directory like /tmp, and a name for a socket in it; `None` where the test may not make files
/// of other users.
fn shared_directory() -> Option<(tempfile::TempDir, PathBuf)> {
    if as_ourselves().is_empty() {
        flyball_testkit::skip("only the superuser acts for other users");
        return None;
    }
    let (directory, socket) = place_for_a_socket();
    set_mode(directory.path(), 0o1777);
    Some((directory, socket))
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn another_user_who_has_the_name_of_the_socket_is_told_nothing(architecture: &str) {
    let Some((directory, socket)) = shared_directory() else { return };
    let keys = format!("socket = \"unix:{}\"\n{ONE}", socket.display());
    let Some(responders) = start_where_possible(architecture, &keys) else { return };
    responders.number();
    // As if the name had been cleaned away, and that user had been first; all but the number of
    // the name by which it was bound is as with ours.
    let bound = bound_sockets(&responders.expect_processes(1)).remove(0);
    let theirs = bound.with_extension("0123456789abcdef");
    let overhearing = Overhearing::at(directory.path(), &theirs, Some(OTHER));
    set_mode(&theirs, 0o777);
    fs::rename(&theirs, &socket).unwrap();
    for _ in 0..3 {
        let response = responders.ask("/app/id");
        assert_eq!(response.status(), 503, "{}", responders.server.errors());
    }
    responders.expect_logged("its socket is that of another user");
    responders.expect_logged(&format!("the name is that of a socket of user {OTHER}"));
    assert_eq!(overhearing.end(), "");
    fs::remove_file(&socket).unwrap();
    let again = || (responders.ask("/app/id").status() == 200).then_some(());
    assert!(wait::until(wait::DEADLINE, again).is_some(), "{}", responders.server.errors());
}

/// Has a name lead to something else; there is no moment at which it leads to nothing.
fn lead(name: &Path, target: &Path) {
    let link = name.with_extension("link");
    std::os::unix::fs::symlink(target, &link).unwrap();
    fs::rename(link, name).unwrap();
}

/// The user of the workers listens there too.
fn a_name_that_leads_to_another_responder_leads_no_request_there(architecture: &str) {
    let (directory, socket) = place_for_a_socket();
    let other = directory.path().join("other.sock");
    let keys = |socket: &Path| format!("socket = \"unix:{}\"\n{ONE}", socket.display());
    let keys = format!(
        "{}[[site.fastcgi]]\npath = \"/other\"\nprogram = {PROGRAM:?}\n{}",
        keys(&socket),
        keys(&other),
    );
    let Some(responders) = start_where_possible(architecture, &keys) else { return };
    assert_eq!(responders.ask("/other/id").status(), 200, "{}", responders.server.errors());
    let first = responders.number();
    let foreign = directory.path().join("foreign.sock");
    let overhearing = Overhearing::at(directory.path(), &foreign, None);
    for target in [&other, &foreign] {
        lead(&socket, target);
        let response = responders.ask("/app/id");
        assert_eq!(response.status(), 503, "{target:?}: {}", responders.server.errors());
    }
    responders.expect_logged("its name leads to another socket");
    assert_eq!(responders.ask("/other/id").status(), 200, "{}", responders.server.errors());
    assert_eq!(overhearing.end(), "");
    // Wherever it is by now, the socket that was made for the name is right.
    fs::remove_file(&socket).unwrap();
    let again = wait::until(wait::DEADLINE, || {
        let response = responders.ask("/app/id");
        (response.status() == 200).then(|| response.text().trim().parse::<u32>().unwrap())
    });
    assert!(again.is_some_and(|again| again != first), "{}", responders.server.errors());
    let moved = directory.path().join("moved.sock");
    fs::hard_link(&socket, &moved).unwrap();
    lead(&socket, &moved);
    assert_eq!(responders.ask("/app/id").status(), 200, "{}", responders.server.errors());
}

/// Its link is one socket, which can be full both ways: what came was told of while there was room,
/// and forgotten. Threads that block had not sent the answer before it, and span.
fn a_responder_that_answers_while_it_reads_is_read_while_it_is_sent_to(architecture: &str) {
    const LEN: usize = 3_000_000;
    // It compresses little.
    let mut state = 1_u32;
    let body: Vec<u8> = (0..LEN)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            b' ' + (state >> 26) as u8
        })
        .collect();
    for keys in ["", "hold = \"off\"\n", "hold = \"off\"\nbuffer = \"off\"\n"] {
        let (_directory, socket) = place_for_a_socket();
        let keys = format!("socket = \"unix:{}\"\n{keys}", socket.display());
        let launch = launch(architecture, &keys, Path::new("/"));
        let Some(server) = launch.start_where_possible() else { return };
        for coding in ["gzip", "identity"] {
            let mut sender = TcpStream::connect(server.address()).unwrap();
            let mut client = Client::accepted(sender.try_clone().unwrap());
            let head = format!(
                "GET /missing HTTP/1.1\r\nHost: a\r\n\r\n\
                 POST /app/echo HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\
                 Content-Length: {LEN}\r\nConnection: close\r\n\r\n"
            );
            let answer = thread::scope(|scope| {
                scope.spawn(|| sender.write_all(&[head.as_bytes(), &body].concat()));
                assert_eq!(client.response().status(), 404);
                client.response_head();
                client.chunks().concat()
            });
            let answer = coded::decode(coding, &answer);
            assert!(answer == body, "{coding} {keys}: {} of {LEN}", answer.len());
        }
    }
}

/// A site whose programs listen at `socket`.
/// One process answers, so that its number says which table's it is.
fn site_at(host: &str, root: &Path, socket: &Path) -> String {
    format!(
        "[[site]]\nhosts = {host:?}\nroot = {root:?}\n[[site.fastcgi]]\npath = \"/app\"\n\
         program = {PROGRAM:?}\nsocket = \"unix:{}\"\nprocesses = 1\nprocesses-min = 1\n",
        socket.display(),
    )
}

/// An answer that may be in chunks.
fn status_and_text(mut client: Client) -> (u16, String) {
    let mut response = client.response_head();
    response.body = match response.field("transfer-encoding") {
        Some(_) => client.chunks().concat(),
        None => client.rest(),
    };
    (response.status(), response.text().trim().to_owned())
}

/// What has begun before the reload passed the rules of its own site, and its body is for that
/// site's program.
fn a_socket_that_a_reload_gives_to_another_site_gets_no_request_of_before(architecture: &str) {
    let (directory, first) = place_for_a_socket();
    let second = directory.path().join("second.sock");
    let root = tempfile::tempdir().unwrap();
    let user = as_ourselves();
    let workers = if architecture == "mp" { "" } else { "workers = 1\n" };
    let with = |a: &Path, b: &Path| {
        let sites = site_at("a.example", root.path(), a) + &site_at("b.example", root.path(), b);
        format!("{user}arch = \"{architecture}\"\nadmin = \"127.0.0.1:0\"\n{workers}{sites}")
    };
    let launch = Launch::config(with(&first, &second));
    let Some(server) = launch.start_where_possible() else { return };
    let number_of = |host: &str| {
        let mut client = server.connect();
        client.send(format!("GET /app/id HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
        let (status, text) = status_and_text(client);
        assert_eq!(status, 200, "{host}: {}", server.errors());
        text
    };
    // The server has begun with it once it says that it may be sent.
    let upload = || {
        let mut client = server.connect();
        client.send(
            "POST /app/id HTTP/1.1\r\nHost: a.example\r\nExpect: 100-continue\r\n\
             Content-Length: 10\r\nConnection: close\r\n\r\n",
        );
        assert_eq!(client.response_head().status(), 100);
        client.send("12345");
        client
    };
    let end = |mut client: Client| {
        client.send("67890");
        status_and_text(client)
    };
    let before = number_of("a.example");
    let begun = upload();
    server.reload_with(&with(&first, &second));
    let after = number_of("a.example");
    assert_ne!(before, after);
    let (status, answered_by) = end(begun);
    assert_eq!((status, &answered_by), (200, &after), "{}", server.errors());
    let begun = upload();
    server.reload_with(&with(&second, &first));
    let of_b = number_of("b.example");
    let (status, answered_by) = end(begun);
    assert_ne!(answered_by, of_b, "{}", server.errors());
    assert_eq!(status, 503, "{answered_by}: {}", server.errors());
    assert!(server.errors().contains("its name leads to another socket"), "{}", server.errors());
    assert_ne!(number_of("a.example"), of_b);
}

on_every_architecture!([
    a_socket_that_a_reload_gives_to_another_site_gets_no_request_of_before,
    another_user_who_has_the_name_of_the_socket_is_told_nothing,
    a_name_that_leads_to_another_responder_leads_no_request_there,
    a_responder_that_answers_while_it_reads_is_read_while_it_is_sent_to,
]);

/// A pipeline that cannot arm a link from any thread heard of none.
#[test]
fn what_a_responder_says_is_heard_by_every_event_mechanism() {
    for architecture in ["sped", "shared-symped", "amped", "knot-c", "knot-a", "watpipe"] {
        for events in ["select", "poll", "epoll", "epoll-edge"] {
            let (_directory, socket) = place_for_a_socket();
            let keys = format!("socket = \"unix:{}\"\nidle-links = 1\n", socket.display());
            let settings = format!("events = \"{events}\"\n");
            let launch = launch_with(&settings, architecture, &keys, Path::new("/"));
            let Some(server) = launch.start_where_possible() else { continue };
            for _ in 0..2 {
                let mut client = server.connect();
                client.send(get("/app/sum"));
                assert_eq!(client.response_head().status(), 200, "{architecture} by {events}");
            }
        }
    }
}

#[test]
fn no_server_starts_where_another_user_has_the_name_of_the_socket_or_could_take_it() {
    let Some((directory, socket)) = shared_directory() else { return };
    let keys = format!("socket = \"unix:{}\"\n", socket.display());
    // Names that only look like those of sockets that are being made keep no server from starting.
    fs::write(directory.path().join("app.sock.new"), "").unwrap();
    std::os::unix::fs::chown(directory.path().join("app.sock.new"), Some(OTHER), None).unwrap();
    let responders = start(&keys);
    responders.server.terminate();
    responders.server.wait();
    let overhearing = Overhearing::at(directory.path(), &socket, Some(OTHER));
    let refused = || {
        let refused = launch("sped", &keys, Path::new("/")).start().err();
        refused.map(|refused| refused.to_string()).expect("it does not start")
    };
    let said = refused();
    assert!(said.contains(&format!("a socket of user {OTHER}")), "{said}");
    assert_eq!(overhearing.end(), "");
    fs::remove_file(&socket).unwrap();
    set_mode(directory.path(), 0o777);
    let said = refused();
    assert!(said.contains("chmod go-w"), "{said}");
    set_mode(directory.path(), 0o755);
    std::os::unix::fs::chown(directory.path(), Some(OTHER), None).unwrap();
    let said = refused();
    assert!(said.contains(&format!("user {OTHER}, whose directory")), "{said}");
}

#[test]
fn what_cannot_be_right_is_refused_with_its_place() {
    let taken = tempfile::NamedTempFile::new().unwrap();
    let before = "[[site]]\nroot = \"/tmp\"\n[[site.fastcgi]]\npath = \"/app\"\n";
    let occupied = format!("program = {PROGRAM:?}\nsocket = \"unix:{}\"", taken.path().display());
    for (keys, line, named) in [
        ("program = \"/no/such/program\"", 5, "site.fastcgi.program: /no/such/program"),
        ("processes = 3", 3, "site.fastcgi.program: is missing"),
        (&occupied, 6, "site.fastcgi.socket: "),
        (
            &format!("program = {PROGRAM:?}\nprocesses = 2\nprocesses-min = 3"),
            7,
            "site.fastcgi.processes-min: 3 is more than",
        ),
        (
            &format!("program = {PROGRAM:?}\nsocket = \"127.0.0.1:9000\""),
            6,
            "site.fastcgi.socket: ",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("flyball.toml");
        fs::write(&path, format!("{before}{keys}\n")).unwrap();
        let mut check = std::process::Command::new(binary());
        let checked = check.args(["check", "--config"]).arg(&path).output().unwrap();
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(!checked.status.success(), "{keys}");
        assert!(said.contains(&format!("{}:{line}: {named}", path.display())), "{said}");
    }
}
