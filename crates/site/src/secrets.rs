//! Files that the server itself reads and that no client may have: passwords, tables of users, keys
//! and certificates. They are told apart by device and inode, so that they are kept whatever leads
//! to them: a root that was replaced, another site, a link, a hard link. A file that is put in the
//! place of one is known by its name beneath the roots until the server reads it too. The file that
//! was there before stays one: its descriptor is held, so that no other gets its number.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use flyball_sys::file::Stamp;
use flyball_sys::known_file::{KnownFile, all_of, is_loop};
use flyball_sys::node::{Node, node};

/// Files in whose place others are now that stay secrets, of all: each costs a descriptor.
const REPLACED_MAX: usize = 64;

/// What no client may have: a file, or a directory with all that is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Secret<'a> {
    /// The whole key of the setting that names it.
    pub key: &'static str,
    /// Where it is.
    pub path: &'a Path,
    /// Whether it may lie in no directory that anything is sent or run from, even if its name is
    /// hidden there. Such a one need not be there yet.
    pub is_apart: bool,
}

/// The secrets of all sites, and of the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets {
    all: Arc<[Known]>,
    /// What they were at the last look, with all that is in directories, in order.
    now: Arc<RwLock<Vec<Node>>>,
    seen: Arc<Mutex<Seen>>,
}

/// What the names of secrets lead to, where that is a file, and what they led to before.
#[derive(Clone, Debug, Default)]
struct Seen {
    now: HashMap<PathBuf, Arc<KnownFile>>,
    /// With its name; the one first that was replaced first.
    replaced: VecDeque<(PathBuf, Arc<KnownFile>)>,
}

#[derive(Debug)]
struct Known {
    /// What names it.
    key: &'static str,
    path: PathBuf,
    /// `None` where it was not there yet.
    file: Option<Arc<KnownFile>>,
    /// Where it lies beneath roots.
    beneath: Vec<Place>,
}

/// A name beneath a root of a site; that of a directory means all that is in it, and the empty one
/// the whole root.
#[derive(Debug)]
struct Place {
    site: usize,
    root: u16,
    name: Vec<u8>,
}

impl Secrets {
    /// These files and directories, with where they lie beneath `roots`, which come with the
    /// numbers of their sites and their own. One that is not there now is what it `was`, and what
    /// names led to `earlier` stays a secret. Blocks on the disk.
    ///
    /// # Errors
    /// What is not there and was not before, though it must be, and why.
    pub(crate) fn of<'a>(
        secrets: impl Iterator<Item = Secret<'a>>,
        roots: impl Iterator<Item = (usize, u16, &'a OwnedFd)>,
        (was, earlier): (Option<&Secrets>, Option<&Secrets>),
    ) -> io::Result<Secrets> {
        let mut all = Vec::<Known>::new();
        for Secret { key, path, is_apart } in secrets {
            if all.iter().any(|known| known.path == path) {
                continue;
            }
            let before = || was?.all.iter().find(|known| known.path == path)?.file.clone();
            let file = match (KnownFile::find(path), before()) {
                (Ok(file), _) => Some(Arc::new(file)),
                (Err(_), Some(before)) => Some(before),
                (Err(_), None) if is_apart => None,
                (Err(error), None) => return Err(fault(key, path, &error)),
            };
            all.push(Known { key, path: path.to_owned(), file, beneath: Vec::new() });
        }
        let mut seen = earlier.map(|earlier| earlier.seen().clone()).unwrap_or_default();
        seen.now.retain(|path, _| all.iter().any(|known| known.path == *path));
        seen.replaced.retain(|(path, _)| all.iter().any(|known| known.path == *path));
        let seen = Arc::new(Mutex::new(seen));
        let mut secrets = Secrets { all: all.into(), now: Arc::default(), seen };
        secrets.look()?;
        secrets.lie_in(roots)?;
        Ok(secrets)
    }

