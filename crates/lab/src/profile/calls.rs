//! System calls by S3's categories, as `perf trace` counts them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a system call is for, by Table 2 of S3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Category {
    /// Opening, closing, looking at and mapping files.
    Files,
    /// Sending, and writing otherwise.
    Writing,
    /// Receiving, and reading otherwise.
    Reading,
    /// Signals.
    Signals,
    /// Locks and semaphores.
    Synchronisation,
    /// Making, ending and scheduling processes and threads.
    Processes,
    /// All else: accepting, waiting for events, settings of sockets.
    Miscellaneous,
}

/// In the order of the paper's table.
pub const CATEGORIES: [Category; 7] = [
    Category::Files,
    Category::Writing,
    Category::Reading,
    Category::Signals,
    Category::Synchronisation,
    Category::Processes,
    Category::Miscellaneous,
];

/// Calls by the beginnings of their names; the first that fits counts, and what none fits is
/// miscellaneous. A mapped or polled file is what its call is for.
const BEGINNINGS: &[(&str, Category)] = &[
    ("readlink", Category::Files),
    ("readahead", Category::Files),
    ("read", Category::Reading),
    ("pread", Category::Reading),
    ("recv", Category::Reading),
    ("write", Category::Writing),
    ("pwrite", Category::Writing),
    ("send", Category::Writing),
    ("splice", Category::Writing),
    ("tee", Category::Writing),
    ("open", Category::Files),
    ("close", Category::Files),
    ("stat", Category::Files),
    ("fstat", Category::Files),
    ("lstat", Category::Files),
    ("newfstat", Category::Files),
    ("newstat", Category::Files),
    ("lseek", Category::Files),
    ("fcntl", Category::Files),
    ("getdents", Category::Files),
    ("access", Category::Files),
    ("faccess", Category::Files),
    ("fadvise", Category::Files),
    ("mmap", Category::Files),
    ("munmap", Category::Files),
    ("mincore", Category::Files),
    ("madvise", Category::Files),
    ("cachestat", Category::Files),
    ("rt_sig", Category::Signals),
    ("sig", Category::Signals),
    ("kill", Category::Signals),
    ("tgkill", Category::Signals),
    ("tkill", Category::Signals),
    ("pidfd_send", Category::Signals),
    ("futex", Category::Synchronisation),
    ("flock", Category::Synchronisation),
    ("sem", Category::Synchronisation),
    ("clone", Category::Processes),
    ("fork", Category::Processes),
    ("vfork", Category::Processes),
    ("exec", Category::Processes),
    ("exit", Category::Processes),
    ("wait", Category::Processes),
    ("sched_", Category::Processes),
    ("setuid", Category::Processes),
    ("setgid", Category::Processes),
    ("prctl", Category::Processes),
];

/// What a call of this name is for.
pub fn category(name: &str) -> Category {
    let found = BEGINNINGS.iter().find(|(beginning, _)| name.starts_with(beginning));
    found.map_or(Category::Miscellaneous, |(_, category)| *category)
}

/// The category in the paper's words.
pub fn title(category: Category) -> &'static str {
    match category {
        Category::Files => "file operations",
        Category::Writing => "writing",
        Category::Reading => "reading",
        Category::Signals => "signals",
        Category::Synchronisation => "synchronisation",
        Category::Processes => "process control",
        Category::Miscellaneous => "miscellaneous",
    }
}

/// How often a system call was made, and how long it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Count {
    /// Calls.
    pub calls: u64,
    /// Of these, those that failed, also by having nothing to do.
    pub errors: u64,
    /// Milliseconds from entry to return, with what they waited for.
    pub wall_ms: f64,
}

/// The summary of `perf trace -s`, all threads together.
pub fn parse(text: &str) -> BTreeMap<String, Count> {
    let mut all: BTreeMap<String, Count> = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // A name, three figures, three more and a share; heads and rules have no figures there.
        let [name, calls, errors, wall, ..] = fields[..] else { continue };
        let figures = (calls.parse::<u64>(), errors.parse::<u64>(), wall.parse::<f64>());
        if let (Ok(calls), Ok(errors), Ok(wall_ms)) = figures {
            let count = all.entry(name.to_owned()).or_default();
            count.calls += calls;
            count.errors += errors;
            count.wall_ms += wall_ms;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMMARY: &str = "
 Summary of events:

 server-0 (25208), 12038 events, 13.6%

   syscall            calls  errors  total       min       avg       max       stddev
                                     (msec)    (msec)    (msec)    (msec)        (%)
   --------------- --------  ------ -------- --------- --------- ---------     ------
   recvfrom            3007      2  1375.954     0.000     0.458    13.779      2.26%
   futex                  1      0     0.015     0.015     0.015     0.015      0.00%


 server-1 (25209), 6 events, 0.0%

   syscall            calls  errors  total       min       avg       max       stddev
   recvfrom               3      3    24.046   512.046   512.046   512.046      0.00%
";

    #[test]
    fn threads_are_added_up() {
        let counts = parse(SUMMARY);
        assert_eq!(counts.len(), 2, "{counts:?}");
        let received = counts["recvfrom"];
        assert_eq!((received.calls, received.errors), (3_010, 5));
        assert!((received.wall_ms - 1_400.0).abs() < 0.01);
    }

    #[test]
    fn calls_are_sorted_as_the_paper_does() {
        for (name, expected) in [
            ("recvfrom", Category::Reading),
            ("readlinkat", Category::Files),
            ("sendfile", Category::Writing),
            ("openat2", Category::Files),
            ("statx", Category::Files),
            ("rt_sigprocmask", Category::Signals),
            ("futex", Category::Synchronisation),
            ("clone3", Category::Processes),
            ("epoll_wait", Category::Miscellaneous),
            ("accept4", Category::Miscellaneous),
        ] {
            assert_eq!(category(name), expected, "{name}");
        }
    }
}
