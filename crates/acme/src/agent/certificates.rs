//! The certificates of a storage, for its operator: what is there, and pairs from elsewhere.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use flyball_http::date::format_date;
use flyball_sys::own_directory;
use flyball_tls::Fault;

use crate::agent::entry::failed_last;
use crate::agent::lease::{Holder, Lease};
use crate::agent::pair::Pair;
use crate::agent::schedule::Schedule;
use crate::agent::storage::{Shelf, Storage};
use crate::agent::time;
use crate::files::{STORAGE_NAMES, stem};
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
    /// Whether it came from elsewhere: what takes its place then is of an authority of the server.
    pub is_imported: bool,
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
        is_imported: pair.authority().is_none(),
    }
}

/// A pair from elsewhere, with the files that it comes from.
#[derive(Clone, Copy, Debug)]
pub struct Import<'a> {
    /// The first name of the certificate in the configuration.
    pub name: &'a str,
    /// The chain, in PEM, and its file.
    pub chain: (&'a Path, &'a str),
    /// The key, in PEM, and its file.
    pub key: (&'a Path, &'a str),
    /// It may take the place of one that holds longer, and be one that does not hold yet.
    pub replaces: bool,
}

impl Import<'_> {
    /// The pair, if it is one for that name and holds now.
    fn pair(&self, name: &Name, now: u64) -> Result<Pair, String> {
        let ((chain, chain_text), (key, key_text)) = (self.chain, self.key);
        let chain = chain.display();
        let pair = Pair::of(key_text, chain_text).map_err(|fault| match fault.is_of_chain() {
            true => format!("{chain}: it {fault}"),
            false if matches!(fault, Fault::Mismatch) => {
                format!("{}: it {fault} in {chain}", key.display())
            }
            false => format!("{}: it {fault}", key.display()),
        })?;
        if !pair.covers(std::slice::from_ref(name)) {
            let names = Some(about(&pair).names.join(", ")).filter(|names| !names.is_empty());
            let names = names.unwrap_or("no name".into());
            return Err(format!("{chain}: the certificate is for {names}, and not for {name}"));
        }
        let (begin, end) = (pair.leaf().not_before_s, pair.leaf().not_after_s);
        if end <= now {
            return Err(format!("{chain}: the certificate ended on {}", date(end)));
        }
        if begin > now && !self.replaces {
            return Err(format!(
                "{chain}: the certificate begins on {}, and clients refuse it until then: \
                 --replace puts it there all the same",
                date(begin)
            ));
        }
        Ok(pair)
    }
}

/// A time in seconds since 1970, as HTTP writes it.
fn date(s: u64) -> String {
    String::from_utf8_lossy(&format_date(s)).into_owned()
}

/// Puts a pair from elsewhere into a storage, which is made if need be, as the certificate whose
/// first name this is. One that is there already is replaced. An agent sees it within a minute.
/// Blocks on the disk.
///
/// # Errors
/// When the two do not belong together, are not for that name or have ended, when they do not hold
/// yet or the one that is there holds longer and it is not to be replaced all the same, when an
/// agent would refuse the storage, orders at this moment, or the disk fails. Nothing is written
/// then.
pub fn import(root: &Path, wanted: &Import<'_>) -> Result<Imported, String> {
    let (name, now) = (Name::parse(wanted.name)?, time::unix());
    let pair = wanted.pair(&name, now)?;
    let failed = |error: io::Error| format!("{}: {error}", root.display());
    own_directory::examine(root, &STORAGE_NAMES).map_err(failed)?;
    let storage = Storage::open(root).map_err(failed)?;
    let (lock, stem) = (storage.lock_path(), stem(&name));
    let lease = Lease::take(&lock, now, Holder::Import).map_err(failed)?;
    let _lease = lease.ok_or_else(|| match Lease::holder(&lock) {
        Holder::Agent => "an agent orders a certificate at this moment: try again later",
        Holder::Import => "another import is under way at this moment: try again",
    })?;
    let (path, end) = (storage.path(Shelf::Certificates, &stem), pair.leaf().not_after_s);
    // One that cannot be used is replaced.
    let held = storage.pair(&stem).unwrap_or(None).map(|held| held.leaf().not_after_s);
    if let Some(held) = held.filter(|held| *held > end.max(now) && !wanted.replaces) {
        return Err(format!(
            "{}: the certificate that is there ends on {}, and that of {} on {}: --replace puts it \
             there all the same",
            path.display(),
            date(held),
            wanted.chain.0.display(),
            date(end)
        ));
    }
    storage.write(Shelf::Certificates, &stem, pair.text.as_bytes()).map_err(failed)?;
    Ok(Imported { path, pair })
}

/// A pair that is in the storage now.
#[derive(Debug)]
pub struct Imported {
    /// Where it is.
    pub path: PathBuf,
    pair: Pair,
}

