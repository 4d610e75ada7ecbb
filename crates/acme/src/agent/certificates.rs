//! The certificates of a storage, for its operator: what is there, and pairs from elsewhere.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::agent::lease::Lease;
use crate::agent::pair::Pair;
use crate::agent::storage::{Shelf, Storage};
use crate::agent::time;
use crate::files::{PEM, stem};
use crate::names::Name;

/// A file of the storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Where it is.
    pub path: PathBuf,
    /// What it is, or why it cannot be used.
    pub about: Result<About, String>,
}

/// A pair of key and chain. Times are seconds since 1970, UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Hosts, then addresses.
    pub names: Vec<String>,
    /// Who issued it, as RFC 4514 writes names.
    pub issuer: String,
    /// Its number, in hexadecimal digits.
    pub serial: String,
    /// When it begins.
    pub not_before: u64,
    /// When it ends.
    pub not_after: u64,
}

/// All certificates of a storage, by the names of their files. Nothing is made, and the lease is
/// not needed: files are replaced as a whole. Blocks on the disk.
///
/// # Errors
/// When the storage is not there or may not be read.
pub fn kept(storage: &Path) -> io::Result<Vec<Kept>> {
    let entries = fs::read_dir(storage.join(Shelf::Certificates.name()))?;
    let paths =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>();
    let is_pair = |path: &PathBuf| {
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
        !is_hidden && path.extension().is_some_and(|extension| extension == PEM)
    };
    let mut paths: Vec<PathBuf> = paths?.into_iter().filter(is_pair).collect();
    paths.sort();
    Ok(paths.into_iter().map(|path| Kept { about: about(&path), path }).collect())
}

fn about(path: &Path) -> Result<About, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let leaf = Pair::read(text)?.leaf().clone();
    let addresses = leaf.addresses.iter().map(ToString::to_string);
    Ok(About {
        names: leaf.names.iter().cloned().chain(addresses).collect(),
        issuer: leaf.issuer,
        serial: leaf.serial,
        not_before: leaf.not_before_s,
        not_after: leaf.not_after_s,
    })
}

/// Puts a pair from elsewhere into a storage, which is made if need be, as the certificate whose
/// first name this is. One that is there already is replaced. An agent sees it within ten minutes.
/// Blocks on the disk.
///
/// # Errors
/// When the two do not belong together or are not for that name, an agent orders at this moment, or
/// the disk fails.
pub fn import(storage: &Path, name: &str, key: &str, chain: &str) -> Result<PathBuf, String> {
    let name = Name::parse(name)?;
    let pair = Pair::of(key, chain)?;
    if !pair.covers(std::slice::from_ref(&name)) {
        return Err(format!("the certificate is not for {name}"));
    }
    let failed = |error: io::Error| format!("{}: {error}", storage.display());
    let shelves = Storage::open(storage).map_err(failed)?;
    let lease = Lease::take(&shelves.lock_path(), time::unix()).map_err(failed)?;
    let _lease = lease.ok_or("an agent orders a certificate at this moment: try again later")?;
    let stem = stem(&name);
    shelves.write(Shelf::Certificates, &stem, pair.text.as_bytes()).map_err(failed)?;
    Ok(shelves.path(Shelf::Certificates, &stem))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::pair::tests::made;

    #[test]
    fn what_was_imported_is_listed_and_what_is_broken_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let storage = dir.path().join("storage");
        assert!(kept(&storage).is_err(), "nothing is made");
        let (key, chain) = made(&["a.org", "*.a.org", "192.0.2.7"]);
        let path = import(&storage, "*.a.org", &key, &chain).unwrap();
        fs::write(storage.join("certificates/b.org.pem"), "").unwrap();
        fs::write(storage.join("certificates/.c.org.pem"), "").unwrap();
        let all = kept(&storage).unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].path, path);
        let names = &all[0].about.as_ref().unwrap().names;
        assert_eq!(names[..], ["a.org", "*.a.org", "192.0.2.7"]);
        assert!(all[1].about.as_ref().unwrap_err().contains("no certificate"));
    }

    #[test]
    fn what_does_not_fit_is_not_imported() {
        let dir = tempfile::tempdir().unwrap();
        let ((key, chain), (other, _)) = (made(&["a.org"]), made(&["a.org"]));
        for (name, key, why) in [
            ("b.org", &key, "not for b.org"),
            ("a.org", &other, "does not belong"),
            ("../a", &key, "not a name"),
        ] {
            let told = import(dir.path(), name, key, &chain).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
        let storage = Storage::open(dir.path()).unwrap();
        let held = Lease::take(&storage.lock_path(), time::unix()).unwrap().unwrap();
        assert!(import(dir.path(), "a.org", &key, &chain).unwrap_err().contains("try again"));
        drop(held);
        import(dir.path(), "a.org", &key, &chain).unwrap();
    }
}
