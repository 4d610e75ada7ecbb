//! Where the certificates of a site come from, and whether it has any.

use flyball_acme::Name;
use flyball_arch::Settings;
use flyball_server::{is_internal, is_public};
use flyball_site::hosts::without_brackets;
use flyball_site::routes::HeaderSettings;
use flyball_site::{CertificateSource, SiteSettings, TlsSettings};

use super::error::{Origin, SettingError};
use super::origins::{Origins, Tables};
use super::suggest::nearest;

const CERTIFICATE: &str = "certificate";
const TABLE: &str = "certificates";

/// Keys of files by which clients are known.
const CLIENTS: [&str; 2] = ["tls.client-ca", "tls.client-crl"];

/// What stands in the place of a file.
const WORDS: [&str; 4] = ["auto", "acme", "internal", "none"];

/// Gives each certificate the place where it is written, and the directory that its path starts
/// from; and the files by which clients are known the place.
pub(super) fn place(tls: &mut TlsSettings, site: &Origin, origins: &Origins, tables: &Tables) {
    let of_tables = tables.iter().filter(|(table, ..)| *table == TABLE).map(|(_, at, _)| at);
    // The tables are read after the key.
    let of_key =
        origins.get(CERTIFICATE).filter(|_| tls.certificates.len() > of_tables.clone().count());
    let of_key = of_key.map(|origin| (origin, CERTIFICATE));
    let places = of_key.into_iter().chain(of_tables.map(|origin| (origin, TABLE)));
    for (written, key) in tls.clients_written.iter_mut().zip(CLIENTS) {
        *written = origins.get(key).map_or_else(String::new, |at| at.lead(&format!("site.{key}")));
    }
    for (files, (origin, key)) in tls.certificates.iter_mut().zip(places) {
        files.written = origin.lead(&format!("site.{key}"));
        let base = std::path::absolute(origin.base()).unwrap_or_else(|_| site.base().into());
        for path in [&mut files.chain, &mut files.key] {
            *path = base.join(&*path);
        }
    }
}

/// Chooses where the certificate of a site comes from that says nothing of it; `speaks_tls` is
/// whether clients do so where it is served. Of a site that stands for many, directories that come
/// and go decide nothing: a host that cannot have one from there has none.
pub(super) fn choose(site: &mut SiteSettings, settings: &Settings, speaks_tls: bool) {
    let is_open = site.tls.source == CertificateSource::Auto && site.tls.certificates.is_empty();
    let acme = &settings.tls.acme;
    let mut hosts = site.hosts.iter();
    let (is_internal, is_acme) = match site.is_many() {
        true => (!acme.is_written && hosts.any(|host| is_internal(host)), acme.is_written),
        false => (
            hosts.clone().all(|host| is_internal(host)),
            acme.is_written && hosts.all(|host| is_public(host, acme)),
        ),
    };
    if is_open && speaks_tls {
        site.tls.source = match is_internal {
            true => CertificateSource::Internal,
            false if is_acme => CertificateSource::Acme,
            false => return,
        };
    }
}

/// The host of a site for which no authority that is asked issues a certificate.
pub(super) fn not_public(site: &SiteSettings, settings: &Settings) -> Option<String> {
    let is_none = |host: &&String| {
        let is_name = Name::parse(without_brackets(host)).is_ok();
        is_name && !is_internal(host) && !is_public(host, &settings.tls.acme)
    };
    let host = site.hosts.iter().find(is_none)?;
    Some(format!("no authority on the internet issues a certificate for {host}"))
}

/// The hosts that a site names: those of directories are not the operator's words.
fn named(site: &SiteSettings) -> impl Iterator<Item = &String> {
    site.hosts.iter().filter(|_| !site.is_many())
}

/// Why no certificate for the hosts of a site can come by ACME.
pub(super) fn no_acme(site: &SiteSettings, settings: &Settings) -> Option<String> {
    if !cfg!(feature = "acme") {
        return Some("this program was built without ACME; name a file".to_owned());
    }
    if !settings.tls.acme.is_written {
        let why = "needs [acme], which agrees to the terms of the authority: add it, if without \
                   a key";
        return Some(why.to_owned());
    }
    let has_dns = settings.tls.acme.challenges.iter().any(|name| name == "dns-01");
    named(site).find_map(|host| match Name::parse(without_brackets(host)) {
        Err(_) => Some(format!("needs the names of the site in site.hosts, and {host} is none")),
        Ok(name) if name.is_wildcard() && !has_dns => Some(format!(
            "{host} needs a record of its domain: dns-01 in acme.challenge, and acme.dns-hook"
        )),
        Ok(_) => None,
    })
}

