//! Sites of different policies behind one listening socket, against a client of rustls.

use std::sync::Arc;

use flyball_tls::{
    Bundle, ClientAuth, Config, Failure, Pair, Policy, ROOT_BYTES, Root, Session, Site, State,
    Tickets, Unknown,
};
use rcgen::{CertificateParams, Issuer, KeyPair};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, SupportedProtocolVersion,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

const NOW_S: u64 = 1_800_000_000;

/// Three sites: one as usual, one without TLS 1.2, one whose clients show certificates.
struct Server {
    config: Config,
    pairs: Vec<Pair>,
    trusted: RootCertStore,
    /// A client's certificate that is accepted, with its key.
    client: (CertificateDer<'static>, Vec<u8>),
    /// Who issued it, by the number 7.
    authority: (rcgen::Certificate, Issuer<'static, KeyPair>),
}

impl Server {
    fn new(unknown: Unknown) -> Server {
        let mut trusted = RootCertStore::empty();
        let mut pairs = Vec::new();
        for name in ["a.test", "b.test", "c.test"] {
            let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
            trusted.add(made.cert.der().clone()).unwrap();
            let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
            pairs.push(Pair::from_pem(chain.as_bytes(), key.as_bytes()).unwrap());
        }
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.key_usages =
            vec![rcgen::KeyUsagePurpose::CrlSign, rcgen::KeyUsagePurpose::KeyCertSign];
        let authority = params.self_signed(&key).unwrap();
        let roots = ClientAuth::from_pem(authority.pem().as_bytes(), None, true).unwrap();
        let issuer = Issuer::new(params, key);
        let own = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["someone".to_owned()]).unwrap();
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        params.serial_number = Some(7.into());
        let client = params.signed_by(&own, &issuer).unwrap();
        let policies = [
            Policy::default(),
            Policy { only_1_3: true, clients: None },
            Policy { only_1_3: false, clients: Some(roots) },
        ];
        let config = Server::config(&pairs, policies, unknown);
        let client = (client.der().clone(), own.serialize_der());
        Server { config, pairs, trusted, client, authority: (authority, issuer) }
    }

    /// A list of these numbers that is to be replaced when this year begins.
    fn list(&self, revoked: &[u64], year: i32) -> String {
        let revoked = revoked.iter().map(|number| rcgen::RevokedCertParams {
            serial_number: (*number).into(),
            revocation_time: rcgen::date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = rcgen::CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2020, 1, 1),
            next_update: rcgen::date_time_ymd(year, 1, 1),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        params.signed_by(&self.authority.1).unwrap().pem().unwrap()
    }

    fn config(pairs: &[Pair], policies: [Policy; 3], unknown: Unknown) -> Config {
        let sites = policies.into_iter().enumerate();
        let sites =
            sites.map(|(at, policy)| Site { pairs: vec![at], policy, ..Site::default() }).collect();
        let site_of =
            |_: u16, name: &str| ["a.test", "b.test", "c.test"].iter().position(|n| *n == name);
        let tickets = Arc::new(Tickets::new(&[Root([1; ROOT_BYTES])], NOW_S));
        let pairs = pairs.iter().cloned().map(Some).collect();
        Config::new(pairs, sites, Box::new(site_of), tickets, unknown).unwrap()
    }

    fn clients(&self, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
        ClientConfig::builder_with_protocol_versions(versions)
            .with_root_certificates(self.trusted.clone())
            .with_no_client_auth()
    }

    fn with_certificate(&self) -> ClientConfig {
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.client.1.clone()));
        ClientConfig::builder()
            .with_root_certificates(self.trusted.clone())
            .with_client_auth_cert(vec![self.client.0.clone()], key)
            .unwrap()
    }

    /// A handshake, of whose hello so many bytes come at a time, and what became of it.
    fn connect(&self, clients: &Arc<ClientConfig>, name: &str, piece: usize) -> Met {
        let name = name.to_owned().try_into().unwrap();
        let mut client = ClientConnection::new(Arc::clone(clients), name).unwrap();
        let mut session = Session::accept(&self.config).unwrap();
        let (mut cipher, mut wire) = (Vec::new(), Vec::new());
        let mut state = State::Handshake;
        let mut failure = None;
        for _ in 0..4 {
            let mut said = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut said).unwrap();
            }
            for piece in said.chunks(piece) {
                cipher.extend_from_slice(piece);
                let opened = session.open(&mut cipher, &mut [0; 64], &mut wire);
                cipher.drain(..opened.used);
                state = opened.state;
            }
            if state == State::Open {
                session.seal([&b"x"[..]], 1, &mut wire);
            }
            let told = std::mem::take(&mut wire);
            let mut told = &told[..];
            while !told.is_empty() && failure.is_none() {
                client.read_tls(&mut told).unwrap();
                failure = client.process_new_packets().err();
            }
        }
        Met { client, session, state, failure }
    }
}

