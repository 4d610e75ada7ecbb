//! From the path that a log has to one that a request line can have.

use std::fmt::Write as _;

/// The path and query of what a log says was asked for: blanks, quotes, `#` and what is not ASCII
/// are written as `%20` and the like, and the origin of an absolute URL is left out. `None` when it
/// is no path.
pub(super) fn target_of(logged: &[u8]) -> Option<String> {
    let mut rest = logged;
    if logged.get(..7).is_some_and(|start| start.eq_ignore_ascii_case(b"http://")) {
        let slash = logged[7..].iter().position(|byte| *byte == b'/');
        rest = slash.map_or(b"/", |at| &logged[7 + at..]);
    }
    if !rest.starts_with(b"/") {
        return None;
    }
    let mut target = String::with_capacity(rest.len());
    for byte in rest {
        if byte.is_ascii_graphic() && !matches!(byte, b'"' | b'#') {
            target.push(char::from(*byte));
        } else {
            let _ = write!(target, "%{byte:02X}");
        }
    }
    Some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_line_cannot_have_is_escaped() {
        for (logged, target) in [
            (&b"/a?b=c%20d"[..], Some("/a?b=c%20d")),
            (b"/a b\"c\xe4", Some("/a%20b%22c%E4")),
            (b"/a#part", Some("/a%23part")),
            (b"HTTP://h:80/x", Some("/x")),
            (b"http://h", Some("/")),
            (b"index.html", None),
            (b"", None),
        ] {
            assert_eq!(target_of(logged).as_deref(), target);
        }
    }
}
