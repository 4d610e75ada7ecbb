//! What the sessions of a listening socket have in common.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::{NoServerSessionStorage, WantsServerCert};
use rustls::time_provider::TimeProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{ConfigBuilder, ServerConfig, SupportedProtocolVersion, WantsVerifier};
use rustls_pki_types::UnixTime;

use crate::bundle::Bundle;
use crate::challenges::{self, Challenges};
use crate::clients::ClientAuth;
use crate::hello::{Hello, Noted};
use crate::identities::{Identities, Place, Resolver, SiteOf};
use crate::load::Pair;
use crate::tickets::{Root, Ticketer, Tickets};

/// The protocol that is agreed on with a client that names some: HTTP/1.1 (RFC 7301, section 6).
pub(crate) const HTTP_1_1: &[u8] = b"http/1.1";

/// That of a client which names no other, such as `curl --http1.0`.
const HTTP_1_0: &[u8] = b"http/1.0";

/// Whose certificates the clients of one site show, and the least version of TLS, which all sites
/// have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Whether TLS 1.2 is refused.
    pub only_1_3: bool,
    /// The certificates of clients; `None` asks for none.
    pub clients: Option<ClientAuth>,
}

/// One site's certificates and policy.
#[derive(Clone, Debug, Default)]
pub struct Site {
    /// The numbers of its certificates; none where it is not served by TLS.
    pub pairs: Vec<usize>,
    /// Its policy.
    pub policy: Policy,
    /// Whether it stands for sites that may come later, with certificates: until one has,
    /// handshakes fail.
    pub may_come: bool,
}

/// What a client gets that asks for a name which no site with a certificate has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unknown {
    /// The certificate of the default site.
    #[default]
    Default,
    /// The alert `unrecognized_name` (RFC 6066, section 3).
    Reject,
}

/// What the sessions of a listening socket have in common: certificates, versions, protocols. A
/// copy costs a count.
#[derive(Clone, Debug)]
pub struct Config(Arc<AtSocket>);

#[derive(Debug)]
struct AtSocket {
    common: Arc<Common>,
    place: Place,
}

/// The same at all sockets.
#[derive(Debug)]
struct Common {
    identities: Arc<Identities>,
    challenges: Challenges,
    tickets: Arc<Tickets>,
    /// The number of the policy of each site.
    of_sites: Vec<usize>,
    /// The default where no site has a certificate, and such may come.
    to_come: Option<usize>,
    unknown: Unknown,
    served: RwLock<Served>,
}

/// The policies, of which those parts may be replaced while the server runs that say whose
/// certificates clients show.
#[derive(Debug)]
struct Served {
    policies: Vec<Policy>,
    /// What rustls goes by for each policy, by the sockets that differ.
    servers: BTreeMap<Place, Servers>,
}

type Servers = Vec<Arc<ServerConfig>>;

/// What a session goes by, once the name is known that its client asks for.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) server: Arc<ServerConfig>,
    /// The number of the policy: sites of the same may be asked over one connection.
    pub(crate) policy: usize,
}

impl Config {
    /// That of sites, which are chosen by name as `site_of` says. A certificate that is still to
    /// come is `None`: handshakes that would show it fail until then.
    ///
    /// # Errors
    /// When no site has a certificate, or the authorities of clients cannot be used.
    pub fn new(
        pairs: Vec<Option<Pair>>,
        sites: Vec<Site>,
        site_of: Box<SiteOf>,
        tickets: Arc<Tickets>,
        unknown: Unknown,
    ) -> Result<Config, String> {
        let mut policies: Vec<Policy> = Vec::new();
        let (mut of_sites, mut numbers) = (Vec::new(), Vec::new());
        let to_come = sites.iter().position(|site| site.may_come);
        for Site { pairs, policy, .. } in sites {
            let known = policies.iter().position(|known| *known == policy);
            of_sites.push(known.unwrap_or(policies.len()));
            if known.is_none() {
                policies.push(policy);
            }
            numbers.push(pairs);
        }
        let identities = Arc::new(Identities::new(pairs, numbers, site_of, Arc::clone(&tickets)));
        let default = identities.sites().find(|site| identities.has_certificate(*site));
        let default = default.or(to_come).ok_or("no site has a certificate")?;
        let place = Place { default, listener: 0 };
        let served = RwLock::new(Served { policies, servers: BTreeMap::new() });
        let challenges = Challenges::new().map_err(|error| error.to_string())?;
        let common = Common { identities, challenges, tickets, of_sites, to_come, unknown, served };
        Config::at_socket(Arc::new(common), place)
    }

