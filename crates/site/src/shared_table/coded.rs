//! Bodies that were coded here are files in memory, and these count: each place of the shelf says
//! how many bytes it holds of them. They are summed anew each time, so that no process that is
//! killed leaves a sum that is wrong.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use flyball_sys::shared::SharedCounters;

use super::{Part, USED_MS, lock_file};
use crate::counts::CacheCounts;
use crate::entry::{Content, FileEntry};

/// A file in memory takes whole pages.
const PAGE_BYTES: u64 = 4_096;

/// The bytes of each place, in words of their own that are near each other.
#[derive(Debug)]
pub(super) struct CodedBytes {
    words: SharedCounters,
    bytes_max: u64,
}

impl CodedBytes {
    pub(super) fn new(places: usize, bytes_max: u64) -> io::Result<CodedBytes> {
        Ok(CodedBytes { words: SharedCounters::new(places)?, bytes_max })
    }

    /// Whether there can be room for a body of so many bytes.
    pub(super) fn can_hold(&self, bytes: u64) -> bool {
        in_pages(bytes) <= self.bytes_max
    }

    /// What an empty place is to hold, in bytes: of what is no coded body, none.
    pub(super) fn set(&self, place: usize, bytes: u64) {
        let word = &self.words.all()[place];
        // Most were never touched: reading alone costs no memory.
        if bytes != 0 || word.load(SeqCst) != 0 {
            word.store(in_pages(bytes), SeqCst);
        }
    }

    fn all(&self) -> impl Iterator<Item = (usize, u64)> {
        let load = |(place, word): (usize, &AtomicU64)| (place, word.load(SeqCst));
        self.words.all().iter().enumerate().map(load).filter(|&(_, bytes)| bytes != 0)
    }
}

fn in_pages(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE_BYTES)
}

/// Bytes that a file takes in memory because it was made there.
pub(super) fn coded_bytes(entry: &FileEntry) -> u64 {
    match &entry.content {
        // What is sent is another file than the one that was asked for.
        Content::Open(open) if open.stamp != entry.stamp => open.stamp.size,
        Content::Open(_) | Content::Memory(_) => 0,
    }
}

impl Part {
    /// Drops coded bodies, those first that were used longest ago, until there is room for this
    /// entry's; false when there is none, since others are being sent. To be called with the names
    /// locked for writing.
    pub(super) fn make_room(&self, entry: &FileEntry, counts: &mut CacheCounts) -> bool {
        let (table, bytes) = (&*self.table, coded_bytes(entry));
        if bytes == 0 || !table.coded.can_hold(bytes) {
            return bytes == 0;
        }
        let is_there = |&(place, _): &(usize, u64)| !self.member.is_empty(place);
        let mut held: Vec<(usize, u64)> = table.coded.all().filter(is_there).collect();
        let sum = held.iter().map(|(_, bytes)| bytes).sum::<u64>() + in_pages(bytes);
        let mut excess = sum.saturating_sub(table.coded.bytes_max);
        if excess > 0 {
            held.sort_by_key(|&(place, _)| table.files.record(place)[USED_MS].load(SeqCst));
        }
        for (place, bytes) in held {
            if excess == 0 {
                break;
            }
            let Some(locked) = lock_file(table, place, &self.member, counts) else { continue };
            if self.empty(place, &locked, &entry.content, counts) {
                excess = excess.saturating_sub(bytes);
            }
        }
        excess == 0
    }
}
