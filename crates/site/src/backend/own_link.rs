//! The link of one request, from when it is wanted until it is left.

use bytes::BytesMut;

use super::body::Body;
use super::wire::Wire;
use super::{Failure, Flow, Link, Stage};

/// A link that is wanted, had or left.
#[derive(Debug)]
pub(super) struct OwnLink {
    link: Option<Box<dyn Link>>,
    /// Since when it is there, or waited for, in monotonic milliseconds.
    pub(super) since_ms: u64,
    /// It was left, and may be kept.
    keeps: bool,
}

impl OwnLink {
    /// One that is wanted from now on, or later if there is none yet.
    pub(super) fn new(link: Option<Box<dyn Link>>, now_ms: u64) -> OwnLink {
        OwnLink { link, since_ms: now_ms, keeps: false }
    }

    /// Whether it is had, or wanted.
    pub(super) fn is_held(&self) -> bool {
        self.link.is_some()
    }

    /// It is there, and was used before if that `was_idle`.
    pub(super) fn linked(&mut self, was_idle: bool, now_ms: u64) {
        self.since_ms = now_ms;
        if let Some(wire) = self.wire_mut() {
            wire.linked(was_idle);
        }
    }

    /// Its bytes, unless it was given back.
    pub(super) fn wire(&self) -> Option<&Wire> {
        self.link.as_ref()?.wire()
    }

    /// The same, to be told what was done.
    pub(super) fn wire_mut(&mut self) -> Option<&mut Wire> {
        self.link.as_mut()?.wire_mut()
    }

    pub(super) fn stage(&self) -> Stage {
        self.wire().map_or(Stage::Linked, Wire::stage)
    }

    /// Bytes of the request body that it takes now, where it is held.
    pub(super) fn room(&self) -> Option<usize> {
        self.link.as_ref().map(|link| link.room())
    }

    /// Whether all of the request that it was given is sent.
    pub(super) fn has_sent_all(&self) -> bool {
        self.link.as_ref().is_none_or(|link| link.queued() == 0)
    }

    /// Takes bytes of the request body, at most as many as there is room for.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        if let Some(link) = &mut self.link {
            link.take(bytes);
        }
    }

    /// Passes on what was held of the request body; true when that was anything.
    pub(super) fn feed(&mut self, body: &mut Body) -> bool {
        self.link.as_mut().is_some_and(|link| body.feed(&mut **link))
    }

    /// Whether anything was passed on since this was last asked.
    pub(super) fn push(&mut self) -> bool {
        self.link.as_mut().is_some_and(|link| link.push())
    }

    /// Appends bytes of the answer.
    ///
    /// # Errors
    /// Why there is no more of it.
    pub(super) fn pull(&mut self, answer: &mut BytesMut) -> Result<Flow, (Failure, String)> {
        self.link.as_mut().map_or(Ok(Flow::End), |link| link.pull(answer))
    }

    /// Of its program nothing more is wanted, which may go on by itself.
    pub(super) fn leave(&mut self) {
        if let Some(link) = self.link.take() {
            self.keeps = link.leave();
        }
    }

    /// It is good for nothing more.
    pub(super) fn cut(&mut self) {
        self.link = None;
    }

    /// Whether it was left and may be kept.
    pub(super) fn keeps(&self) -> bool {
        self.keeps
    }
}
