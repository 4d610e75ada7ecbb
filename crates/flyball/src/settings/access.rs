//! Settings of who may come to a site, and what for.

use flyball_http::Network;
use flyball_site::access::AccessRule;
use flyball_site::{SiteSettings, path, routes};

use super::kind::Kind;
use super::routes::PATTERN;
use super::server::TIME_MS_MAX;
use super::table::{Setting, Table, Word};

/// Most failed logins that may be allowed in a minute: a password of four digits would fall within
/// a day.
const FAILURES_MAX: u64 = 1_000;

/// The keys of a site.
pub(super) const ROWS: &[Setting<SiteSettings>] = &[
    Setting {
        key: "allow",
        flag: None,
        kind: Kind::Texts {
            form: Network::FORM,
            empty: false,
            valid: is_network,
            set: |s, texts| s.access.admission.allow = networks(&texts),
        },
        word: Some(Word { name: "all", set: |s| s.access.admission.allow.clear() }),
        default: Some("all"),
        doc: "Networks from which one may come; others are answered with 403",
        more: "For example `allow = [\"10.0.0.0/8\", \"::1\"]`. An address counts as that of the \
               client, which a trusted proxy may tell. `[[site.access]]` says something else for \
               a path.",
        source: "RFC 4632 section 3.1",
    },
    Setting {
        key: "deny",
        flag: None,
        kind: Kind::Texts {
            form: Network::FORM,
            empty: true,
            valid: is_network,
            set: |s, texts| s.access.admission.deny = networks(&texts),
        },
        word: Some(Word { name: "none", set: |s| s.access.admission.deny.clear() }),
        default: Some("none"),
        doc: "Networks from which nobody may come, though `allow` names them",
        more: "Whoever is in no network of `deny` comes in when `allow` is `all` or names a \
               network that the address is in. The order within a list does not matter.",
        source: "",
    },
    Setting {
        key: "auth.file",
        flag: None,
        kind: Kind::Path { set: |s, path| s.access.auth.file = Some(path) },
        word: Some(Word { name: "off", set: |s| s.access.auth.file = None }),
        default: Some("off"),
        doc: "Users and the hashes of their passwords, as `htpasswd -B` writes them",
        more: "Each line is `USER:HASH`, with a hash of bcrypt (`$2y$`, `$2b$`) or Argon2 \
               (`$argon2id$` and its kin); other schemes are refused at start. It is read once, at \
               start. One has to log in (Basic authentication) to whatever `auth.paths` names; \
               what is answered there is marked `Cache-Control: private`. Without TLS in front, \
               passwords go over the network as they are.",
        source: "RFC 7617, RFC 9106",
    },
    Setting {
        key: "auth.realm",
        flag: None,
        kind: Kind::Text {
            form: "text without quotes, backslashes and control characters",
            valid: is_realm,
            set: |s, realm| s.access.auth.realm = realm,
        },
        word: None,
        default: Some("restricted"),
        doc: "What browsers show when they ask for the password",
        more: "",
        source: "RFC 7235 section 2.2",
    },
    Setting {
        key: "auth.paths",
        flag: None,
        kind: Kind::Texts {
            form: "an absolute path without `*`, such as /private",
            empty: false,
            valid: is_path,
            set: |s, paths| s.access.auth.paths = paths,
        },
        word: None,
        default: Some("/"),
        doc: "Paths at and beneath which one has to log in",
        more: "Whole segments count: `/private` covers `/private/a` and not `/privateer`. Paths \
               are compared decoded and normalised. What another path leads to by a rewrite, a \
               neighbour or the like is refused; what an alias shows under another path has the \
               rules of that path (docs/routing.md). Links within the \
               root are other names, with the rules of those.",
        source: "",
    },
    Setting {
        key: "auth.remember",
        flag: None,
        kind: Kind::Duration {
            least_ms: 0,
            most_ms: TIME_MS_MAX,
            set: |s, ms| s.access.auth.remember_ms = ms,
        },
        word: None,
        default: Some("5min"),
        doc: "How long a login that was right is not verified again, per worker",
        more: "Verifying takes tens of milliseconds of a processor. What is remembered of 1,024 \
               logins is a keyed hash, not the password.",
        source: "",
    },
    Setting {
        key: "auth.failures",
        flag: None,
        kind: Kind::Integer {
            least: 1,
            most: FAILURES_MAX,
            set: |s, n| s.access.auth.failures_per_minute = n,
        },
        word: None,
        default: Some("20"),
        doc: "Most failed logins in a minute, per client address and per user, in all",
        more: "More are answered with 429. A login that is remembered is not concerned. From an \
               address from which a user has logged in within a day only the failures of that \
               address count, so that strangers cannot lock the user out. An IPv6 client is its \
               network of 64 bits.",
        source: "RFC 6585 section 4",
    },
];

/// The tables below a site.
pub(super) const TABLES: &[Table<SiteSettings>] = &[Table {
    key: "access",
    doc: "Networks from which one may come to a path, or to what fits a pattern",
    more: "Of the tables with `path` the one with the longest counts, and then neither `allow` and \
           `deny` of the site nor those of other such tables. Of the tables with `match` every one \
           that fits is asked besides, and the first that refuses counts. Each table has one of \
           the two.",
    begin: |s| s.access.rules.push(AccessRule::default()),
    settings: ACCESS,
}];

const ACCESS: &[Setting<SiteSettings>] = &[
    Setting {
        key: "path",
        flag: None,
        kind: Kind::Text {
            form: "an absolute path without `*`, such as /admin",
            valid: is_path,
            set: |s, path| rule(s).path = Some(path),
        },
        word: Some(Word { name: "none", set: |s| rule(s).path = None }),
        default: Some("none"),
        doc: "The path; it and all beneath it are meant",
        more: "As it is asked for, decoded and normalised, in whole segments.",
        source: "",
    },
    Setting {
        key: "match",
        flag: None,
        kind: Kind::Text {
            form: PATTERN,
            valid: routes::is_pattern,
            set: |s, text| rule(s).pattern = Some(text),
        },
        word: Some(Word { name: "none", set: |s| rule(s).pattern = None }),
        default: Some("none"),
        doc: "Or the paths that fit a pattern, as `from` of a redirect",
        more: "The URL of the file or script that was found is asked too: if it fits and the path \
               of the request does not, every client is refused. `/index.php/more` runs \
               `/index.php`; for both write `~\\.php(/|$)`.",
        source: "",
    },
    Setting {
        key: "allow",
        flag: None,
        kind: Kind::Texts {
            form: Network::FORM,
            empty: false,
            valid: is_network,
            set: |s, texts| rule(s).admission.allow = networks(&texts),
        },
        word: Some(Word { name: "all", set: |s| rule(s).admission.allow.clear() }),
        default: Some("all"),
        doc: "As `allow` of the site",
        more: "",
        source: "",
    },
    Setting {
        key: "deny",
        flag: None,
        kind: Kind::Texts {
            form: Network::FORM,
            empty: true,
            valid: is_network,
            set: |s, texts| rule(s).admission.deny = networks(&texts),
        },
        word: Some(Word { name: "none", set: |s| rule(s).admission.deny.clear() }),
        default: Some("none"),
        doc: "As `deny` of the site",
        more: "",
        source: "",
    },
];

/// Whether requests can have this path. One that names nothing would protect nothing.
pub(super) fn is_path(text: &str) -> bool {
    // `/private` covers all beneath it; a file that has a star in its name is written with `%2A`.
    let plain = text.starts_with('/') && !text.contains(['?', '#', '*']);
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
