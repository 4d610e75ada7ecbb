//! Caches that the threads of one process share (S3, section 3.2.4: lock the hash entry and not the
//! table; the file inherits the cache's lock).
//!
//! The hash of a name chooses one of a few buckets, each with a lock of its own. A path may name a
//! file in another bucket; no thread ever holds two locks. What a lookup finds is kept alive by a
//! reference and used after the lock is gone, so that a lock is held for a search and no longer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flyball_sys::file::Stamp;
use hashbrown::DefaultHashBuilder;

use crate::cache_settings::CacheSettings;
use crate::caches::{Caches, Key, Place, Target};
use crate::counts::CacheCounts;
use crate::entry::FileEntry;
use crate::policy::{CachePolicy, Traits};

/// Most buckets: enough that threads on many processors seldom meet at one.
const BUCKETS_MAX: u64 = 64;

/// A bucket holds at least so many paths: names do not fall evenly, and the fewer fit, the more
/// are pushed out while other buckets have room.
const BUCKET_PATHS_MIN: u64 = 256;

/// A bucket holds at least so many of the largest bodies that are held in memory.
const BUCKET_BODIES_MIN: u64 = 32;

/// A bucket holds at least so many open files.
const BUCKET_FILES_MIN: u64 = 32;

/// Caches for all threads of a process.
#[derive(Debug)]
pub struct SharedCaches {
    settings: CacheSettings,
    hasher: DefaultHashBuilder,
    /// As many as a power of two. Each is bounded by its share of the limits.
    buckets: Box<[Bucket]>,
}

/// A bucket fills cache lines of its own, so that a lock is not slowed by its neighbour's.
#[derive(Debug)]
#[repr(align(128))]
struct Bucket(Mutex<Caches>);

impl SharedCaches {
    /// Empty caches; all buckets together stay within these limits.
    pub fn new(settings: CacheSettings) -> Arc<SharedCaches> {
        let buckets = if settings.global_lock { 1 } else { buckets_for(&settings) };
        let share = CacheSettings {
            paths_max: settings.paths_max / buckets,
            content_bytes_max: settings.content_bytes_max / buckets as u64,
            files_max: settings.files_max / buckets,
            ..settings.clone()
        };
        let bucket = || Bucket(Mutex::new(Caches::new(share.clone())));
        let buckets = std::iter::repeat_with(bucket).take(buckets).collect();
        Arc::new(SharedCaches { settings, hasher: DefaultHashBuilder::default(), buckets })
    }

    pub(crate) fn settings(&self) -> &CacheSettings {
        &self.settings
    }

    /// What chooses a bucket; the same for all who share.
    pub(crate) fn hasher(&self) -> &DefaultHashBuilder {
        &self.hasher
    }

    /// The tables use the lowest and the highest bits of a hash; those between choose the bucket.
    fn bucket_of(&self, key: Key<'_>) -> u32 {
        (key.hash >> 32) as u32 & (self.buckets.len() as u32 - 1)
    }

    fn lock(&self, bucket: u32, counts: &mut CacheCounts) -> MutexGuard<'_, Caches> {
        counts.lock_operations += 1;
        self.buckets[bucket as usize].0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// So many buckets that none is too small for the limits; caches that are off do not matter. Where
/// files go together, all of them have to be in one.
fn buckets_for(settings: &CacheSettings) -> usize {
    if settings.policy == CachePolicy::Structured {
        return 1;
    }
    let body = settings.small_bytes_max.max(1);
    let shares = [
        settings.paths_max as u64 / BUCKET_PATHS_MIN,
        settings.content_bytes_max / body.saturating_mul(BUCKET_BODIES_MIN),
        settings.files_max as u64 / BUCKET_FILES_MIN,
    ];
    let limits = [settings.paths_max as u64, settings.content_bytes_max, settings.files_max as u64];
    let on = shares.iter().zip(limits).filter(|(_, limit)| *limit > 0);
    let most = on.map(|(share, _)| *share).min().unwrap_or(1).clamp(1, BUCKETS_MAX);
    1 << most.ilog2()
}

/// One thread's part in shared caches.
#[derive(Debug)]
pub(crate) struct Sharing {
    caches: Arc<SharedCaches>,
    /// The entry that the last operation found, alive whatever becomes of it in the caches.
    found: Option<Arc<FileEntry>>,
}

impl Sharing {
    pub(crate) fn new(caches: &Arc<SharedCaches>) -> Sharing {
        Sharing { caches: Arc::clone(caches), found: None }
    }

