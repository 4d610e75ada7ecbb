//! The PROXY protocol, versions 1 and 2 (HAProxy, "The PROXY protocol", sections 2.1 and 2.2): what
//! a proxy says in front of the first request about whose connection it passes on.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Longest header that is taken, in bytes. Version 1 has 107 at most; version 2 may bring values of
/// its own behind the addresses, of which none is used here.
pub const HEADER_BYTES_MAX: usize = 1024;

/// Longest header of version 1, with its CRLF (section 2.1).
const V1_BYTES_MAX: usize = 107;

/// What a header of version 1 begins with.
const V1: &[u8] = b"PROXY ";

/// What a header of version 2 begins with.
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Bytes of a header of version 2 before its addresses.
const V2_FRONT_BYTES: usize = 16;

/// A whole header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// Its length in bytes.
    pub len: usize,
    /// Where the passed connection comes from; `None` when the proxy speaks for itself or does not
    /// know.
    pub source: Option<SocketAddr>,
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyError {
    /// They do not begin as one.
    Absent,
    /// They begin as one and go on otherwise, or are too long.
    Malformed,
}

/// Reads the header at the front of a connection; `None` while it is not whole. At most `most`
/// bytes are taken for one.
///
/// # Errors
/// What is wrong with the bytes, as soon as that can be told.
pub fn read_header(input: &[u8], most: usize) -> Result<Option<ProxyHeader>, ProxyError> {
    let most = most.min(HEADER_BYTES_MAX);
    if begins(input, V2) {
        read_v2(input, most)
    } else if begins(input, V1) {
        read_v1(input, most)
    } else {
        Err(ProxyError::Absent)
    }
}

/// Whether bytes are, or could become, what begins like this.
fn begins(input: &[u8], with: &[u8]) -> bool {
    let len = input.len().min(with.len());
    input[..len] == with[..len]
}

/// `PROXY TCP4 192.0.2.1 192.0.2.2 56324 443` and CRLF.
fn read_v1(input: &[u8], most: usize) -> Result<Option<ProxyHeader>, ProxyError> {
    let most = most.min(V1_BYTES_MAX);
    let window = &input[..input.len().min(most)];
    let Some(feed) = memchr::memchr(b'\n', window) else {
        return if window.len() == most { Err(ProxyError::Malformed) } else { Ok(None) };
    };
    let line = window[..feed].strip_suffix(b"\r").ok_or(ProxyError::Malformed)?;
    let text = std::str::from_utf8(line).map_err(|_| ProxyError::Malformed)?;
    let mut words = text.split(' ').skip(1);
    let len = feed + 1;
    let family = match words.next() {
        // Whatever follows is to be passed over.
        Some("UNKNOWN") => return Ok(Some(ProxyHeader { len, source: None })),
        Some(family @ ("TCP4" | "TCP6")) => family,
        _ => return Err(ProxyError::Malformed),
    };
    let mut address = || -> Option<IpAddr> {
        let word = words.next()?;
        if family == "TCP4" {
            word.parse().map(IpAddr::V4).ok()
        } else {
            word.parse().map(IpAddr::V6).ok()
        }
    };
    let (source, target) = (address(), address());
    let mut port = || words.next().and_then(port_of);
    let (source_port, target_port) = (port(), port());
    match (source, target, source_port, target_port, words.next()) {
        (Some(source), Some(_), Some(port), Some(_), None) => {
            Ok(Some(ProxyHeader { len, source: Some(SocketAddr::new(source, port)) }))
        }
        _ => Err(ProxyError::Malformed),
    }
}

/// A port in decimal, without sign or leading zeros.
fn port_of(word: &str) -> Option<u16> {
    let digits = word.bytes().all(|b| b.is_ascii_digit());
    let plain = word == "0" || !word.starts_with('0');
    if digits && plain { word.parse().ok() } else { None }
}

/// The signature, version and command, family, length, then addresses and other values.
fn read_v2(input: &[u8], most: usize) -> Result<Option<ProxyHeader>, ProxyError> {
    // Decided as soon as the byte is there: the server does not wait for the rest of nonsense.
    if let Some(&command) = input.get(12)
        && !matches!(command, 0x20 | 0x21)
    {
        return Err(ProxyError::Malformed);
    }
    let Some(front) = input.first_chunk::<V2_FRONT_BYTES>() else { return Ok(None) };
    let [.., command, family, high, low] = *front;
    let body_len = usize::from(u16::from_be_bytes([high, low]));
    let len = V2_FRONT_BYTES + body_len;
    if len > most {
        return Err(ProxyError::Malformed);
    }
    let Some(body) = input.get(V2_FRONT_BYTES..len) else { return Ok(None) };
    // A LOCAL command is the proxy's own, as for its health checks.
    let source = if command == 0x20 { None } else { v2_source(family, body)? };
    Ok(Some(ProxyHeader { len, source }))
}

