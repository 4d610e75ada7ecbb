//! Bodies that are compared with the files of a directory, whatever is asked for.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::{Catalog, Content, Prepared};

/// Most bytes of files that are held to compare with.
const BYTES_MAX: u64 = 4 << 30;

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

/// Makes every GET of the catalog that nothing is expected of yet expect the file beneath
/// `directory` at its path; what whoever reads the report should know. Blocks on the disk.
///
/// # Errors
/// When no request names a file of the directory, or they are too large to be held.
pub(crate) fn expect_files(
    catalog: &mut Catalog,
    directory: &Path,
) -> Result<Option<String>, String> {
    let shown = directory.display();
    let mut known: HashMap<PathBuf, Option<Arc<dyn Content>>> = HashMap::new();
    let (mut held, mut found, mut without) = (0, 0_u64, 0_u64);
    for request in catalog.requests_mut() {
        let expected = &request.expected;
        if expected.content.is_some() || expected.page.is_some() {
            continue;
        }
        let Some(path) = path_of(request).map(|path| directory.join(path)) else {
            without += 1;
            continue;
        };
        let path = if path.is_dir() { path.join("index.html") } else { path };
        if !known.contains_key(&path) {
            let bytes = fs::read(&path).ok();
            held += bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
            if held > BYTES_MAX {
                return Err(format!(
                    "{shown}: more than {BYTES_MAX} bytes to compare with: ask for fewer files, or \
                     for those of a set (flyball fileset)"
                ));
            }
            let content = bytes.map(|bytes| Arc::new(Held(bytes.into())) as Arc<dyn Content>);
            known.insert(path.clone(), content);
        }
        let Some(Some(content)) = known.get(&path) else {
            without += 1;
            continue;
        };
        found += 1;
        request.expected.status = Some(200);
        request.expected.length = fs::metadata(&path).ok().map(|about| about.len());
        request.expected.content = Some(Arc::clone(content));
    }
    if found == 0 {
        return Err(format!(
            "{shown} has no file that is asked for: name the directory that the server serves at /"
        ));
    }
    Ok((without > 0).then(|| {
        format!("{without} requests name no file of {shown}: their replies are not compared")
    }))
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
        let note = expect_files(&mut catalog, directory.path()).unwrap().unwrap();
        assert!(note.starts_with("3 requests name no file of "), "{note}");
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
}
