//! Why each setting is as it is: where it was written, what was derived, and what was cut.

use std::path::Path;

use flyball_server::explain::{Effect, Kind};

use super::address;
use super::error::Origin;
use super::expand::process_environment;
use super::listeners::{LISTENERS, OF_SOCKETS};
use super::moved;
use super::raw::Raw;
use super::server::SETTINGS;
use super::site::{SITE_SETTINGS, SITE_TABLES};
use super::suggest::nearest;
use super::table::{Setting, find};
use super::typed::{Typed, Written};

/// Whose certificates clients show, and what means something only then.
const CLIENT_CA: &str = "tls.client-ca";
const OF_CLIENTS: [&str; 2] = ["tls.client-auth", "tls.client-crl"];

/// One setting, and why it is so.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// Its key, within its table.
    pub key: &'static str,
    /// The value that holds.
    pub value: String,
    /// Where it was written; [`Origin::Default`] when nowhere.
    pub origin: Origin,
    /// What the machine or another setting made of it, in the order in which that came about.
    pub changes: Vec<Change>,
}

/// A value that became another one, or something to know about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What kind of change it is.
    pub kind: Kind,
    /// The value before; `None` when it stayed.
    pub was: Option<String>,
    /// Why.
    pub why: String,
}

/// A table of settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name: empty for that of the server; `listener`, `site` or `site.redirect` for others.
    pub name: String,
    /// Where it begins; [`Origin::Default`] for that of the server.
    pub origin: Origin,
    /// Its settings.
    pub settings: Vec<Explained>,
}

/// Explains what was written, which must be right, with what became of it. If `keys` are given only
/// those, and what is in tables of these names.
///
/// # Errors
/// When a key is no setting, with the nearest that is one.
pub fn explain(typed: &Typed, effects: &[Effect], keys: &[String]) -> Result<Vec<Group>, String> {
    let keys: Vec<Vec<String>> = keys.iter().map(|key| meant(key)).collect::<Result<_, _>>()?;
    let keys = &keys.concat()[..];
    let server = Group {
        name: String::new(),
        origin: Origin::Default,
        settings: settings(SETTINGS, &typed.values, effects),
    };
    let mut groups = vec![server];
    groups.extend(typed.listeners.iter().map(|listener| Group {
        name: LISTENERS.key.into(),
        origin: listener.origin.clone(),
        settings: of_listener(&listener.values),
    }));
    if let Some(mut directory) = directory(typed) {
        inherit(&mut directory.settings, &groups[0].settings);
        groups.push(directory);
    }
    for site in &typed.sites {
        let mut own = settings(SITE_SETTINGS, &site.values, &[]);
        inherit(&mut own, &groups[0].settings);
        groups.push(Group { name: "site".into(), origin: site.origin.clone(), settings: own });
        for typed in &site.tables {
            let known = SITE_TABLES.iter().find(|known| known.key == typed.key);
            groups.extend(known.map(|known| Group {
                name: format!("site.{}", known.key),
                origin: typed.origin.clone(),
                settings: settings(known.settings, &typed.values, &[]),
            }));
        }
    }
    for group in &mut groups {
        let name = group.name.clone();
        group.settings.retain(|setting| {
            is_asked_for(&name, setting.key, keys) && (!keys.is_empty() || !is_untried(setting))
        });
    }
    groups.retain(|group| !group.settings.is_empty());
    Ok(groups)
}

/// What is said of one address: of a socket in the file system more than of another.
fn of_listener(written: &[Written]) -> Vec<Explained> {
    let mut own = settings(LISTENERS.settings, written, &[]);
    let is_in_files = own.iter().any(|setting| {
        let at = address::listen(&setting.value, Path::new(""));
        setting.key == "address" && at.is_some_and(|at| at.address.unix().is_some())
    });
    own.retain(|setting| is_in_files || !OF_SOCKETS.contains(&setting.key));
    own
}

/// What a site does not say itself, and has from a setting of the server of the same key.
fn inherit(own: &mut [Explained], server: &[Explained]) {
    for setting in own.iter_mut().filter(|setting| setting.origin == Origin::Default) {
        let same = server.iter().find(|one| one.key == setting.key);
        if let Some(same) = same.filter(|same| same.origin != Origin::Default) {
            *setting = same.clone();
        }
    }
    let is_off = |own: &[Explained], key: &str| {
        own.iter().any(|setting| setting.key == key && setting.value == "off")
    };
    if is_off(own, CLIENT_CA) {
        for setting in own.iter_mut().filter(|setting| OF_CLIENTS.contains(&setting.key)) {
            let why = format!("no certificate is asked for without {CLIENT_CA}");
            setting.changes.push(Change { kind: Kind::Note, was: None, why });
        }
    }
}

