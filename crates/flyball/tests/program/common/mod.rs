//! The server as a process with processes of its own, which testkit's launcher does not look into:
//! started under another program, watched, counted and killed.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod generator;
pub mod https;
pub mod injection;
pub mod load;
pub mod metrics;
pub mod responder;
pub mod sockets;
pub mod terminal;
pub mod trace;

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, SystemTime};

use flyball_testkit::{ALONE, Client, Identity, skip, wait};
use tempfile::TempDir;

/// Its number on every architecture but MIPS and SPARC.
const SIGSTOP: u32 = 19;

/// How old a file must be before the server caches it, with something to spare.
const SETTLED_MS: u128 = 150;

/// Waits until `look` finds something, and fails when it does not in time.
#[track_caller]
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait::until(wait::DEADLINE, look).unwrap_or_else(|| panic!("{what}: it never came"))
}

/// How long a client of a served site may take, unless the test sets it again. By default the
/// server ends the connection of a client that a busy machine, or strace, stops for ten seconds.
const PATIENT: [&str; 2] = ["timeout.head=5min", "rate.window=5min"];

/// Makes a configuration in this directory: a site whose certificate clients of the testkit trust.
pub fn secure_config(directory: &TempDir, site: &Site) -> String {
    let (certificate, config) = (within(directory, "site.pem"), within(directory, "site.toml"));
    let Identity { chain, key, .. } = Identity::shared();
    std::fs::write(&certificate, format!("{chain}{key}")).expect("it is written");
    let hidden = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&certificate, hidden).expect("it is hidden");
    let site = format!("[[site]]\nroot = {:?}\ncertificate = {certificate:?}\n", site.path());
    std::fs::write(&config, site).expect("it is written");
    text(&config).to_owned()
}

/// Puts a copy of the program there.
pub fn copy_program(to: &Path) {
    copy_to_run(Path::new(env!("CARGO_BIN_EXE_flyball")), to);
}

/// Puts a script there that can be run.
pub fn write_script(to: &Path, script: &str) {
    let source = to.with_extension("source");
    std::fs::write(&source, format!("#!/bin/sh\n{script}\n")).expect("it is written");
    copy_to_run(&source, to);
    std::fs::remove_file(source).expect("it was there");
}

/// Another process writes it: what a test has open for writing, processes that other tests start
/// meanwhile have open too, and then it cannot be run (ETXTBSY).
fn copy_to_run(from: &Path, to: &Path) {
    let copied = Command::new("install").args(["-m", "755"]).args([from, to]).status();
    assert!(copied.expect("install can be run").success(), "the program is copied");
}

/// Whether `program` can be run. Says aloud that a test is skipped when not, and fails in CI.
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|place| place.join(program).is_file());
    if !found {
        skip(&format!("{program} is not installed"));
    }
    found
}

/// The architectures that run here: all of them in the build that must have everything.
pub fn architectures() -> Vec<&'static str> {
    let runs = |arch: &&&dyn flyball_arch::Architecture| match arch.probe() {
        Ok(()) => true,
        Err(why) => {
            skip(&format!("{} cannot run here: {why}", arch.name()));
            false
        }
    };
    flyball_arch::ALL.iter().filter(runs).map(|arch| arch.name()).collect()
}

/// Whether a process is the agent that gets certificates.
pub fn is_agent(process: u32) -> bool {
    title(process).ends_with("acme-agent")
}

/// What `ps -o args` shows of a process: its words, or its title.
pub fn title(process: u32) -> String {
    let mut shown = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    shown.pop_if(|byte| *byte == 0);
    String::from_utf8_lossy(&shown).replace('\0', " ")
}

/// Sends a signal, such as `TERM`. A process that is told to stop has stopped afterwards, with all
/// of its threads.
pub fn signal(process: u32, name: &str) {
    let status = Command::new("sh")
        .args(["-c", "kill -s \"$1\" \"$2\"", "sh", name, &process.to_string()])
        .status()
        .expect("sh runs");
    assert!(status.success(), "signal {name} to process {process}");
    if name == "STOP" {
        wait_for_threads("it stops", process, has_stopped);
    }
}

/// Waits until a process waits for something to do: all of its threads have begun, and it has done
/// all that it was told before.
pub fn rest(process: u32) {
    wait_for_threads("it rests", process, |status| field_of(status, "State").starts_with('S'));
}

/// Stops a process where it waits for something to do.
pub fn stop_at_rest(process: u32) {
    rest(process);
    signal(process, "STOP");
}

/// Waits until every thread of a process has a status like this.
fn wait_for_threads(what: &str, process: u32, like: impl Fn(&str) -> bool) {
    wait_for(what, || {
        let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?;
        let mut all = threads.flatten().map(|thread| thread.path().join("status"));
        all.all(|path| std::fs::read_to_string(path).is_ok_and(|text| like(&text))).then_some(())
    });
}

