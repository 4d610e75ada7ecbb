//! One table of descriptors that several processes use (clone(2) with `CLONE_FILES`): whose each of
//! them is, which are lent out, and what a dead process leaves behind.
//!
//! The kernel closes nothing when one of these processes dies, since the others go on using the
//! table. So the table is kept again here, in a shared mapping: an owner for each number, and a
//! shelf of files that belong to nobody and are lent to everybody. Three rules make it exact:
//!
//! * A process says before and after that it opens or closes, and writes the owner between the two:
//!   what it has is of the types of [`owned`](crate::owned), which do so. The leader shuts a gate,
//!   waits until no process is between the two, and then every open descriptor has an owner that
//!   lives, or stands on the shelf, or was left behind.
//! * A file on the shelf is closed only when nobody has pinned it; who borrows it pins it first and
//!   then looks whether it is still there.
//! * A process never drops what it has from before it was cloned (see
//!   [`process::spawn_sharing_descriptors`](crate::process::spawn_sharing_descriptors)).

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Mode, OFlags, RawDir, SeekFrom};

use crate::clock;
use crate::descriptor_limits::{descriptor_limit, limit_descriptors};
use crate::shared::SharedCounters;

/// Most descriptor numbers: the owners of so many take 8 MB. Where the limit of the process is
/// higher, it is lowered.
const NUMBERS_MAX: usize = 1 << 20;

/// Longest time that the gate is shut while somebody opens or closes, in milliseconds.
const GATE_MS_MAX: u64 = 20;

/// Bytes of a directory that are read at once.
const LISTING_BYTES: usize = 16 << 10;

/// Words for each process, so that two of them do not share a line of the processor's cache.
const PROCESS_WORDS: usize = 8;

/// Owner of what was open before the first process was cloned.
const PERMANENT: u64 = u64::MAX;

/// In the word of a place on the shelf: it is being emptied.
const EMPTYING: u64 = 1 << 31;

/// In the same word: the descriptor's number and 1, or 0 when the place is empty. The generation,
/// which counts the files that stood there, is above.
const NUMBER: u64 = EMPTYING - 1;

/// The table, mapped by the leader before it clones anybody.
#[derive(Debug)]
pub struct DescriptorTable {
    words: SharedCounters,
    /// The leader's `/proc/self/fd`, kept open: when no descriptor can be had, what the dead left
    /// is still found.
    listing: OwnedFd,
    processes: usize,
    places: usize,
    numbers: usize,
}

impl DescriptorTable {
    /// A table for so many processes, with a shelf of so many places for files. To be called by the
    /// leader itself.
    ///
    /// # Errors
    /// When memory or descriptors are out, or `/proc` is not there.
    pub fn new(processes: usize, places: usize) -> io::Result<DescriptorTable> {
        let numbers = descriptor_limit();
        if numbers > NUMBERS_MAX {
            limit_descriptors(NUMBERS_MAX)?;
        }
        let numbers = numbers.min(NUMBERS_MAX);
        let len = PROCESS_WORDS * (processes + 1) + numbers + places * (2 + processes);
        let (words, listing) = (SharedCounters::new(len)?, open_listing()?);
        Ok(DescriptorTable { words, listing, processes, places, numbers })
    }

