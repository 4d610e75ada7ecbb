//! What is to be sent: owned segments in order, in a queue that the driver lends to the machine.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;

use bytes::{Buf, Bytes};

/// Bytes of formatted output (heads, chunk sizes) that one `Out` holds; per active connection.
pub const INLINE_BYTES: usize = 16 * 1024;

/// Segments after which the machine stops adding answers until some are sent; per connection.
pub const SEGMENTS_MAX: usize = 64;

/// Room that must be left in the inline buffer for the machine to parse one more request.
pub const INLINE_RESERVE: usize = 512;

/// A piece of output. It owns or pins what it names and stays stable until it is sent, so that a
/// gather write, a sendfile and a ring submission can all carry it.
#[derive(Clone, Debug)]
pub enum Segment<F> {
    /// The next bytes of the inline buffer.
    Inline(usize),
    /// Bytes in memory.
    Bytes(Bytes),
    /// A range of a file; what `F` is, only the driver knows.
    File {
        /// The open file.
        file: F,
        /// Offset of the first byte.
        offset: u64,
        /// Bytes left.
        len: u64,
    },
}

impl<F> Segment<F> {
    /// How many bytes it is.
    pub fn content_len(&self) -> u64 {
        match self {
            Segment::Inline(len) => *len as u64,
            Segment::Bytes(bytes) => bytes.len() as u64,
            Segment::File { len, .. } => *len,
        }
    }
}

/// What stands at the front of an [`Out`].
#[derive(Debug)]
pub enum Front<'a, F> {
    /// Nothing is left to send.
    Empty,
    /// Bytes in memory: use [`Out::gather`].
    Memory,
    /// A range of a file.
    File {
        /// The open file.
        file: &'a F,
        /// Offset of the first byte.
        offset: u64,
        /// Bytes left.
        len: u64,
    },
}