    /// One certificate for all names: its chain, leaf first, and its key, both as PEM. Tickets are
    /// those of all that have the same key.
    ///
    /// # Errors
    /// Says what is wrong with the chain, with the key, or between the two.
    pub fn of_one(chain: &[u8], key: &[u8]) -> Result<Config, String> {
        let pair = Pair::from_pem(chain, key).map_err(|fault| fault.to_string())?;
        let site = Site { pairs: vec![0], ..Site::default() };
        let tickets = Arc::new(Tickets::new(&[Root::of_text(key)], 0));
        let site_of = Box::new(|_: u16, _: &str| Some(0));
        Config::new(vec![Some(pair)], vec![site], site_of, tickets, Unknown::Default)
    }

    fn at_socket(common: Arc<Common>, place: Place) -> Result<Config, String> {
        let mut served = common.served.write().unwrap_or_else(PoisonError::into_inner);
        let servers = common.servers(&served.policies, place)?;
        served.servers.insert(place, servers);
        drop(served);
        Ok(Config(Arc::new(AtSocket { common, place })))
    }

    /// The same at a socket of this address, if it has one, where the hosts of this number are
    /// served, which are those of these sites; 0 and `None` are all. A client that asks for no name
    /// gets the certificate that names the address, if there is one, else that of the first of the
    /// sites.
    ///
    /// # Errors
    /// When none of the sites has a certificate; as [`Config::new`].
    pub fn at(
        &self,
        address: Option<IpAddr>,
        listener: u16,
        sites: Option<&[usize]>,
    ) -> Result<Config, String> {
        let AtSocket { common, place } = &*self.0;
        let identities = &common.identities;
        let all = || -> Box<dyn Iterator<Item = usize>> {
            match sites {
                Some(sites) => Box::new(sites.iter().copied()),
                None => Box::new(identities.sites()),
            }
        };
        let of_address =
            address.and_then(|address| identities.site_of_address(address.to_canonical(), all()));
        let first = || all().find(|site| identities.has_certificate(*site));
        let default = of_address.or_else(first).or(common.to_come);
        let default = default.ok_or("no site of its hosts has a certificate")?;
        match (Place { default, listener }) {
            at if at == *place => Ok(self.clone()),
            at => Config::at_socket(Arc::clone(common), at),
        }
    }

    /// Whether a client's hello must be looked at before its session begins: for the name that it
    /// asks for, or because the answer may take long.
    pub(crate) fn looks_at_hello(&self) -> bool {
        let Common { served, unknown, challenges, .. } = &*self.0.common;
        let served = served.read().unwrap_or_else(PoisonError::into_inner);
        let may_differ = served.policies.len() > 1 || *unknown == Unknown::Reject;
        may_differ || challenges.are_there() || self.is_slow(&served)
    }

    /// What a session goes by in which an authority looks for a challenge under this name; `None`
    /// when it is refused.
    pub(crate) fn challenge(&self, name: Option<&str>) -> Option<Choice> {
        let server = self.0.common.challenges.server_for(name)?;
        Some(Choice { server: Arc::clone(server), policy: challenges::POLICY })
    }

    /// Whether the answer to a hello takes long: it is signed by RSA.
    pub(crate) fn answers_slowly(&self, hello: &Hello) -> bool {
        let AtSocket { common, place } = &*self.0;
        let name = hello.name.as_deref();
        let site = place.site_of(name, &common.identities).unwrap_or(place.default);
        common.identities.sign_slowly()
            && common.identities.signs_slowly(site, name, &hello.schemes)
    }

    /// Whether clients of a policy show certificates.
    pub(crate) fn asks_clients(&self, policy: usize) -> bool {
        let served = self.0.common.served.read().unwrap_or_else(PoisonError::into_inner);
        served.policies.get(policy).is_some_and(|policy| policy.clients.is_some())
    }

    /// What a session goes by whose client asks for this name, which is in lower case; `None` when
    /// it is refused.
    pub(crate) fn choose(&self, name: Option<&str>) -> Option<Choice> {
        let AtSocket { common, place } = &*self.0;
        let site = place.site_of(name, &common.identities);
        if site.is_none() && name.is_some() && common.unknown == Unknown::Reject {
            return None;
        }
        let policy = *common.of_sites.get(site.unwrap_or(place.default))?;
        let served = common.served.read().unwrap_or_else(PoisonError::into_inner);
        let server = Arc::clone(served.servers.get(place)?.get(policy)?);
        Some(Choice { server, policy })
    }

