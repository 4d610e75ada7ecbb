//! What a request is for: the form of its target, and the host (RFC 9112, section 3; RFC 9110,
//! section 7.2).

use crate::error::Refusal;
use crate::field::{Line, Name, Span};
use crate::head::{Head, Method, TargetForm, Version};

/// RFC 9112, section 3.2: which of the four forms the target has, and where its path lies.
pub(crate) fn split_target(text: &[u8], head: &mut Head) -> Result<(), Refusal> {
    let target = head.target.of(text);
    // One look tells of most targets that they have neither a query nor a fragment.
    let mark = memchr::memchr2(b'#', b'?', target);
    if mark.is_some_and(|at| memchr::memchr(b'#', &target[at..]).is_some()) {
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
    let question = mark.map_or(end, |at| start + at);
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
pub(crate) fn read_host(text: &[u8], head: &mut Head) -> Result<(), Refusal> {
    let mut hosts = head.fields.of(Name::Host);
    let (first, second) = (hosts.next(), hosts.next());
    drop(hosts);
    if let Some(span) = first {
        let host = host_len(span.of(text)).filter(|_| second.is_none());
        let len = host.ok_or(Refusal::BadHost)?;
        if head.form != TargetForm::Absolute {
            head.host = Span { start: span.start, end: span.start + len as u32 };
            head.authority = span;
        }
    } else if head.version == Version::Http11 {
        return Err(Refusal::BadHost);
    }
    if head.form == TargetForm::Absolute {
        let (name, known) = (Span::default(), Some(Name::Host));
        head.fields.replace(Line { name, value: head.authority, known });
    }
    Ok(())
}

/// The characters of a registered name (RFC 3986, section 3.2.2).
static REG_NAME: [bool; 256] = {
    let (mut table, mut byte) = ([false; 256], 0);
    while byte < 256 {
        table[byte] = matches!(byte as u8,
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9'
            | b'-' | b'.' | b'_' | b'~' | b'%' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*'
            | b'+' | b',' | b';' | b'=');
        byte += 1;
    }
    table
};

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
        let is_other = |byte: &u8| !REG_NAME[usize::from(*byte)];
        value.iter().position(is_other).unwrap_or(value.len())
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
