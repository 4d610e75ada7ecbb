//! What sites take over from those that were open before.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use flyball_sys::sandbox::Rights;

use super::{Site, Sites};
use crate::access::Tries;
use crate::backend::programs::Programs;
use crate::backend::{Gates, Spool};
use crate::secrets::Secrets;
use crate::settings::SiteSettings;

/// What was open before.
#[derive(Clone, Copy, Debug)]
pub enum Earlier<'a> {
    /// Nothing.
    Nothing,
    /// Sites of other settings: logins that were tried still count.
    Other(&'a Sites),
    /// Sites of the same settings whose roots are opened again: besides, what cannot be opened now
    /// stays what it was, and backends go on.
    Same(&'a Sites),
}

/// The backends of each site, and what is behind them.
pub(super) struct Backends {
    pub(super) gates: Vec<Arc<Gates>>,
    pub(super) programs: Option<Arc<Programs>>,
    pub(super) spool: Option<Arc<Spool>>,
}

impl Backends {
    /// Those that go on, or else new ones.
    ///
    /// # Errors
    /// What is missing of new ones.
    pub(super) fn open_after(
        earlier: Earlier<'_>,
        settings: &[SiteSettings],
        rights: &Rights,
    ) -> io::Result<Backends> {
        if let Earlier::Same(Sites { sites, programs, spool, .. }) = earlier {
            let gates = sites.iter().map(|site| Arc::clone(&site.gates)).collect();
            return Ok(Backends { gates, programs: programs.clone(), spool: spool.clone() });
        }
        let (gates, programs) = Gates::open(settings, rights)?;
        let gates = gates.into_iter().map(Arc::new).collect();
        Ok(Backends { gates, programs, spool: None })
    }
}

impl<'a> Earlier<'a> {
    /// The site of this number, of which stays what cannot be opened.
    pub(super) fn same(self, number: usize) -> Option<&'a Site> {
        match self {
            Earlier::Same(sites) => sites.sites.get(number),
            Earlier::Nothing | Earlier::Other(_) => None,
        }
    }

    /// The roots of hosts that are open, by their names.
    pub(super) fn roots_of_hosts(self) -> HashMap<&'a Path, &'a Arc<OwnedFd>> {
        let sites = match self {
            Earlier::Other(sites) | Earlier::Same(sites) => &*sites.sites,
            Earlier::Nothing => &[],
        };
        let hosts = sites.iter().filter(|site| site.host.is_some());
        hosts.filter_map(|site| site.routes.first_root()).collect()
    }

    /// What the sites of the same settings kept from clients.
    pub(super) fn secrets_of_same(self) -> Option<&'a Secrets> {
        match self {
            Earlier::Same(sites) => Some(&sites.secrets),
            Earlier::Nothing | Earlier::Other(_) => None,
        }
    }

    /// What any sites before kept from clients.
    pub(super) fn secrets(self) -> Option<&'a Secrets> {
        match self {
            Earlier::Same(sites) | Earlier::Other(sites) => Some(&sites.secrets),
            Earlier::Nothing => None,
        }
    }

    /// What was tried at each site.
    pub(super) fn tries(self) -> Vec<Arc<Tries>> {
        let sites = match self {
            Earlier::Other(sites) | Earlier::Same(sites) => &*sites.sites,
            Earlier::Nothing => &[],
        };
        sites.iter().filter_map(|site| site.access.as_ref()?.tries()).collect()
    }
}
