//! Least privilege where workers have more: programs, servers that answer, modules. What is refused
//! to all others is refused here too, and what is allowed goes as far as docs/security.md says.

#![cfg(target_arch = "x86_64")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flyball_sys::process::is_root;
use flyball_testkit::foreign::{Seized, libc};
use tempfile::TempDir;

use crate::common::{
    Server, Site, descendants, get, proc_status, text, wait_for, within, write_script,
};
use crate::sandbox::processes::forbidden::{EACCES, EPERM, configured, try_what_nobody_may};

const EINPROGRESS: i64 = -115;

/// A server that answers each request over FastCGI with `answered`, for as long as the test runs.
fn responder() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || listener.incoming().flatten().for_each(answer));
    address
}

/// Reads records to the end of the request's body, and answers. A link on which no request comes is
/// left.
fn answer(mut link: TcpStream) {
    const STDIN: u8 = 5;
    let mut head = [0; 8];
    loop {
        if link.read_exact(&mut head).is_err() {
            return;
        }
        let len = usize::from(u16::from_be_bytes([head[4], head[5]])) + usize::from(head[6]);
        let mut content = vec![0; len];
        link.read_exact(&mut content).expect("a record is whole");
        if head[1] == STDIN && len == 0 {
            break;
        }
    }
    let body = b"Content-Type: text/plain\r\n\r\nanswered";
    let record = |kind: u8, content: &[u8]| {
        let [high, low] = (content.len() as u16).to_be_bytes();
        [&[1, kind, head[2], head[3], high, low, 0, 0], content].concat()
    };
    let (output, end) = (6, 3);
    let answer = [record(output, body), record(output, b""), record(end, &[0; 8])].concat();
    link.write_all(&answer).expect("a worker waits for it");
}

/// A directory with a program in it, for everybody.
fn programs() -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = directory.path().join("say");
    write_script(&program, "echo Content-Type: text/plain\necho\necho said");
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open).expect("open");
    directory
}

/// A server with programs, a responder at `socket` and a module.
fn start(site: &Site, arch: &str, user: &str, programs: &Path, socket: &str) -> Server {
    let settings = format!(
        "user = \"{user}\"\nsandbox = \"required\"\nsandbox-calls = \"refuse\"\n\
         workers = 1\nmt.threads = 2"
    );
    let launch = configured(site, arch, &settings);
    let tables = format!(
        "[[site.cgi]]\npath = \"/run\"\nroot = \"{}\"\n\
         [[site.fastcgi]]\npath = \"/app\"\nsocket = \"{socket}\"\n\
         [[site.module]]\npath = \"/hello\"\nname = \"hello\"\n",
        programs.display()
    );
    let config = site.path().join("flyball.toml");
    let before = std::fs::read_to_string(&config).expect("it is there");
    std::fs::write(&config, before + &tables).expect("it can be written");
    launch.start()
}

/// The worker, and the process that starts programs, which has no filter of system calls.
fn workers_and_spawner(server: &Server) -> (Vec<u32>, u32) {
    let has_filter = |process: &u32| proc_status(*process, "Seccomp").as_deref() == Some("2");
    wait_for("workers that serve, and programs that ended", || {
        let (workers, others): (Vec<u32>, Vec<u32>) =
            descendants(server.master()).into_iter().partition(has_filter);
        // A worker that has just begun has no filter yet either.
        let [spawner] = others[..] else { return None };
        (!workers.is_empty()).then_some((workers, spawner))
    })
}

fn address(to: SocketAddr) -> [u8; 16] {
    let SocketAddr::V4(to) = to else { panic!("{to} is not of IPv4") };
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&to.port().to_be_bytes());
    bytes[4..8].copy_from_slice(&to.ip().octets());
    bytes
}

/// A stream socket in the process.
fn stream(hand: &mut Seized, family: i32) -> i64 {
    let kind = (libc::SOCK_STREAM | libc::SOCK_NONBLOCK) as u64;
    hand.call(libc::SYS_socket, &[family as u64, kind, 0]).expect("it lives")
}

/// TCP goes to the ports of servers that answer, in every way to connect that the filters see.
fn try_to_connect(hand: &mut Seized, server: SocketAddr) {
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let elsewhere = hand.put(&address(other.local_addr().expect("it is bound")));
    let there = hand.put(&address(server));
    let socket = stream(hand, libc::AF_INET) as u64;
    assert_eq!(hand.call(libc::SYS_connect, &[socket, elsewhere, 16]), Ok(EACCES));
    let byte = hand.put(b"x");
    let fast = libc::MSG_FASTOPEN as u64;
    let sent = hand.call(libc::SYS_sendto, &[socket, byte, 1, fast, elsewhere, 16]);
    assert_eq!(sent, Ok(EPERM), "sending that connects");
    let parts = hand.put(&[byte.to_ne_bytes(), 1u64.to_ne_bytes()].concat());
    let message = [elsewhere, 16, parts, 1, 0, 0, 0].map(u64::to_ne_bytes).concat();
    let message = hand.put(&message);
    assert_eq!(hand.call(libc::SYS_sendmsg, &[socket, message, fast]), Ok(EPERM));
    let connected = hand.call(libc::SYS_connect, &[socket, there, 16]);
    assert!(matches!(connected, Ok(0 | EINPROGRESS)), "the server: {connected:?}");
    hand.call(libc::SYS_close, &[socket]).expect("it lives");
    other.set_nonblocking(true).expect("it is a socket");
    assert!(other.accept().is_err(), "a worker has connected");
}

