//! Which lines of a file, and which module files, are compiled for tests only.

use std::ops::RangeInclusive;

use super::{Token, body_or_end, closing};

/// The parts of a file that only tests compile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TestOnly {
    /// Lines of items under `#[cfg(test)]` or `#[test]`.
    pub(crate) lines: Vec<RangeInclusive<usize>>,
    /// Modules declared under `#[cfg(test)]` whose text is in another file.
    pub(crate) modules: Vec<String>,
}

impl TestOnly {
    /// Whether `line` belongs to a test-only item.
    pub(crate) fn contains(&self, line: usize) -> bool {
        self.lines.iter().any(|range| range.contains(&line))
    }
}

/// Finds the test-only items of a file.
pub(crate) fn test_only(tokens: &[Token<'_>]) -> TestOnly {
    let mut found = TestOnly::default();
    let mut at = 0;
    while at < tokens.len() {
        let inner = tokens.get(at + 1).is_some_and(|token| token.text == "!");
        let open = at + 1 + usize::from(inner);
        let is_attribute =
            tokens[at].text == "#" && tokens.get(open).is_some_and(|token| token.text == "[");
        if !is_attribute {
            at += 1;
            continue;
        }
        let close = closing(tokens, open);
        if !is_for_tests(&tokens[open + 1..close]) {
            at = close + 1;
        } else if inner {
            found.lines.push(1..=usize::MAX); // `#![cfg(test)]` speaks for the whole file.
            at = close + 1;
        } else {
            at = item(tokens, at, close + 1, &mut found);
        }
    }
    found
}

/// Whether the words of an attribute are `test` or a `cfg` that needs `test`.
fn is_for_tests(attribute: &[Token<'_>]) -> bool {
    let words: Vec<&str> = attribute.iter().map(|token| token.text).collect();
    match words.first() {
        Some(&"test") => true,
        Some(&"cfg") => {
            words.contains(&"test") && !words.contains(&"not") && !words.contains(&"any")
        }
        _ => false,
    }
}

/// Records the item whose attributes begin at `start` and go on at `at`; returns the index behind.
fn item(tokens: &[Token<'_>], start: usize, mut at: usize, found: &mut TestOnly) -> usize {
    while tokens.get(at).is_some_and(|token| token.text == "#") {
        at = closing(tokens, at + 1) + 1;
    }
    let Some(body) = body_or_end(tokens, at) else { return at };
    if let Some(name) = body.checked_sub(1).filter(|&name| tokens[name - 1].text == "mod")
        && tokens[body].text == ";"
    {
        found.modules.push(tokens[name].text.to_string());
    }
    let end = if tokens[body].text == "{" { closing(tokens, body) } else { body };
    found.lines.push(tokens[start].line..=tokens[end].line);
    end + 1
}

#[cfg(test)]
mod tests {
    use super::super::tokens;
    use super::*;

    #[test]
    fn a_test_module_is_test_only_from_its_attribute_to_its_brace() {
        let code = "fn a() {}\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n  fn b() {}\n}\nfn c() {}";
        let found = test_only(&tokens(code));
        assert_eq!(found.lines, [2..=6]);
        assert!(found.contains(5) && !found.contains(1) && !found.contains(7));
    }

    #[test]
    fn a_test_module_in_another_file_is_named() {
        let found = test_only(&tokens("#[cfg(test)]\nmod simulation;\nmod real;"));
        assert_eq!(found.modules, ["simulation"]);
        assert_eq!(found.lines, [1..=2]);
    }

    #[test]
    fn a_cfg_that_also_holds_without_tests_is_not_test_only() {
        assert_eq!(test_only(&tokens("#[cfg(not(test))] fn a() {}")), TestOnly::default());
        assert_eq!(test_only(&tokens("#[cfg(any(test, unix))] fn a() {}")), TestOnly::default());
        assert_eq!(test_only(&tokens("#[cfg(all(test, unix))] fn a() {}")).lines, [1..=1]);
    }

    #[test]
    fn a_test_function_and_a_whole_test_file_are_test_only() {
        assert_eq!(test_only(&tokens("#[test]\nfn a() {\n}\n")).lines, [1..=3]);
        assert!(test_only(&tokens("#![cfg(test)]\nfn a() {}")).contains(2));
    }
}
