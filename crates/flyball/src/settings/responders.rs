//! The tables of a site that say which servers answer: those that speak FastCGI, and SCGI.

use std::net::Ipv4Addr;

use flyball_site::{ResponderSettings, SiteSettings};
use flyball_sys::net::Endpoint;

use super::kind::Kind;
use super::table::{Setting, Table, Word};
use super::text::{is_file_name, is_url_path};
use super::{limits, pools};

/// What no extension has: it was meant as a pattern, a list or a quotation, and fits no name, so
/// that scripts would be sent as files.
const NO_EXTENSION: &str = r##"*?%,;:|(){}[]<>$^~\&!=#'"`"##;

/// The tables that may come more than once.
pub(super) const TABLES: &[Table<SiteSettings>] = &[
    Table {
        key: "fastcgi",
        doc: "Servers that speak FastCGI, such as php-fpm",
        more: "Who may come is decided before, and so is which table counts: of the longest path \
               one with `extensions` before one without. docs/dynamic.md tells the whole.",
        begin: |s| s.fastcgi.push(ResponderSettings::default()),
        settings: FASTCGI,
    },
    Table {
        key: "scgi",
        doc: "Servers that speak SCGI",
        more: "As `[[site.fastcgi]]`, but each request has a connection of its own.",
        begin: |s| s.scgi.push(ResponderSettings::default()),
        settings: SCGI,
    },
];

/// The keys of a table whose last one is found by `$last`, and further keys of that table alone.
macro_rules! settings_of {
    ($last:ident, $($more:expr),*) => {
        &[
            Setting {
                key: "path",
                kind: Kind::Text {
                    form: "an absolute path such as /app",
                    valid: |text| text == "/" || is_url_path(text),
                    set: |s, text| $last(s).path = text,
                },
                default: Some("/"),
                doc: "The path; the table covers it and all beneath it, within `extensions`",
                ..Setting::ROW
            },
            Setting {
                key: "extensions",
                kind: Kind::Texts {
                    form: "an extension without its dot, such as php",
                    empty: true,
                    valid: |text| is_file_name(text)
                        && !text.starts_with('.')
                        && !text.contains(|c: char| {
                            c.is_whitespace() || c.is_control() || NO_EXTENSION.contains(c)
                        }),
                    set: |s, names| $last(s).extensions = names,
                },
                word: Some(Word { name: "none", set: |s| $last(s).extensions.clear() }),
                default: Some("none"),
                doc: "File name extensions, one of which the path must contain",
                more: "As the files are spelt: `php` is not `PHP`. The first such name is the \
                       script, and what follows is its PATH_INFO. A file with such a name that \
                       answers in the place of another path, by `index`, `fallback` or `rewrite`, \
                       is the script as well. Without extensions all of the path is PATH_INFO.",
                source: "RFC 3875 section 4.1.5",
                ..Setting::ROW
            },
            Setting {
                key: "socket",
                kind: Kind::Endpoint { set: |s, address| $last(s).server = Some(server(address)) },
                word: Some(Word { name: "none", set: |s| $last(s).server = None }),
                default: Some("none"),
                doc: "Socket of the server: `unix:` and a path, or an address",
                more: "A port alone is one of this machine (127.0.0.1). A path where nothing is \
                       yet is a warning; if nothing listens when a request comes, the answer \
                       is 503.",
                ..Setting::ROW
            },
            Setting {
                key: "root",
                kind: Kind::Path { set: |s, path| $last(s).root = Some(path) },
                word: Some(Word { name: "auto", set: |s| $last(s).root = None }),
                default: Some("auto"),
                doc: "Directory of the scripts, as the server sees it",
                more: "What of the path follows `path` is looked for there. `auto` is the root of \
                       the site, with the whole path.",
                source: "SCRIPT_FILENAME",
                ..Setting::ROW
            },
            Setting {
                key: "script",
                kind: Kind::Path { set: |s, path| $last(s).script = Some(path) },
                word: Some(Word { name: "none", set: |s| $last(s).script = None }),
                default: Some("none"),
                doc: "Script that answers for all paths of the table",
                source: "SCRIPT_FILENAME",
                ..Setting::ROW
            },
            Setting {
                key: "require-script",
                kind: Kind::Switch { set: |s, on| $last(s).require_script = Some(on) },
                word: Some(Word { name: "auto", set: |s| $last(s).require_script = None }),
                default: Some("auto"),
                doc: "Whether a script must be a regular file of the site",
                more: "Then `/picture.gif/x.php` is 404 where the server could run `picture.gif`. \
                       The links of its path are followed as `symlinks` says. One that workers \
                       may not read is left to the server. `auto` is true where `root` is \
                       `auto`, there is no `script`, and `socket` is on this machine. Needs \
                       `extensions`.",
                source: "SCRIPT_FILENAME",
                ..Setting::ROW
            },
            Setting {
                key: "params",
                kind: Kind::Fields { set: |s, all| $last(s).params.extend(all) },
                word: Some(Word { name: "none", set: |s| $last(s).params.clear() }),
                default: Some("none"),
                doc: "More parameters than those of RFC 3875",
                more: "One that has the name of another takes its place.",
                ..Setting::ROW
            },
            limits::sendfile_roots(
                |s, roots| {
                    $last(s).sendfile_roots = roots.into_iter().map(Into::into).collect();
                },
                |s| $last(s).sendfile_roots.clear(),
                "Directories of which the server may have files sent, by `X-Sendfile`",
                "Such an answer is 502 where there is none. `X-Accel-Redirect` means a path \
                 beneath the first.",
            ),
            limits::hold(
                |s, bytes| $last(s).limits.held_bytes_max = Some(bytes),
                |s| $last(s).limits.held_bytes_max = None,
            ),
            limits::buffer(
                |s, bytes| $last(s).limits.buffer_bytes = bytes,
                |s| $last(s).limits.buffer_bytes = 0,
            ),
            limits::buffer_max(
                |s, bytes| $last(s).limits.spooled_bytes_max = bytes,
                |s| $last(s).limits.spooled_bytes_max = 0,
            ),
            Setting {
                key: "links",
                kind: Kind::Integer {
                    least: 1,
                    most: 1 << 20,
                    set: |s, most| $last(s).links_max = Some(most as usize),
                },
                word: Some(Word { name: "off", set: |s| $last(s).links_max = None }),
                default: Some("off"),
                doc: "Most connections to the server in use at the same time, per worker",
                more: "Further requests wait for one of them to end.",
                source: "max_conns of nginx",
                ..Setting::ROW
            },
            Setting {
                key: "queue",
                kind: Kind::Integer {
                    least: 0,
                    most: 1 << 20,
                    set: |s, most| $last(s).queue_max = most as usize,
                },
                default: Some("128"),
                doc: "Most requests that wait for a link, per worker; further ones get 503",
                more: "None waits unless `links` says how many there are.",
                source: "maxqueue of HAProxy",
                ..Setting::ROW
            },
            limits::queue_timeout(|s, ms| $last(s).limits.queue_ms = ms),
            limits::connect_timeout(|s, ms| $last(s).limits.connect_ms = ms),
            limits::answer_timeout(
                |s, ms| $last(s).limits.answer_ms = ms,
                "Time until the server has begun to answer once it has the request",
                "Per request. Waiting for a link does not count. Later than that the answer is \
                 504.",
            ),
            limits::idle_timeout(|s, ms| $last(s).limits.idle_ms = ms),
            limits::whole_timeout(
                |s, ms| $last(s).limits.whole_ms = Some(ms),
                |s| $last(s).limits.whole_ms = None,
                "Time for all of its answer, after which the connection is broken off",
            ),
            limits::output_max(
                |s, bytes| $last(s).limits.output_max = Some(bytes),
                |s| $last(s).limits.output_max = None,
                "Longest answer",
            ),
            $($more,)*
        ]
    };
}

