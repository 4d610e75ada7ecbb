//! The listing of a directory without an index, for people and for programs.
//!
//! A directory of up to [`ENTRIES_WHOLE_MAX`] entries is answered whole, with its length. A larger
//! one is a [`Listing`](crate::listing_source::Listing): the answer begins at once, and names are
//! read in batches while it is sent. Up to [`ENTRIES_SORTED_MAX`] entries are gathered and sorted
//! before the first of them leaves; beyond that they leave as they are read, in the order that the
//! directory has them, and the page says so. What a listing takes of memory is bounded by that.
//!
//! File names are whatever somebody once called a file, so nothing of them reaches the page but
//! escaped text and percent-encoded links. The page has no script and asks for nothing further.

mod gather;
mod html;
mod json;
mod markdown;
mod readme;
mod time;
mod unlisted;
mod wish;

use bytes::Bytes;
use flyball_http::{Fields, Name};

pub(crate) use gather::Gather;
pub(crate) use readme::NAMES as READMES;
pub(crate) use unlisted::Unlisted;
pub(crate) use wish::{Format, Wish};

/// Entries up to which a directory is answered whole; of a larger one, the first to be read.
pub(crate) const ENTRIES_WHOLE_MAX: usize = 1_000;

/// Entries that are gathered so that they can be sorted, for each listing under way; one batch of
/// names may come on top. Those of ordinary length take about 1 MB then.
pub(crate) const ENTRIES_SORTED_MAX: usize = 10_000;

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The file name as the kernel has it, in no certain encoding.
    pub(crate) name: Vec<u8>,
    /// True for directories, whose links end in a slash.
    pub(crate) directory: bool,
    /// Length in bytes; not shown for directories.
    pub(crate) size: u64,
    /// When the contents last changed, in seconds since 1970, UTC.
    pub(crate) modified: u64,
}

/// What is written before, between and after the entries.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// The directory's decoded path relative to the root, `.` for the root itself.
    path: Vec<u8>,
    wish: Wish,
    /// Whether the entries come in the order that was wished for.
    pub(crate) sorted: bool,
    directories: u64,
    files: u64,
    bytes: u64,
}

impl Page {
    pub(crate) fn new(path: &[u8], wish: Wish) -> Page {
        Page { path: path.to_vec(), wish, sorted: true, directories: 0, files: 0, bytes: 0 }
    }

    pub(crate) fn begin(&self, out: &mut Vec<u8>) {
        match self.wish.format {
            Format::Html => html::begin(self, out),
            Format::Json => json::begin(self, out),
        }
    }

    pub(crate) fn entry(&mut self, entry: &Entry, out: &mut Vec<u8>) {
        match self.wish.format {
            Format::Html => html::entry(entry, out),
            Format::Json => json::entry(entry, self.directories + self.files == 0, out),
        }
        self.directories += u64::from(entry.directory);
        if !entry.directory {
            self.files += 1;
            self.bytes = self.bytes.saturating_add(entry.size);
        }
    }

    pub(crate) fn end(&self, gather: &Gather, out: &mut Vec<u8>) {
        match self.wish.format {
            Format::Html => html::end(self, &gather.readme, out),
            Format::Json => json::end(self, out),
        }
    }
}

/// The fields of a listing but those that frame it or name its coding, which may depend on the
/// client. It has no validator, which could not be had without building it. That styles and
/// pictures of a README come from nowhere else is for the browser to see to.
pub(crate) fn add_fields(format: Format, coded: bool, fields: &mut Fields) {
    const POLICY: &str =
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
    match format {
        Format::Html => {
            fields.add(Name::ContentType, "text/html; charset=utf-8");
            fields.add(Name::ContentSecurityPolicy, POLICY);
        }
        Format::Json => fields.add(Name::ContentType, "application/json"),
    }
    fields.add(Name::CacheControl, "no-cache");
    fields.add(Name::Vary, if coded { "Accept, Accept-Encoding" } else { "Accept" });
}

