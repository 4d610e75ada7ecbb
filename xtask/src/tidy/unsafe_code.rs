//! Only `sys` and the ABI of modules may hold unsafe code.

use super::Finding;
use super::tree::{File, Tree};

/// The crates that may: system calls, and calls to and from code in other languages.
const MAY: [&str; 2] = ["crates/sys/", "crates/module/"];

/// What the root file of every other crate says.
const FORBID: [&str; 8] = ["#", "!", "[", "forbid", "(", "unsafe_code", ")", "]"];

/// Every crate but these forbids unsafe code, and no file outside them contains the keyword.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let roots = tree.packages.iter().flat_map(|package| &package.roots);
    let roots = roots.filter(|root| !may(root)).filter_map(|root| tree.file(root));
    let outside = tree.rust().filter(|file| !may(&file.path));
    roots.filter_map(missing_forbid).chain(outside.flat_map(keywords)).collect()
}

fn may(path: &str) -> bool {
    MAY.iter().any(|start| path.starts_with(start))
}

fn missing_forbid(file: &File) -> Option<Finding> {
    let tokens = file.tokens();
    let forbids = tokens
        .windows(FORBID.len())
        .any(|window| window.iter().zip(FORBID).all(|(token, expected)| token.text == expected));
    let finding = || {
        let what = "the crate does not forbid unsafe code";
        Finding::new(&file.path, 1, what, "add `#![forbid(unsafe_code)]` below its doc comment")
    };
    (!forbids).then(finding)
}

fn keywords(file: &File) -> Vec<Finding> {
    let tokens = file.tokens();
    let found = tokens.iter().filter(|token| token.text == "unsafe");
    let instead = "move it to crates/sys behind a safe function";
    found
        .map(|token| Finding::new(&file.path, token.line, "unsafe code outside sys", instead))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::workspace::Package;
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let mut tree = Tree::of(&[(path, text)]);
        tree.packages.push(Package {
            name: "a".into(),
            manifest: "Cargo.toml".into(),
            dependencies: Vec::new(),
            roots: vec![path.into()],
        });
        check(&tree).iter().map(|finding| format!("{}: {}", finding.line, finding.what)).collect()
    }

    #[test]
    fn a_crate_must_forbid_unsafe_code_unless_it_is_sys() {
        let missing = ["1: the crate does not forbid unsafe code"];
        assert_eq!(findings("crates/http/src/lib.rs", "// #![forbid(unsafe_code)]"), missing);
        assert!(findings("crates/http/src/lib.rs", "#![forbid(unsafe_code)]").is_empty());
        assert!(findings("crates/sys/src/lib.rs", "unsafe fn f() {}").is_empty());
        assert!(findings("crates/module/src/lib.rs", "unsafe fn f() {}").is_empty());
    }

    #[test]
    fn the_keyword_is_found_in_code_and_not_in_words_about_it() {
        let text =
            "#![forbid(unsafe_code)]\n// unsafe\nfn f() { g(\"unsafe\"); }\nunsafe impl A {}";
        assert_eq!(findings("xtask/src/main.rs", text), ["4: unsafe code outside sys"]);
    }
}
