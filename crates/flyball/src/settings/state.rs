//! Where a server keeps what it must not lose: the state directory.

use std::env;
use std::path::PathBuf;

use flyball_arch::TlsSettings;
use flyball_sys::process;

/// What systemd says that `StateDirectory` has made (systemd.exec(5)); several are divided by
/// colons.
const OF_SYSTEMD: &str = "STATE_DIRECTORY";

/// That of a server which the superuser starts.
const OF_SUPERUSER: &str = "/var/lib/flyball";

/// Of any other user, below what XDG_STATE_HOME says, or below this in the home directory (XDG Base
/// Directory Specification).
const OF_USER: &str = ".local/state";

/// The state directory of a server that is started here. It need not be there.
pub fn state_directory() -> PathBuf {
    let path = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let first = |path: PathBuf| env::split_paths(&path).next().unwrap_or_default();
    if let Some(path) = path(OF_SYSTEMD).map(first) {
        return path;
    }
    let of_user = || path("XDG_STATE_HOME").or_else(|| Some(path("HOME")?.join(OF_USER)));
    match of_user().filter(|_| !process::is_root()) {
        Some(path) => path.join("flyball"),
        None => OF_SUPERUSER.into(),
    }
}

/// Names the directories that no setting names.
pub(super) fn place(tls: &mut TlsSettings) {
    if tls.acme.storage.as_os_str().is_empty() {
        tls.acme.storage = state_directory().join("acme");
    }
    tls.internal = state_directory().join("internal");
}
