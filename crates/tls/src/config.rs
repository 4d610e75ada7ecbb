//! What the sessions of a listener have in common.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{Error, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::hello::Noted;

/// The protocol that is agreed on with a client that names some: HTTP/1.1 (RFC 7301, section 6).
const HTTP_1_1: &[u8] = b"http/1.1";

/// What the sessions of a listener have in common: certificates, versions, protocols.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) server: Arc<ServerConfig>,
}

impl Config {
    /// One certificate for all names: its chain, leaf first, and its key, both as PEM.
    ///
    /// # Errors
    /// Says what is wrong with the chain, with the key, or between the two.
    pub fn of_one(chain: &[u8], key: &[u8]) -> Result<Config, String> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|error| format!("the chain: {error}"))?;
        let key =
            PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("the key: {error}"))?;
        let server = with_certificate(chain, key).map_err(|error| error.to_string())?;
        Ok(Config { server: Arc::new(server) })
    }
}

fn with_certificate(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, Error> {
    let mut server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    server.cert_resolver = Arc::new(Noted(Arc::clone(&server.cert_resolver)));
    server.alpn_protocols = vec![HTTP_1_1.to_vec()];
    server.send_tls13_tickets = 1;
    Ok(server)
}
