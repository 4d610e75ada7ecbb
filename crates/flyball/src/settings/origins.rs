//! Where each value of a site was written, so that what is wrong with several of them together can
//! name the line of the one to blame.

use std::collections::HashMap;

use flyball_site::{SiteSettings, access, limits, routes};

use super::error::{Origin, SettingError};
use super::raw::Raw;
use super::typed::Written;

/// Where the values that hold were written.
#[derive(Default)]
pub(super) struct Origins {
    pub(super) keys: HashMap<&'static str, Origin>,
    /// Entries of values that are tables.
    entries: HashMap<(&'static str, String), Origin>,
}

impl Origins {
    pub(super) fn add(&mut self, key: &'static str, written: &Written) {
        self.keys.insert(key, written.origin.clone());
        if let Raw::Map(entries) = &written.raw {
            for (name, _) in entries {
                self.entries.insert((key, name.clone()), written.origin.clone());
            }
        }
    }

    pub(super) fn get(&self, key: &'static str) -> Option<&Origin> {
        self.keys.get(key)
    }

    /// Where this entry of the key is, or else the key itself.
    pub(super) fn of_entry(&self, key: &'static str, entry: Option<String>) -> Option<&Origin> {
        entry.and_then(|entry| self.entries.get(&(key, entry))).or_else(|| self.get(key))
    }
}

/// What was written in the tables below one site: in the order of lines, each with its origins.
pub(super) type Tables = Vec<(&'static str, Origin, Origins)>;

/// What is wrong with the routes and rules of a site whose values are right each by itself.
pub(super) fn faults<'a>(
    settings: &SiteSettings,
    site: &'a Origin,
    origins: &'a Origins,
    tables: &'a Tables,
) -> impl Iterator<Item = SettingError> + use<'a> {
    let of = |(key, at)| tables.iter().filter(move |(table, ..)| *table == key).nth(at);
    let faults = routes::faults(&settings.routes).into_iter();
    let faults = faults.chain(access::faults(&settings.access));
    faults.chain(limits::faults(&settings.limits)).map(move |fault| {
        let table = fault.table.and_then(of);
        let (above, origins) = match table {
            Some((_, table, origins)) => (table, origins),
            None => (site, origins),
        };
        let key = match fault.table {
            Some((table, _)) => format!("site.{table}.{}", fault.key),
            None => format!("site.{}", fault.key),
        };
        let origin = origins.of_entry(fault.key, fault.entry).unwrap_or(above).clone();
        let other =
            fault.other.and_then(of).map(|(_, table, _)| format!("; the first is at {table}"));
        let why = fault.why + &other.unwrap_or_default();
        SettingError { key, value: None, why, origin }
    })
}