    /// As [`Caches::path`] and [`Caches::use_file`]; two locks, one after the other, or one for
    /// both where there is no other.
    pub(crate) fn path(
        &mut self,
        path: Key<'_>,
        now_ms: u64,
        counts: &mut CacheCounts,
    ) -> Option<Target> {
        let bucket = self.caches.bucket_of(path);
        if self.caches.settings.global_lock {
            let mut caches = self.caches.lock(bucket, counts);
            let target = caches.path(path, now_ms, counts)?;
            if let Target::File(place) = target {
                self.found = Some(Arc::clone(caches.use_file(place.handle, counts)?));
            }
            return Some(target);
        }
        let target = self.caches.lock(bucket, counts).path(path, now_ms, counts)?;
        if let Target::File(place) = target {
            let mut bucket = self.caches.lock(place.bucket, counts);
            self.found = Some(Arc::clone(bucket.use_file(place.handle, counts)?));
        }
        Some(target)
    }

    pub(crate) fn set_path(
        &mut self,
        path: Key<'_>,
        target: Target,
        now_ms: u64,
        counts: &mut CacheCounts,
    ) {
        let bucket = self.caches.bucket_of(path);
        self.caches.lock(bucket, counts).set_path(path, target, now_ms, counts);
    }

    pub(crate) fn forget_path(&mut self, path: Key<'_>, counts: &mut CacheCounts) {
        let bucket = self.caches.bucket_of(path);
        self.caches.lock(bucket, counts).forget_path(path);
    }

    pub(crate) fn file(
        &mut self,
        name: Key<'_>,
        stamp: &Stamp,
        counts: &mut CacheCounts,
    ) -> Option<Place> {
        let bucket = self.caches.bucket_of(name);
        let mut caches = self.caches.lock(bucket, counts);
        let handle = caches.file(name, stamp, counts)?;
        self.found = caches.entry(handle).cloned();
        Some(Place { bucket, handle })
    }

    pub(crate) fn admit(
        &mut self,
        name: Key<'_>,
        entry: Arc<FileEntry>,
        traits: &Traits<'_>,
        unix_ms: u64,
        counts: &mut CacheCounts,
    ) -> Result<Place, Arc<FileEntry>> {
        let bucket = self.caches.bucket_of(name);
        let found = Arc::clone(&entry);
        let mut caches = self.caches.lock(bucket, counts);
        let handle = caches.admit(name, entry, traits, unix_ms, counts)?;
        self.found = Some(found);
        Ok(Place { bucket, handle })
    }

    pub(crate) fn entry(&self) -> Option<&FileEntry> {
        self.found.as_deref()
    }

    pub(crate) fn rest(&mut self) {
        self.found = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Content, Head};
    use crate::held::HeldCaches;
    use crate::variant::Scope;
    use bytes::Bytes;
    use flyball_sys::file::Kind;

    const SCOPE: Scope = Scope::NONE;

    fn entry(name: &str, len: usize) -> Arc<FileEntry> {
        let stamp = Stamp {
            device: 1,
            inode: 2,
            size: len as u64,
            modified_ns: 0,
            changed_ns: 0,
            links: 1,
            kind: Kind::Regular,
        };
        let content = Content::Memory(Bytes::from(vec![b'x'; len]));
        Arc::new(FileEntry::new(SCOPE, name.as_bytes(), stamp, &Head::of("text/plain"), content))
    }

    fn bring_in(caches: &mut HeldCaches, name: &str, len: usize) -> bool {
        match caches.admit(entry(name, len), 1_000) {
            Ok(place) => {
                caches.set_path(SCOPE, name.as_bytes(), Target::File(place), 0);
                true
            }
            Err(_) => false,
        }
    }

    fn holds(caches: &mut HeldCaches, name: &str) -> bool {
        match caches.path(SCOPE, name.as_bytes(), 0) {
            Some(Target::File(place)) => {
                let entry = caches.entry(place).expect("what was found is there");
                assert_eq!(&*entry.name, name.as_bytes());
                true
            }
            _ => false,
        }
    }

