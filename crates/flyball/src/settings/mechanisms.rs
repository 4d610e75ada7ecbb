//! The table of the mechanisms of event-driven servers and of their sockets: each can be switched
//! alone, so that what it is worth can be measured.

use flyball_arch::WorkOrder;

use super::kind::Kind;
use super::table::{Range, Setting, Task, UsedBy, Word};

/// Highest number of a CPU.
const CPU_MAX: u64 = 65_535;
/// Most connections that may be demanded between two accept phases.
const EXTRA_MAX: u64 = 1_000_000;
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
        more: "`auto` is all that the affinity mask allows. One that it does not allow is an \
               error at start. Without `pin` it has no effect.",
        source: "S4 section 4 (M151)",
        ..Setting::ROW
    },
    Setting {
        key: "accept.incoming-cpu",
        task: Task::Accepting,
        kind: Kind::Switch { set: |s, on| s.incoming_cpu = on },
        default: Some("false"),
        doc: "Whether a pinned worker gets the connections that its CPU took in",
        more: "Used where each worker has a listening socket of its own and `pin` is on: the \
               kernel prefers the socket of the CPU that handled the packet. It is of use when \
               interrupts are spread over the same CPUs.",
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
        more: "Each then has addresses of its own, in turn; where workers are more than addresses, \
               each has one and shares it with some of the others. With an address for each \
               subnet and `pin`, the connections of a subnet are served by the CPUs of its \
               workers.",
        source: "S4 section 4 (M151)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "accept.extra",
        task: Task::Accepting,
        kind: Kind::Integer { least: 0, most: EXTRA_MAX, set: |s, n| s.accept_extra = n },
        default: Some("0"),
        doc: "Connections worked on before accepting again; 0 is all of them",
        more: "After each so many connections worked on there is an accept phase within the work \
               phase, whether a listening socket was reported or not. What it accepts is worked on \
               in the next work phase.",
        source: "The µserver's extra accepts (M50)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "accept.on-close",
        task: Task::Accepting,
        kind: Kind::Switch { set: |s, on| s.accept_on_close = on },
        default: Some("false"),
        doc: "Whether one connection is accepted whenever one closes",
        more: "Nothing is accepted that way while accepting is paused.",
        source: "The µserver's accept on close (M51)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "accept.every-loop",
        task: Task::Accepting,
        kind: Kind::Switch { set: |s, on| s.accept_every_loop = on },
        default: Some("false"),
        doc: "Whether every loop has an accept phase, even if none is reported",
        more: "The listening sockets stay watched, so that a loop that waits is woken.",
        source: "The µserver's accepts in the server loop (M52)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "accept.free-threshold",
        task: Task::Accepting,
        kind: Kind::Integer { least: 1, most: FREE_MAX, set: |s, n| s.free_threshold = n as usize },
        default: Some("1"),
        doc: "Free connections at which a full worker accepts again",
        more: "A worker with `connections.max` open connections stops accepting; it starts again \
               when so many could be opened. A number beyond `connections.max` waits until none \
               is open.",
        source: "The µserver's threshold of free descriptors (M53)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "accept.modify-listeners",
        task: Task::Accepting,
        kind: Kind::Switch { set: |s, on| s.modify_listeners = on },
        default: Some("false"),
        doc: "Whether a pause changes the watch of the listening sockets",
        more: "Else they are taken out of the event mechanism and put in again. A socket that is \
               watched exclusively (`accept.exclusive`) cannot be changed and is taken out.",
        source: "The µserver's epoll-modify-listeners (M57), EPOLL_CTL_MOD in epoll_ctl(2)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "work.order",
        task: Task::Accepting,
        kind: Kind::OneOf {
            names: &[
                Word { name: "fifo", set: |s| s.work_order = WorkOrder::Fifo },
                Word { name: "lifo", set: |s| s.work_order = WorkOrder::Lifo },
                Word { name: "up", set: |s| s.work_order = WorkOrder::Up },
                Word { name: "down", set: |s| s.work_order = WorkOrder::Down },
                Word { name: "writes-first-up", set: |s| s.work_order = WorkOrder::WritesFirstUp },
                Word {
                    name: "writes-first-down",
                    set: |s| s.work_order = WorkOrder::WritesFirstDown,
                },
                Word { name: "lru", set: |s| s.work_order = WorkOrder::Lru },
            ],
        },
        default: Some("fifo"),
        doc: "Order in which ready connections are worked on",
        more: "`fifo`: those left over from the last work phase, then those that the event \
               mechanism reported, then those just accepted, each as they came. `lifo`: the \
               reverse. `up`, `down`: by descriptor, lowest or highest first. `writes-first-up`, \
               `writes-first-down`: connections with output to send before those with none, each \
               lot by descriptor. `lru`: least recently worked on first, where accepting counts \
               as work.",
        source: "The µserver's processing orders (M49)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "work.eager-write",
        task: Task::Accepting,
        kind: Kind::Switch { set: |s, on| s.eager_write = on },
        default: Some("true"),
        doc: "Whether an answer is written in the turn that made it",
        more: "When false, it is written when the event mechanism has reported room in the socket, \
               again for each piece. Edge-triggered, one report holds until the socket is full.",
        source: "The µserver's eager writes (M54)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "work.full-read",
        task: Task::Accepting,
        kind: Kind::Switch { set: |s, on| s.full_read = on },
        default: Some("false"),
        doc: "Whether a connection is read until a read would block",
        more: "When false, a read that did not fill the buffer is taken to have emptied the \
               socket. A turn makes at most four reads either way; what is left has its turn in \
               the next work phase.",
        source: "The µserver's full reads (M54)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "close.reset",
        task: Task::Accepting,
        kind: Kind::Switch { set: |s, on| s.close_reset = on },
        default: Some("false"),
        doc: "Whether idle and refused connections are closed with a reset",
        more: "It holds for connections that end by `timeout.idle` or `timeout.head`, that were \
               refused, or that were closed to make room (`close.idle-when-full`), and only once \
               the client has acknowledged everything that was sent. All others are closed in the \
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
        more: "When clients wait for a place while `connections.max` connections are open, or \
               every thread has one, or descriptors are out, as many connections are closed that \
               have waited for a request for a second or longer: first those that sent no whole \
               head, then those that are kept, the oldest of each first. Event loops close at \
               least `accept.free-threshold`. `timeout.idle` and `timeout.head` hold besides.",
        source: "The µserver's closing of idle connections (M56)",
        ..Setting::ROW
    },
    Setting {
        key: "send.blocking",
        task: Task::Sending,
        kind: Kind::Switch { set: |s, on| s.send_blocking = on },
        default: Some("false"),
        doc: "Whether large bodies are sent by calls that block",
        more: "Where event loops send by sendfile: the call then waits until the client has taken \
               the piece, half a second at most, and with it waits the whole loop. All other calls \
               on a connection stay as they are. In `watpipe` a thread of the Write stage keeps \
               the connection and waits in its calls, copies as well as sendfile, until \
               everything is sent; deadlines are looked at twice a second.",
        source: "S4 sections 5 and 8 (M149)",
        used_by: UsedBy::Some,
        tune: Some(Range { values: &["false", "true"], ordered: false }),
        ..Setting::ROW
    },
    Setting {
        key: "send.cork",
        task: Task::Sending,
        kind: Kind::Switch { set: |s, on| s.cork = on },
        default: Some("false"),
        doc: "Whether TCP_CORK joins a head and its large body",
        more: "Two more system calls per large body; else the flag MSG_MORE on the head does the \
               same at no cost.",
        source: "The µserver's cork (M58), S4 section 4 (M148), TCP_CORK in tcp(7)",
        used_by: UsedBy::Some,
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
        more: "`auto` lets the kernel adjust it, as `net.ipv4.tcp_wmem` allows; a size is fixed. \
               The kernel cuts it to `net.core.wmem_max` and doubles it for its own needs; the \
               server warns when it is cut.",
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
