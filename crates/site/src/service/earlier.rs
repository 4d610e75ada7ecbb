//! What sites take over from those that were open before.

use super::{Site, Sites};

/// What was open before.
#[derive(Clone, Copy, Debug)]
pub enum Earlier<'a> {
    /// Nothing.
    Nothing,
    /// Sites of the same settings: what cannot be opened now stays what it was.
    Same(&'a Sites),
}

impl<'a> Earlier<'a> {
    /// The site of this number, of which stays what cannot be opened.
    pub(super) fn same(self, number: usize) -> Option<&'a Site> {
        match self {
            Earlier::Same(sites) => sites.sites.get(number),
            Earlier::Nothing => None,
        }
    }
}
