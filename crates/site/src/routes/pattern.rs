//! Which paths a rule is for: one, all beneath one, or those that a regular expression finds.
//!
//! Patterns are compared with the canonical path: decoded and normalised as [`crate::path::map`]
//! does it, with its leading slash, and with a closing one where a directory is asked for.

use std::borrow::Cow;
use std::ops::Range;

use regex::{Regex, RegexBuilder};

use crate::path::{self, Mapped};

use super::paths::readings;
use super::slips::{slip_in_path, unseen};

mod reach;

/// Most bytes that one compiled regular expression may take.
const REGEX_BYTES_MAX: usize = 1024 * 1024;

/// Most groups that a target can name: `$1` to `$9`.
pub(crate) const GROUPS_MAX: usize = 9;

/// The paths of a rule.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    /// This path.
    Exact(Vec<u8>),
    /// Every path that begins so.
    Prefix(Vec<u8>),
    /// Every path in which this is found.
    Regex(Regex),
}

/// The parts of a path that the groups of a pattern stand for; the first is the whole path.
pub(crate) type Groups = [Option<Range<usize>>; GROUPS_MAX + 1];

impl Pattern {
    /// Reads `/path`, `/path/*` or `~regex`.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(crate) fn parse(text: &str) -> Result<Pattern, String> {
        if let Some(expression) = text.strip_prefix('~') {
            return regex(expression).map(Pattern::Regex);
        }
        let (path, prefix) = match text.strip_suffix('*') {
            Some(path) => (path, true),
            None => (text, false),
        };
        if path.contains('*') {
            return Err("a star can only be the last letter".into());
        }
        if path.contains(['?', '#']) {
            return Err("a pattern is compared with the path, which has no query".into());
        }
        if path.trim() != path {
            return Err("a pattern ends with white space; write it as %20 if it is meant".into());
        }
        if let Some(why) = slip_in_path(path) {
            return Err(format!("{path:?} {why}"));
        }
        let path = canonical(path.as_bytes())
            .ok_or_else(|| format!("{path} is not a path that can be asked for"))?;
        Ok(if prefix { Pattern::Prefix(path) } else { Pattern::Exact(path) })
    }

    /// How many groups a target can name.
    pub(crate) fn groups(&self) -> usize {
        match self {
            Pattern::Exact(_) => 0,
            Pattern::Prefix(_) => 1,
            Pattern::Regex(regex) => (regex.captures_len() - 1).min(GROUPS_MAX),
        }
    }

    /// Whether it matches this canonical path.
    pub(crate) fn fits(&self, path: &[u8]) -> bool {
        match self {
            Pattern::Exact(exact) => exact == path,
            Pattern::Prefix(prefix) => path.starts_with(prefix),
            Pattern::Regex(regex) => regex.is_match(Text::of(path).as_str()),
        }
    }

    /// Whether it matches this canonical path in any of its readings.
    pub(crate) fn fits_somehow(&self, path: &[u8]) -> bool {
        readings(path).any(|path| self.fits(&path))
    }

    /// What the groups stand for in this canonical path; `None` when it does not match.
    pub(crate) fn groups_in(&self, path: &[u8]) -> Option<Groups> {
        let mut groups = Groups::default();
        groups[0] = Some(0..path.len());
        match self {
            Pattern::Exact(exact) => (exact == path).then_some(groups),
            Pattern::Prefix(prefix) => path.starts_with(prefix).then(|| {
                groups[1] = Some(prefix.len()..path.len());
                groups
            }),
            Pattern::Regex(regex) => {
                let text = Text::of(path);
                let captures = regex.captures(text.as_str())?;
                for (group, found) in groups.iter_mut().zip(captures.iter()).skip(1) {
                    *group = found.map(|found| text.range(found.range()));
                }
                Some(groups)
            }
        }
    }

    /// A path that matches, where one can be told.
    pub(crate) fn sample(&self) -> Option<Vec<u8>> {
        match self {
            Pattern::Exact(path) => Some(path.clone()),
            Pattern::Prefix(prefix) => Some([prefix, &b"x"[..]].concat()),
            Pattern::Regex(_) => None,
        }
    }
}

