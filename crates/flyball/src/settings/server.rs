//! The one table of the server's settings. Flags, help, `docs/settings.md` and the checks of the
//! configuration file are all made from it.

use flyball_arch::registry::DEFAULT;
use flyball_arch::{AccessLog, Events, SendMode};
use flyball_server::Changes;

use super::kind::Kind;
use super::table::{Flag, Range, Setting, Task, UsedBy, Word, count, join};
use super::text::is_token;
use super::{
    acme, architectures, clients, experiment, governor, holding, mechanisms, requests, running,
    sandbox, tls,
};

/// Most worker processes; more than any machine has CPUs to share among them.
pub(super) const WORKERS_MAX: u64 = 1024;
/// Most connections of one worker: beyond the most descriptors that one process can have.
const CONNECTIONS_MAX: u64 = 1 << 30;
/// Longest accept queue: the kernel holds its limit in a signed integer.
const BACKLOG_MAX: u64 = i32::MAX as u64;
/// Largest piece of a large body.
const PIECE_BYTES_MAX: u64 = 1 << 30;
/// Longest time that a timer may be set to: a week.
pub(super) const TIME_MS_MAX: u64 = 7 * 24 * 3_600_000;

/// Every setting of the server, in the order of the documentation.
pub static SETTINGS: &[Setting] = &join::<_, { count(GROUPS) }>(GROUPS);

const GROUPS: &[&[Setting]] = &[
    ROWS,
    running::ROWS,
    tls::ROWS,
    acme::ROWS,
    sandbox::ROWS,
    clients::ROWS,
    governor::ROWS,
    mechanisms::ROWS,
    architectures::ROWS,
    requests::ROWS,
    holding::ROWS,
    experiment::ROWS,
];

