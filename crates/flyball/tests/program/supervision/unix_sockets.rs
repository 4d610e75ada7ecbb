//! Listening sockets in the file system: who may connect, whose name it is, and what a reload, an
//! upgrade and the end make of it.

use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use super::systemd::handed_over;
use crate::common::{
    Launch, Server, Site, architectures, copy_program, end_successor, get, last_get, signal, text,
    told, wait_for, within,
};
use flyball_testkit::Client;
use tempfile::TempDir;

/// Architectures that wait at one socket in ways of their own: in one loop, in several, by calls
/// that block in processes and in threads, by a ring.
const KINDS: [&str; 5] = ["sped", "n-copy", "mp", "mt", "uring"];

/// A server with a socket in a directory of its own, which can be configured again and replaced.
struct Local {
    site: Site,
    directory: TempDir,
    server: Server,
    arch: &'static str,
}

impl Local {
    fn start(arch: &'static str, listeners: &str) -> Local {
        let site = Site::with(&[("small.txt", &[b'x'; 1024])]);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let program = within(&directory, "flyball");
        copy_program(&program);
        write(&directory, &site, arch, listeners);
        let config = within(&directory, "flyball.toml");
        let server =
            Launch::program(&[program.into()]).asked().args(&["--config", text(&config)]).start();
        Local { site, directory, server, arch }
    }

    fn path(&self) -> PathBuf {
        within(&self.directory, "site.sock")
    }

    fn reload(&self, listeners: &str) {
        write(&self.directory, &self.site, self.arch, listeners);
        told(&within(&self.directory, "admin"), &["reload"]);
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        end_successor(&self.directory, &self.server);
    }
}

fn write(directory: &TempDir, site: &Site, arch: &str, listeners: &str) {
    let path = |name: &str| within(directory, name);
    let lines = format!(
        "arch = {arch:?}\nworkers = 2\nlisten = [\"127.0.0.1:0\"]\nadmin = \"unix:admin\"\n\
         pid-file = \"pid\"\n{listeners}\n[[site]]\nroot = {:?}\n",
        site.path()
    );
    std::fs::write(path("flyball.toml"), lines).expect("the file is written");
}

const LISTENER: &str = "[[listener]]\naddress = \"unix:site.sock\"\n";

#[track_caller]
fn answers(path: &Path) {
    assert_eq!(Client::connect_unix(path).ask(last_get("/small.txt")).status(), 200);
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).expect("the socket is there").permissions().mode() & 0o777
}

#[test]
fn a_socket_comes_changes_and_goes_by_a_reload_and_goes_with_the_server() {
    for arch in KINDS.into_iter().filter(|kind| architectures().contains(kind)) {
        let mut local = Local::start(arch, "");
        let path = local.path();
        local.reload(LISTENER);
        answers(&path);
        assert_eq!(mode(&path), 0o660, "{arch}");
        let mut kept = Client::connect_unix(&path);
        assert_eq!(kept.ask(get("/small.txt")).status(), 200, "{arch}");
        let before = std::fs::symlink_metadata(&path).expect("it is there").ino();
        local.reload(&format!("{LISTENER}mode = \"0600\"\n"));
        answers(&path);
        assert_eq!(mode(&path), 0o600, "{arch}");
        let after = std::fs::symlink_metadata(&path).expect("it is there").ino();
        assert_eq!(before, after, "{arch}: it is the same socket");
        // A group is given and taken back.
        let group = || std::fs::symlink_metadata(&path).expect("it is there").gid();
        let own = group();
        for (line, wanted) in [("group = \"61003\"\n", 61_003), ("", own)] {
            if flyball_sys::process::is_root() {
                local.reload(&format!("{LISTENER}{line}"));
                assert_eq!(group(), wanted, "{arch}");
            }
        }
        local.reload("");
        assert!(!path.exists(), "{arch}");
        assert_eq!(kept.ask(get("/small.txt")).status(), 200, "{arch}");
        local.reload(LISTENER);
        answers(&path);
        signal(local.server.master(), "TERM");
        assert!(local.server.ended().success(), "{arch}");
        assert!(!path.exists(), "{arch}");
        assert!(!within(&local.directory, "admin").exists(), "{arch}");
    }
}

