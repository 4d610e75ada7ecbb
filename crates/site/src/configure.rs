//! Looking for settings in the directories of a path (S3, section 2.4), to be measured.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use flyball_sys::disk::Op;
use flyball_sys::file::Links;

use crate::outcome::Outcome;

/// Looking for a file of settings in every directory of a path, the root first, and forgetting what
/// was found: what a server does that lets directories be configured by files in them, and holds
/// none of these in a cache. It is here to be measured.
#[derive(Debug)]
pub(crate) struct Configure {
    root: Arc<OwnedFd>,
    links: Links,
    /// Relative to the root.
    path: Vec<u8>,
    /// Where in the path the directory ends whose file is next.
    end: usize,
    looked: usize,
}

/// Most directories of a path that are looked at.
const CONFIGURED_MAX: usize = 64;

/// The name that is looked for.
const CONFIG_NAME: &[u8] = b".htaccess";

impl Configure {
    /// For a path relative to a root.
    pub(crate) fn new(root: Arc<OwnedFd>, links: Links, path: Vec<u8>) -> Configure {
        Configure { root, links, path, end: 0, looked: 0 }
    }

    pub(crate) fn next_op(&self) -> Op {
        let path = match self.end {
            0 => CONFIG_NAME.to_vec(),
            end => [&self.path[..end], b"/", CONFIG_NAME].concat(),
        };
        let path = CString::new(path).unwrap_or_default();
        Op::Open { root: Arc::clone(&self.root), path, links: self.links }
    }

    /// Goes on with the next directory, if there is one.
    pub(crate) fn looked(&mut self) -> Option<Outcome> {
        self.looked += 1;
        let from = if self.end == 0 { 0 } else { self.end + 1 };
        let next = self.path.get(from..).and_then(|rest| rest.iter().position(|&b| b == b'/'));
        match next.filter(|_| self.looked < CONFIGURED_MAX) {
            Some(at) => {
                self.end = from + at;
                None
            }
            None => Some(Outcome::Configured),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_sys::file;

    #[test]
    fn settings_are_looked_for_in_each_directory_of_a_path_once() {
        let root = Arc::new(file::open_root(std::path::Path::new("/")).unwrap());
        let names = |path: &str| {
            let path = path.as_bytes().to_vec();
            let mut configure = Configure::new(Arc::clone(&root), Links::Deny, path);
            let mut names = Vec::new();
            loop {
                let Op::Open { path, .. } = configure.next_op() else { panic!("it opens") };
                names.push(path.into_string().unwrap());
                if configure.looked().is_some() {
                    return names;
                }
            }
        };
        assert_eq!(names("."), [".htaccess"]);
        assert_eq!(names("page"), [".htaccess"]);
        assert_eq!(names("a/bc/page"), [".htaccess", "a/.htaccess", "a/bc/.htaccess"]);
        assert_eq!(names(&"a/".repeat(1_000)).len(), CONFIGURED_MAX);
    }
}
