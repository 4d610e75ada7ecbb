//! Whether what is said about certificates of clients asks any client for one: who writes such a
//! rule relies on it, so that one without an effect is an error.

use flyball_arch::Settings;
use flyball_site::{CertificateSource, SiteSettings};

use super::error::{Origin, SettingError};
use super::origins::Origins;

const CA: &str = "tls.client-ca";
const AUTH: &str = "tls.client-auth";
const CRL: &str = "tls.client-crl";

const CLEAR: &str = "so no client shows a certificate and all are served; add one with https:// \
                     before it";

/// What is wrong in the table of a site; `speaks_tls` is whether clients do so where it is served.
pub(super) fn faults(
    site: &SiteSettings,
    (settings, speaks_tls): (&Settings, bool),
    table: &Origin,
    origins: &Origins,
) -> Vec<SettingError> {
    let error = |key: &'static str, why: &str| SettingError {
        key: format!("site.{key}"),
        value: None,
        why: why.to_owned(),
        origin: origins.get(key).unwrap_or(table).clone(),
    };
    let (clients, is_own) = (&site.tls.clients, origins.get(CA).is_some());
    if clients.ca.is_none() {
        // Who says `off` beside them knows.
        let written = [(AUTH, !is_own), (CRL, !is_own && clients.crl.is_some())];
        let written = written.into_iter().filter(|(key, says)| *says && origins.get(key).is_some());
        return written.map(|(key, _)| error(key, &alone("site."))).collect();
    }
    if !speaks_tls {
        let why = format!("the site is served at no address that speaks TLS, {CLEAR}");
        let others = "clients show certificates by tls.client-ca in [tls], which they cannot where \
                      the site is served: no address speaks TLS there; say tls.client-ca = \
                      \"off\" for this site";
        let of_server = (!is_own && settings.speaks_tls()).then(|| error("certificate", others));
        return is_own.then(|| error(CA, &why)).or(of_server).into_iter().collect();
    }
    if site.tls.source != CertificateSource::None {
        return Vec::new();
    }
    vec![match is_own {
        true => error(CA, "the site has no certificate, so it is served in the clear to all"),
        false => error(
            "certificate",
            "clients show certificates by tls.client-ca in [tls], which they cannot in the clear; \
             name a certificate, or say tls.client-ca = \"off\" for this site",
        ),
    }]
}

/// What is wrong in `[tls]`, the sites being known.
pub(super) fn faults_of_server(settings: &Settings, origins: &Origins) -> Vec<SettingError> {
    let error = |key: &'static str, why: String| {
        let origin = origins.get(key)?.clone();
        Some(SettingError { key: key.to_owned(), value: None, why, origin })
    };
    let clients = &settings.tls.of_sites.clients;
    if clients.ca.is_some() {
        let is_clear = !settings.speaks_tls();
        let why = format!("no address speaks TLS, {CLEAR}");
        return is_clear.then(|| error(CA, why)).flatten().into_iter().collect();
    }
    let is_off = origins.get(CA).is_some();
    if is_off || settings.sites.iter().any(|site| site.tls.clients.ca.is_some()) {
        return Vec::new();
    }
    let written = [(AUTH, true), (CRL, clients.crl.is_some())];
    let written = written.into_iter().filter(|(_, says)| *says);
    written.filter_map(|(key, _)| error(key, alone(""))).collect()
}

fn alone(prefix: &str) -> String {
    format!("asks no client for a certificate without {prefix}{CA}, which says whose they show")
}
