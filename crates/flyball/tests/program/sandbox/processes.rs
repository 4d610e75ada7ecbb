//! Least privilege: what the processes of a server cannot do, tried by a foreign hand in them.
//!
//! The tests stop a worker where it waits and make it perform system calls that its program never
//! would: what is refused then is refused to an attacker in the worker.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::injection::Injection;
use crate::common::{Launch, Site, descendants, get, has, proc_status, refused, told, wait_for};
use flyball_sys::process::is_root;

/// The system calls that a worker may not make, whatever it is; architectures that need more than
/// these come elsewhere.
#[cfg(target_arch = "x86_64")]
pub(crate) mod forbidden {
    use super::*;
    use flyball_testkit::foreign::Seized;
    use flyball_testkit::foreign::libc;

    pub(crate) const EPERM: i64 = -1;
    pub(crate) const EACCES: i64 = -13;

    /// A site that everybody can read, and a configuration beside it.
    pub(crate) fn configured(site: &Site, arch: &str, more: &str) -> Launch {
        let root = site.path().display();
        let config = site.path().join("flyball.toml");
        std::fs::write(
            &config,
            format!("arch = \"{arch}\"\n{more}\n[[site]]\nroot = \"{root}\"\n"),
        )
        .expect("the configuration can be written");
        let launch = Launch::bare::<&str>(&[]).args(&["--listen", "127.0.0.1:0"]);
        launch.arg("--config").arg(config)
    }

    /// What is tried in a process, and what the kernel says.
    pub(crate) fn try_everything(process: u32, master: u32) {
        let mut hand = Seized::attach(process);
        try_what_nobody_may(&mut hand, process, master);
        let mut denied = |what: &str, call: i64, arguments: &[u64]| {
            assert_eq!(hand.call(call, arguments), Ok(EPERM), "{what} in {process}");
        };
        let (inet, stream) = (libc::AF_INET as u64, libc::SOCK_STREAM as u64);
        denied("a new socket", libc::SYS_socket, &[inet, stream, 0]);
        let unix = libc::AF_UNIX as u64;
        denied("a Unix-domain socket", libc::SYS_socket, &[unix, stream, 0]);
        denied("connect", libc::SYS_connect, &[3, 0, 16]);
        denied("a timer", libc::SYS_timerfd_create, &[libc::CLOCK_MONOTONIC as u64, 0]);
    }

    /// What is refused to every process that has a sandbox, whatever is configured.
    pub(crate) fn try_what_nobody_may(hand: &mut Seized, process: u32, master: u32) {
        let here = libc::AT_FDCWD as u64;
        let shadow = hand.text("/etc/shadow");
        let program = hand.text("/bin/true");
        let arguments = hand.put(&[program.to_ne_bytes(), [0; 8]].concat());
        let mut denied = |what: &str, call: i64, arguments: &[u64], error: i64| {
            assert_eq!(hand.call(call, arguments), Ok(error), "{what} in {process}");
        };
        denied("reading /etc/shadow", libc::SYS_openat, &[here, shadow, 0], EACCES);
        let read_write = libc::O_RDWR as u64;
        denied("writing it", libc::SYS_openat, &[here, shadow, read_write], EACCES);
        let (inet, stream, datagram) = (libc::AF_INET as u64, 1, libc::SOCK_DGRAM as u64);
        denied("a datagram socket", libc::SYS_socket, &[inet, datagram, 0], EPERM);
        let multipath = libc::IPPROTO_MPTCP as u64;
        denied("a multipath socket", libc::SYS_socket, &[inet, stream, multipath], EPERM);
        let netlink = libc::AF_NETLINK as u64;
        denied("a netlink socket", libc::SYS_socket, &[netlink, datagram, 0], EPERM);
        denied("bind", libc::SYS_bind, &[3, arguments, 16], EPERM);
        denied("listen", libc::SYS_listen, &[3, 1], EPERM);
        denied("executing a program", libc::SYS_execve, &[program, arguments, 0], EPERM);
        let from = [here, program, arguments, 0, 0];
        denied("executing it from a directory", libc::SYS_execveat, &from, EPERM);
        denied("tracing", libc::SYS_ptrace, &[libc::PTRACE_TRACEME as u64], EPERM);
        denied("becoming the superuser", libc::SYS_setresuid, &[0, 0, 0], EPERM);
        denied("a new user namespace", libc::SYS_unshare, &[libc::CLONE_NEWUSER as u64], EPERM);
        denied("vfork", libc::SYS_vfork, &[], EPERM);
        denied("clone3", libc::SYS_clone3, &[arguments, 64], -i64::from(libc::ENOSYS));
        denied("a new ring", libc::SYS_io_uring_setup, &[8, arguments], EPERM);
        denied("mounting", libc::SYS_mount, &[program, program, 0, 0, 0], EPERM);
        let executable = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let anonymous = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let mapping = [0, 4096, executable, anonymous, u64::MAX, 0];
        denied("memory to be executed", libc::SYS_mmap, &mapping, EPERM);
        denied("killing everybody", libc::SYS_tkill, &[1, 9], EPERM);
        // Nothing is sent: it is only asked whether it could be.
        let master = u64::from(master);
        denied("a signal to the master", libc::SYS_tgkill, &[master, master, 0], EPERM);
    }

