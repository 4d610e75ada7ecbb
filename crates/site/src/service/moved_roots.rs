//! Whether what is served is still what the names of the roots name: a directory may be removed and
//! made again, and a link may be switched to another.

use std::iter;

use flyball_sys::file::leads_elsewhere;

use super::Sites;

impl Sites {
    /// Whether the name of a site's root, or of an alias's, leads to another directory than the one
    /// that is open. A name that leads nowhere is being replaced, and what is open stays. Blocks on
    /// the disk.
    pub fn has_moved_roots(&self) -> bool {
        self.sites.iter().any(|site| {
            let aliases = site.settings.routes.aliases.iter().map(|alias| &alias.root);
            let names = iter::once(&site.settings.root).chain(aliases);
            names.zip(site.routes.roots()).any(|(name, root)| leads_elsewhere(name, root))
        })
    }
}
