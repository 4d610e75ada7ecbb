//! Settings of what a client may ask and how long it may take, of heads, and of the caches.

use flyball_arch::Settings;
use flyball_http::scan::FIELDS_CAP;
use flyball_server::Changes;
use flyball_site::CachePolicy;
use flyball_site::pattern::is_pattern;

use super::kind::Kind;
use super::server::TIME_MS_MAX;
use super::table::{Range, Setting, Task, Word};

/// Longest head that may be allowed, and longest target: they are held in memory.
const HEAD_BYTES_MAX: u64 = 1 << 20;
/// Least that may be allowed for a head: a request line and a host must fit.
const HEAD_BYTES_LEAST: u64 = 256;
/// Largest bound on a body or on what is thrown away.
const BODY_BYTES_MAX: u64 = 1 << 50;
/// Most pipelined answers gathered: each holds its file and its place in the output.
const PIPELINE_MAX: u64 = 1024;
/// Shortest window of a data rate: in a shorter one, one delayed packet looks like a stall.
const WINDOW_MS_LEAST: u64 = 100;
/// Longest window of a data rate.
const WINDOW_MS_MAX: u64 = 3_600_000;
/// Highest minimum data rate, in bytes per second.
const RATE_MAX: u64 = 1 << 30;
/// Most connections of one client: beyond what a port can tell apart.
pub(super) const CLIENT_CONNECTIONS_MAX: u64 = 65_535;
/// Most requests of one client in a second: beyond what a server answers.
pub(super) const CLIENT_REQUESTS_MAX: u64 = 1_000_000;
/// Least pace: a segment of 64 KiB, which loopback has, takes its minute.
pub(super) const BANDWIDTH_LEAST: u64 = 1024;
/// Greatest pace.
pub(super) const BANDWIDTH_MAX: u64 = 1 << 40;
/// Most entries of a cache.
const ENTRIES_MAX: u64 = 1 << 24;
/// Largest content cache.
const CONTENT_BYTES_MAX: u64 = 1 << 44;

/// Smallest chunk of a file that is mapped: a page of the kernel with the largest pages.
const CHUNK_BYTES_LEAST: u64 = 64 * 1024;
/// Largest chunk.
const CHUNK_BYTES_MAX: u64 = 1 << 30;

/// A list of patterns of file names.
const fn hint(
    key: &'static str,
    doc: &'static str,
    more: &'static str,
    set: fn(&mut Settings, Vec<String>),
    clear: fn(&mut Settings),
) -> Setting {
    Setting {
        key,
        task: Task::Caches,
        kind: Kind::Texts {
            form: "a pattern of file names such as *.css or /assets/**",
            empty: true,
            valid: is_pattern,
            set,
        },
        word: Some(Word { name: "none", set: clear }),
        default: Some("none"),
        doc,
        more,
        source: "S3 section 3.1 (M111)",
        ..Setting::ROW
    }
}

