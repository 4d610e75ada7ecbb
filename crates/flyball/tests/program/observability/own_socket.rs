//! The socket that a server has without being told, and how `flyball ctl` finds it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::common::{
    Launch, Server, Site, children, copy_program, end_successor, is_running, signal, text,
    wait_for, within,
};

/// The variable that names the runtime directory.
const RUNTIME: &str = "RUNTIME_DIRECTORY";

/// A runtime directory, and what servers in it serve.
struct Machine {
    directory: TempDir,
    site: Site,
}

impl Machine {
    fn new() -> Machine {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Machine { directory, site: Site::with(&[("small.txt", b"small")]) }
    }

    fn runtime(&self) -> PathBuf {
        within(&self.directory, "run")
    }

    /// One that is not told of `admin`.
    fn launch(&self) -> Launch {
        let launch = Launch::bare::<&str>(&[]).arg(self.site.path()).asked();
        let launch = launch.env(RUNTIME, self.runtime());
        launch.args(&["--listen", "127.0.0.1:0", "--arch", "sped"])
    }

    /// The same by a configuration, which can be written again.
    fn launch_by(&self, program: &Path, admin: &str) -> Launch {
        self.write(admin);
        let config = within(&self.directory, "site.toml");
        Launch::program(&[program.into()])
            .asked()
            .args(&["--config", text(&config)])
            .env(RUNTIME, self.runtime())
    }

    fn write(&self, admin: &str) {
        let (pid, root) = (within(&self.directory, "pid"), self.site.path());
        let lines = format!(
            "arch = \"sped\"\nlisten = \"127.0.0.1:0\"\npid-file = {pid:?}\n{admin}\n\
             [[site]]\nroot = {root:?}\n"
        );
        fs::write(within(&self.directory, "site.toml"), lines).expect("the file is written");
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.runtime()).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// What `flyball` does with these words, in this runtime directory.
    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("flyball runs")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
        command.args(words).env(RUNTIME, self.runtime()).env_remove("FLYBALL_ADMIN");
        command
    }

    #[track_caller]
    fn told(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        String::from_utf8(output.stdout).expect("text")
    }

    #[track_caller]
    fn refused(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        String::from_utf8(output.stderr).expect("text")
    }
}

fn socket_of(server: &Server) -> String {
    format!("admin-{}.sock", server.master())
}

#[test]
fn a_server_is_found_without_being_named() {
    let machine = Machine::new();
    let none = machine.refused(&["ctl", "status"]);
    assert!(none.contains("no server has a socket in") && none.contains("--admin"), "{none}");
    let mut server = machine.launch().start();
    assert_eq!(machine.names(), [socket_of(&server)]);
    let path = machine.runtime().join(socket_of(&server));
    let about = fs::symlink_metadata(&path).expect("it is there");
    assert_eq!(about.mode() & 0o7777, 0o600, "only its owner may connect");
    let directory = fs::metadata(machine.runtime()).expect("it was made");
    assert_eq!((about.uid(), directory.mode() & 0o777), (directory.uid(), 0o755));
    assert_eq!(machine.told(&["ctl", "get", "arch"]), "sped\n");
    assert!(machine.told(&["ctl", "set", "accept.limit", "3"]).contains('3'));
    assert!(machine.told(&["top", "--once", "--every", "0.2"]).contains("sped"));
    assert!(machine.refused(&["cert", "renew", "a.test"]).contains("no agent runs"));
    // Named, in either order and by the environment.
    let named = format!("unix:{}", text(&path));
    for words in [["ctl", "--admin", &named, "status"], ["ctl", "status", "--admin", &named]] {
        assert!(machine.told(&words).contains("\"arch\": \"sped\""));
    }
    let mut elsewhere = machine.command(&["ctl", "get", "accept.limit"]);
    elsewhere.env(RUNTIME, "/nowhere").env("FLYBALL_ADMIN", &named);
    assert_eq!(elsewhere.output().expect("it runs").stdout, b"3\n");
    signal(server.master(), "TERM");
    assert!(server.ended().success());
    assert_eq!(machine.names(), [""; 0]);
}

#[test]
fn of_several_servers_each_is_listed_with_where_it_listens() {
    let machine = Machine::new();
    let servers = [machine.launch().start(), machine.launch().start()];
    let said = machine.refused(&["ctl", "reload"]);
    assert!(said.contains("several servers run here"), "{said}");
    for server in &servers {
        let path = machine.runtime().join(socket_of(server));
        let line = format!("  --admin unix:{}  at 127.0.0.1:{}", text(&path), server.port);
        assert!(said.lines().any(|told| told == line), "{line} is not in:\n{said}");
    }
}

