//! Settings of certificates that come from an authority by ACME.

use flyball_acme::{Kind as Challenge, wants_external};
use flyball_arch::Settings;

use super::kind::Kind;
use super::table::{Setting, Task, Word};

/// Longest address of an account, and longest profile, in bytes.
const TEXT_BYTES_MAX: usize = 254;

/// The keys of `[acme]`.
pub(super) const ROWS: &[Setting] = &[
    Setting {
        key: "acme.email",
        task: Task::Acme,
        kind: Kind::Text {
            form: "an address such as admin@example.org",
            valid: is_email,
            set: |s, text| s.tls.acme.email = Some(text),
        },
        word: Some(Word { name: "off", set: |s| s.tls.acme.email = None }),
        default: Some("off"),
        doc: "Address by which the authority may reach you",
        more: "Without one, expiry is only told in the server's own log and metrics.",
        source: "RFC 8555 section 7.3",
        ..Setting::ROW
    },
    Setting {
        key: "acme.directory",
        task: Task::Acme,
        kind: Kind::Texts {
            form: "letsencrypt, letsencrypt-staging, zerossl or the https URL of a directory",
            empty: false,
            valid: flyball_acme::is_directory,
            set: |s, names| s.tls.acme.directories = names,
        },
        default: Some("letsencrypt"),
        doc: "Authorities that issue certificates; where one fails, the next is asked",
        more: "An order that Let's Encrypt has refused is tried with its staging first. \
               Certificates of letsencrypt-staging are for trials: no browser trusts them.",
        source: "RFC 8555 section 7.1.1",
        ..Setting::ROW
    },
    Setting {
        key: "acme.ca-root",
        task: Task::Acme,
        kind: Kind::Path { set: |s, path| s.tls.acme.roots = Some(path) },
        word: Some(Word { name: "system", set: |s| s.tls.acme.roots = None }),
        default: Some("system"),
        doc: "File of certificates in PEM by which the authority's own server is known",
        more: "For an authority of your own. `system` is what this machine trusts.",
        ..Setting::ROW
    },
    Setting {
        key: "acme.profile",
        task: Task::Acme,
        kind: Kind::Text {
            form: "a name such as shortlived",
            valid: is_word,
            set: |s, text| s.tls.acme.profile = Some(text),
        },
        word: Some(Word { name: "off", set: |s| s.tls.acme.profile = None }),
        default: Some("off"),
        doc: "Profile of certificates that is asked for",
        more: "Let's Encrypt has `shortlived`, six days, which certificates for addresses need.",
        ..Setting::ROW
    },
    Setting {
        key: "acme.external-account",
        task: Task::Acme,
        kind: Kind::Text {
            form: "a key identifier",
            valid: is_word,
            set: |s, text| s.tls.acme.external = Some(text),
        },
        word: Some(Word { name: "off", set: |s| s.tls.acme.external = None }),
        default: Some("off"),
        doc: "Account to which the server's own belongs, by its key identifier",
        more: "ZeroSSL and others want it; Let's Encrypt is not told.",
        source: "RFC 8555 section 7.3.4",
        ..Setting::ROW
    },
    Setting {
        key: "acme.external-key",
        task: Task::Acme,
        kind: Kind::Path { set: |s, path| s.tls.acme.external_key = Some(path) },
        word: Some(Word { name: "none", set: |s| s.tls.acme.external_key = None }),
        default: Some("none"),
        doc: "File of its key for HMAC, in base64url, which only its owner may read",
        source: "RFC 8555 section 7.3.4",
        ..Setting::ROW
    },
    Setting {
        key: "acme.storage",
        task: Task::Acme,
        kind: Kind::Path { set: |s, path| s.tls.acme.storage = path },
        word: Some(Word { name: "auto", set: |s| s.tls.acme.storage.clear() }),
        default: Some("auto"),
        doc: "Directory where accounts, keys and certificates are kept",
        more: "`auto` is `acme` in the state directory: that of systemd, /var/lib/flyball for the \
               superuser, else ~/.local/state/flyball. It belongs to who starts the server, who \
               alone and the agent may enter it, and holds nothing else. Servers that share it \
               order each certificate once.",
        ..Setting::ROW
    },
    Setting {
        key: "acme.challenge",
        task: Task::Acme,
        kind: Kind::Texts {
            form: "tls-alpn-01, http-01 or dns-01",
            empty: false,
            valid: |text| Challenge::named(text).is_some(),
            set: |s, names| s.tls.acme.challenges = names,
        },
        default: Some("tls-alpn-01,http-01"),
        doc: "Ways to show an authority that hosts are ours, the first one first",
        more: "`tls-alpn-01` is asked for at port 443, and `http-01` at port 80, of the host \
               itself. Wildcards need `dns-01`.",
        source: "RFC 8737, RFC 8555 section 8",
        ..Setting::ROW
    },
    Setting {
        key: "acme.dns-hook",
        task: Task::Acme,
        kind: Kind::Texts {
            form: "a program and its first arguments",
            empty: true,
            valid: |text| !text.is_empty() && !text.contains('\0'),
            set: |s, words| s.tls.acme.dns_hook = words,
        },
        word: Some(Word { name: "none", set: |s| s.tls.acme.dns_hook.clear() }),
        default: Some("none"),
        doc: "Command that sets and clears the records of dns-01",
        more: "It is called with `set NAME VALUE` and `clear NAME VALUE` behind its own arguments, \
               as the user that workers are, and ends with 0 when the record of the kind TXT can \
               be seen. It has five minutes.",
        source: "RFC 8555 section 8.4",
        ..Setting::ROW
    },
];

fn is_email(text: &str) -> bool {
    let parts = text.split_once('@');
    parts.is_some_and(|(who, host)| is_word(who) && is_word(host) && !host.contains('@'))
        && text.len() <= TEXT_BYTES_MAX
}

fn is_word(text: &str) -> bool {
    (1..=TEXT_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// What is at fault of what is written, and why.
pub(super) fn faults(settings: &Settings) -> Vec<(&'static str, String)> {
    let acme = &settings.tls.acme;
    let mut faults = Vec::new();
    let has_dns = acme.challenges.iter().any(|name| name == "dns-01");
    if has_dns && acme.dns_hook.is_empty() {
        faults.push(("acme.challenge", "dns-01 needs a command: acme.dns-hook".to_owned()));
    }
    if !has_dns && !acme.dns_hook.is_empty() {
        let why = "only dns-01 calls it, which acme.challenge does not have";
        faults.push(("acme.dns-hook", why.to_owned()));
    }
    let is_clear = settings.listen.iter().any(|listen| !listen.tls);
    if acme.challenges == ["http-01"] && !is_clear {
        let why =
            "http-01 is asked for at port 80, and each address of listen has https:// before it";
        faults.push(("acme.challenge", why.to_owned()));
    }
    let is_alone = acme.external.is_none() && acme.external_key.is_none();
    if is_alone && acme.directories.iter().any(|directory| wants_external(directory)) {
        let why = "zerossl issues only to accounts elsewhere: add acme.external-account and \
                   acme.external-key, which zerossl.com gives to its users (EAB)";
        faults.push(("acme.directory", why.to_owned()));
    }
    if acme.external.is_some() != acme.external_key.is_some() {
        let why = "an account elsewhere has both acme.external-account and acme.external-key";
        let is_id = acme.external.is_some();
        let key = if is_id { "acme.external-account" } else { "acme.external-key" };
        faults.push((key, why.to_owned()));
    }
    faults
}