/// The one site that needs no configuration.
fn directory(typed: &Typed) -> Option<Group> {
    if !typed.sites.is_empty() || (typed.file.is_some() && typed.directory.is_none()) {
        return None;
    }
    let (root, origin) = match &typed.directory {
        Some(directory) => (directory.display().to_string(), Origin::Directory),
        None => (".".to_owned(), Origin::Default),
    };
    let mut settings = settings(SITE_SETTINGS, &[], &[]);
    for setting in &mut settings {
        let value = match setting.key {
            "root" => root.clone(),
            "listing" => "true".to_owned(),
            _ => continue,
        };
        (setting.value, setting.origin) = (value, origin.clone());
    }
    Some(Group { name: "site".into(), origin, settings })
}

fn settings<T>(
    table: &'static [Setting<T>],
    written: &[Written],
    effects: &[Effect],
) -> Vec<Explained> {
    table.iter().map(|setting| explained(setting, written, effects)).collect()
}

fn explained<T>(
    setting: &'static Setting<T>,
    written: &[Written],
    effects: &[Effect],
) -> Explained {
    let of_key = || written.iter().filter(|written| written.key == setting.key);
    let mut explained = Explained {
        key: setting.key,
        value: setting.default.unwrap_or("none").to_owned(),
        origin: Origin::Default,
        changes: Vec::new(),
    };
    if let Some(last) = of_key().next_back() {
        // Entries of a table are values of their own; of anything else the last one holds.
        let all: Vec<String> = match last.raw {
            Raw::Map(_) => of_key().map(value).collect(),
            _ => vec![value(last)],
        };
        (explained.value, explained.origin) = (all.join(", "), last.origin.clone());
    }
    for effect in effects.iter().filter(|effect| effect.key == setting.key) {
        let was = effect.value.clone().map(|new| std::mem::replace(&mut explained.value, new));
        explained.changes.push(Change { kind: effect.kind, was, why: effect.why.clone() });
    }
    explained
}

/// The value as it is written, with environment variables put in.
fn value(written: &Written) -> String {
    let raw = match written.origin {
        Origin::File { .. } => written.raw.expanded(&process_environment),
        _ => Ok(written.raw.clone()),
    };
    text(&raw.unwrap_or_else(|_| written.raw.clone()))
}

fn text(raw: &Raw) -> String {
    match raw {
        Raw::Text(text) | Raw::Number(text) | Raw::Date(text) => {
            text.chars().flat_map(shown).collect()
        }
        Raw::Switch(on) => on.to_string(),
        Raw::List(items) if items.is_empty() => "none".to_owned(),
        Raw::List(items) => items.iter().map(text).collect::<Vec<_>>().join(", "),
        Raw::Map(entries) => {
            let entry = |(key, value): &(String, Raw)| format!("{key} = {}", text(value));
            entries.iter().map(entry).collect::<Vec<_>>().join(", ")
        }
    }
}

/// A character as it may go to a terminal.
fn shown(letter: char) -> Vec<char> {
    if letter.is_control() { letter.escape_default().collect() } else { vec![letter] }
}

/// Whether a key of a table was asked for: by its name, or by that of a table that it is in.
fn is_asked_for(table: &str, key: &str, keys: &[String]) -> bool {
    let dot = if table.is_empty() { "" } else { "." };
    let full = format!("{table}{dot}{key}");
    let is_in = |asked: &String| full.strip_prefix(asked).is_some_and(|rest| rest.starts_with('.'));
    keys.is_empty() || keys.iter().any(|asked| *asked == full || is_in(asked))
}

/// Whether it is for experiments only, and nothing was written of it.
fn is_untried(explained: &Explained) -> bool {
    explained.origin == Origin::Default
        && find(SETTINGS, explained.key).is_some_and(Setting::is_experiment)
}

/// The keys of every table, in full.
fn all_keys() -> Vec<String> {
    let mut keys: Vec<String> = SETTINGS.iter().map(|setting| setting.key.to_owned()).collect();
    let of_listener = LISTENERS.settings.iter();
    keys.extend(of_listener.map(|setting| format!("{}.{}", LISTENERS.key, setting.key)));
    keys.extend(SITE_SETTINGS.iter().map(|setting| format!("site.{}", setting.key)));
    for table in SITE_TABLES {
        let full = |key: &str| format!("site.{}.{key}", table.key);
        keys.extend(table.settings.iter().map(|setting| full(setting.key)));
    }
    keys
}

