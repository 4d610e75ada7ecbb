//! The table of the settings of one site: the keys of a `[[site]]` table.

use flyball_arch::AccessLog;
use flyball_site::{SiteSettings, Symlinks};

use super::kind::Kind;
use super::table::{Setting, Table, Task, Word, count, join};
use super::text::{is_file_name, is_host, is_token, is_url_path};
use super::{access, backends, compress, modules, path_limits, responders, routes, tls};

/// Every setting of a site, in the order of the documentation.
pub static SITE_SETTINGS: &[Setting<SiteSettings>] = &join::<_, { count(GROUPS) }>(GROUPS);

/// Every kind of table below a site that may come more than once.
pub static SITE_TABLES: &[Table<SiteSettings>] = &join::<_, { count(TABLES) }>(TABLES);

const TABLES: &[&[Table<SiteSettings>]] = &[
    tls::TABLES,
    routes::TABLES,
    access::TABLES,
    path_limits::TABLES,
    backends::TABLES,
    responders::TABLES,
    modules::TABLES,
];

const GROUPS: &[&[Setting<SiteSettings>]] =
    &[ROWS, LOGS, tls::OF_SITE, routes::ROWS, access::ROWS, compress::ROWS, compress::LEVELS];

/// What is written of it.
const LOGS: &[Setting<SiteSettings>] = &[Setting {
    key: "access-log",
    task: Task::Logs,
    kind: Kind::Log { dash: || AccessLog::Stdout, set: |s, log| s.access_log = log },
    word: Some(Word { name: "off", set: |s| s.access_log = AccessLog::Off }),
    default: Some("off"),
    doc: "Where lines about answers of the site go, instead of the server's log",
    more: "A site that does not say so has `access-log` of the server. `off` writes none of its \
           lines. Several sites may name one file. Format and rotation are those of `[log]`. What \
           no site answers, such as a request that is refused before its host is known, stays in \
           the log of the server.",
    ..Setting::ROW
}];

/// Which site it is, and where its files are.
const ROWS: &[Setting<SiteSettings>] = &[
    Setting {
        key: "hosts",
        task: Task::Files,
        kind: Kind::Texts {
            form: "a host such as example.org, *.example.org, [::1] or *",
            empty: false,
            valid: is_host,
            set: |s, hosts| {
                s.hosts = hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
            },
        },
        default: Some("*"),
        doc: "Hosts that the site answers to, without a port",
        more: "An exact name wins over a wildcard, the longest wildcard over shorter ones, and \
               any of them over `*`, the default site. `*.example.org` does not stand for \
               `example.org` itself. Names beyond ASCII are written in their `xn--` form.",
        source: "RFC 9110 section 7.2",
        ..Setting::ROW
    },
    Setting {
        key: "root",
        task: Task::Files,
        kind: Kind::Path { set: |s, path| s.root = Some(path) },
        word: Some(Word { name: "none", set: |s| s.root = None }),
        default: Some("none"),
        doc: "Directory that is served",
        more: "It must exist and be readable when the server starts. Only a site that has nothing \
               but redirects and returns needs none: all else is 404 there, whatever the method. \
               With `$host` as the name of one directory, such as `/srv/$host` or \
               `/srv/$host/public`, each directory of `/srv` whose name is that of a host is a \
               site, of at most 10,000; `hosts` says which are meant (docs/routing.md).",
        ..Setting::ROW
    },
    Setting {
        key: "index",
        task: Task::Files,
        kind: Kind::Texts {
            form: "a file name",
            empty: true,
            valid: is_file_name,
            set: |s, names| s.index = names,
        },
        default: Some("index.html"),
        doc: "File names tried, in order, for a directory",
        ..Setting::ROW
    },
    Setting {
        key: "listing",
        task: Task::Files,
        kind: Kind::Switch { set: |s, on| s.listing = on },
        default: Some("false"),
        doc: "Whether a directory without an index is listed",
        more: "It is on for `flyball serve DIR`.",
        ..Setting::ROW
    },
    Setting {
        key: "hidden",
        task: Task::Files,
        kind: Kind::Switch { set: |s, on| s.hidden = on },
        default: Some("false"),
        doc: "Whether names that begin with a dot are served",
        more: "`/.well-known` always is.",
        source: "RFC 8615 section 3",
        ..Setting::ROW
    },
    Setting {
        key: "symlinks",
        task: Task::Files,
        kind: Kind::OneOf {
            names: &[
                Word { name: "deny", set: |s| s.symlinks = Symlinks::Deny },
                Word { name: "beneath", set: |s| s.symlinks = Symlinks::Beneath },
                Word { name: "follow", set: |s| s.symlinks = Symlinks::Follow },
            ],
        },
        default: Some("beneath"),
        doc: "Which symbolic links are followed",
        more: "`deny` follows none, `beneath` those that stay beneath the root, `follow` all.",
        source: "RESOLVE_BENEATH in openat2(2)",
        ..Setting::ROW
    },
    Setting {
        key: "charset",
        task: Task::Files,
        kind: Kind::Text {
            form: "the name of a charset",
            valid: is_token,
            set: |s, name| s.charset = name,
        },
        word: Some(Word { name: "none", set: |s| s.charset.clear() }),
        default: Some("utf-8"),
        doc: "Charset added to textual media types",
        more: "`none` adds none.",
        source: "RFC 9110 section 8.3.2",
        ..Setting::ROW
    },
    Setting {
        key: "types",
        task: Task::Files,
        kind: Kind::Types { set: |s, types| s.types.extend(types) },
        word: Some(Word { name: "none", set: |s| s.types.clear() }),
        default: Some("none"),
        doc: "Media types by file name extension, before the built-in table",
        more: "For example `types = { md = \"text/markdown\", log = \"text/plain\" }`.",
        source: "RFC 9110 section 8.3.1",
        ..Setting::ROW
    },
    Setting {
        key: "digest-path",
        task: Task::Files,
        kind: Kind::Text {
            form: "an absolute path such as /digest",
            valid: is_url_path,
            set: |s, path| s.digest_path = Some(path),
        },
        word: Some(Word { name: "off", set: |s| s.digest_path = None }),
        default: Some("off"),
        doc: "Path that answers POST and PUT with the length and CRC-32 of the body",
        more: "For tests and measurements of uploads. It is short for a `[[site.module]]` with the \
               `name` `digest`, `exact` and this path, which answers other methods too.",
        ..Setting::ROW
    },
];
