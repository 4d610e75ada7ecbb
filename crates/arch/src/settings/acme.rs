//! How certificates come from an authority by ACME.

use std::path::PathBuf;

/// The account, the authorities, and where certificates are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeSettings {
    /// Whether `[acme]` is written, which agrees to the terms of the authorities.
    pub is_written: bool,
    /// Address that accounts are made with.
    pub email: Option<String>,
    /// Authorities, as they are written: where one fails, the next is asked.
    pub directories: Vec<String>,
    /// File of certificates in PEM by which the servers of the authorities are known; those of the
    /// system otherwise.
    pub roots: Option<PathBuf>,
    /// The profile that is asked for.
    pub profile: Option<String>,
    /// The identifier of an account elsewhere, to which the accounts here belong.
    pub external: Option<String>,
    /// File of its key.
    pub external_key: Option<PathBuf>,
    /// The directory where accounts, orders and certificates are kept; none before it is known.
    pub storage: PathBuf,
    /// Names of the challenges that may be tried, the preferred one first.
    pub challenges: Vec<String>,
    /// The command for dns-01, and its first arguments.
    pub dns_hook: Vec<String>,
}

impl Default for AcmeSettings {
    fn default() -> AcmeSettings {
        AcmeSettings {
            is_written: false,
            email: None,
            directories: vec!["letsencrypt".into()],
            roots: None,
            profile: None,
            external: None,
            external_key: None,
            storage: PathBuf::new(),
            challenges: vec!["tls-alpn-01".into(), "http-01".into()],
            dns_hook: Vec::new(),
        }
    }
}
