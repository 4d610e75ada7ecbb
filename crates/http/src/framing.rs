//! What an HTTP/1 head says of its connection, and of where its body ends (RFC 9112, sections 6
//! and 9.3). Requests and answers are read by the same rules: two parsers that differ are how
//! requests are smuggled (section 11.2).

use crate::error::Refusal;
use crate::field::{Lines, Name};
use crate::head::{Content, Version};
use crate::list::elements;

/// How a body is framed (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Framing {
    /// No body.
    None,
    /// `Content-Length`.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
}

impl Framing {
    /// What it says of the content. Only a length above zero is one.
    pub fn content(self) -> Content {
        match self {
            Framing::None | Framing::Length(0) => Content::None,
            Framing::Length(len) => Content::Length(len),
            Framing::Chunked => Content::Unknown,
        }
    }
}

/// What a head says of the connection that it came by. It is no part of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// How the body is framed.
    pub framing: Framing,
    /// True when the connection may be kept after the answer.
    pub keep_alive: bool,
    /// True when the client waits for `100 Continue`.
    pub expects_continue: bool,
}

impl Hop {
    /// Reads the fields of a request.
    pub(crate) fn of_request(
        text: &[u8],
        fields: &Lines,
        version: Version,
    ) -> Result<Hop, Refusal> {
        let keep_alive = keeps_alive(text, fields, version);
        let mut hop = Hop { framing: Framing::None, keep_alive, expects_continue: false };
        const RELEVANT: u64 =
            Name::ContentLength.bit() | Name::TransferEncoding.bit() | Name::Expect.bit();
        if !fields.has_any(RELEVANT) {
            return Ok(hop);
        }
        let length = content_length(text, fields)?;
        let coded = transfer_encoding(text, fields)?;
        if coded && (length.is_some() || version == Version::Http10) {
            return Err(Refusal::AmbiguousFraming);
        }
        if let Some(span) = fields.of(Name::Expect).next() {
            if !span.of(text).eq_ignore_ascii_case(b"100-continue") {
                return Err(Refusal::UnknownExpectation);
            }
            // An HTTP/1.0 client cannot take a 100 (RFC 9110, section 10.1.1).
            hop.expects_continue = version == Version::Http11;
        }
        hop.framing = match length {
            _ if coded => Framing::Chunked,
            Some(length) if length > 0 => Framing::Length(length),
            _ => Framing::None,
        };
        Ok(hop)
    }
}

/// RFC 9112, section 9.3: whether the connection persists.
pub(crate) fn keeps_alive(text: &[u8], fields: &Lines, version: Version) -> bool {
    let (mut close, mut keep) = (false, version == Version::Http11);
    for span in fields.of(Name::Connection) {
        for option in elements(span.of(text)) {
            close |= option.eq_ignore_ascii_case(b"close");
            keep |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }
    keep && !close
}

/// The length that is told, if one is.
pub(crate) fn content_length(text: &[u8], fields: &Lines) -> Result<Option<u64>, Refusal> {
    let mut spans = fields.of(Name::ContentLength);
    let Some(span) = spans.next() else { return Ok(None) };
    // A repeated field, even of equal value, shows that something on the way edits framing.
    if spans.next().is_some() {
        return Err(Refusal::BadLength);
    }
    length(span.of(text)).map(Some).ok_or(Refusal::BadLength)
}

/// The value of `Content-Length` (RFC 9110, section 8.6): a number of at most 19 digits.
pub fn length(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 19 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

/// True when the body is chunked. RFC 9112, section 6.1: chunked is applied last and only once.
pub(crate) fn transfer_encoding(text: &[u8], fields: &Lines) -> Result<bool, Refusal> {
    let (mut chunked, mut other, mut last) = (0, 0, false);
    for span in fields.of(Name::TransferEncoding) {
        for coding in elements(span.of(text)) {
            last = coding.eq_ignore_ascii_case(b"chunked");
            chunked += u32::from(last);
            other += u32::from(!last);
        }
    }
    match (chunked, other) {
        (0, 0) => Ok(false),
        (1, 0) => Ok(true),
        (0, _) => Err(Refusal::UnknownCoding),
        (1, _) if last => Err(Refusal::UnknownCoding),
        _ => Err(Refusal::AmbiguousFraming),
    }
}
