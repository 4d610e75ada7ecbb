//! The body of an answer that is produced while it is sent: its framing, and when its next piece is
//! wanted.

use crate::out::{Out, Segment};

/// While so many bytes wait to be sent, no further piece of a body is asked for; per connection.
/// What a connection holds of a stream is this and one piece.
pub const STREAM_QUEUED_MAX: u64 = 64 * 1024;

/// How the client is told where the body ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Delimited {
    /// By `Content-Length`.
    Length,
    /// By the last chunk (RFC 9112, section 7.1).
    Chunks,
    /// By the end of the connection: HTTP/1.0 knows no chunks.
    #[default]
    Close,
}

/// A body that is being produced.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stream {
    /// Bytes that the head promised and that have not come.
    left: u64,
    delimited: Delimited,
    /// The output has room for the next piece.
    room: bool,
    /// The next piece was asked for.
    asked: bool,
    /// The connection may be kept when it has ended.
    pub(super) keep: bool,
    /// The request body was not read to its end.
    pub(super) unread: bool,
    /// The end of the connection says that the body is whole, which is not true yet.
    pub(super) open_ended: bool,
    /// Nothing more will come, although it is not whole.
    pub(super) failed: bool,
}

impl Stream {
    /// A body of this length, if that is known, for a client of HTTP/1.0 or 1.1.
    pub(super) fn new(len: Option<u64>, http10: bool) -> Stream {
        let delimited = match len {
            Some(_) => Delimited::Length,
            None if http10 => Delimited::Close,
            None => Delimited::Chunks,
        };
        let open_ended = delimited == Delimited::Close;
        Stream { left: len.unwrap_or(0), delimited, open_ended, ..Stream::default() }
    }

    /// How the body ends.
    pub(super) fn delimited(&self) -> Delimited {
        self.delimited
    }

    /// The field of the head that says so. In an answer to HEAD no chunk follows, so that none is
    /// announced (RFC 9110, section 9.3.2, leaves it open).
    pub(super) fn field(&self, head_only: bool) -> String {
        match self.delimited {
            Delimited::Length => format!("Content-Length: {}\r\n", self.left),
            Delimited::Chunks if !head_only => "Transfer-Encoding: chunked\r\n".to_owned(),
            Delimited::Chunks | Delimited::Close => String::new(),
        }
    }

    /// Whether the next piece is wanted now.
    pub(super) fn wants_piece(&self) -> bool {
        self.room && !self.asked
    }

    /// Whether a piece was asked for and has not come.
    pub(super) fn is_asked(&self) -> bool {
        self.asked
    }

    /// The next piece was asked for.
    pub(super) fn ask(&mut self) {
        self.asked = true;
    }

    /// Looks again whether there is room for a piece.
    pub(super) fn look<F>(&mut self, out: &Out<F>) {
        self.room = out.has_room() && out.queued() < STREAM_QUEUED_MAX;
    }

    /// Takes a piece in its framing; false when the body is longer or shorter than was promised.
    pub(super) fn push<F>(&mut self, content: Segment<F>, last: bool, out: &mut Out<F>) -> bool {
        self.asked = false;
        let len = content.content_len();
        if self.delimited == Delimited::Length {
            if len > self.left || last && len < self.left {
                return false;
            }
            self.left -= len;
        }
        // A chunk of no bytes would be the last (RFC 9112, section 7.1).
        let in_chunk = self.delimited == Delimited::Chunks && len > 0;
        if in_chunk {
            out.push_inline(&[format!("{len:x}\r\n").as_bytes()]);
        }
        out.push(content);
        if in_chunk {
            out.push_inline(&[b"\r\n"]);
        }
        if last && self.delimited == Delimited::Chunks {
            out.push_inline(&[b"0\r\n\r\n"]);
        }
        self.look(out);
        true
    }
}
