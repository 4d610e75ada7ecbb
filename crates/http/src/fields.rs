//! The fields of an answer (RFC 9110, section 5): names and values, in order.
//!
//! They are kept as HTTP/1 writes them, so that its encoder copies them in one go. All others see
//! names and values.

use std::fmt::{self, Display};
use std::io::Write as _;

use crate::field::{Name, is_name, is_value};

/// Fields that are put together.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Fields {
    text: Vec<u8>,
    /// A bit per [`Name`] that was added.
    names: u64,
}

impl Fields {
    /// None, with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Fields {
        Fields { text: Vec::with_capacity(bytes), names: 0 }
    }

    /// Forgets them all.
    pub fn clear(&mut self) {
        self.text.clear();
        self.names = 0;
    }

    /// Adds a field, whose value is one.
    pub fn add(&mut self, name: Name, value: impl AsRef<[u8]>) {
        self.add_with(name, |text| text.extend_from_slice(value.as_ref()));
    }

    /// Adds a field with a value that is shown.
    pub fn add_shown(&mut self, name: Name, value: impl Display) {
        self.add_with(name, |text| {
            // Writing to a vector cannot fail.
            let _ = write!(text, "{value}");
        });
    }

    /// Adds a field whose value is appended by `write`.
    pub fn add_with<R>(&mut self, name: Name, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        self.names |= name.bit();
        self.text.extend_from_slice(name.as_str().as_bytes());
        self.text.extend_from_slice(b": ");
        let start = self.text.len();
        let written = write(&mut self.text);
        debug_assert!(is_value(&self.text[start..]), "{name:?}");
        self.text.extend_from_slice(b"\r\n");
        written
    }

    /// Adds a field by its name as it is spelled.
    pub fn add_named(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let (name, value) = (name.as_ref(), value.as_ref());
        debug_assert!(is_name(name) && is_value(value), "{}", name.escape_ascii());
        self.names |= Name::from_bytes(name).map_or(0, Name::bit);
        for part in [name, b": ", value, b"\r\n"] {
            self.text.extend_from_slice(part);
        }
    }

    /// Adds all of these.
    pub fn append(&mut self, lines: FieldLines<'_>) {
        self.names |= lines.names;
        self.text.extend_from_slice(lines.text);
    }

    /// Keeps those of which `kept` says so, by name and value.
    pub fn retain(&mut self, kept: impl Fn(&[u8], &[u8]) -> bool) {
        let (mut from, mut to) = (0, 0);
        while let Some((len, name, value)) = first(&self.text[from..]) {
            if kept(name, value) {
                self.text.copy_within(from..from + len, to);
                to += len;
            }
            from += len;
        }
        self.text.truncate(to);
    }

    /// Where the next field will begin.
    pub fn end(&self) -> Mark {
        Mark(self.text.len() as u32)
    }

    /// What there is.
    pub fn lines(&self) -> FieldLines<'_> {
        FieldLines { text: &self.text, names: self.names }
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().fmt(f)
    }
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>> FromIterator<(N, V)> for Fields {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Fields {
        let mut fields = Fields::default();
        pairs.into_iter().for_each(|(name, value)| fields.add_named(name, value));
        fields
    }
}

/// A place between fields: in the block that is made of them, it is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(pub u32);

/// Fields that are there, or some of them.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct FieldLines<'a> {
    text: &'a [u8],
    /// A bit per [`Name`] that may occur.
    names: u64,
}

impl<'a> FieldLines<'a> {
    /// These lines of HTTP/1, each with its CRLF, as [`Block::h1`] gave them.
    pub fn of_h1(text: &'a [u8]) -> FieldLines<'a> {
        FieldLines { text, names: u64::MAX }
    }

    /// As HTTP/1 writes them, each with its CRLF, without the blank line.
    pub fn h1(self) -> &'a [u8] {
        self.text
    }

