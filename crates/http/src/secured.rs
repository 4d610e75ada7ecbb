//! What was agreed on for a connection over TLS, as a request of it tells.

/// What was agreed on for a connection over TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secured {
    /// The number of the policy that it was made under.
    pub policy: usize,
    /// The version, such as `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite, by the name that OpenSSL gives it.
    pub cipher: &'static str,
    /// The group of the key exchange, if there was one.
    pub group: Option<&'static str>,
    /// The name that the client asked for.
    pub name: Option<Box<str>>,
    /// Whether keys come from an earlier session.
    pub is_resumed: bool,
    /// The certificate that the client has shown: few do, and all keep room for it.
    pub client: Option<Box<ClientCertificate>>,
}

/// A client's certificate, which was verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Whom it was issued to, as RFC 4514 writes names.
    pub subject: String,
    /// Who issued it.
    pub issuer: String,
    /// Its number, in hexadecimal digits.
    pub serial: String,
    /// The SHA-256 of the certificate, in hexadecimal digits.
    pub fingerprint: String,
}

/// Whether a field of this name says what only the server knows: that a request came over TLS, and
/// by whose certificate. Programs and modules see none that a client has sent, since they may take
/// it for the server's own: `HTTPS`, and what begins with `SSL-` or `SSL_`.
pub fn is_claim(name: &[u8]) -> bool {
    let of_tls =
        |name: &[u8]| name.eq_ignore_ascii_case(b"ssl-") || name.eq_ignore_ascii_case(b"ssl_");
    name.eq_ignore_ascii_case(b"https") || name.get(..4).is_some_and(of_tls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_alone_knows_of_tls_is_a_claim_of_a_client() {
        for name in ["HTTPS", "https", "SSL-Client-Verify", "ssl_client_s_dn", "SSL-Protocol"] {
            assert!(is_claim(name.as_bytes()), "{name}");
        }
        for name in ["", "SSL", "SSLX", "X-SSL-Client-Verify", "HTTPS-Only", "Host"] {
            assert!(!is_claim(name.as_bytes()), "{name}");
        }
    }
}