/// What concerns the whole server, and all architectures or most of them.
const ROWS: &[Setting] = &[
    Setting {
        key: "arch",
        task: Task::Start,
        flag: Some(Flag { name: "arch", value: "NAME" }),
        kind: Kind::Text {
            form: "the name of an architecture",
            valid: is_token,
            set: |s, name| s.arch = name,
        },
        default: Some(DEFAULT),
        doc: "Concurrency architecture that serves",
        more: "`flyball arch` lists the names. It says which of them can run on this machine, and \
               why the others cannot.",
        source: "S2 section 6 (M96), S4 section 4 (M143, M144)",
        changes: Changes::Generation,
        ..Setting::ROW
    },
    Setting {
        key: "workers",
        task: Task::Start,
        flag: Some(Flag { name: "workers", value: "N" }),
        kind: Kind::Integer {
            least: 1,
            most: WORKERS_MAX,
            set: |s, n| s.workers = Some(n as usize),
        },
        word: Some(Word { name: "auto", set: |s| s.workers = None }),
        default: Some("auto"),
        doc: "Number of worker processes",
        more: "`auto` is the number of CPUs that the affinity mask and the cgroup quota leave to \
               the server, not the number that the machine has. For `mt`, `thread-per-connection`, \
               `knot-c`, `knot-a` and `watpipe` it is one. `sped` and `tux` always have one, and \
               `mp` has `mp.processes`.",
        source: "S4 section 4 (M143, M144)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "pin",
        task: Task::Accepting,
        kind: Kind::Switch { set: |s, on| s.pin = on },
        default: Some("false"),
        doc: "Whether each worker is bound to one CPU",
        more: "`watpipe` binds the threads of its Read and Write stages, each partition's to one.",
        source: "S4 section 4 (M143)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "include",
        task: Task::Start,
        kind: Kind::Texts {
            form: "a path such as sites/*.toml",
            empty: true,
            valid: |path| !path.is_empty(),
            // Its files were read with the one that names them.
            set: |_, _| {},
        },
        word: Some(Word { name: "none", set: |_| {} }),
        default: Some("none"),
        doc: "More files of the configuration",
        more: "A path starts from the directory of the file that names it, and `*` and `?` in its \
               last part stand for what they stand for in a shell: files are read in the order of \
               their names, each once. A pattern that fits no file is a warning, and a path \
               without `*` and `?` must be there. Such a file may hold \
               anything that a configuration may, and include more; what one file says of the \
               server, no other may say again. A reload reads them all again.",
        source: "include of nginx",
        ..Setting::ROW
    },
    Setting {
        key: "listen",
        task: Task::Start,
        flag: Some(Flag { name: "listen", value: "ADDR" }),
        kind: Kind::Addresses { set: |s, addresses| s.listen = addresses },
        word: Some(Word { name: "auto", set: |s| s.listen.clear() }),
        default: Some("auto"),
        doc: "Addresses to listen on",
        more: "`8080` and `:8080` are all interfaces, IPv6 and IPv4; `127.0.0.1:8080`, \
               `[::1]:8080` and `localhost:8080` are one. With `https://` before it clients speak \
               TLS there: `https://:443`. Write several addresses as a list or \
               with commas, or repeat the flag. A `[[listener]]` table says more of an address; \
               those stand beside these. `auto` is none where there is one, else \
               127.0.0.1:8080, or the next free port if that is taken.",
        ..Setting::ROW
    },
    Setting {
        key: "events",
        task: Task::Accepting,
        flag: Some(Flag { name: "events", value: "select|poll|epoll|epoll-edge" }),
        kind: Kind::OneOf {
            names: &[
                Word { name: "select", set: |s| s.events = Events::Select },
                Word { name: "poll", set: |s| s.events = Events::Poll },
                Word { name: "epoll", set: |s| s.events = Events::Epoll },
                Word { name: "epoll-edge", set: |s| s.events = Events::EpollEdge },
            ],
        },
        default: Some("epoll"),
        doc: "Event mechanism of the readiness architectures",
        more: "`epoll` is level-triggered, `epoll-edge` edge-triggered. `select` uses bitmaps of \
               its own and is not bound to 1,024 descriptors.",
        source: "S0 section 4.1 (M2)",
        used_by: UsedBy::Some,
        tune: Some(Range { values: &["epoll", "epoll-edge", "poll"], ordered: false }),
        ..Setting::ROW
    },
    Setting {
        key: "accept.limit",
        task: Task::Accepting,
        flag: Some(Flag { name: "accept-limit", value: "N|inf|auto" }),
        kind: Kind::Limit { set: |s, limit| s.accept_limit = limit },
        default: Some("16"),
        doc: "Most connections accepted in one accept phase",
        more: "A fraction below 1 accepts one connection every 1/x phases. `inf` accepts until the \
               queue is empty (multi-accept). 1 is the naive server of the paper. The default of \
               `knot-c` is 1, that of `uring` is `inf`. `auto` accepts as many as a turn of the \
               loop can work on in `turn.work-time`, less those that it has to work on already: \
               the others wait in the kernel, where their age can be seen. It needs \
               `governor.mode` on, and an architecture that uses that; elsewhere it is the \
               default.",
        source: "S0 sections 2.4 and 4.1 (M4, M6)",
        changes: Changes::InPlace,
        used_by: UsedBy::Some,
        tune: Some(Range { values: &["1", "4", "16", "64", "inf"], ordered: true }),
        ..Setting::ROW
    },
    Setting {
        key: "accept.eager-read",
        task: Task::Accepting,
        kind: Kind::Switch { set: |s, on| s.eager_read = on },
        default: Some("true"),
        doc: "Whether a new connection is read in the loop that accepted it",
        more: "When false, a new connection waits until the event mechanism has reported it, as in \
               the paper.",
        source: "S0 section 4.1 (M5)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "accept.backlog",
        task: Task::Accepting,
        kind: Kind::Integer { least: 1, most: BACKLOG_MAX, set: |s, n| s.backlog = n as u32 },
        default: Some("4096"),
        doc: "Length of the kernel's accept queue, in connections",
        more: "Per listening socket; an address has as many as the architecture uses. The kernel \
               cuts it to `net.core.somaxconn`, and the server warns then.",
        source: "S0 section 5.2, S3 section 4 (M124), listen(2)",
        ..Setting::ROW
    },
    Setting {
        key: "accept.defer",
        task: Task::Accepting,
        kind: Kind::Switch { set: |s, on| s.defer_accept = on },
        default: Some("true"),
        doc: "Whether the kernel holds a connection back until its first bytes arrive",
        more: "A connection is then accepted and read in one turn. The waiting moves from the \
               accept queue to the queue of half-open connections: for about 5 s the server does \
               not see a client that sends nothing, and `timeout.handshake` and `timeout.head` \
               begin when it does.",
        source: "TCP_DEFER_ACCEPT in tcp(7)",
        ..Setting::ROW
    },
    Setting {
        key: "accept.exclusive",
        task: Task::Accepting,
        kind: Kind::Switch { set: |s, on| s.exclusive = on },
        default: Some("true"),
        doc: "Whether a connection wakes only one of the workers that share a socket",
        more: "Used where workers share a listening socket and `events` is an epoll.",
        source: "EPOLLEXCLUSIVE in epoll_ctl(2)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "connections.max",
        task: Task::Limits,
        flag: Some(Flag { name: "max-connections", value: "N" }),
        kind: Kind::Integer {
            least: 1,
            most: CONNECTIONS_MAX,
            set: |s, n| s.max_connections = Some(n as usize),
        },
        word: Some(Word { name: "auto", set: |s| s.max_connections = None }),
        default: Some("auto"),
        doc: "Most open connections, per worker",
        more: "`auto` is what the limit on open descriptors allows.",
        source: "S0 section 5.2",
        changes: Changes::Generation,
        tune: Some(Range { values: &["256", "1024", "4096", "auto"], ordered: true }),
        ..Setting::ROW
    },
    Setting {
        key: "send.mode",
        task: Task::Sending,
        kind: Kind::OneOf {
            names: &[
                Word { name: "auto", set: |s| s.send = SendMode::Auto },
                Word { name: "copy", set: |s| s.send = SendMode::Copy },
                Word { name: "sendfile", set: |s| s.send = SendMode::Sendfile },
                Word { name: "mapped", set: |s| s.send = SendMode::Mapped },
            ],
        },
        default: Some("auto"),
        doc: "How bodies that are too large for the memory cache are sent",
        more: "`copy` reads them into a buffer, checks the file and sends the buffer. `sendfile` \
               saves the copy, but if a file is rewritten in place, a page that waits in the \
               socket changes on the wire. `auto` uses sendfile for files that have not changed \
               for `send.quiet`, and copies the others: only the first rewrite in place after a \
               quiet time can still meet a page in a socket. `mapped` sends from mappings that are \
               kept (`cache.mapped`): the bytes are copied once, as they leave, and checked as in \
               `copy`. If a file grows while it is sent, `auto` and `sendfile` send as many bytes \
               as the head promised. They cut the answer if the file has become shorter, or has \
               the same size and another time; they cannot distinguish a file that was appended to \
               from one that was rewritten and is longer. `copy` and `mapped` cut the answer at \
               any change. Files that are replaced by renaming are safe in every mode.",
        source: "S2 section 5.4 (M91), S4 section 5 (M149), sendfile(2)",
        used_by: UsedBy::Some,
        tune: Some(Range { values: &["auto", "sendfile", "copy", "mapped"], ordered: false }),
        ..Setting::ROW
    },
    Setting {
        key: "send.quiet",
        task: Task::Sending,
        kind: Kind::Duration { least_ms: 0, most_ms: TIME_MS_MAX, set: |s, ms| s.quiet_ms = ms },
        default: Some("1min"),
        doc: "How long a file must be unchanged for `send.mode` auto to use sendfile",
        ..Setting::ROW
    },
    Setting {
        key: "send.piece",
        task: Task::Sending,
        kind: Kind::Size {
            least: 1,
            most: PIECE_BYTES_MAX,
            set: |s, n| s.piece_bytes = n as usize,
        },
        default: Some("256KiB"),
        doc: "Most bytes of a large body sent in one turn of the loop, per connection",
        more: "Small pieces are fair to the other connections, large ones save system calls. It \
               bounds the pieces that are copied; the socket's buffer bounds sendfile.",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "tcp.congestion",
        task: Task::Sending,
        kind: Kind::Text {
            form: "the name of a congestion control such as cubic",
            valid: is_token,
            set: |s, name| s.congestion = Some(name),
        },
        word: Some(Word { name: "system", set: |s| s.congestion = None }),
        default: Some("system"),
        doc: "TCP congestion control of connections",
        more: "`system` keeps the one of `net.ipv4.tcp_congestion_control`.",
        source: "TCP_CONGESTION in tcp(7)",
        ..Setting::ROW
    },
    Setting {
        key: "drain",
        task: Task::Start,
        kind: Kind::Duration { least_ms: 0, most_ms: TIME_MS_MAX, set: |s, ms| s.drain_ms = ms },
        default: Some("30s"),
        doc: "How long open connections may take to finish when the server stops",
        more: "After SIGTERM or SIGINT the server accepts nothing and answers the requests in \
               progress. When the time is over, it closes the remaining connections.",
        changes: Changes::Generation,
        ..Setting::ROW
    },
    Setting {
        key: "admin",
        task: Task::Admin,
        flag: Some(Flag { name: "admin", value: "auto|ADDR|unix:PATH|off" }),
        kind: Kind::Admin { set: |s, places| s.admin = places },
        word: Some(Word { name: "off", set: |s| s.admin.clear() }),
        default: Some("auto"),
        doc: "Where commands, the status and metrics are served",
        more: "`/status` is JSON, and `/metrics` the text of Prometheus. `auto` is a Unix-domain \
               socket `admin-PID.sock` in the runtime directory, where `flyball ctl` finds it: \
               RUNTIME_DIRECTORY, which systemd sets, else /run/flyball-root for root, else \
               `flyball` in XDG_RUNTIME_DIR. PID is the process that the server was started as. A \
               server that cannot make it warns. `unix:PATH` is another socket in the file system. \
               An address has the forms of `listen`, and a bare port is open to all interfaces; it \
               shows and changes nothing. Write several as a list or with commas: `[\"auto\", \
               \"127.0.0.1:9090\"]`. `off` or an empty list is none.",
        ..Setting::ROW
    },
    Setting {
        key: "access-log",
        task: Task::Logs,
        flag: Some(Flag { name: "access-log", value: "PATH|-|off" }),
        kind: Kind::Log { dash: || AccessLog::Stdout, set: |s, log| s.access_log = log },
        word: Some(Word { name: "off", set: |s| s.access_log = AccessLog::Off }),
        default: Some("off"),
        doc: "Where the access log is written",
        more: "`-` and `/dev/stdout` are standard output, `/dev/stderr` is standard error; a file \
               is appended to. SIGUSR1 opens it again. The server refuses a file that is a \
               symbolic link, and one that a link of another user among its directories leads to: \
               that user could have it append to any file.",
        source: "S3 section 4 (M122)",
        ..Setting::ROW
    },
];
