//! The one table of the server's settings. Flags, help, `docs/settings.md` and the checks of the
//! configuration file are all made from it.

use flyball_arch::{AccessLog, Events, HelperKind, ResidencyTest, SendMode};
use flyball_http::scan::FIELDS_CAP;
use flyball_sys::uring::Features;
use flyball_sys::user_thread::STACK_BYTES_LEAST;

use super::kind::Kind;
use super::table::{Flag, Setting, Word};
use super::text::is_token;

/// Most worker processes; more than any machine has CPUs to share among them.
const WORKERS_MAX: u64 = 1024;
/// Most connections of one worker: beyond the most descriptors that one process can have.
const CONNECTIONS_MAX: u64 = 1 << 30;
/// Longest accept queue: the kernel holds its limit in a signed integer.
const BACKLOG_MAX: u64 = i32::MAX as u64;
/// Most helper threads of `amped`.
const HELPERS_MAX: u64 = 1024;
/// Most threads of one `mt` worker.
const THREADS_MAX: u64 = 32_768;
/// Smallest stack of a thread: the answer to any request fits with room to spare.
const THREAD_STACK_BYTES_LEAST: u64 = 128 * 1024;
/// Most user-level threads of one `knot-c` worker; the kernel allows half as many mappings.
const USER_THREADS_MAX: u64 = 1 << 20;
/// Largest stack of a thread, user-level or not: address space is what it costs.
const STACK_BYTES_MAX: u64 = 64 << 20;
/// Most partitions of `watpipe`; more than any machine has CPUs to share among them.
const PARTITIONS_MAX: u64 = 1024;
/// Most threads of a stage of `watpipe`: the paper measures up to 500 writers.
const STAGE_THREADS_MAX: u64 = 500;
/// Most entries of a submission ring (io_uring_setup(2)).
const RING_ENTRIES_MAX: u64 = 32_768;
/// Most buffers that a ring can be provided with (io_uring_register_buf_ring(3)).
const RING_BUFFERS_MAX: u64 = 32_768;
/// Largest piece of a large body.
const PIECE_BYTES_MAX: u64 = 1 << 30;
/// Longest head that may be allowed, and longest target: they are held in memory.
const HEAD_BYTES_MAX: u64 = 1 << 20;
/// Least that may be allowed for a head: a request line and a host must fit.
const HEAD_BYTES_LEAST: u64 = 256;
/// Largest bound on a body or on what is thrown away.
const BODY_BYTES_MAX: u64 = 1 << 50;
/// Most pipelined answers gathered: each holds its file and its place in the output.
const PIPELINE_MAX: u64 = 1024;
/// Longest time that a timer may be set to: a week.
const TIME_MS_MAX: u64 = 7 * 24 * 3_600_000;
/// Shortest window of a data rate: in a shorter one, one delayed packet looks like a stall.
const WINDOW_MS_LEAST: u64 = 100;
/// Longest window of a data rate.
const WINDOW_MS_MAX: u64 = 3_600_000;
/// Highest minimum data rate, in bytes per second.
const RATE_MAX: u64 = 1 << 30;
/// Most spaces that the head of an answer can be padded by.
const HEAD_ALIGN_MAX: u64 = 64;
/// Most entries of a cache.
const ENTRIES_MAX: u64 = 1 << 24;
/// Largest content cache.
const CONTENT_BYTES_MAX: u64 = 1 << 44;

