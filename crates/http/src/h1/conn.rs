//! The server's end of an HTTP/1.x connection, as a machine that never waits.
//!
//! The contract with every concurrency architecture:
//!
//! * Inputs mutate: [`Conn::recv`], [`Conn::eof`], [`Conn::asked`], [`Conn::deliver`],
//!   [`Conn::answered`], [`Conn::piece_asked`], [`Conn::piece`], [`Conn::taken`], [`Conn::sent`],
//!   [`Conn::shut`], [`Conn::expired`], [`Conn::drain`], [`Conn::break_off`], [`Conn::abort`].
//!   Inputs that format write into the [`Out`] that the driver lends.
//! * [`Conn::wants`] is pure and says what is next: more input, an answer, a taker for body bytes,
//!   a write, the next piece of a body that is being produced, a shutdown, the end.
//! * One mutation, then `wants`: a spurious wake-up mutates nothing.
//! * The driver owns the buffers. Bytes that `recv` did not consume are given again, with more
//!   behind them; the bytes of a head stay readable until the next input.
//! * [`Conn::deadline`] is one number, and time is an argument.

mod ends;
mod message;
mod output;
mod pieces;
mod places;

use std::sync::Arc;

use self::ends::Ending;
use self::message::{Ask, Message};
use self::output::Output;
use super::progress::Progress;
use super::state::{Event, State};
use super::stream::{Delimited, Stream};
use crate::answer::{Answer, AnswerFields, Body};
use crate::body::Piece;
use crate::date::format_date;
use crate::error::{CloseReason, Refusal};
use crate::field::Name;
use crate::fields::Fields;
use crate::framing::{Framing, Hop};
use crate::head::Head;
use crate::limits::Limits;
use crate::out::Out;
use crate::scan::parse_head;
use crate::{Now, Status};

/// A body up to this long joins its head in one buffer when no other answer is queued: a plain send
/// costs 2 to 3 % less per request than a gather write of two pieces, and the copy is cheap.
const COPIED_BYTES_MAX: usize = 2048;

/// The first byte of a client that speaks TLS: the type of a record (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 0x16;

/// The blank line that ends a head.
const END: &[u8] = b"\r\n";

/// What the connection wants next; scratch, one per worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// The request in the head that `recv` just filled wants an answer.
    pub ask: bool,
    /// This many bytes at the front of the input are request body and want a taker.
    pub body: usize,
    /// Input that is already in memory can be used: call `recv` with it.
    pub recv: bool,
    /// More input is wanted from the socket.
    pub read: bool,
    /// Output waits to be written.
    pub write: bool,
    /// There is room for the next piece of the body that is being produced. A driver that has to
    /// wait for that piece writes what is queued first.
    pub piece: bool,
    /// The write side wants to be shut down: do it, then call `shut`.
    pub shut: bool,
    /// The connection is over.
    pub close: Option<CloseReason>,
}

/// What comes before the first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handshake {
    /// Nothing.
    None,
    /// A handshake of which nothing has come.
    Awaited,
    /// The rest of one.
    UnderWay,
    /// One that is done.
    Done,
}

/// The server's end of one connection.
#[derive(Debug)]
pub struct Conn {
    limits: Arc<Limits>,
    state: State,
    message: Message,
    output: Output,
    ending: Ending,
    refused: Option<Refusal>,
    /// Nothing was ever asked.
    fresh: bool,
    handshake: Handshake,
    /// Its client says that it sends no more, in bytes of their own, and has not done so yet.
    says_end: bool,
    /// Answers are for this client alone.
    private: bool,
    since_ms: u64,
    incoming: Progress,
}

impl Conn {
    /// A connection that was accepted now.
    pub fn new(limits: Arc<Limits>, now: &Now) -> Conn {
        Conn {
            limits,
            state: State::Idle,
            message: Message::default(),
            output: Output::default(),
            ending: Ending::default(),
            refused: None,
            fresh: true,
            handshake: Handshake::None,
            says_end: false,
            private: false,
            since_ms: now.ms(),
            incoming: Progress::default(),
        }
    }

