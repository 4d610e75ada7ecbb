//! The caches as one [`Service`](crate::Service) holds them: its own, or some that it shares. This
//! is the only place that knows the difference; another kind of caches is one more [`Backend`].
//!
//! Whatever the backend, an operation that finds a file gives its [`Place`], and
//! [`HeldCaches::entry`] gives the entry there until the next operation.

use std::hash::BuildHasher;
use std::sync::Arc;

use bytes::Bytes;
use flyball_sys::descriptors::Member;
use flyball_sys::file::Stamp;
use flyball_sys::pinned::Pinned;
use hashbrown::DefaultHashBuilder;

use crate::cache_settings::CacheSettings;
use crate::caches::{Caches, Key, Place, Target};
use crate::counts::CacheCounts;
use crate::entry::FileEntry;
use crate::policy::{CachePolicy, Class, Traits};
use crate::shared::{SharedCaches, Sharing};
use crate::shared_table::{Part, SharedTable};
use crate::variant::Scope;

/// The caches of one service.
#[derive(Debug)]
pub(crate) struct HeldCaches {
    settings: CacheSettings,
    hasher: DefaultHashBuilder,
    counts: CacheCounts,
    backend: Backend,
}

/// How a file stands to others (policy `structured`).
#[derive(Debug, Default)]
pub(crate) struct Relations {
    /// What others refer to it by.
    id: u64,
    /// What it refers to.
    objects: Vec<u64>,
}

#[derive(Debug)]
enum Backend {
    /// Of one thread of control: no lock, and entries are only borrowed.
    Private(Box<Caches>),
    /// Of the threads of one process: a lock for each bucket.
    Shared(Sharing),
    /// Of processes that share a table and their descriptors.
    Table(Box<Part>),
}

impl HeldCaches {
    /// Empty caches of one's own.
    pub(crate) fn private(settings: CacheSettings) -> HeldCaches {
        let backend = Backend::Private(Box::new(Caches::new(settings.clone())));
        let hasher = DefaultHashBuilder::default();
        HeldCaches { settings, hasher, counts: CacheCounts::default(), backend }
    }

    /// A part in caches that others use too.
    pub(crate) fn shared(caches: &Arc<SharedCaches>) -> HeldCaches {
        HeldCaches {
            settings: caches.settings().clone(),
            hasher: caches.hasher().clone(),
            counts: CacheCounts::default(),
            backend: Backend::Shared(Sharing::new(caches)),
        }
    }

    /// A part in a table that other processes use too.
    pub(crate) fn in_table(table: &Arc<SharedTable>, member: &Arc<Member>) -> HeldCaches {
        HeldCaches {
            settings: table.settings().clone(),
            hasher: table.hasher().clone(),
            counts: CacheCounts::default(),
            backend: Backend::Table(Box::new(Part::new(table, member))),
        }
    }

    pub(crate) fn settings(&self) -> &CacheSettings {
        &self.settings
    }

    pub(crate) fn settings_mut(&mut self) -> &mut CacheSettings {
        &mut self.settings
    }

    pub(crate) fn counts(&self) -> CacheCounts {
        self.counts
    }

    /// What `path` names, if that is known, was looked at recently, and is still there.
    pub(crate) fn path(&mut self, scope: Scope, path: &[u8], now_ms: u64) -> Option<Target> {
        let (key, counts) = (key(&self.hasher, scope, path), &mut self.counts);
        match &mut self.backend {
            Backend::Private(caches) => {
                let target = caches.path(key, now_ms, counts)?;
                if let Target::File(place) = target {
                    caches.use_file(place.handle, counts)?;
                }
                Some(target)
            }
            Backend::Shared(sharing) => sharing.path(key, now_ms, counts),
            Backend::Table(part) => part.path(key, now_ms, counts),
        }
    }

    /// Remembers what a path names.
    pub(crate) fn set_path(&mut self, scope: Scope, path: &[u8], target: Target, now_ms: u64) {
        let key = key(&self.hasher, scope, path);
        match &mut self.backend {
            Backend::Private(caches) => caches.set_path(key, target, now_ms, &mut self.counts),
            Backend::Shared(sharing) => sharing.set_path(key, target, now_ms, &mut self.counts),
            Backend::Table(part) => part.set_path(key, target, now_ms, &mut self.counts),
        }
    }

    /// Forgets what a path names.
    pub(crate) fn forget_path(&mut self, scope: Scope, path: &[u8]) {
        let key = key(&self.hasher, scope, path);
        match &mut self.backend {
            Backend::Private(caches) => caches.forget_path(key),
            Backend::Shared(sharing) => sharing.forget_path(key, &mut self.counts),
            Backend::Table(part) => part.forget_path(key, &mut self.counts),
        }
    }

