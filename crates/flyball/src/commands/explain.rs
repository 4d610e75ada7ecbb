//! `flyball explain`: every setting that holds, and why it is so.

use std::fmt::Write as _;
use std::process::ExitCode;

use flyball::cli::USAGE_EXIT;
use flyball::settings::{Change, Explained, Group, Origin, Typed, explain};
use flyball_server::explain::{Fact, Kind, effects, facts};
use flyball_server::{Server, Told};
use flyball_sys::clock::unix_ms;
use flyball_sys::error_log::shown_in_line;
use serde_json::{Value, json};

/// A value that is longer does not push the reasons of the others aside.
const VALUE_CHARS: usize = 28;

pub(crate) fn run(typed: &Typed, keys: &[String], json: bool) -> ExitCode {
    // Before the limit of descriptors is raised.
    let facts = if keys.is_empty() { facts() } else { Vec::new() };
    let settings = match super::settings(typed.clone()) {
        Ok(settings) => settings,
        Err(failure) => return failure.report(),
    };
    let effects = match flyball_arch::find(&settings.arch) {
        Some(architecture) => effects(architecture, &settings),
        None => Vec::new(),
    };
    let certificates = match has_certificates(keys) {
        true => Server::certificates(&settings),
        false => Ok(Vec::new()),
    };
    match explain(typed, &effects, keys) {
        Ok(groups) if json => {
            let mut told = as_json(&facts, &groups);
            told["certificates"] = certificates_as_json(&certificates);
            super::print(&format!("{told:#}\n"));
        }
        Ok(groups) => {
            let certificates = certificates_as_text(&certificates);
            super::print(&(as_text(&facts, &groups) + &certificates));
        }
        Err(why) => {
            eprintln!("flyball: {why}");
            return ExitCode::from(USAGE_EXIT);
        }
    }
    ExitCode::SUCCESS
}

/// Whether certificates are told where these keys are asked for.
fn has_certificates(keys: &[String]) -> bool {
    let is_of_them = |key: &String| {
        let key = key.strip_prefix("site.").unwrap_or(key);
        ["site", "certificate", "certificates", "tls", "acme"].contains(&key)
    };
    keys.is_empty() || keys.iter().any(is_of_them)
}

fn certificates_as_text(certificates: &Result<Vec<Told>, String>) -> String {
    let now_s = unix_ms() / 1_000;
    let lines: Vec<String> = match certificates {
        Ok(certificates) => certificates.iter().map(|one| one.to_text(now_s)).collect(),
        Err(why) => vec![shown_in_line(why)],
    };
    match lines.is_empty() {
        true => String::new(),
        false => format!("\ncertificates\n  {}\n", lines.join("\n  ")),
    }
}

fn certificates_as_json(certificates: &Result<Vec<Told>, String>) -> Value {
    let now_s = unix_ms() / 1_000;
    match certificates {
        Ok(certificates) => certificates.iter().map(|one| one.to_json(now_s)).collect(),
        Err(why) => json!({ "error": why }),
    }
}

fn as_text(facts: &[Fact], groups: &[Group]) -> String {
    let mut blocks = Vec::new();
    if !facts.is_empty() {
        let rows =
            facts.iter().map(|fact| [fact.name, &fact.value, &fact.source].map(str::to_owned));
        blocks.push(format!(
            "machine, as this process sees it\n{}",
            table(&rows.collect::<Vec<_>>())
        ));
    }
    for group in groups {
        for (heading, settings) in parts(group) {
            let rows: Vec<_> = settings.iter().map(|setting| row(setting)).collect();
            blocks.push(format!("{heading}\n{}", table(&rows)));
        }
    }
    blocks.join("\n")
}

/// The tables of the file: those of the server, which are one group, by the names of their keys.
fn parts(group: &Group) -> Vec<(String, Vec<&Explained>)> {
    if !group.name.is_empty() {
        let place = match &group.origin {
            Origin::Default => String::new(),
            origin => format!(", {origin}"),
        };
        return vec![(format!("[[{}]]{place}", group.name), group.settings.iter().collect())];
    }
    let mut parts: Vec<(String, Vec<&Explained>)> = Vec::new();
    for setting in &group.settings {
        let name = match setting.key.split_once('.') {
            Some((table, _)) => format!("[{table}]"),
            None => "server".to_owned(),
        };
        match parts.iter_mut().find(|(heading, _)| *heading == name) {
            Some((_, settings)) => settings.push(setting),
            None => parts.push((name, vec![setting])),
        }
    }
    parts
}

fn row(setting: &Explained) -> [String; 3] {
    [setting.key.to_owned(), setting.value.clone(), reason(setting)]
}

/// Where it was written, then what became of it.
fn reason(setting: &Explained) -> String {
    let is_derived = setting.changes.iter().any(|change| change.kind == Kind::Derived);
    let written = match &setting.origin {
        // What was derived says more than that nothing was written.
        Origin::Default if is_derived => None,
        Origin::Default => Some("default".to_owned()),
        origin => Some(origin.to_string()),
    };
    let changes = setting.changes.iter().map(change_text);
    written.into_iter().chain(changes).collect::<Vec<_>>().join("; ")
}

fn change_text(change: &Change) -> String {
    let why = &change.why;
    match (&change.kind, &change.was) {
        (Kind::Cut, Some(was)) => format!("cut from {was}: {why}"),
        (Kind::Derived, _) => format!("derived: {why}"),
        (Kind::Ignored, _) => format!("ignored: {why}"),
        _ => why.clone(),
    }
}

/// Rows with aligned columns, indented.
fn table(rows: &[[String; 3]]) -> String {
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let (keys, values) = (width(0), width(1).min(VALUE_CHARS));
    let mut text = String::new();
    for [key, value, why] in rows {
        let _ = writeln!(text, "  {key:keys$}  {value:values$}  {why}");
    }
    text
}

fn as_json(facts: &[Fact], groups: &[Group]) -> Value {
    let machine = facts
        .iter()
        .map(|fact| json!({ "name": fact.name, "value": fact.value, "source": fact.source }));
    let tables = groups.iter().map(|group| {
        json!({
            "table": group.name,
            "at": place(&group.origin),
            "settings": group.settings.iter().map(setting_json).collect::<Vec<_>>(),
        })
    });
    json!({ "machine": machine.collect::<Vec<_>>(), "tables": tables.collect::<Vec<_>>() })
}

fn setting_json(setting: &Explained) -> Value {
    let origin = match &setting.origin {
        Origin::Default => "default",
        Origin::File { .. } => "file",
        Origin::Flag(_) => "flag",
        Origin::Set => "set",
        Origin::Directory => "directory",
    };
    let changes = setting.changes.iter().map(|change| {
        let kind = match change.kind {
            Kind::Derived => "derived",
            Kind::Cut => "cut",
            Kind::Ignored => "ignored",
            Kind::Note => "note",
        };
        json!({ "kind": kind, "was": change.was, "why": change.why })
    });
    json!({
        "key": setting.key,
        "value": setting.value,
        "origin": origin,
        "at": place(&setting.origin),
        "changes": changes.collect::<Vec<_>>(),
    })
}

/// Where it was written; `None` for a default.
fn place(origin: &Origin) -> Option<String> {
    (*origin != Origin::Default).then(|| origin.to_string())
}