    /// Names and values.
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut rest = self.text;
        std::iter::from_fn(move || {
            let (len, name, value) = first(rest)?;
            rest = &rest[len..];
            Some((name, value))
        })
    }

    /// The values of every field of this name.
    pub fn values(self, name: Name) -> impl Iterator<Item = &'a [u8]> {
        let some = if self.names & name.bit() == 0 { FieldLines::default() } else { self };
        let is = move |one: &[u8]| one.eq_ignore_ascii_case(name.as_str().as_bytes());
        some.iter().filter(move |(one, _)| is(one)).map(|(_, value)| value)
    }

    /// The value of the first field of this name.
    pub fn value(self, name: Name) -> Option<&'a [u8]> {
        self.values(name).next()
    }

    /// Whether there is a field of this name.
    pub fn has(self, name: Name) -> bool {
        self.value(name).is_some()
    }
}

impl fmt::Debug for FieldLines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.text.escape_ascii())
    }
}

/// The first line: its length with its end, its name and its value.
fn first(text: &[u8]) -> Option<(usize, &[u8], &[u8])> {
    let feed = memchr::memchr(b'\n', text)?;
    let colon = memchr::memchr(b':', &text[..feed])?;
    let value = text.get(colon + 2..feed - 1).unwrap_or_default();
    Some((feed + 1, &text[..colon], value))
}

/// Fields that are encoded once and sent many times, as each protocol writes them: HTTP/1 today.
#[derive(Clone, Debug, Default)]
pub struct Block {
    h1: Vec<u8>,
}

impl Block {
    /// Encodes fields.
    pub fn new(fields: Fields) -> Block {
        Block::of_h1(fields.text)
    }

    /// One whose lines of HTTP/1 are these.
    pub fn of_h1(mut h1: Vec<u8>) -> Block {
        h1.shrink_to_fit();
        Block { h1 }
    }

    /// The memory of those lines, to be filled again.
    pub fn into_h1(self) -> Vec<u8> {
        self.h1
    }

    /// As HTTP/1 writes them, each with its CRLF, without the blank line.
    pub fn h1(&self) -> &[u8] {
        &self.h1
    }

    /// What was encoded.
    pub fn lines(&self) -> FieldLines<'_> {
        FieldLines::of_h1(&self.h1)
    }

    /// The fields between two places.
    pub fn between(&self, start: Mark, end: Mark) -> FieldLines<'_> {
        let some = self.h1.get(start.0 as usize..end.0 as usize);
        FieldLines::of_h1(some.unwrap_or_default())
    }

    /// The fields from a place on.
    pub fn since(&self, start: Mark) -> FieldLines<'_> {
        self.between(start, Mark(self.h1.len() as u32))
    }

    /// The value of the field at a place.
    pub fn value_at(&self, place: Mark) -> &[u8] {
        first(self.since(place).text).map(|(_, _, value)| value).unwrap_or_default()
    }

    /// Bytes that it takes, beside its own.
    pub fn bytes(&self) -> usize {
        self.h1.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_told_as_they_were_added_but_for_those_that_were_left_out() {
        let mut fields = Fields::default();
        fields.add(Name::ContentType, "text/plain");
        fields.add_named("x-a", "");
        fields.add_shown(Name::ContentLength, 12);
        fields.add_named("ETAG", "\"a:b\"");
        let told = b"Content-Type: text/plain\r\nx-a: \r\nContent-Length: 12\r\nETAG: \"a:b\"\r\n";
        assert_eq!(fields.lines().h1(), told);
        assert_eq!(fields.lines().value(Name::ETag), Some(&b"\"a:b\""[..]));
        assert!(!fields.lines().has(Name::Date));
        let block = Block::new(fields.clone());
        let pairs = |lines: FieldLines<'_>| {
            lines.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect::<Vec<_>>()
        };
        assert_eq!(pairs(block.lines()), pairs(fields.lines()));
        assert_eq!(pairs(fields.lines()).into_iter().collect::<Fields>(), fields);
        fields.retain(|name, value| name != b"x-a" && value != b"12");
        let left = b"Content-Type: text/plain\r\nETAG: \"a:b\"\r\n";
        assert_eq!(fields.lines().h1(), left);
        assert!(!fields.lines().has(Name::ContentLength));
    }
}
