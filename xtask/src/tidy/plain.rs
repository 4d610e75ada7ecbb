//! Words that read badly, in documents, messages and comments.
//!
//! They make a relative clause or a personification the subject of a sentence. A plain sentence
//! begins with what it is about, in the terms of the field.

use std::collections::BTreeMap;

use super::Finding;
use super::length::GENERATED;
use super::markdown::prose;
use super::ratchet::{COMMENT_WORDS, MESSAGE_WORDS, Measure, hold};
use super::tree::{File, Tree};
use crate::rust::mask::{Part, parts};

const WORDS: [&str; 9] = [
    "nobody",
    "somebody",
    "whoever",
    "whosever",
    "anew",
    "of now",
    "makes nothing of",
    "what becomes of",
    "comes to nothing",
];

/// Documents have none of the words. Those of a crate's comments and messages are counted, and the
/// ratchet holds the counts. What is made from code is checked there.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let written = tree.files.iter().filter(|file| !GENERATED.contains(&file.path.as_str()));
    let mut findings: Vec<Finding> = written.flat_map(document).collect();
    let (mut comments, mut messages) = (BTreeMap::new(), BTreeMap::new());
    for file in tree.rust().filter(|file| !file.path.ends_with("tidy/plain.rs")) {
        for (part, line) in in_rust(file) {
            let is_shown = part == Part::Literal && !file.is_test(line);
            let counts = if is_shown { &mut messages } else { &mut comments };
            let measure =
                || Measure { key: crate_of(&file.path), path: file.path.clone(), line, count: 0 };
            counts.entry(crate_of(&file.path)).or_insert_with(measure).count += 1;
        }
    }
    for (limit, counts) in [(COMMENT_WORDS, comments), (MESSAGE_WORDS, messages)] {
        findings.extend(hold(tree, limit, &counts.into_values().collect::<Vec<_>>()));
    }
    findings
}

/// The directory of the crate that a file belongs to.
fn crate_of(path: &str) -> String {
    let depth = if path.starts_with("crates/") { 2 } else { 1 };
    path.split('/').take(depth).collect::<Vec<_>>().join("/")
}

fn document(file: &File) -> Vec<Finding> {
    let lines: Vec<(usize, &str)> = match file.path.rsplit_once('.') {
        Some((_, "rs")) => Vec::new(),
        Some((_, "md")) => prose(&file.text).collect(),
        _ => file.lines().collect(),
    };
    let found = lines.into_iter().flat_map(|(line, text)| {
        words(text).into_iter().map(move |word| {
            Finding::new(&file.path, line, format!("`{word}` reads badly"), COMMENT_WORDS.instead)
        })
    });
    found.collect()
}

/// The words in comments and literals of a Rust file, each with its line.
fn in_rust(file: &File) -> Vec<(Part, usize)> {
    let mut found = Vec::new();
    let mut line = 1;
    for (part, text) in parts(&file.text) {
        if part != Part::Code && text != "\"nobody\"" {
            for (at, text) in text.lines().enumerate() {
                found.extend(words(text).into_iter().map(|_| (part, line + at)));
            }
        }
        line += text.matches('\n').count();
    }
    found
}

/// The words that stand in a line outside code spans; a quoted `"nobody"` is the name of a user.
fn words(line: &str) -> Vec<&'static str> {
    let outside: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let text = outside.replace("\"nobody\"", " ").to_lowercase();
    let stands_alone = |at: usize, word: &str| {
        let is_letter = |c: char| c.is_alphanumeric() || c == '_';
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_letter) && !after.is_some_and(is_letter)
    };
    let found = WORDS.iter().flat_map(|word| {
        text.match_indices(word).filter(|(at, word)| stands_alone(*at, word)).map(|_| *word)
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<(usize, String)> {
        let findings = check(&Tree::of(&[(path, text)]));
        findings.into_iter().map(|finding| (finding.line, finding.what)).collect()
    }

    #[test]
    fn a_document_has_none_of_the_words_outside_code() {
        let text = "Nobody waits.\n```\nnobody\n```\n`nobody`, anewly and \"nobody\"\nof now, anew";
        let told = |line, word: &str| (line, format!("`{word}` reads badly"));
        assert_eq!(findings("a.md", text), [told(1, "nobody"), told(6, "anew"), told(6, "of now")]);
        assert_eq!(findings("a.toml", "# whoever\n"), [told(1, "whoever")]);
    }

    #[test]
    fn those_of_a_crate_are_counted_in_comments_and_in_messages() {
        let text = "// Nobody.\nfn nobody() { f(\"whoever\", \"nobody\") }\n/* of now\nanew */\n\
                    #[cfg(test)]\nmod tests { const A: &str = \"anew\"; }\n";
        let told = |line, count, unit| (line, format!("{count} {unit}, at most 0"));
        assert_eq!(
            findings("crates/a/src/b.rs", text),
            [told(1, 4, COMMENT_WORDS.unit), told(2, 1, MESSAGE_WORDS.unit)]
        );
    }

    #[test]
    fn the_ratchet_holds_what_a_crate_has() {
        let ratchet = "[comment-words]\n\"crates/a\" = 2\n";
        let files = [
            ("crates/a/src/b.rs", "// nobody\n"),
            ("crates/a/src/c.rs", "// anew\n"),
            ("xtask/ratchet.toml", ratchet),
        ];
        assert!(check(&Tree::of(&files)).is_empty());
    }
}
