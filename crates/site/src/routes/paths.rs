//! Which paths a rule is for that names a tree of them.

use std::borrow::Cow;
use std::iter;

use crate::path::{self, Mapped};

use super::pattern::write_canonical;

/// The beginning of paths: whole segments, decoded, without slashes at the ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prefix(Vec<u8>);

impl Prefix {
    /// What is at a path and beneath it, however that is written.
    pub(crate) fn of(path: &str) -> Prefix {
        let mut relative = Vec::new();
        relative_of(path.as_bytes(), &mut relative);
        Prefix(relative)
    }

    pub(crate) fn covers(&self, path: &[u8]) -> bool {
        let rest = path.strip_prefix(&self.0[..]);
        self.0.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    }

    /// How much of a path it names: of two that cover a path, the longer one says more.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// A path as the file system would have it, so that no other spelling of it gets around a rule. One
/// that is malformed names nothing, and counts as the root.
pub(crate) fn relative_of<'a>(path: &[u8], relative: &'a mut Vec<u8>) -> (&'a [u8], Mapped) {
    // Nothing is hidden from a rule.
    let mapped = path::map(path, true, relative);
    if relative == b"." {
        relative.clear();
    }
    (relative, mapped.unwrap_or(Mapped::Directory))
}

/// The same, as the tree of a canonical URL has it.
pub(crate) fn relative_of_url(url: &[u8]) -> &[u8] {
    let relative = url.strip_prefix(b"/").unwrap_or(url);
    relative.strip_suffix(b"/").unwrap_or(relative)
}

/// The URL that patterns are compared with, of what [`relative_of`] has made.
pub(crate) fn url_of<'a>(relative: &[u8], mapped: Mapped, url: &'a mut Vec<u8>) -> &'a [u8] {
    url.clear();
    let relative = if relative.is_empty() { b"." } else { relative };
    write_canonical(relative, mapped, url);
    url
}

/// A decoded path or URL in each of its readings: a program may take a slash that was encoded for a
/// byte of a name, or for a separator, and no rule may be got around by either.
pub(crate) fn readings(path: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let other = path::read_as_separators(path).map(Cow::Owned);
    iter::once(Cow::Borrowed(path)).chain(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_url_of_a_path_is_the_same_however_it_is_written() {
        for (path, expected) in [
            ("/", "/"),
            ("//", "/"),
            ("/a/../b//%63", "/b/c"),
            ("/a/.", "/a/"),
            ("/a/", "/a/"),
            // It names nothing.
            ("/../a", "/"),
        ] {
            let (mut relative, mut url) = (Vec::new(), Vec::new());
            let (relative, mapped) = relative_of(path.as_bytes(), &mut relative);
            assert_eq!(url_of(relative, mapped, &mut url), expected.as_bytes(), "{path}");
            assert_eq!(relative_of_url(expected.as_bytes()), relative, "{path}");
        }
    }

    proptest! {
        #[test]
        fn what_is_beneath_a_path_is_found_however_it_is_written(
            segments in prop::collection::vec("[a-c]{1,2}", 0..4),
            prefix in prop::collection::vec("[a-c]{1,2}", 0..3),
            slashes in 1usize..3,
            encoded: bool,
        ) {
            let mut path = "/".repeat(slashes) + &segments.join(&"/".repeat(slashes));
            if encoded {
                path = path.replace('a', "%61").replace('b', "%62");
            }
            let mut relative = Vec::new();
            let found = Prefix::of(&format!("/{}/", prefix.join("/")))
                .covers(relative_of(path.as_bytes(), &mut relative).0);
            prop_assert_eq!(found, segments.starts_with(&prefix));
        }
    }
}
