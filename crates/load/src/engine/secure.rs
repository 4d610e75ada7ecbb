//! TLS on the connections of a thread: a hello before the first request, and records in the place
//! of bytes.

use std::io;

use flyball_sys::clock::monotonic_ns;
use flyball_sys::net;
use flyball_tls::{ClientSession, State};

use super::connection::Phase;
use super::generator::Generator;
use super::{Closing, Secure};
use crate::observe::Kind;

/// Bytes of records that are received at once.
const RECORDS_BYTES: usize = 64 * 1024;

/// What a thread needs for TLS beside its sessions.
#[derive(Debug, Default)]
pub(super) struct Sealing {
    /// Records that are opened.
    records: Box<[u8]>,
    /// What is told in a handshake or at an end.
    wire: Vec<u8>,
    /// How much of a connection is due to be resumed: there is one to resume when it is whole.
    due: f64,
}

impl Sealing {
    pub(super) fn new(is_secure: bool) -> Sealing {
        let bytes = if is_secure { RECORDS_BYTES } else { 0 };
        Sealing { records: vec![0; bytes].into(), ..Sealing::default() }
    }

    /// Whether the next connection may resume an earlier session.
    fn next_resumes(&mut self, secure: &Secure) -> bool {
        self.due += secure.resume;
        let is_due = self.due >= 1.0;
        self.due -= f64::from(u8::from(is_due));
        is_due
    }
}

/// One connection's TLS.
#[derive(Debug)]
pub(super) struct Secured {
    session: ClientSession,
    /// Bytes received that are not a whole record yet.
    partial: Vec<u8>,
    /// When the connection was there, and the handshake could begin.
    begun_ns: u64,
}

impl Secured {
    /// The connection is there.
    pub(super) fn connected(&mut self, now_ns: u64) -> Phase {
        self.begun_ns = now_ns;
        Phase::Handshaking
    }

    /// Whether the server has said that it sends no more.
    pub(super) fn is_over(&self) -> bool {
        self.session.state() == State::PeerClosed
    }

    /// Appends `plain` as records.
    pub(super) fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) {
        self.session.seal(plain, wire);
    }
}

/// What one look at a connection brought.
pub(super) struct Received {
    /// Bytes from the socket.
    pub(super) received: usize,
    /// Bytes for the reader of replies; none when they were all of TLS's own.
    pub(super) plain: usize,
    /// Whether another look is worth it.
    pub(super) has_more: bool,
}

impl Generator<'_> {
    /// Sends a hello.
    ///
    /// # Errors
    /// When the socket takes nothing yet, or has failed.
    pub(super) fn greet(&mut self, slot: u32) -> io::Result<()> {
        let Some(secure) = &self.plan.secure else { return Ok(()) };
        let resumes = self.sealing.next_resumes(secure);
        let connection = &mut self.table[slot as usize];
        let begun = secure.client.begin(resumes, &mut connection.unsent);
        let session = begun.map_err(io::Error::other)?;
        let secured = Secured { session, partial: Vec::new(), begun_ns: 0 };
        connection.secured = Some(Box::new(secured));
        if self.behaviour.write_rate.is_some() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.flush(slot, monotonic_ns()).map(|_| ())
    }

    /// Receives at most `room` bytes behind the `held` ones that the input begins with; `None` at
    /// the end, and a kind of failure when the bytes are not what they should be.
    ///
    /// # Errors
    /// Those of the socket.
    pub(super) fn receive_some(
        &mut self,
        slot: u32,
        held: usize,
        room: usize,
    ) -> io::Result<Option<Result<Received, Kind>>> {
        let connection = &mut self.table[slot as usize];
        let Some(socket) = &connection.socket else { return Ok(None) };
        let Some(secured) = &mut connection.secured else {
            let received = net::recv(socket, &mut self.input[held..held + room])?;
            let all = Received { received, plain: received, has_more: received == room };
            return Ok((received > 0).then_some(Ok(all)));
        };
        if secured.is_over() && !secured.session.has_more() {
            return Ok(None);
        }
        let begun = secured.partial.len();
        let records = &mut self.sealing.records;
        records[..begun].copy_from_slice(&secured.partial);
        let (mut received, mut is_full) = (0, false);
        if !secured.session.has_more() {
            let most = room.min(records.len() - begun);
            received = net::recv(socket, &mut records[begun..begun + most])?;
            is_full = received == most;
            if received == 0 {
                return Ok(None);
            }
        }
        let (records, wire) = (&mut records[..begun + received], &mut self.sealing.wire);
        wire.clear();
        let opened = secured.session.open(records, &mut self.input[held..], wire);
        secured.partial.clear();
        secured.partial.extend_from_slice(&records[opened.used..]);
        if let State::Failed(_) = opened.state {
            // Why, for the server; there is no other use for the connection.
            let _ = net::send(socket, wire, false);
            return Ok(Some(Err(self.failed(slot))));
        }
        connection.unsent.extend_from_slice(wire);
        let has_more = is_full || secured.session.has_more() || secured.is_over();
        let plain = opened.plain;
        self.answer_records(slot)?;
        Ok(Some(Ok(Received { received, plain, has_more })))
    }

    /// What came may have ended the handshake, or asked for an answer by TLS itself.
    fn answer_records(&mut self, slot: u32) -> io::Result<()> {
        let connection = &mut self.table[slot as usize];
        let Some(secured) = &mut connection.secured else { return Ok(()) };
        let is_open = secured.session.state() != State::Handshake;
        let mut sent = Ok(());
        if connection.phase == Phase::Handshaking && is_open {
            connection.phase = Phase::Active;
            if connection.counts {
                let took_ns = monotonic_ns().saturating_sub(secured.begun_ns);
                self.tally.handshakes.done(secured.session.is_resumed(), took_ns);
                self.tally.handshakes.agree(|| secured.session.agreed());
            }
            sent = self.send_waiting(slot);
        }
        if sent.is_ok() && !self.table[slot as usize].unsent.is_empty() {
            sent = self.flush(slot, monotonic_ns()).map(|_| ());
        }
        match sent {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// The session cannot go on: as what that counts.
    fn failed(&mut self, slot: u32) -> Kind {
        let connection = &self.table[slot as usize];
        if connection.phase != Phase::Handshaking {
            return Kind::Malformed;
        }
        let why = connection.secured.as_ref().and_then(|secured| secured.session.why());
        self.tally.handshakes.failed_by(why);
        Kind::Handshake
    }

    /// Says that nothing follows, if the connection ends in good order: the server need not read
    /// it, and none waits for that.
    pub(super) fn take_leave(&mut self, slot: u32) {
        let connection = &mut self.table[slot as usize];
        let (Some(socket), Some(secured)) = (&connection.socket, &mut connection.secured) else {
            return;
        };
        // Behind half a record it would be none.
        let is_whole = connection.unsent.is_empty() && secured.session.state() == State::Open;
        if is_whole && self.behaviour.closing == Closing::Orderly {
            self.sealing.wire.clear();
            secured.session.close(&mut self.sealing.wire);
            let _ = net::send(socket, &self.sealing.wire, false);
        }
    }
}
