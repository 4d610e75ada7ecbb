//! Who can vouch for a host: authorities on the internet, one of the operator's own, or that of
//! this machine.

use flyball_acme::{CERTIFICATES_MAX, Kind, Name, is_of_internet};
use flyball_arch::settings::{AcmeSettings, Settings};
use flyball_site::hosts::{ADDRESSES, without_brackets};
use flyball_site::{CertificateSource, SiteSettings, Spread, TlsSettings, host_roots};
use flyball_tls::Authority;

/// Why a host has no certificate: its name follows.
const UNKNOWN: &str = "no authority vouches for";
const UNSHOWN: &str = "no challenge of acme.challenges can be tried for";
const BEYOND: &str = "10000 certificates are kept at most, and none of them is for";

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

/// Whether a challenge that may be tried can show that a host is ours.
fn can_be_shown(host: &str, acme: &AcmeSettings) -> bool {
    let kinds = || acme.challenges.iter().filter_map(|name| Kind::named(name));
    Name::parse(without_brackets(host)).is_ok_and(|name| kinds().any(|kind| kind.can_show(&name)))
}

/// Puts in the sites that directories are, as they are now: each has a certificate from where the
/// site that stands for them says, if it can have one from there. What is not served is given
/// back. Blocks on the disk.
///
/// # Errors
/// A directory that cannot be read, or has too many.
pub fn spread_hosts(settings: &mut Settings) -> Result<Vec<String>, String> {
    let acme = &settings.tls.acme;
    let is_ordered = |site: &&SiteSettings| {
        site.spread == Spread::One && site.tls.source == CertificateSource::Acme
    };
    let mut ordered = settings.sites.iter().filter(is_ordered).count();
    let source_of = |host: &str, tls: &TlsSettings| {
        match tls.source {
            CertificateSource::Acme if !is_public(host, acme) => return Err(UNKNOWN),
            CertificateSource::Internal if !is_internal(host) => return Err(UNKNOWN),
            CertificateSource::Acme if !can_be_shown(host, acme) => return Err(UNSHOWN),
            CertificateSource::Acme if ordered >= CERTIFICATES_MAX => return Err(BEYOND),
            CertificateSource::Acme => ordered += 1,
            _ => {}
        }
        Ok(tls.source.clone())
    };
    host_roots::spread(&mut settings.sites, source_of)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use flyball_site::HostRoots;

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

    /// A server with a site of its own that has a certificate, and one for each directory.
    fn settings(base: &Path) -> Settings {
        let mut settings = Settings::default();
        let roots = HostRoots::of(&base.join("$host"), &["*".into()]).unwrap().unwrap();
        let tls = TlsSettings { source: CertificateSource::Acme, ..TlsSettings::default() };
        let own = SiteSettings {
            hosts: vec!["own.org".into()],
            tls: tls.clone(),
            ..SiteSettings::default()
        };
        let each = SiteSettings { spread: Spread::Each(roots), tls, ..SiteSettings::default() };
        settings.sites = vec![own, each];
        settings
    }

    fn bare(settings: &Settings) -> Vec<&str> {
        let is_bare = |site: &&SiteSettings| site.tls.source == CertificateSource::None;
        settings.sites.iter().filter(is_bare).map(|site| &*site.hosts[0]).collect()
    }

    #[test]
    fn an_address_has_no_certificate_where_only_names_can_be_shown() {
        let base = tempfile::tempdir().unwrap();
        for name in ["192.0.2.7", "a.org"] {
            fs::create_dir(base.path().join(name)).unwrap();
        }
        let mut settings = settings(base.path());
        assert_eq!(spread_hosts(&mut settings), Ok(vec![]));
        assert_eq!(bare(&settings), [""; 0]);
        settings.tls.acme.challenges = vec!["dns-01".into()];
        let told = spread_hosts(&mut settings).unwrap();
        assert!(told.len() == 1 && told[0].contains("tried for \"192.0.2.7\" of"), "{told:?}");
        assert_eq!(bare(&settings), ["192.0.2.7"]);
    }

    #[test]
    fn the_certificates_of_written_sites_count() {
        let base = tempfile::tempdir().unwrap();
        for name in ["a.org", "b.org"] {
            fs::create_dir(base.path().join(name)).unwrap();
        }
        let mut settings = settings(base.path());
        let own = vec![settings.sites[0].clone(); CERTIFICATES_MAX - 2];
        settings.sites.extend(own);
        let told = spread_hosts(&mut settings).unwrap();
        assert!(told.len() == 1 && told[0].contains("none of them is for \"b.org\""), "{told:?}");
        assert_eq!(bare(&settings), ["b.org"]);
        assert!(BEYOND.starts_with(&CERTIFICATES_MAX.to_string()));
    }
}
