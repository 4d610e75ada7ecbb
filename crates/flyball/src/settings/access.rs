//! Settings of who may come to a site, and what for.

use flyball_http::Network;
use flyball_site::access::AccessRule;
use flyball_site::{SiteSettings, path, routes};

use super::kind::Kind;
use super::path_rows;
use super::server::TIME_MS_MAX;
use super::table::{Setting, Table, Task, Word};

/// Most failed logins that may be allowed in a minute: a password of four digits would fall within
/// a day.
const FAILURES_MAX: u64 = 1_000;

/// The keys of a site.
pub(super) const ROWS: &[Setting<SiteSettings>] = &[
    Setting {
        key: "allow",
        task: Task::Access,
        kind: Kind::Texts {
            form: Network::FORM,
            empty: false,
            valid: is_network,
            set: |s, texts| s.access.admission.allow = networks(&texts),
        },
        word: Some(Word { name: "all", set: |s| s.access.admission.allow.clear() }),
        default: Some("all"),
        doc: "Networks whose clients are admitted; others are answered with 403",
        more: "For example `allow = [\"10.0.0.0/8\", \"::1\"]`. The address is that of the client, \
               which a trusted proxy may report. `[[site.access]]` overrides it for a path.",
        source: "RFC 4632 section 3.1",
        ..Setting::ROW
    },
    Setting {
        key: "deny",
        task: Task::Access,
        kind: Kind::Texts {
            form: Network::FORM,
            empty: true,
            valid: is_network,
            set: |s, texts| s.access.admission.deny = networks(&texts),
        },
        word: Some(Word { name: "none", set: |s| s.access.admission.deny.clear() }),
        default: Some("none"),
        doc: "Networks whose clients are refused, even if `allow` contains them",
        more: "A client is admitted if no `deny` network contains its address and `allow` is `all` \
               or contains it. The order within a list does not matter.",
        ..Setting::ROW
    },
    Setting {
        key: "auth.file",
        task: Task::Access,
        kind: Kind::Path { set: |s, path| s.access.auth.file = Some(path) },
        word: Some(Word { name: "off", set: |s| s.access.auth.file = None }),
        default: Some("off"),
        doc: "File of users and password hashes, as `htpasswd -B` writes it",
        more: "Each line is `USER:HASH`, with a hash of bcrypt (`$2y$`, `$2b$`, `$2a$`), Argon2 \
               (`$argon2id$` and its kin), SHA-crypt (`$5$`, `$6$`) or apr1 (`$apr1$`), of which \
               the start warns; other schemes are refused at start. The server reads it \
               at the start and at a reload, with the rights of the user who started the server. \
               Paths in `auth.paths` need a login (Basic authentication); their answers have \
               `Cache-Control: private`. Serve them by HTTPS: in the clear, passwords cross the \
               network as they are.",
        source: "RFC 7617, RFC 9106",
        ..Setting::ROW
    },
    Setting {
        key: "auth.realm",
        task: Task::Access,
        kind: Kind::Text {
            form: "text without quotes, backslashes and control characters",
            valid: is_realm,
            set: |s, realm| s.access.auth.realm = realm,
        },
        default: Some("restricted"),
        doc: "Text that browsers show when they ask for the password",
        source: "RFC 7235 section 2.2",
        ..Setting::ROW
    },
    Setting {
        key: "auth.paths",
        task: Task::Access,
        kind: Kind::Texts {
            form: "an absolute path without `*`, such as /private",
            empty: false,
            valid: is_path,
            set: |s, paths| s.access.auth.paths = paths,
        },
        default: Some("/"),
        doc: "Paths that need a login, with all beneath them",
        more: "Whole segments count: `/private` covers `/private/a` and not `/privateer`. Paths \
               are compared decoded and normalised. If another path leads to one of them by a \
               rewrite, a neighbour or the like, it is refused. A file that an alias shows under \
               another path has the rules of that path (docs/routing.md). A link within the root \
               is another name, with the rules of that name.",
        ..Setting::ROW
    },
    Setting {
        key: "auth.remember",
        task: Task::Access,
        kind: Kind::Duration {
            least_ms: 0,
            most_ms: TIME_MS_MAX,
            set: |s, ms| s.access.auth.remember_ms = ms,
        },
        default: Some("5min"),
        doc: "How long a successful login is not verified again, per worker",
        more: "Verifying takes tens of milliseconds of a processor. The server remembers 1,024 \
               logins, by a keyed hash and not by the password.",
        ..Setting::ROW
    },
    Setting {
        key: "auth.failures",
        task: Task::Access,
        kind: Kind::Integer {
            least: 1,
            most: FAILURES_MAX,
            set: |s, n| s.access.auth.failures_per_minute = n,
        },
        default: Some("20"),
        doc: "Most failed logins in a minute, per client address and per user, in all",
        more: "Further logins are answered with 429. All sites with the same `auth.file` count \
               together. This does not concern a login that is remembered from the same address. \
               If a user has logged in from an address within a day, only the failures of that \
               address count there: strangers cannot lock the user out. An IPv6 client is its \
               network of 64 bits.",
        source: "RFC 6585 section 4",
        ..Setting::ROW
    },
];

