//! What a listing leaves out: names that the server would serve to no client.

use flyball_sys::file::{Kind, Stamp};

use crate::routes::Returns;
use crate::secrets::Secrets;

/// The rules that hold for the entries of one directory. None by default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unlisted {
    pub(crate) returns: Returns,
    pub(crate) secrets: Secrets,
    pub(crate) site: usize,
    pub(crate) root: u16,
    /// The name of the directory beneath its root, which is empty or ends in a slash.
    pub(crate) within: Vec<u8>,
    /// The URLs that lead to it, each with a slash at its end.
    pub(crate) urls: Vec<Vec<u8>>,
}

impl Unlisted {
    /// Whether an entry is left out.
    pub(super) fn has(&self, name: &[u8], stamp: &Stamp) -> bool {
        self.is_secret(name, stamp) || self.is_returned(name, stamp)
    }

    /// Whether an entry is kept from all clients.
    pub(super) fn is_secret(&self, name: &[u8], stamp: &Stamp) -> bool {
        let is_one = || {
            let name = [&self.within, name].concat();
            self.secrets.have_found(self.site, self.root, &name, stamp)
        };
        !self.secrets.is_empty() && is_one()
    }

    fn is_returned(&self, name: &[u8], stamp: &Stamp) -> bool {
        let slash: &[u8] = if stamp.kind == Kind::Directory { b"/" } else { b"" };
        let is_returned = |url: &Vec<u8>| self.returns.of(&[url, name, slash].concat()).is_some();
        !self.returns.is_empty() && self.urls.iter().any(is_returned)
    }
}
