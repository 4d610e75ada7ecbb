//! What is known of the file at the front of a connection's output: which of its next bytes are in
//! memory, and where they are mapped.

use std::fmt::Debug;
use std::sync::Arc;

use flyball_http::out::Front;
use flyball_site::{OpenFile, Out, Plan};
use flyball_sys::mapping::Mapping;

/// How long what was seen in memory is taken to be there still. Many pieces leave meanwhile, to
/// one client or to many, which then need no look of their own; a slow client's do. Without it
/// looks are a third of the CPU for bodies of 200 kB that all ask for.
pub const SEEN_HOLDS_MS: u32 = 100;

/// A part of a file that is mapped for as long as this lives.
pub trait Mapped: Debug + Send {
    /// What is mapped.
    fn mapping(&self) -> &Arc<Mapping>;

    /// Whether it maps this version of the file at this offset.
    fn is_at(&self, file: &OpenFile, offset: u64) -> bool;
}

/// The window at the front of the output.
#[derive(Debug, Default)]
pub struct SendWindow {
    /// Bytes that have been brought into memory.
    warmed: u64,
    /// Bytes that were seen in memory.
    seen: u64,
    /// When they were, in the context's milliseconds.
    seen_ms: u64,
    /// The part of a large body that is being sent, where it is mapped.
    chunk: Option<Box<dyn Mapped>>,
    /// The work that brings its next piece into memory, until it is taken to be performed.
    pub(crate) warming: Option<Box<Plan>>,
}

impl SendWindow {
    /// `n` bytes were sent, and this is left.
    pub fn sent(&mut self, n: u64, out: &Out) {
        self.warmed = self.warmed.saturating_sub(n);
        self.seen = self.seen.saturating_sub(n);
        if self.chunk.is_some() && !matches!(out.front(), Front::File { .. }) {
            self.chunk = None;
        }
    }

    /// So many bytes have been brought into memory.
    pub fn warmed(&mut self, len: usize) {
        self.warmed = len as u64;
    }

    /// How many bytes are in memory because they were brought there.
    pub fn warm_bytes(&self) -> u64 {
        self.warmed
    }

    /// The next `n` bytes of the body are in memory, as a look or a read has shown. What is left of
    /// what was seen before stays as old as it is.
    pub fn saw(&mut self, n: usize, now_ms: u64) {
        if self.seen_bytes(now_ms) != n as u64 {
            (self.seen, self.seen_ms) = (n as u64, now_ms);
        }
    }

    /// How many bytes were seen in memory, not long ago.
    pub fn seen_bytes(&self, now_ms: u64) -> u64 {
        let age_ms = now_ms.saturating_sub(self.seen_ms);
        if age_ms < u64::from(SEEN_HOLDS_MS) { self.seen } else { 0 }
    }

    /// Has the front of the output mapped if that is a large body, and lets go of what was before
    /// it. What cannot be mapped is sent in another way.
    pub fn map(&mut self, out: &Out, map: impl FnOnce(&OpenFile, u64) -> Option<Box<dyn Mapped>>) {
        let Front::File { file, offset, .. } = out.front() else { return self.chunk = None };
        if !self.chunk.as_ref().is_some_and(|chunk| chunk.is_at(file, offset)) {
            // First, so that it can make room.
            self.chunk = None;
            self.chunk = map(file, offset);
        }
    }

    /// What is mapped of it.
    pub fn chunk(&self) -> Option<&Arc<Mapping>> {
        Some(self.chunk.as_ref()?.mapping())
    }

    /// The work that brings its next piece into memory.
    pub fn warm(&self, out: &Out, piece_bytes: usize) -> Option<Box<Plan>> {
        let Front::File { file, offset, len } = out.front() else { return None };
        let most = len.min(piece_bytes as u64) as usize;
        Some(match self.chunk.as_ref().filter(|chunk| chunk.is_at(file, offset)) {
            Some(chunk) => Plan::populate(file, chunk.mapping(), offset, most),
            None => Plan::warm(file, offset, most),
        })
    }
}
