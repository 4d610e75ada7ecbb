//! Settings of what the caches hold beyond their sizes and their policy.

use flyball_arch::Advice;
use flyball_site::pattern::is_exact;

use super::kind::Kind;
use super::table::{Setting, Task, Word};

/// Largest size of a file.
const FILE_BYTES_MAX: u64 = 1 << 62;

/// The settings.
pub(super) const ROWS: &[Setting] = &[
    Setting {
        key: "cache.least",
        task: Task::Caches,
        kind: Kind::Size { least: 0, most: FILE_BYTES_MAX, set: |s, n| s.caches.least_bytes = n },
        default: Some("0B"),
        doc: "Smallest file that the caches hold",
        more: "A smaller file is opened for each request. For a compressed body, the size of the \
               file counts.",
        source: "The µserver's bounds on the size of cached files (M58)",
        ..Setting::ROW
    },
    Setting {
        key: "cache.most",
        task: Task::Caches,
        kind: Kind::Size {
            least: 0,
            most: FILE_BYTES_MAX,
            set: |s, n| s.caches.most_bytes = Some(n),
        },
        word: Some(Word { name: "any", set: |s| s.caches.most_bytes = None }),
        default: Some("any"),
        doc: "Largest file that the caches hold, in memory or open",
        more: "A larger file is opened for each request.",
        source: "The µserver's bounds on the size of cached files (M58)",
        ..Setting::ROW
    },
    Setting {
        key: "cache.warm",
        task: Task::Caches,
        kind: Kind::Texts {
            form: "the name of a file from the root of its site such as /index.html",
            empty: true,
            valid: is_exact,
            set: |s, names| s.caches.warm = names,
        },
        word: Some(Word { name: "none", set: |s| s.caches.warm.clear() }),
        default: Some("none"),
        doc: "Files that are loaded into the caches before the first request",
        more: "Each worker loads them before it accepts, from each site that has them, \
               uncompressed. A file that is missing, or was changed within the last 50 ms, is \
               skipped.",
        source: "The µserver's warm caches (M58)",
        ..Setting::ROW
    },
    Setting {
        key: "cache.lock",
        task: Task::Caches,
        kind: Kind::Switch { set: |s, on| s.caches.locks = on },
        default: Some("false"),
        doc: "Whether cached bodies are locked in memory",
        more: "Each body then has whole pages, which count as locked memory (RLIMIT_MEMLOCK). A \
               body that may not be locked is cached all the same. `tux` always locks. \
               `shared-symped` holds no bodies.",
        source: "The µserver's locked cache pages (M58), mlock(2)",
        ..Setting::ROW
    },
    Setting {
        key: "cache.advice",
        task: Task::Caches,
        kind: Kind::OneOf {
            names: &[
                Word { name: "none", set: |s| s.mapped_advice = Advice::None },
                Word { name: "sequential", set: |s| s.mapped_advice = Advice::Sequential },
                Word { name: "random", set: |s| s.mapped_advice = Advice::Random },
                Word { name: "willneed", set: |s| s.mapped_advice = Advice::WillNeed },
            ],
        },
        default: Some("none"),
        doc: "Advice to the kernel on how mapped chunks will be read",
        more: "Only with `send.mode` mapped. With `willneed`, the kernel reads the whole chunk as \
               soon as it is mapped.",
        source: "The µserver's madvise (M58), madvise(2)",
        ..Setting::ROW
    },
];
