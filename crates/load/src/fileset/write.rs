//! Writing a set, and finding one again.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::MANIFEST;
use super::content::FileContent;
use super::kinds::{File, Kind, Manifest, Parameters};

/// Bytes that are made at a time.
const PIECE: usize = 256 << 10;

/// Makes the files of a set in a directory; one that holds the same set already is left as it is.
/// `progress` is told how many of how many files are there. Blocks for as long as the disk takes.
///
/// # Errors
/// When the directory holds something else, or cannot be written.
pub fn make(
    manifest: &Manifest,
    directory: &Path,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<usize, String> {
    let files = manifest.files()?;
    match open(directory) {
        Ok(there) if there == *manifest => return Ok(files.len()),
        Ok(_) => return Err(format!("{} holds another set of files", directory.display())),
        Err(_) => {}
    }
    write_all(&files, manifest.parameters.seed, &json(manifest), directory, progress)?;
    Ok(files.len())
}

/// Makes the files that a log asks for, as [`files_of_log`](crate::workload::files_of_log) has
/// them, with bytes from `seed`. Blocks for as long as the disk takes.
///
/// # Errors
/// As [`make`].
pub fn make_of_log(
    files: &[File],
    seed: u64,
    directory: &Path,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(), String> {
    let about = json!({ "kind": "log", "seed": seed, "files": files.len() });
    write_all(files, seed, &about, directory, progress)
}

fn write_all(
    files: &[File],
    seed: u64,
    about: &Value,
    directory: &Path,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(), String> {
    let named = |error: io::Error| format!("{}: {error}", directory.display());
    fs::create_dir_all(directory).map_err(named)?;
    let is_empty = fs::read_dir(directory).map_err(named)?.next().is_none();
    if !is_empty && !directory.join(MANIFEST).with_extension("half").exists() {
        return Err(format!("{} is not empty: name a new directory", directory.display()));
    }
    // Which says, after an interruption, that what is there may be written over.
    fs::write(directory.join(MANIFEST).with_extension("half"), "").map_err(named)?;
    let mut piece = vec![0; PIECE];
    for (nth, file) in files.iter().enumerate() {
        progress(nth, files.len());
        let path = directory.join(&file.name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(named)?;
        }
        let content = FileContent::new(&file.name, file.size, seed);
        write(&path, &content, &mut piece).map_err(named)?;
    }
    let text = format!("{about:#}\n");
    fs::write(directory.join(MANIFEST), text).map_err(named)?;
    fs::remove_file(directory.join(MANIFEST).with_extension("half")).map_err(named)
}

fn write(path: &Path, content: &FileContent, piece: &mut [u8]) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    let mut at = 0;
    while at < content.size() {
        let len = piece.len().min((content.size() - at) as usize);
        content.fill(at, &mut piece[..len]);
        file.write_all(&piece[..len])?;
        at += len as u64;
    }
    Ok(())
}

/// How the set of a directory was made; its files are not looked at. Blocks on the disk.
///
/// # Errors
/// When the directory holds no set.
pub fn open(directory: &Path) -> Result<Manifest, String> {
    let path = directory.join(MANIFEST);
    let text = fs::read_to_string(&path).map_err(|error| {
        let directory = directory.display();
        format!("{directory} holds no set of files ({error}): make one by `flyball fileset`")
    })?;
    let wrong = || format!("{} is no manifest", path.display());
    let value: Value = serde_json::from_str(&text).map_err(|_| wrong())?;
    if value["kind"] == "log" {
        let directory = directory.display();
        return Err(format!("{directory} holds the files of a log: ask for them by that --log"));
    }
    let number = |name: &str| value[name].as_u64().ok_or_else(wrong);
    let kind = value["kind"].as_str().and_then(Kind::named).ok_or_else(wrong)?;
    let parameters = Parameters {
        directories: number("directories")?,
        size: number("size")?,
        mib: number("mib")?,
        seed: number("seed")?,
    };
    Ok(Manifest { kind, parameters })
}

fn json(manifest: &Manifest) -> Value {
    let Parameters { directories, size, mib, seed } = manifest.parameters;
    json!({
        "kind": manifest.kind.name(),
        "directories": directories,
        "size": size,
        "mib": mib,
        "seed": seed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Content;

    #[test]
    fn a_set_is_made_found_again_and_not_written_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("set");
        let kind = Kind::SpecWeb99;
        let parameters = Parameters { directories: 1, ..kind.defaults() };
        let manifest = Manifest { kind, parameters };
        let mut told = 0;
        assert_eq!(make(&manifest, &path, &mut |_, _| told += 1), Ok(36));
        assert_eq!(told, 36);
        assert_eq!(open(&path), Ok(manifest));
        let name = "file_set/dir00000/class2_8";
        let bytes = fs::read(path.join(name)).unwrap();
        let content = FileContent::new(name, 92_160, 1);
        assert!(bytes.len() == 92_160 && content.matches(0, &bytes));
        // The same again is there already; another is refused.
        assert_eq!(make(&manifest, &path, &mut |_, _| told += 1), Ok(36));
        assert_eq!(told, 36);
        let other = Manifest { parameters: Parameters { seed: 2, ..parameters }, ..manifest };
        assert!(make(&other, &path, &mut |_, _| {}).unwrap_err().contains("another set"));
    }

    #[test]
    fn a_directory_with_other_files_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("precious"), "x").unwrap();
        let kind = Kind::OnePacket;
        let manifest = Manifest { kind, parameters: kind.defaults() };
        let why = make(&manifest, directory.path(), &mut |_, _| {}).unwrap_err();
        assert!(why.contains("not empty"), "{why}");
        assert!(open(directory.path()).unwrap_err().contains("flyball fileset"));
    }
}
