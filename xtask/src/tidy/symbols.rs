//! Whether the files and symbols that a document names exist.

use std::collections::HashSet;

use super::tree::Tree;

/// Crates that come with the compiler.
const STANDARD: [&str; 3] = ["std", "core", "alloc"];

/// Segments that stand for a place and define nothing.
const RELATIVE: [&str; 4] = ["crate", "self", "super", "Self"];

/// What the tree defines.
#[derive(Debug)]
pub(crate) struct Symbols<'a> {
    tree: &'a Tree,
    definitions: HashSet<&'a str>,
    /// Names of our crates, as a path and as a directory.
    crates: HashSet<String>,
    /// Crates that are not ours.
    foreign: HashSet<String>,
}

/// What a code span seems to name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named<'a> {
    /// A file or directory, by its path from the root.
    Path(&'a str),
    /// A file, by its name alone.
    FileName(&'a str),
    /// A symbol, perhaps with the path to it.
    Symbol(&'a str),
    /// Something else: a value, a command, a header field.
    Other,
}

impl<'a> Symbols<'a> {
    /// Collects what `tree` defines.
    pub(crate) fn of(tree: &'a Tree) -> Symbols<'a> {
        let names = tree.packages.iter().map(|package| package.name.replace('-', "_"));
        let directories = tree.packages.iter().filter_map(|package| {
            let directory = package.manifest.strip_suffix("/Cargo.toml")?;
            directory.rsplit('/').next().map(str::to_string)
        });
        let crates: HashSet<String> = names.chain(directories).collect();
        let dependencies = tree.packages.iter().flat_map(|package| &package.dependencies);
        let foreign = dependencies
            .map(|dependency| dependency.name.replace('-', "_"))
            .filter(|name| !crates.contains(name))
            .chain(STANDARD.map(str::to_string))
            .collect();
        Symbols { tree, definitions: tree.definitions(), crates, foreign }
    }

    /// Why `span` names something that does not exist; `None` when it exists or names nothing.
    pub(crate) fn missing(&self, span: &str) -> Option<String> {
        match named(span) {
            Named::Path(path) => self.missing_path(path),
            Named::FileName(name) => self.missing_file_name(name),
            Named::Symbol(symbol) => self.missing_symbol(symbol),
            Named::Other => None,
        }
    }

    /// The same for a span that must be a path or a symbol, whatever it looks like.
    pub(crate) fn missing_strictly(&self, span: &str) -> Option<String> {
        match named(span) {
            Named::Other => self.missing_symbol(span),
            _ => self.missing(span),
        }
    }

    fn missing_path(&self, path: &str) -> Option<String> {
        (!self.tree.names.contains(path)).then(|| format!("no file or directory `{path}`"))
    }

    fn missing_file_name(&self, name: &str) -> Option<String> {
        let mut names = self.tree.names.iter();
        let exists = names.any(|path| path.rsplit('/').next() == Some(name));
        (!exists).then(|| format!("no file named `{name}`"))
    }

    fn missing_symbol(&self, symbol: &str) -> Option<String> {
        let mut segments = bare(symbol).split("::").peekable();
        if segments.peek().is_some_and(|first| self.foreign.contains(*first)) {
            return None;
        }
        let is_known = |segment: &&str| {
            self.definitions.contains(segment)
                || self.crates.contains(*segment)
                || RELATIVE.contains(segment)
        };
        let unknown = segments.find(|segment| !is_known(segment))?;
        Some(format!("nothing defines `{unknown}`"))
    }
}

/// What `span` seems to name, by its form.
pub(crate) fn named(span: &str) -> Named<'_> {
    let is_path_part = |part: &str| part.chars().all(|c| c.is_alphanumeric() || "._-".contains(c));
    if !span.contains("::") && span.split('/').all(is_path_part) {
        let name = span.rsplit('/').next().unwrap_or_default();
        if span.contains('/') && !span.starts_with('/') && (name.is_empty() || name.contains('.')) {
            return Named::Path(span);
        }
        if !span.contains('/') && [".rs", ".md", ".toml"].iter().any(|end| span.ends_with(end)) {
            return Named::FileName(span);
        }
    }
    let symbol = bare(span);
    let is_called = symbol.len() < span.len();
    let is_long = symbol.contains("::");
    let is_symbol = symbol.split("::").all(is_identifier);
    if is_symbol && (is_called || is_long || is_camel_case(symbol)) {
        return Named::Symbol(span);
    }
    Named::Other
}

/// `span` without the `(...)` of a call or the `!` of a macro.
fn bare(span: &str) -> &str {
    let called = span.strip_suffix(')').and_then(|span| span.split_once('('));
    let name = called.map_or(span, |(name, _)| name);
    name.strip_suffix('!').unwrap_or(name)
}

fn is_identifier(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_camel_case(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.contains(|c: char| c.is_ascii_lowercase())
        && !text.contains('_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_apart_by_their_form() {
        for path in ["crates/http/", "docs/rows.md", ".ci/run.sh", "crates/a-b/src/c_d.rs"] {
            assert_eq!(named(path), Named::Path(path));
        }
        assert_eq!(named("state.rs"), Named::FileName("state.rs"));
        for symbol in ["Conn::recv", "Conn", "wants()", "recv(bytes, now)", "each!", "arch::ALL"] {
            assert_eq!(named(symbol), Named::Symbol(symbol));
        }
        for other in [
            "n-copy",
            "/status",
            "cargo test",
            "epoll",
            "text/html",
            "HTTP",
            "If-Range",
            "1/x",
            "{a,b}/c.rs",
            "writev",
            "TCP_INFO",
            "--arch",
            "http://a/b.html",
            "",
        ] {
            assert_eq!(named(other), Named::Other, "{other}");
        }
    }

    #[test]
    fn what_does_not_exist_is_named() {
        let tree = Tree::of(&[("crates/a/src/lib.rs", "pub mod b { pub struct C { d: u8 } }")]);
        let symbols = Symbols::of(&tree);
        for known in ["crates/a/src/lib.rs", "lib.rs", "b::C", "C::d", "std::fs::read()", "HTTP"] {
            assert_eq!(symbols.missing(known), None, "{known}");
        }
        assert!(symbols.missing("crates/a/src/b.rs").is_some_and(|why| why.contains("no file")));
        assert_eq!(symbols.missing("main.rs"), Some("no file named `main.rs`".into()));
        assert_eq!(symbols.missing("C::e"), Some("nothing defines `e`".into()));
        assert_eq!(symbols.missing("Other"), Some("nothing defines `Other`".into()));
        assert_eq!(symbols.missing("other"), None);
        assert_eq!(symbols.missing_strictly("other"), Some("nothing defines `other`".into()));
    }
}
