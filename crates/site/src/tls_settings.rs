//! What a site says of TLS.

use std::path::PathBuf;

use crate::secrets::Secret;

/// How a site is served by TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// Where its certificate comes from, unless `certificates` names files.
    pub source: CertificateSource,
    /// Certificates with their keys, of which the client's choice decides.
    pub certificates: Vec<CertificateFiles>,
    /// Whether TLS 1.2 is refused.
    pub only_1_3: bool,
    /// Whose certificates clients show.
    pub clients: ClientFiles,
    /// What messages about those of `tls.client-ca` and `tls.client-crl` begin with, where the site
    /// says them itself; empty otherwise.
    pub clients_written: [String; 2],
    /// Whether requests in the clear are led to `https`, if the site has a certificate.
    pub redirects_http: bool,
    /// For how many seconds browsers shall come by `https` alone (RFC 6797); 0 ends that.
    pub hsts_s: Option<u64>,
}

/// Where a site's certificate comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CertificateSource {
    /// From files, or from what this server can do for its names by itself.
    #[default]
    Auto,
    /// It has none, and is not served by TLS.
    None,
    /// From a certificate authority, by ACME.
    Acme,
    /// From an authority on this machine.
    Internal,
}

/// A certificate and its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate and those between it and its authority, in PEM.
    pub chain: PathBuf,
    /// Its key, in PEM; it may be the same file.
    pub key: PathBuf,
    /// What a message about them begins with: where they are written.
    pub written: String,
}

/// Whose certificates clients show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// The authorities that issue them; `None` asks for no certificates.
    pub ca: Option<PathBuf>,
    /// Those that are revoked.
    pub crl: Option<PathBuf>,
    /// Whether a client without one is served.
    pub is_optional: bool,
}

impl TlsSettings {
    /// The files that the server reads and that no client may have.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = Secret<'_>> {
        self.certificates.iter().flat_map(|CertificateFiles { chain, key, .. }| {
            let (of_key, of_chain) = match chain == key {
                true => ("site.certificate", None),
                false => ("site.certificates.key", Some(("site.certificates.chain", chain))),
            };
            let files = [(of_key, key)].into_iter().chain(of_chain);
            files.map(|(key, path)| Secret { key, path, is_apart: true })
        })
    }

    /// Whether it has a certificate, or is to get one.
    pub fn has_certificate(&self) -> bool {
        !self.certificates.is_empty()
            || matches!(self.source, CertificateSource::Acme | CertificateSource::Internal)
    }
}