#[test]
fn an_upgrade_keeps_the_socket_and_its_name() {
    for arch in KINDS.into_iter().filter(|kind| architectures().contains(kind)) {
        let mut local = Local::start(arch, LISTENER);
        let path = local.path();
        answers(&path);
        let said = told(&within(&local.directory, "admin"), &["upgrade"]);
        assert!(said.ends_with(" has taken over\n"), "{arch}: {said}");
        assert!(local.server.ended().success(), "{arch}");
        answers(&path);
        answers(&path);
    }
}

#[test]
fn an_upgrade_that_does_not_list_a_socket_removes_its_name() {
    let mut local = Local::start("n-copy", LISTENER);
    answers(&local.path());
    write(&local.directory, &local.site, local.arch, "");
    let said = told(&within(&local.directory, "admin"), &["upgrade"]);
    assert!(said.ends_with(" has taken over\n"), "{said}");
    assert!(local.server.ended().success());
    wait_for("that the name is gone", || (!local.path().exists()).then_some(()));
}

/// A directory may give its group to what is made in it.
#[test]
fn without_a_group_a_socket_has_that_of_the_server() {
    if !flyball_sys::process::is_root() {
        return eprintln!("only the superuser gives directories to other groups: not tested");
    }
    let local = Local::start("n-copy", "");
    let directory = within(&local.directory, "shared");
    std::fs::create_dir(&directory).expect("it is made");
    std::os::unix::fs::chown(&directory, None, Some(61_003)).expect("it is given away");
    let setgid = std::fs::Permissions::from_mode(0o2775);
    std::fs::set_permissions(&directory, setgid).expect("and gives its group on");
    local.reload("[[listener]]\naddress = \"unix:shared/site.sock\"\n");
    let path = directory.join("site.sock");
    answers(&path);
    let own = std::fs::metadata("/proc/self").expect("of this process").gid();
    assert_eq!(std::fs::symlink_metadata(&path).expect("it is there").gid(), own);
}

#[test]
fn a_socket_that_was_left_over_is_replaced_and_one_that_is_in_use_is_not() {
    let local = Local::start("sped", "");
    let path = local.path();
    drop(UnixListener::bind(&path).expect("it is bound"));
    assert!(UnixListener::bind(&path).is_err_and(|error| error.kind() == ErrorKind::AddrInUse));
    local.reload(LISTENER);
    answers(&path);
    local.reload("");
    let _other = UnixListener::bind(&path).expect("it is bound");
    write(&local.directory, &local.site, local.arch, LISTENER);
    let said = crate::common::refused(&within(&local.directory, "admin"), &["reload"]);
    assert!(said.contains("another server listens there"), "{said}");
    assert!(path.exists());
}

/// Another has its name, or it has none: a reload and the end touch nothing of others, and a reload
/// makes it again.
#[test]
fn only_its_own_socket_is_changed_and_removed() {
    for arch in KINDS.into_iter().filter(|kind| architectures().contains(kind)) {
        let mut local = Local::start(arch, LISTENER);
        let (path, admin) = (local.path(), within(&local.directory, "admin"));
        let moved = within(&local.directory, "moved");
        answers(&path);
        // The admin socket of the superuser alone has its name, and a reload asks for another mode.
        std::fs::rename(&path, &moved).expect("it is moved");
        std::fs::rename(&admin, &path).expect("it takes the place");
        for mode_line in ["", "mode = \"0666\"\n"] {
            let lines = format!("{LISTENER}{mode_line}");
            write(&local.directory, &local.site, arch, &lines);
            let said = crate::common::refused(&path, &["reload"]);
            assert!(said.contains("another server listens there"), "{arch}: {said}");
            assert_eq!(mode(&path), 0o600, "{arch}");
        }
        std::fs::rename(&path, &admin).expect("it is moved back");
        // Without a name it gets one.
        local.reload(LISTENER);
        answers(&path);
        // What stands in its place at the end stays.
        std::fs::remove_file(&path).expect("it is removed");
        std::fs::write(&path, "of others").expect("it is written");
        signal(local.server.master(), "TERM");
        assert!(local.server.ended().success(), "{arch}");
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "of others", "{arch}");
    }
}

