//! Settings of TLS: those of the server, and those of sites.

use flyball_arch::{Settings, TicketKeys};
use flyball_site::{CertificateFiles, CertificateSource, SiteSettings, TlsSettings};

use super::address;
use super::kind::Kind;
use super::table::{Setting, Table, Task, Word};

/// Longest time for which browsers remember to come by `https` alone: two years, which lists of
/// such sites ask for.
const HSTS_MS_MAX: u64 = 2 * 365 * 24 * 3_600_000;

/// Shortest time between two looks at certificates.
const WATCH_MS_LEAST: u64 = 100;

/// Longest time between two looks.
const WATCH_MS_MAX: u64 = 3_600_000;

/// The keys of `[tls]`.
pub(super) const ROWS: &[Setting] = &[
    Setting {
        key: "tls.minimum",
        task: Task::Tls,
        kind: Kind::OneOf {
            names: &[
                Word { name: "1.2", set: |s| s.tls.of_sites.only_1_3 = false },
                Word { name: "1.3", set: |s| s.tls.of_sites.only_1_3 = true },
            ],
        },
        default: Some("1.2"),
        doc: "Least version of TLS",
        more: "Older versions, and cipher suites that are not safe, are not there at all.",
        source: "RFC 8446, RFC 9325",
        ..Setting::ROW
    },
    Setting {
        key: "tls.unknown-name",
        task: Task::Tls,
        kind: Kind::OneOf {
            names: &[
                Word { name: "default", set: |s| s.tls.rejects_unknown = false },
                Word { name: "reject", set: |s| s.tls.rejects_unknown = true },
            ],
        },
        default: Some("default"),
        doc: "What a client gets that asks for a name of no site with a certificate",
        more: "`default` is the certificate of the first site that has one; `reject` ends the \
               handshake with the alert `unrecognized_name`, so that no certificate tells which \
               names live here. A client that names none is always shown the default, or on an \
               address of its own the certificate that names this address.",
        source: "RFC 6066 section 3",
        ..Setting::ROW
    },
    CLIENT_CA,
    CLIENT_AUTH,
    CLIENT_CRL,
    Setting {
        key: "tls.redirect-http",
        task: Task::Tls,
        kind: Kind::Switch { set: |s, on| s.tls.of_sites.redirects_http = on },
        default: Some("true"),
        doc: "Whether requests in the clear are led to https",
        more: "For hosts of sites with a certificate, once it is there, by 308 to the same path; \
               not what answers a challenge (`/.well-known/acme-challenge/TOKEN`), unless clients \
               must show certificates, and not where a trusted proxy says that its client came by \
               https. It has no effect without an address that speaks TLS.",
        source: "RFC 9110 section 15.4.9",
        ..Setting::ROW
    },
    Setting {
        key: "tls.hsts",
        task: Task::Tls,
        kind: Kind::Duration {
            least_ms: 0,
            most_ms: HSTS_MS_MAX,
            set: |s, ms| s.tls.of_sites.hsts_s = Some(ms / 1_000),
        },
        word: Some(Word { name: "off", set: |s| s.tls.of_sites.hsts_s = None }),
        default: Some("off"),
        doc: "How long browsers shall come to the sites by https alone, in all",
        more: "It is sent as `Strict-Transport-Security` with answers over TLS. A year is `365d`. \
               `0s` ends it for browsers that know it already.",
        source: "RFC 6797",
        ..Setting::ROW
    },
    Setting {
        key: "tls.tickets",
        task: Task::Tls,
        kind: Kind::Text {
            form: "a path or off",
            valid: |text| address::path(text, std::path::Path::new("")).is_some(),
            set: |s, text| {
                s.tls.tickets = match text.as_str() {
                    "off" => TicketKeys::Off,
                    _ => TicketKeys::File(text.into()),
                };
            },
        },
        word: Some(Word { name: "auto", set: |s| s.tls.tickets = TicketKeys::Auto }),
        default: Some("auto"),
        doc: "Where the keys of session tickets come from",
        more: "With `auto` all workers have keys in common, which change every 12 hours, are \
               accepted for 12 hours more, and are drawn afresh every week; a reload and an \
               upgrade keep them. A file that several servers have takes a client from one to \
               another: at least 32 random bytes, which only its owner may read. It is looked at \
               once in `tls.watch`, and tickets by the one before hold on. With `off` each \
               connection has a full handshake.",
        source: "RFC 8446 section 4.6.1, RFC 5077",
        ..Setting::ROW
    },
    Setting {
        key: "tls.watch",
        task: Task::Tls,
        kind: Kind::Duration {
            least_ms: WATCH_MS_LEAST,
            most_ms: WATCH_MS_MAX,
            set: |s, ms| s.tls.watch_ms = ms,
        },
        word: Some(Word { name: "off", set: |s| s.tls.watch_ms = u64::MAX }),
        default: Some("1min"),
        doc: "How often the server looks for renewed certificates, in all",
        more: "A pair that is right is used for the next handshake, without a reload. One whose \
               key does not belong to the certificate changes nothing, and is told once. The same \
               holds for `client-ca`, `client-crl` and the file of `tickets`. A file that stays \
               away for longer than this is told once.",
        ..Setting::ROW
    },
];

/// The keys of a site.
pub(super) const OF_SITE: &[Setting<SiteSettings>] =
    &[CERTIFICATE, CLIENT_CA_OF_SITE, CLIENT_AUTH_OF_SITE, CLIENT_CRL_OF_SITE];

