//! A test that `cargo test` leaves out is one of the full tier.

use super::Finding;
use super::tree::{File, Tree};

const ATTRIBUTE: &str = "#[ignore";

/// The only reason to ignore a test, which `cargo xtask ci` runs then.
const FULL_TIER: &str = "#[ignore = \"full tier\"]";

/// No test is ignored for another reason: it would never run.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().flat_map(ignored).collect()
}

fn ignored(file: &File) -> Vec<Finding> {
    let lines = file.masked.lines().zip(file.text.lines()).enumerate();
    let wrong =
        lines.filter(|(_, (code, text))| code.contains(ATTRIBUTE) && !text.contains(FULL_TIER));
    wrong
        .map(|(at, _)| {
            let instead = format!("mend it, or put it into the full tier: `{FULL_TIER}`");
            Finding::new(&file.path, at + 1, "a test is ignored", instead)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_ignored_for_the_full_tier_alone() {
        let text = "#[ignore = \"slow\"]\n#[ignore]\n#[ignore = \"full tier\"]\n// #[ignore]\n";
        let found = check(&Tree::of(&[("a.rs", text)]));
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [1, 2]);
    }
}
