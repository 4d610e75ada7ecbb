//! Whether a file that the server reads and that no client may have lies where a site would show
//! it.

use std::path::{Path, PathBuf};

use flyball_arch::Settings;
use flyball_site::path::has_hidden_segment;
use flyball_site::routes::user_directories;
use flyball_site::{Secret, SiteSettings, Spread};

use super::error::{Origin, SettingError};
use super::origins::Origins;

/// A directory that something is sent or run from.
struct Used {
    /// By the name that the settings give it.
    name: PathBuf,
    real: PathBuf,
    by: By,
}

/// What uses a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// Clients, who may ask for all that is in it but for hidden names.
    Clients,
    /// Clients, who may ask for hidden names too.
    AllNames,
    /// Backends alone, which have files sent.
    Backends,
    /// Requests to programs.
    Programs,
}

/// What of a site lies beneath a root, an alias or a directory of a user of any of the sites,
/// whatever their names. `sites` are those that may be blamed, by their numbers, with what says
/// where they are written. Blocks on the disk.
pub(super) fn faults(
    all: &[SiteSettings],
    sites: &[(usize, &Origin, Origins)],
) -> Vec<SettingError> {
    if sites.iter().all(|(number, ..)| all[*number].secrets().next().is_none()) {
        return Vec::new();
    }
    let used = Used::all(all);
    let faults = sites.iter().flat_map(|(number, table, origins)| {
        all[*number].secrets().filter_map(|secret| {
            let why = fault(&secret, &used)?;
            let user = origins.get("user-directories").filter(|_| secret.key == "site.user-table");
            let key = secret.key.strip_prefix("site.").unwrap_or(secret.key);
            let origin = origins.get(key).or(user).unwrap_or(table).clone();
            Some(SettingError { key: secret.key.into(), value: None, why, origin })
        })
    });
    faults.collect()
}

/// The same of what the server reads beside the files of sites, which are known. Blocks on the
/// disk.
pub(super) fn faults_of_server(settings: &Settings, origins: &Origins) -> Vec<SettingError> {
    let secrets = settings.tls.secrets();
    if secrets.is_empty() {
        return Vec::new();
    }
    let used = Used::all(&settings.sites);
    let faults = secrets.iter().filter_map(|secret| {
        let mut why = fault(secret, &used)?;
        let origin = origins.get(secret.key).cloned().unwrap_or(Origin::Default);
        if origin == Origin::Default {
            why.push_str(
                "; it is in the state directory: serve another directory, or name another ",
            );
            why.push_str("by XDG_STATE_HOME");
        }
        Some(SettingError { key: secret.key.into(), value: None, why, origin })
    });
    faults.collect()
}

/// Why a secret may not lie where it does.
fn fault(secret: &Secret<'_>, used: &[Used]) -> Option<String> {
    let real = real_path(secret.path)?;
    let path = secret.path.display();
    used.iter().find_map(|used| {
        let name = used.name.display();
        let how = used.by.told();
        if let Ok(relative) = real.strip_prefix(&used.real) {
            let is_wrong = secret.is_apart || used.by.shows(relative);
            return is_wrong.then(|| {
                format!("{path} lies beneath {name}, which {how}: move it out of all roots")
            });
        }
        let holds = secret.is_apart && used.real.starts_with(&real);
        holds.then(|| format!("{path} holds {name}, which {how}: move that out of it"))
    })
}

/// A path without links, of which the last parts need not be there yet.
fn real_path(path: &Path) -> Option<PathBuf> {
    path.ancestors().find_map(|above| {
        let rest = path.strip_prefix(above).ok()?;
        Some(above.canonicalize().ok()?.components().chain(rest.components()).collect())
    })
}

impl Used {
    /// All that sites send or run something from.
    fn all(sites: &[SiteSettings]) -> Vec<Used> {
        sites.iter().flat_map(Used::by_site).collect()
    }

    fn by_site(site: &SiteSettings) -> impl Iterator<Item = Used> {
        let clients = if site.hidden { By::AllNames } else { By::Clients };
        let aliases = site.routes.aliases.iter().map(|alias| alias.root.clone());
        // Those of many are beneath it.
        let root = match &site.spread {
            Spread::One => site.root.clone(),
            Spread::Each(roots) => Some(roots.base.clone()),
            Spread::Of(_) => None,
        };
        let roots = root.into_iter().chain(aliases);
        // A table that cannot be read has its own error.
        let of_users = user_directories(&site.routes).unwrap_or_default();
        let sent = site.sendfile_roots().into_iter().cloned();
        let run = site.cgi.iter().filter_map(|cgi| cgi.root.clone());
        let all = roots.chain(of_users).map(move |name| (name, clients));
        let all = all.chain(sent.map(|name| (name, By::Backends)));
        let all = all.chain(run.map(|name| (name, By::Programs)));
        let all: Vec<(PathBuf, By)> = all.collect();
        all.into_iter().filter_map(|(name, by)| {
            let real = name.canonicalize().ok()?;
            Some(Used { name, real, by })
        })
    }
}

impl By {
    fn told(self) -> &'static str {
        match self {
            By::Clients | By::AllNames => "is shown",
            By::Backends => "backends have files sent from",
            By::Programs => "programs are run from",
        }
    }

    /// Whether clients may ask for what has this name beneath.
    fn shows(self, name: &Path) -> bool {
        match self {
            By::Clients => !has_hidden_segment(name.as_os_str().as_encoded_bytes()),
            By::AllNames => true,
            By::Backends | By::Programs => false,
        }
    }
}
