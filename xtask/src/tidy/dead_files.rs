//! Files that nothing names, and files that are too large for a repository.

use std::collections::HashSet;

use super::Finding;
use super::tree::Tree;

/// Directories whose files are read because they lie there, and what reads them.
const READ_WHOLE: &[(&str, &str)] = &[
    (".github/", "the forge"),
    ("demo/site/", "the demonstration, which serves it"),
    ("fuzz/seeds/", "the fuzz targets"),
    ("lab/experiments/", "the catalogue of experiments"),
    ("lab/peers/", "the lab, by the name of the server"),
    ("lab/records/", "people"),
];

/// Files at the root that tools find by their names.
const OF_TOOLS: &[&str] =
    &[".gitignore", "Cargo.lock", "clippy.toml", "rust-toolchain.toml", "rustfmt.toml"];

/// Rust files that Cargo or the compiler finds by their names.
const ROOTS: &[&str] = &["build.rs", "lib.rs", "main.rs"];

/// Largest file, in bytes.
const BYTES_MAX: u64 = 200 << 10;

/// The exception: the film that the demonstration serves.
const FILM: &str = "demo/site/governor.webm";

/// Every file is named by another one, and none is large.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let modules = modules(tree);
    let mut findings = Vec::new();
    let mut told = |path: &str, what: String, instead: &str| {
        findings.push(Finding::new(path, 1, what, instead));
    };
    for (path, bytes) in &tree.sizes {
        if *bytes > BYTES_MAX && path != FILM {
            let what = format!("{} KiB, at most {}", bytes >> 10, BYTES_MAX >> 10);
            told(path, what, "have it made, or fetched, where it is used");
        }
        let is_named = if path.ends_with(".rs") {
            is_root(path) || module(path).is_some_and(|name| modules.contains(name))
        } else {
            is_read_whole(path) || named_in_text(tree, path)
        };
        if !is_named {
            told(path, "nothing names this file".into(), "name it, or delete it");
        }
    }
    findings
}

/// The names of all modules that are declared.
fn modules(tree: &Tree) -> HashSet<&str> {
    let mut names = HashSet::new();
    for file in tree.rust() {
        let tokens = file.tokens();
        let declared = tokens.windows(2).filter(|pair| pair[0].text == "mod");
        names.extend(declared.map(|pair| pair[1].text));
    }
    names
}

/// Whether Cargo builds it as a target of its own.
fn is_root(path: &str) -> bool {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    let parent = directory.rsplit('/').next().unwrap_or_default();
    ROOTS.contains(&name) || ["benches", "bin", "examples", "tests"].contains(&parent)
}

/// The name of the module that a Rust file is.
fn module(path: &str) -> Option<&str> {
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    path.rsplit('/').next()
}

fn is_read_whole(path: &str) -> bool {
    OF_TOOLS.contains(&path) || READ_WHOLE.iter().any(|(below, _)| path.starts_with(below))
}

/// Whether a file with text names this one, by its name alone.
fn named_in_text(tree: &Tree, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    tree.files.iter().any(|file| file.path != path && file.text.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(tree: &Tree) -> Vec<String> {
        check(tree).iter().map(|finding| format!("{}: {}", finding.path, finding.what)).collect()
    }

    #[test]
    fn a_file_is_named_by_another_one_or_found_by_its_place() {
        let tree = Tree::of(&[
            ("a/src/lib.rs", "mod used;\nmod deep;"),
            ("a/src/used.rs", "// forgotten"),
            ("a/src/deep/mod.rs", ""),
            ("a/src/forgotten.rs", ""),
            ("a/tests/whole.rs", ""),
            ("a/Cargo.toml", "see a.conf"),
            ("a/a.conf", ""),
            ("a/b.conf", "names b.conf"),
            ("clippy.toml", ""),
            ("fuzz/seeds/x.txt", ""),
            ("README.md", "Cargo.toml"),
            ("docs.md", "README.md docs.md"),
        ]);
        assert_eq!(
            told(&tree),
            [
                "a/b.conf: nothing names this file",
                "a/src/forgotten.rs: nothing names this file",
                "docs.md: nothing names this file",
            ]
        );
    }

    #[test]
    fn a_large_file_is_found_unless_it_is_the_film() {
        let mut tree = Tree::of(&[("Cargo.lock", ""), ("docs.md", "governor.webm")]);
        tree.sizes.clear();
        tree.sizes.insert("Cargo.lock".into(), BYTES_MAX + 1024);
        tree.sizes.insert(FILM.into(), 2 * BYTES_MAX);
        assert_eq!(told(&tree), ["Cargo.lock: 201 KiB, at most 200"]);
    }
}
