//! One request and its answer, for as long as that is not all in the output: what is answered at
//! once, as from the caches, needs none.

use flyball_http::Request;
use flyball_observe::log::OpenLines;
use flyball_observe::trace::Trace;
use flyball_site::{Plan, Responder, Role};

use crate::logged::{Asked, Began};
use crate::times::RequestTimes;

/// What is known of a request that waits for its answer, or for the rest of that.
#[derive(Debug, Default)]
pub struct Exchange {
    /// When it began.
    pub began: Began,
    /// When a backend was asked, on the same clock; 0 before.
    pub backend_ns: u64,
    /// What answers it, or makes the body that is being sent.
    pub responder: Option<Box<dyn Responder>>,
    /// The number of the plan that is asked for, or under way; 0 if none is.
    pub asked: u32,
    /// The plan itself, until it is taken to be performed.
    pub plan: Option<Box<Plan>>,
    /// Its responder waits for its plan, and for nothing else.
    pub is_working: bool,
    /// Its times, while its connection has no buffers.
    pub times: RequestTimes,
    /// Its line of the access log, likewise.
    pub lines: OpenLines,
    /// Its timeline, if one is kept.
    pub trace: Trace,
}

impl Exchange {
    /// That of a request whose timeline is kept.
    pub fn traced(trace: Trace) -> Box<Exchange> {
        Box::new(Exchange { trace, ..Exchange::default() })
    }

    /// This is asked to answer; a backend has its own time.
    pub fn asks(&mut self, responder: &dyn Responder, now_ns: u64) {
        if responder.role() == Role::Backend {
            self.backend_ns = now_ns;
        }
    }

    /// Its request, as far as a line of the log tells of it.
    pub fn asked_for<'a>(&self, request: &'a Request<'a>) -> Asked<'a> {
        Asked { request, began: self.began, backend_ns: self.backend_ns }
    }

    /// This answers from now on: what the one before it has asked for is not waited for any more.
    pub fn set_responder(&mut self, responder: Box<dyn Responder>) {
        self.rests();
        self.responder = Some(responder);
        self.asked = 0;
    }

    /// Its responder answers no more.
    pub fn take_responder(&mut self) -> Option<Box<dyn Responder>> {
        self.rests();
        self.responder.take()
    }

    /// Nothing is waited for, as far as is known.
    pub fn rests(&mut self) {
        self.is_working = false;
    }

    /// Whether nothing is left to be done or told of it.
    pub fn is_over(&self) -> bool {
        let is_done = self.responder.is_none() && self.asked == 0 && self.plan.is_none();
        is_done && self.lines.is_empty() && !self.trace.is_kept()
    }
}
