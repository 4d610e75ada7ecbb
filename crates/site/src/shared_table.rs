//! One table of cached files for processes that share nothing else but their descriptors (S4,
//! section 4: shared-SYMPED's application cache): names, stamps and prebuilt heads in a shared
//! mapping, made of nothing but atomic words. It holds no bodies: each is sent from the file's
//! descriptor, which stands on the shelf of a [`DescriptorTable`] and is lent for as long. A body
//! that was coded here is a file in memory; of those there are as many bytes as `cache.content`
//! says, in all processes together.
//!
//! Two tiers of locks (M145): one for names, held by many to look up and by one to insert; and one
//! for each file, held while its head is copied out. Nobody waits for a file's lock while reading
//! names.
//!
//! Both maps are sets of a few records each: the hash of a name chooses a set, and the least
//! recently used record of the set makes room. So there are no links between records that a killed
//! process could leave broken. A record's hash is written last and cleared first: whatever is half
//! written has none, and is free.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use flyball_sys::descriptors::{DescriptorTable, Member};
use flyball_sys::file::Stamp;
use flyball_sys::shared::SharedCounters;
use hashbrown::DefaultHashBuilder;

use crate::cache_settings::CacheSettings;
use crate::caches::{Key, Place, Target, YOUNG_MS};
use crate::counts::CacheCounts;
use crate::entry::{Content, Cuts, FileEntry, OpenFile};
use crate::pid_locks::{self, Locked, NameLock};

mod coded;
mod words;

use coded::{CodedBytes, coded_bytes};
use words::{
    STAMP_WORDS, load_bytes, place, stamp_of_words, stamp_to_words, store, target_of_word,
    target_to_word, words_of,
};

/// Longest name that is cached, in bytes; longer ones are looked up anew with each request.
pub(crate) const NAME_BYTES_MAX: usize = 256;

/// Longest head that is cached, in bytes: room for the fields of security that a site may set.
pub(crate) const HEAD_BYTES_MAX: usize = 2_048;

/// Most records in a set.
const WAYS_MAX: usize = 16;

const NAME_WORDS: usize = NAME_BYTES_MAX / 8;
const HEAD_WORDS: usize = HEAD_BYTES_MAX / 8;

// The words of every record.
const HASH: usize = 0;
const SCOPE: usize = 1;
const NAME_LEN: usize = 2;
const USED_MS: usize = 3;
const NAME: usize = 4;
// The further words of a path's record.
const TARGET: usize = NAME + NAME_WORDS;
const CHECKED_MS: usize = TARGET + 1;
const PATH_WORDS: usize = CHECKED_MS + 1;
// The further words of a file's record.
const LOCK: usize = NAME + NAME_WORDS;
const GENERATION: usize = LOCK + 1;
const STAMP: usize = GENERATION + 1;
/// The stamp of the file that is sent, which is another one when a body was coded here.
const BODY_STAMP: usize = STAMP + STAMP_WORDS;
const CUTS: usize = BODY_STAMP + STAMP_WORDS;
const HEAD_LEN: usize = CUTS + 1;
const HEAD: usize = HEAD_LEN + 1;
const FILE_WORDS: usize = HEAD + HEAD_WORDS;

/// The table, mapped before the processes are cloned.
#[derive(Debug)]
pub struct SharedTable {
    settings: CacheSettings,
    hasher: DefaultHashBuilder,
    descriptors: Arc<DescriptorTable>,
    names: NameLock,
    paths: Records,
    files: Records,
    coded: CodedBytes,
}

impl SharedTable {
    /// An empty table for so many processes. Bodies count only where they were coded here.
    ///
    /// # Errors
    /// When memory is out.
    pub fn new(settings: CacheSettings, processes: usize) -> io::Result<Arc<SharedTable>> {
        let coded_bytes_max = settings.content_bytes_max;
        let settings = CacheSettings { content_bytes_max: 0, ..settings };
        let files = Records::new(settings.files_max, FILE_WORDS)?;
        let coded = CodedBytes::new(files.len(), coded_bytes_max)?;
        let descriptors = Arc::new(DescriptorTable::new(processes, files.len())?);
        Ok(Arc::new(SharedTable {
            hasher: DefaultHashBuilder::default(),
            descriptors,
            names: NameLock::new(processes)?,
            paths: Records::new(settings.paths_max, PATH_WORDS)?,
            files,
            coded,
            settings,
        }))
    }

    /// The descriptors of the processes.
    pub fn descriptors(&self) -> &Arc<DescriptorTable> {
        &self.descriptors
    }

