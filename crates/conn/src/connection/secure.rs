//! A connection and its TLS: cipher text becomes input, and output becomes cipher text.

use std::ops::Range;

use flyball_http::CloseReason;
use flyball_http::h1::state::State;
use flyball_http::out::Memory;
use flyball_observe::counters::Counter;
use flyball_observe::histogram::Timing;
use flyball_site::File;
use flyball_tls::{Config, Failure, Opened, State as Stands};

use super::{Connection, lent};
use crate::buffers::Buffers;
use crate::context::Context;
use crate::needs::{Needs, SocketNeed};
use crate::transport::{Acknowledgement, BATCH_BYTES_MAX, Secure};
use crate::window::SendWindow;

/// What a client gets that speaks HTTP without TLS where TLS is spoken.
const CLEAR: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Connection: close\r\n\
    Content-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 61\r\n\r\n\
    This port speaks HTTPS: use https:// instead of http:// here\n";

/// What of the output is to be sealed next.
#[derive(Debug)]
pub enum Unsealed<'a> {
    /// Nothing: there is none, or what is sealed has to leave first.
    Nothing,
    /// What is in memory: [`Connection::seal`].
    Memory,
    /// A range of a file: [`Connection::seal_piece`] with its first bytes.
    File {
        /// The open file.
        file: &'a File,
        /// Offset of the first byte.
        offset: u64,
        /// Bytes of the body that are left.
        len: u64,
        /// Bytes that fit into the batch.
        room: usize,
        /// What is known of the file; only of one at the front of the output.
        window: Option<&'a SendWindow>,
    },
}

/// What counts handshakes that failed so.
fn counted(failure: Failure) -> Counter {
    match failure {
        Failure::Clear => Counter::TlsClear,
        Failure::NothingInCommon => Counter::TlsNothingInCommon,
        Failure::NoCertificate => Counter::TlsNoCertificate,
        Failure::ClientCertificate => Counter::TlsClientCertificate,
        Failure::Refused => Counter::TlsRefused,
        Failure::Malformed | Failure::TooLong | Failure::Exhausted => Counter::TlsMalformed,
    }
}

/// The first range of a file in the output.
#[derive(Clone, Copy, Debug)]
pub struct FileBody<'a> {
    /// The open file.
    pub file: &'a File,
    /// Offset of the first byte that has not left.
    pub offset: u64,
    /// Bytes of the body from there on.
    pub len: u64,
    /// How many of them are sealed.
    pub sealed: u64,
}

impl Connection {
    /// Speaks TLS from now on; to be called before anything is received.
    pub(super) fn secure(&mut self, config: &Config) {
        self.tls = Secure::accept(config, self.origin.client);
        match self.tls {
            Some(_) => self.conn.shakes_hands(),
            None => self.conn.abort(CloseReason::TlsFailed),
        }
    }

    /// Whether it speaks TLS.
    pub fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// Bytes were received: if there are any of its handshake, that has begun.
    pub(super) fn handshake_begins(&mut self, cx: &Context) {
        if let Some(tls) = &mut self.tls
            && tls.is_unopened
            && tls.began_ns == 0
        {
            tls.began_ns = cx.now_ns().max(1);
            self.conn.handshake_begins();
        }
    }

    /// Whether its handshake has begun and is not done.
    pub(super) fn shakes_hands(&self) -> bool {
        let is_on_its_way = |tls: &Secure| tls.began_ns > 0 && tls.session.is_handshaking();
        self.tls.as_deref().is_some_and(is_on_its_way)
    }

    /// Whether there is cipher text to be opened, and room for what that gives; or the client's end
    /// behind all of it, where that is wanted.
    pub(super) fn can_open(&self) -> bool {
        let Some(tls) = self.tls.as_deref() else { return false };
        let has_room = || self.buffers.as_ref().is_none_or(|buffers| buffers.input.has_room());
        match tls.is_unopened {
            true => !tls.waits_for_turn && has_room(),
            // As a socket does, it tells of its end whenever it is read from.
            false => tls.is_left && self.conn.wants().recv,
        }
    }

    /// Whether it goes on in another turn: this one has answered enough hellos.
    pub(super) fn waits_for_turn(&self) -> bool {
        self.tls.as_deref().is_some_and(|tls| tls.waits_for_turn)
    }

    /// Whether all that was received can be opened, so that there is room for more.
    pub(super) fn takes_cipher(&self) -> bool {
        self.tls.as_deref().is_none_or(|tls| !tls.is_unopened && !tls.is_left)
    }

