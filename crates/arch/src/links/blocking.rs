//! The links of threads that block. None is watched at rest: one is looked at before it is used
//! again. A thread may wait in the receive of one that is kept, which saves a call to wait.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use flyball_conn::Connection;
use flyball_site::Upstream;
use flyball_sys::owned::Owned;

use super::link::{Held, Link, Pool, Unwatched};
use super::shared::Upstreams;
use crate::kernel::net;
use crate::limits::BLOCKING_TICK_MS;

/// The pool of a process whose threads block.
pub(crate) struct Blocking;

impl Pool for Blocking {
    fn take(&mut self, upstream: &Arc<Upstream>, shared: &Upstreams) -> Held {
        let mut link = Unwatched.take(upstream, shared)?;
        link.blocks = true;
        Some(link)
    }

    fn leave(&mut self, held: &mut Held, keeps: bool, shared: &Upstreams) {
        let is_server = |link: &Link| link.upstream().is_some();
        let blocks = |link: &Link| link.blocks || let_block(&link.socket).is_ok();
        let keeps = keeps && held.as_deref().is_some_and(|one| is_server(one) && blocks(one));
        Unwatched.leave(held, keeps, shared);
    }

    /// Its thread says what it was told.
    fn woke(&mut self, _: &mut Link) {}
}

fn let_block(socket: &Owned) -> io::Result<()> {
    net::set_timeout(socket, Duration::from_millis(BLOCKING_TICK_MS))?;
    net::set_nonblocking(socket, false)
}

/// Waits for the answer in the receive, at most for a tick. Blocks.
pub(crate) fn receive(link: &mut Link, connection: &mut Connection) {
    let received = net::recv(&*link.socket, connection.link_space());
    connection.link_received(received);
}

/// Something of what is waited for on a link is there.
pub(crate) fn told(held: &mut Held) {
    if let Some(link) = held {
        (link.read, link.write) = (true, true);
    }
}
