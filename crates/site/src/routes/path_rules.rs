//! Rules that name their paths in one of two ways: all beneath a path, or all that fit a pattern.
//! The first that a URL fits counts.

use std::sync::Arc;

use super::paths::{Prefix, readings, relative_of_url};
use super::pattern::Pattern;

/// The rules of a site, in their order, each with what it says.
#[derive(Clone, Debug)]
pub(crate) struct PathRules<T>(Arc<[(Paths, T)]>);

#[derive(Clone, Debug)]
enum Paths {
    Beneath(Prefix),
    Fitting(Pattern),
}

impl Paths {
    /// `None` when neither a path nor a right pattern is given.
    fn of(path: Option<&str>, pattern: Option<&str>) -> Option<Paths> {
        match path {
            Some(path) => Some(Paths::Beneath(Prefix::of(path))),
            None => Pattern::parse(pattern?).ok().map(Paths::Fitting),
        }
    }

    fn fit(&self, url: &[u8]) -> bool {
        match self {
            Paths::Beneath(prefix) => readings(url).any(|url| prefix.covers(relative_of_url(&url))),
            Paths::Fitting(pattern) => pattern.fits_somehow(url),
        }
    }
}

impl<T: Copy> PathRules<T> {
    /// These rules, each with its path, or else its pattern; those that are wrong are left out.
    pub(crate) fn of_paths<'a>(
        rules: impl Iterator<Item = ((Option<&'a str>, Option<&'a str>), T)>,
    ) -> PathRules<T> {
        let rule = |((path, pattern), says)| Some((Paths::of(path, pattern)?, says));
        PathRules(rules.filter_map(rule).collect())
    }

    /// Whether there are none, so that no URL has to be made for them.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the first rule says that a canonical URL fits.
    pub(crate) fn of(&self, url: &[u8]) -> Option<T> {
        self.0.iter().find(|(paths, _)| paths.fit(url)).map(|(_, says)| *says)
    }
}

impl<T> Default for PathRules<T> {
    fn default() -> PathRules<T> {
        PathRules(Arc::new([]))
    }
}
