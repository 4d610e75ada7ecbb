//! Tables without repeated rows, and the table of dependencies in order.

use super::Finding;
use super::markdown::tables;
use super::reasons;
use super::tree::Tree;

/// No table of a document has a row twice, and that of dependencies is sorted by its crates, each
/// of which it has once.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        for table in tables(&file.text) {
            let is_of_dependencies = table.head == reasons::HEAD;
            for (at, (line, cells)) in table.rows.iter().enumerate() {
                let before = &table.rows[..at];
                let is_same = |other: &Vec<&str>| match is_of_dependencies {
                    true => other.first() == cells.first(),
                    false => other == cells && cells.iter().any(|cell| !cell.is_empty()),
                };
                let mut told = |what: String, instead: &str| {
                    findings.push(Finding::new(&file.path, *line, what, instead));
                };
                if let Some((first, _)) = before.iter().find(|(_, other)| is_same(other)) {
                    told(format!("the same row as in line {first}"), "delete one");
                } else if let Some((_, last)) = before.last()
                    && is_of_dependencies
                    && last.first() > cells.first()
                {
                    told(format!("{} is not in order", cells[0]), "sort the rows by crate");
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        let findings = check(&Tree::of(&[("a.md", text)]));
        findings.iter().map(|finding| format!("{}: {}", finding.line, finding.what)).collect()
    }

    #[test]
    fn a_row_that_is_there_twice_is_found() {
        let text = "| a | b |\n| --- | --- |\n| 1 | 2 |\n| 1 | 3 |\n| 1 | 2 |\n| | |\n| | |\n";
        assert_eq!(told(text), ["5: the same row as in line 3"]);
    }

    #[test]
    fn dependencies_are_sorted_and_each_is_there_once() {
        let text = "| crate | why not our own | used by |\n| --- | --- | --- |\n\
                    | `b` | x | y |\n| `a` | x | y |\n| `c` | x | y |\n| `b` | other | y |\n";
        assert_eq!(told(text), ["4: `a` is not in order", "6: the same row as in line 3"]);
    }
}