/// Every setting of the server, in the order of the documentation.
pub static SETTINGS: &[Setting] = &[
    Setting {
        key: "arch",
        flag: Some(Flag { name: "arch", value: "NAME" }),
        kind: Kind::Text {
            form: "the name of an architecture",
            valid: is_token,
            set: |s, name| s.arch = name,
        },
        word: None,
        default: Some("n-copy"),
        doc: "The concurrency architecture that serves",
        more: "`flyball arch` lists the names, says which of them can run on this machine, and why \
               the others cannot.",
        source: "S2 section 6 (M96), S4 section 4 (M143, M144)",
    },
    Setting {
        key: "workers",
        flag: Some(Flag { name: "workers", value: "N" }),
        kind: Kind::Integer {
            least: 1,
            most: WORKERS_MAX,
            set: |s, n| s.workers = Some(n as usize),
        },
        word: Some(Word { name: "auto", set: |s| s.workers = None }),
        default: Some("auto"),
        doc: "Worker processes",
        more: "`auto` is the number of CPUs that the affinity mask and the cgroup quota leave to \
               the server, not the number that the machine has. Architectures with one worker \
               take one.",
        source: "S4 section 4 (M143, M144)",
    },
    Setting {
        key: "pin",
        flag: None,
        kind: Kind::Switch { set: |s, on| s.pin = on },
        word: None,
        default: Some("false"),
        doc: "Whether each worker is bound to one CPU",
        more: "`watpipe` binds the threads of its Read and Write stages, each partition's to one.",
        source: "S4 section 4 (M143)",
    },
    Setting {
        key: "listen",
        flag: Some(Flag { name: "listen", value: "ADDR" }),
        kind: Kind::Addresses { set: |s, addresses| s.listen = addresses },
        word: Some(Word { name: "auto", set: |s| s.listen.clear() }),
        default: Some("auto"),
        doc: "Addresses to listen on",
        more: "`8080` and `:8080` are all interfaces, IPv6 and IPv4; `127.0.0.1:8080`, \
               `[::1]:8080` and `localhost:8080` are one. Several are a list or are separated by \
               commas; the flag may be repeated. `auto` is 127.0.0.1:8080, or the next free port \
               when that is taken.",
        source: "",
    },
    Setting {
        key: "events",
        flag: Some(Flag { name: "events", value: "select|poll|epoll|epoll-edge" }),
        kind: Kind::OneOf {
            names: &[
                Word { name: "select", set: |s| s.events = Events::Select },
                Word { name: "poll", set: |s| s.events = Events::Poll },
                Word { name: "epoll", set: |s| s.events = Events::Epoll },
                Word { name: "epoll-edge", set: |s| s.events = Events::EpollEdge },
            ],
        },
        word: None,
        default: Some("epoll"),
        doc: "The event mechanism of the readiness architectures",
        more: "`epoll` is level-triggered, `epoll-edge` edge-triggered. `select` uses bitmaps of \
               its own and is not bound to 1,024 descriptors.",
        source: "S0 section 4.1 (M2)",
    },
    Setting {
        key: "accept.limit",
        flag: Some(Flag { name: "accept-limit", value: "N|inf" }),
        kind: Kind::Limit { set: |s, limit| s.accept_limit = limit },
        word: None,
        default: Some("16"),
        doc: "Most connections accepted in one accept phase",
        more: "A fraction below 1 accepts one connection every 1/x phases; `inf` accepts until \
               the queue is empty (multi-accept), 1 is the naive server of the paper.",
        source: "S0 sections 2.4 and 4.1 (M4, M6)",
    },
    Setting {
        key: "accept.eager-read",
        flag: None,
        kind: Kind::Switch { set: |s, on| s.eager_read = on },
        word: None,
        default: Some("true"),
        doc: "Whether a new connection is read in the loop that accepted it",
        more: "When false, a new connection is not worked on before the event mechanism has \
               reported it, as in the paper.",
        source: "S0 section 4.1 (M5)",
    },
    Setting {
        key: "accept.backlog",
        flag: None,
        kind: Kind::Integer { least: 1, most: BACKLOG_MAX, set: |s, n| s.backlog = n as u32 },
        word: None,
        default: Some("4096"),
        doc: "Length of the accept queue asked of the kernel, in connections",
        more: "The kernel cuts it to `net.core.somaxconn`; the server warns when it does.",
        source: "S0 section 5.2, S3 section 4 (M124), listen(2)",
    },
    Setting {
        key: "accept.defer",
        flag: None,
        kind: Kind::Switch { set: |s, on| s.defer_accept = on },
        word: None,
        default: Some("true"),
        doc: "Whether the kernel holds a connection back until its first bytes come",
        more: "A connection is then accepted and read in one turn. The waiting moves from the \
               accept queue to the queue of half-open connections.",
        source: "TCP_DEFER_ACCEPT in tcp(7)",
    },
    Setting {
        key: "accept.exclusive",
        flag: None,
        kind: Kind::Switch { set: |s, on| s.exclusive = on },
        word: None,
        default: Some("true"),
        doc: "Whether only one of the workers that wait on a shared socket is woken",
        more: "Used where workers share a listening socket and `events` is an epoll.",
        source: "EPOLLEXCLUSIVE in epoll_ctl(2)",
    },
    Setting {
        key: "connections.max",
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
    },
    Setting {
        key: "send.mode",
        flag: None,
        kind: Kind::OneOf {
            names: &[
                Word { name: "auto", set: |s| s.send = SendMode::Auto },
                Word { name: "copy", set: |s| s.send = SendMode::Copy },
                Word { name: "sendfile", set: |s| s.send = SendMode::Sendfile },
            ],
        },
        word: None,
        default: Some("auto"),
        doc: "How bodies too large for memory leave",
        more: "`copy` reads them into a buffer, checks the file and sends that. `sendfile` saves \
               the copy, but a page of a file that is rewritten in place changes on the wire \
               while it waits in the socket. `auto` uses sendfile for files that have not changed \
               for `send.quiet`, and copies the others: only the first rewrite in place after a \
               quiet time can still meet a page in a socket. Files that are replaced by renaming \
               are safe in every mode.",
        source: "S4 section 5 (M149), sendfile(2)",
    },
    Setting {
        key: "send.blocking",
        flag: None,
        kind: Kind::Switch { set: |s, on| s.send_blocking = on },
        word: None,
        default: Some("false"),
        doc: "Whether sending waits for room in the socket",
        more: "Where files are in memory, not to wait is faster; where they come from the disk, S4 \
               measured the reverse. A thread that waits still looks at the time twice a second.",
        source: "S4 sections 5 and 8 (M149)",
    },
    Setting {
        key: "send.quiet",
        flag: None,
        kind: Kind::Duration { least_ms: 0, most_ms: TIME_MS_MAX, set: |s, ms| s.quiet_ms = ms },
        word: None,
        default: Some("1min"),
        doc: "How long a file is unchanged before `auto` uses sendfile",
        more: "",
        source: "",
    },
    Setting {
        key: "send.piece",
        flag: None,
        kind: Kind::Size {
            least: 1,
            most: PIECE_BYTES_MAX,
            set: |s, n| s.piece_bytes = n as usize,
        },
        word: None,
        default: Some("256KiB"),
        doc: "Most bytes of a large body sent in one turn of the loop, per connection",
        more: "Small pieces are fair to the other connections, large ones save system calls. It \
               bounds the pieces that are copied; sendfile is bounded by the socket's own buffer.",
        source: "",
    },
    Setting {
        key: "tcp.congestion",
        flag: None,
        kind: Kind::Text {
            form: "the name of a congestion control such as cubic",
            valid: is_token,
            set: |s, name| s.congestion = Some(name),
        },
        word: Some(Word { name: "system", set: |s| s.congestion = None }),
        default: Some("system"),
        doc: "Congestion control of accepted sockets",
        more: "`system` keeps the one of `net.ipv4.tcp_congestion_control`.",
        source: "TCP_CONGESTION in tcp(7)",
    },
    Setting {
        key: "amped.helpers",
        flag: None,
        kind: Kind::Integer { least: 1, most: HELPERS_MAX, set: |s, n| s.helpers = n as usize },
        word: None,
        default: Some("8"),
        doc: "Most helpers of `amped`, per worker",
        more: "Each helper waits for one disk operation at a time. Helpers are started when there \
               is work and none is free.",
        source: "S2 sections 3.4 and 5.1 (M87, M88)",
    },
    Setting {
        key: "amped.helper-kind",
        flag: None,
        kind: Kind::OneOf {
            names: &[
                Word { name: "thread", set: |s| s.helper_kind = HelperKind::Thread },
                Word { name: "process", set: |s| s.helper_kind = HelperKind::Process },
            ],
        },
        word: None,
        default: Some("thread"),
        doc: "What a helper of `amped` is",
        more: "A thread does the work itself. A process, as in Flash, only brings names and pages \
               into memory, and the loop repeats the work; one that dies takes nothing along. On \
               FUSE and network file systems the repetition may wait too.",
        source: "S2 sections 3.4 and 5.1 (M87, M88)",
    },
    Setting {
        key: "amped.reserve",
        flag: None,
        kind: Kind::Integer {
            least: 0,
            most: HELPERS_MAX,
            set: |s, n| s.helper_reserve = n as usize,
        },
        word: None,
        default: Some("2"),
        doc: "Helpers of `amped` that stay when they are idle, per worker",
        more: "",
        source: "S2 section 5.1 (M88)",
    },
    Setting {
        key: "amped.idle",
        flag: None,
        kind: Kind::Duration {
            least_ms: 0,
            most_ms: TIME_MS_MAX,
            set: |s, ms| s.helper_idle_ms = ms,
        },
        word: None,
        default: Some("10s"),
        doc: "How long a helper beyond the reserve may be idle",
        more: "",
        source: "S2 section 5.1 (M88)",
    },
    Setting {
        key: "amped.residency",
        flag: None,
        kind: Kind::OneOf {
            names: &[
                Word { name: "auto", set: |s| s.residency = ResidencyTest::Auto },
                Word { name: "nowait", set: |s| s.residency = ResidencyTest::Nowait },
                Word { name: "cachestat", set: |s| s.residency = ResidencyTest::Cachestat },
                Word { name: "mincore", set: |s| s.residency = ResidencyTest::Mincore },
            ],
        },
        word: None,
        default: Some("auto"),
        doc: "How `amped` knows which bytes of a file are in memory",
        more: "`auto` reads with RWF_NOWAIT, and looks with mincore before sendfile, where these \
               work; `flyball arch` tells. mincore and cachestat tell nothing of files that the \
               server neither owns nor may write; cachestat also takes pages for present that are \
               still being read.",
        source: "S2 sections 5.4 and 5.7 (M92)",
    },
    Setting {
        key: "mt.threads",
        flag: None,
        kind: Kind::Integer { least: 1, most: THREADS_MAX, set: |s, n| s.threads = n as usize },
        word: None,
        default: Some("64"),
        doc: "Threads of `mt`, per worker",
        more: "A thread serves one connection at a time, so this also bounds the connections that \
               are served at once.",
        source: "S2 section 3.2 (M85)",
    },
    Setting {
        key: "mp.processes",
        flag: None,
        kind: Kind::Integer { least: 1, most: WORKERS_MAX, set: |s, n| s.processes = n as usize },
        word: None,
        default: Some("32"),
        doc: "Processes of `mp`",
        more: "A process serves one connection at a time, so this also bounds the connections that \
               are served at once. Each has caches of its own: 200 paths, 4 MiB of bodies and 32 \
               open files unless `cache.paths`, `cache.content` or `cache.files` are written.",
        source: "S2 sections 3.1, 5.2 and 5.4 (M84, M89, M91)",
    },
    Setting {
        key: "thread.stack",
        flag: None,
        kind: Kind::Size {
            least: THREAD_STACK_BYTES_LEAST,
            most: STACK_BYTES_MAX,
            set: |s, n| s.stack_bytes = n as usize,
        },
        word: None,
        default: Some("256KiB"),
        doc: "Stack of each thread of `mt` and `thread-per-connection`",
        more: "Address space; only what a thread has touched is memory.",
        source: "S3 section 3.1 (M109)",
    },
    Setting {
        key: "knot.threads",
        flag: None,
        kind: Kind::Integer {
            least: 1,
            most: USER_THREADS_MAX,
            set: |s, n| s.knot_threads = n as usize,
        },
        word: None,
        default: Some("1000"),
        doc: "User-level threads of `knot-c`, per worker",
        more: "A thread serves one connection at a time, so this also bounds the connections that \
               are served at once; others wait in the accept queue.",
        source: "S0 section 4.2 (M7)",
    },
    Setting {
        key: "knot.stack",
        flag: None,
        kind: Kind::Size {
            least: STACK_BYTES_LEAST as u64,
            most: STACK_BYTES_MAX,
            set: |s, n| s.knot_stack_bytes = n as usize,
        },
        word: None,
        default: Some("64KiB"),
        doc: "Stack of each user-level thread of `knot-c` and `knot-a`",
        more: "A page takes memory once it is used, and stays. Below each stack is a page that \
               cannot be touched: a thread that runs out of its stack ends its worker.",
        source: "S0 section 4.2 (M10)",
    },
    Setting {
        key: "watpipe.partitions",
        flag: None,
        kind: Kind::Integer {
            least: 1,
            most: PARTITIONS_MAX,
            set: |s, n| s.partitions = Some(n as usize),
        },
        word: Some(Word { name: "auto", set: |s| s.partitions = None }),
        default: Some("auto"),
        doc: "Partitions of `watpipe`, per worker",
        more: "Each has listening sockets, an acceptor, and queues and threads for its Read and \
               Write stages, which `pin` binds to one CPU. `auto` is as for `workers`.",
        source: "S4 section 4 (M147)",
    },
    Setting {
        key: "watpipe.readers",
        flag: None,
        kind: Kind::Integer {
            least: 1,
            most: STAGE_THREADS_MAX,
            set: |s, n| s.stage_readers = n as usize,
        },
        word: None,
        default: Some("1"),
        doc: "Threads of `watpipe`'s Read stage, per partition",
        more: "They never wait on the disk, so that one is enough for a CPU.",
        source: "S4 section 4 (M146)",
    },
    Setting {
        key: "watpipe.writers",
        flag: None,
        kind: Kind::Integer {
            least: 1,
            most: STAGE_THREADS_MAX,
            set: |s, n| s.stage_writers = n as usize,
        },
        word: None,
        default: Some("8"),
        doc: "Threads of `watpipe`'s Write stage, per partition",
        more: "Each that waits on the disk, or on a client where `send.blocking` is set, serves \
               nobody else meanwhile.",
        source: "S4 sections 4 and 5 (M146, M149)",
    },
    Setting {
        key: "uring.entries",
        flag: None,
        kind: Kind::Integer {
            least: 1,
            most: RING_ENTRIES_MAX,
            set: |s, n| s.ring_entries = n as u32,
        },
        word: None,
        default: Some("1024"),
        doc: "Entries of the ring of `uring` and `tux`, per worker",
        more: "The kernel rounds it up to a power of two.",
        source: "io_uring_setup(2)",
    },
    Setting {
        key: "uring.buffers",
        flag: None,
        kind: Kind::Integer {
            least: 1,
            most: RING_BUFFERS_MAX,
            set: |s, n| s.ring_buffers = n as u16,
        },
        word: None,
        default: Some("256"),
        doc: "Buffers that `uring` provides to the kernel, per worker",
        more: "Each has 4 KiB; the number is rounded up to a power of two. They are for what comes \
               in between two turns of the loop, whatever the number of connections: a connection \
               that waits holds none.",
        source: "io_uring_register_buf_ring(3)",
    },
    Setting {
        key: "uring.features",
        flag: None,
        kind: Kind::OneOf {
            names: &[
                Word { name: "auto", set: |s| s.ring_features = Features::ALL },
                Word {
                    name: "plain",
                    set: |s| s.ring_features = Features { direct: false, ..Features::ALL },
                },
                Word { name: "basic", set: |s| s.ring_features = Features::NONE },
            ],
        },
        word: None,
        default: Some("auto"),
        doc: "What `uring` uses of what the kernel has",
        more: "`auto` is all of it. `plain` keeps sockets in the process's descriptor table instead \
               of the ring's own, so that other tools see them. `basic` is what Linux 5.19 has.",
        source: "",
    },
    Setting {
        key: "drain",
        flag: None,
        kind: Kind::Duration { least_ms: 0, most_ms: TIME_MS_MAX, set: |s, ms| s.drain_ms = ms },
        word: None,
        default: Some("30s"),
        doc: "Time that a stopping server gives its open connections",
        more: "After SIGTERM or SIGINT nothing is accepted any more; requests under way are \
               answered, and what is left when the time is over is closed.",
        source: "",
    },
    Setting {
        key: "admin",
        flag: Some(Flag { name: "admin", value: "ADDR|unix:PATH" }),
        kind: Kind::Admin { set: |s, address| s.admin = Some(address) },
        word: Some(Word { name: "off", set: |s| s.admin = None }),
        default: Some("off"),
        doc: "Where `/status` (JSON) and `/metrics` (Prometheus text) are served",
        more: "An address has the forms of `listen`; a bare port is open to all interfaces. \
               `unix:PATH` is a socket in the file system.",
        source: "",
    },
    Setting {
        key: "access-log",
        flag: Some(Flag { name: "access-log", value: "PATH|-|off" }),
        kind: Kind::Log { set: |s, log| s.access_log = log },
        word: Some(Word { name: "off", set: |s| s.access_log = AccessLog::Off }),
        default: Some("off"),
        doc: "Where the access log goes",
        more: "`-` is standard output; a file is appended to.",
        source: "S3 section 4 (M122)",
    },
    Setting {
        key: "limit.target",
        flag: None,
        kind: Kind::Size {
            least: 1,
            most: HEAD_BYTES_MAX,
            set: |s, n| s.limits.target_bytes_max = n as usize,
        },
        word: None,
        default: Some("8KiB"),
        doc: "Longest request target; a longer one is refused with 414",
        more: "",
        source: "RFC 9112 section 3, RFC 9110 section 15.5.15",
    },
    Setting {
        key: "limit.head",
        flag: None,
        kind: Kind::Size {
            least: HEAD_BYTES_LEAST,
            most: HEAD_BYTES_MAX,
            set: |s, n| s.limits.head_bytes_max = n as usize,
        },
        word: None,
        default: Some("16KiB"),
        doc: "Longest request head; a longer one is refused with 431",
        more: "",
        source: "RFC 6585 section 5",
    },
    Setting {
        key: "limit.fields",
        flag: None,
        kind: Kind::Integer {
            least: 1,
            most: FIELDS_CAP as u64,
            set: |s, n| s.limits.fields_max = n as usize,
        },
        word: None,
        default: Some("100"),
        doc: "Most field lines in a request head; more are refused with 431",
        more: "",
        source: "RFC 6585 section 5",
    },
    Setting {
        key: "limit.body",
        flag: None,
        kind: Kind::Size {
            least: 0,
            most: BODY_BYTES_MAX,
            set: |s, n| s.limits.body_bytes_max = n,
        },
        word: None,
        default: Some("64MiB"),
        doc: "Longest request body; a longer one is refused with 413",
        more: "",
        source: "RFC 9110 section 15.5.14",
    },
    Setting {
        key: "limit.drain",
        flag: None,
        kind: Kind::Size {
            least: 0,
            most: BODY_BYTES_MAX,
            set: |s, n| s.limits.drain_bytes_max = n,
        },
        word: None,
        default: Some("64KiB"),
        doc: "Most bytes of an unwanted request body read to keep the connection",
        more: "A longer body costs the connection: it is closed after the answer.",
        source: "RFC 9112 section 9.3",
    },
    Setting {
        key: "limit.linger",
        flag: None,
        kind: Kind::Size {
            least: 0,
            most: BODY_BYTES_MAX,
            set: |s, n| s.limits.linger_bytes_max = n,
        },
        word: None,
        default: Some("1MiB"),
        doc: "Most bytes thrown away while the client reads a refusal",
        more: "",
        source: "RFC 9112 section 9.6",
    },
    Setting {
        key: "limit.pipeline",
        flag: None,
        kind: Kind::Integer {
            least: 1,
            most: PIPELINE_MAX,
            set: |s, n| s.limits.pipeline_max = n as u16,
        },
        word: None,
        default: Some("32"),
        doc: "Most pipelined answers gathered before one write, per connection",
        more: "",
        source: "RFC 9112 section 9.3.2, S0 section 2 (M15)",
    },
    Setting {
        key: "timeout.head",
        flag: None,
        kind: Kind::Duration {
            least_ms: 1,
            most_ms: TIME_MS_MAX,
            set: |s, ms| s.limits.head_ms = ms,
        },
        word: None,
        default: Some("10s"),
        doc: "Time for a whole request head",
        more: "It counts from the first byte, and on a new connection from accept.",
        source: "RFC 9112 section 9.5",
    },
    Setting {
        key: "timeout.idle",
        flag: None,
        kind: Kind::Duration {
            least_ms: 1,
            most_ms: TIME_MS_MAX,
            set: |s, ms| s.limits.idle_ms = ms,
        },
        word: None,
        default: Some("1min"),
        doc: "Time between requests on a kept connection",
        more: "",
        source: "RFC 9112 section 9.5",
    },
    Setting {
        key: "timeout.answer",
        flag: None,
        kind: Kind::Duration {
            least_ms: 1,
            most_ms: TIME_MS_MAX,
            set: |s, ms| s.limits.answer_ms = ms,
        },
        word: None,
        default: Some("1min"),
        doc: "Time for the work behind one answer",
        more: "",
        source: "",
    },
    Setting {
        key: "timeout.linger",
        flag: None,
        kind: Kind::Duration {
            least_ms: 0,
            most_ms: TIME_MS_MAX,
            set: |s, ms| s.limits.linger_ms = ms,
        },
        word: None,
        default: Some("2s"),
        doc: "Time spent waiting for the client to read a refusal",
        more: "",
        source: "RFC 9112 section 9.6",
    },
    Setting {
        key: "rate.window",
        flag: None,
        kind: Kind::Duration {
            least_ms: WINDOW_MS_LEAST,
            most_ms: WINDOW_MS_MAX,
            set: |s, ms| s.limits.rate_window_ms = ms,
        },
        word: None,
        default: Some("10s"),
        doc: "Length of the windows over which the minimum data rates hold",
        more: "",
        source: "",
    },
    Setting {
        key: "rate.body-min",
        flag: None,
        kind: Kind::Size { least: 0, most: RATE_MAX, set: |s, n| s.limits.body_rate_min = n },
        word: None,
        default: Some("512B"),
        doc: "Least bytes of request body per second; 0 demands none",
        more: "The average over `rate.window` counts. A connection that is slower is closed.",
        source: "",
    },
    Setting {
        key: "rate.send-min",
        flag: None,
        kind: Kind::Size { least: 0, most: RATE_MAX, set: |s, n| s.limits.send_rate_min = n },
        word: None,
        default: Some("512B"),
        doc: "Least bytes of answer taken by the client per second; 0 demands none",
        more: "The average over `rate.window` counts; bytes that only went into the socket's \
               buffer do not. A connection that is slower is closed.",
        source: "",
    },
    Setting {
        key: "head.server",
        flag: None,
        kind: Kind::Switch { set: |s, on| s.limits.server_field = on },
        word: None,
        default: Some("true"),
        doc: "Whether answers carry `Server: flyball`",
        more: "",
        source: "RFC 9110 section 10.2.4",
    },
    Setting {
        key: "lab.head-align",
        flag: None,
        kind: Kind::Integer {
            least: 1,
            most: HEAD_ALIGN_MAX,
            set: |s, n| s.limits.head_align = n as usize,
        },
        word: None,
        default: Some("1"),
        doc: "Pads the head of each answer to a multiple of this many bytes",
        more: "1 is no padding; Flash pads to 32. It is here to be measured, not to be used.",
        source: "S2 section 5.5 (M93)",
    },
    Setting {
        key: "cache.paths",
        flag: None,
        kind: Kind::Integer {
            least: 0,
            most: ENTRIES_MAX,
            set: |s, n| s.caches.paths_max = n as usize,
        },
        word: None,
        default: Some("6000"),
        doc: "Entries of the path-translation cache; 0 turns it off",
        more: "Paths that name nothing are held too. As all caches, it is per worker where caches \
               are private and in all where they are shared.",
        source: "S2 section 5.2 (M89)",
    },
    Setting {
        key: "cache.heads",
        flag: None,
        kind: Kind::Switch { set: |s, on| s.caches.heads = on },
        word: None,
        default: Some("true"),
        doc: "Whether the head of an answer is kept with its file",
        more: "",
        source: "S2 section 5.3 (M90), S3 section 3.2.2 (M117)",
    },
    Setting {
        key: "cache.content",
        flag: None,
        kind: Kind::Size {
            least: 0,
            most: CONTENT_BYTES_MAX,
            set: |s, n| s.caches.content_bytes_max = n,
        },
        word: None,
        default: Some("128MiB"),
        doc: "Bytes of file bodies held in memory; 0 turns the content cache off",
        more: "`tux` pins what it caches: each body is locked in memory, in whole pages, as far as \
               RLIMIT_MEMLOCK allows, and when the cache is full nothing is pushed out for \
               another file.",
        source: "S2 section 5.4 (M91), S3 section 4 (M121)",
    },
    Setting {
        key: "cache.files",
        flag: None,
        kind: Kind::Integer {
            least: 0,
            most: ENTRIES_MAX,
            set: |s, n| s.caches.files_max = n as usize,
        },
        word: None,
        default: Some("1024"),
        doc: "Open descriptors of larger files held; 0 holds none",
        more: "",
        source: "S4 section 4 (M148)",
    },
    Setting {
        key: "cache.small",
        flag: None,
        kind: Kind::Size {
            least: 0,
            most: CONTENT_BYTES_MAX,
            set: |s, n| s.caches.small_bytes_max = n,
        },
        word: None,
        default: Some("64KiB"),
        doc: "Largest file body that is held in memory",
        more: "Such a body leaves in one gather write with its head; larger ones leave in pieces \
               of `send.piece`.",
        source: "S2 section 5.4 (M91), S3 section 4 (M121)",
    },
    Setting {
        key: "cache.revalidate",
        flag: None,
        kind: Kind::Duration {
            least_ms: 0,
            most_ms: TIME_MS_MAX,
            set: |s, ms| s.caches.revalidate_ms = ms,
        },
        word: None,
        default: Some("1s"),
        doc: "How long a cache entry is believed before its file is looked at again",
        more: "",
        source: "",
    },
];
