//! Settings of how the server is run and controlled.

use flyball_server::control::UPGRADE_MS_MOST;

use super::kind::Kind;
use super::table::{Setting, Task, Word};
use super::text::{is_host, is_token};

pub(super) const ROWS: &[Setting] = &[
    Setting {
        key: "pid-file",
        task: Task::Start,
        kind: Kind::Path { set: |s, path| s.running.pid_file = Some(path) },
        word: Some(Word { name: "off", set: |s| s.running.pid_file = None }),
        default: Some("off"),
        doc: "File that holds the process id of the master",
        more: "The server writes it when it is ready and removes it at its end. After an upgrade \
               it has the id of the new master. A file that was left over is replaced.",
        ..Setting::ROW
    },
    Setting {
        key: "admin-mode",
        task: Task::Admin,
        kind: Kind::Text {
            form: MODE_FORM,
            valid: |text| mode(text).is_some(),
            set: |s, text| s.running.admin_mode = mode(&text).unwrap_or_default(),
        },
        default: Some("0600"),
        doc: "Mode of the Unix-domain sockets of `admin`",
        more: "Every user who may write to the socket controls the server: there is no other \
               guard.",
        source: "unix(7)",
        ..Setting::ROW
    },
    Setting {
        key: "admin-group",
        task: Task::Admin,
        kind: Kind::Text {
            form: "the name or the number of a group",
            valid: is_token,
            set: |s, name| s.running.admin_group = Some(name),
        },
        word: Some(Word { name: "own", set: |s| s.running.admin_group = None }),
        default: Some("own"),
        doc: "Group of the Unix-domain sockets of `admin`",
        more: "`own` is that of the server. With `admin-mode = \"0660\"` its members may control \
               the server.",
        source: "chown(2)",
        ..Setting::ROW
    },
    Setting {
        key: "admin-hosts",
        task: Task::Admin,
        kind: Kind::Texts {
            form: "a host such as box.example, *.example or *",
            empty: true,
            valid: is_host,
            set: |s, hosts| {
                s.running.admin_hosts = hosts.iter().map(|h| h.to_ascii_lowercase()).collect();
            },
        },
        word: Some(Word { name: "none", set: |s| s.running.admin_hosts.clear() }),
        default: Some("none"),
        doc: "More hosts that `admin` and `flyball serve DIR` answer to",
        more: "On 127.0.0.1 and [::1], `admin` answers to `localhost`, to addresses, to the hosts \
               of sites and to these; a request for another host is 421. Otherwise a page on the \
               Internet could let its own name lead here, and read what only this machine may see. \
               On other addresses `admin` takes any host unless some are given here; on a \
               Unix-domain socket it always does. The same holds for `flyball serve DIR` if it \
               listens only on such addresses; sites of a file have their own `hosts`. `*` is any \
               host.",
        source: "RFC 9110 section 7.4",
        ..Setting::ROW
    },
    Setting {
        key: "spool.directory",
        task: Task::Bodies,
        kind: Kind::Path { set: |s, path| s.running.spool.directory = Some(path) },
        word: Some(Word { name: "auto", set: |s| s.running.spool.directory = None }),
        default: Some("auto"),
        doc: "Directory for request bodies and answers that are too long for memory",
        more: "A request body for a program or a server that is longer than its `hold` waits there \
               until it is whole. Of an answer, the part waits there that a slow client leaves \
               beyond `buffer`. The files have no name, and are gone with their worker. Workers \
               may write there and nowhere else. `auto` is TMPDIR, else /var/tmp. If the workers' \
               user cannot write there, the server says so at the start; a longer body is then \
               413, or 411 if it comes in chunks, and nothing is run; programs wait for slow \
               clients.",
        source: "O_TMPFILE in open(2); client_body_temp_path of nginx",
        ..Setting::ROW
    },
    Setting {
        key: "spool.max",
        task: Task::Bodies,
        kind: Kind::Size {
            least: 1 << 20,
            most: 1 << 50,
            set: |s, bytes| s.running.spool.bytes_max = Some(bytes),
        },
        word: Some(Word { name: "off", set: |s| s.running.spool.bytes_max = None }),
        default: Some("1GiB"),
        doc: "Most bytes in `spool.directory`, of all workers together",
        more: "Requests without room for their body are answered with 503 and counted \
               (`spool_full`). Answers leave a quarter of the room to requests. With `off` there \
               are no such files, and longer bodies are refused.",
        ..Setting::ROW
    },
    Setting {
        key: "upgrade-timeout",
        task: Task::Start,
        kind: Kind::Duration {
            least_ms: UPGRADE_MS_LEAST,
            most_ms: UPGRADE_MS_MOST,
            set: |s, ms| s.running.upgrade_ms = ms,
        },
        default: Some("10s"),
        doc: "How long a new program may take to be ready in an upgrade",
        more: "A program that takes longer is killed, and the old server continues. The time \
               covers reading the configuration, opening the sites, starting the workers, and the \
               time in which the old workers leave the listening sockets (5 s at most).",
        ..Setting::ROW
    },
];

/// Shortest time for an upgrade: workers must have lived for 300 ms.
const UPGRADE_MS_LEAST: u64 = 500;

/// What a mode looks like.
pub(super) const MODE_FORM: &str = "a mode in octal such as \"0660\", without rights to execute";

/// A mode of rights to read and write, in octal.
pub(super) fn mode(text: &str) -> Option<u32> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|_| !text.starts_with('+'))?;
    (text.len() <= 4 && mode & !0o666 == 0).then_some(mode)
}
