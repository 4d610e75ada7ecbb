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

/// Whole names of fields that are claims, in lower case.
const CLAIMS: [&[u8]; 4] = [b"https", b"ssl", b"client-cert", b"client-cert-chain"];

/// Whether a field of this name says what only the server knows: that a request came over TLS, and
/// by whose certificate. Programs and modules see none that a client has sent, since they may take
/// it for the server's own: `HTTPS`, `SSL`, what begins with `SSL-`, and the fields by which one
/// server tells the next of a client's certificate (RFC 9440, section 2). A `_` is as good as a
/// `-`: in the names of variables both are the same.
pub fn is_claim(name: &[u8]) -> bool {
    let is_same = |byte: &u8, known: &u8| match byte {
        b'_' => *known == b'-',
        byte => byte.to_ascii_lowercase() == *known,
    };
    let is = |name: &[u8], known: &[u8]| {
        name.len() == known.len()
            && name.iter().zip(known).all(|(byte, known)| is_same(byte, known))
    };
    name.get(..4).is_some_and(|start| is(start, b"ssl-"))
        || CLAIMS.iter().any(|known| is(name, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_alone_knows_of_tls_is_a_claim_of_a_client() {
        for name in
            ["HTTPS", "https", "SSL", "ssl", "SSL-Client-Verify", "ssl_client_s_dn", "SSL-Protocol"]
        {
            assert!(is_claim(name.as_bytes()), "{name}");
        }
        for name in ["Client-Cert", "client-cert-CHAIN", "Client_Cert", "client-cert_chain"] {
            assert!(is_claim(name.as_bytes()), "{name}");
        }
        for name in ["", "SSLX", "X-SSL-Client-Verify", "HTTPS-Only", "Host", "Client"] {
            assert!(!is_claim(name.as_bytes()), "{name}");
        }
        for name in ["Client-Certs", "Client-Cert-", "X-Client-Cert", "Client.Cert"] {
            assert!(!is_claim(name.as_bytes()), "{name}");
        }
    }
}
