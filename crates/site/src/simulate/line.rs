//! One line of an access log: the common and the combined format, and objects of JSON.

use std::net::IpAddr;

use flyball_http::End;
use serde_json::Value;

/// What a replay needs of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The host that was asked, in lower case and without its port; empty if the log does not say.
    pub(super) host: Vec<u8>,
    /// The path, as it was sent, without the query.
    pub(super) path: Vec<u8>,
    pub(super) status: u16,
    /// Bytes of the answer, if the log says so.
    pub(super) bytes: Option<u64>,
    /// The path of the page that led here, if it is told.
    pub(super) referer: Option<Vec<u8>>,
}

/// What a line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Entry(Entry),
    /// A request, but not one for a file, or not all of one: another method, one that was not
    /// understood, or an answer that was cut, if the log says that.
    Other,
    Malformed,
}

/// Keys of JSON under which servers write the same thing; the first that is there counts.
const METHOD: &[&str] = &["method", "request_method"];
const TARGET: &[&str] = &["path", "uri", "target", "request_uri", "url"];
const HOST: &[&str] = &["host", "http_host", "vhost", "server_name"];
const REQUEST: &[&str] = &["request", "request_line"];
const STATUS: &[&str] = &["status", "status_code"];
const BYTES: &[&str] = &["bytes_sent", "bytes", "body_bytes_sent", "size", "length"];
const END: &[&str] = &["end"];
const REFERER: &[&str] = &["referer", "http_referer", "referrer"];

/// Reads a line without its end.
pub(super) fn parse(line: &[u8]) -> Line {
    let line = line.trim_ascii();
    match line.first() {
        Some(b'{') => json(line).unwrap_or(Line::Malformed),
        _ if End::is_cut(line) => Line::Other,
        _ => combined(line).unwrap_or(Line::Malformed),
    }
}

/// `ADDRESS - USER [TIME] "METHOD TARGET VERSION" STATUS BYTES`, and then perhaps `"REFERER"`; and
/// before all perhaps `HOST:PORT`.
fn combined(line: &[u8]) -> Option<Line> {
    let (request, rest) = quoted(line)?;
    let mut fields = rest.splitn(2, |&byte| byte == b'"');
    let mut numbers =
        fields.next()?.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let status = number(numbers.next()?).filter(|status| (100..1000).contains(status))?;
    let bytes = match numbers.next()? {
        b"-" => None,
        digits => Some(number(digits)?),
    };
    let referer = fields.next().and_then(|rest| rest.split(|&byte| byte == b'"').next());
    let mut words = request.split(|&byte| byte == b' ');
    let (method, target) = (words.next()?, words.next());
    let host = host_before(line).unwrap_or_default();
    Some(entry(method, (host, target), status as u16, bytes, referer))
}

/// The host that stands before the address, as in the `vhost_combined` of Apache.
fn host_before(line: &[u8]) -> Option<&[u8]> {
    let mut words = line.split(|&byte| byte == b' ');
    let (first, second) = (words.next()?, words.next()?);
    let is_address =
        |word: &[u8]| std::str::from_utf8(word).is_ok_and(|text| text.parse::<IpAddr>().is_ok());
    (is_address(second) && !is_address(first)).then_some(first)
}

/// The first quoted text, and what follows it.
fn quoted(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = memchr::memchr(b'"', line)?;
    let body = &line[start + 1..];
    let is_end = |&at: &usize| at == 0 || body[at - 1] != b'\\';
    let end = memchr::memchr_iter(b'"', body).find(is_end)?;
    Some((&body[..end], &body[end + 1..]))
}

