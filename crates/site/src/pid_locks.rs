//! Locks in memory that processes share, any of which may be killed at any time. A lock word holds
//! the id of its holder, so that the locks of a dead one can be told and broken.
//!
//! No wait is for ever: who does not get a lock in [`LOCK_WAIT_MS_MAX`] goes on without, which
//! costs a look at the disk. So even a holder that was stopped does not stop the others.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use flyball_sys::clock;
use flyball_sys::descriptors::Member;
use flyball_sys::shared::SharedCounters;

/// Longest wait for a lock, in milliseconds. What is done under one takes microseconds: longer
/// waits mean that its holder does not run.
pub(crate) const LOCK_WAIT_MS_MAX: u64 = 50;

/// Looks at a lock before the processor is given to somebody else.
const SPINS: u32 = 64;

/// Words for each process, so that two of them do not share a line of the processor's cache.
const READER_WORDS: usize = 8;

/// Waits until `ready`; false when it took too long.
fn wait_until(ready: impl Fn() -> bool) -> bool {
    for _ in 0..SPINS {
        if ready() {
            return true;
        }
        std::hint::spin_loop();
    }
    let until_ms = clock::monotonic_ms() + LOCK_WAIT_MS_MAX;
    while !ready() {
        if clock::monotonic_ms() >= until_ms {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// A lock of one entry, while it is held.
#[derive(Debug)]
pub(crate) struct Locked<'a>(&'a AtomicU64);

/// Takes the lock in `word` for process `pid`; `None` when it cannot be had in time.
pub(crate) fn lock(word: &AtomicU64, pid: u64) -> Option<Locked<'_>> {
    let take = || word.compare_exchange(0, pid, SeqCst, SeqCst).is_ok();
    wait_until(take).then(|| Locked(word))
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.store(0, SeqCst);
    }
}

/// Breaks the lock in `word` when the dead process `pid` holds it, after `repair`.
pub(crate) fn break_lock(word: &AtomicU64, pid: u64, repair: impl FnOnce()) {
    if word.load(SeqCst) == pid {
        repair();
        word.store(0, SeqCst);
    }
}

/// A lock that many may hold to read, or one to write. Each reader has a word of its own, so that
/// readers do not slow each other; the writer's word holds its id.
#[derive(Debug)]
pub(crate) struct NameLock {
    words: SharedCounters,
    processes: usize,
}

/// The lock, held for reading.
#[derive(Debug)]
pub(crate) struct Reading<'a>(&'a AtomicU64);

/// The lock, held for writing.
#[derive(Debug)]
pub(crate) struct Writing<'a>(&'a AtomicU64);

/// The lock, held while something is looked up.
#[derive(Debug)]
#[expect(dead_code, reason = "it is held, and not looked at")]
pub(crate) enum Looking<'a> {
    WithOthers(Reading<'a>),
    Alone(Writing<'a>),
}

impl NameLock {
    pub(crate) fn new(processes: usize) -> std::io::Result<NameLock> {
        let words = SharedCounters::new(READER_WORDS * (processes + 1))?;
        Ok(NameLock { words, processes })
    }

    fn writer(&self) -> &AtomicU64 {
        &self.words.all()[0]
    }

    fn reader(&self, index: usize) -> &AtomicU64 {
        &self.words.all()[READER_WORDS * (index + 1)]
    }

    /// For process `index`, which holds it in no other way.
    pub(crate) fn read(&self, index: usize) -> Option<Reading<'_>> {
        let reader = self.reader(index);
        let enter = || {
            reader.store(1, SeqCst);
            // Both words are in one order: one of the two sees the other.
            let entered = self.writer().load(SeqCst) == 0;
            if !entered {
                reader.store(0, SeqCst);
            }
            entered
        };
        wait_until(enter).then(|| Reading(reader))
    }

    /// To look something up, for a member that holds it in no other way: beside others who look, or
    /// `alone`.
    pub(crate) fn look(&self, member: &Member, alone: bool) -> Option<Looking<'_>> {
        match alone {
            true => self.write(member.pid()).map(Looking::Alone),
            false => self.read(member.index()).map(Looking::WithOthers),
        }
    }

    /// For the process with this id, which holds it in no other way.
    pub(crate) fn write(&self, pid: u64) -> Option<Writing<'_>> {
        let writer = self.writer();
        let take = || writer.compare_exchange(0, pid, SeqCst, SeqCst).is_ok();
        if !wait_until(take) {
            return None;
        }
        let writing = Writing(writer);
        let is_alone = || (0..self.processes).all(|i| self.reader(i).load(SeqCst) == 0);
        wait_until(is_alone).then_some(writing)
    }

    /// Breaks what the dead process `index` with this id held.
    pub(crate) fn break_locks(&self, index: usize, pid: u64) {
        self.reader(index).store(0, SeqCst);
        break_lock(self.writer(), pid, || {});
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.store(0, SeqCst);
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.store(0, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READER: usize = 0;
    const OTHER: usize = 1;

    #[test]
    fn readers_share_the_lock_and_a_writer_does_not() {
        let names = NameLock::new(2).unwrap();
        let (reading, other) = (names.read(READER).unwrap(), names.read(OTHER).unwrap());
        assert!(names.write(7).is_none());
        drop((reading, other));
        let writing = names.write(7).unwrap();
        assert!(names.read(READER).is_none() && names.write(8).is_none());
        drop(writing);
        assert!(names.read(READER).is_some());
    }

    #[test]
    fn the_locks_of_the_dead_are_broken_and_no_others() {
        let names = NameLock::new(2).unwrap();
        std::mem::forget(names.write(7).unwrap());
        names.break_locks(OTHER, 8);
        assert!(names.read(READER).is_none());
        names.break_locks(OTHER, 7);
        std::mem::forget(names.read(OTHER).unwrap());
        assert!(names.write(8).is_none());
        names.break_locks(OTHER, 7);
        assert!(names.write(8).is_some());
        let word = AtomicU64::new(0);
        std::mem::forget(lock(&word, 7).unwrap());
        break_lock(&word, 8, || unreachable!());
        assert!(lock(&word, 8).is_none());
        let mut repaired = false;
        break_lock(&word, 7, || repaired = true);
        assert!(repaired && lock(&word, 8).is_some());
    }

    #[test]
    fn threads_that_count_under_the_locks_lose_nothing() {
        let (names, word) = (NameLock::new(4).unwrap(), AtomicU64::new(0));
        let (named, counted) = (AtomicU64::new(0), AtomicU64::new(0));
        let add = |to: &AtomicU64| to.store(to.load(SeqCst) + 1, SeqCst);
        std::thread::scope(|scope| {
            for index in 0..4 {
                let (names, word, named, counted) = (&names, &word, &named, &counted);
                scope.spawn(move || {
                    for _ in 0..2_000 {
                        while names.write(index as u64 + 1).map(|_writing| add(named)).is_none() {}
                        while lock(word, index as u64 + 1).map(|_locked| add(counted)).is_none() {}
                        let _reading = names.read(index);
                    }
                });
            }
        });
        assert_eq!((named.into_inner(), counted.into_inner()), (8_000, 8_000));
    }
}
