//! What a site is and how much its caches may hold: validated once, frozen before the first fork.

use std::path::PathBuf;

use flyball_sys::file::{Links, Promise};

use crate::access::AccessSettings;
use crate::backend::{CgiSettings, ResponderSettings};
use crate::compress::CompressSettings;
use crate::modules::{ModuleSettings, Takes};
use crate::pattern;
use crate::policy::{CachePolicy, Class};
use crate::routes::RouteSettings;

/// One site: which hosts it answers to and where its files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteSettings {
    /// Host names in lower case: exact, `*.example.org`, or `*` for the default site.
    pub hosts: Vec<String>,
    /// The directory that is served; `None` where all that is said is where clients are sent.
    pub root: Option<PathBuf>,
    /// Names tried, in order, when a directory is asked for.
    pub index: Vec<String>,
    /// Whether a directory without an index is listed.
    pub listing: bool,
    /// Whether names that begin with a dot are served (`/.well-known` always is).
    pub hidden: bool,
    /// Which symbolic links are followed.
    pub symlinks: Symlinks,
    /// Media types by extension (without dot, lower case), before the built-in table.
    pub types: Vec<(String, String)>,
    /// Charset added to textual media types; empty adds none.
    pub charset: String,
    /// A path whose POST or PUT bodies are consumed and answered with their length and CRC-32.
    pub digest_path: Option<String>,
    /// Who may come, and what for.
    pub access: AccessSettings,
    /// Redirects, rewrites, fields, error pages and the like.
    pub routes: RouteSettings,
    /// Which bodies leave coded.
    pub compress: CompressSettings,
    /// Programs that answer.
    pub cgi: Vec<CgiSettings>,
    /// Modules that answer.
    pub modules: Vec<ModuleSettings>,
    /// Servers that answer and speak FastCGI.
    pub fastcgi: Vec<ResponderSettings>,
    /// Servers that answer and speak SCGI.
    pub scgi: Vec<ResponderSettings>,
}

impl SiteSettings {
    /// Whether programs or servers answer for any of its paths.
    pub fn has_backends(&self) -> bool {
        !self.cgi.is_empty() || !self.fastcgi.is_empty() || !self.scgi.is_empty()
    }

    /// Whether modules that may ask anything answer for any of its paths.
    pub fn has_modules(&self) -> bool {
        self.modules.iter().any(|module| module.takes == Takes::All)
    }

    /// Whether it sends clients elsewhere or refuses them, and nothing of it needs a file.
    pub fn needs_no_root(&self) -> bool {
        let routes = &self.routes;
        let says_something = !routes.redirects.is_empty() || !routes.returns.is_empty();
        let has_files = self.listing
            || self.has_backends()
            || self.has_modules()
            || !routes.rewrites.is_empty()
            || !routes.aliases.is_empty()
            || routes.fallback.is_some()
            || routes.user_directories.is_some();
        says_something && !has_files
    }

    /// Whether a backend answers for a canonical path.
    pub fn answers_by_backend(&self, path: &str) -> bool {
        crate::backend::answers(self, path.as_bytes())
    }

    /// Directories of which backends may have files sent, each once.
    pub fn sendfile_roots(&self) -> Vec<&PathBuf> {
        let of_programs = self.cgi.iter().flat_map(|cgi| &cgi.sendfile_roots);
        let of_servers = self.responders().flat_map(|(_, responder)| &responder.sendfile_roots);
        let mut roots: Vec<&PathBuf> = of_programs.chain(of_servers).collect();
        roots.sort();
        roots.dedup();
        roots
    }

    /// The servers that answer for it, with the names of their tables.
    pub fn responders(&self) -> impl Iterator<Item = (&'static str, &ResponderSettings)> {
        let fastcgi = self.fastcgi.iter().map(|responder| ("fastcgi", responder));
        fastcgi.chain(self.scgi.iter().map(|responder| ("scgi", responder)))
    }
}

/// Which symbolic links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symlinks {
    /// None at all.
    Deny,
    /// Those that stay beneath the root.
    Beneath,
    /// All of them.
    Follow,
}

impl Symlinks {
    pub(crate) fn links(self) -> Links {
        match self {
            Symlinks::Deny => Links::Deny,
            Symlinks::Beneath => Links::Beneath,
            Symlinks::Follow => Links::Follow,
        }
    }
}