fn json(line: &[u8]) -> Option<Line> {
    let Ok(Value::Object(object)) = serde_json::from_slice(line) else { return None };
    // Some servers put what was asked into an object of its own.
    let inner = object.get("request").and_then(Value::as_object);
    let find = |keys: &[&str]| {
        let objects = [Some(&object), inner];
        let found = objects.into_iter().flatten();
        found.flat_map(|object| keys.iter().filter_map(|key| object.get(*key))).next()
    };
    let status = find(STATUS).and_then(as_number).filter(|status| (100..1000).contains(status))?;
    let bytes = find(BYTES).and_then(as_number);
    let referer = find(REFERER).and_then(Value::as_str).map(str::as_bytes);
    let request = find(REQUEST).and_then(Value::as_str);
    let (method, target) = match (find(METHOD).and_then(Value::as_str), request) {
        (Some(method), _) => (method, find(TARGET).and_then(Value::as_str)),
        (None, Some(request)) => {
            let mut words = request.split(' ');
            (words.next()?, words.next())
        }
        (None, None) => return None,
    };
    let target = target.map(str::as_bytes);
    if find(END).and_then(Value::as_str).is_some_and(|end| End::is_cut(end.as_bytes())) {
        return Some(Line::Other);
    }
    let host = find(HOST).and_then(Value::as_str).unwrap_or_default().as_bytes();
    Some(entry(method.as_bytes(), (host, target), status as u16, bytes, referer))
}

/// A number, or its digits in a string.
fn as_number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| number(value.as_str()?.as_bytes()))
}

fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

fn entry(
    method: &[u8],
    (host, target): (&[u8], Option<&[u8]>),
    status: u16,
    bytes: Option<u64>,
    referer: Option<&[u8]>,
) -> Line {
    let target = target.map(unescaped);
    let path = target.as_deref().and_then(path_of);
    match (method, path) {
        (b"GET" | b"HEAD", Some(path)) => {
            // The length of what was not sent is that of nothing.
            let bytes = bytes.filter(|_| method == b"GET");
            let referer = referer.map(unescaped).and_then(|referer| path_of(&referer));
            // What a target names holds, whatever the field says (RFC 9112, section 3.2.2).
            let host = host_name(target.as_deref().and_then(host_of).unwrap_or(host));
            Line::Entry(Entry { host, path, status, bytes, referer })
        }
        _ => Line::Other,
    }
}

/// What follows the scheme of a URL; `None` of another target.
fn behind_scheme(target: &[u8]) -> Option<&[u8]> {
    let schemes: [&[u8]; 2] = [b"http://", b"https://"];
    schemes.iter().find_map(|scheme| target.strip_prefix(*scheme))
}

/// The host and port of a URL.
fn host_of(target: &[u8]) -> Option<&[u8]> {
    let rest = behind_scheme(target)?;
    rest.split(|byte| b"/?#".contains(byte)).next()
}

/// A host as one is told from another: in lower case, without its port; empty where it is `-`.
fn host_name(host: &[u8]) -> Vec<u8> {
    let port = host.iter().rposition(|&byte| byte == b':');
    let port = port.filter(|at| host[at + 1..].iter().all(u8::is_ascii_digit));
    let name = &host[..port.unwrap_or(host.len())];
    if name == b"-" { Vec::new() } else { name.to_ascii_lowercase() }
}

/// The path of a target or of a URL, without its query.
fn path_of(target: &[u8]) -> Option<Vec<u8>> {
    let target = match behind_scheme(target) {
        // The host ends where the path begins.
        Some(rest) => memchr::memchr(b'/', rest).map_or(&b"/"[..], |at| &rest[at..]),
        None => target,
    };
    let end = target.iter().position(|byte| b"?#".contains(byte)).unwrap_or(target.len());
    target.starts_with(b"/").then(|| target[..end].to_vec())
}

