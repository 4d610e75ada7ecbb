//! The directory that the agent writes: accounts, certificates, orders that are under way, and what
//! failed. Directories in it are for the agent's user alone, and so is each file.
//!
//! ```text
//! accounts/HOST_PATH.json     the account with an authority, and its key
//! certificates/NAME.pem       a key and its chain
//! orders/NAME.json            an order that is under way, and the key of its certificate
//! failures/NAME.json          how often and when orders failed
//! challenges/NUMBER.json      what the one who orders has to show, for all who have the storage
//! asked/NAME.json             what the operator asks for and is not done
//! asked/.lock                 who changes one of these
//! lock                        who may order
//! waiting                     when another wanted to
//! ```
//!
//! A file is written beside the old one, and takes its name when the disk has it: whatever happens,
//! there is the old one or the new one, whole.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use flyball_sys::lock_file::LockFile;
use flyball_sys::secret_file;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::agent::pair::Pair;
use crate::files;

/// For the owner alone.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Largest file that is read, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// For how long the lock of a directory is waited for, in milliseconds: who has it writes one file.
const LOCK_MS_MAX: u64 = 2_000;

/// For how long one that has waited is believed to wait on.
const WAITED_MAX: Duration = Duration::from_secs(15);

/// A directory of the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shelf {
    Accounts,
    Certificates,
    Orders,
    Failures,
    Challenges,
    Asked,
}

impl Shelf {
    const ALL: [Shelf; 6] = [
        Shelf::Accounts,
        Shelf::Certificates,
        Shelf::Orders,
        Shelf::Failures,
        Shelf::Challenges,
        Shelf::Asked,
    ];

    /// Name of its directory.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Shelf::Accounts => "accounts",
            Shelf::Certificates => files::CERTIFICATES,
            Shelf::Orders => "orders",
            Shelf::Failures => "failures",
            Shelf::Challenges => "challenges",
            Shelf::Asked => "asked",
        }
    }

    fn extension(self) -> &'static str {
        match self {
            Shelf::Certificates => files::PEM,
            _ => "json",
        }
    }
}

/// Device, inode and time of change of a file: another for each that takes its place.
pub(crate) type Mark = (u64, u64, i64, i64);

/// The storage. All its calls block on the disk.
#[derive(Clone, Debug)]
pub(crate) struct Storage {
    root: PathBuf,
}

