//! Large bodies on a ring: a piece is read while the one before it is sent.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use flyball_http::CloseReason;
use flyball_http::out::Front;
use flyball_site::{File, Out};
use flyball_sys::disk::{Done, Op};
use flyball_sys::file::Stamp;

/// Buffers kept for reuse; per worker.
const SPARE_BUFFERS_MAX: usize = 64;

/// A part of a file in memory.
#[derive(Debug)]
struct Piece {
    buffer: Vec<u8>,
    range: Range<usize>,
}

/// The pieces of one body: at most one on its way out or about to be, and one behind it.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    ready: Option<Piece>,
    next: Option<Piece>,
    /// Bytes that are being sent.
    leaving: usize,
    /// Read to the end of the body: it leaves once the file is known to be unchanged.
    unchecked: Option<Piece>,
}

impl Pieces {
    /// True when no part of the body has been read that is not yet sent.
    pub(crate) fn is_empty(&self) -> bool {
        let read = [&self.ready, &self.next, &self.unchecked];
        self.leaving == 0 && read.iter().all(|piece| piece.is_none())
    }

    /// The piece to be sent now, if it is there.
    pub(crate) fn send_next(&mut self) -> Option<(Vec<u8>, Range<usize>)> {
        let piece = self.ready.take().or_else(|| self.next.take())?;
        self.leaving = piece.range.len();
        Some((piece.buffer, piece.range))
    }

    /// `n` bytes of a piece were sent; what is left goes first.
    pub(crate) fn sent(
        &mut self,
        buffer: Vec<u8>,
        range: Range<usize>,
        n: usize,
        spare: &mut Spare,
    ) {
        self.leaving = 0;
        if n < range.len() {
            self.ready = Some(Piece { buffer, range: range.start + n..range.end });
        } else {
            spare.keep(buffer);
        }
    }

    /// The next read, if there is room for what it brings and anything is left to read.
    pub(crate) fn next_read(&self, out: &Out, most: usize, spare: &mut Spare) -> Option<Op> {
        let Front::File { file, offset, len } = out.front() else { return None };
        if self.next.is_some() || self.unchecked.is_some() {
            return None;
        }
        let ahead = self.ahead();
        let rest = usize::try_from(len - ahead.min(len)).unwrap_or(usize::MAX);
        if rest == 0 {
            return None;
        }
        let (file, start) = (Arc::clone(&file.file), offset + ahead);
        Some(Op::Read { file, buffer: spare.take(rest.min(most)), filled: 0, start })
    }

    /// A read or a look at the file is done; gives out the look that the last piece needs.
    pub(crate) fn done(&mut self, done: Done, out: &Out) -> Result<Option<Op>, CloseReason> {
        let Front::File { file, len, .. } = out.front() else {
            return Err(CloseReason::FileFailed);
        };
        match done {
            Done::Read(buffer, read) => self.read(buffer, read, file, len),
            Done::Stamped(stamp) => self.checked(stamp, file).map(|()| None),
            _ => Err(CloseReason::FileFailed),
        }
    }

    fn read(
        &mut self,
        buffer: Vec<u8>,
        read: io::Result<usize>,
        file: &File,
        len: u64,
    ) -> Result<Option<Op>, CloseReason> {
        let read = read.map_err(|_| CloseReason::FileFailed)?;
        if read == 0 {
            return Err(CloseReason::FileChanged);
        }
        let last = self.ahead() + read as u64 == len;
        let piece = Some(Piece { buffer, range: 0..read });
        if last {
            self.unchecked = piece;
            return Ok(Some(Op::Stat { file: Arc::clone(&file.file) }));
        }
        self.next = piece;
        Ok(None)
    }

    /// Before the last piece leaves, the file must still be what its head says.
    fn checked(&mut self, stamp: io::Result<Stamp>, file: &File) -> Result<(), CloseReason> {
        if !stamp.is_ok_and(|now| file.stamp.same_body(&now)) {
            return Err(CloseReason::FileChanged);
        }
        self.next = self.unchecked.take();
        Ok(())
    }

    /// Bytes in memory in front of what is read next.
    fn ahead(&self) -> u64 {
        let ready = self.ready.as_ref().map_or(0, |piece| piece.range.len());
        let next = self.next.as_ref().map_or(0, |piece| piece.range.len());
        (self.leaving + ready + next) as u64
    }
}

/// Used buffers of about one size, so that each is allocated and cleared once.
#[derive(Debug, Default)]
pub(crate) struct Spare(Vec<Vec<u8>>);

impl Spare {
    /// A buffer of `len` bytes, a used one if there is any.
    fn take(&mut self, len: usize) -> Vec<u8> {
        let mut buffer = self.0.pop().unwrap_or_default();
        buffer.resize(len, 0);
        buffer
    }

    /// Keeps a buffer for reuse, if there is room.
    fn keep(&mut self, buffer: Vec<u8>) {
        if self.0.len() < SPARE_BUFFERS_MAX {
            self.0.push(buffer);
        }
    }
}