    /// A handshake comes before its first request, and has its own time; after it,
    /// [`Conn::begins`]. Its client then says that it sends no more before it closes its side
    /// (RFC 8446, section 6.1).
    pub fn shakes_hands(&mut self) {
        (self.handshake, self.says_end) = (Handshake::Awaited, true);
    }

    /// The first bytes of its handshake have come. Its first request belongs to that, and is under
    /// way as one is whose first byte has come: it is kept, also when it should have ended idle.
    pub fn handshake_begins(&mut self) {
        if self.handshake == Handshake::Awaited {
            (self.handshake, self.ending.idle_end) = (Handshake::UnderWay, None);
        }
    }

    /// Its first request may come from now on.
    pub fn begins(&mut self, now: &Now) {
        if self.shakes() {
            (self.handshake, self.since_ms) = (Handshake::Done, now.ms());
        }
    }

    /// Whether a handshake is awaited, or the rest of one.
    fn shakes(&self) -> bool {
        matches!(self.handshake, Handshake::Awaited | Handshake::UnderWay)
    }

    /// Whether its first request is under way with the handshake before it.
    fn is_greeting(&self) -> bool {
        self.fresh && matches!(self.handshake, Handshake::UnderWay | Handshake::Done)
    }

    /// Where the connection stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// What the connection wants next. Pure.
    pub fn wants(&self) -> Wants {
        let recv = match self.state {
            State::Idle | State::Head => !self.output.full,
            State::AskedBody | State::Exchanging => self.message.awaits_body(),
            State::AnsweredBody => true,
            State::Streaming | State::Parting => self.discards_beside(),
            State::Lingering => self.ending.shut,
            _ => false,
        };
        // While answers wait to be sent, further requests stay in the socket: that is the
        // back-pressure on a client that pipelines without reading.
        let head_next = matches!(self.state, State::Idle | State::Head);
        Wants {
            ask: self.message.ask == Ask::Wanted,
            body: if self.takes_body() { self.message.body_ready } else { 0 },
            recv,
            read: recv && !(self.output.pending && head_next),
            write: self.output.pending,
            piece: self.awaits_piece() && self.message.stream.wants_piece(),
            shut: self.state == State::Lingering && !self.ending.shut,
            close: if self.state == State::Closed { self.ending.reason } else { None },
        }
    }

    /// When `expired` is due, in monotonic milliseconds; `u64::MAX` when nothing is timed.
    pub fn deadline(&self) -> u64 {
        let limits = &self.limits;
        let phase = match self.state {
            _ if self.ending.makes_room => self.since_ms,
            State::Idle if self.output.pending => u64::MAX,
            State::Idle if self.ending.idle_end.is_some() => self.since_ms,
            State::Idle if self.output.is_taken_late => self.output.taking.judged_at(),
            State::Idle if self.shakes() => self.since_ms + limits.handshake_ms,
            State::Idle if self.fresh => self.since_ms + limits.head_ms,
            State::Idle => self.since_ms + limits.idle_ms,
            State::Head if self.output.pending => u64::MAX,
            State::Head => self.since_ms + limits.head_ms,
            State::AskedBody | State::Exchanging if self.message.awaits_body() => {
                self.incoming.window_end()
            }
            State::AnsweredBody => self.incoming.window_end(),
            State::Asked | State::AskedBody | State::Streaming | State::Exchanging
                if self.message.backend =>
            {
                u64::MAX
            }
            State::Asked | State::AskedBody => self.since_ms + limits.answer_ms,
            State::Streaming | State::Exchanging
                if self.output.pending && !self.message.stream.is_asked() =>
            {
                u64::MAX
            }
            State::Streaming | State::Exchanging => self.since_ms + limits.answer_ms,
            State::Closing | State::Parting | State::Closed => u64::MAX,
            State::Lingering => self.lingers_until(),
            State::Breaking => self.since_ms,
        };
        if self.output.pending { phase.min(self.output.taking.judged_at()) } else { phase }
    }