/// Also where it has the same mode and group, which a new master could take for those of its own.
#[test]
fn an_upgrade_takes_no_other_socket_for_its_own() {
    let lines = format!("{LISTENER}mode = \"0600\"\n");
    for arch in KINDS.into_iter().filter(|kind| architectures().contains(kind)) {
        let mut local = Local::start(arch, &lines);
        let (path, admin) = (local.path(), within(&local.directory, "admin"));
        let moved = within(&local.directory, "moved");
        answers(&path);
        for mode_line in ["mode = \"0600\"\n", "mode = \"0666\"\n"] {
            // The admin socket, and by a link the same.
            std::fs::rename(&path, &moved).expect("it is moved");
            std::fs::hard_link(&admin, &path).expect("it takes the place");
            write(&local.directory, &local.site, arch, &format!("{LISTENER}{mode_line}"));
            crate::common::refused(&admin, &["upgrade"]);
            assert_eq!(mode(&path), 0o600, "{arch}");
            std::fs::rename(&moved, &path).expect("it is moved back");
            answers(&path);
        }
        let why = "another server listens there";
        local.server.errors.wait_for(why, |said| said.contains(why));
        // Nor for that of commands.
        write(&local.directory, &local.site, arch, &lines);
        std::fs::rename(&admin, &moved).expect("it is moved");
        let other = UnixListener::bind(&admin).expect("another listens");
        std::fs::set_permissions(&admin, PermissionsExt::from_mode(0o600)).expect("it is closed");
        crate::common::refused(&moved, &["upgrade"]);
        std::fs::rename(&moved, &admin).expect("it is moved back");
        drop(other);
        // One that is lost is made once more.
        std::fs::remove_file(&path).expect("it is removed");
        let said = told(&admin, &["upgrade"]);
        assert!(said.ends_with(" has taken over\n"), "{arch}: {said}");
        assert!(local.server.ended().success(), "{arch}");
        answers(&path);
        assert_eq!(mode(&path), 0o600, "{arch}");
    }
}

/// Sockets are handed over as they are: what says otherwise is not passed over in silence.
#[test]
fn an_upgrade_that_asks_for_other_guards_is_refused_and_comes_after_a_reload() {
    let mut local = Local::start("n-copy", LISTENER);
    let (path, admin) = (local.path(), within(&local.directory, "admin"));
    for lines in
        [format!("admin-mode = \"0666\"\n{LISTENER}"), format!("{LISTENER}mode = \"0600\"\n")]
    {
        write(&local.directory, &local.site, local.arch, &lines);
        crate::common::refused(&admin, &["upgrade"]);
        assert_eq!((mode(&admin), mode(&path)), (0o600, 0o660));
        answers(&path);
    }
    let has = |why: &str| local.server.errors.wait_for(why, |said| said.contains(why));
    has("cannot change along with an upgrade");
    has("the socket there has another mode or group");
    local.reload(&format!("admin-mode = \"0666\"\n{LISTENER}mode = \"0600\"\n"));
    let said = told(&admin, &["upgrade"]);
    assert!(said.ends_with(" has taken over\n"), "{said}");
    assert!(local.server.ended().success());
    assert_eq!((mode(&admin), mode(&path)), (0o666, 0o600));
    answers(&path);
}

#[test]
fn a_start_or_a_reload_that_fails_leaves_no_socket_in_the_file_system() {
    let local = Local::start("n-copy", "");
    let path = local.path();
    let taken = within(&local.directory, "taken");
    let _other = UnixListener::bind(&taken).expect("it is bound");
    let both = format!("{LISTENER}[[listener]]\naddress = \"unix:taken\"\n");
    write(&local.directory, &local.site, local.arch, &both);
    let said = crate::common::refused(&within(&local.directory, "admin"), &["reload"]);
    assert!(said.contains("another server listens there"), "{said}");
    assert!(!path.exists() && taken.exists());
    // The admin socket of the one that runs is in use.
    write(&local.directory, &local.site, local.arch, LISTENER);
    let another = Launch::program(&[env!("CARGO_BIN_EXE_flyball").into()])
        .asked()
        .args(&["--config", text(&within(&local.directory, "flyball.toml"))]);
    let (_, said) = another.try_start().err().expect("it does not serve");
    assert!(said.contains("another server listens there"), "{said}");
    assert!(!path.exists());
}