    /// The `count` children of the master, and what they have started. Those that were not needed
    /// yet may still be about to begin: each is waited for until it has given up its system calls,
    /// which it does last, and then waits for work: before that, `uring` still makes its rings.
    pub(crate) fn everybody(server: &crate::common::Server, count: usize) -> Vec<u32> {
        server.children(count);
        let all = wait_for("the confinement of all processes", || {
            let all = descendants(server.master());
            let is_confined = |it: &u32| proc_status(*it, "Seccomp").as_deref() == Some("2");
            all.iter().all(is_confined).then_some(all)
        });
        all.iter().for_each(|process| crate::common::rest(*process));
        all
    }

    fn no_process_may(arch: &str, user: &str, more: &str) {
        if !is_root() {
            return flyball_testkit::skip("only the superuser may trace other users' processes");
        }
        let site = Site::with(&[("page", b"page"), ("large", &[b'x'; 200_000])]);
        let settings = format!(
            "user = \"{user}\"\nsandbox = \"required\"\nsandbox-calls = \"refuse\"\n{more}"
        );
        let server = configured(&site, arch, &settings).start();
        for name in ["page", "large", "nothing"] {
            let response = server.connect().ask(get(&format!("/{name}")));
            assert_eq!(response.status(), if name == "nothing" { 404 } else { 200 }, "{name}");
        }
        let id = if user == "root" { "0" } else { "65534" };
        for process in everybody(&server, server.workers) {
            let ids = proc_status(process, "Uid").expect("it runs");
            assert_eq!(ids.split_whitespace().next(), Some(id), "{process}");
            for sets in ["CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"] {
                assert_eq!(proc_status(process, sets).as_deref(), Some("0000000000000000"));
            }
            assert_eq!(proc_status(process, "NoNewPrivs").as_deref(), Some("1"));
            try_everything(process, server.master());
            let has_ring = crate::sandbox::rings::try_ring(process);
            assert_eq!(has_ring, ["tux", "uring"].contains(&arch), "{process}");
        }
        // The hand has left, and it goes on as if nothing had been.
        assert_eq!(server.connect().ask(get("/page")).text(), "page");
    }

    macro_rules! on_architectures {
        ($($module:ident = $arch:literal $($more:literal)?),+ $(,)?) => {
            $(mod $module {
                #[test]
                fn the_superuser_as_a_worker_reads_no_secret_and_opens_and_executes_nothing() {
                    super::no_process_may($arch, "root", concat!("workers = 2\n", $($more)?));
                }

                #[test]
                fn another_user_as_a_worker_reads_no_secret_and_opens_and_executes_nothing() {
                    super::no_process_may($arch, "65534", concat!($($more)?));
                }
            })+
        };
    }

