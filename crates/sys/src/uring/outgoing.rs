//! Bytes on their way out, owned until the kernel has taken them.

use std::ops::Range;

use bytes::Bytes;

use super::Lent;

/// Segments shorter than this are copied: that is cheaper than to keep hold of them.
pub const COPIED_BYTES_MAX: usize = 2048;

/// Bytes of memory for copies that is kept for reuse: more than a whole batch of small answers.
const SPARE_BYTES_MAX: usize = 32 * 1024;

/// What one send carries.
#[derive(Default)]
pub struct Outgoing {
    copied: Vec<u8>,
    parts: Vec<Part>,
    pub(super) token: u64,
    pub(super) closes: bool,
    slices: Vec<libc::iovec>,
    message: Option<libc::msghdr>,
}

enum Part {
    /// So many of the copied bytes.
    Copied(usize),
    Shared(Bytes),
    Piece(Lent, Range<usize>),
    Owned(Vec<u8>, Range<usize>),
}

/// What the kernel is told to read; it stays where it is as long as the `Outgoing` does.
pub(super) enum View {
    One(*const u8, u32),
    Many(*const libc::msghdr),
}

impl Outgoing {
    /// Appends a copy.
    pub fn copy(&mut self, bytes: &[u8]) {
        self.copied.extend_from_slice(bytes);
        match self.parts.last_mut() {
            Some(Part::Copied(len)) => *len += bytes.len(),
            _ => self.parts.push(Part::Copied(bytes.len())),
        }
    }

    /// Appends bytes that others share; short ones are copied.
    pub fn share(&mut self, bytes: &Bytes) {
        if bytes.len() <= COPIED_BYTES_MAX {
            self.copy(bytes);
        } else {
            self.parts.push(Part::Shared(bytes.clone()));
        }
    }

    /// Appends a part of a buffer, which [`Outgoing::take_piece`] gives back.
    pub fn piece(&mut self, buffer: Lent, range: Range<usize>) {
        debug_assert!(range.end <= buffer.len());
        self.parts.push(Part::Piece(buffer, range));
    }

    /// The buffer that was lent, and which part of it was to be sent.
    pub fn take_piece(&mut self) -> Option<(Lent, Range<usize>)> {
        match self.parts.pop_if(|part| matches!(part, Part::Piece(..)))? {
            Part::Piece(buffer, range) => Some((buffer, range)),
            _ => None,
        }
    }

    /// Appends a part of memory that was lent, which [`Outgoing::take_owned`] gives back.
    pub fn own(&mut self, memory: Vec<u8>, range: Range<usize>) {
        debug_assert!(range.end <= memory.len());
        self.parts.push(Part::Owned(memory, range));
    }

    /// The memory that was lent, if it stands at the end.
    pub fn take_owned(&mut self) -> Option<Vec<u8>> {
        match self.parts.pop_if(|part| matches!(part, Part::Owned(..)))? {
            Part::Owned(memory, _) => Some(memory),
            _ => None,
        }
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        let len = |part: &Part| match part {
            Part::Copied(len) => *len,
            Part::Shared(bytes) => bytes.len(),
            Part::Piece(_, range) | Part::Owned(_, range) => range.len(),
        };
        self.parts.iter().map(len).sum()
    }

    /// True when there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn clear(&mut self) {
        self.copied.clear();
        self.copied.shrink_to(SPARE_BYTES_MAX);
        self.parts.clear();
        self.slices.clear();
        self.message = None;
    }

    /// The bytes as the kernel wants them. Nothing may be appended from now on.
    pub(super) fn view(&mut self) -> View {
        self.slices.clear();
        let mut at = 0;
        for part in &self.parts {
            let bytes = match part {
                Part::Copied(len) => {
                    at += len;
                    &self.copied[at - len..at]
                }
                Part::Shared(bytes) => &bytes[..],
                Part::Piece(buffer, range) => &buffer[range.clone()],
                Part::Owned(memory, range) => &memory[range.clone()],
            };
            let iov_base = bytes.as_ptr().cast_mut().cast();
            self.slices.push(libc::iovec { iov_base, iov_len: bytes.len() });
        }
        if let [slice] = self.slices[..] {
            let len = u32::try_from(slice.iov_len).unwrap_or(u32::MAX);
            return View::One(slice.iov_base.cast::<u8>(), len);
        }
        // SAFETY: a msghdr is plain integers and pointers; zero is valid for each.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = self.slices.as_mut_ptr();
        message.msg_iovlen = self.slices.len() as _;
        View::Many(&raw const *self.message.insert(message))
    }
}

impl std::fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outgoing").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_parts_are_one_piece_of_memory_and_long_ones_stay_where_they_are() {
        let long = Bytes::from(vec![b'x'; COPIED_BYTES_MAX + 1]);
        let mut outgoing = Outgoing::default();
        outgoing.copy(b"head");
        outgoing.share(&Bytes::from_static(b"body"));
        assert_eq!(outgoing.len(), 8);
        let View::One(start, 8) = outgoing.view() else { panic!() };
        assert_eq!(start, outgoing.copied.as_ptr());
        outgoing.share(&long);
        let View::Many(_) = outgoing.view() else { panic!() };
        assert_eq!(outgoing.slices[1].iov_base.cast_const().cast(), long.as_ptr());
        assert_eq!(outgoing.len(), 8 + long.len());
        outgoing.clear();
        assert!(outgoing.is_empty());
        outgoing.piece(Lent::Own(vec![1, 2, 3]), 1..3);
        assert_eq!(outgoing.len(), 2);
        let Some((lent, range)) = outgoing.take_piece() else { panic!() };
        assert_eq!((&lent[..], range), (&[1, 2, 3][..], 1..3));
        outgoing.own(vec![4, 5, 6], 0..2);
        let View::One(_, 2) = outgoing.view() else { panic!() };
        assert!(outgoing.take_piece().is_none());
        assert_eq!(outgoing.take_owned(), Some(vec![4, 5, 6]));
    }
}