impl Imported {
    /// Whether its certificate is for this name or address.
    pub fn covers(&self, name: &str) -> bool {
        Name::parse(name).is_ok_and(|name| self.pair.covers(&[name]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::entry::Entry;
    use crate::agent::pair::tests::{made, made_between, made_until};
    use crate::agent::schedule::Due;
    use std::fs;
    use std::process::Command;

    #[test]
    fn what_was_imported_is_listed_and_what_is_broken_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let storage = dir.path().join("storage");
        assert!(kept(&storage).is_err(), "nothing is made");
        let (key, chain) = made(&["a.org", "*.a.org", "192.0.2.7"]);
        let path = bring(&storage, "*.a.org", &key, &chain).unwrap();
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
        assert!(about.is_imported);
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

    fn wanted<'a>(name: &'a str, key: &'a str, chain: &'a str) -> Import<'a> {
        let files = [Path::new("of/chain.pem"), Path::new("of/key.pem")];
        Import { name, chain: (files[0], chain), key: (files[1], key), replaces: false }
    }

    fn bring(storage: &Path, name: &str, key: &str, chain: &str) -> Result<PathBuf, String> {
        import(storage, &wanted(name, key, chain)).map(|imported| imported.path)
    }

    #[test]
    fn what_does_not_fit_is_not_imported_and_the_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let ((key, chain), (other, _)) = (made(&["a.org"]), made(&["a.org"]));
        let (old_key, old) = made_until(&["a.org"], 2020);
        let (next_key, next) = made_between(&["a.org"], 3_000, 4_000);
        for (name, key, chain, why) in [
            (
                "b.org",
                &key,
                &chain,
                "of/chain.pem: the certificate is for a.org, and not for b.org",
            ),
            ("a.org", &other, &chain, "of/key.pem: it holds a key that does not belong to the"),
            ("a.org", &other, &chain, "certificate in of/chain.pem"),
            ("a.org", &key, &key, "of/chain.pem: it holds no certificate"),
            ("a.org", &old_key, &old, "of/chain.pem: the certificate ended on "),
            ("a.org", &next_key, &next, "of/chain.pem: the certificate begins on "),
            ("../a", &key, &chain, "not a name"),
        ] {
            let told = bring(dir.path(), name, key, chain).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is written");
    }

    #[test]
    fn an_agent_that_orders_and_another_import_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let (key, chain) = made(&["a.org"]);
        let storage = Storage::open(dir.path()).unwrap();
        for (by, why) in [(Holder::Agent, "an agent orders"), (Holder::Import, "another import")] {
            let held = Lease::take(&storage.lock_path(), time::unix(), by).unwrap().unwrap();
            let told = bring(dir.path(), "a.org", &key, &chain).unwrap_err();
            assert!(told.contains(why), "{told}");
            drop(held);
        }
        bring(dir.path(), "a.org", &key, &chain).unwrap();
    }

    #[test]
    fn one_that_ends_before_the_one_that_is_there_takes_its_place_where_that_is_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let (late, early) = (made_until(&["a.org"], 2090), made_until(&["a.org"], 2080));
        let path = bring(dir.path(), "a.org", &early.0, &early.1).unwrap();
        bring(dir.path(), "a.org", &late.0, &late.1).unwrap();
        let held = fs::read(&path).unwrap();
        let told = bring(dir.path(), "a.org", &early.0, &early.1).unwrap_err();
        assert!(told.contains("2090") && told.contains("2080"), "{told}");
        assert!(told.contains("--replace") && fs::read(&path).unwrap() == held, "{told}");
        let all_the_same = Import { replaces: true, ..wanted("a.org", &early.0, &early.1) };
        import(dir.path(), &all_the_same).unwrap();
        assert_ne!(fs::read(&path).unwrap(), held);
        let next = made_between(&["a.org"], 3_000, 4_000);
        assert!(bring(dir.path(), "a.org", &next.0, &next.1).unwrap_err().contains("--replace"));
        import(dir.path(), &Import { replaces: true, ..wanted("a.org", &next.0, &next.1) })
            .unwrap();
    }

    #[test]
    fn one_that_names_fewer_hosts_is_followed_by_another_in_a_running_server_as_at_a_start() {
        let dir = tempfile::tempdir().unwrap();
        let storage = Storage::open(dir.path()).unwrap();
        let names = ["a.org", "b.org"].map(|name| Name::parse(name).unwrap());
        let start = || Entry::new(names.to_vec(), 1, &storage);
        let (key, chain) = made(&["a.org", "b.org"]);
        bring(dir.path(), "a.org", &key, &chain).unwrap();
        let mut running = start();
        assert!(running.is_other(&storage) && running.look(&storage, &[]));
        assert!(!running.is_other(&storage));
        assert_eq!(running.schedule.next(time::unix()), Due::Ask);
        let (key, chain) = made(&["a.org"]);
        bring(dir.path(), "a.org", &key, &chain).unwrap();
        assert!(running.is_other(&storage));
        for mut entry in [running, start()] {
            assert!(entry.look(&storage, &[]), "it is used");
            assert_eq!(entry.schedule.next(time::unix()), Due::Order { rehearse: false });
        }
    }

    #[test]
    fn a_directory_that_the_agent_would_refuse_gets_no_key() {
        let dir = tempfile::tempdir().unwrap();
        let (root, link) = (dir.path().join("root"), dir.path().join("link"));
        fs::create_dir(&root).unwrap();
        fs::write(root.join("index.html"), "x").unwrap();
        std::os::unix::fs::symlink("none", &link).unwrap();
        let (key, chain) = made(&["a.org"]);
        for (path, why) in [
            (&root, "it holds index.html too: it must be a directory for this alone"),
            (&link, "it is no directory, but a link or a file"),
            (&root.join("index.html"), "it is no directory, but a link or a file"),
        ] {
            let told = bring(path, "a.org", &key, &chain).unwrap_err();
            assert_eq!(told, format!("{}: {why}", path.display()));
        }
        assert_eq!(fs::read_dir(&root).unwrap().count(), 1);
        assert!(!dir.path().join("none").exists());
    }
}
