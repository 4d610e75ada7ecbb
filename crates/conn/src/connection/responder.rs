//! An exchange and its responder: the request body to it, its answer from it.

use flyball_http::h1::{Conn, Wants};
use flyball_http::{Body, CloseReason, Now, Status};
use flyball_observe::counters::{Counter, Tally};
use flyball_site::{Ask, BackendFailure, Fill, Lookup, Out, Piece, Responder, Role, Went};

use super::{Connection, lent, timeline};
use crate::context::Context;
use crate::logged::Told;

/// A responder answers the request: it takes the body, and keeps time itself.
pub(super) fn begin_to_respond(
    responder: &dyn Responder,
    conn: &mut Conn,
    out: &mut Out,
    tally: &mut Tally,
    now: &Now,
) {
    conn.set_backend(true);
    conn.deliver(out, now);
    if responder.role() == Role::Backend {
        tally.add(Counter::BackendRequests, 1);
    }
}

/// The answer is the server's own, since the program has none.
fn count_failure(failure: BackendFailure, status: Status, tally: &mut Tally) {
    match (failure, status) {
        (BackendFailure::SpoolFull, _) => tally.add(Counter::SpoolFull, 1),
        (_, Status::BAD_GATEWAY) => tally.add(Counter::BackendsBroken, 1),
        (_, Status::SERVICE_UNAVAILABLE) => tally.add(Counter::BackendsBusy, 1),
        (_, Status::GATEWAY_TIMEOUT) => tally.add(Counter::BackendsLate, 1),
        _ => {}
    }
}

impl Connection {
    /// Goes on with the responder. False when nothing is to be done before what is wanted then.
    pub(super) fn respond(&mut self, wants: &Wants, cx: &mut Context) -> bool {
        // The connection may have moved on without it.
        self.let_go_of_responder(cx);
        let Some(exchange) = &mut self.exchange else { return true };
        exchange.rests();
        let Some(responder) = &mut exchange.responder else { return true };
        let room = wants.body.min(responder.room());
        if let Some(buffers) = &mut self.buffers
            && room > 0
        {
            responder.take(&buffers.input.bytes()[..room], &cx.now);
            self.conn.taken(room, &cx.now);
            buffers.input.consume(room);
            self.unseen = !buffers.input.is_empty();
            return true;
        }
        if self.conn.body_is_complete() {
            responder.end_body(&cx.now);
        }
        if wants.recv && self.unseen {
            let plan = self.recv(cx);
            debug_assert!(plan.is_none(), "a body is no request");
            return true;
        }
        let wanted = flyball_site::Wants { piece: wants.piece, write: wants.write };
        match responder.advance(wanted, &mut cx.service, &cx.now) {
            Went::Head => return self.answer_by_responder(cx),
            Went::Piece(piece) => {
                self.take_piece(piece, cx);
                return true;
            }
            Went::Work(plan) => {
                if responder.role() == Role::Producer {
                    self.conn.piece_asked(&cx.now);
                }
                exchange.is_working = true;
                self.ask(plan, Ask::Responder, cx);
                return false;
            }
            Went::Working => {
                exchange.is_working = true;
                return false;
            }
            // What was passed on made room for more.
            Went::Wait if wants.body > 0 && responder.room() > 0 => return true,
            Went::Wait => {}
        }
        if wants.write {
            responder.rests();
            return false;
        }
        responder.waits(&cx.now);
        if responder.wire().is_none() && !wants.read {
            debug_assert!(responder.role() != Role::Backend, "a backend that is gone has said so");
            self.abort(CloseReason::SourceFailed);
        }
        false
    }

