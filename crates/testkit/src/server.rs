//! The server as a process of its own.

use std::fmt;
use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;

use crate::binary::binary;
use crate::client::Client;
use crate::secure::{Harm, Identity};
use crate::skip::skip;
use crate::wait::{DEADLINE, until};
use crate::watchdog::Watchdog;

/// The last line that a starting server prints.
const STARTED: &str = "Ctrl-C stops it";

/// The name of the configuration file in a server's directory.
const CONFIGURATION: &str = "flyball.toml";

/// What the server says of an architecture that this machine has not got.
const UNAVAILABLE: &str = "cannot run here";

/// Stands on standard error when a thread of a worker panicked, and nowhere else.
const PANICKED: &str = "panicked at";

/// How long a client may take, unless the test says so itself. By default the server ends the
/// connection of a client that a busy machine stops for ten seconds. `timeout.linger` stays: a
/// client that is still there when its server stops is waited for.
const PATIENT: [&str; 6] = [
    ALONE,
    "timeout.head=5min",
    "timeout.idle=5min",
    "timeout.answer=5min",
    "timeout.send=5min",
    "rate.window=5min",
];

/// A server of a test is asked only where the test says so: each other is a process less, and no
/// command of another test finds it.
pub const ALONE: &str = "admin=off";

/// Behind the name of an architecture, in a configuration or an argument, where clients speak TLS:
/// what is mounted by name is mounted over TLS so.
const OVER_TLS: &str = " over TLS";

/// How a server is started, with the waits of [`PATIENT`].
#[derive(Clone, Debug, Default)]
pub struct Launch {
    config: Option<String>,
    arguments: Vec<String>,
    is_secure: bool,
    state: Option<PathBuf>,
}

impl Launch {
    /// A server with this configuration file, listening on a free port of 127.0.0.1.
    pub fn config(text: impl Into<String>) -> Launch {
        Launch { config: Some(text.into()), ..Launch::default() }
    }

    /// A server with these arguments after `serve`, listening on a free port of 127.0.0.1.
    pub fn arguments<S: Into<String>>(arguments: impl IntoIterator<Item = S>) -> Launch {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Launch { arguments, ..Launch::default() }
    }

    /// One that speaks TLS alone, with the certificate of [`Identity::shared`] for each site of
    /// its configuration.
    pub fn secure(mut self) -> Launch {
        self.is_secure = true;
        self
    }

    /// With its state in this directory.
    pub fn in_state(mut self, directory: &Path) -> Launch {
        self.state = Some(directory.to_owned());
        self
    }

    /// With one more argument.
    pub fn and(mut self, argument: impl Into<String>) -> Launch {
        self.arguments.push(argument.into());
        self
    }

    /// Starts it, and waits until it listens.
    ///
    /// # Errors
    /// When it says why it does not.
    ///
    /// # Panics
    /// When it says nothing.
    pub fn start(mut self) -> Result<Server, Refused> {
        for text in self.config.iter_mut().chain(&mut self.arguments) {
            if text.contains(OVER_TLS) {
                (*text, self.is_secure) = (text.replace(OVER_TLS, ""), true);
            }
        }
        let directory = tempfile::Builder::new().prefix("flyball-test-").tempdir();
        let directory = directory.expect("a temporary directory");
        let errors = directory.path().join("stderr");
        let mut command = Command::new(binary());
        command.envs(self.state.iter().map(|path| ("STATE_DIRECTORY", path)));
        let listen = if self.is_secure { "https://127.0.0.1:0" } else { "127.0.0.1:0" };
        command.arg("serve").args(&self.arguments).args(["--listen", listen]);
        let config = self.config.as_ref().map(|text| match self.is_secure {
            true => with_certificates(text, directory.path()),
            false => text.clone(),
        });
        if let Some(text) = &config {
            let path = directory.path().join(CONFIGURATION);
            fs::write(&path, text).expect("the configuration can be written");
            command.arg("--config").arg(path);
            if is_root() && !text.contains("user") {
                command.args(["--set", &format!("user={}", own_user())]);
            }
        }
        for setting in PATIENT.iter().filter(|setting| !self.says(setting)) {
            command.args(["--set", setting]);
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&errors).expect("standard error can be kept"))
            .spawn()
            .expect("flyball can be started");
        let watchdog = Watchdog::end_process(child.id(), directory.path());
        let lines = lines_of(&mut child);
        let mut server = Server {
            child,
            watchdog,
            ended: None,
            errors,
            address: ([0, 0, 0, 0], 0).into(),
            secure: None,
            admin: None,
            workers: 0,
            directory,
            is_secure: self.is_secure,
        };
        server.listen(&lines)?;
        Ok(server)
    }

    /// Whether the test has a value of its own for the key of `setting`.
    fn says(&self, setting: &str) -> bool {
        let key = setting.split('=').next().unwrap_or(setting);
        self.config.iter().chain(&self.arguments).any(|text| text.contains(key))
    }

    /// The same; `None`, and it is said, where its architecture cannot run.
    ///
    /// # Panics
    /// When it does not start for another reason.
    pub fn start_where_possible(self) -> Option<Server> {
        match self.start() {
            Ok(server) => Some(server),
            Err(refused) if refused.is_unavailable() => {
                skip(&refused.to_string());
                None
            }
            Err(refused) => panic!("{refused}"),
        }
    }
}

