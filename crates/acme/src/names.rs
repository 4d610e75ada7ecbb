//! Names that a certificate is for: hosts, wildcards and addresses.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Longest name in bytes (RFC 1035, section 2.3.4, as text).
const NAME_MAX: usize = 253;

/// Longest label of a name in bytes.
const LABEL_MAX: usize = 63;

/// Domains that the DNS of the internet leads to no host: each network has its own names in them,
/// or none (RFC 6761, RFC 6762 with its appendix G, RFC 7686, RFC 8375, RFC 9476; ICANN has kept
/// `internal` for the same). `example.org` and its like stand for names of the internet here.
const SPECIAL: [&str; 14] = [
    "alt",
    "corp",
    "example",
    "home",
    "home.arpa",
    "internal",
    "intranet",
    "invalid",
    "lan",
    "local",
    "localhost",
    "onion",
    "private",
    "test",
];

/// A name in the form in which certificates have it: an A-label in lower case, the same behind
/// `*.`, or an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// Reads a name that an operator wrote.
    ///
    /// # Errors
    /// When it is neither a host in ASCII nor an address.
    pub fn parse(text: &str) -> Result<Name, String> {
        let text = text.trim_end_matches('.');
        // As a URL has it (RFC 3986, section 3.2.2).
        let v6 = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Some(Ok(address)) = v6.map(str::parse::<Ipv6Addr>) {
            return Ok(Name(address.to_string()));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Name(address.to_string()));
        }
        let lower = text.to_ascii_lowercase();
        let host = lower.strip_prefix("*.").unwrap_or(&lower);
        let is_host = lower.len() <= NAME_MAX && host.split('.').all(is_label);
        match is_host && !host.is_empty() {
            true => Ok(Name(lower)),
            false => Err(format!("{text:?} is not a name that a certificate can be for")),
        }
    }

    /// As it stands in certificates.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it stands for all names one label below another. Only dns-01 shows that.
    pub fn is_wildcard(&self) -> bool {
        self.0.starts_with("*.")
    }

    /// Whether it is one of the internet's names, which an authority there may issue certificates
    /// for. Addresses are none.
    pub fn is_of_internet(&self) -> bool {
        let is_below = |domain: &&str| {
            self.0.strip_suffix(*domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let has_domain = self.0.trim_start_matches("*.").contains('.');
        self.address().is_none() && has_domain && !SPECIAL.iter().any(is_below)
    }

    /// The address that it is.
    pub fn address(&self) -> Option<IpAddr> {
        self.0.parse().ok()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_label(label: &str) -> bool {
    let is_plain = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_plain
        && (1..=LABEL_MAX).contains(&label.len())
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_wildcards_and_addresses_are_names_in_one_form() {
        for (text, name) in [
            ("Example.ORG.", "example.org"),
            ("*.example.org", "*.example.org"),
            ("192.0.2.7", "192.0.2.7"),
            ("2001:DB8::0:1", "2001:db8::1"),
            ("[2001:db8::0:1]", "2001:db8::1"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ] {
            assert_eq!(Name::parse(text).unwrap().as_str(), name);
        }
    }

    #[test]
    fn names_of_one_network_or_of_none_are_not_of_the_internet() {
        let is_of_internet = |text: &str| Name::parse(text).unwrap().is_of_internet();
        for text in ["example.org", "*.example.org", "local.example.org", "mylocal.org", "a.arpa"] {
            assert!(is_of_internet(text), "{text}");
        }
        for domain in SPECIAL {
            for text in [domain.to_owned(), format!("A.{domain}."), format!("*.b.{domain}")] {
                assert!(!is_of_internet(&text), "{text}");
            }
        }
        for text in ["router", "*.org", "192.0.2.7", "2001:db8::1"] {
            assert!(!is_of_internet(text), "{text}");
        }
    }

    #[test]
    fn what_could_be_a_path_or_is_no_host_is_refused() {
        let long = format!("{}.org", "a".repeat(64));
        for text in ["", ".", "*.", "a/b", "..", "a..b", "-a", "a-", "*", "a.*.b", "b\u{fc}", &long]
            .into_iter()
            .chain(["[::1", "[a.org]", "[192.0.2.7]"])
        {
            assert!(Name::parse(text).is_err(), "{text}");
        }
    }
}
