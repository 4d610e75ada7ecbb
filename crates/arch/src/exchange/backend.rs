//! The second end of a connection: a backend that answers in the place of the site.

use flyball_http::h1::{Body, Conn, Wants};
use flyball_http::{CloseReason, Now, Status};
use flyball_site::{BackendFailure, Fill, Lookup, Out, Plan, SecondEnd, Went};
use flyball_sys::clock;

use super::{Exchange, Step};
use crate::awaited::Awaited;
use crate::counters::{Counter, Tally};
use crate::desk::Desk;

/// What becomes of a step of the backend.
pub(super) enum Relayed {
    /// Something has changed: look again what is wanted.
    Again,
    /// This is needed.
    Needs(Step),
}

/// What is to be done while the client's socket has no room.
#[derive(Debug)]
pub enum Beside {
    /// Nothing but to wait for room.
    Nothing,
    /// Its backend is waited for as well.
    Await(Awaited),
    /// This work, which may wait on the disk; then [`Exchange::resume`].
    Disk(Box<Plan>),
}

/// A backend answers the request: it takes the body, and keeps time itself.
pub(super) fn begin_relay(
    relay: Box<dyn SecondEnd>,
    conn: &mut Conn,
    out: &mut Out,
    tally: &mut Tally,
    now: &Now,
) -> Box<dyn SecondEnd> {
    conn.set_backend(true);
    conn.deliver(out, now);
    if relay.is_backend() {
        tally.add(Counter::BackendRequests, 1);
    }
    relay
}

impl Exchange {
    /// Goes on with the backend: the request body to it, its answer from it.
    pub(super) fn advance_relay(&mut self, wants: &Wants, desk: &mut Desk) -> Relayed {
        if !self.conn.awaits_answer() && !self.conn.awaits_piece() {
            // The connection moved on without it.
            self.let_go_of_relay();
            return Relayed::Again;
        }
        let Some(relay) = &mut self.relay else { return Relayed::Again };
        let room = wants.body.min(relay.room());
        if let Some(buffers) = &mut self.buffers
            && room > 0
        {
            relay.take(&buffers.input.bytes()[..room], &desk.now);
            self.conn.taken(room, &desk.now);
            buffers.input.consume(room);
            self.unseen = !buffers.input.is_empty();
            return Relayed::Again;
        }
        if self.conn.body_is_complete() {
            relay.end_body(&desk.now);
        }
        if wants.recv && self.unseen {
            let plan = self.recv(desk);
            debug_assert!(plan.is_none(), "a body is no request");
            return Relayed::Again;
        }
        match relay.advance(wants, &mut desk.service, &desk.now) {
            Went::Head => return self.answer_by_backend(desk),
            Went::Piece(piece) => {
                self.take_piece(piece, desk);
                return Relayed::Again;
            }
            // What was passed on made room for more.
            Went::Work(plan) => return Relayed::Needs(Step::Disk(plan)),
            Went::Working => return Relayed::Needs(Step::Waiting),
            Went::Wait if wants.body > 0 && relay.room() > 0 => return Relayed::Again,
            Went::Wait => {}
        }
        Relayed::Needs(match (wants.write, wants.read) {
            (true, reads) => {
                relay.rests();
                if reads { Step::ReadWrite } else { Step::Write }
            }
            (false, reads) => match relay.awaited(&desk.now) {
                Some((descriptor, interest)) => {
                    Step::Await(Awaited { descriptor, interest, reads })
                }
                None if reads => Step::Read,
                None => {
                    debug_assert!(!relay.is_backend(), "a backend that is gone has said so");
                    Step::Close(CloseReason::SourceFailed)
                }
            },
        })
    }

