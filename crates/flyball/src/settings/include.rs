//! `include`: a configuration that is kept in several files, as one for each site.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flyball_site::pattern;

use super::error::{ERRORS_MAX, Origin, SettingError};
use super::expand::process_environment;
use super::file;
use super::typed::{Typed, Written};

/// The key.
pub(super) const INCLUDE: &str = "include";

/// What says that nothing is included.
const NONE: &str = "none";

/// Most files of a configuration.
pub const FILES_MAX: usize = 10_000;

/// Reads a configuration file and those that it includes. Blocks on the disk.
///
/// # Errors
/// As [`file::read`], for each of them; when one that is included cannot be, or says what another
/// says already.
pub fn read(path: &Path) -> Result<Typed, Vec<SettingError>> {
    let mut typed = file::read(path)?;
    let mut files = Files { seen: HashSet::new(), errors: Vec::new() };
    files.is_new(path);
    files.add_included(&mut typed);
    if files.errors.is_empty() { Ok(typed) } else { Err(files.errors) }
}

/// The files that were read, and what is wrong with them.
struct Files {
    /// By their real paths: each is read once, so that files may include each other.
    seen: HashSet<PathBuf>,
    errors: Vec<SettingError>,
}

impl Files {
    /// Adds what the files say that are included, and those included there, and so on.
    fn add_included(&mut self, typed: &mut Typed) {
        let mut at = 0;
        // What is added may include more.
        while let Some(written) = typed.values.get(at) {
            at += 1;
            if written.key != INCLUDE || self.errors.len() >= ERRORS_MAX {
                continue;
            }
            let written = written.clone();
            match included(&written, &mut typed.unmatched) {
                Ok(paths) => paths.iter().for_each(|path| self.add(path, &written, typed)),
                Err(why) => self.errors.push(error(&written, why)),
            }
        }
    }

    fn add(&mut self, path: &Path, written: &Written, typed: &mut Typed) {
        if self.errors.len() >= ERRORS_MAX || !self.is_new(path) {
            return;
        }
        if self.seen.len() > FILES_MAX {
            self.errors.push(error(written, format!("are more than {FILES_MAX} files")));
            return;
        }
        let more = match file::read(path) {
            Ok(more) => more,
            Err(errors) => return self.errors.extend(errors),
        };
        for value in &more.values {
            let same = |other: &&Written| other.key == value.key && value.key != INCLUDE;
            if let Some(first) = typed.values.iter().find(same) {
                let why = format!("is written already, at {}", first.origin);
                self.errors.push(error(value, why));
            }
        }
        typed.values.extend(more.values);
        typed.listeners.extend(more.listeners);
        typed.sites.extend(more.sites);
        typed.included.push(Arc::from(path));
    }

    /// Notes a file. Of one that is not there its reader will tell.
    fn is_new(&mut self, path: &Path) -> bool {
        self.seen.insert(path.canonicalize().unwrap_or_else(|_| path.to_owned()))
    }
}

/// The files that a value names, in the order of the value, those of a pattern in the order of
/// their names. Of patterns that fit none it is told in `unmatched`.
fn included(written: &Written, unmatched: &mut Vec<String>) -> Result<Vec<PathBuf>, String> {
    let names = written.raw.expanded(&process_environment)?;
    if names.text() == Some(NONE) {
        return Ok(Vec::new());
    }
    let mut paths = Vec::new();
    for name in names.items() {
        let Some(name) = name.text().filter(|name| !name.is_empty() && !name.contains('\0')) else {
            return Err(format!("expected a path such as \"sites/*.toml\", found {name}"));
        };
        let path = written.origin.base().join(name);
        match (path.parent(), path.file_name().and_then(|name| name.to_str())) {
            (Some(directory), Some(last)) if last.contains(['*', '?']) => {
                let found = matching(directory, last)?;
                if found.is_empty() {
                    let place = written.origin.lead(INCLUDE);
                    unmatched.push(format!("{place}{} fits no file", path.display()));
                }
                paths.extend(found);
            }
            _ => paths.push(path),
        }
    }
    Ok(paths)
}

/// The files of a directory whose names match. No file is hidden from the pattern but those that
/// begin with a dot, as editors leave them.
fn matching(directory: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
    let directory = if directory == Path::new("") { Path::new(".") } else { directory };
    if directory.as_os_str().as_encoded_bytes().contains(&b'*') {
        return Err("a pattern stands in the last part of a path alone".to_owned());
    }
    if !pattern::is_pattern(pattern) {
        return Err(format!("is longer than {} bytes", pattern::PATTERN_BYTES_MAX));
    }
    let listed = || -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let name = entry?.file_name();
            let bytes = name.as_encoded_bytes();
            if !bytes.starts_with(b".") && pattern::matches(pattern, bytes) {
                found.push(directory.join(name));
            }
        }
        found.sort();
        Ok(found)
    };
    listed().map_err(|error| format!("{} cannot be read: {error}", directory.display()))
}

fn error(written: &Written, why: String) -> SettingError {
    SettingError { key: written.key.clone(), value: None, why, origin: written.origin.clone() }
}

/// What is wrong with the key where it is no file that includes.
pub(super) fn fault(written: &Written) -> Option<SettingError> {
    let is_file = matches!(written.origin, Origin::File { .. });
    let is_wrong = written.key == INCLUDE && !is_file;
    is_wrong.then(|| error(written, "is written in a file: name that by --config".to_owned()))
}
