//! One connection's TLS: records in, plain text out, and the other way round.
//!
//! The shape is that of rustls' coming interface: the caller owns all buffers, records are opened
//! where they lie, and those that are made are appended to a buffer of the caller's. What a session
//! keeps beyond its keys is small: the rest of one record that had no room, and tickets that wait
//! for the next records.

use std::fmt;

use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError, ReadTraffic,
    UnbufferedStatus, WriteTraffic,
};
use rustls::{Error, HandshakeKind, ProtocolVersion};

use crate::challenges;
use crate::config::Config;
use crate::failure::Failure;
use crate::hello::{self, Look};
use crate::suites;

/// The longest record: five bytes in front of its plain text and what protects it, of which
/// TLS 1.2 allows most (RFC 5246, section 6.2.3).
pub const RECORD_BYTES_MAX: usize = 5 + PLAIN_BYTES_MAX + 2048;

/// Plain text of the longest record (RFC 8446, section 5.1).
pub const PLAIN_BYTES_MAX: usize = 16 * 1024;

/// Plain text of a connection's first record: a client can read it before a whole window of a new
/// connection has come.
const FIRST_PLAIN_BYTES: usize = 4 * 1024;

/// More than a record adds to its plain text.
pub(crate) const OVERHEAD: usize = 64;

/// The type of a record that begins a handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 0x16;

/// The alert for a name that no site has (RFC 8446, section 6.2): fatal, and 112.
const UNRECOGNIZED_NAME: [u8; 7] = [ALERT, 3, 3, 0, 2, FATAL, 112];

/// The kind of a record that holds an alert, and the levels and names of alerts in it (RFC 8446,
/// section 6).
const ALERT: u8 = 0x15;
const FATAL: u8 = 2;
const HANDSHAKE_FAILURE: u8 = 40;
const ACCESS_DENIED: u8 = 49;

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing can be sealed yet.
    Handshake,
    /// Both sides can speak.
    Open,
    /// The client has said that it sends no more; it may still be answered.
    PeerClosed,
    /// It cannot go on. What tells the client why is in the wire buffer.
    Failed(Failure),
}

/// What [`Session::open`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// So many bytes at the front of the cipher text are used.
    pub used: usize,
    /// So many bytes of plain text were put.
    pub plain: usize,
    /// Where the session stands now.
    pub state: State,
}

/// What was agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The name that the client asked for.
    pub name: Option<&'a str>,
    /// As it is logged: `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite, by the name that OpenSSL gives it.
    pub cipher: &'static str,
    /// The group of the key exchange; none where TLS 1.2 was resumed.
    pub group: Option<&'static str>,
    /// Whether keys come from an earlier session.
    pub is_resumed: bool,
    /// The number of the policy that it goes by: see [`Config::policy_of`].
    pub policy: usize,
    /// What is spoken inside, if the client named protocols.
    pub protocol: Option<&'a [u8]>,
    /// The client's own certificate, as DER, if it showed one.
    pub client: Option<&'a [u8]>,
}

/// The server's side of one connection.
pub struct Session {
    /// None while it is elsewhere: see [`Session::take`].
    connection: Option<UnbufferedServerConnection>,
    /// The number of the policy that it goes by.
    policy: usize,
    /// What chooses another, until the client's hello has been looked at.
    chooses: Option<Config>,
    long: Long,
    /// Plain text that has been opened and had no room.
    carry: Carry,
    /// Records that wait for the next ones: tickets of TLS 1.3. In a call of their own they would
    /// reset a client that has gone without reading, and its last request with it.
    held: Vec<u8>,
    name: Option<Box<str>>,
    state: State,
    /// There may be more to open: what was not used is not an incomplete record.
    has_more: bool,
    /// A record of plain text has been sealed.
    has_sealed: bool,
    has_closed: bool,
}

/// Which steps of a handshake take long.
#[derive(Clone, Copy, Debug, Default)]
struct Long {
    /// The answer to the client's hello, which is signed by RSA.
    answer: bool,
    /// What comes after that: the client shows a certificate.
    rest: bool,
    /// How often the client was answered.
    answers: u8,
}

/// The rest of one opened record.
#[derive(Debug, Default)]
pub(crate) struct Carry {
    bytes: Vec<u8>,
    taken: usize,
}

