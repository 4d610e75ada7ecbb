//! The framing of a request body (RFC 9112, sections 6.2 and 7.1), one byte stream at a time.
//!
//! The reader eats framing and tells how many of the next bytes are body; body bytes themselves
//! stay with the caller until it says how many it took.

use crate::error::Refusal;
use crate::field::is_token;
use crate::framing::Framing;

/// Most bytes of chunk extensions in one body; they carry nothing that is used here.
pub const EXTENSION_BYTES_MAX: u32 = 4 * 1024;

/// Most bytes of trailer fields in one body; they are checked and dropped.
pub const TRAILER_BYTES_MAX: u32 = 8 * 1024;

/// Most digits of a chunk size: what a `u64` below 2^60 needs.
const SIZE_DIGITS_MAX: u8 = 15;

/// Where in the body the reader stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Size,
    Extension(Ext),
    SizeFeed,
    Data,
    DataReturn,
    DataFeed,
    Trailer(Line),
    End,
}

/// Where in a chunk extension: `*( ";" name [ "=" ( token / quoted-string ) ] )`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ext {
    NameStart,
    Name,
    ValueStart,
    Value,
    Quoted,
    Escaped,
    AfterQuoted,
}

/// Where in a trailer line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Start,
    Name,
    Value,
    Feed,
    LastFeed,
}

/// What the bytes after the framing are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The next bytes of the input, at least one, are body: take them with [`BodyReader::take`].
    Body(usize),
    /// More input is needed.
    More,
    /// The body is complete.
    End,
}

/// Reads one body.
#[derive(Clone, Copy, Debug)]
pub struct BodyReader {
    at: At,
    chunked: bool,
    digits: u8,
    extension_bytes: u32,
    trailer_bytes: u32,
    remaining: u64,
    total: u64,
    bytes_max: u64,
}

impl BodyReader {
    /// A reader for a body framed like this, of at most `bytes_max` bytes.
    pub fn new(framing: Framing, bytes_max: u64) -> BodyReader {
        let (at, remaining) = match framing {
            Framing::None => (At::End, 0),
            Framing::Length(0) => (At::End, 0),
            Framing::Length(length) => (At::Data, length),
            Framing::Chunked => (At::Size, 0),
        };
        BodyReader {
            at,
            chunked: framing == Framing::Chunked,
            digits: 0,
            extension_bytes: 0,
            trailer_bytes: 0,
            remaining,
            total: 0,
            bytes_max,
        }
    }

    /// True once the whole body, trailers included, was read.
    pub fn is_complete(&self) -> bool {
        self.at == At::End
    }

    /// Bytes of body still to come, when the framing tells.
    pub fn remaining(&self) -> Option<u64> {
        (!self.chunked).then_some(self.remaining)
    }

    /// Whether its length was told and is beyond the limit: nothing of it is taken.
    pub fn is_too_long(&self) -> bool {
        !self.chunked && self.remaining > self.bytes_max
    }

    /// Eats framing from the front of `input`: how much of it, and what comes then.
    ///
    /// # Errors
    /// [`Refusal::BadChunk`] for broken framing, [`Refusal::BodyTooLarge`] past the limit.
    pub fn read(&mut self, input: &[u8]) -> Result<(usize, Piece), Refusal> {
        if self.is_too_long() {
            return Err(Refusal::BodyTooLarge);
        }
        for (eaten, &byte) in input.iter().enumerate() {
            match self.at {
                At::End => return Ok((eaten, Piece::End)),
                At::Data => {
                    let ready = self.remaining.min((input.len() - eaten) as u64) as usize;
                    return Ok((eaten, Piece::Body(ready)));
                }
                _ => self.at = self.step(byte)?,
            }
        }
        let piece = if self.at == At::End { Piece::End } else { Piece::More };
        Ok((input.len(), piece))
    }

