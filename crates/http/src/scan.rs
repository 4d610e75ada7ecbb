//! From bytes to a [`Head`]: where a head ends, and whether it may be believed.
//!
//! httparse knows the grammar. What is added here is what keeps a request from meaning one thing
//! to us and another to a proxy in front of us: line ends, folding, `Host`, and the length of the
//! body (RFC 9112, sections 2.2, 3.2, 5.2, 6.3 and 11.2).

use std::mem::MaybeUninit;

use crate::error::Refusal;
use crate::head::{Framing, Head, Method, Name, Span, TargetForm, Version};
use crate::limits::Limits;

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

/// Parses one whole head, blank line included, into `head`.
///
/// # Errors
/// Any refusal of RFC 9112's rules for request lines, fields and the length of the body.
pub fn parse_head(bytes: &[u8], limits: &Limits, head: &mut Head) -> Result<(), Refusal> {
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
    head.version = if parsed.version == Some(0) { Version::Http10 } else { Version::Http11 };
    head.method_token = span_of(bytes, method.as_bytes());
    head.target = span_of(bytes, target.as_bytes());
    if target.len() > limits.target_bytes_max {
        return Err(Refusal::TargetTooLong);
    }
    head.present = 0;
    head.clear_fields();
    for field in parsed.headers.iter() {
        if let Some(name) = Name::from_bytes(field.name.as_bytes()) {
            head.add_field(name, span_of(bytes, trim(field.value)));
        }
    }
    split_target(bytes, head)?;
    read_host(bytes, head)?;
    read_connection(bytes, head);
    read_framing(bytes, limits, head)
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

/// The offsets of `part` within `all`, of which it is a subslice.
fn span_of(all: &[u8], part: &[u8]) -> Span {
    let start = (part.as_ptr() as usize).wrapping_sub(all.as_ptr() as usize);
    debug_assert!(start + part.len() <= all.len());
    Span { start: start as u32, end: (start + part.len()) as u32 }
}

/// Strips optional white space (RFC 9110, section 5.6.3).
pub(crate) fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// True for the characters of a token (RFC 9110, section 5.6.2).
pub(crate) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// RFC 9112, section 3.2: which of the four forms the target has, and where its path lies.
fn split_target(bytes: &[u8], head: &mut Head) -> Result<(), Refusal> {
    let target = head.target.of(bytes);
    if memchr::memchr(b'#', target).is_some() {
        return Err(Refusal::Malformed);
    }
    let start = head.target.start as usize;
    (head.host, head.authority) = Default::default();
    let path_start = match target {
        [b'/', ..] => {
            head.form = TargetForm::Origin;
            start
        }
        b"*" if head.method == Method::Options => {
            head.form = TargetForm::Asterisk;
            start
        }
        _ if head.method == Method::Connect => {
            head.form = TargetForm::Authority;
            start
        }
        _ => {
            head.form = TargetForm::Absolute;
            start + absolute_path_start(target, start, head)?
        }
    };
    let end = head.target.end as usize;
    let rest = &bytes[path_start..end];
    let question = memchr::memchr(b'?', rest).map_or(end, |at| path_start + at);
    head.path = Span { start: path_start as u32, end: question as u32 };
    head.query = Span { start: (question + 1).min(end) as u32, end: end as u32 };
    Ok(())
}

/// Reads `http://authority` off an absolute-form target; the rest is path and query.
fn absolute_path_start(target: &[u8], base: usize, head: &mut Head) -> Result<usize, Refusal> {
    let scheme = [&b"http://"[..], b"https://"]
        .into_iter()
        .find(|s| target.len() > s.len() && target[..s.len()].eq_ignore_ascii_case(s))
        .ok_or(Refusal::Malformed)?
        .len();
    let rest = &target[scheme..];
    let len = rest.iter().position(|b| matches!(b, b'/' | b'?')).unwrap_or(rest.len());
    let host = host_len(&rest[..len]).filter(|&len| len > 0).ok_or(Refusal::BadHost)?;
    head.host = Span { start: (base + scheme) as u32, end: (base + scheme + host) as u32 };
    head.authority = Span { end: (base + scheme + len) as u32, ..head.host };
    Ok(scheme + len)
}

/// RFC 9112, section 3.2: one valid `Host`, required in HTTP/1.1. An absolute target wins over it.
fn read_host(bytes: &[u8], head: &mut Head) -> Result<(), Refusal> {
    let mut hosts = head.spans(Name::Host);
    let (first, second) = (hosts.next(), hosts.next());
    drop(hosts);
    if let Some(span) = first {
        let host = host_len(span.of(bytes)).filter(|_| second.is_none());
        let len = host.ok_or(Refusal::BadHost)?;
        if head.form != TargetForm::Absolute {
            head.host = Span { start: span.start, end: span.start + len as u32 };
            head.authority = span;
        }
    } else if head.version == Version::Http11 {
        return Err(Refusal::BadHost);
    }
    if head.form == TargetForm::Absolute {
        head.set_host_field(head.authority);
    }
    Ok(())
}

/// Length of the host in `uri-host [ ":" port ]` (RFC 3986, section 3.2.2); `None` when it is none.
fn host_len(value: &[u8]) -> Option<usize> {
    let len = if value.first() == Some(&b'[') {
        let close = memchr::memchr(b']', value)?;
        let inside = &value[1..close];
        let valid = !inside.is_empty()
            && inside.iter().all(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.'));
        if !valid {
            return None;
        }
        close + 1
    } else {
        let len = memchr::memchr(b':', value).unwrap_or(value.len());
        let valid = |b: &u8| b.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(b);
        if !value[..len].iter().all(valid) {
            return None;
        }
        len
    };
    match &value[len..] {
        [] | [b':'] => Some(len),
        [b':', port @ ..] if is_port(port) => Some(len),
        _ => None,
    }
}

fn is_port(digits: &[u8]) -> bool {
    let is_number = digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit);
    is_number && digits.iter().fold(0, |n, digit| n * 10 + u32::from(digit - b'0')) <= 65_535
}

/// RFC 9112, section 9.3: whether the connection persists.
fn read_connection(bytes: &[u8], head: &mut Head) {
    let (mut close, mut keep) = (false, head.version == Version::Http11);
    for span in head.spans(Name::Connection) {
        for option in span.of(bytes).split(|&b| b == b',').map(trim) {
            close |= option.eq_ignore_ascii_case(b"close");
            keep |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }
    head.keep_alive = keep && !close;
}

/// RFC 9112, section 6: how the body is framed; anything ambiguous is refused (section 11.2).
fn read_framing(bytes: &[u8], limits: &Limits, head: &mut Head) -> Result<(), Refusal> {
    head.framing = Framing::None;
    head.expect_continue = false;
    const RELEVANT: u32 =
        Name::ContentLength.bit() | Name::TransferEncoding.bit() | Name::Expect.bit();
    if head.present & RELEVANT == 0 {
        return Ok(());
    }
    let length = content_length(bytes, head)?;
    let coded = transfer_encoding(bytes, head)?;
    if coded && (length.is_some() || head.version == Version::Http10) {
        return Err(Refusal::AmbiguousFraming);
    }
    let expect = head.spans(Name::Expect).next();
    if let Some(span) = expect {
        if !span.of(bytes).eq_ignore_ascii_case(b"100-continue") {
            return Err(Refusal::UnknownExpectation);
        }
        // An HTTP/1.0 client cannot take a 100 (RFC 9110, section 10.1.1).
        head.expect_continue = head.version == Version::Http11;
    }
    head.framing = match length {
        _ if coded => Framing::Chunked,
        Some(length) if length > limits.body_bytes_max => return Err(Refusal::BodyTooLarge),
        Some(length) if length > 0 => Framing::Length(length),
        _ => Framing::None,
    };
    Ok(())
}

fn content_length(bytes: &[u8], head: &Head) -> Result<Option<u64>, Refusal> {
    let mut spans = head.spans(Name::ContentLength);
    let Some(span) = spans.next() else { return Ok(None) };
    // A repeated field, even of equal value, shows that something on the way edits framing.
    if spans.next().is_some() {
        return Err(Refusal::BadLength);
    }
    let digits = span.of(bytes);
    if digits.is_empty() || digits.len() > 19 || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Refusal::BadLength);
    }
    Ok(Some(digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'))))
}

/// True when the body is chunked. RFC 9112, section 6.1: chunked is applied last and only once.
fn transfer_encoding(bytes: &[u8], head: &Head) -> Result<bool, Refusal> {
    let (mut chunked, mut other, mut last) = (0, 0, false);
    for span in head.spans(Name::TransferEncoding) {
        for coding in span.of(bytes).split(|&b| b == b',').map(trim) {
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
