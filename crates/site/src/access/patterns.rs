//! From where one may come to what fits a pattern. Every rule that fits is asked, and the first
//! that refuses counts: a second one can close more, and opens nothing.

use flyball_http::Remote;

use super::admission::Admission;
use crate::routes::Pattern;

/// Patterns of paths, each with those who may come.
#[derive(Debug, Default)]
pub(super) struct Patterns(Vec<(Pattern, Admission)>);

impl Patterns {
    /// Rules that admit every client are left out.
    pub(super) fn new(rules: Vec<(Pattern, Admission)>) -> Patterns {
        Patterns(rules.into_iter().filter(|(_, admission)| !admission.is_open()).collect())
    }

    /// Whether there are none, so that no URL has to be made for them.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a client may come to a URL.
    pub(super) fn admit(&self, url: &[u8], client: Remote) -> bool {
        self.0.iter().all(|(pattern, who)| who.admits(client) || !pattern.fits_somehow(url))
    }

    /// Whether not everybody may come to a URL.
    pub(super) fn restrict(&self, url: &[u8]) -> bool {
        self.0.iter().any(|(pattern, _)| pattern.fits_somehow(url))
    }

    /// Whether one of them closes a URL and says nothing of the one that was asked for.
    pub(super) fn close_beside(&self, asked: &[u8], url: &[u8]) -> bool {
        self.0.iter().any(|(pattern, _)| pattern.fits_somehow(url) && !pattern.fits_somehow(asked))
    }
}