    /// Counts `n` bytes of body as taken.
    ///
    /// # Panics
    /// In debug builds, when fewer than `n` bytes were ready.
    pub fn take(&mut self, n: usize) {
        debug_assert!(self.at == At::Data && n as u64 <= self.remaining);
        self.remaining -= (n as u64).min(self.remaining);
        self.total += n as u64;
        if self.remaining == 0 {
            self.at = if self.chunked { At::DataReturn } else { At::End };
        }
    }

    /// One byte of framing.
    fn step(&mut self, byte: u8) -> Result<At, Refusal> {
        match self.at {
            At::Size => self.size(byte),
            At::Extension(at) => self.extension(at, byte),
            At::SizeFeed if byte == b'\n' => self.size_ended(),
            At::DataReturn if byte == b'\r' => Ok(At::DataFeed),
            At::DataFeed if byte == b'\n' => {
                self.digits = 0;
                Ok(At::Size)
            }
            At::Trailer(at) => self.trailer(at, byte),
            _ => Err(Refusal::BadChunk),
        }
    }

    fn size(&mut self, byte: u8) -> Result<At, Refusal> {
        if let Some(digit) = (byte as char).to_digit(16) {
            self.digits += 1;
            if self.digits > SIZE_DIGITS_MAX {
                return Err(Refusal::BadChunk);
            }
            self.remaining = self.remaining << 4 | u64::from(digit);
            return Ok(At::Size);
        }
        match byte {
            _ if self.digits == 0 => Err(Refusal::BadChunk),
            b'\r' => Ok(At::SizeFeed),
            b';' => Ok(At::Extension(Ext::NameStart)),
            _ => Err(Refusal::BadChunk),
        }
    }

    fn size_ended(&mut self) -> Result<At, Refusal> {
        if self.remaining == 0 {
            return Ok(At::Trailer(Line::Start));
        }
        if self.remaining > self.bytes_max - self.total.min(self.bytes_max) {
            return Err(Refusal::BodyTooLarge);
        }
        Ok(At::Data)
    }

    /// RFC 9112, section 7.1.1, without its "bad" white space.
    fn extension(&mut self, at: Ext, byte: u8) -> Result<At, Refusal> {
        self.extension_bytes += 1;
        if self.extension_bytes > EXTENSION_BYTES_MAX {
            return Err(Refusal::BadChunk);
        }
        let next = match (at, byte) {
            (Ext::Name | Ext::Value | Ext::AfterQuoted, b'\r') => return Ok(At::SizeFeed),
            (Ext::Name | Ext::Value | Ext::AfterQuoted, b';') => Ext::NameStart,
            (Ext::NameStart | Ext::Name, byte) if is_token(byte) => Ext::Name,
            (Ext::Name, b'=') => Ext::ValueStart,
            (Ext::ValueStart, b'"') => Ext::Quoted,
            (Ext::ValueStart | Ext::Value, byte) if is_token(byte) => Ext::Value,
            (Ext::Quoted, b'"') => Ext::AfterQuoted,
            (Ext::Quoted, b'\\') => Ext::Escaped,
            (Ext::Quoted | Ext::Escaped, byte) if is_field_byte(byte) => Ext::Quoted,
            _ => return Err(Refusal::BadChunk),
        };
        Ok(At::Extension(next))
    }

    /// RFC 9112, section 7.1.2: trailer fields, held to the grammar of field lines.
    fn trailer(&mut self, at: Line, byte: u8) -> Result<At, Refusal> {
        self.trailer_bytes += 1;
        if self.trailer_bytes > TRAILER_BYTES_MAX {
            return Err(Refusal::HeadTooLarge);
        }
        let next = match (at, byte) {
            (Line::Start, b'\r') => Line::LastFeed,
            (Line::LastFeed, b'\n') => return Ok(At::End),
            (Line::Start | Line::Name, byte) if is_token(byte) => Line::Name,
            (Line::Name, b':') => Line::Value,
            (Line::Value, b'\r') => Line::Feed,
            (Line::Value, byte) if is_field_byte(byte) => Line::Value,
            (Line::Feed, b'\n') => Line::Start,
            _ => return Err(Refusal::BadChunk),
        };
        Ok(At::Trailer(next))
    }
}

