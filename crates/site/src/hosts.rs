//! Which site answers to a host.

use std::net::Ipv4Addr;

use crate::SiteSettings;
use hashbrown::{HashMap, HashSet};

/// Longest host name, in bytes (RFC 1035, section 2.3.4, as text without its closing dot); a longer
/// one matches no name and goes to the default site.
pub const HOST_BYTES_MAX: usize = 253;

/// Longest part of a name between two dots (RFC 1035, section 2.3.4).
const LABEL_BYTES_MAX: usize = 63;

/// Stands in a list of hosts for every address, and for no host at all: no name server has a say in
/// these. No setting can give it.
pub const ADDRESSES: &str = "<address>";

/// The sites by host name: built once, read by every request.
#[derive(Clone, Debug)]
pub struct Hosts {
    names: Names<usize>,
    /// That of [`ADDRESSES`].
    addresses: Option<usize>,
    default: Option<usize>,
    /// Those of listeners that serve some hosts alone, the first by number 1.
    listeners: Vec<AtListener>,
}

/// What is served where a listener names hosts.
#[derive(Clone, Debug)]
struct AtListener {
    names: Names<()>,
    /// The first of them that a site answers to: for it is a request that names no host.
    first: Box<str>,
    /// The sites that answer to them, that of the first name first.
    sites: Vec<usize>,
}

impl Hosts {
    /// Gathers the names of all sites. Where two sites claim one name, the first has it.
    pub fn new(sites: &[SiteSettings]) -> Hosts {
        Hosts::of(sites.iter().map(|site| &*site.hosts).enumerate())
    }

    /// The same of sites by their numbers.
    pub(crate) fn of<'a>(sites: impl Iterator<Item = (usize, &'a [String])>) -> Hosts {
        let (names, listeners) = (Names::default(), Vec::new());
        let mut hosts = Hosts { names, addresses: None, default: None, listeners };
        for (site, names) in sites {
            for name in names {
                hosts.add(name, site);
            }
        }
        hosts
    }

    fn add(&mut self, name: &str, site: usize) {
        if name == "*" {
            self.default.get_or_insert(site);
            return;
        } else if name == ADDRESSES {
            self.addresses.get_or_insert(site);
            return;
        }
        self.names.add(name, site);
    }

    /// These lists of hosts are what listeners serve, the first by number 1: of each what sites
    /// answer to.
    pub fn serve_at(&mut self, lists: &[&[String]]) {
        let at = |list: &&[String]| {
            let answers = |name: &&String| !self.answer_to(name).is_empty();
            let first = list.iter().find(answers).map(|name| name.as_str().into());
            let (names, first) = (Names::default(), first.unwrap_or_default());
            let mut at = AtListener { names, first, sites: Vec::new() };
            for name in *list {
                at.names.add(name, ());
                at.sites.extend(self.answer_to(name));
            }
            let mut known = HashSet::new();
            at.sites.retain(|site| known.insert(*site));
            at
        };
        self.listeners = lists.iter().map(at).collect();
    }

    /// The sites that answer to a name of a list, or to hosts that it stands for: the one first
    /// that answers to the most of them.
    pub fn answer_to(&self, name: &str) -> Vec<usize> {
        let Some(domain) = name.strip_prefix("*.") else {
            return self.choose(name.as_bytes()).into_iter().collect();
        };
        let wide = self.names.find(without_root_dot(name.as_bytes())).copied();
        let mut beneath = self.names.beneath(domain);
        beneath.sort_unstable();
        wide.into_iter().chain(beneath).chain(self.default.filter(|_| wide.is_none())).collect()
    }

    /// The sites that are served where a listener has the hosts of this number, the default first;
    /// `None` are all.
    pub fn sites_at(&self, listener: u16) -> Option<&[usize]> {
        let at = self.listeners.get(usize::from(listener).checked_sub(1)?)?;
        Some(&at.sites)
    }

    /// The index of the site that answers to this host where a listener has the hosts of this
    /// number, as [`Hosts::choose`] says; 0 is every host. One that the listener does not name has
    /// no site there, and a request that names none has the site of its first.
    pub fn choose_at(&self, listener: u16, host: &[u8]) -> Option<usize> {
        let Some(at) = usize::from(listener).checked_sub(1) else { return self.choose(host) };
        let at = self.listeners.get(at)?;
        if host.is_empty() {
            return at.sites.first().copied();
        }
        at.names.find(without_root_dot(host))?;
        self.choose(host)
    }

    /// Whether a request for this host, which came in where a listener has the hosts of number
    /// `from`, would have a site where one has those of number `at`. One that names no host is for
    /// the first of `from`; where that serves all, no name of `at` stands for it.
    pub(crate) fn is_served_at(&self, at: u16, from: u16, host: &[u8]) -> bool {
        let from = usize::from(from).checked_sub(1).and_then(|from| self.listeners.get(from));
        let host = match from {
            Some(from) if host.is_empty() => from.first.as_bytes(),
            _ => host,
        };
        let is_for_all = at == 0;
        (is_for_all || !host.is_empty()) && self.choose_at(at, host).is_some()
    }

    /// Whether no host leads elsewhere than another.
    fn has_no_names(&self) -> bool {
        self.names.is_empty() && self.addresses.is_none()
    }

    /// The index of the site that answers to this host, given without a port; an IPv6 address comes
    /// in its brackets. `None` when there is no such site: 421 (RFC 9110, section 7.4).
    ///
    /// Case and one trailing dot do not matter (RFC 3986, section 3.2.2). An exact name wins, then
    /// the longest `*.domain`, which stands for one or more labels but not for none, then `*`.
    /// Neither allocates nor blocks.
    pub fn choose(&self, host: &[u8]) -> Option<usize> {
        if self.has_no_names() {
            return self.default;
        }
        let by_name = self.names.find(without_root_dot(host)).copied();
        by_name.or_else(|| self.addresses.filter(|_| is_address(host))).or(self.default)
    }
}

