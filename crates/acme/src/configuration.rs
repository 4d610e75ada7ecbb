//! What the agent is told to do: all of it comes with one message.

use std::collections::HashSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::names::Name;

/// Certificates that one agent keeps.
pub const CERTIFICATES_MAX: usize = 10_000;

/// Names of one certificate: as many as Let's Encrypt takes.
const NAMES_MAX: usize = 100;

/// Authorities, one behind the other.
const AUTHORITIES_MAX: usize = 8;

/// Longest key of an external account, in bytes.
pub(crate) const EXTERNAL_KEY_MAX: usize = 512;

/// Directories that have names: those of authorities on the internet.
const KNOWN: [(&str, &str); 3] = [
    ("letsencrypt", "https://acme-v02.api.letsencrypt.org/directory"),
    ("letsencrypt-staging", "https://acme-staging-v02.api.letsencrypt.org/directory"),
    ("zerossl", "https://acme.zerossl.com/v2/DV90"),
];

/// The whole configuration of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Configuration {
    /// The directory that it writes, which it makes if need be.
    pub storage: PathBuf,
    /// Authorities: where one fails, the next is asked.
    pub authorities: Vec<Authority>,
    /// Address that accounts are made with.
    #[serde(default)]
    pub email: Option<String>,
    /// Ways to show that names are ours, the preferred one first.
    #[serde(default = "both")]
    pub challenges: Vec<Kind>,
    /// The command for dns-01, and its first arguments. It is called with `set NAME VALUE` and
    /// `clear NAME VALUE` behind them, and ends with 0 when the record can be seen.
    #[serde(default)]
    pub dns_hook: Vec<String>,
    /// Whether it gives up what it does not need: files but for the storage, and system calls.
    #[serde(default = "yes")]
    pub confines: bool,
    /// The names of each certificate.
    pub certificates: Vec<Vec<String>>,
}

/// An authority that issues certificates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Authority {
    /// `letsencrypt`, `letsencrypt-staging`, `zerossl`, or the URL of a directory.
    pub directory: String,
    /// In the same form, where orders are tried that were refused. Let's Encrypt's is known.
    #[serde(default)]
    pub staging: Option<String>,
    /// File of certificates in PEM by which the authority's own server is known; those of the
    /// system otherwise.
    #[serde(default)]
    pub roots: Option<PathBuf>,
    /// Profile to ask for, such as `shortlived`.
    #[serde(default)]
    pub profile: Option<String>,
    /// The account elsewhere to which the one here belongs (RFC 8555, section 7.3.4).
    #[serde(default)]
    pub external: Option<External>,
}

/// An external account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct External {
    /// Its key identifier.
    pub id: String,
    /// Its key for HMAC, in base64url.
    pub key: String,
}

/// A way to show that a name is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A certificate in a handshake at port 443 (RFC 8737).
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01,
    /// A resource at port 80 (RFC 8555, section 8.3).
    #[serde(rename = "http-01")]
    Http01,
    /// A record of the domain (RFC 8555, section 8.4).
    #[serde(rename = "dns-01")]
    Dns01,
}

fn yes() -> bool {
    true
}

fn both() -> Vec<Kind> {
    vec![Kind::TlsAlpn01, Kind::Http01]
}

impl Kind {
    /// All of them, by their names.
    const ALL: [(&str, Kind); 3] =
        [("tls-alpn-01", Kind::TlsAlpn01), ("http-01", Kind::Http01), ("dns-01", Kind::Dns01)];

    /// That of this name.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find_map(|(known, kind)| (known == name).then_some(kind))
    }

    /// Whether it can show that a name is ours.
    pub fn can_show(self, name: &Name) -> bool {
        match self {
            Kind::Dns01 => name.address().is_none(),
            Kind::Http01 | Kind::TlsAlpn01 => !name.is_wildcard(),
        }
    }
}

/// Whether a text names a directory: by its name or its URL.
pub fn is_directory(text: &str) -> bool {
    KNOWN.iter().any(|(name, _)| *name == text) || is_url(text)
}

