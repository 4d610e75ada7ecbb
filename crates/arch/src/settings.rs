//! The settings of a running server: validated once, frozen before the first fork.

mod acme;
mod admin;
mod experiment;
mod governor;
mod listen;
mod sandbox;
mod tls;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use flyball_http::Limits;
use flyball_site::access::AccessSettings;
use flyball_site::{CacheSettings, LimitSettings, SiteSettings};
use flyball_sys::file::Promise;
use flyball_sys::process;
use flyball_sys::uring::Features;

pub use acme::AcmeSettings;
pub use admin::AdminPlace;
pub(crate) use experiment::ACCEPT_LOCK;
pub use experiment::{CloseAfter, Experiment, LoopHabits};
pub use flyball_conn::{ClientAddress, ClientSettings};
use flyball_observe::log::AccessLogs;
pub use flyball_observe::log::{ACCESS_LOGS_MAX, AccessLog, LogSettings};
pub use flyball_sys::error_log::Level as LogLevel;
pub use flyball_sys::mapping::Advice;
pub use flyball_sys::residency::Test as ResidencyTest;
pub use governor::GovernorSettings;
pub use listen::Listen;
pub use sandbox::{SandboxMode, SandboxSettings};
pub use tls::{TicketKeys, TlsSettings};

/// Everything a server runs by.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the architecture, one of `arch::ALL`; none until one is chosen.
    pub arch: String,
    /// Addresses to listen on.
    pub listen: Vec<Listen>,
    /// Worker processes; `None` takes the cgroup quota and the affinity mask.
    pub workers: Option<usize>,
    /// CPUs' worth of time that the server may use, where other numbers are taken from it; `None`
    /// asks the system. Asked for once, before the first fork.
    pub cpus: Option<usize>,
    /// Whether each worker is bound to one CPU.
    pub pin: bool,
    /// The CPUs that workers are bound to in turn; none means all that are allowed.
    pub pin_cpus: Vec<usize>,
    /// The event mechanism of the readiness architectures.
    pub events: Events,
    /// Most connections accepted in one accept phase (S0, section 4.1).
    pub accept_limit: AcceptLimit,
    /// What keeps it steady when there is more to do than it can.
    pub governor: GovernorSettings,
    /// Whether a new connection is read in the loop that accepted it (S0's "eager read").
    pub eager_read: bool,
    /// Free connection slots at which accepting goes on after it had stopped for want of them
    /// (M53).
    pub free_threshold: usize,
    /// Whether the listening socket of a pinned worker prefers packets that its CPU took
    /// (SO_INCOMING_CPU).
    pub incoming_cpu: bool,
    /// Whether workers divide the addresses among them (M151).
    pub by_address: bool,
    /// Whether connections that nobody waits for are closed with a reset (M56).
    pub close_reset: bool,
    /// Whether idle connections are closed when accepting is full (M56).
    pub close_idle_when_full: bool,
    /// Most open connections, per worker; `None` takes what the descriptor limit allows.
    pub max_connections: Option<usize>,
    /// Length of the accept queue asked of the kernel.
    pub backlog: u32,
    /// Whether the kernel holds a connection back until its first bytes are there.
    pub defer_accept: bool,
    /// Congestion control of accepted sockets; `None` keeps the system's.
    pub congestion: Option<String>,
    /// Whether only one of the workers that wait on a shared socket is woken (EPOLLEXCLUSIVE).
    pub exclusive: bool,
    /// How bodies too large for memory leave.
    pub send: SendMode,
    /// Bytes of a file that are mapped at a time by [`SendMode::Mapped`].
    pub chunk_bytes: usize,
    /// Bytes that stay mapped while they are not sent, per worker.
    pub mapped_bytes_max: u64,
    /// What the kernel is told of how mapped files will be read (M58).
    pub mapped_advice: Advice,
    /// Whether sending waits for room in the socket.
    pub send_blocking: bool,
    /// How long a file must be unchanged for [`SendMode::Auto`] to use sendfile, in milliseconds.
    pub quiet_ms: u64,
    /// Whether small segments leave at once (TCP_NODELAY; M124).
    pub no_delay: bool,
    /// Send buffer of each socket, in bytes; `None` leaves it to the kernel (M124).
    pub send_buffer: Option<u32>,
    /// Receive buffer of each socket, in bytes; `None` leaves it to the kernel (M124).
    pub receive_buffer: Option<u32>,
    /// Most bytes of a large body copied per turn of the loop, per connection.
    pub piece_bytes: usize,
    /// Most helpers of `amped`, per worker.
    pub helpers: usize,
    /// What a helper is.
    pub helper_kind: HelperKind,
    /// Helpers that stay however long they are idle, per worker.
    pub helper_reserve: usize,
    /// How long a helper beyond these may be idle, in milliseconds.
    pub helper_idle_ms: u64,
    /// How a loop with helpers knows which bytes are in memory.
    pub residency: ResidencyTest,
    /// Threads of `mt`, per worker process.
    pub threads: usize,
    /// Worker processes of `mp`.
    pub processes: usize,
    /// Groups of the processes of `shared-symped` that share a listening socket; `None` is one for
    /// each CPU.
    pub groups: Option<usize>,
    /// Stack of each thread of `mt` and `thread-per-connection`, in bytes.
    pub stack_bytes: usize,
    /// User-level threads.
    pub user_threads: UserThreadSettings,
    /// The stages of `watpipe`.
    pub stages: StageSettings,
    /// The ring of `uring` and `tux`.
    pub ring: RingSettings,
    /// Time a draining server gives its connections, in milliseconds.
    pub drain_ms: u64,
    /// Where `/status` and `/metrics` are served, and commands are taken.
    pub admin: Vec<AdminPlace>,
    /// Where the access log goes.
    pub access_log: AccessLog,
    /// What children of the master give up.
    pub sandbox: SandboxSettings,
    /// What is tried, to be measured.
    pub experiment: Option<Box<Experiment>>,
    /// Most bytes that a connection is sent in a second; `None` limits none.
    pub bandwidth: Option<u64>,
    /// What is written to it, and how long its files grow.
    pub log: LogSettings,
    /// Who clients are, and what each may take.
    pub clients: ClientSettings,
    /// TLS.
    pub tls: TlsSettings,
    /// Limits of each connection.
    pub limits: Limits,
    /// The sites.
    pub sites: Vec<SiteSettings>,
    /// The caches.
    pub caches: CacheSettings,
    /// How it is run and controlled.
    pub running: RunningSettings,
    /// Keys that were written by the user, whatever their value, with what a message about each
    /// begins with: where it was written, and the key.
    pub given: BTreeMap<&'static str, String>,
}