impl Storage {
    /// Makes what is missing of the directories.
    ///
    /// # Errors
    /// When one cannot be made, or its mode cannot be set.
    pub(crate) fn open(root: &Path) -> io::Result<Storage> {
        let make =
            |path: &Path| DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path);
        make(root)?;
        for shelf in Shelf::ALL {
            let path = root.join(shelf.name());
            make(&path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(DIRECTORY_MODE))?;
        }
        Ok(Storage { root: root.to_owned() })
    }

    /// One whose directories need not be there, to be read.
    pub(crate) fn at(root: &Path) -> Storage {
        Storage { root: root.to_owned() }
    }

    /// Where a file is, or would be.
    pub(crate) fn path(&self, shelf: Shelf, stem: &str) -> PathBuf {
        self.root.join(shelf.name()).join(format!("{stem}.{}", shelf.extension()))
    }

    /// The file by which one agent at a time orders.
    pub(crate) fn lock_path(&self) -> PathBuf {
        self.root.join(files::LOCK)
    }

    /// Says that an agent waits for the one that orders.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn wait(&self) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.create(true).append(true).mode(FILE_MODE);
        open(&self.waiting_path(), &mut options)?.set_modified(SystemTime::now())
    }

    /// Whether an agent has waited lately.
    pub(crate) fn is_waited_for(&self) -> bool {
        let modified = fs::metadata(self.waiting_path()).and_then(|about| about.modified());
        modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < WAITED_MAX))
    }

    fn waiting_path(&self) -> PathBuf {
        self.root.join(files::WAITING)
    }

    /// The lock of the files of a kind, for who reads one, changes it and writes it: other servers
    /// may have the same storage.
    ///
    /// # Errors
    /// When the disk fails, or another keeps it.
    pub(crate) fn hold(&self, shelf: Shelf) -> io::Result<LockFile> {
        // No name of a certificate begins so.
        let path = self.root.join(shelf.name()).join(".lock");
        let held = LockFile::hold(&path, LOCK_MS_MAX).map_err(|error| named(&path, &error))?;
        let kept = || named(&path, &io::Error::other("another server keeps it"));
        held.ok_or_else(kept)
    }

    /// What the file is now; `None` where there is none.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn mark(&self, shelf: Shelf, stem: &str) -> io::Result<Option<Mark>> {
        match fs::metadata(self.path(shelf, stem)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
            Ok(about) => Ok(Some((about.dev(), about.ino(), about.ctime(), about.ctime_nsec()))),
        }
    }

    /// The names of all files of a kind.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn stems(&self, shelf: Shelf) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.root.join(shelf.name()))?;
        let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
        let names = names.collect::<io::Result<Vec<_>>>()?;
        let stem = |name: &OsString| {
            let stem = name.to_str()?.strip_suffix(shelf.extension())?.strip_suffix('.')?;
            (!stem.starts_with('.')).then(|| stem.to_owned())
        };
        Ok(names.iter().filter_map(stem).collect())
    }

    /// Replaces a file as a whole.
    ///
    /// # Errors
    /// When the disk fails or is full: then the old one is there as it was.
    pub(crate) fn write(&self, shelf: Shelf, stem: &str, bytes: &[u8]) -> io::Result<()> {
        let directory = self.root.join(shelf.name());
        // No name of a certificate begins so.
        let beside = directory.join(format!(".{stem}.new"));
        // One that was killed has left it.
        remove(&beside)?;
        let written = write_new(&beside, bytes);
        let path = self.path(shelf, stem);
        let moved = written.and_then(|()| fs::rename(&beside, &path));
        if moved.is_err() {
            let _ = fs::remove_file(&beside);
        }
        moved.map_err(|error| named(&path, &error))?;
        File::open(&directory)?.sync_all()
    }

    /// The content of a file, if there is one. Waits for no pipe.
    ///
    /// # Errors
    /// When the disk fails, or what is there is no regular file or too large to be one of ours.
    pub(crate) fn read(&self, shelf: Shelf, stem: &str) -> io::Result<Option<Vec<u8>>> {
        let path = self.path(shelf, stem);
        match secret_file::read(&path, FILE_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(named(&path, &error)),
            Ok(file) => Ok(Some(file.bytes)),
        }
    }

    /// The key and the chain of a certificate, if there are any.
    ///
    /// # Errors
    /// Why the file, which is named, cannot be used.
    pub(crate) fn pair(&self, stem: &str) -> Result<Option<Pair>, String> {
        let read = self.read(Shelf::Certificates, stem).map_err(|error| error.to_string())?;
        let text = read.map(|bytes| String::from_utf8(bytes).map_err(|error| error.to_string()));
        let pair = text.map(|text| text.and_then(Pair::read)).transpose();
        let path = self.path(Shelf::Certificates, stem);
        pair.map_err(|why| format!("{}: {why}", path.display()))
    }

    /// Whether a certificate was written after the order of this name.
    pub(crate) fn is_newer(&self, stem: &str) -> bool {
        let written = |shelf| fs::metadata(self.path(shelf, stem)).and_then(|file| file.modified());
        match (written(Shelf::Certificates), written(Shelf::Orders)) {
            (Ok(certificate), Ok(order)) => certificate > order,
            _ => false,
        }
    }

    /// Deletes a file, if there is one.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn remove(&self, shelf: Shelf, stem: &str) -> io::Result<()> {
        let path = self.path(shelf, stem);
        remove(&path).map_err(|error| named(&path, &error))
    }

    /// As [`write`](Storage::write), of a value.
    ///
    /// # Errors
    /// As [`write`](Storage::write).
    pub(crate) fn put(&self, shelf: Shelf, stem: &str, value: &impl Serialize) -> io::Result<()> {
        self.write(shelf, stem, &serde_json::to_vec(value)?)
    }

    /// As [`read`](Storage::read), of a value. What cannot be understood is as if it were not
    /// there: all of it can be made once more.
    ///
    /// # Errors
    /// As [`read`](Storage::read).
    pub(crate) fn get<T: DeserializeOwned>(
        &self,
        shelf: Shelf,
        stem: &str,
    ) -> io::Result<Option<T>> {
        Ok(self.read(shelf, stem)?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }
}

