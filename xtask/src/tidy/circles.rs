//! Modules of a crate that import each other, directly or through others. A module and its children
//! count as one: what lies in one directory may know each other.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::ratchet::{CIRCLES, Measure, hold};
use super::tree::{File, Tree};
use crate::rust::paths::{Path, paths};

/// Root files of crates.
const ROOTS: [&str; 2] = ["lib.rs", "main.rs"];

/// The largest circle of each crate, which the ratchet holds.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let crates: BTreeSet<&str> = tree.rust().filter_map(|file| crate_of(&file.path)).collect();
    let measures: Vec<Measure> =
        crates.iter().filter_map(|of| Modules::of(tree, of).largest()).collect();
    hold(tree, CIRCLES, &measures)
}

/// The directory of the crate that a source file belongs to.
fn crate_of(path: &str) -> Option<&str> {
    Some(path.split_once("/src/")?.0)
}

/// The modules of a crate: what each imports, with a place where it does.
struct Modules<'a> {
    of: &'a str,
    imports: BTreeMap<&'a str, BTreeMap<&'a str, (&'a str, usize)>>,
}

impl<'a> Modules<'a> {
    fn of(tree: &'a Tree, of: &'a str) -> Modules<'a> {
        let files = || tree.rust().filter(move |file| crate_of(&file.path) == Some(of));
        let named: BTreeSet<&str> =
            files().filter_map(|file| module(of, &file.path)?.first().copied()).collect();
        let roots = files().filter(|file| is_root(of, &file.path));
        let exported: BTreeMap<String, &str> =
            roots.flat_map(|root| exports(root, &named)).collect();
        let mut imports: BTreeMap<&str, BTreeMap<&str, (&str, usize)>> = BTreeMap::new();
        for file in files() {
            let Some(own) = module(of, &file.path).filter(|own| !own.is_empty()) else { continue };
            for path in paths(&file.tokens()).iter().filter(|path| !file.is_test(path.line)) {
                let Some(name) = from_root(path, own.len()) else { continue };
                let known = named.get(name).copied().or_else(|| exported.get(name).copied());
                if let Some(other) = known.filter(|other| *other != own[0]) {
                    let place = (file.path.as_str(), path.line);
                    imports.entry(own[0]).or_default().entry(other).or_insert(place);
                }
            }
        }
        Modules { of, imports }
    }

    /// How many modules its largest circle has, and one of the imports that close it.
    fn largest(&self) -> Option<Measure> {
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            self.imports.keys().map(|name| (*name, self.reached_from(name))).collect();
        let reach = |from: &str, to: &str| reached.get(from).is_some_and(|all| all.contains(to));
        let circles = self.imports.keys().rev().map(|name| {
            let members = reached[name].iter().filter(|other| reach(other, name));
            (*name, members.count())
        });
        let (name, count) =
            circles.max_by_key(|(_, count)| *count).filter(|(_, count)| *count > 0)?;
        let closes = |(other, _): &(&&str, &(&str, usize))| reach(other, name);
        let (_, (path, line)) = self.imports[name].iter().find(closes)?;
        Some(Measure { key: self.of.into(), path: (*path).into(), line: *line, count })
    }

    fn reached_from(&self, name: &'a str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut next = vec![name];
        while let Some(at) = next.pop() {
            let imported = self.imports.get(at).into_iter().flat_map(BTreeMap::keys);
            next.extend(imported.filter(|other| reached.insert(**other)));
        }
        reached
    }
}

/// The path of the module that a file is; empty for a root of the crate.
fn module<'a>(of: &str, path: &'a str) -> Option<Vec<&'a str>> {
    let below = path.strip_prefix(of)?.strip_prefix("/src/")?;
    if ROOTS.contains(&below) {
        return Some(Vec::new());
    }
    let name = below.strip_suffix(".rs")?;
    Some(name.strip_suffix("/mod").unwrap_or(name).split('/').collect())
}

fn is_root(of: &str, path: &str) -> bool {
    module(of, path).is_some_and(|own| own.is_empty())
}

/// What the root gives its own names to, with the modules where that lies.
fn exports<'a>(root: &File, named: &BTreeSet<&'a str>) -> Vec<(String, &'a str)> {
    let lies_in = |path: Path| {
        let is_own = path.segments.first().is_some_and(|word| word == "crate" || word == "self");
        let below = &path.segments[usize::from(is_own)..];
        let (first, [.., name]) = below.split_first()? else { return None };
        Some((name.clone(), *named.get(first.as_str())?))
    };
    paths(&root.tokens()).into_iter().filter_map(lies_in).collect()
}

/// The first name below the root of the crate that a path leads to, in a module so deep.
fn from_root(path: &Path, depth: usize) -> Option<&str> {
    let (first, rest) = path.segments.split_first()?;
    match first.as_str() {
        "crate" => rest.first().map(String::as_str),
        "super" => {
            let ups = path.segments.iter().take_while(|word| *word == "super").count();
            path.segments.get(ups).filter(|_| ups == depth).map(String::as_str)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(Finding::to_string).collect()
    }

    const TWO: &str = "2 modules in one circle of imports, at most 1: \
                       let one of them be told by values, or move what both need";

    #[test]
    fn modules_that_import_each_other_are_found_and_children_are_not() {
        let told = findings(&[
            ("a/src/lib.rs", "mod x; mod y; mod z;"),
            ("a/src/x.rs", "mod child;\nuse self::child::C;\nuse crate::y::Y;"),
            ("a/src/x/child.rs", "use super::X;\nuse crate::x::Z;"),
            ("a/src/y.rs", "use std::fs;\nfn f() { crate::z::f() }"),
            ("a/src/z.rs", "fn f() {}"),
        ]);
        assert_eq!(told, [""; 0]);
        let told = findings(&[
            ("a/src/lib.rs", "mod x; mod y;"),
            ("a/src/x.rs", "use std::fs;\nuse crate::y::Y;"),
            ("a/src/y/mod.rs", "mod child;"),
            ("a/src/y/child.rs", "use super::super::x::X;"),
        ]);
        assert_eq!(told, [format!("a/src/x.rs:2: {TWO}")]);
    }

    #[test]
    fn what_the_root_exports_lies_in_its_module() {
        let told = findings(&[
            ("a/src/lib.rs", "mod x;\nmod y;\npub use x::{One, Two};"),
            ("a/src/x.rs", "use crate::y::Y;"),
            ("a/src/y.rs", "use crate::{Three, Two};"),
        ]);
        assert_eq!(told, [format!("a/src/x.rs:1: {TWO}")]);
    }

    #[test]
    fn tests_may_import_what_they_like() {
        let told = findings(&[
            ("a/src/x.rs", "use crate::y::Y;"),
            ("a/src/y.rs", "#[cfg(test)]\nmod tests {\n  use crate::x::X;\n}"),
        ]);
        assert_eq!(told, [""; 0]);
    }

    #[test]
    fn the_largest_circle_of_a_crate_is_held() {
        let ring =
            |name: &str, next: &str| (format!("a/src/{name}.rs"), format!("use crate::{next}::N;"));
        let files =
            [ring("b", "c"), ring("c", "d"), ring("d", "b"), ring("e", "f"), ring("f", "e")];
        let mut files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        files.push(("xtask/ratchet.toml", "[circles]\n\"a\" = 3\n"));
        assert_eq!(findings(&files), [""; 0]);
    }
}
