//! One side's records: those of its peer are opened, and its own are sealed. Server and client
//! differ in what they do about a handshake, and in nothing here.

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError, ReadTraffic,
    UnbufferedStatus, WriteTraffic,
};
use rustls::{CommonState, Error, ProtocolVersion};

use crate::failure::Failure;

/// The longest record: five bytes in front of its plain text and what protects it, of which
/// TLS 1.2 allows most (RFC 5246, section 6.2.3).
pub const RECORD_BYTES_MAX: usize = 5 + PLAIN_BYTES_MAX + 2048;

/// Most bytes of a client's message of a handshake, with its records, that wait for the rest of it:
/// those of the longest record.
const MESSAGE_BYTES_MAX: usize = 18_437;

const _: () = assert!(MESSAGE_BYTES_MAX == RECORD_BYTES_MAX);

/// That a message is longer, before any keys are agreed on (RFC 8446, section 6): an alert, fatal,
/// decode_error.
const TOO_LONG: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 50];

/// The head of a record that is longer than any may be (RFC 8446, section 5.2).
const LONGER_THAN_ANY: [u8; 5] = [0x17, 3, 3, 0xff, 0xff];

/// Plain text of the longest record (RFC 8446, section 5.1).
pub const PLAIN_BYTES_MAX: usize = 16 * 1024;

/// More than a record adds to its plain text.
const OVERHEAD: usize = 64;

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing can be sealed yet.
    Handshake,
    /// Both sides can speak.
    Open,
    /// Its peer has said that it sends no more; it may still be answered.
    PeerClosed,
    /// It cannot go on. What tells its peer why is in the wire buffer.
    Failed(Failure),
}

/// What opening did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// So many bytes at the front of the cipher text are used.
    pub used: usize,
    /// So many bytes of plain text were put.
    pub plain: usize,
    /// Where the session stands now.
    pub state: State,
}

/// A side of rustls.
pub(crate) trait Side {
    /// What rustls keeps for it.
    type Data;

    /// Whether what it has to say after the handshake waits for its next record.
    const HOLDS: bool;

    /// Whether it reads on when it has said its last, as one does that waits for an answer.
    const READS_ON: bool;

    /// Plain text of its first record.
    const FIRST_PLAIN_BYTES: usize;

    /// Most bytes of a handshake that wait for the rest of their message.
    const HANDSHAKE_BYTES_MAX: usize;

    /// Goes on until something is to be done.
    fn step<'c, 'i>(&'c mut self, cipher: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;

    /// What both sides of rustls know.
    fn common(&self) -> &CommonState;
}

impl Side for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    /// Tickets of TLS 1.3: in a call of their own they would reset a client that has gone without
    /// reading, and its last request with it.
    const HOLDS: bool = true;

    /// Nothing that comes then can be answered, and rustls takes a fault for the second one.
    const READS_ON: bool = false;

    /// A client can read it before a whole window of a new connection has come.
    const FIRST_PLAIN_BYTES: usize = 4 * 1024;

    const HANDSHAKE_BYTES_MAX: usize = MESSAGE_BYTES_MAX;

    fn step<'c, 'i>(&'c mut self, cipher: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(cipher)
    }

    fn common(&self) -> &CommonState {
        self
    }
}

impl Side for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    const HOLDS: bool = false;

    const READS_ON: bool = true;

    const FIRST_PLAIN_BYTES: usize = PLAIN_BYTES_MAX;

    /// A chain of certificates may be longer than a record.
    const HANDSHAKE_BYTES_MAX: usize = 3 * RECORD_BYTES_MAX;

    fn step<'c, 'i>(&'c mut self, cipher: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(cipher)
    }

    fn common(&self) -> &CommonState {
        self
    }
}

/// One side of a connection.
pub(crate) struct Records<S> {
    pub(crate) side: S,
    /// Plain text that has been opened and had no room, if there is any.
    carry: Option<Box<Carry>>,
    /// Records that wait for the next ones.
    held: Vec<u8>,
    pub(crate) state: State,
    /// There may be more to open: what was not used is not an incomplete record.
    has_more: bool,
    /// A record of plain text has been sealed.
    has_sealed: bool,
    has_closed: bool,
}

/// The rest of one opened record.
#[derive(Debug, Default)]
struct Carry {
    bytes: Vec<u8>,
    taken: usize,
}

