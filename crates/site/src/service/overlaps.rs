//! Directories that more than one path leads to. Each path has its own rules: those that close one
//! do not close the other, and programs that run by one are sent as files by the other.

use std::fmt;
use std::path::{Path, PathBuf};

use flyball_sys::file_kind::real_path;

use super::{Site, Sites};
use crate::path::has_hidden_segment;
use crate::settings::SiteSettings;

impl Sites {
    /// Directories that are shown twice by a site that closes something. Blocks on the disk.
    pub(super) fn overlaps(&self) -> Vec<String> {
        let closing = self.written().filter(|(_, site)| site.has_rules());
        closing.flat_map(|(_, site)| overlaps_of(&site.settings)).collect()
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
    warnings.extend(code_of(site).iter().filter_map(|code| code.shown(site, &shown)));
    warnings
}

/// A file that a backend runs, or the directory of such files.
pub(super) struct Code<'a> {
    table: &'static str,
    what: &'static str,
    pub(super) place: &'a Path,
    /// What a URL of its code has behind that of the place.
    pub(super) names: Vec<String>,
}

/// All that backends of a site run.
pub(super) fn code_of<'a>(site: &'a SiteSettings) -> Vec<Code<'a>> {
    let mut all = Vec::new();
    let mut add = |table, what, place: &'a Option<PathBuf>, names| {
        let place = place.as_deref();
        all.extend(place.map(|place| Code { table, what, place, names }));
    };
    let (file, any) = (|| vec![String::new()], || vec!["/x".into()]);
    for cgi in &site.cgi {
        add("cgi", "the program", &cgi.program, file());
        add("cgi", "programs of", &cgi.root, any());
    }
    for (table, responder) in site.responders() {
        add(table, "the program", &responder.pool.program, file());
        add(table, "the script", &responder.script, file());
        let names = responder.extensions.iter().map(|extension| format!("/x.{extension}"));
        let names: Vec<String> = names.collect();
        add(table, "scripts of", &responder.root, if names.is_empty() { any() } else { names });
    }
    all
}

/// Scripts that are run where the site shows its files.
pub(super) fn scripts_of(site: &SiteSettings) -> impl Iterator<Item = Code<'_>> {
    let responders = site.responders().filter(|(_, it)| it.root.is_none() && it.script.is_none());
    responders.flat_map(|(table, responder)| {
        let names = responder.extensions.iter().map(|extension| format!("/x.{extension}"));
        let names: Vec<String> = names.collect();
        let aliases = site.routes.aliases.iter().map(|alias| &alias.root);
        let places = site.root.iter().chain(aliases).filter(|_| !responder.extensions.is_empty());
        let what = "scripts of";
        places.map(move |place| Code { table, what, place, names: names.clone() })
    })
}

impl Code<'_> {
    /// Where it is sent as files, if it is.
    fn shown(&self, site: &SiteSettings, shown: &[(String, PathBuf)]) -> Option<String> {
        let place = real_path(self.place).ok()?;
        let url = shown.iter().find_map(|(path, root)| {
            let url = match place.strip_prefix(root) {
                Ok(below) => Path::new(path).join(below),
                // A part of it is shown.
                Err(_) if root.starts_with(&place) => PathBuf::from(path),
                Err(_) => return None,
            };
            let url = url.to_string_lossy().trim_end_matches('/').to_owned();
            let is_sent = |name: &String| is_sent(site, &format!("{url}{name}"));
            self.names.iter().any(is_sent).then(|| if url.is_empty() { "/".into() } else { url })
        })?;
        Some(self.told(&url))
    }

    /// That it is sent at this URL.
    pub(super) fn told(&self, url: &dyn fmt::Display) -> String {
        let Code { table, what, place, .. } = self;
        let sent = if what.ends_with(" of") { "are sent as files" } else { "is sent as a file" };
        let place = place.display();
        format!("site.{table}: {what} {place} {sent} at {url} (docs/routing.md)")
    }
}

/// Whether a file with this URL is sent, and not run by a backend or hidden.
fn is_sent(site: &SiteSettings, url: &str) -> bool {
    let is_hidden = !site.hidden && has_hidden_segment(url.trim_start_matches('/').as_bytes());
    !is_hidden && !site.answers_by_backend(url)
}

/// Whether one of two directories is the other, or beneath it.
fn is_within(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{CgiSettings, ResponderSettings};
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
        let all = site("media", "");
        assert!(all[0].ends_with("are sent as files at / (docs/routing.md)"), "{all:?}");
    }

    #[test]
    fn whatever_a_backend_runs_is_told_where_it_is_sent_as_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["site/tools", "site/.hidden", "elsewhere"] {
            std::fs::create_dir_all(at(name)).unwrap();
            std::fs::write(at(name).join("run.app"), "").unwrap();
        }
        let told = |set: &dyn Fn(&mut SiteSettings)| {
            let mut site = SiteSettings { root: Some(at("site")), ..SiteSettings::default() };
            set(&mut site);
            overlaps_of(&site)
        };
        type Set = fn(&mut ResponderSettings, PathBuf);
        let responders: [(Set, &str, &str); 3] = [
            (|it, file| it.pool.program = Some(file), "the program", "is sent as a file"),
            (|it, file| it.script = Some(file), "the script", "is sent as a file"),
            (|it, file| it.root = file.parent().map(Into::into), "scripts of", "are sent as files"),
        ];
        for (set, what, sent) in responders {
            for table in ["fastcgi", "scgi"] {
                let with = |path: &str, extensions: &[&str], file: &str| {
                    told(&|site| {
                        let mut it =
                            ResponderSettings { path: path.into(), ..ResponderSettings::default() };
                        it.extensions = extensions.iter().map(|&name| name.into()).collect();
                        set(&mut it, at(file));
                        let of_table =
                            if table == "scgi" { &mut site.scgi } else { &mut site.fastcgi };
                        of_table.push(it);
                    })
                };
                let found = with("/app", &[], "site/tools/run.app").join("");
                let begins = format!("site.{table}: {what} ");
                let ends = format!(" {sent} at /tools");
                assert!(found.starts_with(&begins) && found.contains(&ends), "{found}");
                let found = with("/app", &["app"], "site/tools/run.app");
                assert_eq!(found.len(), 1, "the table answers for another path: {found:?}");
                for (path, extensions, file) in [
                    ("/app", &[][..], "elsewhere/run.app"),
                    ("/app", &[], "site/.hidden/run.app"),
                    ("/tools", &[], "site/tools/run.app"),
                    ("/", &["app"], "site/tools/run.app"),
                    ("/app", &[], "none/run.app"),
                ] {
                    assert_eq!(with(path, extensions, file), [""; 0], "{path} {file}");
                }
            }
        }
        let program = told(&|site| {
            let program = Some(at("site/tools/run.app"));
            let path = "/app".to_owned();
            site.cgi.push(CgiSettings { path, program, ..CgiSettings::default() });
        });
        assert!(program[0].starts_with("site.cgi: the program "), "{program:?}");
        assert!(program[0].contains(" is sent as a file at /tools/run.app "), "{program:?}");
    }
}
