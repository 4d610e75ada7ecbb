//! What clients may take of some paths of a site. What they have taken is counted elsewhere, for
//! all processes together.

use std::hash::{DefaultHasher, Hash, Hasher};

use flyball_sys::clients::Rate;

use crate::routes::{Fault, PathRules, Prefix, relative_of};

/// Most tables of one site: a request is compared with one after the other.
const LIMITS_MAX: usize = 256;

/// `[[site.limit]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LimitSettings {
    /// The path; it and all beneath it are meant.
    pub path: Option<String>,
    /// Or the pattern of paths.
    pub pattern: Option<String>,
    /// Most connections of one client address at a time that are answered there.
    pub connections_per_address: Option<u64>,
    /// Most connections at a time that are answered there, of all clients together.
    pub connections: Option<u64>,
    /// Most requests of one client address in a second.
    pub requests_per_address: Option<u64>,
    /// So many of them may come at once; `None` is those of a second.
    pub requests_burst: Option<u64>,
    /// Bytes that a connection is sent in a second.
    pub bandwidth: Option<u64>,
}

/// What clients may take of some paths, or of the server: what is not said is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// By which it is known what they have taken: the same after a reload. 0 is the server's.
    pub number: u64,
    /// Most connections of one client address at a time.
    pub connections_per_address: Option<u64>,
    /// Most connections at a time, of all clients together.
    pub connections: Option<u64>,
    /// How fast one client address may ask.
    pub requests: Option<Rate>,
    /// Bytes that a connection is sent in a second.
    pub bandwidth: Option<u64>,
}

/// How fast one client address may ask, by these settings.
pub fn rate(per_s: Option<u64>, burst: Option<u64>) -> Option<Rate> {
    per_s.map(|per_s| Rate::new(per_s as f64, burst.unwrap_or(per_s)))
}

/// The limits of a site, of which the first that a path fits counts. `host` is one of its names.
pub(crate) fn rules(limits: &[LimitSettings], host: Option<&String>) -> PathRules<Limit> {
    PathRules::of_paths(limits.iter().map(|limit| {
        let paths = (limit.path.as_deref(), limit.pattern.as_deref());
        (paths, limit.of_host(host))
    }))
}

impl LimitSettings {
    fn of_host(&self, host: Option<&String>) -> Limit {
        Limit {
            number: self.number(host),
            connections_per_address: self.connections_per_address,
            connections: self.connections,
            requests: rate(self.requests_per_address, self.requests_burst),
            bandwidth: self.bandwidth,
        }
    }

    /// What is counted for the same paths of the same hosts goes on to be counted after a reload.
    fn number(&self, host: Option<&String>) -> u64 {
        let mut hasher = DefaultHasher::new();
        (host, &self.path, &self.pattern).hash(&mut hasher);
        hasher.finish().max(1)
    }

    /// Whether connections are counted for it.
    pub fn counts_connections(&self) -> bool {
        self.connections.is_some() || self.connections_per_address.is_some()
    }

    /// The paths, as they are written.
    fn paths(&self) -> &str {
        self.path.as_deref().or(self.pattern.as_deref()).unwrap_or_default()
    }

    /// Whether all paths of a later limit are among those of this one, as far as that can be seen.
    fn leaves_nothing_to(&self, later: &LimitSettings) -> bool {
        let covers = |path: &str| self.path.as_deref().is_some_and(|own| covers(own, path));
        match (&later.path, &later.pattern) {
            (Some(path), _) => covers(path),
            (None, Some(pattern)) => self.pattern.as_ref() == Some(pattern) || covers("/"),
            (None, None) => false,
        }
    }

    /// Whether what each client address takes is counted for it.
    pub fn is_by_address(&self) -> bool {
        self.connections_per_address.is_some() || self.requests_per_address.is_some()
    }

    fn says_nothing(&self) -> bool {
        let limits = self.requests_per_address.is_some() || self.bandwidth.is_some();
        !limits && !self.counts_connections()
    }
}

/// Whether a path is beneath another, however both are written.
fn covers(path: &str, other: &str) -> bool {
    Prefix::of(path).covers(relative_of(other.as_bytes(), &mut Vec::new()).0)
}

/// What is wrong with limits whose values are right each by itself.
pub fn faults(limits: &[LimitSettings]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (at, limit) in limits.iter().enumerate() {
        let mut fault = |key, why: &str| faults.push(Fault::of_table("limit", at, key, why.into()));
        if at == LIMITS_MAX {
            fault("path", &format!("too many: at most {LIMITS_MAX} limits"));
            break;
        }
        if limit.requests_burst.is_some() && limit.requests_per_address.is_none() {
            fault("requests-burst", "does nothing without requests-per-address");
        } else if limit.says_nothing() {
            fault("path", "says nothing: a limit needs connections, requests or a bandwidth");
        }
        let paths = (limit.path.as_deref(), limit.pattern.as_deref());
        faults.extend(Fault::of_paths("limit", at, paths));
        if let Some(first) = limits[..at].iter().position(|one| one.leaves_nothing_to(limit)) {
            let key = if limit.path.is_some() { "path" } else { "match" };
            let (all, these) = (limits[first].paths(), limit.paths());
            let why = match all == these {
                true => format!("{these} has a limit already, and this one would never count"),
                false => format!(
                    "{all} is limited before, and all of {these} with it: this one would never \
                     count; put it first"
                ),
            };
            let other = Some(("limit", first));
            faults.push(Fault { other, ..Fault::of_table("limit", at, key, why) });
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(paths: &[&str]) -> Vec<LimitSettings> {
        let limit = |path: &&str| LimitSettings {
            path: (!path.starts_with('~')).then(|| path.to_string()),
            pattern: path.starts_with('~').then(|| path.to_string()),
            connections: Some(1),
            ..LimitSettings::default()
        };
        paths.iter().map(limit).collect()
    }

    #[test]
    fn the_first_limit_that_a_path_fits_counts_however_it_is_written() {
        let limits = limits(&["/d/small", r"~\.iso$", "/d", "~^/[0-9]"]);
        let rules = rules(&limits, None);
        let number = |url: &str| rules.of(url.as_bytes()).map(|limit| limit.number);
        let of = |at: usize| Some(limits[at].number(None));
        for (url, at) in [
            ("/d/small/x.iso", Some(0)),
            ("/x.iso", Some(1)),
            ("/d/x.iso", Some(1)),
            ("/d/x", Some(2)),
            ("/d", Some(2)),
            ("/d\0x", Some(2)),
            ("/dx", None),
            ("/7", Some(3)),
        ] {
            assert_eq!(number(url), at.and_then(of), "{url}");
        }
    }

    #[test]
    fn a_limit_keeps_its_number_while_its_paths_and_hosts_are_the_same() {
        let numbers = |host: &str, paths: &[&str]| {
            let host = Some(host.to_owned());
            limits(paths).iter().map(|limit| limit.number(host.as_ref())).collect::<Vec<_>>()
        };
        let first = numbers("a.test", &["/a", "/b"]);
        assert_ne!(first[0], first[1]);
        assert_eq!(numbers("a.test", &["/x", "/b", "/a"])[1..], [first[1], first[0]]);
        assert_ne!(numbers("b.test", &["/a"])[0], first[0]);
        assert_ne!(numbers("a.test", &["~/a"])[0], first[0]);
    }
}
