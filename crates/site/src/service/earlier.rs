//! What sites take over from those that were open before.

use std::sync::Arc;

use super::{Site, Sites};
use crate::access::Tries;

/// What was open before.
#[derive(Clone, Copy, Debug)]
pub enum Earlier<'a> {
    /// Nothing.
    Nothing,
    /// Sites of other settings: logins that were tried still count.
    Other(&'a Sites),
    /// Sites of the same settings: besides, what cannot be opened now stays what it was.
    Same(&'a Sites),
}

impl<'a> Earlier<'a> {
    /// The site of this number, of which stays what cannot be opened.
    pub(super) fn same(self, number: usize) -> Option<&'a Site> {
        match self {
            Earlier::Same(sites) => sites.sites.get(number),
            Earlier::Nothing | Earlier::Other(_) => None,
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
