//! The changelog is there and tidy.

use super::Finding;
use super::tree::Tree;

const CHANGELOG: &str = "CHANGELOG.md";

/// The changelog exists and has no white space at the end of a line.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.file(CHANGELOG) else {
        return vec![Finding::new(CHANGELOG, 1, "it is missing", "write what changed for users")];
    };
    let trailing = file.lines().filter(|(_, text)| text.ends_with(char::is_whitespace));
    trailing
        .map(|(line, _)| Finding::new(CHANGELOG, line, "white space at the end", "delete it"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_at_the_end_of_a_line_is_found() {
        let told = check(&Tree::of(&[(CHANGELOG, "# A\n\n* b \n")]));
        assert_eq!(told.iter().map(|finding| finding.line).collect::<Vec<_>>(), [3]);
        assert_eq!(check(&Tree::of(&[])).len(), 1);
    }
}
