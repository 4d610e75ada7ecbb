//! Which site answers to a host.

use std::net::Ipv4Addr;

use crate::SiteSettings;
use hashbrown::HashMap;

/// Longest host name, in bytes (RFC 1035, section 2.3.4, as text without its closing dot); a longer
/// one matches no name and goes to the default site.
pub const HOST_BYTES_MAX: usize = 253;

/// Stands in a list of hosts for every address, and for no host at all: no name server has a say in
/// these. No setting can give it.
pub const ADDRESSES: &str = "<address>";

/// The sites by host name: built once, read by every request.
#[derive(Clone, Debug)]
pub struct Hosts {
    exact: HashMap<Box<[u8]>, usize>,
    /// By what follows `*.`
    wildcards: HashMap<Box<[u8]>, usize>,
    /// That of [`ADDRESSES`].
    addresses: Option<usize>,
    default: Option<usize>,
}

impl Hosts {
    /// Gathers the names of all sites. Where two sites claim one name, the first has it.
    pub fn new(sites: &[SiteSettings]) -> Hosts {
        let (exact, wildcards) = (HashMap::new(), HashMap::new());
        let mut hosts = Hosts { exact, wildcards, addresses: None, default: None };
        for (site, settings) in sites.iter().enumerate() {
            for name in &settings.hosts {
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
        let (names, name) = match name.strip_prefix("*.") {
            Some(domain) => (&mut self.wildcards, domain),
            None => (&mut self.exact, name),
        };
        let name = without_root_dot(name.as_bytes()).to_ascii_lowercase();
        names.entry(name.into()).or_insert(site);
    }

    /// The index of the site that answers to this host, given without a port; an IPv6 address comes
    /// in its brackets. `None` when there is no such site: 421 (RFC 9110, section 7.4).
    ///
    /// Case and one trailing dot do not matter (RFC 3986, section 3.2.2). An exact name wins, then
    /// the longest `*.domain`, which stands for one or more labels but not for none, then `*`.
    /// Neither allocates nor blocks.
    pub fn choose(&self, host: &[u8]) -> Option<usize> {
        if self.exact.is_empty() && self.wildcards.is_empty() && self.addresses.is_none() {
            return self.default;
        }
        let by_name = self.choose_by_name(without_root_dot(host));
        by_name.or_else(|| self.addresses.filter(|_| is_address(host))).or(self.default)
    }

    fn choose_by_name(&self, host: &[u8]) -> Option<usize> {
        let mut buffer = [0; HOST_BYTES_MAX];
        let name = buffer.get_mut(..host.len())?;
        name.copy_from_slice(host);
        name.make_ascii_lowercase();
        let name = &*name;
        if let Some(&site) = self.exact.get(name) {
            return Some(site);
        }
        if self.wildcards.is_empty() {
            return None;
        }
        // From the left, so that the longest domain is tried first. A dot in front has no label
        // before it that the star could stand for.
        memchr::memchr_iter(b'.', name)
            .filter(|&dot| dot > 0)
            .find_map(|dot| self.wildcards.get(&name[dot + 1..]).copied())
    }
}

/// The host that was asked for last, and its site: most requests of a thread are for the same.
#[derive(Debug)]
pub(crate) struct LastHost {
    host: Vec<u8>,
    site: Option<usize>,
}

impl LastHost {
    pub(crate) fn none() -> LastHost {
        LastHost { host: Vec::with_capacity(HOST_BYTES_MAX), site: None }
    }

    /// As [`Hosts::choose`], of these hosts always.
    pub(crate) fn choose(&mut self, hosts: &Hosts, host: &[u8]) -> Option<usize> {
        if self.site.is_some() && self.host == host {
            return self.site;
        }
        let site = hosts.choose(host);
        if site.is_some() && host.len() <= HOST_BYTES_MAX {
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
        let hosts = hosts(&[&["a.test"], &["b.test", "*.c.test"]]);
        let mut last = LastHost::none();
        let long = "d".repeat(HOST_BYTES_MAX + 1);
        for host in ["a.test", "a.test", "b.test", "a", "b.test", "x.c.test", "", &long, "A.test"] {
            for _ in 0..2 {
                assert_eq!(last.choose(&hosts, host.as_bytes()), hosts.choose(host.as_bytes()));
            }
        }
    }
    use proptest::prelude::*;

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
