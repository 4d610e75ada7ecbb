//! The request body on its way to a program: held until it is whole, so that a client that is slow
//! keeps no program from others, or passed on as it comes.

use super::Link;

/// A request body.
#[derive(Debug, Default)]
pub(super) struct Body {
    /// Bytes that the link has not taken, behind the first `at` that it has.
    held: Vec<u8>,
    at: usize,
    /// All of it has come.
    ended: bool,
    /// The link knows that.
    told: bool,
}

impl Body {
    /// Bytes that are here.
    pub(super) fn len(&self) -> usize {
        self.held.len() - self.at
    }

    /// All of it has come.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether the link has all of it.
    pub(super) fn is_passed_on(&self) -> bool {
        self.told
    }

    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// Passes on what the link takes; true when that was anything.
    pub(super) fn feed(&mut self, link: &mut dyn Link) -> bool {
        let len = self.len().min(link.room());
        if len > 0 {
            link.take(&self.held[self.at..self.at + len]);
            self.at += len;
        }
        if self.len() == 0 {
            (self.held, self.at) = (Vec::new(), 0);
            if self.ended && !self.told {
                self.told = true;
                link.end_body();
                return true;
            }
        }
        len > 0
    }
}