    #[test]
    fn limits_choose_the_number_of_buckets() {
        let of = |paths_max, content_bytes_max, files_max| {
            let small = CacheSettings { small_bytes_max: 64 << 10, ..CacheSettings::default() };
            buckets_for(&CacheSettings { paths_max, content_bytes_max, files_max, ..small })
        };
        assert_eq!(of(6_000, 128 << 20, 1_024), 16);
        assert_eq!(of(1, 128 << 20, 1_024), 1);
        assert_eq!(of(6_000, 1, 1_024), 1);
        assert_eq!(of(0, 0, 0), 1);
        assert_eq!(of(0, 0, 64), 2);
        assert_eq!(of(usize::MAX, u64::MAX, usize::MAX), 64);
    }

    #[test]
    fn what_one_thread_brings_in_the_others_find_by_two_locks() {
        let caches = SharedCaches::new(CacheSettings::default());
        let (mut ours, mut theirs) = (HeldCaches::shared(&caches), HeldCaches::shared(&caches));
        let names: Vec<String> = (0..100).map(|n| format!("/{n}")).collect();
        assert!(names.iter().all(|name| bring_in(&mut ours, name, 10)));
        assert!(names.iter().all(|name| holds(&mut theirs, name)));
        let counts = theirs.counts();
        assert_eq!((counts.path_hits, counts.content_hits), (100, 100));
        assert_eq!(counts.lock_operations, 200);
        assert_eq!(ours.counts().content_misses, 100);
    }

    #[test]
    fn one_lock_for_all_is_taken_once_for_a_path_and_its_file() {
        let settings = CacheSettings { global_lock: true, ..CacheSettings::default() };
        let caches = SharedCaches::new(settings);
        let (mut ours, mut theirs) = (HeldCaches::shared(&caches), HeldCaches::shared(&caches));
        let names: Vec<String> = (0..100).map(|n| format!("/{n}")).collect();
        assert!(names.iter().all(|name| bring_in(&mut ours, name, 10)));
        assert!(names.iter().all(|name| holds(&mut theirs, name)));
        let counts = theirs.counts();
        assert_eq!((caches.buckets.len(), counts.lock_operations), (1, 100));
        assert_eq!((counts.path_hits, counts.content_hits), (100, 100));
    }

    #[test]
    fn an_entry_that_was_pushed_out_lives_until_its_thread_lets_go() {
        let room = CacheSettings { content_bytes_max: 2_000, ..CacheSettings::default() };
        let caches = SharedCaches::new(room);
        let (mut ours, mut theirs) = (HeldCaches::shared(&caches), HeldCaches::shared(&caches));
        assert!(bring_in(&mut ours, "/first", 1_000));
        let Some(Target::File(place)) = ours.path(SCOPE, b"/first", 0) else {
            panic!("it is held")
        };
        assert!(bring_in(&mut theirs, "/second", 1_000));
        assert_eq!(theirs.counts().evictions, 1);
        assert!(!holds(&mut theirs, "/first"));
        assert_eq!(ours.entry(place).map(|entry| &*entry.name), Some(&b"/first"[..]));
        ours.rest();
        assert!(ours.entry(place).is_none());
    }

    #[test]
    fn what_is_too_large_for_a_bucket_is_given_back() {
        let room = CacheSettings { content_bytes_max: 2_000, ..CacheSettings::default() };
        let mut held = HeldCaches::shared(&SharedCaches::new(room));
        assert!(bring_in(&mut held, "/file", 10));
        assert!(!bring_in(&mut held, "/file", 2_000));
        assert!(!holds(&mut held, "/file"), "the older entry is gone as well");
    }

    #[test]
    fn threads_that_bring_in_the_same_files_never_mix_them_up() {
        let room = CacheSettings { content_bytes_max: 20_000, ..CacheSettings::default() };
        let caches = SharedCaches::new(room);
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let mut held = HeldCaches::shared(&caches);
                scope.spawn(move || {
                    for step in 0..2_000_usize {
                        let name = format!("/{}", (step * 7 + seed) % 40);
                        let found = holds(&mut held, &name) || bring_in(&mut held, &name, 600);
                        assert!(found, "{name}");
                    }
                });
            }
        });
    }
}