struct Met {
    client: ClientConnection,
    session: Session,
    state: State,
    /// Why the client gave up.
    failure: Option<rustls::Error>,
}

#[test]
fn each_name_has_the_policy_of_its_site_whatever_pieces_the_hello_comes_in() {
    let server = Server::new(Unknown::Default);
    let all = Arc::new(server.clients(&[&TLS13, &TLS12]));
    let old = Arc::new(server.clients(&[&TLS12]));
    for piece in [1, 7, 100, 10_000] {
        let met = server.connect(&all, "b.test", piece);
        assert_eq!((met.state, met.session.facts().unwrap().policy), (State::Open, 1));
        assert_eq!(met.session.name(), Some("b.test"));
        let met = server.connect(&old, "a.test", piece);
        assert_eq!((met.state, met.session.facts().unwrap().policy), (State::Open, 0));
        let met = server.connect(&old, "b.test", piece);
        assert_eq!(met.state, State::Failed(Failure::NothingInCommon));
        assert!(matches!(met.failure, Some(rustls::Error::AlertReceived(_))), "{:?}", met.failure);
    }
}

#[test]
fn a_client_without_a_certificate_is_refused_where_one_is_required() {
    let server = Server::new(Unknown::Default);
    let none = Arc::new(server.clients(&[&TLS13]));
    let met = server.connect(&none, "c.test", 10_000);
    assert_eq!(met.state, State::Failed(Failure::ClientCertificate));
    let some = Arc::new(server.with_certificate());
    let met = server.connect(&some, "c.test", 10_000);
    assert_eq!(met.state, State::Open);
    assert_eq!(met.session.facts().unwrap().client, Some(&server.client.0[..]));
    // There is nothing to resume: the certificate is looked at each time.
    let met = server.connect(&some, "c.test", 10_000);
    assert_eq!(met.client.handshake_kind(), Some(HandshakeKind::Full));
}

#[test]
fn an_unknown_name_is_refused_by_its_own_alert_or_gets_the_default() {
    let server = Server::new(Unknown::Reject);
    let clients = Arc::new(server.clients(&[&TLS13]));
    let met = server.connect(&clients, "d.test", 10_000);
    assert_eq!(met.state, State::Failed(Failure::NoCertificate));
    let unrecognized = rustls::AlertDescription::UnrecognisedName;
    assert_eq!(met.failure, Some(rustls::Error::AlertReceived(unrecognized)));
    assert_eq!(server.connect(&clients, "a.test", 10_000).state, State::Open);
    let server = Server::new(Unknown::Default);
    let clients = Arc::new(server.clients(&[&TLS13]));
    let met = server.connect(&clients, "d.test", 10_000);
    // It does not name it, which is the client's to judge.
    assert!(matches!(met.failure, Some(rustls::Error::InvalidCertificate(_))));
}

#[test]
fn a_ticket_resumes_at_sites_of_its_policy_alone() {
    let server = Server::new(Unknown::Default);
    for version in [&TLS13, &TLS12] {
        let clients = Arc::new(server.clients(&[version]));
        let kind = |name: &str| server.connect(&clients, name, 10_000).client.handshake_kind();
        assert_ne!(kind("a.test"), Some(HandshakeKind::Resumed));
        assert_eq!(kind("a.test"), Some(HandshakeKind::Resumed));
    }
    // A client offers it where the keys are the same and the policy is another.
    let clients = Arc::new(server.clients(&[&TLS13]));
    assert_eq!(server.connect(&clients, "a.test", 10_000).state, State::Open);
    let only_1_3 = Policy { only_1_3: true, clients: None };
    let policies = [only_1_3, Policy::default(), Policy::default()];
    let config = Server::config(&server.pairs, policies, Unknown::Default);
    let other = Server { config, ..server };
    let met = other.connect(&clients, "a.test", 10_000);
    let kind = met.client.handshake_kind();
    assert!(met.state == State::Open && kind != Some(HandshakeKind::Resumed), "{kind:?}");
}

