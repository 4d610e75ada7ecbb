//! Settings that belong to one architecture, or to a few.

use flyball_arch::{HelperKind, ResidencyTest, ThreadOrder};
use flyball_sys::uring::Features;

use super::kind::Kind;
use super::server::{TIME_MS_MAX, WORKERS_MAX};
use super::table::{Range, Setting, Task, UsedBy, Word};

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

/// Least stack of a user-level thread: an encoder of brotli takes more than 32 KiB of it in a build
/// for development, at a request of any client.
const KNOT_STACK_BYTES_LEAST: u64 = 64 * 1024;
/// Most partitions of `watpipe`; more than any machine has CPUs to share among them.
const PARTITIONS_MAX: u64 = 1024;
/// Most threads of a stage of `watpipe`: the paper measures up to 500 writers.
const STAGE_THREADS_MAX: u64 = 500;
/// Most entries of a submission ring (io_uring_setup(2)).
const RING_ENTRIES_MAX: u64 = 32_768;
/// Most buffers that a ring can be provided with (io_uring_register_buf_ring(3)).
const RING_BUFFERS_MAX: u64 = 32_768;

/// Most buffers that are registered with a ring (io_uring_register(2)).
const RING_REGISTERED_MAX: u64 = 16_384;

/// What `flyball tune` tries first. S4 recommends: in memory one non-blocking thread for each core,
/// from the disk enough threads to hide it (M170); the rest is what the other papers do.
pub const TUNED_FIRST: &[&[(&str, &str)]] = &[
    &[("arch", "symped"), ("accept.limit", "inf")],
    &[("arch", "uring")],
    &[("arch", "watpipe"), ("watpipe.writers", "32")],
    &[("arch", "amped"), ("amped.helpers", "32")],
    &[("arch", "tux")],
    &[("events", "epoll-edge"), ("accept.limit", "64")],
];

