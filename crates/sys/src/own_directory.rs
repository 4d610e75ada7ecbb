//! A directory of a process that may run as another user than the one that makes it, and is for
//! that user alone.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, lchown};
use std::path::Path;

use crate::sandbox::Identity;

/// For its user alone.
const MODE: u32 = 0o700;

/// What is above it leads others to what is theirs.
const ABOVE_MODE: u32 = 0o755;

/// Makes it for this user, or for the one that this process is. One that this process has had
/// itself until now is given away, with its files and those of the directories in it. Blocks on the
/// disk.
///
/// # Errors
/// When it cannot be made, or belongs to another user.
pub fn prepare(path: &Path, identity: Option<&Identity>) -> io::Result<()> {
    if let Some(above) = path.parent() {
        DirBuilder::new().recursive(true).mode(ABOVE_MODE).create(above)?;
    }
    match DirBuilder::new().mode(MODE).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    let own = Identity::own().user;
    let wanted = identity.map_or(own, |identity| identity.user);
    let owner = fs::symlink_metadata(path)?.uid();
    match identity {
        _ if owner == wanted => Ok(()),
        Some(identity) if owner == own => give(path, identity),
        _ => Err(io::Error::other(format!("it belongs to user {owner}, not to user {wanted}"))),
    }
}

fn give(path: &Path, identity: &Identity) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            for file in fs::read_dir(entry.path())? {
                lchown(file?.path(), Some(identity.user), Some(identity.group))?;
            }
        }
        lchown(entry.path(), Some(identity.user), Some(identity.group))?;
    }
    // Last: until then the other user can change nothing in it.
    lchown(path, Some(identity.user), Some(identity.group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_made_for_its_user_alone_and_given_away_with_what_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let storage = dir.path().join("state/acme");
        prepare(&storage, None).unwrap();
        prepare(&storage, None).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&storage), MODE);
        if !crate::process::is_root() {
            return;
        }
        fs::create_dir(storage.join("certificates")).unwrap();
        fs::write(storage.join("certificates/a.test.pem"), "x").unwrap();
        let other = Identity { user: 61_001, group: 61_001, name: "other".into() };
        prepare(&storage, Some(&other)).unwrap();
        for name in ["", "certificates", "certificates/a.test.pem"] {
            assert_eq!(fs::metadata(storage.join(name)).unwrap().uid(), 61_001, "{name}");
        }
        assert!(prepare(&storage, None).unwrap_err().to_string().contains("belongs to user 61001"));
    }
}