    /// Takes input and says how many bytes of it are consumed. One head at most is parsed, into
    /// `head`; then `wants().ask` is set.
    pub fn recv<F>(&mut self, input: &[u8], head: &mut Head, out: &mut Out<F>, now: &Now) -> usize {
        let consumed = match self.state {
            State::Idle | State::Head => self.recv_head(input, head, out, now),
            State::AskedBody | State::AnsweredBody | State::Exchanging => {
                self.recv_body(input, out, now)
            }
            State::Streaming | State::Parting if self.discards_beside() => {
                self.message.drained_bytes += input.len() as u64;
                input.len()
            }
            State::Lingering => self.recv_lingering(input, now),
            _ => 0,
        };
        self.check_invariants();
        consumed
    }

    fn recv_head<F>(
        &mut self,
        input: &[u8],
        head: &mut Head,
        out: &mut Out<F>,
        now: &Now,
    ) -> usize {
        if input.is_empty() {
            return 0;
        }
        if self.state == State::Idle {
            if self.fresh && input.first() == Some(&TLS_HANDSHAKE) {
                // Nothing that is said in the clear would be understood.
                self.abort(CloseReason::TlsInClear);
                return input.len();
            }
            self.go(Event::FirstByte);
            self.since_ms = now.ms();
            self.output.is_taken_late = false;
        }
        let parsed = match self.message.scan.advance(input, &self.limits) {
            Ok(None) => return 0,
            Ok(Some(len)) => parse_head(&input[..len], &self.limits, head).map(|hop| (len, hop)),
            Err(refusal) => Err(refusal),
        };
        match parsed {
            Ok((len, hop)) => {
                self.head_ended(head, hop, input.len() > len, now);
                len
            }
            Err(refusal) => {
                self.refuse(refusal, CloseReason::Refused, out, now);
                input.len()
            }
        }
    }

    fn head_ended(&mut self, head: &Head, hop: Hop, surplus: bool, now: &Now) {
        self.fresh = false;
        self.since_ms = now.ms();
        self.message.head_ended(head, hop, surplus, &self.limits);
        let has_body = hop.framing != Framing::None;
        self.go(if has_body { Event::HeadEndBody } else { Event::HeadEnd });
    }

    fn recv_body<F>(&mut self, input: &[u8], out: &mut Out<F>, now: &Now) -> usize {
        if self.takes_body() && !self.message.deliver {
            return 0;
        }
        let mut at = 0;
        loop {
            match self.message.body.read(&input[at..]) {
                Err(refusal) => {
                    if self.state == State::AskedBody {
                        self.refuse(refusal, CloseReason::Refused, out, now);
                    } else if self.state == State::Exchanging {
                        // What has been sent cannot be taken back.
                        self.piece_failed(CloseReason::Refused, now);
                    } else {
                        self.part(CloseReason::BodyUnread, now);
                    }
                    return input.len();
                }
                Ok((eaten, piece)) => {
                    at += eaten;
                    match piece {
                        Piece::More => return at,
                        Piece::End => {
                            self.body_ended(at < input.len(), now);
                            return at;
                        }
                        Piece::Body(ready) if self.takes_body() => {
                            self.message.body_ready = ready;
                            self.since_ms = now.ms();
                            return at;
                        }
                        Piece::Body(ready) => {
                            self.message.body.take(ready);
                            self.incoming.add(ready as u64);
                            at += ready;
                            self.message.drained_bytes += ready as u64;
                            if self.message.drained_bytes > self.limits.drain_bytes_max {
                                self.part(CloseReason::BodyUnread, now);
                                return input.len();
                            }
                        }
                    }
                }
            }
        }
    }

    fn body_ended(&mut self, surplus: bool, now: &Now) {
        self.message.surplus = surplus;
        self.since_ms = now.ms();
        self.go(Event::BodyEnd);
        self.settle(now);
    }

    fn recv_lingering(&mut self, input: &[u8], now: &Now) -> usize {
        self.message.drained_bytes += input.len() as u64;
        self.goes_on_lingering(now);
        if self.message.drained_bytes > self.limits.linger_bytes_max {
            self.go(Event::Overrun);
            self.wait_for_reset(now);
        }
        input.len()
    }

