//! A server under attack, what it uses meanwhile, and its honest clients.

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flyball_testkit::{Client, Door, Launch, Server, Site, wait};

/// A server has started when so many looks in turn find nothing opened.
const STARTED_AFTER: u32 = 30;

/// How often memory is looked at while an attack lasts.
const SAMPLED_EVERY: Duration = Duration::from_millis(5);

/// Honest clients that are measured.
const HONEST: usize = 4;

/// A server, and what it used before the attack.
pub struct Besieged {
    pub server: Server,
    memory: u64,
    descriptors: usize,
}

impl Besieged {
    /// Serves the test site with these lines of settings; `None` when this machine cannot.
    pub fn start(arch: &str, settings: &str) -> Option<Besieged> {
        // Where a worker serves one connection at a time, one would not do; nor is it a setting.
        let workers = if arch == "mp" { "" } else { "workers = 1\n" };
        let root = Site::shared().root().display().to_string();
        let config = format!(
            "arch = \"{arch}\"\n{workers}{settings}\n[[site]]\nroot = \"{root}\"\n\
             digest-path = \"/digest\"\nlisting = true\n"
        );
        let server = Launch::config(config).start_where_possible()?;
        let mut besieged = Besieged { server, memory: 0, descriptors: 0 };
        besieged.await_processes();
        // What is made once is made now.
        for path in ["/hello.txt", "/large.bin", "/missing"] {
            besieged.ask_anew(path);
        }
        besieged.begin();
        Some(besieged)
    }

    /// What is used from now on counts as taken.
    pub fn begin(&mut self) {
        (self.memory, self.descriptors) = (self.used(), self.open());
    }

    /// Descriptors, but those of files, that were opened since and not given back.
    pub fn descriptors_taken(&self) -> usize {
        self.open().saturating_sub(self.descriptors)
    }

    /// Waits until all workers are there and the server opens and closes nothing any more.
    pub fn await_processes(&self) {
        let all = 1 + self.server.workers();
        let begun =
            wait::until(wait::DEADLINE, || (self.server.processes().len() >= all).then_some(()));
        assert!(begun.is_some(), "{} processes are not {all}", self.server.processes().len());
        let (mut before, mut alike) = (0, 0);
        wait::until(wait::DEADLINE, || {
            let now = self.open();
            alike = if std::mem::replace(&mut before, now) == now { alike + 1 } else { 0 };
            (alike >= STARTED_AFTER).then_some(())
        });
    }

    /// The status of an answer on a new connection.
    #[track_caller]
    pub fn ask_anew(&self, path: &str) -> u16 {
        self.server.connect().ask(last_get(path)).status()
    }

    /// Memory that the attack has cost so far, in bytes: what its processes have written to.
    pub fn memory_taken(&self) -> u64 {
        self.used().saturating_sub(self.memory)
    }

    /// The most memory that was seen to be taken while an attack lasts and after it, in bytes.
    pub fn most_taken_during(&self, attack: impl FnOnce() + Send) -> u64 {
        std::thread::scope(|scope| {
            let attack = scope.spawn(attack);
            let mut most = 0;
            while !attack.is_finished() {
                most = most.max(self.memory_taken());
                wait::dawdle(SAMPLED_EVERY);
            }
            if let Err(panic) = attack.join() {
                std::panic::resume_unwind(panic);
            }
            most.max(self.memory_taken())
        })
    }

    /// Waits until no more descriptors are open than before the attack.
    #[track_caller]
    pub fn expect_descriptors_back(&self) {
        let found = wait::until(wait::DEADLINE, || (self.descriptors_taken() == 0).then_some(()));
        assert!(found.is_some(), "{} descriptors are left", self.descriptors_taken());
    }

    fn used(&self) -> u64 {
        self.server.processes().into_iter().filter_map(anonymous_bytes).sum()
    }

    /// Descriptors but those of files, which the caches keep as many of as they may.
    fn open(&self) -> usize {
        let is_counted = |entry: &fs::DirEntry| {
            fs::read_link(entry.path()).is_ok_and(|target| !target.is_absolute())
        };
        let count = |id| {
            let table = fs::read_dir(format!("/proc/{id}/fd"));
            table.map_or(0, |table| table.flatten().filter(is_counted).count())
        };
        self.server.processes().into_iter().map(count).sum()
    }
}

/// Memory of its own that a process has touched, if it still runs.
fn anonymous_bytes(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}

/// GET on a connection that is kept.
pub fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// GET on a connection that the server closes after the answer.
pub fn last_get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
}

/// Clients that ask on kept connections as fast as they are answered.
pub struct Honest {
    clients: Vec<Client>,
    door: Door,
}

impl Honest {
    /// Connects them; each has had an answer. Also the longest that one of them waited for that.
    pub fn connect(server: &Server) -> (Honest, Duration) {
        let mut waited = Duration::ZERO;
        let door = server.door();
        let clients = (0..HONEST).map(|_| {
            let start = Instant::now();
            let client = Honest::come(door);
            waited = waited.max(start.elapsed());
            client
        });
        let clients = clients.collect();
        (Honest { clients, door }, waited)
    }

    fn come(door: Door) -> Client {
        let mut client = door.connect();
        assert_eq!(client.ask(get("/hello.txt")).status(), 200);
        client
    }

    /// Requests in a second, measured for so long.
    pub fn throughput(&mut self, time: Duration) -> f64 {
        // Who was idle for a second has lost its place, where others waited for one: before this
        // or, on a busy machine, within it.
        for client in &mut self.clients {
            if client.try_ask(get("/hello.txt")).is_none() {
                *client = Honest::come(self.door);
            }
        }
        let (start, mut answers) = (Instant::now(), 0);
        while start.elapsed() < time {
            for client in &mut self.clients {
                client.try_send(get("/hello.txt"));
            }
            for client in &mut self.clients {
                match client.try_response() {
                    Some(answer) => {
                        assert_eq!(answer.status(), 200);
                        answers += 1;
                    }
                    None => *client = Honest::come(self.door),
                }
            }
        }
        f64::from(answers) / start.elapsed().as_secs_f64()
    }
}

/// The name of an architecture whose clients may speak TLS.
pub fn name_of(arch: &str) -> &str {
    arch.split(' ').next().unwrap_or(arch)
}

/// Whether the machine is quiet enough for the strict floors.
pub fn is_strict() -> bool {
    std::env::var_os("FLYBALL_STRICT").is_some_and(|value| value == "1")
}

/// Held while something is measured: one at a time.
pub fn measuring() -> MutexGuard<'static, ()> {
    static MEASURING: Mutex<()> = Mutex::new(());
    MEASURING.lock().unwrap_or_else(PoisonError::into_inner)
}