/// A listing that is there as a whole.
pub(crate) fn whole(gather: &mut Gather) -> Bytes {
    let mut page = Page::new(gather.path(), gather.wish());
    let mut out = Vec::new();
    page.begin(&mut out);
    for entry in gather.take() {
        page.entry(&entry, &mut out);
    }
    page.end(gather, &mut out);
    out.into()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use flyball_sys::file::{Links, Whereabouts, open_root};
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    pub(crate) fn gather(dir: &Path, format: Format, enough: usize) -> Box<Gather> {
        gather_by(Links::Beneath, dir, format, enough)
    }

    fn gather_by(links: Links, dir: &Path, format: Format, enough: usize) -> Box<Gather> {
        let directory = Arc::new(fs::File::open(dir).unwrap().into());
        let root = Arc::new(open_root(dir).unwrap());
        let place = Whereabouts { root, path: b".".to_vec(), links };
        let wish = Wish { format, key: wish::Key::Name, descending: false };
        let mut gather = Box::new(Gather::new(directory, place, false, wish, enough));
        run(&mut *gather);
        gather
    }

    fn run(steps: &mut impl crate::steps::Steps) {
        while let Some(op) = steps.next_op() {
            steps.done(op.perform());
        }
    }

    pub(crate) fn filled(count: usize) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for at in 0..count {
            fs::write(dir.path().join(format!("file-{at:06}")), "").unwrap();
        }
        dir
    }

    pub(crate) fn names(json: &[u8]) -> (bool, Vec<String>) {
        let value: serde_json::Value = serde_json::from_slice(json).unwrap();
        let entries = value["entries"].as_array().unwrap();
        let names = entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned());
        (value["sorted"].as_bool().unwrap(), names.collect())
    }

    #[test]
    fn a_small_directory_is_whole_and_sorted() {
        let dir = filled(20);
        fs::write(dir.path().join(".hidden"), "").unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        let mut gather = gather(dir.path(), Format::Json, ENTRIES_WHOLE_MAX);
        assert!(gather.is_at_end());
        let content = whole(&mut gather);
        let (sorted, names) = names(&content);
        let expected = ["sub".to_owned()].into_iter();
        let expected: Vec<_> = expected.chain((0..20).map(|at| format!("file-{at:06}"))).collect();
        assert_eq!((sorted, names), (true, expected));
    }

    #[test]
    fn what_a_file_of_proc_says_of_the_server_is_no_readme() {
        let dir = filled(1);
        std::os::unix::fs::symlink("/proc/self/status", dir.path().join("README")).unwrap();
        let mut gather = gather_by(Links::Follow, dir.path(), Format::Html, ENTRIES_WHOLE_MAX);
        let page = String::from_utf8(whole(&mut gather).to_vec()).unwrap();
        assert!(!page.contains("<section>") && !page.contains("VmPeak"), "{page}");
    }

    #[test]
    fn the_best_readme_is_found_and_only_for_people() {
        let dir = filled(1);
        let shown = |format| {
            let mut gather = gather(dir.path(), format, ENTRIES_WHOLE_MAX);
            String::from_utf8(whole(&mut gather).to_vec()).unwrap()
        };
        assert!(!shown(Format::Html).contains("<section>"));
        fs::write(dir.path().join("README.txt"), "second").unwrap();
        assert!(shown(Format::Html).contains("second"));
        fs::write(dir.path().join("README"), "first").unwrap();
        let page = shown(Format::Html);
        assert!(page.contains("first") && !page.contains("second"));
        assert!(!shown(Format::Json).contains("first"));
        // One that leads out of the root is not even a name here.
        fs::write(dir.path().join("README"), "x".repeat(readme::README_BYTES_MAX + 1)).unwrap();
        let page = shown(Format::Html);
        assert!(page.contains("more in the file") && page.len() < 80 * 1024, "{}", page.len());
        fs::write(dir.path().join("README.md"), "# Best").unwrap();
        let page = shown(Format::Html);
        assert!(page.contains("<h3>Best</h3>") && !page.contains("xxx"), "{page}");
        fs::remove_file(dir.path().join("README.md")).unwrap();
        fs::remove_file(dir.path().join("README")).unwrap();
        fs::remove_file(dir.path().join("README.txt")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("README")).unwrap();
        let page = shown(Format::Html);
        assert!(!page.contains("root:") && !page.contains("README"), "{page}");
    }
}
