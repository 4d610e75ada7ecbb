//! One request and its answer, for as long as that is not all in the output: what is answered at
//! once, as from the caches, needs none.

use flyball_observe::trace::Trace;
use flyball_site::{Ask, Responder};

use super::Connection;
use crate::context::Context;
use crate::times::RequestTimes;

/// What is known of a request that waits for its answer, or for the rest of that.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// When it began, on the clock of the log.
    pub(super) began_ns: u64,
    /// What answers it, or makes the body that is being sent.
    pub(super) responder: Option<Box<dyn Responder>>,
    /// The number of the plan that is under way for it; 0 if none is.
    pub(super) asked: u32,
    /// Its times, while its connection has no buffers.
    pub(super) times: RequestTimes,
    /// Its timeline, if one is kept.
    pub(super) trace: Trace,
}

impl Exchange {
    /// That of a request whose timeline is kept.
    pub(super) fn traced(trace: Trace) -> Box<Exchange> {
        Box::new(Exchange { trace, ..Exchange::default() })
    }

    /// This answers from now on: what the one before it has asked for is not waited for any more.
    pub(super) fn set_responder(&mut self, responder: Box<dyn Responder>) {
        self.responder = Some(responder);
        self.asked = 0;
    }

    fn is_over(&self) -> bool {
        self.responder.is_none() && self.asked == 0 && !self.trace.is_kept()
    }
}

/// Tells the timeline of a request, if one is kept.
pub(super) fn traced(exchange: &mut Option<Box<Exchange>>, tell: impl FnOnce(&mut Trace)) {
    if let Some(exchange) = exchange {
        tell(&mut exchange.trace);
    }
}

impl Connection {
    pub(super) fn responder(&self) -> Option<&dyn Responder> {
        self.exchange.as_ref()?.responder.as_deref()
    }

    pub(super) fn responder_mut(&mut self) -> Option<&mut Box<dyn Responder>> {
        self.exchange.as_mut()?.responder.as_mut()
    }

    /// Tells the timeline of its request, if one is kept.
    pub(super) fn trace(&mut self, tell: impl FnOnce(&mut Trace)) {
        traced(&mut self.exchange, tell);
    }

    /// No byte of the next request was looked at yet.
    pub(super) fn begin_trace(&mut self, cx: &Context) {
        if self.exchange.as_ref().is_some_and(|one| one.trace.is_kept()) {
            self.trace(Trace::begin);
        } else if let Some(trace) = self.numbers.trace_begun(&cx.tracer, self.client) {
            self.exchange.get_or_insert_default().trace = trace;
        }
    }

    /// Whether the plan of this number is under way for what waits now.
    pub(super) fn awaits(&self, number: u32) -> bool {
        self.exchange.as_ref().is_some_and(|one| one.asked == number)
    }

    /// Nothing more is to be done for this ask.
    pub(super) fn end_ask(&mut self, ask: Ask) {
        if let Ask::Answer(number) | Ask::Responder(number) = ask
            && let Some(exchange) = &mut self.exchange
            && exchange.asked == number
        {
            exchange.asked = 0;
        }
        self.end_exchange();
    }

    /// Lets go of the exchange when nothing is left to be done or told of it.
    pub(super) fn end_exchange(&mut self) {
        if self.exchange.as_ref().is_some_and(|one| one.is_over()) {
            self.exchange = None;
        }
    }
}
