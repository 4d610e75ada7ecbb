//! Which keys a table has, and what is said about one that is not among them: where it belongs,
//! what it is called here, or which known one is near.

use std::fmt::Display;

use flyball_arch::Settings;
use flyball_site::SiteSettings;

use super::file::SITE;
use super::listeners::LISTENERS;
use super::raw::Raw;
use super::server::SETTINGS;
use super::site::{SITE_SETTINGS, SITE_TABLES};
use super::suggest::nearest;
use super::table::{Setting, Table, find, has_keys_beneath, keys_beneath};
use super::typed::Written;
use super::{foreign, moved};

/// Most tables that a message names as those where a key belongs.
const TABLES_NAMED_MAX: usize = 3;

/// A table of settings, and what is said about keys that are not in it.
pub(super) struct Keys<T: 'static> {
    pub(super) table: &'static [Setting<T>],
    /// The table of an array that this is, if it is one.
    below: &'static str,
    /// What stands before that in errors, with a dot: `site.` for what belongs to a site.
    before: &'static str,
    /// Why a key is wrong; `None` when it is not.
    unknown: fn(&Keys<T>, &Written) -> Option<String>,
}

impl Keys<Settings> {
    pub(super) const SERVER: Keys<Settings> =
        Keys { table: SETTINGS, before: "", below: "", unknown: of_server };
}

impl Keys<SiteSettings> {
    pub(super) const SITE: Keys<SiteSettings> =
        Keys { table: SITE_SETTINGS, before: "site.", below: "", unknown: of_site };
}

impl<T> Keys<T> {
    /// Those of a table of an array, of a site if `is_of_site`.
    pub(super) fn of_array(known: &'static Table<T>, is_of_site: bool) -> Keys<T> {
        let before = if is_of_site { Keys::SITE.before } else { "" };
        Keys { table: known.settings, before, below: known.key, unknown: of_array }
    }

    /// What stands before a key in errors.
    pub(super) fn prefix(&self) -> String {
        let dot = if self.below.is_empty() { "" } else { "." };
        format!("{}{}{dot}", self.before, self.below)
    }

    /// Why a key is wrong that is not in the table; `None` when it is not.
    pub(super) fn unknown(&self, written: &Written) -> Option<String> {
        (self.unknown)(self, written)
    }
}

/// `None` for an empty table whose name is known: it says nothing, and that is no error.
fn of_server(_: &Keys<Settings>, written: &Written) -> Option<String> {
    let keys = keys_beneath(SETTINGS, &written.key);
    Some(match written.key.as_str() {
        _ if !keys.is_empty() && matches!(written.raw, Raw::Map(_)) => return None,
        _ if !keys.is_empty() => format!("is a table with the keys {}", keys.join(", ")),
        SITE => "sites are written as [[site]] tables in a file".to_owned(),
        key if key == LISTENERS.key => {
            "listeners are written as [[listener]] tables in a file".to_owned()
        }
        key if key.starts_with("site.") => {
            "the settings of a site are written in its [[site]] table in a file".to_owned()
        }
        key if key.split('.').next() == Some(LISTENERS.key) => {
            "the settings of a listener are written in its [[listener]] table in a file".to_owned()
        }
        key => moved::instead(key).unwrap_or_else(|| {
            let keys = SETTINGS.iter().map(|setting| setting.key);
            let tables = keys.clone().filter_map(|key| key.split_once('.')).map(|(table, _)| table);
            let near =
                nearest(key, keys).or_else(|| nearest(key, tables.chain([SITE, LISTENERS.key])));
            let elsewhere = of_sites(key).or_else(|| of_tables(key, ""));
            said("", elsewhere, foreign::told(key), near.map(str::to_owned))
        }),
    })
}

fn of_site(_: &Keys<SiteSettings>, written: &Written) -> Option<String> {
    let key = written.key.as_str();
    let keys = keys_beneath(SITE_SETTINGS, key);
    Some(match key {
        _ if let Some(table) = SITE_TABLES.iter().find(|table| table.key == key) => {
            let of_the_server = of_the_server_alone(table, &written.raw);
            of_the_server.unwrap_or_else(|| format!("is written as [[site.{key}]] tables"))
        }
        _ if !keys.is_empty() && matches!(written.raw, Raw::Map(_)) => return None,
        _ if !keys.is_empty() => format!("is a table with the keys {}", keys.join(", ")),
        _ => {
            let tables = SITE_TABLES.iter().map(|table| table.key);
            let near = nearest(key, SITE_SETTINGS.iter().map(|setting| setting.key).chain(tables));
            let elsewhere = of_the_server(key, &written.raw, SITE).or_else(|| of_tables(key, ""));
            // Of two that are as near, the one of the server may be meant as well.
            let above = nearest(key, SETTINGS.iter().map(|setting| setting.key));
            let above =
                above.filter(|above| nearest(key, [*above].into_iter().chain(near)) == Some(above));
            let near = match (near, above) {
                (Some(near), Some(above)) if near != above => {
                    Some(format!("site.{near}, or {above} above the first [[site]] table"))
                }
                (near, _) => near.map(|near| format!("site.{near}")),
            };
            said(" of a site", elsewhere, foreign::told(key), near)
        }
    })
}

