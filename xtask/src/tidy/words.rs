//! Words that must not stay in the tree.

use super::Finding;
use super::tree::{File, Tree};

/// What is looked for.
struct Word {
    text: &'static str,
    /// Whether comments and strings of Rust files may contain it.
    code_only: bool,
    instead: &'static str,
}

// Written in two parts where the file itself would be found.
const WORDS: &[Word] = &[
    Word { text: "todo!(", code_only: true, instead: "finish it, or leave it out" },
    Word { text: "unimplemented!(", code_only: true, instead: "finish it, or leave it out" },
    Word { text: "dbg!(", code_only: true, instead: "delete it" },
    Word { text: concat!("FIX", "ME"), code_only: false, instead: "mend it" },
    Word { text: concat!("XX", "X"), code_only: false, instead: "mend it" },
    Word { text: concat!("/ro", "ot/"), code_only: false, instead: "use a relative path" },
    Word { text: concat!("/ho", "me/"), code_only: false, instead: "use a relative path" },
    Word { text: concat!("/wo", "rk/"), code_only: false, instead: "use a relative path" },
];

/// No file contains a word that makes sense only to its author, or not for long.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().flat_map(|file| WORDS.iter().flat_map(|word| find(file, word))).collect()
}

fn find(file: &File, word: &Word) -> Vec<Finding> {
    let text = if word.code_only && file.is_rust() { &file.masked } else { &file.text };
    let lines = text.lines().enumerate().filter(|(_, line)| stands_alone(line, word.text));
    lines
        .map(|(at, _)| {
            let what = format!("`{}` must not stay", word.text);
            Finding::new(&file.path, at + 1, what, word.instead)
        })
        .collect()
}

/// Whether `word` occurs in `line` and neither continues a longer word or path nor is continued.
fn stands_alone(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let continues = |c: char| c.is_alphanumeric() || c == '_';
        let is_path = word.starts_with('/');
        let starts = !before.is_some_and(|c| continues(c) || (is_path && "./-}".contains(c)));
        let ends = !word.ends_with(char::is_alphanumeric) || !after.is_some_and(continues);
        starts && ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn macros_are_found_in_code_and_in_documents() {
        let text = "todo!()\n\"todo!()\" // dbg!(\nmy_dbg!(x)\n";
        assert_eq!(lines("a.rs", text), [1]);
        assert_eq!(lines("a.md", text), [1, 2, 2]);
    }

    #[test]
    fn marks_are_found_in_comments_but_not_inside_longer_words() {
        let mark = concat!("XX", "X");
        assert_eq!(lines("a.rs", &format!("// {mark}: x\n// {mark}{mark}\n")), [1]);
        assert_eq!(lines(".ci/run", &format!("# {}\n", concat!("FIX", "ME"))), [1]);
    }

    #[test]
    fn paths_of_a_machine_are_found_and_paths_of_a_site_are_not() {
        let path = concat!("/ro", "ot/");
        let text = format!("cd {path}x\nGET http://example.org{path}\nsite{path}\n\"{path}\"\n");
        assert_eq!(lines("a.md", &text), [1, 4]);
    }
}
