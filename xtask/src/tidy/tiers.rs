//! A test that `cargo test` leaves out is one of the full tier, and examples in documentation run.

use super::Finding;
use super::tree::{File, Tree};

const ATTRIBUTE: &str = "#[ignore";

/// The only reason to ignore a test, which `cargo xtask ci` runs then.
const FULL_TIER: &str = "#[ignore = \"full tier\"]";

/// Where a crate says that it has no examples: asking each for them takes a second.
const NO_EXAMPLES: &str = "doctest = false";

/// No test is ignored for another reason: it would never run. Nor would an example of a crate that
/// has none, by its manifest.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().flat_map(ignored).chain(examples(tree)).collect()
}

fn examples(tree: &Tree) -> Vec<Finding> {
    let without = |file: &&File| file.text.lines().any(|line| line == NO_EXAMPLES);
    let manifests = tree.files.iter().filter(without);
    let crates = manifests.filter_map(|file| file.path.strip_suffix("Cargo.toml"));
    let sources: Vec<_> = crates.map(|path| format!("{path}src/")).collect();
    let all = tree.rust().filter(|file| sources.iter().any(|path| file.path.starts_with(path)));
    let mut found = Vec::new();
    for file in all {
        let fences = file.lines().filter_map(|(at, line)| Some((at, fence(line)?)));
        // Every second one ends what the one before has begun.
        for (at, language) in fences.step_by(2) {
            if language.is_empty() || language.starts_with("rust") {
                let instead = "let its crate be asked for examples: it has `doctest = false`";
                found.push(Finding::new(&file.path, at, "an example never runs", instead));
            }
        }
    }
    found
}

/// What stands behind the fence of a block of code in documentation, if the line is one.
fn fence(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("/// ```").or_else(|| line.strip_prefix("//! ```"))
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

    #[test]
    fn an_example_is_in_a_crate_that_is_asked_for_them() {
        let text = "/// ```text\n/// ```\n/// ```\n/// ```\nfn f() {}\n";
        let files = [("a/src/lib.rs", text), ("b/src/lib.rs", text)];
        let manifests = [("a/Cargo.toml", "[lib]\ndoctest = false\n"), ("b/Cargo.toml", "[lib]\n")];
        let found = check(&Tree::of(&[files, manifests].concat()));
        let places: Vec<_> = found.iter().map(|one| (one.path.as_str(), one.line)).collect();
        assert_eq!(places, [("a/src/lib.rs", 3)]);
    }
}
