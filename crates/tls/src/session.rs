//! One connection's TLS: records in, plain text out, and the other way round.
//!
//! The shape is that of rustls' coming interface: the caller owns all buffers, records are opened
//! where they lie, and those that are made are appended to a buffer of the caller's. What a session
//! keeps beyond its keys is small: the rest of one record that had no room, and tickets that wait
//! for the next records.

use std::fmt;

use rustls::server::UnbufferedServerConnection;
use rustls::{Error, HandshakeKind};

use crate::challenges;
use crate::config::Config;
use crate::failure::Failure;
use crate::hello::{self, Look};
use crate::records::{Opened, Records, State, record_len};
use crate::suites;

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
    records: Option<Records<UnbufferedServerConnection>>,
    /// The number of the policy that it goes by.
    policy: usize,
    /// What chooses another, until the client's hello has been looked at.
    chooses: Option<Config>,
    long: Long,
    name: Option<Box<str>>,
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

impl Session {
    /// That of a connection that was accepted now.
    ///
    /// # Errors
    /// When the configuration contradicts itself.
    pub fn accept(config: &Config) -> Result<Session, String> {
        let choice = config.choose(None).ok_or("no certificate")?;
        let side = UnbufferedServerConnection::new(choice.server).map_err(|e| e.to_string())?;
        Ok(Session {
            records: Some(Records::new(side)),
            policy: choice.policy,
            chooses: config.looks_at_hello().then(|| config.clone()),
            ..Session::elsewhere()
        })
    }

    /// What stands in the place of one that is elsewhere: it is in a handshake, and does nothing.
    fn elsewhere() -> Session {
        Session { records: None, policy: 0, chooses: None, long: Long::default(), name: None }
    }

    /// Takes it away, for a step that takes long; what stays does nothing until it comes back.
    #[must_use]
    pub fn take(&mut self) -> Session {
        std::mem::replace(self, Session::elsewhere())
    }

    /// Whether [`Session::open`] would take long with this, so that others should not wait for it:
    /// it signs by RSA, or looks at a client's certificate. The same bytes must come then.
    pub fn takes_long(&mut self, cipher: &[u8], wire: &mut Vec<u8>) -> bool {
        let is_due = self.is_handshaking() && !self.is_clear(cipher) && self.choose(cipher, wire);
        is_due && self.is_long() && record_len(cipher).is_some_and(|len| len <= cipher.len())
    }