/// Whether a directory is that of an authority on the internet, by its name or its URL. Others may
/// be of one network, and issue certificates for names of it.
pub fn is_of_internet(directory: &str) -> bool {
    KNOWN.iter().any(|(name, url)| *name == directory || *url == directory)
}

/// Whether the authority of a directory is one that issues only to accounts elsewhere.
pub fn wants_external(directory: &str) -> bool {
    url(directory) == url("zerossl")
}

/// Whether it is an https URL with a host, and a port that there is.
fn is_url(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("https://") else { return false };
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic()) && !host.contains('@');
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    };
    is_plain && !name.is_empty() && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

impl External {
    /// Looks whether its key is one.
    ///
    /// # Errors
    /// What it is instead.
    pub fn check(&self) -> Result<(), &'static str> {
        let digits = self.key.trim_end_matches('=');
        let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        match digits.len() {
            0 => Err("holds no key"),
            // Four digits are three bytes, and two or three digits the rest.
            len if len % 4 == 1 || !digits.bytes().all(is_digit) => {
                Err("holds no key in base64url (RFC 4648, section 5)")
            }
            len if len / 4 * 3 > EXTERNAL_KEY_MAX => Err("holds a key that is too long"),
            _ => Ok(()),
        }
    }
}

impl Authority {
    /// One that is known by what this machine trusts.
    pub fn new(directory: &str) -> Authority {
        Authority {
            directory: directory.to_owned(),
            staging: None,
            roots: None,
            profile: None,
            external: None,
        }
    }

    /// Whether it is Let's Encrypt, which knows nothing of accounts elsewhere.
    pub fn is_lets_encrypt(&self) -> bool {
        ["letsencrypt", "letsencrypt-staging"].into_iter().any(|known| url(known) == self.url())
    }

    /// The URLs of its directory and of that for rehearsals.
    pub(crate) fn urls(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.url()).chain(self.rehearsal())
    }

    /// The URL of its directory.
    pub(crate) fn url(&self) -> &str {
        url(&self.directory)
    }

    /// The URL of the directory for rehearsals, if it has one.
    pub(crate) fn rehearsal(&self) -> Option<&str> {
        let known = (self.url() == url("letsencrypt")).then_some("letsencrypt-staging");
        self.staging.as_deref().or(known).map(url)
    }
}

fn url(written: &str) -> &str {
    KNOWN.iter().find(|(name, _)| *name == written).map_or(written, |(_, url)| url)
}

