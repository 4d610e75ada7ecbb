//! Rules by the paths that they are for: hundreds of them are found with a few lookups.
//!
//! Asked only when a path is not in the cache.

use hashbrown::HashMap;
use regex::{Regex, RegexSet, RegexSetBuilder};

use super::pattern::{Pattern, Text};

/// Most bytes that all expressions together may take once compiled.
const SET_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Numbers of rules by pattern.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    exact: HashMap<Box<[u8]>, Vec<u32>>,
    prefixes: HashMap<Box<[u8]>, Vec<u32>>,
    /// The lengths of all prefixes, the longest first.
    lengths: Vec<usize>,
    /// The expressions with their rules, ascending.
    expressions: Vec<(Regex, u32)>,
    /// All expressions at once; `None` when they are too large together, and each is asked alone.
    set: Option<RegexSet>,
}

impl Default for Table {
    fn default() -> Table {
        Table::new(&[])
    }
}

impl Table {
    /// The table of these patterns, each the rule of its index.
    pub(crate) fn new(patterns: &[Pattern]) -> Table {
        let mut exact = HashMap::new();
        let mut prefixes: HashMap<Box<[u8]>, Vec<u32>> = HashMap::new();
        let mut expressions = Vec::new();
        for (rule, pattern) in (0..).zip(patterns) {
            let rules: &mut Vec<u32> = match pattern {
                Pattern::Exact(path) => exact.entry(path.as_slice().into()).or_default(),
                Pattern::Prefix(path) => prefixes.entry(path.as_slice().into()).or_default(),
                Pattern::Regex(regex) => {
                    expressions.push((regex.clone(), rule));
                    continue;
                }
            };
            rules.push(rule);
        }
        let mut lengths: Vec<usize> = prefixes.keys().map(|path| path.len()).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths.dedup();
        let all = expressions.iter().map(|(regex, _)| regex.as_str());
        let set = RegexSetBuilder::new(all).size_limit(SET_BYTES_MAX).build().ok();
        Table { exact, prefixes, lengths, expressions, set }
    }

    /// True when no rule is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.prefixes.is_empty() && self.expressions.is_empty()
    }

    /// The rule of this canonical path: an exact one, else that of the longest prefix, else the
    /// first expression that finds something.
    pub(crate) fn first(&self, path: &[u8]) -> Option<u32> {
        if let Some(rules) = self.exact.get(path) {
            return rules.first().copied();
        }
        let prefix = self.prefixes_of(path).next().and_then(|rules| rules.first().copied());
        prefix.or_else(|| self.expressions_in(path).next())
    }

    /// All rules of this canonical path, ascending.
    pub(crate) fn all(&self, path: &[u8]) -> Vec<u32> {
        let mut rules: Vec<u32> = self.exact.get(path).cloned().unwrap_or_default();
        rules.extend(self.prefixes_of(path).flatten());
        rules.extend(self.expressions_in(path));
        rules.sort_unstable();
        rules
    }

    fn prefixes_of<'a>(&'a self, path: &'a [u8]) -> impl Iterator<Item = &'a Vec<u32>> {
        let prefix = |&length: &usize| self.prefixes.get(path.get(..length)?);
        self.lengths.iter().filter_map(prefix)
    }

    /// The rules of the expressions that find something, ascending.
    fn expressions_in(&self, path: &[u8]) -> impl Iterator<Item = u32> {
        if self.expressions.is_empty() {
            return Vec::new().into_iter();
        }
        let text = Text::of(path);
        let path = text.as_str();
        let found: Vec<u32> = match &self.set {
            Some(set) => {
                let rule = |at: usize| self.expressions.get(at).map(|(_, rule)| *rule);
                set.matches(path).into_iter().filter_map(rule).collect()
            }
            None => {
                let found = self.expressions.iter().filter(|(regex, _)| regex.is_match(path));
                found.map(|(_, rule)| *rule).collect()
            }
        };
        found.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(patterns: &[&str]) -> Table {
        let patterns: Vec<Pattern> =
            patterns.iter().map(|text| Pattern::parse(text).unwrap()).collect();
        Table::new(&patterns)
    }

    #[test]
    fn exact_wins_over_the_longest_prefix_and_that_over_the_first_expression() {
        let table = table(&["~^/a", "/a/*", "/a/b/*", "/a/b/c", "~b", "/*"]);
        for (path, rule) in
            [("/a/b/c", 3), ("/a/b/d", 2), ("/a/b/", 2), ("/a/x", 1), ("/x", 5), ("/a", 5)]
        {
            assert_eq!(table.first(path.as_bytes()), Some(rule), "{path}");
        }
        assert_eq!(super::Table::default().first(b"/a"), None);
    }

    #[test]
    fn the_first_expression_counts() {
        let table = table(&["~b", "~a", "/z"]);
        assert_eq!(table.first("/ab".as_bytes()), Some(0));
        assert_eq!(table.first("/a".as_bytes()), Some(1));
        assert_eq!(table.first("/c".as_bytes()), None);
    }

    #[test]
    fn expressions_that_are_too_large_together_are_asked_one_by_one() {
        let large: Vec<String> = (0..60).map(|n| format!(r"~^/a{n}(\w{{20}})?$")).collect();
        let large: Vec<&str> = large.iter().map(String::as_str).collect();
        let table = table(&large);
        assert!(table.set.is_none());
        assert_eq!(table.first("/a50".as_bytes()), Some(50));
        assert_eq!(table.all("/a7".as_bytes()), [7]);
        assert_eq!(table.first("/b".as_bytes()), None);
    }

    #[test]
    fn all_rules_come_in_their_order() {
        let table = table(&["/*", "~b$", "/a/b", "/a/*", "/a/b", "/c"]);
        assert_eq!(table.all("/a/b".as_bytes()), [0, 1, 2, 3, 4]);
        assert_eq!(table.all("/c".as_bytes()), [0, 5]);
        assert_eq!(table.all("/d".as_bytes()), [0]);
    }

    #[test]
    fn a_prefix_that_ends_within_a_character_of_the_path_is_passed_over() {
        let table = table(&["/\u{e9}*", "/ab*"]);
        assert!(table.all("/a\u{e9}".as_bytes()).is_empty());
        assert_eq!(table.all("/\u{e9}b".as_bytes()), [0]);
    }

    proptest! {
        #[test]
        fn the_table_agrees_with_asking_each_rule(
            texts in prop::collection::vec(
                "(/[ab/]{0,4}[*]?)|(~(\\^/)?[ab](/?[ab]){0,2}/?\\$?)",
                0..12,
            ),
            path in "/[ab/]{0,5}",
        ) {
            let patterns: Vec<Pattern> =
                texts.iter().map(|text| Pattern::parse(text).unwrap()).collect();
            let matching: Vec<u32> = (0..patterns.len() as u32)
                .filter(|&rule| patterns[rule as usize].groups_in(path.as_bytes()).is_some())
                .collect();
            let table = Table::new(&patterns);
            prop_assert_eq!(table.all(path.as_bytes()), matching.clone());
            let rank = |&rule: &u32| match &patterns[rule as usize] {
                Pattern::Exact(_) => (0, 0, rule),
                Pattern::Prefix(prefix) => (1, usize::MAX - prefix.len(), rule),
                Pattern::Regex(_) => (2, 0, rule),
            };
            prop_assert_eq!(table.first(path.as_bytes()), matching.into_iter().min_by_key(rank));
        }
    }
}
