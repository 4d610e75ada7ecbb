//! What the sessions of a listening socket have in common.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::{NoServerSessionStorage, WantsServerCert, WebPkiClientVerifier};
use rustls::time_provider::TimeProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{ConfigBuilder, RootCertStore, ServerConfig, SupportedProtocolVersion, WantsVerifier};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};

use crate::bundle::Bundle;
use crate::hello::Noted;
use crate::identities::{Identities, Resolver, SiteOf};
use crate::load::Pair;
use crate::tickets::{Root, Ticketer, Tickets};

/// The protocol that is agreed on with a client that names some: HTTP/1.1 (RFC 7301, section 6).
pub(crate) const HTTP_1_1: &[u8] = b"http/1.1";

/// The least version of TLS of one site, and whose certificates its clients show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Whether TLS 1.2 is refused.
    pub only_1_3: bool,
    /// The certificates of clients; `None` asks for none.
    pub clients: Option<ClientAuth>,
}

/// Whose certificates clients show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAuth {
    roots: Vec<CertificateDer<'static>>,
    lists: Vec<CertificateRevocationListDer<'static>>,
    /// Whether a client without one is refused.
    is_required: bool,
}

impl ClientAuth {
    /// Certificates that these authorities issued, without those that these lists revoke; both in
    /// PEM. Only a client's own certificate is looked up in the lists; if there are any, that of
    /// its issuer must be among them.
    ///
    /// # Errors
    /// Which of the two cannot be used, and why.
    pub fn from_pem(roots: &[u8], lists: &[u8], is_required: bool) -> Result<ClientAuth, String> {
        let roots: Vec<_> = CertificateDer::pem_slice_iter(roots)
            .collect::<Result<_, _>>()
            .map_err(|error| format!("client-ca holds what is no certificate: {error}"))?;
        if roots.is_empty() {
            return Err("client-ca holds no certificate in PEM".to_owned());
        }
        let lists: Vec<_> = CertificateRevocationListDer::pem_slice_iter(lists)
            .collect::<Result<_, _>>()
            .map_err(|error| format!("client-crl holds what is no list: {error}"))?;
        Ok(ClientAuth { roots, lists, is_required })
    }
}

/// One site's certificates and policy.
#[derive(Clone, Debug, Default)]
pub struct Site {
    /// The numbers of its certificates; none where it is not served by TLS.
    pub pairs: Vec<usize>,
    /// Its policy.
    pub policy: Policy,
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
    /// The site of clients that ask for no name, or for one that no site has.
    default: usize,
    /// What rustls goes by, for each policy.
    servers: Vec<Arc<ServerConfig>>,
}

/// The same at all sockets.
#[derive(Debug)]
struct Common {
    identities: Arc<Identities>,
    tickets: Arc<Tickets>,
    policies: Vec<Policy>,
    /// The number of the policy of each site.
    of_sites: Vec<usize>,
    unknown: Unknown,
}

/// What a session goes by, once the name is known that its client asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice<'a> {
    pub(crate) server: &'a Arc<ServerConfig>,
    /// The number of the policy: sites of the same may be asked over one connection.
    pub(crate) policy: usize,
}

impl Config {
    /// That of sites, which are chosen by name as `site_of` says.
    ///
    /// # Errors
    /// When no site has a certificate, or the authorities of clients cannot be used.
    pub fn new(
        pairs: Vec<Pair>,
        sites: Vec<Site>,
        site_of: Box<SiteOf>,
        tickets: Arc<Tickets>,
        unknown: Unknown,
    ) -> Result<Config, String> {
        let mut policies: Vec<Policy> = Vec::new();
        let (mut of_sites, mut numbers) = (Vec::new(), Vec::new());
        for Site { pairs, policy } in sites {
            let known = policies.iter().position(|known| *known == policy);
            of_sites.push(known.unwrap_or(policies.len()));
            if known.is_none() {
                policies.push(policy);
            }
            numbers.push(pairs);
        }
        let identities = Arc::new(Identities::new(pairs, numbers, site_of));
        let default = identities.first().ok_or("no site has a certificate")?;
        let common = Common { identities, tickets, policies, of_sites, unknown };
        Config::at_socket(Arc::new(common), default)
    }

    /// One certificate for all names: its chain, leaf first, and its key, both as PEM. Tickets are
    /// those of all that have the same key.
    ///
    /// # Errors
    /// Says what is wrong with the chain, with the key, or between the two.
    pub fn of_one(chain: &[u8], key: &[u8]) -> Result<Config, String> {
        let pair = Pair::from_pem(chain, key).map_err(|fault| fault.to_string())?;
        let site = Site { pairs: vec![0], policy: Policy::default() };
        let tickets = Arc::new(Tickets::new(&[Root::of_text(key)], 0));
        Config::new(vec![pair], vec![site], Box::new(|_| Some(0)), tickets, Unknown::Default)
    }

