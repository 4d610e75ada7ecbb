//! Paths that are answered as if another had been asked for.

use super::pattern::{Pattern, canonical};
use super::settings::RewriteSettings;
use super::table::Table;
use super::target::Target;

/// Most times that what came of a rule is looked up again.
pub(crate) const ROUNDS_MAX: usize = 10;

/// The rewrites of a site.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rewrites {
    table: Table,
    rules: Vec<(Pattern, Target)>,
}

/// The rules of a path did not come to an end within [`ROUNDS_MAX`] rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endless;

impl Rewrites {
    /// The rewrites of these settings; those that are wrong are left out.
    pub(crate) fn new(settings: &[RewriteSettings]) -> Rewrites {
        let rule = |rule: &RewriteSettings| {
            let from = Pattern::parse(&rule.from).ok()?;
            let to = Target::parse(&rule.to, from.groups()).ok()?;
            Some((from, to))
        };
        let rules: Vec<(Pattern, Target)> = settings.iter().filter_map(rule).collect();
        let patterns: Vec<Pattern> = rules.iter().map(|(from, _)| from.clone()).collect();
        Rewrites { table: Table::new(&patterns), rules }
    }

    /// The canonical path that is looked for in the place of this one; `None` when it is the same,
    /// or when what came of a rule is no path.
    ///
    /// # Errors
    /// When that has no end.
    pub(crate) fn apply(&self, path: &[u8]) -> Result<Option<Vec<u8>>, Endless> {
        if self.table.is_empty() {
            return Ok(None);
        }
        let mut now: Option<Vec<u8>> = None;
        for _ in 0..=ROUNDS_MAX {
            let current = now.as_deref().unwrap_or(path);
            let Some(next) = self.once(current).filter(|next| next != current) else {
                return Ok(now);
            };
            now = Some(next);
        }
        Err(Endless)
    }

    fn once(&self, path: &[u8]) -> Option<Vec<u8>> {
        let (from, to) = self.rules.get(self.table.first(path)? as usize)?;
        let mut out = Vec::new();
        to.write(path, &from.groups_in(path)?, b"", &mut out);
        canonical(&out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rewrites(rules: &[(&str, &str)]) -> Rewrites {
        let settings: Vec<RewriteSettings> = rules
            .iter()
            .map(|&(from, to)| RewriteSettings { from: from.into(), to: to.into() })
            .collect();
        Rewrites::new(&settings)
    }

    fn applied(rules: &[(&str, &str)], path: &str) -> Result<Option<String>, Endless> {
        let found = rewrites(rules).apply(path.as_bytes())?;
        Ok(found.map(|path| String::from_utf8(path).expect("it is text here")))
    }

    #[test]
    fn what_comes_of_a_rule_is_looked_up_again() {
        let rules = [("/a", "/b"), ("/b", "/c"), ("/d/*", "/e/$1"), ("~^/e/(.)", "/f/$1.txt")];
        for (path, expected) in [
            ("/a", Some("/c")),
            ("/d/x", Some("/f/x.txt")),
            ("/d/\u{fc} ", Some("/f/\u{fc}.txt")),
            ("/q", None),
        ] {
            assert_eq!(applied(&rules, path), Ok(expected.map(str::to_owned)), "{path}");
        }
    }

    #[test]
    fn rules_that_lead_round_in_a_circle_are_given_up() {
        assert_eq!(applied(&[("/a", "/b"), ("/b", "/a")], "/a"), Err(Endless));
        assert_eq!(applied(&[("~^/(.*)$", "/x/$1")], "/a"), Err(Endless));
        // What changes nothing is an end.
        assert_eq!(applied(&[("/*", "/index.html")], "/a"), Ok(Some("/index.html".into())));
        let long: Vec<(String, String)> =
            (0..ROUNDS_MAX).map(|n| (format!("/{n}"), format!("/{}", n + 1))).collect();
        let long: Vec<(&str, &str)> = long.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(applied(&long, "/0"), Ok(Some(format!("/{ROUNDS_MAX}"))));
    }

    #[test]
    fn groups_cannot_climb_out() {
        let rules = [("~^/(.)x(.)/(.*)$", "/a/$1$2/$3")];
        // What would leave the root is no path, and the rule is not for it.
        assert_eq!(applied(&rules, "/.x./../etc"), Ok(None));
        assert_eq!(applied(&rules, "/.x./etc"), Ok(Some("/etc".into())));
    }

    proptest! {
        #[test]
        fn whatever_comes_of_a_rule_is_canonical(path in "/[a-c./%2]{0,10}") {
            let Some(path) = canonical(path.as_bytes()) else { return Ok(()) };
            let Ok(path) = String::from_utf8(path) else { return Ok(()) };
            let rules = [("~^/(.*)a(.*)$", "/$2/$1"), ("/b/*", "/$1"), ("/c*", "/$1$1")];
            if let Ok(Some(found)) = applied(&rules, &path) {
                let mut encoded = Vec::new();
                crate::path::encode_path(found.trim_matches('/').as_bytes(), &mut encoded);
                if found.ends_with('/') && found != "/" {
                    encoded.push(b'/');
                }
                if found != "/" {
                    prop_assert_eq!(canonical(&encoded), Some(found.into_bytes()));
                }
            }
        }
    }
}