    /// Whether the last answer leaves while the rest of its request body is thrown away: a client
    /// that reads only when it has sent everything would wait for ever else.
    fn discards_beside(&self) -> bool {
        let is_last = self.state == State::Parting || self.message.stream.unread;
        is_last
            && !self.message.body.is_complete()
            && self.message.drained_bytes <= self.limits.linger_bytes_max
    }

    /// The driver took `n` of the body bytes that `wants` offered; they are consumed input.
    pub fn taken(&mut self, n: usize, now: &Now) {
        debug_assert!(n <= self.message.body_ready);
        let n = n.min(self.message.body_ready);
        self.message.body.take(n);
        self.message.body_ready -= n;
        self.incoming.add(n as u64);
        // The client is not slow while its bytes wait for their taker.
        self.incoming.pause(now.ms().saturating_sub(self.since_ms));
        self.since_ms = now.ms();
        if self.takes_body() && self.message.body.is_complete() {
            self.body_ended(false, now);
        }
        self.check_invariants();
    }

    /// The client closed its side.
    pub fn eof(&mut self, now: &Now) {
        self.says_end = false;
        match self.state {
            State::Idle => {
                self.ending.reason = Some(CloseReason::ClientDone);
                self.go(Event::Eof);
            }
            State::Head | State::AskedBody | State::AnsweredBody => {
                self.ending.reason = Some(CloseReason::ClientGone);
                self.message.ask = Ask::None;
                self.go(Event::Eof);
            }
            // Without the rest of the request there is no whole answer.
            State::Exchanging => return self.abort(CloseReason::ClientGone),
            State::Lingering => self.go(Event::Eof),
            // Nothing more is to be thrown away.
            State::Streaming | State::Parting => self.message.drained_bytes = u64::MAX,
            // The answer is still owed: a client may close its side after its last request.
            _ => {}
        }
        self.settle(now);
        self.check_invariants();
    }

    /// Whether what is answered from now on is for this client alone: it then says to caches that
    /// others use that they must not keep it (RFC 9111, section 5.2.2.7).
    pub fn set_private(&mut self, private: bool) {
        self.private = private;
    }

    /// Refuses a connection of which nothing was read yet.
    pub fn turn_away<F>(&mut self, refusal: Refusal, out: &mut Out<F>, now: &Now) {
        if self.state == State::Idle {
            // What the client sends, or will send, is a head that is never read.
            self.go(Event::FirstByte);
            self.refuse(refusal, CloseReason::TooManyConnections, out, now);
        }
        self.check_invariants();
    }

    /// The driver has taken the ask and will call `answered` later.
    pub fn asked(&mut self) {
        debug_assert!(self.message.ask == Ask::Wanted);
        self.message.ask = Ask::Outstanding;
    }

    /// The answerer wants the request body: it is offered by `wants().body` from now on, and a
    /// client that waits for `100 Continue` gets it (RFC 9110, section 10.1.1).
    pub fn deliver<F>(&mut self, out: &mut Out<F>, now: &Now) {
        if self.state == State::AskedBody && !self.message.deliver {
            self.message.deliver = true;
            self.incoming = Progress::start(now, self.limits.rate_window_ms, Some(0));
            if std::mem::take(&mut self.message.expect_continue) {
                out.push_inline(&[Status::CONTINUE.line(), b"\r\n"]);
                self.begin_output(now);
            }
        }
        self.check_invariants();
    }

    /// The answerer is a backend: it keeps time itself, until the next request, and may begin to
    /// answer while the request body is still taken. The end of such an early answer is the end of
    /// the connection, since it is not known whether the body will be read to its end.
    pub fn set_backend(&mut self, on: bool) {
        self.message.backend = on;
    }

    /// Whether the request that is asked for tells of a body beyond the limit. Its answer is to say
    /// so (413), and is the last.
    pub fn body_is_too_long(&self) -> bool {
        self.message.body.is_too_long()
    }

    /// The connection must not be kept after the answer that is awaited.
    pub fn end_with_answer(&mut self) {
        self.message.ends = self.awaits_answer();
    }