fn of_array<T>(keys: &Keys<T>, written: &Written) -> Option<String> {
    let (key, table) = (written.key.as_str(), keys.below);
    let of_its_site = || {
        find(SITE_SETTINGS, key)
            .map(|_| format!("{key} belongs to the site, above its first [[site.{table}]] table"))
    };
    let elsewhere = match keys.before.is_empty() {
        true => of_the_server(key, &written.raw, table).or_else(|| of_sites(key)),
        false => of_its_site().or_else(|| of_the_server(key, &written.raw, SITE)),
    };
    let near = nearest(key, keys.table.iter().map(|setting| setting.key));
    let near = near.map(|near| format!("{}{near}", keys.prefix()));
    let foreign = foreign::told(key);
    if elsewhere.is_none() && foreign.is_none() && near.is_none() {
        let keys: Vec<&str> = keys.table.iter().map(|setting| setting.key).collect();
        return Some(format!("unknown key; {} has the keys {}", one(table), keys.join(", ")));
    }
    let of = format!(" of {}", one(table));
    Some(said(&of, elsewhere.or_else(|| of_tables(key, table)), foreign, near))
}

/// A table of this name, with its article.
fn one(table: &str) -> String {
    let article = if table.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {table}")
}

/// The sentence: where the key belongs says most, then what is called otherwise here, then what is
/// near.
fn said(
    of: &str,
    elsewhere: Option<String>,
    foreign: Option<&str>,
    near: Option<String>,
) -> String {
    match (elsewhere, foreign) {
        (Some(place), _) => format!("unknown key{of}; {place}"),
        (None, Some(told)) => format!("unknown key; {told}"),
        (None, None) => format!("unknown key{}", did_you_mean(near)),
    }
}

/// A key of another server's style in that of this one's.
fn as_here(key: &str) -> String {
    key.replace('_', "-")
}

/// Where a key of the server belongs, seen from a table of this array.
fn of_the_server(key: &str, raw: &Raw, array: &str) -> Option<String> {
    let key = &*as_here(key);
    let is_table = matches!(raw, Raw::Map(_)) && has_keys_beneath(SETTINGS, key);
    let is_known = find(SETTINGS, key).is_some() || is_table;
    is_known.then(|| format!("{key} belongs above the first [[{array}]] table"))
}

/// Where a key belongs that was written beneath the name of an array of a site, and is one of the
/// server's table of that name alone.
fn of_the_server_alone(table: &Table<SiteSettings>, raw: &Raw) -> Option<String> {
    let Raw::Map(entries) = raw else { return None };
    let mut others = entries.iter().filter(|(key, _)| find(table.settings, key).is_none());
    others.find_map(|(key, _)| of_the_server(&format!("{}.{key}", table.key), raw, SITE))
}

fn of_sites(key: &str) -> Option<String> {
    let key = &*as_here(key);
    let is_known = find(SITE_SETTINGS, key).is_some() || has_keys_beneath(SITE_SETTINGS, key);
    if is_known {
        return Some(format!("{key} belongs in a [[site]] table"));
    }
    let table = SITE_TABLES.iter().find(|table| table.key == key)?;
    Some(format!("it is written as [[site.{}]] tables, each beneath its [[site]]", table.key))
}

/// The few tables of sites that have this key, but for `own`: one that many have says nothing.
fn of_tables(key: &str, own: &str) -> Option<String> {
    let key = &*as_here(key);
    let tables = SITE_TABLES.iter().filter(|table| table.key != own);
    let with_key = tables.filter(|table| find(table.settings, key).is_some());
    let names: Vec<String> = with_key.map(|table| format!("[[site.{}]]", table.key)).collect();
    let few = 1..=TABLES_NAMED_MAX;
    few.contains(&names.len()).then(|| format!("{key} belongs in {}", names.join(" or ")))
}

/// What is near, as a question at the end of a sentence.
pub(super) fn did_you_mean(near: Option<impl Display>) -> String {
    near.map(|near| format!("; did you mean {near}?")).unwrap_or_default()
}
