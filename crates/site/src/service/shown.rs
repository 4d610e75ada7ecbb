//! Where sites show what lies on the disk. A directory of one site may lie beneath a root of
//! another, which knows nothing of its rules; and what is written or kept for the server itself may
//! lie beneath a root.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use flyball_sys::file_kind::real_path;

use super::overlaps::{Code, code_of, scripts_of};
use super::{Site, Sites};

/// The roots of all sites but those of users, by where they are.
pub(super) struct Shown<'a> {
    sites: &'a [Site],
    roots: BTreeMap<PathBuf, Vec<(usize, &'a str)>>,
}

/// A URL of a site.
pub(super) struct Url<'a> {
    site: &'a Site,
    number: usize,
    path: Vec<u8>,
}

impl fmt::Display for Url<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.site.settings.hosts.first().map_or("", String::as_str);
        write!(f, "{} of the site {host:?}", OsStr::from_bytes(&self.path).display())
    }
}

impl Url<'_> {
    /// Whether what has this name behind the URL is sent to clients.
    fn is_open(&self, name: &str) -> bool {
        let path = self.path.strip_suffix(b"/").unwrap_or(&self.path);
        !self.site.closes(&[path, name.as_bytes()].concat())
    }
}

impl Sites {
    /// Where clients get the file of this name, which need not be there yet. Blocks on the disk.
    pub fn shows(&self, file: &Path) -> Option<String> {
        let directory = real_path(file.parent()?).ok()?;
        let named = directory.join(file.file_name()?);
        // Its name may be a link to where it is shown.
        let led_to = real_path(file).ok().filter(|led_to| *led_to != named);
        let shown = Shown::of(&self.sites);
        [Some(named), led_to].into_iter().flatten().find_map(|file| {
            let url = shown.above(&file).find(|url| url.is_open(""));
            url.map(|url| url.to_string())
        })
    }

    /// What a site closes or runs and another shows, and what programs alone are to have sent.
    /// Blocks on the disk.
    pub(super) fn shown_elsewhere(&self) -> Vec<String> {
        let shown = Shown::of(&self.sites);
        let each = self.written().flat_map(|(number, site)| {
            let closed = shown.closed(number, site).into_iter();
            closed.chain(shown.code(number, site)).chain(shown.sent(site))
        });
        each.collect()
    }
}

impl<'a> Shown<'a> {
    pub(super) fn of(sites: &'a [Site]) -> Shown<'a> {
        let mut roots = BTreeMap::<PathBuf, Vec<(usize, &str)>>::new();
        for (number, site) in sites.iter().enumerate().filter(|(_, site)| site.host.is_none()) {
            for (name, url) in site.routes.shown_roots() {
                let Ok(root) = real_path(name) else { continue };
                roots.entry(root).or_default().push((number, url));
            }
        }
        Shown { sites, roots }
    }

    /// The URLs of what is at a real path.
    fn above(&self, real: &Path) -> impl Iterator<Item = Url<'a>> {
        let roots = real.ancestors().filter_map(|above| Some((above, self.roots.get(above)?)));
        let urls = roots.flat_map(move |(above, roots)| {
            let below = real.strip_prefix(above).unwrap_or(Path::new(""));
            let below = below.as_os_str().as_bytes();
            let slash: &[u8] = if below.is_empty() { b"" } else { b"/" };
            roots
                .iter()
                .map(move |(number, url)| (*number, [url.as_bytes(), slash, below].concat()))
        });
        let sites = self.sites;
        urls.map(move |(number, path)| {
            let path = if path.is_empty() { b"/".to_vec() } else { path };
            Url { site: &sites[number], number, path }
        })
    }

    /// The URLs of a directory, and of all in it that is a root.
    fn urls(&self, real: &Path) -> Vec<Url<'a>> {
        let in_it =
            self.roots.range(real.to_owned()..).take_while(|(root, _)| root.starts_with(real));
        let deeper = in_it.map(|(root, _)| root).filter(|root| *root != real);
        let deeper: Vec<Url<'a>> = deeper
            .flat_map(|root| {
                let own = self.roots[root].iter();
                own.map(|(number, url)| {
                    let path = if url.is_empty() { b"/".to_vec() } else { url.as_bytes().to_vec() };
                    Url { site: &self.sites[*number], number: *number, path }
                })
            })
            .collect();
        self.above(real).chain(deeper).collect()
    }

    /// The first path that this site closes and another does not, where both have the file.
    fn closed(&self, number: usize, site: &Site) -> Option<String> {
        site.settings.closed_paths().find_map(|(key, path)| {
            let (root, below) = site.file_of(path.as_bytes())?;
            let below = OsStr::from_bytes(below.strip_prefix(b"/").unwrap_or(below));
            let place = real_path(&root.join(below)).ok()?;
            let urls = self.urls(&place).into_iter();
            let url = urls.filter(|url| url.number != number).find(|url| url.is_open(""))?;
            let place = place.display();
            Some(format!(
                "site.{key}: {place} is closed at {path} and shown at {url}: what closes one path \
                 does not close the other (docs/routing.md)"
            ))
        })
    }

    /// What backends of this site run and another site sends as files.
    fn code(&self, number: usize, site: &'a Site) -> impl Iterator<Item = String> {
        let all = code_of(&site.settings).into_iter().chain(scripts_of(&site.settings));
        all.filter_map(move |code: Code<'a>| {
            let urls = self.urls(&real_path(code.place).ok()?).into_iter();
            let is_sent = |url: &Url<'_>| code.names.iter().any(|name| url.is_open(name));
            let url = urls.filter(|url| url.number != number).find(is_sent)?;
            Some(code.told(&url))
        })
    }

    /// Directories of `sendfile-roots` that are shown.
    fn sent(&self, site: &Site) -> impl Iterator<Item = String> {
        let all = site.settings.sendfile_roots();
        let told = all.into_iter().filter_map(|place| {
            let url =
                self.urls(&real_path(place).ok()?).into_iter().find(|url| url.is_open("/x"))?;
            let place = place.display();
            Some(format!(
                "sendfile-roots: {place} is shown at {url}: clients get its files without asking \
                 the program (docs/dynamic.md)"
            ))
        });
        told.collect::<Vec<_>>().into_iter()
    }
}
