//! A log cut off where the files that it has asked for until then have so many bytes together
//! (S2, Section 6.2): what of a set of data is in memory is what such a log is for.
//!
//! Only what was answered with a file counts, and is asked for: GET with status 200 or 304, without
//! a query. A file has the most bytes that the whole log has of it.

use std::collections::HashMap;

use super::{Entry, Skipped, read};
use crate::fileset::File;

/// What is left of a log, while it is read from its beginning.
#[derive(Debug)]
pub(super) struct Truncation {
    /// Bytes of each file, and whether it was asked for already.
    files: HashMap<String, (u64, bool)>,
    room: u64,
    is_over: bool,
}

impl Truncation {
    /// For a set of data of `bytes`.
    ///
    /// # Errors
    /// When the files of the log have fewer bytes.
    pub(super) fn new(log: &[u8], bytes: u64) -> Result<Truncation, String> {
        let files = sizes(log)?;
        let all: u64 = files.values().map(|(size, _)| size).sum();
        if all < bytes {
            return Err(format!(
                "the files of the log have {all} bytes together: no --data-set of {bytes} can be \
                 made of it"
            ));
        }
        Ok(Truncation { files, room: bytes, is_over: false })
    }

    /// Whether an entry is a part of what is left: none is after the first that does not fit.
    pub(super) fn takes(&mut self, entry: &Entry<'_>) -> bool {
        if self.is_over || !entry.is_file() {
            return false;
        }
        let Some((size, is_known)) = self.files.get_mut(&entry.target) else { return false };
        if !*is_known {
            self.is_over = *size > self.room;
            self.room = self.room.saturating_sub(*size);
            *is_known = true;
        }
        !self.is_over
    }
}

/// The most bytes that a log has of each file.
fn sizes(log: &[u8]) -> Result<HashMap<String, (u64, bool)>, String> {
    let mut files: HashMap<String, (u64, bool)> = HashMap::new();
    read(log, &mut Skipped::new(false), &mut |entry, _| {
        if entry.is_file() {
            let known = files.entry(entry.target).or_default();
            known.0 = known.0.max(entry.bytes);
        }
    })?;
    Ok(files)
}

/// The files that a log asks for, or its beginning for a set of data of so many bytes, in the order
/// in which it does; names that no file can have beside the others are counted. A path that ends
/// with a slash is the `index.html` beneath it.
///
/// # Errors
/// When there are fewer bytes, or a line is wrong and `skipped` refuses it.
pub fn files_of_log(
    log: &[u8],
    data_set: Option<u64>,
    skipped: &mut Skipped,
) -> Result<(Vec<File>, usize), String> {
    let mut sizes = sizes(log)?;
    let mut left = data_set.map(|bytes| Truncation::new(log, bytes)).transpose()?;
    let (mut files, mut unnamed) = (Vec::new(), 0);
    let mut directories = std::collections::HashSet::new();
    let mut names = std::collections::HashSet::new();
    read(log, skipped, &mut |entry, _| {
        let taken = left.as_mut().map_or(entry.is_file(), |left| left.takes(&entry));
        if !taken {
            return;
        }
        let Some((size, _)) = sizes.remove(&entry.target) else { return };
        match name_of(&entry.target).filter(|name| !directories.contains(name)) {
            Some(name) if above(&name).all(|above| !names.contains(above)) => {
                directories.extend(above(&name).map(String::from));
                if names.insert(name.clone()) {
                    files.push(File { name, size });
                }
            }
            _ => unnamed += 1,
        }
    })?;
    Ok((files, unnamed))
}

/// The directories above a name.
fn above(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('/').map(|(at, _)| &name[..at])
}

/// The name of the file that a server looks for at a path; `None` where it is safe for none.
fn name_of(target: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(target.len());
    let mut rest = target.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte == b'%' {
            let digits = str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(*byte);
        }
    }
    let mut name = String::from_utf8(bytes).ok()?;
    if name.ends_with('/') {
        name.push_str("index.html");
    }
    let name = name.strip_prefix('/')?;
    let is_plain = |part: &str| {
        !part.is_empty() && !part.starts_with('.') && part.len() < 256 && !part.contains('\0')
    };
    name.split('/').all(is_plain).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::{Replaying, access_log};
    use super::*;
    use crate::workload::{Catalog, Message};

    fn log() -> Vec<u8> {
        let mut log = String::new();
        for (nth, (request, outcome)) in [
            ("GET /a", "304 -"),
            ("GET /d/b%20c", "200 500"),
            ("GET /cgi?x", "200 90"),
            ("GET /none", "404 90"),
            ("GET /a", "200 1000 \"-\" \"-\" whole"),
            ("POST /p", "200 10"),
            ("GET /d/", "200 300"),
            ("GET /a/under", "200 5"),
            ("GET /.hidden", "200 5"),
            ("GET /a", "200 1000"),
            ("GET /a", "200 9000 \"-\" \"-\" left"),
            ("GET /cut", "200 70 cut"),
        ]
        .iter()
        .enumerate()
        {
            let time = format!("[01/Jul/1995:00:00:{nth:02} -0400]");
            log += &format!("h - - {time} \"{request} HTTP/1.0\" {outcome}\n");
        }
        log.into_bytes()
    }

    fn requests(data_set: u64) -> Result<usize, String> {
        let mut catalog = Catalog::new("h", Vec::new());
        let replaying = Replaying { data_set: Some(data_set), ..Replaying::default() };
        let (base, mut skipped) = (Message::default(), Skipped::new(false));
        let found = access_log(&log(), &base, &mut catalog, replaying, &mut skipped)?;
        Ok(found.sessions.sessions())
    }

    #[test]
    fn a_log_is_cut_off_where_its_files_have_so_many_bytes() {
        // The first file is known by its largest reply, which comes later.
        assert_eq!(requests(1_000), Ok(1));
        assert_eq!(requests(1_499), Ok(1), "what does not fit ends it");
        assert_eq!(requests(1_500), Ok(3));
        assert_eq!(requests(1_800), Ok(4));
        assert_eq!(requests(1_810), Ok(7));
        assert!(requests(1_811).unwrap_err().contains("have 1810 bytes together"));
        assert!(requests(999).unwrap_err().contains("no request"));
    }

    #[test]
    fn its_files_are_those_it_asks_for_and_can_be_made() {
        let named = |data_set| {
            let mut strict = Skipped::new(true);
            let (files, unnamed) = files_of_log(&log(), data_set, &mut strict).unwrap();
            let files: Vec<_> = files.into_iter().map(|file| (file.name, file.size)).collect();
            (files, unnamed)
        };
        let file = |name: &str, size| (name.to_owned(), size);
        let first = vec![file("a", 1_000), file("d/b c", 500)];
        assert_eq!(named(Some(1_500)), (first.clone(), 0));
        let all = [first, vec![file("d/index.html", 300)]].concat();
        assert_eq!(named(None), (all, 2), "beneath a file, and hidden");
    }
}
