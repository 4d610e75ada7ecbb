//! The three caches of Flash (S2, sections 5.2 to 5.4): from a path to what it names, from a file
//! to its head, and from a file to its content. A file's head and content share an entry; each
//! cache can be switched off alone.
//!
//! A path names a file by a handle that goes stale with the file's entry: whatever replaces the
//! file, its head and its content go together.

use std::sync::Arc;

use flyball_http::Status;
use flyball_sys::file::Stamp;
use flyball_sys::pinned::Pinned;

use crate::entry::{Content, FileEntry};
use crate::lru::{Handle, Lru};
use crate::settings::CacheSettings;
use crate::variant::Scope;

/// A file whose inode changed this recently, in milliseconds, is not cached: within one tick of a
/// coarse file-system clock it could change again and look the same.
pub(crate) const YOUNG_MS: u64 = 50;

/// A scope and a name in it: a path of a request, or the name of a file. Hashed once.
#[derive(Clone, Copy)]
pub(crate) struct Key<'a> {
    pub(crate) hash: u64,
    pub(crate) scope: Scope,
    pub(crate) name: &'a [u8],
}

/// Where a file's entry is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Which bucket of shared caches; private caches are one bucket.
    pub(crate) bucket: u32,
    pub(crate) handle: Handle,
}

/// What a path names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// A file, if its entry is still there.
    File(Place),
    /// A directory asked for without its slash.
    NeedsSlash,
    /// Nothing to serve.
    Missing(Status),
}

#[derive(Debug)]
struct PathEntry {
    scope: Scope,
    path: Box<[u8]>,
    target: Target,
    checked_ms: u64,
}

/// What one thread of control saw of its caches since it started.
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
    /// Times that a lock of shared caches was taken.
    pub lock_operations: u64,
    /// Bodies that should be pinned in memory, and could not be.
    pub unpinned: u64,
}

/// The caches of one worker, or one bucket of those that threads share.
#[derive(Debug)]
pub(crate) struct Caches {
    settings: CacheSettings,
    paths: Lru<PathEntry>,
    files: Lru<Arc<FileEntry>>,
    memory_bytes: u64,
    descriptors: usize,
}

impl Caches {
    pub(crate) fn new(settings: CacheSettings) -> Caches {
        Caches { settings, paths: Lru::new(), files: Lru::new(), memory_bytes: 0, descriptors: 0 }
    }

    /// What `path` names, if that is known and was looked at recently. An entry whose time is over
    /// is given back as unknown once, so that one request looks at the file and the others go on.
    /// Whether the file's entry is still there, [`Caches::use_file`] tells.
    pub(crate) fn path(
        &mut self,
        path: Key<'_>,
        now_ms: u64,
        counts: &mut CacheCounts,
    ) -> Option<Target> {
        let found = self.find_path(path);
        let Some(entry) = found.and_then(|handle| self.paths.use_mut(handle)) else {
            counts.path_misses += 1;
            return None;
        };
        if now_ms.saturating_sub(entry.checked_ms) >= self.settings.revalidate_ms {
            entry.checked_ms = now_ms;
            counts.revalidations += 1;
            return None;
        }
        let target = entry.target;
        if !matches!(target, Target::File(_)) {
            counts.path_hits += 1;
        }
        Some(target)
    }

    /// The file that a path names, unless its entry is gone or is known to have changed.
    pub(crate) fn use_file(
        &mut self,
        handle: Handle,
        counts: &mut CacheCounts,
    ) -> Option<&Arc<FileEntry>> {
        let entry = self.files.use_mut(handle)?;
        if entry.is_known_changed() {
            counts.revalidations += 1;
            return None;
        }
        counts.content_hits += 1;
        counts.path_hits += 1;
        Some(entry)
    }

    /// Remembers what a path names.
    pub(crate) fn set_path(&mut self, path: Key<'_>, target: Target, now_ms: u64) {
        if self.settings.paths_max == 0 {
            return;
        }
        let found = self.find_path(path);
        match found.and_then(|handle| self.paths.use_mut(handle)) {
            Some(entry) => {
                let before = std::mem::replace(&mut entry.target, target);
                entry.checked_ms = now_ms;
                self.drop_pinned(before, target);
            }
            None => {
                while self.paths.len() >= self.settings.paths_max {
                    self.paths.evict();
                }
                let (scope, name) = (path.scope, path.name.into());
                let entry = PathEntry { scope, path: name, target, checked_ms: now_ms };
                self.paths.insert(path.hash, entry);
            }
        }
    }

