//! Lists in the values of fields (RFC 9110, section 5.6.1).

use flyball_http::list::elements;
use flyball_http::{FieldLines, Name};

/// Whether a list has a word, in whatever case.
pub(super) fn has_word(value: &[u8], word: &[u8]) -> bool {
    elements(value).any(|one| one.eq_ignore_ascii_case(word))
}

/// Whether fields say that the answer depends on this field of a request.
pub(super) fn varies_by(fields: FieldLines<'_>, field: &[u8]) -> bool {
    fields.values(Name::Vary).any(|value| has_word(value, b"*") || has_word(value, field))
}
