//! What a proxy says in front of the first request.

use flyball_http::proxy_protocol::{HEADER_BYTES_MAX, ProxyError, read_header};

pub(crate) const WORDS: &[&[u8]] = &[
    b"PROXY ",
    b"TCP4 ",
    b"TCP6 ",
    b"UNKNOWN",
    b"192.0.2.1 ",
    b"255.255.255.255 ",
    b"2001:db8::1 ",
    b"::ffff:192.0.2.1 ",
    b"65535 ",
    b"65536",
    b"0",
    b"\r\n",
    b"\n",
    b"\r",
    b" ",
    b"\r\n\r\n\0\r\nQUIT\n",
    b"\x20\x11",
    b"\x21\x11\0\x0c",
    b"\x21\x21\0\x24",
    b"\x21\x31\0\xd8",
    b"\x31\x11",
    b"\xff\xff",
    b"\0",
];

/// The first byte says how much is taken at most, the rest is what came on a connection. However
/// it is cut, the answer is the same, and never changes once it was given.
///
/// # Panics
/// When it is not, or when the header is longer than what came or than the bound.
pub fn proxy_header(data: &[u8]) {
    let Some((&most, input)) = data.split_first() else { return };
    // Small bounds are met more often, but none in which not even the beginning fits.
    let most = if most % 2 == 0 { HEADER_BYTES_MAX * 2 } else { 16 + usize::from(most) };
    let whole = read_header(input, most);
    if let Ok(Some(header)) = whole {
        assert!(header.len > 0 && header.len <= input.len());
        assert!(header.len <= most.min(HEADER_BYTES_MAX));
        // What comes behind it is not looked at.
        assert_eq!(read_header(&input[..header.len], most), whole);
    }
    if matches!(whole, Ok(None)) {
        assert!(input.len() < HEADER_BYTES_MAX, "it waits for more than it takes");
    }
    let mut told = None;
    for len in 0..=input.len().min(HEADER_BYTES_MAX + 1) {
        let answer = read_header(&input[..len], most);
        match &told {
            Some(told) => assert_eq!(&answer, told, "after {len} bytes"),
            None if answer == Ok(None) => {}
            None => told = Some(answer),
        }
    }
    assert!(told.is_none_or(|told| told == whole));
    assert!(!input.is_empty() || whole != Err(ProxyError::Malformed));
}
