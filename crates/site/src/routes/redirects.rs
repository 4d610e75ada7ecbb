//! Paths that are sent elsewhere (RFC 9110, section 15.4).

use super::pattern::Pattern;
use super::settings::RedirectSettings;
use super::table::Table;
use super::target::{Sent, Target, is_host};

/// The redirects of a site.
#[derive(Clone, Debug, Default)]
pub(crate) struct Redirects {
    table: Table,
    rules: Vec<Redirect>,
}

#[derive(Clone, Debug)]
struct Redirect {
    from: Pattern,
    to: Target,
    status: u16,
}

impl Redirects {
    /// The redirects of these settings; those that are wrong are left out.
    pub(crate) fn new(settings: &[RedirectSettings]) -> Redirects {
        let rules: Vec<Redirect> = settings.iter().filter_map(Redirect::new).collect();
        let patterns: Vec<Pattern> = rules.iter().map(|rule| rule.from.clone()).collect();
        Redirects { table: Table::new(&patterns), rules }
    }

    /// The rule of a canonical path.
    pub(crate) fn of(&self, path: &[u8]) -> Option<u32> {
        if self.table.is_empty() { None } else { self.table.first(path) }
    }

    /// The status of a rule; appends where it sends what was sent. `None` when it is not a rule of
    /// this path, or names a host where there is none that may be told.
    pub(crate) fn location(&self, rule: u32, sent: &Sent<'_>, out: &mut Vec<u8>) -> Option<u16> {
        let rule = self.rules.get(rule as usize)?;
        if rule.to.names_host() && !is_host(sent.host) {
            return None;
        }
        rule.to.write(sent, &rule.from.groups_in(sent.path)?, out);
        Some(rule.status)
    }
}

impl Redirect {
    fn new(settings: &RedirectSettings) -> Option<Redirect> {
        let from = Pattern::parse(&settings.from).ok()?;
        let to = Target::parse(&settings.to, from.groups()).ok()?;
        Some(Redirect { from, to, status: settings.status })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redirects(rules: &[(&str, &str, u16)]) -> Redirects {
        let settings: Vec<RedirectSettings> = rules
            .iter()
            .map(|&(from, to, status)| RedirectSettings {
                from: from.into(),
                to: to.into(),
                status,
            })
            .collect();
        Redirects::new(&settings)
    }

    #[test]
    fn a_query_that_is_not_ascii_is_encoded_in_a_location() {
        let (rules, mut out) = (redirects(&[("/old", "/new", 301)]), Vec::new());
        let sent = Sent { path: b"/old", query: b"q=\xc3\xa9%20", host: b"" };
        assert_eq!(rules.location(0, &sent, &mut out), Some(301));
        assert_eq!(out, b"/new?q=%C3%A9%20");
    }

    #[test]
    fn a_path_is_sent_where_its_rule_says() {
        let redirects = redirects(&[
            ("/old", "/new", 301),
            ("/old/*", "/new/$1", 308),
            (r"~^/user/(\d+)$", "https://people.test/$1", 302),
        ]);
        for (path, query, location, status) in [
            ("/old", "a=b", "/new?a=b", 301),
            ("/old/x/", "", "/new/x/", 308),
            ("/user/7", "", "https://people.test/7", 302),
        ] {
            let mut out = Vec::new();
            let rule = redirects.of(path.as_bytes()).unwrap();
            let found = redirects.location(rule, &sent(path, query, "a.test"), &mut out);
            assert_eq!((found, String::from_utf8(out).unwrap()), (Some(status), location.into()));
        }
        assert_eq!(redirects.of(b"/user/x"), None);
        let none = &mut Vec::new();
        assert_eq!(redirects.location(1, &sent("/elsewhere", "", "a.test"), none), None);
        assert_eq!(redirects.location(9, &sent("/old", "", "a.test"), none), None);
    }

    fn sent<'a>(path: &'a str, query: &'a str, host: &'a str) -> Sent<'a> {
        Sent { path: path.as_bytes(), query: query.as_bytes(), host: host.as_bytes() }
    }

    #[test]
    fn a_redirect_to_the_host_that_was_asked_for_needs_one() {
        let (rules, mut out) = (redirects(&[("/a", "https://www.$host/$0", 301)]), Vec::new());
        assert_eq!(rules.location(0, &sent("/a", "", "b.test"), &mut out), Some(301));
        assert_eq!(out, b"https://www.b.test//a");
        for host in ["", "b.test%2f"] {
            assert_eq!(rules.location(0, &sent("/a", "", host), &mut Vec::new()), None);
        }
    }
}