/// The tables of a site.
pub(super) const TABLES: &[Table<SiteSettings>] = &[Table {
    key: "certificates",
    doc: "Certificates of the site, each with its key",
    more: "Instead of `certificate`. Of several, a client is shown one that names what it asks \
           for, and whose signatures it can verify: ECDSA before RSA. docs/https.md tells the \
           whole.",
    begin: |s| s.tls.certificates.push(CertificateFiles::default()),
    settings: &[
        Setting {
            key: "chain",
            kind: Kind::Path { set: |s, path| last(s).chain = path },
            doc: "File of the certificate, and of its intermediates, in PEM",
            ..Setting::ROW
        },
        Setting {
            key: "key",
            kind: Kind::Path { set: |s, path| last(s).key = path },
            doc: "File of its private key, in PEM, which only its owner may read",
            more: "The server reads it before it gives up rights. A file that all may read is \
                   refused.",
            ..Setting::ROW
        },
    ],
}];

fn last(site: &mut SiteSettings) -> &mut CertificateFiles {
    let certificates = &mut site.tls.certificates;
    if certificates.is_empty() {
        certificates.push(CertificateFiles::default());
    }
    let last = certificates.len() - 1;
    &mut certificates[last]
}

const CERTIFICATE: Setting<SiteSettings> = Setting {
    key: "certificate",
    task: Task::Tls,
    kind: Kind::Text {
        form: "a path, none, acme or internal",
        valid: |text| address::path(text, std::path::Path::new("")).is_some(),
        set: |s, text| {
            s.tls.source = match text.as_str() {
                "none" => CertificateSource::None,
                "acme" => CertificateSource::Acme,
                "internal" => CertificateSource::Internal,
                path => {
                    let (chain, key) = (path.into(), path.into());
                    s.tls.certificates =
                        vec![CertificateFiles { chain, key, ..Default::default() }];
                    CertificateSource::Auto
                }
            };
        },
    },
    word: Some(Word { name: "auto", set: |s| s.tls.source = CertificateSource::Auto }),
    default: Some("auto"),
    doc: "Certificate of the site: a file, in PEM, or where one comes from",
    more: "The file holds the chain and the key. `acme` gets one for the hosts of the site, and \
           renews it: `[acme]` says from whom, and must be written. `internal` has an authority of \
           this machine issue one, for localhost and private addresses alone. Chain and key \
           apart, or several certificates, are `[[site.certificates]]` tables. `auto` is \
           `internal` where all hosts are such, and `acme` where `[acme]` is written and all are \
           public names, or others and `acme.directory` is an authority of your own. Names such as \
           `printer.local`, `nas.home.arpa`, `db.internal` and `router` are not public. With an \
           address that speaks TLS each site has a certificate, or says `none`: clients that ask \
           for its hosts by TLS are then answered as `tls.unknown-name` says.",
    source: "RFC 7468, RFC 8555",
    ..Setting::ROW
};

/// The keys about certificates of clients, which `[tls]` has and `[site.tls]` too.
macro_rules! clients {
    ($ca:ident, $auth:ident, $crl:ident, $target:ty, $of:expr, $more:literal) => {
        const $ca: Setting<$target> = Setting {
            key: "tls.client-ca",
            task: Task::Tls,
            kind: Kind::Path { set: |s, path| $of(s).clients.ca = Some(path) },
            word: Some(Word { name: "off", set: |s| $of(s).clients.ca = None }),
            default: Some("off"),
            doc: "File of the authorities whose certificates clients show, in PEM",
            more: concat!(
                "The handshake fails for other certificates. Sessions are not resumed then. It is \
                 an error where no address speaks TLS, or for a site without a certificate. ",
                $more
            ),
            source: "RFC 8446 section 4.3.2",
            ..Setting::ROW
        };
        const $auth: Setting<$target> = Setting {
            key: "tls.client-auth",
            task: Task::Tls,
            kind: Kind::OneOf {
                names: &[
                    Word { name: "required", set: |s| $of(s).clients.is_optional = false },
                    Word { name: "optional", set: |s| $of(s).clients.is_optional = true },
                ],
            },
            default: Some("required"),
            doc: "Whether a client without a certificate is refused, by `client-ca`",
            more: concat!(
                "With `optional` a client may show none, and programs see who has shown one; one \
                 that is not right is refused all the same. Without `client-ca` it is an error. ",
                $more
            ),
            ..Setting::ROW
        };
        const $crl: Setting<$target> = Setting {
            key: "tls.client-crl",
            task: Task::Tls,
            kind: Kind::Path { set: |s, path| $of(s).clients.crl = Some(path) },
            word: Some(Word { name: "off", set: |s| $of(s).clients.crl = None }),
            default: Some("off"),
            doc: "File of lists of certificates that are revoked, in PEM",
            more: concat!(
                "Only certificates of clients themselves are looked up there. If it is given, it \
                 must hold the list of every authority that issues them; one whose time is over \
                 lets none of them in. Without `client-ca` it is an error. ",
                $more
            ),
            source: "RFC 5280 section 5",
            ..Setting::ROW
        };
    };
}

clients!(
    CLIENT_CA,
    CLIENT_AUTH,
    CLIENT_CRL,
    Settings,
    of_server,
    "`[site.tls]` has it for a site."
);
clients!(
    CLIENT_CA_OF_SITE,
    CLIENT_AUTH_OF_SITE,
    CLIENT_CRL_OF_SITE,
    SiteSettings,
    of_site,
    "What is not written for a site is as in `[tls]`."
);

fn of_server(settings: &mut Settings) -> &mut TlsSettings {
    &mut settings.tls.of_sites
}

fn of_site(site: &mut SiteSettings) -> &mut TlsSettings {
    &mut site.tls
}
