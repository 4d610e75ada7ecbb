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
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, HandshakeKind, NamedGroup, ProtocolVersion,
    RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::config::HTTP_1_1;
use crate::failure::Failure;
use crate::session::{
    Carry, OVERHEAD, Opened, PLAIN_BYTES_MAX, RECORD_BYTES_MAX, State, encode, protect, read,
    record_len,
};

/// Most tickets that are kept for connections to come; the oldest are forgotten.
const TICKETS_MAX: usize = 4096;

/// Most bytes of a handshake that wait for the rest of their message: a chain of certificates may
/// be longer than a record.
const HANDSHAKE_BYTES_MAX: usize = 3 * RECORD_BYTES_MAX;

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
        let connection = UnbufferedClientConnection::new(config, self.name.clone())
            .map_err(|error| error.to_string())?;
        let mut session = ClientSession {
            connection,
            carry: Carry::default(),
            state: State::Handshake,
            has_more: false,
            has_closed: false,
            error: None,
        };
        session.process(&mut [], &mut [], wire);
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
    connection: UnbufferedClientConnection,
    /// Plain text that has been opened and had no room.
    carry: Carry,
    state: State,
    /// There may be more to open: what was not used is not an incomplete record.
    has_more: bool,
    has_closed: bool,
    /// Why it cannot go on.
    error: Option<Error>,
}

impl ClientSession {
    /// Opens what is whole in `cipher`, as [`Session::open`](crate::Session::open) does.
    pub fn open(&mut self, cipher: &mut [u8], plain: &mut [u8], wire: &mut Vec<u8>) -> Opened {
        let put = self.carry.pour(plain);
        let (used, opened) = match self.state {
            State::Handshake | State::Open if !self.carry.is_empty() => (0, 0),
            State::Handshake | State::Open => self.process(cipher, &mut plain[put..], wire),
            State::PeerClosed | State::Failed(_) => (cipher.len(), 0),
        };
        Opened { used, plain: put + opened, state: self.state }
    }

    /// Whether [`ClientSession::open`] can go on without more cipher text.
    pub fn has_more(&self) -> bool {
        self.has_more || !self.carry.is_empty()
    }

    /// Returns how much of `cipher` is used, and how much of `plain` is filled.
    fn process(
        &mut self,
        cipher: &mut [u8],
        plain: &mut [u8],
        wire: &mut Vec<u8>,
    ) -> (usize, usize) {
        let (mut used, mut put) = (0, 0);
        self.has_more = false;
        loop {
            let UnbufferedStatus { discard, state } =
                self.connection.process_tls_records(&mut cipher[used..]);
            let (mut is_at_end, mut is_full, mut is_over) = (false, false, false);
            match state {
                Ok(ConnectionState::ReadTraffic(records)) => {
                    put += read(records, &mut plain[put..], &mut self.carry);
                    is_full = put == plain.len() || !self.carry.is_empty();
                }
                Ok(ConnectionState::EncodeTlsData(data)) => encode(data, wire),
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => is_over = true,
                Ok(_) => is_at_end = true,
                Err(error) => {
                    self.fail(error, wire);
                    return (cipher.len(), put);
                }
            }
            used += discard;
            if !(is_full || is_at_end || is_over) {
                continue;
            }
            if self.state == State::Handshake && !self.connection.is_handshaking() {
                self.state = State::Open;
            }
            if is_over {
                (self.state, used) = (State::PeerClosed, cipher.len());
            }
            self.has_more = is_full && used < cipher.len();
            if is_at_end {
                self.judge(&cipher[used..]);
            }
            return (used, put);
        }
    }

    /// All that is whole has been processed, and this is left.
    fn judge(&mut self, left: &[u8]) {
        let is_processed = record_len(left).is_some_and(|len| len <= left.len());
        if is_processed && self.state == State::Open {
            self.state = State::Failed(Failure::Malformed);
        }
        let is_handshake = self.state == State::Handshake;
        if left.len() >= if is_handshake { HANDSHAKE_BYTES_MAX } else { RECORD_BYTES_MAX } {
            self.state = State::Failed(Failure::TooLong);
        }
    }

    /// It cannot go on: what was to be said before that, and the alert that says why, go out.
    fn fail(&mut self, error: Error, wire: &mut Vec<u8>) {
        self.state = State::Failed(match &error {
            Error::InvalidCertificate(_) => Failure::NoCertificate,
            error => Failure::of(error),
        });
        (self.has_closed, self.error) = (true, Some(error));
        while self.connection.wants_write() {
            match self.connection.process_tls_records(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(data)) => encode(data, wire),
                _ => return,
            }
        }
    }

    /// Seals `plain` as records at the end of `wire`, and returns how many bytes were sealed: none
    /// before the handshake is done.
    pub fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> usize {
        let mut sealed = 0;
        for record in plain.chunks(PLAIN_BYTES_MAX) {
            if !self.can_seal() || !self.write(record, wire) {
                break;
            }
            sealed += record.len();
        }
        sealed
    }

    /// Says that nothing follows (close_notify), once; nothing during a handshake.
    pub fn close(&mut self, wire: &mut Vec<u8>) {
        if self.can_seal() {
            self.write(&[], wire);
            self.has_closed = true;
        }
    }

    fn can_seal(&self) -> bool {
        matches!(self.state, State::Open | State::PeerClosed) && !self.has_closed
    }

    /// Appends one record, or the notice of the end for no plain text.
    fn write(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> bool {
        loop {
            match self.connection.process_tls_records(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(data)) => encode(data, wire),
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.state = State::PeerClosed,
                Ok(ConnectionState::WriteTraffic(traffic)) => {
                    let at = wire.len();
                    wire.resize(at + OVERHEAD + plain.len(), 0);
                    let written = protect(traffic, plain, &mut wire[at..]);
                    wire.truncate(at + written.as_ref().map_or(0, |len| *len));
                    if written.is_err() {
                        self.state = State::Failed(Failure::Exhausted);
                    }
                    return written.is_ok();
                }
                _ => return false,
            }
        }
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// Why it cannot go on, in words.
    pub fn why(&self) -> Option<String> {
        self.error.as_ref().map(Error::to_string)
    }

    /// Whether keys come from an earlier session.
    pub fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// What was agreed on, once the handshake is done: version, cipher suite and group, by their
    /// registered names.
    pub fn agreed(&self) -> String {
        let connection = &self.connection;
        let version = match connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => Some("TLSv1.3"),
            Some(_) => Some("TLSv1.2"),
            None => None,
        };
        let suite = connection.negotiated_cipher_suite().and_then(|one| one.suite().as_str());
        let group = connection.negotiated_key_exchange_group().map(|one| name_of(one.name()));
        [version, suite, group].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSession").field("state", &self.state).finish_non_exhaustive()
    }
}
