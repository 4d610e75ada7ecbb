//! The lines of the access log whose answers have not ended: they end with their answers, or with
//! the connection. The line of a request that was refused before the site saw it begins here.

use flyball_http::{CloseReason, End, Now, Refusal};
use flyball_observe::counters::Counter;

use super::{Connection, lent, timeline};
use crate::context::Context;
use crate::logged::RequestLog;

impl Connection {
    /// Whether a line of the log waits for the end of its answer.
    pub fn has_open_lines(&self) -> bool {
        let has = self.buffers.as_ref().is_some_and(|buffers| !buffers.lines.is_empty());
        has || self.exchange.as_ref().is_some_and(|one| !one.lines.is_empty())
    }

    /// Nothing more is sent: the lines that are still open go to the log, with what its client has
    /// acknowledged. `untaken` asks how many bytes the socket was given that it has not, if there
    /// are such lines.
    pub fn cut_lines(
        &mut self,
        log: &mut RequestLog,
        reason: CloseReason,
        untaken: impl FnOnce() -> u64,
        now: &Now,
    ) {
        if !self.has_open_lines() {
            return;
        }
        let untaken = untaken();
        let untaken = self.tls.as_ref().map_or(untaken, |tls| tls.leaving.plain_in(untaken));
        let came = self.conn.handed_over().saturating_sub(untaken);
        let of_buffers = self.buffers.as_mut().map(|buffers| &mut buffers.lines);
        let of_exchange = self.exchange.as_mut().map(|exchange| &mut exchange.lines);
        for lines in of_buffers.into_iter().chain(of_exchange) {
            log.lines.cut(lines, End::of(reason), came, now);
        }
    }

    /// A request that was refused before the site saw it is counted and logged here.
    pub(super) fn count_refusal(&mut self, cx: &mut Context) {
        let Some((refusal, content)) = self.conn.take_refusal() else { return };
        let status = refusal.status();
        self.trace(|trace| timeline::answers(trace, status, None));
        if refusal == Refusal::TooManyConnections {
            cx.tally.add(Counter::TurnedAway, 1);
        }
        let client = self.client();
        let waited = std::mem::take(&mut self.origin.arrival).without_request();
        let secured = self.tls.as_ref().and_then(|tls| tls.secured.clone());
        let buffers = lent(&mut self.buffers, &mut self.exchange, cx);
        cx.answered_by_none(status, &mut buffers.times);
        let (out, told) = ((&buffers.out, &mut buffers.lines), (status, content as u64));
        let from = (client, secured.as_deref(), waited);
        cx.log.refused(told, from, &self.conn, out, &cx.now);
    }
}