/// The event mechanisms of the readiness architectures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Events {
    /// select(2), with bitmaps of our own.
    Select,
    /// poll(2).
    Poll,
    /// epoll(7), level-triggered.
    Epoll,
    /// epoll(7), edge-triggered.
    EpollEdge,
}

impl Events {
    /// The mechanism's name in the table of the kernel's.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Events::Select => "select",
            Events::Poll => "poll",
            Events::Epoll => "epoll",
            Events::EpollEdge => "epoll-edge",
        }
    }

    /// Whether it tells a change once, so that readiness must be remembered.
    pub(crate) fn is_edge_triggered(self) -> bool {
        self == Events::EpollEdge
    }
}

/// The order in which a work phase takes the connections that are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkOrder {
    /// As reported: those carried over from the last phase, then those that the event mechanism
    /// reported, then those that were accepted.
    Fifo,
    /// The reverse of that.
    Lifo,
    /// By descriptor, lowest first.
    Up,
    /// By descriptor, highest first.
    Down,
    /// Those with output to send before those with none, each lot by descriptor, lowest first.
    WritesFirstUp,
    /// Those with output to send before those with none, each lot by descriptor, highest first.
    WritesFirstDown,
    /// Least recently worked on first; a new connection was worked on when it was accepted.
    Lru,
}

/// The order in which a scheduler of user-level threads runs those that can go on (M10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadOrder {
    /// First come, first served.
    Fifo,
    /// The reverse of that.
    Lifo,
    /// First come, first served, until connections run short: then those first who probably close
    /// one.
    Resource,
}

