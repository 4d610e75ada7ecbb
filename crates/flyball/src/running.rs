//! The server that runs here, where none is named.

use std::path::{Path, PathBuf};
use std::time::Duration;

use flyball_server::{Found, control};
use flyball_sys::error_log::shown_in_line;
use flyball_sys::net::Endpoint;
use serde_json::Value;

use crate::settings::runtime_directories;

/// The variable of the environment that names a server.
pub(crate) const VARIABLE: &str = "FLYBALL_ADMIN";

/// Longest wait for what one of several servers says.
const LOOK: Duration = Duration::from_secs(2);

/// The socket of the server that runs here and that this user may control, if it is the only one.
/// Blocks until each has answered where there are several, for seconds at most.
///
/// # Errors
/// With a message for the user: there is none, or which there are.
pub fn found() -> Result<PathBuf, String> {
    let directories = runtime_directories();
    let Found { mut open, closed } = flyball_server::find(&directories);
    let shown = |paths: &[PathBuf]| {
        let shown = paths.iter().map(|path| path.display().to_string());
        shown.collect::<Vec<_>>().join(", ")
    };
    let name_it = format!("name one by --admin or {VARIABLE}");
    match (open.as_slice(), closed.as_slice()) {
        ([_], _) => Ok(open.remove(0)),
        ([], []) => Err(format!("no server has a socket in {}: {name_it}", shown(&directories))),
        ([], closed) => Err(format!(
            "no permission to control the server at {}: its owner may, and whom `admin-mode` and \
             `admin-group` let",
            shown(closed)
        )),
        (open, _) => {
            let lines: Vec<String> = open.iter().map(|path| line(path)).collect();
            Err(format!("several servers run here; {name_it}:\n{}", lines.join("\n")))
        }
    }
}

/// What tells a server from others: the way to name it, and where it listens.
fn line(socket: &Path) -> String {
    let answer = control::ask_at(&Endpoint::Unix(socket.into()), "GET", "/status", LOOK);
    let status: Option<Value> = answer.ok().and_then(|(_, text)| serde_json::from_str(&text).ok());
    let listens = status.as_ref().and_then(|status| status["listen"].as_array());
    let listens: Vec<&str> = listens.into_iter().flatten().filter_map(Value::as_str).collect();
    match listens.as_slice() {
        [] => format!("  --admin unix:{}", socket.display()),
        listens => {
            let listens = shown_in_line(&listens.join(", "));
            format!("  --admin unix:{}  at {listens}", socket.display())
        }
    }
}