    /// Notes where they are beneath roots.
    fn lie_in<'a>(
        &mut self,
        roots: impl Iterator<Item = (usize, u16, &'a OwnedFd)>,
    ) -> io::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let known = Arc::get_mut(&mut self.all).unwrap_or_default();
        for (site, root, directory) in roots {
            let directory = node(directory)?;
            known.iter_mut().for_each(|secret| secret.lies_in(directory, site, root));
            // A root may lie in the directory of one.
            let is_in_one = is_among(&self.now, directory);
            if let Some(first) = known.first_mut().filter(|_| is_in_one) {
                first.beneath.push(Place { site, root, name: Vec::new() });
            }
        }
        Ok(())
    }

    /// Looks which files they are now: what has taken the place of one, and what is new in
    /// directories. Blocks on the disk.
    ///
    /// # Errors
    /// Which directory cannot be read, and why.
    pub(crate) fn look(&self) -> io::Result<Vec<Node>> {
        let (mut now, mut seen) = (Vec::new(), self.seen());
        for Known { key, path, file: known, .. } in &*self.all {
            match all_of(path) {
                Ok(nodes) => {
                    if let [file] = nodes[..] {
                        seen.add(path, file, known.as_ref());
                    }
                    now.extend(nodes);
                }
                // One that is gone for a moment is about to be replaced.
                Err(error) if is_unreachable(&error) => {}
                Err(error) => return Err(fault(key, path, &error)),
            }
        }
        now.extend(seen.replaced.iter().map(|(_, file)| file.node()));
        now.sort_unstable();
        now.dedup();
        self.are(now.clone());
        Ok(now)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// They are these now, as another process has seen.
    pub(crate) fn are(&self, mut now: Vec<Node>) {
        now.sort_unstable();
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether this file is one of them.
    pub(crate) fn have(&self, file: Node) -> bool {
        !self.is_empty()
            && (self.all.iter().any(|secret| secret.is(file)) || is_among(&self.now, file))
    }

    /// Whether what has this name beneath a root is one of them, or stands in its place.
    pub(crate) fn have_found(&self, site: usize, root: u16, name: &[u8], stamp: &Stamp) -> bool {
        let is_there = |place: &Place| (place.site, place.root) == (site, root) && place.has(name);
        self.have(stamp.into()) || self.all.iter().any(|secret| secret.beneath.iter().any(is_there))
    }

    /// Those that lie where a site would show them. `url_of` tells the URL of a name beneath a root
    /// of a site, if it is shown.
    pub(crate) fn shown(
        &self,
        url_of: impl Fn(usize, u16, &[u8]) -> Option<Vec<u8>>,
    ) -> Vec<String> {
        let told = |secret: &Known| {
            let url = |place: &Place| url_of(place.site, place.root, &place.name);
            let url = secret.beneath.iter().find_map(url)?;
            Some(format!(
                "{}: {} lies beneath a root, at {}, where it is shown to no client: move it \
                 out of all roots (docs/security.md)",
                secret.key,
                secret.path.display(),
                OsStr::from_bytes(&url).display(),
            ))
        };
        self.all.iter().filter_map(told).collect()
    }
}

impl Seen {
    /// The name leads to this file, or directory, now; it may be one that is `known`.
    fn add(&mut self, path: &Path, is: Node, known: Option<&Arc<KnownFile>>) {
        if self.now.get(path).is_some_and(|file| file.node() == is) {
            return;
        }
        let known = known.filter(|known| known.node() == is).cloned();
        let Some(file) = known.or_else(|| KnownFile::find(path).map(Arc::new).ok()) else { return };
        let replaced = self.now.insert(path.to_owned(), file);
        self.replaced.extend(replaced.map(|file| (path.to_owned(), file)));
        if self.replaced.len() > REPLACED_MAX {
            self.replaced.pop_front();
        }
    }
}

impl Known {
    fn is(&self, file: Node) -> bool {
        self.file.as_ref().is_some_and(|known| known.node() == file)
    }

    /// Notes where it is beneath a directory, if it lies in there.
    fn lies_in(&mut self, directory: Node, site: usize, root: u16) {
        let mut above = self.file.iter().flat_map(|file| file.above());
        let beneath = above.find(|(above, _)| *above == directory);
        let name = beneath.map(|(_, name)| name.as_os_str().as_bytes().to_vec());
        self.beneath.extend(name.map(|name| Place { site, root, name }));
    }
}

impl Place {
    /// Whether this name beneath the root is it, or in it.
    fn has(&self, name: &[u8]) -> bool {
        let rest = name.strip_prefix(&*self.name);
        self.name.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }
}

fn is_among(nodes: &RwLock<Vec<Node>>, node: Node) -> bool {
    nodes.read().unwrap_or_else(PoisonError::into_inner).binary_search(&node).is_ok()
}

/// Who reads such a file says with the place of its setting what is wrong.
fn is_unreachable(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied) || is_loop(error)
}

