//! Processes that use one table, and end at any time.

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
        Arc::new(FileEntry::new(SCOPE, name.as_bytes(), stamp, &Head::of("text/plain"), content))
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
        let head = String::from_utf8(entry.head().h1().to_vec()).unwrap();
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
        assert_eq!((body.as_slice(), head.as_bytes()), (&b"a"[..], expected.head().h1()));
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
        (b"e", Target::Script),
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

/// A body of so many bytes that process `who` coded, of the file of this name.
fn coded(bench: &Bench, who: usize, name: &str, bytes: usize) -> Arc<FileEntry> {
    let made = file::in_memory(&vec![b'x'; bytes]).unwrap();
    let body = file::stamp(&made).unwrap();
    let open = OpenFile::new(Arc::new(bench.parts[who].1.keep(made)), body);
    let content = Content::Open(Arc::new(open));
    Arc::new(FileEntry::new(SCOPE, name.as_bytes(), stamp(9), &Head::of("text/plain"), content))
}

impl Bench {
    /// Process `who` puts a coded body into the table.
    fn code(&mut self, who: usize, name: &str, bytes: usize) -> bool {
        let entry = coded(self, who, name, bytes);
        let admitted = self.parts[who].0.admit(entry, UNIX_MS).is_ok();
        self.parts[who].0.rest();
        admitted
    }

    /// Which of these names it holds.
    fn holding(&mut self, names: &str) -> String {
        let caches = &mut self.parts[0].0;
        let mut holds = |name: char| {
            let held = caches.file(SCOPE, name.to_string().as_bytes(), &stamp(9)).is_some();
            caches.rest();
            held
        };
        names.chars().filter(|name| holds(*name)).collect()
    }
}

#[test]
fn coded_bodies_count_in_all_processes_together_and_those_used_longest_ago_go() {
    let content_bytes_max = 16_384;
    let mut bench = bench_with(CacheSettings { content_bytes_max, ..CacheSettings::default() });
    // Files count for nothing, and take no room from what does.
    assert!(bench.bring_in(0, "plain", stamp(1)));
    for (who, name) in [(0, "a"), (1, "b"), (2, "c"), (0, "d")] {
        assert!(bench.code(who, name, 4_000));
    }
    assert_eq!(bench.holding("abcd"), "abcd");
    // Two pages more than there are: those of two others, whoever put them there.
    for (name, used_ms) in [("c", 1), ("a", 2), ("b", 3), ("d", 4)] {
        let place = bench.parts[1].0.file(SCOPE, name.as_bytes(), &stamp(9)).unwrap();
        let index = place.handle.parts().0 as usize;
        bench.table.files.record(index)[USED_MS].store(used_ms, SeqCst);
        bench.parts[1].0.rest();
    }
    assert!(bench.code(1, "e", 4_097));
    assert_eq!(bench.holding("abcde"), "bde");
    assert!(bench.hits(2, "plain"));
    // One that would be too large for an empty table takes nobody's place.
    assert!(!bench.parts[0].0.keeps_as_file(16_385) && bench.parts[0].0.keeps_as_file(16_384));
    assert!(!bench.code(0, "f", 16_385));
    assert_eq!(bench.holding("abcdef"), "bde");
    // Nor does one for which others would have to go that are being sent.
    let lent = bench.parts[2].0.file(SCOPE, b"e", &stamp(9)).unwrap();
    assert!(bench.parts[2].0.entry(lent).is_some());
    assert!(!bench.code(0, "g", 12_000));
    assert_eq!(bench.holding("eg"), "e");
    bench.parts[2].0.rest();
    assert!(bench.code(0, "g", 12_000));
}

#[test]
fn without_bytes_for_bodies_no_coded_one_is_kept() {
    let settings = CacheSettings { content_bytes_max: 0, ..CacheSettings::default() };
    let mut bench = bench_with(settings);
    assert!(!bench.parts[0].0.keeps_as_file(1) && !bench.code(0, "a", 1));
    assert!(bench.bring_in(0, "plain", stamp(1)));
}