#[test]
fn a_client_that_can_verify_no_certificate_is_told_that_the_handshake_fails() {
    let server = Server::new(Unknown::Default);
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    let schemes = &mut provider.signature_verification_algorithms.mapping;
    // Those of RSA come last; the keys here are of ECDSA.
    let is_rsa = |name: &str| name.starts_with("RSA");
    let at = schemes.iter().position(|(scheme, _)| is_rsa(&format!("{scheme:?}"))).unwrap();
    *schemes = &schemes[at..];
    for version in [&TLS13, &TLS12] {
        let clients = ClientConfig::builder_with_provider(Arc::new(provider.clone()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(server.trusted.clone())
            .with_no_client_auth();
        let met = server.connect(&Arc::new(clients), "a.test", 10_000);
        assert_eq!(met.state, State::Failed(Failure::NothingInCommon));
        let told = rustls::AlertDescription::HandshakeFailure;
        assert_eq!(met.failure, Some(rustls::Error::AlertReceived(told)));
    }
}

#[test]
fn clients_are_let_in_by_what_was_renewed_at_every_socket_and_by_no_list_that_is_over() {
    let server = Server::new(Unknown::Default);
    let elsewhere = server.config.at(Some([127, 0, 0, 9].into()), 0, None).unwrap();
    let some = Arc::new(server.with_certificate());
    assert_eq!(server.connect(&some, "c.test", 10_000).state, State::Open);
    // Of the clock, which says 2027, 2030 is to come.
    for (number, lists, state) in [
        (0, Some(server.list(&[], 2030)), State::Open),
        (0, Some(server.list(&[7], 2030)), State::Failed(Failure::ClientCertificate)),
        (0, None, State::Open),
        (0, Some(server.list(&[], 2025)), State::Failed(Failure::ClientCertificate)),
        (1, None, State::Failed(Failure::ClientCertificate)),
        (0, None, State::Open),
    ] {
        let roots = server.authority.0.pem();
        let lists = lists.as_ref().map(|lists| lists.as_bytes());
        let clients = ClientAuth::from_pem(roots.as_bytes(), lists, true).unwrap();
        let clients = vec![clients.numbered(number)];
        let bundle = Bundle { clients, ..Bundle::default() };
        elsewhere.take(Bundle::from_bytes(&bundle.to_bytes()).unwrap());
        assert_eq!(server.connect(&some, "c.test", 10_000).state, state, "{number}");
        assert_eq!(server.connect(&some, "a.test", 10_000).state, State::Open);
    }
}

#[test]
fn what_is_no_hello_is_refused_at_once() {
    let server = Server::new(Unknown::Default);
    let mut session = Session::accept(&server.config).unwrap();
    let (mut cipher, mut wire) = ([0x16, 3, 1, 0, 4, 2, 0, 0, 0], Vec::new());
    let opened = session.open(&mut cipher, &mut [0; 8], &mut wire);
    assert!(matches!(opened.state, State::Failed(_)), "{opened:?}");
    assert_eq!(wire.first(), Some(&0x15));
}

#[test]
fn an_authority_is_shown_its_challenge_whatever_the_site_asks_of_clients_and_nothing_follows() {
    for unknown in [Unknown::Default, Unknown::Reject] {
        let server = Server::new(unknown);
        let mut asking = server.clients(&[&TLS13, &TLS12]);
        asking.alpn_protocols = vec![b"acme-tls/1".to_vec()];
        let asking = Arc::new(asking);
        let early = server.connect(&asking, "c.test", 10_000);
        assert!(matches!(early.state, State::Failed(_)), "{:?}", early.state);
        let challenge = ("c.test".to_owned(), server.pairs[2].clone());
        server.config.take(Bundle { challenges: vec![challenge], ..Bundle::default() });
        for piece in [7, 10_000] {
            let met = server.connect(&asking, "c.test", piece);
            assert_eq!((met.state, met.failure), (State::PeerClosed, None));
            assert_eq!(met.session.facts().unwrap().protocol, Some(&b"acme-tls/1"[..]));
            assert!(met.client.peer_certificates().is_some());
        }
        let other = server.connect(&asking, "a.test", 10_000);
        assert_eq!(other.state, State::Failed(Failure::NoCertificate));
        // Others are served as before meanwhile.
        let usual = Arc::new(server.clients(&[&TLS13]));
        assert_eq!(server.connect(&usual, "a.test", 10_000).state, State::Open);
        server.config.take(Bundle::default());
        let late = server.connect(&asking, "c.test", 10_000);
        assert!(matches!(late.state, State::Failed(_)), "{:?}", late.state);
    }
}

#[test]
fn a_certificate_that_is_still_to_come_is_shown_as_soon_as_it_is_there() {
    let server = Server::new(Unknown::Default);
    let sites = vec![
        Site { pairs: vec![0], ..Site::default() },
        Site { pairs: vec![1], ..Site::default() },
    ];
    let site_of = |_: u16, name: &str| ["a.test", "b.test"].iter().position(|known| *known == name);
    let tickets = Arc::new(Tickets::new(&[], NOW_S));
    let pairs = vec![None, Some(server.pairs[1].clone())];
    let config = Config::new(pairs, sites, Box::new(site_of), tickets, Unknown::Default).unwrap();
    let server = Server { config, ..server };
    let clients = Arc::new(server.clients(&[&TLS13, &TLS12]));
    let early = server.connect(&clients, "a.test", 10_000);
    assert_eq!(early.state, State::Failed(Failure::NoCertificate));
    assert!(matches!(early.failure, Some(rustls::Error::AlertReceived(_))), "{:?}", early.failure);
    assert_eq!(server.connect(&clients, "b.test", 10_000).state, State::Open);
    let pair = (0, server.pairs[0].clone());
    server.config.take(Bundle { pairs: vec![pair], ..Bundle::default() });
    assert_eq!(server.connect(&clients, "a.test", 10_000).state, State::Open);
}