/// What belongs to names of hosts.
#[derive(Clone, Debug)]
struct Names<V> {
    exact: HashMap<Box<[u8]>, V>,
    /// By what follows `*.`
    wildcards: HashMap<Box<[u8]>, V>,
}

impl<V> Default for Names<V> {
    fn default() -> Names<V> {
        Names { exact: HashMap::new(), wildcards: HashMap::new() }
    }
}

impl<V> Names<V> {
    /// Adds a name, or `*.` with a domain; what it has already it keeps.
    fn add(&mut self, name: &str, value: V) {
        let (names, name) = match name.strip_prefix("*.") {
            Some(domain) => (&mut self.wildcards, domain),
            None => (&mut self.exact, name),
        };
        let name = without_root_dot(name.as_bytes()).to_ascii_lowercase();
        names.entry(name.into()).or_insert(value);
    }

    fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.wildcards.is_empty()
    }

    /// What belongs to a host without its closing dot: by its own name, then by the longest
    /// wildcard.
    fn find(&self, host: &[u8]) -> Option<&V> {
        let mut buffer = [0; HOST_BYTES_MAX];
        let name = buffer.get_mut(..host.len())?;
        name.copy_from_slice(host);
        name.make_ascii_lowercase();
        let name = &*name;
        if let Some(value) = self.exact.get(name) {
            return Some(value);
        }
        if self.wildcards.is_empty() {
            return None;
        }
        // From the left, so that the longest domain is tried first. A dot in front has no label
        // before it that the star could stand for.
        memchr::memchr_iter(b'.', name)
            .filter(|&dot| dot > 0)
            .find_map(|dot| self.wildcards.get(&name[dot + 1..]))
    }
}

