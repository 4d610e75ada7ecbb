//! Which certificate a client is shown: by the name that it asks for, and by what it can verify.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::SignatureScheme;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::load::Pair;
use crate::tickets::Tickets;

/// The site that answers to a name in lower case where the hosts of this number are served, if
/// there is one: as its `Host` is chosen by.
pub type SiteOf = dyn Fn(u16, &str) -> Option<usize> + Send + Sync;

/// The certificates of all sites, of which any may be replaced while the server runs.
pub(crate) struct Identities {
    site_of: Box<SiteOf>,
    /// Those of each site, by their numbers.
    of_sites: Vec<Vec<usize>>,
    chosen: RwLock<Arc<Chosen>>,
    /// Which are told the time.
    tickets: Arc<Tickets>,
}

impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identities").field("of_sites", &self.of_sites).finish_non_exhaustive()
    }
}

/// The certificates that hold now.
struct Chosen {
    /// `None` where a certificate is still to come.
    pairs: Vec<Option<Pair>>,
    sites: Vec<OfSite>,
    /// A key of any of them signs slowly.
    is_slow: bool,
}

/// The certificates of one site, in the order in which they are preferred.
#[derive(Default)]
struct OfSite {
    by_name: HashMap<Box<str>, Vec<usize>>,
    all: Vec<usize>,
}

impl OfSite {
    fn new(numbers: &[usize], pairs: &[Option<Pair>]) -> OfSite {
        let there = |at: &usize| pairs.get(*at)?.as_ref();
        let mut all = numbers.to_vec();
        // Signatures of RSA take the server twenty times as long.
        all.sort_by_key(|at| there(at).is_none_or(Pair::signs_slowly));
        let mut by_name: HashMap<Box<str>, Vec<usize>> = HashMap::new();
        for (at, pair) in all.iter().filter_map(|at| Some((*at, there(at)?))) {
            for name in &pair.certificate().names {
                by_name.entry(name.as_str().into()).or_default().push(at);
            }
        }
        OfSite { by_name, all }
    }

    /// Those for a name: its own, then those of a wildcard in the place of its first label.
    fn named(&self, name: &str) -> impl Iterator<Item = usize> {
        let wild = name.split_once('.').map(|(_, parent)| format!("*.{parent}"));
        let wild = wild.and_then(|wild| self.by_name.get(wild.as_str()));
        self.by_name.get(name).into_iter().chain(wild).flatten().copied()
    }
}

impl Chosen {
    fn new(pairs: Vec<Option<Pair>>, of_sites: &[Vec<usize>]) -> Chosen {
        let sites = of_sites.iter().map(|numbers| OfSite::new(numbers, &pairs)).collect();
        let is_slow = pairs.iter().flatten().any(Pair::signs_slowly);
        Chosen { pairs, sites, is_slow }
    }

    /// The one for a client that asks for this name at `site`, and can verify these signatures:
    /// one that names it, else any of the site; of either one that holds at this time, if there is
    /// one.
    fn choose(
        &self,
        site: usize,
        name: Option<&str>,
        schemes: &[SignatureScheme],
        now_s: u64,
    ) -> Option<&Pair> {
        let site = self.sites.get(site)?;
        let fits =
            |at| self.pair(at).filter(|pair| pair.certified.key.choose_scheme(schemes).is_some());
        let is_over = |pair: &&Pair| !pair.certificate().holds_at(now_s);
        let named = name.into_iter().flat_map(|name| site.named(name)).filter_map(fits);
        let any = || site.all.iter().copied().filter_map(fits).min_by_key(is_over);
        named.min_by_key(is_over).or_else(any)
    }

    fn pair(&self, at: usize) -> Option<&Pair> {
        self.pairs.get(at)?.as_ref()
    }
}

impl Identities {
    /// Certificates, and the numbers of those of each site.
    pub(crate) fn new(
        pairs: Vec<Option<Pair>>,
        of_sites: Vec<Vec<usize>>,
        site_of: Box<SiteOf>,
        tickets: Arc<Tickets>,
    ) -> Identities {
        let chosen = RwLock::new(Arc::new(Chosen::new(pairs, &of_sites)));
        Identities { site_of, of_sites, chosen, tickets }
    }

    /// The site of a name that has a certificate, where the hosts of this number are served.
    pub(crate) fn site_of(&self, listener: u16, name: &str) -> Option<usize> {
        let site = (self.site_of)(listener, name)?;
        self.has_certificate(site).then_some(site)
    }