/// The source of a PROXY command of version 2.
fn v2_source(family: u8, body: &[u8]) -> Result<Option<SocketAddr>, ProxyError> {
    let port = |at: usize| match body.get(at..at + 2) {
        Some(&[high, low]) => u16::from_be_bytes([high, low]),
        _ => 0,
    };
    match family {
        0x11 if body.len() >= 12 => {
            let source = body.first_chunk::<4>().ok_or(ProxyError::Malformed)?;
            Ok(Some(SocketAddr::new(Ipv4Addr::from(*source).into(), port(8))))
        }
        0x21 if body.len() >= 36 => {
            let source = body.first_chunk::<16>().ok_or(ProxyError::Malformed)?;
            Ok(Some(SocketAddr::new(Ipv6Addr::from(*source).into(), port(32))))
        }
        0x11 | 0x21 => Err(ProxyError::Malformed),
        // Datagrams, Unix-domain sockets, and what is not specified: accepted, and not used.
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Result<Option<ProxyHeader>, ProxyError> {
        read_header(bytes, HEADER_BYTES_MAX)
    }

    fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let len = (body.len() as u16).to_be_bytes();
        [V2, &[command, family], &len, body].concat()
    }

    /// The header and what it says, however many bytes of it have come.
    #[track_caller]
    fn check(header: &[u8], source: Option<&str>) {
        for len in 0..header.len() {
            assert_eq!(read(&header[..len]), Ok(None), "after {len} bytes of {header:?}");
        }
        let whole =
            ProxyHeader { len: header.len(), source: source.map(|text| text.parse().unwrap()) };
        assert_eq!(read(header), Ok(Some(whole)));
        let more = [header, b"GET / HTTP/1.1\r\n"].concat();
        assert_eq!(read(&more), Ok(Some(whole)), "what follows is not its own");
    }

    #[test]
    fn version_1_tells_the_source() {
        check(b"PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n", Some("192.0.2.1:56324"));
        check(b"PROXY TCP6 2001:db8::1 ::1 1 65535\r\n", Some("[2001:db8::1]:1"));
        check(b"PROXY UNKNOWN\r\n", None);
        check(b"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", None);
    }

    #[test]
    fn version_2_tells_the_source() {
        let v4 = [192, 0, 2, 1, 198, 51, 100, 2, 0xdc, 4, 1, 187];
        check(&v2(0x21, 0x11, &v4), Some("192.0.2.1:56324"));
        let mut v6 = [0; 36];
        v6[..2].copy_from_slice(&[0xfd, 0]);
        (v6[15], v6[33]) = (9, 7);
        check(&v2(0x21, 0x21, &v6), Some("[fd00::9]:7"));
        let with_values = [&v4[..], &[4, 0, 2, 1, 2]].concat();
        check(&v2(0x21, 0x11, &with_values), Some("192.0.2.1:56324"));
        check(&v2(0x20, 0x11, &v4), None);
        check(&v2(0x20, 0, &[]), None);
        check(&v2(0x21, 0, &[1, 2, 3]), None);
        check(&v2(0x21, 0x31, &[0; 216]), None);
    }

    #[test]
    fn what_is_no_header_is_told_at_once() {
        for text in ["G", "PRI", "P ", "PROXY\r", "proxy TCP4", "\r\nGET", "\n", "\0"] {
            assert_eq!(read(text.as_bytes()), Err(ProxyError::Absent), "{text:?}");
        }
        for text in [
            "PROXY \r\n",
            "PROXY TCP4\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\n",
            "PROXY TCP4 192.0.2.1 198.51.100.2 56324\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443 1\r\n",
            "PROXY TCP4  192.0.2.1 198.51.100.2 56324 443\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.2 56324 65536\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.2 +1 443\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.2 01 443\r\n",
            "PROXY TCP4 ::1 ::1 1 2\r\n",
            "PROXY TCP6 192.0.2.1 198.51.100.2 1 2\r\n",
            "PROXY UDP4 192.0.2.1 198.51.100.2 1 2\r\n",
        ] {
            assert_eq!(read(text.as_bytes()), Err(ProxyError::Malformed), "{text:?}");
        }
        for bytes in [
            v2(0x22, 0x11, &[0; 12]),
            v2(0x11, 0x11, &[0; 12]),
            v2(0x21, 0x11, &[0; 11]),
            v2(0x21, 0x21, &[0; 35]),
        ] {
            assert_eq!(read(&bytes), Err(ProxyError::Malformed), "{bytes:?}");
        }
    }

    #[test]
    fn a_header_is_bounded() {
        let unknown = |len: usize| format!("PROXY UNKNOWN {}\r\n", "x".repeat(len - 16));
        assert!(read(unknown(V1_BYTES_MAX).as_bytes()).is_ok_and(|header| header.is_some()));
        assert_eq!(read(unknown(V1_BYTES_MAX + 1).as_bytes()), Err(ProxyError::Malformed));
        let body = [0; HEADER_BYTES_MAX - V2_FRONT_BYTES];
        assert!(read(&v2(0x20, 0, &body)).is_ok_and(|header| header.is_some()));
        let front = [V2, &[0x20, 0, 0x03, 0xf1]].concat();
        assert_eq!(read(&front), Err(ProxyError::Malformed), "before the rest has come");
        let header = b"PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n";
        assert_eq!(read_header(header, header.len() - 1), Err(ProxyError::Malformed));
        assert!(read_header(header, header.len()).is_ok_and(|header| header.is_some()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, front in 0usize..4, most in 0usize..2000) {
            let front: &[u8] = [b"", V1, V2, b"PROXY TCP4 "][front];
            let bytes = [front, &bytes].concat();
            if let Ok(Some(header)) = read_header(&bytes, most) {
                prop_assert!(header.len <= bytes.len() && header.len <= most);
            }
            // More bytes never change what was told.
            for len in 0..bytes.len() {
                match read_header(&bytes[..len], most) {
                    Ok(None) => {}
                    told => prop_assert_eq!(told, read_header(&bytes, most)),
                }
            }
        }

        #[test]
        fn every_source_comes_through(source: SocketAddr, port: u16) {
            let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
            let (ip, from) = (source.ip(), source.port());
            let header = format!("PROXY {family} {ip} {ip} {from} {port}\r\n");
            let expected = Some(SocketAddr::new(ip, from));
            prop_assert_eq!(read(header.as_bytes()).unwrap().unwrap().source, expected);
        }
    }
}
