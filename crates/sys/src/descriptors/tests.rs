//! What is left of processes that are killed at each point: nothing.

use super::*;
use crate::apart::apart;
use crate::process;
use crate::process::{ProcessId, spawn_sharing_descriptors, wait_for};
use std::os::fd::AsRawFd;

/// After how many passes of [`pass`] a process kills itself, and 1; set in that process alone.
static DIES_AT: AtomicU64 = AtomicU64::new(0);

/// A point at which a process may be killed.
pub(super) fn pass() {
    if DIES_AT.load(SeqCst) != 0 && DIES_AT.fetch_sub(1, SeqCst) == 1 {
        process::kill_own();
    }
}

pub(crate) fn table(processes: usize, places: usize) -> Arc<DescriptorTable> {
    let table = Arc::new(DescriptorTable::new(processes, places).unwrap());
    table.seal().unwrap();
    table
}

/// A process that does something and is then killed.
pub(crate) fn killed(table: &Arc<DescriptorTable>, index: usize, body: impl Fn(&Arc<Member>)) {
    table.expect(index);
    let child = spawn_sharing_descriptors(&|| {
        let member = table.join(index);
        body(&member);
        process::kill_own();
        0
    });
    let child: ProcessId = child.unwrap();
    table.started(index, child.number());
    assert_eq!(wait_for(child).unwrap(), 128 + libc::SIGKILL);
}

