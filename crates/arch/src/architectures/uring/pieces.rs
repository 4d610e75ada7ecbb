//! Large bodies on a ring: a piece is read while the one before it is sent.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use flyball_conn::FileBody;
use flyball_http::CloseReason;
use flyball_sys::descriptors::Descriptor;
use flyball_sys::disk::Op;
use flyball_sys::file::Stamp;

use crate::kernel::uring::{Lent, Ring};

/// A part of a file in memory.
#[derive(Debug)]
struct Piece {
    buffer: Lent,
    range: Range<usize>,
}

/// What is to be read of a file next.
#[derive(Debug)]
pub(crate) struct NextRead {
    pub(crate) file: Arc<Descriptor>,
    /// Offset in the file.
    pub(crate) start: u64,
    /// How many bytes, at most.
    pub(crate) len: usize,
}

/// The pieces of one body: at most one on its way out or about to be, and one behind it.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    ready: Option<Piece>,
    next: Option<Piece>,
    /// Bytes that are being sent.
    leaving: usize,
    /// Read to the end of the body: it leaves once the file is known to keep its promise.
    unchecked: Option<Piece>,
}

impl Pieces {
    /// True when no part of the body has been read that is not yet sent.
    pub(crate) fn is_empty(&self) -> bool {
        let read = [&self.ready, &self.next, &self.unchecked];
        self.leaving == 0 && read.iter().all(|piece| piece.is_none())
    }

    /// The piece to be sent now, if it is there.
    pub(crate) fn send_next(&mut self) -> Option<(Lent, Range<usize>)> {
        let piece = self.ready.take().or_else(|| self.next.take())?;
        self.leaving = piece.range.len();
        Some((piece.buffer, piece.range))
    }

    /// `n` bytes of a piece were sent; what is left goes first.
    pub(crate) fn sent(&mut self, buffer: Lent, range: Range<usize>, n: usize, ring: &mut Ring) {
        self.leaving = 0;
        if n < range.len() {
            self.ready = Some(Piece { buffer, range: range.start + n..range.end });
        } else {
            ring.take_back(buffer);
        }
    }

    /// The next read, if there is room for what it brings and anything is left to read.
    pub(crate) fn next_read(&self, body: &FileBody<'_>, most: usize) -> Option<NextRead> {
        let FileBody { file, offset, len, .. } = *body;
        if self.next.is_some() || self.unchecked.is_some() {
            return None;
        }
        let ahead = self.ahead(body);
        let rest = usize::try_from(len - ahead.min(len)).unwrap_or(usize::MAX);
        if rest == 0 {
            return None;
        }
        let file = Arc::clone(&file.file);
        Some(NextRead { file, start: offset + ahead, len: rest.min(most) })
    }

    /// A read is done; gives out the look at the file that the last piece needs.
    pub(crate) fn read(
        &mut self,
        buffer: Lent,
        read: io::Result<usize>,
        body: &FileBody<'_>,
        ring: &mut Ring,
    ) -> Result<Option<Op>, CloseReason> {
        let read = match read {
            Ok(read @ 1..) => read,
            other => {
                ring.take_back(buffer);
                return Err(match other {
                    Ok(_) => CloseReason::FileChanged,
                    Err(_) => CloseReason::FileFailed,
                });
            }
        };
        let last = self.ahead(body) + read as u64 == body.len;
        let piece = Some(Piece { buffer, range: 0..read });
        if last {
            self.unchecked = piece;
            return Ok(Some(Op::Stat { file: Arc::clone(&body.file.file) }));
        }
        self.next = piece;
        Ok(None)
    }

    /// Before the last piece leaves, the file must still hold what its head says.
    pub(crate) fn checked(
        &mut self,
        now: &io::Result<Stamp>,
        body: &FileBody<'_>,
    ) -> Result<(), CloseReason> {
        if !now.as_ref().is_ok_and(|now| body.file.keeps_promise(now)) {
            return Err(CloseReason::FileChanged);
        }
        self.next = self.unchecked.take();
        Ok(())
    }

    /// Gives back what was read and is not sent.
    pub(crate) fn give_back(self, ring: &mut Ring) {
        for piece in [self.ready, self.next, self.unchecked].into_iter().flatten() {
            ring.take_back(piece.buffer);
        }
    }

    /// Bytes in memory in front of what is read next.
    fn ahead(&self, body: &FileBody<'_>) -> u64 {
        let ready = self.ready.as_ref().map_or(0, |piece| piece.range.len());
        let next = self.next.as_ref().map_or(0, |piece| piece.range.len());
        body.sealed + (self.leaving + ready + next) as u64
    }
}
