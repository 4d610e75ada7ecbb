//! The mapped-file cache of Flash (S2, section 5.4): files are mapped in chunks, a small one in one
//! chunk. A chunk is active while a connection sends from it. One that nobody uses any more goes to
//! the end of a list of inactive chunks and stays mapped, to be found again; when more is mapped
//! than `cache.mapped` allows, the inactive chunks that were used longest ago are unmapped, and
//! those of files that a hint keeps or pins after all others. Those of a file that is never held do
//! not stay.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flyball_conn::Mapped;
use flyball_site::{Class, OpenFile};
use flyball_sys::file::Stamp;
use flyball_sys::mapping::{Advice, Mapping};

use crate::settings::Settings;

/// Chunks begin at multiples of this: no page of Linux is larger.
const PAGE_BYTES_MAX: usize = 64 * 1024;

/// The chunks of one worker, for all of its threads.
#[derive(Debug)]
pub struct Chunks {
    chunk_bytes: usize,
    /// More may be mapped while more is in use.
    bytes_max: u64,
    advice: Advice,
    table: Mutex<Table>,
    hits: AtomicU64,
    misses: AtomicU64,
    unmaps: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    chunks: HashMap<Key, Chunk>,
    /// By what hints say of them, and when their last use ended.
    inactive: BTreeMap<(Class, u64), Key>,
    /// Uses that have ended.
    ended: u64,
    mapped_bytes: u64,
}

/// A version of a file, and the number of a chunk of it. Another version has other chunks; those of
/// the old one are used no more, and go in their time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    stamp: Stamp,
    number: u64,
}

#[derive(Debug)]
struct Chunk {
    mapping: Arc<Mapping>,
    uses: u32,
    /// `None` when it does not stay.
    class: Option<Class>,
    /// When its last use ended.
    ended: u64,
}

/// What was counted since the last time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkCounts {
    /// Chunks that were found mapped.
    pub hits: u64,
    /// Chunks that were mapped.
    pub misses: u64,
    /// Chunks that were unmapped.
    pub unmaps: u64,
}

/// A chunk that a connection sends from; active for as long as this lives.
#[derive(Debug)]
pub struct ChunkInUse {
    chunks: Arc<Chunks>,
    key: Key,
    mapping: Arc<Mapping>,
}

impl Chunks {
    /// Those of a worker by these settings.
    pub fn of(settings: &Settings) -> Arc<Chunks> {
        let Settings { chunk_bytes, mapped_bytes_max, mapped_advice, .. } = settings;
        Chunks::new(*chunk_bytes, *mapped_bytes_max, *mapped_advice)
    }

    /// No chunk yet. Each maps `chunk_bytes`, in whole pages; the inactive ones are unmapped beyond
    /// `bytes_max` in all. The kernel is told `advice` of each.
    pub fn new(chunk_bytes: usize, bytes_max: u64, advice: Advice) -> Arc<Chunks> {
        Arc::new(Chunks {
            chunk_bytes: chunk_bytes.max(1).next_multiple_of(PAGE_BYTES_MAX),
            bytes_max,
            advice,
            table: Mutex::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            unmaps: AtomicU64::new(0),
        })
    }

    /// The chunk of a file at an offset that lies within it. Reads nothing.
    ///
    /// # Errors
    /// When it cannot be mapped.
    pub fn take(self: &Arc<Chunks>, file: &OpenFile, offset: u64) -> io::Result<ChunkInUse> {
        let each = self.chunk_bytes as u64;
        let key = Key { stamp: file.stamp, number: offset / each };
        if let Some(mapping) = self.lock().find(key) {
            self.hits.fetch_add(1, Relaxed);
            return Ok(ChunkInUse { chunks: Arc::clone(self), key, mapping });
        }
        let start = key.number * each;
        let len = each.min(file.stamp.size.saturating_sub(start)) as usize;
        let mapping = Arc::new(Mapping::new(&*file.file, start, len)?);
        // It is sent all the same.
        let _ = mapping.advise(self.advice);
        self.misses.fetch_add(1, Relaxed);
        let mut table = self.lock();
        let mapping = table.insert(key, mapping, file.class);
        let unmapped = table.make_room(self.bytes_max);
        drop(table);
        self.unmap(unmapped);
        Ok(ChunkInUse { chunks: Arc::clone(self), key, mapping })
    }

