//! What a service manager is told and what it gives: readiness, reloads, stops, the watchdog, and
//! listening sockets.
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::Command;

use crate::common::{
    Launch, Site, copy_program, has, last_get, proc_status, secure_config, signal, text, wait_for,
    within,
};
use flyball_sys::process::is_root;
use flyball_testkit::{Client, Identity, skip, wait};

/// The next message that has this line; others are passed over.
#[track_caller]
fn message(socket: &UnixDatagram, line: &str) -> String {
    socket.set_read_timeout(Some(wait::DEADLINE)).expect("SO_RCVTIMEO");
    loop {
        let mut buffer = [0; 1024];
        let len = socket.recv(&mut buffer).unwrap_or_else(|error| panic!("{line}: {error}"));
        let said = String::from_utf8_lossy(&buffer[..len]).into_owned();
        if said.lines().any(|said| said == line) {
            return said;
        }
    }
}

#[test]
fn a_service_manager_is_told_of_every_change_of_state() {
    let site = Site::with(&[("small.txt", b"small")]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let config = within(&directory, "flyball.toml");
    let lines = format!("arch = \"sped\"\n[[site]]\nroot = {:?}\n", text(site.path()));
    std::fs::write(&config, &lines).expect("the file is written");
    let name = format!("flyball-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let manager = UnixDatagram::bind_addr(&address).expect("a socket");
    let launch = Launch::bare::<&str>(&[]).args(&["--config", text(&config)]);
    let launch = launch.args(&["--listen", "127.0.0.1:0"]).env("NOTIFY_SOCKET", format!("@{name}"));
    let mut server = launch.env("WATCHDOG_USEC", "200000").start();
    let said = message(&manager, "READY=1");
    assert!(said.contains(&format!("MAINPID={}\n", server.master())), "{said}");
    assert!(said.contains("STATUS=serving by sped with 1 worker, generation 1"), "{said}");
    message(&manager, "WATCHDOG=1");
    message(&manager, "WATCHDOG=1");
    signal(server.master(), "HUP");
    let said = message(&manager, "RELOADING=1");
    let since = said.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC="));
    assert!(since.is_some_and(|us| us.parse::<u64>().is_ok_and(|us| us > 0)), "{said}");
    assert!(message(&manager, "READY=1").contains("generation 2"), "the status is old");
    // A reload that fails ends as well.
    std::fs::write(&config, "nonsense").expect("the file is written");
    signal(server.master(), "HUP");
    message(&manager, "RELOADING=1");
    assert!(message(&manager, "READY=1").contains("generation 2"), "it changed");
    signal(server.master(), "TERM");
    message(&manager, "STOPPING=1");
    assert!(server.ended().success());
}

/// Only the master that is watched may say who comes after it; one that goes on says nothing.
#[test]
fn a_service_manager_is_told_who_has_taken_over_and_of_no_upgrade_that_failed() {
    let site = Site::with(&[("small.txt", b"small")]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (program, pid) = (within(&directory, "flyball"), within(&directory, "pid"));
    copy_program(&program);
    let notify = within(&directory, "notify");
    let manager = UnixDatagram::bind(&notify).expect("a socket");
    let launch = Launch::program(&[program.clone().into()]).arg(site.path());
    let launch = launch.args(&["--listen", "127.0.0.1:0", "--arch", "sped"]);
    let launch = launch.set(&format!("pid-file={}", text(&pid)));
    let mut server = launch.env("NOTIFY_SOCKET", &notify).start();
    let old = server.master();
    assert!(message(&manager, "READY=1").contains(&format!("MAINPID={old}\n")));
    let aside = within(&directory, "aside");
    std::fs::rename(&program, &aside).expect("it is renamed");
    signal(old, "USR2");
    server.errors.wait_for("that it failed", |said| said.contains("the upgrade failed"));
    std::fs::rename(&aside, &program).expect("it is renamed");
    signal(old, "USR2");
    assert!(server.ended().success());
    manager.set_nonblocking(true).expect("O_NONBLOCK");
    let (mut said, mut buffer) = (Vec::new(), [0; 1024]);
    wait_for("what the new master says", || {
        while let Ok(len) = manager.recv(&mut buffer) {
            said.push(String::from_utf8_lossy(&buffer[..len]).into_owned());
        }
        said.last().filter(|said: &&String| said.contains("STATUS=serving")).map(drop)
    });
    let new = std::fs::read_to_string(&pid).expect("the PID file").trim().to_owned();
    assert_ne!(new, old.to_string());
    // Neither names anybody else.
    let line = format!("MAINPID={new}\n");
    let named: Vec<_> = said.iter().filter(|said| said.contains("MAINPID=")).collect();
    assert!(!named.is_empty() && named.iter().all(|said| said.contains(&line)), "{said:?}");
    assert!(named.iter().all(|said| said.contains("READY=1")), "{said:?}");
    // The new one speaks once it is named: what it says before is not heard (NotifyAccess=main).
    let [first, last] = named[..] else { panic!("{named:?}") };
    assert!(first.contains("has taken over"), "{first}");
    assert!(last.contains("STATUS=serving by sped"), "{last}");
    // It is waited for by who waited for the one before, as systemd is.
    let new: u32 = new.parse().expect("a number");
    let parent = proc_status(new, "PPid").expect("it runs");
    assert_eq!(parent, std::process::id().to_string());
    signal(new, "TERM");
    wait_for("its end", || (!pid.exists()).then_some(()));
}

/// A server that is started with a socket as by systemd: the shell gives it the number that systemd
/// would, and its own process id.
pub(super) fn handed_over(config: &Path, socket: impl Into<OwnedFd>) -> Command {
    let script = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web \
                  exec \"$0\" serve --config \"$@\"";
    let mut command = Command::new("sh");
    command
        .args(["-c", script, env!("CARGO_BIN_EXE_flyball"), text(config)])
        .stdin(socket.into())
        .stdout(std::process::Stdio::null());
    command
}

#[test]
fn a_socket_that_was_handed_over_is_used_and_outlives_the_server() {
    let site = Site::with(&[("small.txt", b"small")]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (config, pair) = (within(&directory, "flyball.toml"), within(&directory, "pair.pem"));
    let Identity { chain, key, .. } = Identity::shared();
    std::fs::write(&pair, format!("{chain}{key}")).expect("the certificate is written");
    let own = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&pair, own).expect("it is its owner's");
    for (arch, scheme) in [("n-copy", ""), ("sped", ""), ("mt", ""), ("n-copy", "https://")] {
        let certificate = if scheme.is_empty() { "none" } else { text(&pair) };
        let site = format!("root = {:?}\ncertificate = {certificate:?}\n", text(site.path()));
        let lines = format!("{}[[site]]\n{site}", flyball_testkit::as_ourselves());
        std::fs::write(&config, lines).expect("the configuration is written");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let mut child = handed_over(&config, listener.try_clone().expect("a copy"))
            .args(["--listen", &format!("{scheme}{address}"), "--arch", arch, "--workers", "3"])
            .spawn()
            .expect("sh runs");
        assert!(listener.as_raw_fd() > 2);
        for _ in 0..20 {
            let client = Client::connect(address);
            let mut client = if scheme.is_empty() { client } else { client.secure() };
            assert_eq!(client.ask(last_get("/small.txt")).status(), 200, "{arch}");
        }
        signal(child.id(), "TERM");
        let ended = wait_for("the end", || child.try_wait().expect("a child"));
        assert!(ended.success(), "{arch}");
        // Who connects now waits for the next server, which is what the socket is handed over for.
        let mut late = Client::connect(address);
        late.send("GET");
        wait_for("the late connection", || listener.accept().ok());
    }
}

#[test]
fn the_unit_files_are_understood() {
    if !has("systemd-analyze") {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let units = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/systemd/");
    let program = env!("CARGO_BIN_EXE_flyball");
    for unit in ["flyball.service", "flyball.socket"] {
        let lines = std::fs::read_to_string(format!("{units}{unit}")).expect("the unit is there");
        let lines = lines.replace("/usr/bin/flyball", program);
        std::fs::write(directory.path().join(unit), lines).expect("it is written");
    }
    let output = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(directory.path().join("flyball.service"))
        .arg(directory.path().join("flyball.socket"))
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("flyball")).collect();
    assert!(output.status.success() && ours.is_empty(), "{said}");
}

/// A line of the unit, without its name; it may go on in the next one.
fn line_of_unit(name: &str) -> String {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/systemd/flyball.service");
    let unit = std::fs::read_to_string(unit).expect("the unit is there").replace("\\\n", "");
    let line = unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    line.expect("it is set").to_owned()
}

/// Words that start a program as the unit does: with the rights that it leaves. `None`, said aloud,
/// where nothing can be taken away.
pub(crate) fn by_the_unit() -> Option<Vec<String>> {
    if !is_root() {
        skip("only the superuser has rights to be left");
        return None;
    }
    if !has("setpriv") {
        return None;
    }
    let capabilities = line_of_unit("CapabilityBoundingSet").to_lowercase();
    let mut set = "-all".to_owned();
    for name in capabilities.split_ascii_whitespace() {
        set += &format!(",+{}", name.strip_prefix("cap_").expect("a capability"));
    }
    assert_eq!(line_of_unit("NoNewPrivileges"), "yes");
    let masked = format!("umask {}; exec \"$0\" \"$@\"", line_of_unit("UMask"));
    let words = ["setpriv", "--bounding-set", &set, "--no-new-privs", "sh", "-c", &masked];
    Some(words.map(str::to_owned).to_vec())
}

#[test]
fn the_rights_that_the_unit_leaves_are_enough() {
    let Some(prefix) = by_the_unit() else { return };
    let site = Site::with(&[("small.txt", b"small")]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (state, config) = (within(&directory, "state"), within(&directory, "flyball.toml"));
    std::fs::create_dir(&state).expect("a directory can be made");
    let of_file = std::fs::read_to_string(secure_config(&directory, &site)).expect("it is written");
    let root = text(site.path());
    let lines = format!(
        "tls.redirect-http = false\n{of_file}\n[[site]]\nhosts = [\"localhost\"]\n\
         root = {root:?}\ncertificate = \"internal\"\n"
    );
    std::fs::write(&config, lines).expect("the file is written");
    for arch in ["n-copy", "uring", "watpipe"] {
        let launch = Launch::bare(&prefix).env("STATE_DIRECTORY", &state);
        let launch = launch.args(&["--config", text(&config), "--listen", "127.0.0.1:0"]);
        let launch = launch.args(&["--listen", "https://127.0.0.1:0", "--arch", arch]);
        let server = launch.args(&["--workers", "1"]).set("sandbox=required").start();
        for _ in 0..2 {
            for mut client in [server.connect(), server.connect_secure()] {
                assert_eq!(client.ask(last_get("/small.txt")).body, b"small", "{arch}");
            }
            let own = server.secure.expect("it speaks TLS");
            assert_eq!(by_own_authority(&state.join("internal/root.pem"), own), "small", "{arch}");
            let worker = server.worker();
            assert_eq!(proc_status(worker, "CapBnd").as_deref(), Some("0000000000000000"));
            signal(server.master(), "HUP");
            wait_for("another worker", || (server.worker() != worker).then_some(()));
        }
    }
    let key = std::fs::metadata(state.join("internal/authority.pem")).expect("it is there");
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
}

/// What curl gets from a site whose certificate is of this authority.
fn by_own_authority(root: &Path, port: u16) -> String {
    let output = Command::new("curl")
        .args(["-sS", "--max-time", "60", "--cacert", text(root)])
        .arg(format!("https://localhost:{port}/small.txt"))
        .output()
        .expect("curl is there");
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&said).into_owned()
}
