//! What the records hold, as words.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use flyball_http::Status;
use flyball_sys::file::{Kind, Stamp};

use super::HEAD_BYTES_MAX;
use crate::caches::{Place, Target};
use crate::store::Handle;

/// Words of a stamp.
pub(super) const STAMP_WORDS: usize = 8;

pub(super) fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    })
}

pub(super) fn store(words: &[AtomicU64], values: impl Iterator<Item = u64>) {
    for (word, value) in words.iter().zip(values) {
        word.store(value, SeqCst);
    }
}

pub(super) fn load_bytes(words: &[AtomicU64], len: usize, out: &mut Vec<u8>) {
    // Never longer than `len`, also meanwhile: a buffer of just that length need not grow.
    let len = len.min(HEAD_BYTES_MAX);
    for (word, at) in words.iter().zip((0..len).step_by(8)) {
        out.extend_from_slice(&word.load(SeqCst).to_le_bytes()[..(len - at).min(8)]);
    }
}

pub(super) fn stamp_to_words(stamp: &Stamp) -> [u64; STAMP_WORDS] {
    let kind = match stamp.kind {
        Kind::Regular => 0,
        Kind::Directory => 1,
        Kind::Other => 2,
    };
    let (modified, changed) = (stamp.modified_ns as u128, stamp.changed_ns as u128);
    [
        stamp.device,
        stamp.inode,
        stamp.size,
        modified as u64,
        (modified >> 64) as u64,
        changed as u64,
        (changed >> 64) as u64,
        u64::from(stamp.links) << 32 | kind,
    ]
}

pub(super) fn stamp_of_words(words: &[AtomicU64]) -> Stamp {
    let word = |at: usize| words[at].load(SeqCst);
    let wide = |at: usize| (u128::from(word(at + 1)) << 64 | u128::from(word(at))) as i128;
    Stamp {
        device: word(0),
        inode: word(1),
        size: word(2),
        modified_ns: wide(3),
        changed_ns: wide(5),
        links: (word(7) >> 32) as u32,
        kind: match word(7) & 3 {
            0 => Kind::Regular,
            1 => Kind::Directory,
            _ => Kind::Other,
        },
    }
}

const NEEDS_SLASH: u64 = 1;
const MISSING: u64 = 2;
const FILE: u64 = 3;
const REDIRECT: u64 = 4;
const SCRIPT: u64 = 5;

/// The kind in the lowest 4 bits; a status or the number of a record above; then its generation.
pub(super) fn target_to_word(target: Target) -> u64 {
    match target {
        Target::NeedsSlash => NEEDS_SLASH,
        Target::Script => SCRIPT,
        Target::Missing(status) => MISSING | u64::from(status.code()) << 4,
        Target::Redirect(rule) => REDIRECT | u64::from(rule) << 4,
        Target::File(place) => {
            let (index, generation) = place.handle.parts();
            FILE | u64::from(index) << 4 | u64::from(generation) << 32
        }
    }
}

pub(super) fn target_of_word(word: u64) -> Option<Target> {
    let above = (word as u32) >> 4;
    match word & 0xf {
        NEEDS_SLASH => Some(Target::NeedsSlash),
        SCRIPT => Some(Target::Script),
        MISSING if above == u32::from(Status::NOT_FOUND.code()) => {
            Some(Target::Missing(Status::NOT_FOUND))
        }
        MISSING => Some(Target::Missing(Status::FORBIDDEN)),
        REDIRECT => Some(Target::Redirect(above)),
        FILE => Some(Target::File(place(above, (word >> 32) as u32))),
        _ => None,
    }
}

pub(super) fn place(index: u32, generation: u32) -> Place {
    Place { bucket: 0, handle: Handle::from_parts(index, generation) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_any_length_fit_a_buffer_of_that_length() {
        let bytes: Vec<u8> = (0..40).collect();
        let words: Vec<AtomicU64> = words_of(&bytes).map(AtomicU64::new).collect();
        for len in 0..=bytes.len() {
            let mut out = Vec::with_capacity(len);
            let (at, capacity) = (out.as_ptr(), out.capacity());
            load_bytes(&words, len, &mut out);
            assert_eq!(out, bytes[..len]);
            assert_eq!((out.as_ptr(), out.capacity()), (at, capacity), "{len}");
        }
    }
}
