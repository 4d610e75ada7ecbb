//! The name and password of a request (RFC 7617, section 2).

use flyball_http::Request;
use flyball_http::head::Name;

/// A name and a password, as bytes: in UTF-8 if the client does as it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Credentials<'a> {
    pub(super) user: &'a [u8],
    pub(super) password: &'a [u8],
}

/// Reads them from the one `Authorization` field, into `decoded`; `None` when there is none, or
/// several, or another scheme, or something that nobody's password can be.
pub(super) fn read<'a>(request: &Request<'_>, decoded: &'a mut Vec<u8>) -> Option<Credentials<'a>> {
    let mut values = request.values(Name::Authorization);
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    parse(value, decoded)
}

fn parse<'a>(value: &[u8], decoded: &'a mut Vec<u8>) -> Option<Credentials<'a>> {
    const SCHEME: &[u8] = b"basic";
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    if !scheme.eq_ignore_ascii_case(SCHEME) || !token.starts_with(b" ") {
        return None;
    }
    decoded.clear();
    decode(token.trim_ascii(), decoded)?;
    let colon = memchr::memchr(b':', decoded)?;
    let (user, password) = (&decoded[..colon], &decoded[colon + 1..]);
    let is_control = |byte: &u8| byte.is_ascii_control();
    (!decoded.iter().any(is_control)).then_some(Credentials { user, password })
}

/// Base64 (RFC 4648, section 4), padded or not.
fn decode(text: &[u8], bytes: &mut Vec<u8>) -> Option<()> {
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let digits = &text[..text.len() - padding];
    if padding > 0 && (padding > 2 || !text.len().is_multiple_of(4)) || digits.len() % 4 == 1 {
        return None;
    }
    for group in digits.chunks(4) {
        let mut bits = 0;
        for digit in group {
            bits = bits << 6 | sextet(*digit)?;
        }
        bits <<= 6 * (4 - group.len());
        let whole = group.len() * 6 / 8;
        let three = [(bits >> 16) as u8, (bits >> 8) as u8, bits as u8];
        // Bits that belong to no byte are zero: there is one way to write a login.
        if three[whole..].iter().any(|byte| *byte != 0) {
            return None;
        }
        bytes.extend_from_slice(&three[..whole]);
    }
    Some(())
}

fn sextet(digit: u8) -> Option<u32> {
    Some(u32::from(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(value: &str) -> Option<(String, String)> {
        let mut decoded = b"old".to_vec();
        let Credentials { user, password } = parse(value.as_bytes(), &mut decoded)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some((text(user), text(password)))
    }

    fn pair(user: &str, password: &str) -> Option<(String, String)> {
        Some((user.into(), password.into()))
    }

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        let aladdin = pair("Aladdin", "open sesame");
        assert_eq!(parsed("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), aladdin);
        assert_eq!(parsed("bAsIc   QWxhZGRpbjpvcGVuIHNlc2FtZQ"), aladdin);
        assert_eq!(parsed("Basic dGVzdDoxMjPCow=="), pair("test", "123\u{a3}"));
        assert_eq!(parsed("Basic Og=="), pair("", ""));
        assert_eq!(parsed("Basic YTpiOmM="), pair("a", "b:c"));
    }

    #[test]
    fn anything_else_is_no_login() {
        for value in [
            "",
            "Basic",
            "Basic ",
            "Basic\tYTpi",
            "BasicYTpi",
            "Digest YTpi",
            "Basic YWI=",
            "Basic YTpi=",
            "Basic YTpiYw=",
            "Basic YTpiYw===",
            "Basic YTpiYx==",
            "Basic YTpi YTpi",
            "Basic YTp-",
            "Basic YTpiA",
            "Basic YTpiAA==",
            "Basic =",
            "Basic ====",
        ] {
            assert_eq!(parsed(value), None, "{value}");
        }
    }

    /// Base64 by another way: bit by bit.
    fn encode(bytes: &[u8]) -> String {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1);
        let sextet = |at: usize| (0..6).fold(0, |bits, i| bits << 1 | bit(at * 6 + i)) as usize;
        let digits = (bytes.len() * 8).div_ceil(6);
        let mut text: String = (0..digits).map(|at| DIGITS[sextet(at)] as char).collect();
        while !text.len().is_multiple_of(4) {
            text.push('=');
        }
        text
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(bytes: Vec<u8>) {
            let (text, mut decoded) = (encode(&bytes), Vec::new());
            prop_assert_eq!(decode(text.as_bytes(), &mut decoded), Some(()));
            prop_assert_eq!(decoded, bytes);
        }

        #[test]
        fn any_bytes_are_a_login_or_none(value: Vec<u8>, start: bool) {
            let value = if start { [b"Basic ", &value[..]].concat() } else { value };
            let _ = parse(&value, &mut Vec::new());
        }
    }
}
