//! A directory of a process that may run as another user than the one that makes it, and that no
//! other process of that user can enter.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, lchown};
use std::path::Path;

use crate::sandbox::Identity;

/// For its user alone.
const MODE: u32 = 0o700;

/// For its group too, which the other user has in that process alone.
const SHARED_MODE: u32 = 0o770;

/// What is above it leads others to what is theirs.
const ABOVE_MODE: u32 = 0o755;

/// Rights of a group and of all others to write.
const OTHERS_WRITE: u32 = 0o022;

/// Makes it for this process, or for one that becomes this user and keeps the group of this one. It
/// belongs to the user that this process is, so that others of that user, who have not the group,
/// find nothing in it; what it holds, which has `names`, is given to them. Blocks on the disk.
///
/// # Errors
/// When it cannot be made, or as [`examine`].
pub fn prepare(path: &Path, identity: Option<&Identity>, names: &[&str]) -> io::Result<()> {
    if let Some(above) = path.parent() {
        DirBuilder::new().recursive(true).mode(ABOVE_MODE).create(above)?;
    }
    match DirBuilder::new().mode(MODE).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    examine(path, names)?;
    let Some(identity) = identity else { return Ok(()) };
    fs::set_permissions(path, Permissions::from_mode(SHARED_MODE))?;
    give(path, identity)
}

/// Makes it if it is not there, so that all may see what is in it and its user alone may change
/// that. What is above it must be there. Blocks on the disk.
///
/// # Errors
/// When it is not there and cannot be made.
pub fn make_open(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(ABOVE_MODE).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// The names in it, in no order; none if it cannot be read. Blocks on the disk.
pub fn names(path: &Path) -> impl Iterator<Item = OsString> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name())
}

/// Looks whether it is such a directory, or not there yet. Writes nothing, and blocks on the disk.
///
/// # Errors
/// When it belongs to another user, is a link or a file, or holds anything that has none of these
/// `names`: that would be given away too. `DirectoryNotEmpty` says that it holds some of these
/// names as well: something was put into it since it was made.
pub fn examine(path: &Path, names: &[&str]) -> io::Result<()> {
    let about = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        about => about?,
    };
    let (owner, own) = (about.uid(), Identity::own().user);
    if !about.is_dir() {
        return Err(io::Error::other("it is no directory, but a link or a file"));
    }
    if owner != own {
        return Err(io::Error::other(format!("it belongs to user {owner}, not to user {own}")));
    }
    let held = fs::read_dir(path)?.map(|entry| Ok(entry?.file_name()));
    let held = held.collect::<io::Result<Vec<_>>>()?;
    let is_known = |name: &&OsString| names.iter().any(|known| *name == *known);
    let (known, other): (Vec<_>, Vec<_>) = held.iter().partition(is_known);
    let Some(name) = other.first() else { return Ok(()) };
    let why = format!("it holds {} too: it must be a directory for this alone", name.display());
    let kind = match known.is_empty() {
        true => io::ErrorKind::Other,
        false => io::ErrorKind::DirectoryNotEmpty,
    };
    Err(io::Error::new(kind, why))
}

/// Looks whether a directory, and what it holds under these names, belongs to this user or to root,
/// and no other may write to it. What is not there is in order. Blocks on the disk.
///
/// # Errors
/// What belongs to another user, may be written by others, or is a link.
pub fn check(path: &Path, names: &[&str]) -> io::Result<()> {
    let own = Identity::own().user;
    let refused = |why: String| Err(io::Error::other(why));
    for path in [path.to_owned()].into_iter().chain(names.iter().map(|name| path.join(name))) {
        let about = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            about => about?,
        };
        let (shown, owner, mode) = (path.display(), about.uid(), about.mode() & 0o7777);
        if about.is_symlink() {
            return refused(format!("{shown} is a link; put what it leads to in its place"));
        }
        if owner != own && owner != 0 {
            return refused(format!(
                "{shown} belongs to user {owner}, who is neither root nor user {own}, which the \
                 server was started as"
            ));
        }
        if mode & OTHERS_WRITE != 0 {
            return refused(format!("others may write to {shown} (mode {mode:04o}): chmod go-w"));
        }
    }
    Ok(())
}

