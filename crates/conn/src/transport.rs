//! What stands between a connection's bytes and those of its socket: nothing, or a session of TLS.
//!
//! Plain text stays in the output until what it was sealed into has left, so that all that is timed
//! and judged by the output means the same with and without TLS. A batch is sealed as a whole, and
//! the next one when it has left.

use std::sync::Arc;

use flyball_http::{ClientCertificate, CloseReason, Remote, Secured};
use flyball_site::Out;
use flyball_tls::{Certificate, Config, RECORD_BYTES_MAX, Session, fingerprint};

use crate::apart::Apart;
use crate::input::Input;

/// Plain text of a batch, at most: as much as one call to a socket takes, and few enough for others
/// to have their turn.
pub const BATCH_BYTES_MAX: usize = 64 * 1024;

/// Cipher text that spare buffers keep room for: one record.
const SPARE_WIRE_BYTES: usize = RECORD_BYTES_MAX;

/// TLS of one connection.
#[derive(Debug)]
pub struct Secure {
    pub(crate) session: Session,
    /// The step of the handshake that another thread takes.
    pub(crate) apart: Option<Arc<Apart>>,
    /// What was agreed on, once the handshake is done.
    pub(crate) secured: Option<Arc<Secured>>,
    /// There is cipher text, or plain text that had no room, which may be opened now.
    pub(crate) is_unopened: bool,
    /// When the first bytes came, on the clock of the thread, in nanoseconds; 0 before.
    pub(crate) began_ns: u64,
    /// How often others came before its hello is answered; nothing once it is.
    pub(crate) put_off: Option<u8>,
    /// Its hello is answered in another turn.
    pub(crate) waits_for_turn: bool,
    /// Its client has said that it sends no more.
    pub(crate) says_end: bool,
    /// Its client has said so, or has gone.
    pub(crate) is_left: bool,
    /// It has said so between two requests, or before the whole of one had come.
    pub(crate) ends_between: bool,
    /// It is over as soon as its last words have left.
    pub(crate) failing: Option<CloseReason>,
    pub(crate) leaving: Leaving,
    pub(crate) acknowledgement: Acknowledgement,
}

/// What acknowledges the end of the client's handshake. Where that is the last word of all, as by
/// TLS 1.3 and where TLS 1.2 is resumed, nothing of the server's does before the answer, and a
/// client that has not set TCP_NODELAY holds its request back until then (RFC 896): for 40 ms, by
/// which the kernel puts an acknowledgement off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acknowledgement {
    /// That is still to come.
    Ahead,
    /// Nothing does, if no request has come along.
    Due,
    /// Something does or has, or its socket knows no acknowledgements.
    Done,
}

impl Acknowledgement {
    /// The handshake is over; the server's last part of it is on its way, or is not.
    pub(crate) fn handshake_ended(&mut self, has_wire: bool) {
        *self = match self {
            Acknowledgement::Ahead if !has_wire => Acknowledgement::Due,
            _ => Acknowledgement::Done,
        };
    }
}

/// How often others may come before a hello is answered.
const PUT_OFF_MAX: u8 = 64;

impl Secure {
    /// Whether its hello is put off to another turn, since those of this one are used up. That is
    /// counted: in the end it is answered.
    pub(crate) fn is_put_off(&mut self, are_used_up: bool) -> bool {
        if let Some(times) = &mut self.put_off
            && are_used_up
            && *times < PUT_OFF_MAX
        {
            *times += 1;
            self.waits_for_turn = true;
        }
        self.waits_for_turn
    }

    /// Takes notice of what was agreed on; whether that was an earlier session.
    pub(crate) fn agreed(&mut self, agreed: &mut Agreed) -> bool {
        let Some(facts) = self.session.facts() else { return false };
        let client = facts.client.and_then(|der| {
            let Certificate { subject, issuer, serial, .. } = Certificate::parse(der)?;
            let fingerprint = fingerprint(der);
            Some(Box::new(ClientCertificate { subject, issuer, serial, fingerprint }))
        });
        let mut secured = Secured {
            policy: facts.policy,
            version: facts.version,
            cipher: facts.cipher,
            group: facts.group,
            name: None,
            is_resumed: facts.is_resumed,
            client,
        };
        secured.name = self.session.take_name();
        let is_resumed = secured.is_resumed;
        self.secured = Some(agreed.shared(secured));
        is_resumed
    }

    /// TLS of a connection from there that was accepted now; none where the configuration
    /// contradicts itself.
    pub(crate) fn accept(config: &Config, from: Remote) -> Option<Box<Secure>> {
        let acknowledgement = match from {
            Remote::Ip(_) => Acknowledgement::Ahead,
            Remote::Unix => Acknowledgement::Done,
        };
        Some(Box::new(Secure {
            session: Session::accept(config).ok()?,
            apart: None,
            secured: None,
            is_unopened: false,
            began_ns: 0,
            put_off: Some(0),
            waits_for_turn: false,
            says_end: false,
            is_left: false,
            ends_between: false,
            failing: None,
            leaving: Leaving::default(),
            acknowledgement,
        }))
    }
}

