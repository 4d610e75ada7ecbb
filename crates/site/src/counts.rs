//! What is counted of each cache.

use crate::entry::Content;

/// What one thread of control saw of its caches since it started.
///
/// A file in memory is of the content cache, one behind a descriptor of the descriptor cache; the
/// head of either is of the head cache, if that is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Requests answered from the path cache.
    pub path_hits: u64,
    /// Requests whose path was not in the cache.
    pub path_misses: u64,
    /// Paths pushed out.
    pub path_evictions: u64,
    /// Paths looked at again because their time was over.
    pub revalidations: u64,
    /// Answers by a head that was kept.
    pub head_hits: u64,
    /// Heads that were built.
    pub head_misses: u64,
    /// Heads pushed out, with their files.
    pub head_evictions: u64,
    /// Heads whose files were looked at again and had not changed.
    pub head_revalidations: u64,
    /// Bodies answered from memory.
    pub content_hits: u64,
    /// Bodies that were brought into memory.
    pub content_misses: u64,
    /// Bodies pushed out of memory.
    pub content_evictions: u64,
    /// Bodies in memory whose files were looked at again and had not changed.
    pub content_revalidations: u64,
    /// Bodies answered from a kept descriptor.
    pub descriptor_hits: u64,
    /// Larger files that were opened.
    pub descriptor_misses: u64,
    /// Descriptors pushed out.
    pub descriptor_evictions: u64,
    /// Files behind descriptors that were looked at again and had not changed.
    pub descriptor_revalidations: u64,
    /// Entries that were found changed.
    pub changes: u64,
    /// Files pushed out, from memory or from their descriptors.
    pub evictions: u64,
    /// Files brought in before anybody asked for them.
    pub prefetches: u64,
    /// Times that a lock of shared caches was taken.
    pub lock_operations: u64,
    /// Bodies that should be pinned in memory, and could not be.
    pub unpinned: u64,
}

impl CacheCounts {
    /// A file was answered from the caches.
    #[inline]
    pub(crate) fn hit(&mut self, content: &Content, heads: bool) {
        self.head_hits += u64::from(heads);
        match content {
            Content::Memory(_) => self.content_hits += 1,
            Content::Open(_) => self.descriptor_hits += 1,
        }
    }

    /// A file was brought in.
    pub(crate) fn missed(&mut self, content: &Content, heads: bool) {
        self.head_misses += u64::from(heads);
        match content {
            Content::Memory(_) => self.content_misses += 1,
            Content::Open(_) => self.descriptor_misses += 1,
        }
    }

    /// A file was pushed out.
    pub(crate) fn evicted(&mut self, content: &Content, heads: bool) {
        self.evictions += 1;
        self.head_evictions += u64::from(heads);
        match content {
            Content::Memory(_) => self.content_evictions += 1,
            Content::Open(_) => self.descriptor_evictions += 1,
        }
    }

    /// A file was looked at again and had not changed.
    pub(crate) fn revalidated(&mut self, content: &Content, heads: bool) {
        self.head_revalidations += u64::from(heads);
        match content {
            Content::Memory(_) => self.content_revalidations += 1,
            Content::Open(_) => self.descriptor_revalidations += 1,
        }
    }

    /// Takes back what was counted of requests since `before`: files were brought in that nobody
    /// had asked for yet. What was pushed out for them, and how often locks were taken, stays.
    pub(crate) fn forget_requests(&mut self, before: &CacheCounts) {
        let brought_in = |counts: &CacheCounts| counts.content_misses + counts.descriptor_misses;
        *self = CacheCounts {
            path_evictions: self.path_evictions,
            head_evictions: self.head_evictions,
            content_evictions: self.content_evictions,
            descriptor_evictions: self.descriptor_evictions,
            changes: self.changes,
            evictions: self.evictions,
            prefetches: before.prefetches + brought_in(self) - brought_in(before),
            lock_operations: self.lock_operations,
            unpinned: self.unpinned,
            ..*before
        };
    }
}
