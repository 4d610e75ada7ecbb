//! What takes the body of a request or makes the body of its answer, for as long as that lasts: a
//! program beside the server, a module, a listing or a file that is coded on the way.

use std::fmt::Debug;

use flyball_http::{Now, OwnedRequest};

use super::{Lookup, Service};
use crate::backend::{Failure, Fill, NoLink, Relay, Went, Wire};
use crate::plan::Plan;

/// What the client's end wants.
#[derive(Clone, Copy, Debug)]
pub struct Wants {
    /// There is room for the next piece of the answer's body.
    pub piece: bool,
    /// Output waits to be written.
    pub write: bool,
}

/// What a responder does of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Makes the body of an answer whose head was given. A piece of it has the time of an answer.
    Producer,
    /// Takes the request body, keeps time itself, and is heard while its client has no room.
    Module,
    /// The same, by a program beside the server.
    Backend,
}

/// One that answers a request. Nothing here waits. It is dropped when its answer has ended or its
/// client has gone.
pub trait Responder: Debug + Send {
    /// What it does of an exchange.
    fn role(&self) -> Role;

    /// The request, if it is to give the head of the answer too.
    fn request(&self) -> Option<&OwnedRequest> {
        None
    }

    /// Bytes of the request body that can be taken now.
    fn room(&self) -> usize {
        0
    }

    /// Takes bytes of the request body, at most as many as there is room for.
    fn take(&mut self, _: &[u8], _: &Now) {}

    /// The request body has ended, or there was none. May be told again.
    fn end_body(&mut self, _: &Now) {}

    /// Goes on without waiting: takes of the answer what is wanted, its head first.
    fn advance(&mut self, wants: Wants, service: &mut Service, now: &Now) -> Went;

    /// Takes of the answer what is there for a client that has no room for it now.
    fn fill(&mut self, _: &mut Service, _: &Now) -> Fill {
        Fill::Done
    }

    /// That work is done; gives the next, if there is more.
    fn worked(&mut self, _: Plan, _: &mut Service, _: &Now) -> Option<Box<Plan>> {
        None
    }

    /// The answer, once [`Went::Head`] was given: its head, or a lookup that answers in its place.
    /// A body that is a stream comes by [`Responder::advance`], any other is whole.
    fn answer<'s>(&mut self, _: &'s mut Service, _: &Now) -> Option<Lookup<'s>> {
        None
    }

    /// Why that answer is the server's own, if the program has none.
    fn failure(&self) -> Option<Failure> {
        None
    }

    /// Whether the connection ends with that answer: what is left of the request body is too long
    /// to be thrown away.
    fn ends_connection(&self) -> bool {
        false
    }

    /// Whether that answer is of a path that is not open to everybody, to which the program led.
    fn is_led_to_closed(&self) -> bool {
        false
    }

    /// It is waited for: its link if it has one, or else the client.
    fn waits(&mut self, _: &Now) {}

    /// It is not waited for: the next move is the client's.
    fn rests(&mut self) {}

    /// Its end of its link, if it has one or wants one.
    fn wire(&self) -> Option<&Wire> {
        None
    }

    /// The same, to be told what was done.
    fn wire_mut(&mut self) -> Option<&mut Wire> {
        None
    }

    /// It has its link, which was used before if that `was_idle`; or there is none for it.
    fn linked(&mut self, _was_idle: Result<bool, NoLink>, _: &Now) {}

    /// Whether the link that it has left may be kept for another request, or the program that was
    /// started for this one may go on by itself.
    fn keeps_link(&self) -> bool {
        false
    }

    /// When [`Responder::expired`] is due, in monotonic milliseconds.
    fn deadline(&self) -> u64 {
        u64::MAX
    }

    /// Some time passed.
    fn expired(&mut self, _: &Now) {}

    /// Whether all is said.
    fn is_over(&self) -> bool {
        true
    }

    /// The client wants no more, or has all there is.
    fn end(&mut self) {}

    /// How often the request was sent elsewhere before.
    fn set_redirects(&mut self, _: u8) {}
}

impl Responder for Relay {
    fn role(&self) -> Role {
        Role::Backend
    }

    fn request(&self) -> Option<&OwnedRequest> {
        Some(self.request())
    }

    fn room(&self) -> usize {
        self.room()
    }

    fn take(&mut self, bytes: &[u8], now: &Now) {
        self.take(bytes, now);
    }

    fn end_body(&mut self, now: &Now) {
        self.end_body(now);
    }

    fn advance(&mut self, wants: Wants, service: &mut Service, now: &Now) -> Went {
        self.start_when_gathered(now);
        match self.coded.take() {
            Some(mut coded) => {
                let went = coded.advance(self, wants.piece, service.spool(), now);
                self.coded = Some(coded);
                went
            }
            None => self.advance(wants.piece, service.spool(), now),
        }
    }

    fn fill(&mut self, service: &mut Service, now: &Now) -> Fill {
        match &self.coded {
            Some(coded) if coded.is_away => Fill::Done,
            _ => self.fill(service.spool(), now),
        }
    }

    fn answer<'s>(&mut self, service: &'s mut Service, now: &Now) -> Option<Lookup<'s>> {
        Some(service.backend_answer(self, now))
    }

    fn worked(&mut self, plan: Plan, _: &mut Service, now: &Now) -> Option<Box<Plan>> {
        match self.coded.as_mut().filter(|coded| coded.is_away) {
            Some(coded) => coded.worked(plan),
            None => self.worked(plan, now),
        }
        None
    }

    fn failure(&self) -> Option<Failure> {
        self.failed
    }

    fn ends_connection(&self) -> bool {
        self.failed.is_some_and(|failure| self.has_long_body(failure))
    }

    fn is_led_to_closed(&self) -> bool {
        self.is_led_to_closed()
    }

    fn waits(&mut self, now: &Now) {
        self.waits(now);
    }

    fn rests(&mut self) {
        self.rests();
    }

    fn wire(&self) -> Option<&Wire> {
        self.wire()
    }

    fn wire_mut(&mut self) -> Option<&mut Wire> {
        self.wire_mut()
    }

    fn linked(&mut self, was_idle: Result<bool, NoLink>, now: &Now) {
        self.linked(was_idle, now);
    }

    fn keeps_link(&self) -> bool {
        self.keeps_link()
    }

    fn deadline(&self) -> u64 {
        self.deadline()
    }

    fn expired(&mut self, now: &Now) {
        self.expired(now);
    }

    fn is_over(&self) -> bool {
        self.is_over()
    }

    fn end(&mut self) {
        self.end();
    }

    fn set_redirects(&mut self, redirects: u8) {
        self.set_redirects(redirects);
    }
}
