//! Public items that are not used, or need not be public.
//!
//! `pub` hides from the compiler that an item is dead. The search is textual, so that an item which
//! shares its name with another is not found.

use std::collections::{HashMap, HashSet};

use super::Finding;
use super::tree::{File, Tree};
use crate::rust::Token;

/// Words that may stand between `pub` and the keyword of an item.
const MODIFIERS: [&str; 4] = ["const", "async", "unsafe", "extern"];

/// Keywords of items that are looked for. A module is named by its own file.
const KEYWORDS: [&str; 8] = ["fn", "struct", "enum", "trait", "const", "static", "type", "union"];

/// Items that code elsewhere uses, each with its file and its reason. The list only shrinks.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("crates/module/src/export.rs", "flyball_module_entry", "the loader finds it by its name"),
    ("crates/sys/src/alloc.rs", "allocations", "budgets of allocations are tests"),
    ("crates/sys/src/alloc.rs", "count_into", "budgets of allocations are tests"),
    ("crates/sys/src/alloc.rs", "live_bytes", "budgets of memory are tests"),
];

/// The product names every public item of its crates besides its definition, and another file
/// names every public function.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let names = Names::of(tree);
    let mut findings = Vec::new();
    let mut excused = HashSet::new();
    for file in tree.rust().filter(|file| file.path.starts_with("crates/") && is_product(file)) {
        for (keyword, name) in public_items(file) {
            let Some((what, instead)) = names.judge(file, keyword, name.text) else { continue };
            if let Some(allowed) = allowed(&file.path, name.text) {
                excused.insert(allowed);
            } else {
                findings.push(Finding::new(&file.path, name.line, what, instead));
            }
        }
    }
    let is_there = |path: &str| tree.file(path).is_some();
    let needless = ALLOWED.iter().filter(|(path, name, _)| {
        is_there(path) && allowed(path, name).is_some_and(|at| !excused.contains(&at))
    });
    findings.extend(needless.map(|(path, name, _)| {
        let what = format!("`{name}` needs no exception");
        Finding::new(path, 1, what, "delete it from the list in xtask/src/tidy/unused.rs")
    }));
    findings
}

fn allowed(path: &str, name: &str) -> Option<usize> {
    ALLOWED.iter().position(|(of, known, _)| (*of, *known) == (path, name))
}

/// Which names stand where, definitions apart.
struct Names<'a> {
    /// Names in the code of the product.
    product: HashSet<&'a str>,
    /// Names with the only file that has them, tests included; `None` when several have.
    files: HashMap<&'a str, Option<&'a str>>,
}

impl<'a> Names<'a> {
    fn of(tree: &'a Tree) -> Names<'a> {
        let mut names = Names { product: HashSet::new(), files: HashMap::new() };
        for file in tree.rust() {
            let path = file.path.as_str();
            for token in uses(file) {
                if is_product(file) && !file.is_test(token.line) {
                    names.product.insert(token.text);
                }
                let only = names.files.entry(token.text).or_insert(Some(path));
                *only = only.filter(|known| *known == path);
            }
        }
        names
    }

    /// What is wrong with a public item, and what to do instead.
    fn judge(&self, file: &File, keyword: &str, name: &str) -> Option<(String, &'static str)> {
        if !self.product.contains(name) {
            return Some((format!("the product does not use `{name}`"), "delete it"));
        }
        let only = self.files.get(name).copied().flatten();
        let is_private = keyword == "fn" && only == Some(&file.path);
        is_private.then(|| (format!("only this file names `{name}`"), "make it private"))
    }
}

fn is_product(file: &File) -> bool {
    file.path.contains("/src/") && !file.is_test(1)
}

/// The words of `file` that do not define what they name.
fn uses(file: &File) -> impl Iterator<Item = Token<'_>> {
    let mut before = "";
    file.tokens().into_iter().filter(move |token| {
        let defines = KEYWORDS.contains(&before);
        before = token.text;
        token.is_word() && !defines
    })
}

/// The public items that `file` defines for the product: their keywords and their names.
fn public_items(file: &File) -> Vec<(&str, Token<'_>)> {
    let tokens = file.tokens();
    let public = tokens.iter().enumerate().filter(|(_, token)| token.text == "pub");
    let items = public.filter(|(_, token)| !file.is_test(token.line));
    items.filter_map(|(at, _)| item(&tokens[at + 1..])).collect()
}

/// The item whose `pub` stands before `tokens`; none of a field, a module or an import.
fn item<'a>(tokens: &[Token<'a>]) -> Option<(&'a str, Token<'a>)> {
    let mut rest = tokens;
    if rest.first()?.text == "(" {
        let end = rest.iter().position(|token| token.text == ")")?;
        rest = &rest[end + 1..];
    }
    while MODIFIERS.contains(&rest.first()?.text) && KEYWORDS.contains(&rest.get(1)?.text) {
        rest = &rest[1..];
    }
    let (keyword, name) = (rest.first()?, rest.get(1)?);
    (KEYWORDS.contains(&keyword.text) && name.is_word()).then_some((keyword.text, *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(|f| format!("{}: {}", f.line, f.what)).collect()
    }

    #[test]
    fn an_item_that_only_tests_use_is_found() {
        let code = "pub fn a() {}\npub const fn b() {}\npub(crate) struct C;\n\
                    pub const D: u8 = 1;\npub mod m;\npub use x::Y;\n\
                    pub struct E { pub f: u8 }\nfn g(e: E) {}\n\
                    #[cfg(test)]\nmod tests {\n  pub fn t() { a(); C; }\n}\n";
        let other = "fn main() { b(); }";
        assert_eq!(
            told(&[("crates/x/src/lib.rs", code), ("crates/x/src/main.rs", other)]),
            [
                "1: the product does not use `a`",
                "3: the product does not use `C`",
                "4: the product does not use `D`",
            ]
        );
    }

    #[test]
    fn a_function_that_no_other_file_names_is_private() {
        let code = "pub fn a() {}\npub fn b() { a() }\nfn c() { b() }";
        let test = "fn t() { x::b(); }";
        assert_eq!(
            told(&[("crates/x/src/lib.rs", code), ("crates/x/tests/t.rs", test)]),
            ["1: only this file names `a`"]
        );
    }

    #[test]
    fn an_exception_that_is_not_needed_is_found() {
        let (path, name, _) = ALLOWED[0];
        let used = format!("pub fn {name}() {{}}");
        let user = format!("fn main() {{ {name}(); }}");
        let found = told(&[(path, &used), ("crates/x/src/main.rs", &user)]);
        assert_eq!(found, [format!("1: `{name}` needs no exception")]);
        assert!(told(&[(path, &used)]).is_empty());
    }
}