/// The keys that are asked for by this one: itself, or where there is none those of tables that end
/// with it, as `site.certificate` with `certificate`.
fn meant(asked: &str) -> Result<Vec<String>, String> {
    let keys = all_keys();
    if find(SETTINGS, asked).is_some()
        || keys.iter().any(|key| is_asked_for("", key, &[asked.into()]))
    {
        return Ok(vec![asked.to_owned()]);
    }
    let is_end = |key: &&String| key.strip_suffix(asked).is_some_and(|rest| rest.ends_with('.'));
    let of_tables: Vec<String> = keys.iter().filter(is_end).cloned().collect();
    if !of_tables.is_empty() {
        return Ok(of_tables);
    }
    if let Some(instead) = moved::instead(asked) {
        return Err(format!("{asked:?} {instead}"));
    }
    let near = nearest(asked, keys.iter().map(String::as_str));
    let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    Err(format!("there is no setting {asked:?}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(text: &str, keys: &[&str]) -> Vec<Group> {
        let typed = super::super::parse(Path::new("a.toml").into(), text).unwrap();
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        explain(&typed, &[], &keys).unwrap()
    }

    #[test]
    fn a_value_names_its_line() {
        let groups =
            group("workers = 4\n\n[cache]\nsmall = \"4KiB\"\n", &["workers", "cache.small"]);
        let line = |at: usize| {
            (groups[0].settings[at].value.as_str(), groups[0].settings[at].origin.to_string())
        };
        assert_eq!(line(0), ("4", "a.toml:1".to_owned()));
        assert_eq!(line(1), ("4KiB", "a.toml:4".to_owned()));
    }

    #[test]
    fn what_a_site_has_from_the_server_is_told_with_its_line() {
        let text = "[tls]\nclient-ca = \"/ca\"\n\n[[site]]\nroot = \"/a\"\n\n[[site]]\n\
                    root = \"/b\"\ntls.client-ca = \"off\"\n";
        let groups = group(text, &["site.tls"]);
        let told = |site: usize, key: &str| {
            let setting = groups[site].settings.iter().find(|one| one.key == key).unwrap();
            let why = setting.changes.iter().map(|change| change.why.as_str()).collect::<String>();
            (setting.value.clone(), setting.origin.to_string(), why)
        };
        let line = |n: usize| format!("a.toml:{n}");
        assert_eq!(told(0, CLIENT_CA), ("/ca".into(), line(2), String::new()));
        assert_eq!(
            told(0, OF_CLIENTS[0]),
            ("required".into(), "the default".into(), String::new())
        );
        assert_eq!(told(1, CLIENT_CA), ("off".into(), line(9), String::new()));
        assert!(told(1, OF_CLIENTS[0]).2.contains("without tls.client-ca"));
    }

    #[test]
    fn mode_and_group_are_told_of_sockets_in_the_file_system_alone() {
        let text = "[[listener]]\naddress = \"https://127.0.0.1:8443\"\n\n\
                    [[listener]]\naddress = \"http://unix:/run/a.sock\"\nmode = \"0600\"\n";
        let groups = group(text, &["listener"]);
        let keys = |at: usize| -> Vec<&str> {
            groups[at].settings.iter().map(|setting| setting.key).collect()
        };
        assert_eq!(keys(0), ["address", "tls", "hosts"]);
        assert_eq!(keys(1), ["address", "tls", "hosts", "mode", "group"]);
    }

    #[test]
    fn a_name_of_a_table_stands_for_its_keys() {
        let all = group("[[site]]\nroot = \"/a\"\n", &["cache", "site.root"]);
        assert!(all[0].settings.iter().all(|setting| setting.key.starts_with("cache.")));
        assert!(all[0].settings.len() > 5);
        assert_eq!((all[1].settings.len(), all[1].settings[0].value.as_str()), (1, "/a"));
    }

    #[test]
    fn a_key_of_tables_alone_is_found_by_its_last_part() {
        let all = group("[[site]]\nroot = \"/a\"\ncertificate = \"/a.pem\"\n", &["certificate"]);
        let told = all[0].settings.iter().map(|one| (one.key, one.value.as_str()));
        assert_eq!((all.len(), told.collect::<Vec<_>>()), (1, vec![("certificate", "/a.pem")]));
        assert_eq!(group("workers = 2\n[[site]]\nroot = \"/a\"\n", &["workers"]).len(), 1);
    }

    #[test]
    fn an_effect_replaces_the_value_and_keeps_what_it_was() {
        let effect = Effect {
            key: "accept.backlog",
            kind: Kind::Cut,
            value: Some("128".into()),
            why: "by net.core.somaxconn".into(),
        };
        let typed = Typed::default();
        let groups = explain(&typed, &[effect], &["accept.backlog".into()]).unwrap();
        let [backlog] = groups[0].settings.as_slice() else { panic!("{groups:?}") };
        assert_eq!(backlog.value, "128");
        assert_eq!(backlog.changes[0].was.as_deref(), Some("4096"));
    }

    #[test]
    fn a_key_that_is_none_is_told_with_the_nearest() {
        let asked = |key: &str| explain(&Typed::default(), &[], &[key.to_owned()]);
        assert_eq!(
            asked("cache.smal").unwrap_err(),
            "there is no setting \"cache.smal\"; did you mean cache.small?"
        );
        assert!(asked("site.root").is_ok() && asked("").is_err());
    }

    #[test]
    fn what_goes_to_a_terminal_has_no_control_characters() {
        assert_eq!(text(&Raw::Text("a\u{1b}[31m".into())), "a\\u{1b}[31m");
        let map = Raw::Map(vec![("k".into(), Raw::List(vec![Raw::Number("1".into())]))]);
        assert_eq!(text(&map), "k = 1");
    }
}
