//! The changelog is there and tidy.

use std::collections::HashMap;

use super::Finding;
use super::tree::Tree;

const CHANGELOG: &str = "CHANGELOG.md";

/// The headings of a release's sections; "Lab" is for the load generator and the lab.
const SECTIONS: [&str; 5] = ["Security", "Changed", "Fixed", "Added", "Lab"];

/// The changelog exists, has no white space at the end of a line, and no line or heading twice in
/// one release; its headings are those that are known.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.file(CHANGELOG) else {
        return vec![Finding::new(CHANGELOG, 1, "it is missing", "write what changed for users")];
    };
    let mut findings = Vec::new();
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (line, text) in file.lines() {
        let mut told = |what: String, instead: &str| {
            findings.push(Finding::new(CHANGELOG, line, what, instead));
        };
        if text.ends_with(char::is_whitespace) {
            told("white space at the end".into(), "delete it");
        }
        if text.starts_with("## ") {
            seen.clear();
        } else if let Some(section) = text.strip_prefix("### ")
            && !SECTIONS.contains(&section)
        {
            told(format!("unknown heading {section:?}"), &format!("one of {SECTIONS:?}"));
        }
        if !text.trim().is_empty()
            && let Some(first) = seen.insert(text, line)
        {
            told(format!("the same as line {first}"), "delete one, or join the sections");
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        let findings = check(&Tree::of(&[(CHANGELOG, text)]));
        findings.iter().map(|finding| format!("{}: {}", finding.line, finding.what)).collect()
    }

    #[test]
    fn white_space_at_the_end_of_a_line_is_found() {
        assert_eq!(told("# A\n\n* b \n"), ["3: white space at the end"]);
        assert_eq!(check(&Tree::of(&[])).len(), 1);
    }

    #[test]
    fn what_one_release_says_twice_is_found() {
        let text = "## 2\n\n### Added\n\n* a\n  b\n* c\n  b\n\n### Added\n\n\
                    ## 1\n\n### Added\n\n* a\n";
        assert_eq!(told(text), ["8: the same as line 6", "10: the same as line 3"]);
    }

    #[test]
    fn headings_are_those_that_are_known() {
        assert_eq!(told("### Added\n### Improved\n"), ["2: unknown heading \"Improved\""]);
    }
}
