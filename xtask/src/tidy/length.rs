//! How long files, functions and lines may be.

use super::Finding;
use super::ratchet::{COLUMNS, FILE_LINES, FUNCTION_LINES, Measure, hold};
use super::tree::{File, Tree};
use crate::rust::functions::functions;

/// Documents that `cargo xtask docs` writes.
pub(super) const GENERATED: [&str; 3] =
    ["docs/experiment-settings.md", "docs/settings.md", "docs/h1-states.md"];

/// What each change adds to, and what nothing is taken from.
const HISTORY: &str = "CHANGELOG.md";

/// Files, functions and lines keep to their limits, or to their frozen exceptions.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    // What is made from code is as long as that makes it, and a history as time makes it.
    let is_free = |path: &str| GENERATED.contains(&path) || path == HISTORY;
    let written = tree.files.iter().filter(|file| !is_free(&file.path));
    let files: Vec<Measure> = written.map(file).collect();
    let functions: Vec<Measure> = tree.files.iter().flat_map(file_functions).collect();
    let lines: Vec<Measure> = tree.files.iter().flat_map(file_lines).collect();
    [(FILE_LINES, files), (FUNCTION_LINES, functions), (COLUMNS, lines)]
        .into_iter()
        .flat_map(|(limit, measures)| hold(tree, limit, &measures))
        .collect()
}

fn file(file: &File) -> Measure {
    let path = file.path.clone();
    Measure { key: path.clone(), path, line: 1, count: file.lines().count() }
}

fn file_functions(file: &File) -> Vec<Measure> {
    let measure = |function: crate::rust::functions::Function| Measure {
        key: format!("{} {}", file.path, function.name),
        path: file.path.clone(),
        line: function.line,
        count: function.lines,
    };
    functions(&file.tokens()).into_iter().map(measure).collect()
}

fn file_lines(file: &File) -> Vec<Measure> {
    let measure = |(line, text): (usize, &str)| Measure {
        key: file.path.clone(),
        path: file.path.clone(),
        line,
        count: text.chars().count(),
    };
    file.lines().filter(|(_, text)| can_be_wrapped(file, text)).map(measure).collect()
}

/// Addresses, rows of a Markdown table and inline tables of a manifest cannot be wrapped, and what
/// is made from code is wrapped nowhere.
fn can_be_wrapped(file: &File, line: &str) -> bool {
    let is_row = file.path.ends_with(".md") && line.starts_with('|');
    let is_manifest = file.path.ends_with("Cargo.toml");
    let is_generated = GENERATED.contains(&file.path.as_str());
    !is_row && !is_manifest && !is_generated && !line.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let findings = check(&Tree::of(&[(path, text)]));
        findings.iter().map(|finding| format!("{}: {}", finding.line, finding.what)).collect()
    }

    #[test]
    fn a_file_has_at_most_800_lines() {
        assert!(findings("a.rs", &"\n".repeat(800)).is_empty());
        assert_eq!(findings("a.rs", &"\n".repeat(801)), ["1: 801 lines in the file, at most 800"]);
        assert!(findings("CHANGELOG.md", &"\n".repeat(801)).is_empty());
    }

    #[test]
    fn a_function_has_at_most_70_lines() {
        let function = |lines: usize| format!("\nfn f() {{{}}}", "\n".repeat(lines - 1));
        assert!(findings("a.rs", &function(70)).is_empty());
        assert_eq!(findings("a.rs", &function(71)), ["2: 71 lines in the function, at most 70"]);
        assert!(findings("a.md", &function(71)).is_empty());
    }

    #[test]
    fn a_line_has_at_most_100_characters_unless_it_cannot_be_wrapped() {
        let long = "é".repeat(101);
        assert!(findings("a.rs", &long[2..]).is_empty());
        assert_eq!(findings("a.rs", &format!("\n{long}")), ["2: 101 columns, at most 100"]);
        assert_eq!(findings("a.md", &long), ["1: 101 columns, at most 100"]);
        assert!(findings("a.md", &format!("| {long} |")).is_empty());
        assert!(findings("a.md", &format!("https://{long}")).is_empty());
        assert!(findings("a/Cargo.toml", &long).is_empty());
        assert!(findings("docs/settings.md", &long).is_empty());
    }
}