    /// Forgets what a path names.
    pub(crate) fn forget_path(&mut self, path: Key<'_>) {
        if let Some(handle) = self.find_path(path)
            && let Some(entry) = self.paths.remove(handle)
        {
            self.drop_pinned(entry.target, Target::NeedsSlash);
        }
    }

    /// The entry of the file of this name, if it is held with this stamp; another one is dropped.
    pub(crate) fn file(
        &mut self,
        name: Key<'_>,
        stamp: &Stamp,
        counts: &mut CacheCounts,
    ) -> Option<Handle> {
        let handle = self.find_file(name)?;
        if self.files.peek(handle).is_some_and(|entry| entry.stamp == *stamp) {
            counts.content_hits += 1;
            return Some(handle);
        }
        counts.changes += 1;
        self.drop_file(handle);
        None
    }

    /// The entry behind a handle.
    pub(crate) fn entry(&self, handle: Handle) -> Option<&Arc<FileEntry>> {
        self.files.peek(handle)
    }

    /// Takes a file in and pushes out others, if there is room at all; gives it back if not. An
    /// entry of the same name, which another request may have brought in meanwhile, is dropped.
    pub(crate) fn admit(
        &mut self,
        name: Key<'_>,
        entry: Arc<FileEntry>,
        unix_ms: u64,
        counts: &mut CacheCounts,
    ) -> Result<Handle, Arc<FileEntry>> {
        if let Some(handle) = self.find_file(name) {
            self.drop_file(handle);
        }
        counts.content_misses += 1;
        let changed_ms = u64::try_from(entry.stamp.changed_ns / 1_000_000).unwrap_or(0);
        let fits = match &entry.content {
            Content::Memory(_) => self.cost(&entry) <= self.room_bytes(),
            Content::Open(_) => self.room_files() > 0,
        };
        if !fits || unix_ms.saturating_sub(changed_ms) < YOUNG_MS {
            return Err(entry);
        }
        self.count(&entry, 1);
        while self.is_over_its_limits() {
            let Some(evicted) = self.files.evict() else { break };
            counts.evictions += 1;
            self.count(&evicted, -1);
        }
        Ok(self.files.insert(name.hash, entry))
    }

    /// Bytes that a file in memory may cost to be admitted at all.
    fn room_bytes(&self) -> u64 {
        let taken = if self.settings.pinned { self.memory_bytes } else { 0 };
        self.settings.content_bytes_max.saturating_sub(taken)
    }

    fn room_files(&self) -> usize {
        let taken = if self.settings.pinned { self.descriptors } else { 0 };
        self.settings.files_max.saturating_sub(taken)
    }

    /// True when a body of so many bytes would be pinned and nothing else is in the way.
    pub(crate) fn pins(&self, len: usize) -> bool {
        self.settings.pinned && Pinned::cost(len) as u64 <= self.room_bytes()
    }

    /// A path that led to a file leads elsewhere: nobody else would push the file out.
    fn drop_pinned(&mut self, before: Target, now: Target) {
        if let Target::File(file) = before
            && self.settings.pinned
            && !matches!(now, Target::File(other) if other.handle == file.handle)
        {
            self.drop_file(file.handle);
        }
    }

    /// What an entry costs in memory; a pinned body has pages of its own.
    fn cost(&self, entry: &FileEntry) -> u64 {
        let rounding = match &entry.content {
            Content::Memory(body) if self.settings.pinned => Pinned::cost(body.len()) - body.len(),
            _ => 0,
        };
        entry.memory_bytes() + rounding as u64
    }

    fn find_path(&mut self, path: Key<'_>) -> Option<Handle> {
        self.paths.find(path.hash, |entry| entry.scope == path.scope && *entry.path == *path.name)
    }