    /// To be called when process `index` was reaped, before another takes its slot: breaks the
    /// locks that it held and forgets the files that it had locked.
    pub fn recover(&self, index: usize, pid: i32) {
        let pid = pid as u64;
        for record in 0..self.files.len() {
            let words = self.files.record(record);
            pid_locks::break_lock(&words[LOCK], pid, || {
                words[HASH].store(0, SeqCst);
                self.descriptors.discard(record);
            });
        }
        self.names.break_locks(index, pid);
    }

    pub(crate) fn settings(&self) -> &CacheSettings {
        &self.settings
    }

    pub(crate) fn hasher(&self) -> &DefaultHashBuilder {
        &self.hasher
    }
}

/// Records of equal size, in sets.
#[derive(Debug)]
struct Records {
    words: SharedCounters,
    size: usize,
    sets: usize,
    ways: usize,
}

impl Records {
    /// At most so many.
    fn new(most: usize, size: usize) -> io::Result<Records> {
        let ways = most.min(WAYS_MAX);
        let sets = most.checked_div(ways).unwrap_or(0);
        Ok(Records { words: SharedCounters::new(sets * ways * size)?, size, sets, ways })
    }

    fn len(&self) -> usize {
        self.sets * self.ways
    }

    fn record(&self, index: usize) -> &[AtomicU64] {
        &self.words.all()[index * self.size..][..self.size]
    }

    /// The records that may hold this name.
    fn set(&self, key: Key<'_>) -> Range<usize> {
        let set = (key.hash >> 32) as usize % self.sets.max(1);
        set * self.ways..(set + 1) * self.ways
    }

    fn find(&self, key: Key<'_>) -> Option<usize> {
        self.set(key).find(|&index| holds(self.record(index), key))
    }

    /// The records that may hold this name, those without one first and then those that were used
    /// longest ago.
    fn victims(&self, key: Key<'_>) -> Vec<usize> {
        let age = |&index: &usize| {
            let record = self.record(index);
            (record[HASH].load(SeqCst) != 0, record[USED_MS].load(SeqCst))
        };
        let mut victims: Vec<usize> = self.set(key).collect();
        victims.sort_by_key(age);
        victims
    }
}

/// The hash that a record of this name carries: 0 is that of none.
fn mark(key: Key<'_>) -> u64 {
    key.hash.max(1)
}

/// Whether a record is that of this name; its name must not change meanwhile.
fn holds(record: &[AtomicU64], key: Key<'_>) -> bool {
    record[HASH].load(SeqCst) == mark(key)
        && record[SCOPE].load(SeqCst) == key.scope.to_bits()
        && record[NAME_LEN].load(SeqCst) == key.name.len() as u64
        && record[NAME..].iter().zip(words_of(key.name)).all(|(w, name)| w.load(SeqCst) == name)
}

/// One process's part in the table.
#[derive(Debug)]
pub(crate) struct Part {
    table: Arc<SharedTable>,
    member: Arc<Member>,
    found: Found,
    /// Room for the next head.
    head: Vec<u8>,
}

/// The first tier: the record of a path, and whether it is still believed.
fn look_up(table: &SharedTable, path: Key<'_>, now_ms: u64) -> Option<(Target, bool)> {
    let record = table.paths.record(table.paths.find(path)?);
    let target = target_of_word(record[TARGET].load(SeqCst))?;
    let checked_ms = record[CHECKED_MS].load(SeqCst);
    note_use(&record[USED_MS], now_ms);
    let due = now_ms.saturating_sub(checked_ms) >= table.settings.revalidate_ms;
    let checked = &record[CHECKED_MS];
    let mine = due && checked.compare_exchange(checked_ms, now_ms, SeqCst, SeqCst).is_ok();
    Some((target, !mine))
}

/// What the last operation found.
#[derive(Debug)]
enum Found {
    Nothing,
    /// Copied out of the table.
    Copied(FileEntry),
    /// What this process has just put there.
    Admitted(Arc<FileEntry>),
}

impl Part {
    pub(crate) fn new(table: &Arc<SharedTable>, member: &Arc<Member>) -> Part {
        let (table, member) = (Arc::clone(table), Arc::clone(member));
        Part { table, member, found: Found::Nothing, head: Vec::with_capacity(HEAD_BYTES_MAX) }
    }

    /// What `path` names, if that is known, was looked at recently, and is still there. When its
    /// time is over, one of the processes is told that it is unknown, and looks again.
    pub(crate) fn path(
        &mut self,
        path: Key<'_>,
        now_ms: u64,
        counts: &mut CacheCounts,
    ) -> Option<Target> {
        let table = Arc::clone(&self.table);
        counts.lock_operations += 1;
        // With one lock for all, it is held alone, and until the file is there.
        let alone = table.settings.global_lock;
        let Some(names) = table.names.look(&self.member, alone) else {
            counts.path_misses += 1;
            return None;
        };
        let looked_up = look_up(&table, path, now_ms);
        let _names = alone.then_some(names);
        let Some((target, fresh)) = looked_up else {
            counts.path_misses += 1;
            return None;
        };
        if !fresh {
            counts.revalidations += 1;
            return None;
        }
        if let Target::File(place) = target {
            let (index, generation) = place.handle.parts();
            let locked = lock_file(&table, index as usize, &self.member, counts)?;
            if !self.copy_out(&table, index as usize, generation, &locked) {
                counts.revalidations += 1;
                return None;
            }
            note_use(&table.files.record(index as usize)[USED_MS], now_ms);
            counts.descriptor_hits += 1;
            counts.head_hits += 1;
        }
        counts.path_hits += 1;
        Some(target)
    }