    /// The number of the policy of a site: a connection that was made under another one may not
    /// ask it.
    pub fn policy_of(&self, site: usize) -> Option<usize> {
        self.0.common.of_sites.get(site).copied()
    }

    /// Whether a site has a certificate by now, so that handshakes for it succeed.
    pub fn shows(&self, site: usize) -> bool {
        self.0.common.identities.shows(site)
    }

    /// Whether a handshake may take long: by signatures of RSA, or because clients show
    /// certificates.
    fn is_slow(&self, served: &Served) -> bool {
        let asks_clients = || served.policies.iter().any(|policy| policy.clients.is_some());
        self.0.common.identities.sign_slowly() || asks_clients()
    }

    /// Tells the time, in seconds since 1970.
    pub fn tell(&self, now_s: u64) {
        self.0.common.tickets.tell(now_s);
    }

    /// The keys of its tickets.
    pub fn tickets(&self) -> &Arc<Tickets> {
        &self.0.common.tickets
    }

    /// Takes over what has changed, for handshakes from now on.
    pub fn take(&self, bundle: Bundle) {
        let Common { identities, challenges, tickets, .. } = &*self.0.common;
        tickets.renew(&bundle.roots);
        challenges.replace(bundle.challenges);
        if !bundle.pairs.is_empty() {
            identities.replace(bundle.pairs);
        }
        if !bundle.clients.is_empty() {
            self.0.common.let_in(&bundle.clients);
        }
    }
}

impl Common {
    /// What rustls goes by for each policy.
    fn servers(&self, policies: &[Policy], place: Place) -> Result<Servers, String> {
        let resolver = Resolver { identities: Arc::clone(&self.identities), place };
        let resolver = Arc::new(Noted(Arc::new(resolver)));
        let server = |policy: &Policy| {
            let server = server_of(policy, &self.tickets, &resolver);
            server.map(Arc::new).map_err(|error| error.to_string())
        };
        policies.iter().map(server).collect()
    }

    /// Takes over whose certificates clients show, each by its number. What could be used once can
    /// be used here.
    fn let_in(&self, renewed: &[ClientAuth]) {
        let mut served = self.served.write().unwrap_or_else(PoisonError::into_inner);
        let mut policies = served.policies.clone();
        for clients in policies.iter_mut().filter_map(|policy| policy.clients.as_mut()) {
            if let Some(next) = renewed.iter().find(|next| next.number() == clients.number()) {
                clients.clone_from(next);
            }
        }
        let of = |place: &Place| Ok((*place, self.servers(&policies, *place)?));
        let servers: Result<_, String> = served.servers.keys().map(of).collect();
        if let Ok(servers) = servers {
            *served = Served { policies, servers };
        }
    }
}

impl TimeProvider for Tickets {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.now_s())))
    }
}

impl Policy {
    fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        const ALL: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
        if self.only_1_3 { &ALL[..1] } else { ALL }
    }

    /// What tickets are bound to.
    fn digest(&self) -> [u8; 32] {
        let mut digest = Context::new(&SHA256);
        digest.update(&[u8::from(self.only_1_3)]);
        digest.update(HTTP_1_1);
        if let Some(clients) = &self.clients {
            digest.update(&[u8::from(clients.is_required)]);
            clients.roots.iter().for_each(|root| digest.update(root));
            clients.lists.iter().for_each(|list| digest.update(list));
        }
        digest.finish().as_ref().try_into().unwrap_or_default()
    }
}

fn server_of(
    policy: &Policy,
    tickets: &Arc<Tickets>,
    resolver: &Arc<Noted>,
) -> Result<ServerConfig, Box<dyn std::error::Error>> {
    let provider = Arc::new(default_provider());
    let time = Arc::clone(tickets);
    let builder = ServerConfig::builder_with_details(provider, time)
        .with_protocol_versions(policy.versions())?;
    let builder = with_clients(builder, policy.clients.as_ref());
    let mut server = builder.with_cert_resolver(Arc::clone(resolver) as _);
    server.alpn_protocols = vec![HTTP_1_1.to_vec(), HTTP_1_0.to_vec()];
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    // Resumption would skip the look at the client's certificate.
    if policy.clients.is_none() {
        server.ticketer =
            Arc::new(Ticketer { tickets: Arc::clone(tickets), policy: policy.digest() });
        server.send_tls13_tickets = 1;
    }
    Ok(server)
}