impl Carry {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Moves what fits.
    pub(crate) fn pour(&mut self, plain: &mut [u8]) -> usize {
        let left = &self.bytes[self.taken..];
        let len = left.len().min(plain.len());
        plain[..len].copy_from_slice(&left[..len]);
        self.taken += len;
        if self.taken == self.bytes.len() {
            *self = Carry::default();
        }
        len
    }
}

impl Session {
    /// That of a connection that was accepted now.
    ///
    /// # Errors
    /// When the configuration contradicts itself.
    pub fn accept(config: &Config) -> Result<Session, String> {
        let choice = config.choose(None).ok_or("no certificate")?;
        let connection =
            UnbufferedServerConnection::new(choice.server).map_err(|e| e.to_string())?;
        Ok(Session {
            connection: Some(connection),
            policy: choice.policy,
            chooses: config.looks_at_hello().then(|| config.clone()),
            ..Session::elsewhere()
        })
    }

    /// What stands in the place of one that is elsewhere: it is in a handshake, and does nothing.
    fn elsewhere() -> Session {
        Session {
            connection: None,
            policy: 0,
            chooses: None,
            long: Long::default(),
            carry: Carry::default(),
            held: Vec::new(),
            name: None,
            state: State::Handshake,
            has_more: false,
            has_sealed: false,
            has_closed: false,
        }
    }

    /// Takes it away, for a step that takes long; what stays does nothing until it comes back.
    #[must_use]
    pub fn take(&mut self) -> Session {
        std::mem::replace(self, Session::elsewhere())
    }

    /// Whether [`Session::open`] would take long with this, so that others should not wait for it:
    /// it signs by RSA, or looks at a client's certificate. The same bytes must come then.
    pub fn takes_long(&mut self, cipher: &[u8], wire: &mut Vec<u8>) -> bool {
        let is_due = self.state == State::Handshake
            && cipher.first().is_some_and(|first| !self.is_clear(*first))
            && self.choose(cipher, wire);
        is_due && self.is_long() && record_len(cipher).is_some_and(|len| len <= cipher.len())
    }

    /// Whether the next step of the handshake takes long.
    fn is_long(&self) -> bool {
        let connection = self.connection.as_ref();
        let kind = connection.and_then(|connection| connection.handshake_kind());
        // That one is asked to say its hello again, which is answered then.
        let is_asked_again = kind == Some(HandshakeKind::FullWithHelloRetryRequest);
        match self.long.answers > u8::from(is_asked_again) {
            false => self.long.answer,
            true => self.long.rest,
        }
    }

    /// Opens what is whole in `cipher`, in place, as far as `plain` has room. What the client is
    /// to be told, in a handshake or at its failure, is appended to `wire`.
    ///
    /// The bytes of `cipher` that are not used must come again unchanged, with more behind them: a
    /// message of a handshake is put together there. When [`RECORD_BYTES_MAX`] bytes do not suffice
    /// for that the session fails.
    pub fn open(&mut self, cipher: &mut [u8], plain: &mut [u8], wire: &mut Vec<u8>) -> Opened {
        let put = self.carry.pour(plain);
        let state = self.state;
        let (used, opened) = match state {
            State::Handshake if cipher.first().is_some_and(|first| self.is_clear(*first)) => {
                self.state = State::Failed(Failure::Clear);
                (0, 0)
            }
            // It has said that nothing follows: nothing that comes can be answered, and rustls
            // takes a fault for the second one.
            State::Handshake | State::Open if self.has_closed => (cipher.len(), 0),
            State::Handshake | State::Open if !self.carry.is_empty() => (0, 0),
            State::Handshake if !self.choose(cipher, wire) => (0, 0),
            State::Handshake | State::Open => self.process(cipher, &mut plain[put..], wire),
            // What comes after the end is not looked at (RFC 8446, section 6.1).
            State::PeerClosed | State::Failed(_) => (cipher.len(), 0),
        };
        Opened { used, plain: put + opened, state: self.state }
    }

