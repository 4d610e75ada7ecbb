//! The name and password of a request (RFC 7617, section 2).

use base64ct::{Base64, Base64Unpadded, Encoding};
use flyball_http::Name;
use flyball_http::Request;

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
    decode(token.trim_ascii(), decoded)?;
    let colon = memchr::memchr(b':', decoded)?;
    let (user, password) = (&decoded[..colon], &decoded[colon + 1..]);
    let is_control = |byte: &u8| byte.is_ascii_control();
    (!decoded.iter().any(is_control)).then_some(Credentials { user, password })
}

/// Base64 (RFC 4648, section 4), padded or not, in the one way to write each login. How long it
/// takes says nothing about the password.
fn decode(text: &[u8], bytes: &mut Vec<u8>) -> Option<()> {
    bytes.resize(text.len(), 0);
    let decoded = match text.last() {
        Some(b'=') => Base64::decode(text, bytes),
        _ => Base64Unpadded::decode(text, bytes),
    };
    let len = decoded.ok()?.len();
    bytes.truncate(len);
    Some(())
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