    /// Whether the leader can see which descriptors are open.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn probe() -> io::Result<()> {
        open_numbers().map(drop)
    }

    /// The leader: the numbers of all open descriptors. Needs none that is not there yet.
    fn open_now(&self) -> io::Result<Vec<RawFd>> {
        rustix::fs::seek(&self.listing, SeekFrom::Start(0))?;
        numbers_in(&self.listing)
    }

    fn gate(&self) -> &AtomicU64 {
        &self.words.all()[0]
    }

    /// The process in slot `index`; 0 when there is none.
    fn pid(&self, index: usize) -> &AtomicU64 {
        &self.words.all()[PROCESS_WORDS * (index + 1)]
    }

    /// Whether it is about to open or to close.
    fn changing(&self, index: usize) -> &AtomicU64 {
        &self.words.all()[PROCESS_WORDS * (index + 1) + 1]
    }

    fn owner(&self, number: RawFd) -> Option<&AtomicU64> {
        let number = usize::try_from(number).ok().filter(|number| *number < self.numbers)?;
        Some(&self.words.all()[PROCESS_WORDS * (self.processes + 1) + number])
    }

    fn shelf(&self) -> usize {
        PROCESS_WORDS * (self.processes + 1) + self.numbers
    }

    fn place(&self, place: usize) -> &AtomicU64 {
        &self.words.all()[self.shelf()..][..self.places][place]
    }

    /// The generation of the file at a place that somebody found changed, and 1.
    fn stale(&self, place: usize) -> &AtomicU64 {
        &self.words.all()[self.shelf() + self.places..][..self.places][place]
    }

    /// How often process `index` has borrowed from a place.
    fn pins(&self, index: usize, place: usize) -> &AtomicU64 {
        &self.words.all()[self.shelf() + (2 + index) * self.places..][..self.places][place]
    }

    fn is_pinned(&self, place: usize) -> bool {
        (0..self.processes).any(|index| self.pins(index, place).load(SeqCst) != 0)
    }

    /// The leader: the file that stands at a place is lent no more.
    pub fn discard(&self, place: usize) {
        let generation = self.place(place).load(SeqCst) >> 32;
        self.stale(place).store(generation + 1, SeqCst);
    }

    /// The leader, before it clones anybody: what is open now stays open.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn seal(&self) -> io::Result<()> {
        for owner in self.open_now()?.into_iter().filter_map(|number| self.owner(number)) {
            owner.store(PERMANENT, SeqCst);
        }
        Ok(())
    }

    /// The leader, right before it clones process `index`.
    pub fn expect(&self, index: usize) {
        self.changing(index).store(1, SeqCst);
    }

    /// The leader, right after that.
    pub fn started(&self, index: usize, pid: i32) {
        self.pid(index).store(pid as u64, SeqCst);
    }

    /// The new process, before it opens anything.
    pub fn join(self: &Arc<Self>, index: usize) -> Arc<Member> {
        let pid = u64::from(std::process::id());
        self.pid(index).store(pid, SeqCst);
        self.changing(index).store(0, SeqCst);
        let depth = Mutex::new(0);
        Arc::new(Member { table: Arc::clone(self), index, pid, depth })
    }

    /// The leader, when process `index` was reaped: gives back what it had borrowed, and closes
    /// what it owned. What it was about to register is left to [`DescriptorTable::sweep`], and so
    /// is all that it owned when `/proc` cannot be read.
    pub fn bury(&self, index: usize) {
        for place in 0..self.places {
            let pins = self.pins(index, place);
            // Most were never touched: reading alone costs no memory twice.
            if pins.load(SeqCst) != 0 {
                pins.store(0, SeqCst);
            }
        }
        let pid = self.pid(index).swap(0, SeqCst);
        self.changing(index).store(0, SeqCst);
        for number in self.open_now().unwrap_or_default() {
            let owner = self.owner(number).filter(|_| pid != 0);
            if owner.is_some_and(|o| o.compare_exchange(pid, 0, SeqCst, SeqCst).is_ok()) {
                // SAFETY: its owner is dead. Whoever closes, or puts a file on the shelf, takes its
                // name out of the owner's word first: no live process has an `OwnedFd` of this
                // number, and no place names it.
                unsafe { close(number) };
            }
        }
    }

    /// The leader, after it buried somebody: closes what no live process owns and does not stand
    /// on the shelf. `None` when somebody was opening or closing all the time; to be tried again
    /// then. Waits for [`GATE_MS_MAX`] at most.
    ///
    /// # Errors
    /// When `/proc` cannot be read; to be tried again then.
    pub fn sweep(&self) -> io::Result<Option<usize>> {
        self.gate().store(1, SeqCst);
        let swept = if self.is_quiet() { self.close_unowned().map(Some) } else { Ok(None) };
        self.gate().store(0, SeqCst);
        swept
    }

    fn is_quiet(&self) -> bool {
        let until_ms = clock::monotonic_ms() + GATE_MS_MAX;
        let changes = |&index: &usize| self.changing(index).load(SeqCst) != 0;
        while (0..self.processes).any(|index| changes(&index)) {
            if clock::monotonic_ms() >= until_ms {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }

    /// With the gate shut and nobody behind it.
    fn close_unowned(&self) -> io::Result<usize> {
        let mut kept = HashSet::new();
        for place in 0..self.places {
            let word = self.place(place).load(SeqCst);
            // Who was emptying it has died over that, since nobody is at it now.
            let died = word & EMPTYING != 0;
            let stands = word & NUMBER != 0 && (!died || self.is_pinned(place));
            if stands {
                kept.insert((word & NUMBER) as RawFd - 1);
            }
            if died {
                let number = if stands { word & NUMBER } else { 0 };
                self.place(place).store(word & !(EMPTYING | NUMBER) | number, SeqCst);
            }
        }
        let living: HashSet<u64> = (0..self.processes)
            .map(|index| self.pid(index).load(SeqCst))
            .filter(|pid| *pid != 0)
            .chain([PERMANENT])
            .collect();
        let mut closed = 0;
        for number in self.open_now()? {
            let Some(owner) = self.owner(number) else { continue };
            if !kept.contains(&number) && !living.contains(&owner.load(SeqCst)) {
                owner.store(0, SeqCst);
                // SAFETY: nobody opens or closes, so that whatever a live process owns carries its
                // name, and whatever can be lent stands on the shelf: this one is neither.
                unsafe { close(number) };
                closed += 1;
            }
        }
        Ok(closed)
    }
}

/// The numbers of all open descriptors of this process.
fn open_numbers() -> io::Result<Vec<RawFd>> {
    let listing = open_listing()?;
    let mut numbers = numbers_in(&listing)?;
    numbers.retain(|number| *number != listing.as_raw_fd());
    Ok(numbers)
}

fn open_listing() -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open("/proc/self/fd", flags, Mode::empty())?)
}

