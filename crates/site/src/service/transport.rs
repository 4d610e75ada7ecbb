//! How sites are asked: in the clear, or over TLS by which policy.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};

use bytes::Bytes;
use flyball_http::{Name, Request, Scheme, Status};

use super::challenges::CHALLENGES;
use super::{Answer, Lookup, Service, Sites, page_body};
use crate::hosts::Hosts;
use crate::pages;

/// The port that `https` means.
const HTTPS_PORT: u16 = 443;

/// Whether a path is that of the answer to a challenge: a token in the alphabet of base64url, so
/// that it leads to no other place.
fn is_challenge(path: &[u8]) -> bool {
    let of_token = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    path.strip_prefix(CHALLENGES).is_some_and(|token| token.iter().all(of_token))
}

/// How sites are asked over TLS; empty where it is not spoken.
#[derive(Debug, Default)]
pub(super) struct Transports {
    /// The ports that clients are led to, each with the number of the hosts that are served there.
    ports: RwLock<Vec<(u16, u16)>>,
    of_sites: Vec<Transport>,
}

#[derive(Debug)]
struct Transport {
    /// The policy that a connection must have been made under; `None` where there is no
    /// certificate.
    policy: Option<usize>,
    /// Whether requests in the clear are led to `https`, once it is answered there.
    redirects: bool,
    /// Whether it has its certificate: the first one by ACME is still to come at first.
    shows: AtomicBool,
    /// Whether nothing of it is served in the clear: its clients show certificates, which they
    /// cannot do there.
    only_tls: bool,
    /// Whether it is closed to who comes in the clear and would have been led to `https` if an
    /// authority vouched for its host: it asks for passwords.
    is_shut: bool,
    /// Whether it asks for passwords, which are not to be sent in the clear.
    has_logins: bool,
}

impl Sites {
    /// TLS is spoken: `policy_of` says by which policy for a site, if it has a certificate or is to
    /// get one, and `shows` whether it is there. To be called before the first request.
    pub fn speak_tls(
        &mut self,
        policy_of: impl Fn(usize) -> Option<usize>,
        shows: impl Fn(usize) -> bool,
    ) {
        let transport = |(number, site): (usize, &super::Site)| {
            let tls = &site.settings.tls;
            let (policy, redirects) = (policy_of(number), tls.redirects_http);
            let has_logins = site.access.as_ref().is_some_and(|it| it.asks_for_passwords());
            let asks_clients = tls.clients.ca.is_some() && !tls.clients.is_optional;
            // What is said is said of many hosts.
            let is_bare = policy.is_none() && tls.has_certificate();
            Transport {
                policy,
                redirects,
                shows: shows(number).into(),
                only_tls: asks_clients,
                is_shut: is_bare && redirects && has_logins,
                has_logins,
            }
        };
        let of_sites = self.sites.iter().enumerate().map(transport).collect();
        self.transports = Transports { of_sites, ..Transports::default() };
    }

    /// Certificates have come: `shows` says of a site whether it has one.
    pub fn show_certificates(&self, shows: impl Fn(usize) -> bool) {
        for (number, transport) in self.transports.of_sites.iter().enumerate() {
            transport.shows.store(shows(number), Relaxed);
        }
    }

    /// The ports that clients are led to who come in the clear, the first that serves their host:
    /// each with the number of the hosts that are served there.
    pub fn lead_to(&self, ports: Vec<(u16, u16)>) {
        *self.transports.ports.write().unwrap_or_else(PoisonError::into_inner) = ports;
    }
}

/// What a request gets by the way that it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passage {
    /// It is answered.
    Free,
    /// It is led to `https`, at this port.
    Redirect(u16),
    /// It came by a way that does not lead to its site, as this page tells.
    Misdirected(&'static [u8]),
}

impl Transports {
    /// What a request for this site gets, one of `hosts`.
    pub(super) fn passage(&self, site: usize, request: &Request<'_>, hosts: &Hosts) -> Passage {
        let Some(transport) = self.of_sites.get(site) else { return Passage::Free };
        match (request.scheme(), transport.policy) {
            (Scheme::Https, Some(policy))
                if request.secured().is_some_and(|secured| secured.policy == policy) =>
            {
                Passage::Free
            }
            (Scheme::Https, Some(_)) => Passage::Misdirected(pages::OTHER_POLICY),
            (Scheme::Https, None) => Passage::Misdirected(pages::NOT_BY_TLS),
            (Scheme::Http, Some(_)) if transport.leads() && !request.came_by_https() => {
                // What answers a challenge may be a fallback or a program: nothing of a site whose
                // clients show certificates.
                let is_free = is_challenge(request.path()) && !transport.only_tls;
                let port = if is_free { None } else { self.port_for(request, hosts) };
                port.map_or(transport.in_clear(), Passage::Redirect)
            }
            (Scheme::Http, None)
                if transport.is_shut
                    && !request.came_by_https()
                    && !is_challenge(request.path()) =>
            {
                Passage::Misdirected(pages::BY_TLS_ALONE)
            }
            (Scheme::Http, _) => transport.in_clear(),
        }
    }