    fn find_file(&mut self, name: Key<'_>) -> Option<Handle> {
        self.files.find(name.hash, |entry| entry.scope == name.scope && *entry.name == *name.name)
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
                let bytes = self.cost(entry) as i64;
                self.memory_bytes = self.memory_bytes.wrapping_add_signed(sign * bytes);
            }
            Content::Open(_) => {
                self.descriptors = self.descriptors.wrapping_add_signed(sign as isize);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Head;
    use crate::held::HeldCaches;
    use bytes::Bytes;
    use flyball_sys::file::Kind;

    /// Bytes of each body: less than a page.
    const BODY_BYTES: usize = 1_000;

    fn entry(name: &str, inode: u64) -> Arc<FileEntry> {
        let stamp = Stamp {
            device: 1,
            inode,
            size: BODY_BYTES as u64,
            modified_ns: 0,
            changed_ns: 0,
            links: 1,
            kind: Kind::Regular,
        };
        let content = Content::Memory(Bytes::from(vec![b'x'; BODY_BYTES]));
        Arc::new(FileEntry::new(
            Scope::NONE,
            name.as_bytes(),
            stamp,
            &Head::of("text/plain"),
            content,
        ))
    }

    /// Room for two pinned bodies, and not for three.
    fn pinned() -> HeldCaches {
        let content_bytes_max = 2 * (Pinned::cost(BODY_BYTES) + BODY_BYTES) as u64;
        let settings = CacheSettings::default();
        HeldCaches::private(CacheSettings { content_bytes_max, pinned: true, ..settings })
    }

    fn bring_in(caches: &mut HeldCaches, name: &str, inode: u64) -> bool {
        let admitted = caches.admit(entry(name, inode), 1_000);
        if let Ok(place) = admitted {
            caches.set_path(Scope::NONE, name.as_bytes(), Target::File(place), 0);
        }
        admitted.is_ok()
    }

    fn holds(caches: &mut HeldCaches, name: &str) -> bool {
        matches!(caches.path(Scope::NONE, name.as_bytes(), 0), Some(Target::File(_)))
    }

    #[test]
    fn pinned_files_stay_and_no_other_is_admitted_when_the_cache_is_full() {
        let mut caches = pinned();
        assert!(bring_in(&mut caches, "a", 1) && bring_in(&mut caches, "b", 2));
        for again in 0..3 {
            assert!(!bring_in(&mut caches, "c", 3), "{again}");
        }
        assert!(holds(&mut caches, "a") && holds(&mut caches, "b") && !holds(&mut caches, "c"));
        assert_eq!(caches.counts().evictions, 0);
        // One that has changed is replaced.
        assert!(caches.file(Scope::NONE, b"a", &entry("a", 4).stamp).is_none());
        assert!(bring_in(&mut caches, "a", 4) && holds(&mut caches, "a"));
        assert!(!bring_in(&mut caches, "c", 3));
    }

    #[test]
    fn a_pinned_file_makes_room_when_its_path_leads_elsewhere() {
        let mut caches = pinned();
        assert!(bring_in(&mut caches, "a", 1) && bring_in(&mut caches, "b", 2));
        caches.set_path(Scope::NONE, b"a", Target::Missing(Status::NOT_FOUND), 0);
        assert!(bring_in(&mut caches, "c", 3) && !bring_in(&mut caches, "d", 4));
        caches.forget_path(Scope::NONE, b"b");
        assert!(bring_in(&mut caches, "d", 4) && holds(&mut caches, "c"));
    }

    #[test]
    fn a_body_is_locked_in_memory_only_if_it_will_be_admitted() {
        let mut caches = pinned();
        let Backing { locked, bytes } = backing(&mut caches);
        assert!(locked || caches.counts().unpinned == 1);
        assert_eq!(bytes, vec![b'x'; BODY_BYTES]);
        assert!(bring_in(&mut caches, "a", 1) && bring_in(&mut caches, "b", 2));
        let unpinned = caches.counts().unpinned;
        assert!(!backing(&mut caches).locked);
        assert_eq!(caches.counts().unpinned, unpinned);
        assert!(!backing(&mut HeldCaches::private(CacheSettings::default())).locked);
    }

    struct Backing {
        locked: bool,
        bytes: Bytes,
    }

    /// A locked body begins a page of its own; one on the heap has a header in front of it.
    fn backing(caches: &mut HeldCaches) -> Backing {
        let bytes = caches.body(vec![b'x'; BODY_BYTES]);
        Backing { locked: bytes.as_ptr().addr().is_multiple_of(4096), bytes }
    }
}
