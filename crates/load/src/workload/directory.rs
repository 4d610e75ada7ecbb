//! The files of a directory that are asked for: what replies to them must be, and how large.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::fileset::{CLASSES, class_of};
use super::{Catalog, Content, NO_CLASS, Prepared};

/// Most bytes of files that are held to compare with. Of more than these the lengths are compared.
const BYTES_MAX: u64 = 1 << 30;

/// A body that is held.
#[derive(Debug)]
struct Held(Box<[u8]>);

impl Content for Held {
    fn matches(&self, offset: u64, bytes: &[u8]) -> bool {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let own = self.0.get(from..).and_then(|rest| rest.get(..bytes.len()));
        own == Some(bytes)
    }
}

/// The length of a file, and what is in it where that is held.
type File = (u64, Option<Arc<dyn Content>>);

/// Makes every GET of the catalog that nothing is expected of yet expect the file beneath
/// `directory` at its path; what whoever reads the report should know. Blocks on the disk.
///
/// # Errors
/// When no request names a file of the directory.
pub(crate) fn expect_files(catalog: &mut Catalog, directory: &Path) -> Result<Vec<String>, String> {
    expect_up_to(catalog, directory, BYTES_MAX)
}

/// The same, with so many bytes to be held.
fn expect_up_to(
    catalog: &mut Catalog,
    directory: &Path,
    bytes_max: u64,
) -> Result<Vec<String>, String> {
    let shown = directory.display();
    let mut known: HashMap<PathBuf, Option<File>> = HashMap::new();
    let (mut held, mut found, mut without, mut by_length) = (0, 0_u64, 0_u64, 0_u64);
    let mut read = |path: &Path| -> Option<File> {
        let length = fs::metadata(path).ok().filter(fs::Metadata::is_file)?.len();
        if held + length > bytes_max {
            return Some((length, None));
        }
        let bytes = fs::read(path).ok()?;
        held += bytes.len() as u64;
        Some((bytes.len() as u64, Some(Arc::new(Held(bytes.into())))))
    };
    for request in catalog.requests_mut() {
        let expected = &request.expected;
        if expected.content.is_some() || expected.page.is_some() {
            continue;
        }
        let path = file_of(request, directory);
        let file =
            path.and_then(|path| known.entry(path).or_insert_with_key(|path| read(path)).clone());
        let Some((length, content)) = file else {
            without += 1;
            continue;
        };
        found += 1;
        by_length += u64::from(content.is_none());
        request.expected.status = Some(200);
        request.expected.length = Some(length);
        request.expected.content = content;
    }
    if found == 0 {
        return Err(format!(
            "{shown} has no file that is asked for: name the directory that the server serves at /"
        ));
    }
    let mut notes = Vec::new();
    if without > 0 {
        let told = "requests name no file of";
        notes.push(format!("{without} {told} {shown}: their replies are not compared"));
    }
    if by_length > 0 {
        let mib = bytes_max >> 20;
        let told = format!("the files of {shown} beyond the first {mib} MiB");
        notes.push(format!("{by_length} requests name {told}: only their lengths are compared"));
    }
    Ok(notes)
}

/// Counts the replies to every request of the catalog that names a file beneath `directory` in the
/// class of its size, and the others in none. Blocks on the disk.
pub(crate) fn class_files(catalog: &mut Catalog, directory: &Path) {
    let mut known: HashMap<PathBuf, u16> = HashMap::new();
    let class = |path: &PathBuf| match fs::metadata(path) {
        Ok(about) if about.is_file() => class_of(about.len()),
        _ => NO_CLASS,
    };
    for request in catalog.requests_mut() {
        let path = file_of(request, directory);
        let class = path.map(|path| *known.entry(path).or_insert_with_key(class));
        request.class = class.unwrap_or(NO_CLASS);
    }
    catalog.classes = CLASSES.iter().map(|(_, name)| (*name).to_owned()).collect();
}

