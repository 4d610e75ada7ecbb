//! One table of cached files for processes that share nothing else but their descriptors (S4,
//! section 4: shared-SYMPED's application cache): names, stamps and prebuilt heads in a shared
//! mapping, made of nothing but atomic words. It holds no bodies: each is sent from the file's
//! descriptor, which stands on the shelf of a [`DescriptorTable`] and is lent for as long.
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

use crate::caches::{Key, Place, Target, YOUNG_MS};
use crate::counts::CacheCounts;
use crate::entry::{Content, Cuts, FileEntry, OpenFile};
use crate::pid_locks::{self, Locked, NameLock};
use crate::settings::CacheSettings;

mod words;

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
const SCOPE_AND_LEN: usize = 1;
const USED_MS: usize = 2;
const NAME: usize = 3;
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
}

impl SharedTable {
    /// An empty table for so many processes. `cache.content` means nothing to it.
    ///
    /// # Errors
    /// When memory is out.
    pub fn new(settings: CacheSettings, processes: usize) -> io::Result<Arc<SharedTable>> {
        let settings = CacheSettings { content_bytes_max: 0, ..settings };
        let files = Records::new(settings.files_max, FILE_WORDS)?;
        let descriptors = Arc::new(DescriptorTable::new(processes, files.len())?);
        Ok(Arc::new(SharedTable {
            hasher: DefaultHashBuilder::default(),
            descriptors,
            names: NameLock::new(processes)?,
            paths: Records::new(settings.paths_max, PATH_WORDS)?,
            files,
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

fn scope_and_len(key: Key<'_>) -> u64 {
    key.scope.to_bits() << 16 | key.name.len() as u64
}

/// Whether a record is that of this name; its name must not change meanwhile.
fn holds(record: &[AtomicU64], key: Key<'_>) -> bool {
    record[HASH].load(SeqCst) == mark(key)
        && record[SCOPE_AND_LEN].load(SeqCst) == scope_and_len(key)
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
        let content = Content::Open(Arc::new(OpenFile::new(Arc::new(file), body)));
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
        record[SCOPE_AND_LEN].store(scope_and_len(path), SeqCst);
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
        let fits = name.name.len() <= NAME_BYTES_MAX && entry.head().len() <= HEAD_BYTES_MAX;
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
        for index in table.files.victims(name) {
            let _locked = lock_file(table, index, &self.member, counts)?;
            let record = table.files.record(index);
            // Without its hash nobody finds it; who knows its number sees that it is empty.
            let before = record[HASH].swap(0, SeqCst);
            if !self.member.unshelve(index) {
                // A body is on its way from it.
                record[HASH].store(before, SeqCst);
                continue;
            }
            if before != 0 {
                counts.evicted(&entry.content, true);
            }
            record[SCOPE_AND_LEN].store(scope_and_len(name), SeqCst);
            store(&record[NAME..], words_of(name.name));
            store(&record[STAMP..], stamp_to_words(&entry.stamp).into_iter());
            store(&record[BODY_STAMP..], stamp_to_words(&open.stamp).into_iter());
            record[CUTS].store(entry.cuts().to_word(), SeqCst);
            record[HEAD_LEN].store(entry.head().len() as u64, SeqCst);
            store(&record[HEAD..], words_of(entry.head()));
            record[USED_MS].store(flyball_sys::clock::monotonic_ms(), SeqCst);
            let generation = self.member.shelve(index, &open.file)?;
            record[GENERATION].store(u64::from(generation), SeqCst);
            record[HASH].store(mark(name), SeqCst);
            return Some(place(index as u32, generation));
        }
        None
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
mod tests {
    use super::*;
    use crate::entry::Head;
    use crate::held::HeldCaches;
    use crate::variant::Scope;
    use flyball_http::Status;
    use flyball_sys::file::{self, Kind};
    use std::path::Path;

    const SCOPE: Scope = Scope::NONE;
    const UNIX_MS: u64 = 1_000_000;

    /// Everything is done by one process in several slots, so that it can stop anywhere, as if it
    /// had been killed there. Two of them are given names and a table for `files_max` files.
    struct Bench {
        table: Arc<SharedTable>,
        directory: tempfile::TempDir,
        parts: Vec<(HeldCaches, Arc<Member>)>,
    }

    fn bench(files_max: usize) -> Bench {
        bench_with(CacheSettings { files_max, ..CacheSettings::default() })
    }

    fn bench_with(settings: CacheSettings) -> Bench {
        let table = SharedTable::new(settings, 3).unwrap();
        let parts = (0..3)
            .map(|index| {
                let member = table.descriptors().join(index);
                (HeldCaches::in_table(&table, &member), member)
            })
            .collect();
        Bench { table, directory: tempfile::tempdir().unwrap(), parts }
    }

    fn stamp(inode: u64) -> Stamp {
        Stamp {
            device: u64::MAX,
            inode,
            size: 5,
            modified_ns: -1,
            changed_ns: i128::from(UNIX_MS) * 1_000,
            links: 3,
            kind: Kind::Regular,
        }
    }

    impl Bench {
        fn entry(&self, member: &Arc<Member>, name: &str, stamp: Stamp) -> Arc<FileEntry> {
            let path: &Path = self.directory.path();
            std::fs::write(path.join(name), name).unwrap();
            let root = file::open_root(path).unwrap();
            let opened = file::open_beneath(&root, name.as_bytes(), file::Links::Deny).unwrap();
            let open = OpenFile::new(Arc::new(member.keep(opened)), stamp);
            let content = Content::Open(Arc::new(open));
            Arc::new(FileEntry::new(
                SCOPE,
                name.as_bytes(),
                stamp,
                &Head::of("text/plain"),
                content,
            ))
        }

        /// Process `who` opens a file and puts it into the table under a path of its name.
        fn bring_in(&mut self, who: usize, name: &str, stamp: Stamp) -> bool {
            let entry = self.entry(&Arc::clone(&self.parts[who].1), name, stamp);
            let caches = &mut self.parts[who].0;
            match caches.admit(entry, UNIX_MS) {
                Ok(place) => {
                    caches.set_path(SCOPE, name.as_bytes(), Target::File(place), 0);
                    caches.rest();
                    true
                }
                Err(_) => false,
            }
        }

        fn hits(&mut self, who: usize, name: &str) -> bool {
            let caches = &mut self.parts[who].0;
            let hit = caches.path(SCOPE, name.as_bytes(), 1).is_some();
            caches.rest();
            hit
        }

        /// What process `who` gets of a file, by its name.
        fn body(&mut self, who: usize, name: &str) -> Option<(Vec<u8>, String)> {
            let caches = &mut self.parts[who].0;
            let Some(Target::File(place)) = caches.path(SCOPE, name.as_bytes(), 1) else {
                return None;
            };
            let entry = caches.entry(place).unwrap();
            let Content::Open(open) = &entry.content else { return None };
            let mut body = vec![0; 64];
            let read = file::read_at(&*open.file, &mut body, 0).unwrap();
            body.truncate(read);
            let head = String::from_utf8(entry.head().to_vec()).unwrap();
            caches.rest();
            Some((body, head))
        }
    }

    #[test]
    fn one_lock_for_all_lets_nobody_look_while_another_does() {
        for global_lock in [false, true] {
            let mut bench = bench_with(CacheSettings { global_lock, ..CacheSettings::default() });
            assert!(bench.bring_in(0, "a", stamp(1)));
            let path = |caches: &mut HeldCaches| caches.path(SCOPE, b"a", 0).is_some();
            assert!(path(&mut bench.parts[1].0));
            let looking = bench.table.names.look(&bench.parts[0].1, global_lock).unwrap();
            assert_eq!(path(&mut bench.parts[1].0), !global_lock);
            drop(looking);
            assert!(path(&mut bench.parts[1].0));
        }
    }

    #[test]
    fn what_one_process_brings_in_the_others_find_whole() {
        let mut bench = bench(64);
        let member = Arc::clone(&bench.parts[0].1);
        let expected = bench.entry(&member, "a", stamp(7));
        assert!(bench.bring_in(0, "a", stamp(7)));
        for who in 0..3 {
            let (body, head) = bench.body(who, "a").unwrap();
            assert_eq!((body.as_slice(), head.as_bytes()), (&b"a"[..], expected.head()));
        }
        assert!(bench.parts[1].0.file(SCOPE, b"a", &stamp(7)).is_some());
        let place = bench.parts[1].0.file(SCOPE, b"a", &stamp(7)).unwrap();
        let entry = bench.parts[1].0.entry(place).unwrap();
        assert_eq!((entry.stamp, entry.media_type()), (stamp(7), "text/plain"));
        assert_eq!(entry.shared_fields(), expected.shared_fields());
    }

    #[test]
    fn one_of_the_processes_looks_again_when_the_time_is_over() {
        let mut bench = bench(64);
        bench.bring_in(0, "a", stamp(7));
        let due = bench.table.settings.revalidate_ms;
        let looks: Vec<bool> =
            (0..3).map(|who| bench.parts[who].0.path(SCOPE, b"a", due).is_none()).collect();
        assert_eq!(looks, [true, false, false]);
    }

    #[test]
    fn targets_that_are_no_files_are_remembered_for_all() {
        let mut bench = bench(64);
        for (name, target) in [
            (&b"a"[..], Target::NeedsSlash),
            (b"b", Target::Missing(Status::NOT_FOUND)),
            (b"c", Target::Missing(Status::FORBIDDEN)),
            (b"d", Target::Redirect(70_000)),
        ] {
            bench.parts[0].0.set_path(SCOPE, name, target, 0);
            let found = bench.parts[1].0.path(SCOPE, name, 1).unwrap();
            assert_eq!(format!("{found:?}"), format!("{target:?}"));
            bench.parts[2].0.forget_path(SCOPE, name);
            assert!(bench.parts[0].0.path(SCOPE, name, 1).is_none());
        }
    }

    #[test]
    fn who_loses_the_race_uses_the_other_file_and_a_changed_one_replaces_it() {
        let mut bench = bench(64);
        assert!(bench.bring_in(0, "a", stamp(7)));
        assert!(bench.bring_in(1, "a", stamp(7)));
        assert_eq!(bench.parts[1].0.counts().descriptor_misses, 0);
        assert!(bench.bring_in(1, "a", stamp(8)));
        assert!(bench.parts[0].0.file(SCOPE, b"a", &stamp(8)).is_some());
        assert!(bench.parts[2].0.file(SCOPE, b"a", &stamp(7)).is_none());
    }

    #[test]
    fn the_table_keeps_within_its_limit_and_never_closes_what_is_lent() {
        let mut bench = bench(2);
        assert!(bench.bring_in(0, "a", stamp(1)) && bench.bring_in(0, "b", stamp(2)));
        let Some(Target::File(place)) = bench.parts[1].0.path(SCOPE, b"a", 1) else { panic!() };
        let Content::Open(lent) = bench.parts[1].0.entry(place).unwrap().content.clone() else {
            panic!()
        };
        bench.parts[1].0.rest();
        for (name, inode) in [("c", 3), ("d", 4), ("e", 5)] {
            assert!(bench.bring_in(2, name, stamp(inode)), "{name}");
            assert_eq!(bench.body(0, name).unwrap().0, name.as_bytes());
        }
        assert!(!bench.hits(0, "b") && bench.hits(0, "a"));
        let mut body = [0; 8];
        assert_eq!(file::read_at(&*lent.file, &mut body, 0).unwrap(), 1);
        assert_eq!(body[0], b'a');
        drop(lent);
        assert!(bench.bring_in(2, "f", stamp(6)) && bench.bring_in(2, "g", stamp(7)));
        assert!(!bench.hits(0, "a"));
    }

    #[test]
    fn with_every_file_lent_a_new_one_is_answered_and_not_kept() {
        let mut bench = bench(1);
        assert!(bench.bring_in(0, "a", stamp(1)));
        bench.parts[1].0.path(SCOPE, b"a", 1).unwrap();
        assert!(!bench.bring_in(0, "b", stamp(2)));
        bench.parts[1].0.rest();
        assert!(bench.bring_in(0, "b", stamp(2)));
    }

    #[test]
    fn a_file_that_changed_while_it_was_sent_is_found_no_more() {
        let mut bench = bench(8);
        bench.bring_in(0, "a", stamp(1));
        let Some(Target::File(place)) = bench.parts[1].0.path(SCOPE, b"a", 1) else { panic!() };
        let Content::Open(open) = &bench.parts[1].0.entry(place).unwrap().content else { panic!() };
        open.set_changed();
        assert!(!bench.hits(2, "a"));
        assert!(bench.bring_in(2, "a", stamp(1)) && bench.hits(0, "a"));
    }

    #[test]
    fn long_names_and_young_files_are_not_kept() {
        let mut bench = bench(8);
        let long = "n".repeat(NAME_BYTES_MAX - 10);
        assert!(bench.bring_in(0, &long[..200], stamp(1)));
        let key = [long.as_bytes(), &[b'n'; 20]].concat();
        bench.parts[0].0.set_path(SCOPE, &key, Target::NeedsSlash, 0);
        assert!(bench.parts[0].0.path(SCOPE, &key, 1).is_none());
        let young = Stamp { changed_ns: i128::from(UNIX_MS) * 1_000_000, ..stamp(2) };
        assert!(!bench.bring_in(0, "young", young));
    }

    #[test]
    fn what_a_killed_process_had_locked_is_forgotten_and_served_again() {
        let mut bench = bench(8);
        bench.bring_in(0, "a", stamp(1));
        bench.bring_in(0, "b", stamp(2));
        let pid = bench.parts[0].1.pid();
        let place = bench.parts[0].0.file(SCOPE, b"a", &stamp(1)).unwrap();
        bench.parts[0].0.rest();
        // All slots are of one process here, so that its locks are told by another number.
        let record = place.handle.parts().0 as usize;
        bench.table.files.record(record)[LOCK].store(pid + 1, SeqCst);
        std::mem::forget(bench.table.names.write(pid + 1));
        assert!(!bench.hits(1, "a") && !bench.hits(1, "b"));
        bench.table.recover(0, (pid + 1) as i32);
        assert!(!bench.hits(1, "a") && bench.hits(1, "b"));
        assert!(bench.parts[1].0.file(SCOPE, b"a", &stamp(1)).is_none());
        assert!(bench.bring_in(2, "a", stamp(1)) && bench.hits(1, "a"));
    }

    #[test]
    fn a_switched_off_table_keeps_nothing() {
        let mut bench = bench(0);
        assert!(!bench.bring_in(0, "a", stamp(1)));
        let settings = CacheSettings { paths_max: 0, ..CacheSettings::default() };
        let table = SharedTable::new(settings, 1).unwrap();
        let member = table.descriptors().join(0);
        let mut caches = HeldCaches::in_table(&table, &member);
        caches.set_path(SCOPE, b"a", Target::NeedsSlash, 0);
        assert!(caches.path(SCOPE, b"a", 1).is_none());
    }
}