const FASTCGI: &[Setting<SiteSettings>] = settings_of!(
    fastcgi,
    Setting {
        key: "idle-links",
        kind: Kind::Integer {
            least: 0,
            most: 1024,
            set: |s, most| fastcgi(s).idle_links = most as usize,
        },
        default: Some("0"),
        doc: "Most idle links to the server that are kept, per worker",
        more: "Each holds one process of php-fpm, which serves no other link meanwhile: all \
               workers together must keep fewer than it has. 0 makes a link for each request.",
        source: "FCGI_KEEP_CONN in FastCGI 1.0 section 5.1",
        ..Setting::ROW
    },
    pools::PROGRAM,
    pools::ARGUMENTS,
    pools::ENVIRONMENT,
    pools::PROCESSES,
    pools::PROCESSES_MIN,
    pools::PROCESS_IDLE,
    pools::MEMORY,
    pools::CPU_TIME
);

const SCGI: &[Setting<SiteSettings>] = settings_of!(scgi,);

/// A port alone is one of this machine.
fn server(address: Endpoint) -> Endpoint {
    match address {
        Endpoint::Unix(path) => Endpoint::Unix(path),
        Endpoint::Tcp(address) if address.ip().is_unspecified() => {
            Endpoint::Tcp((Ipv4Addr::LOCALHOST, address.port()).into())
        }
        Endpoint::Tcp(address) => Endpoint::Tcp(address),
    }
}

fn fastcgi(site: &mut SiteSettings) -> &mut ResponderSettings {
    site.fastcgi.last_mut().expect("a key comes after its table was begun")
}

fn scgi(site: &mut SiteSettings) -> &mut ResponderSettings {
    site.scgi.last_mut().expect("a key comes after its table was begun")
}