/// True for what a field value may hold: visible bytes, space, tab (RFC 9110, section 5.5).
fn is_field_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `input` in pieces of `step` bytes; the body and what was left over.
    fn read_all(framing: Framing, input: &[u8], step: usize) -> Result<(Vec<u8>, usize), Refusal> {
        let mut reader = BodyReader::new(framing, 1000);
        let (mut body, mut at, mut end) = (Vec::new(), 0, 0);
        loop {
            let (eaten, piece) = reader.read(&input[at..end])?;
            at += eaten;
            match piece {
                Piece::End => return Ok((body, input.len() - at)),
                Piece::Body(ready) => {
                    body.extend(&input[at..at + ready]);
                    reader.take(ready);
                    at += ready;
                }
                Piece::More if end == input.len() => return Ok((body, usize::MAX)),
                Piece::More => end = (end + step).min(input.len()),
            }
        }
    }

    #[test]
    fn a_body_is_the_same_however_its_bytes_arrive() {
        let chunked =
            b"4\r\nWiki\r\n6;a=b;c=\"d\\\"\"\r\npedia \r\nb\r\nin chunks.!\r\n0\r\nX: y\r\n\r\nGET";
        for step in 1..chunked.len() {
            let read = read_all(Framing::Chunked, chunked, step);
            assert_eq!(read, Ok((b"Wikipedia in chunks.!".to_vec(), 3)), "step {step}");
            let read = read_all(Framing::Length(5), b"helloGET", step);
            assert_eq!(read, Ok((b"hello".to_vec(), 3)), "step {step}");
        }
    }

    #[test]
    fn broken_chunks_are_refused() {
        for text in [
            "\r\n",
            "g\r\n",
            "4 \r\n",
            "4\n",
            " 4\r\n",
            "+4\r\n",
            "0x4\r\n",
            "4;\r\n",
            "4; a\r\n",
            "4;a=\r\n",
            "4;a=\"\r\n",
            "4;a=\"b\"c\r\n",
            "4\r\nWikix",
            "4\r\nWiki\n",
            "4\r\nWiki\rx",
            "0\r\n X: y\r\n\r\n",
            "0\r\nX y\r\n\r\n",
            "0\r\nX : y\r\n\r\n",
            "0\r\n\n",
            "0\r\nX: a\nb",
            "0\r\nX: \0\r\n\r\n",
            "1000000000000000\r\n",
            "4;a\rb\r\n",
        ] {
            let read = read_all(Framing::Chunked, text.as_bytes(), 1);
            assert_eq!(read, Err(Refusal::BadChunk), "{text:?}");
        }
    }

    #[test]
    fn every_bound_of_a_chunked_body_holds() {
        let long = format!("1;{}\r\n", "a".repeat(EXTENSION_BYTES_MAX as usize));
        assert_eq!(read_all(Framing::Chunked, long.as_bytes(), 9), Err(Refusal::BadChunk));
        let many = "1;a=bbbbbbbbbb\r\nx\r\n".repeat(400);
        assert_eq!(read_all(Framing::Chunked, many.as_bytes(), 9), Err(Refusal::BadChunk));
        let trailer = format!("0\r\nX: {}\r\n\r\n", "a".repeat(TRAILER_BYTES_MAX as usize));
        assert_eq!(read_all(Framing::Chunked, trailer.as_bytes(), 9), Err(Refusal::HeadTooLarge));
        assert_eq!(read_all(Framing::Chunked, b"3e9\r\n", 9), Err(Refusal::BodyTooLarge));
        let sum = format!("3e8\r\n{}\r\n1\r\n", "a".repeat(1000));
        assert_eq!(read_all(Framing::Chunked, sum.as_bytes(), 9), Err(Refusal::BodyTooLarge));
    }

    #[test]
    fn an_empty_body_is_complete_at_once() {
        assert!(BodyReader::new(Framing::None, 0).is_complete());
        assert_eq!(BodyReader::new(Framing::None, 0).read(b"GET"), Ok((0, Piece::End)));
    }
}