    /// Looks at the client's hello, and goes by the policy of the name that it asks for. False
    /// while the hello is not whole, and when the client is refused.
    fn choose(&mut self, cipher: &[u8], wire: &mut Vec<u8>) -> bool {
        let Some(config) = self.chooses.take() else { return true };
        let hello = match hello::look(cipher) {
            Look::Incomplete => {
                self.chooses = Some(config);
                self.judge(cipher);
                return false;
            }
            Look::Whole(hello) => hello,
            Look::Wrong(error, alert) => {
                wire.extend(alert);
                self.state = State::Failed(Failure::of(&error));
                return false;
            }
        };
        let choice = match hello.is_challenge {
            true => config.challenge(hello.name.as_deref()),
            false => config.choose(hello.name.as_deref()),
        };
        let Some(choice) = choice else {
            wire.extend(UNRECOGNIZED_NAME);
            (self.state, self.name) = (State::Failed(Failure::NoCertificate), hello.name);
            return false;
        };
        self.long.answer = !hello.is_challenge && config.answers_slowly(&hello);
        self.long.rest = config.asks_clients(choice.policy);
        if choice.policy != self.policy {
            match UnbufferedServerConnection::new(choice.server) {
                Ok(connection) => {
                    (self.connection, self.policy) = (Some(connection), choice.policy);
                }
                Err(error) => {
                    self.state = State::Failed(Failure::of(&error));
                    return false;
                }
            }
        }
        true
    }

    /// Whether a first byte is none of TLS.
    fn is_clear(&self, first: u8) -> bool {
        let connection = self.connection.as_ref();
        connection.is_some_and(|one| one.protocol_version().is_none()) && first != HANDSHAKE
    }

    /// Whether [`Session::open`] can go on without more cipher text.
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
            let Some(connection) = &mut self.connection else { return (0, 0) };
            let UnbufferedStatus { discard, state } =
                connection.process_tls_records(&mut cipher[used..]);
            let (mut is_at_end, mut is_full, mut is_over) = (false, false, false);
            match state {
                Ok(ConnectionState::ReadTraffic(records)) => {
                    put += read(records, &mut plain[put..], &mut self.carry);
                    is_full = put == plain.len() || !self.carry.is_empty();
                }
                Ok(ConnectionState::EncodeTlsData(data)) => encode(data, &mut self.held),
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => is_over = true,
                Ok(_) => is_at_end = true,
                Err(error) => {
                    self.fail(&error, wire);
                    return (cipher.len(), put);
                }
            }
            used += discard;
            if !(is_full || is_at_end || is_over) {
                continue;
            }
            self.settle(wire);
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

    /// Takes notice of how far the handshake has come.
    fn settle(&mut self, wire: &mut Vec<u8>) {
        if self.state == State::Handshake {
            if let Some(name) = hello::take_name() {
                self.name = Some(name);
            }
            let is_done = self.connection.as_ref().is_some_and(|one| !one.is_handshaking());
            if is_done {
                // An authority has seen by then what it came for (RFC 8737, section 3).
                let is_challenge = self.policy == challenges::POLICY;
                self.state = if is_challenge { State::PeerClosed } else { State::Open };
            }
            // After the handshake TLS 1.3 has tickets to send; before, every record is due.
            if !(is_done && self.is_tls13()) {
                let is_answer = !self.held.is_empty();
                self.long.answers = self.long.answers.saturating_add(u8::from(is_answer));
                wire.append(&mut self.held);
                self.held = Vec::new();
            }
        }
    }

    /// All that is whole has been processed, and this is left.
    fn judge(&mut self, left: &[u8]) {
        let is_processed = record_len(left).is_some_and(|len| len <= left.len());
        if is_processed && self.state == State::Open {
            // A message of a handshake in pieces. None after the handshake is longer than a few
            // bytes, and rustls wants to see its pieces again whenever something is sealed.
            self.state = State::Failed(Failure::Malformed);
        }
        if left.len() >= RECORD_BYTES_MAX {
            self.state = State::Failed(Failure::TooLong);
        }
    }

    fn is_tls13(&self) -> bool {
        let version = self.connection.as_ref().and_then(|one| one.protocol_version());
        version == Some(ProtocolVersion::TLSv1_3)
    }

