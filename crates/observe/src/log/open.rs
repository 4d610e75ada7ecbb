//! Lines of answers that are on their way. A line is written when its answer is known, since the
//! request is at hand only then, with holes for what is known when the answer has ended. It goes to
//! the log when they are filled.
//!
//! A connection keeps its lines itself: another thread may send what one has answered.

use flyball_http::End;

use super::format::{Ended, LogFormat};

/// Bytes of lines that one connection keeps; a line is begun as long as there are fewer, so that
/// they are this and one line at most.
const OPEN_BYTES_MAX: usize = 32 * 1024;

/// Bytes of lines for which memory is kept when none is open.
const SPARE_BYTES: usize = 4 * 1024;

/// Where an answer stands in the output of its connection, in bytes since that began.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Where what is queued ends.
    pub queued_end: u64,
    /// Bytes of its body that are queued; none of a body that is still to be made.
    pub content: Option<u64>,
}

/// A line with holes.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenLine {
    /// How it ends when all of it is sent.
    pub(super) end: End,
    pub(super) began_ns: u64,
    pub(super) backend_ns: u64,
    pub(super) first_byte_ns: u64,
    /// When its backend was done; 0 while it is not.
    pub(super) backend_done_ns: u64,
    /// Where its answer, its body and its end stand in the output.
    start: u64,
    body: u64,
    pub(super) until: u64,
    /// Bytes of its body, as far as they were queued.
    content: u64,
    text_end: usize,
    holes_end: usize,
}

/// The lines of one connection whose answers have not ended, oldest first.
#[derive(Debug, Default)]
pub struct OpenLines {
    pub(super) text: Vec<u8>,
    /// Where in the text something is to be filled in.
    pub(super) holes: Vec<usize>,
    lines: Vec<OpenLine>,
    /// The oldest that is open.
    first: usize,
    /// Where the text and the holes of that one begin.
    text_start: usize,
    holes_start: usize,
    /// The newest answer is not all queued, and has a line.
    is_growing: bool,
    /// Where the last answer that is all queued ends.
    queued_end: u64,
}

impl OpenLine {
    /// Tells what it took, at the time of its end.
    pub(super) fn time(&self, now_ns: u64, ended: &mut Ended) {
        let took_us = |from_ns: u64, to_ns: u64| {
            (from_ns > 0 && to_ns > 0).then(|| to_ns.saturating_sub(from_ns) / 1_000)
        };
        let backend_done_ns = match self.backend_done_ns {
            0 => now_ns,
            done_ns => done_ns,
        };
        ended.first_byte_us = took_us(self.began_ns, self.first_byte_ns);
        ended.request_us = took_us(self.began_ns, now_ns);
        ended.backend_us = took_us(self.backend_ns, backend_done_ns);
    }

    /// Whether any of its answer was sent.
    pub(super) fn has_begun(&self, sent: u64) -> bool {
        sent > self.start
    }

    /// Bytes of its body among so many of the output.
    pub(super) fn content(&self, sent: u64) -> u64 {
        sent.saturating_sub(self.body).min(self.content)
    }
}

impl OpenLines {
    /// Whether none is open.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Whether another may be begun.
    pub(super) fn has_room(&self) -> bool {
        self.text.len() < OPEN_BYTES_MAX
    }

    /// The text of a line was added: how it ends when all is sent, when its request came, and when
    /// a backend was asked.
    pub(super) fn push(&mut self, (end, began_ns, backend_ns): (End, u64, u64)) {
        self.lines.push(OpenLine {
            end,
            began_ns,
            backend_ns,
            first_byte_ns: 0,
            backend_done_ns: 0,
            start: 0,
            body: 0,
            until: u64::MAX,
            content: 0,
            text_end: self.text.len(),
            holes_end: self.holes.len(),
        });
        self.is_growing = true;
    }

    /// The newest line, if its answer is not all queued.
    pub(super) fn growing(&mut self) -> Option<&mut OpenLine> {
        self.lines.last_mut().filter(|_| self.is_growing)
    }

    /// The answer of the newest line was begun, when so many bytes had been sent.
    pub(super) fn place(&mut self, place: Place, sent: u64) {
        let start = sent.max(self.queued_end);
        if self.is_empty() {
            return;
        }
        if let Some(line) = self.growing() {
            (line.start, line.content) = (start, place.content.unwrap_or(0));
            line.body = place.queued_end.saturating_sub(line.content);
        }
        // One that has no line is sent between others that have.
        if place.content.is_some() {
            self.end_growing(place.queued_end);
        }
    }

    /// So many bytes more of its body are queued.
    pub(super) fn grow(&mut self, content: u64) {
        if let Some(line) = self.growing() {
            line.content += content;
        }
    }

    /// All of its answer is queued.
    pub(super) fn end_growing(&mut self, queued_end: u64) {
        if let Some(line) = self.growing() {
            line.until = queued_end;
        }
        (self.is_growing, self.queued_end) = (false, queued_end);
    }

    /// The oldest.
    pub(super) fn oldest(&mut self) -> Option<&mut OpenLine> {
        self.lines.get_mut(self.first)
    }

    /// Takes the oldest, and appends it with its holes filled.
    pub(super) fn take_oldest(&mut self, format: &LogFormat, ended: &Ended, out: &mut Vec<u8>) {
        let Some(line) = self.lines.get(self.first) else { return };
        let mut at = self.text_start;
        let holes = &self.holes[self.holes_start..line.holes_end];
        for (&hole, late) in holes.iter().zip(format.late()) {
            out.extend_from_slice(&self.text[at..hole]);
            format.fill(*late, ended, out);
            at = hole;
        }
        out.extend_from_slice(&self.text[at..line.text_end]);
        (self.text_start, self.holes_start) = (line.text_end, line.holes_end);
        self.first += 1;
        if self.first == self.lines.len() {
            self.clear();
        }
    }

    /// Forgets all.
    fn clear(&mut self) {
        self.text.clear();
        if self.text.capacity() > SPARE_BYTES {
            self.text.shrink_to(SPARE_BYTES);
        }
        self.holes.clear();
        self.lines.clear();
        (self.first, self.text_start, self.holes_start) = (0, 0, 0);
        (self.is_growing, self.queued_end) = (false, 0);
    }
}