    /// The refusal that the last input led to, once, and the length of its content: to be counted
    /// and logged.
    pub fn take_refusal(&mut self) -> Option<(Refusal, usize)> {
        let refusal = self.refused.take()?;
        // HEAD is never answered with content (RFC 9110, section 9.3.2).
        let content = if self.message.head_only { 0 } else { refusal.text().len() };
        Some((refusal, content))
    }

    /// Bytes of the output that were sent since the connection began.
    pub fn handed_over(&self) -> u64 {
        self.output.handed_over
    }

    /// True once the whole request body was taken (or there was none).
    pub fn body_is_complete(&self) -> bool {
        matches!(self.state, State::Asked | State::Streaming)
    }

    /// True while an answer is awaited: one that comes later is ignored.
    pub fn awaits_answer(&self) -> bool {
        matches!(self.state, State::Asked | State::AskedBody)
    }

    /// The answer to the request that was asked. Ignored when the connection moved on without it.
    pub fn answered<F>(&mut self, answer: Answer<'_, F>, out: &mut Out<F>, now: &Now) {
        let unread = match self.state {
            State::Asked => false,
            State::AskedBody => true,
            _ => return,
        };
        self.message.ask = Ask::None;
        let stream = match answer.body {
            Body::Stream { len } => Some(Stream::new(len, self.message.http10)),
            _ => None,
        };
        let streams = stream.is_some() && !self.message.head_only;
        let ends_body = streams && stream.is_some_and(|s| s.delimited() == Delimited::Close);
        let wanted = self.message.keep_alive && !self.message.ends && !self.ending.draining;
        // Nothing is read while a body is produced: what the client sends meanwhile could be long.
        let drains = !unread || !streams && self.message.body_can_be_drained(&self.limits);
        let keep = wanted && drains && !ends_body;
        let joins = out.is_empty() && self.limits.head_style.joins_bodies;
        let framing = stream.map(|stream| stream.field(self.message.head_only)).unwrap_or_default();
        let content = match &answer.body {
            Body::Copied(bytes) => bytes,
            Body::Bytes(bytes) if joins && bytes.len() <= COPIED_BYTES_MAX => &bytes[..],
            _ => b"",
        };
        let head = (answer.status, answer.fields, content);
        self.write_head(head, framing.as_bytes(), keep, out, now);
        match answer.body {
            Body::Empty | Body::Copied(_) | Body::Stream { .. } => {}
            Body::Bytes(bytes) if joins && bytes.len() <= COPIED_BYTES_MAX => {}
            Body::Bytes(bytes) => out.push_bytes(bytes),
            Body::File { file, offset, len } => out.push_file(file, offset, len),
            Body::Parts(parts) => parts.into_iter().for_each(|part| out.push(part)),
        }
        self.begin_output(now);
        self.output.batch += 1;
        if !keep {
            self.ending.reason = Some(match (self.ending.draining, wanted) {
                (true, _) => CloseReason::Draining,
                (_, true) if ends_body => CloseReason::EndsBody,
                (_, true) => CloseReason::BodyUnread,
                _ if self.message.ends => CloseReason::Refused,
                _ => CloseReason::Requested,
            });
        }
        match stream {
            Some(mut stream) if streams => {
                (stream.keep, stream.unread) = (keep, unread);
                stream.look(out);
                self.message.stream = stream;
                let early = self.message.backend && unread && self.message.deliver;
                self.go(if early { Event::AnswerBeginEarly } else { Event::AnswerBegin });
            }
            _ => self.answer_ended(keep, unread, out, now),
        }
        self.check_invariants();
    }

    fn answer_ended<F>(&mut self, keep: bool, unread: bool, out: &Out<F>, now: &Now) {
        self.output.full = self.output.batch >= self.limits.pipeline_max || !out.has_room();
        // What was offered of the body has lost its taker.
        self.message.body_ready = 0;
        if keep {
            self.incoming = Progress::start(now, self.limits.rate_window_ms, Some(0));
            self.since_ms = now.ms();
            self.go(Event::AnswerKeep);
        } else {
            // A client that would have kept the connection may have sent its next request.
            let sends = unread || self.message.surplus || self.message.keep_alive;
            // What tells of a client's end would reset it too.
            let sending = sends || self.says_end;
            self.go(if sending { Event::Part } else { Event::AnswerClose });
        }
    }