    /// The second tier: copies a file's head and borrows its descriptor. False when it is gone.
    fn copy_out(
        &mut self,
        table: &SharedTable,
        index: usize,
        generation: u32,
        _locked: &Locked<'_>,
    ) -> bool {
        let Some(file) = self.member.lend(index, generation) else { return false };
        let record = table.files.record(index);
        self.rest();
        let mut head = std::mem::take(&mut self.head);
        head.clear();
        load_bytes(&record[HEAD..], record[HEAD_LEN].load(SeqCst) as usize, &mut head);
        let stamp = stamp_of_words(&record[STAMP..]);
        let cuts = Cuts::from_word(record[CUTS].load(SeqCst));
        let body = stamp_of_words(&record[BODY_STAMP..]);
        let open = OpenFile::new(Arc::new(file), body).promising(table.settings().promise);
        let content = Content::Open(Arc::new(open));
        self.found = Found::Copied(FileEntry::from_parts(stamp, head, cuts, content));
        true
    }

    /// Remembers what a path names.
    pub(crate) fn set_path(
        &self,
        path: Key<'_>,
        target: Target,
        now_ms: u64,
        counts: &mut CacheCounts,
    ) {
        let paths = &self.table.paths;
        if paths.len() == 0 || path.name.len() > NAME_BYTES_MAX {
            return;
        }
        let word = target_to_word(target);
        counts.lock_operations += 1;
        {
            let Some(_reading) = self.table.names.read(self.member.index()) else { return };
            if let Some(index) = paths.find(path) {
                paths.record(index)[TARGET].store(word, SeqCst);
                paths.record(index)[CHECKED_MS].store(now_ms, SeqCst);
                return;
            }
        }
        counts.lock_operations += 1;
        let Some(_writing) = self.table.names.write(self.member.pid()) else { return };
        let index = paths.find(path).or_else(|| paths.victims(path).first().copied());
        let Some(index) = index else { return };
        let record = paths.record(index);
        record[HASH].store(0, SeqCst);
        record[SCOPE].store(path.scope.to_bits(), SeqCst);
        record[NAME_LEN].store(path.name.len() as u64, SeqCst);
        store(&record[NAME..], words_of(path.name));
        record[TARGET].store(word, SeqCst);
        record[CHECKED_MS].store(now_ms, SeqCst);
        record[USED_MS].store(now_ms, SeqCst);
        record[HASH].store(mark(path), SeqCst);
    }

    /// Forgets what a path names.
    pub(crate) fn forget_path(&self, path: Key<'_>, counts: &mut CacheCounts) {
        counts.lock_operations += 1;
        let Some(_reading) = self.table.names.read(self.member.index()) else { return };
        if let Some(index) = self.table.paths.find(path) {
            // A record without its hash is free; that takes no more than this word.
            self.table.paths.record(index)[HASH].store(0, SeqCst);
        }
    }

    /// The file of this name, if it is held with this stamp; one with another stamp is dropped.
    pub(crate) fn file(
        &mut self,
        name: Key<'_>,
        stamp: &Stamp,
        counts: &mut CacheCounts,
    ) -> Option<Place> {
        let table = Arc::clone(&self.table);
        counts.lock_operations += 1;
        let index = {
            let _reading = table.names.read(self.member.index())?;
            table.files.find(name)?
        };
        let locked = lock_file(&table, index, &self.member, counts)?;
        let record = table.files.record(index);
        if !holds(record, name) {
            return None;
        }
        let generation = record[GENERATION].load(SeqCst) as u32;
        if stamp_of_words(&record[STAMP..]) == *stamp
            && self.copy_out(&table, index, generation, &locked)
        {
            counts.descriptor_hits += 1;
            counts.descriptor_revalidations += 1;
            counts.head_hits += 1;
            counts.head_revalidations += 1;
            return Some(place(index as u32, generation));
        }
        counts.changes += 1;
        record[HASH].store(0, SeqCst);
        self.member.unshelve(index);
        None
    }