pub(crate) fn open() -> OwnedFd {
    rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

pub(crate) fn is_open(number: RawFd) -> bool {
    open_numbers().unwrap().contains(&number)
}

#[test]
fn what_a_killed_process_owned_is_closed_at_once() {
    apart(|| {
        let (table, before) = (table(2, 1), open_numbers().unwrap());
        killed(&table, 0, |member| {
            for _ in 0..5 {
                let file = open();
                member.own(&file);
                std::mem::forget(file);
            }
        });
        assert_eq!(open_numbers().unwrap().len(), before.len() + 5);
        table.bury(0);
        assert_eq!(open_numbers().unwrap(), before);
        assert_eq!(table.sweep().unwrap(), Some(0));
    });
}

#[test]
fn what_it_had_not_registered_is_swept_and_what_others_own_is_not() {
    apart(|| {
        let table = table(2, 1);
        let other = table.join(1);
        let file = open();
        other.own(&file);
        killed(&table, 0, |_| std::mem::forget((open(), open())));
        // It reused a number that somebody else had owned and closed.
        let closed = open();
        other.begin();
        other.own(&closed);
        other.close(closed);
        other.end();
        table.bury(0);
        assert_eq!(table.sweep().unwrap(), Some(2));
        assert!(is_open(file.as_raw_fd()));
    });
}

#[test]
fn nothing_is_swept_while_somebody_opens() {
    apart(|| {
        let table = table(2, 1);
        let opening = table.join(1);
        opening.begin();
        let file = open();
        killed(&table, 0, |_| {});
        table.bury(0);
        assert_eq!(table.sweep().unwrap(), None);
        opening.own(&file);
        opening.end();
        assert_eq!(table.sweep().unwrap(), Some(0));
        assert!(is_open(file.as_raw_fd()));
    });
}

#[test]
fn a_borrowed_file_is_not_closed_until_it_is_given_back() {
    apart(|| {
        let table = table(2, 1);
        let (one, two) = (table.join(0), table.join(1));
        let kept = one.keep(open());
        let generation = one.shelve(0, &kept).unwrap();
        let number = kept.as_fd().as_raw_fd();
        let lent = two.lend(0, generation).unwrap();
        assert_eq!(lent.as_fd().as_raw_fd(), number);
        drop(kept);
        assert!(!one.unshelve(0) && is_open(number));
        drop(lent);
        assert!(one.unshelve(0) && !is_open(number) && one.is_empty(0));
        assert!(two.lend(0, generation).is_none());
        let next = one.keep(open());
        assert_ne!(one.shelve(0, &next), Some(generation));
        assert!(two.lend(0, generation).is_none());
    });
}

#[test]
fn a_file_on_the_shelf_outlives_who_brought_it_and_the_dead_do_not_keep_it() {
    apart(|| {
        let table = table(2, 1);
        killed(&table, 0, |member| {
            let kept = member.keep(open());
            member.shelve(0, &kept).unwrap();
            std::mem::forget((kept, member.lend(0, 1).unwrap()));
        });
        let two = table.join(1);
        assert!(two.lend(0, 1).is_some() && !two.unshelve(0));
        table.bury(0);
        assert_eq!(table.sweep().unwrap(), Some(0));
        assert!(two.lend(0, 1).is_some());
        assert!(two.unshelve(0));
    });
}

#[test]
fn who_dies_over_emptying_a_place_leaves_a_borrowed_file_open() {
    for borrowed in [true, false] {
        apart(|| {
            let table = table(2, 1);
            let one = table.join(0);
            let kept = one.keep(open());
            let generation = one.shelve(0, &kept).unwrap();
            let number = kept.as_fd().as_raw_fd();
            let lent = borrowed.then(|| one.lend(0, generation).unwrap());
            drop(kept);
            table.place(0).fetch_or(EMPTYING, SeqCst);
            assert!(one.lend(0, generation).is_none());
            assert_eq!(table.sweep().unwrap(), Some(usize::from(!borrowed)));
            assert_eq!(is_open(number), borrowed);
            assert_eq!(one.lend(0, generation).is_some(), borrowed);
            drop(lent);
        });
    }
}

#[test]
fn who_dies_over_shelving_a_file_leaves_no_place_that_names_a_closed_number() {
    for (point, on_shelf) in [(1, false), (2, true)] {
        apart(|| {
            let (table, before) = (table(2, 1), open_numbers().unwrap());
            killed(&table, 0, |member| {
                let kept = member.keep(open());
                DIES_AT.store(point, SeqCst);
                member.shelve(0, &kept);
            });
            table.discard(0);
            table.bury(0);
            let two = table.join(1);
            // Whoever gets the next number is not closed by whoever clears the place.
            let next = open();
            assert!(two.unshelve(0) && two.is_empty(0));
            assert!(is_open(next.as_raw_fd()));
            drop(next);
            assert_eq!(table.sweep().unwrap(), Some(usize::from(!on_shelf)));
            assert_eq!(open_numbers().unwrap(), before);
        });
    }
}

#[test]
fn a_place_that_somebody_else_took_leaves_the_file_with_its_owner() {
    apart(|| {
        let table = table(2, 1);
        let (one, two) = (table.join(0), table.join(1));
        let (kept, other) = (one.keep(open()), two.keep(open()));
        two.shelve(0, &other).unwrap();
        assert_eq!(one.shelve(0, &kept), None);
        let number = kept.as_raw_fd();
        assert_eq!(table.owner(number).unwrap().load(SeqCst), one.pid());
        drop(kept);
        assert!(!is_open(number));
    });
}

#[test]
fn the_dead_are_buried_and_swept_although_no_descriptor_can_be_had() {
    apart(|| {
        let (table, before) = (table(2, 1), open_numbers().unwrap());
        killed(&table, 0, |member| {
            let file = open();
            member.own(&file);
            let kept = member.keep(open());
            member.shelve(0, &kept).unwrap();
            std::mem::forget((file, kept, open()));
        });
        let limit = process::descriptor_limit();
        process::limit_descriptors(3).unwrap();
        assert!(open_numbers().is_err());
        table.bury(0);
        let swept = table.sweep();
        process::limit_descriptors(limit).unwrap();
        assert_eq!(swept.unwrap(), Some(1));
        let two = table.join(1);
        assert!(two.unshelve(0));
        assert_eq!(open_numbers().unwrap(), before);
    });
}

#[test]
fn a_file_that_is_known_to_have_changed_is_lent_no_more() {
    apart(|| {
        let table = table(1, 1);
        let one = table.join(0);
        let kept = one.keep(open());
        let generation = one.shelve(0, &kept).unwrap();
        kept.set_stale();
        assert!(one.lend(0, generation).is_none());
        drop(kept);
        let next = one.keep(open());
        assert!(one.unshelve(0));
        let generation = one.shelve(0, &next).unwrap();
        assert!(one.lend(0, generation).is_some());
    });
}

#[test]
fn a_file_that_was_never_shelved_is_closed_by_its_owner() {
    apart(|| {
        let table = table(1, 1);
        let one = table.join(0);
        let kept = one.keep(open());
        let number = kept.as_fd().as_raw_fd();
        drop(kept);
        assert!(!is_open(number));
        assert_eq!(table.owner(number).unwrap().load(SeqCst), 0);
    });
}
