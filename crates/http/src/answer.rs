//! An answer, whatever protocol it leaves by.

use bytes::Bytes;

use crate::Status;
use crate::fields::{Block, FieldLines, Fields};
use crate::out::Segment;

/// The answer to a request.
#[derive(Debug)]
pub struct Answer<'a, F> {
    /// Its status.
    pub status: Status,
    /// All fields but those that the protocol writes itself: `Server`, `Date` unless it is here,
    /// and what concerns the connection.
    pub fields: AnswerFields<'a>,
    /// Its content.
    pub body: Body<'a, F>,
}

/// The fields of an answer.
#[derive(Clone, Copy, Debug)]
pub enum AnswerFields<'a> {
    /// Made for this answer.
    Made(FieldLines<'a>),
    /// Kept with what is sent, and encoded beforehand. There is no `Date` among them.
    Kept(&'a Block),
}

impl<'a> AnswerFields<'a> {
    /// Names and values.
    pub fn lines(self) -> FieldLines<'a> {
        match self {
            AnswerFields::Made(lines) => lines,
            AnswerFields::Kept(block) => block.lines(),
        }
    }
}

impl<'a> From<&'a Fields> for AnswerFields<'a> {
    fn from(fields: &'a Fields) -> AnswerFields<'a> {
        AnswerFields::Made(fields.lines())
    }
}

impl<'a> From<&'a Block> for AnswerFields<'a> {
    fn from(block: &'a Block) -> AnswerFields<'a> {
        AnswerFields::Kept(block)
    }
}

/// The content of an answer, exactly as long as its `Content-Length` says, if it has one.
#[derive(Debug)]
pub enum Body<'a, F> {
    /// None: HEAD, 304, or an empty file.
    Empty,
    /// In memory that does not last: it is copied.
    Copied(&'a [u8]),
    /// In memory.
    Bytes(Bytes),
    /// A range of a file.
    File {
        /// The open file.
        file: F,
        /// Offset of the first byte.
        offset: u64,
        /// Its length.
        len: u64,
    },
    /// Several pieces, as for multipart/byteranges.
    Parts(Vec<Segment<F>>),
    /// Produced while it is sent, in pieces that the protocol asks for. It frames them, and says
    /// how, so that the answer's fields don't. To HEAD only the head is sent, and no piece is asked
    /// for.
    Stream {
        /// How long it will be.
        len: Option<u64>,
    },
}

impl<F> Body<'_, F> {
    /// How long it is, if that is known.
    pub fn content_len(&self) -> Option<u64> {
        match self {
            Body::Empty => Some(0),
            Body::Copied(bytes) => Some(bytes.len() as u64),
            Body::Bytes(bytes) => Some(bytes.len() as u64),
            Body::File { len, .. } => Some(*len),
            Body::Parts(parts) => Some(parts.iter().map(Segment::content_len).sum()),
            Body::Stream { len } => *len,
        }
    }
}
