//! `cargo xtask tidy`: the house rules that a machine can check.
//!
//! Each check is one function in its own file. All of them run, and every finding says where it is,
//! what is wrong and what to do instead. CONTRIBUTING.md gives the reasons of the rules.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

mod changelog;
mod circles;
mod dead_files;
mod dependencies;
mod documents;
mod fields;
mod header;
mod layers;
mod length;
mod limits;
mod markdown;
mod names;
mod plain;
mod ratchet;
mod reasons;
mod repeats;
mod rows;
mod sleep;
mod symbols;
mod tiers;
pub(crate) mod tree;
mod unsafe_code;
mod unused;
pub(crate) mod wall_time;
mod words;
mod workspace;

use tree::Tree;

/// The checks, in the order in which their findings are printed.
const CHECKS: &[fn(&Tree) -> Vec<Finding>] = &[
    dependencies::check,
    reasons::check,
    layers::check,
    names::check,
    circles::check,
    unsafe_code::check,
    length::check,
    fields::check,
    sleep::check,
    tiers::check,
    wall_time::check,
    ratchet::check,
    header::check,
    documents::check,
    rows::check,
    limits::check,
    words::check,
    plain::check,
    changelog::check,
    unused::check,
    dead_files::check,
    repeats::check,
];

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// File, relative to the root.
    pub path: String,
    /// Line in it, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// What to do instead.
    pub instead: String,
}

impl Finding {
    fn new(
        path: &str,
        line: usize,
        what: impl Into<String>,
        instead: impl Into<String>,
    ) -> Finding {
        Finding { path: path.into(), line, what: what.into(), instead: instead.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.what, self.instead)
    }
}

/// Prints every finding; fails when there is one.
pub fn main() -> ExitCode {
    match check(&crate::root()) {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(findings) => {
            findings.iter().for_each(|finding| println!("{finding}"));
            eprintln!("tidy: {} findings", findings.len());
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("tidy: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs every check on the workspace at `root`.
///
/// Reads the tree and runs `cargo metadata`, offline and without resolving; fails when either does.
pub fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let tree = Tree::read(root)?;
    Ok(CHECKS.iter().flat_map(|check| check(&tree)).collect())
}
