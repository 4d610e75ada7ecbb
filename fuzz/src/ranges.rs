//! Ranges and preconditions.

use flyball_http::conditional::{Validators, Verdict, evaluate, range_applies};
use flyball_http::range::{ByteRange, GAP_BYTES, Multipart, RANGES_MAX, Ranges, parse, requested};
use flyball_http::scan::{HeadScan, parse_head};
use flyball_http::{Head, Limits, Method};

pub(crate) const WORDS: &[&[u8]] = &[
    b"bytes=",
    b"bytes=0-0",
    b"-1",
    b"0-",
    b",",
    b", ",
    b" ",
    b"\t",
    b"-",
    b"9",
    b"18446744073709551615",
    b"99999999999999999999",
    b"\r\nRange: bytes=0-1",
    b"\r\nIf-Range: \"e\"",
    b"\r\nIf-Range: Sun, 06 Nov 1994 08:49:37 GMT",
    b"\r\nIf-None-Match: ",
    b"\r\nIf-Match: ",
    b"*",
    b"\"e\"",
    b"W/\"e\"",
    b"\"",
    b"\"f\", \"e\"",
    b"\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
    b"\r\nIf-Unmodified-Since: Sunday, 06-Nov-94 08:49:36 GMT",
    b"\r\n",
    b"\0\0\0\0\0\0\0\xff",
];

/// Eight bytes of a length, then the value of `Range`, which further field lines may follow.
///
/// # Panics
/// When parts are improper or preconditions contradict themselves.
pub fn ranges(data: &[u8]) {
    let Some((length, value)) = data.split_first_chunk() else { return };
    // Short representations are the interesting ones, and so are the longest.
    let length = u64::from_be_bytes(*length);
    for length in [length, length % 300] {
        let line = value.split(|&byte| byte == b'\r').next().unwrap_or(value);
        check_parts(&parse(line, length, RANGES_MAX), length);
        check_request(value, length);
    }
}

fn check_parts(ranges: &Ranges, length: u64) {
    let Ranges::Parts(parts) = ranges else { return };
    assert!(!parts.is_empty() && parts.len() <= RANGES_MAX);
    let proper = |part: &ByteRange| part.start < part.end && part.end <= length;
    assert!(parts.iter().all(proper), "{parts:?} of {length}");
    // They come in the order of the request.
    let mut ascending = parts.clone();
    ascending.sort_unstable_by_key(|part| part.start);
    let apart = |pair: &[ByteRange]| pair[1].start >= pair[0].end.saturating_add(GAP_BYTES);
    assert!(ascending.windows(2).all(apart), "{parts:?}");
    let multipart = Multipart::new(length, b"text/plain", length, parts);
    let mut heads = Vec::new();
    (0..parts.len()).for_each(|index| multipart.part_head(index, &mut heads));
    multipart.closing(&mut heads);
    let bodies = parts.iter().map(|part| part.byte_count()).fold(0, u64::saturating_add);
    assert_eq!(multipart.content_length(), bodies.saturating_add(heads.len() as u64));
}

fn check_request(value: &[u8], length: u64) {
    let bytes = [b"GET / HTTP/1.1\r\nHost: a\r\nRange: ", value, b"\r\n\r\n"].concat();
    let (limits, mut head) = (Limits::default(), Head::default());
    let Ok(Some(end)) = HeadScan::default().advance(&bytes, &limits) else { return };
    if parse_head(&bytes[..end], &limits, &mut head).is_err() {
        return;
    }
    let validators = Validators { etag: b"\"e\"", last_modified: 784_111_777 };
    let verdict = evaluate(&head.request(&bytes), &validators);
    check_parts(&requested(&head.request(&bytes), length, RANGES_MAX), length);
    let applies = range_applies(&head.request(&bytes), &validators, 784_111_837);
    // One second earlier the date was not strong: that only forbids more.
    let early = range_applies(&head.request(&bytes), &validators, 784_111_836);
    assert!(applies || !early);
    head.method = Method::Put;
    let unsafe_verdict = evaluate(&head.request(&bytes), &validators);
    assert_ne!(unsafe_verdict, Verdict::NotModified, "304 is for GET and HEAD");
    assert!(verdict != Verdict::Failed || unsafe_verdict == Verdict::Failed);
    assert_eq!(requested(&head.request(&bytes), length, RANGES_MAX), Ranges::Whole);
}
