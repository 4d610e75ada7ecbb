//! Files that the server itself reads and that no client may have: passwords and tables of users.
//! They are told apart by device and inode, so that they are kept whatever leads to them: a root
//! that was replaced, another site, a link, a hard link. A file that is put in the place of one is
//! known by its name beneath the roots until the server reads it too.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flyball_sys::file::Stamp;
use flyball_sys::known_file::KnownFile;
use flyball_sys::within::{Node, node};

/// The secrets of all sites.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets(Arc<[Secret]>);

#[derive(Debug)]
struct Secret {
    /// What names it.
    key: &'static str,
    path: PathBuf,
    file: Arc<KnownFile>,
    /// Where it lies beneath roots.
    beneath: Vec<Place>,
}

/// A name beneath a root of a site.
#[derive(Debug)]
struct Place {
    site: usize,
    root: u16,
    name: Vec<u8>,
}

impl Secrets {
    /// These files, by their keys and paths, with where they lie beneath `roots`, which come with
    /// the numbers of their sites and their own. One that is not there now is what it `was`. Blocks
    /// on the disk.
    ///
    /// # Errors
    /// What is not there and was not before, and why.
    pub(crate) fn of<'a>(
        files: impl Iterator<Item = (&'static str, &'a Path)>,
        roots: impl Iterator<Item = (usize, u16, &'a OwnedFd)>,
        was: Option<&Secrets>,
    ) -> io::Result<Secrets> {
        let mut secrets = Vec::<Secret>::new();
        for (key, path) in files {
            if secrets.iter().any(|known| known.path == path) {
                continue;
            }
            let before = || was?.0.iter().find(|known| known.path == path);
            let file = match (KnownFile::find(path), before()) {
                (Ok(file), _) => Arc::new(file),
                (Err(_), Some(before)) => Arc::clone(&before.file),
                (Err(error), None) => {
                    let why = format!("site.{key}: {}: {error}", path.display());
                    return Err(io::Error::other(why));
                }
            };
            secrets.push(Secret { key, path: path.to_owned(), file, beneath: Vec::new() });
        }
        if !secrets.is_empty() {
            for (site, root, directory) in roots {
                let directory = node(directory)?;
                secrets.iter_mut().for_each(|secret| secret.lies_in(directory, site, root));
            }
        }
        Ok(Secrets(secrets.into()))
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this file is one of them.
    pub(crate) fn have(&self, file: Node) -> bool {
        self.0.iter().any(|secret| secret.file.node() == file)
    }

    /// Whether what has this name beneath a root is one of them, or stands in its place.
    pub(crate) fn have_found(&self, site: usize, root: u16, name: &[u8], stamp: &Stamp) -> bool {
        let is_there =
            |place: &Place| (place.site, place.root) == (site, root) && place.name == name;
        self.have(stamp.into()) || self.0.iter().any(|secret| secret.beneath.iter().any(is_there))
    }

    /// Those that lie where a site would show them. `url_of` tells the URL of a name beneath a root
    /// of a site, if it is shown.
    pub(crate) fn shown(
        &self,
        url_of: impl Fn(usize, u16, &[u8]) -> Option<Vec<u8>>,
    ) -> Vec<String> {
        let told = |secret: &Secret| {
            let url = |place: &Place| url_of(place.site, place.root, &place.name);
            let url = secret.beneath.iter().find_map(url)?;
            Some(format!(
                "site.{}: {} lies beneath a root, at {}, where it is shown to no client: move it \
                 out of all roots (docs/security.md)",
                secret.key,
                secret.path.display(),
                OsStr::from_bytes(&url).display(),
            ))
        };
        self.0.iter().filter_map(told).collect()
    }
}

impl Secret {
    /// Notes where it is beneath a directory, if it lies in there.
    fn lies_in(&mut self, directory: Node, site: usize, root: u16) {
        let beneath = self.file.above().find(|(above, _)| *above == directory);
        let name = beneath.map(|(_, name)| name.as_os_str().as_bytes().to_vec());
        self.beneath.extend(name.map(|name| Place { site, root, name }));
    }
}