impl<S: Side> Records<S> {
    /// Those of a connection that begins now.
    pub(crate) fn new(side: S) -> Records<S> {
        Records {
            side,
            carry: None,
            held: Vec::new(),
            state: State::Handshake,
            has_more: false,
            has_sealed: false,
            has_closed: false,
        }
    }

    /// Opens what is whole in `cipher`, in place, as far as `plain` has room, and appends what its
    /// peer is to be told to `wire`. Beside that the fault that ends it, from which the caller has
    /// its state, and what was to be said before it.
    pub(crate) fn open(
        &mut self,
        cipher: &mut [u8],
        plain: &mut [u8],
        wire: &mut Vec<u8>,
    ) -> (Opened, Option<Error>) {
        let put = self.pour(plain);
        let (used, opened, error) = match self.state {
            State::Handshake | State::Open if self.has_closed && !S::READS_ON => {
                (cipher.len(), 0, None)
            }
            State::Handshake | State::Open if self.carry.is_some() => (0, 0, None),
            State::Handshake | State::Open => self.process(cipher, &mut plain[put..], wire),
            // What comes after the end is not looked at (RFC 8446, section 6.1).
            State::PeerClosed | State::Failed(_) => (cipher.len(), 0, None),
        };
        (Opened { used, plain: put + opened, state: self.state }, error)
    }