    /// The file of this name, if it is held with this stamp; one with another stamp is dropped.
    pub(crate) fn file(&mut self, scope: Scope, name: &[u8], stamp: &Stamp) -> Option<Place> {
        let (key, counts) = (key(&self.hasher, scope, name), &mut self.counts);
        match &mut self.backend {
            Backend::Private(caches) => caches.file(key, stamp, counts).map(alone),
            Backend::Shared(sharing) => sharing.file(key, stamp, counts),
            Backend::Table(part) => part.file(key, stamp, counts),
        }
    }

    /// Takes a file in as [`HeldCaches::admit_as`] does, where nothing is known of it.
    #[cfg(test)]
    pub(crate) fn admit(
        &mut self,
        entry: Arc<FileEntry>,
        unix_ms: u64,
    ) -> Result<Place, Arc<FileEntry>> {
        self.admit_as(entry, &Relations::default(), unix_ms)
    }

    /// Takes a file in and pushes out others, if there is room at all; gives it back if not. An
    /// older entry of the same name is dropped.
    pub(crate) fn admit_as(
        &mut self,
        entry: Arc<FileEntry>,
        relations: &Relations,
        unix_ms: u64,
    ) -> Result<Place, Arc<FileEntry>> {
        if !self.settings.holds(entry.stamp.size) {
            self.counts.missed(&entry.content, self.settings.heads);
            return Err(entry);
        }
        let kept = Arc::clone(&entry);
        let (key, counts) = (key(&self.hasher, kept.scope, &kept.name), &mut self.counts);
        let Relations { id, objects } = relations;
        let traits = Traits { id: *id, objects, ..Traits::default() };
        match &mut self.backend {
            Backend::Private(caches) => {
                caches.admit(key, entry, &traits, unix_ms, counts).map(alone)
            }
            Backend::Shared(sharing) => sharing.admit(key, entry, &traits, unix_ms, counts),
            Backend::Table(part) => part.admit(key, entry, unix_ms, counts),
        }
    }

    /// Whether pages are kept together with what they refer to.
    pub(crate) fn keeps_groups(&self) -> bool {
        self.settings.policy == CachePolicy::Structured && self.has_policy()
    }

    /// Whether the order in which files are pushed out is that of the settings.
    fn has_policy(&self) -> bool {
        !self.settings.pinned && !matches!(self.backend, Backend::Table(_))
    }

    /// What hints say of a file of this name and size; `None` when it is never held.
    pub(crate) fn class_of(&self, name: &[u8], size: u64) -> Option<Class> {
        match (self.settings.holds(size), self.has_policy()) {
            (false, _) => None,
            (true, false) => Some(Class::Plain),
            (true, true) => self.settings.class_of(name),
        }
    }

    /// What makes a file of a site known to those that refer to it, and what it refers to itself.
    pub(crate) fn relations(&self, site: usize, name: &[u8], objects: &[Vec<u8>]) -> Relations {
        if !self.keeps_groups() {
            return Relations::default();
        }
        let id = |name: &[u8]| self.hasher.hash_one((site, name));
        Relations { id: id(name), objects: objects.iter().map(|name| id(name)).collect() }
    }

    /// Takes back what was counted of requests since then: nobody made them.
    pub(crate) fn forget_requests(&mut self, before: &CacheCounts) {
        self.counts.forget_requests(before);
    }

    /// A body that was brought in, pinned in memory if it is to be and will be admitted.
    pub(crate) fn body(&mut self, mut body: Vec<u8>) -> Bytes {
        // What it has reserved and does not need would count for nothing.
        body.shrink_to_fit();
        let pins = match &self.backend {
            Backend::Private(caches) => self.settings.locks || caches.pins(body.len()),
            Backend::Shared(_) => self.settings.locks,
            Backend::Table(_) => false,
        };
        if pins {
            match Pinned::copy_of(&body) {
                Ok(pinned) => return Bytes::from_owner(pinned),
                Err(_) => self.counts.unpinned += 1,
            }
        }
        Bytes::from(body)
    }

    /// Whether a body of so many bytes that was coded here is to be kept as a file.
    pub(crate) fn keeps_as_file(&self, bytes: u64) -> bool {
        matches!(&self.backend, Backend::Table(part) if part.keeps(bytes))
    }

    /// The entry that the last operation found at this place.
    pub(crate) fn entry(&self, place: Place) -> Option<&FileEntry> {
        match &self.backend {
            Backend::Private(caches) => caches.entry(place.handle).map(|entry| &**entry),
            Backend::Shared(sharing) => sharing.entry(),
            Backend::Table(part) => part.entry(),
        }
    }

    /// Lets go of what [`HeldCaches::entry`] gives, if it is held at all.
    pub(crate) fn rest(&mut self) {
        match &mut self.backend {
            Backend::Private(_) => {}
            Backend::Shared(sharing) => sharing.rest(),
            Backend::Table(part) => part.rest(),
        }
    }
}

fn key<'a>(hasher: &DefaultHashBuilder, scope: Scope, name: &'a [u8]) -> Key<'a> {
    Key { hash: hasher.hash_one((scope, name)), scope, name }
}

/// Private caches are one bucket.
fn alone(handle: crate::store::Handle) -> Place {
    Place { bucket: 0, handle }
}