/// The same configuration, where each site has the certificate that all servers share.
fn with_certificates(config: &str, directory: &Path) -> String {
    let file = directory.join("certificate.pem");
    let Identity { chain, key, .. } = Identity::shared();
    fs::write(&file, format!("{chain}{key}")).expect("the certificate can be written");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("and hidden");
    config.replace("[[site]]\n", &format!("[[site]]\ncertificate = {file:?}\n"))
}

/// The line of a configuration that lets workers be who the test is, so that they may enter its
/// directories and its mounts. Only the superuser needs it.
pub fn as_ourselves() -> &'static str {
    if is_root() { "user = \"root\"\n" } else { "" }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// A user for the workers of one server: rings count as locked memory, of which the processes of a
/// user have an amount together (RLIMIT_MEMLOCK), and eight tests have many servers.
fn own_user() -> u32 {
    static SERVERS: AtomicU32 = AtomicU32::new(0);
    100_000 + std::process::id() % 10_000 * 1_000 + SERVERS.fetch_add(1, Relaxed) % 1_000
}

/// Ctrl-C, as a terminal sends it to all of the group that this process leads.
pub fn interrupt_group(leader: &Child) {
    let _ = kill_process_group(Pid::from_child(leader), Signal::INT);
}

/// What the process prints, line by line; drained for as long as it runs.
fn lines_of(child: &mut Child) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    let output = BufReader::new(child.stdout.take().expect("standard output is piped"));
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            // Nothing listens any more once the server has started.
            let _ = sender.send(line);
        }
    });
    receiver
}

/// Why a server did not start.
#[derive(Debug)]
pub struct Refused {
    /// Its exit code.
    pub code: Option<i32>,
    /// What it said on standard error.
    pub errors: String,
}

impl Refused {
    /// Whether its architecture is one that cannot run on this machine.
    pub fn is_unavailable(&self) -> bool {
        self.errors.contains(UNAVAILABLE)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit code {:?}: {}", self.code, self.errors.trim_end())
    }
}

/// How a server ended.
#[derive(Debug)]
pub struct Stopped {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// What it said on standard error.
    pub errors: String,
}

/// A server that runs until the value is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    watchdog: Watchdog,
    ended: Option<ExitStatus>,
    errors: PathBuf,
    address: SocketAddr,
    secure: Option<SocketAddr>,
    admin: Option<SocketAddr>,
    workers: usize,
    directory: TempDir,
    /// Its clients speak TLS.
    is_secure: bool,
}

/// Where clients connect to, and whether they speak TLS there.
#[derive(Clone, Copy, Debug)]
pub struct Door {
    /// The address.
    pub address: SocketAddr,
    /// Whether they shake hands.
    pub is_secure: bool,
}

impl Door {
    /// A new connection.
    pub fn connect(self) -> Client {
        self.enter(Client::connect(self.address))
    }

    /// A connection to this address, once it has shaken hands where that is due.
    pub fn enter(self, client: Client) -> Client {
        if self.is_secure { client.secure() } else { client }
    }

    /// The same, if the server goes along.
    pub fn try_enter(self, client: Client) -> Option<Client> {
        if self.is_secure { client.secure_by(Harm::None).ok() } else { Some(client) }
    }
}

