//! The modules of a site, and which of them a path leads to.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use flyball_http::Request;
use flyball_module::Module;
use flyball_sys::{clock, error_log};

use super::settings::{Maker, ModuleSettings, Takes};
use crate::path;
use crate::routes::canonical;

/// The modules of a site.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    /// The longest path first.
    mounted: Vec<Arc<Mounted>>,
}

/// A module at its path.
pub(crate) struct Mounted {
    /// Without a closing slash.
    path: String,
    exact: bool,
    /// Its number among the modules of all sites.
    pub(crate) number: usize,
    pub(super) name: String,
    blocks: bool,
    settings: ModuleSettings,
    maker: Maker,
    instance: OnceLock<Result<Arc<dyn Module>, String>>,
    /// Nanoseconds of its calls in this process that nobody was told of yet.
    spent_ns: AtomicU64,
}

impl std::fmt::Debug for Mounted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mounted").field("path", &self.path).field("name", &self.name).finish()
    }
}

/// Where a path has led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The number of the module.
    pub(crate) module: usize,
    /// How much of the path is that of the module.
    pub(crate) at: usize,
    /// Whether the path is in its canonical form as it was sent.
    pub(crate) as_sent: bool,
}

impl Modules {
    /// Opens the modules of a site, the first of which has this number.
    ///
    /// # Errors
    /// What is wrong with one.
    pub(crate) fn open(settings: &[ModuleSettings], first: usize) -> io::Result<Modules> {
        let mut mounted = Vec::new();
        for (number, module) in (first..).zip(settings) {
            if module.made.0.get().is_none() {
                module
                    .check()
                    .map_err(|(key, why)| io::Error::other(format!("site.module.{key}: {why}")))?;
            }
            let Some(source) = module.made.0.get() else { continue };
            let instance = match source.instance.get() {
                Some(made) => OnceLock::from(Ok(Arc::clone(made))),
                None => OnceLock::new(),
            };
            mounted.push(Arc::new(Mounted {
                path: module.path.trim_end_matches('/').to_owned(),
                exact: module.exact,
                number,
                name: module.shown(),
                blocks: module.blocks(source.maker),
                settings: module.clone(),
                maker: source.maker,
                instance,
                spent_ns: AtomicU64::new(0),
            }));
        }
        mounted.sort_by_key(|one| std::cmp::Reverse((one.path.len(), one.exact)));
        Ok(Modules { mounted })
    }

    /// Whether there are none, so that no path has to be looked at.
    pub(crate) fn is_empty(&self) -> bool {
        self.mounted.is_empty()
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[Arc<Mounted>] {
        &self.mounted
    }

    /// The module of this number.
    pub(crate) fn get(&self, number: usize) -> &Arc<Mounted> {
        &self.mounted[number]
    }

    /// The module that answers for a canonical path, whatever the method.
    pub(crate) fn answering(&self, path: &[u8]) -> Option<usize> {
        self.mounted.iter().position(|one| one.settings.takes == Takes::All && one.answers(path))
    }

    /// The module of a request. The path is put into `path` in its canonical form, unless it has
    /// come so.
    pub(crate) fn find(&self, request: &Request<'_>, path: &mut Vec<u8>) -> Option<Place> {
        let sent = request.path();
        let as_sent = is_canonical(sent);
        let seen = if as_sent {
            sent
        } else {
            let relative = &mut Vec::new();
            path.clear();
            path.extend_from_slice(&canonical(sent, relative).ok()?);
            &*path
        };
        let answers =
            |one: &Arc<Mounted>| one.settings.takes.has(request.method()) && one.answers(seen);
        let module = self.mounted.iter().position(answers)?;
        let at = self.mounted[module].path.len();
        if !as_sent {
            let below = path::write_slashes(&path[at..]).into_owned();
            path.truncate(at);
            path.extend_from_slice(&below);
        }
        Some(Place { module, at, as_sent })
    }
}

/// Whether a path has no escapes, and no empty and no dot segments.
fn is_canonical(path: &[u8]) -> bool {
    let mut before = 0;
    let plain = path.iter().all(|&byte| {
        let last = std::mem::replace(&mut before, byte);
        byte.is_ascii_graphic() && byte != b'%' && !(last == b'/' && (byte == b'/' || byte == b'.'))
    });
    plain && path.first() == Some(&b'/')
}

impl Mounted {
    fn answers(&self, path: &[u8]) -> bool {
        match path.strip_prefix(self.path.as_bytes()) {
            Some(below) if self.exact => below.is_empty() || self.path.is_empty() && below == b"/",
            Some(below) => below.is_empty() || below[0] == b'/',
            None => false,
        }
    }

    /// What the log calls it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its instance, if there is one and its calls do not block.
    pub(crate) fn ready(&self) -> Option<&dyn Module> {
        match self.instance.get() {
            Some(Ok(module)) if !self.blocks => Some(&**module),
            _ => None,
        }
    }

    /// Its instance, which is made if there is none. May block.
    pub(crate) fn instance(&self) -> Option<&dyn Module> {
        let made = self.instance.get_or_init(|| {
            self.settings.make(self.maker).inspect_err(|why| {
                error_log::write(format_args!("module {}: {why}", self.name));
            })
        });
        made.as_deref().ok()
    }

    /// Makes a call, whose time is counted, in whatever thread that is.
    pub(crate) fn timed<T>(&self, call: impl FnOnce() -> T) -> T {
        let begun = clock::monotonic_ns();
        let ended = call();
        self.spent_ns.fetch_add(clock::monotonic_ns().saturating_sub(begun), Relaxed);
        ended
    }

    /// What its calls in this process took since somebody was told last, in nanoseconds.
    pub(crate) fn take_spent_ns(&self) -> u64 {
        // Mostly there is nothing, and looking takes no cache line from others.
        if self.spent_ns.load(Relaxed) == 0 { 0 } else { self.spent_ns.swap(0, Relaxed) }
    }

    /// Whether it must be called where blocking is allowed.
    pub(crate) fn needs_thread(&self) -> bool {
        self.ready().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_path_as_the_file_system_has_it_is_taken_as_it_came() {
        for path in ["/", "/a", "/a/b.c/", "/a/b?c"] {
            assert!(is_canonical(path.as_bytes()), "{path}");
        }
        for path in ["", "a", "//a", "/a/../b", "/./a", "/a%20b", "/a//b", "/\u{e4}", "/.hidden"] {
            assert!(!is_canonical(path.as_bytes()), "{path}");
        }
    }
}