fn with_clients(
    builder: ConfigBuilder<ServerConfig, WantsVerifier>,
    clients: Option<&ClientAuth>,
) -> ConfigBuilder<ServerConfig, WantsServerCert> {
    match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => builder.with_client_cert_verifier(Arc::clone(&clients.verifier)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str) -> Pair {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        Pair::from_pem(chain.as_bytes(), key.as_bytes()).unwrap()
    }

    fn site(pairs: &[usize], only_1_3: bool) -> Site {
        Site {
            pairs: pairs.to_vec(),
            policy: Policy { only_1_3, clients: None },
            ..Site::default()
        }
    }

    fn config(sites: Vec<Site>, unknown: Unknown) -> Result<Config, String> {
        let tickets = Arc::new(Tickets::new(&[], 0));
        let pairs = ["a.test", "b.test", "127.0.0.1"].map(|name| Some(pair(name))).to_vec();
        let site_of = |listener: u16, name: &str| match (listener, name) {
            (0 | 1, "a.test") => Some(0),
            (0 | 2, "b.test") => Some(1),
            _ => None,
        };
        Config::new(pairs, sites, Box::new(site_of), tickets, unknown)
    }

    #[test]
    fn sites_of_one_policy_need_no_look_at_the_name() {
        let same = config(vec![site(&[0], false), site(&[1], false)], Unknown::Default).unwrap();
        assert!(!same.looks_at_hello());
        assert_eq!((same.policy_of(0), same.policy_of(1)), (Some(0), Some(0)));
        let other = config(vec![site(&[0], false), site(&[1], true)], Unknown::Default).unwrap();
        assert!(other.looks_at_hello());
        let policy = |name| other.choose(name).map(|choice| choice.policy);
        assert_eq!((policy(Some("a.test")), policy(Some("b.test"))), (Some(0), Some(1)));
        assert_eq!((policy(Some("c.test")), policy(None)), (Some(0), Some(0)));
    }

    #[test]
    fn a_name_that_no_site_has_may_be_refused_and_none_is_not() {
        let strict = config(vec![site(&[0], false)], Unknown::Reject).unwrap();
        assert!(strict.looks_at_hello());
        assert!(strict.choose(Some("a.test")).is_some() && strict.choose(None).is_some());
        assert!(strict.choose(Some("c.test")).is_none());
        // A site without a certificate is none to TLS.
        let strict = config(vec![site(&[0], false), site(&[], false)], Unknown::Reject).unwrap();
        assert!(strict.choose(Some("b.test")).is_none());
    }

    #[test]
    fn a_socket_of_an_address_shows_the_certificate_of_that() {
        let all = config(vec![site(&[0], false), site(&[2], true)], Unknown::Default).unwrap();
        let policy = |config: &Config| config.choose(None).map(|choice| choice.policy);
        assert_eq!(policy(&all), Some(0));
        assert_eq!(policy(&all.at(Some([127, 0, 0, 1].into()), 0, None).unwrap()), Some(1));
        assert_eq!(policy(&all.at(Some([127, 0, 0, 2].into()), 0, None).unwrap()), Some(0));
        assert_eq!(policy(&all.at(None, 0, None).unwrap()), Some(0));
        // That of another site is none where this one is not served.
        assert_eq!(policy(&all.at(Some([127, 0, 0, 1].into()), 1, Some(&[0])).unwrap()), Some(0));
    }

    #[test]
    fn where_some_hosts_are_served_names_of_others_are_unknown() {
        let sites = || vec![site(&[0], false), site(&[1], true), site(&[], false)];
        let address = Some([127, 0, 0, 9].into());
        let policy = |config: &Config, name| config.choose(name).map(|choice| choice.policy);
        let all = config(sites(), Unknown::Default).unwrap();
        let second = all.at(address, 2, Some(&[2, 1])).unwrap();
        for (name, of_all, of_second) in [
            (Some("a.test"), Some(0), Some(1)),
            (Some("b.test"), Some(1), Some(1)),
            (None, Some(0), Some(1)),
        ] {
            assert_eq!((policy(&all, name), policy(&second, name)), (of_all, of_second));
        }
        let strict = config(sites(), Unknown::Reject).unwrap();
        let first = strict.at(address, 1, Some(&[0])).unwrap();
        assert_eq!((policy(&first, Some("b.test")), policy(&first, None)), (None, Some(0)));
        assert_eq!(policy(&strict, Some("b.test")), Some(1));
        assert!(all.at(address, 1, Some(&[2])).is_err() && all.at(address, 1, Some(&[])).is_err());
    }

    #[test]
    fn a_site_has_a_certificate_or_there_is_no_configuration() {
        assert!(config(vec![site(&[], false)], Unknown::Default).is_err());
    }
}