impl Server {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where `/status` and `/metrics` are.
    ///
    /// # Panics
    /// When it was not started with `admin`.
    pub fn admin(&self) -> SocketAddr {
        self.admin.expect("the server was started with admin")
    }

    /// How many workers it says it has: they may not have been started yet.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// The process of the master.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What clients need to connect to it, who may be in other threads.
    pub fn door(&self) -> Door {
        Door { address: self.address, is_secure: self.is_secure }
    }

    /// A new connection to it.
    pub fn connect(&self) -> Client {
        self.door().connect()
    }

    /// The same with room for about this many bytes: [`Client::connect_narrow`].
    pub fn connect_narrow(&self, bytes: usize) -> Client {
        self.door().enter(Client::connect_narrow(self.address, bytes))
    }

    /// A new connection over TLS, whose bytes leave as the harm says: see [`Client::secure_by`].
    ///
    /// # Errors
    /// When the handshake fails by it.
    pub fn connect_by(&self, harm: Harm) -> io::Result<Client> {
        Client::connect(self.address).secure_by(harm)
    }

    /// Whether its clients speak TLS.
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// `/status` as it is now.
    pub fn status(&self) -> String {
        let mut client = Client::connect(self.admin());
        let request = "GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        client.ask(request).text().to_owned()
    }

    /// Holds all of its processes, as a machine that stands still does, until the value is dropped.
    ///
    /// # Panics
    /// When they do not stop.
    pub fn hold(&self) -> Held {
        Held::with_all_below(vec![self.pid()])
    }

    /// The same for its workers, and what they have started. The master goes on.
    ///
    /// # Panics
    /// As [`Server::hold`].
    pub fn hold_workers(&self) -> Held {
        Held::with_all_below(children_of(self.pid()))
    }

    /// What it has said on standard error so far.
    pub fn errors(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.errors).unwrap_or_default()).into_owned()
    }

    /// Where clients speak TLS.
    ///
    /// # Panics
    /// When they do so at no address.
    pub fn secure(&self) -> SocketAddr {
        self.secure.expect("an address that speaks TLS")
    }

    /// # Panics
    /// When something in the server has panicked.
    #[track_caller]
    pub fn assert_sound(&self) {
        let errors = self.errors();
        assert!(!errors.contains(PANICKED), "the server panicked:\n{errors}");
    }

    /// Has it read its configuration again, and does not wait.
    pub fn begin_reload(&self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::HUP);
    }

    /// The same, and waits until it has.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn reload(&self) {
        let loaded = || self.errors().matches("the configuration is loaded: ").count();
        let before = loaded();
        self.begin_reload();
        let done = until(DEADLINE, || (loaded() > before).then_some(()));
        assert!(done.is_some(), "it does not reload:\n{}", self.errors());
    }

    /// The same with another configuration file; the arguments stay.
    ///
    /// # Panics
    /// As [`Server::reload`].
    #[track_caller]
    pub fn reload_with(&self, text: &str) {
        let path = self.directory.path().join(CONFIGURATION);
        fs::write(path, text).expect("the configuration can be written");
        self.reload();
    }

    /// Tells it to stop, and does not wait.
    pub fn terminate(&self) {
        if self.ended.is_none() {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
    }

    /// Waits until it has ended; to be called after [`Server::terminate`].
    ///
    /// # Panics
    /// When it does not end before the deadline (it is then killed), or when it had panicked.
    pub fn wait(mut self) -> Stopped {
        let ended = self.end();
        let errors = self.errors();
        self.assert_sound();
        Stopped { code: ended.expect("it ends before the deadline").code(), errors }
    }

    /// Reads what it prints until it has started.
    fn listen(&mut self, lines: &Receiver<String>) -> Result<(), Refused> {
        loop {
            let Ok(line) = lines.recv_timeout(DEADLINE) else {
                self.terminate();
                let code = self.end().and_then(|status| status.code());
                return Err(Refused { code, errors: self.errors() });
            };
            if line.contains("  at ") && line.contains("unix:") {
                // A test knows the path that it has given.
            } else if let Some((_, url)) = line.split_once("  at https") {
                // Of several, the first.
                if self.secure.is_none() {
                    let address = address_of(&format!("http{url}"));
                    self.secure = Some(address);
                    if self.is_secure {
                        self.address = address;
                    }
                }
            } else if let Some((_, url)) = line.split_once("  at ") {
                if self.address.port() == 0 {
                    self.address = address_of(url);
                }
            } else if let Some((_, url)) = line.split_once("  status at ") {
                self.admin = Some(address_of(url));
            } else if line.ends_with(STARTED) {
                self.workers = workers_of(&line);
                assert_ne!(self.address.port(), 0, "it did not say where it listens");
                return Ok(());
            }
        }
    }

    /// Waits for its end, and kills it when the deadline is over: `None` then.
    fn end(&mut self) -> Option<ExitStatus> {
        if self.ended.is_some() {
            return self.ended;
        }
        // Before it is reaped: its number may then be that of another process.
        self.watchdog.call_off();
        let ended = until(DEADLINE, || self.child.try_wait().expect("a child of ours"));
        if ended.is_none() {
            let _ = self.child.kill();
        }
        self.ended = ended.or_else(|| self.child.wait().ok());
        ended
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.terminate();
        let ended = self.end();
        if std::thread::panicking() {
            println!("the server said:\n{}", self.errors());
        } else {
            assert!(ended.is_some(), "the server did not stop:\n{}", self.errors());
            self.assert_sound();
        }
    }
}

