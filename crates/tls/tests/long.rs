//! Steps of a handshake that take long, against a client of rustls.

use std::sync::Arc;

use flyball_tls::{
    ClientAuth, Config, Pair, Policy, RECORD_BYTES_MAX, ROOT_BYTES, Root, Session, Site, State,
    Tickets, Unknown,
};
use rcgen::{
    CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, SignatureAlgorithm,
};
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::version::{TLS12, TLS13};
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, Error, RootCertStore,
    SupportedProtocolVersion,
};
use rustls_pki_types::PrivateKeyDer;

const NAME: &str = "a.test";

/// A site with a key of each of these kinds.
fn site(kinds: &[&'static SignatureAlgorithm], asks_clients: bool) -> (Config, RootCertStore) {
    let (mut trusted, mut pairs, mut authority) = (RootCertStore::empty(), Vec::new(), None);
    for kind in kinds {
        let key = KeyPair::generate_for(kind).unwrap();
        let params = CertificateParams::new([NAME.to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        trusted.add(certificate.der().clone()).unwrap();
        let (chain, key) = (certificate.pem(), key.serialize_pem());
        pairs.push(Some(Pair::from_pem(chain.as_bytes(), key.as_bytes()).unwrap()));
        authority = Some(chain);
    }
    let clients = authority.filter(|_| asks_clients);
    let clients = clients.map(|roots| ClientAuth::from_pem(roots.as_bytes(), None, false).unwrap());
    let policy = Policy { only_1_3: false, clients };
    let sites = vec![Site { pairs: (0..pairs.len()).collect(), policy, ..Site::default() }];
    let tickets = Arc::new(Tickets::new(&[Root([1; ROOT_BYTES])], 1_800_000_000));
    let config =
        Config::new(pairs, sites, Box::new(|_: u16, _: &str| Some(0)), tickets, Unknown::Default);
    (config.unwrap(), trusted)
}

/// Which flights of a client take long, where each step is taken by what [`Session::take`] gives.
fn long(
    (config, trusted): &(Config, RootCertStore),
    version: &'static SupportedProtocolVersion,
    groups: &[&'static dyn SupportedKxGroup],
) -> Vec<bool> {
    let provider = CryptoProvider { kx_groups: groups.to_vec(), ..default_provider() };
    let clients = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(trusted.clone())
        .with_no_client_auth();
    let mut client = ClientConnection::new(Arc::new(clients), NAME.try_into().unwrap()).unwrap();
    let mut session = Session::accept(config).unwrap();
    let (mut wire, mut found) = (Vec::new(), Vec::new());
    while client.wants_write() {
        let mut said = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut said).unwrap();
        }
        let (part, whole) = (&said[..said.len() / 2], &mut said.clone());
        if found.is_empty() {
            assert!(!session.takes_long(part, &mut wire), "it is not whole");
        }
        found.push(session.takes_long(whole, &mut wire));
        let mut taken = session.take();
        assert!(session.is_handshaking() && session.facts().is_none());
        assert_eq!(session.seal([&b"x"[..]], 1, &mut wire), 0);
        taken.open(whole, &mut [], &mut wire);
        session = taken;
        let mut told = &*std::mem::take(&mut wire);
        while !told.is_empty() {
            client.read_tls(&mut told).unwrap();
            client.process_new_packets().unwrap();
        }
    }
    let state = session.open(&mut [], &mut [], &mut wire).state;
    assert_eq!((client.is_handshaking(), state), (false, State::Open));
    assert!(!session.takes_long(&[0x17, 3, 3, 0, 0], &mut wire), "it is past its handshake");
    found
}

#[test]
fn a_signature_by_rsa_takes_long_and_what_follows_does_not() {
    let slow = site(&[&PKCS_RSA_SHA256], false);
    for version in [&TLS12, &TLS13] {
        assert_eq!(long(&slow, version, &[kx_group::X25519]), [true, false], "{version:?}");
    }
    // Its first hello is answered by asking for another one.
    let again: [&'static dyn SupportedKxGroup; 2] = [kx_group::MLKEM768, kx_group::X25519];
    assert_eq!(long(&slow, &TLS13, &again), [true, true, false]);
}

#[test]
fn a_key_of_rsa_that_is_not_used_takes_no_time() {
    let both = site(&[&PKCS_RSA_SHA256, &PKCS_ECDSA_P256_SHA256], false);
    let quick = site(&[&PKCS_ECDSA_P256_SHA256], false);
    for site in [both, quick] {
        assert_eq!(long(&site, &TLS13, &[kx_group::X25519]), [false, false]);
    }
}

#[test]
fn a_look_at_what_a_client_shows_takes_long() {
    let asking = site(&[&PKCS_ECDSA_P256_SHA256], true);
    for version in [&TLS12, &TLS13] {
        assert_eq!(long(&asking, version, &[kx_group::X25519]), [false, true], "{version:?}");
    }
}

/// A client whose chain is longer than its message may be is told so, also where the keys of its
/// handshake are agreed on.
#[test]
fn a_chain_that_is_too_long_is_refused_with_an_alert() {
    for version in [&TLS12, &TLS13] {
        let (config, trusted) = site(&[&PKCS_ECDSA_P256_SHA256], true);
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(["client".to_owned()]).unwrap().self_signed(&key).unwrap();
        let chain = vec![own.der().clone(); 24_000 / own.der().len()];
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = CryptoProvider { kx_groups: vec![kx_group::X25519], ..default_provider() };
        let clients = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(trusted)
            .with_client_auth_cert(chain, key)
            .unwrap();
        let mut client =
            ClientConnection::new(Arc::new(clients), NAME.try_into().unwrap()).unwrap();
        let mut session = Session::accept(&config).unwrap();
        let (mut said, mut cipher, mut ended) = (Vec::new(), Vec::new(), None);
        while ended.is_none() {
            while client.wants_write() {
                client.write_tls(&mut said).unwrap();
            }
            // As much as a connection keeps of it.
            let len = said.len().min(RECORD_BYTES_MAX - cipher.len());
            assert!(len > 0, "{version:?}: it waits for more");
            cipher.extend(said.drain(..len));
            let mut wire = Vec::new();
            let opened = session.open(&mut cipher, &mut [], &mut wire);
            cipher.drain(..opened.used);
            let mut told = &wire[..];
            while !told.is_empty() {
                client.read_tls(&mut told).unwrap();
                ended = ended.or(client.process_new_packets().err());
            }
            let has_failed = matches!(opened.state, State::Failed(_));
            assert_eq!(has_failed, ended.is_some(), "{version:?}");
        }
        let told = Some(Error::AlertReceived(AlertDescription::DecodeError));
        assert_eq!(ended, told, "{version:?}");
    }
}
