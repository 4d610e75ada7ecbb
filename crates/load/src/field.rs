//! The fields of a reply's head.

/// The value of the first field of this name, whatever its case, in the bytes of a head.
pub(crate) fn value<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    let lines = head.split(|byte| *byte == b'\n');
    let mut fields = lines.filter_map(|line| str::from_utf8(line).ok()?.split_once(':'));
    let (_, value) = fields.find(|(found, _)| found.eq_ignore_ascii_case(name))?;
    Some(value.trim())
}
