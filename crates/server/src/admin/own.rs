//! The socket of a server's own in the runtime directory: its name, what is left of servers that
//! were killed, and how the servers that run are found.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flyball_sys::{net, own_directory, process};

/// What the names of sockets begin and end with; between them is a hyphen and the number of the
/// process that the server was started as, or, where a configuration names it so, nothing.
const BEFORE: &str = "admin";
const AFTER: &str = ".sock";

/// Most names in a runtime directory that are looked at.
const NAMES_MAX: usize = 256;

/// Longest wait for a server that is looked for.
const LOOK: Duration = Duration::from_secs(1);

/// The path of the socket of this process in a directory, which is made if it is not there; names
/// that servers have left which were killed are removed. Blocks on the disk.
///
/// # Errors
/// With a message: the directory cannot be made, or another user could put sockets into it.
pub(super) fn prepare(directory: &Path) -> Result<PathBuf, String> {
    // All may see which servers run; who may connect is said by the mode of each socket.
    let made = own_directory::make_open(directory);
    made.map_err(|error| format!("{}: {error}", directory.display()))?;
    examine(directory)?;
    for (path, id) in names(directory) {
        if id.is_some_and(|id| !process::exists(id)) {
            net::unlink_left_unix(&path);
        }
    }
    Ok(directory.join(format!("{BEFORE}-{}{AFTER}", process::own_id())))
}

/// The path of the socket of a server that is not started yet.
pub(crate) fn shown(directory: &Path) -> String {
    directory.join(format!("{BEFORE}-PID{AFTER}")).display().to_string()
}

/// Looks whether the directory can be prepared. Writes nothing, and blocks on the disk.
///
/// # Errors
/// With a message: why not.
pub(super) fn examine(directory: &Path) -> Result<(), String> {
    if directory.exists() && !directory.is_dir() {
        return Err(format!("{} is not a directory", directory.display()));
    }
    let above = directory.parent().filter(|above| !above.is_dir());
    match above {
        Some(above) => Err(format!("there is no directory {}", above.display())),
        None => own_directory::check(directory, &[]).map_err(|error| error.to_string()),
    }
}

/// The sockets in these directories by which servers can be asked, and those that this user may not
/// connect to. Blocks on the disk.
pub fn find(directories: &[PathBuf]) -> Found {
    let mut found = Found::default();
    for (path, _) in directories.iter().flat_map(|directory| names(directory)) {
        match net::connect_unix(&path, LOOK) {
            Ok(_) => found.open.push(path),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                found.closed.push(path);
            }
            // It is left of a server that was killed.
            Err(_) => {}
        }
    }
    found
}

/// Sockets of servers that run.
#[derive(Debug, Default)]
pub struct Found {
    /// By which they can be asked.
    pub open: Vec<PathBuf>,
    /// Of other users.
    pub closed: Vec<PathBuf>,
}

/// The paths in a directory that have the name of such a socket, in order, with the process that
/// each is of.
fn names(directory: &Path) -> Vec<(PathBuf, Option<i32>)> {
    let mut names: Vec<_> = own_directory::names(directory)
        .filter_map(|name| {
            let between = name.to_str()?.strip_prefix(BEFORE)?.strip_suffix(AFTER)?;
            let id = match between.strip_prefix('-') {
                Some(id) => Some(id.parse().ok()?),
                None if between.is_empty() => None,
                None => return None,
            };
            Some((directory.join(&name), id))
        })
        .take(NAMES_MAX)
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn servers_are_found_and_what_killed_ones_have_left_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let runtime = at("runtime");
        let own = prepare(&runtime).unwrap();
        let own_id = std::process::id();
        assert_eq!(own, runtime.join(format!("admin-{own_id}.sock")));
        let listens = |name: &str| UnixListener::bind(runtime.join(name)).unwrap();
        let named = listens("admin.sock");
        // Its process has handed it over and ended, or has ended and left its name.
        let (handed_over, killed) = (listens("admin-2147483646.sock"), "admin-2147483647.sock");
        drop(listens(killed));
        drop(listens("admin-1.sock"));
        for (other, text) in [("site.sock", ""), ("admin-x.sock", ""), ("admin-7.sock", "a file")] {
            match text {
                "" => drop(listens(other)),
                text => fs::write(runtime.join(other), text).unwrap(),
            }
        }
        let open = |found: Found| -> Vec<String> {
            let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
            found.open.iter().map(name).collect()
        };
        let both = ["admin-2147483646.sock", "admin.sock"];
        assert_eq!(open(find(&[at("nowhere"), runtime.clone()])), both);
        assert_eq!(prepare(&runtime).unwrap(), own);
        assert!(!runtime.join(killed).exists());
        for kept in ["admin-1.sock", "site.sock", "admin-x.sock", "admin-7.sock"] {
            assert!(runtime.join(kept).exists(), "{kept}");
        }
        drop((named, handed_over));
        assert!(open(find(&[runtime])).is_empty());
    }

    #[test]
    fn no_socket_is_made_where_others_could_put_theirs() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        assert!(prepare(&open).unwrap_err().contains("others may write"));
        assert!(prepare(&dir.path().join("a/b")).unwrap_err().contains("a/b"));
    }
}