    /// Whether the next step of the handshake takes long.
    fn is_long(&self) -> bool {
        let kind = self.records.as_ref().and_then(|records| records.side.handshake_kind());
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
    /// message of a handshake is put together there. When as many as the longest record has do not
    /// suffice for that the session fails.
    pub fn open(&mut self, cipher: &mut [u8], plain: &mut [u8], wire: &mut Vec<u8>) -> Opened {
        let was_handshaking = self.is_handshaking();
        if was_handshaking && self.is_clear(cipher) {
            self.end(State::Failed(Failure::Clear));
            return Opened { used: 0, plain: 0, state: self.state() };
        }
        if was_handshaking && !self.choose(cipher, wire) {
            return Opened { used: 0, plain: 0, state: self.state() };
        }
        let before = wire.len();
        let Some(records) = &mut self.records else {
            return Opened { used: 0, plain: 0, state: State::Handshake };
        };
        let (mut opened, error) = records.open(cipher, plain, wire);
        if let Some(error) = error {
            self.fail(&error, wire);
        } else if was_handshaking {
            let is_answer = wire.len() > before;
            self.long.answers = self.long.answers.saturating_add(u8::from(is_answer));
            self.name = hello::take_name().or(self.name.take());
            if opened.state == State::Open && self.policy == challenges::POLICY {
                // An authority has seen by then what it came for (RFC 8737, section 3).
                self.end(State::PeerClosed);
            }
        }
        opened.state = self.state();
        opened
    }

    /// Looks at the client's hello, and goes by the policy of the name that it asks for. False
    /// while the hello is not whole, and when the client is refused.
    fn choose(&mut self, cipher: &[u8], wire: &mut Vec<u8>) -> bool {
        let Some(config) = self.chooses.take() else { return true };
        let hello = match hello::look(cipher) {
            Look::Incomplete => {
                self.chooses = Some(config);
                if let Some(records) = &mut self.records {
                    records.judge(cipher, wire);
                }
                return false;
            }
            Look::Whole(hello) => hello,
            Look::Wrong(error, alert) => {
                wire.extend(alert);
                self.end(State::Failed(Failure::of(&error)));
                return false;
            }
        };
        let choice = match hello.is_challenge {
            true => config.challenge(hello.name.as_deref()),
            false => config.choose(hello.name.as_deref()),
        };
        let Some(choice) = choice else {
            wire.extend(UNRECOGNIZED_NAME);
            self.end(State::Failed(Failure::NoCertificate));
            self.name = hello.name;
            return false;
        };
        self.long.answer = !hello.is_challenge && config.answers_slowly(&hello);
        self.long.rest = config.asks_clients(choice.policy);
        if choice.policy != self.policy {
            match UnbufferedServerConnection::new(choice.server) {
                Ok(side) => (self.records, self.policy) = (Some(Records::new(side)), choice.policy),
                Err(error) => {
                    self.end(State::Failed(Failure::of(&error)));
                    return false;
                }
            }
        }
        true
    }

    /// Whether the first bytes are none of TLS.
    fn is_clear(&self, cipher: &[u8]) -> bool {
        let has_begun = |records: &Records<UnbufferedServerConnection>| {
            records.side.protocol_version().is_some()
        };
        let is_first = self.records.as_ref().is_some_and(|records| !has_begun(records));
        is_first && cipher.first().is_some_and(|first| *first != HANDSHAKE)
    }

    /// Whether [`Session::open`] can go on without more cipher text.
    pub fn has_more(&self) -> bool {
        self.records.as_ref().is_some_and(Records::has_more)
    }

    /// It cannot go on.
    fn fail(&mut self, error: &Error, wire: &mut [u8]) {
        let failure = Failure::of(error);
        self.end(State::Failed(failure));
        self.name = hello::take_name().or(self.name.take());
        // The certificate of this name is still to come, for which rustls has another alert.
        if let [.., ALERT, 3, _, 0, 2, FATAL, what @ ACCESS_DENIED] = wire
            && failure == Failure::NoCertificate
        {
            *what = HANDSHAKE_FAILURE;
        }
    }

    fn state(&self) -> State {
        self.records.as_ref().map_or(State::Handshake, |records| records.state)
    }

    fn end(&mut self, state: State) {
        if let Some(records) = &mut self.records {
            records.state = state;
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
        self.records.as_mut().map_or(0, |records| records.seal(chunks, limit, wire))
    }

    /// Says that nothing follows (close_notify), once; nothing during a handshake.
    pub fn close(&mut self, wire: &mut Vec<u8>) {
        if let Some(records) = &mut self.records {
            records.close(wire);
        }
    }

    /// Whether nothing can be sealed yet.
    pub fn is_handshaking(&self) -> bool {
        self.state() == State::Handshake
    }

    /// The name that the client asked for, once its hello has come.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The same, for one who keeps it.
    pub fn take_name(&mut self) -> Option<Box<str>> {
        self.name.take()
    }

    /// What was agreed on, once the handshake is done.
    pub fn facts(&self) -> Option<Facts<'_>> {
        let records = self.records.as_ref().filter(|one| !one.side.is_handshaking())?;
        let side = &records.side;
        Some(Facts {
            name: self.name(),
            version: if records.is_tls13() { "TLSv1.3" } else { "TLSv1.2" },
            cipher: suites::name(side.negotiated_cipher_suite()?.suite()),
            group: side.negotiated_key_exchange_group().and_then(|one| one.name().as_str()),
            is_resumed: side.handshake_kind() == Some(HandshakeKind::Resumed),
            policy: self.policy,
            protocol: side.alpn_protocol(),
            client: side.peer_certificates().and_then(|chain| chain.first()).map(|c| &c[..]),
        })
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("state", &self.state()).finish_non_exhaustive()
    }
}
