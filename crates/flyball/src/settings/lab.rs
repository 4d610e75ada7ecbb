//! The table of the switches that are here to be measured, not to be used: what a mechanism of the
//! papers is worth, and what the habits cost that they advise against.

use flyball_arch::AcceptLock;

use super::kind::Kind;
use super::table::{Setting, Word};

/// Every switch, in the order of the documentation.
pub(super) const ROWS: &[Setting] = &[
    Setting {
        key: "lab.date-cache",
        flag: None,
        kind: Kind::Switch { set: |s, on| s.limits.date_cached = on },
        word: None,
        default: Some("true"),
        doc: "Whether `Date` is formatted once a second, to be measured",
        more: "`false` formats it for each answer.",
        source: "S3 sections 3.2.2 and 4 (M117, M123)",
    },
    Setting {
        key: "lab.gather",
        flag: None,
        kind: Kind::Switch { set: |s, on| s.lab.gather = on },
        word: None,
        default: Some("true"),
        doc: "Whether a head and its body leave in one write, to be measured",
        more: "`false` writes each of them by itself, and each answer of a pipelined batch. The \
               head then leaves in a segment of its own; without `send.no-delay` the body would \
               wait for its acknowledgement. Large bodies follow their head corked either way.",
        source: "S3 section 3.2.2 (M117), S2 section 5.5 (M93)",
    },
    Setting {
        key: "lab.entry-locks",
        flag: None,
        kind: Kind::OneOf {
            names: &[
                Word { name: "entry", set: |s| s.caches.global_lock = false },
                Word { name: "global", set: |s| s.caches.global_lock = true },
            ],
        },
        word: None,
        default: Some("entry"),
        doc: "Whether shared caches have many locks or one, to be measured",
        more: "`global` has one lock for all, held while a path and its file are looked up; else \
               each bucket has its own, and in `shared-symped` each file. `knot-c` and `knot-a` \
               share their cache without locks.",
        source: "S3 sections 2.4 and 3.2.4 (M118, M125)",
    },
    Setting {
        key: "lab.directory-config",
        flag: None,
        kind: Kind::Switch { set: |s, on| s.caches.directory_config = on },
        word: None,
        default: Some("false"),
        doc: "Whether each directory is asked for a file of settings, to be measured",
        more: "`true` tries to open `.htaccess` in every directory of the path of each request, \
               at most 64 of them, and forgets what it finds.",
        source: "S3 section 2.4 (M125)",
    },
    Setting {
        key: "lab.accept-lock",
        flag: None,
        kind: Kind::OneOf {
            names: &[
                Word { name: "off", set: |s| s.lab.accept_lock = AcceptLock::Off },
                Word { name: "fcntl", set: |s| s.lab.accept_lock = AcceptLock::Fcntl },
                Word { name: "flock", set: |s| s.lab.accept_lock = AcceptLock::Flock },
            ],
        },
        word: None,
        default: Some("off"),
        doc: "What is locked around accept, to be measured",
        more: "Of the processes or threads that share a socket one at a time is in accept, \
               or in an accept phase; the others wait for a lock on a file.",
        source: "S3 section 2.4 (M125)",
    },
    Setting {
        key: "lab.signal-mask",
        flag: None,
        kind: Kind::Switch { set: |s, on| s.lab.signal_mask = on },
        word: None,
        default: Some("false"),
        doc: "Whether signals are masked around each request, to be measured",
        more: "`true` masks all signals while a request is looked up, and unmasks them again.",
        source: "S3 section 2.4 (M125)",
    },
];