impl Names<usize> {
    /// What belongs to names beneath a domain.
    fn beneath(&self, domain: &str) -> Vec<usize> {
        let domain = without_root_dot(domain.as_bytes()).to_ascii_lowercase();
        let is_beneath =
            |name: &[u8]| name.strip_suffix(&*domain).is_some_and(|labels| labels.ends_with(b"."));
        let all = self.exact.iter().chain(&self.wildcards);
        all.filter(|(name, _)| is_beneath(name)).map(|(_, site)| *site).collect()
    }
}

/// The host that was asked for last, where, and its site: most requests of a thread are for the
/// same.
#[derive(Debug)]
pub(crate) struct LastHost {
    listener: u16,
    host: Vec<u8>,
    site: Option<usize>,
}

impl LastHost {
    pub(crate) fn none() -> LastHost {
        LastHost { listener: 0, host: Vec::with_capacity(HOST_BYTES_MAX), site: None }
    }

    /// As [`Hosts::choose_at`], of these hosts always.
    #[inline]
    pub(crate) fn choose(&mut self, hosts: &Hosts, listener: u16, host: &[u8]) -> Option<usize> {
        if listener == 0 && hosts.has_no_names() {
            return hosts.default;
        }
        if self.site.is_some() && self.listener == listener && self.host == host {
            return self.site;
        }
        let site = hosts.choose_at(listener, host);
        if site.is_some() && host.len() <= HOST_BYTES_MAX {
            self.listener = listener;
            self.host.clear();
            self.host.extend_from_slice(host);
            self.site = site;
        }
        site
    }
}

/// Names that only this machine leads to, for what only it shall reach: `localhost` and addresses,
/// which no name server can have lead elsewhere (DNS rebinding), and those of a list.
pub fn local_names(more: &[String]) -> Vec<String> {
    ["localhost", ADDRESSES].map(str::to_owned).into_iter().chain(more.iter().cloned()).collect()
}

