//! The table of the switches of experiments: what a mechanism of the papers is worth, and what the
//! habits cost that the papers advise against. A server in use needs none of them.

use flyball_arch::{CloseAfter, CompletionOrder, WorkOrder};
use flyball_sys::lock::Way;

use super::kind::Kind;
use super::table::{Setting, Task, UsedBy, Word};

/// Most spaces that the head of an answer can be padded by.
const HEAD_ALIGN_MAX: u64 = 64;
/// Most connections that may be demanded between two accept phases.
const EXTRA_MAX: u64 = 1_000_000;

/// Every switch, in the order of the documentation.
pub(super) const ROWS: &[Setting] = &[
    Setting {
        key: "experiment.reject-rate",
        task: Task::Experiment,
        kind: Kind::Integer {
            least: 0,
            most: 100,
            set: |s, n| s.try_out(|tried| tried.reject_percent = n),
        },
        default: Some("0"),
        doc: "Percent of connections that are closed right after they are accepted",
        more: "The choice is even, not random: at 25, every fourth connection is closed.",
        source: "The µserver's rejection rate (M55)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "experiment.close-after",
        task: Task::Experiment,
        kind: Kind::OneOf {
            names: &[
                Word {
                    name: "off",
                    set: |s| s.try_out(|tried| tried.close_after = CloseAfter::Off),
                },
                Word {
                    name: "accept",
                    set: |s| s.try_out(|tried| tried.close_after = CloseAfter::Accept),
                },
                Word {
                    name: "read",
                    set: |s| s.try_out(|tried| tried.close_after = CloseAfter::Read),
                },
                Word {
                    name: "parse",
                    set: |s| s.try_out(|tried| tried.close_after = CloseAfter::Parse),
                },
            ],
        },
        default: Some("off"),
        doc: "Stage after which every connection is closed without an answer",
        more: "It separates the costs of accepting, reading and parsing: `read` closes after the \
               first bytes, `parse` after the first whole head.",
        source: "The µserver's close after accept, read and parse (M55)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "experiment.head-align",
        task: Task::Experiment,
        kind: Kind::Integer {
            least: 1,
            most: HEAD_ALIGN_MAX,
            set: |s, n| s.try_out(|tried| tried.head.align = n as usize),
        },
        default: Some("1"),
        doc: "The head of each answer is padded to a multiple of this many bytes",
        more: "1 is no padding; Flash pads to 32.",
        source: "S2 section 5.5 (M93)",
        ..Setting::ROW
    },
    Setting {
        key: "experiment.date-cache",
        task: Task::Experiment,
        kind: Kind::Switch { set: |s, on| s.try_out(|tried| tried.head.date_cached = on) },
        default: Some("true"),
        doc: "Whether `Date` is formatted once a second",
        more: "`false` formats it for each answer.",
        source: "S3 sections 3.2.2 and 4 (M117, M123)",
        ..Setting::ROW
    },
    Setting {
        key: "experiment.gather",
        task: Task::Experiment,
        kind: Kind::Switch { set: |s, on| s.try_out(|tried| tried.head.joins_bodies = on) },
        default: Some("true"),
        doc: "Whether a head and its body leave in one write",
        more: "`false` writes each of them by itself, and each answer of a pipelined batch. The \
               head then leaves in a segment of its own; without `send.no-delay` the body would \
               wait for its acknowledgement. Large bodies follow their head corked either way.",
        source: "S3 section 3.2.2 (M117), S2 section 5.5 (M93)",
        ..Setting::ROW
    },
    Setting {
        key: "experiment.entry-locks",
        task: Task::Experiment,
        kind: Kind::OneOf {
            names: &[
                Word { name: "entry", set: |s| s.try_out(|tried| tried.global_lock = false) },
                Word { name: "global", set: |s| s.try_out(|tried| tried.global_lock = true) },
            ],
        },
        default: Some("entry"),
        doc: "Whether shared caches have many locks or one",
        more: "`global` has one lock for all, held while a path and its file are looked up; else \
               each bucket has its own, and in `shared-symped` each file. `knot-c` and `knot-a` \
               share their cache without locks.",
        source: "S3 sections 2.4 and 3.2.4 (M118, M125)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "experiment.directory-config",
        task: Task::Experiment,
        kind: Kind::Switch { set: |s, on| s.try_out(|tried| tried.directory_config = on) },
        default: Some("false"),
        doc: "Whether each directory is searched for a file of settings",
        more: "`true` tries to open `.htaccess` in every directory of the path of each request, at \
               most 64 of them, and ignores the result.",
        source: "S3 section 2.4 (M125)",
        ..Setting::ROW
    },
    Setting {
        key: "experiment.accept-lock",
        task: Task::Experiment,
        kind: Kind::OneOf {
            names: &[
                Word { name: "off", set: |s| s.try_out(|tried| tried.accept_lock = None) },
                Word {
                    name: "fcntl",
                    set: |s| s.try_out(|tried| tried.accept_lock = Some(Way::Fcntl)),
                },
                Word {
                    name: "flock",
                    set: |s| s.try_out(|tried| tried.accept_lock = Some(Way::Flock)),
                },
            ],
        },
        default: Some("off"),
        doc: "Lock that is held around accept",
        more: "Of the processes or threads that share a socket, one at a time is in accept, \
               or in an accept phase; the others wait for a lock on a file.",
        source: "S3 section 2.4 (M125)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "experiment.signal-mask",
        task: Task::Experiment,
        kind: Kind::Switch { set: |s, on| s.try_out(|tried| tried.signal_mask = on) },
        default: Some("false"),
        doc: "Whether signals are masked around each request",
        more: "`true` masks all signals while a request is looked up, and unmasks them again.",
        source: "S3 section 2.4 (M125)",
        ..Setting::ROW
    },
    Setting {
        key: "experiment.accept-extra",
        task: Task::Experiment,
        kind: Kind::Integer {
            least: 0,
            most: EXTRA_MAX,
            set: |s, n| s.try_habit(|loops| loops.accept_extra = n),
        },
        default: Some("0"),
        doc: "Connections worked on before accepting again; 0 is all of them",
        more: "After this many connections there is an accept phase within the work phase, whether \
               a listening socket was reported or not. The connections that it accepts are worked \
               on in the next work phase.",
        source: "The µserver's extra accepts (M50)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "experiment.accept-on-close",
        task: Task::Experiment,
        kind: Kind::Switch { set: |s, on| s.try_habit(|loops| loops.accept_on_close = on) },
        default: Some("false"),
        doc: "Whether one connection is accepted whenever one closes",
        more: "Nothing is accepted that way while accepting is paused.",
        source: "The µserver's accept on close (M51)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "experiment.accept-every-loop",
        task: Task::Experiment,
        kind: Kind::Switch { set: |s, on| s.try_habit(|loops| loops.accept_every_loop = on) },
        default: Some("false"),
        doc: "Whether every loop has an accept phase, even if none is reported",
        more: "The listening sockets stay watched, so that a new connection wakes a waiting loop.",
        source: "The µserver's accepts in the server loop (M52)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "experiment.modify-listeners",
        task: Task::Experiment,
        kind: Kind::Switch { set: |s, on| s.try_habit(|loops| loops.modify_listeners = on) },
        default: Some("false"),
        doc: "Whether a pause changes the watch of the listening sockets",
        more: "Otherwise they are taken out of the event mechanism and put in again. A socket that \
               is watched exclusively (`accept.exclusive`) cannot be changed and is taken out.",
        source: "The µserver's epoll-modify-listeners (M57), EPOLL_CTL_MOD in epoll_ctl(2)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "experiment.work-order",
        task: Task::Experiment,
        kind: Kind::OneOf {
            names: &[
                Word {
                    name: "fifo",
                    set: |s| s.try_habit(|loops| loops.work_order = WorkOrder::Fifo),
                },
                Word {
                    name: "lifo",
                    set: |s| s.try_habit(|loops| loops.work_order = WorkOrder::Lifo),
                },
                Word { name: "up", set: |s| s.try_habit(|loops| loops.work_order = WorkOrder::Up) },
                Word {
                    name: "down",
                    set: |s| s.try_habit(|loops| loops.work_order = WorkOrder::Down),
                },
                Word {
                    name: "writes-first-up",
                    set: |s| s.try_habit(|loops| loops.work_order = WorkOrder::WritesFirstUp),
                },
                Word {
                    name: "writes-first-down",
                    set: |s| s.try_habit(|loops| loops.work_order = WorkOrder::WritesFirstDown),
                },
                Word {
                    name: "lru",
                    set: |s| s.try_habit(|loops| loops.work_order = WorkOrder::Lru),
                },
            ],
        },
        default: Some("fifo"),
        doc: "Order in which ready connections are worked on",
        more: "`fifo`: those left from the last work phase, then those that the event mechanism \
               reported, then those just accepted, each as they came. `lifo`: the reverse. `up`, \
               `down`: by descriptor, lowest or highest first. `writes-first-up`, \
               `writes-first-down`: connections with output before those without, each group by \
               descriptor. `lru`: least recently worked on first, where accepting counts as work.",
        source: "The µserver's processing orders (M49)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "experiment.eager-write",
        task: Task::Experiment,
        kind: Kind::Switch { set: |s, on| s.try_habit(|loops| loops.eager_write = on) },
        default: Some("true"),
        doc: "Whether an answer is written in the turn that made it",
        more: "When false, it is written after the event mechanism has reported room in the \
               socket, and so is each piece. Edge-triggered, one report holds until the socket is \
               full.",
        source: "The µserver's eager writes (M54)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "experiment.full-read",
        task: Task::Experiment,
        kind: Kind::Switch { set: |s, on| s.try_habit(|loops| loops.full_read = on) },
        default: Some("false"),
        doc: "Whether a connection is read until a read would block",
        more: "When false, a read that did not fill the buffer counts as having emptied the \
               socket. A turn makes at most four reads in either case; the rest waits for the next \
               work phase.",
        source: "The µserver's full reads (M54)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "experiment.cork",
        task: Task::Experiment,
        kind: Kind::Switch { set: |s, on| s.try_habit(|loops| loops.cork = on) },
        default: Some("false"),
        doc: "Whether TCP_CORK joins a head and its large body",
        more: "It takes two more system calls for each large body. Otherwise the flag MSG_MORE on \
               the head does the same at no cost.",
        source: "The µserver's cork (M58), S4 section 4 (M148), TCP_CORK in tcp(7)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
    Setting {
        key: "experiment.completion-order",
        task: Task::Experiment,
        kind: Kind::OneOf {
            names: &[
                Word {
                    name: "arrival",
                    set: |s| s.try_habit(|loops| loops.completion_order = CompletionOrder::Arrival),
                },
                Word {
                    name: "wra",
                    set: |s| s.try_habit(|loops| loops.completion_order = CompletionOrder::Wra),
                },
                Word {
                    name: "war",
                    set: |s| s.try_habit(|loops| loops.completion_order = CompletionOrder::War),
                },
                Word {
                    name: "rwa",
                    set: |s| s.try_habit(|loops| loops.completion_order = CompletionOrder::Rwa),
                },
                Word {
                    name: "raw",
                    set: |s| s.try_habit(|loops| loops.completion_order = CompletionOrder::Raw),
                },
                Word {
                    name: "awr",
                    set: |s| s.try_habit(|loops| loops.completion_order = CompletionOrder::Awr),
                },
                Word {
                    name: "arw",
                    set: |s| s.try_habit(|loops| loops.completion_order = CompletionOrder::Arw),
                },
            ],
        },
        default: Some("arrival"),
        doc: "Order in which `uring` handles the completions of one turn",
        more: "`arrival` is the order in which the operations completed. The others have three \
               queues, emptied in the order of their letters: `w` writes, `r` reads and everything \
               else, `a` accepts.",
        source: "The µserver's separate completion queues (M59)",
        used_by: UsedBy::Some,
        ..Setting::ROW
    },
];
