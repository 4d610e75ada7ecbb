//! `flyball cert`: the certificates of a storage, and pairs from elsewhere.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use flyball::cli::Cert;
use flyball_acme::{About, Kept, import, kept};
use flyball_http::date::format_date;
use flyball_server::control::ask;
use flyball_server::words::lasting;
use flyball_sys::clock::unix_ms;
use flyball_sys::error_log::shown_in_line;
use serde_json::{Value, json};

pub(crate) fn run(asked: &Cert) -> ExitCode {
    let done = match asked {
        Cert::List { storage, name, json } => list(storage, name.as_deref(), *json),
        Cert::Show { storage, name } => show(storage, name),
        Cert::Tell { socket, verb, name } => tell(socket, verb, name),
        Cert::Import { storage, name, chain, key } => bring(storage, name, chain, key),
    };
    match done {
        Ok(text) => {
            super::print(&text);
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("flyball: {}", shown_in_line(&why));
            ExitCode::FAILURE
        }
    }
}

/// The certificates of a storage, or those for a name.
fn named(storage: &Path, name: Option<&str>) -> Result<Vec<Kept>, String> {
    let mut all = kept(storage).map_err(|error| format!("{}: {error}", storage.display()))?;
    if let Some(name) = name {
        let is_for = |about: &About| about.names.iter().any(|known| known == name);
        all.retain(|kept| kept.about.as_ref().is_ok_and(is_for));
        if all.is_empty() {
            return Err(format!("no certificate in {} is for {name}", storage.display()));
        }
    }
    Ok(all)
}

fn show(storage: &Path, name: &str) -> Result<String, String> {
    let all = named(storage, Some(name))?;
    let texts = all.iter().map(|kept| match &kept.about {
        Ok(about) => format!(
            "{}    serial {}\n    since {}\n",
            as_text(kept),
            about.serial,
            String::from_utf8_lossy(&format_date(about.not_before))
        ),
        Err(_) => as_text(kept),
    });
    Ok(texts.collect())
}

/// Has a running server do something about a certificate.
fn tell(socket: &Path, verb: &str, name: &str) -> Result<String, String> {
    match ask(socket, "POST", &format!("/certificates?{verb}={name}"))? {
        (200, text) => Ok(text),
        (_, text) => Err(text.trim_end().to_owned()),
    }
}

fn list(storage: &Path, name: Option<&str>, json: bool) -> Result<String, String> {
    let all = named(storage, name)?;
    Ok(match json {
        true => format!("{:#}\n", Value::from(all.iter().map(as_json).collect::<Vec<_>>())),
        false => all.iter().map(as_text).collect(),
    })
}

fn as_text(kept: &Kept) -> String {
    let path = kept.path.display().to_string();
    let text = match &kept.about {
        Ok(about) => {
            let until = format_date(about.not_after);
            let left = match about.not_after.checked_sub(unix_ms() / 1_000) {
                Some(left) => format!("{} left", lasting(left)),
                None => "it has ended".to_string(),
            };
            let until = String::from_utf8_lossy(&until).into_owned();
            [about.names.join(" "), about.issuer.clone(), format!("until {until}, {left}")]
        }
        Err(why) => [String::from("cannot be used"), why.clone(), String::new()],
    };
    let lines = text.iter().filter(|line| !line.is_empty());
    let lines: String = lines.map(|line| format!("    {}\n", shown_in_line(line))).collect();
    format!("{}\n{lines}", shown_in_line(&path))
}

fn as_json(kept: &Kept) -> Value {
    let mut value = json!({"path": kept.path.display().to_string()});
    match &kept.about {
        Ok(about) => {
            value["names"] = json!(about.names);
            value["issuer"] = json!(about.issuer);
            value["serial"] = json!(about.serial);
            value["not_before"] = json!(about.not_before);
            value["not_after"] = json!(about.not_after);
        }
        Err(why) => value["error"] = json!(why),
    }
    value
}

fn bring(storage: &Path, name: &str, chain: &Path, key: &Path) -> Result<String, String> {
    let read = |path: &Path| {
        fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let path = import(storage, name, &read(key)?, &read(chain)?)?;
    Ok(format!("{}\n", path.display()))
}