/// The settings.
pub(super) const ROWS: &[Setting] = &[
    Setting {
        key: "amped.helpers",
        task: Task::Architectures,
        kind: Kind::Integer { least: 1, most: HELPERS_MAX, set: |s, n| s.helpers = n as usize },
        default: Some("8"),
        doc: "Most helpers of `amped`, per worker",
        more: "Each helper waits for one disk operation at a time. A helper is started if there is \
               work and none is free.",
        source: "S2 sections 3.4 and 5.1 (M87, M88)",
        used_by: UsedBy::Some,
        tune: Some(Range { values: &["2", "8", "32"], ordered: true }),
        ..Setting::ROW
    },
    Setting {
        key: "amped.helper-kind",
        task: Task::Architectures,
        kind: Kind::OneOf {
            names: &[
                Word { name: "thread", set: |s| s.helper_kind = HelperKind::Thread },
                Word { name: "process", set: |s| s.helper_kind = HelperKind::Process },
            ],
        },
        default: Some("thread"),
        doc: "Kind of helper that `amped` uses",
        more: "A thread does the work itself. A process, as in Flash, only brings names and pages \
               into memory, and the loop repeats the work; if a helper process dies, nothing else \
               does. On FUSE and network file systems the repetition may wait too.",
        source: "S2 sections 3.4 and 5.1 (M87, M88)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "amped.reserve",
        task: Task::Architectures,
        kind: Kind::Integer {
            least: 0,
            most: HELPERS_MAX,
            set: |s, n| s.helper_reserve = n as usize,
        },
        default: Some("2"),
        doc: "Idle helpers that `amped` keeps, per worker",
        source: "S2 section 5.1 (M88)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "amped.idle",
        task: Task::Architectures,
        kind: Kind::Duration {
            least_ms: 0,
            most_ms: TIME_MS_MAX,
            set: |s, ms| s.helper_idle_ms = ms,
        },
        default: Some("10s"),
        doc: "How long an idle helper above `amped.reserve` lives",
        source: "S2 section 5.1 (M88)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "amped.residency",
        task: Task::Architectures,
        kind: Kind::OneOf {
            names: &[
                Word { name: "auto", set: |s| s.residency = ResidencyTest::Auto },
                Word { name: "nowait", set: |s| s.residency = ResidencyTest::Nowait },
                Word { name: "cachestat", set: |s| s.residency = ResidencyTest::Cachestat },
                Word { name: "mincore", set: |s| s.residency = ResidencyTest::Mincore },
            ],
        },
        default: Some("auto"),
        doc: "How `amped` finds out which bytes of a file are in memory",
        more: "`auto` reads with RWF_NOWAIT, and looks with mincore before sendfile, if these \
               work; `flyball arch` shows that. mincore and cachestat say nothing about files that \
               the server neither owns nor may write. cachestat also counts pages that are still \
               being read.",
        source: "S2 sections 5.4 and 5.7 (M92)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "mt.threads",
        task: Task::Architectures,
        kind: Kind::Integer { least: 1, most: THREADS_MAX, set: |s, n| s.threads = n as usize },
        default: Some("64"),
        doc: "Threads of `mt`, per worker",
        more: "A thread serves one connection at a time, so this also bounds the connections that \
               are served at once.",
        source: "S2 section 3.2 (M85)",
        used_by: UsedBy::Some,
        tune: Some(Range { values: &["16", "64", "256"], ordered: true }),
        ..Setting::ROW
    },
    Setting {
        key: "mp.processes",
        task: Task::Architectures,
        kind: Kind::Integer { least: 1, most: WORKERS_MAX, set: |s, n| s.processes = n as usize },
        default: Some("32"),
        doc: "Processes of `mp`, in all",
        more: "A process serves one connection at a time, so this also bounds the connections that \
               are served at once. Each has its own caches: 200 paths, 4 MiB of bodies and 32 open \
               files, unless `cache.paths`, `cache.content` or `cache.files` are set.",
        source: "S2 sections 3.1, 5.2 and 5.4 (M84, M89, M91)",
        used_by: UsedBy::Some,
        tune: Some(Range { values: &["8", "32", "128"], ordered: true }),
        ..Setting::ROW
    },
    Setting {
        key: "shared-symped.partitions",
        task: Task::Architectures,
        kind: Kind::Integer {
            least: 1,
            most: WORKERS_MAX,
            set: |s, n| s.groups = Some(n as usize),
        },
        word: Some(Word { name: "auto", set: |s| s.groups = None }),
        default: Some("auto"),
        doc: "Groups of processes of `shared-symped` with a socket each, in all",
        more: "The processes of a group share a listening socket on the same port, and with `pin` \
               a CPU. `auto` is one group for each CPU that the server may use. There are never \
               more groups than processes.",
        source: "S4 section 4 (M145)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "thread.stack",
        task: Task::Architectures,
        kind: Kind::Size {
            least: THREAD_STACK_BYTES_LEAST,
            most: STACK_BYTES_MAX,
            set: |s, n| s.stack_bytes = n as usize,
        },
        default: Some("256KiB"),
        doc: "Stack of each thread of `mt` and `thread-per-connection`",
        more: "This is address space: only the pages that a thread has touched take memory.",
        source: "S3 section 3.1 (M109)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "knot.threads",
        task: Task::Architectures,
        kind: Kind::Integer {
            least: 1,
            most: USER_THREADS_MAX,
            set: |s, n| s.user_threads.threads = n as usize,
        },
        default: Some("1000"),
        doc: "User-level threads of `knot-c`, per worker",
        more: "A thread serves one connection at a time, so this also bounds the connections that \
               are served at once; others wait in the accept queue.",
        source: "S0 section 4.2 (M7)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "knot.stack",
        task: Task::Architectures,
        kind: Kind::Size {
            least: KNOT_STACK_BYTES_LEAST,
            most: STACK_BYTES_MAX,
            set: |s, n| s.user_threads.stack_bytes = n as usize,
        },
        default: Some("64KiB"),
        doc: "Stack of each user-level thread of `knot-c` and `knot-a`",
        more: "A page takes memory from its first use on. Below each stack is a guard page: a \
               thread that exhausts its stack ends its worker.",
        source: "S0 section 4.2 (M10)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "knot.order",
        task: Task::Architectures,
        kind: Kind::OneOf {
            names: &[
                Word { name: "fifo", set: |s| s.user_threads.order = ThreadOrder::Fifo },
                Word { name: "lifo", set: |s| s.user_threads.order = ThreadOrder::Lifo },
                Word { name: "resource", set: |s| s.user_threads.order = ThreadOrder::Resource },
            ],
        },
        default: Some("fifo"),
        doc: "Order in which ready threads of `knot-c` and `knot-a` run",
        more: "`fifo`: first come, first served. `lifo`: the reverse. `resource` learns, for each \
               point where threads wait, whether threads that go on from there open connections or \
               close them, and how long they run. While three quarters of `connections.max` are \
               open, those that probably close one run first, the quick ones first among equals. \
               Each ready thread runs once before any runs again.",
        source: "S0 section 4.2 (M10)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "watpipe.partitions",
        task: Task::Architectures,
        kind: Kind::Integer {
            least: 1,
            most: PARTITIONS_MAX,
            set: |s, n| s.stages.partitions = Some(n as usize),
        },
        word: Some(Word { name: "auto", set: |s| s.stages.partitions = None }),
        default: Some("auto"),
        doc: "Partitions of `watpipe`, per worker",
        more: "Each has listening sockets, an acceptor, and queues and threads for its Read and \
               Write stages, which `pin` binds to one CPU. `auto` is as for `workers`.",
        source: "S4 section 4 (M147)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "watpipe.readers",
        task: Task::Architectures,
        kind: Kind::Integer {
            least: 1,
            most: STAGE_THREADS_MAX,
            set: |s, n| s.stages.readers = n as usize,
        },
        default: Some("1"),
        doc: "Threads of `watpipe`'s Read stage, per partition",
        more: "They never wait on the disk, so one is enough for a CPU.",
        source: "S4 section 4 (M146)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "watpipe.writers",
        task: Task::Architectures,
        kind: Kind::Integer {
            least: 1,
            most: STAGE_THREADS_MAX,
            set: |s, n| s.stages.writers = n as usize,
        },
        default: Some("8"),
        doc: "Threads of `watpipe`'s Write stage, per partition",
        more: "A thread that waits on the disk, or with `send.blocking` on a client, serves no \
               other client meanwhile.",
        source: "S4 sections 4 and 5 (M146, M149)",
        used_by: UsedBy::Some,
        tune: Some(Range { values: &["2", "8", "32", "100"], ordered: true }),
        ..Setting::ROW
    },
    Setting {
        key: "uring.entries",
        task: Task::Architectures,
        kind: Kind::Integer {
            least: 2,
            most: RING_ENTRIES_MAX,
            set: |s, n| s.ring.entries = n as u32,
        },
        default: Some("1024"),
        doc: "Entries of the ring of `uring` and `tux`, per worker",
        more: "The kernel rounds it up to a power of two. The least is two, because a last send \
               and the close after it are submitted together.",
        source: "io_uring_setup(2)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "uring.buffers",
        task: Task::Architectures,
        kind: Kind::Integer {
            least: 1,
            most: RING_BUFFERS_MAX,
            set: |s, n| s.ring.buffers = n as u16,
        },
        default: Some("256"),
        doc: "Buffers that `uring` provides to the kernel, per worker",
        more: "Each has 4 KiB; the number is rounded up to a power of two. They are for data that \
               arrives between two turns of the loop, whatever the number of connections: a \
               waiting connection holds none. The kernel begins with 16, and gets as many again \
               when it has none left.",
        source: "io_uring_register_buf_ring(3)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "uring.registered",
        task: Task::Architectures,
        kind: Kind::Integer {
            least: 0,
            most: RING_REGISTERED_MAX,
            set: |s, n| s.ring.registered = n as u16,
        },
        default: Some("16"),
        doc: "Buffers that `uring` registers for pieces of large bodies, per worker",
        more: "Each has `send.piece` bytes, at most 1 MiB; with larger pieces, or with 0, none is \
               registered. A buffer is made at its first use, and counts as locked memory \
               (RLIMIT_MEMLOCK). If all are in use, or no more may be locked, pieces are read into \
               ordinary memory.",
        source: "io_uring_register(2), IORING_REGISTER_BUFFERS2",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "uring.features",
        task: Task::Architectures,
        kind: Kind::OneOf {
            names: &[
                Word { name: "auto", set: |s| s.ring.features = Features::ALL },
                Word {
                    name: "plain",
                    set: |s| s.ring.features = Features { direct: false, ..Features::ALL },
                },
                Word { name: "basic", set: |s| s.ring.features = Features::NONE },
            ],
        },
        default: Some("auto"),
        doc: "Optional features of the kernel that `uring` uses",
        more: "`auto` is all of it. `plain` keeps sockets in the process's descriptor table \
               instead of the ring's own, so that other tools see them. `basic` is what Linux \
               5.19 has.",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
];
