//! Whether the file of users of a site is right, so that nobody finds out by being let in, or out.

use std::sync::Arc;

use flyball_site::SiteSettings;
use flyball_site::access::Users;

use super::error::{Origin, SettingError};
use super::origins::Origins;

const FILE: &str = "auth.file";

/// What is wrong with the file of users of a site, or with there being none. Blocks on the disk.
pub(super) fn faults(site: &SiteSettings, origins: &Origins) -> Vec<SettingError> {
    let error = |key: &str, why: String, origin: &Origin| SettingError {
        key: format!("site.{key}"),
        value: None,
        why,
        origin: origin.clone(),
    };
    let Some(path) = &site.access.auth.file else {
        // Whoever names paths believes that they are protected, unless it says `off` beside them.
        if origins.get(FILE).is_some() {
            return Vec::new();
        }
        let others = ["auth.realm", "auth.paths", "auth.remember", "auth.failures"];
        let written = others.iter().filter_map(|key| Some((*key, origins.get(key)?)));
        let why = || format!("does nothing without {FILE}, which says who may log in");
        return written.map(|(key, origin)| error(key, why(), origin)).collect();
    };
    let Some(origin) = origins.get(FILE) else { return Vec::new() };
    let faults = Users::read(path).err().unwrap_or_default();
    let at = |line: usize| Origin::File { path: Arc::from(path.as_path()), line: Some(line) };
    faults
        .into_iter()
        .map(|fault| match fault.line {
            Some(line) => error(FILE, fault.why, &at(line)),
            None => error(FILE, format!("{} {}", path.display(), fault.why), origin),
        })
        .collect()
}
