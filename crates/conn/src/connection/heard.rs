//! What a client says while nothing of it is wanted: its end counts all the same. Without TLS its
//! socket tells of that. With TLS records do, and so they are taken and opened; what they hold
//! beside it waits in the input, as far as there is room.

use flyball_http::CloseReason;
use flyball_observe::counters::Counter;
use flyball_site::{Role, Wish};
use flyball_sys::readiness::Interest;

use super::Connection;
use crate::context::Context;
use crate::transport::BATCH_BYTES_MAX;

impl Connection {
    /// Whether what its client says is taken although nothing of it is wanted: it speaks TLS, and a
    /// backend works for it, or more is to be sent than one batch.
    pub fn hears(&self) -> bool {
        let Some(tls) = self.tls.as_deref().filter(|_| self.takes_cipher()) else { return false };
        let wants = self.conn.wants();
        let is_over = wants.close.is_some() || wants.shut || tls.failing.is_some();
        if wants.read || is_over || tls.session.is_handshaking() {
            return false;
        }
        match wants.write {
            true => !self.waits() && self.is_long(),
            false => self.link_watched().is_some(),
        }
    }

    /// Whether more is to be sent than one batch. A short answer leaves although its client has
    /// gone, as it would from a socket.
    fn is_long(&self) -> bool {
        let queued = self.buffers.as_ref().map_or(0, |buffers| buffers.out.queued());
        self.conn.awaits_piece() || queued > BATCH_BYTES_MAX as u64
    }

    /// Whether it waits for work, and for that alone.
    pub(super) fn waits(&self) -> bool {
        let is_working = self.exchange.as_ref().is_some_and(|exchange| exchange.is_working);
        self.warming || self.ahead.is_fetching || self.is_apart() || is_working
    }

    /// What its link is waited for, if it is.
    pub(super) fn link_watched(&self) -> Option<Interest> {
        if self.exchange.is_none() || self.waits() {
            return None;
        }
        match self.link_use() {
            Some(Wish::Use(interest)) if interest != Interest::NONE => Some(interest),
            _ => None,
        }
    }

    /// The client closed its side. Who speaks TLS says so before; otherwise it has gone, and what
    /// is under way for it is not sent to its end (RFC 8446, section 6.1).
    pub fn eof(&mut self, cx: &mut Context) {
        self.again = true;
        let is_taken = self.conn.wants().recv;
        let is_under_way = self.is_long() || self.link_watched().is_some();
        match &mut self.tls {
            None => self.ended(cx),
            Some(tls) if !tls.says_end && is_under_way && !tls.session.is_handshaking() => {
                self.client_left(cx);
            }
            Some(_) if is_taken => self.ended(cx),
            Some(tls) => tls.is_left = true,
        }
    }

    /// Whether its client's end was heard while a backend works for it.
    pub(super) fn has_heard_the_end(&self) -> bool {
        if !self.tls.as_deref().is_some_and(|tls| tls.is_left) {
            return false;
        }
        let wants = self.conn.wants();
        let is_wanted = wants.read || wants.write || wants.close.is_some() || wants.shut;
        !is_wanted && self.link_watched().is_some()
    }

    /// The client left while the backend worked: what it says is not wanted any more.
    pub fn client_left(&mut self, cx: &mut Context) {
        if self.responder().is_some_and(|one| one.role() == Role::Backend) {
            cx.tally.add(Counter::BackendsCancelled, 1);
        }
        self.abort(CloseReason::ClientGone);
    }
}