    /// The head of the backend's answer is there, or what stands in its place.
    fn answer_by_backend(&mut self, desk: &mut Desk) -> Relayed {
        let Some(mut relay) = self.relay.take() else { return Relayed::Again };
        let logged = desk.log.is_on().then(|| relay.request().clone());
        let buffers = self.buffers.get_or_insert_with(|| desk.buffers());
        let Desk { service, now, tally, log, .. } = desk;
        let lookup = relay.answer(service, now);
        if relay.is_led_to_closed() {
            self.conn.set_private(true);
        }
        let (answer, source) = match lookup {
            Lookup::Answer(answer) => (answer, None),
            Lookup::Stream(answer, source) => (answer, Some(source)),
            Lookup::Backend(next) => {
                self.relay = Some(next);
                return Relayed::Again;
            }
            Lookup::Wait(plan) => {
                self.conn.set_backend(false);
                return Relayed::Needs(Step::Disk(plan));
            }
            Lookup::Upload(_) => {
                debug_assert!(false, "no program sends a body elsewhere");
                self.conn.abort(CloseReason::SourceFailed);
                return Relayed::Again;
            }
        };
        let status = answer.status;
        match status {
            _ if relay.failure().is_none() => {}
            _ if relay.failure() == Some(BackendFailure::SpoolFull) => {
                tally.add(Counter::SpoolFull, 1);
            }
            Status::BAD_GATEWAY => tally.add(Counter::BackendsBroken, 1),
            Status::SERVICE_UNAVAILABLE => tally.add(Counter::BackendsBusy, 1),
            Status::GATEWAY_TIMEOUT => tally.add(Counter::BackendsLate, 1),
            _ => {}
        }
        let streams = source.is_none() && matches!(answer.body, Body::Stream { .. });
        if source.is_some() {
            self.conn.set_backend(false);
        }
        self.trace.answers(status, Some(&buffers.out));
        if let Some(request) = logged {
            log.write(&request.request(), &answer, self.began_ns, now);
        }
        self.conn.answered(answer, &mut buffers.out, now);
        self.unseen = !buffers.input.is_empty();
        desk.answered(status);
        self.produce(source);
        if streams && self.conn.awaits_piece() {
            self.relay = Some(relay);
        } else {
            relay.end();
        }
        Relayed::Again
    }

    /// Whether a backend's answer is on its way: sending must not block then, since the backend is
    /// heard beside it.
    pub fn is_relayed(&self) -> bool {
        self.relay.is_some() && self.conn.awaits_piece()
    }

    /// The client's socket has no room, which is about to be waited for. Takes meanwhile what a
    /// backend says, so that a slow client does not hold it up.
    pub fn beside(&mut self, desk: &mut Desk) -> Beside {
        if !self.is_relayed() {
            return Beside::Nothing;
        }
        let Some(relay) = &mut self.relay else { return Beside::Nothing };
        match relay.fill(&mut desk.service, &desk.now) {
            Fill::Done => {
                relay.rests();
                Beside::Nothing
            }
            Fill::Wait(descriptor, interest) => {
                Beside::Await(Awaited { descriptor, interest, reads: false })
            }
            Fill::Work(mut plan) => {
                plan.set_asked_ns(clock::monotonic_ns());
                self.trace.ask(&plan);
                desk.tally.add(Counter::DiskWaits, 1);
                Beside::Disk(plan)
            }
        }
    }

    /// The backend has said all, or nobody wants the rest.
    fn let_go_of_relay(&mut self) {
        if let Some(mut relay) = self.relay.take() {
            // Of an answer that is whole nothing is left to be said; one that is broken off ends
            // the program.
            if relay.is_over() {
                relay.end();
            }
            self.unseen = self.buffers.as_ref().is_some_and(|buffers| !buffers.input.is_empty());
        }
    }

    /// Who answers in the place of the site, if this is work of its own. Pieces of the output and
    /// files that nobody has asked for are brought in beside it.
    pub(super) fn relay_that_asked(&mut self, plan: &Plan) -> Option<&mut Box<dyn SecondEnd>> {
        let is_beside = plan.is_ahead() || plan.warmed().is_some();
        self.relay.as_mut().filter(|relay| !is_beside && relay.is_working())
    }

    /// The client left while the backend worked: nobody wants what it says.
    pub fn client_left(&mut self, desk: &mut Desk) {
        if self.relay.as_ref().is_some_and(|relay| relay.is_backend()) {
            desk.tally.add(Counter::BackendsCancelled, 1);
        }
        self.abort(CloseReason::ClientGone);
    }
}
