//! Whether what is served is still what the names of the roots name: a directory may be removed and
//! made again, and a link may be switched to another.

use std::io;
use std::path::Path;

use flyball_sys::file::{Failure, failure, leads_elsewhere};

use super::Sites;
use crate::routes::{ENTERED, closed};

/// Roots whose names lead elsewhere by now, the first of each kind.
#[derive(Debug, Default)]
pub struct MovedRoots<'a> {
    /// One that can be served in the place of what is open.
    pub replaced: Option<&'a Path>,
    /// Why one cannot, because the workers' user may not enter it.
    pub closed: Option<String>,
}

impl Sites {
    /// The roots that the settings name and that lead to other directories than those that are
    /// open. A name that leads nowhere is being replaced, and what is open stays. The directories
    /// of users are not looked at: a user who replaces one again and again would have generations
    /// begin for all. Blocks on the disk.
    ///
    /// # Errors
    /// When the rights of the workers' user cannot be taken.
    pub fn moved_roots(&self) -> io::Result<MovedRoots<'_>> {
        let roots = self.written().flat_map(|(_, site)| site.routes.named_roots());
        let mut denied = None;
        let replaced = self.rights.hold(|| {
            let mut replaced = None;
            for (name, root) in roots {
                match leads_elsewhere(name, root) {
                    Ok(true) => replaced = replaced.or(Some(name)),
                    Err(error) if failure(&error) == Failure::Denied => {
                        denied = denied.take().or(Some((name, error)));
                    }
                    Ok(false) | Err(_) => {}
                }
            }
            Ok(replaced)
        })?;
        let closed =
            denied.map(|(name, error)| closed(name, ENTERED, &error, &self.rights).to_string());
        Ok(MovedRoots { replaced, closed })
    }
}