    /// What was counted since this was last called, by whichever thread.
    pub fn take_counts(&self) -> ChunkCounts {
        let take = |counter: &AtomicU64| match counter.load(Relaxed) {
            0 => 0,
            _ => counter.swap(0, Relaxed),
        };
        ChunkCounts {
            hits: take(&self.hits),
            misses: take(&self.misses),
            unmaps: take(&self.unmaps),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Outside the lock: unmapping many pages takes its time.
    fn unmap(&self, mappings: Vec<Arc<Mapping>>) {
        self.unmaps.fetch_add(mappings.len() as u64, Relaxed);
    }
}

impl Table {
    /// A chunk that is mapped; it is active from now on.
    fn find(&mut self, key: Key) -> Option<Arc<Mapping>> {
        let chunk = self.chunks.get_mut(&key)?;
        if chunk.uses == 0
            && let Some(class) = chunk.class
        {
            self.inactive.remove(&(class, chunk.ended));
        }
        chunk.uses += 1;
        Some(Arc::clone(&chunk.mapping))
    }

    /// Takes a chunk in, which is active, unless another thread has mapped it meanwhile.
    fn insert(&mut self, key: Key, mapping: Arc<Mapping>, class: Option<Class>) -> Arc<Mapping> {
        if let Some(found) = self.find(key) {
            return found;
        }
        self.mapped_bytes += mapping.len() as u64;
        let chunk = Chunk { mapping: Arc::clone(&mapping), uses: 1, class, ended: 0 };
        self.chunks.insert(key, chunk);
        mapping
    }

    /// One use of a chunk has ended; gives it out when it does not stay.
    fn end_use(&mut self, key: Key) -> Option<Arc<Mapping>> {
        let chunk = self.chunks.get_mut(&key)?;
        chunk.uses -= 1;
        if chunk.uses > 0 {
            return None;
        }
        let Some(class) = chunk.class else { return self.take_out(key) };
        self.ended += 1;
        chunk.ended = self.ended;
        self.inactive.insert((class, self.ended), key);
        None
    }

    /// Takes out inactive chunks, in the order of their list, until no more than so many bytes are
    /// mapped or all are active.
    fn make_room(&mut self, bytes_max: u64) -> Vec<Arc<Mapping>> {
        let mut out = Vec::new();
        while self.mapped_bytes > bytes_max
            && let Some((_, key)) = self.inactive.pop_first()
        {
            out.extend(self.take_out(key));
        }
        out
    }

    fn take_out(&mut self, key: Key) -> Option<Arc<Mapping>> {
        let mapping = self.chunks.remove(&key)?.mapping;
        self.mapped_bytes -= mapping.len() as u64;
        Some(mapping)
    }
}

impl Mapped for ChunkInUse {
    fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    fn is_at(&self, file: &OpenFile, offset: u64) -> bool {
        self.key.stamp == file.stamp && self.mapping.rest_from(offset).is_some()
    }
}

impl Drop for ChunkInUse {
    fn drop(&mut self) {
        let mut table = self.chunks.lock();
        let ended = table.end_use(self.key);
        let mut unmapped = table.make_room(self.chunks.bytes_max);
        unmapped.extend(ended);
        drop(table);
        self.chunks.unmap(unmapped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_sys::file;
    use std::io::Write;

    const CHUNK: usize = PAGE_BYTES_MAX;

    /// A file of so many chunks and a byte.
    fn open(chunks: usize) -> OpenFile {
        let mut made = tempfile::tempfile().unwrap();
        made.write_all(&vec![7; chunks * CHUNK + 1]).unwrap();
        let stamp = file::stamp(&made).unwrap();
        OpenFile::new(Arc::new(made.into()), stamp)
    }

    fn counts(hits: u64, misses: u64, unmaps: u64) -> ChunkCounts {
        ChunkCounts { hits, misses, unmaps }
    }

    #[test]
    fn a_file_is_mapped_in_chunks_and_a_chunk_once() {
        let chunks = Chunks::new(CHUNK - 1, 1 << 30, Advice::None);
        let file = open(2);
        let first = chunks.take(&file, 0).unwrap();
        let same = chunks.take(&file, CHUNK as u64 - 1).unwrap();
        let last = chunks.take(&file, 2 * CHUNK as u64).unwrap();
        assert!(Arc::ptr_eq(first.mapping(), same.mapping()));
        assert_eq!((first.mapping().len(), last.mapping().len()), (CHUNK, 1));
        assert!(first.is_at(&file, 5) && !first.is_at(&file, CHUNK as u64));
        assert!(!first.is_at(&open(2), 5));
        assert_eq!(chunks.take_counts(), counts(1, 2, 0));
        assert_eq!(chunks.take_counts(), counts(0, 0, 0));
    }

    #[test]
    fn chunks_stay_mapped_until_there_is_no_room_and_those_used_longest_ago_go_first() {
        let chunks = Chunks::new(CHUNK, 2 * CHUNK as u64, Advice::Sequential);
        let file = open(4);
        let take = |number: usize| chunks.take(&file, (number * CHUNK) as u64).unwrap();
        drop(take(0));
        drop(take(1));
        drop(take(0));
        assert_eq!(chunks.take_counts(), counts(1, 2, 0));
        drop(take(2));
        assert_eq!(chunks.take_counts(), counts(0, 1, 1));
        drop(take(0));
        assert_eq!(chunks.take_counts(), counts(1, 0, 0));
        drop(take(1));
        assert_eq!(chunks.take_counts(), counts(0, 1, 1));
    }

    #[test]
    fn a_chunk_in_use_is_never_unmapped_and_goes_when_its_last_use_ends() {
        let chunks = Chunks::new(CHUNK, CHUNK as u64, Advice::None);
        let file = open(4);
        let take = |number: usize| chunks.take(&file, (number * CHUNK) as u64).unwrap();
        let (first, again, second) = (take(0), take(0), take(1));
        assert_eq!(chunks.take_counts(), counts(1, 2, 0));
        drop(first);
        assert_eq!(chunks.take_counts(), counts(0, 0, 0));
        drop(again);
        assert_eq!(chunks.take_counts(), counts(0, 0, 1));
        drop(second);
        assert_eq!(chunks.take_counts(), counts(0, 0, 0));
        assert_eq!(chunks.lock().mapped_bytes, CHUNK as u64);
    }

    #[test]
    fn chunks_of_what_is_never_held_do_not_stay_and_those_that_a_hint_keeps_go_last() {
        let chunks = Chunks::new(CHUNK, 2 * CHUNK as u64, Advice::None);
        let of = |class| open(1).of_class(class);
        let files = [Class::Pinned, Class::Plain, Class::Kept].map(|class| of(Some(class)));
        let never = of(None);
        let take = |file: &OpenFile| chunks.take(file, 0).unwrap();
        let (one, other) = (take(&never), take(&never));
        drop(one);
        assert_eq!(chunks.take_counts(), counts(1, 1, 0));
        drop(other);
        assert_eq!(chunks.take_counts(), counts(0, 0, 1));
        files.iter().for_each(|file| drop(take(file)));
        assert_eq!(chunks.take_counts(), counts(0, 3, 1));
        // The plain one went, though the pinned one was used before it.
        drop((take(&files[0]), take(&files[2])));
        assert_eq!(chunks.take_counts(), counts(2, 0, 0));
        // For another, the one that is kept goes and the pinned one stays.
        drop(take(&of(Some(Class::Plain))));
        drop(take(&files[0]));
        assert_eq!(chunks.take_counts(), counts(1, 1, 1));
    }

    #[test]
    fn threads_that_take_the_same_chunks_leave_none_active() {
        let chunks = Chunks::new(CHUNK, 3 * CHUNK as u64, Advice::None);
        let file = open(8);
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let (chunks, file) = (&chunks, &file);
                scope.spawn(move || {
                    for step in 0..2_000_usize {
                        let offset = (step * 7 + seed) % 8 * CHUNK;
                        let chunk = chunks.take(file, offset as u64).unwrap();
                        assert_eq!(chunk.mapping().offset(), offset as u64);
                    }
                });
            }
        });
        let table = chunks.lock();
        assert!(table.mapped_bytes <= 3 * CHUNK as u64);
        assert_eq!(table.inactive.len(), table.chunks.len());
        let mapped: usize = table.chunks.values().map(|chunk| chunk.mapping.len()).sum();
        assert_eq!(mapped as u64, table.mapped_bytes);
    }
}
