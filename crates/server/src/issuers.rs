//! Who can vouch for a host: authorities on the internet, one of the operator's own, or that of
//! this machine.

use flyball_acme::{Name, is_of_internet};
use flyball_arch::settings::{AcmeSettings, Settings};
use flyball_site::hosts::{ADDRESSES, without_brackets};
use flyball_site::{CertificateSource, TlsSettings, host_roots};
use flyball_tls::Authority;

/// Whether only this machine, or what is near it, is meant by a host, so that this machine's own
/// authority may vouch for it.
pub fn is_internal(host: &str) -> bool {
    host == ADDRESSES || Authority::may_issue(without_brackets(host))
}

/// Whether an authority may issue a certificate for a host: those on the internet issue none for
/// names of one network.
pub fn is_public(host: &str, acme: &AcmeSettings) -> bool {
    let are_own = || !acme.directories.iter().any(|directory| is_of_internet(directory));
    Name::parse(without_brackets(host)).is_ok_and(|name| {
        let is_reached = name.address().is_some() || name.is_of_internet() || are_own();
        is_reached && !Authority::may_issue(name.as_str())
    })
}

/// Puts in the sites that directories are, as they are now: each has a certificate from where the
/// site that stands for them says, if it can have one from there. What is not served is given
/// back. Blocks on the disk.
///
/// # Errors
/// A directory that cannot be read, or has too many.
pub fn spread_hosts(settings: &mut Settings) -> Result<Vec<String>, String> {
    let acme = &settings.tls.acme;
    let source_of = |host: &str, tls: &TlsSettings| match tls.source {
        CertificateSource::Acme if !is_public(host, acme) => None,
        CertificateSource::Internal if !is_internal(host) => None,
        _ => Some(tls.source.clone()),
    };
    host_roots::spread(&mut settings.sites, source_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_are_names_of_domains_and_addresses_that_the_internet_reaches() {
        let (internet, mut own) = (AcmeSettings::default(), AcmeSettings::default());
        own.directories = vec!["https://ca.internal/directory".into()];
        for host in ["example.org", "*.example.org", "192.0.2.7", "[2001:db8::1]"] {
            assert!(is_public(host, &internet) && is_public(host, &own), "{host}");
        }
        for host in ["router", "printer.local", "a.home.arpa", "b.internal", "c.test"] {
            assert!(!is_public(host, &internet) && is_public(host, &own), "{host}");
        }
        let local = ["localhost", "a.localhost", "127.0.0.1", "[::1]", "10.0.0.1", "192.168.1.1"];
        for host in local.into_iter().chain(["*", "[fd00::1]", "[fe80::1]", "<address>"]) {
            assert!(!is_public(host, &internet) && !is_public(host, &own), "{host}");
        }
        own.directories.push("letsencrypt".into());
        assert!(!is_public("printer.local", &own));
    }
}