/// The order in which a turn of `uring` takes what is complete: a letter for each queue, `w` for
/// what was sent, `r` for what was received, read or is ready, `a` for accepted connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionOrder {
    /// As the operations completed.
    Arrival,
    /// Sent, received, accepted.
    Wra,
    /// Sent, accepted, received.
    War,
    /// Received, sent, accepted.
    Rwa,
    /// Received, accepted, sent.
    Raw,
    /// Accepted, sent, received.
    Awr,
    /// Accepted, received, sent.
    Arw,
}

impl CompletionOrder {
    /// The ranks of what was sent, what was received and what was accepted; `None` when it does
    /// not matter what a completion is.
    pub(crate) fn ranks(self) -> Option<[u8; 3]> {
        match self {
            CompletionOrder::Arrival => None,
            CompletionOrder::Wra => Some([0, 1, 2]),
            CompletionOrder::War => Some([0, 2, 1]),
            CompletionOrder::Rwa => Some([1, 0, 2]),
            CompletionOrder::Raw => Some([2, 0, 1]),
            CompletionOrder::Awr => Some([1, 2, 0]),
            CompletionOrder::Arw => Some([2, 1, 0]),
        }
    }
}

/// Most connections accepted in one accept phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AcceptLimit {
    /// At most this many; below 1, one connection every 1/x phases.
    At(f64),
    /// Until the queue is empty.
    Infinite,
    /// As many as a turn of the loop can work on, which the governor says; without one, as the
    /// architecture does by itself.
    Auto,
}

impl AcceptLimit {
    /// One connection in a thousand accept phases. Less would look like a hang.
    pub const LEAST: f64 = 0.001;

    /// Beyond any accept queue, so that `inf` is meant.
    pub const MOST: f64 = 1_000_000.0;

    /// What a valid limit looks like.
    pub const FORM: &str = "a number from 0.001 to 1000000, inf or auto";

    /// Reads one as it is written in settings.
    pub fn parse(text: &str) -> Option<AcceptLimit> {
        if text == "inf" || text == "+inf" {
            return Some(AcceptLimit::Infinite);
        }
        if text == "auto" {
            return Some(AcceptLimit::Auto);
        }
        let number = text.parse().ok()?;
        let bounds = AcceptLimit::LEAST..=AcceptLimit::MOST;
        bounds.contains(&number).then_some(AcceptLimit::At(number))
    }

    /// The limit with this value, infinity included.
    pub(crate) fn from_f64(value: f64) -> Option<AcceptLimit> {
        match value {
            f64::INFINITY => Some(AcceptLimit::Infinite),
            0.0 => Some(AcceptLimit::Auto),
            _ => {
                let bounds = AcceptLimit::LEAST..=AcceptLimit::MOST;
                bounds.contains(&value).then_some(AcceptLimit::At(value))
            }
        }
    }

    /// Its value; 0 for one that is left to the server.
    pub fn as_f64(self) -> f64 {
        match self {
            AcceptLimit::At(limit) => limit,
            AcceptLimit::Infinite => f64::INFINITY,
            AcceptLimit::Auto => 0.0,
        }
    }
}

impl fmt::Display for AcceptLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AcceptLimit::At(limit) => limit.fmt(f),
            AcceptLimit::Infinite => f.write_str("inf"),
            AcceptLimit::Auto => f.write_str("auto"),
        }
    }
}

/// How bodies too large for memory leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// By sendfile when the file has not changed for a while, else by copies.
    Auto,
    /// Read into a buffer, then sent: the bytes are checked before they leave.
    Copy,
    /// sendfile(2): no copy, but pages that change while they wait in the socket change on the
    /// wire.
    Sendfile,
    /// From a mapping of the file, kept for the next request: the bytes are copied as they leave.
    Mapped,
}

impl SendMode {
    /// What must hold of a file until its body has left: where all of it has been copied before
    /// the last look, that can be more.
    pub fn promise(self) -> Promise {
        match self {
            SendMode::Copy | SendMode::Mapped => Promise::Version,
            SendMode::Auto | SendMode::Sendfile => Promise::Bytes,
        }
    }
}

/// What a helper is (S2, section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelperKind {
    /// A thread of the worker, which runs a plan whole.
    Thread,
    /// A process, which brings names and pages into memory for the loop.
    Process,
}