/// Where the unit has systemd make a directory for the service, and remove it.
fn directory_of_the_service() -> String {
    let unit = include_str!("../../../../../deploy/systemd/flyball.service");
    let named = unit.lines().find_map(|line| line.strip_prefix("RuntimeDirectory="));
    format!("/run/{}", named.expect("the unit has one"))
}

#[test]
fn the_service_and_other_servers_of_root_leave_each_other_alone() {
    if !flyball_sys::process::is_root() {
        return flyball_testkit::skip("only the superuser has such servers");
    }
    if !["unshare", "nsenter"].into_iter().all(crate::common::has) {
        return;
    }
    let machine = Machine::new();
    machine.write("");
    let (config, directory) = (within(&machine.directory, "site.toml"), directory_of_the_service());
    // A /run of their own, where systemd has made what the unit says.
    let begin = format!("mount -t tmpfs none /run && mkdir -m 750 {directory} && exec \"$@\"");
    let launch = Launch::bare(&["unshare", "--mount", "sh", "-c", &begin, "sh"]).asked();
    let launch = launch.args(&["--config", text(&config)]).env(RUNTIME, &directory);
    let mut service = launch.start();
    let here = format!("--mount=/proc/{}/ns/mnt", service.master());
    let by_hand = Launch::bare(&["nsenter", &here, "env", "--unset", RUNTIME]).asked();
    let by_hand = by_hand.arg(machine.site.path()).args(&["--listen", "127.0.0.1:0"]);
    let by_hand = by_hand.args(&["--arch", "mt", "--workers", "1"]).start();
    let here = format!("--mount=/proc/{}/ns/mnt", by_hand.master());
    let run = |words: &[&str]| {
        let output = Command::new("nsenter").arg(&here).args(words).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned() + &said)
    };
    let flyball = env!("CARGO_BIN_EXE_flyball");
    let runtime = format!("{RUNTIME}={directory}");
    let (done, said) = run(&["env", &runtime, flyball, "ctl", "reload"]);
    assert!(done && said.contains("the configuration is loaded"), "{said}");
    let find =
        ["env", "--unset", RUNTIME, "--unset", "FLYBALL_ADMIN", flyball, "ctl", "get", "arch"];
    let (done, said) = run(&find);
    assert!(!done && said.contains("several servers run here"), "{said}");
    // What systemd does when the service is stopped.
    signal(service.master(), "TERM");
    assert!(service.ended().success());
    run(&["rm", "-r", &directory]);
    assert_eq!(run(&find), (true, "mt\n".to_owned()));
}

#[test]
fn what_a_killed_server_has_left_is_taken_away_by_the_next() {
    let machine = Machine::new();
    let mut killed = machine.launch().start();
    signal(killed.master(), "KILL");
    killed.ended();
    assert_eq!(machine.names(), [socket_of(&killed)]);
    assert!(machine.refused(&["ctl", "status"]).contains("no server has a socket"));
    let server = machine.launch().start();
    assert_eq!(machine.names(), [socket_of(&server)]);
    assert_eq!(machine.told(&["ctl", "get", "arch"]), "sped\n");
}

#[test]
fn a_server_that_cannot_make_its_socket_says_so_and_serves() {
    let machine = Machine::new();
    fs::write(machine.runtime(), "a file").expect("it is written");
    let server = machine.launch().start();
    server.errors.wait_for("the warning", |said| {
        said.contains("warning: admin: ") && said.contains("`flyball ctl` finds no socket")
    });
    assert_eq!(server.connect().ask(crate::common::get("/small.txt")).status(), 200);
    assert_eq!(children(server.master()).len(), 1, "there is nothing to serve it by");
    let check = machine.launch_by(Path::new("flyball"), "");
    drop(check);
    let config = within(&machine.directory, "site.toml");
    let checked = machine.run(&["check", text(&config)]);
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success() && said.contains("warning: admin: "), "{said}");
}

