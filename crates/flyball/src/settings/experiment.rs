//! The table of what can be tried: what a mechanism of the papers is worth, and what the habits
//! cost that they advise against. None of it is for a server that is used.

use flyball_arch::{AcceptLock, CloseAfter};

use super::kind::Kind;
use super::table::{Setting, Task, UsedBy, Word};

/// Most spaces that the head of an answer can be padded by.
const HEAD_ALIGN_MAX: u64 = 64;

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
        more: "It tells apart what accepting, reading and parsing cost: `read` closes after the \
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
        more: "`true` tries to open `.htaccess` in every directory of the path of each request, \
               at most 64 of them, and forgets what it finds.",
        source: "S3 section 2.4 (M125)",
        ..Setting::ROW
    },
    Setting {
        key: "experiment.accept-lock",
        task: Task::Experiment,
        kind: Kind::OneOf {
            names: &[
                Word {
                    name: "off",
                    set: |s| s.try_out(|tried| tried.accept_lock = AcceptLock::Off),
                },
                Word {
                    name: "fcntl",
                    set: |s| s.try_out(|tried| tried.accept_lock = AcceptLock::Fcntl),
                },
                Word {
                    name: "flock",
                    set: |s| s.try_out(|tried| tried.accept_lock = AcceptLock::Flock),
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
];