/// The first host of a site for which the authority of this machine cannot vouch, and why.
pub(super) fn not_internal(site: &SiteSettings) -> Option<(&String, String)> {
    let host = named(site).find(|host| !(is_internal(host) || *host == "*"))?;
    let why = format!(
        "the authority of this machine vouches for localhost and private addresses alone, and \
         {host} is none"
    );
    Some((host, why))
}

/// Has the answers of a site over TLS tell browsers to come by https alone, if it has a certificate
/// and clients speak TLS where it is served. In the clear they must not say so (RFC 6797, section
/// 7.2).
pub(super) fn tell_browsers(site: &mut SiteSettings, speaks_tls: bool) {
    let Some(hsts_s) = site.tls.hsts_s.filter(|_| speaks_tls && site.tls.has_certificate()) else {
        return;
    };
    let set = vec![("Strict-Transport-Security".to_owned(), format!("max-age={hsts_s}"))];
    // What the site says itself comes later, and so wins.
    site.routes
        .headers
        .insert(0, HeaderSettings { only_secure: true, set, ..HeaderSettings::default() });
}

/// A site says where its certificate comes from, if clients speak TLS where it is served, and says
/// it once.
pub(super) fn faults(
    site: &SiteSettings,
    (settings, speaks_tls): (&Settings, bool),
    table: &Origin,
    origins: &Origins,
    tables: &Tables,
) -> Option<SettingError> {
    let written = origins.get(CERTIFICATE);
    let of_tables = tables.iter().filter(|(table, ..)| *table == TABLE).count();
    let is_said_twice = of_tables > 0
        && (site.tls.certificates.len() > of_tables || site.tls.source != CertificateSource::Auto);
    let why = match &site.tls.source {
        _ if is_said_twice => {
            "says where the certificate is, and so does a [[site.certificates]] table; give one"
                .to_owned()
        }
        CertificateSource::Acme => no_acme(site, settings)?,
        CertificateSource::Internal => not_internal(site)?.1,
        CertificateSource::Auto if speaks_tls && site.tls.certificates.is_empty() => {
            missing(site, settings)
        }
        CertificateSource::Auto => misspelt(&site.tls, written?)?,
        CertificateSource::None => return None,
    };
    Some(SettingError {
        key: format!("site.{CERTIFICATE}"),
        value: None,
        why,
        origin: written.unwrap_or(table).clone(),
    })
}

/// Why a lone word, which is read as the name of a file, is none: it is near one that means
/// something else. Blocks on the disk.
fn misspelt(tls: &TlsSettings, origin: &Origin) -> Option<String> {
    let path = &tls.certificates.first()?.chain;
    let name = path.file_name()?.to_str().filter(|name| !name.contains('.'))?;
    let base = std::path::absolute(origin.base()).unwrap_or_else(|_| origin.base().into());
    let near = nearest(name, WORDS).filter(|_| *path == base.join(name) && !path.exists())?;
    Some(format!("{name} is no file; did you mean {near}?"))
}

/// Why `[acme]` gets no certificate for a site of hosts of more than one kind, or of none.
fn mixed(site: &SiteSettings, settings: &Settings) -> Option<String> {
    let acme = Some(&settings.tls.acme).filter(|acme| acme.is_written)?;
    let host = site.hosts.iter().find(|host| !is_public(host, acme))?;
    Some(match site.hosts.iter().find(|other| is_public(other, acme)) {
        _ if host == "*" => "[acme] gets certificates for names, and the site has none: give it \
                             `hosts`"
            .to_owned(),
        Some(other) if is_internal(host) => format!(
            "no authority of [acme] vouches for {host}, and that of this machine not for {other}: \
             give each a site"
        ),
        _ => format!("no authority of [acme] vouches for {host}"),
    })
}

/// What a site says that has no certificate yet.
fn missing(site: &SiteSettings, settings: &Settings) -> String {
    let why = not_public(site, settings);
    if let Some(why) = mixed(site, settings).filter(|_| why.is_none()) {
        return format!(
            "is missing: {why}; or name a file with a certificate and its key, or none"
        );
    }
    match why {
        Some(why) => format!(
            "is missing: {why}; name a file with a certificate and its key, say acme if \
             acme.directory is an authority of your own, or none"
        ),
        None => {
            let line = if settings.tls.acme.is_written { "" } else { "the line [acme], and " };
            format!(
                "is missing: an address speaks TLS, so each site names a file with a certificate \
                 and its key, says acme to get one for its hosts ({line}certificate = \"acme\" in \
                 the site), internal for this machine alone, or none"
            )
        }
    }
}
