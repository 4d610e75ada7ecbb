//! Settings of who clients are taken to be, and of what is written about them.

use flyball_arch::{AccessLog, ClientAddress, LogLevel};
use flyball_http::Network;
use flyball_server::Changes;

use super::kind::Kind;
use super::server::TIME_MS_MAX;
use super::table::{Setting, Task, Word};

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
        task: Task::Logs,
        kind: Kind::OneOf {
            names: &[
                Word { name: "error", set: |s| s.log.level = LogLevel::Error },
                Word { name: "warn", set: |s| s.log.level = LogLevel::Warn },
                Word { name: "info", set: |s| s.log.level = LogLevel::Info },
                Word { name: "debug", set: |s| s.log.level = LogLevel::Debug },
            ],
        },
        default: Some("info"),
        doc: "How much the server writes to standard error",
        more: "`error`: faults that need an operator, such as a worker that crashed. `warn`: also \
               faults that the server handles itself, and the error output of programs. `info`: \
               also unusual events, such as reloads. `debug`: also each step of the master. \
               Changes by `flyball ctl` are written at every level, with the old and the new value \
               and the user who asked.",
        changes: Changes::InPlace,
        ..Setting::ROW
    },
    Setting {
        key: "log.format",
        task: Task::Logs,
        kind: Kind::LogFormat { set: |s, format| s.log.format = format },
        default: Some("combined"),
        doc: "Fields of a line of the access log",
        more: "`common`, `combined`, `json` (an object for each line), or a text with fields: \
               `$remote_addr`, `$remote_user`, `$time_local`, `$time_iso8601`, `$request` (the \
               request line), `$method`, `$path`, `$query`, `$protocol`, `$status`, \
               `$host`, `$worker`, `$request_id`; when the answer has ended `$sent` or \
               `$bytes_sent` (bytes of the body that were sent) and `$end` (how it ended); times \
               `$time_ms`, `$duration_us`, `$first_byte_us`, `$request_us`, `$backend_us`, \
               `$queued_ms` and `$age_ms` (in the kernel, before the server knew of it); of TLS \
               `$ssl_protocol`, `$ssl_cipher`, `$ssl_group`, `$ssl_server_name`, \
               `$ssl_session_reused`, `$ssl_client_s_dn`, `$ssl_client_fingerprint`, and any field \
               of the request as `$http_` and its name, such as `$http_referer`. `$$` is a dollar.",
        source: "S3 section 4 (M122)",
        ..Setting::ROW
    },
    Setting {
        key: "log.rotate-size",
        task: Task::Logs,
        kind: Kind::Size {
            least: LOG_BYTES_LEAST,
            most: LOG_BYTES_MAX,
            set: |s, n| s.log.bytes_max = Some(n),
        },
        word: Some(Word { name: "off", set: |s| s.log.bytes_max = None }),
        default: Some("off"),
        doc: "Greatest length of a file of the access log",
        more: "Before the file grows beyond it, `access.log` becomes `access.log.1`.",
        ..Setting::ROW
    },
    Setting {
        key: "log.rotate-age",
        task: Task::Logs,
        kind: Kind::Duration {
            least_ms: LOG_MS_LEAST,
            most_ms: LOG_MS_MAX,
            set: |s, ms| s.log.ms_max = Some(ms),
        },
        word: Some(Word { name: "off", set: |s| s.log.ms_max = None }),
        default: Some("off"),
        doc: "Age at which a file of the access log is rotated",
        more: "The age counts from the time at which the file was made; a restart does not change \
               it.",
        ..Setting::ROW
    },
    Setting {
        key: "log.keep",
        task: Task::Logs,
        kind: Kind::Integer { least: 1, most: LOG_KEEP_MAX, set: |s, n| s.log.keep = n as usize },
        default: Some("7"),
        doc: "Rotated files of the access log that are kept",
        more: "Only if the server itself rotates files.",
        ..Setting::ROW
    },
    Setting {
        key: "slow-log",
        task: Task::Logs,
        kind: Kind::Log { dash: || AccessLog::Stderr, set: |s, log| s.log.slow = log },
        word: Some(Word { name: "off", set: |s| s.log.slow = AccessLog::Off }),
        default: Some("off"),
        doc: "Where the timeline of each slow request is written",
        more: "`-` is standard error; a file is appended to, rotated and opened again like \
               the access log. While it is on, a timeline is kept of every request.",
        ..Setting::ROW
    },
    Setting {
        key: "log.slow-threshold",
        task: Task::Logs,
        kind: Kind::Duration { least_ms: 0, most_ms: SLOW_MS_MAX, set: |s, ms| s.log.slow_ms = ms },
        default: Some("500ms"),
        doc: "Time from which a request counts as slow",
        more: "It counts from the first byte of the request until the socket has taken the last \
               byte of the answer, whatever caused the wait.",
        ..Setting::ROW
    },
    Setting {
        key: "client.address",
        task: Task::Clients,
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
        default: Some("peer"),
        doc: "Where the address of a client comes from",
        more: "`peer` takes the address of the connection. `proxy-protocol` takes the address in \
               the header of the PROXY protocol, version 1 or 2, which a trusted peer must send \
               and no other may. `forwarded` and `x-forwarded-for` take it from that field of the \
               request, read from the right past trusted proxies.",
        source: "RFC 7239, HAProxy's PROXY protocol",
        ..Setting::ROW
    },
    Setting {
        key: "client.trusted",
        task: Task::Clients,
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
        doc: "Proxies that are trusted to name the client",
        more: "A list of addresses and networks.",
        ..Setting::ROW
    },
];