    /// Whether the request body is for the answerer.
    fn takes_body(&self) -> bool {
        matches!(self.state, State::AskedBody | State::Exchanging)
    }

    /// The head is the status line, the fields that depend on the moment, the framing where that
    /// is the machine's, then the answer's own. `Date` is the time of the answer unless that is
    /// told. Content that is copied follows in the same piece.
    fn write_head<F>(
        &self,
        answer: (Status, AnswerFields<'_>, &[u8]),
        framing: &[u8],
        keep: bool,
        out: &mut Out<F>,
        now: &Now,
    ) {
        let (status, fields, content) = answer;
        let (is_dated, fields) = match fields {
            AnswerFields::Kept(block) => (false, block.h1()),
            AnswerFields::Made(lines) => (lines.has(Name::Date), lines.h1()),
        };
        let before: &[u8] = match (self.limits.server_field, is_dated) {
            (true, false) => b"Server: flyball\r\nDate: ",
            (false, false) => b"Date: ",
            (true, true) => b"Server: flyball\r\n",
            (false, true) => b"",
        };
        let made;
        let style = self.limits.head_style;
        let date: &[u8] = match style.date_cached {
            _ if is_dated => b"",
            true => now.date(),
            false => {
                made = format_date(now.unix());
                &made
            }
        };
        let after: &[u8] = match (keep, self.message.http10) {
            (true, false) => b"\r\n",
            (true, true) => b"\r\nConnection: keep-alive\r\n",
            (false, _) => b"\r\nConnection: close\r\n",
        };
        // Where no date stands before it, there is no line to end.
        let after = if is_dated { &after[2..] } else { after };
        let private: &[u8] = if self.private { b"Cache-Control: private\r\n" } else { b"" };
        let line = status.line();
        // Trailing white space is not part of a field value (RFC 9110, section 5.5).
        let pad = style.pad(is_dated, || {
            let own = private.len() + framing.len() + fields.len() + END.len();
            line.len() + before.len() + date.len() + after.len() + own
        });
        out.push_inline(&[line, before, date, pad, after, private, framing, fields, END, content]);
    }

    fn begin_output(&mut self, now: &Now) {
        self.output.begin(&self.limits, now);
    }

    /// The driver wrote `n` bytes of `out` and has already taken them off it.
    pub fn sent<F>(&mut self, n: u64, out: &Out<F>, now: &Now) {
        if self.output.sent(n, out.is_empty()) {
            // A head whose rest could not be read until now has its time from now on, and so has
            // the next piece of a body.
            if matches!(self.state, State::Idle | State::Head | State::Streaming) {
                self.since_ms = now.ms();
            }
        }
        if self.awaits_piece() {
            self.message.stream.look(out);
        }
        self.settle(now);
        self.check_invariants();
    }

    /// The driver shut down the write side.
    pub fn shut(&mut self, now: &Now) {
        self.ending.shut = true;
        self.since_ms = now.ms();
        self.message.drained_bytes = 0;
        self.goes_on_lingering(now);
    }

    /// Tells the machine what time it is; nothing happens before the deadline. `in_socket` is how
    /// many bytes the socket still holds unacknowledged (SIOCOUTQ), 0 when unknown.
    pub fn expired<F>(&mut self, in_socket: u64, out: &mut Out<F>, now: &Now) {
        if now.ms() < self.deadline() {
            return;
        }
        if std::mem::take(&mut self.ending.makes_room) {
            return self.make_room_if_taken(in_socket, now);
        }
        if self.output.pending && now.ms() >= self.output.taking.judged_at() {
            if !self.output.taking.judge(&self.limits, in_socket, now) {
                self.abort(CloseReason::SendTimeout);
            }
            return;
        }
        let window = self.limits.rate_window_ms;
        let slow = !self.incoming.holds(self.limits.body_rate_min, window, 0);
        match self.state {
            State::Idle => self.idle_is_over(in_socket, now),
            State::Head => self.refuse(Refusal::TooSlow, CloseReason::HeadTimeout, out, now),
            State::AskedBody if self.message.awaits_body() && slow => {
                self.refuse(Refusal::TooSlow, CloseReason::BodyTimeout, out, now);
            }
            State::AnsweredBody if slow => self.part(CloseReason::BodyTimeout, now),
            State::AskedBody if !self.message.awaits_body() => {
                self.refuse(Refusal::AnswerOverdue, CloseReason::AnswerTimeout, out, now);
            }
            State::Exchanging if self.message.awaits_body() && slow => {
                return self.piece_failed(CloseReason::BodyTimeout, now);
            }
            State::AskedBody | State::AnsweredBody | State::Exchanging => {
                self.incoming = Progress::start(now, window, Some(0));
            }
            State::Asked => {
                self.refuse(Refusal::AnswerOverdue, CloseReason::AnswerTimeout, out, now);
            }
            // What has been sent cannot be taken back: breaking off tells the client.
            State::Streaming => return self.piece_failed(CloseReason::AnswerTimeout, now),
            State::Lingering => self.go(Event::Expire),
            State::Breaking => self.look_before_reset(in_socket, now),
            State::Closing | State::Parting | State::Closed => {}
        }
        self.settle(now);
        self.check_invariants();
    }

    /// The connection cannot go on: what is queued is not sent.
    pub fn abort(&mut self, reason: CloseReason) {
        self.ending.reason = Some(reason);
        self.message.ask = Ask::None;
        self.output.pending = false;
        self.go(Event::Abort);
        self.check_invariants();
    }

    /// Answers with the refusal's status and parts: the framing is in doubt, so nothing that
    /// follows is believed.
    fn refuse<F>(&mut self, refusal: Refusal, reason: CloseReason, out: &mut Out<F>, now: &Now) {
        let text = refusal.text();
        let mut fields = Fields::default();
        if let Some(seconds) = refusal.retry_after_s() {
            fields.add_shown(Name::RetryAfter, seconds);
        }
        fields.add(Name::ContentType, "text/plain; charset=utf-8");
        fields.add_shown(Name::ContentLength, text.len());
        let content = if self.message.head_only { b"" } else { text.as_bytes() };
        let head = (refusal.status(), AnswerFields::from(&fields), content);
        self.write_head(head, b"", false, out, now);
        self.begin_output(now);
        self.refused = Some(refusal);
        self.part(reason, now);
    }

    fn part(&mut self, reason: CloseReason, now: &Now) {
        self.ending.reason = Some(reason);
        self.message.ask = Ask::None;
        self.go(Event::Part);
        self.settle(now);
    }

    /// What follows at once from nothing being left to send.
    fn settle(&mut self, now: &Now) {
        if self.output.pending {
            return;
        }
        match self.state {
            // Only a reset can say that it is not whole.
            State::Parting if self.is_cut_short() && self.message.stream.failed => {
                self.go(Event::DrainedShort);
                self.wait_for_reset(now);
            }
            State::Closing | State::Parting => {
                self.since_ms = now.ms();
                self.message.stream.open_ended = false;
                self.go(Event::Drained);
                self.goes_on_lingering(now);
            }
            _ => {}
        }
    }

    fn go(&mut self, event: Event) {
        self.ending.makes_room = false;
        match self.state.after(event) {
            // Between requests nothing is left of the last one.
            Some(State::Idle) => (self.state, self.message) = (State::Idle, Message::default()),
            Some(next) => self.state = next,
            None => debug_assert!(false, "{event:?} in {:?}", self.state),
        }
    }

    /// What holds after every input, whatever the bytes were.
    fn check_invariants(&self) {
        debug_assert!(
            self.message.ask == Ask::None || matches!(self.state, State::Asked | State::AskedBody),
            "an ask is open in {:?}",
            self.state
        );
        debug_assert!(
            self.state != State::Closed || self.ending.reason.is_some(),
            "closed without a reason"
        );
        debug_assert!(
            self.state != State::Closed || !self.output.pending,
            "closed with output that was never sent"
        );
        debug_assert!(
            self.message.body_ready == 0 || self.takes_body() || self.message.ask == Ask::None
        );
    }
}