fn may_connect_to_the_server_alone(arch: &str, user: &str) {
    if !is_root() {
        return flyball_testkit::skip("only the superuser may trace other users' processes");
    }
    let (site, programs) = (Site::with(&[("page", b"page")]), programs());
    let responder = responder();
    let server = start(&site, arch, user, programs.path(), &responder.to_string());
    let serves = || {
        for (path, text) in [("/page", "page"), ("/run/say", "said\n"), ("/app", "answered")] {
            let mut client = server.connect();
            client.send(format!("GET {path} HTTP/1.0\r\n\r\n"));
            let answer = String::from_utf8(client.rest()).expect("text");
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(text), "{answer}");
        }
        assert_eq!(server.connect().ask(get("/hello")).status(), 200);
    };
    serves();
    let (workers, spawner) = workers_and_spawner(&server);
    for process in workers {
        let mut hand = Seized::attach(process);
        try_what_nobody_may(&mut hand, process, server.master());
        try_to_connect(&mut hand, responder);
        let timer = hand.call(libc::SYS_timerfd_create, &[libc::CLOCK_MONOTONIC as u64, 0]);
        let timer = timer.ok().filter(|fd| *fd >= 0).expect("modules may wait");
        hand.call(libc::SYS_close, &[timer as u64]).expect("it lives");
    }
    let id = if user == "root" { "0" } else { user };
    assert_eq!(proc_status(spawner, "Uid").expect("it runs").split_whitespace().next(), Some(id));
    assert_eq!(proc_status(spawner, "NoNewPrivs").as_deref(), Some("1"));
    let works_in = std::fs::read_link(format!("/proc/{spawner}/cwd")).expect("it runs");
    assert_eq!(works_in, Path::new("/"));
    assert_eq!(proc_status(spawner, "CapBnd").as_deref(), Some("0000000000000000"));
    assert_eq!(proc_status(spawner, "CapPrm").as_deref(), Some("0000000000000000"));
    serves();
}

/// Where all servers are at Unix-domain sockets there are no other sockets.
fn makes_no_socket_of_the_network(arch: &str) {
    if !is_root() {
        return flyball_testkit::skip("only the superuser may trace other users' processes");
    }
    let (site, programs) = (Site::with(&[("page", b"page")]), programs());
    let socket = within(&programs, "socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("it is bound");
    let unix = format!("unix:{}", text(&socket));
    let server = start(&site, arch, "65534", programs.path(), &unix);
    assert_eq!(server.connect().ask(get("/page")).text(), "page");
    for process in workers_and_spawner(&server).0 {
        let mut hand = Seized::attach(process);
        try_what_nobody_may(&mut hand, process, server.master());
        for family in [libc::AF_INET, libc::AF_INET6] {
            assert_eq!(stream(&mut hand, family), EPERM, "in {process}");
        }
        let datagrams = [libc::AF_UNIX as u64, libc::SOCK_DGRAM as u64, 0];
        assert_eq!(hand.call(libc::SYS_socket, &datagrams), Ok(EPERM), "in {process}");
        let socket = stream(&mut hand, libc::AF_UNIX);
        assert!(socket >= 0, "servers are reached by these: {socket}");
        hand.call(libc::SYS_close, &[socket as u64]).expect("it lives");
    }
}

/// The descriptor over which a worker asks for programs: the end of a channel of records whose
/// other end the process that starts them has.
fn door(worker: u32, spawner: u32) -> u64 {
    let is_channel = |inode: &str| {
        let all = std::fs::read_to_string("/proc/net/unix").expect("there is a list");
        all.lines().any(|line| line.contains(" 0005 ") && line.ends_with(&format!(" {inode}")))
    };
    let sockets = |process: u32| {
        let entries = std::fs::read_dir(format!("/proc/{process}/fd")).expect("it runs");
        let socket = |entry: std::fs::DirEntry| {
            let fd: u64 = entry.file_name().to_str()?.parse().ok()?;
            let to = std::fs::read_link(entry.path()).ok()?.to_str()?.to_owned();
            Some((fd, to.strip_prefix("socket:[")?.trim_end_matches(']').to_owned()))
        };
        entries.flatten().filter_map(socket).collect::<Vec<_>>()
    };
    wait_for("the other process to close what it does not need", || {
        let others: Vec<String> = sockets(spawner).into_iter().map(|(_, inode)| inode).collect();
        let mut own = sockets(worker).into_iter();
        let door = own.find(|(_, inode)| is_channel(inode) && !others.contains(inode));
        door.map(|(fd, _)| fd)
    })
}

/// Two descriptors that a call makes in the process.
fn pair(hand: &mut Seized, call: i64, arguments: &[u64]) -> [u64; 2] {
    let at = hand.put(&[0; 8]);
    let arguments: Vec<u64> = arguments.iter().copied().chain([at]).collect();
    assert_eq!(hand.call(call, &arguments), Ok(0), "call {call}");
    let bytes = hand.get(at, 8);
    let number =
        |at: usize| u64::from(u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("4")));
    [number(0), number(4)]
}

