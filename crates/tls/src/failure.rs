//! Why a session cannot go on.

use rustls::Error;

/// Why a session cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The first byte is none of TLS: the client speaks in the clear.
    Clear,
    /// No version, cipher suite, group or protocol in common.
    NothingInCommon,
    /// There is no certificate for the name that the client asked for.
    NoCertificate,
    /// The client's own certificate is missing or not accepted.
    ClientCertificate,
    /// The client has said that it cannot go on.
    Refused,
    /// Bytes that are not what the protocol allows.
    Malformed,
    /// A message of the handshake is longer than any should be.
    TooLong,
    /// So much was sealed that the keys may protect no more.
    Exhausted,
}

impl Failure {
    pub(crate) fn of(error: &Error) -> Failure {
        match error {
            Error::AlertReceived(_) => Failure::Refused,
            Error::PeerIncompatible(_) | Error::NoApplicationProtocol => Failure::NothingInCommon,
            Error::NoCertificatesPresented
            | Error::InvalidCertificate(_)
            | Error::InvalidCertRevocationList(_) => Failure::ClientCertificate,
            Error::General(_) => Failure::NoCertificate,
            _ => Failure::Malformed,
        }
    }
}