/// What a process that has ended has said on standard error.
fn errors_of(child: &mut Child) -> String {
    let mut said = String::new();
    let mut errors = child.stderr.take().expect("a pipe");
    errors.read_to_string(&mut said).expect("it is read");
    said
}

#[test]
fn a_socket_that_was_handed_over_is_for_commands_only_by_the_path_of_admin() {
    for named in [false, true] {
        let site = Site::with(&[("small.txt", b"small")]);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str| within(&directory, name);
        let socket = UnixListener::bind(path("lent.sock")).expect("it is bound");
        let admin = if named { "lent.sock" } else { "admin.sock" };
        let lines = format!(
            "listen = [\"127.0.0.1:0\"]\nadmin = \"unix:{admin}\"\n[[site]]\nroot = {:?}\n",
            site.path()
        );
        std::fs::write(path("flyball.toml"), lines).expect("the file is written");
        let mut child = handed_over(&path("flyball.toml"), socket.try_clone().expect("a copy"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("sh runs");
        wait_for("the admin socket", || path(admin).exists().then_some(()));
        let status = told(&path(admin), &["status"]);
        assert!(status.contains("listeners"), "{status}");
        signal(child.id(), "TERM");
        assert!(wait_for("the end", || child.try_wait().expect("a child")).success());
        let said = errors_of(&mut child);
        let warned = said.contains("lent.sock was handed over, which `listen` does not list");
        assert_eq!(warned, !named, "{said}");
        let accepted = socket.set_nonblocking(true).and_then(|()| socket.accept());
        assert!(accepted.is_err(), "no one has asked over it");
    }
}

#[test]
fn a_socket_without_a_path_that_was_handed_over_is_told_and_not_used() {
    use std::os::linux::net::SocketAddrExt as _;
    let site = Site::with(&[("small.txt", b"small")]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let name = format!("flyball-{}", text(directory.path()));
    let name = std::os::unix::net::SocketAddr::from_abstract_name(name).expect("a short name");
    let socket = UnixListener::bind_addr(&name).expect("it is bound");
    let (config, pid) = (within(&directory, "flyball.toml"), within(&directory, "pid"));
    let lines = format!(
        "listen = [\"127.0.0.1:0\"]\npid-file = \"pid\"\n[[site]]\nroot = {:?}\n",
        site.path()
    );
    std::fs::write(&config, lines).expect("the file is written");
    let mut child = handed_over(&config, socket).stderr(Stdio::piped()).spawn().expect("sh runs");
    wait_for("the server", || pid.exists().then_some(()));
    signal(child.id(), "TERM");
    assert!(wait_for("the end", || child.try_wait().expect("a child")).success());
    assert!(errors_of(&mut child).contains("neither a port nor a path"));
}

/// What a proxy on this machine says of its clients is believed if `unix` is trusted.
#[test]
fn a_client_without_an_address_is_named_so_and_may_be_trusted() {
    let local = Local::start("n-copy", "");
    let log = within(&local.directory, "log");
    let log_line = format!("access-log = {log:?}\nlog.format = \"$remote_addr $request\"\n");
    let logged = |line: &str| {
        wait_for(line, || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            text.lines().any(|logged| logged == line).then_some(())
        });
    };
    local.reload(&format!("{log_line}{LISTENER}"));
    answers(&local.path());
    logged("unix GET /small.txt HTTP/1.1");
    let trusted = |address: &str| {
        format!("{log_line}client.trusted = [\"unix\"]\nclient.address = {address:?}\n{LISTENER}")
    };
    local.reload(&trusted("x-forwarded-for"));
    let mut client = Client::connect_unix(&local.path());
    let forwarded = "GET /small.txt?1 HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.7\r\n\
                     Connection: close\r\n\r\n";
    assert_eq!(client.ask(forwarded).status(), 200);
    logged("192.0.2.7 GET /small.txt?1 HTTP/1.1");
    local.reload(&trusted("proxy-protocol"));
    let mut client = Client::connect_unix(&local.path());
    client.send("PROXY TCP4 192.0.2.8 192.0.2.1 5 80\r\n");
    assert_eq!(client.ask(last_get("/small.txt?2")).status(), 200);
    logged("192.0.2.8 GET /small.txt?2 HTTP/1.1");
}
