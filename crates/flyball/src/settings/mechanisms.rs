//! The table of the mechanisms of event-driven servers and of their sockets: each can be switched
//! alone, so that what it is worth can be measured.

use super::kind::Kind;
use super::table::{Range, Setting, Task, UsedBy, Word};

/// Highest number of a CPU.
const CPU_MAX: u64 = 65_535;
/// Most free connection slots that may be demanded.
const FREE_MAX: u64 = 1 << 30;
/// Smallest socket buffer: the kernel takes no smaller one (socket(7)).
const BUFFER_BYTES_LEAST: u64 = 2048;
/// Largest socket buffer: the kernel holds twice the size in a signed integer.
const BUFFER_BYTES_MAX: u64 = 1 << 29;

/// Every setting of a mechanism, in the order of the documentation.
pub(super) const ROWS: &[Setting] = &[
    Setting {
        key: "pin-cpus",
        task: Task::Accepting,
        kind: Kind::Integers {
            least: 0,
            most: CPU_MAX,
            set: |s, cpus| s.pin_cpus = cpus.iter().map(|cpu| *cpu as usize).collect(),
        },
        word: Some(Word { name: "auto", set: |s| s.pin_cpus.clear() }),
        default: Some("auto"),
        doc: "The CPUs that `pin` binds workers to, in turn",
        more: "`auto` is all CPUs that the affinity mask allows. A CPU that it does not allow is \
               an error at start. Without `pin` it has no effect.",
        source: "S4 section 4 (M151)",
        ..Setting::ROW
    },
    Setting {
        key: "accept.incoming-cpu",
        task: Task::Accepting,
        kind: Kind::Switch { set: |s, on| s.incoming_cpu = on },
        default: Some("false"),
        doc: "Whether a pinned worker gets the connections that its CPU took in",
        more: "Used if each worker has its own listening socket and `pin` is on: the kernel \
               prefers the socket of the CPU that handled the packet. It helps if interrupts are \
               spread over the same CPUs.",
        source: "S4 section 4 (M151), SO_INCOMING_CPU in socket(7)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "accept.by-address",
        task: Task::Accepting,
        kind: Kind::Switch { set: |s, on| s.by_address = on },
        default: Some("false"),
        doc: "Whether workers divide the addresses of `listen` among them",
        more: "Each worker then has its own addresses, in turn. With more workers than addresses, \
               each has one and shares it with some of the others. With an address for each subnet \
               and `pin`, the CPUs of its workers serve the connections of a subnet.",
        source: "S4 section 4 (M151)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "accept.free-threshold",
        task: Task::Accepting,
        kind: Kind::Integer { least: 1, most: FREE_MAX, set: |s, n| s.free_threshold = n as usize },
        default: Some("1"),
        doc: "Free connections at which a full worker accepts again",
        more: "A worker with `connections.max` open connections stops accepting. It starts again \
               when this many more could be opened. With a number beyond `connections.max` it \
               waits until none is open.",
        source: "The µserver's threshold of free descriptors (M53)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "close.reset",
        task: Task::Accepting,
        kind: Kind::Switch { set: |s, on| s.close_reset = on },
        default: Some("false"),
        doc: "Whether idle and refused connections are closed with a reset",
        more: "It concerns connections that end by `timeout.idle` or `timeout.head`, that were \
               refused, or that were closed to make room (`close.idle-when-full`), and only if the \
               client has acknowledged everything that was sent. All others are closed in the \
               ordinary way.",
        source: "The µserver's close with reset (M56), SO_LINGER in socket(7)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "close.idle-when-full",
        task: Task::Limits,
        kind: Kind::Switch { set: |s, on| s.close_idle_when_full = on },
        default: Some("true"),
        doc: "Whether idle connections make room when a worker is full",
        more: "Clients wait for a place if `connections.max` connections are open, if every thread \
               has one, or if descriptors run out. The server then closes as many connections as \
               clients wait, of those that have waited for a request for a second or longer: first \
               those that sent no whole head, then kept ones, the oldest of each first. Event \
               loops close at least `accept.free-threshold`. `timeout.idle` and `timeout.head` \
               apply as well.",
        source: "The µserver's closing of idle connections (M56)",
        ..Setting::ROW
    },
    Setting {
        key: "send.blocking",
        task: Task::Sending,
        kind: Kind::Switch { set: |s, on| s.send_blocking = on },
        default: Some("false"),
        doc: "Whether large bodies are sent by calls that block",
        more: "In event loops it concerns sendfile: the call waits until the client has taken the \
               piece, of 64 KiB at most, and the whole loop waits with it. It gives up when the \
               client takes nothing for half a second. The loop waits for a slow client once: \
               where a call took a quarter of a second, the connection waits like others from \
               then on. All other calls on a connection stay as they are. In `watpipe` a thread of \
               the Write stage keeps the connection and waits in its calls, copies as well as \
               sendfile, until everything is sent; it checks deadlines twice a second.",
        source: "S4 sections 5 and 8 (M149)",
        used_by: UsedBy::Some,
        tune: Some(Range { values: &["false", "true"], ordered: false }),
        ..Setting::ROW
    },
    Setting {
        key: "send.no-delay",
        task: Task::Sending,
        kind: Kind::Switch { set: |s, on| s.no_delay = on },
        default: Some("true"),
        doc: "Whether small segments leave at once (TCP_NODELAY)",
        more: "When false, a small segment waits for the acknowledgement of what was sent before.",
        source: "S3 section 4 (M124), S4 section 4 (M148)",
        ..Setting::ROW
    },
    Setting {
        key: "send.buffer",
        task: Task::Sending,
        kind: Kind::Size {
            least: BUFFER_BYTES_LEAST,
            most: BUFFER_BYTES_MAX,
            set: |s, n| s.send_buffer = Some(n as u32),
        },
        word: Some(Word { name: "auto", set: |s| s.send_buffer = None }),
        default: Some("auto"),
        doc: "Send buffer of each connection",
        more: "With `auto` the kernel adjusts it within `net.ipv4.tcp_wmem`; a size is fixed. The \
               kernel cuts a size to `net.core.wmem_max`, with a warning of the server, and \
               doubles it for its own needs.",
        source: "S3 section 4 (M124), SO_SNDBUF in socket(7)",
        ..Setting::ROW
    },
    Setting {
        key: "receive.buffer",
        task: Task::Sending,
        kind: Kind::Size {
            least: BUFFER_BYTES_LEAST,
            most: BUFFER_BYTES_MAX,
            set: |s, n| s.receive_buffer = Some(n as u32),
        },
        word: Some(Word { name: "auto", set: |s| s.receive_buffer = None }),
        default: Some("auto"),
        doc: "Receive buffer of each connection",
        more: "As `send.buffer`, with `net.ipv4.tcp_rmem` and `net.core.rmem_max`.",
        source: "S3 section 4 (M124), SO_RCVBUF in socket(7)",
        ..Setting::ROW
    },
];
