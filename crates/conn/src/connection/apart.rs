//! A handshake and the steps of it that take long: other connections do not wait for them.

use std::sync::Arc;

use flyball_http::CloseReason;
use flyball_site::{Ask, Plan};

use super::{Connection, lent, timeline};
use crate::apart::{Apart, Step};
use crate::context::Context;

impl Connection {
    /// Whether a step of its handshake is taken elsewhere.
    pub(super) fn is_apart(&self) -> bool {
        self.tls.as_deref().is_some_and(|tls| tls.apart.is_some())
    }

    /// Has the next step of its handshake taken elsewhere.
    pub(super) fn shake_apart(&mut self, cx: &mut Context) {
        let Some(tls) = &mut self.tls else { return };
        let (_, secure) = lent(&mut self.buffers, &mut self.exchange, cx).secured();
        let apart = Arc::new(Apart::new(tls.session.take(), secure.cipher.bytes().to_vec()));
        secure.cipher.clear();
        (tls.is_unopened, tls.put_off) = (false, None);
        tls.apart = Some(Arc::clone(&apart));
        let mut plan = Plan::compute(apart);
        plan.set_asked(Ask::Handshake, cx.now_ns());
        self.trace(|trace| trace.ask(timeline::work(&plan)));
        cx.buffers.exchange(&mut self.exchange).plan = Some(plan);
    }

    /// The step was taken.
    pub(super) fn rejoin(&mut self, cx: &mut Context) {
        let Some(tls) = &mut self.tls else { return };
        let step = tls.apart.take().and_then(|apart| apart.take());
        let Some(Step { session, cipher, wire, opened: Some(opened) }) = step else {
            // The thread that took it has panicked.
            return self.abort(CloseReason::TlsFailed);
        };
        tls.session = session;
        let (_, secure) = lent(&mut self.buffers, &mut self.exchange, cx).secured();
        secure.cipher.put(&cipher[opened.used..]);
        secure.wire.append(|all| all.extend_from_slice(&wire));
        tls.leaving.add(0, wire.len() as u64);
        self.opened(opened, true, cx);
    }
}
