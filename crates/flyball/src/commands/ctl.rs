//! `flyball ctl`: asks a running server, or changes a setting of it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use flyball::cli::{Ask, Deed};
use flyball::running::found;
use flyball_server::control;
use flyball_sys::error_log;
use serde_json::{Map, Value};

pub(crate) fn run(socket: Option<PathBuf>, ask: &Ask) -> ExitCode {
    let socket = match socket.map_or_else(found, Ok) {
        Ok(socket) => socket,
        Err(why) => return super::finish(Err(why)),
    };
    let socket = socket.as_path();
    if let Ask::Trace(tracing) = ask {
        return super::trace::run(socket, tracing);
    }
    match answer(socket, ask) {
        Ok(text) => {
            super::print(&error_log::shown(&text));
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("flyball: {}", error_log::shown(why.trim_end()));
            ExitCode::FAILURE
        }
    }
}

fn answer(socket: &Path, ask: &Ask) -> Result<String, String> {
    let (method, target) = match ask {
        Ask::Status => ("GET", "/status".to_string()),
        Ask::Settings { .. } => ("GET", "/settings".to_string()),
        Ask::Get(key) if is_plain(key) => ("GET", format!("/settings?{key}")),
        Ask::Get(key) => return Err(format!("there is no setting {key:?}")),
        Ask::Do(Deed::Reload) => ("POST", "/reload".to_string()),
        Ask::Do(Deed::Upgrade) => ("POST", control::UPGRADE.to_string()),
        Ask::Do(Deed::Drain) => ("POST", "/drain".to_string()),
        Ask::Set(key, value) if is_plain(key) && is_plain(value) => {
            ("POST", format!("/settings?{key}={value}"))
        }
        Ask::Trace(_) => return Err("is a command of its own".into()),
        Ask::Set(key, value) => return Err(format!("{key:?} cannot be set to {value:?}")),
    };
    let (status, text) = control::ask(socket, method, &target)?;
    match ask {
        _ if status != 200 => Err(text),
        Ask::Settings { json: false } => listed(&text),
        _ => Ok(text),
    }
}

/// Settings as the server lists them, as lines of columns.
fn listed(text: &str) -> Result<String, String> {
    const HEAD: [&str; 5] = ["SETTING", "VALUE", "DEFAULT", "CHANGES", "EXPECTED"];
    let settings: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| format!("what the server lists: {error}"))?;
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(settings.into_iter().map(|(key, about)| {
        let of = |name: &str| about[name].as_str().unwrap_or("-").to_owned();
        [key, of("value"), of("default"), of("changes"), of("form")]
    }));
    let width = |at: usize| rows.iter().map(|row| row[at].len()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3].map(width);
    let line = |row: &[String; 5]| {
        let columns = row.iter().zip(widths).map(|(text, width)| format!("{text:width$}  "));
        columns.collect::<String>() + &row[4] + "\n"
    };
    Ok(rows.iter().map(line).collect())
}

/// No key and no value that can be set has other characters; these mean nothing else in a target.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._+".contains(&b))
}
