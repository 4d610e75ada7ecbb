//! Where a running server is asked, and changed.

use std::path::{Path, PathBuf};

use flyball_sys::net::Endpoint;

use super::Settings;

/// One of the places of `admin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminPlace {
    /// A Unix-domain socket in this directory whose name no other server has; `None` where this
    /// machine has no directory for it. A server that cannot make it serves all the same.
    Own(Option<PathBuf>),
    /// This one.
    At(Endpoint),
}

impl Settings {
    /// The places of `admin` that are written.
    pub fn admin_endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.admin.iter().filter_map(|place| match place {
            AdminPlace::Own(_) => None,
            AdminPlace::At(endpoint) => Some(endpoint),
        })
    }

    /// The directory of the server's own socket, if it shall have one: `Some(None)` where this
    /// machine has none.
    pub fn admin_directory(&self) -> Option<Option<&Path>> {
        self.admin.iter().find_map(|place| match place {
            AdminPlace::Own(directory) => Some(directory.as_deref()),
            AdminPlace::At(_) => None,
        })
    }
}
