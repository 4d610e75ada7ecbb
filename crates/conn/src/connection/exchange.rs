//! A connection and the exchange that it has.

use flyball_observe::trace::Trace;
use flyball_site::{Ask, Responder};

use super::Connection;
use crate::context::Context;
use crate::exchange::Exchange;

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
    pub(super) fn begin_trace(&mut self, cx: &mut Context) {
        if self.exchange.as_ref().is_some_and(|one| one.trace.is_kept()) {
            self.trace(Trace::begin);
            return;
        }
        let request = self.requests.wrapping_add(1);
        if let Some(trace) = cx.tracer.begun(self.number, request, self.origin.client) {
            cx.buffers.exchange(&mut self.exchange).trace = trace;
        }
    }

    /// Whether the plan of this number is under way for what waits now.
    pub(super) fn awaits(&self, number: u32) -> bool {
        self.exchange.as_ref().is_some_and(|one| one.asked == number)
    }

    /// Nothing more is to be done for this ask.
    pub(super) fn end_ask(&mut self, ask: Ask, cx: &mut Context) {
        if let Ask::Answer(number) | Ask::Responder(number) = ask
            && let Some(exchange) = &mut self.exchange
            && exchange.asked == number
        {
            exchange.asked = 0;
        }
        cx.buffers.end_exchange(&mut self.exchange);
    }
}