/// A canonical path as expressions read it: an encoded slash as `%2F`, as programs are told it, and
/// U+FFFD for what is not UTF-8, so that a dot fits that too, and no rule is got around by it.
pub(crate) struct Text<'a> {
    path: &'a [u8],
    text: Cow<'a, str>,
}

impl Text<'_> {
    pub(crate) fn of(path: &[u8]) -> Text<'_> {
        let text = match path::write_slashes(path) {
            Cow::Borrowed(path) => String::from_utf8_lossy(path),
            Cow::Owned(written) => Cow::Owned(String::from_utf8_lossy(&written).into_owned()),
        };
        Text { path, text }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Where in the path a part of the text is.
    fn range(&self, found: Range<usize>) -> Range<usize> {
        match self.text {
            Cow::Borrowed(_) => found,
            Cow::Owned(_) => self.byte_at(found.start)..self.byte_at(found.end),
        }
    }

    fn byte_at(&self, at: usize) -> usize {
        let (mut in_text, mut in_path) = (0, 0);
        for chunk in self.path.utf8_chunks() {
            for _ in 0..chunk.valid().len() {
                if at <= in_text {
                    return in_path;
                }
                in_text += if path::is_written_as_escape(self.path, in_path) { 3 } else { 1 };
                in_path += 1;
            }
            if at <= in_text {
                return in_path;
            }
            in_text += char::REPLACEMENT_CHARACTER.len_utf8();
            in_path += chunk.invalid().len();
        }
        in_path
    }
}

/// An encoded slash is written as [`Text`] has it, in whichever case the expression does: else the
/// rule would close nothing. What no path can fit is refused for the same reason.
fn regex(expression: &str) -> Result<Regex, String> {
    if let Some(why) = fits_no_path(expression) {
        return Err(why);
    }
    let built = RegexBuilder::new(&expression.replace("%2f", "%2F"))
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_BYTES_MAX)
        .build();
    // The message of a syntax error draws the expression over several lines; the last tells.
    built.map_err(|error| {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default().trim();
        format!("the regular expression is wrong: {}", last.trim_start_matches("error: "))
    })
}

/// Why an expression that is written so fits no canonical path, if that can be seen.
fn fits_no_path(expression: &str) -> Option<String> {
    if let Some(escape) =
        expression.match_indices('%').find_map(|(at, _)| other_escape(expression, at))
    {
        return Some(format!(
            "{escape} fits no path: paths are compared decoded; write the character itself, or \
             [%]{} for a percent sign",
            &escape[1..]
        ));
    }
    if let Some(why) = unseen(expression) {
        return Some(format!(
            "the expression {why}; write \\x{{..}} with its number if it is meant"
        ));
    }
    if expression.trim() != expression {
        return Some("an expression has white space around it; write [ ] if it is meant".into());
    }
    let part = reach::part_without_paths(expression)?;
    Some(format!(
        "{part} fits no path: a path begins with a slash (^/), has no two together, and no query"
    ))
}

/// The escape at a percent sign, unless it is one that paths have: `%2F`, or `%252F`.
fn other_escape(expression: &str, at: usize) -> Option<&str> {
    let escape = expression.get(at..at + 3)?;
    let is_escape = escape.bytes().skip(1).all(|digit| digit.is_ascii_hexdigit());
    let is_slash = |text: &str| text.get(..3).is_some_and(|text| text.eq_ignore_ascii_case("%2f"));
    let is_coded_twice = escape == "%25"
        && expression[at + 3..].get(..2).is_some_and(|more| more.eq_ignore_ascii_case("2f"));
    (is_escape && !is_slash(escape) && !is_coded_twice).then_some(escape)
}

