//! Certificates of clients whose keys may sign: that is what a client does with its key in a
//! handshake (RFC 8446, section 4.4.3). The library does not look at what keys are for.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use crate::x509::Certificate;

/// Accepts what another does, if its key may sign: one whose key usage has no digitalSignature is
/// for something else (RFC 5280, section 4.2.1.3; RFC 8446, section 4.4.2.2).
#[derive(Debug)]
pub(crate) struct Signers(pub(crate) Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Signers {
    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.0.verify_client_cert(own, between, now)?;
        match Certificate::parse(own) {
            Some(own) if own.may_sign => Ok(verified),
            Some(_) => Err(CertificateError::InvalidPurpose.into()),
            None => Err(CertificateError::BadEncoding.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, own, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, own, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