/// The file that a GET names beneath a directory, there or not; of a directory its page.
fn file_of(request: &Prepared, directory: &Path) -> Option<PathBuf> {
    let path = directory.join(path_of(request)?);
    Some(if path.is_dir() { path.join("index.html") } else { path })
}

/// The path of a GET beneath the root of its server; `None` where it leaves it, or has a query.
pub(super) fn path_of(request: &Prepared) -> Option<PathBuf> {
    let line = request.bytes.split(|byte| *byte == b'\r').next()?;
    let line = str::from_utf8(line).ok()?.strip_prefix("GET /")?;
    let target = line.split(' ').next()?;
    let mut bytes = Vec::with_capacity(target.len());
    let mut rest = target.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'?' => return None,
            b'%' => {
                let digits = str::from_utf8(rest.get(..2)?).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = &rest[2..];
            }
            byte => bytes.push(*byte),
        }
    }
    let path = PathBuf::from(String::from_utf8(bytes).ok()?);
    let stays = path.components().all(|part| matches!(part, Component::Normal(_)));
    stays.then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Message;

    #[test]
    fn requests_expect_the_files_that_they_name() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("a b"), "content").unwrap();
        fs::write(directory.path().join("index.html"), "index").unwrap();
        let mut catalog = Catalog::new("h", Vec::new());
        for target in ["/a%20b", "/", "/none", "/a%20b?x", "/../a%20b"] {
            catalog.add(&Message { target: target.into(), ..Message::default() });
        }
        let notes = expect_files(&mut catalog, directory.path()).unwrap();
        assert!(notes[0].starts_with("3 requests name no file of "), "{notes:?}");
        assert_eq!(notes.len(), 1);
        let expected = |id| &catalog.request(id).expected;
        assert_eq!((expected(0).length, expected(1).length), (Some(7), Some(5)));
        let content = expected(0).content.as_ref().unwrap();
        assert!(content.matches(3, b"tent") && content.matches(0, b"con"));
        assert!(!content.matches(3, b"tents") && !content.matches(0, b"cox"));
        assert!(expected(2).content.is_none() && expected(3).content.is_none());
        let mut other = Catalog::new("h", Vec::new());
        other.add(&Message { target: "/none".into(), ..Message::default() });
        assert!(expect_files(&mut other, directory.path()).unwrap_err().contains("has no file"));
    }
    #[test]
    fn a_site_that_is_too_large_to_be_held_could_not_be_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        for (name, size) in [("a", 600), ("b", 600), ("c", 100)] {
            fs::write(directory.path().join(name), vec![b'x'; size]).unwrap();
        }
        let mut catalog = Catalog::new("h", Vec::new());
        for target in ["/a", "/b", "/c"] {
            catalog.add(&Message { target: target.into(), ..Message::default() });
        }
        let notes = expect_up_to(&mut catalog, directory.path(), 1_000).unwrap();
        assert!(notes[0].ends_with("only their lengths are compared"), "{notes:?}");
        let held = |id| catalog.request(id).expected.content.is_some();
        assert_eq!([0, 1, 2].map(held), [true, false, true]);
        assert_eq!(catalog.request(1).expected.length, Some(600));
    }

    #[test]
    fn replies_are_counted_in_the_class_of_the_size_of_their_file() {
        let directory = tempfile::tempdir().unwrap();
        for (name, size) in [("small", 600), ("large", 200_000)] {
            fs::write(directory.path().join(name), vec![b'x'; size]).unwrap();
        }
        let mut catalog = Catalog::new("h", Vec::new());
        for target in ["/large", "/small", "/none"] {
            catalog.add(&Message { target: target.into(), ..Message::default() });
        }
        class_files(&mut catalog, directory.path());
        let class = |id| catalog.classes.get(usize::from(catalog.request(id).class));
        assert_eq!(class(0).map(String::as_str), Some("100 KiB and more"));
        assert_eq!(class(1).map(String::as_str), Some("below 1 KiB"));
        assert_eq!(class(2), None);
        assert!(catalog.request(0).expected.content.is_none());
    }
}
