//! The files of error pages. A page is shown to every client, whatever it asks for. Who runs the
//! server names it, and may show what cannot be asked for otherwise; where a link leads is the
//! choice of another. So beneath a root, of this site or of another, a link leads only to what its
//! site shows to all.

use std::collections::HashMap;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flyball_sys::file::Links;
use flyball_sys::node::{Node, node};
use flyball_sys::sandbox::Rights;
use flyball_sys::within::Within;

use super::{Site, roots_of};
use crate::routes::{self, ErrorPages};
use crate::secrets::Secrets;

/// Reads the error pages of all sites by these rights. What cannot be read is what it `was`, if it
/// was read before: then why is told. Blocks on the disk.
///
/// # Errors
/// What cannot be read and was not before, and why.
pub(super) fn read<'a>(
    sites: &mut [Site],
    (rights, secrets): (&Rights, &Secrets),
    was: impl Fn(usize) -> Option<&'a ErrorPages>,
    kept: &mut Vec<String>,
) -> io::Result<()> {
    if sites.iter().all(|site| site.settings.routes.error_pages.is_empty()) {
        return Ok(());
    }
    let roots = Roots::of(sites)?;
    let mut all = Vec::new();
    for (number, site) in sites.iter().enumerate() {
        if let Some(host) = site.host {
            // Those of many are the same, and stand before them.
            let pages: &Arc<ErrorPages> = &all[host.of];
            all.push(Arc::clone(pages));
            continue;
        }
        let read = |status: u16, path: &Path| {
            let rules = |node| roots.links(node, number, sites);
            let found = routes::found(path, rules, rights)?;
            let is_secret = secrets.have(found.node()?).then_some("is for no client");
            if let Some(why) = is_secret.or_else(|| roots.refusal(&found, number, sites)) {
                let path = path.display();
                return Err(io::Error::other(format!("site.error-page.{status}: {path} {why}")));
            }
            routes::page(path, &found, rights)
        };
        let how = (&*site.types, &*site.policy);
        let pages = ErrorPages::read(&site.settings.routes, read, how, (was(number), kept))?;
        all.push(Arc::new(pages));
    }
    for (site, pages) in sites.iter_mut().zip(all) {
        site.error_pages = pages;
    }
    Ok(())
}

/// The roots of all sites by what they are: their names tell nothing of what lies beneath them.
struct Roots(HashMap<Node, Vec<Root>>);

/// The root of this number of a site.
#[derive(Clone, Copy)]
struct Root {
    site: usize,
    number: u16,
}

impl Roots {
    fn of(sites: &[Site]) -> io::Result<Roots> {
        let mut roots = HashMap::<Node, Vec<Root>>::new();
        for (site, number, directory) in roots_of(sites) {
            roots.entry(node(directory)?).or_default().push(Root { site, number });
        }
        Ok(Roots(roots))
    }

    /// Those that this directory is, if it is any: of `own`, or else of others.
    fn at(&self, node: Node, own: usize) -> impl Iterator<Item = Root> {
        let all = self.0.get(&node).map(Vec::as_slice).unwrap_or_default();
        let has_own = all.iter().any(|root| root.site == own);
        all.iter().copied().filter(move |root| !has_own || root.site == own)
    }

    /// The rules for links beneath a directory: where it is a root of several sites, the strictest.
    fn links(&self, node: Node, own: usize, sites: &[Site]) -> Option<Links> {
        self.at(node, own).map(|root| sites[root.site].links).min()
    }

    /// Why a file may be no error page, if it may not.
    fn refusal(&self, found: &Within, own: usize, sites: &[Site]) -> Option<&'static str> {
        let url = |root: Root, name: &Path| {
            sites[root.site].routes.url_of(root.number, name.as_os_str().as_bytes())
        };
        let is_root = |(node, _): &(Node, PathBuf)| self.0.contains_key(node);
        let above: Vec<(Node, PathBuf)> = found.above().filter(is_root).collect();
        let is_run = |(node, name): &(Node, PathBuf)| {
            let mut roots = self.0.get(node).into_iter().flatten();
            roots.any(|root| url(*root, name).is_some_and(|url| sites[root.site].runs(&url)))
        };
        if above.iter().any(is_run) {
            return Some("is a script, not a page");
        }
        let (node, name) = above.first()?;
        let closes = |root: Root| Some(sites[root.site].closes(&url(root, name)?));
        let closed: Vec<bool> = self.at(*node, own).filter_map(closes).collect();
        // Where no path leads, a backend alone hands files out.
        let is_closed = found.is_by_link() && (closed.is_empty() || closed.contains(&true));
        is_closed.then_some("is a link to what its site does not show to all")
    }
}
