//! A user's rights to files for a moment: a process of the superuser opens what others may have
//! chosen as one who has no more rights than they.
//!
//! The kernel decides about files by credentials of the thread (credentials(7)): its user and group
//! for files, its other groups, and its capabilities. All else of the process stays what it is.

use std::io;

use rustix::process::{Gid, getgroups};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups,
};

use super::Identity;

/// Whose rights to files hold while something is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// This user's; `None` is that of the process.
    identity: Option<Identity>,
    /// Capabilities do not count.
    is_reduced: bool,
}

impl Rights {
    /// Those that the process has anyway.
    pub const OWN: Rights = Rights { identity: None, is_reduced: false };

    /// Those of a user, or of the process's own, without any capability.
    pub fn of(identity: Option<Identity>) -> Rights {
        Rights { identity, is_reduced: true }
    }

    /// Whether they are others than the process has.
    pub fn are_fewer(&self) -> bool {
        self.is_reduced
    }

    /// Whose rights they are, for a message.
    pub fn user(&self) -> String {
        match &self.identity {
            Some(identity) => identity.name.clone(),
            None => format!("{} without its capabilities", Identity::own().name),
        }
    }

    /// The number of that user.
    pub fn number(&self) -> u32 {
        self.identity.as_ref().map_or_else(|| Identity::own().user, |identity| identity.user)
    }

    /// Does something by these rights, on this thread alone.
    ///
    /// # Errors
    /// What it fails with, or that the rights cannot be taken.
    pub fn hold<T>(&self, what: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if !self.is_reduced {
            return what();
        }
        let _held = Held::take(self.identity.as_ref()).map_err(|error| {
            let user = self.user();
            io::Error::new(error.kind(), format!("the rights of {user} cannot be taken: {error}"))
        })?;
        what()
    }
}

/// Other rights than the process has, until this is dropped.
struct Held {
    groups: Vec<Gid>,
    user: u32,
    group: u32,
    capabilities: CapabilitySets,
    is_dumpable: rustix::process::DumpableBehavior,
    ends_with_parent: Option<rustix::process::Signal>,
}

impl Held {
    fn take(identity: Option<&Identity>) -> io::Result<Held> {
        let held = Held {
            groups: getgroups()?,
            user: set_file_user(None),
            group: set_file_group(None),
            capabilities: capabilities(None)?,
            is_dumpable: rustix::process::dumpable_behavior()?,
            ends_with_parent: rustix::process::parent_process_death_signal()?,
        };
        // A step that fails drops `held`, which takes the steps before it back.
        if let Some(Identity { user, group, .. }) = identity {
            set_thread_groups(&[])?;
            set_file_group(Some(*group));
            set_file_user(Some(*user));
            if (set_file_user(None), set_file_group(None)) != (*user, *group) {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
        }
        let none = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: none, ..held.capabilities })?;
        Ok(held)
    }

    fn put_back(&self) -> io::Result<()> {
        // The capabilities come first: the other steps need them.
        set_capabilities(None, self.capabilities)?;
        set_file_user(Some(self.user));
        set_file_group(Some(self.group));
        // The superuser's number brings capabilities along.
        set_capabilities(None, self.capabilities)?;
        set_thread_groups(&self.groups)?;
        // The kernel forgets both when a process changes its user for files.
        rustix::process::set_dumpable_behavior(self.is_dumpable)?;
        Ok(rustix::process::set_parent_process_death_signal(self.ends_with_parent)?)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let put_back = self.put_back();
        debug_assert!(put_back.is_ok(), "the own rights come back: {put_back:?}");
    }
}

/// Sets the user for files of this thread, if one is given, and tells which it was. The kernel
/// tells no failure: a second call does.
fn set_file_user(user: Option<u32>) -> u32 {
    // SAFETY: the call takes a plain number; one that is no user changes nothing.
    unsafe { libc::setfsuid(user.unwrap_or(u32::MAX)) as u32 }
}

/// The same for the group.
fn set_file_group(group: Option<u32>) -> u32 {
    // SAFETY: as in `set_file_user`.
    unsafe { libc::setfsgid(group.unwrap_or(u32::MAX)) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{self, Links};
    use crate::process::is_root;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::path::Path;

    fn other() -> Rights {
        Rights::of(Some(Identity { user: 61_001, group: 61_002, name: "other".into() }))
    }

    fn status() -> Vec<String> {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let told = ["Uid:", "Gid:", "Groups:", "Cap"];
        let lines = status.lines().filter(|line| told.iter().any(|name| line.starts_with(name)));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn files_are_opened_by_the_rights_that_are_held_and_by_the_own_ones_afterwards() {
        if !is_root() {
            return eprintln!("only the superuser has rights to lay down: not tested");
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let mode = |name: &str, mode| {
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        mode("", 0o755);
        fs::create_dir_all(at("closed/inner")).unwrap();
        fs::write(at("closed/inner/page"), "text").unwrap();
        fs::write(at("group"), "text").unwrap();
        chown(at("group"), None, Some(61_002)).unwrap();
        mode("closed", 0o700);
        mode("group", 0o640);
        let before = status();
        let denied = |opened: io::Result<_>| {
            opened.err().map(|error| error.kind()) == Some(io::ErrorKind::PermissionDenied)
        };
        let opens = |path: &Path| file::open_root(path);
        assert!(denied(other().hold(|| opens(&at("closed/inner")))));
        assert!(denied(
            other().hold(|| opens(&at("closed")).map(drop).and(opens(&at("closed/inner"))))
        ));
        let (root, deny) = (file::open_root(dir.path()).unwrap(), Links::Deny);
        let beneath = |name: &[u8]| file::open_beneath(&root, name, deny);
        assert!(denied(other().hold(|| beneath(b"closed/inner/page"))));
        assert!(other().hold(|| beneath(b"group")).is_ok());
        // A machine without openat2(2) goes a name at a time, and is told the same.
        let calls = [libc::SYS_openat2];
        crate::refused::tests::without(&calls, libc::ENOSYS, || {
            assert!(denied(other().hold(|| beneath(b"closed/inner/page"))));
            assert!(other().hold(|| beneath(b"group")).is_ok());
        });
        assert!(Rights::OWN.hold(|| opens(&at("closed/inner"))).is_ok());
        assert!(opens(&at("closed/inner")).is_ok());
        // The superuser without capabilities owns the directory.
        assert!(Rights::of(None).hold(|| opens(&at("closed/inner"))).is_ok());
        chown(at("closed"), Some(61_003), None).unwrap();
        assert!(denied(Rights::of(None).hold(|| opens(&at("closed/inner")))));
        assert_eq!(status(), before);
    }

    #[test]
    fn a_panic_puts_the_own_rights_back() {
        if !is_root() {
            return eprintln!("only the superuser has rights to lay down: not tested");
        }
        let before = status();
        let held = std::panic::AssertUnwindSafe(|| other().hold(|| -> io::Result<()> { panic!() }));
        assert!(std::panic::catch_unwind(held).is_err());
        assert_eq!(status(), before);
    }
}
