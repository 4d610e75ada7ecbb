//! Nothing sleeps to wait for something else.

use super::Finding;
use super::ratchet::{Measure, SLEEPS, hold};
use super::tree::{File, Tree};
use crate::rust::paths::paths;

/// No file sleeps, except those whose number of sleeps the ratchet holds.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let measures: Vec<Measure> = tree.rust().filter_map(sleeps).collect();
    hold(tree, SLEEPS, &measures)
}

fn sleeps(file: &File) -> Option<Measure> {
    let found = paths(&file.tokens());
    let mut lines =
        found.iter().filter(|path| path.contains("thread::sleep")).map(|path| path.line);
    let (key, path) = (file.path.clone(), file.path.clone());
    lines.next().map(|line| Measure { key, path, line, count: 1 + lines.count() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_is_found_where_it_is_called_or_imported() {
        let told = |text| check(&Tree::of(&[("crates/a/tests/a.rs", text)]));
        assert_eq!(told("\nfn f() { std::thread::sleep(x); thread::sleep(y) }")[0].line, 2);
        assert_eq!(told("use std::thread::{self, sleep};").len(), 1);
        assert!(told("fn f() { thread::spawn(g); sleep_until(x) } // thread::sleep").is_empty());
    }
}
