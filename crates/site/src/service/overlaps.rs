//! Directories that more than one path leads to. Each path has its own rules: those that close one
//! do not close the other, and programs that run by one are sent as files by the other.

use std::path::{Path, PathBuf};

use flyball_sys::file_kind::real_path;

use super::{Site, Sites};
use crate::settings::SiteSettings;

impl Sites {
    /// Directories that are shown twice by a site that closes something. Blocks on the disk.
    pub(super) fn overlaps(&self) -> Vec<String> {
        let closes = |site: &&Site| site.has_rules();
        self.sites.iter().filter(closes).flat_map(|site| overlaps_of(&site.settings)).collect()
    }
}

impl Site {
    fn has_rules(&self) -> bool {
        self.access.is_some() || !self.gates.is_empty() || !self.routes.returns().is_empty()
    }
}

fn overlaps_of(site: &SiteSettings) -> Vec<String> {
    let real = |path: &Path| real_path(path).ok();
    let mut shown: Vec<(String, PathBuf)> = Vec::new();
    shown.extend(site.root.as_deref().and_then(real).map(|root| ("/".to_owned(), root)));
    let mut warnings = Vec::new();
    for alias in &site.routes.aliases {
        let Some(root) = real(&alias.root) else { continue };
        let path = alias.path.trim_end_matches('/');
        let twice = shown.iter().find(|(_, other)| is_within(&root, other));
        warnings.extend(twice.map(|(other, _)| {
            format!(
                "site.alias: {} is shown at {path} and at {other}: what closes one path does not \
                 close the other (docs/routing.md)",
                alias.root.display()
            )
        }));
        shown.push((path.to_owned(), root));
    }
    for cgi in &site.cgi {
        let Some(root) = cgi.root.as_deref().and_then(real) else { continue };
        let as_files = shown.iter().find_map(|(path, other)| {
            let below = root.strip_prefix(other).ok()?;
            let url = Path::new(path).join(below);
            (!url.starts_with(&cgi.path)).then_some(url)
        });
        warnings.extend(as_files.map(|url| {
            format!(
                "site.cgi: programs of {} are sent as files at {} (docs/routing.md)",
                cgi.root.as_deref().unwrap_or(&root).display(),
                url.display()
            )
        }));
    }
    warnings
}

/// Whether one of two directories is the other, or beneath it.
fn is_within(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::CgiSettings;
    use crate::routes::AliasSettings;

    #[test]
    fn a_directory_that_two_paths_show_is_told() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["site/cgi-bin", "site/private", "media", "programs"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let at = |name: &str| dir.path().join(name);
        let site = |alias: &str, programs: &str| {
            let mut site = SiteSettings { root: Some(at("site")), ..SiteSettings::default() };
            let (path, root) = ("/other".to_owned(), at(alias));
            site.routes.aliases.push(AliasSettings { path, root });
            let (path, root) = ("/cgi-bin".to_owned(), Some(at(programs)));
            site.cgi.push(CgiSettings { path, root, ..CgiSettings::default() });
            overlaps_of(&site)
        };
        assert_eq!(site("media", "programs"), [""; 0]);
        assert_eq!(site("media", "site/cgi-bin"), [""; 0], "the program runs at that path");
        assert!(site("site/private", "programs")[0].contains("at /other and at /:"));
        assert!(site("site", "programs")[0].contains("at /other and at /:"));
        assert!(site("media", "media")[0].contains("sent as files at /other"));
        let both = site("site", "site/cgi-bin");
        assert!(both[1].contains("sent as files at /other/cgi-bin"), "{both:?}");
    }
}
