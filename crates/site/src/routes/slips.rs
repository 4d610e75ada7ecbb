//! Slips in the path of a rule. Who writes so hardly means it, and such a rule fits nothing.

/// Characters that are not seen, as their Unicode ranges: soft hyphen, those without width and the
/// marks of direction, word joiners, and the byte order mark.
const UNSEEN: [(char, char); 6] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{202a}', '\u{202e}'),
    ('\u{2060}', '\u{2064}'),
    ('\u{2066}', '\u{2069}'),
    ('\u{feff}', '\u{feff}'),
];

/// What is told of a character that is not seen, if there is one.
pub(super) fn unseen(text: &str) -> Option<String> {
    let is_unseen = |letter: &char| UNSEEN.iter().any(|(from, to)| (from..=to).contains(&letter));
    let letter = text.chars().find(is_unseen)?;
    Some(format!("holds U+{:04X}, which cannot be seen", letter as u32))
}

/// What is told of a path that is written as no path is, if it is: behind `it`, or the path.
pub fn slip_in_path(path: &str) -> Option<String> {
    if let Some(why) = unseen(path) {
        return Some(format!("{why}; write it with percent signs if it is meant"));
    }
    let is_next = |rest: &str| rest.trim_start().starts_with('/');
    path.split(',').skip(1).any(is_next).then(|| {
        "looks like a list, and a rule has one path; write %2C for a comma that is meant".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_and_what_looks_like_a_list_is_told() {
        for path in ["/a\u{200b}", "/\u{feff}a", "/a\u{ad}b", "/a\u{2060}/b", "/a\u{200f}"] {
            let why = slip_in_path(path).unwrap();
            assert!(why.starts_with("holds U+") && why.contains("cannot be seen"), "{why}");
        }
        assert!(slip_in_path("/a\u{200b}").unwrap().contains("U+200B"));
        assert!(slip_in_path("/a\u{ad}").unwrap().contains("U+00AD"));
        for path in ["/a,/b", "/a, /b", "/a,b,\u{a0}/c"] {
            assert!(slip_in_path(path).unwrap().contains("looks like a list"), "{path}");
        }
        for path in ["/a,b", "/a,", "/a%2C/b", "/caf\u{e9}", "/\u{4e2d}\u{6587}", "/,"] {
            assert_eq!(slip_in_path(path), None, "{path}");
        }
    }
}
