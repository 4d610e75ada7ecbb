//! The files that the checks look at, read once.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::Path;

use super::workspace::Package;
use crate::rust::definitions::definitions;
use crate::rust::mask::mask;
use crate::rust::test_only::{TestOnly, test_only};
use crate::rust::{Token, tokens};

/// Directories that hold nothing of ours.
const SKIPPED: [&str; 2] = [".git", "target"];

/// The tree below the root.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// The files with text to check, ordered by path.
    pub(crate) files: Vec<File>,
    /// Every file and, with a final `/`, every directory.
    pub(crate) names: BTreeSet<String>,
    /// How many bytes each file has.
    pub(crate) sizes: BTreeMap<String, u64>,
    /// The members of the workspace.
    pub(crate) packages: Vec<Package>,
}

/// A Rust, Markdown or TOML file, or one in `.ci`.
#[derive(Debug)]
pub(crate) struct File {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    /// As it is on disk.
    pub(crate) text: String,
    /// For Rust: the text without comments and literals. Otherwise empty.
    pub(crate) masked: String,
    /// For Rust: what only tests compile.
    test_only: TestOnly,
    /// Whether the whole file is compiled for tests only.
    is_test: bool,
}

impl Tree {
    /// Reads the workspace at `root`.
    pub(crate) fn read(root: &Path) -> Result<Tree, String> {
        let mut tree = Tree { packages: Package::read_all(root)?, ..Tree::default() };
        tree.walk(root, "").map_err(|error| format!("cannot read the tree: {error}"))?;
        tree.finish();
        Ok(tree)
    }

    /// A tree of the given paths and texts, for tests of checks.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.names.insert(path.to_string());
            tree.sizes.insert(path.to_string(), text.len() as u64);
            tree.files.push(File::new(path, text));
        }
        tree.finish();
        tree
    }

    /// The file at `path`.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is_rust())
    }

    /// Every name that a Rust file of the tree defines.
    pub(crate) fn definitions(&self) -> HashSet<&str> {
        self.rust().flat_map(|file| definitions(&file.tokens())).collect()
    }

    fn walk(&mut self, directory: &Path, prefix: &str) -> std::io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
                self.walk(&entry.path(), &format!("{path}/"))?;
                self.names.insert(format!("{path}/"));
            } else if kind.is_file() {
                if has_rules(&path) {
                    let text = fs::read(entry.path())?;
                    self.files.push(File::new(&path, &String::from_utf8_lossy(&text)));
                }
                self.sizes.insert(path.clone(), entry.metadata()?.len());
                self.names.insert(path);
            }
        }
        Ok(())
    }

    /// Orders the files and marks those that a parent declares for tests only.
    fn finish(&mut self) {
        self.files.sort_by(|a, b| a.path.cmp(&b.path));
        let prefixes: Vec<String> = self.rust().flat_map(File::test_module_prefixes).collect();
        for file in &mut self.files {
            let path = &file.path;
            file.is_test |= prefixes.iter().any(|prefix| path.starts_with(prefix));
        }
    }
}

impl File {
    fn new(path: &str, text: &str) -> File {
        let is_rust = path.ends_with(".rs");
        let masked = if is_rust { mask(text) } else { String::new() };
        let test_only = test_only(&tokens(&masked));
        let is_test = is_rust
            && ["tests/", "benches/", "testkit/", "conformance/", "fuzz/"]
                .iter()
                .any(|directory| path.split_inclusive('/').any(|part| part == *directory));
        File { path: path.into(), text: text.into(), masked, test_only, is_test }
    }

    /// Whether it is Rust source.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Its tokens; none when it is not Rust.
    pub(crate) fn tokens(&self) -> Vec<Token<'_>> {
        tokens(&self.masked)
    }

    /// Whether `line` is compiled for tests only.
    pub(crate) fn is_test(&self, line: usize) -> bool {
        self.is_test || self.test_only.contains(line)
    }

    /// Its lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(at, line)| (at + 1, line))
    }

    /// How the paths of the modules begin that it declares for tests only.
    fn test_module_prefixes(&self) -> Vec<String> {
        let (directory, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let parent = match name {
            "lib.rs" | "main.rs" | "mod.rs" => directory.to_string(),
            _ => format!("{directory}/{}", name.trim_end_matches(".rs")),
        };
        let modules = self.test_only.modules.iter();
        modules.flat_map(|module| ["/", "."].map(|end| format!("{parent}/{module}{end}"))).collect()
    }
}

fn has_rules(path: &str) -> bool {
    let shipped = [".ci/", "deploy/"].iter().any(|directory| path.starts_with(directory));
    shipped || [".rs", ".md", ".toml"].iter().any(|end| path.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_test_module_is_a_test_from_its_first_line() {
        let tree = Tree::of(&[
            ("a/src/lib.rs", "#[cfg(test)]\nmod sim;\nmod real;"),
            ("a/src/sim.rs", "fn a() {}"),
            ("a/src/sim/deeper.rs", "fn a() {}"),
            ("a/src/real.rs", "#[cfg(test)]\nmod inner;\nfn a() {}"),
            ("a/src/real/inner.rs", "fn a() {}"),
            ("a/tests/whole.rs", "fn a() {}"),
        ]);
        let is_test = |path| tree.file(path).expect("it is in the tree").is_test(1);
        assert!(is_test("a/src/sim.rs") && is_test("a/src/sim/deeper.rs"));
        assert!(is_test("a/src/real/inner.rs") && is_test("a/tests/whole.rs"));
        assert!(!tree.file("a/src/real.rs").expect("it is in the tree").is_test(3));
    }

    #[test]
    fn this_workspace_can_be_read() {
        let tree = Tree::read(&crate::root()).expect("the workspace is there");
        assert!(tree.file("xtask/src/tidy/tree.rs").is_some());
        assert!(tree.names.contains("crates/http/"));
        assert!(tree.packages.iter().any(|package| package.name == "flyball-http"));
        assert!(!tree.names.iter().any(|name| name.starts_with("target/")));
    }
}