/// The ring of `uring`, and that of `tux` as far as its entries go.
#[derive(Clone, Debug, PartialEq)]
pub struct RingSettings {
    /// Entries of the submission ring.
    pub entries: u32,
    /// Buffers that are provided to the kernel for what comes in.
    pub buffers: u16,
    /// Buffers that are registered for pieces of large bodies.
    pub registered: u16,
    /// What is used if the kernel has it.
    pub features: Features,
}

impl Default for RingSettings {
    fn default() -> RingSettings {
        RingSettings { entries: 1024, buffers: 256, registered: 16, features: Features::ALL }
    }
}

/// The stages of `watpipe`.
#[derive(Clone, Debug)]
pub struct StageSettings {
    /// Partitions; `None` takes the CPUs that the process may use.
    pub partitions: Option<usize>,
    /// Threads of the Read stage, per partition.
    pub readers: usize,
    /// Threads of the Write stage, per partition.
    pub writers: usize,
}

impl Default for StageSettings {
    fn default() -> StageSettings {
        StageSettings { partitions: None, readers: 1, writers: 8 }
    }
}

/// User-level threads.
#[derive(Clone, Debug)]
pub struct UserThreadSettings {
    /// How many there are of them where they are a pool, per worker process.
    pub threads: usize,
    /// Usable bytes of the stack of each.
    pub stack_bytes: usize,
    /// The order in which those run that can go on.
    pub order: ThreadOrder,
}

impl Default for UserThreadSettings {
    fn default() -> UserThreadSettings {
        UserThreadSettings { threads: 1_000, stack_bytes: 64 * 1024, order: ThreadOrder::Fifo }
    }
}

/// How a server is run and controlled.
#[derive(Clone, Debug)]
pub struct RunningSettings {
    /// The configuration file and those that it includes: their absolute paths.
    pub files: Vec<PathBuf>,
    /// Warnings about what is written: keys by the names that they had in the version before, and
    /// patterns of `include` that fit no file.
    pub notes: Vec<String>,
    /// Warnings about directories of hosts that are not served.
    pub unserved: Vec<String>,
    /// When set, a taken port is passed over for the next free one, at most this many times.
    pub port_tries: u16,
    /// Where the process id of the master is written.
    pub pid_file: Option<PathBuf>,
    /// Who may write to the Unix-domain sockets of `admin`: their mode.
    pub admin_mode: u32,
    /// The group of those sockets, by name or number; `None` leaves that of the process.
    pub admin_group: Option<String>,
    /// Hosts that addresses of `admin` answer to beside those of [`hosts::local_names`] and of
    /// sites; the same for `flyball serve DIR`. `*` is any.
    ///
    /// [`hosts::local_names`]: flyball_site::hosts::local_names
    pub admin_hosts: Vec<String>,
    /// Time that a new program has until it is ready, in milliseconds.
    pub upgrade_ms: u64,
    /// Where long bodies wait.
    pub spool: SpoolSettings,
}