    /// The port where the same is served by TLS: of the same hosts, or else the first that serves
    /// this one. `None` where it is served in the clear alone.
    fn port_for(&self, request: &Request<'_>, hosts: &Hosts) -> Option<u16> {
        let ports = self.ports.read().unwrap_or_else(PoisonError::into_inner);
        let own = ports.iter().find(|(listener, _)| *listener == request.listener());
        let (from, host) = (request.listener(), request.host());
        let serves = |(listener, _): &&(u16, u16)| hosts.is_served_at(*listener, from, host);
        own.or_else(|| ports.iter().find(serves)).map(|(_, port)| *port)
    }
}

impl Transport {
    /// Whether requests in the clear are led to `https`: where no handshake succeeds as yet, that
    /// would close the site, which one that asks for passwords shall be.
    fn leads(&self) -> bool {
        self.redirects && (self.has_logins || self.shows.load(Relaxed))
    }

    /// What a request in the clear gets that is led nowhere.
    fn in_clear(&self) -> Passage {
        match self.only_tls {
            true => Passage::Misdirected(pages::BY_TLS_ALONE),
            false => Passage::Free,
        }
    }
}

impl Service {
    /// The same address by `https`. The site's own fields are for answers over TLS.
    pub(super) fn redirect_to_https(&mut self, request: &Request<'_>, port: u16) -> Lookup<'_> {
        if request.host().is_empty() {
            return self.refuse(request, Status::MISDIRECTED_REQUEST);
        }
        self.fields.clear();
        self.fields.add_with(Name::Location, |text| {
            text.extend_from_slice(b"https://");
            text.extend_from_slice(request.host());
            if port != HTTPS_PORT {
                text.push(b':');
                text.extend_from_slice(port.to_string().as_bytes());
            }
            let target = request.path_and_query();
            if !target.starts_with(b"/") {
                text.push(b'/');
            }
            if target != b"*" {
                text.extend_from_slice(target);
            }
        });
        let status = Status::PERMANENT_REDIRECT;
        let page = pages::page(status);
        pages::add_fields(page.len(), &mut self.fields);
        let body = page_body(request, Bytes::from_static(page));
        Lookup::Answer(Answer { status, fields: (&self.fields).into(), body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_http::scan::parse_head;
    use flyball_http::{Head, Limits, Secured};
    use std::sync::Arc;

    fn transports(policy: Option<usize>, redirects: bool, only_tls: bool) -> Transports {
        let (shows, has_logins, is_shut) = (true.into(), false, false);
        let of_sites = vec![Transport { policy, redirects, shows, only_tls, is_shut, has_logins }];
        Transports { of_sites, ports: RwLock::new(vec![(0, PORT)]) }
    }

    const PORT: u16 = 8443;

    /// One site of two names.
    fn hosts() -> Hosts {
        let hosts = ["a.test", "b.test"].map(str::to_owned).to_vec();
        Hosts::new(&[crate::SiteSettings { hosts, ..crate::SiteSettings::default() }])
    }

    fn passage(all: &Transports, target: &str, scheme: Scheme, policy: Option<usize>) -> Passage {
        let (text, mut head) =
            (format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n"), Head::default());
        parse_head(text.as_bytes(), &Limits::default(), &mut head).unwrap();
        head.scheme = scheme;
        head.secured = policy.map(|policy| Arc::new(Secured { policy, ..Secured::default() }));
        all.passage(0, &head.request(text.as_bytes()), &hosts())
    }

    #[test]
    fn over_tls_the_policy_is_that_of_the_site() {
        let all = transports(Some(1), true, false);
        let by = |policy| passage(&all, "/", Scheme::Https, policy);
        let other = Passage::Misdirected(pages::OTHER_POLICY);
        assert_eq!((by(Some(1)), by(Some(0))), (Passage::Free, other));
        let none = transports(None, true, false);
        let not_by_tls = Passage::Misdirected(pages::NOT_BY_TLS);
        assert_eq!(passage(&none, "/", Scheme::Https, Some(0)), not_by_tls);
        assert_eq!(passage(&none, "/", Scheme::Http, None), Passage::Free);
        // One of many hosts, for which no authority vouches, is as closed as the others.
        let closed = passage(&transports(None, true, true), "/", Scheme::Http, None);
        assert_eq!(closed, Passage::Misdirected(pages::BY_TLS_ALONE));
        // Where that is for its passwords, what a proxy has had by TLS is answered, and challenges.
        let mut shut = transports(None, true, false);
        shut.of_sites[0].is_shut = true;
        let clear = |target| passage(&shut, target, Scheme::Http, None);
        assert_eq!(clear("/"), Passage::Misdirected(pages::BY_TLS_ALONE));
        assert_eq!(clear("/.well-known/acme-challenge/x"), Passage::Free);
        assert_eq!(passage(&Transports::default(), "/", Scheme::Https, Some(0)), Passage::Free);
    }

    #[test]
    fn in_the_clear_a_site_with_a_certificate_leads_to_https_but_for_challenges() {
        let clear = |all: &Transports, target: &str| passage(all, target, Scheme::Http, None);
        let all = transports(Some(0), true, false);
        assert_eq!(clear(&all, "/"), Passage::Redirect(PORT));
        assert_eq!(clear(&all, "/.well-known/acme-challenge/x"), Passage::Free);
        for elsewhere in ["x", "/../../f.txt", "/%2e%2e/%2e%2e/f.txt", "/a/b", "/a;b"] {
            let target = format!("/.well-known/acme-challenge{elsewhere}");
            assert_eq!(clear(&all, &target), Passage::Redirect(PORT), "{target}");
        }
        assert_eq!(clear(&transports(Some(0), false, false), "/"), Passage::Free);
        // Until its certificate is there it is served; nothing of a site of TLS alone is.
        for (only_tls, passage) in
            [(false, Passage::Free), (true, Passage::Misdirected(pages::BY_TLS_ALONE))]
        {
            let all = transports(Some(0), true, only_tls);
            all.of_sites[0].shows.store(false, Relaxed);
            assert_eq!(clear(&all, "/"), passage);
        }
        let [leads, refuses] = [true, false].map(|leads| transports(Some(0), leads, true));
        for target in ["/", "/.well-known/acme-challenge/x"] {
            assert_eq!(clear(&leads, target), Passage::Redirect(PORT));
            assert_eq!(clear(&refuses, target), Passage::Misdirected(pages::BY_TLS_ALONE));
        }
    }

    #[test]
    fn a_request_without_a_host_is_led_where_the_first_of_its_listener_is() {
        let mut hosts = hosts();
        let [a, b] = ["a.test", "b.test"].map(|name| vec![name.to_owned()]);
        hosts.serve_at(&[&a, &b, &["z.test".to_owned(), "b.test".to_owned()]]);
        let mut head = Head::default();
        let mut led = |ports: &[(u16, u16)], text: &str, at: u16| {
            parse_head(text.as_bytes(), &Limits::default(), &mut head).unwrap();
            let all = transports(Some(0), true, false);
            *all.ports.write().unwrap() = ports.to_vec();
            head.listener = at;
            all.passage(0, &head.request(text.as_bytes()), &hosts)
        };
        for text in ["GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\nHost:\r\n\r\n"] {
            for (ports, at, passage) in [
                (&[(2, 1002)][..], 1, Passage::Free),
                (&[(2, 1002)], 3, Passage::Redirect(1002)),
                (&[(1, 1001)], 3, Passage::Free),
                (&[(2, 1002), (0, 1000)], 1, Passage::Redirect(1000)),
                (&[(1, 1001), (2, 1002)], 1, Passage::Redirect(1001)),
                // Where all hosts are served, it is for none of them.
                (&[(1, 1001)], 0, Passage::Free),
                (&[(0, 1000)], 0, Passage::Redirect(1000)),
            ] {
                assert_eq!(led(ports, text, at), passage, "{text:?} {ports:?} {at}");
            }
        }
    }

    #[test]
    fn a_client_is_led_to_the_port_of_the_same_hosts_or_to_one_that_serves_its_host() {
        let mut hosts = hosts();
        let [a, b] = ["a.test", "b.test"].map(|name| vec![name.to_owned()]);
        hosts.serve_at(&[&a, &b]);
        let text = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n".as_bytes();
        let mut head = Head::default();
        parse_head(text, &Limits::default(), &mut head).unwrap();
        let mut led = |ports: &[(u16, u16)], only_tls: bool, at: u16| {
            let all = transports(Some(0), true, only_tls);
            *all.ports.write().unwrap() = ports.to_vec();
            head.listener = at;
            all.passage(0, &head.request(text), &hosts)
        };
        let all = [(2, 1002), (0, 1000), (1, 1001)];
        assert_eq!(led(&all, false, 0), Passage::Redirect(1000));
        assert_eq!(led(&all, false, 1), Passage::Redirect(1001));
        assert_eq!(led(&all[..2], false, 1), Passage::Redirect(1000));
        // Where it is served in the clear alone, it is led nowhere.
        assert_eq!(led(&all[..1], false, 0), Passage::Free);
        assert_eq!(led(&all[..1], true, 0), Passage::Misdirected(pages::BY_TLS_ALONE));
    }
}