    on_architectures! {
        sped = "sped",
        symped = "symped",
        shared_symped = "shared-symped",
        n_copy = "n-copy",
        amped = "amped",
        amped_processes = "amped" "amped.helper-kind = \"process\"\namped.idle = \"1h\"",
        mp = "mp" "mp.processes = 2",
        mt = "mt" "mt.threads = 2",
        thread_per_connection = "thread-per-connection",
        knot_c = "knot-c",
        knot_a = "knot-a",
        watpipe = "watpipe",
        tux = "tux",
        uring = "uring",
    }

    #[test]
    fn the_processes_of_status_and_log_may_no_more_than_they_must() {
        if !is_root() {
            return flyball_testkit::skip("only the superuser may trace other users' processes");
        }
        let site = Site::with(&[("page", b"page")]);
        let log = site.path().join("access.log");
        let settings = format!(
            "admin = \"127.0.0.1:0\"\naccess-log = \"{}\"\nsandbox-calls = \"refuse\"",
            log.display()
        );
        let server = configured(&site, "sped", &settings).asked().start();
        assert_eq!(server.connect().ask(get("/page")).status(), 200);
        assert_eq!(server.status()["arch"], "sped");
        // A worker, the log and the admin process.
        for process in everybody(&server, 3) {
            try_everything(process, server.master());
        }
        wait_for("the line", || {
            std::fs::read_to_string(&log).ok().filter(|text| text.contains("/page"))
        });
        assert_eq!(server.status()["arch"], "sped");
    }

    #[test]
    fn a_call_that_kills_ends_the_worker_and_another_takes_its_place() {
        if !is_root() {
            return flyball_testkit::skip("only the superuser may trace other users' processes");
        }
        let site = Site::with(&[("page", b"page")]);
        let server = configured(&site, "sped", "sandbox-calls = \"kill\"").start();
        assert_eq!(server.connect().ask(get("/page")).text(), "page");
        let worker = server.worker();
        let stream = [libc::AF_INET as u64, libc::SOCK_STREAM as u64, 0];
        let ended = Seized::attach(worker).call(libc::SYS_socket, &stream);
        assert_eq!(ended, Err(libc::SIGSYS));
        server.errors.wait_for("what ended it", |said| said.contains("ended by signal 31"));
        assert_eq!(server.connect().ask(get("/page")).text(), "page");
    }
}

#[test]
fn a_directory_is_served_by_who_starts_the_server() {
    let site = Site::with(&[("page", b"page")]);
    let server = Launch::new(&site, "sped").start();
    assert_eq!(server.connect().ask(get("/page")).text(), "page");
    let ids = proc_status(server.worker(), "Uid").expect("it runs");
    let own = proc_status(std::process::id(), "Uid");
    assert_eq!(Some(ids), own);
    assert_eq!(proc_status(server.worker(), "CapEff").as_deref(), Some("0000000000000000"));
}

/// Runs the program with these words, which must end by itself: code, and what it said.
fn run(words: &[&str]) -> (Option<i32>, String) {
    let done = std::process::Command::new(env!("CARGO_BIN_EXE_flyball")).args(words).output();
    let done = done.expect("flyball can be started");
    let said = [done.stdout, done.stderr].concat();
    (done.status.code(), String::from_utf8_lossy(&said).into_owned())
}

fn write(path: &Path, text: &str) -> String {
    std::fs::write(path, text).expect("the file can be written");
    path.display().to_string()
}

#[test]
fn a_root_that_the_workers_cannot_enter_is_named_before_anything_is_served() {
    if !is_root() {
        return flyball_testkit::skip("only the superuser can become another user");
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let root = directory.path().join("root");
    std::fs::create_dir(&root).expect("a root");
    std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o700)).expect("closed");
    let text = format!("user = \"65534\"\n[[site]]\nroot = \"{}\"\n", root.display());
    let config = write(&directory.path().join("a.toml"), &text);
    for words in [["check", "--config"], ["serve", "--config"]] {
        let (code, said) = run(&[words[0], words[1], &config]);
        assert!(code.is_some_and(|code| code != 0), "{said}");
        assert!(said.contains(&root.display().to_string()), "{said}");
        assert!(said.contains("nobody") && said.contains("`user`"), "{said}");
    }
}