    /// The head of the responder's answer is there, or what stands in its place.
    fn answer_by_responder(&mut self, cx: &mut Context) -> bool {
        let exchange = cx.buffers.exchange(&mut self.exchange);
        let Some(mut responder) = exchange.responder.take() else { return true };
        let logged = responder.request().filter(|_| cx.log.lines.is_on()).cloned();
        let buffers = lent(&mut self.buffers, &mut self.exchange, cx);
        let exchange = cx.buffers.exchange(&mut self.exchange);
        let Context { service, now, tally, log, .. } = cx;
        if let Some(request) = &logged {
            log.expect_login(service, &request.request());
        }
        let Some(lookup) = responder.answer(service, now) else {
            debug_assert!(false, "it said that its head is there");
            self.conn.abort(CloseReason::SourceFailed);
            return true;
        };
        if responder.is_led_to_closed() {
            self.conn.set_private(true);
        }
        let (answer, producer) = match lookup {
            Lookup::Answer(answer) => (answer, None),
            Lookup::Stream(answer, producer) => (answer, Some(producer)),
            Lookup::Respond(next) => {
                exchange.asks(&*next, log.lines.clock_ns());
                exchange.set_responder(next);
                self.unlink(&*responder);
                return true;
            }
            Lookup::Wait(plan) => {
                self.unlink(&*responder);
                self.conn.set_backend(false);
                self.ask(plan, Ask::Answer, cx);
                return false;
            }
        };
        let status = answer.status;
        if let Some(failure) = responder.failure() {
            count_failure(failure, status, tally);
        }
        let streams = producer.is_none() && matches!(answer.body, Body::Stream { .. });
        if producer.is_some() {
            self.conn.set_backend(false);
        }
        timeline::answers(&mut exchange.trace, status, Some(&buffers.out));
        if responder.ends_connection() {
            self.conn.end_with_answer();
        }
        let told = Told::of(&answer);
        self.conn.answered(answer, &mut buffers.out, now);
        if let Some(request) = logged {
            let (request, told) = (request.request(), (told, service.answered_for()));
            let into = (&buffers.out, &mut buffers.lines);
            log.answered(&exchange.asked_for(&request), told, &self.conn, into, now);
        }
        self.unseen = !buffers.input.is_empty();
        cx.answered(status, &mut buffers.times);
        self.produce(producer, cx);
        if streams && self.conn.awaits_piece() {
            cx.buffers.exchange(&mut self.exchange).responder = Some(responder);
        } else {
            responder.end();
            self.unlink(&*responder);
            cx.buffers.end_exchange(&mut self.exchange);
        }
        true
    }

    /// Whether a backend's answer is on its way: sending must not block then, since the backend is
    /// heard beside it.
    pub fn is_relayed(&self) -> bool {
        self.responder().is_some_and(|one| one.role() != Role::Producer) && self.conn.awaits_piece()
    }

    /// The client's socket has no room, which is about to be waited for. Takes meanwhile what a
    /// backend says, so that a slow client does not hold it up.
    pub fn held_back(&mut self, cx: &mut Context) {
        if !self.is_relayed() {
            return;
        }
        let Some(exchange) = &mut self.exchange else { return };
        let Some(responder) = &mut exchange.responder else { return };
        match responder.fill(&mut cx.service, &cx.now) {
            Fill::Done => responder.rests(),
            Fill::Wait => {}
            Fill::Work(plan) => self.ask(plan, Ask::Responder, cx),
        }
    }

    /// True when the output is sent and the body has more, which is not there yet: others may have
    /// their turn before it is produced.
    pub fn produces_more(&self) -> bool {
        self.is_producing() && !self.has_output()
    }

    /// True while a body is being produced for it.
    pub fn is_producing(&self) -> bool {
        self.responder().is_some_and(|one| one.role() == Role::Producer)
    }

    /// The body that now begins is made by this, if by any.
    pub(super) fn produce(&mut self, producer: Option<Box<dyn Responder>>, cx: &mut Context) {
        if let Some(producer) = producer {
            cx.buffers.exchange(&mut self.exchange).set_responder(producer);
            self.let_go_of_responder(cx);
        }
    }

    fn take_piece(&mut self, piece: Piece, cx: &mut Context) {
        let buffers = lent(&mut self.buffers, &mut self.exchange, cx);
        let is_awaited = self.conn.awaits_piece();
        let (content, is_last) = match piece {
            Piece::More(content) => (content, false),
            Piece::Last(content) => (content, true),
            Piece::Failed => {
                self.conn.piece_failed(CloseReason::SourceFailed, &cx.now);
                return self.let_go_of_responder(cx);
            }
        };
        let len = content.content_len();
        self.conn.piece(content, is_last, &mut buffers.out, &cx.now);
        if is_awaited {
            let to = (&buffers.out, &mut buffers.lines);
            cx.log.grown(len, &self.conn, to, &cx.now);
        }
        self.let_go_of_responder(cx);
    }

    /// Lets go of a responder whose answer has ended, in whatever way; requests behind it can be
    /// seen then.
    pub(super) fn let_go_of_responder(&mut self, cx: &mut Context) {
        if self.conn.awaits_answer() || self.conn.awaits_piece() {
            return;
        }
        if let Some(mut responder) = self.exchange.as_mut().and_then(|one| one.take_responder()) {
            // Of an answer that is whole nothing is left to be said; one that is broken off ends
            // the program.
            if responder.is_over() {
                responder.end();
            }
            self.unlink(&*responder);
            self.unseen = self.buffers.as_ref().is_some_and(|buffers| !buffers.input.is_empty());
            cx.buffers.end_exchange(&mut self.exchange);
            self.leave_paths(cx);
        }
    }
}