    /// Takes a file in and pushes out another of its set, if there is room at all; gives it back if
    /// not. When another process was faster, its file is the one that is used.
    pub(crate) fn admit(
        &mut self,
        name: Key<'_>,
        entry: Arc<FileEntry>,
        unix_ms: u64,
        counts: &mut CacheCounts,
    ) -> Result<Place, Arc<FileEntry>> {
        if let Some(place) = self.file(name, &entry.stamp, counts) {
            return Ok(place);
        }
        counts.missed(&entry.content, true);
        let changed_ms = u64::try_from(entry.stamp.changed_ns / 1_000_000).unwrap_or(0);
        let fits = name.name.len() <= NAME_BYTES_MAX && entry.head().h1().len() <= HEAD_BYTES_MAX;
        if !fits || unix_ms.saturating_sub(changed_ms) < YOUNG_MS || self.table.files.len() == 0 {
            return Err(entry);
        }
        match self.insert(name, &entry, counts) {
            Some(place) => {
                self.found = Found::Admitted(entry);
                Ok(place)
            }
            None => Err(entry),
        }
    }

    fn insert(
        &self,
        name: Key<'_>,
        entry: &Arc<FileEntry>,
        counts: &mut CacheCounts,
    ) -> Option<Place> {
        let Content::Open(open) = &entry.content else { return None };
        let table = &*self.table;
        counts.lock_operations += 1;
        let _writing = table.names.write(self.member.pid())?;
        if let Some(index) = table.files.find(name) {
            // Another process brought it in since the names were looked at: that one stays, and
            // this request is answered from a descriptor of its own.
            let record = table.files.record(index);
            if stamp_of_words(&record[STAMP..]) == entry.stamp {
                return None;
            }
            record[HASH].store(0, SeqCst);
        }
        if !self.make_room(entry, counts) {
            return None;
        }
        for index in table.files.victims(name) {
            let locked = lock_file(table, index, &self.member, counts)?;
            if !self.empty(index, &locked, &entry.content, counts) {
                continue;
            }
            let record = table.files.record(index);
            table.coded.set(index, coded_bytes(entry));
            record[SCOPE].store(name.scope.to_bits(), SeqCst);
            record[NAME_LEN].store(name.name.len() as u64, SeqCst);
            store(&record[NAME..], words_of(name.name));
            store(&record[STAMP..], stamp_to_words(&entry.stamp).into_iter());
            store(&record[BODY_STAMP..], stamp_to_words(&open.stamp).into_iter());
            record[CUTS].store(entry.cuts().to_word(), SeqCst);
            record[HEAD_LEN].store(entry.head().h1().len() as u64, SeqCst);
            store(&record[HEAD..], words_of(entry.head().h1()));
            record[USED_MS].store(flyball_sys::clock::monotonic_ms(), SeqCst);
            let generation = self.member.shelve(index, &open.file)?;
            record[GENERATION].store(u64::from(generation), SeqCst);
            record[HASH].store(mark(name), SeqCst);
            return Some(place(index as u32, generation));
        }
        None
    }

    /// Empties a record and closes its file, which is of this kind; false when a body is on its way
    /// from it.
    fn empty(
        &self,
        index: usize,
        _locked: &Locked<'_>,
        kind: &Content,
        counts: &mut CacheCounts,
    ) -> bool {
        let record = self.table.files.record(index);
        // Without its hash nobody finds it; who knows its number sees that it is empty.
        let before = record[HASH].swap(0, SeqCst);
        let emptied = self.member.unshelve(index);
        if !emptied {
            record[HASH].store(before, SeqCst);
        } else if before != 0 {
            counts.evicted(kind, true);
        }
        emptied
    }

    /// Whether a body of so many bytes that was coded here can be kept, as a file in memory.
    pub(crate) fn keeps(&self, bytes: u64) -> bool {
        self.table.files.len() > 0 && self.table.coded.can_hold(bytes)
    }

    pub(crate) fn entry(&self) -> Option<&FileEntry> {
        match &self.found {
            Found::Nothing => None,
            Found::Copied(entry) => Some(entry),
            Found::Admitted(entry) => Some(entry),
        }
    }

    /// Gives back the file that the last operation found.
    pub(crate) fn rest(&mut self) {
        if let Found::Copied(entry) = std::mem::replace(&mut self.found, Found::Nothing) {
            self.head = entry.into_head();
        }
    }
}

fn lock_file<'a>(
    table: &'a SharedTable,
    index: usize,
    member: &Member,
    counts: &mut CacheCounts,
) -> Option<Locked<'a>> {
    counts.lock_operations += 1;
    pid_locks::lock(&table.files.record(index)[LOCK], member.pid())
}

/// Written at most once a millisecond: a line that many write is slow for all.
fn note_use(used: &AtomicU64, now_ms: u64) {
    if used.load(SeqCst) != now_ms {
        used.store(now_ms, SeqCst);
    }
}

#[cfg(test)]
mod tests;
