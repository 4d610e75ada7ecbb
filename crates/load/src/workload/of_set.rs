//! Requests of any workload for the files of a set: what their replies are, and how large.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::directory::path_of;
use super::fileset::{CLASSES, class_of, expected};
use super::{Catalog, NO_CLASS};
use crate::fileset::{FileContent, Manifest};

/// Makes every GET of the catalog that names a file of the set `manifest`, beneath the path `base`,
/// expect it and counts it in the class of its size; what whoever reads the report should know.
///
/// # Errors
/// When no request names a file of the set.
pub(crate) fn expect_set(
    catalog: &mut Catalog,
    directory: &Path,
    manifest: &Manifest,
    base: &str,
) -> Result<Option<String>, String> {
    let files = manifest.files()?;
    let places: HashMap<&Path, usize> =
        files.iter().enumerate().map(|(at, file)| (Path::new(&file.name), at)).collect();
    let (mut found, mut without) = (0_u64, 0_u64);
    for request in catalog.requests_mut() {
        let path = path_of(request);
        let name = path.as_ref().and_then(|path| path.strip_prefix(base.trim_matches('/')).ok());
        let Some(at) = name.and_then(|name| places.get(name)) else {
            request.class = NO_CLASS;
            without += 1;
            continue;
        };
        let file = &files[*at];
        let content = FileContent::new(&file.name, file.size, manifest.parameters.seed);
        request.expected = expected(file, Some(Arc::new(content)));
        request.class = class_of(file.size);
        found += 1;
    }
    let shown = directory.display();
    if found == 0 {
        return Err(format!(
            "no request names a file of the set in {shown}: name the --fileset that the server \
             serves, or load the path beneath which it is"
        ));
    }
    catalog.classes = CLASSES.iter().map(|(_, name)| (*name).to_owned()).collect();
    Ok((without > 0).then(|| {
        format!(
            "{without} requests name no file of the set in {shown}: they are neither compared \
             nor counted in a class"
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fileset::{Kind, Parameters};
    use crate::workload::Message;

    #[test]
    fn requests_for_files_of_a_set_expect_them_and_have_their_class() {
        let kind = Kind::SpecWeb99;
        let parameters = Parameters { directories: 1, ..kind.defaults() };
        let manifest = Manifest { kind, parameters };
        let mut catalog = Catalog::new("h", Vec::new());
        for target in ["/a/file_set/dir00000/class3_8", "/a/none", "/file_set/dir00000/class0_0"] {
            catalog.add(&Message { target: target.into(), ..Message::default() });
        }
        let directory = Path::new("set");
        let note = expect_set(&mut catalog, directory, &manifest, "/a/").unwrap().unwrap();
        assert!(note.starts_with("2 requests name no file of the set in set"), "{note}");
        let first = catalog.request(0);
        assert_eq!((first.expected.status, first.expected.length), (Some(200), Some(921_600)));
        assert!(
            first.expected.content.as_ref().unwrap().matches(0, b"   921600 file_set/dir00000")
        );
        assert_eq!(catalog.classes[usize::from(first.class)], "100 KiB and more");
        assert!(catalog.classes.get(usize::from(catalog.request(1).class)).is_none());
        assert!(catalog.request(2).expected.content.is_none(), "it is elsewhere");
        let why = expect_set(&mut catalog, directory, &manifest, "/b").unwrap_err();
        assert!(why.contains("no request names a file of the set"), "{why}");
    }
}