#[test]
fn users_that_do_not_exist_are_refused_with_their_key() {
    let site = Site::with(&[("page", b"page")]);
    let root = crate::common::text(site.path());
    for (key, name) in [("user", "nobody-of-this-name"), ("group", "none-of-this-name")] {
        let (code, said) = run(&["serve", root, "--set", &format!("{key}={name}")]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(key) && said.contains(name), "{said}");
    }
}

#[test]
fn without_a_sandbox_only_the_user_changes() {
    let site = Site::with(&[("page", b"page")]);
    let server = Launch::new(&site, "sped").args(&["--sandbox", "off"]).start();
    assert_eq!(server.connect().ask(get("/page")).text(), "page");
    assert_eq!(proc_status(server.worker(), "Seccomp").as_deref(), Some("0"));
    assert_eq!(proc_status(server.worker(), "NoNewPrivs").as_deref(), Some("0"));
}

/// Capabilities by their names, and their numbers in the sets of `/proc` (capabilities(7)).
const CAPABILITIES: [(&str, u32); 16] = [
    ("CHOWN", 0),
    ("DAC_OVERRIDE", 1),
    ("DAC_READ_SEARCH", 2),
    ("FOWNER", 3),
    ("KILL", 5),
    ("SETGID", 6),
    ("SETUID", 7),
    ("SETPCAP", 8),
    ("NET_BIND_SERVICE", 10),
    ("NET_ADMIN", 12),
    ("IPC_LOCK", 14),
    ("SYS_CHROOT", 18),
    ("SYS_PTRACE", 19),
    ("SYS_ADMIN", 21),
    ("SYS_NICE", 23),
    ("SYS_RESOURCE", 24),
];

/// The set that docs/security.md says that the master keeps.
fn kept_by_the_document() -> u64 {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/security.md");
    let document = std::fs::read_to_string(path).expect("it is there");
    let (_, master) = document.split_once("* **The master**").expect("what it keeps");
    let (master, _) = master.split_once("* **Workers**").expect("who comes next");
    let words = master.split(|c: char| c != '_' && !c.is_ascii_uppercase());
    let names = words.filter(|word| word.len() > 1);
    let bit = |name: &str| {
        let known = CAPABILITIES.iter().find(|(known, _)| *known == name);
        1_u64 << known.unwrap_or_else(|| panic!("{name} is no capability")).1
    };
    names.map(bit).fold(0, |set, bit| set | bit)
}

#[test]
fn the_master_keeps_only_what_reload_needs() {
    if !is_root() {
        return flyball_testkit::skip("only the superuser has capabilities");
    }
    let set = |process: u32, which: &str| {
        let set = proc_status(process, which).expect("it runs");
        u64::from_str_radix(&set, 16).expect("a number")
    };
    let kept = kept_by_the_document();
    assert_eq!(kept.count_ones(), 12, "{kept:x}");
    // What the superuser may do may have been cut before.
    let own = std::process::id();
    let expected = kept & set(own, "CapPrm");
    let site = Site::with(&[("page", b"page")]);
    let server = Launch::new(&site, "sped").start();
    let master = server.master();
    // It listens before it gives up what it no longer needs.
    wait_for("the master to give up its capabilities", || {
        (set(master, "CapEff") == expected).then_some(())
    });
    let held = ["CapPrm", "CapInh", "CapAmb", "CapBnd"].map(|which| set(master, which));
    assert_eq!(held, [expected, 0, 0, set(own, "CapBnd")]);
}

