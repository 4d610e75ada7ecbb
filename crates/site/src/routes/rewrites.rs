//! Paths that are answered as if another had been asked for.

use super::pattern::{Pattern, canonical};
use super::settings::{Holds, RewriteSettings};
use super::table::Table;
use super::target::{Sent, Target};

/// Most times that what came of a rule is looked up again.
pub(crate) const ROUNDS_MAX: usize = 10;

/// The rewrites of a site.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rewrites {
    /// Those that hold whatever is there.
    always: Rules,
    /// Those that hold where no file is.
    no_file: Rules,
}

#[derive(Clone, Debug, Default)]
struct Rules {
    table: Table,
    rules: Vec<(Pattern, Target)>,
}

/// What is looked for in the place of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rewritten {
    /// The canonical path.
    pub(crate) path: Vec<u8>,
    /// The query that comes before the one that was sent, if a rule has one.
    pub(crate) query: Option<Vec<u8>>,
}

/// The rules of a path did not come to an end within [`ROUNDS_MAX`] rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endless;

impl Rewrites {
    /// The rewrites of these settings; those that are wrong are left out.
    pub(crate) fn new(settings: &[RewriteSettings]) -> Rewrites {
        let of = |holds| Rules::new(settings.iter().filter(|rule| rule.holds == holds));
        Rewrites { always: of(Holds::Always), no_file: of(Holds::NoFile) }
    }

    /// What is looked for in the place of a canonical path, by the rules that hold whatever is
    /// there; the same where there is none, or where what came of a rule is no path.
    ///
    /// # Errors
    /// When that has no end.
    pub(crate) fn apply(&self, path: Vec<u8>) -> Result<Rewritten, Endless> {
        self.go_on(Rewritten { path, query: None })
    }

    fn go_on(&self, rewritten: Rewritten) -> Result<Rewritten, Endless> {
        let mut now = rewritten;
        if self.always.table.is_empty() {
            return Ok(now);
        }
        for _ in 0..=ROUNDS_MAX {
            match self.always.once(&now).filter(|next| next.path != now.path) {
                Some(next) => now = next,
                None => return Ok(now),
            }
        }
        Err(Endless)
    }

    /// Whether a rule holds for this canonical path where no file is.
    pub(crate) fn lead_on(&self, path: &[u8]) -> bool {
        !self.no_file.table.is_empty() && self.no_file.table.first(path).is_some()
    }

    /// What is looked for instead where no file is at this place; `None` where no rule says so.
    ///
    /// # Errors
    /// When that has no end.
    pub(crate) fn otherwise(&self, rewritten: &Rewritten) -> Result<Option<Rewritten>, Endless> {
        let next = self.no_file.once(rewritten);
        next.map(|next| self.go_on(next)).transpose()
    }
}

impl Rules {
    fn new<'a>(settings: impl Iterator<Item = &'a RewriteSettings>) -> Rules {
        let rule = |rule: &RewriteSettings| {
            let from = Pattern::parse(&rule.from).ok()?;
            let to = Target::parse(&rule.to, from.groups()).ok()?;
            Some((from, to))
        };
        let rules: Vec<(Pattern, Target)> = settings.filter_map(rule).collect();
        let patterns: Vec<Pattern> = rules.iter().map(|(from, _)| from.clone()).collect();
        Rules { table: Table::new(&patterns), rules }
    }

    fn once(&self, now: &Rewritten) -> Option<Rewritten> {
        let path = &now.path;
        let (from, to) = self.rules.get(self.table.first(path)? as usize)?;
        let mut out = Vec::new();
        to.write(&Sent { path, query: b"", host: b"" }, &from.groups_in(path)?, &mut out);
        let mut query = now.query.clone();
        if to.has_query() {
            let at = memchr::memchr(b'?', &out).unwrap_or(out.len());
            query = Some(joined(out.get(at + 1..).unwrap_or_default(), query));
            out.truncate(at);
        }
        Some(Rewritten { path: canonical(&out)?, query })
    }
}

/// One query before another.
fn joined(first: &[u8], then: Option<Vec<u8>>) -> Vec<u8> {
    match then {
        Some(then) if !then.is_empty() && !first.is_empty() => [first, b"&", &then].concat(),
        Some(then) if first.is_empty() => then,
        _ => first.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rewrites(rules: &[(&str, &str)]) -> Rewrites {
        let settings: Vec<RewriteSettings> = rules
            .iter()
            .map(|&(from, to)| RewriteSettings {
                from: from.into(),
                to: to.into(),
                holds: Holds::Always,
            })
            .collect();
        Rewrites::new(&settings)
    }

    fn applied(rules: &[(&str, &str)], path: &str) -> Result<Option<String>, Endless> {
        let Rewritten { path: found, query } = rewrites(rules).apply(path.as_bytes().to_vec())?;
        assert_eq!(query, None);
        let found = Some(found).filter(|found| found != path.as_bytes());
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
    fn a_query_of_a_rule_comes_before_those_of_earlier_ones() {
        let rules = [("/a/*", "/b?id=$1"), ("/b", "/c?first"), ("/d", "/e?"), ("/*", "/a")];
        let rules = rewrites(&rules[..3]);
        for (path, to, query) in [
            ("/a/x&y=z", "/c", Some("first&id=x%26y%3Dz")),
            ("/a/1?2", "/c", Some("first&id=1%3F2")),
            ("/b", "/c", Some("first")),
            ("/d", "/e", Some("")),
            ("/x", "/x", None),
        ] {
            let found = rules.apply(path.into()).unwrap();
            assert_eq!(found, Rewritten { path: to.into(), query: query.map(Into::into) });
        }
    }

    #[test]
    fn where_no_file_is_a_rule_leads_on_once() {
        let rule = |from: &str, to: &str, holds| RewriteSettings {
            from: from.into(),
            to: to.into(),
            holds,
        };
        let rules = Rewrites::new(&[
            rule("/*", "/index.php?q=$1", Holds::NoFile),
            rule("/index.php", "/front.php", Holds::Always),
            rule("/old/*", "/$1", Holds::Always),
        ]);
        let first = rules.apply(b"/old/x".to_vec()).unwrap();
        assert_eq!(first, Rewritten { path: b"/x".to_vec(), query: None });
        assert!(rules.lead_on(&first.path) && !Rewrites::default().lead_on(b"/x"));
        let then = rules.otherwise(&first).unwrap();
        let query = Some(b"q=x".to_vec());
        assert_eq!(then, Some(Rewritten { path: b"/front.php".to_vec(), query }));
        assert_eq!(Rewrites::default().otherwise(&first), Ok(None));
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
