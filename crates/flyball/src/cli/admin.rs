//! Which running server is meant: that of `--admin`, or else of FLYBALL_ADMIN, or else the one that
//! is found.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::ValueParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches};
use flyball_server::{Found, control};
use flyball_sys::error_log::shown_in_line;
use flyball_sys::net::Endpoint;
use serde_json::Value;

use super::Failure;
use crate::settings::{admin_address, runtime_directories};

/// The argument, and its name.
const ADMIN: &str = "admin";

/// The variable of the environment that holds where it is not given.
const VARIABLE: &str = "FLYBALL_ADMIN";

/// Longest wait for what one of several servers says.
const LOOK: Duration = Duration::from_secs(2);

/// For commands that only ask: an address, or the path of a socket.
pub(super) fn any() -> Arg {
    argument("ADDR", any_of).help("The server's --admin: an address, or unix:PATH")
}

/// For commands that change the server too: the path of a socket.
pub(super) fn socket() -> Arg {
    argument("unix:PATH", socket_of).help("The server's --admin")
}

fn argument<T: Clone + Send + Sync + 'static>(
    form: &'static str,
    read: fn(&str) -> Result<T, String>,
) -> Arg {
    Arg::new(ADMIN).long(ADMIN).value_name(form).value_parser(ValueParser::new(read)).long_help(
        format!(
            "The server's --admin, as {form} [default: {VARIABLE}, or the server that is found in \
             the runtime directory]"
        ),
    )
}

/// What [`any`] names; `None` where neither it nor the variable does.
///
/// # Errors
/// When the variable makes no sense.
pub(super) fn any_given(given: &ArgMatches) -> Result<Option<Endpoint>, Failure> {
    chosen(given, any_of)
}

/// What [`socket`] names, the same.
///
/// # Errors
/// As [`any_given`].
pub(super) fn socket_given(given: &ArgMatches) -> Result<Option<PathBuf>, Failure> {
    chosen(given, socket_of)
}

fn chosen<T: Clone + Send + Sync + 'static>(
    given: &ArgMatches,
    read: fn(&str) -> Result<T, String>,
) -> Result<Option<T>, Failure> {
    if let Some(chosen) = given.get_one::<T>(ADMIN) {
        return Ok(Some(chosen.clone()));
    }
    let named = std::env::var(VARIABLE).ok().filter(|named| !named.is_empty());
    named.as_deref().map(read).transpose().map_err(|why| {
        let why = format!("{VARIABLE}: {why}");
        super::program().error(ErrorKind::InvalidValue, why).into()
    })
}

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

fn any_of(text: &str) -> Result<Endpoint, String> {
    admin_address(text)
        .ok_or_else(|| "expected an address such as 127.0.0.1:9, or unix:PATH".into())
}

fn socket_of(text: &str) -> Result<PathBuf, String> {
    let path = text.strip_prefix("unix:").filter(|path| !path.is_empty());
    path.map(|path| Path::new(path).to_owned()).ok_or_else(|| "expected unix:PATH".into())
}
