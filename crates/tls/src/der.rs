//! Distinguished Encoding Rules (X.690): as much of them as certificates are read by.
//!
//! A library does not pay here. rustls keeps its reader to itself. `x509-parser` 0.18 would bring
//! some fifteen crates more, among them a parser kit and big numbers. `x509-cert` 0.2 would bring
//! six (with `der`, `const-oid`, `spki`) for about a hundred lines less: it leaves U+0080 to U+009F
//! in names, which a terminal obeys, and private keys and lists would need more of its kind.

use std::fmt::Write as _;

/// A BOOLEAN, an INTEGER and the like, by their tags.
pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// The tag of a field that is made of others and has this number.
pub(crate) const fn of_number(number: u8) -> u8 {
    0xa0 | number
}

/// An object identifier in decimal numbers with dots.
pub(crate) fn object_identifier(bytes: &[u8]) -> String {
    let (mut text, mut number) = (String::new(), 0u64);
    for byte in bytes {
        number = number.saturating_mul(128).saturating_add(u64::from(byte & 0x7f));
        if byte & 0x80 != 0 {
            continue;
        }
        let _ = match text.is_empty() {
            true => {
                let first = (number / 40).min(2);
                write!(text, "{first}.{}", number - first * 40)
            }
            false => write!(text, ".{number}"),
        };
        number = 0;
    }
    text
}

/// What is left to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next value: its tag and its contents. `None` if there is none that is whole.
    pub(crate) fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, first], rest) = self.0.split_first_chunk()?;
        let (len, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // Longer ones are of no certificate: 2^32 bytes.
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (contents, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((tag, contents))
    }

    /// The contents of the next value if it has this tag; else nothing is read.
    pub(crate) fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let (found, contents) = ahead.next()?;
        if found != tag {
            return None;
        }
        *self = ahead;
        Some(contents)
    }

    /// The same of a value that is made of others.
    pub(crate) fn enter(&mut self, tag: u8) -> Option<Reader<'a>> {
        self.take(tag).map(Reader::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_value_is_read_whole_or_not_at_all() {
        let mut reader = Reader::new(&[0x02, 0x01, 0x05, 0x04, 0x81, 0x02, 7, 8, 0x30, 0x02, 1]);
        assert_eq!(reader.take(OCTET_STRING), None);
        assert_eq!(reader.next(), Some((INTEGER, &[5][..])));
        assert_eq!(reader.next(), Some((OCTET_STRING, &[7, 8][..])));
        assert_eq!((reader.next(), reader.is_empty()), (None, false));
        assert_eq!(Reader::new(&[0x04, 0x80, 0, 0]).next(), None);
        assert_eq!(Reader::new(&[0x04, 0x85, 0, 0, 0, 0, 1, 1]).next(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(bytes: Vec<u8>) {
            let mut reader = Reader::new(&bytes);
            let mut sum = 0;
            while let Some((_, contents)) = reader.next() {
                sum += contents.len() + 2;
            }
            prop_assert!(sum <= bytes.len());
        }
    }
}
