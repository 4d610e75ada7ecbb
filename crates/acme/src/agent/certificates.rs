//! The certificates of a storage, for its operator: what is there, and pairs from elsewhere.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use crate::agent::entry::failed_last;
use crate::agent::lease::Lease;
use crate::agent::pair::Pair;
use crate::agent::schedule::Schedule;
use crate::agent::storage::{Shelf, Storage};
use crate::agent::time;
use crate::files::stem;
use crate::names::Name;

/// A certificate of the storage, or one that could not be ordered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The first of its names in the configuration.
    pub name: String,
    /// Where it is, or would be.
    pub path: PathBuf,
    /// What it is, or why it cannot be used; `None` where it is still to come.
    pub about: Option<Result<About, String>>,
    /// What failed last, if nothing has succeeded since.
    pub error: Option<String>,
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
    /// When it is renewed, unless its authority advises another time.
    pub renews_at: Option<u64>,
}

/// All certificates of a storage, by the names of their files. Nothing is made, and the lease is
/// not needed: files are replaced as a whole. Blocks on the disk, and waits for no pipe.
///
/// # Errors
/// When the storage is not there or may not be read.
pub fn kept(storage: &Path) -> io::Result<Vec<Kept>> {
    let storage = Storage::at(storage);
    let mut stems: BTreeSet<String> = storage.stems(Shelf::Certificates)?.into_iter().collect();
    stems.extend(storage.stems(Shelf::Failures).unwrap_or_default());
    let kept = stems.into_iter().map(|stem| Kept {
        name: name_of(&stem),
        path: storage.path(Shelf::Certificates, &stem),
        about: storage.pair(&stem).map(|pair| pair.as_ref().map(about)).transpose(),
        error: failed_last(&storage, &stem),
    });
    Ok(kept.collect())
}

/// The name whose [`stem`] this is.
pub(crate) fn name_of(stem: &str) -> String {
    stem.replace("_wildcard.", "*.").replace('_', ":")
}

fn about(pair: &Pair) -> About {
    let leaf = pair.leaf().clone();
    let addresses = leaf.addresses.iter().map(ToString::to_string);
    let mut schedule = Schedule::default();
    schedule.holds((&leaf).into());
    About {
        names: leaf.names.iter().cloned().chain(addresses).collect(),
        issuer: leaf.issuer,
        serial: leaf.serial,
        not_before: leaf.not_before_s,
        not_after: leaf.not_after_s,
        renews_at: schedule.renews_at(),
    }
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
    use std::fs;
    use std::process::Command;

    #[test]
    fn what_was_imported_is_listed_and_what_is_broken_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let storage = dir.path().join("storage");
        assert!(kept(&storage).is_err(), "nothing is made");
        let (key, chain) = made(&["a.org", "*.a.org", "192.0.2.7"]);
        let path = import(&storage, "*.a.org", &key, &chain).unwrap();
        fs::write(storage.join("certificates/b.org.pem"), "").unwrap();
        fs::write(storage.join("certificates/.c.org.pem"), "").unwrap();
        let failure = r#"{"count": 2, "first": 1, "last": 2, "not_before": 0,
            "is_refused": true, "why": "the CAA record forbids it"}"#;
        fs::write(storage.join("failures/d.org.json"), failure).unwrap();
        let pipe = storage.join("certificates/e.org.pem");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let all = kept(&storage).unwrap();
        let names: Vec<_> = all.iter().map(|kept| kept.name.as_str()).collect();
        assert_eq!(names, ["*.a.org", "b.org", "d.org", "e.org"]);
        assert_eq!(all[0].path, path);
        let about = all[0].about.as_ref().unwrap().as_ref().unwrap();
        assert_eq!(about.names[..], ["a.org", "*.a.org", "192.0.2.7"]);
        let renews_at = about.renews_at.unwrap();
        assert!(about.not_before < renews_at && renews_at < about.not_after, "{about:?}");
        let unusable = |at: usize| all[at].about.as_ref().unwrap().as_ref().unwrap_err();
        assert!(unusable(1).contains("no certificate") && unusable(3).contains("is not a file"));
        assert_eq!(all[2].about, None);
        assert_eq!(all[2].error.as_deref(), Some("the CAA record forbids it"));
        assert!([0, 1, 3].iter().all(|at| all[*at].error.is_none()));
    }

    #[test]
    fn a_file_tells_the_name_that_it_is_for() {
        for text in ["a.org", "*.a.org", "192.0.2.7", "2001:db8::1"] {
            assert_eq!(name_of(&stem(&Name::parse(text).unwrap())), text);
        }
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
