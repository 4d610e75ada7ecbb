//! TLS.

use std::path::PathBuf;

use flyball_site::{Secret, TlsSettings as OfSites};

use super::AcmeSettings;

/// TLS, as far as it concerns more than one site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// What holds for each site that says nothing else.
    pub of_sites: OfSites,
    /// Whether a name that no site has is refused in the handshake.
    pub rejects_unknown: bool,
    /// Where the keys of tickets come from.
    pub tickets: TicketKeys,
    /// How often it is looked whether a certificate was renewed, in milliseconds.
    pub watch_ms: u64,
    /// Certificates that come from an authority by ACME.
    pub acme: AcmeSettings,
    /// The directory of this machine's own authority; none before it is known.
    pub internal: PathBuf,
}

impl TlsSettings {
    /// What the server reads beside the files of sites and no client may have.
    pub fn secrets(&self) -> Vec<Secret<'_>> {
        let tickets = match &self.tickets {
            TicketKeys::File(path) => Some(&**path),
            TicketKeys::Off | TicketKeys::Auto => None,
        };
        let tickets = tickets.map(|path| Secret { key: "tls.tickets", path, is_apart: true });
        let of_account = self.acme.external_key.as_deref();
        let of_account =
            of_account.map(|path| Secret { key: "acme.external-key", path, is_apart: true });
        let storage = self.acme.is_written.then_some(("acme.storage", &*self.acme.storage));
        let internal = Some(("site.certificate", &*self.internal));
        let directories = storage.into_iter().chain(internal);
        let directories = directories
            .filter(|(_, path)| !path.as_os_str().is_empty())
            .map(|(key, path)| Secret { key, path, is_apart: true });
        tickets.into_iter().chain(of_account).chain(directories).collect()
    }
}

/// Where the keys of tickets come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TicketKeys {
    /// There are no tickets.
    Off,
    /// They are drawn at the start, and every week.
    Auto,
    /// From a file, which other servers may have too.
    File(PathBuf),
}

impl Default for TlsSettings {
    fn default() -> TlsSettings {
        TlsSettings {
            of_sites: OfSites { redirects_http: true, ..OfSites::default() },
            rejects_unknown: false,
            tickets: TicketKeys::Auto,
            watch_ms: 60_000,
            acme: AcmeSettings::default(),
            internal: PathBuf::new(),
        }
    }
}