/// The tables below a site.
pub(super) const TABLES: &[Table<SiteSettings>] = &[Table {
    key: "access",
    doc: "Networks that may use a path, or the paths that match a pattern",
    more: "Of the tables with `path`, the one with the longest path counts, in place of \
           `allow` and `deny` of the site. In addition, every table with `match` that fits is \
           asked, and the first refusal counts. Each table has either `path` or `match`.",
    begin: |s| s.access.rules.push(AccessRule::default()),
    settings: ACCESS,
}];

const ACCESS: &[Setting<SiteSettings>] = &[
    Setting {
        more: "As it is asked for, decoded and normalised, in whole segments.",
        ..path_rows::path(
            "an absolute path without `*`, such as /admin",
            |s, path| rule(s).path = Some(path),
            |s| rule(s).path = None,
        )
    },
    Setting {
        more: "The URL of the file or script that was found is asked too: if it fits and the path \
               of the request does not, every client is refused. `/index.php/more` runs \
               `/index.php`; for both write `~\\.php(/|$)`.",
        ..path_rows::pattern(|s, text| rule(s).pattern = Some(text), |s| rule(s).pattern = None)
    },
    Setting {
        key: "allow",
        kind: Kind::Texts {
            form: Network::FORM,
            empty: false,
            valid: is_network,
            set: |s, texts| rule(s).admission.allow = networks(&texts),
        },
        word: Some(Word { name: "all", set: |s| rule(s).admission.allow.clear() }),
        default: Some("all"),
        doc: "As `allow` of the site",
        ..Setting::ROW
    },
    Setting {
        key: "deny",
        kind: Kind::Texts {
            form: Network::FORM,
            empty: true,
            valid: is_network,
            set: |s, texts| rule(s).admission.deny = networks(&texts),
        },
        word: Some(Word { name: "none", set: |s| rule(s).admission.deny.clear() }),
        default: Some("none"),
        doc: "As `deny` of the site",
        ..Setting::ROW
    },
];

/// Whether requests can have this path. One that names nothing would protect nothing.
pub(super) fn is_path(text: &str) -> bool {
    // `/private` covers all beneath it; a file that has a star in its name is written with `%2A`.
    // White space at the end, which is a slip, with `%20`.
    let plain = text.starts_with('/')
        && !text.contains(['?', '#', '*'])
        && !text.ends_with(char::is_whitespace)
        && routes::slip_in_path(text).is_none();
    plain && path::map(text.as_bytes(), true, &mut Vec::new()).is_ok()
}

fn is_network(text: &str) -> bool {
    text.parse::<Network>().is_ok()
}

/// Those of valid texts.
fn networks(texts: &[String]) -> Vec<Network> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

fn is_realm(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(|c| c.is_control() || c == '"' || c == '\\')
}

fn rule(site: &mut SiteSettings) -> &mut AccessRule {
    site.access.rules.last_mut().expect("a key comes after its table was begun")
}
