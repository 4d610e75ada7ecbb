//! Lists in the values of fields (RFC 9110, section 5.6.1). Nothing here allocates.

use crate::field::trim;

/// The elements of a list that knows no quotes, without the white space around them; also empty
/// ones.
pub fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim)
}

/// What is between separators, with the white space around it. Where there are quotes, a separator
/// within them is none (section 5.6.4).
pub(crate) struct Split<'a> {
    rest: Option<&'a [u8]>,
    separator: u8,
    quotes: bool,
}

impl<'a> Split<'a> {
    pub(crate) fn new(value: &'a [u8], separator: u8, quotes: bool) -> Split<'a> {
        Split { rest: Some(value), separator, quotes }
    }

    /// Where the next separator is.
    fn end(&self, rest: &[u8]) -> Option<usize> {
        match self.quotes {
            true => outside_quotes(rest, self.separator),
            false => memchr::memchr(self.separator, rest),
        }
    }
}

impl<'a> Iterator for Split<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let end = self.end(rest);
        self.rest = end.map(|end| &rest[end + 1..]);
        Some(&rest[..end.unwrap_or(rest.len())])
    }
}

/// Where the first separator is that does not stand within quotes.
fn outside_quotes(bytes: &[u8], separator: u8) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    bytes.iter().position(|&byte| {
        if escaped {
            escaped = false;
        } else if quoted && byte == b'\\' {
            escaped = true;
        } else if byte == b'"' {
            quoted = !quoted;
        }
        byte == separator && !quoted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(value: &str, quotes: bool) -> Vec<&str> {
        let parts = Split::new(value.as_bytes(), b';', quotes);
        parts.map(|part| std::str::from_utf8(part).unwrap()).collect()
    }

    #[test]
    fn a_separator_within_quotes_is_none_where_there_are_quotes() {
        assert_eq!(split("a; b=\";\\\";\" ;c", true), ["a", " b=\";\\\";\" ", "c"]);
        assert_eq!(split("a;\"b;c\"", false), ["a", "\"b", "c\""]);
        assert_eq!(split("", true), [""]);
        assert_eq!(split("a;\"b;c", true), ["a", "\"b;c"]);
    }

    #[test]
    fn elements_are_between_commas_without_white_space() {
        assert!(elements(b" a,\t,b \t").eq([&b"a"[..], b"", b"b"]));
    }
}