/// What is said in advance about the files that match a [pattern](crate::pattern); the policy
/// `hinted` goes by it. Of several that match, never holds before pin, and pin before keep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// Files that are brought in and never pushed out.
    pub pin: Vec<String>,
    /// Files that are pushed out after all others.
    pub keep: Vec<String>,
    /// Files that are never held.
    pub never: Vec<String>,
}

impl Hints {
    /// What they say of the file of this name; `None` when it is never held.
    pub(crate) fn class_of(&self, name: &[u8]) -> Option<Class> {
        let is_in = |patterns: &[String]| patterns.iter().any(|p| pattern::matches(p, name));
        if is_in(&self.never) {
            return None;
        }
        Some(match (is_in(&self.pin), is_in(&self.keep)) {
            (true, _) => Class::Pinned,
            (false, true) => Class::Kept,
            (false, false) => Class::Plain,
        })
    }
}

/// Sizes of the caches; each is per worker where caches are private, in all where they are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheSettings {
    /// Entries of the path-translation cache, negative ones included (Flash: 6,000); 0 is off.
    pub paths_max: usize,
    /// Whether response heads are kept with their file.
    pub heads: bool,
    /// Bytes of file bodies held in memory; 0 is off.
    pub content_bytes_max: u64,
    /// Open descriptors of larger files held; 0 is off.
    pub files_max: usize,
    /// Largest body that is held in memory, in bytes.
    pub small_bytes_max: u64,
    /// Smallest file that is held, in bytes.
    pub least_bytes: u64,
    /// Largest file that is held, in memory or open, in bytes; `None` is any.
    pub most_bytes: Option<u64>,
    /// Whether small bodies are locked in memory, as far as that is allowed.
    pub locks: bool,
    /// Files that are brought in before the first request, by their names from the root of each
    /// site.
    pub warm: Vec<String>,
    /// How long an entry is believed before its file is looked at again, in milliseconds.
    pub revalidate_ms: u64,
    /// Which file makes room for the next.
    pub policy: CachePolicy,
    /// What the policy `hinted` goes by.
    pub hints: Hints,
    /// Whether files stay in the cache, and small bodies in memory, until they change: when it is
    /// full, none is pushed out, and no other is admitted.
    pub pinned: bool,
    /// Whether those who share the caches share one lock too, and hold it while they look.
    pub global_lock: bool,
    /// Whether a file of settings is looked for in every directory of the path of each request,
    /// and never remembered.
    pub directory_config: bool,
    /// What must hold of a large file until its body has left; follows from how it leaves.
    pub promise: Promise,
}

impl Default for SiteSettings {
    fn default() -> SiteSettings {
        SiteSettings {
            hosts: vec!["*".into()],
            root: None,
            index: vec!["index.html".into()],
            listing: false,
            hidden: false,
            symlinks: Symlinks::Beneath,
            types: Vec::new(),
            charset: "utf-8".into(),
            digest_path: None,
            access: AccessSettings::default(),
            routes: RouteSettings::default(),
            compress: CompressSettings::default(),
            cgi: Vec::new(),
            fastcgi: Vec::new(),
            scgi: Vec::new(),
            modules: Vec::new(),
        }
    }
}

impl CacheSettings {
    /// Whether a file of so many bytes is held.
    pub(crate) fn holds(&self, bytes: u64) -> bool {
        bytes >= self.least_bytes && self.most_bytes.is_none_or(|most| bytes <= most)
    }

    /// What hints say of a file, if they matter; `None` when it is never held.
    pub(crate) fn class_of(&self, name: &[u8]) -> Option<Class> {
        match self.policy {
            CachePolicy::Hinted => self.hints.class_of(name),
            _ => Some(Class::Plain),
        }
    }
}

impl Default for CacheSettings {
    fn default() -> CacheSettings {
        CacheSettings {
            paths_max: 6_000,
            heads: true,
            content_bytes_max: 128 * 1024 * 1024,
            files_max: 1_024,
            small_bytes_max: 64 * 1024,
            least_bytes: 0,
            most_bytes: None,
            locks: false,
            warm: Vec::new(),
            revalidate_ms: 1_000,
            policy: CachePolicy::Lru,
            hints: Hints::default(),
            pinned: false,
            global_lock: false,
            directory_config: false,
            promise: Promise::default(),
        }
    }
}
