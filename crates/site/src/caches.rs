//! The three caches of Flash (S2, sections 5.2 to 5.4): from a path to what it names, from a file
//! to its head, and from a file to its content. A file's head and content share an entry; each
//! cache can be switched off alone.
//!
//! A path names a file by a handle that goes stale with the file's entry: whatever replaces the
//! file, its head and its content go together.

use std::hash::BuildHasher;

use flyball_http::Status;
use flyball_sys::file::Stamp;
use hashbrown::DefaultHashBuilder;

use crate::entry::{Content, FileEntry};
use crate::lru::{Handle, Lru};
use crate::settings::CacheSettings;

/// A file whose inode changed this recently, in milliseconds, is not cached: within one tick of a
/// coarse file-system clock it could change again and look the same.
const YOUNG_MS: u64 = 50;

/// What a path names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// A file, if its entry is still there.
    File(Handle),
    /// A directory asked for without its slash.
    NeedsSlash,
    /// Nothing to serve.
    Missing(Status),
}

#[derive(Debug)]
struct PathEntry {
    site: usize,
    path: Box<[u8]>,
    target: Target,
    checked_ms: u64,
}

/// Counts since the worker started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Requests answered from the path cache.
    pub path_hits: u64,
    /// Requests whose path was not in the cache.
    pub path_misses: u64,
    /// Entries looked at again because their time was over.
    pub revalidations: u64,
    /// Entries that were found changed.
    pub changes: u64,
    /// Bodies answered from memory or from a kept descriptor.
    pub content_hits: u64,
    /// Bodies that were brought in.
    pub content_misses: u64,
    /// Files pushed out.
    pub evictions: u64,
}

/// The caches of one worker, or of all threads of one.
#[derive(Debug)]
pub(crate) struct Caches {
    pub(crate) settings: CacheSettings,
    pub(crate) counts: CacheCounts,
    hasher: DefaultHashBuilder,
    paths: Lru<PathEntry>,
    files: Lru<Box<FileEntry>>,
    memory_bytes: u64,
    descriptors: usize,
}

impl Caches {
    pub(crate) fn new(settings: CacheSettings) -> Caches {
        Caches {
            settings,
            counts: CacheCounts::default(),
            hasher: DefaultHashBuilder::default(),
            paths: Lru::new(),
            files: Lru::new(),
            memory_bytes: 0,
            descriptors: 0,
        }
    }

    /// What `path` names, if that is known and was looked at recently. An entry whose time is over
    /// is given back as unknown once, so that one request looks at the file and the others go on.
    pub(crate) fn path(&mut self, site: usize, path: &[u8], now_ms: u64) -> Option<Target> {
        let hash = self.hasher.hash_one((site, path));
        let found = self.paths.find(hash, |entry| entry.site == site && *entry.path == *path);
        let Some(entry) = found.and_then(|handle| self.paths.use_mut(handle)) else {
            self.counts.path_misses += 1;
            return None;
        };
        if now_ms.saturating_sub(entry.checked_ms) >= self.settings.revalidate_ms {
            entry.checked_ms = now_ms;
            self.counts.revalidations += 1;
            return None;
        }
        let target = entry.target;
        if let Target::File(file) = target {
            if self.files.use_mut(file)?.is_known_changed() {
                self.counts.revalidations += 1;
                return None;
            }
            self.counts.content_hits += 1;
        }
        self.counts.path_hits += 1;
        Some(target)
    }

    /// Remembers what a path names.
    pub(crate) fn set_path(&mut self, site: usize, path: &[u8], target: Target, now_ms: u64) {
        if self.settings.paths_max == 0 {
            return;
        }
        let hash = self.hasher.hash_one((site, path));
        let found = self.paths.find(hash, |entry| entry.site == site && *entry.path == *path);
        match found.and_then(|handle| self.paths.use_mut(handle)) {
            Some(entry) => (entry.target, entry.checked_ms) = (target, now_ms),
            None => {
                while self.paths.len() >= self.settings.paths_max {
                    self.paths.evict();
                }
                let path = path.into();
                self.paths.insert(hash, PathEntry { site, path, target, checked_ms: now_ms });
            }
        }
    }

    /// Forgets what a path names.
    pub(crate) fn forget_path(&mut self, site: usize, path: &[u8]) {
        let hash = self.hasher.hash_one((site, path));
        let found = self.paths.find(hash, |entry| entry.site == site && *entry.path == *path);
        if let Some(handle) = found {
            self.paths.remove(handle);
        }
    }

    /// The entry of the file of this name, if it is held with this stamp; another one is dropped.
    pub(crate) fn file(&mut self, site: usize, name: &[u8], stamp: &Stamp) -> Option<Handle> {
        let hash = self.hasher.hash_one((site, name));
        let handle = self.files.find(hash, |entry| entry.site == site && *entry.name == *name)?;
        if self.files.peek(handle).is_some_and(|entry| entry.stamp == *stamp) {
            self.counts.content_hits += 1;
            return Some(handle);
        }
        self.counts.changes += 1;
        self.drop_file(handle);
        None
    }

    /// Drops the entry of this name, whatever its stamp.
    pub(crate) fn forget_file(&mut self, site: usize, name: &[u8]) {
        let hash = self.hasher.hash_one((site, name));
        let found = self.files.find(hash, |entry| entry.site == site && *entry.name == *name);
        if let Some(handle) = found {
            self.drop_file(handle);
        }
    }

    /// The entry behind a handle.
    pub(crate) fn entry(&self, handle: Handle) -> Option<&FileEntry> {
        self.files.peek(handle).map(|entry| &**entry)
    }

    /// Takes a file in and pushes out others, if there is room at all; gives it back if not. An
    /// entry of the same name must have been dropped by [`Caches::file`].
    pub(crate) fn admit(
        &mut self,
        entry: Box<FileEntry>,
        unix_ms: u64,
    ) -> Result<Handle, Box<FileEntry>> {
        self.counts.content_misses += 1;
        let changed_ms = u64::try_from(entry.stamp.changed_ns / 1_000_000).unwrap_or(0);
        let fits = match &entry.content {
            Content::Memory(_) => entry.memory_bytes() <= self.settings.content_bytes_max,
            Content::Open(_) => self.settings.files_max > 0,
        };
        if !fits || unix_ms.saturating_sub(changed_ms) < YOUNG_MS {
            return Err(entry);
        }
        self.count(&entry, 1);
        while self.is_over_its_limits() {
            let Some(evicted) = self.files.evict() else { break };
            self.counts.evictions += 1;
            self.count(&evicted, -1);
        }
        let hash = self.hasher.hash_one((entry.site, &*entry.name));
        Ok(self.files.insert(hash, entry))
    }

    fn is_over_its_limits(&self) -> bool {
        self.memory_bytes > self.settings.content_bytes_max
            || self.descriptors > self.settings.files_max
    }

    fn drop_file(&mut self, handle: Handle) {
        if let Some(entry) = self.files.remove(handle) {
            self.count(&entry, -1);
        }
    }

    fn count(&mut self, entry: &FileEntry, sign: i64) {
        match &entry.content {
            Content::Memory(_) => {
                let bytes = entry.memory_bytes() as i64;
                self.memory_bytes = self.memory_bytes.wrapping_add_signed(sign * bytes);
            }
            Content::Open(_) => {
                self.descriptors = self.descriptors.wrapping_add_signed(sign as isize);
            }
        }
    }
}
