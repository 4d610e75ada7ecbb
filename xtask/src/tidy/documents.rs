//! ARCHITECTURE.md stays short and true, and docs/internals.md stays true.

use super::Finding;
use super::markdown::{code_spans, prose};
use super::symbols::Symbols;
use super::tree::Tree;

const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// The mechanisms that the map leaves out.
const INTERNALS: &str = "docs/internals.md";

/// Lines that one can read in a sitting.
const LINES_MAX: usize = 300;

/// ARCHITECTURE.md exists and is short; it and docs/internals.md name only files and symbols that
/// exist.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.file(ARCHITECTURE) else {
        return vec![Finding::new(ARCHITECTURE, 1, "it is missing", "write the map of the code")];
    };
    let mut findings = Vec::new();
    let lines = file.lines().count();
    if lines > LINES_MAX {
        let what = format!("{lines} lines, at most {LINES_MAX}");
        findings.push(Finding::new(ARCHITECTURE, lines, what, "move detail next to the code"));
    }
    let symbols = Symbols::of(tree);
    for file in [ARCHITECTURE, INTERNALS].into_iter().filter_map(|path| tree.file(path)) {
        for (line, text) in prose(&file.text) {
            for missing in code_spans(text).into_iter().filter_map(|span| symbols.missing(span)) {
                let instead = "name what is there, or write it without backticks if it is not ours";
                findings.push(Finding::new(&file.path, line, missing, instead));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let tree = Tree::of(&[(ARCHITECTURE, text), ("crates/a/src/b.rs", "struct Known;")]);
        check(&tree).iter().map(|finding| format!("{}: {}", finding.line, finding.what)).collect()
    }

    #[test]
    fn it_names_only_what_exists() {
        let text = "`Known` in `crates/a/src/b.rs`\n\n`Gone` in\n```\n`Code`\n```\n`docs/gone.md`";
        assert_eq!(
            findings(text),
            ["3: nothing defines `Gone`", "7: no file or directory `docs/gone.md`"]
        );
    }

    #[test]
    fn it_is_there_and_has_at_most_300_lines() {
        assert_eq!(check(&Tree::of(&[])).len(), 1);
        assert!(findings(&"a\n".repeat(300)).is_empty());
        assert_eq!(findings(&"a\n".repeat(301)), ["301: 301 lines, at most 300"]);
    }
}
