//! The keys that the tables of all backends have, whatever they speak.

use flyball_site::SiteSettings;

use super::kind::Kind;
use super::table::{Setting, Word};

/// A day, which no single step of an answer may take longer than.
const DAY_MS: u64 = 86_400_000;

/// Stores a value.
type Set<V> = fn(&mut SiteSettings, V);

/// Takes a limit away.
type Off = fn(&mut SiteSettings);

pub(super) const fn hold(set: Set<u64>, off: Off) -> Setting<SiteSettings> {
    Setting {
        key: "hold",
        kind: Kind::Size { least: 1, most: 1 << 30, set },
        word: Some(Word { name: "off", set: off }),
        default: Some("1MiB"),
        doc: "Bytes of a request body that are held in memory until it is complete",
        more: "Per connection. Before that no program is started and no link is taken, so that a \
               slow client keeps neither from others, and a body in chunks has a length. What is \
               longer waits in a file (`spool.directory`). `off` passes a body on as it comes: in \
               chunks it then comes without its length, of which PHP reads nothing, and is 411 \
               for SCGI.",
        source: "RFC 3875 section 4.1.2; fastcgi_request_buffering of nginx",
        ..Setting::ROW
    }
}

pub(super) const fn buffer(set: Set<u64>, off: Off) -> Setting<SiteSettings> {
    Setting {
        key: "buffer",
        kind: Kind::Size { least: 128 << 10, most: 1 << 30, set },
        word: Some(Word { name: "off", set: off }),
        default: Some("1MiB"),
        doc: "Bytes of an answer that are held in memory for a slow client",
        more: "Per connection. A client gets each byte as soon as it has room for it; what it has \
               no room for is taken here, so that the program need not wait and is free for \
               others. `off` has it wait.",
        source: "fastcgi_buffers of nginx",
        ..Setting::ROW
    }
}

pub(super) const fn buffer_max(set: Set<u64>, off: Off) -> Setting<SiteSettings> {
    Setting {
        key: "buffer-max",
        kind: Kind::Size { least: 1, most: 1 << 50, set },
        word: Some(Word { name: "off", set: off }),
        default: Some("64MiB"),
        doc: "Bytes of an answer beyond `buffer` that are held in a file",
        more: "Per connection. When that is full too, or three quarters of `spool.max` are in \
               use, or where no file can be made in `spool.directory`, the program waits for the \
               client.",
        source: "fastcgi_max_temp_file_size of nginx",
        ..Setting::ROW
    }
}

pub(super) const fn answer_timeout(
    set: Set<u64>,
    doc: &'static str,
    more: &'static str,
) -> Setting<SiteSettings> {
    duration("answer-timeout", "1min", set, doc, more)
}

pub(super) const fn queue_timeout(set: Set<u64>) -> Setting<SiteSettings> {
    let doc = "Time that a request waits for a link, after which it is answered 503";
    duration("queue-timeout", "10s", set, doc, "Per request.")
}

pub(super) const fn connect_timeout(set: Set<u64>) -> Setting<SiteSettings> {
    let doc = "Time until the server is connected, after which the answer is 503";
    duration("connect-timeout", "10s", set, doc, "Per request.")
}

pub(super) const fn idle_timeout(set: Set<u64>) -> Setting<SiteSettings> {
    duration("idle-timeout", "1min", set, "Time between two pieces of its answer", "Per request.")
}

const fn duration(
    key: &'static str,
    default: &'static str,
    set: Set<u64>,
    doc: &'static str,
    more: &'static str,
) -> Setting<SiteSettings> {
    Setting {
        key,
        kind: Kind::Duration { least_ms: 1, most_ms: DAY_MS, set },
        default: Some(default),
        doc,
        more,
        ..Setting::ROW
    }
}

pub(super) const fn whole_timeout(
    set: Set<u64>,
    off: Off,
    doc: &'static str,
) -> Setting<SiteSettings> {
    let kind = Kind::Duration { least_ms: 1, most_ms: DAY_MS, set };
    limit("whole-timeout", kind, off, [doc, "Per request.", ""])
}

pub(super) const fn output_max(
    set: Set<u64>,
    off: Off,
    doc: &'static str,
) -> Setting<SiteSettings> {
    let kind = Kind::Size { least: 1024, most: 1 << 50, set };
    limit("output-max", kind, off, [doc, "Per request.", ""])
}

pub(super) const fn memory(set: Set<u64>, off: Off, doc: &'static str) -> Setting<SiteSettings> {
    let kind = Kind::Size { least: 1 << 20, most: 1 << 50, set };
    limit("memory", kind, off, [doc, "Per process.", "RLIMIT_AS in setrlimit(2)"])
}

/// `most_ms` is the longest that can be set.
pub(super) const fn cpu_time(
    most_ms: u64,
    set: Set<u64>,
    off: Off,
    doc: &'static str,
) -> Setting<SiteSettings> {
    let kind = Kind::Duration { least_ms: 1_000, most_ms, set };
    limit("cpu-time", kind, off, [doc, "Per process.", "RLIMIT_CPU in setrlimit(2)"])
}

const fn limit(
    key: &'static str,
    kind: Kind<SiteSettings>,
    off: Off,
    [doc, more, source]: [&'static str; 3],
) -> Setting<SiteSettings> {
    let word = Some(Word { name: "off", set: off });
    Setting { key, kind, word, default: Some("off"), doc, more, source, ..Setting::ROW }
}

pub(super) const fn sendfile_roots(
    set: Set<Vec<String>>,
    none: Off,
    doc: &'static str,
    more: &'static str,
) -> Setting<SiteSettings> {
    Setting {
        key: "sendfile-roots",
        kind: Kind::Texts {
            form: "an absolute path such as /srv/files",
            empty: true,
            valid: |path| path.starts_with('/'),
            set,
        },
        word: Some(Word { name: "none", set: none }),
        default: Some("none"),
        doc,
        more,
        ..Setting::ROW
    }
}