    /// It cannot go on: what was to be said before that, and the alert that says why, go out.
    fn fail(&mut self, error: &Error, wire: &mut Vec<u8>) {
        self.state = State::Failed(Failure::of(error));
        self.has_closed = true;
        self.name = hello::take_name().or(self.name.take());
        wire.append(&mut self.held);
        // Only what is queued is asked for: bytes that have failed are not looked at again.
        let Some(connection) = &mut self.connection else { return };
        while connection.wants_write() {
            match connection.process_tls_records(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(data)) => encode(data, wire),
                _ => return,
            }
        }
        // The certificate of this name is still to come, for which rustls has another alert.
        if let [.., ALERT, 3, _, 0, 2, FATAL, what @ ACCESS_DENIED] = &mut wire[..]
            && self.state == State::Failed(Failure::NoCertificate)
        {
            *what = HANDSHAKE_FAILURE;
        }
    }

    /// Seals at most `limit` bytes of the chunks as records at the end of `wire`, and returns how
    /// many bytes were sealed: none before the handshake is done.
    pub fn seal<'a>(
        &mut self,
        chunks: impl IntoIterator<Item = &'a [u8]>,
        limit: usize,
        wire: &mut Vec<u8>,
    ) -> usize {
        if !self.can_seal() {
            return 0;
        }
        let mut chunks = Chunks::new(chunks.into_iter(), limit);
        let mut sealed = 0;
        loop {
            let most = if self.has_sealed { PLAIN_BYTES_MAX } else { FIRST_PLAIN_BYTES };
            let len = match chunks.whole(most) {
                Some(record) => self.write(record.len(), Plain::At(record), wire),
                None => {
                    let at = wire.len();
                    let len = chunks.gather(most, wire);
                    if len == 0 {
                        return sealed;
                    }
                    self.write(len, Plain::InWire(at), wire)
                }
            };
            if len == 0 {
                return sealed;
            }
            self.has_sealed = true;
            sealed += len;
        }
    }

    /// Says that nothing follows (close_notify), once; nothing during a handshake.
    pub fn close(&mut self, wire: &mut Vec<u8>) {
        if self.can_seal() {
            self.write(0, Plain::None, wire);
            (self.has_closed, self.has_more) = (true, false);
        }
    }

    fn can_seal(&self) -> bool {
        matches!(self.state, State::Open | State::PeerClosed) && !self.has_closed
    }

    /// Seals one record of `len` bytes, or the notice of the end, at the end of `wire`. Returns how
    /// many bytes of plain text that took: 0 when the session can seal no more.
    fn write(&mut self, len: usize, plain: Plain<'_>, wire: &mut Vec<u8>) -> usize {
        // Plain text that stands in the wire buffer is moved behind the place of its record.
        let room = OVERHEAD + len + self.held.len();
        let at = match plain {
            Plain::InWire(at) => at,
            Plain::At(_) | Plain::None => wire.len(),
        };
        wire.resize(at + 2 * room + len, 0);
        if let Plain::InWire(_) = plain {
            wire.copy_within(at..at + len, at + 2 * room);
        }
        let (records, behind) = wire[at..].split_at_mut(2 * room);
        let plain = match plain {
            Plain::At(plain) => plain,
            Plain::InWire(_) | Plain::None => &*behind,
        };
        let written = self.write_into(&plain[..len], records);
        wire.truncate(at + written.unwrap_or(0));
        written.map_or(0, |_| len)
    }

    /// Writes what is held, and then one record, or the notice of the end for no plain text.
    fn write_into(&mut self, plain: &[u8], records: &mut [u8]) -> Option<usize> {
        let connection = self.connection.as_mut()?;
        loop {
            match connection.process_tls_records(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(data)) => encode(data, &mut self.held),
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.state = State::PeerClosed,
                Ok(ConnectionState::WriteTraffic(traffic)) => {
                    let at = self.held.len();
                    if at > records.len() {
                        return None;
                    }
                    records[..at].copy_from_slice(&self.held);
                    self.held = Vec::new();
                    return match protect(traffic, plain, &mut records[at..]) {
                        Ok(len) => Some(at + len),
                        Err(_) => {
                            self.state = State::Failed(Failure::Exhausted);
                            None
                        }
                    };
                }
                _ => return None,
            }
        }
    }

    /// Whether nothing can be sealed yet.
    pub fn is_handshaking(&self) -> bool {
        self.state == State::Handshake
    }

    /// The name that the client asked for, once its hello has come.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What was agreed on, once the handshake is done.
    pub fn facts(&self) -> Option<Facts<'_>> {
        let connection = self.connection.as_ref().filter(|one| !one.is_handshaking())?;
        Some(Facts {
            name: self.name(),
            version: if self.is_tls13() { "TLSv1.3" } else { "TLSv1.2" },
            cipher: suites::name(connection.negotiated_cipher_suite()?.suite()),
            group: connection.negotiated_key_exchange_group().and_then(|one| one.name().as_str()),
            is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
            policy: self.policy,
            protocol: connection.alpn_protocol(),
            client: connection.peer_certificates().and_then(|chain| chain.first()).map(|c| &c[..]),
        })
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Where the plain text of a record is.
enum Plain<'a> {
    At(&'a [u8]),
    /// In the wire buffer, from there on.
    InWire(usize),
    /// There is none: the end is told.
    None,
}

