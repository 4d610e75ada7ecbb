//! `cargo xtask ci --timed`: the tests that have a bound of wall time, which a busy machine may
//! exceed. They are those that call testkit's `assert_within`, themselves or by a function of their
//! file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::executables::{self, Executable};
use super::neighbours::Neighbours;
use crate::rust::functions::functions;
use crate::tidy::tree::{File, Tree};
use crate::tidy::wall_time::BOUND;

/// What bounds a test: the second is that of the generator's percentiles, of which one run in some
/// has to be right.
const BOUNDS: [&str; 2] = [BOUND, "one_of_some_is_right"];

/// Lists them, and runs each as often as is asked for, beside neighbours that begin when all is
/// built. Whether all passed.
///
/// # Errors
/// When the tree cannot be read, or the tests do not build or cannot be started.
pub(super) fn main(
    root: &Path,
    repeat: usize,
    neighbours: impl FnOnce() -> Neighbours,
) -> Result<bool, String> {
    let bounded = bounded(&Tree::read(root)?);
    let mut failures: BTreeMap<String, usize> = BTreeMap::new();
    let mut passed = true;
    let all = executables::build(root)?;
    let _neighbours = neighbours();
    for executable in all {
        let names: Vec<String> =
            executable.tests()?.into_iter().filter(|name| is_in(&bounded, name)).collect();
        names.iter().for_each(|name| println!("ci: {}: {name}", executable.name));
        for turn in 0..if names.is_empty() { 0 } else { repeat } {
            let failed = failed(&executable, &names)?;
            println!("ci: {}: turn {} of {repeat}", executable.name, turn + 1);
            passed &= failed.is_empty();
            for name in failed {
                *failures.entry(format!("{}: {name}", executable.name)).or_default() += 1;
            }
        }
    }
    for (name, count) in &failures {
        println!("ci: {name} failed {count} times of {repeat}");
    }
    Ok(passed)
}

/// Runs these tests once; those that failed, or all when the executable ended otherwise.
fn failed(executable: &Executable, names: &[String]) -> Result<Vec<String>, String> {
    let mut arguments = vec!["--include-ignored", "--exact"];
    arguments.extend(names.iter().map(String::as_str));
    let ran = executable.run(&arguments)?;
    let is_told = ran.passed || !ran.failed.is_empty();
    Ok(if is_told { ran.failed } else { names.to_vec() })
}

/// Whether a test is a function that is bounded.
fn is_in(bounded: &BTreeSet<String>, test: &str) -> bool {
    test.rsplit("::").next().is_some_and(|name| bounded.contains(name))
}

/// The names of functions of tests that have a bound of wall time, themselves or by another of the
/// same file. A name such as `ask` means other things elsewhere.
fn bounded(tree: &Tree) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for functions in tree.rust().map(called) {
        let mut found = BTreeSet::from(BOUNDS);
        loop {
            let is_new = |function: &&Called| {
                function.is_test
                    && !found.contains(function.name.as_str())
                    && function.words.iter().any(|word| found.contains(word.as_str()))
            };
            let more: Vec<&str> =
                functions.iter().filter(is_new).map(|function| function.name.as_str()).collect();
            if more.is_empty() {
                break;
            }
            found.extend(more);
        }
        all.extend(found.into_iter().filter(|name| !BOUNDS.contains(name)).map(str::to_owned));
    }
    all
}

/// A function, and the words in it.
struct Called {
    name: String,
    is_test: bool,
    words: BTreeSet<String>,
}

fn called(file: &File) -> Vec<Called> {
    let tokens = file.tokens();
    let words = |from: usize, to: usize| {
        let within = tokens.iter().filter(|token| (from..=to).contains(&token.line));
        within.filter(|token| token.is_word()).map(|token| token.text.to_owned()).collect()
    };
    functions(&tokens)
        .into_iter()
        .map(|f| Called {
            is_test: file.is_test(f.line),
            words: words(f.line, f.line + f.lines - 1),
            name: f.name,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_bounded_by_itself_or_by_what_it_calls_in_its_file() {
        let tree = Tree::of(&[
            (
                "a/tests/one/main.rs",
                "fn direct() { assert_within(x, y) }\nfn other() {}\n\
                 fn indirect() { helper(); }\nfn helper() { direct() }\n",
            ),
            ("a/tests/one/more.rs", "fn elsewhere() { direct() }\n"),
        ]);
        let found: Vec<String> = bounded(&tree).into_iter().collect();
        assert_eq!(found, ["direct", "helper", "indirect"]);
        assert!(is_in(&bounded(&tree), "mount::theme::indirect"));
        assert!(!is_in(&bounded(&tree), "mount::indirect::other"));
    }
}
