//! What a site says of TLS.

use std::path::{Path, PathBuf};

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
    /// The keys that the server reads, each with the name of its setting.
    pub fn keys(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        self.certificates.iter().map(|files| ("certificates.key", &*files.key))
    }

    /// Whether it has a certificate, or is to get one.
    pub fn has_certificate(&self) -> bool {
        !self.certificates.is_empty()
            || matches!(self.source, CertificateSource::Acme | CertificateSource::Internal)
    }
}