/// Has the process ask for the program `say` with a variable, and with this as its input: the
/// letter by which is told what became of it, or none when nothing is.
fn asks_for_say(hand: &mut Seized, door: u64, variable: &str, input: u64) -> Option<u8> {
    let kind = (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC) as u64;
    let arguments = [libc::AF_UNIX as u64, kind, 0];
    let [ours, theirs] = pair(hand, libc::SYS_socketpair, &arguments);
    let [read, write] = pair(hand, libc::SYS_pipe2, &[]);
    let texts = ["/say", variable, "/proc/self/fd/0"]
        .map(|text| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat());
    let record = [&0u32.to_le_bytes()[..], &texts.concat()].concat();
    let bytes = hand.put(&record);
    let parts = hand.put(&[bytes, record.len() as u64].map(u64::to_ne_bytes).concat());
    let descriptors = [input, write, write, theirs].map(|fd| (fd as u32).to_ne_bytes()).concat();
    let kind = [libc::SOL_SOCKET, libc::SCM_RIGHTS].map(i32::to_ne_bytes).concat();
    let control = hand.put(&[&32u64.to_ne_bytes()[..], &kind, &descriptors].concat());
    let message = [0, 0, parts, 1, control, 32, 0].map(u64::to_ne_bytes).concat();
    let message = hand.put(&message);
    let sent = hand.call(libc::SYS_sendmsg, &[door, message, 0]);
    assert_eq!(sent, Ok(record.len() as i64), "the record is sent");
    hand.call(libc::SYS_close, &[theirs]).expect("it lives");
    let told = hand.put(&[0; 8]);
    let n = hand.call(libc::SYS_recvfrom, &[ours, told, 8, 0, 0, 0]).expect("it lives");
    for fd in [ours, read, write] {
        hand.call(libc::SYS_close, &[fd]).expect("it lives");
    }
    (n > 0).then(|| hand.get(told, 1)[0])
}

/// A worker that was taken over may ask for programs as a client may, and no more: what a
/// program is told, and what it reads, could otherwise be another program.
#[test]
fn a_worker_has_no_say_in_how_programs_are_started() {
    if !is_root() {
        return flyball_testkit::skip("only the superuser may trace other users' processes");
    }
    let (site, programs) = (Site::with(&[("page", b"page")]), programs());
    let server = start(&site, "sped", "65534", programs.path(), "127.0.0.1:1");
    let (workers, spawner) = workers_and_spawner(&server);
    let door = door(workers[0], spawner);
    {
        let mut hand = Seized::attach(workers[0]);
        let [input, end] = pair(&mut hand, libc::SYS_pipe2, &[]);
        let name = hand.text("program");
        let file = hand.call(libc::SYS_memfd_create, &[name, 0]).expect("it lives") as u64;
        let (exited, forbidden) = (Some(b'X'), Some(b'P'));
        assert_eq!(asks_for_say(&mut hand, door, "HTTP_A", input), exited);
        assert_eq!(asks_for_say(&mut hand, door, "HTTP_A", file), forbidden);
        for variable in ["LD_PRELOAD", "PATH", "BASH_ENV", "SCRIPT_FILENAME", "HTTP_PROXY"] {
            assert_eq!(asks_for_say(&mut hand, door, variable, input), None, "{variable}");
        }
        for fd in [input, end, file] {
            hand.call(libc::SYS_close, &[fd]).expect("it lives");
        }
    }
    assert_eq!(server.connect().ask(get("/page")).text(), "page");
}

macro_rules! on_architectures {
    ($($module:ident = $arch:literal),+ $(,)?) => {
        $(mod $module {
            #[test]
            fn workers_connect_to_the_server_alone() {
                super::may_connect_to_the_server_alone($arch, "65534");
            }

            #[test]
            fn workers_that_are_the_superuser_connect_to_the_server_alone() {
                super::may_connect_to_the_server_alone($arch, "root");
            }

            #[test]
            fn workers_make_no_socket_of_the_network_where_servers_have_names() {
                super::makes_no_socket_of_the_network($arch);
            }
        })+
    };
}

on_architectures! {
    sped = "sped",
    shared_symped = "shared-symped",
    n_copy = "n-copy",
    amped = "amped",
    mp = "mp",
    mt = "mt",
    knot_c = "knot-c",
    watpipe = "watpipe",
    tux = "tux",
    uring = "uring",
}