    fn at_socket(common: Arc<Common>, default: usize) -> Result<Config, String> {
        let resolver = Resolver { identities: Arc::clone(&common.identities), default };
        let resolver = Arc::new(Noted(Arc::new(resolver)));
        let server = |policy: &Policy| {
            let server = server_of(policy, &common.tickets, &resolver);
            server.map(Arc::new).map_err(|error| error.to_string())
        };
        let servers = common.policies.iter().map(server).collect::<Result<_, _>>()?;
        Ok(Config(Arc::new(AtSocket { common, default, servers })))
    }

    /// The same at a socket of this address: a client that asks for no name gets the certificate
    /// that names the address, if there is one.
    ///
    /// # Errors
    /// As [`Config::new`].
    pub fn at(&self, address: IpAddr) -> Result<Config, String> {
        let site = self.0.common.identities.site_of_address(address.to_canonical());
        match site.filter(|site| *site != self.0.default) {
            Some(site) => Config::at_socket(Arc::clone(&self.0.common), site),
            None => Ok(self.clone()),
        }
    }

    /// Whether the name must be known that a client asks for before its session begins.
    pub(crate) fn looks_at_hello(&self) -> bool {
        self.0.servers.len() > 1 || self.0.common.unknown == Unknown::Reject
    }

    /// What a session goes by whose client asks for this name, which is in lower case; `None` when
    /// it is refused.
    pub(crate) fn choose(&self, name: Option<&str>) -> Option<Choice<'_>> {
        let AtSocket { common, default, servers } = &*self.0;
        let site = name.and_then(|name| common.identities.site_of(name));
        if site.is_none() && name.is_some() && common.unknown == Unknown::Reject {
            return None;
        }
        let policy = *common.of_sites.get(site.unwrap_or(*default))?;
        Some(Choice { server: servers.get(policy)?, policy })
    }

    /// The number of the policy of a site: a connection that was made under another one may not
    /// ask it.
    pub fn policy_of(&self, site: usize) -> Option<usize> {
        self.0.common.of_sites.get(site).copied()
    }

    /// Whether a handshake may take long: by signatures of RSA, or because clients show
    /// certificates.
    pub fn is_slow(&self) -> bool {
        let Common { identities, policies, .. } = &*self.0.common;
        identities.sign_slowly() || policies.iter().any(|policy| policy.clients.is_some())
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
        let Common { identities, tickets, .. } = &*self.0.common;
        tickets.renew(&bundle.roots);
        if !bundle.pairs.is_empty() {
            identities.replace(bundle.pairs);
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
    let builder = ServerConfig::builder_with_details(Arc::clone(&provider), time)
        .with_protocol_versions(policy.versions())?;
    let builder = with_clients(builder, policy.clients.as_ref(), provider)?;
    let mut server = builder.with_cert_resolver(Arc::clone(resolver) as _);
    server.alpn_protocols = vec![HTTP_1_1.to_vec()];
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
    provider: Arc<CryptoProvider>,
) -> Result<ConfigBuilder<ServerConfig, WantsServerCert>, Box<dyn std::error::Error>> {
    let Some(clients) = clients else { return Ok(builder.with_no_client_auth()) };
    let mut roots = RootCertStore::empty();
    for root in &clients.roots {
        roots.add(root.clone())?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .with_crls(clients.lists.iter().cloned())
        .only_check_end_entity_revocation();
    let verifier = match clients.is_required {
        true => verifier.build()?,
        false => verifier.allow_unauthenticated().build()?,
    };
    Ok(builder.with_client_cert_verifier(verifier))
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
        Site { pairs: pairs.to_vec(), policy: Policy { only_1_3, clients: None } }
    }

    fn config(sites: Vec<Site>, unknown: Unknown) -> Result<Config, String> {
        let tickets = Arc::new(Tickets::new(&[], 0));
        let pairs = ["a.test", "b.test", "127.0.0.1"].map(pair).to_vec();
        let site_of = |name: &str| match name {
            "a.test" => Some(0),
            "b.test" => Some(1),
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
        assert_eq!(policy(&all.at([127, 0, 0, 1].into()).unwrap()), Some(1));
        assert_eq!(policy(&all.at([127, 0, 0, 2].into()).unwrap()), Some(0));
    }

    #[test]
    fn a_site_has_a_certificate_or_there_is_no_configuration() {
        assert!(config(vec![site(&[], false)], Unknown::Default).is_err());
        assert!(ClientAuth::from_pem(b"", b"", true).unwrap_err().contains("client-ca"));
    }
}
