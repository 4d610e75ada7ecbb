//! The client's side of one connection, in the shape of [`Session`](crate::Session): what loads a
//! server, or looks at one, speaks TLS by it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue,
    UnbufferedClientConnection,
};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::time_provider::TimeProvider;
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, HandshakeKind, NamedGroup, ProtocolVersion,
    RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::config::HTTP_1_1;
use crate::failure::Failure;
use crate::records::{Opened, Records, State};

/// Most tickets that are kept for connections to come; the oldest are forgotten.
const TICKETS_MAX: usize = 4096;

/// Whose certificates a client accepts.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Those that name the host and were issued by one of these, as DER.
    Roots(Vec<Vec<u8>>),
    /// Any, if the server has its key.
    Anyone,
}

impl Trust {
    /// The certificates in PEM that a file holds.
    ///
    /// # Errors
    /// When it holds none, or something else.
    pub fn from_pem(pem: &[u8]) -> Result<Trust, String> {
        let roots: Vec<_> = CertificateDer::pem_slice_iter(pem)
            .map(|found| found.map(|root| root.to_vec()))
            .collect::<Result<_, _>>()
            .map_err(|error| format!("what is no certificate: {error}"))?;
        if roots.is_empty() {
            return Err("no certificate in PEM".to_owned());
        }
        Ok(Trust::Roots(roots))
    }
}

/// What the sessions with one server have in common: whom they trust, and tickets. A copy costs a
/// count, and shares the tickets.
#[derive(Clone, Debug)]
pub struct Client {
    /// For sessions that resume an earlier one, if there is a ticket.
    resuming: Arc<ClientConfig>,
    /// For those that do not; their tickets are kept all the same.
    full: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Client {
    /// That of a server with this name, which is asked for, or address. Certificates are judged by
    /// the time `now_s`, in seconds since 1970. With a `group`, such as `X25519`, no other is
    /// offered for the exchange of keys.
    ///
    /// # Errors
    /// When the name, a root or the group is none.
    pub fn new(
        host: &str,
        trust: &Trust,
        group: Option<&str>,
        now_s: u64,
    ) -> Result<Client, String> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("{host} is no name that a certificate can have"))?;
        let mut provider = default_provider();
        if let Some(group) = group {
            let all = names_of(&provider);
            provider.kx_groups.retain(|one| name_of(one.name()).eq_ignore_ascii_case(group));
            if provider.kx_groups.is_empty() {
                return Err(format!("{group} is none of the groups: {}", all.join(", ")));
            }
        }
        let (provider, kept) = (Arc::new(provider), Arc::new(Kept::default()));
        let mut resuming = config(provider, trust, now_s)?;
        // A copy: rustls resumes no session that another verifier has judged.
        let mut full = resuming.clone();
        full.resumption = Resumption::store(Arc::new(KeptOnly(Arc::clone(&kept))));
        resuming.resumption = Resumption::store(kept);
        Ok(Client { resuming: Arc::new(resuming), full: Arc::new(full), name })
    }

    /// Begins a session, which resumes an earlier one if it may and can, and appends its hello to
    /// `wire`.
    ///
    /// # Errors
    /// When the configuration contradicts itself.
    pub fn begin(&self, may_resume: bool, wire: &mut Vec<u8>) -> Result<ClientSession, String> {
        let config = Arc::clone(if may_resume { &self.resuming } else { &self.full });
        let side = UnbufferedClientConnection::new(config, self.name.clone())
            .map_err(|error| error.to_string())?;
        let mut session = ClientSession { records: Records::new(side), error: None };
        session.open(&mut [], &mut [], wire);
        Ok(session)
    }
}

fn config(
    provider: Arc<CryptoProvider>,
    trust: &Trust,
    now_s: u64,
) -> Result<ClientConfig, String> {
    let told = |error: Error| error.to_string();
    let builder = ClientConfig::builder_with_details(Arc::clone(&provider), Arc::new(At(now_s)))
        .with_safe_default_protocol_versions()
        .map_err(told)?;
    let builder = match trust {
        Trust::Roots(roots) => {
            let mut store = RootCertStore::empty();
            // A system's store may hold some that are of no use.
            store.add_parsable_certificates(
                roots.iter().map(|root| CertificateDer::from(&root[..])),
            );
            if store.is_empty() {
                return Err("no certificate of an authority can be used".to_owned());
            }
            builder.with_root_certificates(store)
        }
        Trust::Anyone => {
            let any = Arc::new(Anyone(provider));
            builder.dangerous().with_custom_certificate_verifier(any)
        }
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![HTTP_1_1.to_vec()];
    Ok(config)
}

fn names_of(provider: &CryptoProvider) -> Vec<&'static str> {
    provider.kx_groups.iter().map(|one| name_of(one.name())).collect()
}

