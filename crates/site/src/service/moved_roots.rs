//! Whether what is served is still what the names of the roots name: a directory may be removed and
//! made again, and a link may be switched to another.

use std::path::Path;

use flyball_sys::file::leads_elsewhere;

use super::Sites;

impl Sites {
    /// The name of a root that the settings name and that leads to another directory than the one
    /// that is open, if there is one. A name that leads nowhere is being replaced, and what is open
    /// stays. The directories of users are not looked at: a user who replaces one again and again
    /// would have generations begin for everybody. Blocks on the disk.
    pub fn moved_root(&self) -> Option<&Path> {
        let mut roots = self.sites.iter().flat_map(|site| site.routes.named_roots());
        roots.find(|(name, root)| leads_elsewhere(name, root)).map(|(name, _)| name)
    }
}
