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
