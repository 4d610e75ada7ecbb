//! A bound of wall time in a test is one that `cargo xtask ci --timed` finds.

use super::Finding;
use super::tree::{File, Tree};

/// Comparisons of a time that has gone by with the most that it may be.
const COMPARED: [&str; 1] = ["elapsed() <"];

/// The function of testkit that compares it instead.
pub(crate) const BOUND: &str = "assert_within";

/// Where tests are executables of their own, and have testkit.
const TESTS: &str = "tests/";

/// No such test asserts by itself that something was done in time.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().flat_map(compared).collect()
}

fn compared(file: &File) -> Vec<Finding> {
    let lines = file.masked.lines().enumerate().filter(|(_, line)| {
        let asserts = line.contains("assert!(") && COMPARED.iter().any(|c| line.contains(c));
        asserts && file.path.contains(TESTS)
    });
    lines
        .map(|(at, _)| {
            let what = "a bound of wall time that the list of those does not have";
            Finding::new(&file.path, at + 1, what, format!("use testkit's `{BOUND}`"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assertion_about_elapsed_time_is_found_in_tests() {
        let text = "fn a() {\n    assert!(start.elapsed() < MOST);\n    \
                    assert!(start.elapsed() >= LEAST);\n    while start.elapsed() < LONG {}\n}\n";
        let lines = |path| {
            let found = check(&Tree::of(&[(path, text)]));
            found.iter().map(|finding| finding.line).collect::<Vec<_>>()
        };
        assert_eq!(lines("a/tests/a.rs"), [2]);
        assert!(lines("a/src/a.rs").is_empty());
    }
}
