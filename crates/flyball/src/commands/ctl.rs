//! `flyball ctl`: asks a running server, or changes a setting of it.

use std::path::Path;
use std::process::ExitCode;

use flyball::cli::{Ask, Deed};
use flyball_server::control;
use flyball_sys::error_log;

pub(crate) fn run(socket: &Path, ask: &Ask) -> ExitCode {
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
        _ => Ok(text),
    }
}

/// No key and no value that can be set has other characters; these mean nothing else in a target.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._+".contains(&b))
}