/// The bytes that `\xHH`, `\"` and `\\` stand for.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        let hex = behind.strip_prefix(b"x").and_then(|digits| digits.get(..2));
        let code = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        rest = match (first, code, behind) {
            (b'\\', Some(code), _) => {
                bytes.push(code);
                &behind[3..]
            }
            (b'\\', None, [escaped @ (b'"' | b'\\'), after @ ..]) => {
                bytes.push(*escaped);
                after
            }
            _ => {
                bytes.push(first);
                behind
            }
        };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(path: &str, bytes: Option<u64>, referer: Option<&str>) -> Line {
        let referer = referer.map(|referer| referer.as_bytes().to_vec());
        let (host, path) = (Vec::new(), path.as_bytes().to_vec());
        Line::Entry(Entry { host, path, status: 200, bytes, referer })
    }

    #[test]
    fn the_host_is_told_wherever_a_log_has_it() {
        let start = "127.0.0.1 - - [06/Nov/1994:08:49:37 +0000]";
        let flat = |host: &str| {
            format!("{{\"method\":\"GET\",\"path\":\"/a\",\"status\":200,\"host\":\"{host}\"}}")
        };
        let asked = "{\"method\":\"GET\",\"uri\":\"/a\",\"host\":\"[::1]:80\"}";
        for (line, expected) in [
            (format!("{start} \"GET /a HTTP/1.1\" 200 5"), ""),
            (format!("{start} \"GET http://X.test:80/a HTTP/1.1\" 200 5"), "x.test"),
            (format!("b.test:443 {start} \"GET /a HTTP/1.1\" 200 5"), "b.test"),
            (flat("C.test:8080"), "c.test"),
            (format!("{{\"request\":{asked},\"status\":200}}"), "[::1]"),
            (flat("-"), ""),
        ] {
            let Line::Entry(entry) = parse(line.as_bytes()) else { panic!("{line}") };
            assert_eq!(entry.host, expected.as_bytes(), "{line}");
        }
    }

    #[test]
    fn the_formats_that_servers_write_are_read() {
        let start = "127.0.0.1 - - [06/Nov/1994:08:49:37 +0000]";
        for (line, expected) in [
            (format!("{start} \"GET /a?q=1 HTTP/1.1\" 200 5"), file("/a", Some(5), None)),
            (
                format!("{start} \"GET /a HTTP/1.1\" 200 5 \"http://x/page?y\" \"me\""),
                file("/a", Some(5), Some("/page")),
            ),
            (format!("{start} \"GET /a\\x22b HTTP/1.1\" 200 -"), file("/a\"b", None, None)),
            (format!("{start} \"GET /a\\\"b HTTP/1.1\" 200 7 \"-\""), file("/a\"b", Some(7), None)),
            (format!("{start} \"HEAD /a HTTP/1.1\" 200 0"), file("/a", None, None)),
            (format!("{start} \"POST /a HTTP/1.1\" 200 5"), Line::Other),
            (format!("{start} \"-\" 400 - \"-\" \"-\""), Line::Other),
            (format!("{start} \"\\x16\\x03\" 400 0"), Line::Other),
            (
                "{\"method\":\"GET\",\"path\":\"/a\",\"status\":200,\"bytes_sent\":5,\
                 \"referer\":\"https://x/p\"}"
                    .into(),
                file("/a", Some(5), Some("/p")),
            ),
            (
                "{\"request\":\"GET /a?b HTTP/2\",\"status\":\"200\",\"body_bytes_sent\":\"5\"}"
                    .into(),
                file("/a", Some(5), None),
            ),
            (
                "{\"request\":{\"method\":\"GET\",\"uri\":\"/a\"},\"status\":200,\"size\":5}"
                    .into(),
                file("/a", Some(5), None),
            ),
            (
                "{\"method\":\"\",\"path\":null,\"status\":400,\"bytes_sent\":null}".into(),
                Line::Other,
            ),
        ] {
            assert_eq!(parse(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn whatever_else_there_is_is_malformed() {
        for line in [
            "",
            "GET /a HTTP/1.1",
            "- - - \"GET /a HTTP/1.1",
            "- - - \"GET /a HTTP/1.1\"",
            "- - - \"GET /a HTTP/1.1\" 200",
            "- - - \"GET /a HTTP/1.1\" 20000 5",
            "- - - \"GET /a HTTP/1.1\" 200 five",
            "- - - \"GET /a HTTP/1.1\" 200 99999999999999999999999",
            "{",
            "{}",
            "[1]",
            "{\"method\":\"GET\",\"path\":\"/a\"}",
            "{\"status\":200}",
        ] {
            assert_eq!(parse(line.as_bytes()), Line::Malformed, "{line}");
        }
    }

    proptest! {
        #[test]
        fn hostile_lines_never_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..60),
            text in "[{}\":,\\\\x0-9A-Z/ ]{0,60}",
        ) {
            parse(&bytes);
            parse(text.as_bytes());
            parse(format!("- \"GET {text} 1\" 200 5 \"{text}\"").as_bytes());
        }
    }
}