fn fault(key: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::other(format!("{key}: {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    fn of(path: &Path, is_apart: bool, roots: &[OwnedFd]) -> io::Result<Secrets> {
        let secrets = [Secret { key: "tls.tickets", path, is_apart }];
        let roots = roots.iter().enumerate().map(|(site, root)| (site, 0, root));
        Secrets::of(secrets.into_iter(), roots, (None, None))
    }

    #[test]
    fn a_directory_is_kept_with_all_in_it_by_name_by_link_and_where_it_is_a_root_itself() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("srv/kept/deep")).unwrap();
        for name in ["srv/kept/deep/key", "srv/kepter", "srv/other"] {
            fs::write(at(name), name).unwrap();
        }
        let roots = ["srv", "srv/kept/deep"].map(|name| File::open(at(name)).unwrap().into());
        let secrets = of(&at("srv/kept"), true, &roots).unwrap();
        let stamp = |name: &str| {
            let file = File::open(at(name)).unwrap();
            flyball_sys::file::stamp(&file).unwrap()
        };
        let other = stamp("srv/other");
        for (site, name, kept) in [
            (0, "kept", true),
            (0, "kept/deep/new", true),
            (0, "kepter", false),
            (1, "new", true),
            (1, ".", true),
        ] {
            assert_eq!(secrets.have_found(site, 0, name.as_bytes(), &other), kept, "{site} {name}");
        }
        let key = stamp("srv/kept/deep/key");
        assert!(secrets.have_found(0, 0, b"another/name", &key) && secrets.have((&key).into()));
        assert!(!secrets.have((&other).into()));
    }

    #[test]
    fn what_takes_the_place_of_one_is_one_after_a_look_and_where_a_look_is_told_of() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let node_at = |name: &str| node(File::open(at(name)).unwrap()).unwrap();
        assert!(of(&at("key"), false, &[]).is_err());
        let (here, there) =
            (of(&at("key"), true, &[]).unwrap(), of(&at("key"), true, &[]).unwrap());
        assert!(here.look().unwrap().is_empty());
        for name in ["first", "second"] {
            fs::write(at(name), name).unwrap();
            assert!(!here.have(node_at(name)));
            symlink(name, at("next")).unwrap();
            fs::rename(at("next"), at("key")).unwrap();
            let now = here.look().unwrap();
            assert!(here.have(node_at(name)) && !there.have(node_at(name)));
            there.are(now);
            assert!(there.have(node_at(name)));
        }
    }

    #[test]
    fn what_was_in_the_place_of_one_stays_one_for_so_many_and_no_other_file_is_taken_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let node_at = |name: &str| node(File::open(at(name)).unwrap()).unwrap();
        let put = |name: &str| {
            fs::write(at("next"), name).unwrap();
            fs::hard_link(at("next"), at(name)).unwrap();
            fs::rename(at("next"), at("key")).unwrap();
        };
        put("first");
        let mut secrets = of(&at("key"), true, &[]).unwrap();
        put("second");
        secrets.look().unwrap();
        // The settings are read again.
        let key = at("key");
        let again = |path: &Path, earlier: &Secrets| {
            let secret = Secret { key: "tls.tickets", path, is_apart: true };
            Secrets::of([secret].into_iter(), [].into_iter(), (None, Some(earlier))).unwrap()
        };
        secrets = again(&key, &secrets);
        put("third");
        secrets.look().unwrap();
        for name in ["first", "second", "third"] {
            assert!(secrets.have(node_at(name)), "{name}");
            fs::remove_file(at(name)).unwrap();
        }
        for number in 0..100 {
            let name = format!("innocent-{number}");
            fs::write(at(&name), "").unwrap();
            assert!(!secrets.have(node_at(&name)));
        }
        for number in 0..=REPLACED_MAX {
            put(&number.to_string());
            secrets.look().unwrap();
        }
        let is_kept = |number: usize| secrets.have(node_at(&number.to_string()));
        assert!(is_kept(0) && is_kept(REPLACED_MAX));
        put("last");
        secrets.look().unwrap();
        let is_kept = |number: usize| secrets.have(node_at(&number.to_string()));
        assert!(!is_kept(0) && is_kept(1) && is_kept(REPLACED_MAX));
        let elsewhere = again(&at("other"), &secrets);
        assert!(!elsewhere.have(node_at("1")), "no setting names it any more");
    }
}
