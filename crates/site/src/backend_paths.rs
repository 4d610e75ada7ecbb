//! Which paths lead to a backend.

use crate::path::ENCODED_SLASH;

/// What of a URL is beneath a path: empty, or with a slash at its start.
pub(crate) fn beneath<'a>(path: &str, url: &'a [u8]) -> Option<&'a [u8]> {
    let below = url.strip_prefix(path.as_bytes())?;
    (below.is_empty() || below.starts_with(b"/")).then_some(below)
}

pub(crate) fn dotted(extensions: &[String]) -> Vec<String> {
    extensions.iter().map(|name| format!(".{name}")).collect()
}

/// How much of a path beneath that of a gate names the script; `None` when it does not lead
/// through. Without extensions any path does, and names none. A name with an encoded slash is that
/// of no file, and none is beneath it.
pub(crate) fn named(extensions: &[String], below: &[u8]) -> Option<usize> {
    if extensions.is_empty() {
        return Some(0);
    }
    let mut end = 0;
    while end < below.len() {
        let next = memchr::memchr(b'/', &below[end + 1..]);
        let name = &below[end + 1..next.map_or(below.len(), |at| end + 1 + at)];
        if name.contains(&ENCODED_SLASH) {
            return None;
        }
        end += 1 + name.len();
        if extensions.iter().any(|extension| name.ends_with(extension.as_bytes())) {
            return Some(end);
        }
    }
    None
}