/// The names of a directory that are numbers, from where it was read up to.
fn numbers_in(listing: &OwnedFd) -> io::Result<Vec<RawFd>> {
    let mut buffer = Vec::with_capacity(LISTING_BYTES);
    let mut entries = RawDir::new(listing, buffer.spare_capacity_mut());
    let mut numbers = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let number: Option<RawFd> = entry.file_name().to_str().ok().and_then(|n| n.parse().ok());
        numbers.extend(number);
    }
    Ok(numbers)
}

/// Closes a descriptor by its number.
///
/// # Safety
/// No `OwnedFd` of a process that lives has this number, and nobody has borrowed it.
unsafe fn close(number: RawFd) {
    // SAFETY: as the caller promises, the value made here is its only owner.
    drop(unsafe { OwnedFd::from_raw_fd(number) });
}

/// One process's part in the table.
#[derive(Debug)]
pub struct Member {
    table: Arc<DescriptorTable>,
    index: usize,
    pid: u64,
    /// How many begins have no end yet.
    depth: Mutex<u32>,
}

impl Member {
    /// The number of its slot.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Its process id, for lock words.
    pub fn pid(&self) -> u64 {
        self.pid
    }

    /// To be called before descriptors are opened or closed. Waits while the leader looks for what
    /// the dead left behind, for [`GATE_MS_MAX`] and the reading of a directory.
    pub(crate) fn begin(&self) {
        let mut depth = self.depth.lock().unwrap_or_else(PoisonError::into_inner);
        if *depth == 0 {
            let (changing, gate) = (self.table.changing(self.index), self.table.gate());
            loop {
                changing.store(1, SeqCst);
                // Both are in one order: either this is seen there, or the gate is seen here.
                if gate.load(SeqCst) == 0 {
                    break;
                }
                changing.store(0, SeqCst);
                std::thread::yield_now();
            }
        }
        *depth += 1;
    }

    /// To be called when all that was opened since [`Member::begin`] is owned, or closed.
    pub(crate) fn end(&self) {
        let mut depth = self.depth.lock().unwrap_or_else(PoisonError::into_inner);
        *depth = depth.saturating_sub(1);
        if *depth == 0 {
            self.table.changing(self.index).store(0, SeqCst);
        }
    }

    /// This process opened it, after it had called [`Member::begin`].
    pub(crate) fn own(&self, descriptor: impl AsFd) {
        if let Some(owner) = self.table.owner(descriptor.as_fd().as_raw_fd()) {
            owner.store(self.pid, SeqCst);
        }
    }

    fn disown(&self, number: RawFd) {
        if let Some(owner) = self.table.owner(number) {
            owner.store(0, SeqCst);
        }
    }

    /// Closes what this process owns.
    pub(crate) fn close(&self, descriptor: OwnedFd) {
        self.begin();
        self.disown(descriptor.as_raw_fd());
        drop(descriptor);
        self.end();
    }

    /// A file that this process opened, to be closed in the right way when it is dropped.
    pub fn keep(self: &Arc<Self>, file: OwnedFd) -> Descriptor {
        self.own(&file);
        let (number, ticket) = (file.into_raw_fd(), AtomicU64::new(0));
        Descriptor::Kept(Kept { number, ticket, member: Arc::clone(self) })
    }

    /// Puts a file that this process kept on an empty place of the shelf, and gives the file's
    /// generation there; the value is from then on borrowed. `None` when the place is not empty or
    /// the file is not one that this process kept.
    pub fn shelve(&self, place: usize, file: &Descriptor) -> Option<u32> {
        let Descriptor::Kept(kept) = file else { return None };
        let word = self.table.place(place);
        let before = word.load(SeqCst);
        if before & (EMPTYING | NUMBER) != 0 {
            return None;
        }
        let generation = ((before >> 32) as u32).wrapping_add(1);
        let ticket = ticket(generation, place);
        kept.ticket.compare_exchange(0, ticket, SeqCst, SeqCst).ok()?;
        self.begin();
        self.table.pins(self.index, place).fetch_add(1, SeqCst);
        let after = u64::from(generation) << 32 | (kept.number as u64 + 1);
        // Nobody owns what a place names: whoever dies in between leaves it to be swept.
        self.disown(kept.number);
        #[cfg(test)]
        tests::pass();
        let done = word.compare_exchange(before, after, SeqCst, SeqCst).is_ok();
        #[cfg(test)]
        tests::pass();
        if !done {
            self.table.pins(self.index, place).fetch_sub(1, SeqCst);
            kept.ticket.store(0, SeqCst);
            self.own(file);
        }
        self.end();
        done.then_some(generation)
    }

