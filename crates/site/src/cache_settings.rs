//! How much the caches may hold, and by which policy: validated once, frozen before the first fork.

use flyball_sys::file::Promise;

use crate::pattern;
use crate::policy::{CachePolicy, Class};

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