    /// Whether [`Records::open`] can go on without more cipher text.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more || self.carry.is_some()
    }

    /// Moves what is carried as far as it fits.
    fn pour(&mut self, plain: &mut [u8]) -> usize {
        let Some(Carry { bytes, taken }) = self.carry.as_deref_mut() else { return 0 };
        let left = &bytes[*taken..];
        let len = left.len().min(plain.len());
        plain[..len].copy_from_slice(&left[..len]);
        *taken += len;
        if *taken == bytes.len() {
            self.carry = None;
        }
        len
    }

    /// Returns how much of `cipher` is used, how much of `plain` is filled, and what went wrong.
    fn process(
        &mut self,
        cipher: &mut [u8],
        plain: &mut [u8],
        wire: &mut Vec<u8>,
    ) -> (usize, usize, Option<Error>) {
        let (mut used, mut put) = (0, 0);
        self.has_more = false;
        loop {
            let UnbufferedStatus { discard, state } = self.side.step(&mut cipher[used..]);
            let (mut is_at_end, mut is_full, mut is_over) = (false, false, false);
            match state {
                Ok(ConnectionState::ReadTraffic(records)) => {
                    put += read(records, &mut plain[put..], &mut self.carry);
                    is_full = put == plain.len() || self.carry.is_some();
                }
                Ok(ConnectionState::EncodeTlsData(data)) => encode(data, &mut self.held),
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => is_over = true,
                Ok(_) => is_at_end = true,
                Err(error) => {
                    self.fail(wire);
                    return (cipher.len(), put, Some(error));
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
                self.judge(&cipher[used..], wire);
            }
            return (used, put, None);
        }
    }

    /// Takes notice of how far the handshake has come, and says what is due.
    fn settle(&mut self, wire: &mut Vec<u8>) {
        let was_handshaking = self.state == State::Handshake;
        let is_done = !self.side.common().is_handshaking();
        if was_handshaking && is_done {
            self.state = State::Open;
        }
        // In a handshake every record is due; after that a server of TLS 1.3 has tickets.
        let is_due = was_handshaking && !(is_done && self.is_tls13());
        if is_due || !S::HOLDS {
            wire.append(&mut self.held);
            self.held = Vec::new();
        }
    }

    /// All that is whole has been processed, and this is left. A peer whose message is too long is
    /// told so: in the clear while its own bytes are, and else by rustls, which alone seals by the
    /// keys of a handshake of TLS 1.3.
    pub(crate) fn judge(&mut self, left: &[u8], wire: &mut Vec<u8>) {
        let is_processed = record_len(left).is_some_and(|len| len <= left.len());
        if is_processed && self.state == State::Open {
            // A message of a handshake in pieces. None after the handshake is longer than a few
            // bytes, and rustls wants to see its pieces again whenever something is sealed.
            self.state = State::Failed(Failure::Malformed);
        }
        let is_handshake = self.state == State::Handshake;
        if left.len() >= if is_handshake { S::HANDSHAKE_BYTES_MAX } else { RECORD_BYTES_MAX } {
            self.state = State::Failed(Failure::TooLong);
            match is_handshake && self.is_tls13() {
                true => self.refuse(left, wire),
                false if is_handshake => wire.extend(TOO_LONG),
                false => {}
            }
        }
    }

    /// Has rustls refuse what is left, by showing it a record that none may be behind that: it has
    /// no alert of its own for a message that only we find too long.
    fn refuse(&mut self, left: &[u8], wire: &mut Vec<u8>) {
        let mut end = 0;
        while let Some(len) = record_len(&left[end..]).filter(|len| *len <= left.len() - end) {
            end += len;
        }
        let mut shown = [&left[..end], &LONGER_THAN_ANY].concat();
        let _ = self.side.step(&mut shown);
        self.fail(wire);
    }

    /// It cannot go on: what was to be said before that, and the alert that says why, go out.
    fn fail(&mut self, wire: &mut Vec<u8>) {
        self.has_closed = true;
        wire.append(&mut self.held);
        // Only what is queued is asked for: bytes that have failed are not looked at again.
        while self.side.common().wants_write() {
            match self.side.step(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(data)) => encode(data, wire),
                _ => return,
            }
        }
    }

    /// Seals at most `limit` bytes of the chunks as records at the end of `wire`, and returns how
    /// many bytes were sealed: none before the handshake is done.
    pub(crate) fn seal<'a>(
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
            let most = if self.has_sealed { PLAIN_BYTES_MAX } else { S::FIRST_PLAIN_BYTES };
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
    pub(crate) fn close(&mut self, wire: &mut Vec<u8>) {
        if self.can_seal() {
            self.write(0, Plain::None, wire);
            (self.has_closed, self.has_more) = (true, false);
        }
    }

    fn can_seal(&self) -> bool {
        matches!(self.state, State::Open | State::PeerClosed) && !self.has_closed
    }

    /// Seals one record of `len` bytes, or the notice of the end, at the end of `wire`. Returns how
    /// many bytes of plain text that took: 0 when no more can be sealed.
    fn write(&mut self, len: usize, plain: Plain<'_>, wire: &mut Vec<u8>) -> usize {
        self.hold();
        let room = self.held.len() + OVERHEAD + len;
        // Plain text that stands in the wire buffer is moved behind the place of its record.
        let (at, behind) = match plain {
            Plain::InWire(at) => (at, len),
            Plain::At(_) | Plain::None => (wire.len(), 0),
        };
        wire.resize(at + room + behind, 0);
        if let Plain::InWire(_) = plain {
            wire.copy_within(at..at + len, at + room);
        }
        let (records, behind) = wire[at..].split_at_mut(room);
        let plain = match plain {
            Plain::At(plain) => plain,
            Plain::InWire(_) | Plain::None => &*behind,
        };
        let written = self.write_into(&plain[..len], records);
        wire.truncate(at + written.unwrap_or(0));
        written.map_or(0, |_| len)
    }

    /// Holds what is due before a record.
    fn hold(&mut self) {
        loop {
            match self.side.step(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(data)) => encode(data, &mut self.held),
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.state = State::PeerClosed,
                _ => return,
            }
        }
    }

    /// Writes what is held, and then one record, or the notice of the end for no plain text.
    fn write_into(&mut self, plain: &[u8], records: &mut [u8]) -> Option<usize> {
        let Ok(ConnectionState::WriteTraffic(traffic)) = self.side.step(&mut []).state else {
            return None;
        };
        let (held, records) = records.split_at_mut(self.held.len());
        held.copy_from_slice(&self.held);
        self.held = Vec::new();
        match protect(traffic, plain, records) {
            Ok(len) => Some(held.len() + len),
            Err(_) => {
                self.state = State::Failed(Failure::Exhausted);
                None
            }
        }
    }

    pub(crate) fn is_tls13(&self) -> bool {
        self.side.common().protocol_version() == Some(ProtocolVersion::TLSv1_3)
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
fn read<Data>(
    mut records: ReadTraffic<'_, '_, Data>,
    plain: &mut [u8],
    carry: &mut Option<Box<Carry>>,
) -> usize {
    let mut put = 0;
    while let Some(Ok(record)) = records.next_record() {
        let len = record.payload.len().min(plain.len() - put);
        plain[put..put + len].copy_from_slice(&record.payload[..len]);
        if len < record.payload.len() {
            let carry = carry.get_or_insert_default();
            carry.bytes.extend_from_slice(&record.payload[len..]);
        }
        put += len;
    }
    put
}

/// Appends a record of the protocol's own.
fn encode<Data>(mut data: EncodeTlsData<'_, Data>, to: &mut Vec<u8>) {
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
fn protect<Data>(
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
