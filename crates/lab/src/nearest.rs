//! The nearest of names.

use strsim::levenshtein;

/// A name nearer than so many changes is offered for one that is unknown.
const NEAR_MAX: usize = 4;

/// The name that differs least from what was written, if it is near enough.
pub fn nearest<'a>(written: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = names.map(|name| (levenshtein(written, name), name)).min()?;
    (near.0 <= NEAR_MAX).then_some(near.1)
}
