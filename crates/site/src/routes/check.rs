//! What is wrong with the routes of a site, told before it starts.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use flyball_http::Status;

use super::fields::removal_fault;
use super::language::LANGUAGES_MAX;
use super::pattern::{Pattern, canonical};
use super::redirects::Redirects;
use super::rewrites::{ROUNDS_MAX, Rewrites, Rewritten};
use super::settings::{RedirectSettings, RouteSettings};
use super::target::{HOST, Sent, Target};

/// Most bytes of the fields of all rules of a site, so that no head grows out of its buffer.
const FIELDS_BYTES_MAX: usize = 64 * 1024;

/// Most rules for fields: the last numbers of 16 bits have another meaning in the keys of caches.
const RULES_MAX: usize = 10_000;

/// Most aliases: with the directories of users, their numbers have 16 bits.
const ALIASES_MAX: usize = 1_024;

/// Most types by path: each is compared with all before it.
const TYPES_MAX: usize = 1_024;

/// Something wrong with the routes of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The table below the site, and which of its kind; `None` for a key of the site.
    pub table: Option<(&'static str, usize)>,
    /// The key.
    pub key: &'static str,
    /// The entry, where the key takes a table.
    pub entry: Option<String>,
    /// What is wrong, in words.
    pub why: String,
    /// The table that says the same already.
    pub other: Option<(&'static str, usize)>,
}

impl Fault {
    /// This key of a table is wrong.
    pub(crate) fn of_table(
        table: &'static str,
        at: usize,
        key: &'static str,
        why: String,
    ) -> Fault {
        Fault { table: Some((table, at)), key, entry: None, why, other: None }
    }

    /// What is wrong with the paths that a table is for: those beneath a path, or those that fit a
    /// pattern.
    pub(crate) fn of_paths(
        table: &'static str,
        at: usize,
        paths: (Option<&str>, Option<&str>),
    ) -> Option<Fault> {
        let (key, why) = match paths {
            (None, None) => ("path", "is missing: `path` or `match` says what is meant".to_owned()),
            (Some(_), Some(_)) => ("match", "stands beside `path`: only one says what".to_owned()),
            (Some(_), None) => return None,
            (None, Some(pattern)) => ("match", Pattern::parse(pattern).err()?),
        };
        Some(Fault::of_table(table, at, key, why))
    }
}

/// Whether a text may be a pattern of paths; [`faults`] says whether it is one.
pub fn is_pattern(text: &str) -> bool {
    text.starts_with('/') || (text.starts_with('~') && text.len() > 1)
}

/// Whether a text may be where a redirect leads.
pub fn is_target(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match host {
        Some(rest) => !rest.is_empty() && !rest.starts_with(['/', '?', '#']),
        None => text.starts_with('/') && !text.starts_with("//"),
    }
}

/// Whether a text may be where a rewrite leads.
pub fn is_path_target(text: &str) -> bool {
    is_target(text) && text.starts_with('/') && !text.contains('#') && !text.contains(HOST)
}

/// All that is wrong with the routes of a site whose values are right each by itself. Nothing
/// blocks.
pub fn faults(routes: &RouteSettings) -> Vec<Fault> {
    let mut faults = Vec::new();
    let redirects = routes.redirects.iter().map(|rule| (&*rule.from, &*rule.to)).collect();
    rules("redirect", redirects, &mut faults);
    let rewrites = routes.rewrites.iter().map(|rule| (&*rule.from, &*rule.to)).collect();
    rules("rewrite", rewrites, &mut faults);
    returns(routes, &mut faults);
    types(routes, &mut faults);
    headers(routes, &mut faults);
    amount(routes, &mut faults);
    aliases(routes, &mut faults);
    keys(routes, &mut faults);
    if faults.is_empty() {
        redirect_circles(&routes.redirects, &mut faults);
        rewrite_circles(routes, &mut faults);
    }
    faults
}

/// A table says what another one says already.
fn repeated(table: &'static str, at: usize, key: &'static str, why: String, other: usize) -> Fault {
    Fault { other: Some((table, other)), ..Fault::of_table(table, at, key, why) }
}

/// Patterns, targets, and patterns that come twice, however they are spelled.
fn rules(table: &'static str, rules: Vec<(&str, &str)>, faults: &mut Vec<Fault>) {
    let mut seen = HashMap::new();
    for (at, (from, to)) in rules.into_iter().enumerate() {
        let same = match Pattern::parse(from) {
            Err(why) => {
                faults.push(Fault::of_table(table, at, "from", why));
                continue;
            }
            Ok(pattern) => {
                if let Err(why) = Target::parse(to, pattern.groups()) {
                    faults.push(Fault::of_table(table, at, "to", why));
                }
                match pattern {
                    Pattern::Exact(path) => ("exact", path),
                    Pattern::Prefix(path) => ("prefix", path),
                    Pattern::Regex(_) => ("expression", from.as_bytes().to_vec()),
                }
            }
        };
        match seen.entry(same) {
            Entry::Vacant(place) => drop(place.insert(at)),
            Entry::Occupied(first) => {
                let why = format!("{from} has a {table} already, and this one would never count");
                faults.push(repeated(table, at, "from", why, *first.get()));
            }
        }
    }
}

/// Patterns, and those that come twice as they are spelled.
fn returns(routes: &RouteSettings, faults: &mut Vec<Fault>) {
    for (at, rule) in routes.returns.iter().enumerate() {
        let paths = (rule.path.as_deref(), rule.pattern.as_deref());
        faults.extend(Fault::of_paths("return", at, paths));
        let Some(pattern) = &rule.pattern else { continue };
        let before = &routes.returns[..at];
        if let Some(first) = before.iter().position(|one| one.pattern.as_ref() == Some(pattern)) {
            let why = format!("{pattern} has a return already, and this one would never count");
            faults.push(repeated("return", at, "match", why, first));
        }
    }
}

/// Patterns, and those that come twice as they are spelled.
fn types(routes: &RouteSettings, faults: &mut Vec<Fault>) {
    for (at, rule) in routes.types.iter().enumerate() {
        if let Err(why) = Pattern::parse(&rule.path) {
            faults.push(Fault::of_table("type", at, "path", why));
        }
        let before = &routes.types[..at];
        if let Some(first) = before.iter().position(|one| one.path == rule.path) {
            let why = format!("{} has a type already, and this one would never count", rule.path);
            faults.push(repeated("type", at, "path", why, first));
        }
        if at == TYPES_MAX {
            let why = format!("too many: at most {TYPES_MAX} types by path");
            faults.push(Fault::of_table("type", at, "path", why));
            return;
        }
    }
}

fn headers(routes: &RouteSettings, faults: &mut Vec<Fault>) {
    for (at, rule) in routes.headers.iter().enumerate() {
        if let Err(why) = Pattern::parse(&rule.path) {
            faults.push(Fault::of_table("header", at, "path", why));
        }
        let wrong = rule.remove.iter().find_map(|name| removal_fault(name));
        faults.extend(wrong.map(|why| Fault::of_table("header", at, "remove", why)));
        if rule.set.is_empty() && rule.add.is_empty() && rule.remove.is_empty() {
            let why = "says nothing: a header needs set, add or remove".to_owned();
            faults.push(Fault::of_table("header", at, "path", why));
        }
    }
}

/// Rules whose fields together are too long, or too many, for a head.
fn amount(routes: &RouteSettings, faults: &mut Vec<Fault>) {
    let mut bytes = 0;
    for (at, rule) in routes.headers.iter().enumerate() {
        let fields = rule.set.iter().chain(&rule.add);
        bytes += fields.map(|(name, value)| name.len() + value.len() + 4).sum::<usize>();
        if bytes > FIELDS_BYTES_MAX || at >= RULES_MAX {
            let why = format!(
                "too much: the fields of all rules have at most {FIELDS_BYTES_MAX} bytes, and \
                 there are at most {RULES_MAX} rules"
            );
            faults.push(Fault::of_table("header", at, "path", why));
            return;
        }
    }
}

fn aliases(routes: &RouteSettings, faults: &mut Vec<Fault>) {
    for (at, alias) in routes.aliases.iter().enumerate() {
        if let Some(other) = routes.aliases[..at].iter().position(|one| one.path == alias.path) {
            let why = format!("{} is an alias already", alias.path);
            faults.push(repeated("alias", at, "path", why, other));
        }
        if at == ALIASES_MAX {
            let why = format!("too many: at most {ALIASES_MAX} aliases");
            faults.push(Fault::of_table("alias", at, "path", why));
            return;
        }
    }
}

fn keys(routes: &RouteSettings, faults: &mut Vec<Fault>) {
    let of_site = |key, entry, why| Fault { table: None, key, entry, why, other: None };
    for (status, _) in &routes.error_pages {
        if !Status::ALL.iter().any(|known| known.code() == *status) {
            let known = Status::ALL.iter().map(|known| known.code()).filter(|code| *code >= 400);
            let known: Vec<String> = known.map(|code| code.to_string()).collect();
            let why = format!("no answer has the status {status}; there are {}", known.join(", "));
            faults.push(of_site("error-page", Some(status.to_string()), why));
        }
    }
    for (at, language) in routes.languages.iter().enumerate() {
        if routes.languages[..at].iter().any(|other| other.eq_ignore_ascii_case(language)) {
            faults.push(of_site("languages", None, format!("{language} is listed twice")));
        }
    }
    if routes.languages.len() > LANGUAGES_MAX {
        let why = format!("at most {LANGUAGES_MAX} languages, found {}", routes.languages.len());
        faults.push(of_site("languages", None, why));
    }
}

/// Redirects that lead back to themselves, as far as that can be seen: the paths of expressions are
/// not known, and other hosts are none of ours.
fn redirect_circles(rules: &[RedirectSettings], faults: &mut Vec<Fault>) {
    let redirects = Redirects::new(rules);
    for (at, rule) in rules.iter().enumerate() {
        let Ok(pattern) = Pattern::parse(&rule.from) else { continue };
        let Some(mut path) = pattern.sample() else { continue };
        // A rule that another takes precedence over for this path is not at fault for it.
        if redirects.of(&path) != Some(at as u32) {
            continue;
        }
        let mut rounds = 0;
        while let Some(next) = redirected(&redirects, rules, &path) {
            rounds += 1;
            path = next;
            if rounds > ROUNDS_MAX {
                let why = format!("leads round in a circle: {} would have no end", rule.from);
                faults.push(Fault::of_table("redirect", at, "to", why));
                break;
            }
        }
    }
}

/// Where a client is that follows the redirect of this path; `None` when there is none, or when it
/// is sent to another host.
fn redirected(redirects: &Redirects, rules: &[RedirectSettings], path: &[u8]) -> Option<Vec<u8>> {
    let rule = redirects.of(path)?;
    if !rules.get(rule as usize)?.to.starts_with('/') {
        return None;
    }
    let mut location = Vec::new();
    redirects.location(rule, &Sent { path, query: b"", host: b"a" }, &mut location)?;
    let end = location.iter().position(|byte| b"?#".contains(byte)).unwrap_or(location.len());
    canonical(&location[..end])
}

fn rewrite_circles(routes: &RouteSettings, faults: &mut Vec<Fault>) {
    let rewrites = Rewrites::new(&routes.rewrites);
    for (at, rule) in routes.rewrites.iter().enumerate() {
        let Ok(pattern) = Pattern::parse(&rule.from) else { continue };
        if pattern.sample().is_some_and(|path| has_no_end(&rewrites, path)) {
            let why = format!(
                "leads round in a circle, or takes more than {ROUNDS_MAX} rounds: {} would have \
                 no end",
                rule.from
            );
            faults.push(Fault::of_table("rewrite", at, "to", why));
        }
    }
}

fn has_no_end(rewrites: &Rewrites, path: Vec<u8>) -> bool {
    let otherwise = |found: Rewritten| rewrites.otherwise(&found);
    rewrites.apply(path).and_then(otherwise).is_err()
}

#[cfg(test)]
mod tests {
    use super::super::settings::{
        AliasSettings, HeaderSettings, ReturnSettings, RewriteSettings, TypeSettings,
    };
    use super::*;

    fn redirect(from: &str, to: &str) -> RedirectSettings {
        RedirectSettings { from: from.into(), to: to.into(), status: 301 }
    }

    fn rewrite(from: &str, to: &str) -> RewriteSettings {
        RewriteSettings { from: from.into(), to: to.into(), ..RewriteSettings::default() }
    }

    fn told(routes: RouteSettings) -> Vec<(Option<(&'static str, usize)>, &'static str)> {
        faults(&routes).into_iter().map(|fault| (fault.table, fault.key)).collect()
    }

    #[test]
    fn routes_that_are_right_have_no_fault() {
        let routes = RouteSettings {
            redirects: vec![redirect("/a", "/b"), redirect("/c/*", "https://x.test/c/$1")],
            rewrites: vec![rewrite("/a", "/b"), rewrite("/*", "/index.html")],
            error_pages: vec![(404, "x".into())],
            languages: vec!["de".into(), "en".into()],
            ..RouteSettings::default()
        };
        assert_eq!(faults(&routes), []);
        assert_eq!(faults(&RouteSettings::default()), []);
    }

    #[test]
    fn a_fault_names_its_table_and_key() {
        let routes = RouteSettings {
            redirects: vec![redirect("/a", "/$1"), redirect("/a*b", "/"), redirect("/a", "/c")],
            rewrites: vec![rewrite("~(", "/")],
            returns: vec![
                ReturnSettings::default(),
                ReturnSettings { pattern: Some("~(".into()), ..ReturnSettings::default() },
                ReturnSettings { pattern: Some("/a".into()), ..ReturnSettings::default() },
                ReturnSettings { pattern: Some("/a".into()), ..ReturnSettings::default() },
            ],
            headers: vec![
                HeaderSettings { remove: vec!["Date".into()], ..HeaderSettings::default() },
                HeaderSettings::default(),
            ],
            types: vec![
                TypeSettings { path: "/a*b".into(), media_type: "a/b".into() },
                TypeSettings { path: "/a".into(), media_type: "a/b".into() },
                TypeSettings { path: "/a".into(), media_type: "a/c".into() },
            ],
            aliases: vec![
                AliasSettings { path: "/a".into(), root: "x".into() },
                AliasSettings { path: "/a".into(), root: "y".into() },
            ],
            error_pages: vec![(418, "x".into())],
            languages: vec!["de".into(), "DE".into()],
            ..RouteSettings::default()
        };
        let expected = [
            (Some(("redirect", 0)), "to"),
            (Some(("redirect", 1)), "from"),
            (Some(("redirect", 2)), "from"),
            (Some(("rewrite", 0)), "from"),
            (Some(("return", 0)), "path"),
            (Some(("return", 1)), "match"),
            (Some(("return", 3)), "match"),
            (Some(("type", 0)), "path"),
            (Some(("type", 2)), "path"),
            (Some(("header", 0)), "remove"),
            (Some(("header", 1)), "path"),
            (Some(("alias", 1)), "path"),
            (None, "error-page"),
            (None, "languages"),
        ];
        assert_eq!(told(routes), expected);
    }

    #[test]
    fn circles_are_seen_before_anybody_runs_into_them() {
        for redirects in [
            vec![redirect("/a", "/a")],
            vec![redirect("/a", "/b"), redirect("/b", "/a?x")],
            vec![redirect("/a/*", "/a/b/$1")],
            vec![redirect("/a/*", "/b/$1"), redirect("~^/b/(.*)$", "/a/$1")],
            vec![redirect("/*", "/x/$1")],
        ] {
            let routes = RouteSettings { redirects, ..RouteSettings::default() };
            assert!(!faults(&routes).is_empty(), "{routes:?}");
        }
        for redirects in [
            vec![redirect("/a/*", "/b/$1"), redirect("/b/y", "/a/z")],
            vec![redirect("/a", "https://x.test/a")],
            vec![redirect("/old/*", "/new/$1"), redirect("/old/x", "/x")],
        ] {
            let routes = RouteSettings { redirects, ..RouteSettings::default() };
            assert_eq!(faults(&routes), [], "{routes:?}");
        }
        let routes = RouteSettings {
            rewrites: vec![rewrite("/a", "/b"), rewrite("/b", "/a")],
            ..RouteSettings::default()
        };
        assert_eq!(told(routes), [(Some(("rewrite", 0)), "to"), (Some(("rewrite", 1)), "to")]);
    }

    #[test]
    fn targets_are_paths_or_urls() {
        for text in ["/", "/a?b", "/$1", "http://x", "https://x/y"] {
            assert!(is_target(text), "{text}");
        }
        for text in ["", "a", "//x", "http://", "https:///x", "ftp://x", "javascript:x", "$1"] {
            assert!(!is_target(text), "{text}");
        }
        assert!(is_path_target("/a") && is_path_target("/a?b=$1"));
        for text in ["/a#b", "http://x", "/$host", "/a?$host"] {
            assert!(!is_path_target(text), "{text}");
        }
        assert!(is_pattern("/") && is_pattern("~x") && !is_pattern("~") && !is_pattern("a"));
    }
}
