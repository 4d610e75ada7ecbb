//! Opening what a site names. Others than the administrator may own such a name, or a directory
//! above it, and have it lead anywhere. So all of it is opened by the rights of the workers' user,
//! who could not read more than that anyway.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use flyball_sys::file::{self, Failure, Links};
use flyball_sys::node::Node;
use flyball_sys::sandbox::Rights;
use flyball_sys::within::{self, Within};

use super::ERROR_PAGE_BYTES_MAX;

/// Opens a directory that the settings name. Blocks on the disk.
///
/// # Errors
/// With its name, and which directory above it is closed to the workers' user.
pub(crate) fn directory(name: &Path, rights: &Rights) -> io::Result<OwnedFd> {
    let opened = rights.hold(|| file::open_root(name));
    opened.map_err(|error| named(name, ENTERED, &error, rights))
}

/// Finds a file that the settings name: beneath a directory for which there are rules, by these.
/// Blocks on the disk.
///
/// # Errors
/// As [`directory`], and when a link is not followed.
pub(crate) fn file(
    name: &Path,
    rules: impl Fn(Node) -> Option<Links>,
    rights: &Rights,
) -> io::Result<Within> {
    rights.hold(|| within::lead_within(name, rules)).map_err(|error| unread(name, &error, rights))
}

/// Reads what was found by this name. Blocks on the disk.
///
/// # Errors
/// What is no regular file, what is too long, and what may not be read.
pub(crate) fn page(name: &Path, found: &Within, rights: &Rights) -> io::Result<Vec<u8>> {
    let read = rights.hold(|| found.read(ERROR_PAGE_BYTES_MAX));
    read.map_err(|error| unread(name, &error, rights))
}

fn unread(name: &Path, error: &io::Error, rights: &Rights) -> io::Error {
    match file::is_kept_out(error) {
        true => told(name, "a symbolic link leads there that `symlinks` does not follow"),
        false => named(name, "read", error, rights),
    }
}

/// What was opened or, where that failed, what was there before: then why is told.
///
/// # Errors
/// When there was nothing before.
pub(crate) fn or_before<T>(
    opened: io::Result<T>,
    before: impl FnOnce() -> Option<T>,
    told: &mut Vec<String>,
) -> io::Result<T> {
    opened.or_else(|error| {
        let why = error.to_string();
        let before = before().ok_or(error)?;
        told.push(why);
        Ok(before)
    })
}

/// What directories are.
pub(crate) const ENTERED: &str = "entered";

/// The error with its name and, where rights are missing, whose and where.
pub(crate) fn named(name: &Path, verb: &str, error: &io::Error, rights: &Rights) -> io::Error {
    if !rights.are_fewer() || file::failure(error) != Failure::Denied {
        return told(name, error);
    }
    let user = rights.user();
    let closed = rights.hold(|| Ok(file::closed_directory(name))).ok().flatten();
    let (what, verb) = match closed {
        Some(above) if above != name => {
            (format!("{}: {}", name.display(), above.display()), ENTERED)
        }
        _ => (name.display().to_string(), verb),
    };
    io::Error::other(format!(
        "{what} cannot be {verb} by the workers' user {user}: change its permissions, or the \
         setting `user`"
    ))
}

/// An error with a name.
pub(crate) fn told(name: &Path, why: impl fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {why}", name.display()))
}
