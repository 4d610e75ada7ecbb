//! Users and groups by name or number, and becoming one of them.

use std::ffi::{CStr, CString};
use std::io;

/// Longest entry of a user or group that is read, in bytes; groups may have many members.
const ENTRY_BYTES_MAX: usize = 1 << 20;

/// Who a process may become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user's number.
    pub user: u32,
    /// The group's number.
    pub group: u32,
    /// The user's name, or its number where it has none.
    pub name: String,
}

impl Identity {
    /// The user of this name or number, with its own group or, if one is given, with that one. A
    /// number need not be known; its group is then the one of the same number. Blocks on the disk.
    ///
    /// # Errors
    /// Which name nobody has.
    pub fn find(user: &str, group: Option<&str>) -> Result<Identity, String> {
        let known = user_entry(user);
        let (id, own_group, name) = match (known, user.parse()) {
            (Some(found), _) => found,
            (None, Ok(number)) => {
                named(number).unwrap_or_else(|| (number, number, number.to_string()))
            }
            (None, Err(_)) => return Err(format!("there is no user {user:?}")),
        };
        let group = match group {
            None => own_group,
            Some(group) => group_entry(group)
                .or_else(|| group.parse().ok())
                .ok_or_else(|| format!("there is no group {group:?}"))?,
        };
        Ok(Identity { user: id, group, name })
    }

    /// Who this process is.
    pub fn own() -> Identity {
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        let name = named(user.as_raw()).map_or_else(|| user.to_string(), |(_, _, name)| name);
        Identity { user: user.as_raw(), group: group.as_raw(), name }
    }

    /// Becomes this user and group for good, with no other group. `keeps` keeps the capabilities
    /// that the kernel would take from who is no superuser any more.
    pub(super) fn assume(&self, keeps: bool) -> io::Result<()> {
        if keeps {
            rustix::thread::set_keep_capabilities(true)?;
        }
        // SAFETY: the three calls take plain numbers and a null list of length 0.
        let done = unsafe {
            libc::setgroups(0, std::ptr::null()) == 0
                && libc::setresgid(self.group, self.group, self.group) == 0
                && libc::setresuid(self.user, self.user, self.user) == 0
        };
        if done { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Number, group and name of a user by name.
fn user_entry(name: &str) -> Option<(u32, u32, String)> {
    let name = CString::new(name).ok()?;
    user_by(|entry, buffer, found| {
        // SAFETY: every pointer leads into memory that lives through the call, and the length is
        // that of the buffer.
        unsafe { libc::getpwnam_r(name.as_ptr(), entry, buffer.as_mut_ptr(), buffer.len(), found) }
    })
}

/// Number, group and name of a user by number.
fn named(number: u32) -> Option<(u32, u32, String)> {
    user_by(|entry, buffer, found| {
        // SAFETY: as in `user_entry`.
        unsafe { libc::getpwuid_r(number, entry, buffer.as_mut_ptr(), buffer.len(), found) }
    })
}

type FoundUser = *mut *mut libc::passwd;

fn user_by(
    ask: impl Fn(*mut libc::passwd, &mut [libc::c_char], FoundUser) -> libc::c_int,
) -> Option<(u32, u32, String)> {
    let mut buffer: Vec<libc::c_char> = vec![0; 4096];
    loop {
        // SAFETY: the struct is numbers and pointers, for which zeros are valid.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        let code = ask(&raw mut entry, &mut buffer, &raw mut found);
        if code == libc::ERANGE && buffer.len() < ENTRY_BYTES_MAX {
            buffer.resize(buffer.len() * 4, 0);
            continue;
        }
        if code != 0 || found.is_null() {
            return None;
        }
        // SAFETY: the entry was found, so that its name is a string in `buffer`, which lives.
        let name = unsafe { CStr::from_ptr(entry.pw_name) }.to_string_lossy().into_owned();
        return Some((entry.pw_uid, entry.pw_gid, name));
    }
}

/// The number of a group by name.
fn group_entry(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    let mut buffer: Vec<libc::c_char> = vec![0; 4096];
    loop {
        // SAFETY: the struct is numbers and pointers, for which zeros are valid.
        let mut entry: libc::group = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: every pointer leads into memory that lives through the call, and the length is
        // that of the buffer.
        let code = unsafe {
            let len = buffer.len();
            libc::getgrnam_r(name.as_ptr(), &mut entry, buffer.as_mut_ptr(), len, &mut found)
        };
        if code == libc::ERANGE && buffer.len() < ENTRY_BYTES_MAX {
            buffer.resize(buffer.len() * 4, 0);
            continue;
        }
        return (code == 0 && !found.is_null()).then_some(entry.gr_gid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_are_found_by_name_and_by_number() {
        let root = Identity { user: 0, group: 0, name: "root".into() };
        assert_eq!(Identity::find("root", None), Ok(root.clone()));
        assert_eq!(Identity::find("0", Some("root")), Ok(root));
        let unknown = Identity::find("4000000001", Some("7")).unwrap();
        assert_eq!((unknown.user, unknown.group), (4_000_000_001, 7));
        assert_eq!(unknown.name, "4000000001");
        assert!(Identity::find("no such user", None).unwrap_err().contains("no such user"));
        assert!(Identity::find("root", Some("no group")).unwrap_err().contains("no group"));
        assert!(Identity::find("\0", None).is_err());
    }
}