/// The processes of a server that stand still.
#[derive(Debug)]
pub struct Held {
    processes: Vec<u32>,
    /// How many of the first were not started by another of them.
    leaders: usize,
}

impl Held {
    fn with_all_below(leaders: Vec<u32>) -> Held {
        let mut held = Held { leaders: leaders.len(), processes: leaders };
        let mut at = 0;
        while let Some(&process) = held.processes.get(at) {
            signal(process, Signal::STOP);
            let stopped = until(DEADLINE, || has_stopped(process).then_some(()));
            assert!(stopped.is_some(), "process {process} does not stop");
            held.processes.extend(children_of(process));
            at += 1;
        }
        held
    }

    /// Waits until the master has told each of its workers something, which they take when they go
    /// on.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn wait_until_told(&self) {
        for &worker in &self.processes[..self.leaders] {
            let told = until(DEADLINE, || has_signal(worker).then_some(()));
            assert!(told.is_some(), "process {worker} is told nothing");
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.processes.iter().for_each(|&process| signal(process, Signal::CONT));
    }
}

/// Whether a signal waits for a process to take it.
fn has_signal(process: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let waiting = text.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
    waiting.is_some_and(|set| set.contains(|digit| matches!(digit, '1'..='9' | 'a'..='f')))
}

/// Sends a signal to a process, if it is still there.
fn signal(process: u32, signal: Signal) {
    if let Some(process) = Pid::from_raw(process.cast_signed()) {
        let _ = kill_process(process, signal);
    }
}

/// Whether every thread of a process stands still, or has ended.
fn has_stopped(process: u32) -> bool {
    let stands = |path: PathBuf| {
        let text = fs::read_to_string(path.join("status")).unwrap_or_default();
        let state = text.lines().find_map(|line| line.strip_prefix("State:\t"));
        state.is_none_or(|state| state.starts_with(['T', 'Z', 'X']))
    };
    threads_of(process).into_iter().all(stands)
}

/// The processes that a process has forked.
fn children_of(process: u32) -> Vec<u32> {
    let lists = threads_of(process).into_iter().map(|path| path.join("children"));
    let lists: Vec<String> = lists.filter_map(|path| fs::read_to_string(path).ok()).collect();
    lists
        .iter()
        .flat_map(|list| list.split_ascii_whitespace())
        .filter_map(|n| n.parse().ok())
        .collect()
}

/// The directories of a process's threads.
fn threads_of(process: u32) -> Vec<PathBuf> {
    let directory = fs::read_dir(format!("/proc/{process}/task"));
    directory.into_iter().flatten().flatten().map(|thread| thread.path()).collect()
}

/// The number in `by sped with 2 workers; Ctrl-C stops it`.
fn workers_of(line: &str) -> usize {
    let (_, number) = line.split_once(" with ").expect("it says how many workers it has");
    let number = number.split(' ').next().and_then(|number| number.parse().ok());
    number.expect("a number of workers")
}

/// The address in `http://127.0.0.1:PORT/...`.
fn address_of(url: &str) -> SocketAddr {
    let rest = url.strip_prefix("http://").expect("a URL");
    let host = rest.split('/').next().unwrap_or(rest);
    host.parse().unwrap_or_else(|_| panic!("{host} is not an address"))
}