/// Gives away what is in it, and in the directories in it.
fn give(path: &Path, identity: &Identity) -> io::Result<()> {
    let give = |path: &Path| match fs::symlink_metadata(path)?.uid() == identity.user {
        true => Ok(()),
        false => lchown(path, Some(identity.user), Some(identity.group)),
    };
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            for file in fs::read_dir(entry.path())? {
                give(&file?.path())?;
            }
        }
        give(&entry.path())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 2] = ["certificates", "lock"];

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn one_is_made_for_its_user_alone_and_what_is_in_it_is_given_away() {
        let dir = tempfile::tempdir().unwrap();
        let storage = dir.path().join("state/acme");
        prepare(&storage, None, &NAMES).unwrap();
        prepare(&storage, None, &NAMES).unwrap();
        assert_eq!(mode(&storage), MODE);
        if !crate::process::is_root() {
            return;
        }
        fs::create_dir(storage.join("certificates")).unwrap();
        fs::write(storage.join("certificates/a.test.pem"), "x").unwrap();
        let other = Identity { user: 61_001, group: 0, name: "other".into() };
        prepare(&storage, Some(&other), &NAMES).unwrap();
        let owner = |name: &str| fs::metadata(storage.join(name)).unwrap().uid();
        assert_eq!((owner(""), mode(&storage)), (0, SHARED_MODE));
        for name in ["certificates", "certificates/a.test.pem"] {
            assert_eq!(owner(name), 61_001, "{name}");
        }
        lchown(&storage, Some(61_001), None).unwrap();
        let why = prepare(&storage, Some(&other), &NAMES).unwrap_err().to_string();
        assert!(why.contains("belongs to user 61001"), "{why}");
    }

    #[test]
    fn what_others_own_or_may_write_and_links_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("internal");
        let check = || check(&at, &["lock"]).map_err(|error| error.to_string());
        assert_eq!(check(), Ok(()));
        fs::create_dir(&at).unwrap();
        fs::write(at.join("lock"), "x").unwrap();
        fs::set_permissions(&at, Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(at.join("lock"), Permissions::from_mode(0o600)).unwrap();
        assert_eq!(check(), Ok(()));
        for (path, right, wrong) in [(at.clone(), 0o755, 0o775), (at.join("lock"), 0o600, 0o602)] {
            fs::set_permissions(&path, Permissions::from_mode(wrong)).unwrap();
            let why = check().unwrap_err();
            assert!(why.contains(&format!("{} (mode {wrong:04o})", path.display())), "{why}");
            fs::set_permissions(&path, Permissions::from_mode(right)).unwrap();
            if crate::process::is_root() {
                lchown(&path, Some(61_001), None).unwrap();
                let why = check().unwrap_err();
                assert!(why.contains("belongs to user 61001"), "{why}");
                lchown(&path, Some(0), None).unwrap();
            }
        }
        assert_eq!(check(), Ok(()));
        fs::rename(at.join("lock"), at.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", at.join("lock")).unwrap();
        assert!(check().unwrap_err().contains("lock is a link"));
        fs::remove_file(at.join("lock")).unwrap();
        fs::rename(&at, dir.path().join("other")).unwrap();
        std::os::unix::fs::symlink("other", &at).unwrap();
        assert!(check().unwrap_err().contains("internal is a link"));
    }

    #[test]
    fn one_that_holds_anything_else_or_that_a_link_leads_to_is_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let storage = dir.path().join("etc");
        fs::create_dir(&storage).unwrap();
        fs::write(storage.join("lock"), "x").unwrap();
        fs::write(storage.join("passwords"), "x").unwrap();
        let (before, other) = (mode(&storage), Identity { user: 61_001, ..Identity::own() });
        for identity in [None, Some(&other)] {
            let why = prepare(&storage, identity, &NAMES).unwrap_err().to_string();
            assert!(why.contains("holds passwords too"), "{why}");
        }
        assert_eq!(mode(&storage), before);
        for name in NAMES.iter().chain(&["passwords"]).filter(|name| **name != "certificates") {
            let owner = fs::metadata(storage.join(name)).unwrap().uid();
            assert_eq!(owner, Identity::own().user, "{name}");
        }
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&storage, &link).unwrap();
        for path in [&link, &storage.join("lock")] {
            let why = prepare(path, Some(&other), &NAMES).unwrap_err().to_string();
            assert!(why.contains("a link or a file"), "{why}");
        }
        examine(&dir.path().join("none"), &NAMES).unwrap();
    }
}