impl Configuration {
    /// The names of each certificate, in one form, if all of it can be done.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<Vec<Vec<Name>>, String> {
        for directory in self.authorities.iter().flat_map(Authority::urls) {
            if !is_url(directory) {
                return Err(format!("{directory:?} is not the https URL of a directory"));
            }
        }
        if !(1..=AUTHORITIES_MAX).contains(&self.authorities.len()) {
            return Err(format!("1 to {AUTHORITIES_MAX} authorities are possible"));
        }
        if self.challenges.is_empty() {
            return Err("no challenge is allowed".into());
        }
        if self.challenges.contains(&Kind::Dns01) && self.dns_hook.is_empty() {
            return Err("dns-01 needs the command dns-hook".into());
        }
        if self.certificates.len() > CERTIFICATES_MAX {
            return Err(format!("more than {CERTIFICATES_MAX} certificates"));
        }
        let all = self.certificates.iter().map(|names| self.names(names));
        let all = all.collect::<Result<Vec<_>, _>>()?;
        let mut firsts = HashSet::new();
        match all.iter().filter_map(|names| names.first()).find(|name| !firsts.insert(*name)) {
            // They would have one file.
            Some(name) => Err(format!("{name} is the first name of two certificates")),
            None => Ok(all),
        }
    }

    fn names(&self, written: &[String]) -> Result<Vec<Name>, String> {
        if !(1..=NAMES_MAX).contains(&written.len()) {
            return Err(format!("a certificate is for 1 to {NAMES_MAX} names"));
        }
        let mut names: Vec<Name> = Vec::with_capacity(written.len());
        for text in written {
            let name = Name::parse(text)?;
            if !self.challenges.iter().any(|kind| kind.can_show(&name)) {
                return Err(format!("no challenge that is allowed can show that {name} is ours"));
            }
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(more: &str) -> Result<Vec<Vec<Name>>, String> {
        let text = format!(
            r#"{{"storage": "/s", "authorities": [{{"directory": "letsencrypt"}}], {more}}}"#
        );
        serde_json::from_str::<Configuration>(&text).unwrap().check()
    }

    #[test]
    fn what_cannot_be_done_is_told_before_anything_is_asked() {
        for (more, why) in [
            (r#""certificates": [["*.example.org"]]"#, "*.example.org is ours"),
            (r#""certificates": [["a/b"]]"#, "not a name"),
            (r#""certificates": [[]]"#, "1 to 100 names"),
            (r#""certificates": [["a.org"], ["A.org", "b.org"]]"#, "first name of two"),
            (r#""certificates": [["a.org"]], "challenges": []"#, "no challenge"),
            (r#""certificates": [["a.org"]], "challenges": ["dns-01"]"#, "dns-hook"),
            (
                r#""certificates": [["192.0.2.7"]], "challenges": ["dns-01"], "dns-hook": ["h"]"#,
                "192.0.2.7 is ours",
            ),
        ] {
            let told = configuration(more).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }

    #[test]
    fn names_are_told_once_and_in_one_form() {
        let names = configuration(r#""certificates": [["A.org", "a.org.", "b.org"]]"#).unwrap();
        assert_eq!(names[0].iter().map(Name::as_str).collect::<Vec<_>>(), ["a.org", "b.org"]);
    }

    #[test]
    fn lets_encrypt_has_a_directory_for_rehearsals_and_others_have_what_is_written() {
        let authority = |text| serde_json::from_str::<Authority>(text).unwrap();
        let known = authority(r#"{"directory": "letsencrypt"}"#);
        assert!(known.rehearsal().unwrap().contains("staging"));
        assert_eq!(authority(r#"{"directory": "zerossl"}"#).rehearsal(), None);
        let own = authority(r#"{"directory": "https://a/d", "staging": "https://b/d"}"#);
        assert_eq!((own.url(), own.rehearsal()), ("https://a/d", Some("https://b/d")));
    }

    #[test]
    fn a_directory_has_a_host_and_a_port_that_there_is() {
        for text in ["letsencrypt", "https://a.org", "https://[::1]:14000/dir", "https://[::1]"] {
            assert!(is_directory(text), "{text}");
        }
        for text in ["https://", "https:///dir", "https://:1/d", "https://a:99999/d", "https://a b"]
        {
            assert!(!is_directory(text), "{text}");
        }
        assert!(!is_directory("https://user:word@a.org/dir") && !is_directory("http://a.org/dir"));
    }

    #[test]
    fn a_key_of_an_account_elsewhere_is_looked_at() {
        let check = |key: &str| External { id: "id".into(), key: key.into() }.check();
        for key in ["c2VjcmV0", "c2VjcmV0cw", "c2VjcmV0cw==", "_-8"] {
            assert_eq!(check(key), Ok(()), "{key}");
        }
        for (key, why) in [
            ("", "no key"),
            ("==", "no key"),
            ("not base64!", "base64url"),
            ("c2Vj+/==", "base64url"),
            ("c2VjcmV0c", "base64url"),
            (&"A".repeat(4_000), "too long"),
        ] {
            assert!(check(key).unwrap_err().contains(why), "{key}");
        }
    }

    #[test]
    fn a_directory_without_tls_is_refused() {
        let text = r#"{"storage": "/s", "authorities": [{"directory": "http://a/d"}],
                       "certificates": []}"#;
        let told = serde_json::from_str::<Configuration>(text).unwrap().check().unwrap_err();
        assert!(told.contains("http://a/d"), "{told}");
    }
}
