//! Entity tags of files (RFC 9110, section 8.8.3): never of a hash, so that no file is read for
//! one.
//!
//! The tag of size and time is the same on every machine that has the same files, and tells no
//! number of an inode. It says too little where the time is one that a build gives to every file,
//! or where a file may be written once more before its clock moves on: such a file has the tag of
//! its inode, whatever the rule.

use std::fmt::{self, Display, Formatter};

use flyball_sys::file::Stamp;

/// What entity tags of files are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EtagRule {
    /// The size and the time of the last modification.
    #[default]
    SizeTime,
    /// The inode, the size and both times: another one for each copy.
    Inode,
    /// Nothing: there is no tag.
    Off,
}

/// Times before 1981, in nanoseconds since 1970: packers set the first day of 1970 or of 1980.
const FIXED_BEFORE_NS: i128 = 347_155_200 * 1_000_000_000;

/// A file is young until its time of modification is so long ago, in milliseconds: the coarsest
/// clock of a file system, that of FAT.
const YOUNG_MS: u64 = 2_000;

impl EtagRule {
    /// What the tag of a file is made of.
    pub(crate) fn of(self, stamp: &Stamp, is_young: bool) -> EtagRule {
        match self {
            EtagRule::SizeTime if is_young || is_fixed(stamp) => EtagRule::Inode,
            rule => rule,
        }
    }

    /// Whether a file is too young for its tag at this time, which it will not always be: its
    /// answers have another one later.
    pub(crate) fn finds_young(self, stamp: &Stamp, unix_ms: u64) -> bool {
        let modified_ms = u64::try_from(stamp.modified_ns / 1_000_000).unwrap_or(0);
        self == EtagRule::SizeTime && modified_ms.saturating_add(YOUNG_MS) > unix_ms
    }

    /// What this tag of such a file was made of; it is empty where there is none.
    pub(crate) fn behind(etag: &[u8], stamp: &Stamp) -> EtagRule {
        let mut numbers = etag.split(|&byte| matches!(byte, b'"' | b'-')).skip(1).map(hex);
        let is_next = |number: u128| numbers.next().flatten() == Some(number);
        match [u128::from(stamp.size), modified(stamp)].into_iter().all(is_next) {
            _ if etag.is_empty() => EtagRule::Off,
            true if !is_fixed(stamp) => EtagRule::SizeTime,
            _ => EtagRule::Inode,
        }
    }
}

/// An entity tag, shown with its quotes.
pub(crate) struct Etag<'a> {
    pub(crate) rule: EtagRule,
    pub(crate) stamp: &'a Stamp,
    /// What tells representations of one resource apart whose files may be of the same size and
    /// time; each may be empty.
    pub(crate) marks: [&'a str; 3],
}

impl Display for Etag<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Stamp { inode, size, .. } = self.stamp;
        match self.rule {
            EtagRule::SizeTime => write!(f, "\"{size:x}-{:x}", modified(self.stamp))?,
            _ => write!(f, "\"{inode:x}-{size:x}-{:x}", times_of(self.stamp))?,
        }
        for mark in self.marks.iter().filter(|mark| !mark.is_empty()) {
            write!(f, "-{mark}")?;
        }
        f.write_str("\"")
    }
}

fn hex(text: &[u8]) -> Option<u128> {
    u128::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

/// The time of modification, in nanoseconds; one before 1970 is none.
fn modified(stamp: &Stamp) -> u128 {
    u128::try_from(stamp.modified_ns).unwrap_or(0)
}

/// Whether the time of a file is one that many files have.
fn is_fixed(stamp: &Stamp) -> bool {
    stamp.modified_ns < FIXED_BEFORE_NS
}

/// Both times of a file as one word. Builds give files the same time of modification again and
/// again, and the kernel a number of an inode; some file systems know no time of change.
fn times_of(stamp: &Stamp) -> u64 {
    (stamp.modified_ns as u64) ^ (stamp.changed_ns as u64).rotate_left(32)
}
