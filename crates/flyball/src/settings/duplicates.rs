//! Tables that claim the same path of a site, or the same socket: one of them would never count,
//! and who wrote it believes that it does.

use std::collections::HashMap;
use std::path::PathBuf;

use flyball_site::{SiteSettings, path};
use flyball_sys::net::Endpoint;

use super::error::{Origin, SettingError};
use super::origins::Tables;

/// What a table is for.
struct Claim<'a> {
    table: &'static str,
    path: &'a str,
    /// What a name of the path must end in; empty is anything.
    extensions: &'a [String],
    /// Whether what is beneath the path is not meant.
    exact: bool,
}

/// What is claimed twice: the later table is at fault, and told where the earlier one is.
pub(super) fn faults(site: &SiteSettings, tables: &Tables) -> Vec<SettingError> {
    let mut faults = Vec::new();
    let mut claims: Vec<(Claim<'_>, &Origin)> = Vec::new();
    for (at, (table, origin, origins)) in tables.iter().enumerate() {
        let number = tables[..at].iter().filter(|(other, ..)| other == table).count();
        let Some(claim) = claim(site, table, number) else { continue };
        let earlier = claims.iter().find_map(|(first, at)| Some((first, at, claim.meets(first)?)));
        if let Some((first, first_at, what)) = earlier {
            let why = format!(
                "{what} has a [[site.{}]] already, at {first_at}; only one can count: join them, \
                 or give this one another path",
                first.table
            );
            let origin = origins.get("path").unwrap_or(origin).clone();
            let key = format!("site.{table}.path");
            faults.push(SettingError { key, value: None, why, origin });
        }
        claims.push((claim, origin));
    }
    faults
}

/// Sockets that tables of any site have their programs listen on, and where that was said.
pub(super) type Sockets = HashMap<PathBuf, Origin>;

/// Tables that start programs on a socket which is that of another table's programs already: the
/// later would take its name away.
pub(super) fn sockets(
    site: &SiteSettings,
    tables: &Tables,
    claimed: &mut Sockets,
) -> Vec<SettingError> {
    let mut faults = Vec::new();
    for (name, responders) in [("fastcgi", &site.fastcgi), ("scgi", &site.scgi)] {
        let typed = tables.iter().filter(|(table, ..)| *table == name);
        for (responder, (_, table, origins)) in responders.iter().zip(typed) {
            let (Some(Endpoint::Unix(path)), Some(_)) =
                (&responder.server, &responder.pool.program)
            else {
                continue;
            };
            let origin = origins.get("socket").unwrap_or(table).clone();
            let Some(first) = claimed.get(path) else {
                claimed.insert(path.clone(), origin);
                continue;
            };
            let why = format!(
                "the program of another table listens there already (see {first}); name another \
                 socket, or none"
            );
            let key = format!("site.{name}.socket");
            faults.push(SettingError { key, value: None, why, origin });
        }
    }
    faults
}

/// What the table of this number of its kind claims, if that kind claims paths.
fn claim<'a>(site: &'a SiteSettings, table: &'static str, number: usize) -> Option<Claim<'a>> {
    let of = |path: &'a str, extensions: &'a [String], exact: bool| {
        Some(Claim { table, path, extensions, exact })
    };
    match table {
        "access" => of(site.access.rules.get(number)?.path.as_deref()?, &[], false),
        "return" => of(site.routes.returns.get(number)?.path.as_deref()?, &[], false),
        "cgi" => of(&site.cgi.get(number)?.path, &[], false),
        "fastcgi" => site.fastcgi.get(number).and_then(|one| of(&one.path, &one.extensions, false)),
        "scgi" => site.scgi.get(number).and_then(|one| of(&one.path, &one.extensions, false)),
        "module" => site.modules.get(number).and_then(|one| of(&one.path, &[], one.exact)),
        _ => None,
    }
}

impl Claim<'_> {
    /// What both claim, if one of them leaves nothing to the other.
    fn meets(&self, other: &Claim<'_>) -> Option<String> {
        // Rules stand beside what answers; that is found by its path as they are.
        let is_rule = |table: &&'static str| matches!(*table, "access" | "return");
        let rule = |table: &'static str| Some(table).filter(is_rule);
        let is_module = |claim: &Claim<'_>| claim.table == "module";
        let alike = rule(self.table) == rule(other.table) && self.exact == other.exact;
        if !alike || mapped(self.path) != mapped(other.path) {
            return None;
        }
        let shared = self.extensions.iter().find(|one| other.extensions.contains(one));
        match shared {
            Some(extension) => Some(format!("{} with .{extension}", self.path)),
            // A module comes before the others, and one with an extension before one without.
            None if self.extensions.is_empty() && other.extensions.is_empty()
                || is_module(self)
                || is_module(other) =>
            {
                Some(self.path.to_owned())
            }
            None => None,
        }
    }
}

/// A path however it is spelled.
fn mapped(path: &str) -> Vec<u8> {
    let mut relative = Vec::new();
    // One that is wrong has its error already.
    let _ = path::map(path.as_bytes(), true, &mut relative);
    relative
}
