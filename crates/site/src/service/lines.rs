//! Fields of an answer: lines, each with its CRLF, between the status and the content.

/// Lines with their ends, each with its name and its value.
pub(super) fn lines(fields: &[u8]) -> impl Iterator<Item = (&[u8], &[u8], &[u8])> {
    fields.split_inclusive(|&byte| byte == b'\n').map(|line| {
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        (line, &line[..colon], line.get(colon + 1..).unwrap_or_default().trim_ascii())
    })
}

/// The value of the first line of this name.
pub(super) fn value<'a>(fields: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    lines(fields).find(|(_, one, _)| one.eq_ignore_ascii_case(name)).map(|(_, _, value)| value)
}

/// Whether a name is one of these.
pub(super) fn is_any_of(name: &[u8], names: &[&[u8]]) -> bool {
    names.iter().any(|one| name.eq_ignore_ascii_case(one))
}

/// The words of a list in the value of a field.
pub(super) fn words(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

/// Whether a list has a word, in whatever case.
pub(super) fn has_word(value: &[u8], word: &[u8]) -> bool {
    words(value).any(|one| one.eq_ignore_ascii_case(word))
}

/// Whether fields say that the answer depends on this field of a request.
pub(super) fn varies_by(fields: &[u8], field: &[u8]) -> bool {
    lines(fields).any(|(_, name, value)| {
        name.eq_ignore_ascii_case(b"vary") && (has_word(value, b"*") || has_word(value, field))
    })
}