/// The canonical form of a path, percent-encoded or not; `None` when no file can have it.
pub(crate) fn canonical(path: &[u8]) -> Option<Vec<u8>> {
    let mut relative = Vec::new();
    let mapped = path::map(path, true, &mut relative).ok()?;
    let mut canonical = Vec::with_capacity(relative.len() + 2);
    write_canonical(&relative, mapped, &mut canonical);
    Some(canonical)
}

/// Appends the canonical form of what [`path::map`] made.
pub(crate) fn write_canonical(relative: &[u8], mapped: Mapped, out: &mut Vec<u8>) {
    out.push(b'/');
    if relative != b"." {
        out.extend_from_slice(relative);
        if mapped == Mapped::Directory {
            out.push(b'/');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes of paths, some of which make no text.
    const BYTES: &[u8] = b"/abc\xff\xc3\xa9\0";

    fn group<'a>(pattern: &str, path: &'a str, number: usize) -> Option<&'a str> {
        let groups = Pattern::parse(pattern).unwrap().groups_in(path.as_bytes())?;
        groups[number].clone().map(|range| &path[range])
    }

    #[test]
    fn a_path_that_is_no_text_meets_expressions_too() {
        let path = &b"/\xff\xe2\x82/caf\xe9.php/\xc3\xa9"[..];
        let groups = |pattern: &str| {
            let groups = Pattern::parse(pattern).unwrap().groups_in(path)?;
            Some(groups.map(|group| group.map(|range| path[range].to_vec())))
        };
        let found = groups(r"~^/(.*)/([^/]*)\.php/(.)$").unwrap();
        assert_eq!(found[1].as_deref(), Some(&b"\xff\xe2\x82"[..]));
        assert_eq!(found[2].as_deref(), Some(&b"caf\xe9"[..]));
        assert_eq!(found[3].as_deref(), Some(&b"\xc3\xa9"[..]));
        assert_eq!(groups("/%ff%e2%82/*").unwrap()[1].as_deref(), path.get(5..));
        assert!(groups("~^/(..)/caf.[.]php").is_some());
    }

    #[test]
    fn an_expression_reads_an_encoded_slash_as_it_is_written() {
        for (pattern, path, fits) in [
            (r"~^/grp%2Fsecret(/|$)", "/grp%2fsecret/x", true),
            (r"~^/grp%2fsecret(/|$)", "/grp%2Fsecret/x", true),
            (r"~^/[\w.%-]+/admin$", "/grp%2Fsecret/admin", true),
            (r"~^/[^/]+$", "/a%2Fb", true),
            (r"~\x00", "/a%2Fb", false),
            // What is encoded twice is another path.
            (r"~^/grp%2Fsecret", "/grp%252Fsecret", false),
            (r"~^/grp%252Fsecret", "/grp%252Fsecret", true),
        ] {
            let path = canonical(path.as_bytes()).unwrap();
            assert_eq!(Pattern::parse(pattern).unwrap().fits(&path), fits, "{pattern} {path:?}");
        }
        let path = canonical("/x%2Fé%FF%252F/y".as_bytes()).unwrap();
        let groups = Pattern::parse("~^/(x%2F)(..)(%252F)/(y)$").unwrap().groups_in(&path).unwrap();
        let found = |group: usize| &path[groups[group].clone().unwrap()];
        let expected = [&b"x\0"[..], b"\xc3\xa9\xff", b"%2F", b"y"];
        assert_eq!([1, 2, 3, 4].map(found), expected);
    }

    #[test]
    fn an_exact_pattern_is_one_path() {
        assert_eq!(group("/old", "/old", 0), Some("/old"));
        for path in ["/old/", "/older", "/", "/Old"] {
            assert_eq!(group("/old", path, 0), None, "{path}");
        }
        // However it is written.
        assert_eq!(group("/a%20b/../c", "/c", 0), Some("/c"));
        assert_eq!(group("/gr\u{fc}n", "/gr\u{fc}n", 0), Some("/gr\u{fc}n"));
    }

    #[test]
    fn a_star_stands_for_the_rest() {
        assert_eq!(group("/old/*", "/old/a/b", 1), Some("a/b"));
        assert_eq!(group("/old/*", "/old/", 1), Some(""));
        assert_eq!(group("/old/*", "/old", 0), None);
        assert_eq!(group("/old*", "/older", 1), Some("er"));
        assert_eq!(group("/*", "/", 1), Some(""));
    }

    #[test]
    fn groups_of_an_expression_are_numbered() {
        assert_eq!(group(r"~^/user/(\d+)$", "/user/42", 1), Some("42"));
        assert_eq!(group(r"~^/user/(\d+)$", "/user/42/x", 0), None);
        assert_eq!(group(r"~^/(a)?(b)$", "/b", 1), None);
        assert_eq!(group(r"~^/(a)?(b)$", "/b", 2), Some("b"));
        assert_eq!(Pattern::parse(&format!("~{}", "(a)".repeat(20))).unwrap().groups(), 9);
    }

    #[test]
    fn an_expression_that_fits_no_path_is_refused() {
        for text in ["~^/a%20b", "~%5Cx", "~/caf%C3%A9", "~/%73ecret", "~/a%25", "~/a%2520"] {
            let why = Pattern::parse(text).unwrap_err();
            assert!(why.contains("fits no path: paths are compared decoded"), "{text}: {why}");
        }
        for text in ["/a\u{200b}", "~^/a\u{ad}b", "~\u{feff}^/a", "/a\u{2060}/*"] {
            let why = Pattern::parse(text).unwrap_err();
            assert!(why.contains("cannot be seen"), "{text:?}: {why}");
        }
        assert!(Pattern::parse("/a,/b").unwrap_err().contains("looks like a list"));
        assert!(Pattern::parse(r"~^/a{1,2},/b\x{200b}").is_ok());
        for text in ["~^secret/", "~^//secret", "~/a//b", "~ ^/a", "~/a$ ", "/a ", "/a *"] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
        for (text, path) in [
            (r"~/a[%]20b$", "/a%2520b"),
            (r"~^/100%$", "/100%25"),
            (r"~%[a-f]{2}", "/%25ab"),
            (r"~^(/a|/b)/c", "/b/c"),
            (r"~^/?x?", "/x"),
            (r"~%é", "/%25é"),
        ] {
            let path = canonical(path.as_bytes()).unwrap();
            assert!(Pattern::parse(text).unwrap().fits(&path), "{text}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_told_in_one_line() {
        for (text, why) in [
            ("/a/*/b", "a star can only be the last letter"),
            ("/a?b", "a pattern is compared with the path, which has no query"),
            ("/../a", "/../a is not a path that can be asked for"),
            ("~(", "the regular expression is wrong: unclosed group"),
        ] {
            assert_eq!(Pattern::parse(text).unwrap_err(), why);
        }
        // One that would take gigabytes.
        assert!(Pattern::parse(r"~(\w{1000}){1000}").is_err());
    }

    proptest! {
        #[test]
        fn groups_are_within_the_path(
            pattern in "(/[a-c/*]{0,6})|(~[ab(.)?*/$^]{0,8})",
            path in prop::collection::vec(prop::sample::select(BYTES.to_vec()), 0..8),
        ) {
            let path = [b"/", &path[..]].concat();
            let Ok(pattern) = Pattern::parse(&pattern) else { return Ok(()) };
            let groups = pattern.groups_in(&path);
            prop_assert_eq!(pattern.fits(&path), groups.is_some());
            let Some(groups) = groups else { return Ok(()) };
            for group in groups.into_iter().flatten() {
                prop_assert!(path.get(group).is_some());
            }
        }

        #[test]
        fn the_sample_of_a_pattern_matches_it(text in "/[a-c/]{0,6}[*]?") {
            let pattern = Pattern::parse(&text).unwrap();
            prop_assert!(pattern.groups_in(&pattern.sample().unwrap()).is_some());
        }
    }
}