    /// The first of these sites with a certificate for an address, if there is one.
    pub(crate) fn site_of_address(
        &self,
        address: IpAddr,
        mut sites: impl Iterator<Item = usize>,
    ) -> Option<usize> {
        let chosen = self.chosen();
        let holds = |at: &usize| {
            let pair = chosen.pair(*at);
            pair.is_some_and(|pair| pair.certificate().addresses.contains(&address))
        };
        sites.find(|site| chosen.sites.get(*site).is_some_and(|site| site.all.iter().any(holds)))
    }

    /// The numbers of all sites.
    pub(crate) fn sites(&self) -> Range<usize> {
        0..self.of_sites.len()
    }

    /// Whether a site has a certificate, or is to get one.
    pub(crate) fn has_certificate(&self, site: usize) -> bool {
        self.of_sites.get(site).is_some_and(|numbers| !numbers.is_empty())
    }

    /// Whether a site has a certificate to show by now.
    pub(crate) fn shows(&self, site: usize) -> bool {
        let chosen = self.chosen();
        let numbers = self.of_sites.get(site).into_iter().flatten();
        numbers.copied().any(|at| chosen.pair(at).is_some())
    }

    fn chosen(&self) -> Arc<Chosen> {
        Arc::clone(&self.chosen.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts certificates in the place of those with these numbers.
    pub(crate) fn replace(&self, renewed: Vec<(usize, Pair)>) {
        let mut pairs = self.chosen().pairs.clone();
        for (at, pair) in renewed {
            if let Some(place) = pairs.get_mut(at) {
                *place = Some(pair);
            }
        }
        let chosen = Arc::new(Chosen::new(pairs, &self.of_sites));
        *self.chosen.write().unwrap_or_else(PoisonError::into_inner) = chosen;
    }

    /// Whether a key of any site signs slowly.
    pub(crate) fn sign_slowly(&self) -> bool {
        self.chosen().is_slow
    }

    /// Whether that of the certificate for this name at `site` does.
    pub(crate) fn signs_slowly(
        &self,
        site: usize,
        name: Option<&str>,
        schemes: &[SignatureScheme],
    ) -> bool {
        let now_s = self.tickets.now_s();
        self.chosen().choose(site, name, schemes, now_s).is_some_and(Pair::signs_slowly)
    }

    /// The certificate for a client that asks for this name at `site`, and can verify these
    /// signatures.
    fn choose(
        &self,
        site: usize,
        name: Option<&str>,
        schemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        let chosen = self.chosen();
        let pair = chosen.choose(site, name, schemes, self.tickets.now_s())?;
        Some(Arc::clone(&pair.certified))
    }
}

/// One scheme of each kind of key that a certificate may have.
const ALL_SCHEMES: &[SignatureScheme] = &[
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ECDSA_NISTP521_SHA512,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PSS_SHA256,
];

/// Chooses certificates at one listening socket.
#[derive(Debug)]
pub(crate) struct Resolver {
    pub(crate) identities: Arc<Identities>,
    pub(crate) place: Place,
}

/// What distinguishes listening sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The site of clients that ask for no name, or for one that no site has.
    pub(crate) default: usize,
    /// The number of the hosts that are served there; 0 is all.
    pub(crate) listener: u16,
}

impl Place {
    /// The site for a name.
    pub(crate) fn site_of(self, name: Option<&str>, identities: &Identities) -> Option<usize> {
        name.and_then(|name| identities.site_of(self.listener, name))
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name();
        let site = self.place.site_of(name, &self.identities).unwrap_or(self.place.default);
        let fitting = self.identities.choose(site, name, hello.signature_schemes());
        // With one that does not fit rustls says that nothing is in common (handshake_failure), and
        // without any that access is denied.
        fitting.or_else(|| self.identities.choose(site, name, ALL_SCHEMES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{
        CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, date_time_ymd,
    };

    const ECDSA: SignatureScheme = SignatureScheme::ECDSA_NISTP256_SHA256;
    const RSA: SignatureScheme = SignatureScheme::RSA_PSS_SHA256;

    /// When the certificates are shown, in seconds since 1970.
    const NOW_S: u64 = 1_800_000_000;

    fn pair(names: &[&str], slow: bool) -> Pair {
        pair_for(names, slow, (2020, 2050))
    }

    /// One that holds from the beginning of a year to that of another.
    fn pair_for(names: &[&str], slow: bool, (from, until): (i32, i32)) -> Pair {
        let kind = if slow { &PKCS_RSA_SHA256 } else { &PKCS_ECDSA_P256_SHA256 };
        let key = KeyPair::generate_for(kind).unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let cert = params.self_signed(&key).unwrap();
        Pair::from_pem(cert.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap()
    }

    fn identities(pairs: Vec<Pair>, of_sites: Vec<Vec<usize>>) -> Identities {
        let site_of = |_: u16, name: &str| match name {
            "none.test" => None,
            name if name.ends_with("b.test") => Some(1),
            _ => Some(0),
        };
        let pairs = pairs.into_iter().map(Some).collect();
        Identities::new(pairs, of_sites, Box::new(site_of), Arc::new(Tickets::new(&[], NOW_S)))
    }

    fn shown(all: &Identities, site: usize, name: &str, schemes: &[SignatureScheme]) -> usize {
        let found = all.choose(site, Some(name), schemes).unwrap();
        let pairs = &all.chosen().pairs;
        let is_it = |pair: &Option<Pair>| Arc::ptr_eq(&pair.as_ref().unwrap().certified, &found);
        pairs.iter().position(is_it).unwrap()
    }

    #[test]
    fn a_name_has_its_own_certificate_then_a_wildcards_then_any_of_the_site() {
        let pairs = vec![pair(&["*.a.test"], false), pair(&["x.a.test"], false)];
        let all = identities(pairs, vec![vec![0, 1]]);
        for (name, at) in [("x.a.test", 1), ("y.a.test", 0), ("x.y.a.test", 0), ("c.test", 0)] {
            assert_eq!(shown(&all, 0, name, &[ECDSA]), at, "{name}");
        }
        assert!(all.choose(0, None, &[ECDSA]).is_some());
    }

    #[test]
    fn of_several_the_quick_one_is_shown_to_those_who_can_verify_it() {
        let pairs = vec![pair(&["a.test"], true), pair(&["a.test"], false)];
        let all = identities(pairs, vec![vec![0, 1]]);
        assert_eq!(shown(&all, 0, "a.test", &[RSA, ECDSA]), 1);
        assert_eq!(shown(&all, 0, "a.test", &[RSA]), 0);
        assert!(all.choose(0, Some("a.test"), &[SignatureScheme::ED25519]).is_none());
        assert!(all.sign_slowly());
    }

    #[test]
    fn of_several_one_that_holds_is_shown_before_others_and_one_that_names_the_host_before_all() {
        const OVER: (i32, i32) = (2020, 2021);
        const AHEAD: (i32, i32) = (2040, 2050);
        for bad in [OVER, AHEAD] {
            let pairs = vec![
                pair_for(&["a.test"], false, bad),
                pair(&["a.test"], true),
                pair_for(&["c.test"], false, bad),
                pair(&["*.d.test"], false),
                pair_for(&["x.d.test"], false, bad),
            ];
            let all = identities(pairs, vec![vec![0, 1, 2, 3, 4]]);
            let known = [("a.test", 1), ("c.test", 2), ("x.d.test", 3), ("e.test", 3)];
            for (name, at) in known {
                assert_eq!(shown(&all, 0, name, &[RSA, ECDSA]), at, "{name}");
            }
            // One is better than none.
            assert_eq!(shown(&all, 0, "a.test", &[ECDSA]), 0);
        }
    }

    #[test]
    fn a_name_leads_to_its_site_if_that_has_a_certificate() {
        let all = identities(vec![pair(&["b.test"], false)], vec![vec![], vec![0]]);
        assert_eq!(all.site_of(0, "b.test"), Some(1));
        assert_eq!((all.site_of(0, "a.test"), all.site_of(0, "none.test")), (None, None));
        assert_eq!((all.has_certificate(0), all.has_certificate(1)), (false, true));
    }

    #[test]
    fn a_certificate_that_is_replaced_is_shown_from_then_on_with_its_names() {
        let pairs = vec![pair(&["a.test"], false), pair(&["b.test"], false)];
        let all = identities(pairs, vec![vec![0, 1]]);
        assert_eq!(shown(&all, 0, "c.test", &[ECDSA]), 0);
        all.replace(vec![(1, pair(&["c.test"], false)), (9, pair(&["d.test"], false))]);
        assert_eq!(shown(&all, 0, "c.test", &[ECDSA]), 1);
        assert_eq!(shown(&all, 0, "b.test", &[ECDSA]), 0);
    }
}