/// Whether a text is the name of a host as it is written in lower case, without a closing dot.
pub(crate) fn is_name(text: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let is_label = |label: &str| {
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && label.bytes().all(is_part)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= HOST_BYTES_MAX && text.split('.').all(is_label)
}

/// A host as a certificate names it: an IPv6 address stands without its brackets there.
pub fn without_brackets(host: &str) -> &str {
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
}

/// Whether a host is an address, or none was named, which no browser does.
fn is_address(host: &[u8]) -> bool {
    let v4 = || std::str::from_utf8(host).is_ok_and(|text| text.parse::<Ipv4Addr>().is_ok());
    host.is_empty() || host[0] == b'[' || v4()
}

/// `example.org.` names the same host as `example.org` (RFC 3986, section 3.2.2).
fn without_root_dot(name: &[u8]) -> &[u8] {
    name.strip_suffix(b".").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_that_was_asked_for_last_leads_where_it_did_and_others_where_they_do() {
        let mut hosts = hosts(&[&["a.test"], &["b.test", "*.c.test"]]);
        hosts.serve_at(&[&["b.test".to_owned()]]);
        let mut last = LastHost::none();
        let long = "d".repeat(HOST_BYTES_MAX + 1);
        for host in ["a.test", "a.test", "b.test", "a", "b.test", "x.c.test", "", &long, "A.test"] {
            for at in [0, 0, 1, 1, 0, 1] {
                let host = host.as_bytes();
                assert_eq!(last.choose(&hosts, at, host), hosts.choose_at(at, host));
            }
        }
    }
    use proptest::prelude::*;

    /// `sites` where listeners serve these lists.
    fn listened(sites: &[&[&str]], lists: &[&[&str]]) -> Hosts {
        let mut hosts = hosts(sites);
        let lists: Vec<Vec<String>> =
            lists.iter().map(|list| list.iter().map(|name| name.to_string()).collect()).collect();
        hosts.serve_at(&lists.iter().map(Vec::as_slice).collect::<Vec<_>>());
        hosts
    }

    #[test]
    fn a_listener_serves_the_hosts_that_it_names_and_no_others() {
        let sites: [&[&str]; 3] = [&["*"], &["a.test", "b.test"], &["*.c.test", "x.d.test"]];
        let all = listened(&sites, &[&["B.test.", "*.d.test"], &["*.c.test"], &["z.test"]]);
        for (at, host, site) in [
            (0, "a.test", Some(1)),
            (0, "z.test", Some(0)),
            (1, "b.test", Some(1)),
            (1, "B.TEST.", Some(1)),
            (1, "a.test", None),
            (1, "z.test", None),
            (1, "127.0.0.1", None),
            (1, "x.d.test", Some(2)),
            (1, "y.d.test", Some(0)),
            (1, "d.test", None),
            (1, "", Some(1)),
            (2, "x.c.test", Some(2)),
            (2, "c.test", None),
            (2, "", Some(2)),
            (3, "z.test", Some(0)),
            (3, "a.test", None),
            (3, "", Some(0)),
            (4, "a.test", None),
            (4, "", None),
        ] {
            assert_eq!(all.choose_at(at, host.as_bytes()), site, "{at} {host:?}");
        }
        let sites = [1, 2, 3].map(|at| all.sites_at(at).unwrap().to_vec());
        assert_eq!(sites, [vec![1, 2, 0], vec![2], vec![0]]);
        assert_eq!((all.sites_at(0), all.sites_at(4)), (None, None));
    }

    #[test]
    fn a_name_that_no_site_answers_to_has_none() {
        let named = hosts(&[&["a.test"], &["*.b.test"], &["c.b.test"]]);
        for (name, sites) in [
            ("a.test", &[0][..]),
            ("z.test", &[]),
            ("*.a.test", &[]),
            ("*.test", &[0, 1, 2]),
            ("*.b.test", &[1, 2]),
            ("*.c.b.test", &[1]),
        ] {
            assert_eq!(named.answer_to(name), sites, "{name}");
        }
    }

    fn hosts(sites: &[&[&str]]) -> Hosts {
        let settings: Vec<SiteSettings> = sites
            .iter()
            .map(|names| SiteSettings {
                hosts: names.iter().map(|name| name.to_string()).collect(),
                ..SiteSettings::default()
            })
            .collect();
        Hosts::new(&settings)
    }

    fn check(hosts: &Hosts, cases: &[(&str, Option<usize>)]) {
        for &(host, site) in cases {
            assert_eq!(hosts.choose(host.as_bytes()), site, "{host:?}");
        }
    }

    #[test]
    fn a_lone_default_site_answers_to_everything() {
        let lone = hosts(&[&["*"]]);
        check(&lone, &[("", Some(0)), ("a", Some(0)), ("[::1]", Some(0)), (".", Some(0))]);
        assert_eq!(lone.choose(&[b'a'; 100_000]), Some(0));
        assert_eq!(lone.choose(b"\xff\0"), Some(0));
    }

    #[test]
    fn local_names_are_localhost_addresses_and_those_that_are_listed() {
        let names = local_names(&["dev.example".into(), "*.test".into()]);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let local = hosts(&[&names]);
        for host in ["localhost", "LOCALHOST.", "127.0.0.1", "10.1.2.3", "[::1]", "", "dev.example"]
        {
            assert_eq!(local.choose(host.as_bytes()), Some(0), "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil", "1", "1.2.3", "a"]
        {
            assert_eq!(local.choose(host.as_bytes()), None, "{host}");
        }
        assert_eq!(local.choose(b"a.test"), Some(0));
        // What is more than local has a default, as before.
        let named: Vec<&str> = names.iter().copied().chain(["*"]).collect();
        assert_eq!(hosts(&[&named]).choose(b"evil.example"), Some(0));
    }

    #[test]
    fn exact_names_win_over_wildcards_and_wildcards_over_the_default() {
        let all = hosts(&[
            &["*"],
            &["*.example.org"],
            &["www.example.org", "example.org"],
            &["*.deep.example.org"],
        ]);
        check(
            &all,
            &[
                ("www.example.org", Some(2)),
                ("example.org", Some(2)),
                ("a.example.org", Some(1)),
                ("a.b.example.org", Some(1)),
                ("a.www.example.org", Some(1)),
                ("deep.example.org", Some(1)),
                ("a.deep.example.org", Some(3)),
                ("a.b.deep.example.org", Some(3)),
                ("example.com", Some(0)),
                ("notexample.org", Some(0)),
                ("org", Some(0)),
                ("", Some(0)),
            ],
        );
    }

    #[test]
    fn a_wildcard_does_not_match_its_bare_domain() {
        let one = hosts(&[&["*.example.org"]]);
        check(
            &one,
            &[
                ("a.example.org", Some(0)),
                ("example.org", None),
                (".example.org", None),
                ("xexample.org", None),
                ("example.org.evil.net", None),
                ("*.example.org", Some(0)),
            ],
        );
    }

    #[test]
    fn case_and_one_trailing_dot_do_not_matter() {
        let mixed = hosts(&[&["Example.ORG."], &["*.Wild.net."]]);
        check(
            &mixed,
            &[
                ("example.org", Some(0)),
                ("EXAMPLE.org.", Some(0)),
                ("example.org..", None),
                ("a.WILD.net", Some(1)),
                ("a.wild.net.", Some(1)),
            ],
        );
    }

    #[test]
    fn addresses_are_matched_as_they_are_written() {
        let addresses = hosts(&[&["127.0.0.1"], &["[::1]", "[fe80::a]"]]);
        check(
            &addresses,
            &[
                ("127.0.0.1", Some(0)),
                ("[::1]", Some(1)),
                ("[FE80::A]", Some(1)),
                ("::1", None),
                ("127.0.0.2", None),
            ],
        );
    }

    #[test]
    fn nothing_matches_without_a_default() {
        let one = hosts(&[&["a"], &[]]);
        check(&one, &[("a", Some(0)), ("b", None), ("", None), (".", None)]);
        check(&hosts(&[]), &[("a", None), ("", None)]);
    }

    #[test]
    fn the_first_site_keeps_a_name_that_two_claim() {
        let twice = hosts(&[&["a", "*", "*.b"], &["A", "*", "*.B"]]);
        check(&twice, &[("a", Some(0)), ("x.b", Some(0)), ("other", Some(0))]);
    }

    #[test]
    fn a_host_longer_than_dns_allows_goes_to_the_default() {
        let longest = format!("{}.org", "a".repeat(HOST_BYTES_MAX - 4));
        let too_long = format!("a{longest}");
        let named = hosts(&[&[&longest, &too_long, "*.org"], &["*"]]);
        check(&named, &[(&longest, Some(0)), (&too_long, Some(1))]);
        // The trailing dot is not counted.
        check(&named, &[(&format!("{longest}."), Some(0))]);
        assert_eq!(hosts(&[&["*.org"]]).choose(too_long.as_bytes()), None);
    }

    proptest! {
        #[test]
        fn any_bytes_choose_a_site_that_exists(host: Vec<u8>) {
            let all = hosts(&[&["a.b"], &["*.b"], &["*"]]);
            prop_assert!(all.choose(&host).is_some_and(|site| site < 3));
            let named = hosts(&[&["a.b"], &["*.b"]]);
            prop_assert!(named.choose(&host).is_none_or(|site| site < 2));
        }

        #[test]
        fn the_longest_wildcard_is_chosen(labels in prop::collection::vec("[a-c]", 1..6)) {
            let sites: [&[&str]; 4] = [&["*.a"], &["*.b.a"], &["*.c.b.a"], &["*"]];
            let expected = (0..3).rev().find(|&site| {
                let domain = &sites[site][0][2..];
                labels.join(".").ends_with(&format!(".{domain}"))
            });
            let host = labels.join(".");
            prop_assert_eq!(hosts(&sites).choose(host.as_bytes()), Some(expected.unwrap_or(3)));
        }
    }
}