/// Here strace plays a kernel without landlock, without filters of system calls, and one whose
/// rings cannot be restricted.
#[test]
fn what_the_kernel_lacks_at_the_start_is_a_warning_unless_all_is_required() {
    if !has("strace") {
        return;
    }
    let site = Site::with(&[("page", b"page")]);
    let mut lacks = vec![
        ("sped", "inject=landlock_create_ruleset:error=ENOSYS".to_owned(), "landlock"),
        ("sped", "inject=seccomp:error=EINVAL".to_owned(), "seccomp with filters"),
    ];
    match disabled_ring(&site) {
        Some(at) => {
            let inject = format!("inject=io_uring_setup:error=EINVAL:when={at}");
            lacks.push(("uring", inject, "restrictions of rings"));
        }
        None => flyball_testkit::skip("no ring can be restricted here"),
    }
    for (arch, inject, what) in &lacks {
        // The master alone, which asks for all: a call that strace lets fail has no number any
        // more, and would be a forbidden one in a worker.
        let strace = ["strace", "-qq", "-o", "/dev/null", "-e", inject];
        let refused = Launch::under(&strace, &site, arch).set("sandbox=required").try_start();
        let Err((status, said)) = refused else { panic!("it starts without {what}") };
        assert_eq!(status.code(), Some(1), "{said}");
        let why = format!("it is required, but this kernel lacks {what}");
        assert!(said.contains(&why), "{said}");
        let server = Launch::under(&strace, &site, arch).set("sandbox=on").start();
        assert_eq!(server.connect().ask(get("/page")).text(), "page");
        let warning = format!("warning: sandbox: this kernel lacks {what}");
        server.errors.wait_for(what, |said| said.contains(&warning));
        drop(server);
        let done = std::process::Command::new(strace[0])
            .args(&strace[1..])
            .arg(env!("CARGO_BIN_EXE_flyball"))
            .args(["explain", "--arch", arch, "sandbox"])
            .output()
            .expect("strace runs");
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        // Another command asks the kernel in another order.
        if *arch == "sped" {
            let note = format!("this kernel lacks {what}");
            assert!(said.contains(&note), "{said}{}", String::from_utf8_lossy(&done.stderr));
        }
    }
}

/// At which call of a starting master it makes the ring by which it tries restrictions.
fn disabled_ring(site: &Site) -> Option<usize> {
    let log = tempfile::NamedTempFile::new().expect("a temporary file");
    let path = crate::common::text(log.path());
    let strace = ["strace", "-qq", "-o", path, "-e", "trace=io_uring_setup"];
    drop(Launch::under(&strace, site, "uring").set("sandbox=on").start());
    let calls = std::fs::read_to_string(path).expect("strace has written");
    let at = calls.lines().position(|line| line.contains("IORING_SETUP_R_DISABLED"))?;
    Some(at + 1)
}

/// A kernel may have what one architecture needs and lack what the next does, or be another after
/// an upgrade of the machine's own limits; here strace plays the kernel.
#[test]
fn what_the_kernel_lacks_stops_a_change_or_a_reload_when_all_is_required() {
    if !has("strace") {
        return;
    }
    let site = Site::with(&[("page", b"page")]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (file, socket) = (directory.path().join("flyball.toml"), directory.path().join("admin"));
    let root = site.path().display();
    let config = format!(
        "arch = \"sped\"\nsandbox = \"required\"\nadmin = \"unix:{}\"\n\
         [[site]]\nroot = \"{root}\"\n",
        socket.display()
    );
    let config = write(&file, &config);
    let launch = Launch::bare::<&str>(&[]).asked().args(&["--listen", "127.0.0.1:0"]);
    let server = launch.args(&["--config", &config]).start();
    let before = server.children(2);
    let calls = "landlock_create_ruleset";
    let injection = Injection::attach(server.master(), calls, "error=ENOSYS");
    let said = refused(&socket, &["set", "arch", "mt"]);
    let lacks = "sandbox: it is required, but this kernel lacks landlock";
    assert!(said.contains("arch stays sped: ") && said.contains(lacks), "{said}");
    let said = refused(&socket, &["reload"]);
    assert!(said.contains("nothing changes") && said.contains(lacks), "{said}");
    injection.end(server.master());
    assert_eq!(crate::common::children(server.master()), before);
    assert_eq!(told(&socket, &["set", "arch", "mt"]), "arch is mt; it was sped\n");
    assert_eq!(server.connect().ask(get("/page")).text(), "page");
}