/// Opens a file of a storage to write it. Waits for no pipe.
///
/// # Errors
/// With its name: when it cannot be opened, or is no regular file.
pub(crate) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    secret_file::open(path, options).map_err(|error| named(path, &error))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn directories_and_files_are_for_their_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("a/storage");
        let storage = Storage::open(&root).unwrap();
        fs::set_permissions(root.join("orders"), fs::Permissions::from_mode(0o777)).unwrap();
        let storage = Storage::open(&storage.root).unwrap();
        storage.write(Shelf::Orders, "x", b"1").unwrap();
        assert_eq!(mode(&root), 0o700);
        assert_eq!(mode(&root.join("orders")), 0o700);
        assert_eq!(mode(&storage.path(Shelf::Orders, "x")), 0o600);
    }

    #[test]
    fn it_holds_nothing_that_others_do_not_know_of() {
        let dir = tempfile::tempdir().unwrap();
        let storage = Storage::open(dir.path()).unwrap();
        storage.wait().unwrap();
        fs::write(storage.lock_path(), "").unwrap();
        let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        let mut known = files::STORAGE_NAMES;
        names.sort();
        known.sort_unstable();
        assert_eq!(names, known);
    }

    #[test]
    fn what_a_killed_writer_left_does_no_harm() {
        let dir = tempfile::tempdir().unwrap();
        let storage = Storage::open(dir.path()).unwrap();
        let left = dir.path().join("certificates/.x.new");
        fs::write(&left, "half").unwrap();
        storage.write(Shelf::Certificates, "x", b"whole").unwrap();
        assert_eq!(storage.read(Shelf::Certificates, "x").unwrap().unwrap(), b"whole");
        assert_eq!(mode(&storage.path(Shelf::Certificates, "x")), 0o600);
        assert!(!left.exists());
    }

    #[test]
    fn what_is_not_there_is_none_and_what_is_torn_is_too() {
        let dir = tempfile::tempdir().unwrap();
        let storage = Storage::open(dir.path()).unwrap();
        assert_eq!(storage.get::<u64>(Shelf::Failures, "x").unwrap(), None);
        storage.write(Shelf::Failures, "x", b"{").unwrap();
        assert_eq!(storage.get::<u64>(Shelf::Failures, "x").unwrap(), None);
        storage.put(Shelf::Failures, "x", &7).unwrap();
        assert_eq!(storage.get::<u64>(Shelf::Failures, "x").unwrap(), Some(7));
        storage.remove(Shelf::Failures, "x").unwrap();
        storage.remove(Shelf::Failures, "x").unwrap();
        assert_eq!(storage.get::<u64>(Shelf::Failures, "x").unwrap(), None);
    }

    #[test]
    fn pipes_and_sockets_are_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let storage = Storage::open(dir.path()).unwrap();
        let (pipe, socket) = ("pipe", "socket");
        let _listener = UnixListener::bind(storage.path(Shelf::Certificates, socket)).unwrap();
        let pipes = [storage.path(Shelf::Certificates, pipe), storage.waiting_path()];
        let made = Command::new("mkfifo").args(&pipes).status().unwrap();
        assert!(made.success());
        for stem in [pipe, socket] {
            let why = storage.read(Shelf::Certificates, stem).unwrap_err().to_string();
            assert!(why.ends_with(&format!("/{stem}.pem: is not a file")), "{why}");
        }
        let why = storage.wait().unwrap_err().to_string();
        assert!(why.ends_with("/waiting: is not a file"), "{why}");
        storage.write(Shelf::Certificates, pipe, b"whole").unwrap();
        assert_eq!(storage.read(Shelf::Certificates, pipe).unwrap().unwrap(), b"whole");
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let storage = Storage::open(dir.path()).unwrap();
        storage.write(Shelf::Certificates, "x", b"old").unwrap();
        // A directory that is not empty cannot be removed.
        fs::create_dir_all(dir.path().join("certificates/.x.new/in")).unwrap();
        assert!(storage.write(Shelf::Certificates, "x", b"new").is_err());
        assert_eq!(storage.read(Shelf::Certificates, "x").unwrap().unwrap(), b"old");
        fs::create_dir(storage.path(Shelf::Asked, "y")).unwrap();
        for told in [storage.write(Shelf::Asked, "y", b"new"), storage.remove(Shelf::Asked, "y")] {
            let why = told.unwrap_err().to_string();
            assert!(why.contains("/asked/y.json: "), "{why}");
        }
    }
}