    /// Borrows the file of this generation from the shelf, unless it is gone or known to have
    /// changed. It stays open until the value is dropped.
    pub fn lend(self: &Arc<Self>, place: usize, generation: u32) -> Option<Descriptor> {
        let pins = self.table.pins(self.index, place);
        pins.fetch_add(1, SeqCst);
        // Who empties the place says so first and looks for pins then: one of the two sees the
        // other.
        let word = self.table.place(place).load(SeqCst);
        let is_there = word & EMPTYING == 0 && word & NUMBER != 0;
        let is_fresh = self.table.stale(place).load(SeqCst) != u64::from(generation) + 1;
        if !is_there || (word >> 32) as u32 != generation || !is_fresh {
            pins.fetch_sub(1, SeqCst);
            return None;
        }
        let number = (word & NUMBER) as RawFd - 1;
        let ticket = AtomicU64::new(ticket(generation, place));
        Some(Descriptor::Kept(Kept { number, ticket, member: Arc::clone(self) }))
    }

    /// Whether a place of the shelf is empty.
    pub fn is_empty(&self, place: usize) -> bool {
        self.table.place(place).load(SeqCst) & (EMPTYING | NUMBER) == 0
    }

    /// Closes the file at a place, unless somebody has borrowed it. True when the place is empty
    /// now.
    pub fn unshelve(&self, place: usize) -> bool {
        let word = self.table.place(place);
        let before = word.load(SeqCst);
        if before & (EMPTYING | NUMBER) == 0 {
            return true;
        }
        if before & EMPTYING != 0 || self.table.is_pinned(place) {
            return false;
        }
        self.begin();
        let mut done = false;
        if word.compare_exchange(before, before | EMPTYING, SeqCst, SeqCst).is_ok() {
            done = !self.table.is_pinned(place);
            // The place lets go of the number before it is free for something else.
            word.store(if done { before & !NUMBER } else { before }, SeqCst);
            if done {
                // SAFETY: the place owned it, since nobody's name is in the owner's word of what
                // stands on the shelf; nobody has it pinned, and nobody can any more.
                unsafe { close((before & NUMBER) as RawFd - 1) };
            }
        }
        self.end();
        done
    }
}

fn ticket(generation: u32, place: usize) -> u64 {
    u64::from(generation) << 32 | (place as u64 + 1)
}

/// An open file: owned as usual, or in a table that processes share.
#[derive(Debug)]
pub enum Descriptor {
    /// Owned.
    Owned(OwnedFd),
    /// In a shared table: owned by this process, or borrowed from the shelf.
    Kept(Kept),
}

impl Descriptor {
    /// Tells that the file has changed: if it stands on a shelf, nobody borrows it any more.
    pub fn set_stale(&self) {
        if let Descriptor::Kept(kept) = self
            && let Some((generation, place)) = kept.borrowed()
        {
            kept.member.table.stale(place).store(u64::from(generation) + 1, SeqCst);
        }
    }
}

impl From<OwnedFd> for Descriptor {
    fn from(descriptor: OwnedFd) -> Descriptor {
        Descriptor::Owned(descriptor)
    }
}

impl From<std::fs::File> for Descriptor {
    fn from(file: std::fs::File) -> Descriptor {
        Descriptor::Owned(file.into())
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Descriptor::Owned(descriptor) => descriptor.as_fd(),
            // SAFETY: this process owns it, or has it pinned on the shelf, until `self` is dropped:
            // only the leader closes what others own, and only when they are dead.
            Descriptor::Kept(kept) => unsafe { BorrowedFd::borrow_raw(kept.number) },
        }
    }
}

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// A descriptor in a shared table.
#[derive(Debug)]
pub struct Kept {
    number: RawFd,
    /// Generation and place on the shelf that it is borrowed from; 0 when it is owned.
    ticket: AtomicU64,
    member: Arc<Member>,
}

impl Kept {
    fn borrowed(&self) -> Option<(u32, usize)> {
        let ticket = self.ticket.load(SeqCst);
        let place = (ticket & u64::from(u32::MAX)).checked_sub(1)?;
        Some(((ticket >> 32) as u32, place as usize))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        match self.borrowed() {
            Some((_, place)) => {
                self.member.table.pins(self.member.index, place).fetch_sub(1, SeqCst);
            }
            // SAFETY: `keep` took it out of an `OwnedFd`, and nothing else was made of it since.
            None => self.member.close(unsafe { OwnedFd::from_raw_fd(self.number) }),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
