//! The first stage: what the user wrote, and where. Nothing is checked yet but syntax.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::Origin;
use super::raw::Raw;

/// What the user wrote, in order of precedence: where a key comes twice, the later one holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Typed {
    /// Settings of the server: those of the file, then `--set` and flags in the order given.
    pub values: Vec<Written>,
    /// The `[[listener]]` tables of the file, in the order of lines.
    pub listeners: Vec<TypedTable>,
    /// The `[[site]]` tables of the file.
    pub sites: Vec<TypedSite>,
    /// The DIR argument.
    pub directory: Option<PathBuf>,
    /// The configuration file, if there is one.
    pub file: Option<Arc<Path>>,
    /// The files that it includes, in the order in which they were read.
    pub included: Vec<Arc<Path>>,
    /// What is said of patterns of `include` that fit no file.
    pub unmatched: Vec<String>,
    /// The names of `--domain`.
    pub domains: Vec<String>,
    /// Whether `--https` is given.
    pub is_https: bool,
}

/// One `[[site]]` table.
#[derive(Clone, Debug, PartialEq)]
pub struct TypedSite {
    /// What it holds, in the order of lines. Of a key that takes a table, each entry is a value.
    pub values: Vec<Written>,
    /// The tables below it that may come more than once, in the order of lines.
    pub tables: Vec<TypedTable>,
    /// Where it begins.
    pub origin: Origin,
}

/// One table of an array of tables: `[[listener]]`, or one below a site such as
/// `[[site.redirect]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct TypedTable {
    /// The key of the array, without that of the site.
    pub key: &'static str,
    /// What it holds, in the order of lines.
    pub values: Vec<Written>,
    /// Where it begins.
    pub origin: Origin,
}

/// One value of one key.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The dotted key, known or not; parts that are not plain words are quoted.
    pub key: String,
    /// The value.
    pub raw: Raw,
    /// Where it was written.
    pub origin: Origin,
}
