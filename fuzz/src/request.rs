//! The search for the end of a head, and the parser behind it.

use flyball_http::framing::{Framing, Hop};
use flyball_http::scan::{HeadScan, parse_head};
use flyball_http::{Head, Limits, Method, Name, Refusal, Version};

pub(crate) const WORDS: &[&[u8]] = &[
    b"GET ",
    b"HEAD ",
    b"POST ",
    b"OPTIONS * ",
    b"CONNECT a:1 ",
    b"/",
    b"http://a",
    b"?",
    b"#",
    b" HTTP/1.1\r\n",
    b" HTTP/1.0\r\n",
    b" HTTP/2.0\r\n",
    b"\r\n",
    b"\r\n\r\n",
    b"\r",
    b"\n",
    b"\0",
    b"\t",
    b" ",
    b":",
    b",",
    b"Host: a\r\n",
    b"host:[::1]:80\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"gzip, ",
    b"Connection: close, keep-alive\r\n",
    b"Expect: 100-continue\r\n",
    b"Range: bytes=0-1\r\n",
    b"X:\r\n",
    b" fold\r\n",
    b"\x7f",
    b"\xff",
    b"%00",
    b"@",
    b"[",
    b"]",
];

/// A head by any bytes: it is refused for the same reason however it is split, and an accepted one
/// means to everybody else what it means to us.
///
/// # Panics
/// When it does not.
pub fn request_head(data: &[u8]) {
    let limits =
        Limits { target_bytes_max: 64, head_bytes_max: 512, fields_max: 8, ..Limits::default() };
    let whole = read(data, [data.len()], &limits);
    let bytewise = read(data, 1..=data.len(), &limits);
    assert_eq!(outcome(&whole), outcome(&bytewise));
    if let Ok(Some((head, hop))) = whole {
        check(&data[..head.len], &head, &hop, &limits);
    }
    // Heads that were not searched first are accepted or refused, but never end in a panic.
    let _ = parse_head(data, &limits, &mut Head::default());
}

fn read(
    data: &[u8],
    ends: impl IntoIterator<Item = usize>,
    limits: &Limits,
) -> Result<Option<(Head, Hop)>, Refusal> {
    let (mut scan, mut head) = (HeadScan::default(), Head::default());
    for end in ends {
        if let Some(len) = scan.advance(&data[..end], limits)? {
            let hop = parse_head(&data[..len], limits, &mut head)?;
            assert_eq!(head.len, len, "the search and the parser disagree on the end");
            return Ok(Some((head, hop)));
        }
    }
    Ok(None)
}

fn outcome(read: &Result<Option<(Head, Hop)>, Refusal>) -> Result<Option<String>, Refusal> {
    read.as_ref().map(|head| head.as_ref().map(|head| format!("{head:?}"))).map_err(|r| *r)
}

fn check(bytes: &[u8], head: &Head, hop: &Hop, limits: &Limits) {
    assert!(bytes.len() <= limits.head_bytes_max && bytes.ends_with(b"\r\n\r\n"));
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'\r' => assert_eq!(bytes.get(at + 1), Some(&b'\n'), "bare CR"),
            b'\n' => assert!(at > 0 && bytes[at - 1] == b'\r', "bare LF"),
            _ => assert!(byte == b'\t' || (byte >= b' ' && byte != 0x7f), "a control character"),
        }
    }
    let request = head.request(bytes);
    let hosts = request.values(Name::Host).count();
    assert!(hosts <= 1 && (hosts == 1 || head.version == Version::Http10));
    assert!(!request.target().is_empty() && request.target().len() <= limits.target_bytes_max);
    let lengths = request.values(Name::ContentLength).count();
    let codings = request.values(Name::TransferEncoding).count();
    assert!(lengths <= 1 && (lengths == 0 || codings == 0), "the framing is ambiguous");
    match hop.framing {
        Framing::Chunked => assert!(codings == 1 && head.version == Version::Http11),
        Framing::Length(length) => assert!(lengths == 1 && length > 0),
        Framing::None => assert_eq!(codings, 0),
    }
    assert!(!hop.expects_continue || head.version == Version::Http11);
    assert_eq!(Method::from_token(request.method_token()), request.method());
    assert!(request.to_owned().request().target() == request.target());
}
