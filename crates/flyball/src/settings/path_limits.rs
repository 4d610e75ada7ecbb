//! Settings of what clients may take of some paths of a site, by the words of what they may take of
//! the server.

use flyball_site::{LimitSettings, SiteSettings};

use super::kind::Kind;
use super::path_rows;
use super::requests::{
    BANDWIDTH_LEAST, BANDWIDTH_MAX, CLIENT_CONNECTIONS_MAX, CLIENT_REQUESTS_MAX,
};
use super::table::{Setting, Table, Word};

/// The tables below a site.
pub(super) const TABLES: &[Table<SiteSettings>] = &[Table {
    key: "limit",
    doc: "What clients may take of some paths",
    more: "The first table that fits counts: put the narrow ones first, and one with the path `/` \
           for the whole site last. It stands beside the limits of the server. The path is that \
           of the request, before redirects and rewrites, and before it is known who may come. \
           What clients have taken is counted for all workers together; a reload forgets none of \
           it while the table has the same path and the site the same hosts.",
    begin: |s| s.limits.push(LimitSettings::default()),
    settings: LIMIT,
}];

const LIMIT: &[Setting<SiteSettings>] = &[
    path_rows::path(
        "an absolute path without `*`, such as /download",
        |s, path| limit(s).path = Some(path),
        |s| limit(s).path = None,
    ),
    path_rows::pattern(|s, text| limit(s).pattern = Some(text), |s| limit(s).pattern = None),
    Setting {
        key: "connections-per-address",
        kind: Kind::Integer {
            least: 1,
            most: CLIENT_CONNECTIONS_MAX,
            set: |s, n| limit(s).connections_per_address = Some(n),
        },
        word: Some(Word { name: "off", set: |s| limit(s).connections_per_address = None }),
        default: Some("off"),
        doc: "Most connections of one client that are answered there at a time, in all",
        more: "A further request is answered with 429 and `Retry-After`. A connection counts from \
               a request until all its answers have been sent, over TLS as in the clear. The \
               client is that of the request, which a trusted proxy may report.",
        source: "RFC 6585 section 4",
        ..Setting::ROW
    },
    Setting {
        key: "connections",
        kind: Kind::Integer {
            least: 1,
            most: CLIENT_CONNECTIONS_MAX,
            set: |s, n| limit(s).connections = Some(n),
        },
        word: Some(Word { name: "off", set: |s| limit(s).connections = None }),
        default: Some("off"),
        doc: "Most connections that are answered there at a time, in all",
        more: "Of all clients together. A further request is answered with 503 and `Retry-After`.",
        source: "RFC 9110 section 15.6.4",
        ..Setting::ROW
    },
    Setting {
        key: "requests-per-address",
        kind: Kind::Integer {
            least: 1,
            most: CLIENT_REQUESTS_MAX,
            set: |s, n| limit(s).requests_per_address = Some(n),
        },
        word: Some(Word { name: "off", set: |s| limit(s).requests_per_address = None }),
        default: Some("off"),
        doc: "Most requests of one client address in a second, in all",
        more: "As `limit.requests-per-address`.",
        source: "RFC 6585 section 4",
        ..Setting::ROW
    },
    Setting {
        key: "requests-burst",
        kind: Kind::Integer {
            least: 1,
            most: CLIENT_REQUESTS_MAX,
            set: |s, n| limit(s).requests_burst = Some(n),
        },
        word: Some(Word { name: "auto", set: |s| limit(s).requests_burst = None }),
        default: Some("auto"),
        doc: "Most requests of one client address at once, in all",
        more: "`auto` is as many as `requests-per-address` allows in a second.",
        source: "ITU-T I.371 annex A",
        ..Setting::ROW
    },
    Setting {
        key: "bandwidth",
        kind: Kind::Size {
            least: BANDWIDTH_LEAST,
            most: BANDWIDTH_MAX,
            set: |s, n| limit(s).bandwidth = Some(n),
        },
        word: Some(Word { name: "off", set: |s| limit(s).bandwidth = None }),
        default: Some("off"),
        doc: "Most bytes that a connection is sent in a second",
        more: "It holds per connection, from the first such answer until the next answer that this \
               table is not for. It is the smaller one of this and `limit.bandwidth`. The kernel \
               paces the segments of the connection. A client's total is this times its \
               connections: `connections-per-address` bounds those.",
        source: "SO_MAX_PACING_RATE in socket(7)",
        ..Setting::ROW
    },
];

fn limit(site: &mut SiteSettings) -> &mut LimitSettings {
    site.limits.last_mut().expect("a key comes after its table was begun")
}