/// The settings.
pub(super) const ROWS: &[Setting] = &[
    Setting {
        key: "limit.target",
        task: Task::Limits,
        kind: Kind::Size {
            least: 1,
            most: HEAD_BYTES_MAX,
            set: |s, n| s.limits.target_bytes_max = n as usize,
        },
        default: Some("8KiB"),
        doc: "Longest request target; a longer one is refused with 414",
        more: "It holds per connection.",
        source: "RFC 9112 section 3, RFC 9110 section 15.5.15",
        ..Setting::ROW
    },
    Setting {
        key: "limit.head",
        task: Task::Limits,
        kind: Kind::Size {
            least: HEAD_BYTES_LEAST,
            most: HEAD_BYTES_MAX,
            set: |s, n| s.limits.head_bytes_max = n as usize,
        },
        default: Some("16KiB"),
        doc: "Longest request head; a longer one is refused with 431",
        more: "It holds per connection.",
        source: "RFC 6585 section 5",
        ..Setting::ROW
    },
    Setting {
        key: "limit.fields",
        task: Task::Limits,
        kind: Kind::Integer {
            least: 1,
            most: FIELDS_CAP as u64,
            set: |s, n| s.limits.fields_max = n as usize,
        },
        default: Some("100"),
        doc: "Most field lines in a request head; more are refused with 431",
        more: "It holds per connection.",
        source: "RFC 6585 section 5",
        ..Setting::ROW
    },
    Setting {
        key: "limit.body",
        task: Task::Limits,
        kind: Kind::Size {
            least: 0,
            most: BODY_BYTES_MAX,
            set: |s, n| s.limits.body_bytes_max = n,
        },
        default: Some("64MiB"),
        doc: "Longest request body; a longer one is refused with 413",
        more: "It holds per connection.",
        source: "RFC 9110 section 15.5.14",
        ..Setting::ROW
    },
    Setting {
        key: "limit.drain",
        task: Task::Limits,
        kind: Kind::Size {
            least: 0,
            most: BODY_BYTES_MAX,
            set: |s, n| s.limits.drain_bytes_max = n,
        },
        default: Some("64KiB"),
        doc: "Most bytes of an unwanted body that are read to keep the connection",
        more: "It holds per connection. If the body is longer, the connection is closed after the \
               answer. The answer says so, except if the body is chunked: its length is then not \
               known in time, and a request behind it gets no answer.",
        source: "RFC 9112 section 9.3",
        ..Setting::ROW
    },
    Setting {
        key: "limit.linger",
        task: Task::Limits,
        kind: Kind::Size {
            least: 0,
            most: BODY_BYTES_MAX,
            set: |s, n| s.limits.linger_bytes_max = n,
        },
        default: Some("64MiB"),
        doc: "Most bytes that are discarded while the client reads a refusal",
        more: "It holds per connection. Many clients send a whole upload before they read: one \
               that is reset meanwhile never sees why it was refused. `timeout.linger-most` bounds \
               the time. The bytes are read and forgotten; they take no memory.",
        source: "RFC 9112 section 9.6",
        ..Setting::ROW
    },
    Setting {
        key: "limit.pipeline",
        task: Task::Limits,
        kind: Kind::Integer {
            least: 1,
            most: PIPELINE_MAX,
            set: |s, n| s.limits.pipeline_max = n as u16,
        },
        default: Some("32"),
        doc: "Most pipelined answers gathered before one write, per connection",
        source: "RFC 9112 section 9.3.2, S0 section 2 (M15)",
        ..Setting::ROW
    },
    Setting {
        key: "limit.connections-per-address",
        task: Task::Limits,
        kind: Kind::Integer {
            least: 1,
            most: CLIENT_CONNECTIONS_MAX,
            set: |s, n| s.clients.connections_per_address = Some(n),
        },
        word: Some(Word { name: "off", set: |s| s.clients.connections_per_address = None }),
        default: Some("off"),
        doc: "Most connections of one client address at a time, in all",
        more: "A further connection is answered with 429, whatever it asks for, and closed. Over \
               TLS it is closed in its handshake, without an answer. The limit covers all workers \
               together; the places of a worker that died are free. The address is that of the \
               peer, or of the client that the PROXY protocol names. The connections of a trusted \
               proxy are not counted unless `client.address` is `peer`. An IPv6 client is its \
               network of 64 bits. Connections are not counted for clients beyond 128Ki divided \
               by the number of workers.",
        source: "RFC 6585 section 4",
        ..Setting::ROW
    },
    Setting {
        key: "limit.requests-per-address",
        task: Task::Limits,
        kind: Kind::Integer {
            least: 1,
            most: CLIENT_REQUESTS_MAX,
            set: |s, n| s.clients.requests_per_address = Some(n),
        },
        word: Some(Word { name: "off", set: |s| s.clients.requests_per_address = None }),
        default: Some("off"),
        doc: "Most requests of one client address in a second, in all",
        more: "Further requests are answered with 429 and `Retry-After`. The limit covers all \
               workers together. An IPv6 client is its network of 64 bits. Of more than 64Ki \
               clients at a time, those with the fewest requests are forgotten first.",
        source: "RFC 6585 section 4",
        ..Setting::ROW
    },
    Setting {
        key: "limit.requests-burst",
        task: Task::Limits,
        kind: Kind::Integer {
            least: 1,
            most: CLIENT_REQUESTS_MAX,
            set: |s, n| s.clients.requests_burst = Some(n),
        },
        word: Some(Word { name: "auto", set: |s| s.clients.requests_burst = None }),
        default: Some("auto"),
        doc: "Most requests of one client address at once, in all",
        more: "`auto` is as many as `limit.requests-per-address` allows in a second.",
        source: "ITU-T I.371 annex A",
        ..Setting::ROW
    },
    Setting {
        key: "limit.bandwidth",
        task: Task::Limits,
        kind: Kind::Size {
            least: BANDWIDTH_LEAST,
            most: BANDWIDTH_MAX,
            set: |s, n| s.bandwidth = Some(n),
        },
        word: Some(Word { name: "off", set: |s| s.bandwidth = None }),
        default: Some("off"),
        doc: "Most bytes that a connection is sent in a second",
        more: "It holds per connection. The kernel paces the segments of the connection; the first \
               ten leave at once. Packet headers count.",
        source: "SO_MAX_PACING_RATE in socket(7)",
        ..Setting::ROW
    },
    Setting {
        key: "timeout.head",
        task: Task::Limits,
        kind: Kind::Duration {
            least_ms: 1,
            most_ms: TIME_MS_MAX,
            set: |s, ms| s.limits.head_ms = ms,
        },
        default: Some("10s"),
        doc: "Time for a whole request head",
        more: "Per connection. It counts from the first byte, and on a new connection from accept.",
        source: "RFC 9112 section 9.5",
        changes: Changes::InPlace,
        ..Setting::ROW
    },
    Setting {
        key: "timeout.handshake",
        task: Task::Limits,
        kind: Kind::Duration {
            least_ms: 1,
            most_ms: TIME_MS_MAX,
            set: |s, ms| s.limits.handshake_ms = ms,
        },
        default: Some("10s"),
        doc: "Time for the handshake of TLS",
        more: "Per connection. It counts from accept; then the time of `timeout.head` begins.",
        source: "RFC 8446 section 4",
        changes: Changes::InPlace,
        ..Setting::ROW
    },
    Setting {
        key: "timeout.idle",
        task: Task::Limits,
        kind: Kind::Duration {
            least_ms: 1,
            most_ms: TIME_MS_MAX,
            set: |s, ms| s.limits.idle_ms = ms,
        },
        default: Some("1min"),
        doc: "Time between requests on a kept connection",
        more: "Per connection. It begins when the client has received its last answer: one \
               that still reads has `timeout.send` without progress.",
        source: "RFC 9112 section 9.5",
        changes: Changes::InPlace,
        ..Setting::ROW
    },
    Setting {
        key: "timeout.answer",
        task: Task::Limits,
        kind: Kind::Duration {
            least_ms: 1,
            most_ms: TIME_MS_MAX,
            set: |s, ms| s.limits.answer_ms = ms,
        },
        default: Some("1min"),
        doc: "Time for the work behind one answer",
        more: "Per connection, for each answer.",
        changes: Changes::InPlace,
        ..Setting::ROW
    },
    Setting {
        key: "timeout.send",
        task: Task::Limits,
        kind: Kind::Duration {
            least_ms: WINDOW_MS_LEAST,
            most_ms: TIME_MS_MAX,
            set: |s, ms| s.limits.send_ms = ms,
        },
        default: Some("1min"),
        doc: "How long a client may take nothing of an answer",
        more: "Per connection. Bytes that are only in the socket's buffer do not count as taken. \
               The server checks at the end of each `rate.window`, or of this time if it is \
               shorter.",
        changes: Changes::InPlace,
        ..Setting::ROW
    },
    Setting {
        key: "timeout.linger",
        task: Task::Limits,
        kind: Kind::Duration {
            least_ms: 0,
            most_ms: TIME_MS_MAX,
            set: |s, ms| s.limits.linger_ms = ms,
        },
        default: Some("2s"),
        doc: "Time spent waiting for the client to read a last answer",
        more: "Per connection. After a refusal, and where a connection ends in order while its \
               socket still holds some of an answer. It begins again with each byte that the \
               client sends.",
        source: "RFC 9112 section 9.6",
        changes: Changes::InPlace,
        ..Setting::ROW
    },
    Setting {
        key: "timeout.linger-most",
        task: Task::Limits,
        kind: Kind::Duration {
            least_ms: 0,
            most_ms: TIME_MS_MAX,
            set: |s, ms| s.limits.linger_ms_max = ms,
        },
        default: Some("30s"),
        doc: "The same in all, while the client goes on sending",
        more: "Per connection, from when the answer was sent. A client that sends 20 MB needs 16 s \
               at 10 Mbit/s. With `close.idle-when-full`, such a connection gives its place to \
               another after a second where all are taken, and so does a process of `mp`. At least \
               `timeout.linger` holds.",
        source: "RFC 9112 section 9.6, lingering_time of nginx",
        changes: Changes::InPlace,
        ..Setting::ROW
    },
    Setting {
        key: "rate.window",
        task: Task::Limits,
        kind: Kind::Duration {
            least_ms: WINDOW_MS_LEAST,
            most_ms: WINDOW_MS_MAX,
            set: |s, ms| s.limits.rate_window_ms = ms,
        },
        default: Some("10s"),
        doc: "Length of the windows over which the minimum data rates hold",
        more: "Per connection.",
        changes: Changes::InPlace,
        ..Setting::ROW
    },
    Setting {
        key: "rate.body-min",
        task: Task::Limits,
        kind: Kind::Size { least: 0, most: RATE_MAX, set: |s, n| s.limits.body_rate_min = n },
        default: Some("512B"),
        doc: "Least bytes of request body per second; 0 demands none",
        more: "Per connection. The average over `rate.window` counts. A slower connection is \
               closed.",
        changes: Changes::InPlace,
        ..Setting::ROW
    },
    Setting {
        key: "rate.send-min",
        task: Task::Limits,
        kind: Kind::Size { least: 0, most: RATE_MAX, set: |s, n| s.limits.send_rate_min = n },
        default: Some("512B"),
        doc: "Least bytes of answer taken by the client per second; 0 demands none",
        more: "Per connection. The average over `rate.window` counts; bytes that are only in the \
               socket's buffer do not. A client that is slower, or has paused, keeps its \
               connection until another client needs its place or `timeout.send` is over. Without \
               `close.idle-when-full`, or with `send.blocking`, it is closed at the end of the \
               window.",
        changes: Changes::InPlace,
        ..Setting::ROW
    },
    Setting {
        key: "head.server",
        task: Task::Sending,
        kind: Kind::Switch { set: |s, on| s.limits.server_field = on },
        default: Some("true"),
        doc: "Whether answers carry `Server: flyball`",
        source: "RFC 9110 section 10.2.4",
        ..Setting::ROW
    },
    Setting {
        key: "cache.paths",
        task: Task::Caches,
        kind: Kind::Integer {
            least: 0,
            most: ENTRIES_MAX,
            set: |s, n| s.caches.paths_max = n as usize,
        },
        default: Some("6000"),
        doc: "Entries of the path-translation cache; 0 turns it off",
        more: "Per worker, whose threads share it; in all for the processes of `shared-symped`, \
               which share theirs. Paths that name nothing are held too. The least recently used \
               path makes room, whatever `cache.policy` says.",
        source: "S2 section 5.2 (M89)",
        changes: Changes::Generation,
        ..Setting::ROW
    },
    Setting {
        key: "cache.heads",
        task: Task::Caches,
        kind: Kind::Switch { set: |s, on| s.caches.heads = on },
        default: Some("true"),
        doc: "Whether the head of an answer is kept with its file",
        source: "S2 section 5.3 (M90), S3 section 3.2.2 (M117)",
        ..Setting::ROW
    },
    Setting {
        key: "cache.content",
        task: Task::Caches,
        kind: Kind::Size {
            least: 0,
            most: CONTENT_BYTES_MAX,
            set: |s, n| s.caches.content_bytes_max = n,
        },
        default: Some("128MiB"),
        doc: "Bytes of memory that all caches take, per worker; 0 holds no bodies",
        more: "The threads of a worker share it. Bodies, heads, names, paths and the maps count, \
               with the overhead of the allocator. Files that `send.mode` mapped keeps mapped do \
               not count: their limit is `cache.mapped`. `tux` pins the entries of its cache: each \
               body is locked in memory, in whole pages, as far as RLIMIT_MEMLOCK allows, and when \
               the cache is full no other file is admitted. `shared-symped` sends files from the \
               page cache; only the bodies that it has compressed count, of all its processes \
               together.",
        source: "S2 section 5.4 (M91), S3 section 4 (M121)",
        changes: Changes::Generation,
        tune: Some(Range { values: &["32MiB", "128MiB", "512MiB"], ordered: true }),
        ..Setting::ROW
    },
    Setting {
        key: "cache.files",
        task: Task::Caches,
        kind: Kind::Integer {
            least: 0,
            most: ENTRIES_MAX,
            set: |s, n| s.caches.files_max = n as usize,
        },
        default: Some("1024"),
        doc: "Open descriptors of larger files held; 0 holds none",
        more: "Per worker, whose threads share them; in all for the processes of `shared-symped`.",
        source: "S4 section 4 (M148)",
        changes: Changes::Generation,
        tune: Some(Range { values: &["256", "1024", "8192"], ordered: true }),
        ..Setting::ROW
    },
    Setting {
        key: "cache.mapped",
        task: Task::Caches,
        kind: Kind::Size { least: 0, most: CONTENT_BYTES_MAX, set: |s, n| s.mapped_bytes_max = n },
        default: Some("128MiB"),
        doc: "Bytes of files that stay mapped, per worker, with `send.mode` mapped",
        more: "It is not part of `cache.content`: mapped memory belongs to the page cache, and the \
               kernel may take it back. Beyond the limit, chunks that are not being sent are \
               unmapped, the least recently used first, and with `hinted` those of `cache.keep` \
               and then of `cache.pin` last; chunks that are being sent may exceed it. Files that \
               the caches never hold (`cache.never`, `cache.least`, `cache.most`) are unmapped as \
               soon as they are sent. The space of a removed file is free only when its chunks are \
               unmapped. The default is 4MiB for each process of `mp`.",
        source: "S2 section 5.4 (M91)",
        changes: Changes::Generation,
        ..Setting::ROW
    },
    Setting {
        key: "cache.chunk",
        task: Task::Caches,
        kind: Kind::Size {
            least: CHUNK_BYTES_LEAST,
            most: CHUNK_BYTES_MAX,
            set: |s, n| s.chunk_bytes = n as usize,
        },
        default: Some("256KiB"),
        doc: "Bytes of a file that are mapped at a time, in whole 64 KiB",
        more: "A smaller file is one chunk.",
        source: "S2 section 5.4 (M91)",
        ..Setting::ROW
    },
    Setting {
        key: "cache.small",
        task: Task::Caches,
        kind: Kind::Size {
            least: 0,
            most: CONTENT_BYTES_MAX,
            set: |s, n| s.caches.small_bytes_max = n,
        },
        default: Some("64KiB"),
        doc: "Largest file body that is held in memory",
        more: "Such a body leaves in one gather write with its head; a larger one leaves in pieces \
               of `send.piece`.",
        source: "S2 section 5.4 (M91), S3 section 4 (M121)",
        tune: Some(Range { values: &["16KiB", "64KiB", "256KiB"], ordered: true }),
        ..Setting::ROW
    },
    Setting {
        key: "cache.policy",
        task: Task::Caches,
        kind: Kind::OneOf {
            names: &[
                Word { name: "lru", set: |s| s.caches.policy = CachePolicy::Lru },
                Word { name: "lfu", set: |s| s.caches.policy = CachePolicy::Lfu },
                Word { name: "hinted", set: |s| s.caches.policy = CachePolicy::Hinted },
                Word { name: "structured", set: |s| s.caches.policy = CachePolicy::Structured },
            ],
        },
        default: Some("lru"),
        doc: "Which file makes room for the next when the caches are full",
        more: "`lru` evicts the file that was used longest ago, `lfu` the one with the fewest \
               uses, which fade with time. `hinted` follows `cache.pin`, `cache.keep` and \
               `cache.never`, and otherwise use. `structured` treats a page and its images, \
               scripts and style sheets as one: it loads them after the page was answered, and \
               evicts them with it; caches that threads share then have one lock. `flyball cache \
               simulate` reports how well each does on an access log. `tux` pins the entries of \
               its cache, and `shared-symped` has its own order.",
        source: "S3 section 3.1 (M111)",
        ..Setting::ROW
    },
    hint(
        "cache.pin",
        "Files that `hinted` brings in and never pushes out",
        "A pattern without a slash is matched against the last part of a file's name, such as \
         `*.css`; one with a slash against the whole name from the root of its site, such as \
         `/assets/**`. `*` and `?` stand for no slash, `**` for anything. Files that are named \
         without any of them are brought in as soon as a connection has nothing else to do, the \
         others when they are first asked for. When the pinned ones fill the cache, no other is \
         admitted. What is mapped of them (`send.mode` mapped) is unmapped last.",
        |s, patterns| s.caches.hints.pin = patterns,
        |s| s.caches.hints.pin.clear(),
    ),
    hint(
        "cache.keep",
        "Files that `hinted` pushes out last",
        "Patterns as in `cache.pin`.",
        |s, patterns| s.caches.hints.keep = patterns,
        |s| s.caches.hints.keep.clear(),
    ),
    hint(
        "cache.never",
        "Files that `hinted` never holds",
        "Patterns as in `cache.pin`, which they override; such a file is opened for each request.",
        |s, patterns| s.caches.hints.never = patterns,
        |s| s.caches.hints.never.clear(),
    ),
    Setting {
        key: "cache.revalidate",
        task: Task::Caches,
        kind: Kind::Duration {
            least_ms: 0,
            most_ms: TIME_MS_MAX,
            set: |s, ms| s.caches.revalidate_ms = ms,
        },
        default: Some("1s"),
        doc: "How long a cache entry holds before its file is checked again",
        ..Setting::ROW
    },
];
