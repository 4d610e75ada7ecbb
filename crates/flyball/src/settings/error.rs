//! What is wrong with a setting, and where it was written.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Most errors reported at once; a file with more is not read with attention anyway.
pub const ERRORS_MAX: usize = 20;

/// One thing wrong with what the user wrote.
///
/// Its text begins with the place: `FILE:LINE: KEY: WHY`, `--FLAG: WHY` or `--set KEY: WHY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// The dotted key; empty when the error concerns no single key, such as one of syntax.
    pub key: String,
    /// The value as it was written, where one was.
    pub value: Option<String>,
    /// What is wrong and what was expected, in words; complete with the value found.
    pub why: String,
    /// Where it was written.
    pub origin: Origin,
}

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nowhere: it is the default.
    Default,
    /// In a configuration file.
    File {
        /// The file, named as the user named it.
        path: Arc<Path>,
        /// The line, from 1; `None` when the error concerns the whole file.
        line: Option<usize>,
    },
    /// As the flag of this name, without its dashes.
    Flag(&'static str),
    /// As `--set KEY=VALUE`.
    Set,
    /// As the DIR argument.
    Directory,
}

impl Origin {
    /// The directory that relative paths written there start from; empty is the current one.
    pub fn base(&self) -> &Path {
        match self {
            Origin::File { path, .. } => path.parent().unwrap_or(Path::new("")),
            _ => Path::new(""),
        }
    }

    /// What a message about this key begins with: the place, and the key unless the place says it.
    pub(super) fn lead(&self, key: &str) -> String {
        let key = if key.is_empty() { String::new() } else { format!("{key}: ") };
        match self {
            Origin::Default => key,
            Origin::Set => format!("--set {key}"),
            // A flag and DIR already say which setting they are.
            Origin::Flag(_) | Origin::Directory => format!("{self}: "),
            Origin::File { .. } => format!("{self}: {key}"),
        }
    }

    /// Sorts errors in reading order: each file from its top, then the command line.
    pub(super) fn order(&self) -> (u8, &Path, usize) {
        let nowhere = Path::new("");
        match self {
            Origin::File { path, line } => (0, path, line.unwrap_or(0)),
            Origin::Flag(_) | Origin::Set => (1, nowhere, 0),
            Origin::Directory => (2, nowhere, 0),
            Origin::Default => (3, nowhere, 0),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("the default"),
            Origin::File { path, line: Some(line) } => write!(f, "{}:{line}", path.display()),
            Origin::File { path, line: None } => write!(f, "{}", path.display()),
            Origin::Flag(flag) => write!(f, "--{flag}"),
            Origin::Set => f.write_str("--set"),
            Origin::Directory => f.write_str("DIR"),
        }
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin.lead(&self.key), self.why)
    }
}

impl std::error::Error for SettingError {}