/// A memory segment of an [`Out`].
#[derive(Debug)]
pub enum Memory<'a> {
    /// In the inline buffer.
    Inline(&'a [u8]),
    /// In memory that others share.
    Bytes(&'a Bytes),
}

/// The output of one connection: a queue of segments and a fixed buffer for formatted bytes.
///
/// The buffer never moves or shrinks while segments point into it, so its bytes may be handed to
/// the kernel asynchronously. It starts over once everything is sent.
#[derive(Debug)]
pub struct Out<F> {
    /// All of its length may be written to: it neither moves nor gets shorter while any of it is
    /// queued.
    inline: Vec<u8>,
    /// How much of it is written to.
    filled: usize,
    /// How much of that has been sent.
    taken: usize,
    queue: VecDeque<Segment<F>>,
}

impl<F> Default for Out<F> {
    fn default() -> Out<F> {
        Out::new()
    }
}

impl<F> Out<F> {
    /// An empty queue with its buffer allocated.
    pub fn new() -> Out<F> {
        let queue = VecDeque::with_capacity(SEGMENTS_MAX);
        Out { inline: vec![0; INLINE_BYTES], filled: 0, taken: 0, queue }
    }

    /// An empty queue whose buffer is allocated when it is needed, as long as it has to be: for
    /// [`Out::append`].
    pub fn growing() -> Out<F> {
        Out { inline: Vec::new(), filled: 0, taken: 0, queue: VecDeque::new() }
    }

    /// True when nothing is left to send.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// True when another answer fits: inline room and a few segments are left.
    pub fn has_room(&self) -> bool {
        self.inline_room() >= INLINE_RESERVE && self.queue.len() + 4 <= SEGMENTS_MAX
    }

    fn inline_room(&self) -> usize {
        self.inline.len() - self.filled
    }

    /// Appends what `write` adds to a buffer. The queue's own one may grow for that, unless any of
    /// it is queued.
    pub fn append<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        if self.queue.is_empty() {
            self.inline.clear();
            let done = write(&mut self.inline);
            self.filled = self.inline.len();
            if self.filled > 0 {
                self.queue.push_back(Segment::Inline(self.filled));
            }
            return done;
        }
        let mut own = Vec::new();
        let done = write(&mut own);
        self.push_bytes(own.into());
        done
    }

    /// Lends the memory of [`Out::append`], and says which part of it is queued, where that is all
    /// that is queued: for one who has it sent without a copy. Until [`Out::give_back`] nothing is
    /// looked at or taken off.
    pub fn lend(&mut self) -> Option<(Vec<u8>, Range<usize>)> {
        match (self.queue.front(), self.queue.len()) {
            (Some(Segment::Inline(len)), 1) => {
                let range = self.taken..self.taken + len;
                Some((std::mem::take(&mut self.inline), range))
            }
            _ => None,
        }
    }

    /// What was lent is there again.
    pub fn give_back(&mut self, memory: Vec<u8>) {
        self.inline = memory;
    }

    /// Gives the memory of [`Out::append`] back beyond so much, while nothing is queued.
    pub fn shrink_to(&mut self, bytes: usize) {
        if self.queue.is_empty() {
            self.inline.clear();
            self.inline.shrink_to(bytes);
        }
    }

    /// Appends formatted bytes, in place when they fit and as a copy of their own when not.
    pub fn push_inline(&mut self, parts: &[&[u8]]) {
        let len = parts.iter().map(|part| part.len()).sum();
        if self.inline_room() < len {
            self.queue.push_back(Segment::Bytes(parts.concat().into()));
            return;
        }
        for part in parts {
            let end = self.filled + part.len();
            self.inline[self.filled..end].copy_from_slice(part);
            self.filled = end;
        }
        match self.queue.back_mut() {
            Some(Segment::Inline(last)) => *last += len,
            _ => self.queue.push_back(Segment::Inline(len)),
        }
    }

    /// Appends bytes that live elsewhere; empty ones are dropped.
    pub fn push_bytes(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.queue.push_back(Segment::Bytes(bytes));
        }
    }

    /// Appends a segment that is not inline.
    pub fn push(&mut self, segment: Segment<F>) {
        match segment {
            Segment::Inline(_) => debug_assert!(false, "inline bytes go through push_inline"),
            Segment::Bytes(bytes) => self.push_bytes(bytes),
            Segment::File { file, offset, len } => self.push_file(file, offset, len),
        }
    }

    /// Appends a range of a file; an empty one is dropped.
    pub fn push_file(&mut self, file: F, offset: u64, len: u64) {
        if len > 0 {
            self.queue.push_back(Segment::File { file, offset, len });
        }
    }

    /// What stands at the front.
    pub fn front(&self) -> Front<'_, F> {
        match self.queue.front() {
            None => Front::Empty,
            Some(Segment::File { file, offset, len }) => {
                Front::File { file, offset: *offset, len: *len }
            }
            Some(_) => Front::Memory,
        }
    }

    /// Gathers the memory segments at the front, up to the first file, into `slices`. Returns how
    /// many were filled and whether a file range follows at once.
    pub fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> (usize, bool) {
        let mut count = 0;
        let mut at = self.taken;
        for segment in &self.queue {
            let bytes = match segment {
                Segment::Inline(len) => {
                    at += len;
                    &self.inline[at - len..at]
                }
                Segment::Bytes(bytes) => &bytes[..],
                Segment::File { .. } => return (count, true),
            };
            if count == slices.len() {
                return (count, false);
            }
            slices[count] = IoSlice::new(bytes);
            count += 1;
        }
        (count, false)
    }

    /// The memory segments at the front, up to the first file, for a caller that holds them
    /// while they are sent.
    pub fn memory(&self) -> impl Iterator<Item = Memory<'_>> {
        let mut at = self.taken;
        let up_to_file = self.queue.iter().map_while(move |segment| match segment {
            Segment::Inline(len) => {
                at += len;
                Some(Memory::Inline(&self.inline[at - len..at]))
            }
            Segment::Bytes(bytes) => Some(Memory::Bytes(bytes)),
            Segment::File { .. } => None,
        });
        // Asked once more it would go on behind the file.
        up_to_file.fuse()
    }

    /// The first range of a file, and how many bytes in memory stand before it.
    pub fn first_file(&self) -> Option<(u64, &F, u64, u64)> {
        let mut before = 0;
        self.queue.iter().find_map(|segment| match segment {
            Segment::File { file, offset, len } => Some((before, file, *offset, *len)),
            in_memory => {
                before += in_memory.content_len();
                None
            }
        })
    }

    /// How many bytes are queued; adds up the segments.
    pub fn queued(&self) -> u64 {
        self.queue.iter().map(Segment::content_len).sum()
    }

    /// How many segments are queued.
    pub fn segments(&self) -> usize {
        self.queue.len()
    }

    /// Drops the first `n` bytes, which have been sent.
    ///
    /// # Panics
    /// In debug builds, when fewer than `n` bytes were queued.
    pub fn sent(&mut self, mut n: u64) {
        while n > 0 {
            let Some(front) = self.queue.front_mut() else {
                debug_assert!(false, "{n} bytes sent that were never queued");
                return;
            };
            let left = match front {
                Segment::Inline(len) => {
                    let step = n.min(*len as u64);
                    *len -= step as usize;
                    self.taken += step as usize;
                    n -= step;
                    *len as u64
                }
                Segment::Bytes(bytes) => {
                    let step = n.min(bytes.len() as u64);
                    bytes.advance(step as usize);
                    n -= step;
                    bytes.len() as u64
                }
                Segment::File { offset, len, .. } => {
                    let step = n.min(*len);
                    *offset += step;
                    *len -= step;
                    n -= step;
                    *len
                }
            };
            if left == 0 {
                self.queue.pop_front();
            }
        }
        if self.queue.is_empty() {
            self.start_over();
        }
    }

    /// Forgets everything that is queued.
    pub fn clear(&mut self) {
        self.queue.clear();
        self.start_over();
    }

    fn start_over(&mut self) {
        (self.filled, self.taken) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(out: &Out<u8>) -> (Vec<u8>, bool) {
        let mut slices = [IoSlice::new(&[]); 8];
        let (count, file) = out.gather(&mut slices);
        (slices[..count].iter().flat_map(|s| s.iter().copied()).collect(), file)
    }

    #[test]
    fn segments_leave_in_order_however_they_are_split() {
        for step in 1..=20u64 {
            let mut out = Out::<u8>::new();
            out.push_inline(&[b"head", b"er"]);
            out.push_bytes(Bytes::from_static(b"body"));
            out.push_inline(&[b"next"]);
            out.push_file(7, 100, 6);
            let mut seen = Vec::new();
            loop {
                match out.front() {
                    Front::Empty => break,
                    Front::File { file, offset, len } => {
                        assert_eq!(*file, 7);
                        seen.extend((offset..offset + len.min(step)).map(|b| b as u8));
                        out.sent(len.min(step));
                    }
                    Front::Memory => {
                        let (bytes, _) = gathered(&out);
                        let n = bytes.len().min(step as usize);
                        seen.extend(&bytes[..n]);
                        out.sent(n as u64);
                    }
                }
            }
            assert_eq!(seen, b"headerbodynextdefghi", "step {step}");
        }
    }

    #[test]
    fn a_gather_stops_at_a_file_and_says_so() {
        let mut out = Out::<u8>::new();
        out.push_inline(&[b"head"]);
        assert_eq!(gathered(&out), (b"head".to_vec(), false));
        out.push_file(1, 0, 10);
        assert_eq!(gathered(&out), (b"head".to_vec(), true));
    }

    #[test]
    fn adjacent_inline_pieces_are_one_segment() {
        let mut out = Out::<u8>::new();
        out.push_inline(&[b"a"]);
        out.push_inline(&[b"b"]);
        let mut slices = [IoSlice::new(&[]); 8];
        assert_eq!(out.gather(&mut slices).0, 1);
    }

    #[test]
    fn what_is_appended_never_moves_what_is_queued() {
        let mut out = Out::<u8>::growing();
        out.append(|to| to.extend_from_slice(b"first"));
        let at = |out: &Out<u8>| match out.memory().next() {
            Some(Memory::Inline(bytes)) => bytes.as_ptr(),
            _ => std::ptr::null(),
        };
        let first = at(&out);
        let len = out.append(|to| {
            to.resize(100_000, b'x');
            to.len()
        });
        assert_eq!((at(&out), len, out.queued()), (first, 100_000, 100_005));
        out.sent(100_005);
        out.append(|_| ());
        assert!(out.is_empty());
    }

    #[test]
    fn what_is_lent_comes_back_and_what_is_appended_meanwhile_stands_behind_it() {
        let mut out = Out::<u8>::growing();
        assert_eq!(out.lend(), None);
        out.append(|to| to.extend_from_slice(b"first"));
        out.sent(2);
        let (memory, range) = out.lend().unwrap();
        assert_eq!(&memory[range], b"rst");
        out.append(|to| to.extend_from_slice(b"second"));
        out.give_back(memory);
        assert_eq!(gathered(&out).0, b"rstsecond");
        assert_eq!(out.lend(), None, "it is not all that is queued");
        out.sent(9);
        assert!(out.is_empty());
    }

    #[test]
    fn the_first_file_is_found_behind_what_is_in_memory() {
        let mut out = Out::<u8>::new();
        assert_eq!(out.first_file(), None);
        out.push_inline(&[b"head"]);
        out.push_bytes(Bytes::from_static(b"body"));
        assert_eq!(out.first_file(), None);
        out.push_file(7, 100, 6);
        out.push_inline(&[b"next"]);
        out.push_file(8, 0, 1);
        assert_eq!(out.first_file(), Some((8, &7, 100, 6)));
        {
            let mut before = out.memory();
            assert_eq!(before.by_ref().count(), 2);
            assert!(before.next().is_none(), "what is behind the file is not before it");
        }
        out.sent(9);
        assert_eq!(out.first_file(), Some((0, &7, 101, 5)));
    }

    #[test]
    fn what_does_not_fit_inline_is_still_sent_in_order() {
        let mut out = Out::<u8>::new();
        let big = vec![b'x'; INLINE_BYTES];
        out.push_inline(&[b"a"]);
        out.push_inline(&[&big]);
        out.push_inline(&[b"b"]);
        let (bytes, _) = gathered(&out);
        assert_eq!((bytes.len(), bytes[0], bytes[bytes.len() - 1]), (INLINE_BYTES + 2, b'a', b'b'));
    }
}