/// Whether a thread stands still. One that is traced does so for a moment at each of its calls
/// too: it will not go on when it has taken the signal.
fn has_stopped(status: &str) -> bool {
    let is_pending = |set: &str| {
        let signals = u64::from_str_radix(field_of(status, set), 16).expect("a set of signals");
        signals >> (SIGSTOP - 1) & 1 == 1
    };
    let is_to_stop = is_pending("SigPnd") || is_pending("ShdPnd");
    field_of(status, "State").starts_with(['T', 't']) && !is_to_stop
}

/// A field of a status.
fn field_of<'a>(status: &'a str, name: &str) -> &'a str {
    let mut values = status.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    values.next().expect("a field of every thread").trim()
}

/// The processes whose parent is `parent`, oldest first.
pub fn children(parent: u32) -> Vec<u32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Its children, and theirs.
pub fn descendants(process: u32) -> Vec<u32> {
    let mut all = children(process);
    let mut at = 0;
    while at < all.len() {
        all.extend(children(all[at]));
        at += 1;
    }
    all
}

/// A field of `/proc/PID/status`, without its name.
pub fn proc_status(process: u32, field: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.map(|value| value.trim().to_string())
}

/// Memory of its own that a process has touched, in bytes.
pub fn anonymous_bytes(process: u32) -> u64 {
    let field = proc_status(process, "RssAnon").expect("it runs");
    field.trim_end_matches("kB").trim().parse::<u64>().expect("a number") * 1024
}

/// Whether a process runs: it exists and is no zombie.
pub fn is_running(process: u32) -> bool {
    proc_status(process, "State").is_some_and(|state| !state.starts_with(['Z', 'X']))
}

/// A directory to be served.
pub struct Site {
    directory: TempDir,
}

impl Site {
    /// A site with these files.
    pub fn with(files: &[(&str, &[u8])]) -> Site {
        let directory = tempfile::tempdir().expect("a temporary directory");
        for (name, content) in files {
            std::fs::write(directory.path().join(name), content).expect("the file is written");
        }
        let site = Site { directory };
        for (name, _) in files {
            wait_for("a file grows old", || site.is_settled(name).then_some(()));
        }
        site
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    fn is_settled(&self, name: &str) -> bool {
        let stamp = self.path().join(name).metadata().expect("the file is there");
        let changed = Duration::new(stamp.ctime() as u64, stamp.ctime_nsec() as u32);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        now.saturating_sub(changed).as_millis() >= SETTLED_MS
    }
}

/// How a server is started.
pub struct Launch {
    command: Command,
    /// What follows `serve`.
    arguments: Vec<OsString>,
    is_asked: bool,
}

impl Launch {
    /// `flyball serve SITE --listen 127.0.0.1:0 --arch ARCH`, with the waits of [`PATIENT`].
    pub fn new(site: &Site, arch: &str) -> Launch {
        Launch::under::<&str>(&[], site, arch)
    }

    /// The same, started by another program whose words come first.
    pub fn under<A: AsRef<OsStr>>(prefix: &[A], site: &Site, arch: &str) -> Launch {
        let mut launch = Launch::bare(prefix);
        launch = launch.arg(site.path()).args(&["--listen", "127.0.0.1:0", "--arch", arch]);
        PATIENT.into_iter().fold(launch, Launch::set)
    }

    /// `flyball serve`, started by another program whose words come first.
    pub fn bare<A: AsRef<OsStr>>(prefix: &[A]) -> Launch {
        let mut words: Vec<OsString> = prefix.iter().map(|word| word.as_ref().into()).collect();
        words.push(env!("CARGO_BIN_EXE_flyball").into());
        Launch::program(&words)
    }

    /// This program and its first words, then `serve`.
    pub fn program(words: &[OsString]) -> Launch {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("serve");
        Launch { command, arguments: Vec::new(), is_asked: false }
    }

    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Launch {
        self.arguments.push(argument.as_ref().into());
        self
    }

    pub fn args(mut self, arguments: &[&str]) -> Launch {
        self.arguments.extend(arguments.iter().map(OsString::from));
        self
    }

    pub fn set(self, setting: &str) -> Launch {
        self.args(&["--set", setting])
    }

