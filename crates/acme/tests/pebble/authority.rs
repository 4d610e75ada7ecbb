//! Pebble, whose challenges a responder answers.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use flyball_testkit::pebble::Authority;
pub(crate) use flyball_testkit::pebble::{EXTERNAL, Ways, directory_at};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::responder::{Responder, answer_each};

/// Starts one that looks for challenges at the responder; `None` when Pebble is not installed.
pub(crate) fn start(responder: &Responder, ways: Ways) -> Option<Authority> {
    Authority::start((responder.http, responder.tls), ways)
}

/// A server with its certificate that answers every request so: status line and fields.
pub(crate) fn busy_front(authority: &Authority, head: &'static str) -> SocketAddr {
    let read = |name: &str| fs::read(authority.path(name)).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(&read("cert.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(&read("key.pem")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    answer_each(config, head)
}
