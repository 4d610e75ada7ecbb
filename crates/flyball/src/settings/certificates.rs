//! Where the certificates of a site are written, and whether it has any.

use flyball_arch::Settings;
use flyball_site::routes::HeaderSettings;
use flyball_site::{CertificateSource, SiteSettings, TlsSettings};

use super::error::{Origin, SettingError};
use super::origins::{Origins, Tables};

const CERTIFICATE: &str = "certificate";
const TABLE: &str = "certificates";

/// Gives each certificate the place where it is written, and the directory that its path starts
/// from.
pub(super) fn place(tls: &mut TlsSettings, site: &Origin, origins: &Origins, tables: &Tables) {
    let of_tables = tables.iter().filter(|(table, ..)| *table == TABLE).map(|(_, at, _)| at);
    // The tables are read after the key.
    let of_key =
        origins.get(CERTIFICATE).filter(|_| tls.certificates.len() > of_tables.clone().count());
    let of_key = of_key.map(|origin| (origin, CERTIFICATE));
    let places = of_key.into_iter().chain(of_tables.map(|origin| (origin, TABLE)));
    for (files, (origin, key)) in tls.certificates.iter_mut().zip(places) {
        files.written = origin.lead(&format!("site.{key}"));
        let base = std::path::absolute(origin.base()).unwrap_or_else(|_| site.base().into());
        for path in [&mut files.chain, &mut files.key] {
            *path = base.join(&*path);
        }
    }
}

/// Has the answers of a site over TLS tell browsers to come by https alone, if it has a certificate
/// and an address speaks TLS. In the clear they must not say so (RFC 6797, section 7.2).
pub(super) fn tell_browsers(site: &mut SiteSettings, settings: &Settings) {
    let speaks_tls = settings.listen.iter().any(|listen| listen.tls);
    let Some(hsts_s) = site.tls.hsts_s.filter(|_| speaks_tls && site.tls.has_certificate()) else {
        return;
    };
    let set = vec![("Strict-Transport-Security".to_owned(), format!("max-age={hsts_s}"))];
    // What the site says itself comes later, and so wins.
    site.routes
        .headers
        .insert(0, HeaderSettings { only_secure: true, set, ..HeaderSettings::default() });
}

/// A site says where its certificate comes from, if any address speaks TLS, and says it once.
pub(super) fn faults(
    site: &SiteSettings,
    settings: &Settings,
    table: &Origin,
    origins: &Origins,
    tables: &Tables,
) -> Option<SettingError> {
    let written = origins.get(CERTIFICATE);
    let of_tables = tables.iter().filter(|(table, ..)| *table == TABLE).count();
    let is_said_twice = of_tables > 0
        && (site.tls.certificates.len() > of_tables || site.tls.source != CertificateSource::Auto);
    let speaks_tls = settings.listen.iter().any(|listen| listen.tls);
    let why = match &site.tls.source {
        _ if is_said_twice => {
            "says where the certificate is, and so does a [[site.certificates]] table; give one"
        }
        CertificateSource::Acme => "certificates by ACME are not there yet; name a file",
        CertificateSource::Internal => "an authority of this machine is not there yet; name a file",
        CertificateSource::Auto if speaks_tls && site.tls.certificates.is_empty() => {
            "is missing: an address speaks TLS, so each site names a file with a certificate and \
             its key, or says none"
        }
        CertificateSource::Auto | CertificateSource::None => return None,
    };
    Some(SettingError {
        key: format!("site.{CERTIFICATE}"),
        value: None,
        why: why.to_owned(),
        origin: written.unwrap_or(table).clone(),
    })
}
