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

use crate::cache_settings::CacheSettings;
use crate::counts::CacheCounts;
use crate::entry::FileEntry;
use crate::files::{Files, Room, block_bytes};
use crate::policy::{CachePolicy, Lru, Traits};
use crate::store::{Handle, Store};
use crate::variant::Scope;

/// A file whose inode changed this recently, in milliseconds, is not cached: within one tick of a
/// coarse file-system clock it could change again and look the same.
pub(crate) const YOUNG_MS: u64 = 50;

/// Longest path that is remembered, in bytes; longer ones are looked up anew with each request.
const PATH_BYTES_MAX: usize = 1024;

/// Paths may take one in so many bytes of what all is to take, where that is bounded.
const PATHS_SHARE: u64 = 4;

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
    /// Another address, by the redirect of this number.
    Redirect(u32),
    /// A script, which a backend runs.
    Script,
}

#[derive(Debug)]
struct PathEntry {
    scope: Scope,
    path: Box<[u8]>,
    target: Target,
    checked_ms: u64,
}

/// Bytes of a path's node, and of its place in the table of a store that is not quite full.
const PATH_NODE_BYTES: u64 = (size_of::<PathEntry>() + 24 + 8) as u64;

/// What a path of this length takes from memory, which leads to a file.
pub(crate) fn path_bytes(len: usize) -> u64 {
    block_bytes(len) + PATH_NODE_BYTES
}

/// The caches of one worker, or one bucket of those that threads share.
#[derive(Debug)]
pub(crate) struct Caches {
    settings: CacheSettings,
    paths: Store<PathEntry, Lru>,
    /// Bytes of the paths.
    path_bytes: u64,
    files: Files<Arc<FileEntry>>,
}

impl Caches {
    pub(crate) fn new(settings: CacheSettings) -> Caches {
        // Where nothing is ever pushed out, there is no order to keep.
        let policy = if settings.pinned { CachePolicy::Lru } else { settings.policy };
        let pages = settings.pinned || settings.locks;
        let (paths, files) = (Store::new(Lru::default()), Files::new(policy, pages));
        Caches { settings, paths, path_bytes: 0, files }
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
        counts.path_hits += 1;
        counts.hit(&entry.content, self.settings.heads);
        Some(entry)
    }

    /// Remembers what a path names, unless it is very long.
    pub(crate) fn set_path(
        &mut self,
        path: Key<'_>,
        target: Target,
        now_ms: u64,
        counts: &mut CacheCounts,
    ) {
        if self.settings.paths_max == 0 || path.name.len() > PATH_BYTES_MAX {
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
                if self.make_room_for_path(path.name.len(), target, counts) {
                    let (scope, name) = (path.scope, path.name.into());
                    let entry = PathEntry { scope, path: name, target, checked_ms: now_ms };
                    self.paths.insert(path.hash, entry, &Traits::default());
                }
            }
        }
    }

    /// Pushes paths and files out until one more path fits, but not the file that it names; false
    /// when it does not fit.
    fn make_room_for_path(&mut self, len: usize, to: Target, counts: &mut CacheCounts) -> bool {
        self.paths.reserve(&Traits::default());
        self.path_bytes += block_bytes(len);
        while self.paths.len() > 0 && self.has_too_many_paths() {
            let bytes = &mut self.path_bytes;
            self.paths.evict(None, |gone| *bytes -= block_bytes(gone.path.len()));
            counts.path_evictions += 1;
        }
        let spared = match to {
            Target::File(place) => Some(place.handle),
            _ => None,
        };
        let (room, heads) = (self.room(), self.settings.heads);
        let fits = self.files.shrink(room, spared, |file| counts.evicted(&file.content, heads));
        if !fits {
            self.path_bytes -= block_bytes(len);
        }
        fits
    }

    /// Forgets what a path names.
    pub(crate) fn forget_path(&mut self, path: Key<'_>) {
        if let Some(handle) = self.find_path(path)
            && let Some(entry) = self.paths.remove(handle)
        {
            self.path_bytes -= block_bytes(entry.path.len());
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
        match self.files.peek(handle) {
            Some(entry) if entry.stamp == *stamp => {
                counts.hit(&entry.content, self.settings.heads);
                counts.revalidated(&entry.content, self.settings.heads);
                Some(handle)
            }
            _ => {
                counts.changes += 1;
                self.files.remove(handle);
                None
            }
        }
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
        traits: &Traits<'_>,
        unix_ms: u64,
        counts: &mut CacheCounts,
    ) -> Result<Handle, Arc<FileEntry>> {
        if let Some(handle) = self.find_file(name) {
            self.files.remove(handle);
        }
        let (heads, class) = (self.settings.heads, self.settings.class_of(plain_name(&entry.name)));
        counts.missed(&entry.content, heads);
        let changed_ms = u64::try_from(entry.stamp.changed_ns / 1_000_000).unwrap_or(0);
        let is_young = unix_ms.saturating_sub(changed_ms) < YOUNG_MS;
        let Some(class) = class.filter(|_| !is_young) else { return Err(entry) };
        let traits = Traits { class, ..*traits };
        let room = self.room();
        let gone = |file: &Arc<FileEntry>| counts.evicted(&file.content, heads);
        self.files.admit(name.hash, entry, &traits, room, gone)
    }

    /// What the paths leave to the files.
    fn room(&self) -> Room {
        let bytes_max = match self.settings.content_bytes_max {
            0 => 0,
            most => most.saturating_sub(self.paths_memory()).max(1),
        };
        Room { bytes_max, files_max: self.settings.files_max, stays: self.settings.pinned }
    }

    fn paths_memory(&self) -> u64 {
        self.path_bytes + self.paths.overhead_bytes()
    }

    /// With one more path, there would be too many, or they would take more than their share.
    fn has_too_many_paths(&self) -> bool {
        let share = match self.settings.content_bytes_max {
            0 => u64::MAX,
            most => most / PATHS_SHARE,
        };
        self.paths.len() >= self.settings.paths_max || self.paths_memory() > share
    }

    /// True when a body of so many bytes would be pinned and nothing else is in the way.
    pub(crate) fn pins(&self, len: usize) -> bool {
        self.settings.pinned && Pinned::cost(len) as u64 <= self.files.bytes_left(self.room())
    }

    /// A path that led to a file leads elsewhere: nobody else would push the file out.
    fn drop_pinned(&mut self, before: Target, now: Target) {
        if let Target::File(file) = before
            && self.settings.pinned
            && !matches!(now, Target::File(other) if other.handle == file.handle)
        {
            self.files.remove(file.handle);
        }
    }

    fn find_path(&mut self, path: Key<'_>) -> Option<Handle> {
        self.paths.find(path.hash, |entry| entry.scope == path.scope && *entry.path == *path.name)
    }

    fn find_file(&mut self, name: Key<'_>) -> Option<Handle> {
        self.files.find(name.hash, |entry| entry.scope == name.scope && *entry.name == *name.name)
    }
}

/// The name of a file: what is behind a NUL tells its variants apart.
fn plain_name(name: &[u8]) -> &[u8] {
    name.split(|&byte| byte == 0).next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Content, Head};
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

    /// A locked body is a copy in pages of its own; another stays where it is.
    fn backing(caches: &mut HeldCaches) -> Backing {
        let body = vec![b'x'; BODY_BYTES];
        let heap = body.as_ptr();
        let bytes = caches.body(body);
        Backing { locked: bytes.as_ptr() != heap, bytes }
    }
}