    /// One worker; as many as connections shall be open at once, where each serves one at a time.
    pub fn workers_for(self, arch: &str, connections: usize) -> Launch {
        match arch {
            "mp" => self.set(&format!("mp.processes={connections}")),
            _ => self.args(&["--workers", "1"]),
        }
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Launch {
        self.command.env(name, value);
        self
    }

    /// Where it is started.
    pub fn current_dir(mut self, directory: &Path) -> Launch {
        self.command.current_dir(directory);
        self
    }

    /// Where it is asked, its configuration or the environment says. By default a server that is
    /// given no `--admin` is asked nowhere, and has no process for that.
    pub fn asked(self) -> Launch {
        Launch { is_asked: true, ..self }
    }

    /// Starts it and waits until it serves.
    #[track_caller]
    pub fn start(self) -> Server {
        match self.try_start() {
            Ok(server) => server,
            Err((status, text)) => panic!("the server ended with {status}: {text}"),
        }
    }

    /// Starts it; how it ended and what it said, when it ended instead of serving.
    pub fn try_start(mut self) -> Result<Server, (ExitStatus, String)> {
        if !self.is_asked {
            self.command.args(["--set", ALONE]);
        }
        let mut child = self
            .command
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server can be started");
        let stdout = child.stdout.take().expect("it is piped");
        let errors = Text::collect(child.stderr.take().expect("it is piped"));
        let (mut port, mut secure, mut admin) = (0, None, None);
        let (mut workers, mut serves) = (0, false);
        let mut lines = BufReader::new(stdout).lines();
        for line in lines.by_ref().map_while(Result::ok) {
            if line.starts_with("  at ") && line.contains("unix:") {
                // A test knows the path that it has given.
            } else if let Some(url) = line.strip_prefix("  at http://") {
                port = port_of(url);
            } else if let Some(url) = line.strip_prefix("  at https://") {
                secure = Some(port_of(url));
            } else if let Some(url) = line.strip_prefix("  status at http://") {
                admin = Some(port_of(url));
            } else if let Some(who) = line.strip_prefix("  by ") {
                workers = workers_of(who);
                serves = true;
                break;
            }
        }
        let mut server = Server { child, port, secure, admin, workers, errors, traced: None };
        if serves {
            return Ok(server);
        }
        let status = server.child.wait().expect("it ends");
        Err((status, server.errors.whole()))
    }
}

fn port_of(url: &str) -> u16 {
    // Hosts may stand behind it.
    let url = url.split(' ').next().unwrap_or(url);
    let digits = url.trim_end_matches("status").trim_end_matches('/').rsplit(':').next();
    digits.and_then(|digits| digits.parse().ok()).expect("a port in the URL")
}

/// `mt with 2 workers; Ctrl-C stops it`.
fn workers_of(who: &str) -> usize {
    let number = who.split_once(" with ").and_then(|(_, rest)| rest.split(' ').next());
    number.and_then(|digits| digits.parse().ok()).expect("how many workers there are")
}

/// What a process writes, as it comes.
#[derive(Clone)]
pub struct Text(Arc<(Mutex<(String, bool)>, Condvar)>);

impl Text {
    fn collect(source: impl Read + Send + 'static) -> Text {
        let text = Text(Arc::default());
        let copy = text.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(source).lines().map_while(Result::ok) {
                copy.change(|(text, _)| *text += &(line + "\n"));
            }
            copy.change(|(_, ended)| *ended = true);
        });
        text
    }

    fn change(&self, change: impl FnOnce(&mut (String, bool))) {
        change(&mut self.0.0.lock().expect("no test panics here"));
        self.0.1.notify_all();
    }

    /// What was written so far.
    pub fn so_far(&self) -> String {
        self.0.0.lock().expect("no test panics here").0.clone()
    }

    /// Waits until `found` is satisfied by what was written.
    #[track_caller]
    pub fn wait_for(&self, what: &str, found: impl Fn(&str) -> bool) -> String {
        let guard = self.0.0.lock().expect("no test panics here");
        let missing = |(text, ended): &mut (String, bool)| !found(text) && !*ended;
        let (guard, _) =
            self.0.1.wait_timeout_while(guard, wait::DEADLINE, missing).expect("no panic");
        let text = guard.0.clone();
        drop(guard);
        assert!(found(&text), "{what} was not said: {text:?}");
        text
    }

    /// Everything, once whoever can write has ended.
    pub fn whole(&self) -> String {
        let guard = self.0.0.lock().expect("no test panics here");
        let open = |(_, ended): &mut (String, bool)| !*ended;
        self.0.1.wait_timeout_while(guard, wait::DEADLINE, open).expect("no panic").0.0.clone()
    }
}

/// A server that runs until this is dropped.
pub struct Server {
    pub child: Child,
    pub port: u16,
    /// Where it speaks TLS.
    pub secure: Option<u16>,
    pub admin: Option<u16>,
    /// Processes that serve, of which some may only be about to begin.
    pub workers: usize,
    pub errors: Text,
    /// The master, when the child only watches it.
    traced: Option<u32>,
}

impl Server {
    /// The master's process id.
    pub fn master(&self) -> u32 {
        self.traced.unwrap_or_else(|| self.child.id())
    }

    /// Says that the child watches the master, and who that is.
    pub fn watches(&mut self, master: u32) {
        self.traced = Some(master);
    }

