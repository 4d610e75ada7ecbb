//! Settings of who clients are taken to be, and of what is written about them.

use flyball_arch::{AccessLog, ClientAddress, LogLevel};
use flyball_http::Network;

use super::kind::Kind;
use super::server::TIME_MS_MAX;
use super::table::{Setting, Word};

/// Shortest file of the access log that is put aside: one batch of lines fits.
const LOG_BYTES_LEAST: u64 = 64 * 1024;
/// Longest file of the access log.
const LOG_BYTES_MAX: u64 = 1 << 50;
/// Shortest time after which a file of the access log is put aside.
const LOG_MS_LEAST: u64 = 1_000;
/// Longest such time: ten years.
const LOG_MS_MAX: u64 = 520 * TIME_MS_MAX;
/// Most files of the access log that are kept: each is renamed when another is put aside.
const LOG_KEEP_MAX: u64 = 10_000;
/// Longest time that a request may take without being slow: an hour, which timelines can tell.
const SLOW_MS_MAX: u64 = 3_600_000;

/// The settings.
pub(super) const ROWS: &[Setting] = &[
    Setting {
        key: "log.level",
        flag: None,
        kind: Kind::OneOf {
            names: &[
                Word { name: "error", set: |s| s.log.level = LogLevel::Error },
                Word { name: "warn", set: |s| s.log.level = LogLevel::Warn },
                Word { name: "info", set: |s| s.log.level = LogLevel::Info },
                Word { name: "debug", set: |s| s.log.level = LogLevel::Debug },
            ],
        },
        word: None,
        default: Some("info"),
        doc: "How much the server says on standard error",
        more: "`error` is what somebody has to mend, such as a worker that crashed; `warn` is also \
               what the server copes with by itself, and what programs say on their error output; \
               `info` is also what it does that is not every day's work; `debug` is also each step \
               of the master: processes, signals, questions. What `flyball ctl` changes is said at \
               every level, with the old and the new value and who asked for it. It can be changed \
               while the server runs.",
        source: "",
    },
    Setting {
        key: "log.format",
        flag: None,
        kind: Kind::LogFormat { set: |s, format| s.log.format = format },
        word: None,
        default: Some("combined"),
        doc: "What a line of the access log holds",
        more: "`common`, `combined`, `json` (an object for each line), or a text with fields: \
               `$remote_addr`, `$remote_user`, `$time_local`, `$time_iso8601`, `$request` (the \
               request line), `$method`, `$path`, `$query`, `$protocol`, `$status`, \
               `$bytes_sent`, `$host`, `$duration_us`, `$worker`, `$request_id`, and any field of \
               the request as `$http_` and its name, such as `$http_referer`. `$$` is a dollar.",
        source: "S3 section 4 (M122)",
    },
    Setting {
        key: "log.rotate-size",
        flag: None,
        kind: Kind::Size {
            least: LOG_BYTES_LEAST,
            most: LOG_BYTES_MAX,
            set: |s, n| s.log.bytes_max = Some(n),
        },
        word: Some(Word { name: "off", set: |s| s.log.bytes_max = None }),
        default: Some("off"),
        doc: "Length that a file of the access log does not exceed",
        more: "The file is put aside before it would: `access.log` becomes `access.log.1`.",
        source: "",
    },
    Setting {
        key: "log.rotate-age",
        flag: None,
        kind: Kind::Duration {
            least_ms: LOG_MS_LEAST,
            most_ms: LOG_MS_MAX,
            set: |s, ms| s.log.ms_max = Some(ms),
        },
        word: Some(Word { name: "off", set: |s| s.log.ms_max = None }),
        default: Some("off"),
        doc: "Age at which a file of the access log is put aside",
        more: "Counted from when the file was made, which a restart does not change.",
        source: "",
    },
    Setting {
        key: "log.keep",
        flag: None,
        kind: Kind::Integer { least: 1, most: LOG_KEEP_MAX, set: |s, n| s.log.keep = n as usize },
        word: None,
        default: Some("7"),
        doc: "Files of the access log that are kept beside the one that is written",
        more: "Only where the server itself puts files aside.",
        source: "",
    },
    Setting {
        key: "slow-log",
        flag: None,
        kind: Kind::Log { dash: || AccessLog::Stderr, set: |s, log| s.log.slow = log },
        word: Some(Word { name: "off", set: |s| s.log.slow = AccessLog::Off }),
        default: Some("off"),
        doc: "Where the timelines of slow requests go, a line for each",
        more: "`-` is standard error; a file is appended to, put aside and opened anew as the \
               access log is. While it is on, a timeline is kept of every request.",
        source: "",
    },
    Setting {
        key: "log.slow-threshold",
        flag: None,
        kind: Kind::Duration { least_ms: 0, most_ms: SLOW_MS_MAX, set: |s, ms| s.log.slow_ms = ms },
        word: None,
        default: Some("500ms"),
        doc: "How long a request takes at least that is slow",
        more: "From its first byte to the last of the answer that the socket took, whoever was \
               waited for.",
        source: "",
    },
    Setting {
        key: "client.address",
        flag: None,
        kind: Kind::OneOf {
            names: &[
                Word { name: "peer", set: |s| s.clients.address = ClientAddress::Peer },
                Word {
                    name: "proxy-protocol",
                    set: |s| s.clients.address = ClientAddress::ProxyProtocol,
                },
                Word { name: "forwarded", set: |s| s.clients.address = ClientAddress::Forwarded },
                Word {
                    name: "x-forwarded-for",
                    set: |s| s.clients.address = ClientAddress::XForwardedFor,
                },
            ],
        },
        word: None,
        default: Some("peer"),
        doc: "Who the client of a request is taken to be",
        more: "`peer` is whoever connects. `proxy-protocol` is whom a trusted peer names in a \
               header of the PROXY protocol, version 1 or 2, which it must send; from others such \
               a header is refused. `forwarded` and `x-forwarded-for` are read in that field of \
               the request, from the right past trusted proxies.",
        source: "RFC 7239, HAProxy's PROXY protocol",
    },
    Setting {
        key: "client.trusted",
        flag: None,
        kind: Kind::Texts {
            form: Network::FORM,
            empty: true,
            valid: |text| text.parse::<Network>().is_ok(),
            set: |s, texts| {
                s.clients.trusted = texts.iter().filter_map(|text| text.parse().ok()).collect();
            },
        },
        word: Some(Word { name: "nobody", set: |s| s.clients.trusted.clear() }),
        default: Some("nobody"),
        doc: "Proxies that are believed when they name a client",
        more: "A list of addresses and networks.",
        source: "",
    },
];
