//! The files that every contestant serves: a small one, a large one and a SPECweb99 file set.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flyball_testkit::wait;

/// Path of the small file: 1,024 bytes, which fit one packet together with their head.
pub(crate) const SMALL: &str = "/small.txt";
/// Path of the large file.
pub(crate) const LARGE: &str = "/large.txt";
/// Directories of the file set: 40 of 5,119,484 bytes are 205 MB.
pub(crate) const DIRECTORIES: usize = 40;

const SMALL_BYTES: u64 = 1024;
const LARGE_BYTES: u64 = 10 << 20;

/// Sizes of the nine files of SPECweb99's smallest class; file `i` of class `c` above it has
/// `(i + 1) * 1024 * 10^(c - 1)` bytes.
const CLASS_0_BYTES: [u64; 9] = [102, 204, 307, 409, 512, 614, 716, 819, 921];
const CLASSES: usize = 4;
const FILES_PER_DIRECTORY: usize = CLASSES * CLASS_0_BYTES.len();

/// Files of the mix whose answers are checked before it is timed.
const MIX_SAMPLE: usize = 100;

/// Age from which a file counts as unchanged, with some to spare.
const SETTLED: Duration = Duration::from_secs(62);

/// Written last, so that a half-made site is made again. The number changes with the contents.
const COMPLETE: &str = "complete";
const COMPLETE_VERSION: &str = "bench site 1\n";

/// Makes the site in `root`, unless it is there and every size is right, and reads it once so that
/// it is in the page cache.
pub(crate) fn prepare(root: &Path) -> io::Result<()> {
    let files = all();
    if !is_complete(root, &files) {
        for (path, bytes) in &files {
            write(root, path, *bytes)?;
        }
        fs::write(root.join(COMPLETE), COMPLETE_VERSION)?;
    }
    for (path, _) in &files {
        io::copy(&mut File::open(on_disk(root, path))?, &mut io::sink())?;
    }
    Ok(())
}

/// Makes `count` files of `bytes` bytes each, `many/00000` and so on, unless they are there, and
/// reads them once: a disk that has a cache of its own is then as fast for the first server as for
/// the last.
pub(crate) fn prepare_many(root: &Path, count: usize, bytes: u64) -> io::Result<()> {
    let files: Vec<_> = (0..count).map(|at| (format!("/many/{at:05}"), bytes)).collect();
    if !is_complete(root, &files) {
        for (path, bytes) in &files {
            write(root, path, *bytes)?;
        }
        fs::write(root.join(COMPLETE), COMPLETE_VERSION)?;
    }
    for (path, _) in &files {
        io::copy(&mut File::open(on_disk(root, path))?, &mut io::sink())?;
    }
    Ok(())
}

/// Waits until the files have been unchanged for as long as a server may ask for before it sends
/// them by reference: a site in use is rarely a minute old. Blocks.
pub(crate) fn let_settle(root: &Path) {
    let age = || {
        let made = fs::metadata(root.join(COMPLETE)).and_then(|found| found.modified()).ok()?;
        made.elapsed().ok()
    };
    if age().is_some_and(|age| age < SETTLED) {
        eprintln!("waiting until the files are {} s old", SETTLED.as_secs());
        wait::until(SETTLED, || age().filter(|age| *age >= SETTLED));
    }
}

/// Where the file of a URL path is.
pub(crate) fn on_disk(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// A sample of the file set's paths, from every directory and from every place within one.
pub(crate) fn mix_sample() -> Vec<String> {
    let index = |i| i % DIRECTORIES * FILES_PER_DIRECTORY + i % FILES_PER_DIRECTORY;
    (0..MIX_SAMPLE).map(|i| mix_file(index(i)).0).collect()
}

/// Every file of the site: its URL path and size in bytes.
fn all() -> Vec<(String, u64)> {
    let mut files = vec![(SMALL.to_owned(), SMALL_BYTES), (LARGE.to_owned(), LARGE_BYTES)];
    files.extend((0..DIRECTORIES * FILES_PER_DIRECTORY).map(mix_file));
    files
}

/// Path and size of one file of the set, counted through all directories.
fn mix_file(index: usize) -> (String, u64) {
    let (directory, within) = (index / FILES_PER_DIRECTORY, index % FILES_PER_DIRECTORY);
    let (class, file) = (within / CLASS_0_BYTES.len(), within % CLASS_0_BYTES.len());
    let bytes = match class {
        0 => CLASS_0_BYTES[file],
        _ => (file as u64 + 1) * 1024 * 10u64.pow(class as u32 - 1),
    };
    (format!("/file_set/dir{directory:05}/class{class}_{file}"), bytes)
}

fn is_complete(root: &Path, files: &[(String, u64)]) -> bool {
    let marked =
        fs::read(root.join(COMPLETE)).is_ok_and(|text| text == COMPLETE_VERSION.as_bytes());
    marked
        && files.iter().all(|(path, bytes)| {
            fs::metadata(on_disk(root, path)).is_ok_and(|found| found.len() == *bytes)
        })
}

/// Text in numbered lines that name the file, so that no two pieces of the site are alike. It is
/// flushed to the disk, so that no write-back runs beside the measurement.
fn write(root: &Path, path: &str, bytes: u64) -> io::Result<()> {
    let target = on_disk(root, path);
    if let Some(directory) = target.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut out = BufWriter::new(File::create(target)?);
    let mut left = bytes as usize;
    let mut line = 0u64;
    while left > 0 {
        let text = format!("{line:9} {path}\n");
        let taken = text.len().min(left);
        out.write_all(&text.as_bytes()[..taken])?;
        left -= taken;
        line += 1;
    }
    out.into_inner()?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_directory_of_the_file_set_has_the_bytes_of_specweb99() {
        let bytes: u64 = (0..FILES_PER_DIRECTORY).map(|i| mix_file(i).1).sum();
        assert_eq!(bytes, 5_119_484);
        assert_eq!(
            mix_file(FILES_PER_DIRECTORY - 1),
            ("/file_set/dir00000/class3_8".into(), 921_600)
        );
    }

    #[test]
    fn the_sample_reaches_every_directory_and_every_place_within_one() {
        let sample = mix_sample();
        let distinct: BTreeSet<_> = sample.iter().collect();
        assert_eq!(distinct.len(), MIX_SAMPLE);
        let directories: BTreeSet<_> = sample.iter().map(|path| path.split('/').nth(2)).collect();
        assert_eq!(directories.len(), DIRECTORIES);
        let places: BTreeSet<_> = sample.iter().map(|path| path.split('/').nth(3)).collect();
        assert_eq!(places.len(), FILES_PER_DIRECTORY);
    }

    #[test]
    fn a_written_file_has_its_size_and_names_itself() {
        let root = std::env::temp_dir().join(format!("bench-files-{}", std::process::id()));
        write(&root, "/a/b", 102).unwrap();
        let text = fs::read_to_string(root.join("a/b")).unwrap();
        assert_eq!(text.len(), 102);
        assert!(text.starts_with("        0 /a/b\n        1 /a/b\n"), "{text:?}");
        let files = [("/a/b".to_owned(), 102)];
        assert!(!is_complete(&root, &files), "nothing says that it is complete");
        fs::write(root.join(COMPLETE), COMPLETE_VERSION).unwrap();
        assert!(is_complete(&root, &files));
        assert!(!is_complete(&root, &[("/a/b".to_owned(), 103)]), "the size is wrong");
        fs::remove_dir_all(&root).unwrap();
    }
}