    /// Whether the protocol has something to say, or what is sealed has not left.
    pub(super) fn has_wire(&self) -> bool {
        if self.tls.is_none() {
            return false;
        }
        let secure = self.buffers.as_ref().and_then(|buffers| buffers.secure.as_ref());
        secure.is_some_and(|secure| !secure.wire.is_empty())
    }

    /// What TLS wants of the socket, beside what the machine does.
    pub(super) fn fill_secure(&self, needs: &mut Needs) {
        let Some(tls) = self.tls.as_deref() else { return };
        needs.read &= self.takes_cipher();
        needs.write |= self.has_wire();
        if tls.acknowledgement == Acknowledgement::Due && needs.read && !needs.write {
            needs.socket = Some(SocketNeed::Acknowledge);
        }
    }

    /// What was received is acknowledged.
    pub fn acknowledged(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.acknowledgement = Acknowledgement::Done;
        }
    }

    /// Whether it ends as soon as its last words have left.
    pub(super) fn is_failing(&self) -> bool {
        self.tls.as_deref().is_some_and(|tls| tls.failing.is_some())
    }

    /// Whether nothing goes on before that has ended: its last words, or a step of its handshake
    /// that is taken elsewhere.
    pub(super) fn is_stopped(&self) -> bool {
        self.tls.as_deref().is_some_and(|tls| tls.failing.is_some() || tls.apart.is_some())
    }

    /// Opens what is whole; true when that has changed anything.
    pub(super) fn open(&mut self, cx: &mut Context) -> bool {
        if !self.can_open() {
            return false;
        }
        let Some(tls) = &mut self.tls else { return false };
        if !tls.is_unopened {
            self.ended(cx);
            return true;
        }
        if self.conn.state() == State::Lingering {
            self.throw_away(cx);
            return true;
        }
        if tls.is_put_off(cx.hellos.are_used_up()) {
            return false;
        }
        let was_handshaking = tls.session.is_handshaking();
        let (input, secure) = lent(&mut self.buffers, &mut self.exchange, cx).secured();
        let before = secure.wire.queued();
        let cipher = &mut secure.cipher;
        let opened = secure.wire.append(|wire| {
            let is_here = !tls.session.takes_long(cipher.bytes(), wire);
            is_here.then(|| tls.session.open(cipher.bytes_mut(), input.space(), wire))
        });
        let Some(opened) = opened else {
            self.shake_apart(cx);
            return true;
        };
        cipher.consume(opened.used);
        input.filled(opened.plain);
        let answered = secure.wire.queued() - before;
        if answered > 0 && tls.put_off.take().is_some() {
            cx.hellos.answered();
        }
        tls.leaving.add(0, answered);
        self.opened(opened, was_handshaking, cx)
    }

    /// Its last answer has left: what comes then is not opened. That it comes counts, as it does in
    /// the clear.
    fn throw_away(&mut self, cx: &mut Context) {
        let (Some(tls), Some(buffers)) = (&mut self.tls, &mut self.buffers) else { return };
        let Context { head, now, .. } = cx;
        let Buffers { out, secure, .. } = &mut **buffers;
        if let Some(secure) = secure {
            self.conn.recv(secure.cipher.bytes(), head, out, now);
            secure.cipher.clear();
        }
        tls.is_unopened = false;
    }

    /// Takes notice of what was opened; true when that has changed anything.
    pub(super) fn opened(
        &mut self,
        opened: Opened,
        was_handshaking: bool,
        cx: &mut Context,
    ) -> bool {
        let has_wire = self.has_wire();
        let Some(tls) = &mut self.tls else { return false };
        tls.is_unopened = tls.session.has_more();
        // A session whose handshake has failed is in none any more either.
        let has_failed = matches!(opened.state, Stands::Failed(_));
        if was_handshaking && !tls.session.is_handshaking() && !has_failed {
            let is_resumed = tls.agreed(&mut cx.agreed);
            let counter = if is_resumed { Counter::TlsResumed } else { Counter::TlsFull };
            cx.tally.add(counter, 1);
            cx.time(Timing::Handshake, cx.now_ns().saturating_sub(tls.began_ns));
            // Also where the client's request and its end came along.
            self.conn.begins(&cx.now);
            tls.acknowledgement.handshake_ended(has_wire);
        }
        if opened.plain > 0 {
            (self.unseen, tls.acknowledgement) = (true, Acknowledgement::Done);
        }
        match opened.state {
            Stands::Handshake => return false,
            Stands::Open => return was_handshaking || opened.plain > 0,
            // An authority has seen what it came for (RFC 8737, section 3). It waits for the end of
            // the handshake, which by TLS 1.2 is the server's to say.
            Stands::PeerClosed if was_handshaking && has_wire && !self.unseen => {
                (tls.failing, tls.is_unopened) = (Some(CloseReason::ClientDone), false);
            }
            // What it has said before that is seen first.
            Stands::PeerClosed => {
                let is_last = !tls.is_unopened;
                (tls.says_end, tls.is_left) = (is_last, is_last);
            }
            Stands::Failed(failure) => {
                if was_handshaking {
                    cx.tally.add(counted(failure), 1);
                }
                self.session_failed(failure, cx);
            }
        }
        true
    }

    /// The session cannot go on: the client is told why, and then it is over.
    fn session_failed(&mut self, failure: Failure, cx: &mut Context) {
        let Some(tls) = &mut self.tls else { return };
        if failure == Failure::Refused && tls.secured.is_some() {
            // As a reset would, it says that nothing more is taken.
            return self.client_left(cx);
        }
        tls.failing = Some(CloseReason::TlsFailed);
        let (_, secure) = lent(&mut self.buffers, &mut self.exchange, cx).secured();
        if failure == Failure::Clear
            && secure.cipher.bytes().first().is_some_and(u8::is_ascii_alphabetic)
        {
            secure.wire.append(|wire| wire.extend_from_slice(CLEAR));
            tls.leaving.add(0, CLEAR.len() as u64);
        }
        secure.cipher.clear();
        tls.is_unopened = false;
        if secure.wire.is_empty() {
            self.abort(CloseReason::TlsFailed);
        }
    }

    /// What of the output is to be sealed next.
    pub fn unsealed(&self) -> Unsealed<'_> {
        let (Some(tls), Some(buffers)) = (self.tls.as_deref(), self.buffers.as_deref()) else {
            return Unsealed::Nothing;
        };
        let sealed = tls.leaving.sealed();
        if tls.session.is_handshaking() || tls.failing.is_some() || buffers.out.is_empty() {
            return Unsealed::Nothing;
        }
        match buffers.out.first_file() {
            Some((before, file, offset, len)) if before == sealed => {
                let window = (before == 0).then_some(&buffers.window);
                let room =
                    BATCH_BYTES_MAX.saturating_sub(usize::try_from(sealed).unwrap_or(usize::MAX));
                match room {
                    0 => Unsealed::Nothing,
                    room => Unsealed::File { file, offset, len, room, window },
                }
            }
            _ if sealed == 0 => Unsealed::Memory,
            _ => Unsealed::Nothing,
        }
    }

    /// Seals what is in memory at the front of the output, as much as one batch may be.
    pub fn seal(&mut self) {
        let (Some(tls), Some(buffers)) = (&mut self.tls, &mut self.buffers) else { return };
        let ends = self.conn.ends_with_output();
        let (out, secure) = buffers.sealing();
        let before = secure.wire.queued();
        let sealed = secure.wire.append(|wire| {
            let chunks = out.memory().map(|memory| match memory {
                Memory::Inline(bytes) => bytes,
                Memory::Bytes(bytes) => bytes,
            });
            let sealed = tls.session.seal(chunks, BATCH_BYTES_MAX, wire) as u64;
            if ends && sealed == out.queued() {
                tls.session.close(wire);
            }
            sealed
        });
        tls.leaving.add(sealed, secure.wire.queued() - before);
        if sealed == 0 {
            self.abort(CloseReason::TlsFailed);
        }
    }

    /// Seals the next bytes of the file that [`Connection::unsealed`] has named, at most as many as
    /// fit, and returns how many.
    pub fn seal_piece(&mut self, bytes: &[u8]) -> usize {
        let (Some(tls), Some(buffers)) = (&mut self.tls, &mut self.buffers) else { return 0 };
        let ends = self.conn.ends_with_output();
        let (out, secure) = buffers.sealing();
        let done = tls.leaving.sealed();
        let room = BATCH_BYTES_MAX.saturating_sub(usize::try_from(done).unwrap_or(usize::MAX));
        let before = secure.wire.queued();
        let sealed = secure.wire.append(|wire| {
            let sealed = tls.session.seal([bytes], room, wire);
            if ends && done + sealed as u64 == out.queued() {
                tls.session.close(wire);
            }
            sealed
        });
        tls.leaving.add(sealed as u64, secure.wire.queued() - before);
        if sealed == 0 {
            self.abort(CloseReason::TlsFailed);
        }
        sealed
    }

    /// The file that is to be sent next, or sealed: where what is before it leaves first, it is not
    /// to be read yet.
    pub fn body(&self) -> Option<FileBody<'_>> {
        let (before, file, offset, len) = self.buffers.as_deref()?.out.first_file()?;
        match self.tls.as_deref() {
            None => (before == 0).then_some(FileBody { file, offset, len, sealed: 0 }),
            Some(tls) => {
                let sealed = tls.leaving.sealed().saturating_sub(before);
                Some(FileBody { file, offset, len, sealed })
            }
        }
    }

    /// Whether all of the output is sealed and stands in the wire buffer.
    pub fn is_all_sealed(&self) -> bool {
        let Some(tls) = self.tls.as_deref() else { return true };
        let queued = self.buffers.as_ref().map_or(0, |buffers| buffers.out.queued());
        tls.leaving.sealed() == queued
    }

    /// Lends what is sealed, where that is in one place: its memory, and which part of that is to
    /// be sent. Then [`Connection::give_back`], before anything else is done about output.
    pub fn lend(&mut self) -> Option<(Vec<u8>, Range<usize>)> {
        self.buffers.as_mut()?.secure.as_mut()?.wire.lend()
    }

    /// What was lent is there again.
    pub fn give_back(&mut self, memory: Vec<u8>) {
        if let Some(secure) = self.buffers.as_mut().and_then(|buffers| buffers.secure.as_mut()) {
            secure.wire.give_back(memory);
        }
    }

    /// `n` bytes of cipher text have left; returns how many bytes of the output have.
    pub(super) fn wire_sent(&mut self, n: u64) -> u64 {
        let (Some(tls), Some(buffers)) = (&mut self.tls, &mut self.buffers) else { return n };
        let (_, secure) = buffers.secured();
        secure.wire.sent(n);
        let is_all = secure.wire.is_empty();
        let plain = tls.leaving.left(n, is_all);
        if is_all && let Some(reason) = tls.failing {
            self.abort(reason);
        }
        plain
    }

    /// Its write side is to be shut down: first the notice that nothing follows is to leave, unless
    /// its last answer was cut.
    pub(super) fn says_end(&mut self, cx: &mut Context) {
        let Some(tls) = &mut self.tls else { return };
        if tls.session.is_handshaking() || self.conn.is_broken_off() {
            return;
        }
        let (_, secure) = lent(&mut self.buffers, &mut self.exchange, cx).secured();
        let before = secure.wire.queued();
        secure.wire.append(|wire| tls.session.close(wire));
        tls.leaving.add(0, secure.wire.queued() - before);
    }

    /// The client closes its side.
    pub(super) fn ended(&mut self, cx: &Context) {
        let is_between = self.is_between();
        if let Some(tls) = &mut self.tls {
            // Who only closes its socket reads nothing more, as far as is known.
            tls.ends_between |= tls.says_end && is_between;
            tls.is_left = true;
        }
        self.conn.eof(&cx.now);
    }

    /// Whether nothing is under way but the head of a request that has begun.
    fn is_between(&self) -> bool {
        matches!(self.conn.state(), State::Idle | State::Head)
    }

    /// The time of `drain` is over, and so is it: in order, if nothing was under way.
    pub fn cut_off(&mut self) {
        if self.is_between() {
            self.abort(CloseReason::Draining);
        }
    }

    /// What is sent once, without waiting, before its socket is closed: the notice that nothing
    /// follows. Nothing where that is said, or where not all was sent that should have been.
    pub fn last_words(&mut self) -> Vec<u8> {
        let mut words = Vec::new();
        if self.has_output() || self.is_cut_short() {
            return words;
        }
        let Some(tls) = &mut self.tls else { return words };
        let is_orderly = match self.conn.wants().close {
            Some(
                CloseReason::IdleTimeout
                | CloseReason::HeadTimeout
                | CloseReason::Draining
                | CloseReason::MadeRoom,
            ) => true,
            Some(CloseReason::ClientDone | CloseReason::ClientGone) => tls.ends_between,
            _ => false,
        };
        if is_orderly {
            tls.session.close(&mut words);
        }
        words
    }
}
