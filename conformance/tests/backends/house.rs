//! What tests of whole sites begin with: a directory of files, and a server of the sites in it.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flyball_testkit::{Launch, Server, as_ourselves};
use tempfile::TempDir;

/// A directory with these files, by name. All may be run; `HERE` in a text is the directory.
pub(crate) fn lay_out<N: AsRef<[u8]>>(files: impl IntoIterator<Item = (N, String)>) -> TempDir {
    let here = tempfile::tempdir().unwrap();
    let open = || Permissions::from_mode(0o755);
    fs::set_permissions(here.path(), open()).unwrap();
    for (name, text) in files {
        let path = here.path().join(OsStr::from_bytes(name.as_ref()));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, with_here(here.path(), &text)).unwrap();
        fs::set_permissions(&path, open()).unwrap();
    }
    here
}

/// A server of these settings and sites, with a log in the directory; `HERE` is the directory.
/// `None` where its architecture cannot run.
pub(crate) fn serve(architecture: &str, here: &Path, settings: &str) -> Option<Server> {
    let log = here.join("access.log");
    let config = format!(
        "{}arch = \"{architecture}\"\nlisten = \"127.0.0.1:0\"\naccess-log = {log:?}\n{}",
        as_ourselves(),
        with_here(here, settings)
    );
    Launch::config(config).start_where_possible()
}

fn with_here(here: &Path, text: &str) -> String {
    text.replace("HERE", &here.display().to_string())
}