/// Chunks that are cut into records, up to a limit.
struct Chunks<'a, I> {
    rest: I,
    /// What is left of the chunk that is being used.
    chunk: &'a [u8],
    left: usize,
}

impl<'a, I: Iterator<Item = &'a [u8]>> Chunks<'a, I> {
    fn new(rest: I, limit: usize) -> Self {
        Chunks { rest, chunk: &[], left: limit }
    }

    /// The next bytes that can be used; empty at the end.
    fn next(&mut self, most: usize) -> &'a [u8] {
        while self.chunk.is_empty() {
            match self.rest.next() {
                Some(chunk) => self.chunk = chunk,
                None => return &[],
            }
        }
        &self.chunk[..self.chunk.len().min(self.left).min(most)]
    }

    fn take(&mut self, n: usize) {
        self.chunk = &self.chunk[n..];
        self.left -= n;
    }

    /// A whole record where it stands: what is shorter shares its record with what follows.
    fn whole(&mut self, most: usize) -> Option<&'a [u8]> {
        let record = self.next(most);
        if record.is_empty() || record.len() < most.min(self.left) {
            return None;
        }
        self.take(record.len());
        Some(record)
    }

    /// Appends a record's bytes, and returns how many.
    fn gather(&mut self, most: usize, to: &mut Vec<u8>) -> usize {
        let mut len = 0;
        while len < most {
            let part = self.next(most - len);
            if part.is_empty() {
                break;
            }
            to.extend_from_slice(part);
            self.take(part.len());
            len += part.len();
        }
        len
    }
}

/// Moves opened records into `plain`, and what has no room into `carry`.
pub(crate) fn read<Data>(
    mut records: ReadTraffic<'_, '_, Data>,
    plain: &mut [u8],
    carry: &mut Carry,
) -> usize {
    let mut put = 0;
    while let Some(Ok(record)) = records.next_record() {
        let len = record.payload.len().min(plain.len() - put);
        plain[put..put + len].copy_from_slice(&record.payload[..len]);
        carry.bytes.extend_from_slice(&record.payload[len..]);
        put += len;
    }
    put
}

/// Appends a record of the protocol's own.
pub(crate) fn encode<Data>(mut data: EncodeTlsData<'_, Data>, to: &mut Vec<u8>) {
    let at = to.len();
    let mut len = OVERHEAD;
    loop {
        to.resize(at + len, 0);
        match data.encode(&mut to[at..]) {
            Ok(written) => return to.truncate(at + written),
            Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size }))
                if required_size > len =>
            {
                len = required_size;
            }
            Err(_) => return to.truncate(at),
        }
    }
}

/// Protects one record, or the notice of the end for no plain text.
pub(crate) fn protect<Data>(
    mut traffic: WriteTraffic<'_, Data>,
    plain: &[u8],
    records: &mut [u8],
) -> Result<usize, EncryptError> {
    match plain.is_empty() {
        true => traffic.queue_close_notify(records),
        false => traffic.encrypt(plain, records),
    }
}

/// How long the record at the front is, once its length has come.
pub(crate) fn record_len(bytes: &[u8]) -> Option<usize> {
    let length = [*bytes.get(3)?, *bytes.get(4)?];
    Some(5 + usize::from(u16::from_be_bytes(length)))
}