    /// The workers and the admin process, once there are `count` of them.
    #[track_caller]
    pub fn children(&self, count: usize) -> Vec<u32> {
        wait_for("the children of the master", || {
            Some(children(self.master())).filter(|children| children.len() == count)
        })
    }

    /// The child of the master that has this file or socket open.
    #[track_caller]
    pub fn child_with(&self, open: &Path) -> u32 {
        let has_it = |process: &u32| {
            let all = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten();
            all.flatten().any(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == open))
        };
        wait_for("the child that has it open", || children(self.master()).into_iter().find(has_it))
    }

    /// The one worker, beside which is the admin process.
    #[track_caller]
    pub fn told_worker(&self) -> u32 {
        wait_for("a worker", || {
            let status = self.status();
            let mut processes = status["processes"].as_array()?.iter();
            let worker = processes.find(|process| process["worker"].is_u64())?;
            worker["process"].as_u64()?.try_into().ok()
        })
    }

    /// The only worker of a server without an admin process.
    #[track_caller]
    pub fn worker(&self) -> u32 {
        self.children(1)[0]
    }

    #[track_caller]
    pub fn connect(&self) -> Client {
        Client::connect(([127, 0, 0, 1], self.port).into())
    }

    /// The same over TLS, for what was started by [`secure_config`].
    #[track_caller]
    pub fn connect_secure(&self) -> Client {
        let port = self.secure.expect("the server speaks TLS");
        Client::connect(([127, 0, 0, 1], port).into()).secure()
    }

    #[track_caller]
    pub fn connect_admin(&self) -> Client {
        let port = self.admin.expect("the server has an admin address");
        Client::connect(([127, 0, 0, 1], port).into())
    }

    /// What `/status` says; asked again where the process that was asked has ended, as with its
    /// generation.
    #[track_caller]
    pub fn status(&self) -> serde_json::Value {
        wait_for("the status", || {
            let port = self.admin.expect("the server has an admin address");
            let mut admin = TcpStream::connect(("127.0.0.1", port)).ok()?;
            let request = "GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
            admin.write_all(request.as_bytes()).ok()?;
            let mut answer = String::new();
            admin.read_to_string(&mut answer).ok()?;
            let (_, body) = answer.split_once("\r\n\r\n")?;
            Some(serde_json::from_str(body).expect("the status is JSON"))
        })
    }

    /// A counter of `/status`.
    #[track_caller]
    pub fn counter(&self, name: &str) -> u64 {
        let status = self.status();
        status["counters"][name].as_u64().unwrap_or_else(|| panic!("no {name} in {status}"))
    }

    /// Waits for the master's end.
    #[track_caller]
    pub fn ended(&mut self) -> ExitStatus {
        wait_for("the end of the server", || self.child.try_wait().expect("it is our child"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // A watched master outlives its watcher, and workers drain when their master dies.
            let processes: Vec<u32> =
                children(self.master()).into_iter().chain([self.master()]).collect();
            for process in processes {
                let kill = ["-c", "kill -s KILL \"$1\" 2>&-", "sh", &process.to_string()];
                let _ = Command::new("sh").args(kill).status();
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// GET on a connection that is kept.
pub fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// GET on a connection that the server closes after the answer.
pub fn last_get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
}

/// A path as text.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// A file in a directory.
pub fn within(directory: &TempDir, name: &str) -> PathBuf {
    directory.path().join(name)
}

/// Ends the server of the file `pid` in a directory, if it has taken the place of `first`, and
/// waits until it has. It never panics: it is for what a test drops, also when it fails.
pub fn end_successor(directory: &TempDir, first: &Server) {
    let pid = std::fs::read_to_string(within(directory, "pid")).unwrap_or_default();
    if let Ok(pid) = pid.trim().parse::<u32>()
        && pid != first.master()
    {
        let script = ["-c", "kill -s TERM \"$1\" 2>&-", "sh", &pid.to_string()];
        let _ = Command::new("sh").args(script).status();
        wait::until(wait::DEADLINE, || (!is_running(pid)).then_some(()));
    }
}

/// `flyball ctl WORDS --admin unix:SOCKET`.
pub fn ctl(socket: &Path, words: &[&str]) -> std::process::Output {
    let admin = format!("unix:{}", text(socket));
    let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
    command.arg("ctl").args(words).args(["--admin", &admin]);
    command.output().expect("flyball runs")
}

/// What `flyball ctl` says, which succeeds.
#[track_caller]
pub fn told(socket: &Path, words: &[&str]) -> String {
    let output = ctl(socket, words);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What `flyball ctl` says on standard error, which fails.
#[track_caller]
pub fn refused(socket: &Path, words: &[&str]) -> String {
    let output = ctl(socket, words);
    assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}