fn name_of(group: NamedGroup) -> &'static str {
    group.as_str().unwrap_or("unknown")
}

/// The time that does not go on.
#[derive(Debug)]
struct At(u64);

impl TimeProvider for At {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0)))
    }
}

/// Accepts every certificate; that the server has its key is verified all the same.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _issuers: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, leaf, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, leaf, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// What sessions leave for those after them; all are with one server.
#[derive(Debug, Default)]
struct Kept(Mutex<Left>);

#[derive(Debug, Default)]
struct Left {
    group: Option<NamedGroup>,
    /// TLS 1.2: one may be resumed again and again.
    session: Option<Tls12ClientSessionValue>,
    /// TLS 1.3: each is used once (RFC 8446, appendix C.4).
    tickets: VecDeque<Tls13ClientSessionValue>,
}

impl Kept {
    fn left(&self) -> MutexGuard<'_, Left> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Kept {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.left().group = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.left().group
    }

    fn set_tls12_session(&self, _: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.left().session = Some(session);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.left().session.clone()
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.left().session = None;
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let mut left = self.left();
        if left.tickets.len() == TICKETS_MAX {
            left.tickets.pop_front();
        }
        left.tickets.push_back(ticket);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.left().tickets.pop_back()
    }
}

/// Keeps what sessions leave, and gives them nothing.
#[derive(Debug)]
struct KeptOnly(Arc<Kept>);

impl ClientSessionStore for KeptOnly {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.0.set_kx_hint(name, group);
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.0.kx_hint(name)
    }

    fn set_tls12_session(&self, name: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.0.set_tls12_session(name, session);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.0.remove_tls12_session(name);
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.0.insert_tls13_ticket(name, ticket);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        None
    }
}

/// The client's side of one connection.
pub struct ClientSession {
    records: Records<UnbufferedClientConnection>,
    /// Why it cannot go on.
    error: Option<Error>,
}

impl ClientSession {
    /// Opens what is whole in `cipher`, as [`Session::open`](crate::Session::open) does.
    pub fn open(&mut self, cipher: &mut [u8], plain: &mut [u8], wire: &mut Vec<u8>) -> Opened {
        let (mut opened, error) = self.records.open(cipher, plain, wire);
        if let Some(error) = error {
            self.records.state = State::Failed(match &error {
                Error::InvalidCertificate(_) => Failure::NoCertificate,
                error => Failure::of(error),
            });
            (opened.state, self.error) = (self.records.state, Some(error));
        }
        opened
    }

    /// Whether [`ClientSession::open`] can go on without more cipher text.
    pub fn has_more(&self) -> bool {
        self.records.has_more()
    }

    /// Seals `plain` as records at the end of `wire`, and returns how many bytes were sealed: none
    /// before the handshake is done.
    pub fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> usize {
        self.records.seal([plain], plain.len(), wire)
    }

    /// Says that nothing follows (close_notify), once; nothing during a handshake.
    pub fn close(&mut self, wire: &mut Vec<u8>) {
        self.records.close(wire);
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        self.records.state
    }

    /// Why it cannot go on, in words.
    pub fn why(&self) -> Option<String> {
        self.error.as_ref().map(Error::to_string)
    }

    /// Whether keys come from an earlier session.
    pub fn is_resumed(&self) -> bool {
        self.records.side.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// What was agreed on, once the handshake is done: version, cipher suite and group, by their
    /// registered names.
    pub fn agreed(&self) -> String {
        let side = &self.records.side;
        let version = match side.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => Some("TLSv1.3"),
            Some(_) => Some("TLSv1.2"),
            None => None,
        };
        let suite = side.negotiated_cipher_suite().and_then(|one| one.suite().as_str());
        let group = side.negotiated_key_exchange_group().map(|one| name_of(one.name()));
        [version, suite, group].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSession").field("state", &self.records.state).finish_non_exhaustive()
    }
}
