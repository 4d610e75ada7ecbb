//! The table of users, for the directories that `/~user` shows (S3, section 3.1: the tilde
//! expander).

use std::path::PathBuf;

/// Longest table of users, in bytes.
pub(crate) const USER_TABLE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A user and where it is at home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) id: u32,
    pub(crate) home: PathBuf,
}

/// The users of a table (passwd(5)) with at least this number. Lines that are none are passed over,
/// and so is who has no absolute home below the root directory.
pub(crate) fn users(table: &str, id_min: u32) -> Vec<User> {
    table.lines().filter_map(user).filter(|user| user.id >= id_min).collect()
}

fn user(line: &str) -> Option<User> {
    let mut fields = line.split(':');
    let name =
        fields.next().filter(|name| !name.is_empty() && !name.starts_with(['#', '+', '-']))?;
    let id = fields.nth(1)?.parse().ok()?;
    let home = fields.nth(2).filter(|home| home.starts_with('/') && home.len() > 1)?;
    Some(User { name: name.to_owned(), id, home: home.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_read_from_their_lines() {
        let table = "root:x:0:0:root:/root:/bin/bash\n\
            # bob:x:1000:1000::/h/bob:/bin/sh\n\
            bob:x:1000:1000:Bob,,,:/h/bob:/bin/sh\n\
            +::::::\n\
            eve:x:1001\n\
            mal:x:1002:1002::relative:/bin/sh\n\
            nul:x:1003:1003::/:/bin/sh\n\
            big:x:99999999999:1::/h/big:/bin/sh\n\
            \n\
            ann:x:1004:100::/h/ann";
        let found: Vec<(String, u32, PathBuf)> =
            users(table, 1_000).into_iter().map(|user| (user.name, user.id, user.home)).collect();
        let expected = [("bob", 1_000, "/h/bob"), ("ann", 1_004, "/h/ann")];
        assert_eq!(found, expected.map(|(name, id, home)| (name.to_owned(), id, home.into())));
        assert_eq!(users(table, 0).len(), 3);
    }
}