/// What was agreed on last, in full and by an earlier session: most connections of a thread agree
/// on the same, which they share.
#[derive(Debug, Default)]
pub struct Agreed([Option<Arc<Secured>>; 2]);

impl Agreed {
    fn shared(&mut self, secured: Secured) -> Arc<Secured> {
        let last = &mut self.0[usize::from(secured.is_resumed)];
        match last {
            Some(last) if **last == secured => Arc::clone(last),
            _ => Arc::clone(last.insert(Arc::new(secured))),
        }
    }
}

/// What is sealed and on its way, and how much has left.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leaving {
    /// Plain text at the front of the output that is sealed, with what has left of this batch.
    plain: u64,
    /// What it was sealed into, and what the protocol itself has to say.
    wire: u64,
    /// How much of that has left.
    sent: u64,
    /// How much plain text that is taken to be.
    told: u64,
    /// Plain text of all batches that has left.
    plain_total: u64,
    /// Cipher text of all batches that has left.
    wire_total: u64,
}

impl Leaving {
    /// Bytes at the front of the output that are sealed and have not left.
    pub(crate) fn sealed(&self) -> u64 {
        self.plain - self.told
    }

    /// So much more is on its way, for so many bytes of the output.
    pub(crate) fn add(&mut self, plain: u64, wire: u64) {
        self.plain += plain;
        self.wire += wire;
    }

    /// `n` bytes of cipher text have left, and they were the last if `is_all`. Returns how many
    /// bytes of the output have: the last of a batch with its last byte, and not before.
    pub(crate) fn left(&mut self, n: u64, is_all: bool) -> u64 {
        self.sent += n;
        let told = match is_all {
            true => self.plain,
            false => share(self.sent, self.plain, self.wire).min(self.plain.saturating_sub(1)),
        };
        // What is queued behind makes the share of what has left smaller.
        let news = told.saturating_sub(self.told);
        self.told += news;
        self.plain_total += news;
        self.wire_total += n;
        if is_all {
            self.forget();
        }
        news
    }

    /// How much plain text is in so many bytes that the socket holds.
    pub(crate) fn plain_in(&self, wire: u64) -> u64 {
        share(wire, self.plain_total, self.wire_total)
    }

    /// Nothing is on its way any more.
    pub(crate) fn forget(&mut self) {
        (self.plain, self.wire, self.sent, self.told) = (0, 0, 0, 0);
    }
}

/// The share of `part` in `all` that is so many bytes of `whole`, rounded down.
fn share(part: u64, all: u64, whole: u64) -> u64 {
    let share = u128::from(part) * u128::from(all) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// The buffers of TLS, while a connection has any.
#[derive(Debug)]
pub struct SecureBuffers {
    /// Cipher text that was received, from the first record that is not opened.
    pub(crate) cipher: Input,
    /// Cipher text that is to be sent. Only ever in memory.
    pub(crate) wire: Out,
}

impl SecureBuffers {
    pub(crate) fn new() -> Box<SecureBuffers> {
        let (cipher, wire) = (Input::new(RECORD_BYTES_MAX), Out::growing());
        Box::new(SecureBuffers { cipher, wire })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.cipher.is_empty() && self.wire.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.cipher.clear();
        self.wire.clear();
        self.wire.shrink_to(SPARE_WIRE_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_plain_byte_leaves_with_the_last_byte_of_its_record() {
        for step in [1, 7, 22, 100, 121, 122] {
            let mut leaving = Leaving::default();
            leaving.add(100, 122);
            let (mut left, mut told) = (122u64, 0);
            while left > 0 {
                let n = step.min(left);
                left -= n;
                told += leaving.left(n, left == 0);
                assert_eq!(told == 100, left == 0, "step {step}");
                assert_eq!(leaving.sealed(), if left == 0 { 0 } else { 100 - told });
            }
            assert_eq!(leaving.plain_in(122), 100);
        }
    }

    #[test]
    fn what_the_protocol_says_is_no_output() {
        let mut leaving = Leaving::default();
        leaving.add(0, 300);
        assert_eq!((leaving.left(200, false), leaving.sealed()), (0, 0));
        leaving.add(50, 72);
        let told = leaving.left(171, false);
        assert!(told < 50);
        // An alert is queued behind it.
        leaving.add(0, 100);
        assert_eq!(leaving.left(1, false), 0);
        assert_eq!(told + leaving.left(100, true), 50);
    }
}