impl Default for RunningSettings {
    fn default() -> RunningSettings {
        RunningSettings {
            files: Vec::new(),
            notes: Vec::new(),
            unserved: Vec::new(),
            port_tries: 0,
            pid_file: None,
            admin_mode: 0o600,
            admin_group: None,
            admin_hosts: Vec::new(),
            upgrade_ms: 10_000,
            spool: SpoolSettings::default(),
        }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            arch: String::new(),
            listen: Vec::new(),
            workers: None,
            cpus: None,
            pin: false,
            pin_cpus: Vec::new(),
            events: Events::Epoll,
            accept_limit: AcceptLimit::At(16.0),
            governor: GovernorSettings::default(),
            eager_read: true,
            free_threshold: 1,
            incoming_cpu: false,
            by_address: false,
            close_reset: false,
            close_idle_when_full: true,
            max_connections: None,
            backlog: 4096,
            defer_accept: true,
            congestion: None,
            exclusive: true,
            send: SendMode::Auto,
            quiet_ms: 60_000,
            chunk_bytes: 256 * 1024,
            mapped_bytes_max: 128 * 1024 * 1024,
            mapped_advice: Advice::None,
            send_blocking: false,
            no_delay: true,
            send_buffer: None,
            receive_buffer: None,
            piece_bytes: 256 * 1024,
            helpers: 8,
            helper_kind: HelperKind::Thread,
            helper_reserve: 2,
            helper_idle_ms: 10_000,
            residency: ResidencyTest::Auto,
            threads: 64,
            processes: 32,
            groups: None,
            stack_bytes: 256 * 1024,
            user_threads: UserThreadSettings::default(),
            stages: StageSettings::default(),
            ring: RingSettings::default(),
            drain_ms: 30_000,
            admin: vec![AdminPlace::Own(None)],
            access_log: AccessLog::Off,
            sandbox: SandboxSettings::default(),
            experiment: None,
            bandwidth: None,
            log: LogSettings::default(),
            clients: ClientSettings::default(),
            tls: TlsSettings::default(),
            limits: Limits::default(),
            sites: Vec::new(),
            caches: CacheSettings::default(),
            running: RunningSettings::default(),
            given: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// CPUs' worth of time that the server may use: the same in every process of it, whatever
    /// each is bound to and however the quota has changed since.
    pub fn cpus(&self) -> usize {
        self.cpus.unwrap_or_else(process::cpu_allowance)
    }

    /// A message about a setting, with the place where that was written.
    pub fn blame(&self, key: &'static str, why: impl fmt::Display) -> String {
        match self.given.get(key) {
            Some(place) => format!("{place}{why}"),
            None => format!("{key}: {why}"),
        }
    }

    /// The access logs, each once.
    pub fn access_logs(&self) -> AccessLogs {
        AccessLogs::of(&self.access_log, self.sites.iter().map(|site| &site.access_log))
    }

    /// The files of all logs, each with the key that names it.
    pub fn log_files(&self) -> Vec<(&'static str, PathBuf)> {
        let logs = self.access_logs();
        let of_access = logs.all().iter().enumerate().map(|(at, log)| (logs.key_of(at), log));
        let all = of_access.chain([("slow-log", &self.log.slow)]);
        all.filter_map(|(key, log)| Some((key, log.path()?.to_owned()))).collect()
    }

    /// Whether a log tells how long requests have waited in the kernel, which is asked for each
    /// connection then.
    pub fn asks_ages(&self) -> bool {
        let tells = self.log.format.asks_ages() && !self.access_logs().all().is_empty();
        tells || self.log.slow != AccessLog::Off
    }

    /// Whether anybody asks for the addresses of clients: `uring` keeps sockets that cannot tell
    /// theirs if not.
    pub(crate) fn needs_addresses(&self) -> bool {
        !self.access_logs().all().is_empty()
            || self.log.slow != AccessLog::Off
            || self.clients.connections_per_address.is_some()
            || self.clients.requests_per_address.is_some()
            || self.sites.iter().flat_map(|site| &site.limits).any(LimitSettings::is_by_address)
            || self.sites.iter().any(|site| site.access != AccessSettings::default())
            || self.sites.iter().any(|site| site.has_backends() || site.has_modules())
            || self.clients.address != ClientAddress::Peer
    }
}

/// Where bodies wait that are too long for memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolSettings {
    /// The directory; `None` is that of temporary files.
    pub directory: Option<PathBuf>,
    /// Most bytes there, of all processes; `None` is no such place.
    pub bytes_max: Option<u64>,
}

impl Default for SpoolSettings {
    fn default() -> SpoolSettings {
        SpoolSettings { directory: None, bytes_max: Some(1 << 30) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_accept_limit_is_above_zero() {
        assert_eq!(AcceptLimit::parse("16"), Some(AcceptLimit::At(16.0)));
        assert_eq!(AcceptLimit::parse("0.1"), Some(AcceptLimit::At(0.1)));
        assert_eq!(AcceptLimit::parse("inf"), Some(AcceptLimit::Infinite));
        assert_eq!(AcceptLimit::parse("auto"), Some(AcceptLimit::Auto));
        for text in ["", "0", "-1", "nan", "-inf", "infinity", "0.0001", "1e9", "many"] {
            assert_eq!(AcceptLimit::parse(text), None, "{text}");
        }
    }
}
