//! From the bytes of HTTP/1 to a [`Head`]: where a head ends, and whether it may be believed.
//!
//! httparse knows the grammar. What is added is what keeps a request from meaning one thing to us
//! and another to a proxy in front of us: here line ends and folding (RFC 9112, sections 2.2 and
//! 5.2), then [`Host`](crate::target) and [the length of the body](crate::framing).

use std::mem::MaybeUninit;

use crate::error::Refusal;
use crate::field::{Line, Lines, Name, Span, is_token};
use crate::framing::Hop;
use crate::head::{Head, Method, Version};
use crate::limits::Limits;
use crate::target::{read_host, split_target};

/// Most field lines that any setting of `fields_max` can allow: the parser's array is on the stack.
pub const FIELDS_CAP: usize = 128;

/// Bytes of a request line beside its target: the longest method and ` HTTP/1.1\r\n`.
const LINE_OVERHEAD: usize = 32;

/// The search for the end of a head. It resumes where it stopped, so that a head that comes one
/// byte at a time costs linear work.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadScan {
    searched: u32,
    line_start: u32,
    in_fields: bool,
}

impl HeadScan {
    /// Looks at the bytes that are new since the last call; `Some` is the length of the head with
    /// its blank line.
    ///
    /// # Errors
    /// Refuses as soon as a line cannot be part of a valid head, or a limit is passed.
    pub fn advance(&mut self, input: &[u8], limits: &Limits) -> Result<Option<usize>, Refusal> {
        while let Some(at) = memchr::memchr(b'\n', &input[self.searched as usize..]) {
            let feed = self.searched as usize + at;
            let start = self.line_start as usize;
            let end = feed + 1;
            let line = &input[start..feed];
            self.check_line(line, end, limits)?;
            let Some((b'\r', line)) = line.split_last() else {
                return Err(Refusal::BareLineEnd);
            };
            if self.in_fields && matches!(line, [b' ' | b'\t', ..]) {
                return Err(Refusal::ObsoleteFold);
            }
            self.searched = end as u32;
            self.line_start = end as u32;
            if line.is_empty() && self.in_fields {
                return Ok(Some(end));
            }
            // Empty lines before the request line are passed over (RFC 9112, section 2.2).
            self.in_fields |= !line.is_empty();
        }
        self.searched = input.len() as u32;
        self.check_line(&input[self.line_start as usize..], input.len(), limits)?;
        Ok(None)
    }

    /// Checks a line that ends, or comes to so far, at `end`; the same way for both, so that how a
    /// head is split does not change what it is refused for.
    fn check_line(&self, line: &[u8], end: usize, limits: &Limits) -> Result<(), Refusal> {
        let start = self.line_start as usize;
        if !self.in_fields {
            // A TLS hello or other noise is told apart at its first byte, not after a time-out.
            if line.first().is_some_and(|&byte| !is_token(byte) && byte != b'\r') {
                return Err(Refusal::Malformed);
            }
            let line = &line[..line.len().min(limits.head_bytes_max + 1 - start)];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.len() > limits.target_bytes_max + LINE_OVERHEAD {
                return Err(Refusal::TargetTooLong);
            }
        }
        if end > limits.head_bytes_max {
            return Err(Refusal::HeadTooLarge);
        }
        Ok(())
    }
}

/// Parses one whole head, blank line included, into `head`; what it says of the connection comes
/// back.
///
/// # Errors
/// Any refusal of RFC 9112's rules for request lines, fields and framing.
pub fn parse_head(bytes: &[u8], limits: &Limits, head: &mut Head) -> Result<Hop, Refusal> {
    let mut headers = [const { MaybeUninit::<httparse::Header<'_>>::uninit() }; FIELDS_CAP];
    let allowed = limits.fields_max.min(FIELDS_CAP);
    let mut parsed = httparse::Request::new(&mut []);
    let status = httparse::ParserConfig::default().parse_request_with_uninit_headers(
        &mut parsed,
        bytes,
        &mut headers[..allowed],
    );
    let len = match status {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => return Err(Refusal::Malformed),
        Err(error) => return Err(refusal_of(error, bytes)),
    };
    let (Some(method), Some(target)) = (parsed.method, parsed.path) else {
        return Err(Refusal::Malformed);
    };
    head.len = len;
    head.method = Method::from_token(method.as_bytes());
    head.version = version_of(parsed.version);
    head.method_token = Span::within(bytes, method.as_bytes());
    head.target = Span::within(bytes, target.as_bytes());
    if target.len() > limits.target_bytes_max {
        return Err(Refusal::TargetTooLong);
    }
    read_fields(bytes, parsed.headers, &mut head.fields);
    split_target(bytes, head)?;
    read_host(bytes, head)?;
    let hop = Hop::of_request(bytes, &head.fields, head.version)?;
    head.content = hop.framing.content();
    Ok(hop)
}

/// The field lines of a head, of a request or an answer.
pub(crate) fn read_fields(bytes: &[u8], parsed: &[httparse::Header<'_>], fields: &mut Lines) {
    // The parser has taken off the white space around values.
    fields.fill(parsed.iter().map(|field| {
        let name = field.name.as_bytes();
        Line {
            name: Span::within(bytes, name),
            value: Span::within(bytes, field.value),
            known: Name::from_bytes(name),
        }
    }));
}

/// The version that the parser has found.
pub(crate) fn version_of(minor: Option<u8>) -> Version {
    if minor == Some(0) { Version::Http10 } else { Version::Http11 }
}

fn refusal_of(error: httparse::Error, bytes: &[u8]) -> Refusal {
    match error {
        httparse::Error::TooManyHeaders => Refusal::HeadTooLarge,
        httparse::Error::Version if names_a_version(bytes) => Refusal::UnknownVersion,
        _ => Refusal::Malformed,
    }
}

/// True when the request line is three words of which the last is `HTTP/` digit `.` digit, so that
/// only the number is unknown.
fn names_a_version(bytes: &[u8]) -> bool {
    let bytes = bytes.trim_ascii_start();
    let line = &bytes[..memchr::memchr(b'\r', bytes).unwrap_or(bytes.len())];
    let mut words = line.split(|&b| b == b' ').skip(2);
    matches!((words.next(), words.next()), (Some([b'H', b'T', b'T', b'P', b'/', a, b'.', b]), None)
        if a.is_ascii_digit() && b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_comes_byte_by_byte_is_searched_once() {
        let limits = Limits::default();
        let start = "GET /a HTTP/1.1\r\nHost: a\r\nX: ";
        let value = "x".repeat(limits.head_bytes_max - start.len() - 4);
        let head = format!("{start}{value}\r\n\r\n").into_bytes();
        let mut scan = HeadScan::default();
        for end in 1..head.len() {
            assert_eq!(scan.advance(&head[..end], &limits), Ok(None));
            assert_eq!(scan.searched as usize, end, "the next search begins with the next byte");
        }
        assert_eq!(scan.advance(&head, &limits), Ok(Some(head.len())));
    }

    #[test]
    fn what_was_searched_is_not_looked_at_again() {
        let limits = Limits::default();
        let mut scan = HeadScan::default();
        let mut head = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
        assert_eq!(scan.advance(&head, &limits), Ok(None));
        head.fill(b'\n');
        head.extend_from_slice(b"\r\n");
        assert_eq!(scan.advance(&head, &limits), Ok(Some(head.len())));
    }
}