#[test]
fn of_several_places_those_in_the_file_system_take_commands() {
    let machine = Machine::new();
    let server = machine.launch().args(&["--admin", "auto,127.0.0.1:0"]).start();
    let ask = |request: &str| server.connect_admin().ask(request).status();
    assert_eq!(ask("GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n"), 200);
    assert_eq!(ask("GET /status HTTP/1.1\r\nHost: other.test\r\n\r\n"), 421);
    for path in ["/reload", "/trace", "/settings?accept.limit=2", "/drain"] {
        assert_eq!(ask(&format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")), 403, "{path}");
    }
    assert!(machine.told(&["ctl", "set", "accept.limit", "2"]).contains('2'));
    assert_eq!(ask("GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n"), 200);
}

#[test]
fn a_reload_changes_the_places_and_keeps_those_that_stay() {
    let machine = Machine::new();
    let program = Path::new(env!("CARGO_BIN_EXE_flyball"));
    let server = machine.launch_by(program, "").start();
    let (own, other) =
        (machine.runtime().join(socket_of(&server)), within(&machine.directory, "a"));
    let inode = |path: &Path| fs::symlink_metadata(path).ok().map(|about| about.ino());
    let mode = |path: &Path| fs::symlink_metadata(path).expect("it is there").mode() & 0o777;
    let first = inode(&own);
    let reload = |admin: &str, by: &Path| {
        machine.write(admin);
        let named = format!("unix:{}", text(by));
        let words = ["ctl", "reload", "--admin", &named];
        assert!(machine.told(&words).contains("the configuration is loaded"));
    };
    reload(&format!("admin = [\"auto\", \"unix:{}\"]\nadmin-mode = \"0660\"", text(&other)), &own);
    assert_eq!((inode(&own), mode(&own), mode(&other)), (first, 0o660, 0o660));
    // One that cannot be used changes nothing.
    machine.write("admin = [\"unix:b\", \"unix:/dev/null\"]\nadmin-mode = \"0666\"");
    let named = format!("unix:{}", text(&other));
    machine.refused(&["ctl", "reload", "--admin", &named]);
    assert_eq!((inode(&own), mode(&own), mode(&other)), (first, 0o660, 0o660));
    assert!(!within(&machine.directory, "b").exists());
    reload(&format!("admin = \"unix:{}\"", text(&other)), &own);
    assert_eq!((inode(&own), mode(&other)), (None, 0o600));
    // A name that was lost is made again.
    fs::remove_file(&other).expect("it was there");
    signal(server.master(), "HUP");
    wait_for("it is made again", || inode(&other));
    reload("admin = []", &other);
    wait_for("no process serves any", || (children(server.master()).len() == 1).then_some(()));
    assert_eq!((inode(&own), inode(&other)), (None, None));
}

#[test]
fn an_upgrade_hands_all_of_them_over() {
    let machine = Machine::new();
    let program = within(&machine.directory, "flyball");
    copy_program(&program);
    let named = within(&machine.directory, "named");
    let both = format!("admin = [\"auto\", \"127.0.0.1:0\", \"unix:{}\"]", text(&named));
    let mut server = machine.launch_by(&program, &both).start();
    let own = machine.runtime().join(socket_of(&server));
    let inodes =
        || [&own, &named].map(|path| fs::symlink_metadata(path).expect("it is there").ino());
    let before = inodes();
    let other = both.replace("127.0.0.1:0", "127.0.0.1:1");
    machine.write(&other);
    assert!(machine.refused(&["ctl", "upgrade"]).contains("the upgrade failed"));
    let told = server.errors.so_far();
    assert!(told.contains("cannot change along with an upgrade"), "{told}");
    machine.write(&both);
    assert!(machine.told(&["ctl", "upgrade"]).contains("has taken over"));
    assert!(server.ended().success());
    assert_eq!(inodes(), before);
    assert_eq!(machine.told(&["ctl", "get", "arch"]), "sped\n");
    let status = "GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(server.connect_admin().ask(status).status(), 200);
    // The next one does not want its own: the name goes when it has taken over.
    machine.write(&both.replace("\"auto\", ", ""));
    let named = format!("unix:{}", text(&named));
    let words = ["ctl", "upgrade", "--admin", &named];
    assert!(machine.told(&words).contains("has taken over"));
    wait_for("its name is removed", || (!own.exists()).then_some(()));
    let pid = fs::read_to_string(within(&machine.directory, "pid")).expect("its number");
    end_successor(&machine.directory, &server);
    let pid: u32 = pid.trim().parse().expect("a number");
    wait_for("it ends", || (!is_running(pid)).then_some(()));
}

#[test]
fn another_user_is_told_that_the_server_is_not_theirs() {
    if !Path::new("/proc/self").metadata().is_ok_and(|own| own.uid() == 0) {
        return flyball_testkit::skip("only the superuser can become another user");
    }
    let machine = Machine::new();
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(machine.directory.path(), open).expect("others may look");
    let program = within(&machine.directory, "flyball");
    copy_program(&program);
    let server = machine.launch().start();
    let mut other = Command::new("setpriv");
    other.args(["--reuid=61001", "--regid=61001", "--clear-groups"]).arg(&program);
    other.args(["ctl", "status"]).env(RUNTIME, machine.runtime()).stdin(Stdio::null());
    let output = other.output().expect("setpriv runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("no permission"), "{said}");
    assert!(said.contains(&socket_of(&server)), "{said}");
}
