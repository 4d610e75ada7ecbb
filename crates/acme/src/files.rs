//! Where a storage has its files, as far as others than the agent read them.

use std::path::{Path, PathBuf};

use crate::names::Name;

/// The directory of keys and their chains.
pub(crate) const CERTIFICATES: &str = "certificates";

/// The file by which one agent at a time orders.
pub(crate) const LOCK: &str = "lock";

/// The file that says when another wanted to.
pub(crate) const WAITING: &str = "waiting";

/// Names of all that lies in a storage.
pub const STORAGE_NAMES: [&str; 8] =
    ["accounts", CERTIFICATES, "orders", "failures", "challenges", "asked", LOCK, WAITING];

/// The extension of their files.
pub(crate) const PEM: &str = "pem";

/// The file of the certificate whose first name this is.
pub fn certificate_path(storage: &Path, name: &Name) -> PathBuf {
    storage.join(CERTIFICATES).join(format!("{}.{PEM}", stem(name)))
}

/// A name of a file for a certificate whose first name this is, the same for no other: neither `_`
/// nor an upper-case letter is part of any.
pub(crate) fn stem(name: &Name) -> String {
    name.as_str().replace("*.", "_wildcard.").replace(':', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_two_names_differ() {
        let stem = |text| super::stem(&Name::parse(text).unwrap());
        assert_eq!(stem("*.example.org"), "_wildcard.example.org");
        assert_eq!(stem("::1"), "__1");
        assert_ne!(stem("wildcard.example.org"), stem("*.example.org"));
    }

    #[test]
    fn a_file_lies_where_the_agent_writes_it() {
        let path = certificate_path(Path::new("/s"), &Name::parse("A.org").unwrap());
        assert_eq!(path, Path::new("/s/certificates/a.org.pem"));
    }
}
