//! Patterns of file names, as hints name files.
//!
//! `?` stands for one byte and `*` for any number of them, but for no slash; `**` stands for
//! anything. A pattern that holds a slash is matched against the whole name from the root of a
//! site, with or without a slash in front; any other one against the last part of the name.

/// Longest pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 256;

/// True when this can be a pattern: not empty, not too long, and no control character in it.
pub fn is_pattern(text: &str) -> bool {
    (1..=PATTERN_BYTES_MAX).contains(&text.len()) && !text.bytes().any(|b| b.is_ascii_control())
}

/// True when the pattern names one file and no other: nothing in it stands for something else.
pub fn is_exact(pattern: &str) -> bool {
    pattern.contains('/') && !pattern.contains(['*', '?'])
}

/// Whether the file of this name, relative to the root of its site, matches. The time is bounded by
/// the product of both lengths, whatever they hold.
pub fn matches(pattern: &str, name: &[u8]) -> bool {
    if !pattern.contains('/') {
        let last = name.rsplit(|&b| b == b'/').next().unwrap_or(name);
        return matches_all(pattern.as_bytes(), last);
    }
    matches_all(pattern.strip_prefix('/').unwrap_or(pattern).as_bytes(), name)
}

/// Follows every place in the pattern that the name so far can have led to.
fn matches_all(pattern: &[u8], name: &[u8]) -> bool {
    let mut here = [false; PATTERN_BYTES_MAX + 1];
    let Some(here) = here.get_mut(..=pattern.len()) else { return false };
    here[0] = true;
    skip_stars(pattern, here);
    for &byte in name {
        // From the end, so that a place is read before what leads to it is written.
        for at in (0..=pattern.len()).rev() {
            let from_before = at > 0 && here[at - 1] && takes(pattern[at - 1], byte);
            let stays = here[at] && at < pattern.len() && star_takes(pattern, at, byte);
            here[at] = from_before || stays;
        }
        skip_stars(pattern, here);
    }
    here[pattern.len()]
}

/// Whether this byte of a pattern, which is no star, stands for this byte of a name.
fn takes(pattern: u8, byte: u8) -> bool {
    match pattern {
        b'*' => false,
        b'?' => byte != b'/',
        literal => literal == byte,
    }
}

/// Whether the star at this place of a pattern takes one more byte.
fn star_takes(pattern: &[u8], at: usize, byte: u8) -> bool {
    let is_star = |at: usize| pattern.get(at) == Some(&b'*');
    let is_double = is_star(at) && (is_star(at + 1) || at > 0 && is_star(at - 1));
    is_star(at) && (byte != b'/' || is_double)
}

/// A star stands for nothing as well.
fn skip_stars(pattern: &[u8], here: &mut [bool]) {
    for at in 0..pattern.len() {
        if here[at] && pattern[at] == b'*' {
            here[at + 1] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stars_stop_at_slashes_and_double_stars_do_not() {
        for (pattern, name, expected) in [
            ("*.css", "app.css", true),
            ("*.css", "a/b/app.css", true),
            ("*.css", "app.css.map", false),
            ("app.?s", "app.js", true),
            ("app.?s", "app.s", false),
            ("/app.css", "app.css", true),
            ("/app.css", "a/app.css", false),
            ("/assets/*", "assets/app.css", true),
            ("/assets/*", "assets/img/a.png", false),
            ("/assets/**", "assets/img/a.png", true),
            ("assets/**/a.png", "assets/img/a.png", true),
            ("/**/*.png", "x/y/z.png", true),
            ("/**.png", "x/y/z.png", true),
            ("/a*/b", "ax/b", true),
            ("/a*/b", "a/x/b", false),
            ("*", "", true),
            ("?", "", false),
            ("a/?b", "a//b", false),
        ] {
            assert_eq!(matches(pattern, name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn what_names_one_file_is_told_from_what_names_several() {
        assert!(is_exact("/app.css") && is_exact("a/b"));
        assert!(!is_exact("app.css") && !is_exact("/a/*") && !is_exact("/a?"));
        assert!(is_pattern("*") && !is_pattern("") && !is_pattern("a\nb"));
        assert!(!is_pattern(&"a".repeat(PATTERN_BYTES_MAX + 1)));
        assert!(!matches(&"a".repeat(1_000), b"a"));
    }

    /// By trying every length for each star.
    fn tried(pattern: &[u8], name: &[u8]) -> bool {
        match pattern {
            [] => name.is_empty(),
            [b'*', b'*', rest @ ..] => (0..=name.len()).any(|n| tried(rest, &name[n..])),
            [b'*', rest @ ..] => {
                let most = name.iter().position(|&b| b == b'/').unwrap_or(name.len());
                (0..=most).any(|n| tried(rest, &name[n..]))
            }
            [first, rest @ ..] => {
                let [byte, after @ ..] = name else { return false };
                takes(*first, *byte) && tried(rest, after)
            }
        }
    }

    proptest! {
        #[test]
        fn it_matches_what_trying_everything_matches(
            pattern in "/[ab*?/]{0,7}",
            name in "[ab/]{0,8}",
        ) {
            // Three stars in a row are a double one and another.
            prop_assume!(!pattern.contains("***"));
            let expected = tried(&pattern.as_bytes()[1..], name.as_bytes());
            prop_assert_eq!(matches(&pattern, name.as_bytes()), expected);
        }
    }
}
