//! The hosts of sites, and the names of their certificates: which do not go together.

use std::collections::HashSet;
use std::net::IpAddr;

use flyball_site::SiteSettings;
use flyball_site::hosts::{ADDRESSES, without_brackets};
use flyball_tls::{Certificate, Site};

use super::files::{Files, Source};

/// Most names of a list in a message.
const SHOWN_MAX: usize = 3;

/// The names of a certificate, to be asked often.
pub(super) struct Named<'a> {
    names: HashSet<&'a str>,
    addresses: &'a [IpAddr],
}

impl<'a> Named<'a> {
    pub(super) fn new(certificate: &'a Certificate) -> Named<'a> {
        let names = certificate.names.iter().map(String::as_str).collect();
        Named { names, addresses: &certificate.addresses }
    }

    /// Whether it names a host of a site, which may be an address or begin with a wildcard.
    pub(super) fn has(&self, host: &str) -> bool {
        let host = without_brackets(host).to_ascii_lowercase();
        let host = host.strip_suffix('.').unwrap_or(&host);
        if let Ok(address) = host.parse::<IpAddr>() {
            return self.addresses.contains(&address);
        }
        let above = || host.split_once('.').map(|(_, parent)| format!("*.{parent}"));
        self.names.contains(host) || above().is_some_and(|wild| self.names.contains(&*wild))
    }
}

/// The hosts of a site that a certificate can name; none where it answers to any name.
fn of_site(site: &SiteSettings) -> Vec<&str> {
    match site.hosts.iter().any(|host| host == "*") {
        true => Vec::new(),
        false => site.hosts.iter().map(String::as_str).filter(|host| *host != ADDRESSES).collect(),
    }
}

/// Names in a message: the first of them, and how many more there are.
pub(super) fn shown<T: AsRef<str>>(names: &[T]) -> String {
    let first: Vec<&str> = names.iter().take(SHOWN_MAX).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(SHOWN_MAX) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// What the operator should know of the certificates out of files: each that names no host of its
/// site, once, and of each site the hosts that none of its certificates names.
pub(super) fn warnings(settings: &[SiteSettings], sites: &[Site], files: &[Files]) -> Vec<String> {
    let named: Vec<Option<Named<'_>>> =
        files.iter().map(|files| files.certificate().map(Named::new)).collect();
    let (mut told, mut warnings) = (HashSet::new(), Vec::new());
    for (site, settings) in sites.iter().zip(settings) {
        let hosts = of_site(settings);
        let is_file = |at: &usize| files[*at].source == Source::Files;
        let own: Vec<(usize, &Named<'_>)> =
            site.pairs.iter().filter_map(|at| Some((*at, named[*at].as_ref()?))).collect();
        if hosts.is_empty() || own.is_empty() || !site.pairs.iter().all(is_file) {
            continue;
        }
        let mut names_any = false;
        for (at, named) in &own {
            if hosts.iter().any(|host| named.has(host)) {
                names_any = true;
            } else if told.insert(*at) {
                let names = files[*at].told().names;
                warnings.push(files[*at].blame(&format!(
                    "holds a certificate for {}, which names no host of its site ({}): clients \
                     refuse it there",
                    shown(&names),
                    shown(&hosts)
                )));
            }
        }
        let is_unnamed = |host: &&&str| !own.iter().any(|(_, named)| named.has(host));
        let unnamed: Vec<&str> = hosts.iter().filter(is_unnamed).copied().collect();
        if names_any && !unnamed.is_empty() {
            warnings.push(format!(
                "site {}: no certificate of the site names {}: clients refuse it there",
                hosts[0],
                shown(&unnamed)
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_tls::Pair;

    #[test]
    fn a_host_is_named_by_itself_a_wildcard_or_its_address() {
        let names = ["a.test", "*.b.test", "192.0.2.1", "2001:db8::1"].map(str::to_owned);
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let pair = Pair::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        let named = Named::new(pair.certificate());
        for host in ["A.test.", "x.b.test", "*.b.test", "192.0.2.1", "[2001:db8::1]"] {
            assert!(named.has(host), "{host}");
        }
        for host in ["b.test", "x.y.b.test", "*.a.test", "192.0.2.2", "test"] {
            assert!(!named.has(host), "{host}");
        }
    }

    #[test]
    fn a_long_list_is_cut() {
        assert_eq!(shown(&["a", "b", "c"]), "a, b, c");
        assert_eq!(shown(&["a", "b", "c", "d", "e"]), "a, b, c and 2 more");
    }

    #[test]
    fn any_name_needs_no_other() {
        let site = |hosts: &[&str]| SiteSettings {
            hosts: hosts.iter().map(ToString::to_string).collect(),
            ..SiteSettings::default()
        };
        assert!(
            of_site(&site(&["*", "a.test"])).is_empty() && of_site(&site(&[ADDRESSES])).is_empty()
        );
        assert_eq!(of_site(&site(&["a.test", ADDRESSES])), ["a.test"]);
    }
}
