//! Whether a file that the server reads and that no client may have lies where a site would show
//! it.

use std::path::{Path, PathBuf};

use flyball_site::SiteSettings;
use flyball_site::path::has_hidden_segment;
use flyball_site::routes::user_directories;

use super::error::{Origin, SettingError};
use super::origins::Origins;

/// A directory that a site shows.
struct Shown {
    /// By the name that the settings give it.
    name: PathBuf,
    real: PathBuf,
    /// Whether names that begin with a dot are shown too.
    hidden: bool,
}

/// What lies beneath a root, an alias or a directory of a user of any of the sites, whatever their
/// names. `sites` are those that may be blamed, by their numbers, with what says where they are
/// written. Blocks on the disk.
pub(super) fn faults(
    all: &[SiteSettings],
    sites: &[(usize, &Origin, Origins)],
) -> Vec<SettingError> {
    let secrets = |number: usize| all[number].secrets().chain(all[number].tls.keys());
    if sites.iter().all(|(number, ..)| secrets(*number).next().is_none()) {
        return Vec::new();
    }
    let shown: Vec<Shown> = all.iter().flat_map(directories).collect();
    let faults = sites.iter().flat_map(|(number, table, origins)| {
        secrets(*number).filter_map(|(key, path)| {
            let Shown { name, .. } = shown.iter().find(|shown| shown.has(path))?;
            let (path, name) = (path.display(), name.display());
            let user = origins.get("user-directories").filter(|_| key == "user-table");
            Some(SettingError {
                key: format!("site.{key}"),
                value: None,
                why: format!(
                    "{path} lies beneath {name}, which is shown: move it out of all roots"
                ),
                origin: origins.get(key).or(user).unwrap_or(table).clone(),
            })
        })
    });
    faults.collect()
}

/// All that a site shows.
fn directories(site: &SiteSettings) -> Vec<Shown> {
    let aliases = site.routes.aliases.iter().map(|alias| alias.root.clone());
    let roots = site.root.iter().cloned().chain(aliases);
    // A table that cannot be read has its own error.
    let of_users = user_directories(&site.routes).unwrap_or_default();
    let shown = |name: PathBuf| {
        let real = name.canonicalize().ok()?;
        Some(Shown { name, real, hidden: site.hidden })
    };
    roots.chain(of_users).filter_map(shown).collect()
}

impl Shown {
    /// Whether a file lies in there and is not hidden.
    fn has(&self, path: &Path) -> bool {
        let Ok(path) = path.canonicalize() else { return false };
        let Ok(relative) = path.strip_prefix(&self.real) else { return false };
        self.hidden || !has_hidden_segment(relative.as_os_str().as_encoded_bytes())
    }
}
